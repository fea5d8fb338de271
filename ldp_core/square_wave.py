"""The square wave mechanism: distributions of numbers, by expectation maximisation with smoothing.

Z. Li, T. Wang, M. Lopuhaa-Zwakenberg, N. Li, B. Skoric, "Estimating Numerical Distributions under Local Differential
Privacy", SIGMOD 2020. A number v in [0, 1] is reported as a point of [-b, 1 + b], with density p within b of v and q
elsewhere, p / q = e^eps and, for the most mutual information (section 5.3),

    b = (eps e^eps - e^eps + 1) / (2 e^eps (e^eps - 1 - eps))    p = e^eps / (2 b e^eps + 1)    q = 1 / (2 b e^eps + 1)

Here, as in section 5.4, numbers go into d equal buckets first: with w = floor(b d) bucket v is reported as one of the
d + 2 w cells, each of the 2 w + 1 cells around its own with probability p, the others with q:

    p = e^eps / ((2 w + 1) e^eps + d - 1)        q = 1 / ((2 w + 1) e^eps + d - 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from ldp_core import linear_algebra
from ldp_core.distribution import Distribution
from ldp_core.domain import Codes
from ldp_core.errors import ParameterError
from ldp_core.estimation import check_confidence
from ldp_core.interval import STEPS, Interval
from ldp_core.numeric import F64, I64
from ldp_core.piecewise import Window
from ldp_core.probability import check_epsilon, check_integer, exp_below
from ldp_core.randomness import Noise
from ldp_core.tally import Tally

Method: TypeAlias = Literal["ems", "em"]


@dataclass(frozen=True, init=False)
class SquareWave(Window):
    """Report a bucket near the number's, more likely than one far from it; `distribution` puts them together again.

    Args:
        domain: an `Interval`, or a pair (low, high).
        epsilon: finite, > 0.
        buckets: number of equal buckets d, 2 to 2048, in which numbers are told apart. Take many: smoothing
            reaches over a few, so that their width decides what is blurred.

    Reports are cells, 0 to d + 2 w - 1, as ``uint8``, or ``uint16`` where there are more than 256.

    Raises:
        DomainError, ParameterError: an interval, an epsilon or a number of buckets that does not exist.

    >>> m = SquareWave((0, 100), epsilon=1.0, buckets=50)
    >>> round(m.b, 6), m.cells
    (0.256083, (74, 25))
    >>> m.distribution(m.tally(m.perturb([20.0] * 5000 + [60.0] * 5000)), buckets=4).edges.tolist()
    [0.0, 25.0, 50.0, 75.0, 100.0]
    """

    name: ClassVar[str] = "square_wave"

    domain: Interval
    epsilon: float
    buckets: int

    def __init__(self, domain: Interval | tuple[float, float], *, epsilon: float, buckets: int = 1024) -> None:
        object.__setattr__(self, "domain", Interval.of(domain))
        object.__setattr__(self, "epsilon", check_epsilon(epsilon))
        object.__setattr__(self, "buckets", check_buckets(buckets, least=2))
        self.check_keep()

    @cached_property
    def _b(self) -> Fraction:
        """The paper's b: for epsilon -> 0 it is 1/2, and falls."""
        epsilon = min(Fraction(self.epsilon), Fraction(100))
        if epsilon < Fraction(1, 10**9):  # where 57 digits of exp(epsilon) would not tell
            return Fraction(1, 2)
        e = exp_below(epsilon)
        return (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))

    @property
    def b(self) -> float:
        """Half the width of the window, as a share of the interval, before it is cut to whole buckets."""
        return float(self._b)

    @cached_property
    def cells(self) -> tuple[int, int]:
        """(M, W) = (d + 2 w, 2 w + 1)."""
        w = int(self._b * self.buckets)
        return self.buckets + 2 * w, 2 * w + 1

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"epsilon": self.epsilon, "buckets": self.buckets}

    def begin(self, codes: Codes, noise: Noise) -> Codes:
        """A number's bucket, which is the first cell of its window; high is in the last one."""
        first: Codes = codes.astype(np.uint64)
        first *= np.uint64(self.buckets)
        first >>= np.uint64(STEPS.bit_length() - 1)
        return np.minimum(first, np.uint64(self.buckets - 1))

    def place(self, point: int) -> Fraction:
        """See `Numeric`: the middle of a bucket."""
        return Fraction(2 * point + 1, 2 * self.buckets)

    def noise(self, shares: Any) -> F64:
        """See `Numeric`; numbers in one bucket have the same."""
        bucket = np.minimum(np.asarray(shares) * self.buckets, self.buckets - 1).astype(np.int64)
        variances: F64 = self.point_variances()[bucket]
        return variances

    @cached_property
    def most_noise(self) -> float:
        """See `Numeric`; here numbers do not lie between points."""
        return float(self.point_variances().max())

    def probabilities(self, code: int) -> list[Fraction]:
        """See `Symbols`; a code is not rounded at random but put into its bucket."""
        return self.channel(min(code * self.buckets // STEPS, self.buckets - 1))

    def share_means(self, n: Any, counts: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """See `Numeric`: an unbiased estimate of the mean of the middles of the numbers' buckets.

        A number is at most half a bucket away from that; the interval is so much wider at either end.
        """
        d = self.buckets
        mean, error, low, high = super().share_means(n, counts, confidence)
        return mean, error, low - 1 / (2 * d), high + 1 / (2 * d)

    def distribution(
        self, tally: Tally, *, buckets: int | None = None, method: Method = "ems", confidence: float = 0.95
    ) -> Distribution:
        """Estimate the share of the numbers in each bucket, by maximum likelihood or with smoothing.

        Args:
            tally: of reports of this mechanism.
            buckets: how many the result has; default the mechanism's d, of which they are made.
            method: ``"em"``: expectation maximisation. ``"ems"``: each step followed by smoothing with the weights
                1/4, 1/2, 1/4 (at the ends 2/3, 1/3), which is what to take unless the distribution has spikes.
            confidence: of the intervals, in (0, 1).

        The stopping rule is the paper's: the log likelihood gains less than 1e-3 in a step, or 1e-3 e^eps for ``"em"``.

        Standard errors tell how much the estimate varies (delta method at the fixed point of the step), not how far
        smoothing moves it from the truth. So the intervals hold for smooth distributions in many buckets, and not at
        spikes and steps: docs/numbers.md says what was measured. For ``"em"``, which stops before it arrives at
        a fixed point, they are nan.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: another method; confidence outside (0, 1); more buckets than the mechanism has.
        """
        self.check_tally(tally)
        if method not in ("ems", "em"):
            raise ParameterError(f'method must be "ems" or "em", got {method!r}')
        confidence = check_confidence(confidence)
        k = self.buckets if buckets is None else check_buckets(buckets, least=1, most=self.buckets)
        edges = self.domain.decode(np.arange(k + 1) / k)
        fine = min(self.buckets, _FINE)
        grid = self.domain.decode(np.arange(fine + 1) / fine)
        if not tally.n:
            unknown, nowhere = np.full(k, np.nan), np.full(fine, np.nan)
            return Distribution.of(edges, unknown, unknown, grid, nowhere, nowhere, 0, confidence, method)
        shares = self._fit(tally.support, method)
        gather = np.concatenate([_overlaps(self.buckets, k), np.cumsum(_overlaps(self.buckets, fine), axis=0)])
        sums = gather @ shares
        errors = self._errors(shares, tally, gather) if method == "ems" else np.full(len(sums), np.nan)
        return Distribution.of(edges, sums[:k], errors[:k], grid, sums[k:], errors[k:], tally.n, confidence, method)

    def _fit(self, counts: I64, method: Method) -> F64:
        """Shares of the d buckets, from uniform ones on."""
        smooth = method == "ems"
        least = 1e-3 if smooth else 1e-3 * np.exp(min(self.epsilon, 100.0))
        shares = np.full(self.buckets, 1 / self.buckets)
        mixture, before = self._mixture(shares), -np.inf
        for _ in range(_MOST_STEPS):
            shares = shares * self._backward(counts / mixture)
            if smooth:
                shares = smoothed(shares)
            shares /= shares.sum()
            mixture = self._mixture(shares)
            likelihood = float(counts @ np.log(mixture))
            if abs(likelihood - before) < least:
                break
            before = likelihood
        return shares

    def _mixture(self, shares: F64) -> F64:
        """Float64[..., M]: the probability of each cell; ``shares`` are float64[..., d]."""
        high, low = (float(p) for p in self.cell_probabilities)
        m, w = self.cells
        sums = np.zeros((*shares.shape[:-1], m + w))
        np.cumsum(shares, axis=-1, out=sums[..., w : m + 1])  # (m + 1 - w is d)
        sums[..., m + 1 :] = sums[..., m : m + 1]
        mixture: F64 = low * sums[..., -1:] + (high - low) * (sums[..., w:] - sums[..., :-w])
        return mixture

    def _backward(self, weights: F64) -> F64:
        """Float64[d]: the sum over the cells of a bucket's probabilities times the weights."""
        high, low = (float(p) for p in self.cell_probabilities)
        sums = np.concatenate(([0.0], np.cumsum(weights)))
        total: F64 = low * sums[-1] + (high - low) * (sums[self.cells[1] :] - sums[: self.buckets])
        return total

    def _products(self, weights: F64) -> F64:
        """Float64[d, d]: the sum over the cells of two buckets' probabilities times the weights."""
        high, low = (float(p) for p in self.cell_probabilities)
        sums = np.concatenate(([0.0], np.cumsum(weights)))
        window = sums[self.cells[1] :] - sums[: self.buckets]
        at = np.arange(self.buckets)
        begin, end = np.maximum(at[:, None], at), np.minimum(at[:, None], at) + self.cells[1]
        both = sums[np.maximum(begin, end)] - sums[begin]
        step = high - low
        products: F64 = low**2 * sums[-1] + low * step * (window[:, None] + window) + step**2 * both
        return products

    def _errors(self, shares: F64, tally: Tally, gather: F64) -> F64:
        """Float64[k]: standard errors of ``gather @ shares``, from how the fixed point moves with the counts.

        At a fixed point f = N(S g(f, c)) of step g, smoothing S and normalisation N, a change of the counts dc makes
        df = (1 - N' S dg/df)^-1 N' S dg/dc dc. Counts are multinomial with the fitted probabilities.
        """
        mixture = self._mixture(shares)
        ratio = tally.support / tally.n / mixture
        back = self._backward(ratio)
        step = np.diag(back) - shares[:, None] * self._products(ratio / mixture)
        total = smoothed(shares * back).sum()
        by_shares = smoothed(step)
        by_shares = (by_shares - np.outer(shares, by_shares.sum(axis=0))) / total
        asked = linear_algebra.solve((np.eye(self.buckets) - by_shares).T, gather.T).T
        asked = (asked - (asked @ shares)[:, None]) / total  # N', and S next, from the right
        moves = self._mixture(_smoothed_from_the_right(asked) * shares) / mixture
        variances = moves**2 @ mixture - (moves @ mixture) ** 2
        return np.sqrt(np.maximum(variances, 0) / tally.n)


_MOST_STEPS = 10_000
_MOST_BUCKETS = 2048
_FINE = 128  # steps of the cumulative distribution, from which quantiles are read


def check_buckets(buckets: int, *, least: int, most: int = _MOST_BUCKETS) -> int:
    """Return ``buckets``.

    Raises:
        ParameterError: unless it is an integer in [least, most].
    """
    return check_integer("buckets", buckets, least, most)


def _overlaps(fine: int, coarse: int) -> F64:
    """Float64[coarse, fine]: which share of each fine bucket of an interval lies in each coarse one."""
    ends = np.arange(coarse + 1)[:, None] * fine / coarse - np.arange(fine)  # of coarse buckets, inside fine ones
    shares: F64 = np.diff(ends.clip(0, 1), axis=0)
    return shares


def smoothed(shares: F64) -> F64:
    """Along the first axis, each entry mixed with its neighbours, 1/4, 1/2, 1/4; at the ends 2/3, 1/3.

    >>> smoothed(np.array([0.0, 0.0, 1.0, 0.0])).round(3).tolist()
    [0.0, 0.25, 0.5, 0.333]
    """
    out = shares / 2
    out[1:-1] += (shares[:-2] + shares[2:]) / 4
    out[0] = (2 * shares[0] + shares[1]) / 3
    out[-1] = (2 * shares[-1] + shares[-2]) / 3
    return out


def _smoothed_from_the_right(rows: F64) -> F64:
    """``rows @ S``, S being what `smoothed` multiplies with from the left."""
    out = rows / 2
    out[:, 0] = 2 * rows[:, 0] / 3
    out[:, -1] = 2 * rows[:, -1] / 3
    out[:, :-2] += rows[:, 1:-1] / 4
    out[:, 2:] += rows[:, 1:-1] / 4
    out[:, 1] += rows[:, 0] / 3
    out[:, -2] += rows[:, -1] / 3
    return out
