"""What is let through before it is perturbed: so many records a person, each record once, as much as a budget pays."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, Unpack

from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from typing_extensions import override

from ldp_beam.elements.faults import BUDGET_SPENT, DUPLICATE, OVER_LIMIT
from ldp_beam.graph.upstream import Bound, BoundsPersons, BudgetsNoise, refuse_late_limit
from ldp_beam.persons._limits import LimitOptions, LimitTransform
from ldp_beam.persons._seen import MOST
from ldp_beam.time.windows import WindowLike, window_fn
from ldp_core import ParameterError, PrivacyPlan
from ldp_core.engine import ChangeTimes, History, Spent, check_integer, seconds, times

Epsilon: TypeAlias = float | Fraction | Decimal | str


class BoundContributions(LimitTransform, BoundsPersons):
    """At most ``per_window`` records of each person and event-time window, the first to arrive; others are dropped.

    Placed before `Perturb` or `PrivateHistogram` it makes a promise per person out of theirs per record: `epsilon` says
    what a person's values of one window, or of several, are protected with. See ``docs/several_reports.md`` for what is
    promised and what is not. Histograms and means by the same event time, or of any windows after ``GlobalWindows``,
    take for their ``repeats`` what it lets into a window, where the noise is keyed, by the same ``id``, or they are
    about a population, as those of numbers are; see ``docs/longitudinal.md``.

    Elements are as of `Perturb`; of Arrow record batches come out, of dataclasses ``beam.Row``. A batch is split by
    ``shards`` and windows, and what of it comes in one bundle is one batch again.

    Args:
        id: the column that says whose record it is: integers, text or binary, stable, one of each person.
        per_window: at least 1.
        window: fixed windows by length, in seconds or like ``"1d"``; or a Beam ``FixedWindows`` or
            ``GlobalWindows`` (for ever). None: the windows that the elements are in.
        event_time, time_unit: column of the records' times, and the unit of numbers in it, as in `Histogram`. None:
            the elements' timestamps.
        drop_id: whether the id goes no further; default True. Keep it for keyed noise or a further limit.
        shards: number of pieces that the persons of a window are spread over, and so of workers that can share them;
            default 16.
        key: a `Secret`, or a function that gets it on the worker, to hash ids with. The state holds hashes only;
            without a key, whoever reads it can find out whether an id that they guess is in it.
        allowed_lateness: seconds or text, as in `Histogram`: how long a window's counts are kept after its end. Later
            records are dropped by the runner: they can never pass uncounted. (The local streaming runner keeps the
            counts, and drops none.) They are counted as those of `Estimate`.

    Reports that were stored it takes, against people who send too many; what these have spent stays spent.

    Metrics: counters ``contributions_dropped`` and ``late``, and ``records_read`` and ``batch_rows``. With
    `with_exception_handling` also dead letters, of which ``DeadLetter(id, "over the limit", count)`` are the dropped,
    and those with the reason ``"late"`` came too late.

    Do not change ``shards``, ``window`` or ``key`` when a pipeline goes on from saved state: it would not recognize
    whom it has counted.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `InputError` (null ids, no event
    time), `DtypeError`, `PlanError` (no such column). They never tell an id.

    Raises:
        PlanError: there is no such column, as the type of rows, or their source, says.
        ParameterError: bad arguments; the input is in sliding or, without ``window``, in session windows; or the
            pipeline has perturbed the records already.

    >>> import apache_beam as beam
    >>> events = [{"user": user, "os": "ios", "time": 60.0 * i} for i, user in enumerate("aabaa")]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     bounded = p | beam.Create(events) | BoundContributions("user", 2, window="1h", event_time="time")
    ...     _ = bounded | beam.combiners.ToList() | beam.Map(lambda records: print(sorted(r["time"] for r in records)))
    [0.0, 60.0, 120.0]
    """

    reason = OVER_LIMIT
    counter = "contributions_dropped"

    def __init__(
        self,
        id: str,  # noqa: A002 (as in Perturb)
        per_window: int,
        *,
        window: WindowLike = None,
        **options: Unpack[LimitOptions],
    ) -> None:
        super().__init__(id, records=per_window, window=window, **options)
        self.bound = Bound(per_window, self._limit.windows, self._limit.event_time)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        refuse_late_limit(pcoll, "BoundContributions", stored=False)  # of stored ones it stops who sends too many
        return super().expand(pcoll)

    def epsilon(
        self,
        plan: PrivacyPlan | Epsilon,
        *,
        windows: int = 1,
        changes: int | None = None,
        change_times: ChangeTimes = "secret",
        keyed: bool = False,
    ) -> Fraction | float:
        """What a person's records of so many windows spend at most, exactly, if each is perturbed with ``plan``.

        Reports of a memoized mechanism share permanent answers also over windows: w windows may spend more than w times
        one.

        Args:
            plan: that perturbs them; or what one report spends, under fresh noise and without permanent answers.
            windows: at least 1.
            changes, change_times, keyed: see `PrivacyLedger`; ``changes`` are those in all these windows together.

        Returns:
            A fraction; ``math.inf`` if there is no bound.

        Raises:
            ParameterError: bad arguments.

        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=0.5)})
        >>> bound = BoundContributions("user", 3, window="1d")
        >>> bound.epsilon(plan), bound.epsilon(plan, windows=30), bound.epsilon(plan, keyed=True)
        (Fraction(3, 2), Fraction(45, 1), inf)
        """
        reports = self._limit.records * check_integer("windows", windows, 1)
        return _charge(plan, changes, change_times, keyed)(reports)


class Deduplicate(LimitTransform):
    """The first record of each id and event-time window; a record that is delivered again is dropped.

    A source that delivers a record twice has it perturbed twice, and both reports spend epsilon. Place this before
    `BoundContributions` and `Perturb`.

    Args:
        id: the column of the record's id, which all deliveries of a record share: integers, text or binary.
        within: as ``window`` of `BoundContributions`: a duplicate is recognized if it is in the same window,
            and always is where the time is a column of the record, which is delivered with it.
        event_time, time_unit: column of the records' times, and the unit of numbers in it. None: the elements'
            timestamps; a duplicate with another timestamp may then fall into the next window and pass.
        drop_id, shards, key, allowed_lateness: see `BoundContributions`. A duplicate that comes later than that
            after its window's end is dropped by the runner, and counted as late.

    Metrics, errors and dead letters: as `BoundContributions`; counter ``duplicates_dropped``, reason ``"duplicate"``.

    Raises:
        ParameterError: bad arguments.

    >>> import apache_beam as beam
    >>> events = [{"id": "x1", "os": "ios", "time": 5}] * 3
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     once = p | beam.Create(events) | Deduplicate("id", within="1h", event_time="time")
    ...     _ = once | beam.Map(print)
    {'os': 'ios', 'time': 5}
    """

    reason = DUPLICATE
    counter = "duplicates_dropped"

    def __init__(
        self,
        id: str,  # noqa: A002 (as in Perturb)
        *,
        within: WindowLike,
        **options: Unpack[LimitOptions],
    ) -> None:
        super().__init__(id, records=1, window=within, **options)


class PrivacyLedger(LimitTransform, BudgetsNoise):
    """Lets records through while their person can pay: nobody's records spend more than ``budget`` together.

    It is `BoundContributions` with the arithmetic done: the first k records of a person and period pass, k being the
    largest number whose charge, `PrivacyPlan.epsilon_of` as an exact fraction, is within the budget. Under fresh noise
    that is ``floor(budget / epsilon)``. A float counts as the binary fraction that it is: ``budget=0.3`` pays for two
    records of ``epsilon=0.1``, as three times the float 0.1 is above the float 0.3; a budget meant as three records is
    ``3 * Fraction(0.1)``.

    Questions take k for their ``repeats`` as behind `BoundContributions`.

    Args:
        plan_or_epsilon: the plan that perturbs the records; or a number, what one record spends. A number is charged
            as for fresh noise and no permanent answers: so many times the number.
        id: the column that says whose record it is.
        budget: total epsilon of a person and period: a float, `Fraction`, `Decimal`, or text as ``"3/10"``.
        per: length of the period, in seconds or like ``"30d"``: periods are laid end to end from the epoch on, so two
            neighboring ones may both be spent within less than a period. None: for ever.
        rolling: whether the budget is for *any* stretch of time of the length ``per``, wherever it begins: 7 days, and
            not only weeks. Then the state has 16 bytes for each record that passed, of each person, for ever; but in a
            stream it has no more than some three periods of a person. There a record passes only if it is not older
            than the person's newest by more than the period and ``allowed_lateness``.
        changes: how often the values of a person change at most, each column's, in a period. None: any number.
        change_times: ``"secret"``: that a value changed, and when, is protected too. ``"public"``: it is known which
            reports have the same value. Say so only where it is true; see ``docs/longitudinal.md``.
        keyed: whether the records are perturbed with keyed noise of this ``id``, as with a memoized mechanism they
            always are. `Perturb` and its like check it.
        event_time, time_unit, drop_id, shards, key, allowed_lateness: see `BoundContributions`. With a period, late
            records are dropped by the runner, and counted. For ever, the state has 9 bytes for each person, for ever
            (16 if all records pass).

    Metrics, errors and dead letters: as `BoundContributions`; counter ``budget_dropped``, reason ``"budget spent"``.
    Stored reports have spent already: of an Arrow batch that says it has some, `MechanismMismatchError`. Single records
    do not say it, and are limited without a word.

    Raises:
        ParameterError: bad arguments; the budget does not pay for one record; the charge for two is infinite, as
            under keyed noise where values change in secret; or the input are reports.

    >>> import apache_beam as beam
    >>> from ldp_core import RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=0.5)})
    >>> ledger = PrivacyLedger(plan, id="user", budget=1.25)
    >>> ledger.records, ledger.spent
    (2, Fraction(1, 1))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | beam.Create([{"user": 1, "crashed": False}] * 5) | ledger | beam.Map(print)
    {'crashed': False}
    {'crashed': False}
    """

    reason = BUDGET_SPENT
    counter = "budget_dropped"

    def __init__(
        self,
        plan_or_epsilon: PrivacyPlan | Epsilon,
        *,
        id: str,  # noqa: A002 (as in Perturb)
        budget: Epsilon,
        per: float | str | None = None,
        rolling: bool = False,
        changes: int | None = None,
        change_times: ChangeTimes = "secret",
        keyed: bool = False,
        **options: Unpack[LimitOptions],
    ) -> None:
        total = exact_epsilon(budget, name="budget")
        charge = _charge(plan_or_epsilon, changes, change_times, keyed)
        one = charge(1)
        if one > total:
            raise ParameterError(
                f"the budget {float(total)!r} does not pay for one record, which spends {float(one)!r}"
            )
        if charge(2) == math.inf:
            helps = _charge(plan_or_epsilon, changes, "public", keyed)(2) < math.inf
            public = ', or change_times="public" if which reports have the same value is known anyway' if helps else ""
            raise ParameterError(
                f"reports of this plan show that a value changed, which no budget pays for: say changes=0{public}; or "
                "take fresh noise, mechanisms with a permanent and an instantaneous round, or BoundContributions with "
                "one record"
            )
        self.keyed = keyed or (isinstance(plan_or_epsilon, PrivacyPlan) and plan_or_epsilon.memoized)
        self.records: int | None = _most(charge, total)  # records of a person and period that pass; None: all of them
        self.spent = charge(self.records)
        """What they spend together: at most the budget. `Perturb` and its like may spend no more of them."""
        self.admits = History.of(self.records, changes, change_times, self.keyed)
        self.values = list(plan_or_epsilon.inputs) if isinstance(plan_or_epsilon, PrivacyPlan) else None
        if per is None and options.get("event_time") is not None:
            raise ParameterError("event_time needs per=: for ever has no periods")
        if isinstance(per, (str, int, float)):
            seconds(per, name="per")
        windows, length = window_fn(per) or GlobalWindows(), None
        if rolling:
            if not isinstance(windows, FixedWindows):
                raise ParameterError("rolling=True needs per=, the length of any stretch of time that has the budget")
            length = None if self.records is None else windows.size.micros
            windows = GlobalWindows()
        records = MOST if self.records is None else self.records
        super().__init__(id, records=records, window=windows, rolling=length, **options)
        self.bound = Bound(self.records, windows, self._limit.event_time, length)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        refuse_late_limit(pcoll, "PrivacyLedger", stored=True)
        return super().expand(pcoll)


def _charge(
    plan_or_epsilon: PrivacyPlan | Epsilon, changes: int | None, change_times: ChangeTimes, keyed: bool
) -> Callable[[int | None], Spent]:
    """What so many reports of a person spend; None is any number."""

    def history(reports: int | None) -> History:
        return History.of(reports, changes, change_times, keyed)

    if isinstance(plan_or_epsilon, PrivacyPlan):
        return lambda reports: plan_or_epsilon.spent_by(history(reports))
    each = exact_epsilon(plan_or_epsilon, name="plan_or_epsilon, if it is no PrivacyPlan,")
    history(None)
    if keyed:
        raise ParameterError("a number is charged as under fresh noise: with keyed=True give the plan")
    return lambda reports: times(reports, each)


def _most(charge: Callable[[int | None], Spent], total: Fraction) -> int | None:
    """The largest number of reports that ``total`` pays for, at least 1; None if it pays for any. Charges only grow."""
    if charge(None) <= total:
        return None
    pays, fails = 1, 2
    while fails < MOST and charge(fails) <= total:
        pays, fails = fails, 2 * fails
    while fails - pays > 1:
        middle = (pays + fails) // 2
        pays, fails = (middle, fails) if charge(middle) <= total else (pays, middle)
    return pays


def exact_epsilon(value: Epsilon, *, name: str = "epsilon") -> Fraction:
    """An epsilon as an exact fraction: an upper bound of what rounded probabilities spend, as it is in a mechanism."""
    exact = _fraction(value)
    if exact is None or exact <= 0:
        raise ParameterError(f"{name} must be a finite number greater than 0, got {value!r}")
    return exact


def _fraction(value: Any) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, Decimal, str)):
        return None
    with suppress(ValueError, OverflowError, ZeroDivisionError):
        exact = Fraction(value)
        float(exact)  # (as errors show it)
        return exact
    return None
