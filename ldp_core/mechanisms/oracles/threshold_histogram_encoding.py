"""Thresholded histogram encoding (THE): Laplace noise on each entry of a one-hot vector, and which exceed a threshold.

Wang et al. 2017, section 4.2: with noise of scale 2 / epsilon the vector is epsilon-private; the client reports only
which entries exceed theta, so that a bit is 1 with probability

    p = 1 - exp(epsilon (theta - 1) / 2) / 2   (the true value's)        q = exp(-epsilon theta / 2) / 2   (the others')

for theta in (1/2, 1). The bits are drawn with these probabilities; no Laplace variable is, and none is rounded. At a
given epsilon OUE has the smaller variance: this is here for reports that others collect or publish.
`SummationHistogramEncoding` sends the entries themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import ClassVar

from typing_extensions import override

from ldp_core.exact.probability import ceil_threshold, check_resolved, exp_below, floor_threshold
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles.independent_bits import IndependentBits
from ldp_core.parameters import check_epsilon, check_share, converted, parameter


@dataclass(frozen=True, init=False)
class ThresholdHistogramEncoding(IndependentBits):
    """Report a vector of d bits: which entries of the one-hot vector with Laplace noise exceed theta.

    Args:
        domain: a `Domain` or a list of labels. With ``unmatched="none"`` a value outside it is the
            all-zero vector, perturbed.
        unmatched: beside a list of labels: what becomes of other values, nulls included; see `Domain`.
        epsilon: finite, > 0. What a report really spends, `realized_epsilon`, is less: the bits reveal
            less than the noisy entries.
        theta: the threshold, in [1/2, 1]; default the one of least variance, to six digits.

    Reports are bit vectors in the layouts of `UnaryEncoding`.

    Raises:
        ParameterError: epsilon or theta outside its interval.

    >>> m = ThresholdHistogramEncoding(["a", "b", "c"], epsilon=1.0)
    >>> m.theta, round(m.p, 6), round(m.q, 6)
    (0.618553, 0.586819, 0.366989)
    >>> m.perturb(["a", "c"]).shape
    (2, 3)
    """

    name: ClassVar[str] = "threshold_histogram_encoding"

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)
    theta: float = parameter(check_share, least=0.5)

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon: float,
        theta: float | None = None,
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon)
        if theta is None:
            check_resolved(floor(exp_below(self.epsilon) * ONE), ONE)  # or there is no best one
            theta = best_theta(self.epsilon)
        self._declare(theta=theta)
        check_resolved(*self.thresholds)

    @cached_property
    @override
    def thresholds(self) -> tuple[int, int]:
        half, theta = Fraction(self.epsilon) / 2, Fraction(self.theta)
        p = 1 - 1 / (2 * exp_below(half * (1 - theta)))
        return floor_threshold(p), ceil_threshold(1 / (2 * exp_below(half * theta)))


_DIGITS = Context(prec=50)
_GRID = 10**6


def best_theta(epsilon: float) -> float:
    """The theta of least variance of a rare value, q (1 - q) / (p - q)^2, to six digits.

    In decimal arithmetic, which is the same on every machine: theta is part of a mechanism's fingerprint.

    >>> best_theta(2.0)
    0.709614
    """
    half = _DIGITS.divide(_DIGITS.create_decimal(min(epsilon, 100.0)), Decimal(2))
    low, high = _GRID // 2, _GRID
    while high > low:  # the variance falls and then rises: where does it stop falling?
        middle = (low + high) // 2
        if _variance(half, middle) > _variance(half, middle + 1):
            low = middle + 1
        else:
            high = middle
    return low / _GRID


def _variance(half: Decimal, theta: int) -> Decimal:
    c = _DIGITS
    share = c.divide(Decimal(theta), Decimal(_GRID))
    q = c.divide(c.exp(c.multiply(-half, share)), Decimal(2))
    p = c.subtract(Decimal(1), c.divide(c.exp(c.multiply(half, c.subtract(share, Decimal(1)))), Decimal(2)))
    gap = c.subtract(p, q)
    return c.divide(c.multiply(q, c.subtract(Decimal(1), q)), c.multiply(gap, gap))
