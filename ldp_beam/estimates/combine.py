"""Tallies as a Beam CombineFn: the combiner holds the logic, accumulators hold the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_beam.elements.batches import as_reports
from ldp_core import FrequencyOracle, Histogram, Mechanism, ParameterError, Tally
from ldp_core.estimates.consistency import Consistency
from ldp_core.estimates.histogram import HistogramEstimate
from ldp_core.tally import check_same_mechanism


class Accumulator:
    """A tally under construction: n, and int64 counters that are added to in place."""

    __slots__ = ("counters", "fingerprint", "n")

    def __init__(self, n: int, counters: npt.NDArray[np.int64], fingerprint: str) -> None:
        self.n = n
        self.counters = counters
        self.fingerprint = fingerprint

    def add(self, other: Tally | Accumulator) -> None:
        """Add another tally, in place.

        Raises:
            MechanismMismatchError: it is of another mechanism.
        """
        check_same_mechanism(self, other)
        self.n += other.n
        self.counters += other.counters

    def tally(self) -> Tally:
        """A copy that stays as it is."""
        return Tally(self.n, self.counters, self.fingerprint)


class AccumulatorCoder(beam.coders.Coder):
    """Accumulators as `Tally.to_bytes`: compact, deterministic, versioned."""

    @override
    def encode(self, value: Accumulator) -> bytes:
        return value.tally().to_bytes()

    @override
    def decode(self, encoded: bytes) -> Accumulator:
        tally = Tally.from_bytes(encoded)
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

    Errors while the pipeline runs: `MechanismMismatchError` for a tally of another mechanism, `ReportError` for one
    that no n reports have, `ReportError` or `DomainError` for what is not a report.

    Raises:
        ParameterError: the mechanism is none.

    >>> from ldp_core import RandomizedResponse
    >>> combine = TallyCombineFn(RandomizedResponse(epsilon=1.0))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     tally = p | beam.Create([True, False, True]) | beam.CombineGlobally(combine).without_defaults()
    ...     _ = tally | beam.Map(lambda t: print(t.n, t.counters))
    3 [1 2]
    """

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if not isinstance(mechanism, Mechanism):
            raise ParameterError(f"mechanism must be a mechanism of ldp_core, got {type(mechanism).__name__}")
        self._mechanism = mechanism
        self._fingerprint = mechanism.fingerprint

    @override
    def create_accumulator(self) -> Accumulator:
        """No reports."""
        return Accumulator(0, np.zeros(self._mechanism.counters, np.int64), self._fingerprint)

    @override
    def add_input(self, accumulator: Accumulator, element: Any) -> Accumulator:
        """Add one input, in place."""
        return self.add_inputs(accumulator, (element,))

    @override
    def add_inputs(self, accumulator: Accumulator, elements: Iterable[Any]) -> Accumulator:
        """Add inputs, in place; single reports are tallied together."""
        single = []
        for element in elements:
            if isinstance(element, (Tally, Accumulator)):
                self._add(accumulator, element)
            elif isinstance(element, (pa.Array, pa.ChunkedArray)):
                accumulator.add(self._mechanism.tally(element))
            else:
                single.append(element)
        if single:
            accumulator.add(self._mechanism.tally(as_reports(single, self._mechanism.reports, "reports")))
        return accumulator

    @override
    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        """Sum; changes only the first, as Beam permits."""
        rest = iter(accumulators)
        total = next(rest, None)
        if total is None:
            return self.create_accumulator()
        self._mechanism.check_tally(total)  # (they come from bytes that the runner kept)
        for other in rest:
            self._add(total, other)
        return total

    def _add(self, accumulator: Accumulator, other: Tally | Accumulator) -> None:
        """Add in place what is checked first: no sum shows later that one part of it was forged."""
        self._mechanism.check_tally(other)
        self._mechanism.check_total(accumulator.n + other.n)
        accumulator.add(other)

    @override
    def extract_output(self, accumulator: Accumulator) -> Histogram | Tally:
        """The tally."""
        return accumulator.tally()

    @override
    def get_accumulator_coder(self) -> AccumulatorCoder:
        return AccumulatorCoder()

    def infer_output_type(self, input_type: Any) -> type:
        """`Tally`: Beam asks for it, though its base class does not have it."""
        return Tally


class HistogramCombineFn(TallyCombineFn):
    """`TallyCombineFn`, then estimate.

    Args:
        mechanism: that made the reports.
        confidence, simultaneous, consistency: see `HistogramEstimate`.

    Errors while the pipeline runs: `MechanismMismatchError` for a tally of another mechanism, `ReportError` for one
    that no n reports have, `ReportError` or `DomainError` for what is not a report.

    Raises:
        ParameterError: bad arguments.

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
        mechanism: FrequencyOracle,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
    ) -> None:
        self._estimate = HistogramEstimate(confidence, simultaneous, consistency)
        self._estimate.check(mechanism)  # now, and not when the first window closes
        super().__init__(mechanism)

    @override
    def extract_output(self, accumulator: Accumulator) -> Histogram:
        """The histogram."""
        return self._estimate.result(self._mechanism, accumulator.tally())

    @override
    def infer_output_type(self, input_type: Any) -> type:
        return Histogram
