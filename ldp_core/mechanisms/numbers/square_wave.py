"""The square wave mechanism: distributions of numbers, by expectation maximization with smoothing.

Z. Li, T. Wang, M. Lopuhaa-Zwakenberg, N. Li, B. Skoric, "Estimating Numerical Distributions under Local Differential
Privacy", SIGMOD 2020. A number v in [0, 1] is reported as a point of [-b, 1 + b], with density p within b of v and q
elsewhere, p / q = e^eps and, for the most mutual information (section 5.3),

    b = (eps e^eps - e^eps + 1) / (2 e^eps (e^eps - 1 - eps))    p = e^eps / (2 b e^eps + 1)    q = 1 / (2 b e^eps + 1)

Here, as in section 5.4, numbers go into d equal buckets first: with w = floor(b d) bucket v is reported as one of the
d + 2 w cells, each of the 2 w + 1 cells around its own with probability p, the others with q:

    p = e^eps / ((2 w + 1) e^eps + d - 1)        q = 1 / ((2 w + 1) e^eps + d - 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Codes
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.estimates.distribution import Distribution
from ldp_core.estimates.expectation_maximization import Fit, derivative, fit
from ldp_core.estimates.plausibility import watch
from ldp_core.estimates.window_bounds import WindowBounds
from ldp_core.exact.probability import exp_below, fraction
from ldp_core.inputs.interval import STEPS, Interval, WholeNumbers
from ldp_core.mechanisms.numbers.means import Window
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_choice, check_integer, check_open, parameter
from ldp_core.simulated_counts import Generator, by_code
from ldp_core.tally import Tally

Method: TypeAlias = Literal["ems", "em"]
Assumption: TypeAlias = Literal["smooth"]


@dataclass(frozen=True, init=False)
class SquareWave(Window):
    """Report a bucket near the number's, more likely than one far from it; `distribution` puts them together again.

    Args:
        domain: an `Interval`, or a pair (low, high); or `WholeNumbers`, cut between them.
        buckets: number of equal buckets d, 2 to 2048, in which numbers are told apart; default 1024. Take many:
            smoothing reaches over a few, so that their width decides what is blurred. Of whole numbers one each, or as
            many as divide their number.

    Reports are cells, 0 to d + 2 w - 1, as ``uint8``, or ``uint16`` where there are more than 256.

    >>> m = SquareWave((0, 100), epsilon=1.0, buckets=50)
    >>> round(m.b, 6), m.cells
    (0.256083, (74, 25))
    >>> m.distribution(m.tally(m.perturb([20.0] * 5000 + [60.0] * 5000)), buckets=4).edges.tolist()
    [0.0, 25.0, 50.0, 75.0, 100.0]
    """

    name: ClassVar[str] = "square_wave"

    buckets: int = parameter(check_integer, low=2, high=2048)

    def __init__(self, domain: Interval | tuple[float, float], *, epsilon: float, buckets: int | None = None) -> None:
        self._declare(domain=domain, epsilon=epsilon)
        values = int(self.domain.high - self.domain.low) if isinstance(self.domain, WholeNumbers) else None
        if buckets is None and values is not None and values > 2048:
            raise ParameterError(
                f"{values} whole numbers are too many buckets: give buckets=, a divisor of {values} of at most 2048, "
                "or an Interval"
            )
        self._declare(buckets=buckets if buckets is not None else values or 1024)
        if values is not None and values % self.buckets:
            raise ParameterError(f"buckets must divide {values}, the number of whole numbers, got {self.buckets}")
        self.check_resolution()

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
    @override
    def cells(self) -> tuple[int, int]:
        """(M, W) = (d + 2 w, 2 w + 1)."""
        w = int(self._b * self.buckets)
        return self.buckets + 2 * w, 2 * w + 1

    @override
    def begin(self, codes: Codes, noise: Noise) -> Codes:
        return self._bucket(codes)

    def _bucket(self, codes: Codes) -> Codes:
        """A number's bucket, the first cell of its window. Half a step more: a code may be so far below its number."""
        first: Codes = codes.astype(np.uint64)
        first *= np.uint64(self.buckets)
        first += np.uint64(self.buckets // 2)
        first >>= np.uint64(STEPS.bit_length() - 1)
        return np.minimum(first, np.uint64(self.buckets - 1))

    @override
    def compiled(self) -> dict[str, Any]:
        return {**super().compiled(), "buckets": self.buckets}

    @override
    def simulate_beginnings(self, codes: Codes, people: I64, generator: Generator) -> I64:
        return by_code(self._bucket(codes), people, self.points)

    @override
    def place(self, point: int) -> Fraction:
        return Fraction(2 * point + 1, 2 * self.buckets)

    @override
    def noise(self, shares: Any) -> F64:
        """Numbers in one bucket have the same."""
        bucket = np.clip(np.asarray(shares) * self.buckets, 0, self.buckets - 1).astype(np.int64)
        return self.point_variances()[bucket]

    @cached_property
    @override
    def most_noise(self) -> float:
        """Here numbers do not lie between points."""
        return float(self.point_variances().max())

    @override
    def probabilities(self, code: int) -> list[Fraction]:
        """A code is not rounded at random but put into its bucket."""
        return self.channel(int(self._bucket(np.array([code], np.uint64))[0]))

    @property
    @override
    def rounds_at_random(self) -> bool:
        return False

    @property
    @override
    def blur(self) -> float:
        """Half a bucket, as a number counts for the middle; of whole numbers one less."""
        whole = self.domain.high - self.domain.low if isinstance(self.domain, WholeNumbers) else math.inf
        return 1 / (2 * self.buckets) - 1 / (2 * whole)

    @override
    def share_means(self, n: Any, counters: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """Of the middles of the numbers' buckets, and as much farther as a number may be."""
        mean, error, low, high = super().share_means(n, counters, confidence)
        return mean, error, low - self.blur, high + self.blur

    def distribution(
        self,
        tally: Tally,
        *,
        buckets: int | None = None,
        method: Method | None = None,
        confidence: float = 0.95,
        assume: Assumption | None = None,
    ) -> Distribution:
        """Estimate the share of the numbers in each bucket, by maximum likelihood or with smoothing.

        Args:
            tally: of reports of this mechanism.
            buckets: how many the result has, 1 to the mechanism's d, of which they are made; default: d, but at most
                40, as many as a table or a picture has room for. Whole numbers are cut between them.
            method: ``"em"``: expectation maximization. ``"ems"``: each step followed by smoothing with the weights
                1/4, 1/2, 1/4 (at the ends 2/3, 1/3), which is what to take of smooth shapes. Default:
                ``"ems"``, or ``"em"`` where the mechanism has fewer than 32 buckets, which smoothing blurs.
            confidence: of the intervals, in (0, 1).
            assume: None: intervals hold for every population, see `WindowBounds`. ``"smooth"``: narrower ones, of
                populations whose shares change little over a few percent of the interval: no heaps, no whole numbers.

        The stopping rule is the paper's: the log likelihood gains less than 1e-3 in a step, or 1e-3 e^eps for ``"em"``.
        A standard error is half an interval over z. With ``assume="smooth"`` it says how much the estimate varies, by
        derivatives through the steps that were taken; by how much stopping early and smoothing move it is estimated,
        and intervals reach z sqrt(error^2 + (2 bias)^2). Of fewer than `least_if_smooth` reports, which may not show
        what is there, they are those of every population.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: options that do not exist; ``"smooth"`` below epsilon 0.5, where it holds too seldom.
        """
        self.check_tally(tally)
        if method is None:
            method = "ems" if self.buckets >= _MANY else "em"
        check_choice("method", method, get_args(Method))
        if assume is not None and check_choice("assume", assume, get_args(Assumption)) and self.epsilon < _TOLD:
            raise ParameterError(
                f'assume="smooth" is for reports that tell shapes, from epsilon {_TOLD} on, got {self.epsilon!r}: '
                "leave it out, and intervals hold for every population"
            )
        confidence = check_open("confidence", confidence)
        cuts = self._cuts(buckets)
        grid = np.linspace(0, self.buckets, min(self.buckets, _FINE) + 1).round() / self.buckets
        edges, k = self.domain.decode(cuts), len(cuts) - 1
        of_buckets, of_grid = np.full((4, k), np.nan), np.full((3, len(grid) - 1), np.nan)
        if tally.n:
            watch(self, tally.n, tally.counters)
            found, z = self._fit(tally.counters, method), z_score(confidence)
            if assume and tally.n >= self.least_if_smooth:
                of_buckets, of_grid = self._smooth(found, tally.n, cuts, grid, z, _SMOOTHING if method == "ems" else 0)
            else:
                of_buckets, of_grid = self._bounded(found, tally.counters, cuts, grid, z)
        centers = (edges[1:] + edges[:-1]) / 2
        made: tuple[Any, ...] = (edges, centers, *of_buckets, self.domain.decode(grid), *of_grid)
        made += tally.n, confidence, method, self
        return Distribution(*made)

    @property
    def least_if_smooth(self) -> int:
        """From how many reports on ``assume="smooth"`` makes intervals narrower: as many say as much as 100 numbers."""
        return math.ceil(_ENOUGH / fraction(self.keep) ** 2)

    def _cuts(self, buckets: int | None) -> F64:
        """float64[k + 1]: where the buckets of a result end, as shares; between whole numbers."""
        most = self.buckets
        k = min(most, _SHOWN) if buckets is None else check_integer("buckets", buckets, 1, most)
        cuts: F64 = np.arange(k + 1) / k
        return np.rint(cuts * most) / most if isinstance(self.domain, WholeNumbers) else cuts

    def _bounded(self, found: Fit, counters: I64, cuts: F64, grid: F64, z: float) -> tuple[F64, F64]:
        """What `Distribution` has of each bucket, and of the grid, for every population.

        A cut inside one of the mechanism's buckets may have its numbers on either side. Intervals hold the estimate,
        even where that is a spike which smoothing has blurred.
        """
        d = self.buckets
        bounds = WindowBounds(counters, self._mixture(found.shares), self.cells[1], *self._densities, z)

        def intervals(begin: F64, end: F64) -> tuple[F64, F64, F64]:
            ends = begin * d, end * d
            shares = np.minimum(np.diff([np.interp(at, np.arange(d + 1), cumulative) for at in ends], axis=0)[0], 1)
            first, second = (np.floor(at + _TINY).astype(np.int64) for at in ends)
            after, last = (np.ceil(at - _TINY).astype(np.int64) for at in ends)
            low, high = bounds.bound(after, second, upper=False), bounds.bound(first, last, upper=True)
            return shares, np.minimum(low, shares), np.maximum(high, shares)

        cumulative = np.concatenate(([0.0], np.cumsum(found.shares)))
        shares, low, high = intervals(cuts[:-1], cuts[1:])
        of_grid = intervals(np.zeros(len(grid) - 1), grid[1:])
        return np.stack((shares, (high - low) / (2 * z), low, high)), np.stack(of_grid)

    def _smooth(self, found: Fit, n: int, cuts: F64, grid: F64, z: float, smoothing: float) -> tuple[F64, F64]:
        """The same for smooth populations."""
        k, prefixes = len(cuts) - 1, _prefixes(self.buckets, np.concatenate((cuts, grid[1:])))
        gather = np.concatenate((np.diff(prefixes[: k + 1], axis=0), prefixes[k + 1 :]))
        sums = np.minimum(gather @ found.shares, 1)  # (rounded, of all of them it may be above)
        errors, biases = self._errors(found, n, gather, smoothing)
        half = z * np.hypot(errors, _BIASES * biases)
        low, high = np.maximum(sums - half, 0), np.minimum(sums + half, 1)
        return np.stack((sums, errors, low, high))[:, :k], np.stack((sums, low, high))[:, k:]

    def _fit(self, counts: I64, method: Method) -> Fit:
        """Shares of the d buckets, by the paper's stopping rule."""
        if method == "ems":
            return fit(counts, self._mixture, self._backward, self.buckets, smoothing=_SMOOTHING, gain=1e-3)
        gain = 1e-3 * np.exp(min(self.epsilon, 100.0))
        return fit(counts, self._mixture, self._backward, self.buckets, gain=gain)

    def _mixture(self, shares: F64) -> F64:
        """Float64[..., M]: the probability of each cell; ``shares`` are float64[..., d]."""
        high, low = self._densities
        m, w = self.cells
        sums = np.zeros((*shares.shape[:-1], m + w))
        np.cumsum(shares, axis=-1, out=sums[..., w : m + 1])  # (m + 1 - w is d)
        sums[..., m + 1 :] = sums[..., m : m + 1]
        mixture: F64 = sums[..., w:] - sums[..., :-w]
        mixture *= high - low
        mixture += low * sums[..., -1:]
        return mixture

    def _backward(self, weights: F64) -> F64:
        """Float64[d]: the sum over the cells of a bucket's probabilities times the weights."""
        high, low = self._densities
        sums = np.zeros(len(weights) + 1)
        np.cumsum(weights, out=sums[1:])
        total: F64 = sums[self.cells[1] :] - sums[: self.buckets]
        total *= high - low
        total += low * sums[-1]
        return total

    @cached_property
    def _densities(self) -> tuple[float, float]:
        high, low = self.cell_probabilities
        return float(high), float(low)

    def _errors(self, found: Fit, n: int, gather: F64, smoothing: float) -> tuple[F64, F64]:
        """(float64[k], float64[k]): standard errors of ``gather @ shares``, and their estimated biases.

        A parametric bootstrap without noise (B. Efron, R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter
        10), of as many steps. Errors are smooth, so that 128 buckets do.
        """
        d = self.buckets
        coarse = min(d, _COARSE)
        merge = np.diff(_prefixes(d, np.arange(coarse + 1) / coarse), axis=0)  # shares of fine buckets in coarse ones
        starts = np.arange(coarse * self.symbols // d) * d // coarse
        channel = np.add.reduceat(self._mixture(merge * (coarse / d)), starts, axis=1).T
        shares = merge @ found.shares
        asked = (gather * found.shares) @ merge.T / np.maximum(shares, np.finfo(float).tiny)

        expected = channel @ shares
        smoothing *= (coarse / d) ** 2
        forth, back = (partial(np.einsum, "ij,j->i", np.ascontiguousarray(a)) for a in (channel, channel.T))
        again = fit(expected, forth, back, coarse, smoothing=smoothing, most=found.steps)
        moves = asked @ derivative(again, expected, channel, smoothing)
        variances = moves**2 @ expected - (moves @ expected) ** 2  # of multinomial counts
        return np.sqrt(np.maximum(variances, 0) / n), asked @ (again.shares - shares)


_SHOWN = 40  # buckets of a result, if nothing is said
_COARSE = 128  # buckets for errors
_FINE = 128  # steps of the cumulative distribution, from which quantiles are read
_SMOOTHING = 0.25
_MANY = 32  # buckets from which smoothing blurs less than it helps: measured
_TINY = 1e-9  # of a bucket: what floats add to a cut
_TOLD, _ENOUGH = 0.5, 100  # epsilon and n keep^2 from which intervals of smooth populations hold: measured
_BIASES = 2.0  # an estimate is blurred already and has less bias than its population: measured, see docs/numbers.md


def _prefixes(fine: int, cuts: F64) -> F64:
    """Float64[k, fine]: which share of each fine bucket of an interval lies before each cut."""
    return (cuts[:, None] * fine - np.arange(fine)).clip(0, 1)
