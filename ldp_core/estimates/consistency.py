"""Estimated histograms made consistent: non-negative, and adding up to the number of reports.

T. Wang, M. Lopuhaa-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally Differentially Private Frequency
Estimation with Consistency", NDSS 2020. What comes out has a smaller error and is *biased*: a difference, a sum over
windows or a mean of such histograms keeps the bias, so that this is a last step, for reading a histogram and not for
computing with it. Post-processing costs no privacy.

Three of the methods are one. With an estimate e, they look for the histogram c >= 0 with sum n that is the nearest to
e when a count of c has variance proportional to a + b c,

    minimize sum over v of (e[v] - c[v])^2 / (a + b c[v]).

This is convex, and c = max(0, (e - a x) / (1 + b x)) where x makes the sum n: the multiplier of the sum, found by
sorting. Norm-sub says that all counts have the same variance (a = 1, b = 0: the Euclidean projection onto the
simplex), MLE-apx takes the mechanism's variance (Theorem 2 of Wang et al. 2017), and the variance of a Poisson
count (a = n q / (p - q), b = 1) gives the maximum of sum over v of C[v] ln(q + (p - q) c[v] / n), C the support counts.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import F64
from ldp_core.errors import MechanismMismatchError, ParameterError
from ldp_core.inputs.domain import Domain
from ldp_core.parameters import check_open, shown

Consistency: TypeAlias = Literal[
    "base-pos", "base-cut", "norm", "norm-mul", "norm-cut", "norm-sub", "mle-apx", "mle", "power", "power-ns"
]
METHODS: tuple[Consistency, ...] = get_args(Consistency)

_NEED_NO_SUM = ("base-pos", "base-cut", "norm-cut")
"""Methods that remain right where the true counts may add up to less than n; all but the last one, also to more."""


class Rates(NamedTuple):
    """What is known of an estimated count, if c is the true one: (number - n q) / difference, variance n a + b c."""

    q: F64
    """float64[d]: what a report of another value adds on average to the number that is debiased."""
    a: F64
    """float64[d]."""
    b: F64
    """float64[d]."""
    difference: float
    """How much more a report of the value itself adds: p - q. The same for all values."""


class Noisy(Protocol):
    """What these methods ask of a mechanism, as `FrequencyOracle` has it."""

    name: ClassVar[str]
    domain: Domain

    @property
    def rates(self) -> Rates:
        """Of the estimated counts."""

    @property
    def parts(self) -> tuple[float, float]:
        """The least and the greatest that one report adds to the number that is debiased."""

    @property
    def exhaustive(self) -> bool:
        """Whether each record holds one of the domain's values, so that the true counts add up to n."""

    def error_score(self, errors: F64, n: F64, variance: F64) -> F64:
        """How improbable errors of estimated counts are, as the z with Pr[as far or farther] <= Pr[N > z]."""


