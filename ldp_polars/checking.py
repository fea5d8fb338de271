"""Which reports an honest client hardly ever sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from ldp_core import Mechanism
from ldp_polars.columns import as_expr, check_mechanism, of_typed, to_arrow, untyped


def suspicious(expr: pl.Expr | str, mechanism: Mechanism | None = None, *, false_alarm: float = 1e-6) -> pl.Expr:
    """Whether each report has so few or so many ones (or such a sum) as an honest one hardly ever has.

    It finds crude attacks only; see `Mechanism.suspicious` for what it cannot see.

    Args:
        expr: a column of reports (or its name).
        mechanism: the one that made them; not needed for typed reports.
        false_alarm: the most that the probability may be that an honest report is suspicious, in (0, 1).

    Returns:
        Boolean, one per report.

    Raises:
        ParameterError: false_alarm outside (0, 1); or nothing of the kind is known of such reports.
        ReportError: when run: nulls, or not the shape of this mechanism's reports.
        MechanismMismatchError: when run: typed reports of another mechanism.
        DtypeError: when planned: no mechanism, and no typed reports.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import UnaryEncoding
    >>> m = UnaryEncoding(range(40), epsilon=1.0)
    >>> df = pl.DataFrame({"r": [[True] * 40, [True, False] * 20]}, schema={"r": pl.Array(pl.Boolean, 40)})
    >>> df.select(ldp_polars.suspicious("r", m)).to_series().to_list()
    [True, False]
    """
    if mechanism is None:
        return of_typed(expr, partial(suspicious, false_alarm=false_alarm))
    function = _Suspicious(check_mechanism(mechanism), false_alarm)
    nothing = pl.Series(mechanism.reports.to_arrow(mechanism.reports.empty(0)))
    function([nothing])  # what is refused is refused now
    return pl.map_batches([as_expr(expr)], function, return_dtype=pl.Boolean, is_elementwise=True)


@dataclass(frozen=True)
class _Suspicious:
    """What Polars calls back."""

    mechanism: Mechanism
    false_alarm: float

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: object = None) -> pl.Series:
        """Reports -> Booleans."""
        [reports] = inputs
        arrow, name = to_arrow(untyped(reports, self.mechanism)), reports.name
        return pl.Series(name, self.mechanism.suspicious(arrow, false_alarm=self.false_alarm, column=name))
