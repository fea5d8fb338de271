"""The ``.ldp`` namespaces of expressions and frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import polars as pl

from ldp_core import Domain, Mechanism, PrivacyPlan, RandomizedResponse, UnaryEncoding
from ldp_polars import functions

if TYPE_CHECKING:
    from ldp_core.domain import Label
    from ldp_core.unary_encoding import Variant


@pl.api.register_expr_namespace("ldp")
class LdpExpr:
    """Local differential privacy on an expression."""

    def __init__(self, expr: pl.Expr) -> None:
        self._expr = expr

    def perturb(self, mechanism: Mechanism, *, packed: bool = False) -> pl.Expr:
        """One private report a row; see `ldp_polars.perturb`."""
        return functions.perturb(self._expr, mechanism, packed=packed)

    def randomized_response(
        self,
        mechanism: RandomizedResponse | None = None,
        *,
        epsilon: float | None = None,
        domain: Domain | Iterable[Label] = (False, True),
    ) -> pl.Expr:
        """Randomized response; see `ldp_polars.randomized_response`."""
        return functions.randomized_response(self._expr, mechanism, epsilon=epsilon, domain=domain)

    def unary_encode(
        self,
        mechanism: UnaryEncoding | None = None,
        *,
        domain: Domain | Iterable[Label] | None = None,
        epsilon: float | None = None,
        variant: Variant = "optimized",
        packed: bool = False,
    ) -> pl.Expr:
        """Unary encoding; see `ldp_polars.unary_encode`."""
        return functions.unary_encode(
            self._expr, mechanism, domain=domain, epsilon=epsilon, variant=variant, packed=packed
        )

    def tally(self, mechanism: Mechanism) -> pl.Expr:
        """Reports to a tally; see `ldp_polars.tally`."""
        return functions.tally(self._expr, mechanism)

    def merge(self, mechanism: Mechanism) -> pl.Expr:
        """Tallies to their sum; see `ldp_polars.merge`."""
        return functions.merge(self._expr, mechanism)

    def estimate(self, mechanism: Mechanism, *, confidence: float = 0.95, simultaneous: bool = False) -> pl.Expr:
        """Each tally to a histogram; see `ldp_polars.estimate`."""
        return functions.estimate(self._expr, mechanism, confidence=confidence, simultaneous=simultaneous)

    def histogram(self, mechanism: Mechanism, *, confidence: float = 0.95, simultaneous: bool = False) -> pl.Expr:
        """Reports to a debiased histogram; see `ldp_polars.histogram`."""
        return functions.histogram(self._expr, mechanism, confidence=confidence, simultaneous=simultaneous)


@pl.api.register_dataframe_namespace("ldp")
class LdpDataFrame:
    """Local differential privacy on a DataFrame."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def perturb(self, plan: PrivacyPlan, *, packed: bool = False) -> pl.DataFrame:
        """Planned columns perturbed, all but ``keep`` dropped; see `ldp_polars.perturb_frame`."""
        return functions.perturb_frame(self._frame, plan, packed=packed)


@pl.api.register_lazyframe_namespace("ldp")
class LdpLazyFrame:
    """Local differential privacy on a LazyFrame."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame

    def perturb(self, plan: PrivacyPlan, *, packed: bool = False) -> pl.LazyFrame:
        """Planned columns perturbed, all but ``keep`` dropped; see `ldp_polars.perturb_frame`."""
        return functions.perturb_frame(self._frame, plan, packed=packed)
