"""A budget per person: a total epsilon, for ever or for each period, enforced in exact arithmetic."""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, Unpack

from apache_beam.transforms.window import GlobalWindows

from ldp_beam.persons.limits import LimitOptions, LimitTransform
from ldp_core import ParameterError, PrivacyPlan

BUDGET_SPENT = "budget spent"
Epsilon: TypeAlias = "float | Fraction | Decimal | str"


class PrivacyLedger(LimitTransform):
    """Lets records through while their person can pay: each spends the plan's epsilon, and nobody more than ``budget``.

    It is `BoundContributions` with the arithmetic done: all records of a plan cost the same, so a person can
    pay for the first ``floor(budget / epsilon)`` in each period and for no other. The division is exact:
    a float counts as the binary fraction that it is. ``budget=0.3`` pays for two records of ``epsilon=0.1``, as three
    times the float 0.1 is above the float 0.3; a budget meant as three records is ``3 * Fraction(0.1)``.

    Args:
        plan_or_epsilon: what one record spends: the plan that perturbs it, or a number.
        id: the column that says whose record it is.
        budget: total epsilon of a person and period: a float, `Fraction`, `Decimal`, or text as ``"3/10"``.
        per: length of the period, in seconds or like ``"30d"``: periods are laid end to end from the epoch on, so two
            neighbouring ones may both be spent within less than a period. None: for ever.
        event_time, drop_id, shards, key, allowed_lateness: see `BoundContributions`. With a period, late records are
            dropped by the runner. For ever, the state has 9 bytes for each person, for ever.

    Metrics, errors and dead letters: as `BoundContributions`; counter ``budget_dropped``, reason ``"budget spent"``.

    Raises:
        ParameterError: bad arguments; or the budget does not pay for one record.

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

    def __init__(
        self,
        plan_or_epsilon: PrivacyPlan | Epsilon,
        *,
        id: str,  # noqa: A002 (as in Perturb)
        budget: Epsilon,
        per: float | str | None = None,
        **options: Unpack[LimitOptions],
    ) -> None:
        each, total = exact_epsilon(plan_or_epsilon), exact_epsilon(budget, name="budget")
        self.records = math.floor(total / each)
        """Records of a person and period that pass."""
        self.spent = self.records * each
        """What they spend together: at most the budget."""
        if not self.records:
            raise ParameterError(
                f"the budget {float(total):g} does not pay for one record, which spends {float(each):g}"
            )
        if per is None and options.get("event_time") is not None:
            raise ParameterError("event_time needs per=: for ever has no periods")
        super().__init__(
            id,
            records=self.records,
            reason=BUDGET_SPENT,
            counter="budget_dropped",
            window=GlobalWindows() if per is None else per,
            **options,
        )


def exact_epsilon(value: PrivacyPlan | Epsilon, *, name: str = "epsilon") -> Fraction:
    """An epsilon as an exact fraction; a plan's is `PrivacyPlan.exact_epsilon`.

    The epsilon of a mechanism is an upper bound of what its rounded probabilities spend, so this is one too.

    Raises:
        ParameterError: not a finite number greater than 0.

    >>> exact_epsilon("0.1"), exact_epsilon(0.1) > Fraction(1, 10)
    (Fraction(1, 10), True)
    """
    if isinstance(value, PrivacyPlan):
        return value.exact_epsilon
    exact = _fraction(value)
    if exact is None or exact <= 0:
        raise ParameterError(f"{name} must be a finite number greater than 0, got {value!r}")
    return exact


def _fraction(value: Any) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, Decimal, str)):
        return None
    with suppress(ValueError, OverflowError, ZeroDivisionError):
        return Fraction(value)
    return None
