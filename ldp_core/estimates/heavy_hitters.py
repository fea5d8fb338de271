"""Heavy hitters: the most frequent values, of so many that nobody can list them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Question, refuse_mechanism
from ldp_core.estimates.histogram import Counted, entries_schema
from ldp_core.estimates.plausibility import watch
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_integer, check_open, parameter, shown
from ldp_core.tables import View, in_percent
from ldp_core.tally import Tally

MOST_CANDIDATES = 5 << 18
"""At most so many prefixes are looked up at a level, 1.3 million, if the levels allow it."""


@dataclass(frozen=True, eq=False, repr=False)
class Found(Counted):
    """Values in order of their estimated counts, the largest first.

    Attributes:
        values: text or integers, distinct; perhaps none.
        n: number of reports, of all levels.
        counts: estimated number of records, float64[k]. They are the largest of many estimates, so that those near the
            threshold are more often too high than too low.
        standard_errors: of ``counts``: the noise of reports, of hash collisions, and of who is at the last level.
        low, high: estimate -+ z standard errors; near the threshold, or the first that is left out, low is farther, of
            one that only chance lifted.
        threshold: the least count that was taken for a value's own and not for noise.
        candidates: how many values were looked up at the last level.
    """

    view: ClassVar[View] = View("count", ("value",), ranked=True)
    question: ClassVar[str] = "heavy_hitters"

    values: tuple[str | int, ...]
    n: int
    counts: F64
    standard_errors: F64
    low: F64
    high: F64
    confidence: float
    threshold: float
    candidates: int
    mechanism: Mechanism | None = None

    @override
    def _head(self) -> str:
        return (
            f"{len(self)} of {self.candidates:,} values looked up are above {self.threshold:,.1f} of {self.n:,} "
            f"reports, {in_percent(self.confidence)}% intervals"
        )

    @override
    def _texts(self) -> Sequence[str]:
        return [str(value) for value in self.values]

    @override
    def to_arrow(self) -> pa.Table:
        """Table of the columns of a `Histogram`, one row per value that was found."""
        text = not self.values or isinstance(self.values[0], str)
        return self._entries(pa.array(self.values, pa.string() if text else pa.int64()))


def _check_threshold(name: str, value: float | None) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
        raise ParameterError(f"{name} must be None or a number in [0, inf), got {shown(value)}")
    return value


@runtime_checkable
class Searching(Protocol):
    """What a mechanism with heavy hitters offers."""

    def search(self, tally: Tally, how: HeavyHittersEstimate) -> Found:
        """The values found."""


@dataclass(frozen=True)
class HeavyHittersEstimate(Question[Found]):
    """The most frequent values, ranked by estimated count.

    Args:
        k: the most values to return.
        confidence: of the intervals, and that no value is returned that nobody has, if ``threshold`` is None.
        threshold: the least estimated count of what is returned. Default: what the noise of none of the candidates
            of the last level exceeds with probability ``confidence`` (Bonferroni). 0 returns k values, found or not.

    Raises:
        ParameterError: a k, a confidence or a threshold that does not exist.

    >>> HeavyHittersEstimate(k=10)
    HeavyHittersEstimate(repeats=None, k=10, confidence=0.95, threshold=None)
    """

    name: ClassVar[str] = Found.question
    view: ClassVar[View] = Found.view

    k: int = parameter(check_integer, default=20, low=1, high=MOST_CANDIDATES)
    confidence: float = parameter(check_open, default=0.95)
    threshold: float | None = parameter(_check_threshold, default=None)

    @override
    def check(self, mechanism: Mechanism) -> None:
        if not isinstance(mechanism, Mechanism) or not isinstance(mechanism, Searching):
            raise refuse_mechanism("a search for heavy hitters", "HeavyHitters", mechanism)

    @override
    def schema(self, mechanism: Mechanism) -> pa.Schema:
        return entries_schema(pa.string() if mechanism.inputs.kind == "str" else pa.int64())

    @override
    def result(self, mechanism: Any, tally: Tally) -> Found:
        self.check(mechanism)
        mechanism.check_tally(tally)
        watch(mechanism, tally.n, tally.counters)
        return mechanism.search(tally, self)