def consistent(
    counts: npt.ArrayLike,
    n: npt.ArrayLike,
    method: Consistency,
    *,
    mechanism: Noisy | None = None,
    significance: float = 0.05,
    repeats: npt.ArrayLike = 1,
) -> F64:
    """Estimated counts made consistent by one of the methods of Wang et al. 2020.

    ============  ====  ====  ==================================================================================
    method        >= 0  sum   what it does to an estimate e
    ============  ====  ====  ==================================================================================
    ``base-pos``  yes         negative estimates become 0
    ``base-cut``  yes         what is likelier than significance / d of a value that nobody has becomes 0
    ``norm``            n     e + x: the same added to all
    ``norm-mul``  yes   n     x max(e, 0); where no estimate is positive, n / d
    ``norm-cut``  yes   <= n  the largest are kept as they are until n is used up, the rest become 0
    ``norm-sub``  yes   n     max(e + x, 0): the nearest histogram, in the Euclidean distance
    ``mle-apx``   yes   n     the nearest histogram, in the standard errors that its counts have with this mechanism
    ``mle``       yes   n     the most likely histogram if each support were a report of its own
    ``power``     >= 1        the posterior mean, a priori counts having the density x^-alpha in [1, n]
    ``power-ns``  yes   n     norm-sub of ``power``
    ============  ====  ====  ==================================================================================

    ``mle`` is the maximum of the likelihood for randomized response only, where a report supports one value: there it
    is the limit of the iterative Bayesian update (EM), in closed form. Where a report supports several values it takes
    each support for a sample of its own (a composite likelihood), which is neither: the most likely histogram given
    whole reports, which a tally no longer has, had 3 to 27 % less mean squared error for unary encoding.

    Where values differ in their noise (fake data with a prior, trees, blocks of Hadamard responses) ``mle-apx`` and
    ``mle`` take that of the last value, or become ``norm-sub``. Counts were up to 6 % of n from the minimum.

    ``power-ns`` helps where many counts are lost in the noise. Where they are not, its prior hurts: its squared error
    was up to 1.6 times that of the unbiased estimate, and for the largest values it is more often worse than not.

    ``base-cut`` (the authors' threshold is z standard errors) asks for the tails of few supports, as they are in
    simultaneous intervals (`ldp_core.estimates.tails`): with the normal one a value that nobody has remained in up to a
    third of all histograms.

    ``norm-cut`` gives the value that crosses n the remainder; making it 0 too would make the whole histogram 0 where
    the largest estimate alone exceeds n. Values that tie for that place share it. (The authors scale.)

    ``power`` chooses alpha so that the mean of the prior is n / d, and at most 2; the authors' code takes the mean of
    the estimates, and the integers 1..n where this takes the interval.

    Args:
        counts: unbiased estimates, float[..., d]: one histogram, or any number of them at once.
        n: number of reports, broadcast against ``counts`` (int[k, 1] for k histograms).
        method: one of `METHODS`.
        mechanism: that made the reports; ``base-cut``, ``mle``, ``mle-apx``, ``power`` and ``power-ns`` need it.
        significance: of ``base-cut``: the probability that any of d values that nobody has remains.
        repeats: the most reports of a person, which are perhaps equal; one number or one a histogram, as ``n``.

    Returns:
        float64 of the shape of ``counts``. All zeros where n is 0.

    Raises:
        ParameterError: an unknown method, no mechanism where one is needed, a negative n or one of another shape,
            estimates that are not finite or not possible, or a method that makes the sum n for a domain with
            ``unmatched="none"``, whose counts add up to less.
        MechanismMismatchError: the mechanism's domain is of another size.

    >>> consistent([108.2, 41.6, 8.4, -58.2], 100, "norm-sub").round(1).tolist()
    [83.3, 16.7, 0.0, 0.0]
    """
    check_method(method, mechanism)
    significance = check_open("significance", significance)
    estimates = np.asarray(counts, float)
    given = np.asarray(n, float)
    if not estimates.ndim or not estimates.shape[-1] or not np.isfinite(estimates).all():
        raise ParameterError("counts must be finite numbers, one a value along the last axis")
    _check_each("n", given, estimates, 0)
    # So many equal reports are as one, of so many times fewer people. (Without reports there is no division by 0.)
    alike = np.minimum(_check_each("repeats", np.asarray(repeats, float), estimates, 1), np.maximum(given, 1))
    estimates, total = estimates / alike, np.where(given == 0, 1, given) / alike
    if mechanism is not None:
        _check_possible(mechanism, estimates, total)
    if method in OF_ESTIMATES:
        made = OF_ESTIMATES[method](estimates, total)
    elif mechanism is not None and method == "base-cut":
        z = -NormalDist().inv_cdf(significance / estimates.shape[-1])
        improbable = mechanism.error_score(estimates, total, total * mechanism.rates.a) > z
        made = np.where((estimates > 0) & improbable, estimates, 0)
    elif mechanism is not None:
        made = _OF_NOISE[method](estimates, total, mechanism.rates)
    else:
        raise ParameterError(f"{method} depends on the noise: say which mechanism made the reports")
    return np.where(given == 0, 0.0, made * alike)


def _check_each(name: str, given: F64, estimates: F64, least: int) -> F64:
    fits = all(k in (1, of) for k, of in zip(given.shape[-2::-1], estimates.shape[-2::-1], strict=False))
    if not (np.isfinite(given).all() and (given >= least).all() and fits) or given.shape[-1:] not in ((), (1,)):
        raise ParameterError(
            f"{name} must be at least {least}, one number or one a histogram with a last axis of length 1"
        )
    return given


