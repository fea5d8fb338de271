"""Variance, covariance, correlation and a line of least squares, of numbers of which some are private.

The value u of a report of a number x has the expectation x, and its second moment is, for the mechanisms here, exactly
quadratic in the point that x was rounded to, E[u^2] = a + b x + c x^2. So (u^2 - a - b u) / c is an unbiased weight of
the square of the point (`squares`); for one-bit means c is 0, and squares are not identified. With weights u of x, s of
x^2, v of y, t of y^2 (of a public number the number itself and its square)

    cov(x, y) = mean(u v) - mean(u) mean(v)      var(x) = mean(s) - mean(u)^2      slope = cov(x, y) / var(x)

because reports of different columns have independent noise: errors in variables of known variance (W. A. Fuller,
"Measurement Error Models", 1987, section 1.2). Rounding adds at most (h / 2)^2 to a square, h the distance of points,
and h^2 / 6 on average over numbers that are spread: that is taken off.

Each of these is a smooth function of means, so that its error is that of a mean of linearized terms, (u - mean(u)) (v -
mean(v)) of the covariance, s - 2 mean(u) u of the variance; and the slope's interval is Fieller's (`ratio`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Result, z_score
from ldp_core.estimates.weights import columns_of, ratio
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.numbers.base import Numeric
from ldp_core.parameters import check_open, shown
from ldp_core.tables import View

_POINTS = 64  # so many at least: rounding to fewer would be felt


def squares(mechanism: Mechanism, reports: Any, *, column: str = "reports") -> F64:
    """One unbiased weight of the square of each number, from its report.

    Args:
        mechanism: for numbers, that made the reports.
        reports: what `perturb` returned.
        column: what to call the reports in an error message.

    Returns:
        float64[n], in the numbers' own unit squared.

    Raises:
        ParameterError: not a mechanism for numbers, or one whose reports do not tell squares: one-bit means, and those
            that round to fewer than 64 points.
        ReportError: nulls, or not reports of this mechanism's shape.

    >>> from ldp_core import Piecewise
    >>> m = Piecewise((0, 10), epsilon=50.0)
    >>> squares(m, m.perturb(np.full(1000, 5.0))).mean().round(1)
    25.0
    """
    if not isinstance(mechanism, Numeric):
        raise ParameterError(f"squares are of numbers, as Hybrid reports them, got {shown(mechanism)}")
    if mechanism.points < _POINTS:
        raise ParameterError(
            f"reports of {mechanism.name} do not tell the squares of numbers, as they know {mechanism.points} points: "
            "take Hybrid or Piecewise"
        )
    at = mechanism.places
    c, b, a = np.polyfit(at, mechanism.point_variances() + at**2, 2)
    low, length = mechanism.domain.low, mechanism.domain.high - mechanism.domain.low
    share = (mechanism.weights(reports, column=column) - low) / length
    square = (share**2 - a - b * share) / c - (at[1] - at[0]) ** 2 / 6
    made: F64 = low**2 + 2 * low * length * share + length**2 * square
    return made


@dataclass(frozen=True, eq=False)
class LinearFit(Result):
    """How two numbers go together: a table of some estimates, each with its interval.

    Attributes:
        names: what the estimates are: ``"variance x"``, ``"variance y"``, ``"covariance"``, ``"correlation"``,
            ``"slope"`` and ``"intercept"`` of y = intercept + slope x.
        estimates, standard_errors, low, high: float64[6]; the slope's interval is -inf to inf where the variance of x
            is not clearly different from 0.
        n: number of records.
        confidence: of each interval.
    """

    view: ClassVar[View] = View("estimate", ("name",), unit="estimate")

    names: tuple[str, ...]
    estimates: F64
    standard_errors: F64
    low: F64
    high: F64
    n: int
    confidence: float
    mechanism: Mechanism | None = None

    def __getitem__(self, name: str) -> tuple[float, float, float]:
        """Estimate, low and high end, by name."""
        i = self.names.index(name)
        return float(self.estimates[i]), float(self.low[i]), float(self.high[i])

    def __repr__(self) -> str:
        rows = zip(self.names, self.estimates, self.low, self.high, strict=True)
        lines = [f"{name}: {estimate:.6g} ({low:.6g} to {high:.6g})" for name, estimate, low, high in rows]
        return "\n".join([f"Two numbers of {self.n:,} records, {self.confidence:.0%} intervals", *lines])

    @override
    def to_arrow(self) -> pa.Table:
        """Table of columns name, estimate, standard_error, low, high, n; a row per estimate."""
        arrays = (self.estimates, self.standard_errors, self.low, self.high, np.full(len(self.names), self.n))
        return pa.table([pa.array(self.names), *map(pa.array, arrays)], FIT_SCHEMA)


FIT_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        *((name, pa.float64()) for name in ("estimate", "standard_error", "low", "high")),
        ("n", pa.int64()),
    ]
)
_NAMES = ("variance x", "variance y", "covariance", "correlation", "slope", "intercept")


def linear_fit(
    x: Any, y: Any, *, x_squares: Any = None, y_squares: Any = None, confidence: float = 0.95
) -> LinearFit:
    """Variances, covariance, correlation, and the line of least squares of y on x; see this module's text.

    Args:
        x, y: float[n] each: of a public number the numbers, of a private one `Mechanism.weights` of its reports.
        x_squares, y_squares: float[n]: of a private number `squares` of its reports; None of a public one. The slope
            needs those of x; without those of a private y its variance and the correlation are wrong.
        confidence: of each interval, in (0, 1).

    Raises:
        InputError: not columns of as many finite numbers.
        ParameterError: confidence outside (0, 1), or fewer than two records.

    >>> x = np.arange(100.0)
    >>> linear_fit(x, 3 + 2 * x)["slope"][0]
    2.0
    """
    u, v = columns_of(x=x, y=y)
    s, t = columns_of(x_squares=u * u if x_squares is None else x_squares, y_squares=v * v if y_squares is None else y_squares)
    n, z = len(u), z_score(check_open("confidence", confidence))
    if n < 2 or len(s) != n:
        raise ParameterError(f"a line needs two records at least, and squares of all of them, got {n} and {len(s)}")
    du, dv = u - u.mean(), v - v.mean()
    # Terms whose means are the estimates; less those means they are the linearized errors.
    x_terms, y_terms, both = s - 2 * u.mean() * u + u.mean() ** 2, t - 2 * v.mean() * v + v.mean() ** 2, du * dv
    variance_x, variance_y, covariance = x_terms.mean(), y_terms.mean(), both.mean()
    slope = ratio(both, x_terms, confidence=confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = covariance / np.sqrt(variance_x * variance_y)
        of_correlation = correlation * (both / covariance - x_terms / (2 * variance_x) - y_terms / (2 * variance_y))
        of_slope = (both - slope.ratio * x_terms) / variance_x
    terms = [x_terms, y_terms, both, of_correlation, of_slope, dv - slope.ratio * du - u.mean() * of_slope]
    estimates = np.array([variance_x, variance_y, covariance, correlation, slope.ratio, v.mean() - slope.ratio * u.mean()])
    errors = np.array([term.std() for term in terms]) / np.sqrt(n)
    low, high = estimates - z * errors, estimates + z * errors
    low[4], high[4] = slope.low, slope.high
    return LinearFit(_NAMES, estimates, errors, low, high, n, confidence)
