"""Variance, covariance, correlation and a line of least squares, of two numbers of which one or both are private.

The value u of a report of a number x has the expectation x, and its second moment is, for the mechanisms here, exactly
quadratic in the point that x was rounded to, E[u^2] = a + b x + c x^2. So (u^2 - a - b u) / c is an unbiased weight of
the square of the point (`Numeric.squares`); for one-bit means c is 0, and squares are not identified. With weights u of
x, s of x^2, v of y, t of y^2 (of a public number the number itself and its square)

    cov(x, y) = mean(u v) - mean(u) mean(v)      var(x) = mean(s) - mean(u)^2      slope = cov(x, y) / var(x)

because reports of different columns have independent noise: errors in variables of known variance (W. A. Fuller,
"Measurement Error Models", 1987, section 1.2). Rounding adds at most (h / 2)^2 to a square, h the distance of points,
and h^2 / 6 on average over numbers that are spread: that is taken off.

Each of these is a smooth function of means, so that its error is that of a mean of linearized terms, (u - mean(u)) (v -
mean(v)) of the covariance, s - 2 mean(u) u of the variance. Slope and intercept have Fieller's intervals (`ratios`).

Squares are skewed, so that few records carry these sums: of terms t as many as (sum |t|)^2 / sum t^2 equal ones would
be (L. Kish, "Survey Sampling", 1965). The quantile is Student's for so many, less one; below `LEAST_EFFECTIVE` an
interval is unbounded. Variances and covariances have `score_interval`, as there may be numbers far away of which nobody
came: as far as a private one can be, or a public one was. Slope, intercept and correlation reach as much farther then.
That of the correlation is symmetric in R. A. Fisher's atanh, but reaches over that at private variances' low ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64
from ldp_core.errors import InputError, ParameterError
from ldp_core.estimates.base import Result, z_score
from ldp_core.estimates.clusters import LEAST_EFFECTIVE, student
from ldp_core.estimates.mean import score_interval
from ldp_core.estimates.ratios import Ratio, ratio_of_terms
from ldp_core.estimates.weights import columns_of, is_private, times_of
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_open
from ldp_core.tables import View, in_percent

_LEAST = -332  # of 1e-100, as small as the largest numbers are large
_SAME = 1e-12  # of a number: so little is not told by floats
_RARE = 1e-6  # of a reach: less is not told from rounding


@dataclass(frozen=True, eq=False)
class LinearFit(Result):
    """How two numbers go together: a table of some estimates, each with its interval.

    Attributes:
        names: what the k estimates are: ``"variance x"``, ``"covariance"``, ``"slope"`` and ``"intercept"`` of y =
            intercept + slope x, and where the squares of y are known ``"variance y"`` and ``"correlation"``.
        estimates, standard_errors, low, high: float64[k]; intervals are -inf to inf where fewer than about ten records
            carry a sum, and those of slope and intercept where the variance of x is not clearly different from 0. Where
            a variance is not clearly above 0 the correlation's is -1 to 1; its estimate may be nan, or beyond these.

    >>> from ldp_core import Piecewise
    >>> number = Piecewise((0, 99), epsilon=4.0)
    >>> linear_fit((number, number.perturb(np.arange(100.0))), np.arange(100.0) + 1).names
    ('variance x', 'covariance', 'slope', 'intercept', 'variance y', 'correlation')
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
        return "\n".join([f"Two numbers of {self.n:,} records, {in_percent(self.confidence)}% intervals", *lines])

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