def check_method(method: Consistency, mechanism: Noisy | None = None) -> None:
    """Raise `ParameterError` for an unknown method, or one that the mechanism's domain does not allow."""
    if method not in METHODS:
        raise ParameterError(f"consistency must be one of {', '.join(METHODS)}, got {shown(method)}")
    if mechanism is not None and method == "mle" and mechanism.parts != (0.0, 1.0):
        raise ParameterError(
            f"mle is for reports that support a value or do not; those of {mechanism.name} add other numbers"
        )
    if method == "base-cut" and getattr(mechanism, "blocks", 1) > 1:
        raise ParameterError(
            "base-cut needs the noise of each value, and in blocks that depends on the others there: take base-pos"
        )
    several = getattr(mechanism, "most", 1) > 1
    allowed = _NEED_NO_SUM[: 2 if several else 3]
    if mechanism is not None and not mechanism.exhaustive and method not in allowed:
        why = "several" if several else 'none of the values (unmatched="none", or candidates of a sketch)'
        raise ParameterError(
            f"{method} takes counts to add up to n, but some records have {why}: use one of {', '.join(allowed)}"
        )


def _check_possible(mechanism: Noisy, estimates: F64, n: F64) -> None:
    d = estimates.shape[-1]
    if mechanism.domain.size != d:
        raise MechanismMismatchError(f"there are {d} counts, the mechanism's domain has {mechanism.domain.size} values")
    supported = estimates * mechanism.rates.difference + n * mechanism.rates.q
    slack = 1e-9 * n
    low, high = mechanism.parts
    if not ((supported >= n * low - slack) & (supported <= n * high + slack)).all():
        raise ParameterError("some counts cannot come from n reports of this mechanism: another one, or another n?")


def _norm_mul(estimates: F64, n: F64) -> F64:
    positive = np.maximum(estimates, 0)
    total = positive.sum(-1, keepdims=True)
    scaled: F64 = positive * (n / np.where(total > 0, total, 1))
    return np.where(total > 0, scaled, n / estimates.shape[-1])


def _norm_cut(estimates: F64, n: F64) -> F64:
    positive = np.maximum(estimates, 0)
    largest = -np.sort(-positive, axis=-1)
    used = np.cumsum(largest, axis=-1)
    last = np.take_along_axis(largest, np.argmax(used >= n, axis=-1, keepdims=True), axis=-1)
    above = positive > last
    rest = np.where(above, positive, 0).sum(-1, keepdims=True)
    share = np.clip((n - rest) / (positive == last).sum(-1, keepdims=True), 0, last)
    cut = np.where(above, positive, np.where(positive == last, share, 0))
    return np.where(used[..., -1:] > n, cut, positive)


_NOTHING = 1e-12


def _nearest(estimates: F64, n: F64, a: Any, b: Any) -> F64:
    """The module's minimum. The k largest stay positive: the most for which the k-th exceeds a x, x = x(k).

    With h(k) = e(k) (k a + n b) - a (e(1) + ... + e(k) - n), the k-th exceeds a x(k) if and only if h(k) > 0; and
    h(k + 1) - h(k) = (e(k + 1) - e(k)) (k a + n b) <= 0, so that these k are 1..K. (For a = 1 and b = 0: J. Duchi,
    S. Shalev-Shwartz, Y. Singer, T. Chandra, "Efficient Projections onto the l1-Ball", ICML 2008, Figure 1.)
    """
    largest = -np.sort(-estimates, axis=-1)
    x = (np.cumsum(largest, axis=-1) - n) / (np.arange(1, estimates.shape[-1] + 1) * a + n * b)
    kept = np.maximum(np.count_nonzero(largest > a * x, axis=-1, keepdims=True), 1)
    multiplier = np.take_along_axis(x, kept - 1, axis=-1)
    room = 1 + b * multiplier
    # (Not so where a Poisson count's variance is 0 throughout: no report supports anything.)
    determined = room > _NOTHING
    nearest: F64 = np.maximum((estimates - a * multiplier) / np.where(determined, room, 1), 0)
    return np.where(determined, nearest, n / estimates.shape[-1])


def _norm_sub(estimates: F64, n: F64) -> F64:
    return _nearest(estimates, n, 1, 0)


