"""The ``.ldp`` namespaces of expressions and frames; their methods have the functions' documentation."""

# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

import polars as pl

from ldp_core import Domain, FrequencyOracle, HeavyHitters, Mechanism, PrivacyPlan, RandomizedResponse, UnaryEncoding
from ldp_polars import estimates, frames, functions
from ldp_polars.frames import Frame
from ldp_polars.noise import NoiseOptions

if TYPE_CHECKING:
    from ldp_core.estimates.consistency import Consistency
    from ldp_core.estimates.distribution import Distributing
    from ldp_core.inputs.domain import Label, Unmatched
    from ldp_core.mechanisms.numbers.base import Numeric
    from ldp_core.mechanisms.oracles.unary_encoding import Variant

Method = TypeVar("Method", bound=Callable[..., Any])


def _sugar_for(function: Callable[..., Any]) -> Callable[[Method], Method]:
    """Give a method the documentation of ``function``, whose first argument is the method's object."""

    def document(method: Method) -> Method:
        method.__doc__ = function.__doc__
        return method

    return document


@pl.api.register_expr_namespace("ldp")
class LdpExpr:
    """Local differential privacy on an expression, which is the ``expr`` of each method's documentation."""

    def __init__(self, expr: pl.Expr) -> None:
        self._expr = expr

    @_sugar_for(functions.perturb)
    def perturb(
        self, mechanism: Mechanism, *, packed: bool = False, typed: bool = False, **noise: Unpack[NoiseOptions]
    ) -> pl.Expr:
        return functions.perturb(self._expr, mechanism, packed=packed, typed=typed, **noise)

    @_sugar_for(functions.randomized_response)
    def randomized_response(
        self,
        mechanism: RandomizedResponse | None = None,
        *,
        epsilon: float | None = None,
        domain: Domain | Iterable[Label] | None = None,
        unmatched: Unmatched = "error",
        typed: bool = False,
        **noise: Unpack[NoiseOptions],
    ) -> pl.Expr:
        return functions.randomized_response(
            self._expr, mechanism, epsilon=epsilon, domain=domain, unmatched=unmatched, typed=typed, **noise
        )

    @_sugar_for(functions.unary_encode)
    def unary_encode(
        self,
        mechanism: UnaryEncoding | None = None,
        *,
        domain: Domain | Iterable[Label] | None = None,
        epsilon: float | None = None,
        variant: Variant = "optimized",
        unmatched: Unmatched = "error",
        packed: bool = False,
        typed: bool = False,
        **noise: Unpack[NoiseOptions],
    ) -> pl.Expr:
        return functions.unary_encode(
            self._expr,
            mechanism,
            domain=domain,
            epsilon=epsilon,
            variant=variant,
            unmatched=unmatched,
            packed=packed,
            typed=typed,
            **noise,
        )

    @_sugar_for(functions.tally)
    def tally(self, mechanism: Mechanism | None = None) -> pl.Expr:
        return functions.tally(self._expr, mechanism)

    @_sugar_for(functions.merge)
    def merge(self, mechanism: Mechanism) -> pl.Expr:
        return functions.merge(self._expr, mechanism)

    @_sugar_for(estimates.estimate)
    def estimate(
        self,
        mechanism: FrequencyOracle,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
    ) -> pl.Expr:
        return estimates.estimate(
            self._expr, mechanism, confidence=confidence, simultaneous=simultaneous, consistency=consistency
        )

    @_sugar_for(estimates.histogram)
    def histogram(
        self,
        mechanism: FrequencyOracle | None = None,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
    ) -> pl.Expr:
        return estimates.histogram(
            self._expr, mechanism, confidence=confidence, simultaneous=simultaneous, consistency=consistency
        )

    @_sugar_for(estimates.mean)
    def mean(self, mechanism: Numeric | None = None, *, confidence: float = 0.95) -> pl.Expr:
        return estimates.mean(self._expr, mechanism, confidence=confidence)

    @_sugar_for(estimates.distribution)
    def distribution(
        self, mechanism: Distributing | None = None, *, confidence: float = 0.95, **options: Any
    ) -> pl.Expr:
        return estimates.distribution(self._expr, mechanism, confidence=confidence, **options)

    @_sugar_for(estimates.heavy_hitters)
    def heavy_hitters(
        self, mechanism: HeavyHitters, k: int, *, confidence: float = 0.95, threshold: float | None = None
    ) -> pl.Expr:
        return estimates.heavy_hitters(self._expr, mechanism, k, confidence=confidence, threshold=threshold)


class _LdpFrame(Generic[Frame]):
    """Local differential privacy on a frame, which is the first argument of each method's documentation."""

    def __init__(self, frame: Frame) -> None:
        self._frame: Frame = frame

    @_sugar_for(frames.perturb_frame)
    def perturb(
        self, plan: PrivacyPlan, *, packed: bool = False, typed: bool = False, **noise: Unpack[NoiseOptions]
    ) -> Frame:
        return frames.perturb_frame(self._frame, plan, packed=packed, typed=typed, **noise)

    @_sugar_for(frames.histograms)
    def histograms(
        self,
        plan: PrivacyPlan,
        *,
        by: str | Iterable[str] = (),
        window: str | None = None,
        event_time: str | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
    ) -> Frame:
        return frames.histograms(
            self._frame,
            plan,
            by=by,
            window=window,
            event_time=event_time,
            confidence=confidence,
            simultaneous=simultaneous,
            consistency=consistency,
        )

    @_sugar_for(frames.explain)
    def explain(self, plan: PrivacyPlan) -> str:
        return frames.explain(self._frame, plan)

    @_sugar_for(frames.sink_parquet)
    def sink_parquet(self, path: str | Path, plan: PrivacyPlan, **options: Any) -> None:
        frames.sink_parquet(self._frame, path, plan, **options)


@pl.api.register_dataframe_namespace("ldp")
class LdpDataFrame(_LdpFrame[pl.DataFrame]):
    """Local differential privacy on a DataFrame."""


@pl.api.register_lazyframe_namespace("ldp")
class LdpLazyFrame(_LdpFrame[pl.LazyFrame]):
    """Local differential privacy on a LazyFrame."""
