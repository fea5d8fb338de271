"""Noise that is not fresh: keyed by a person's id, or seeded for a run that can be repeated."""

from __future__ import annotations

import pickle
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import polars as pl
import pyarrow as pa

from ldp_core import InputError, Keyed, ParameterError, Secret
from ldp_core.engine import refuse_own, warn_user
from ldp_polars.columns import as_expr, to_arrow


class NoiseOptions(TypedDict, total=False):
    """Where noise comes from; without any of these it is fresh, as it should be where nothing speaks against it.

    Args:
        key: a `ldp_core.Secret`. The report is then a function of secret, mechanism, ``tag``, ``id`` and value, on
            every engine and for ever: repeated collection of an unchanged value does not average the noise away.
        id: with ``key``: whose value it is. An expression or a column's name; integers, String or Binary, no nulls. See
            `ldp_core.Keyed` for which ids are equal.
        seed: an integer that makes a run repeatable. **Such reports are not private**: for tests and simulation.
        row_id: with ``seed``: what identifies a row, as ``id`` does. Default the row's position, which is
            right in ``select`` and ``with_columns`` only, where no earlier step filters, sorts or samples.
        tag: name of the noise; different tags are independent. Default the column's name; what is computed needs a tag,
            or an alias before. With a plan, and with an expression that may be several columns (a selector,
            ``pl.col("^q_.*$")``), the tag is added to their names.
    """

    key: Secret | None
    id: pl.Expr | str | None
    seed: int | None
    row_id: pl.Expr | str | None
    tag: str | None


@dataclass(frozen=True)
class KeyedNoise:
    """What a perturbing function needs to make `Keyed` noise from ids."""

    secret: Secret
    column: str | None  # the first name of the noise; None for the column's own
    tag: str | None = None  # the other one, of a plan or of several columns
    by_position: bool = False  # the ids are row positions, which must not repeat within a call
    nameless: bool = False  # the column that is perturbed really has the empty name

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled; a warning says why a secret is not: Polars drops the error, and asks for cloudpickle."""
        try:
            pickle.dumps(self.secret)
        except TypeError as error:
            warn_user(str(error))
            raise
        return self.__dict__

    def randomness(self, ids: pl.Series, column: str) -> Keyed:
        """The noise of the records with these ids."""
        name = column if self.column is None else self.column
        if not name and (self.column is None or not self.tag):
            alone = "perturb one column at a time and " if self.tag else ""
            raise ParameterError(
                f"{alone}pass tag= here: Polars does not tell the name of the column, which names the noise"
            )
        if self.by_position:
            # Groups come one after the other, or, in windows, one a call: Polars then does not tell the column's name.
            increasing = len(ids) < 2 or bool(np.all(np.diff(ids.to_numpy().astype(np.int64)) > 0))
            if not (increasing and (column or self.nameless)):
                raise ParameterError("row positions repeat in groups, and so would the seeded noise: pass row_id=")
        return Keyed(self.secret, ids_to_arrow(ids), column=name, tag=self.tag)


def ids_to_arrow(ids: pl.Series) -> pa.Array:
    """Ids as `Keyed` takes them; those of 128 bits, which Arrow has no integers for, as decimals."""
    wide: pl.Series | None = ids
    if ids.dtype in (pl.Int128, pl.UInt128):
        wide = None
        with suppress(pl.exceptions.PolarsError):
            wide = ids.cast(pl.Decimal(38, 0))
    if wide is None:
        raise InputError(f"ids are integers of at most 38 digits, and some of these {len(ids)} have more")
    return to_arrow(wide)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise `ParameterError` unless these are options of noise."""
    known = sorted(NoiseOptions.__annotations__)
    if unknown := sorted(options.keys() - set(known)):
        spends = "the mechanism's" if "epsilon" in unknown else "epsilon="
        raise ParameterError(
            f"there are no arguments {unknown}: what a report spends is {spends}, and those of the noise are {known}"
        )


def keyed_noise(
    options: NoiseOptions, values: pl.Expr, column: str | None = None
) -> tuple[KeyedNoise | None, pl.Expr | str | None]:
    """The noise of ``values`` that ``options`` ask for, and the column of its ids; (None, None) for fresh noise.

    Args:
        options: of one column, whose noise the tag names, or of several, to whose names it is added, as one name for
            all would be one noise for all; of a plan, if there is a
        column: a column of it, which the tag is added to.
        values: what is perturbed.
    """
    check_options(options)
    key, seed = options.get("key"), options.get("seed")
    ids, row_id, tag = options.get("id"), options.get("row_id"), options.get("tag")
    name = values.meta.output_name(raise_if_undetermined=False)
    if (key is not None or seed is not None) and column is tag is None and _is_computed(values, name):
        raise ParameterError(
            "pass tag= here, the name of the noise, or .alias(NAME) before .ldp: two that are computed, as age > 30 "
            f"and age > 50 are, would both have that of {name!r}, and equal reports say that they are equal"
        )
    if column is None and name is not None:
        column, tag = name if tag is None else tag, None
    if key is not None:
        if not isinstance(key, Secret) or ids is None or seed is not None or row_id is not None:
            got = ", ".join(f"{name}={type(x).__name__}" for name, x in sorted(options.items()) if x is not None)
            raise ParameterError(
                f"keyed noise takes key=, a Secret (Secret.from_file, from_env or from_hex reads one), and id=, whose "
                f"value it is; and no seed or row_id; got {got}"
            )
        refuse_own_id(ids, _selected(values))
        return KeyedNoise(key, column, tag), ids
    if seed is not None:
        if ids is not None:
            raise ParameterError("seeded noise takes seed=, an integer, and perhaps row_id=; and no id")
        secret = Secret.from_seed(seed)
        return KeyedNoise(secret, column, tag, by_position=row_id is None, nameless=name == ""), row_id
    if ids is not None or row_id is not None:
        raise ParameterError("id= needs key=, and row_id= needs seed=")
    return None, None


def refuse_own_id(ids: pl.Expr | str, perturbed: Container[str]) -> None:
    """Raise `ParameterError` if ids are a column that is perturbed."""
    for whose in _selected(as_expr(ids)):
        refuse_own(whose, perturbed)


def _selected(values: pl.Expr) -> list[str]:
    """The columns that are selected by name, and not computed."""
    return values.meta.root_names() if values.meta.is_column_selection(allow_aliasing=True) else []


def _is_computed(values: pl.Expr, name: str | None) -> bool:
    """From columns, and the last step is no alias: one further within, or one of ``.name``, names no values."""
    if values.meta.is_column_selection(allow_aliasing=True) or not values.meta.root_names():
        return False
    return name is None or all(one.alias(name).meta != values.meta for one in values.meta.pop())