def linear_fit(x: Any, y: Any, *, confidence: float = 0.95, repeats: int = 1) -> LinearFit:
    """Variances, covariance, correlation, and the line of least squares of y on x; see this module's text.

    Args:
        x, y: of the same n records each, and at least one of them private: a pair of the mechanism and its reports; or
            public numbers, float[n]. Reports of y that do not tell squares leave its variance and the correlation out.
        confidence: of each interval, in (0, 1).
        repeats: the most records of one person; see `ratio`.

    Raises:
        InputError: not columns of as many finite numbers.
        ParameterError: confidence outside (0, 1), fewer than two records, reports of x that do not tell squares, or a
            `SquareWave`'s, which tell buckets; both are public.

    >>> from ldp_core import Piecewise
    >>> number, x = Piecewise((0, 99), epsilon=50.0), np.arange(100.0)
    >>> round(linear_fit((number, number.perturb(x)), 3 + 2 * x)["slope"][0], 2)  # hardly any noise
    2.0
    """
    if not (is_private(x) or is_private(y)):
        raise ParameterError(
            "a line of two public columns needs nothing of local differential privacy: take pl.corr and pl.cov, or "
            "scipy.stats.linregress. Here at least one column is of reports, given with their mechanism"
        )
    (u, s, of_u, far_u, of_x_is), (v, t, of_v, far_v, of_y_is) = _moments(x), _moments(y)
    if s is None:
        x[0].moments(x[1])  # says why
    u, s, v, *of_y = columns_of(x=u, squares=s, y=v, **({} if t is None else {"y_squares": t}))
    n, z, times = len(u), z_score(check_open("confidence", confidence)), times_of(repeats)
    if n < 2:
        raise ParameterError(f"a line needs two records at least, got {n}: leave out groups of fewer")
    if isinstance(x, tuple) and isinstance(y, tuple) and np.array_equal(u, v):
        raise InputError("x and y are the same reports, of which the noise is one: a line needs two columns")
    du, dv = u - u.mean(), v - v.mean()
    # Terms whose means are the estimates; less those means they are the linearized errors.
    of_x, both = s - 2 * u.mean() * u + u.mean() ** 2, du * dv
    of_both = min(carried := [_effective(terms) / repeats for terms in (of_x, both)])
    reach = float(student(z, max(of_both, LEAST_EFFECTIVE) - 1))
    how: Any = {"confidence": min(math.erf(reach / math.sqrt(2)), 1 - 1e-12), "repeats": repeats}
    slope, mean_u, mean_v = ratio_of_terms(both, of_x, **how), of_u + u.mean(), of_v + v.mean()
    below = ratio_of_terms(of_x.mean() * dv - both.mean() * du - mean_u * both, of_x, **how)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_slope = (both - slope.ratio * of_x) / of_x.mean()
        found = {
            "variance x": (of_x.mean(), of_x),
            "covariance": (both.mean(), both),
            "slope": (slope.ratio, of_slope),
            "intercept": (mean_v - slope.ratio * mean_u, dv - slope.ratio * du - mean_u * of_slope),
        }
        carried += [of_both, of_both]
        for of_square in of_y:
            terms = of_square - 2 * v.mean() * v + v.mean() ** 2
            correlation = both.mean() / np.sqrt(of_x.mean() * terms.mean())
            relative = both / both.mean() - of_x / (2 * of_x.mean()) - terms / (2 * terms.mean())
            found |= {"variance y": (terms.mean(), terms), "correlation": (correlation, correlation * relative)}
            of_terms, of_all = (_effective(one) / repeats for one in (terms, relative))
            carried += [of_terms, min(of_both, of_terms, of_all)]
    estimates, effective = np.array([estimate for estimate, _ in found.values()]), np.array(carried)
    errors = times * np.array([terms.std() for _, terms in found.values()]) / np.sqrt(n)
    reaches = student(z, np.maximum(effective, LEAST_EFFECTIVE) - 1)
    low, high = estimates - reaches * errors, estimates + reaches * errors
    far_u, far_v = (far + min(abs(float(w.mean())), far) for far, w in ((far_u, u), (far_v, v)))
    far_both = far_u * far_v
    for i, least, most in ((0, 0.0, far_u**2), (1, -far_both, far_both), (4, 0.0, far_v**2))[: len(found) // 2]:
        low[i], high[i] = score_interval(n / repeats, estimates[i], errors[i], reaches[i], least, most)
    wider = _times(estimates[1], low[1], high[1], reaches[1] * errors[1])
    rare = z**2 * repeats / n  # how much of the noise no report may have shown
    less = _less(x, du, of_x, rare * far_u**2)
    low[2], high[2] = _ends_of_ratio(slope, wider, less)
    low[3], high[3] = (end + mean_v for end in _ends_of_ratio(below, wider, less))
    # The intercept is as little known. (A variance clearly below 0 is of noise that no report has shown.)
    effective[2:4] *= math.isfinite(slope.low) and of_x.mean() > 0
    few = effective < LEAST_EFFECTIVE
    low[few], high[few] = -np.inf, np.inf
    if "correlation" in found:  # after both variances, of which one is the first, and the other the last but one
        ends = _ends_of_correlation(
            estimates[-1],
            wider * reaches[-1] * errors[-1],
            less * _less(y, dv, found["variance y"][1], rare * far_v**2),
            math.prod(estimates[i] / low[i] for i, of in ((0, x), (-2, y)) if is_private(of) and low[i] > 0),
        )
        low[-1], high[-1] = ends if low[0] > 0 and low[-2] > 0 and not few[-1] else (-1, 1)
    powers = {"variance x": (2, 0), "covariance": (1, 1), "slope": (-1, 1), "intercept": (0, 1), "variance y": (0, 2)}
    unit = np.array([of_x_is**i * of_y_is**j for i, j in (powers.get(name, (0, 0)) for name in found)])
    estimates, errors, low, high = (unit * array for array in (estimates, errors, low, high))
    return LinearFit(tuple(found), estimates, errors, low, high, n, confidence)


def _times(estimate: float, low: float, high: float, reached: float) -> float:
    """How many times as far as that an interval reaches, at least 1: of what no report has shown."""
    far = max(estimate - low, high - estimate)
    return max(far / reached, 1.0) if reached > _RARE * far else 1.0


def _ends_of_ratio(found: Ratio, wider: float, less: float) -> tuple[float, float]:
    """So many times as far from it, and `_widened`."""
    low, high = (found.ratio + wider * (end - found.ratio) for end in (found.low, found.high))
    return _widened(low, high, less)


def _ends_of_correlation(r: float, half: float, less: float, most: float) -> tuple[float, float]:
    """By R. A. Fisher's atanh; the noise of reports is not less near 1, so that ``half`` is the least width.

    Variances may be too large, by the factor 1 / ``less``, and by ``most`` as private ones' intervals allow.
    """
    low, high = r - half, r + half
    if abs(r) < 1:
        ends = np.tanh(np.arctanh(r) + np.array([-1, 1]) * half / (1 - r**2))
        low, high = min(low, ends[0]), max(high, ends[1])
    (low, high), farthest = _widened(low, high, math.sqrt(less)), r * math.sqrt(most)
    low, high = (min(max(end, -1.0), 1.0) for end in (min(low, farthest), max(high, farthest)))
    return low, high


def _widened(low: float, high: float, less: float) -> tuple[float, float]:
    """An interval, with what is ``less`` times its ends."""
    return min(low, low * less), max(high, high * less)


def _less(numbers: Any, about: F64, terms: F64, rare: float) -> float:
    """The estimated variance over that with ``rare`` noise, if it was taken off and no report has shown it."""
    variance = float(terms.mean())
    noise = max(float(about @ about) / len(about) - variance, 0.0) if isinstance(numbers, tuple) else 0.0
    noise = min(noise, rare) if noise < 4 * rare else 0.0  # (of fifteen far reports, of 95 %, some have come)
    return variance / (variance + noise) if variance > 0 else 1.0


def _effective(terms: F64) -> float:
    """As many equal terms would tell as much of their sum."""
    squares = float(terms @ terms)
    return float(np.abs(terms).sum()) ** 2 / squares if squares else 0.0


def _moments(numbers: Any) -> tuple[Any, Any, float, float, float]:
    """Unbiased weights of numbers and of their squares, about a number in their middle, which is the third.

    (Sums of squares about a number far away would cancel.) None for squares that reports do not tell. The fourth says
    how far from the middle numbers can be; public ones, how far they are. All are in the unit that is last: the power
    of two just above that, so that floats hold fourth powers, and nothing is rounded.
    """
    if is_private(numbers):
        mechanism: Any = numbers[0]
        if not hasattr(mechanism, "tells_squares"):
            raise ParameterError(f"a line is of numbers, as Hybrid reports them, got reports of {mechanism.name}")
        if not mechanism.rounds_at_random:
            raise ParameterError(
                f"a line needs numbers that are right on average, and {mechanism.name} reports their buckets: take "
                "Piecewise"
            )
        middle = float(mechanism.domain.decode(0.5))
        far = (mechanism.domain.high - mechanism.domain.low) / 2
        unit = math.ldexp(1.0, max(math.frexp(far)[1], _LEAST))
        if not mechanism.tells_squares:
            return (mechanism.weights(numbers[1]) - middle) / unit, None, middle / unit, far / unit, unit
        weights, squares = mechanism.moments(numbers[1], about=middle)
        return weights / unit, squares / unit / unit, middle / unit, far / unit, unit
    [made] = columns_of(numbers=numbers)
    middle = float(made.mean()) if len(made) else 0.0
    about = made - middle
    if len(made) and np.ptp(made) <= _SAME * abs(middle):
        about = np.zeros(len(made))
    far = float(np.abs(about).max(initial=0))
    unit = math.ldexp(1.0, max(math.frexp(far)[1], _LEAST))
    about = about / unit
    return about, about * about, middle / unit, far / unit, unit
