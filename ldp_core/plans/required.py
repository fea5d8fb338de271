"""How many people, and what epsilon, for a wanted margin of error: the inverses of the errors in `recommend`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from typing_extensions import override

from ldp_core.errors import ParameterError
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.catalog import CHOICES
from ldp_core.parameters import check_integer, check_open, shown
from ldp_core.plans.plan import PrivacyPlan
from ldp_core.plans.recommend import KINDS, Bound, Error, Values, check_group, error_of, resolve
from ldp_core.tables import Row, Table


@dataclass(frozen=True)
class Need(Row):
    """What one mechanism needs for a margin: a row of the table that `required_n` or `required_epsilon` gives.

    Attributes:
        name: of the column of a plan, else empty.
        mechanism: its name, with its variant where that is not the default.
        margin: what was asked for.
        epsilon: of a report; None where it is not known (a mechanism's own).
        n: number of people.
    """

    name: str
    mechanism: str
    margin: float
    epsilon: float
    n: int

    @override
    def values(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mechanism": self.mechanism,
            "margin": self.margin,
            "epsilon": self.epsilon,
            "n": self.n,
        }

    @override
    def texts(self) -> dict[str, str]:
        named = {"name": self.name} if self.name else {}
        return {
            **named,
            "mechanism": self.mechanism,
            "margin": f"{self.margin:g}",
            "epsilon": f"{self.epsilon:.6g}",
            "people": f"{self.n:,}",
        }


@dataclass(frozen=True, repr=False)
class Needs(Table[Need]):
    """What some mechanisms need; `int` and `float` of it give ``n`` and ``epsilon``.

    Attributes:
        n: the people that it takes: of a plan for all its columns, of several mechanisms for the first.
        epsilon: of a report of the same; of a plan, of a whole record.
    """

    n: int = 0
    epsilon: float = 0.0

    def __int__(self) -> int:
        return self.n

    def __float__(self) -> float:
        return self.epsilon


def required_n(
    mechanism: Mechanism | PrivacyPlan | str | type[Mechanism] | None = None,
    margin: float | Mapping[str, float] = 0.01,
    beta: float = 0.05,
    *,
    domain: Values | None = None,
    epsilon: float | None = None,
    bound: Bound = "normal",
    simultaneous: bool = False,
    frequency: float | None = None,
    group: float = 1.0,
) -> Needs:
    """The least number of people with which an estimate is within ``margin`` of the truth, but for probability beta.

    It is the half width of the interval that a histogram or a mean shows for ``confidence=1 - beta``:
    z^2 (f p (1 - p) + (1 - f) q (1 - q)) / (margin^2 (p - q)^2), z the normal quantile of 1 - beta / 2. Of a mean the
    margin is in the numbers' own unit, for the noise in the worst case; of heavy hitters it is the share of people
    that a value must have to be found (an approximation: `HeavyHitters.reports_to_find`).

    Args:
        mechanism: a mechanism; a plan, of which each column is asked; a name in `CHOICES`, or a class, with ``domain``
            and ``epsilon``; None: of all that are for such values, the one that needs the fewest first.
        margin: of a frequency, in (0, 1), or of a mean; of a plan also by column.
        beta: probability of a larger error, in (0, 1).
        domain: the values, or how many declared ones; see `recommend`.
        epsilon: of a report.
        bound: ``"normal"``, or ``"hoeffding"``, ln(2 / beta) / (2 margin^2 (p - q)^2), which holds for every n and
            every frequency and takes two to five times the people: the inverse of `FrequencyOracle.accuracy`.
        simultaneous: whether all values are to be as near, together (Bonferroni), and not any one by itself.
        frequency: true share of the value; default 1 / d.
        group: the share of the people who are in the group that is asked about, see `recommend`.

    Returns:
        A table, `Need` a row; ``.n``, or ``int`` of it, is the number.

    Raises:
        ParameterError: an argument outside its interval, missing or superfluous.

    >>> from ldp_core import Hybrid, RandomizedResponse, UnaryEncoding
    >>> required_n(UnaryEncoding(range(12), epsilon=2.0), 0.02)
    mechanism       margin  epsilon  people
    unary_encoding    0.02        2   7,754
    Asked for: one share, that of a value that 1 in 12 of the people has, within the
    margin with a probability of 95 %. For all shares at once: simultaneous; for a
    value of another share: frequency.
    >>> required_n(UnaryEncoding(range(12), epsilon=2.0), 0.02, simultaneous=True).n
    16572
    >>> required_n(UnaryEncoding(range(12), epsilon=2.0), 0.02, bound="hoeffding").n
    31800
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0), "minutes": Hybrid((0, 60), epsilon=1.0)})
    >>> required_n(plan, {"crashed": 0.02, "minutes": 0.5}, group=0.1)  # of a tenth of the people
    all columns: 593,301 people
    name     mechanism            margin  epsilon   people
    crashed  randomized_response    0.02        1   88,419
    minutes  hybrid                  0.5        1  593,301
    Asked for: of each column the margin holds with a probability of 95 %: of the
    share of one value that 1 in d of the people has (d is the number of values), of
    a mean where the noise is greatest. A share of 0.1 of the people is in the group
    that is asked about.
    """
    if isinstance(mechanism, PrivacyPlan):
        return _of_plan(mechanism, margin, beta, domain, epsilon, bound, simultaneous, frequency, group)
    if isinstance(margin, Mapping):
        raise ParameterError("margins by column are a plan's: give one number")
    share = check_group(group)
    asked = _Asked(margin, beta, bound, simultaneous, frequency)
    rows = []
    for key in _keys(mechanism, domain):
        error = resolve(key, domain, epsilon)
        spent = key.epsilon if isinstance(key, Mechanism) else float(epsilon or 0)
        rows.append(Need("", _called(key), margin, spent, asked.people(error, share)))
    rows.sort(key=lambda row: row.n)
    return Needs(tuple(rows), "", asked.question(error, share), rows[0].n, rows[0].epsilon)


def _keys(mechanism: Any, domain: Values | None) -> list[Any]:
    """What to ask: one mechanism, or all that are for such values."""
    if mechanism is not None:
        return [mechanism]
    return list(KINDS.get(type(domain), CHOICES))


def _called(mechanism: Any) -> str:
    return str(getattr(mechanism, "name", mechanism))


class _Asked(NamedTuple):
    """What is asked for; see `required_n`."""

    margin: float
    beta: float
    bound: Bound
    simultaneous: bool
    frequency: float | None

    def reports(self, error: Error) -> float:
        """How many it takes."""
        together = error.together if self.simultaneous and not error.numeric else 1
        if self.frequency is not None and self.frequency * together < 1 - 1e-9 and together > 1:
            raise ParameterError(
                f"with simultaneous, frequency is the greatest share: at least 1 / {together}, got {self.frequency:g}; "
                "the shares of all values add up to 1, and a frequent value may be noisier than a rare one"
            )
        margin, beta = _check_margin(self.margin, error), check_open("beta", self.beta) / together
        return error.reports(margin, beta, self.bound, error.share(self.frequency))

    def people(self, error: Error, share: float) -> int:
        """How many it takes, of whom a share is asked about."""
        # An n that was computed from a margin comes back as itself, not as one more.
        return max(math.ceil(self.reports(error) / share * (1 - 1e-12)), 1)

    def question(self, error: Error, share: float) -> str:
        """What is asked for, in a sentence."""
        sure = f"with a probability of {100 * (1 - self.beta):.4g} %"
        if error.numeric:
            said = f"a mean, within the margin {sure}, where the noise is greatest"
        elif error.to_find is not None:
            said = f"a value is found {sure} if so great a share of the people has it (the margin is that share)"
        else:
            of = f"a value that {self.true_share(error.together)} of the people has"
            of = "any value, however frequent" if self.bound == "hoeffding" else of
            if self.simultaneous:
                said = f"the shares of all {error.together:,} values at once, all within the margin {sure}; each is as "
                said += f"noisy as that of {of}; where one has more, give the greatest share: frequency"
            else:
                said = (
                    f"one share, that of {of}, within the margin {sure}. For all shares at once: simultaneous; for a "
                )
                said += "value of another share: frequency"
        return f"Asked for: {said}.{_of_group(share)}"

    def true_share(self, values: int) -> str:
        """The share of the people who have the value, in words."""
        return f"1 in {values:,}" if self.frequency is None else f"{100 * self.frequency:.4g} %"


def _of_group(share: float) -> str:
    return "" if share == 1 else f" A share of {share:g} of the people is in the group that is asked about."


def _check_margin(margin: float, error: Error) -> float:
    if not error.numeric:
        return check_open("margin", margin)
    if isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 0 < margin < math.inf:
        raise ParameterError(f"margin of a mean must be a number in (0, inf), got {shown(margin)}")
    return float(margin)


def _of_plan(
    plan: PrivacyPlan,
    margin: float | Mapping[str, float],
    beta: float,
    domain: Values | None,
    epsilon: float | None,
    bound: Bound,
    simultaneous: bool,
    frequency: float | None,
    group: float,
) -> Needs:
    if domain is not None or epsilon is not None or frequency is not None:
        raise ParameterError(
            "a plan has its domains and epsilons, and each column a frequency of its own: leave them out"
        )
    share, rows = check_group(group), []
    for name, m in plan.columns.items():
        wanted = margin.get(name) if isinstance(margin, Mapping) else margin
        if wanted is None:
            raise ParameterError(f"margin has no number for column {name!r} of the plan: give one for each")
        people = _Asked(wanted, beta, bound, simultaneous, None).people(error_of(m), share)
        rows.append(Need(name, m.name, wanted, m.epsilon, people))
    most = max(row.n for row in rows)
    shares = "of all shares of a column together" if simultaneous else "of the share of one value"
    if bound == "normal":
        shares += ", as noisy as that of one in d values" if simultaneous else " that 1 in d of the people has"
    sure = f"with a probability of {100 * (1 - beta):.4g} %"
    question = f"Asked for: of each column the margin holds {sure}: {shares} (d is the number of values), of a mean "
    question += f"where the noise is greatest.{_of_group(share)}"
    return Needs(tuple(rows), f"all columns: {most:,} people", question, most, plan.epsilon)


def required_epsilon(
    mechanism: str | type[Mechanism] | None = None,
    margin: float = 0.01,
    n: int = 1,
    beta: float = 0.05,
    *,
    domain: Values,
    bound: Bound = "normal",
    simultaneous: bool = False,
    frequency: float | None = None,
    group: float = 1.0,
) -> Needs:
    """The epsilon with which n people suffice for a margin: the inverse of `required_n`.

    By bisection below the first of a grid of epsilons that suffices. Where an integer parameter of a mechanism makes
    the error jump upwards now and then, a smaller epsilon within a step of the grid (0.3 %) of a jump can suffice too.

    Args:
        mechanism: a name in `CHOICES`, or a class; None: of all that are for such values, the one with the least
            epsilon first.
        margin, beta, bound, simultaneous, frequency, group: see `required_n`.
        n: number of people.
        domain: the values, or how many declared ones; see `recommend`.

    Returns:
        A table, `Need` a row; ``.epsilon``, or ``float`` of it, is the least epsilon, to twelve digits and rounded up,
        in (0, 50].

    Raises:
        ParameterError: an argument outside its interval, or no epsilon up to 50 does: more people or a wider margin.

    >>> required_epsilon("randomized_response", 0.02, 10_000, domain=2)
    mechanism            margin   epsilon  people
    randomized_response    0.02  0.944483  10,000
    Asked for: one share, that of a value that 1 in 2 of the people has, within the
    margin with a probability of 95 %. For all shares at once: simultaneous; for a
    value of another share: frequency.
    >>> from ldp_core import Hybrid, Interval
    >>> round(required_epsilon(Hybrid, 0.5, 10_000, domain=Interval(0, 60)).epsilon, 3)
    2.375
    """
    people, share = check_integer("n", n, 1), check_group(group)
    asked = _Asked(margin, beta, bound, simultaneous, frequency)
    rows, hopeless = [], []
    for key in _keys(mechanism, domain):
        found = _least(partial(resolve, key, domain), asked, people * share, closed=_called(key) in CHOICES)
        if found is None:
            enough = math.ceil(asked.reports(resolve(key, domain, _LARGEST)) / share)
            hopeless.append(f"{_called(key)} needs at least {enough:,} people for margin {margin!r}")
        else:
            rows.append(Need("", _called(key), margin, found, people))
    if not rows:
        raise ParameterError(f"no epsilon suffices: {hopeless[0]}")
    rows.sort(key=lambda row: row.epsilon)
    note = asked.question(resolve(_keys(mechanism, domain)[0], domain, _LARGEST), share)
    if hopeless:
        note += f" Left out, as no epsilon is enough: {'; '.join(hopeless)}."
    return Needs(tuple(rows), "", note, people, rows[0].epsilon)


def _least(error: Callable[[float], Error], asked: _Asked, reports: float, *, closed: bool) -> float | None:
    """The least epsilon with which so many reports suffice; None: there is none."""

    def needed(epsilon: float) -> float:
        try:
            return asked.reports(error(epsilon))
        except ZeroDivisionError:  # p is q
            return math.inf
        except ParameterError:  # below what 64-bit probabilities resolve
            if epsilon > _RESOLVED:
                raise
            return math.inf

    # Others make a mechanism each time, and nothing is known of their jumps.
    step, precision, jump = (1.003, 1e-12, _JUMP) if closed else (1.2, 1e-6, math.inf)
    grid = [_LARGEST * step**-k for k in range(int(math.log(_LARGEST / _SMALLEST, step)), -1, -1)]
    needed(_LARGEST)  # refuses what no epsilon is asked for
    first = _first(lambda k: needed(grid[k]), len(grid), reports, jump)
    if first is None:
        return None
    low, high = [0.0, *grid][first : first + 2]
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) > reports else (low, middle)
    return min(high * (1 + precision), _LARGEST)


def _first(needed: Callable[[int], float], points: int, reports: float, jump: float) -> int | None:
    """The first of the points that so many reports suffice for; None: there is none.

    What is needed falls from point to point, but may come back up to ``jump`` times as much. Before a point that needs
    more than that many times the reports there is none that they suffice for: bisection finds such a point.
    """
    low, high = -1, points - 1
    if needed(high) > reports * jump:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if needed(middle) > reports * jump else (low, middle)
    return next((k for k in range(high, points) if needed(k) <= reports), None)


_JUMP = 4.0  # measured: at most 3.2, for 2 to 100,000 values and any frequency
_RESOLVED = 1e-3
_LARGEST = 50.0  # beyond it nothing is noisy, and nothing private
_SMALLEST = 1e-4
