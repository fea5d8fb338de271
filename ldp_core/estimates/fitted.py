"""Tables of any columns from tables of pairs: the maximum-entropy distribution that fits them best.

Each estimated cell is the true share plus noise. Among the distributions over all columns, the one is taken that has
the smallest sum of squares of (estimated - fitted) / standard error over all tables (a table has one error, the root of
the mean square of its cells'), and of those the one of largest entropy: McKenna, Sheldon, Miklau, "Graphical-model
based estimation and inference for differential privacy", ICML 2019, arXiv 1901.09136, Algorithm 1, by its authors'
package mbi. For local privacy it is the last step of CALM: Zhang, Wang, Li, He, Chen, "CALM: consistent adaptive local
marginal for marginal release under local differential privacy", CCS 2018.

The fit is biased, as no share is below 0, and knows of no interaction of three columns beyond what the pairs say.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldp_core.arrays.arrow import combine, plain, table_of
from ldp_core.arrays.types import F64
from ldp_core.errors import ParameterError
from ldp_core.estimates.histogram import ENTRY
from ldp_core.estimates.joint import LARGEST, Table
from ldp_core.extras import import_extra
from ldp_core.parameters import check_integer


@dataclass(frozen=True)
class FittedTables:
    """What `fit_tables` makes: tables of any of its columns, which agree with each other. They have no intervals.

    Attributes:
        values: of each column, by its name.

    >>> from ldp_core import Joint, RandomizedResponse
    >>> pair = Joint({name: RandomizedResponse(epsilon=20.0) for name in ("late", "paid")})  # hardly any noise
    >>> tally = pair.tally({"late": [True, False, False, False], "paid": [True, True, True, False]})
    >>> fit_tables([pair.estimate(tally)]).table("paid")["frequency"].to_numpy().round(3).tolist()
    [0.25, 0.75]
    """

    values: dict[str, pa.Array]
    _model: Any

    def table(self, *names: str) -> pa.Table:
        """The shares of the combinations of values of some columns.

        Returns:
            A row per combination: the values under their columns' names, and ``frequency``, float64, not below 0. The
            frequencies add up to 1.

        Raises:
            ParameterError: no such columns, one twice, or a table of more than 2^24 cells.
        """
        if not names or len({*names}) < len(names) or not {*names} <= {*self.values}:
            raise ParameterError(f"expected one or more of the columns {[*self.values]}, each once, got {[*names]}")
        shape = _shape(names, self.values)
        with _packages()[0].enable_x64(True):
            shares = np.asarray(self._model.project(names).values).reshape(-1)
        codes = np.indices(shape).reshape(len(names), -1)
        of = {name: self.values[name].take(pa.array(code)) for name, code in zip(names, codes, strict=True)}
        return pa.table({**of, "frequency": shares})


def fit_tables(tables: Iterable[Any], *, iterations: int = 1000) -> FittedTables:
    """Fit one distribution to estimated tables of one or more columns each; needs the extra ``mbi``.

    Use it for tables of three and more columns, and where tables must agree. It is biased, and says no error: ask the
    tables themselves for intervals.

    Args:
        tables: what ``frame.ldp.table`` and ``Joint.estimate`` answer, as frames, Arrow tables or `Table`; or
            other tables of that form, say histograms whose column ``value`` has got the name of its column. The
            values of a column are the same in all of them. Pairs that are not there are taken as no more dependent than
            the others say.
        iterations: of mirror descent, at least 1.

    Returns:
        `FittedTables` of all columns of the tables.

    Raises:
        ParameterError: no tables; one of another form, without reports, or that has not each combination of values
            once; shares that do not add up to 1, as those of groups (as far as their errors tell), or a `Table` of
            sets; a column whose values differ; or columns that depend on each other, so that more than 2^24 cells had
            to be fitted.
        MissingExtraError: the package mbi is not installed.

    >>> from ldp_core import Joint, RandomizedResponse
    >>> pair = Joint({name: RandomizedResponse(epsilon=20.0) for name in ("late", "paid")})  # hardly any noise
    >>> fitted = fit_tables([pair.estimate(pair.tally({"late": [True] * 9, "paid": [True] * 9}))])
    >>> fitted.table("late")["frequency"].to_numpy().round(3).tolist()
    [0.0, 1.0]
    """
    check_integer("iterations", iterations, 1)
    jax, mbi = _packages()
    values: dict[str, pa.Array] = {}
    parts = list(_measured(tables, values))
    if not parts:
        raise ParameterError("expected one or more tables, got none")
    domain = mbi.Domain([*values], [len(of) for of in values.values()])
    tree, _ = mbi.junction_tree.make_junction_tree(domain, [names for names, _, _ in parts])
    for names in mbi.junction_tree.maximal_cliques(tree):
        _shape(names, values)
    with jax.enable_x64(True):
        measured = [mbi.LinearMeasurement(shares, names, error) for names, shares, error in parts]
        return FittedTables(values, mbi.estimation.MirrorDescent().estimate(domain, measured, 1.0, iters=iterations))


def _packages() -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of single precision, which is not used here
        return import_extra("jax", "mbi"), import_extra("mbi", "mbi")


def _measured(tables: Iterable[Any], values: dict[str, pa.Array]) -> Iterator[tuple[tuple[str, ...], F64, float]]:
    """Names, estimated shares in the order of the values, and their error; ``values`` gets those of new columns."""
    for table in tables:
        if isinstance(table, Table) and any(getattr(m, "most", 1) > 1 for m in table.joint.makers.values()):
            raise ParameterError(
                f"expected columns of which a person has one value, got a table of {[*table.joint.names]}: leave sets "
                "out, as those of PrivSet"
            )
        rows = table_of(table.to_arrow() if isinstance(table, Table) else table)
        heads = rows.column_names if isinstance(rows, pa.Table) else []
        names = tuple(heads[: heads.index("count")]) if {*ENTRY[1:]} <= {*heads} else ()
        if not names or not len(rows) or not pc.min(rows["n"]).as_py():
            raise ParameterError("expected tables of reports, as frame.ldp.table answers them: columns, then the count")
        codes = []
        for name in names:
            column = plain(combine(rows[name]))
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            known = values.setdefault(name, column.unique())
            with suppress(pa.ArrowException):  # text of Polars is large text
                column = column.cast(known.type)
            codes.append(pc.index_in(column, known) if column.type == known.type else pa.nulls(len(column)))
            if codes[-1].null_count or len(column.unique()) != len(known):
                raise ParameterError(f"column {name!r} does not have the same values in all tables")
        shape = _shape(names, values)
        place = np.ravel_multi_index(codes, shape)
        if not np.array_equal(np.sort(place), np.arange(math.prod(shape))):
            raise ParameterError(
                f"expected each combination of {[*names]} once, got {len(place)} rows: one table at a time"
            )
        shares = rows["frequency"].to_numpy()[np.argsort(place)]
        error, total = rows["frequency_standard_error"].to_numpy(), float(shares.sum())
        # Weights of a report hang together so little that their sum has about the sum of their variances at most, and
        # so have products of such. Of few reports tails are longer: Bernstein's bound. By groups all sums may be exact.
        room = 6 * (1 + 2 * math.sqrt(len(shares) / rows["n"][0].as_py())) * math.sqrt(float((error**2).sum()))
        apart = not abs(total - 1) <= room + 1e-6  # (or nan)
        by_first = shares.reshape(shape[0], -1).sum(axis=1)
        grouped = len(shape) > 1 < shape[0] and bool((abs(by_first - 1) < 1e-9).all())
        if len(rows["n"].unique()) > 1 or grouped or apart:
            raise ParameterError(
                f"expected a table in which each person is once, got shares of {[*names]} that add up to {total:.3g}: "
                "take one group (by=) at a time, without its column, and columns of which a person has one value"
            )
        yield names, shares, float(np.sqrt((error**2).mean()))


def _shape(names: Sequence[str], values: dict[str, pa.Array]) -> tuple[int, ...]:
    shape = tuple(len(values[name]) for name in names)
    if math.prod(shape) > LARGEST:
        raise ParameterError(
            f"a table of {[*names]} has {math.prod(shape):,} cells; at most {LARGEST:,}: leave some out"
        )
    return shape
