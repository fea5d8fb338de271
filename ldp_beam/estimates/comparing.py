"""Each window against the one before, per key, in every pane.

A comparison of two windows of length L is an answer about a window of length 2 L: tallies go into Beam's own sliding
windows of 2 L every L, and each is summed there on the side of the half that it lies in. So there is no state of ours:
triggers, late reports and merges are those of any other answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Unpack

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows, SlidingWindows
from apache_beam.utils.timestamp import Duration, Timestamp
from typing_extensions import override

from ldp_beam.estimates._partials import Key, KeyedTally
from ldp_beam.estimates._persons import SumPersons
from ldp_beam.estimates.combine import TalliesCombineFn
from ldp_beam.estimates.rows import RowsOf
from ldp_beam.estimates.transforms import Estimate, StreamOptions
from ldp_beam.graph.upstream import persons_before
from ldp_beam.time.windows import WindowLike, window_fn
from ldp_core import FrequencyOracle, Mechanism, ParameterError, Tally
from ldp_core.engine import Compare as Comparing
from ldp_core.engine import ComparePersons, CompareQuantiles, Population, quantiles_of_persons, unsaid_people

_Sides: TypeAlias = tuple[Tally, Tally]
_KeyedSides: TypeAlias = tuple[Key, _Sides]
_WITH = "compared_with"


class Compare(Estimate):
    """By how much each window differs from the one before, from reports: rows per window, key and pane.

    A row has the fields that all rows of estimates have, `HistogramRow`; ``compared_with``, the start of the window
    before; ``value``, of a frequency oracle; and the columns of differences that `ldp_core.Comparison` has: before,
    after, difference, ..., n_before, n_after. ``n`` is the number of reports in both windows, and what is not known
    (the test of all values of some mechanisms) is nan. A window has no rows without reports in the window just before.

    Panes are accumulating: of both windows together, so that a late report changes its own comparison and, as long as
    that is not over, the next one's. Who looks at early panes, and acts on the first that looks changed, takes
    ``anytime=True``.

    Args:
        column: of the reports, of other people in each window, or with fresh noise.
        mechanism: that made them: a frequency oracle, or a mechanism for numbers with means; of quantiles: ordered
            numbers.
        quantiles: compare these quantiles of ordered numbers, as [0.5, 0.9], in place of shares or the mean. A row has
            then the columns of `ldp_core.QuantileDifferences.to_arrow`.
        window: fixed windows: their length, or Beam's ``FixedWindows``; see `Estimate`.
        confidence: of the intervals, in (0, 1).
        simultaneous: widen the intervals so that those of all values hold together with that confidence.
        anytime: True if you look again and again, as at early panes, and stop when you like: all panes hold together.
            Or the number of reports of each side at which intervals are to be tightest, in place of 10,000.
        same_people: whether the same people may be in both windows: errors then add up. It is asked for where noise is
            keyed, by what a step before draws or what batches say.
        repeats: the most reports of one person in a window, see `ldp_core.compare`. It is asked for where noise is
            keyed, unless a `BoundContributions` or `PrivacyLedger` before says it; of these it is taken.
        person: in place of ``same_people`` and ``repeats`` the column that says whose report it is; see `Estimate` for
            the windows, and `ldp_core.compare_persons`.
        population: the difference of two large populations, ``"many"``, or of N people each; or of these people, None.

    More is in `ldp_core.compare`. The other arguments, elements, late records and errors are those of `Estimate`.

    Raises:
        ParameterError: other windows; discarding panes; keyed noise, and no ``same_people`` or no ``repeats``; what
            `ldp_core.compare` refuses; bad arguments.

    >>> from ldp_core import RandomizedResponse
    >>> mechanism = RandomizedResponse(epsilon=50.0)  # so large that there is no noise
    >>> reports = [{"crashed": i % 10 < (1 if i < 300 else 3), "time": 0.2 * i} for i in range(600)]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | Compare("crashed", mechanism, window="1m", event_time="time")
    ...     _ = rows | beam.Map(lambda r: print(r.window_start, r.value, round(r.difference, 3), r.p_value < 1e-6))
    Timestamp(60) False -0.2 True
    Timestamp(60) True 0.2 True
    """

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        *,
        window: WindowLike,
        quantiles: Sequence[float] | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        anytime: bool | int | None = None,
        same_people: bool | None = None,
        population: Population = "many",
        repeats: int | None = None,
        person: str | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        fixed = window_fn(window)
        if not isinstance(fixed, FixedWindows):
            raise ParameterError('each window is compared with the one before: window= is a length, as "1h"')
        if options.get("accumulation_mode") not in (None, "accumulating", AccumulationMode.ACCUMULATING):
            raise ParameterError(
                "comparisons are of all reports so far: a discarding pane would compare late reports with late ones; "
                'leave out accumulation_mode, or say "accumulating"'
            )
        if more := options.keys() - {*StreamOptions.__annotations__, "accumulation_mode"}:  # (as fill)
            raise ParameterError(f"Compare has no options {sorted(more)}")
        how: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous, "anytime": anytime}
        how |= {"same_people": same_people, "population": population, "repeats": repeats}
        asked: Any = (_OfWindows if person is None else _PersonsOfWindows)(**how)
        if quantiles is not None and person is not None:
            raise quantiles_of_persons()
        if quantiles is not None:
            asked = _QuantilesOfWindows(**how, probabilities=quantiles)
        both = SlidingWindows(Duration(micros=2 * fixed.size.micros), fixed.size, Timestamp(micros=fixed.offset.micros))
        super().__init__(column, mechanism, asked, confidence=confidence, window=both, person=person, **options)
        self._fixed, self._length = fixed, fixed.size

    @override
    def _asked(self, question: Any, mechanism: Mechanism, confidence: float) -> Any:
        return question

    @property
    @override
    def _unsaid(self) -> Any:
        asks = self._person is None and self._question.same_people is None
        return unsaid_people if asks else super()._unsaid

    @override
    def _repeats(self, pcoll: PCollection[Any], windows: Any = None) -> int | None:
        self._question.check_people(self._mechanism, keyed=persons_before(pcoll)[1])
        return super()._repeats(pcoll, self._fixed)

    @override
    def _summed(self, partials: PCollection[Any]) -> PCollection[Any]:
        halves = _Halves(self._length, self._mechanism.empty_tally())
        summed: PCollection[Any] = (
            partials
            | "Halves" >> beam.ParDo(halves).with_output_types(_KeyedSides)
            | "Sum" >> beam.CombinePerKey(TalliesCombineFn([self._mechanism] * 2)).with_output_types(_KeyedSides)
        )
        if self._person is not None:
            summed |= "Persons" >> SumPersons(self._mechanism, self._question, sides=True)
        return summed

    @override
    def _rows_of(self, **how: Any) -> RowsOf:
        return _RowsOfSides(self._column, self._by, self._mechanism, self._question, **how)


@dataclass(frozen=True)
class _OfWindows(Comparing):
    """A comparison whose rows are rows of Beam."""

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        fields = [f for f in super().schema(mechanism) if f.name != "value" or isinstance(mechanism, FrequencyOracle)]
        return pa.schema([(_WITH, pa.timestamp("us", "UTC")), *fields])


@dataclass(frozen=True)
class _QuantilesOfWindows(_OfWindows, CompareQuantiles):
    """The same of quantiles."""


@dataclass(frozen=True)
class _PersonsOfWindows(_OfWindows, ComparePersons):
    """The same of persons."""


class _Halves(beam.DoFn):
    """A tally in a window of two: on its side."""

    def __init__(self, length: Duration, empty: Tally) -> None:
        self._length, self._empty = length, empty

    @override
    def process(
        self, element: KeyedTally, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[_KeyedSides]:
        key, tally = element
        is_before = at < window.start + self._length
        yield key, ((tally, self._empty) if is_before else (self._empty, tally))


class _RowsOfSides(RowsOf):
    """(key, (tally before, tally after)) of a pane to rows; of persons there are their sums, too."""

    @override
    def _counted(self, tally: _Sides, window: Any, pane: Any) -> Any:
        n = [side.n for side in tally]
        if not all(n):
            return None
        for side in tally:
            self._tallier.check_tally(side)
        middle = window.start + Duration(micros=(window.end - window.start).micros // 2)
        counts = np.array([n]), np.array([[side.counters for side in tally]])
        return (middle, window.end), sum(n), counts, {_WITH: window.start}

    @override
    def _of_persons(self, n: Any, counters: Any, sums: Any) -> pa.Table:
        asked: Any = self._question
        sides = [Tally(int(a), b, self._tallier.fingerprint) for a, b in zip(n, counters, strict=True)]
        return asked.of_sums(self._mechanism, sides, sums).to_arrow()
