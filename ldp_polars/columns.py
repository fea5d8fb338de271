"""Columns of values and of reports: as expressions, as Arrow, their dtypes, and the dtype that carries the mechanism.

`Report` travels in Arrow, Parquet and IPC as the extension type ``ldp.report`` with the mechanism's JSON as metadata. A
program that does not know it sees the plain reports. Reports of two mechanisms do not concatenate, nor do reports and
values, so that the dtype is the proof that a column holds reports: nothing else of a column survives a lazy plan.
(Polars calls its extension types unstable.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from polars import selectors as cs
from typing_extensions import override

from ldp_core import DtypeError, FrequencyOracle, Mechanism, ParameterError, ReportError, engine
from ldp_core.engine import REPORT_TYPE as NAME
from ldp_core.engine import type_words

# ---- what functions are given


def as_expr(expr: pl.Expr | str) -> pl.Expr:
    """An expression as it is, or the column of a name."""
    if isinstance(expr, str):  # pl.col reads "*" and "^...$" as patterns
        return cs.by_name(expr) if expr == "*" or expr[:1] == "^" else pl.col(expr)
    if not isinstance(expr, pl.Expr):
        raise ParameterError(f"expected an expression or a column's name, got {type(expr).__name__}")
    return expr


def check_mechanism(mechanism: Mechanism) -> Mechanism:
    """Return ``mechanism``; raise `ParameterError` if it is none."""
    if not isinstance(mechanism, Mechanism):
        frames = "a plan is for a frame, df.ldp.perturb(plan) and reports.ldp.histograms(plan); "
        raise ParameterError(f"expected a mechanism, got {engine.not_a_mechanism(mechanism, frames)}")
    return mechanism


def in_query(function: Callable[..., pl.Series], **options: Any) -> Callable[..., pl.Series]:
    """``function`` with these options, for Polars to call back; an expression shows a warning of it once."""
    return partial(_in_query, function, {}, **options)


def _in_query(
    function: Callable[..., pl.Series],
    shown: dict[Any, int],
    inputs: Sequence[pl.Series],
    return_dtype: Any = None,
    **options: Any,
) -> pl.Series:
    with engine.shown_once(shown):
        return function(inputs, return_dtype, **options)


# ---- dtypes


@lru_cache(maxsize=256)
def dtype_of(arrow_type: pa.DataType) -> pl.DataType:
    """What Polars makes of an Arrow type."""
    return pl.Series(pa.array([], arrow_type)).dtype


def report_dtype(mechanism: Mechanism, *, packed: bool) -> pl.DataType:
    """Dtype of a column of reports: text is an Enum of the domain's values."""
    arrow_type = mechanism.reports.arrow_type(packed=packed)
    if pa.types.is_dictionary(arrow_type) and isinstance(mechanism, FrequencyOracle):
        return pl.Enum(mechanism.domain.texts)
    return dtype_of(arrow_type)


def physical(mechanism: Mechanism, *, packed: bool, typed: bool) -> pl.DataType:
    """Dtype of the reports as a Python function returns them: for an Enum its codes, for typed text String."""
    dtype = report_dtype(mechanism, packed=packed)
    if not isinstance(dtype, pl.Enum):
        return dtype
    return pl.String() if typed else pl.Series(dtype=dtype).to_physical().dtype


def from_physical(
    reports: pl.Expr, mechanism: Mechanism, *, packed: bool, typed: bool, seeded: bool, keyed: bool
) -> pl.Expr:
    """Reports as a Python function returned them, in the dtype that users see."""
    if typed:
        return reports.ext.to(Report(mechanism, packed=packed, seeded=seeded, keyed=keyed))
    dtype = report_dtype(mechanism, packed=packed)
    return reports.cat.to(dtype) if isinstance(dtype, pl.Enum) else reports


# ---- Series and Arrow arrays


