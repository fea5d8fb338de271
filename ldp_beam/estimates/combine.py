"""Tallies as a Beam CombineFn: the combiner holds the logic, accumulators hold the data."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.transforms.combiners import TupleCombineFn
from typing_extensions import override

import ldp_core as core
from ldp_beam.elements.batches import as_reports
from ldp_beam.elements.records import NAMESPACE
from ldp_core.engine import Ask, Consistency, check_same_mechanism, collecting

_LOG = logging.getLogger(__name__)


class Accumulator:
    """A tally under construction: n, and int64 counters that are added to in place."""

    __slots__ = ("counters", "fingerprint", "n")

    def __init__(self, n: int, counters: npt.NDArray[np.int64], fingerprint: str) -> None:
        self.n = n
        self.counters = counters
        self.fingerprint = fingerprint

    def add(self, other: core.Tally | Accumulator) -> None:
        """Add another tally, in place."""
        check_same_mechanism(self, other)
        self.n += other.n
        self.counters += other.counters

    def tally(self) -> core.Tally:
        """A copy that stays as it is."""
        return core.Tally(self.n, self.counters, self.fingerprint)


class AccumulatorCoder(beam.coders.Coder):
    """Accumulators as `Tally.to_bytes`: compact, deterministic, versioned."""

    @override
    def encode(self, value: Accumulator) -> bytes:
        return value.tally().to_bytes()

    @override
    def decode(self, encoded: bytes) -> Accumulator:
        tally = core.Tally.from_bytes(encoded)
        return Accumulator(tally.n, tally.counters.copy(), tally.fingerprint)

    @override
    def is_deterministic(self) -> bool:
        return True


class TallyCombineFn(beam.CombineFn):
    """Reports of any mechanism to their tally.

    Inputs may be, in any mixture: a `Tally`; an Arrow array of reports; a single report (a bool, an
    integer, a text; a sequence of d bits or of packed words). Integers add up exactly, so the result does not
    depend on how a runner splits and merges.

    Args:
        mechanism: that made the reports.
        question: that the tally is for, if it has counts of its own; see `Question.tallier`.

    Errors while the pipeline runs: `MechanismMismatchError` for a tally of another mechanism, `ReportError` for one
    that no n reports have, `ReportError` or `DomainError` for what is not a report.

    Raises:
        ParameterError: the mechanism is none, or cannot answer the question.

    >>> from ldp_core import RandomizedResponse
    >>> combine = TallyCombineFn(RandomizedResponse(epsilon=1.0))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     tally = p | beam.Create([True, False, True]) | beam.CombineGlobally(combine).without_defaults()
    ...     _ = tally | beam.Map(lambda t: print(t.n, t.counters))
    3 [1 2]
    """

    def __init__(self, mechanism: core.Mechanism, question: core.Question[Any] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if question is not None:
            question.check(mechanism)  # now, and not when the first window closes
        elif not isinstance(mechanism, core.Mechanism):
            raise core.ParameterError(f"mechanism must be a mechanism of ldp_core, got {type(mechanism).__name__}")
        self._mechanism = mechanism
        self._tallier: Any = mechanism if question is None else question.tallier(mechanism)

    @override
    def create_accumulator(self) -> Accumulator:
        return Accumulator(0, np.zeros(self._tallier.counters, np.int64), self._tallier.fingerprint)

    @override
    def add_input(self, accumulator: Accumulator, element: Any) -> Accumulator:
        return self.add_inputs(accumulator, (element,))

    @override
    def add_inputs(self, accumulator: Accumulator, elements: Iterable[Any]) -> Accumulator:
        """Add inputs, in place; single reports are tallied together."""
        single = []
        for element in elements:
            if isinstance(element, (core.Tally, Accumulator)):
                self._add(accumulator, element)
            elif isinstance(element, (pa.Array, pa.ChunkedArray)):
                accumulator.add(self._tallier.tally(element))
            else:
                single.append(element)
        if single:
            accumulator.add(self._tallier.tally(as_reports(single, self._tallier.reports, "reports")))
        return accumulator

    @override
    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        """Sum; changes only the first, as Beam permits."""
        rest = iter(accumulators)
        total = next(rest, None)
        if total is None:
            return self.create_accumulator()
        self._tallier.check_tally(total)  # (they come from bytes that the runner kept)
        for other in rest:
            self._add(total, other)
        return total

    def _add(self, accumulator: Accumulator, other: core.Tally | Accumulator) -> None:
        """Add in place what is checked first: no sum shows later that one part of it was forged."""
        self._tallier.check_tally(other)
        self._tallier.check_total(accumulator.n + other.n)
        accumulator.add(other)

    @override
    def extract_output(self, accumulator: Accumulator) -> Any:
        return accumulator.tally()

    @override
    def get_accumulator_coder(self) -> AccumulatorCoder:
        return AccumulatorCoder()

    def infer_output_type(self, input_type: Any) -> Any:
        """`Tally`: Beam asks for it, though its base class does not have it."""
        return core.Tally


class TalliesCombineFn(TupleCombineFn):
    """Tuples of tallies, one of each mechanism, to their sums."""

    def __init__(self, mechanisms: Iterable[core.Mechanism]) -> None:
        super().__init__(*map(TallyCombineFn, mechanisms))  # type: ignore[no-untyped-call]

    @override
    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """Sum, also of none, as a pane has without anything new, which Beam's own does not take."""
        return super().merge_accumulators(chain([self.create_accumulator()], accumulators))  # type: ignore[no-untyped-call]

    @override
    def get_accumulator_coder(self) -> Any:
        return beam.coders.TupleCoder([AccumulatorCoder() for _ in self._combiners])


