"""Stochastic rounding: a number becomes one of k equidistant points at random, without bias; any oracle counts these.

    E[point | x] = x        mean = c + sum of (point - c) times estimated frequency, c the middle; all unbiased

A sum of estimated frequencies, weighted with w, is an average over reports of sum_v w_v S_v / (p - q) less a constant,
S_v being whether the report supports v. Its variance given a point depends on how the S_v of one report hang together,
which an oracle knows or not: see `FrequencyOracle.sum_variance`.

With two points and randomized response this is `OneBitMean`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Codes
from ldp_core.errors import ParameterError, no_warning_of_epsilon, warn_large
from ldp_core.estimates.base import z_score
from ldp_core.estimates.distribution import Distribution
from ldp_core.estimates.mean import score_interval
from ldp_core.estimates.plausibility import Sums, collecting, watch
from ldp_core.estimates.ranges import RangeEstimate
from ldp_core.inputs.interval import Interval
from ldp_core.mechanism import Mechanism, Wrapping, of_inner
from ldp_core.mechanisms.numbers.base import Numeric, round_to_points, sample_variance, simulate_points
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_epsilon, check_integer, check_open, converted, derived, parameter
from ldp_core.reports import Native
from ldp_core.simulated_counts import Generator
from ldp_core.tally import Tally


@dataclass(frozen=True, init=False)
class StochasticRounding(Wrapping, Numeric):
    """Round a number at random to one of k points, and report that by a frequency oracle.

    Args:
        buckets: number of points k, 2 to 256: low, high and equidistant ones between.
        oracle: over the points: its name in JSON (``"unary_encoding"``, ``"randomized_response"``,
            ``"subset_selection"``, ``"hadamard_response"``, ...), or a table of it with options, as in JSON.

    Reports and tallies are the oracle's; epsilon too, as a number is a mixture of two points. A number counts for the
    two nearest points, in proportion to how near it is.

    Raises:
        ParameterError: an oracle that is memoized (it would remember numbers, not points), or of which the error of a
            sum is not known (local hashing: its functions are independent in pairs only).

    >>> m = StochasticRounding((0, 10), epsilon=2.0, buckets=11)
    >>> m.reports.arrow_type()
    FixedSizeListType(fixed_size_list<item: bool>[11])
    >>> tally = m.tally(m.perturb([2.5] * 1000 + [7.5] * 1000))
    >>> m.mean(tally).n, len(m.distribution(tally))
    (2000, 11)
    """

    name: ClassVar[str] = "stochastic_rounding"

    domain: Interval = converted(Interval.of)
    buckets: int = parameter(check_integer, low=2, high=256)
    oracle: FrequencyOracle = derived()

    def __init__(
        self,
        domain: Interval | tuple[float, float],
        *,
        epsilon: float,
        buckets: int = 16,
        oracle: str | Mapping[str, Any] = "unary_encoding",
    ) -> None:
        self._declare(domain=domain, buckets=buckets)
        epsilon = check_epsilon("epsilon", epsilon)
        made = _made(oracle, self.buckets, epsilon)
        if made.epsilon != epsilon:
            raise ParameterError(f"the oracle has epsilon {made.epsilon!r}, not {epsilon!r}")
        if made.memoized or type(made).sum_variance is FrequencyOracle.sum_variance:
            raise ParameterError(
                "oracle must be randomized_response, subset_selection, hadamard_response, projective_geometry_response "
                f"or one of independent bits, as unary_encoding; got {made.name}"
            )
        self._declare(oracle=made)
        warn_large(epsilon)

    @property
    def inner(self) -> FrequencyOracle:  # type: ignore[override]
        """The oracle, whose reports and tallies these are."""
        return self.oracle

    @property
    @override
    def points(self) -> int:
        return self.buckets

    # ---- estimates

    def _sum_variances(self, weights: F64) -> F64:
        """float64[m, k]: the variance, given each point, of a report's estimate of m weighted sums of frequencies."""
        return self.oracle.sum_variance(weights) / self.oracle.rates.difference**2

    @override
    def point_variances(self) -> F64:
        (variances,) = self._sum_variances(self.places[None] - 0.5)
        return np.asarray(variances)

    def _sums(self, n: Any, counters: I64, weights: F64) -> tuple[F64, F64]:
        """float64[..., m] each: m weighted sums of the estimated frequencies, and their standard errors.

        That the true frequencies add up to 1 is known: a sum is the weights' mean a plus that with the weights less a.
        It is as unbiased, and varies less (that of OUE for a mean by a factor 4, for many points). The variance over
        reports is E[variance given the point] + variance over the points, both from the estimated frequencies.
        """
        q, _, _, difference = self.oracle.rates
        known = np.where(np.equal(n, 0), np.nan, n)[..., None]
        frequencies: F64 = (counters / known - q) / difference
        middle = weights.mean(axis=1)
        weights = weights - middle[:, None]
        sums: F64 = frequencies @ weights.T
        given = self._sum_variances(weights)
        squares = given + weights**2
        of_all = squares.mean(axis=1)
        total = of_all + frequencies @ (squares - of_all[:, None]).T - sums**2
        variances = sample_variance(known * total, known, middle + sums, given.min(axis=1), given.max(axis=1))
        return middle + sums, np.sqrt(variances / known)

    @override
    def report_shares(self, reports: Native) -> F64:
        """The points' places, weighted; as in `_sums` less their middle."""
        middle = self.places.mean()
        weights: F64 = np.full(len(reports), middle)
        for point, place in enumerate(self.places.tolist()):
            weights += (place - middle) * self.oracle.weights_of(reports, point)
        return weights

    @override
    def share_means(self, n: Any, counters: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        mean, error = (a[..., 0] for a in self._sums(n, counters, self.places[None]))
        return mean, error, *score_interval(n, mean, error, z_score(confidence), slope=self.slope)

    @cached_property
    @override
    def slope(self) -> float:
        """By how much the variance of `_sums` is estimated higher where a mean is, of even numbers: by covariances."""
        weights = self.places - 0.5
        (given,) = self._sum_variances(weights[None])
        squares = given + weights**2
        squares -= squares.mean()
        more, less = self._sum_variances(np.array([weights + squares, weights - squares]))
        return float(((more - less) / 4 + weights * squares).mean() / (given + weights**2).mean())

    def distribution(self, tally: Tally, *, confidence: float = 0.95) -> Distribution:
        """The oracle's histogram of the points, as a distribution over k buckets with the points in their middles.

        (The first and the last bucket are half as wide.) Unbiased for what is counted: a number counts for the two
        nearest points in proportion. So frequencies can come out below 0. Points are drawn, as from a large population:
        intervals have that error, too.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: confidence outside (0, 1).
        """
        self.check_tally(tally)
        confidence = check_open("confidence", confidence)
        middles = (self.places[1:] + self.places[:-1]) / 2
        edges, points = (self.domain.decode(x) for x in (np.concatenate(([0.0], middles, [1.0])), self.places))
        points_of = Tally(tally.n, tally.counters, self.oracle.fingerprint)
        with collecting():  # (which is said of this mechanism)
            found = self.oracle.estimate(points_of, confidence=confidence, population="many")
            up_to: Any = [(0, point) for point in range(self.buckets)]
            sums = RangeEstimate(ranges=up_to, confidence=confidence, population="many").result(self.oracle, points_of)
        watch(self, tally.n, tally.counters, found.counts)
        shares = found.frequencies, found.frequency_standard_errors, found.frequency_low, found.frequency_high
        arrays = (*shares, edges, sums.frequencies, sums.frequency_low, sums.frequency_high)
        return Distribution(edges, points, *arrays, tally.n, confidence, "unbiased", self)

    @override
    def value_bounds(self) -> tuple[float, float]:
        """The middle, and the sum over the supported points of how far each is from it, over p - q.

        What a report moves in the distribution is ``oracle.influence()``.
        """
        low, high = self.oracle.sum_bounds(self.places - 0.5)
        difference = self.oracle.rates.difference
        return 0.5 + low / difference, 0.5 + high / difference

    def bounded_sums(self, n: Any, counters: I64, counts: F64 | None) -> Sequence[Sums]:
        """The oracle's: a number is one point or another."""
        if counts is None:
            q, _, _, difference = self.oracle.rates
            counts = (counters - n * q) / difference
        return self.oracle.bounded_sums(n, counters, counts)

    # ---- reports: the oracle's

    unlikely = of_inner("unlikely")
    unlikely_together = of_inner("unlikely_together")

    @property
    @override
    def block_size(self) -> int:
        """So many records, whatever the oracle's reports are: it has blocks of its own."""
        return self.chunk

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        points = round_to_points(codes, self.buckets, noise)
        return self.oracle.perturb_codes(points.astype(self.oracle.domain.code_dtype), noise)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        points = simulate_points(codes, people, self.buckets, generator)
        return self.oracle.simulate_counters(np.arange(self.buckets), points, generator)

    @override
    def parameters(self) -> dict[str, Any]:
        """The oracle by its name alone where that says all."""
        table = self.oracle.to_dict()
        oracle: Any = table.pop("mechanism")
        del table["domain"], table["epsilon"]
        if _made(oracle, self.buckets, self.epsilon) != self.oracle:
            oracle = {"mechanism": oracle, **table}
        return {"epsilon": self.epsilon, "buckets": self.buckets, "oracle": oracle}


@no_warning_of_epsilon()
def _made(oracle: str | Mapping[str, Any], buckets: int, epsilon: float) -> FrequencyOracle:
    if not isinstance(oracle, (str, Mapping)):
        raise ParameterError(f"oracle must be a name or a table, got {type(oracle).__name__}")
    table = {"mechanism": oracle} if isinstance(oracle, str) else dict(oracle)
    made = Mechanism.from_dict({"epsilon": epsilon, **table, "domain": list(range(buckets))})
    if not isinstance(made, FrequencyOracle):
        raise ParameterError(f"oracle must be a frequency oracle, got {made.name}")
    return made
