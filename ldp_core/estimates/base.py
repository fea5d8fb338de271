"""What is asked of tallies, and what comes back: an `Estimate` is the question, a `Result` the answer to it.

A kind of estimate is one file in this room: its result, what a mechanism must offer to be asked for it (a protocol),
and the frozen question with its options, which the core, Polars and Beam pass on as one thing.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa

from ldp_core.arrays.types import I64
from ldp_core.errors import ParameterError
from ldp_core.mechanism import Mechanism, not_a_mechanism
from ldp_core.parameters import Declared
from ldp_core.tables import preformatted
from ldp_core.tally import Tally

if TYPE_CHECKING:
    import polars as pl

R_co = TypeVar("R_co", covariant=True)


class Estimate(Declared, ABC, Generic[R_co]):
    """Base of a dataclass (``frozen=True, init=False``) whose fields are the options of one kind of estimate."""

    confidence: float
    """Of the intervals, in (0, 1)."""

    single: ClassVar[bool] = False
    """Whether each tally gives exactly one row of `table`; otherwise any number of them."""

    @abstractmethod
    def check(self, mechanism: Mechanism) -> None:
        """Raise `ParameterError` now for what `result` would refuse later: another kind of mechanism, bad options."""

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

    @abstractmethod
    def table(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        """The answers for k tallies as rows of one table, of columns as in `schema`, and how many rows each tally has.

        Args:
            mechanism: that made the reports; checked.
            n: int64[k], numbers of reports.
            counters: int64[k, counters], of tallies that are the mechanism's.
        """


ESTIMATES_KEY = "ldp.estimates"
"""Key of the metadata of tables and Parquet files of estimates: how they were made, a JSON list of `_how`."""


def _how(asked: object, mechanism: Mechanism) -> dict[str, Any]:
    """How an estimate was made: its options, and the mechanism.

    Args:
        asked: an `Estimate`, or a result that has its options.
        mechanism: that made the reports.
    """
    names = ("confidence", "simultaneous", "consistency", "method", "threshold")
    options = {name: value for name in names if (value := getattr(asked, name, None)) is not None}
    return {**options, "epsilon": mechanism.epsilon, "mechanism": mechanism.to_dict()}


def estimates_metadata(asked: Mapping[str, tuple[Estimate[Any], Mechanism]]) -> dict[str, str]:
    """Metadata for a Parquet file of estimates: the confidence of the intervals, and each column's mechanism.

    Args:
        asked: by column of the reports, what was estimated and which mechanism made them.

    Returns:
        One key, `ESTIMATES_KEY`: a JSON list with an object for each column: ``column_name``, the options of the
        estimate (``confidence`` and others), ``epsilon``, and ``mechanism`` as `Mechanism.to_dict` has it. For
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

    Frozen, compared by value, picklable, and a table.

    Attributes:
        mechanism: that made the reports; None if it is not known.
    """

    mechanism: Mechanism | None

    def __post_init__(self) -> None:
        for value in self._values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def _key(self) -> tuple[Any, ...]:
        return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in self._values())

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

    def _told(self, table: pa.Table) -> pa.Table:
        """The table, with how it was made in the metadata of its schema, as `estimates_metadata`."""
        if self.mechanism is None:
            return table
        return table.replace_schema_metadata({ESTIMATES_KEY: json.dumps([_how(self, self.mechanism)])})

    def to_polars(self) -> pl.DataFrame:
        """`to_arrow` as a Polars frame; needs Polars."""
        import polars as pl  # noqa: PLC0415 (optional: the core does not depend on it)

        return pl.DataFrame(self.to_arrow())


def tables(estimate: Estimate[Result], mechanism: Mechanism, n: I64, counters: I64) -> tuple[pa.Table, I64]:
    """`Estimate.table` of estimates that are made one tally at a time."""
    schema = estimate.schema(mechanism)
    made = [
        estimate.result(mechanism, Tally(int(a), b, mechanism.fingerprint)).to_arrow().cast(schema)
        for a, b in zip(n, counters, strict=True)
    ]
    return pa.concat_tables([schema.empty_table(), *made]), np.array([len(table) for table in made], np.int64)


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