class Doubts:
    """Tells of estimates that no data give: how many in the metric ``implausible_estimates``, and once in the log."""

    def __init__(self) -> None:
        self._implausible = Metrics.counter(NAMESPACE, "implausible_estimates")
        self._said = False

    @contextmanager
    def about(self, what: str) -> Iterator[None]:
        """What is estimated within may be doubted."""
        with collecting() as implausible:
            yield
        if implausible:
            self._implausible.inc(len(implausible))
            if not self._said:
                _LOG.warning("%s: %s", what, implausible[0])
            self._said = True


class EstimateCombineFn(TallyCombineFn):
    """`TallyCombineFn`, then the answer to a question, as `Question.result` has it.

    It sees no pipeline, so that it cannot know which mechanism made the reports, as `Estimate` does. It knows their
    type and width, and tallies say whose they are; estimates that no data give are counted in the metric
    ``implausible_estimates``, and said once in the worker's log.

    Args:
        mechanism: that made the reports.
        question: see `Estimate`.

    Raises:
        ParameterError: bad arguments, or a question that the mechanism cannot answer.

    >>> from ldp_core import OneBitMean
    >>> combine = EstimateCombineFn(OneBitMean((0, 10), epsilon=80.0))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     mean = p | beam.Create([True, False]) | beam.CombineGlobally(combine).without_defaults()
    ...     _ = mean | beam.Map(lambda found: print(round(found.mean, 6), found.n))
    5.0 2
    """

    def __init__(self, mechanism: core.Mechanism, question: Ask | None = None) -> None:
        self._question = core.usual_question(mechanism) if question is None else core.question_of(question)
        super().__init__(mechanism, self._question)
        self._doubts = Doubts()

    @override
    def extract_output(self, accumulator: Accumulator) -> Any:
        with self._doubts.about("reports that are combined"):
            return self._question.result(self._mechanism, accumulator.tally())

    @override
    def infer_output_type(self, input_type: Any) -> Any:
        return Any


class HistogramCombineFn(EstimateCombineFn):
    """`EstimateCombineFn` with a `HistogramEstimate`, see there: reports to their `ldp_core.Histogram`.

    >>> from ldp_core import RandomizedResponse
    >>> mechanism = RandomizedResponse(["ios", "android"], epsilon=50.0)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     reports = p | beam.Create(["ios", "ios", "android"])
    ...     histogram = reports | beam.CombineGlobally(HistogramCombineFn(mechanism)).without_defaults()
    ...     _ = histogram | beam.Map(lambda h: print(h.values, h.counts.round(6), h.n))
    ('ios', 'android') [2. 1.] 3
    """

    def __init__(
        self,
        mechanism: core.FrequencyOracle,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
    ) -> None:
        super().__init__(mechanism, core.HistogramEstimate(confidence, simultaneous, consistency))
