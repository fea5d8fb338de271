"""Stochastic rounding: a number becomes one of k equidistant points at random, without bias; any oracle counts these.

    E[point | x] = x        mean = c + sum of (point - c) times estimated frequency, c the middle; all unbiased

A sum of estimated frequencies, weighted with w, is an average over reports of sum_v w_v S_v / (p - q) less a constant,
S_v being whether the report supports v. Its variance given a point needs to know how the S_v of one report hang
together, and so the oracle: see `spread`.

With two points and randomized response this is `OneBitMean`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, singledispatch
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.estimates.distribution import Distribution
from ldp_core.estimates.options import check_confidence
from ldp_core.exact.arrays import F64, I64, Codes
from ldp_core.inputs.domain import Domain
from ldp_core.inputs.interval import Interval
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.numbers._base import Numeric, normal_interval, round_to_points
from ldp_core.mechanisms.numbers.square_wave import check_buckets
from ldp_core.mechanisms.oracles._base import FrequencyOracle
from ldp_core.mechanisms.oracles._independent_bits import IndependentBits
from ldp_core.mechanisms.oracles.hadamard_response import HadamardResponse
from ldp_core.mechanisms.oracles.randomized_response import RandomizedResponse
from ldp_core.mechanisms.oracles.subset_selection import SubsetSelection
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_epsilon
from ldp_core.reports import Native
from ldp_core.reports.reported_by import ReportedBy
from ldp_core.tally import Tally

Maker: TypeAlias = Callable[..., FrequencyOracle]


@dataclass(frozen=True, init=False)
class StochasticRounding(ReportedBy, Numeric):
    """Round a number at random to one of k points, and report that by a frequency oracle.

    Args:
        domain: an `Interval`, or a pair (low, high).
        epsilon: finite, > 0.
        buckets: number of points k, 2 to 256: low, high and equidistant ones between.
        oracle: over the points: its name in JSON (``"unary_encoding"``, ``"randomized_response"``,
            ``"subset_selection"``, ``"hadamard_response"``, ...); a table of it with options, as in JSON; or a function
            that makes it from a list of points and ``epsilon=``, as ``partial(UnaryEncoding, variant="symmetric")``.

    Reports and tallies are the oracle's. A number counts for the two nearest points, in proportion to how near it is.

    Raises:
        DomainError, ParameterError: an interval, an epsilon, a number of buckets or an oracle that does not exist; an
            oracle that is memoised (it would remember numbers, not points), or of which the error of a
            sum is not known (local hashing: its functions are independent in pairs only).

    >>> m = StochasticRounding((0, 10), epsilon=2.0, buckets=11)
    >>> m.report_type()
    FixedSizeListType(fixed_size_list<item: bool>[11])
    >>> tally = m.tally(m.perturb([2.5] * 1000 + [7.5] * 1000))
    >>> m.mean(tally).n, len(m.distribution(tally))
    (2000, 11)
    """

    name: ClassVar[str] = "stochastic_rounding"

    domain: Interval
    buckets: int
    oracle: FrequencyOracle

    def __init__(
        self,
        domain: Interval | tuple[float, float],
        *,
        epsilon: float,
        buckets: int = 16,
        oracle: str | Mapping[str, Any] | Maker = "unary_encoding",
    ) -> None:
        object.__setattr__(self, "domain", Interval.of(domain))
        object.__setattr__(self, "buckets", check_buckets(buckets, least=2, most=_MOST))
        epsilon = check_epsilon("epsilon", epsilon)
        made = _made(oracle, self.buckets, epsilon)
        if made.epsilon != epsilon:
            raise ParameterError(f"the oracle has epsilon {made.epsilon!r}, not {epsilon!r}")
        if made.memoised or spread.dispatch(type(made)) is spread.dispatch(object):
            raise ParameterError(
                "oracle must be randomized_response, subset_selection, hadamard_response or one of independent bits, "
                f"as unary_encoding; got {made.name}"
            )
        object.__setattr__(self, "oracle", made)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """The oracle's."""
        return self.oracle.epsilon

    @property
    def points(self) -> int:
        """K."""
        return self.buckets

    @property
    def counters(self) -> int:
        """The oracle's."""
        return self.oracle.counters

    def worst_ratio(self) -> Fraction:
        """The oracle's: a number is a mixture of two points."""
        return self.oracle.worst_ratio()

    def is_possible(self, n: int, counts: I64) -> bool:
        """See the oracle."""
        return self.oracle.is_possible(n, counts)

    # ---- estimates

    @cached_property
    def _rates(self) -> tuple[float, float]:
        """(q, p - q), the same for all points."""
        p, q = self.oracle.expected_parts()
        return float(q[0]), float(p[0] - q[0])

    def _spread(self, weights: F64) -> F64:
        """float64[m, k]: the variance, given each point, of a report's estimate of m weighted sums of frequencies."""
        variances: F64 = spread(self.oracle, weights) / self._rates[1] ** 2
        return variances

    def point_variances(self) -> F64:
        """See `Numeric`."""
        (variances,) = self._spread(self.places[None] - 0.5)
        return np.asarray(variances)

    def _sums(self, n: Any, counts: I64, weights: F64) -> tuple[F64, F64]:
        """float64[..., m] each: m weighted sums of the estimated frequencies, and their standard errors.

        That the true frequencies add up to 1 is known: a sum is the weights' mean a plus that with the weights less a.
        It is as unbiased, and varies less (that of OUE for a mean by a factor 4, for many points).

        The variance over reports is E[variance given the point] + variance over the points, both from the estimated
        frequencies; it is at least the least of the former.
        """
        q, difference = self._rates
        known = np.where(np.equal(n, 0), np.nan, n)[..., None]
        frequencies: F64 = (counts / known - q) / difference
        middle = weights.mean(axis=1)
        weights = weights - middle[:, None]
        sums: F64 = frequencies @ weights.T
        given = self._spread(weights)
        total = frequencies @ (given + weights**2).T - sums**2
        errors: F64 = np.sqrt(np.maximum(total, given.min(axis=1)) / known)
        return middle + sums, errors

    def share_means(self, n: Any, counts: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """See `Numeric`. The interval is the mean -+ z standard errors, z the normal quantile."""
        mean, error = (a[..., 0] for a in self._sums(n, counts, self.places[None]))
        return mean, error, *normal_interval(mean, error, confidence)

    def distribution(self, tally: Tally, *, confidence: float = 0.95) -> Distribution:
        """The oracle's histogram of the points, as a distribution over k buckets with the points in their middles.

        (The first and the last bucket are half as wide.) Unbiased for what is counted: a number counts for the two
        nearest points in proportion. So frequencies can come out below 0.

        Args:
            tally: of reports of this mechanism.
            confidence: of the intervals, in (0, 1).

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: confidence outside (0, 1).
        """
        self.check_tally(tally)
        confidence = check_confidence(confidence)
        middles = (self.places[1:] + self.places[:-1]) / 2
        edges, points = (self.domain.decode(x) for x in (np.concatenate(([0.0], middles, [1.0])), self.places))
        n = tally.n or np.nan
        debiased = self.oracle.debias(tally.n, tally.counters, confidence=confidence)
        frequencies, errors, low, high = (a / n for a in debiased)
        cumulative, cumulative_errors = self._sums(np.array(tally.n), tally.counters, np.tri(self.buckets))
        arrays = (frequencies, errors, low, high, edges, cumulative, cumulative_errors)
        return Distribution(edges, points, *arrays, tally.n, confidence, "unbiased")

    # ---- reports: the oracle's

    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        """See the oracle, of the points."""
        points = round_to_points(codes, self.buckets, noise)
        return self.oracle.perturb_codes(points.astype(self.oracle.domain.code_dtype), noise)

    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """See the oracle."""
        return self.oracle.count_reports(reports, groups, n_groups)

    @property
    def reporter(self) -> Mechanism:
        """The oracle."""
        return self.oracle

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`: the oracle by its name alone where that says all."""
        table = self.oracle.to_dict()
        oracle: Any = table.pop("mechanism")
        del table["domain"], table["epsilon"]
        if _made(oracle, self.buckets, self.epsilon) != self.oracle:
            oracle = {"mechanism": oracle, **table}
        return {"epsilon": self.epsilon, "buckets": self.buckets, "oracle": oracle}


_MOST = 256


def _made(oracle: str | Mapping[str, Any] | Maker, buckets: int, epsilon: float) -> FrequencyOracle:
    """The oracle over the points."""
    points = list(range(buckets))
    if callable(oracle):
        made: Any = oracle(points, epsilon=epsilon)
    elif not isinstance(oracle, (str, Mapping)):
        raise ParameterError(f"oracle must be a name, a table or a function, got {type(oracle).__name__}")
    else:
        table = {"mechanism": oracle} if isinstance(oracle, str) else dict(oracle)
        made = Mechanism.from_dict({"epsilon": epsilon, **table, "domain": points})
    if not isinstance(made, FrequencyOracle) or made.domain != Domain(points):
        raise ParameterError("oracle must make a frequency oracle over the points that it is given")
    return made


@singledispatch
def spread(oracle: FrequencyOracle, weights: F64) -> F64:
    """Var[sum_v w_v S_v | x] for each x, S_v being whether a report of x supports v.

    Args:
        oracle: over k values.
        weights: float64[m, k].

    Returns:
        float64[m, k], [i, x] for weights i.

    Raises:
        ParameterError: how the S_v of a report hang together is not known.
    """
    raise ParameterError(f"the error of a sum of frequencies is not known for {oracle.name}")


@spread.register
def _(oracle: RandomizedResponse, weights: F64) -> F64:
    """One S_v is 1: w of a value that is x with p, any other given one with q."""
    p, q = oracle.p, oracle.q
    first, second = (q * a.sum(axis=1, keepdims=True) + (p - q) * a for a in (weights, weights**2))
    variances: F64 = second - first**2
    return variances


@spread.register
def _(oracle: IndependentBits, weights: F64) -> F64:
    """The S_v are independent."""
    p, q = oracle.p, oracle.q
    squares = weights**2
    variances: F64 = q * (1 - q) * (squares.sum(axis=1, keepdims=True) - squares) + p * (1 - p) * squares
    return variances


@spread.register
def _(oracle: SubsetSelection, weights: F64) -> F64:
    """Of the others, k - 1 are drawn without replacement if x is in the subset, else k."""
    others, k, p = weights.shape[1] - 1, oracle.k, oracle.p
    mean = (weights.sum(axis=1, keepdims=True) - weights) / others
    variance = ((weights**2).sum(axis=1, keepdims=True) - weights**2) / others - mean**2
    drawn = (p * (k - 1) * (others - k + 1) + (1 - p) * k * (others - k)) / max(others - 1, 1)
    variances: F64 = drawn * variance + p * (1 - p) * (weights - mean) ** 2
    return variances


@spread.register
def _(oracle: HadamardResponse, weights: F64) -> F64:
    """Over all columns: uniform among those that support x with p, else among the others."""
    columns = oracle.columns
    supports = oracle.count_reports(np.arange(columns, dtype=np.uint64), np.arange(columns), columns)
    given = np.where(supports, oracle.p, 1 - oracle.p) * 2 / columns  # [column, x]
    sums = weights @ supports.T
    variances: F64 = sums**2 @ given - (sums @ given) ** 2
    return variances
