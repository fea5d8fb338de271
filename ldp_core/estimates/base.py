"""What is asked of tallies, and what comes back: a `Question`, and a `Result`, the answer to it.

A kind of question is one file in this room: its result, what a mechanism must offer to be asked it (a protocol), and
the frozen question with its options, which the core, Polars, Beam, the command, pictures and reports pass on as one
thing and know nothing more of.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import I64
from ldp_core.errors import ParameterError
from ldp_core.mechanism import Mechanism, not_a_mechanism
from ldp_core.parameters import Declared, check_integer, parameter, shown
from ldp_core.randomizer.tallying import Tallier
from ldp_core.tables import View, aligned, html, in_percent, preformatted
from ldp_core.tally import MOST, Tally

if TYPE_CHECKING:
    import polars as pl

    from ldp_core.charts.themes import Chart, Theme
R_co = TypeVar("R_co", covariant=True)

Population: TypeAlias = Literal["many"] | int | None
"""Whom an interval is about.

None: the people who reported, so that noise is the only error. ``"many"``: a population of which they are a random
sample, so large that it does not matter how large. An integer N: a population of N people, of whom they are a random
sample without replacement.
"""


def check_population(name: str, value: Population) -> Population:
    """Return ``value``; raise `ParameterError` unless it is None, "many" or an integer from 1 on."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 1 <= value <= MOST
    if value is None or value == "many" or whole:
        return int(value) if isinstance(value, np.integer) else value
    raise ParameterError(
        f'{name} must be None (these people), "many", or how many people there are, 1 to 2^63 - 1; got {shown(value)}'
    )


