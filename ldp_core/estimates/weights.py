"""One unbiased weight per report, and what sums of weights estimate: totals, means and quantiles.

The weight w of a report for a value has the expectation 1 if the record has the value, and 0 if it has another one. Of
a pure protocol it is (S - q) / (p - q), S whether the report supports the value (Wang et al., USENIX Security 2017,
Equation 1, of one report); of a number it is the report's value, with the number as its expectation. So the sum of
w y over records is an unbiased total of a public number y among those who have the value. Columns that are perturbed
independently have independent noise, so that products of their weights are unbiased for products of indicators.

**Means and totals** of independent numbers have the estimated variance V. If the mean is x higher because there are
more of some numbers that are rare, and J higher than most, V is J x higher. So the interval reaches to the greatest x
with x^2 <= z^2 (V + J x), and not less far than z standard errors. Of two numbers, a < b, J is (a + b - 2 f) / n and
V + J x - x^2 / n the exact variance: it is Wilson's interval. Of more, J is sum r^3 / sum r^2, r the part of a record
in the error, where V < 50 J^2, and z Student's quantile by the fourth moment. Where V is 0 the other number must be
known. Of few products perhaps none of a large y is supported. So a total has the V and J of coins of y, too, p of them
heads, the share of products above 0, with y on the scale on which these and the others have the same geometric mean. Of
less than half a coin it is unbounded.

**Quantiles.** The q-quantile of y among those who have the value is where sum w (1[y <= t] - q) crosses 0. The interval
is from the first t where that is not z standard errors below 0 to the last one where it is not as many above (R. S.
Woodruff, JASA 47(260), 1952).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import InputError, ParameterError, warn_user
from ldp_core.estimates.base import Population, Result, SingleNumber, score_reach, z_score
from ldp_core.estimates.clusters import LEAST_EFFECTIVE, student
from ldp_core.estimates.mean import MeanEstimate, off_of, score_interval
from ldp_core.estimates.tails import reach_of_few
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_integer, check_open, shown
from ldp_core.reports import Native
from ldp_core.reports.numbers import Number
from ldp_core.tables import View, in_percent

_HUGE = 1e100
_COUNTERS = 1 << 20  # of tallies of one report each, at a time


def one_by_one(mechanism: Mechanism, reports: Native, estimate: Callable[[I64], F64]) -> F64:
    """The estimate from each report by itself, from int64[k, counters] to float64[k]; of few symbols once from each."""
    form = mechanism.reports
    if isinstance(form, Number) and form.limit <= min(len(reports), _COUNTERS // mechanism.counters):
        of_symbol = _in_blocks(mechanism, np.arange(form.limit).astype(form.dtype), estimate)
        return of_symbol[reports.astype(np.intp, copy=False)]
    return _in_blocks(mechanism, reports, estimate)


def _in_blocks(mechanism: Mechanism, reports: Native, estimate: Callable[[I64], F64]) -> F64:
    out, step = np.empty(len(reports)), max(_COUNTERS // mechanism.counters, 1)
    for start in range(0, len(reports), step):
        block = reports[start : start + step]
        out[start : start + step] = estimate(mechanism.count_reports(block, np.arange(len(block)), len(block)))
    return out


# ---- totals


@dataclass(frozen=True, eq=False, repr=False)
class Total(SingleNumber):
    """A sum of numbers, as of weights times a public number.

    Attributes:
        total: the estimate.
        standard_error, low, high: of noise and of the people together, who are a sample of many: infinite if these are
            fewer than two records, all the same, or none above 0. The interval is unbounded where that of
            `weighted_mean` is.

    >>> Total(2.5, 1.6, -0.6, 5.6, 3, 0.95)
    Total of 3 records: 2.5, standard error 1.6, 95% interval -0.6 to 5.6
    """

    view: ClassVar[View] = View("total", unit="total")

    total: float
    standard_error: float
    low: float
    high: float
    n: int
    confidence: float
    mechanism: Mechanism | None = None


def total(numbers: Any, weights: Any = None, *, confidence: float = 0.95, repeats: int = 1) -> Total:
    """The sum of some numbers, with its interval: so many times their `weighted_mean`.

    If all numbers are above 0, z^2 more reports may not have supported the value: it reaches so much lower. There is a
    warning if fewer than 30 reports carry a sum of uneven numbers, and of fewer than ten it is unbounded.

    Args:
        numbers: float[n], of n records, which are independent: products of public numbers y and of weights for values
            of one column or two (of three, or of two of which few reports support one, ask a table, of private numbers
            ``ldp estimate --by-private``). Or a pair of a mechanism for numbers and its reports.
        weights: float[n], those weights w: of products alone nothing tells whose report supports the value, if y may be
            below 0. They may be left out where ``numbers`` are weights of few different values, or products of these.
            If no report supports the value, the interval is unbounded.
        confidence: of the interval, in (0, 1).
        repeats: see `ratio`.

    Raises:
        InputError: not columns of as many finite numbers.
        ParameterError: confidence outside (0, 1); weights beside reports of numbers; none of numbers that differ.

    >>> total([1.5, -0.5] * 50)
    Total of 100 records: 50, standard error 10.1, 95% interval 30.0579 to 69.9421
    >>> total([-1.5, 0.5] * 50, [1.5, -0.5] * 50)
    Total of 100 records: -50, standard error 10.1, 95% interval -69.9421 to -30.0579
    """
    if weights is None:
        if not is_private(numbers):
            [u] = columns_of(numbers=numbers)
            some = u[u != 0][:1000]
            if _uneven(u) and (u.min() > 0 or len(np.unique(some)) > _OF_WEIGHTS):
                raise ParameterError(
                    "the numbers of a total differ: say the weights, too, as (w * y).ldp.total(w), or themselves if "
                    "they are weights: where y is below 0 nothing else tells which reports support the value"
                )
        return _total(numbers, confidence, repeats)
    if is_private(numbers):
        raise ParameterError("weights go with products of public numbers and these, not with reports of numbers")
    u, w = columns_of(numbers=numbers, weights=weights)
    there = u != 0
    if there.sum() >= _BY_CHANCE and _one_sign(u) and not _one_sign(w[there]):
        raise ParameterError(
            "a total is of products with the weights: w * y, as in (w * y).ldp.total(w), and not y alone"
        )
    above, below = bool((u * w >= 0).all()), bool((u * w <= 0).all())
    if above:
        return _total(u, confidence, repeats)
    # The total of |y|, whose products have the signs of w, has as much noise V, which grows as much with those who have
    # the value, and the longer tail (weights are skewed to one side; here to both). If it is in its interval, so that
    # x <= r, V is at most r^2 / z^2: r is z errors of the total of y or more. It is the mirror image if all y are < 0.
    # Nor is r less than if w is independent of y: a large y may have no report that supports the value.
    alike = _total(np.copysign(u, w), confidence, repeats)
    if below:
        return replace(alike, total=-alike.total, low=-alike.high, high=-alike.low)
    y = np.divide(u, w, out=np.zeros(len(u)), where=w != 0)
    reach = z_score(confidence) * times_of(repeats) * float(w.std()) * math.sqrt(y @ y)
    reach = max(reach, alike.total - alike.low, alike.high - alike.total)
    mean, found = weighted_mean(u, confidence=confidence, repeats=repeats), float(u.sum())
    error, low, high = (len(u) * x for x in (mean.standard_error, mean.low, mean.high))
    return replace(alike, total=found, standard_error=error, low=min(low, found - reach), high=max(high, found + reach))


def _one_sign(numbers: F64) -> bool:
    return bool((numbers >= 0).all() or (numbers <= 0).all())


_BY_CHANCE = 30  # products that have one sign by chance, if y has the signs of w
_OF_WEIGHTS = 8  # so many different products three columns' weights have


def _total(numbers: Any, confidence: float, repeats: int) -> Total:
    """See `total`, of y above 0."""
    mean = weighted_mean(numbers, confidence=confidence, repeats=repeats)
    error, low, high = (max(mean.n, 1) * x for x in (mean.standard_error, mean.low, mean.high))
    if is_private(numbers):
        return Total(mean.n * mean.mean if mean.n else 0.0, error, low, high, mean.n, confidence)
    [u] = columns_of(numbers=numbers)
    if len(u) and u.min() > 0:
        low -= 2 * repeats * z_score(confidence) ** 2 * mean.mean
    found, (below, above) = float(u.sum()), (0.0, 0.0)
    if not _of_both(u)[1]:
        below, above = _reach_of_products(u, error, z_score(confidence), repeats)
    return Total(found, error, min(low, found - below), max(high, found + above), len(u), confidence)


def _reach_of_products(u: F64, error: float, z: float, repeats: int) -> tuple[float, float]:
    """How far a total of y w reaches if few carry it, as if w were of two values that y tells nothing of; else 0."""
    every, u = u, u[np.argsort(np.abs(u))]
    u = u[np.cumsum(u**2) > _NOTHING * (u @ u)]  # (nearly nothing is of reports that tell nothing, of other blocks)
    if _uneven(every) and not told_by(len(u) / repeats) and _uneven(u):
        return math.inf, math.inf
    below, above = (np.log(np.abs(u[side])) for side in (u < 0, u > 0))
    if not (len(below) and len(above)):
        return 0.0, 0.0
    scale = math.exp(min(above.mean() - below.mean(), _MOST_LOG))
    coins, p = np.where(u > 0, u / scale, -u), len(above) / (len(above) + len(below))
    size = float(coins.max())
    coins /= size
    squares, size, v = float(coins @ coins), size * (1 + scale), p * (1 - p)
    many, known = squares**2 / float(coins**2 @ coins**2) * v / repeats, math.sqrt(squares * v * repeats) * size
    if many > MANY or known < _CARRIED * error or coins.min() > 1 - SAME:
        return 0.0, 0.0
    if many < _LEAST_COINS:
        return math.inf, math.inf
    t, jump = student(z, max(many, 3)), (1 - 2 * p) * float(coins**2 @ coins) / squares * repeats * size
    return float(score_reach(t, known, -jump)), float(score_reach(t, known, jump))


def _uneven(u: F64) -> bool:
    """Whether products above 0, or those below it, differ: y is not 1, or 0 and 1."""
    return any(side.max() > (1 + SAME) * side.min() for side in (u[u > 0], -u[u < 0]) if len(side))


def _of_both(u: F64) -> tuple[float, bool]:
    """The product of reports that support both of two values, 0 if these are no such products; and if y is alike.

    Weights are a and -b, so that products are a1 a2, -a1 b2, -b1 a2 and b1 b2, the last one of most reports where both
    values are rare. Perhaps the first one, which is the largest by far, is of nobody here; the others tell it. Where u
    is clearly above 0 somebody has it, or these are weights of one value or more, or one less such weights. Where one
    column's weights are a and -a, and no report supports the other's value, nothing tells it: infinity.
    """
    digits = DIGITS * np.abs(u).max(initial=0)  # (sums of weights that are 0 but for rounding)
    below, above = -u[u < -digits], u[u > digits]
    if not (len(below) and len(above)):
        return 0.0, False
    none, ones, most = float(above.min()), (float(below.min()), float(below.max())), float(above.max())
    both = ones[0] * ones[1] / none
    four = ((below == ones[0]) | (below == ones[1])).all() and ((above == none) | (above == most)).all()
    large = max(ones[1], most)
    if four and none == ones[0] and min(ones[1], most) in (none, large):  # weights of a column are a and -a
        unseen = large < min(1 - SAME, 100 / len(u))  # no report supports the other column's value
        return (large if large > none else math.inf if unseen else 0.0), False
    four = four and none < ones[0] * (1 - SAME)
    somebody = u.sum() > 2 * math.sqrt(u @ u)
    if four and (abs(most - both) < SAME * both or (most == none and not somebody)):
        return both, True
    if somebody:
        return 0.0, False
    logs = np.log(below), np.log(above)
    smaller = float(logs[0].mean() - logs[1].mean())  # (of weights of one value, products above 0 are larger)
    if smaller < 2 * math.sqrt(sum(some.var() / len(some) for some in logs)) + SAME:
        return 0.0, False
    return max(ones[1] * math.exp(min(smaller, _MOST_LOG)), most), False


def told_by(carrying: float) -> bool:
    """Whether so many reports tell an interval of a sum of uneven numbers; of few a warning, as large ones may lack."""
    carrying *= 1 + SAME  # (ten are ten, in whatever order their squares are added)
    if carrying < _LARGE_ONES:
        warn_user(
            f"fewer than {_LARGE_ONES} reports carry a sum of weights: if a few weights or numbers are far larger than "
            "most, its interval holds less often than it says, or is unbounded. Ask more people, or for a median, "
            "weighted_quantiles"
        )
    return carrying >= LEAST_EFFECTIVE


_LARGE_ONES = 30  # of so many one is nearly always among those that one in ten has
_MOST_LOG, _CARRIED, _LEAST_COINS = 300, 0.84, 0.5  # least part of the error; least coins, for a bound
_NOTHING = 1e-4  # part of all squares


# ---- means of a population that the people do not stand for alike


@dataclass(frozen=True, eq=False, repr=False)
class WeightedMean(SingleNumber):
    """The mean of some numbers, of people who stand for more or fewer others; of weights of reports it is a share.

    Attributes:
        mean: the estimate.
        standard_error, low, high: of noise and of the people together, by linearization.
        effective: how many people who stand for as many each would tell as much: (sum v)^2 / sum v^2 of their weights v
            (L. Kish, "Survey Sampling", 1965, Section 11.7).

    >>> round(weighted_mean([1.0, 0.0] * 50, groups=["a", "b"] * 50, shares={"a": 0.8, "b": 0.2}).effective, 3)
    73.529
    """

    view: ClassVar[View] = View("mean", unit="mean")

    mean: float
    standard_error: float
    low: float
    high: float
    effective: float
    n: int
    confidence: float
    mechanism: Mechanism | None = None

    @classmethod
    @override
    def arrow_schema(cls) -> pa.Schema:
        return super().arrow_schema().append(pa.field("effective", pa.float64()))


def weighted_mean(
    numbers: Any,
    *,
    weights: Any = None,
    groups: Any = None,
    shares: Mapping[Any, float] | None = None,
    confidence: float = 0.95,
    repeats: int = 1,
) -> WeightedMean:
    """The mean of a population by survey weights, by known shares of groups (post-stratification), or by both.

    With weights d of the records and known shares P of the groups h, each of sums over the n_h records of a group,

        f = sum_h P_h f_h,  f_h = sum d u / sum d            V = sum_h P_h^2 sum (d (u - f_h))^2 / (sum d)^2 / k_h
        k_h = 1 + sum d^2 / (sum d)^2 - 2 sum d^3 / sum d / sum d^2         (of alike people (n_h - 1) / n_h)

    so that V is unbiased if all in a group vary as much. Each f_h is a ratio, linearized (W. G. Cochran, "Sampling
    Techniques", 3rd ed., 1977, Equation 6.13, without the correction for a finite population). V is given how many of
    each group came (D. Holt, T. M. F. Smith, "Post Stratification", JRSS A 142(1), 1979). Without groups there is one,
    of share 1. The quantile of the interval is Student's, for as many degrees of freedom as F. E. Satterthwaite,
    Biometrics Bulletin 2(6), 1946, gives V with those who are effective.

    Weights of reports for a value are two numbers, a < b, so that with a share f one has the variance (b - f) (f - a).
    Of numbers of which exactly two occur, each group has the score interval of that (see this module's text), with
    m_h = sum d sum d^2 / sum d^3 for n in J, as those who stand for many may be of one kind. The squares of their
    lengths to each side add up, with the factor P_h^2 (R. G. Newcombe, "Interval Estimation for the Difference between
    Independent Proportions", Statistics in Medicine 17(8), 1998). Student's quantile is then that of as many people as
    are effective. If few of more numbers carry V, it has the degrees of freedom that their fourth moment tells. The
    interval is unbounded where all numbers are the same, where none is above 0 (no report supports the value), and
    where fewer than ten people are effective. One record does not tell how much another one would differ: its standard
    error is infinite without groups, as that of numbers all the same, or of none above 0. Reports of private numbers
    have, of each group, the interval of `MeanEstimate`, of m_h people; lengths add up as above, and V is not below
    their noise. (Weights do not tell of far reports that nobody sent.)

    Args:
        numbers: float[n], of n records of independent people: unbiased weights of reports for a value
            (`Mechanism.weights`), so that the mean is its share, or products of those of two columns; or, of private
            numbers, a pair of the mechanism and its reports.
        weights: float[n], above 0: how many people each stands for, as one over the probability of being asked.
        groups: the public group of each, with ``shares``.
        shares: of each group in the population; they add up to 1.
        confidence: of the interval, in (0, 1).
        repeats: see `ratio`; the people are then so many times fewer, too.

    Raises:
        InputError: not columns of as many finite numbers; weights that are not above 0; a group without a share, or one
            with fewer than two records.
        ParameterError: shares that do not add up to 1, or shares without groups; confidence outside (0, 1).

    >>> weighted_mean([1.0, 0.0, 1.0, 1.0] * 25, weights=[1.0, 3.0] * 50)
    WeightedMean of 100 records: 0.625, standard error 0.0567, 95% interval 0.508008 to 0.737841
    """
    z, (mechanism, u) = z_score(check_open("confidence", confidence)), _numbers_of(numbers)
    u, d = columns_of(numbers=u, weights=np.ones(len(u)) if weights is None else weights)
    if not (d > 0).all():
        raise InputError(f"weights must be above 0, and {np.count_nonzero(d <= 0):,} of {len(d):,} are not")
    if (groups is None) != (shares is None):
        raise ParameterError("groups and shares go together: the group of each record, and the share of each group")
    if shares is None and len(u) < 2:
        return WeightedMean(
            u.sum() if len(u) else np.nan, np.inf, -np.inf, np.inf, len(u) / repeats, len(u), confidence
        )
    of, parts = (np.zeros(len(u), np.int64), np.ones(1)) if shares is None else _groups_of(groups, shares, len(u))
    counts, sums = (np.bincount(of, x, minlength=len(parts)) for x in (None, d))
    if (counts < 2).any():
        raise InputError(
            f"{np.count_nonzero(counts < 2)} of {len(parts)} groups have fewer than two records, which do not tell how "
            "much another one would differ: give coarser groups"
        )
    means = np.bincount(of, d * u, minlength=len(parts)) / sums
    v = (parts / sums)[of] * d
    r, each = v * (u - means[of]), np.bincount(of, v**2)
    squares, sizes = r**2, each * times_of(repeats) ** 2
    alike, cubes = each / parts**2, np.bincount(of, v**3) / parts**3
    people = alike / cubes / repeats  # (fewer than are effective: those who stand for many may be of one kind)
    variances = np.bincount(of, squares) / np.maximum(1 + alike - 2 * cubes / alike, SAME) * repeats
    if mechanism is not None:  # the noise is known, also where no report has shown it
        length, inside = mechanism.domain.high - mechanism.domain.low, (means - mechanism.domain.low)
        variances = np.maximum(variances, sizes * mechanism.noise(inside / length) * length**2)
    variance, effective = float(variances.sum()), 1 / float(sizes.sum())
    made, least, most, (both, _) = float(parts @ means), u.min(), u.max(), _of_both(u)
    two = both == 0 and most > least and bool(((u == least) | (u == most)).all())
    if mechanism is not None:
        told = effective > LEAST_EFFECTIVE - SAME
        ends = _of_private(mechanism, parts, means, variances / parts**2, people, z) if told else (-math.inf, math.inf)
        return WeightedMean(made, math.sqrt(variance), *ends, effective, len(u), confidence)
    below = above = np.array([np.inf])
    if effective > LEAST_EFFECTIVE - SAME and most > 0 and (two or variance > (DIGITS * made) ** 2):
        told_by(float(people.sum()) if np.ptp(d) > SAME * d.max() else math.inf)
        if two:
            t, sizes = student(z, effective - 1), sizes * counts / (counts - 1)
            known, jumps = sizes * (most - means) * (means - least), least + most - 2 * means
            known = np.maximum(known, variances)  # (more where numbers go with weights)
            jumps, curve = jumps * parts / people * counts / (counts - 1), sizes / parts**2
        else:
            degrees = 1 / float(((variances / variance) ** 2 / np.maximum(1 / alike / repeats - 1, 0.5)).sum())
            variances = known = np.array([variance])
            jumps, curve = repeats * np.array([squares @ r]) / squares.sum(), np.zeros(1)
            if variance < MANY * float(jumps @ jumps):
                degrees = min(degrees, 2 / repeats / (float(squares @ squares / squares.sum() ** 2) - 1 / len(r)))
            else:
                jumps *= 0
            t = student(z, max(degrees, 1))
        rare = (both - made) * v.max() * repeats if both else 0.0
        farther = np.maximum(jumps, rare) if variance < MANY * rare**2 else jumps
        below, above = (reach(t, variances, known, jump, curve) for jump in (-jumps, farther))
    low, high = made - float(np.sqrt(below @ below)), made + float(np.sqrt(above @ above))
    variance = variance if most > max(least, 0) else math.inf
    return WeightedMean(made, math.sqrt(variance), low, high, effective, len(u), confidence)


def _of_private(mechanism: Any, parts: F64, means: F64, variances: F64, people: F64, z: float) -> tuple[float, float]:
    """The ends of a mean of private numbers, where each group has those of `MeanEstimate`, of so many people."""
    low, high = mechanism.domain.low, mechanism.domain.high
    length, made = high - low, float(parts @ means)
    ends = score_interval(people, means, np.sqrt(variances), z, low, high, mechanism.slope * length)
    coin, off = mechanism.step * length / people, off_of(mechanism)
    low, high = reach_of_few(ends, means, people, z, coin, (variances, 0.0, 0.0), 1)
    below, above = parts * (means - low), parts * (high - means)
    return made - math.sqrt(below @ below) - off, made + math.sqrt(above @ above) + off


def reach_of_private(
    mechanism: Any, mean: float, error: float, jump: float, confidence: float, repeats: int = 1
) -> tuple[float, float]:
    """How far a total of w y reaches, y private, for far reports of y that nobody sent; 0 where it is of many.

    Products do not show them. The ``mean`` is that of y, the ``error`` the total's; the ``jump`` is what one report
    adds to sum w^2 a unit of y, sum w^3 / sum w^2; infinite if no w is above 0: no report tells what y then is.
    """
    if math.isinf(jump):
        return math.inf, math.inf
    z, domain = z_score(confidence), mechanism.domain
    far = np.abs(domain.decode(np.array(mechanism.value_bounds())) - np.clip(mean, domain.low, domain.high))
    jumps = far * jump * repeats
    below, above = np.where(error**2 < MANY * jumps**2, score_reach(z, error, jumps), 0.0)
    return float(below), float(above)


def is_private(numbers: Any) -> bool:
    """Whether these are a pair of a mechanism and its reports."""
    return isinstance(numbers, tuple) and len(numbers) == 2 and isinstance(numbers[0], Mechanism)


def _numbers_of(numbers: Any) -> tuple[Any, F64]:
    """The mechanism of a pair of it and its reports, or None; and the numbers, or the weights of the reports."""
    if is_private(numbers):
        MeanEstimate().check(numbers[0])
        return numbers[0], numbers[0].weights(numbers[1])
    [made] = columns_of(numbers=numbers)
    return None, made


def are_two(low: float, high: float, ones: float, numbers: float, squares: float) -> bool:
    """Whether numbers between both ends are one of these: from weighted sums of 1, of them, and of their squares."""
    between = (low + high) * numbers - low * high * ones - squares  # the sum of (x - low) (high - x), not negative
    return abs(between) <= SAME * (high - low) ** 2 * ones


SAME, DIGITS = 1e-9, 1e-12


def reach(z: float, variance: F64, known: F64, jump: F64, curve: F64 | float) -> F64:
    """The greatest x with x^2 <= z^2 (known + jump x - curve x^2), and no less than z standard errors."""
    error = np.sqrt(np.maximum(known, 0))  # (rounding may leave less than 0, where all numbers of a group are one)
    return np.maximum(score_reach(z, error, jump, curve), z * np.sqrt(variance))


MANY = 50
"""As many records are not few."""


def _groups_of(groups: Any, shares: Mapping[Any, float], n: int) -> tuple[I64, F64]:
    """The position of each record's group among those that have a share, and the shares."""
    try:
        parts = {group: float(share) for group, share in shares.items() if share != 0}
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ParameterError(f"shares must be a mapping of each group to its share, got {shown(shares)}") from None
    if not all(0 < share <= 1 for share in parts.values()) or abs(sum(parts.values()) - 1) > _SHARES:
        raise ParameterError(f"shares must be in [0, 1] and add up to 1, got {sum(parts.values()):.6g}")
    places = {group: place for place, group in enumerate(parts)}
    try:  # (arrays' own items are no keys of a mapping)
        of = np.array([places.get(group, -1) for group in getattr(groups, "tolist", lambda: groups)()], np.int64)
    except TypeError:
        raise InputError(f"groups must be a column of as many labels as there are records, {n:,}") from None
    if len(of) != n or (of < 0).any():
        raise InputError(
            f"groups must be the group of each of {n:,} records, one of the {len(parts)} that have a share: got "
            f"{len(of):,}, of which {np.count_nonzero(of < 0):,} have none"
        )
    return of, np.array(list(parts.values()))


_SHARES = 1e-6


# ---- quantiles


@dataclass(frozen=True, eq=False)
class Quantiles(Result):
    """Quantiles of numbers, with intervals.

    Attributes:
        probabilities: of the quantiles, float64[k]; the next three are float64[k], too, or of labels k texts.
        quantiles: the estimates; nan or None where nothing is known.
        low, high: ends of the confidence intervals; -inf or inf where no number is excluded.
        population: whom the intervals are about, see `QuantilesEstimate`.

    >>> weighted_quantiles(range(1, 101), np.ones(100), [0.5])
    Quantiles of 100 records, 95% intervals
    50%: 50 (41 to 60)
    """

    view: ClassVar[View] = View("quantile", ("probability",), unit="quantile", alone=True)
    question: ClassVar[str] = "quantiles"

    probabilities: F64
    quantiles: F64 | tuple[str | None, ...]
    low: F64 | tuple[str, ...]
    high: F64 | tuple[str, ...]
    n: int
    confidence: float
    mechanism: Mechanism | None = None
    population: Population = None

    def __repr__(self) -> str:
        rows = zip(self.probabilities, self.quantiles, self.low, self.high, strict=True)
        lines = [f"{100 * p:.4g}%: {word(q)} ({word(low)} to {word(high)})" for p, q, low, high in rows]
        what = "records" if self.mechanism is None else "reports"
        return "\n".join([f"Quantiles of {self.n:,} {what}, {in_percent(self.confidence)}% intervals", *lines])

    @override
    def to_arrow(self) -> pa.Table:
        """Table of columns probability, quantile, low, high, n; a row per quantile."""
        arrays = (self.probabilities, self.quantiles, self.low, self.high, np.full(len(self.low), self.n))
        return self._with_metadata(pa.table([pa.array(array) for array in arrays], QUANTILE_SCHEMA.names))


def word(value: Any) -> str:
    """A quantile for people."""
    return f"{value:.6g}" if isinstance(value, float) else "not known" if value is None else str(value)


QUANTILE_SCHEMA = pa.schema(
    [*((name, pa.float64()) for name in ("probability", "quantile", "low", "high")), ("n", pa.int64())]
)


def weighted_quantiles(
    numbers: Any, weights: Any, probabilities: Sequence[float], *, confidence: float = 0.95, repeats: int = 1
) -> Quantiles:
    """Quantiles of a public number in a private group, with Woodruff's intervals.

    Args:
        numbers: float[n], public.
        weights: float[n], of the group: `FrequencyOracle.weights`, or a product of such.
        probabilities: of the quantiles, each in (0, 1).
        confidence: of each interval, in (0, 1).
        repeats: see `ratio`.

    Raises:
        InputError: not two columns of as many finite numbers.
        ParameterError: a probability or confidence outside (0, 1).

    >>> from ldp_core import RandomizedResponse
    >>> system = RandomizedResponse(["ios", "android"], epsilon=50.0)
    >>> minutes = np.array([30.0, 10.0, 50.0, 20.0])
    >>> w = system.weights(system.perturb(["ios", "android", "ios", "android"]), "ios")  # hardly any noise
    >>> weighted_quantiles(minutes, w, [0.5]).quantiles.tolist()
    [30.0]
    """
    y, w = columns_of(numbers=numbers, weights=weights)
    if not isinstance(probabilities, Iterable) or getattr(probabilities, "shape", None) == ():
        raise ParameterError(f"probabilities must be a list, as [0.5, 0.9], got {shown(probabilities)}")
    p = np.array([check_open("probabilities", q) for q in probabilities])
    z = times_of(repeats) * z_score(check_open("confidence", confidence))
    least, most = w.min(initial=1), w.max(initial=0)
    of_one = max(least + most - least * most, 1) if are_two(least, most, len(w), w.sum(), float(w @ w)) else 1.0
    order = np.argsort(y)
    y, w = y[order], w[order]
    last = np.flatnonzero(np.append(y[1:] > y[:-1], np.ones(min(len(y), 1), bool)))
    # Below all numbers, then up to each of them: sums of weights, and of their squares.
    y = np.concatenate(([-np.inf], y[last], [np.inf]))
    sums, squares = (np.append(0.0, np.cumsum(a)[last]) for a in (w, w * w))
    found: F64 = np.full((3, len(p)), np.nan)
    for i, q in enumerate(p):
        above = sums - q * sums[-1]
        variance = (1 - q) ** 2 * squares + q**2 * (squares[-1] - squares)
        # Of those in the group alone it is q (1 - q) w^2 each at the quantile; without noise w is 1.
        reach = z * np.sqrt(np.maximum(variance, q * (1 - q) * of_one * sums[-1]))
        if sums[-1] > 0:  # (the first where the sum, made monotone, is large enough)
            found[0, i] = y[np.argmax(above >= 0)]
        found[1:, i] = y[np.argmax(above >= -reach)], y[np.flatnonzero(above <= reach)[-1] + 1]
    return Quantiles(p, found[0], found[1], found[2], len(w), confidence)


def times_of(repeats: int) -> float:
    """How many times as large errors are if a person has so many records, at most; see `ratio`."""
    return math.sqrt(check_integer("repeats", repeats, 1))


def columns_of(**columns: Any) -> list[F64]:
    """Columns of as many finite numbers each; raise `InputError` if they are not."""
    made: list[F64] = []
    for name, column in columns.items():
        try:
            made.append(np.asarray(column, float))
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{name} must be a column of numbers, got other values: take a float for each") from None
        if made[-1].ndim != 1 or len(made[-1]) != len(made[0]):
            shapes = " and ".join(str(column.shape) for column in made)
            raise InputError(f"{' and '.join(columns)} must be columns of as many finite numbers each, got {shapes}")
        wrong = len(made[-1]) - int(np.count_nonzero(np.abs(made[-1]) < _HUGE))
        if wrong:
            raise InputError(
                f"{' and '.join(columns)} must be columns of as many finite numbers each: {wrong} of {name} are null, "
                f"nan, infinite or beyond {_HUGE:g}; leave these rows out"
            )
    return made