def to_arrow(values: pl.Series, kind: str = "") -> pa.Array:
    """``values`` as Arrow, for inputs of this kind: 128-bit integers as floats for an interval.

    Else what does not fit in 64 bits is no label, and becomes null.
    """
    with suppress(pa.ArrowException):
        arrow = unnamed(values).to_arrow()
        if not pa.types.is_fixed_size_binary(arrow.type):
            return arrow
        raise DtypeError(  # (places in memory; the dtype of an Enum is slow to ask for)
            f"column {values.name!r} has Python objects, as of uuid.UUID, which no other program reads: make text of "
            "them before, as column.map_elements(str, return_dtype=pl.String)"
        )
    if values.dtype in (pl.Int128, pl.UInt128):
        return values.cast(pl.Float64 if kind == "float" else pl.Int64, strict=False).to_arrow()
    raise DtypeError(f"column {values.name!r}: Arrow has no type for {type_words(values.dtype)}")


@contextmanager
def polars_words(values: pl.Series, arrow: pa.Array, *others: pa.DataType) -> Iterator[None]:
    """Errors about the type of ``arrow``, which is ``values``, have Polars' name of it, and of other types."""
    try:
        yield
    except (DtypeError, ReportError) as error:
        kind, words, theirs, ours = type(error), str(error), type_words(arrow.type), type_words(values.dtype)
        words = words.replace(f"got {theirs}", f"got {ours}").replace(f"type {theirs}", f"type {ours}")
        for other in others:
            words = words.replace(str(other), str(dtype_of(other)))
    else:
        return
    raise kind(words)


def to_physical(name: str, reports: pa.Array, dtype: pl.DataType) -> pl.Series:
    """Arrow reports as a Series of physical ``dtype``; no copy unless they are text or the code width differs."""
    if not isinstance(reports, pa.DictionaryArray):
        return pl.Series(name, reports)
    codes = pl.Series(name, reports.indices)
    if dtype == pl.String:  # 20 times as fast as a cast of an Enum
        return unnamed(pl.Series(reports.dictionary)).gather(codes).alias(name)
    return codes.cast(dtype)


def answers_of(name: str, table: pa.Table, lengths: Sequence[int] | engine.I64 | None, dtype: Any) -> pl.Series:
    """Rows as structs, one each; or, of so many rows each, as lists of them."""
    rows = engine.structs(table)
    if lengths is not None:
        rows = pa.LargeListArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(lengths)))), rows)
    return pl.Series(name, rows).cast(dtype)


def with_nulls(values: pl.Series, there: pl.Series) -> pl.Series:
    """``values``, in order, in the rows that are ``there``, and null in the others."""
    if there.all():
        return values
    there = unnamed(there)
    position = there.cum_sum().cast(pl.Int64) - 1
    return unnamed(values).gather(position.set(~there, None)).alias(values.name)


def unnamed(values: pl.Series) -> pl.Series:
    """``values`` for Polars' own methods, many of which look a Series up by its name, and ``^x$`` as a pattern."""
    return values.alias("")


# ---- typed reports


class Report(pl.BaseExtension):
    """Dtype of the reports of one mechanism.

    >>> from ldp_core import RandomizedResponse
    >>> Report(RandomizedResponse(epsilon=1.0)).mechanism
    RandomizedResponse(domain=Domain([False, True]), epsilon=1.0, coins=None)
    """

    def __init__(
        self, mechanism: Mechanism, *, packed: bool = False, seeded: bool = False, keyed: bool = False
    ) -> None:
        dtype = report_dtype(mechanism, packed=packed)
        # Text as String, because Polars 2.1 cannot export an extension of an Enum.
        storage = pl.String() if isinstance(dtype, pl.Enum) else dtype
        super().__init__(NAME, storage, engine.describe(mechanism, seeded=seeded, keyed=keyed))

    @classmethod
    @override
    def ext_from_params(cls, name: str, storage: Any, metadata: str | None) -> Report:
        """What Polars makes of a column that it reads: columns of one mechanism have one text, and so concatenate."""
        return super().ext_from_params(name, storage, None if metadata is None else engine.canonical_once(metadata))

    @property
    def made(self) -> engine.Made:
        """The mechanism, and what is known of the noise."""
        return engine.described_once(self.ext_metadata() or "{}")

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that made the reports."""
        return self.made.mechanism

    @property
    def seeded(self) -> bool:
        """Whether they were made under ``seed=``: such reports are **not private**."""
        return self.made.seeded

    @property
    def keyed(self) -> bool:
        """Whether they are known to be made under ``key=``: a person's reports of one value have the same noise."""
        return self.made.keyed or self.mechanism.memoized

    @override
    def _string_repr(self) -> str:
        return NAME