def sampled_part(population: Population, n: Any, repeats: int | None = None) -> Any:
    """What part of its variance the mean of a random sample of ``n`` people has: Var = part * (variance of one) / n.

    (N - n) / (N - 1) for a population of N people (W. G. Cochran, "Sampling Techniques", 3rd ed., 1977, Theorem 3.2 for
    shares; of means it is Theorem 2.2, whose S^2 is N / (N - 1) times the variance of one); 1 for many, 0 for the
    sample itself. Of n reports, at most ``repeats`` of each person, let a person have the part w: their mean has
    (N sum w^2 - 1) / (N - 1) of the variance of one, and sum w^2 is at most repeats / n. So it is that of the mean of
    as few people as they can be of, n / repeats.

    Raises:
        ParameterError: more people reported than there are.

    >>> sampled_part("many", 100), sampled_part(None, 100), sampled_part(100, 100), sampled_part(199, 100)
    (1.0, 0.0, 0.0, 0.5)
    >>> sampled_part(199, 300, repeats=3)
    0.5
    """
    if population is None or population == "many":
        return float(population is not None)
    each = repeats or 1
    fewest = -(-int(np.max(n, initial=0)) // each)
    if fewest > population:
        raise ParameterError(
            f"population={population} is less than the {fewest} who reported: give the number of all people of whom "
            'these are a sample, "many" if it is not known, or None for these people themselves'
        )
    return (population - n / each) / max(population - 1, 1)


def check_repeats(name: str, value: int | None) -> int | None:
    """Return ``value``; raise `ParameterError` unless it is None or an integer from 1 on."""
    return None if value is None else check_integer(name, value, 1, MOST)


def refuse_repeats(what: str) -> ParameterError:
    """To raise where people report several times, and the error of the answer is not known then."""
    return ParameterError(
        f"{what} is no sum over reports, so that its error is not known if a person has several: keep one report of "
        "each person in what is estimated, and say repeats=1; or ask for a mean, or of listed values for a histogram"
    )


@dataclass(frozen=True, kw_only=True)
class OfAll(Declared):
    """The options of all questions, and of comparisons."""

    repeats: int | None = parameter(check_repeats, default=None)


class Question(OfAll, ABC, Generic[R_co]):
    """Base of a dataclass (``frozen=True``) whose fields are the options of one kind of question, each a `parameter`.

    A subclass is known by its `name` from the moment that its module is imported. `ldp_core.estimates.registry` says
    which question is asked of a mechanism if nothing is said. Each has the option ``repeats``, by keyword only: the
    most reports of one person in a tally, see `HistogramEstimate`. More than one is refused unless it is `linear`.
    """

    name: ClassVar[str]
    """In plans, YAML, files and on the command line."""

    view: ClassVar[View]
    """Which columns of `rows` people look at."""

    single: ClassVar[bool] = False
    """Whether each tally gives exactly one row of `rows`; otherwise any number of them."""

    linear: ClassVar[bool] = False
    """Whether answers follow from sums over reports, and are as uncertain as ``repeats`` says."""

    confidence: float
    """Of the intervals, in (0, 1)."""

    population: Population = None
    """Whom the intervals are about, where that is an option."""

    _named: ClassVar[dict[str, type[Question[Any]]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            Question._named[cls.name] = cls

    def __post_init__(self) -> None:
        self._declare(**vars(self))
        if (self.repeats or 1) > 1 and not self.linear:
            raise refuse_repeats(f"the answer to {self.name}")

    @property
    def times(self) -> float:
        """How many times as wide intervals are as those of independent reports; see `clusters` in this room."""
        return math.sqrt(self.repeats or 1)

    @classmethod
    def view_of(cls, columns: Collection[str], name: str = "") -> View | None:
        """How people look at rows with these columns, in order, under this name; None if the answers have others."""
        return cls.view if cls.view.fits(columns) else None

    @abstractmethod
    def check(self, mechanism: Mechanism) -> None:
        """Raise `ParameterError` now for what `result` would refuse later: another kind of mechanism, bad options."""

    def tallier(self, mechanism: Any) -> Tallier:
        """What makes the tallies that this question is asked of: the mechanism, as long as its own tally is enough.

        A question that needs other counts (of several columns together, of products) returns a `Tallier` of its own,
        whose report format may read a struct of several columns. Its tallies add up as all others.
        """
        return mechanism

    @abstractmethod
    def schema(self, mechanism: Mechanism) -> pa.Schema:
        """Names and types of the columns of `rows`."""

    @abstractmethod
    def result(self, mechanism: Any, tally: Tally) -> R_co:
        """The answer for one tally.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: see `check`.
        """

    def of_persons(self, mechanism: Any, reports: Any, persons: Any, *, column: str = "reports") -> R_co:
        """The answer, where several reports may be of one person: with intervals of independent people.

        Args:
            mechanism: that made the reports.
            reports: what it returned.
            persons: whose they are: integers, text or binary, one a report. A pseudonym that is made for this will do.
            column: what to call the reports in an error message.

        Raises:
            InputError: persons that are no ids.
            ParameterError: see `check`; or there are no such intervals of this kind of question.
        """
        raise ParameterError(f"the question {self.name} does not tell persons apart: histograms and means do")

    def person_sums(self, mechanism: Any, n: I64, counters: I64) -> Any:
        """`Persons` of k persons and their tallies (see `rows`), which `of_sums` takes; those of all are added up."""
        raise ParameterError(f"the question {self.name} does not tell persons apart: histograms and means do")

    def of_sums(self, mechanism: Any, tally: Tally, sums: Any) -> R_co:
        """`of_persons`, given the tally of all reports and the `person_sums` of all who sent them."""
        raise NotImplementedError

    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        """The answers for k tallies as rows of one table, of columns as in `schema`, and how many rows each tally has.

        A question that can answer many tallies at once does it here; by default they are answered one by one. The
        mechanism is checked; n is int64[k], and counters, of the tallier's tallies, int64[k, counters].
        """
        schema, fingerprint = self.schema(mechanism), self.tallier(mechanism).fingerprint
        results: list[Any] = [
            self.result(mechanism, Tally(int(a), b, fingerprint)) for a, b in zip(n, counters, strict=True)
        ]
        tables = [one.to_arrow().cast(schema) for one in results]
        return pa.concat_tables([schema.empty_table(), *tables]), np.array([len(table) for table in tables], np.int64)

    def expected_error(
        self, mechanism: Any, n: int, counters: I64, frequency: float | None = None
    ) -> tuple[float, float]:
        """The standard error and half of the interval to expect, by its own formulas, from the expected counters.

        A root mean square over the rows, and the widest of `uncut` ones: as shares of the records, if the view says
        counts or shares, or in the answer's own unit. A ``frequency`` is that of quantiles, see
        `QuantilesEstimate.expected_error`.

        Raises:
            ParameterError: a frequency, or answers that are no numbers.
        """
        if frequency is not None:
            raise ParameterError(f"frequency is that of the values near a quantile: {self.name} has none, leave it out")
        table = self.uncut(mechanism, np.array([n]), counters[None])
        if not pa.types.is_floating(table.schema.field("high").type):
            raise ParameterError(f"the answers of {self.name} are no numbers, of which an error is known in advance")
        low, high = (np.array(table[name]) for name in ("low", "high"))
        half, known = float((high - low).max()) / 2, "standard_error" in table.schema.names
        error = np.array(table["standard_error"]) if known else half / z_score(self.confidence)
        records = n if self.view.counts else 1
        return float(np.sqrt(np.mean(np.square(error)))) / records, half / records

    def uncut(self, mechanism: Any, n: I64, counters: I64) -> pa.Table:
        """`rows`, with intervals as long as errors are where those of `rows` end with what can be true."""
        return self.rows(mechanism, n, counters)[0]

    def rounding(self, mechanism: Any) -> float:
        """By how much an answer may be off what `expected_error` is of: half of a cell whose middle it is."""
        return 0.0

    def whole_steps(self, inputs: Any, margin: float, frequency: float | None = None) -> float:
        """What of a margin answers can use: of labels, whole steps; of less than one raise `ParameterError`."""
        return margin

    def least_margin(self, inputs: Any, half: float, frequency: float | None = None) -> float:
        """The least margin of which `whole_steps` leaves that much."""
        return half

    def error_unit(self, inputs: Any) -> str:
        """In what `expected_error` is of these inputs, if it is neither shares nor the unit of numbers."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form, as YAML has it: the name under ``question``, and the options that are not None.

        >>> from ldp_core import HistogramEstimate
        >>> HistogramEstimate(confidence=0.9).to_dict()
        {'question': 'histogram', 'confidence': 0.9, 'simultaneous': False}
        """
        options = {name: value for name, value in self._parameters().items() if value is not None}
        return {"question": self.name, **options}


ESTIMATES_KEY = "ldp.estimates"
"""Key of the metadata of tables and Parquet files of estimates: how they were made, a JSON list of `_how`."""


def _how(asked: object, mechanism: Mechanism) -> dict[str, Any]:
    """How an estimate was made: the options of a `Question`, or of a result that has them, and the mechanism."""
    if isinstance(asked, Question):
        options = asked.to_dict()
    else:
        names = dict.fromkeys(name for kind in Question._named.values() for name in kind.__annotations__)
        names = dict.fromkeys(["question", *names])
        options = {name: value for name in names if isinstance(value := getattr(asked, name, None), (int, float, str))}
    return {**options, "epsilon": mechanism.epsilon, "mechanism": mechanism.to_dict()}


def estimates_metadata(asked: Mapping[str, tuple[Question[Any], Mechanism]]) -> dict[str, str]:
    """Metadata for a Parquet file of estimates: the confidence of the intervals, and each column's mechanism.

    It is a JSON list under `ESTIMATES_KEY`, with an object for each column of the reports: ``column_name``, the
    question as `Question.to_dict` has it, ``epsilon``, and ``mechanism`` as `Mechanism.to_dict` has it. For
    ``pl.DataFrame.write_parquet(..., metadata=)``; in Arrow for ``table.replace_schema_metadata``.

    >>> from ldp_core import HistogramEstimate, RandomizedResponse
    >>> metadata = estimates_metadata({"crashed": (HistogramEstimate(), RandomizedResponse(epsilon=1.0))})
    >>> [(how["column_name"], how["confidence"], how["epsilon"]) for how in json.loads(metadata["ldp.estimates"])]
    [('crashed', 0.95, 1.0)]
    """
    found = [{"column_name": name, **_how(estimate, mechanism)} for name, (estimate, mechanism) in asked.items()]
    return {ESTIMATES_KEY: json.dumps(found)}


class Result(ABC):
    """Base of a dataclass (``frozen=True, eq=False``) of which some fields are numpy arrays; they become read-only.

    Frozen, compared by value, picklable, a table and a picture.

    Attributes:
        view: which columns of the table people look at.
        n: number of reports.
        confidence: of the intervals.
        mechanism: that made the reports; None if it is not known.
    """

    view: ClassVar[View]
    question: ClassVar[str] = ""
    """The name of the question that it answers."""

    n: int
    confidence: float
    mechanism: Mechanism | None

    def __post_init__(self) -> None:
        for value in self._values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def _key(self) -> tuple[Any, ...]:
        """Hashable; what is not known is equal to itself."""
        each = (math.nan if isinstance(value, float) and math.isnan(value) else value for value in self._values())
        return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in each)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()

    def __deepcopy__(self, memo: object) -> Self:
        return self  # immutable

    def _repr_html_(self) -> str:
        return preformatted(repr(self))

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """As a table."""

    def plot(
        self,
        *,
        truth: Mapping[Any, float] | float | None = None,
        shares: bool = False,
        top: int = 20,
        title: str = "",
        theme: Theme | None = "light",
    ) -> Chart:
        """The estimates with their intervals, as an Altair chart; needs the extra ``plot``.

        Values have bars, buckets have areas, a single number has a point. Where buckets have different widths, the
        height is the share divided by the width, so that the area is the share.

        Args:
            truth: the true number, or value to true count, if it is known; intervals that do not hold it are drawn in
                another color.
            shares: of counts: shares of the n records in their place.
            top: draw at most so many values; if there are more, those of the largest counts.
            title: what is shown above.
            theme: ``"light"``, ``"dark"``, or None for a chart without colors of its own.

        Raises:
            MissingExtraError: Altair is not installed.
            ParameterError: bad options.

        >>> from ldp_core import RandomizedResponse
        >>> m = RandomizedResponse(["ios", "android"], epsilon=2.0)
        >>> chart = m.estimate(m.simulate([700, 300], seed=1)).plot(title="systems")
        >>> chart.to_dict()["title"]["subtitle"]
        ['1,000 reports, 95 % intervals']
        """
        from ldp_core.charts.drawing import draw  # noqa: PLC0415 (only who draws needs it)

        options: dict[str, Any] = {"truth": truth, "shares": shares, "top": top, "title": title, "theme": theme}
        about: dict[str, Any] = {"n": self.n, "confidence": self.confidence, "least": getattr(self, "threshold", None)}
        about |= {"population": getattr(self, "population", None)}
        return draw(self.to_arrow().to_pylist(), self.view, **about, **options)

    def _with_metadata(self, table: pa.Table) -> pa.Table:
        """The table, with how it was made in the metadata of its schema, as `estimates_metadata`."""
        if self.mechanism is None:
            return table
        return table.replace_schema_metadata({ESTIMATES_KEY: json.dumps([_how(self, self.mechanism)])})

    def to_polars(self) -> pl.DataFrame:
        """`to_arrow` as a Polars frame; needs Polars."""
        import polars as pl  # noqa: PLC0415 (optional: the core does not depend on it)

        return pl.DataFrame(self.to_arrow())


class Tabular(Result):
    """Base of a result that people see as a table below a line of words."""

    _names: ClassVar[int] = 1
    """How many columns of the table stand before those of numbers."""

    @abstractmethod
    def _head(self) -> str:
        """What is shown above the table."""

    @abstractmethod
    def _shown(self) -> tuple[list[tuple[str, ...]], list[str]]:
        """Rows of cells, the heads first, and notes; no rows if there are too many."""

    def __repr__(self) -> str:
        rows, notes = self._shown()
        lines = aligned(rows, numbers=range(self._names, len(rows[0]))) if rows else []
        return "\n".join([self._head(), *lines, *notes])

    @override
    def _repr_html_(self) -> str:
        rows, notes = self._shown()
        if not rows:
            return preformatted(repr(self))
        return html(rows, title=self._head(), numbers=range(self._names, len(rows[0])), notes=notes)


class SingleNumber(Result):
    """Base of a result that is one number, in the field that the view names, with its standard error and interval."""

    standard_error: float
    low: float
    high: float

    def __repr__(self) -> str:
        numbers = f"{getattr(self, self.view.estimate):.6g}, standard error {self.standard_error:.3g}"
        ends = f"{self.low:.6g} to {self.high:.6g}" if math.isfinite(self.high - self.low) else "unbounded"
        head = f"{type(self).__name__} of {self.n:,} {'records' if self.mechanism is None else 'reports'}"
        return f"{head}: {numbers}, {in_percent(self.confidence)}% interval {ends}"

    @classmethod
    def arrow_schema(cls) -> pa.Schema:
        """Columns: the estimate, standard_error, low, high, n."""
        floats = ((name, pa.float64()) for name in (cls.view.estimate, "standard_error", "low", "high"))
        return pa.schema([*floats, ("n", pa.int64())])

    @override
    def to_arrow(self) -> pa.Table:
        """Table of the columns of `arrow_schema`; one row."""
        schema = self.arrow_schema()
        return self._with_metadata(pa.Table.from_pylist([{name: getattr(self, name) for name in schema.names}], schema))


OFFERS = (
    "frequency oracles have histograms; mechanisms for numbers have a mean, and SquareWave and StochasticRounding also "
    "a distribution; HeavyHitters has heavy hitters; a sketch has histograms of candidates, sketch.over([...])"
)
"""What to ask of which mechanism."""


def refuse_mechanism(what: str, needed: str, mechanism: object) -> ParameterError:
    """To raise for an estimate that the mechanism does not offer."""
    if not isinstance(mechanism, Mechanism):
        return ParameterError(f"{what} needs {needed}, got {not_a_mechanism(mechanism)}")
    return ParameterError(f"{what} needs {needed}, got {type(mechanism).__name__}: {OFFERS}")


def z_score(confidence: float, together: int = 1) -> float:
    """How many standard errors a normal interval reaches to either side, if so many hold together (Bonferroni)."""
    return -NormalDist().inv_cdf((1 - confidence) / (2 * together))


def score_reach(z: Any, error: Any, slope: Any, curve: Any = 0.0) -> Any:
    """How far a score interval reaches: the greatest x with x^2 <= z^2 (error^2 + slope x - curve x^2).

    So the variance of an estimate is error^2 if it is true, and changes like that if the truth is x farther out.
    """
    half, scale = z**2 * slope / 2, 1 + z**2 * curve
    return (half + np.hypot(half, z * error * np.sqrt(scale))) / scale
