"""The ``.ldp`` namespaces of expressions and frames: each method is a function of this package, given its object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import polars as pl

from ldp_polars import comparing, estimating, frames, persons, perturbing, planned, tables, tallying, weighing
from ldp_polars.columns import as_expr
from ldp_polars.frames import Frame

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")


class _Namespace(Generic[T_co]):
    """Methods of an expression or a frame."""

    def __init__(self, on: T_co) -> None:
        self._on = on


class _Method(Generic[T, P, R]):
    """A function as a method: its first argument is what the namespace is on; documentation and the others stay."""

    def __init__(self, function: Callable[Concatenate[T, P], R]) -> None:
        self._function: Any = function

    def __get__(self, namespace: _Namespace[T] | None, owner: type) -> Callable[P, R]:
        return self._function.__get__(namespace and namespace._on, owner)


class _FrameMethod(Generic[P]):
    """A `_Method` that makes a DataFrame of a DataFrame, and a LazyFrame of a LazyFrame."""

    def __init__(self, function: Callable[Concatenate[pl.DataFrame, P], pl.DataFrame]) -> None:
        self._function: Any = function

    def __get__(self, namespace: _Namespace[Frame] | None, owner: type) -> Callable[P, Frame]:
        return self._function.__get__(namespace and namespace._on, owner)


class _FrameTables(Generic[P]):
    """A `_Method` that makes several DataFrames of a DataFrame, and several LazyFrames of a LazyFrame."""

    def __init__(self, function: Callable[Concatenate[pl.DataFrame, P], dict[str, pl.DataFrame]]) -> None:
        self._function: Any = function

    def __get__(self, namespace: _Namespace[Frame] | None, owner: type) -> Callable[P, dict[str, Frame]]:
        return self._function.__get__(namespace and namespace._on, owner)


@pl.api.register_expr_namespace("ldp")
class LdpExpr(_Namespace[pl.Expr]):
    """Local differential privacy on an expression, which is the ``expr`` of each method's documentation."""

    perturb = _Method(perturbing.perturb)
    randomized_response = _Method(perturbing.randomized_response)
    unary_encode = _Method(perturbing.unary_encode)

    tally = _Method(tallying.tally)
    merge = _Method(tallying.merge)
    suspicious = _Method(tallying.suspicious)

    estimate = _Method(estimating.estimate)
    histogram = _Method(estimating.histogram)
    mean = _Method(estimating.mean)
    distribution = _Method(estimating.distribution)
    heavy_hitters = _Method(estimating.heavy_hitters)
    range = _Method(estimating.range)
    quantiles = _Method(estimating.quantiles)
    median = _Method(estimating.median)
    cdf = _Method(estimating.cdf)

    weight = _Method(weighing.weight)
    total = _Method(weighing.total)
    ratio = _Method(weighing.ratio)
    weighted_mean = _Method(weighing.weighted_mean)
    weighted_quantiles = _Method(weighing.weighted_quantiles)
    linear_fit = _Method(weighing.linear_fit)


class _LdpFrame(_Namespace[Frame]):
    bound = _FrameMethod(persons.bound)
    perturb = _FrameMethod(frames.perturb_frame)
    histograms = _FrameMethod(frames.histograms)
    estimates = _FrameTables(frames.estimates)
    compare = _FrameMethod(comparing.compare)
    table = _FrameMethod(tables.table)
    explain = _Method(frames.explain)
    simulate = _Method(frames.simulate)
    sink_parquet = _Method(planned.sink_parquet)


@pl.api.register_dataframe_namespace("ldp")
class LdpDataFrame(_LdpFrame[pl.DataFrame]):
    """Local differential privacy on a DataFrame, the first argument of each method's documentation."""


@pl.api.register_lazyframe_namespace("ldp")
class LdpLazyFrame(_LdpFrame[pl.LazyFrame]):
    """Local differential privacy on a LazyFrame, the first argument of each method's documentation."""


@overload
def ldp(on: pl.DataFrame) -> LdpDataFrame: ...
@overload
def ldp(on: pl.LazyFrame) -> LdpLazyFrame: ...
@overload
def ldp(on: str | pl.Expr) -> LdpExpr: ...
def ldp(on: str | pl.Expr | pl.DataFrame | pl.LazyFrame) -> LdpExpr | LdpDataFrame | LdpLazyFrame:
    """``on.ldp``, with its type: for mypy, pyright and completion, which do not see what Polars registers.

    Args:
        on: an expression or the name of a column, a DataFrame or a LazyFrame.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(["ios", "web"], epsilon=1.0)
    >>> pl.DataFrame({"os": ["ios", "web"]}).select(ldp("os").perturb(m)).height
    2
    """
    if isinstance(on, pl.DataFrame):
        return LdpDataFrame(on)
    return LdpLazyFrame(on) if isinstance(on, pl.LazyFrame) else LdpExpr(as_expr(on))