pl.register_extension_type(NAME, Report)


def as_typed(name: str, dtype: pl.DataType, mechanism: Mechanism, seeded: bool) -> pl.Expr:
    """A plain column of reports, whose dtype is one of `report_dtype` or, of an Enum, Categorical, as typed ones."""
    packed = isinstance(dtype, pl.Array) and dtype != report_dtype(mechanism, packed=False)
    column = cs.by_name(name)  # (pl.col reads "*" and "^...$" as patterns)
    plain = column.cast(pl.String) if isinstance(dtype, (pl.Enum, pl.Categorical)) else column
    return plain.ext.to(Report(mechanism, packed=packed, seeded=seeded))


def check_proved(dtypes: Mapping[str, Any], *, assume_reports: bool) -> None:
    """Raise `DtypeError` unless dtypes say that columns are reports, or somebody gives their word, with a warning."""
    plain = [name for name, dtype in dtypes.items() if not isinstance(dtype, Report)]
    if plain and not assume_reports:
        raise DtypeError(engine.not_proved(plain))
    if plain:
        engine.warn_assumed(plain)


def maker_of(reports: pl.Expr, dtype: Any, mechanism: Mechanism | None, *, assume_reports: bool) -> Mechanism:
    """The mechanism that made a column's reports, given or named by the dtype; see `check_proved` for errors."""
    name = reports.meta.output_name(raise_if_undetermined=False) or ""
    if mechanism is not None:
        check_proved({name: dtype}, assume_reports=assume_reports)
        return mechanism
    if isinstance(dtype, Report):
        return dtype.mechanism
    raise DtypeError(
        f"column {name!r}: pass the mechanism that made the reports, as only typed reports carry "
        f"it, not {type_words(dtype)}; if these are values, perturb them first: .ldp.perturb(mechanism)"
    )


def untyped(reports: pl.Series, mechanism: Mechanism) -> pl.Series:
    """Plain reports; a `MechanismMismatchError` if their dtype says that another mechanism made them."""
    if not isinstance(reports.dtype, Report):
        return reports
    engine.check_same(reports.dtype.mechanism, mechanism, reports.name)
    return unnamed(reports).ext.storage().alias(reports.name)


def refuse_reports(dtypes: Mapping[str, Any]) -> None:
    """Raise `MechanismMismatchError` if a dtype says that a column holds reports: perturbed again they are wrong."""
    engine.refuse_reports_in((name for name, dtype in dtypes.items() if isinstance(dtype, Report)), "their dtype")


def holds_reports(dtype: Any) -> bool:
    """Whether this is the dtype of reports, or of structs or lists of some."""
    if isinstance(dtype, pl.Struct):
        return any(holds_reports(field.dtype) for field in dtype.fields)
    return isinstance(dtype, Report) or (isinstance(dtype, (pl.List, pl.Array)) and holds_reports(dtype.inner))


def is_seeded(dtype: Any) -> bool:
    """Whether this is the dtype of reports made under ``seed=`` (it does not say under which)."""
    return isinstance(dtype, Report) and dtype.seeded


def of_one_seed(say: str) -> ParameterError:
    """To raise where two frames may have the noise of one seed, and nobody says what it has in common."""
    return ParameterError(
        f"these reports are seeded, and one seed has the same noise in rows of the same position: {say}"
    )


def of_one_noise(dtypes: Iterable[tuple[str, Any]]) -> list[list[str]]:
    """The pairs of columns that have keyed noise of one mechanism, and share it if they are one column at two times.

    An unchanged value has one report then. (The product of its two weights is, on average, 1 and the variance of a
    weight, in place of 1.)
    """
    keyed = [(name, dtype.mechanism) for name, dtype in dtypes if isinstance(dtype, Report) and dtype.keyed]
    return [[name, other] for (name, m), (other, same) in combinations(keyed, 2) if m == same]


def check_repeats_said(name: str, dtype: Any, mechanism: Mechanism, repeats: int | None) -> None:
    """Raise `ParameterError` if dtype or mechanism say that noise is keyed, and nobody says how often people report."""
    keyed = mechanism.memoized or (isinstance(dtype, Report) and dtype.keyed)
    if keyed and repeats is None:
        raise engine.unsaid_repeats(name)
