"""Reports, or values, to the heavy hitters of each window and key."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Unpack

import apache_beam as beam
from typing_extensions import override

from ldp_beam.elements.ids import KeyLike
from ldp_beam.elements.rows import HistogramRow
from ldp_beam.estimates._tallying import Head, Perturbing, Tallying, TallyingOptions
from ldp_core import HeavyHitters as Mechanism
from ldp_core import ParameterError, Tally
from ldp_core.estimates.heavy_hitters import HeavyHittersEstimate


class HeavyHittersOptions(TallyingOptions, total=False):
    """Keyword arguments of `HeavyHitters`."""

    confidence: float
    threshold: float | None


class _HeavyHittersTransform(Tallying):
    """What `HeavyHitters` and `PrivateHeavyHitters` share."""

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        k: int,
        *,
        confidence: float = 0.95,
        threshold: float | None = None,
        **options: Unpack[TallyingOptions],
    ) -> None:
        if not isinstance(mechanism, Mechanism):
            raise ParameterError(f"mechanism must be ldp_core.HeavyHitters, got {type(mechanism).__name__}")
        HeavyHittersEstimate(k, confidence, threshold).check(mechanism)
        self._found = partial(_rows_of, mechanism=mechanism, k=k, confidence=confidence, threshold=threshold)
        super().__init__(column, mechanism, **options)

    @override
    def _rows(self) -> beam.ParDo:
        return self._each_pane(self._found, HistogramRow)


class HeavyHitters(_HeavyHittersTransform):
    """Find the most frequent values, from reports: one `HistogramRow` per window, key, pane and value found.

    Rows come in order of the estimated count within a pane; ``value`` is text. A window in which nothing is
    above the threshold has no row.

    Args:
        column: of the reports.
        mechanism: `ldp_core.HeavyHitters`, that made them.
        k: the most values to return.
        confidence, threshold: see its `find`.
        window, event_time, by, trigger, accumulation_mode, allowed_lateness: see `Histogram`.

    What flows between workers are tallies (see `Tally.to_bytes`) of `mechanism.counters` counts; the search, a
    tenth of a second for a million candidates, runs once a pane.

    Raises:
        ParameterError: bad arguments.

    >>> from ldp_core.inputs.prefixes import Prefixes
    >>> mechanism = Mechanism(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=5.0, levels=(2, 4), rows=8)
    >>> words = ["rome"] * 5000 + ["oslo"] * 3000
    >>> reports = [{"word": r} for r in mechanism.perturb(words).tolist()]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | HeavyHitters("word", mechanism, k=2)
    ...     _ = rows | beam.Map(lambda r: print(r.value))
    rome
    oslo
    """

    def __init__(self, column: str, mechanism: Mechanism, k: int, **options: Unpack[HeavyHittersOptions]) -> None:
        super().__init__(column, mechanism, k, **options)


class PrivateHeavyHitters(Perturbing, _HeavyHittersTransform):
    """Perturb and `HeavyHitters` in one step; reports never leave memory.

    Args:
        key, id: of keyed noise, under which a person is always at the same level; see `Perturb`.

    Raises:
        ParameterError: bad arguments; or the input is in sliding windows, where each record would be perturbed
            several times: pass them as ``window``.
    """

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        k: int,
        *,
        key: KeyLike | None = None,
        id: str | None = None,  # noqa: A002 (as in Polars)
        **options: Unpack[HeavyHittersOptions],
    ) -> None:
        super().__init__(column, mechanism, k, key=key, id=id, **options)


def _rows_of(
    head: Head, tally: Tally, *, mechanism: Mechanism, k: int, confidence: float, threshold: float | None
) -> Iterator[HistogramRow]:
    """One row a value found."""
    found = mechanism.find(tally, k, confidence=confidence, threshold=threshold)
    tail = (found.n, found.confidence, mechanism.epsilon, tally.fingerprint)
    columns = (found.counts, found.frequencies, found.standard_errors, found.low, found.high)
    numbers = zip(*(array.tolist() for array in columns), strict=True)
    for value, estimated in zip(found.values, numbers, strict=True):
        yield HistogramRow._make((*head, str(value), *estimated, *tail))