def _mle_apx(estimates: F64, n: F64, noise: Rates) -> F64:
    if _uneven(noise) or noise.b[-1] < -1.001 * noise.a[-1]:  # (of blocks, b is of those who share one)
        return _norm_sub(estimates, n)
    # A count of n has a variance of n (a + b), which rounding may take to 0 or below for a large epsilon.
    return _nearest(estimates, n, n * noise.a[-1], max(noise.b[-1], (_NOTHING - 1) * noise.a[-1]))


def _mle(estimates: F64, n: F64, noise: Rates) -> F64:
    if _uneven(noise):
        return _norm_sub(estimates, n)
    return _nearest(estimates, n, n * noise.q[-1] / noise.difference, 1)


def _uneven(noise: Rates) -> bool:
    """Whether values differ in their noise: unequal coins. Then two estimates add up to n, and nearest is to clip."""
    return bool(noise.q[0] != noise.q[-1])


_POINTS = 1024  # of the quadrature, in ln x: within the noise their spacing is below 0.3 standard errors
_REACH = 8.0  # standard errors to either side of an estimate; the normal density has 1e-15 beyond
_BLOCK = 512  # estimates at a time: 4 MB


def _power(estimates: F64, n: F64, noise: Rates) -> F64:
    """E[x | e] for e = x + a normal error, a priori x in [1, n] with density x^-alpha."""
    alpha = np.broadcast_to(_exponent(n, estimates.shape[-1]), estimates.shape).reshape(-1)
    total = np.broadcast_to(np.maximum(n, 1), estimates.shape).reshape(-1)
    sigma = np.sqrt(np.broadcast_to(n * noise.a, estimates.shape).reshape(-1))
    flat = estimates.reshape(-1)
    out = np.empty_like(flat)
    for start in range(0, len(flat), _BLOCK):
        part = slice(start, start + _BLOCK)
        out[part] = _posterior_mean(flat[part], sigma[part], alpha[part], total[part])
    return out.reshape(estimates.shape)


def _posterior_mean(estimate: F64, sigma: F64, alpha: F64, n: F64) -> F64:
    low = np.log(np.clip(estimate - _REACH * sigma, 1, n))[:, None]
    high = np.log(np.clip(np.maximum(estimate, 0) + _REACH * sigma, 1, n))[:, None]
    log_x = low + (high - low) * np.linspace(0, 1, _POINTS)
    x = np.exp(log_x)
    # dx = x d(ln x), hence 1 - alpha; a trapezoidal rule, hence half of the ends.
    log_weight = (1 - alpha[:, None]) * log_x - ((estimate[:, None] - x) / sigma[:, None]) ** 2 / 2
    weight = np.exp(log_weight - log_weight.max(-1, keepdims=True))
    weight[:, [0, -1]] /= 2
    return (weight * x).sum(-1) / weight.sum(-1)


def _exponent(n: F64, d: int) -> F64:
    """The alpha in [0, 2] for which the density x^-alpha in [1, n] has mean n / d, by bisection.

    The mean falls from (n + 1) / 2 at 0 to about ln n at 2, the exponent of the counts of Zipf's law. Where it
    would have to be less, few of the values have a count at all.
    """
    log_n = np.log(np.maximum(n, 2))

    def moment(s: F64) -> F64:  # the integral of x^(s - 1) over [1, n]
        return np.where(s == 0, log_n, np.expm1(s * log_n) / np.where(s == 0, 1, s))

    low, high = np.zeros_like(log_n), np.full_like(log_n, 2.0)
    for _ in range(60):
        middle = (low + high) / 2
        too_large = moment(2 - middle) / moment(1 - middle) > n / d
        low, high = np.where(too_large, middle, low), np.where(too_large, high, middle)
    return high


OF_ESTIMATES: dict[Consistency, Callable[[F64, F64], F64]] = {
    "base-pos": lambda estimates, n: np.maximum(estimates, 0),
    "norm": lambda estimates, n: estimates + (n - estimates.sum(-1, keepdims=True)) / estimates.shape[-1],
    "norm-mul": _norm_mul,
    "norm-cut": _norm_cut,
    "norm-sub": _norm_sub,
}
_OF_NOISE: dict[Consistency, Callable[[F64, F64, Rates], F64]] = {
    "mle-apx": _mle_apx,
    "mle": _mle,
    "power": _power,
    "power-ns": lambda estimates, n, noise: _norm_sub(_power(estimates, n, noise), n),
}
