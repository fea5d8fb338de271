"""Quantiles, the median, and the whole curve of cumulative shares, of ordered values: see `ordered` in this room."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Population, Question, R_co, Result, Tabular, check_population, z_score
from ldp_core.estimates.ordered import Reader, answer_type, reader_of
from ldp_core.estimates.weights import QUANTILE_SCHEMA, Quantiles, word
from ldp_core.inputs.domain import Domain
from ldp_core.inputs.interval import WholeNumbers
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_flag, check_open, parameter, shown
from ldp_core.tables import SHARE, View, about_whom, in_percent, text_of
from ldp_core.tally import Tally


def check_probabilities(name: str, value: Any) -> tuple[float, ...]:
    """Return ``value`` as a tuple; raise `ParameterError` unless it is different numbers in (0, 1)."""
    one = isinstance(value, (str, bytes)) or getattr(value, "shape", None) == ()  # (an array of no axes)
    listed = value if isinstance(value, Iterable) and not one else [value]
    made = tuple(check_open(f"each of {name}", one) for one in listed)
    if not made or len(set(made)) < len(made):
        raise ParameterError(f"{name} must be a list of different numbers, as [0.25, 0.5, 0.9], got {shown(value)}")
    return made


class _Placed(Question[R_co]):
    """What the median and other quantiles share: who can answer, and how near an answer will be."""

    @property
    def _probabilities(self) -> tuple[float, ...]:
        return getattr(self, "probabilities", (0.5,))

    @override
    def check(self, mechanism: Mechanism) -> None:
        reader_of("a quantile", mechanism, self)

    @override
    def expected_error(
        self, mechanism: Any, n: int, counters: I64, frequency: float | None = None
    ) -> tuple[float, float]:
        """In values: whole numbers and numbers in their own unit, other labels in steps from one to the next.

        What the widest interval of the curve is across, read between the values, too: about z sd(F(t)) / f, f the
        density at the quantile. (An answer is a value, and so up to half a step farther away: of cells see
        `rounding`.)

        ``frequency`` is f, the share of the people of each declared value near the quantile, of numbers in cells in
        each unit, wherever it is: with as much noise as in the middle; default: people are spread evenly.
        """
        half = self._reach(mechanism, n, counters, frequency)
        if frequency is not None and self._probabilities != (0.5,):
            asked: Any = self  # (that has a population)
            ways: Any = replace(asked, population=None), MedianEstimate(asked.confidence, repeats=asked.repeats)
            here, middle = (one._reach(mechanism, n, counters, frequency) for one in ways)
            half = math.hypot(half, math.sqrt(max(middle**2 - here**2, 0)))
        return half / z_score(self.confidence), half

    def _reach(self, mechanism: Any, n: int, counters: I64, frequency: float | None) -> float:
        """Half of the widest interval, where people are spread evenly but for the ``frequency``."""
        reader = reader_of("a quantile", mechanism, self)
        curve = reader.curve(np.array([n]), counters[None], z_score(self.confidence))
        first, last = (np.array(end) for end in reader.ends)
        at = np.arange(len(last) + 1.0)
        cells = mechanism.inputs.listed and not reader.ends[0].equals(reader.ends[1])  # (no values by themselves)
        # People are spread evenly over declared cells, which need not be equally wide, and over an interval's numbers.
        if reader.ascending and (frequency is None or not cells):
            at = np.append(float(first[0]) - pa.types.is_integer(reader.ends[0].type), last)
        below, above = (
            np.interp(self._probabilities, np.append(0, np.maximum.accumulate(end[0])), at)
            for end in (curve.high, curve.low)
        )
        # Where the first or the last value cuts one side short, errors are on the other (a tree's differ by 3 %).
        middle = np.interp(self._probabilities, np.linspace(0, 1, len(at)), at)
        half, longer = (above - below) / 2, np.maximum(above - middle, middle - below)
        chance = 1e-5 * float(at[-1] - at[0])  # (of the counters that are expected)
        half = float(np.where(longer > 1.1 * half + chance, longer, half).max())
        if frequency is not None:
            if not frequency > 0:
                raise ParameterError(f"frequency of the values near a quantile must be above 0, got {shown(frequency)}")
            half /= frequency * (len(last) if mechanism.inputs.listed else float(at[-1] - at[0]))
        return half

    @override
    def rounding(self, mechanism: Any) -> float:
        reader = reader_of("a quantile", mechanism, self)
        if reader.ascending is None or not mechanism.inputs.listed:  # (of an interval answers are between the ends)
            return 0.0
        first, last = (np.array(end, float) for end in reader.ends)
        widths = np.abs(last - first)
        at = np.array(self._probabilities) * len(widths)
        near = np.concatenate([np.ceil(at) - 1, np.floor(at)]).astype(int)  # (on both sides of an edge)
        return float(widths[near].max()) / 2

    @override
    def whole_steps(self, inputs: Any, margin: float, frequency: float | None = None) -> float:
        """And the way from the quantile to the edge of its value, if it is known where it is."""
        if not isinstance(inputs, Domain | WholeNumbers):
            return margin
        step, inside = self._steps(inputs, frequency)
        if margin < step:
            raise ParameterError(
                f"margin must be at least {step:g}, from one label to the next, got {margin:g}: the answer is a label, "
                "and where as many people are below one as above it is the next one in half of the cases"
            )
        return min(margin, (margin // step + inside) * step)

    @override
    def least_margin(self, inputs: Any, half: float, frequency: float | None = None) -> float:
        if not isinstance(inputs, Domain | WholeNumbers):
            return half
        step, inside = self._steps(inputs, frequency)
        whole = half // step
        return max(step, half if half <= (whole + inside) * step else (whole + 1) * step)

    def _steps(self, inputs: Domain | WholeNumbers, frequency: float | None) -> tuple[float, float]:
        """From one value to the next, and how much of a step a quantile is inside its value at least."""
        spaced = inputs.labels if isinstance(inputs, Domain) and inputs.kind == "int" else (0, 1)  # (without "other")
        steps = np.diff(np.array(spaced, float))
        step = float(np.abs(steps).min())
        if steps.min() > 0 and steps.max() > step:
            raise ParameterError(
                f"how near a quantile is, is planned of numbers that are equally far apart, got steps of {step:g} to "
                f"{steps.max():g}: declare them as text, in their order, which has an error in steps"
            )
        values = inputs.high - inputs.low if isinstance(inputs, WholeNumbers) else len(inputs.ends[0])
        at = np.array(self._probabilities) * values
        return step, 0.0 if frequency else float(np.abs(at - np.rint(at)).min())

    @override
    def error_unit(self, inputs: Any) -> str:
        labels = isinstance(inputs, Domain) and inputs.kind != "int"
        return f"steps of {getattr(inputs, 'every', 'one value')}" if labels else ""


@dataclass(frozen=True)
class QuantilesEstimate(_Placed[Quantiles]):
    """Quantiles of ordered values: the first value that at least such a share of the records does not exceed.

    Args:
        probabilities: of the quantiles, each in (0, 1).
        confidence: of each interval, in (0, 1).
        population: whom the intervals are about; see `HistogramEstimate`. `SquareWave` and `StochasticRounding` have
            errors of noise and sampling together in any case.
        repeats: the most reports of one person; see `HistogramEstimate`.

    The answers are labels, numbers as float64, dates as such and all else as text; of a cell of numbers or dates the
    estimate is its middle, and the interval has its edges (of days the first and the last day). Where one value holds
    much, intervals hold more often than they have to.

    Raises:
        ParameterError: probabilities or a confidence outside (0, 1).

    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection(range(100), epsilon=50.0)  # hardly any noise
    >>> QuantilesEstimate([0.5]).result(m, m.tally(m.perturb([20, 30, 45, 60, 70])))
    Quantiles of 5 reports, 95% intervals
    50%: 45 (45 to 45)
    """

    name: ClassVar[str] = Quantiles.question
    view: ClassVar[View] = Quantiles.view
    linear: ClassVar[bool] = True

    probabilities: tuple[float, ...] = parameter(check_probabilities, default=(0.25, 0.5, 0.75))
    confidence: float = parameter(check_open, default=0.95)
    population: Population = parameter(check_population, default=None)

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        return _schema(reader_of("a quantile", mechanism, self))

    @override
    def result(self, mechanism: Any, tally: Tally) -> Quantiles:
        made: Any = (*_columns(self, mechanism, tally), tally.n, self.confidence, mechanism, self.population)
        return Quantiles(*made)

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        reader, size = reader_of("a quantile", mechanism, self), len(self.probabilities)
        reader.watch(n, counters)
        found = reader.quantiles(n, counters, np.array(self.probabilities), self.confidence)
        columns = [np.tile(self.probabilities, len(n)), *found, np.repeat(n, size)]
        return pa.table(columns, _schema(reader)), np.full(len(n), size)


def _schema(reader: Reader) -> pa.Schema:
    kinds = (pa.float64(), *[answer_type(reader.ends[0])] * 3, pa.int64())
    return pa.schema(list(zip(QUANTILE_SCHEMA.names, kinds, strict=True)))


def _columns(question: Question[Any], mechanism: Any, tally: Tally) -> list[Any]:
    """All columns of the rows of one tally but n: numbers as arrays, all else as tuples."""
    question.check(mechanism)
    mechanism.check_tally(tally)
    table, _ = question.rows(mechanism, np.array([tally.n]), tally.counters[None])
    columns = [column.combine_chunks() for column in table.columns[:-1]]
    return [
        np.array(column)
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        else tuple(column.to_pylist())
        for column in columns
    ]


@dataclass(frozen=True, eq=False)
class Median(Result):
    """The median of ordered values: the first value that at least half of the records do not exceed.

    Attributes:
        median: the estimate: a number, or a label as text; None where there are no reports.
        low, high: ends of the confidence interval.
        population: whom it is about; see `MedianEstimate`.

    >>> Median(30.0, 30.0, 30.0, 3, 0.95)
    Median of 3 reports: 30, 95% interval 30 to 30
    """

    view: ClassVar[View] = View("median", unit="median", alone=True)
    question: ClassVar[str] = "median"

    median: float | str | dt.date | None
    low: float | str | dt.date
    high: float | str | dt.date
    n: int
    confidence: float
    mechanism: Mechanism | None = None
    population: Population = None

    def __repr__(self) -> str:
        middle, low, high = map(word, (self.median, self.low, self.high))
        return f"Median of {self.n:,} reports: {middle}, {in_percent(self.confidence)}% interval {low} to {high}"

    @override
    def to_arrow(self) -> pa.Table:
        """Table of columns median, low, high, n; one row."""
        kind = pa.scalar(self.low).type
        row = {"median": self.median, "low": self.low, "high": self.high, "n": self.n}
        return self._with_metadata(pa.Table.from_pylist([row], _median_schema(kind)))


def _median_schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema([*((name, kind) for name in ("median", "low", "high")), ("n", pa.int64())])


@dataclass(frozen=True)
class MedianEstimate(_Placed[Median]):
    """The median of ordered values, one row: `QuantilesEstimate` of 0.5.

    Args:
        confidence: of the interval, in (0, 1).
        population, repeats: see `QuantilesEstimate`.

    Raises:
        ParameterError: a confidence outside (0, 1).

    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection(range(100), epsilon=50.0)  # hardly any noise
    >>> MedianEstimate().result(m, m.tally(m.perturb([20, 30, 45])))
    Median of 3 reports: 30, 95% interval 30 to 30
    """

    name: ClassVar[str] = Median.question
    view: ClassVar[View] = Median.view
    single: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    confidence: float = parameter(check_open, default=0.95)
    population: Population = parameter(check_population, default=None)

    @property
    def _quantile(self) -> QuantilesEstimate:
        return QuantilesEstimate((0.5,), self.confidence, self.population, repeats=self.repeats)

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        return _median_schema(self._quantile.schema(mechanism).field("quantile").type)

    @override
    def result(self, mechanism: Any, tally: Tally) -> Median:
        found = (column[0] for column in _columns(self, mechanism, tally))
        numbers = [one if isinstance(one, str | dt.date | None) else float(one) for one in found]
        made: Any = (*numbers, tally.n, self.confidence, mechanism, self.population)
        return Median(*made)

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        table, lengths = self._quantile.rows(mechanism, n, counters)
        return table.drop_columns("probability").rename_columns(["median", "low", "high", "n"]), lengths


@dataclass(frozen=True, eq=False, repr=False)
class Cdf(Tabular):
    """The curve of cumulative shares, with a band that holds everywhere together. Arrays are float64[k].

    Attributes:
        values: labels, or upper edges of cells: an array of numbers, or else a tuple.
        shares: estimated shares of the records with this value or a lower one, of `Cells` and of intervals below this
            edge; not monotone, as noise is not.
        standard_errors: of ``shares``.
        low, high: ends of the band, in [0, 1].
        confidence, simultaneous, population: see `CdfEstimate`.

    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection([0, 1, 2, 3], epsilon=50.0)  # hardly any noise
    >>> CdfEstimate().result(m, m.tally(m.perturb([1, 2, 3, 3]))).shares.round(6).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """

    view: ClassVar[View] = View("share", ("value",), unit=SHARE, curve=True, alone=True)
    question: ClassVar[str] = "cdf"

    values: npt.NDArray[Any] | tuple[Any, ...]
    shares: F64
    standard_errors: F64
    low: F64
    high: F64
    n: int
    confidence: float
    simultaneous: bool
    mechanism: Mechanism | None = None
    population: Population = None

    def __len__(self) -> int:
        return len(self.shares)

    @override
    def _head(self) -> str:
        kind = "band" if self.simultaneous else "intervals"
        head = f"Cumulative shares of {self.n:,} reports at {len(self)} values, {in_percent(self.confidence)}% {kind}"
        return head + about_whom(self.population)

    @override
    def _shown(self) -> tuple[list[tuple[str, ...]], list[str]]:
        step = -(-len(self) // _SHOWN)
        rows: list[tuple[str, ...]] = [("value", "share", "std.error", "low", "high")]
        for i in range(step - 1, len(self), step):
            numbers = (array[i] for array in (self.shares, self.standard_errors, self.low, self.high))
            value = self.values[i]
            name = f"{value:.9g}" if isinstance(value, float) else text_of(value)
            rows.append((name, *(f"{100 * x:.2f} %" for x in numbers)))
        return rows, []

    @override
    def to_arrow(self) -> pa.Table:
        """Table of columns value, share, standard_error, low, high, n; a row per value."""
        columns = (self.values, self.shares, self.standard_errors, self.low, self.high, np.full(len(self), self.n))
        kind = pa.array(self.values).type
        return self._with_metadata(pa.table([pa.array(column) for column in columns], _cdf_schema(kind)))


_SHOWN = 20


def _cdf_schema(kind: pa.DataType) -> pa.Schema:
    numbers = ((name, pa.float64()) for name in ("share", "standard_error", "low", "high"))
    return pa.schema([("value", kind), *numbers, ("n", pa.int64())])


@dataclass(frozen=True)
class CdfEstimate(Question[Cdf]):
    """Which share of the records has each value or a lower one, with a band that holds for all values together.

    Args:
        confidence: of the band, in (0, 1).
        simultaneous: widen the intervals so that all hold together with that confidence (Bonferroni): a band.
        population, repeats: see `QuantilesEstimate`.

    Raises:
        ParameterError: a confidence outside (0, 1).

    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection(range(4), epsilon=50.0)  # hardly any noise
    >>> CdfEstimate().result(m, m.tally(m.perturb([0, 1, 1, 3]))).shares.round(6).tolist()
    [0.25, 0.75, 0.75, 1.0]
    """

    name: ClassVar[str] = Cdf.question
    view: ClassVar[View] = Cdf.view
    linear: ClassVar[bool] = True

    confidence: float = parameter(check_open, default=0.95)
    simultaneous: bool = parameter(check_flag, default=True)
    population: Population = parameter(check_population, default=None)

    @override
    def check(self, mechanism: Mechanism) -> None:
        reader_of("a curve", mechanism, self)

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        return _cdf_schema(reader_of("a curve", mechanism, self).ends[1].type)

    @override
    def result(self, mechanism: Any, tally: Tally) -> Cdf:
        about = (tally.n, self.confidence, self.simultaneous, mechanism, self.population)
        made: Any = (*_columns(self, mechanism, tally), *about)
        return Cdf(*made)

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        table = self._table(mechanism, n, counters)
        return table, np.full(len(n), len(table) // max(len(n), 1))

    @override
    def uncut(self, mechanism: Any, n: I64, counters: I64) -> pa.Table:
        return self._table(mechanism, n, counters, cut=False)

    def _table(self, mechanism: Any, n: I64, counters: I64, *, cut: bool = True) -> pa.Table:
        reader = reader_of("a curve", mechanism, self)
        reader.watch(n, counters)
        values = reader.ends[1]
        size = len(values)
        z = z_score(self.confidence, max(size - 1, 1) if self.simultaneous else 1)
        found = reader.curve(n, counters, z, cut=cut)
        columns = [values.take(pa.array(np.tile(np.arange(size), len(n)))), *(array.reshape(-1) for array in found)]
        return pa.table([*columns, np.repeat(n, size)], _cdf_schema(values.type))
