"""How many records of a person go on: bounded before they are perturbed, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from ldp_core import DtypeError, InputError, Keyed, ParameterError, Secret
from ldp_core.engine import check_id_type, check_integer, id_words, type_words
from ldp_polars.columns import Report, as_expr, to_arrow
from ldp_polars.frames import Frame, unused
from ldp_polars.noise import KeyedNoise, ids_to_arrow


def bound(
    frame: Frame,
    *,
    id: pl.Expr | str,  # noqa: A002 (as of keyed noise)
    records: int,
    per: pl.Expr | str | Iterable[pl.Expr | str] = (),
    key: Secret | None = None,
) -> Frame:
    """At most so many records of each person, others are dropped: before `perturb_frame`, never after it.

    A record's epsilon becomes a promise for a person, ``plan.epsilon_of(records, changes=None)`` for each
    ``per``. With ``records=1`` there is one report per person. With ``key`` it is a random one, and can spend all that
    a person may spend: far better than a share of it for each record. Of 90 days of 5,000 people with 2 in all, a
    weekly share is within 4.2 points, and within 47 if each day has 2 / 90 (docs/longitudinal.md).

    Args:
        frame: of raw records, eager or lazy. Of a lazy one all ids are held in memory at once.
        id: whose record it is: integers, String or Binary, no nulls.
        records: at least 1.
        per: for each of what: a column or an expression, as ``pl.col("time").dt.truncate("1d")``, or several. Default:
            in the whole frame.
        key: None: the first records of each person, in the order of the rows. A `Secret`: a random choice, which is
            the same each time for the same rows in the same order, and another one in each ``per``. What is kept never
            depends on other columns.

    Returns:
        The frame without the other rows; the order stays.

    Raises:
        ParameterError: bad arguments, or a column holds reports, says its dtype.
        InputError, DtypeError: when run: null ids, or ids of another type.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"user": ["ann", "bob", "ann", "ann"], "day": [1, 1, 1, 2]})
    >>> df.ldp.bound(id="user", records=1, per="day").rows()
    [('ann', 1), ('bob', 1), ('ann', 2)]
    """
    check_integer("records", records, low=1, high=(1 << 63) - 1)
    spent = sorted(name for name, dtype in frame.collect_schema().items() if isinstance(dtype, Report))
    if spent:
        raise ParameterError(
            f"bound after perturbing protects nothing: columns {spent} are reports, says their dtype, and have spent "
            "what they spend. Bound the records before they are perturbed; to estimate from one report of each person "
            "there is frame.unique(subset=id)"
        )
    if not (key is None or isinstance(key, Secret)):
        raise ParameterError(f"key must be a Secret (Secret.from_file reads one) or None, got {type(key).__name__}")
    groups: list[Any] = list(per) if isinstance(per, Iterable) and not isinstance(per, str) else [per]
    whose: list[pl.Expr] = [as_expr(id), *map(as_expr, groups)]
    order = unused(frame.collect_schema().names())  # a column: within `over`, Polars calls once a group
    taken = partial(_order, noise=None if key is None else KeyedNoise(key, ""))
    made = pl.map_batches([whose[0], pl.int_range(pl.len()).over(whose), *whose[1:]], taken, return_dtype=pl.UInt64)
    numbered = frame.with_columns(made.alias(order))
    return numbered.filter(pl.col(order).rank("ordinal").over(whose) <= records).drop(order)


def _order(inputs: Sequence[pl.Series], return_dtype: Any = None, *, noise: KeyedNoise | None) -> pl.Series:
    """Polars calls it back: (ids, number of a record in its person's period, this) -> in which order they are taken."""
    ids, numbers, *period = inputs
    if ids.null_count():
        raise InputError(f"column {ids.name!r}: {ids.null_count()} of {len(ids)} ids are null: whose are they?")
    if noise is None:
        check_id_type(ids_to_arrow(ids.head(0)).type)
        return numbers.cast(pl.UInt64)
    codes: Any = numbers.to_numpy().astype(np.uint32)
    if period:  # each has a choice of its own, also where each comes in a frame of its own
        parts = [part if len(part) == len(ids) else part.new_from_index(0, len(ids)) for part in period]  # (pl.lit)
        texts = pl.DataFrame({str(i): _text_of(part) for i, part in enumerate(parts)}).to_struct().struct.json_encode()
        codes = codes ^ id_words(to_arrow(texts), noise.secret.derive("period"))[0]
    random = Keyed(noise.secret, ids_to_arrow(ids), column="").bind("bound", codes)
    return pl.Series(ids.name, random.words(len(codes), 0))


def _text_of(period: pl.Series) -> pl.Series:
    """Equal for equal values alone; of lists and structs Polars makes the text."""
    if period.dtype == pl.Binary:
        return period.bin.encode("hex")
    if not period.dtype.is_nested():
        return (period.to_physical() if period.dtype == pl.Duration else period).cast(pl.String)
    if "Binary" in str(period.dtype):
        raise DtypeError(f"per={period.name!r}: bytes within {type_words(period.dtype)} have no text: take them apart")
    return period
