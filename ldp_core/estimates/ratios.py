"""Ratios of two sums of weights of the same records: means in private groups, rates, shares of those who answered.

With u and w of each record, m = sum u / sum w. If m is the ratio of the expectations, the sum of u - m w has mean 0 and
is nearly normal, with a variance of about sum (u - m w)^2. All m with

    (sum u - m sum w)^2 <= z^2 sum (u - m w)^2        which is A m^2 - 2 B m + C <= 0

are the interval (E. C. Fieller, "Some Problems in Interval Estimation", JRSS B 16(2), 1954). If A is not above 0, the
sum of w is not clearly different from 0, and no ratio is excluded for being too large: the interval is unbounded. Of
uneven numbers it reaches over that of means (`ldp_core.estimates.weights`), too, if V < 35 J^2, r being (u - m w) /
sum w. Of few numbers that are not 0 perhaps no report of any supports the value. So it reaches as far, too, if the sums
of (y - m)^k w^k, k = 2 and 3, are those of y that tells nothing of w: the products of both means.

**Where few records carry the sum**, that variance is far too small: where none has it, it is 0. But how much a number y
of two values varies is known if its mean is m. Let u = w y, w be one of two values of which the sum is c (so is that of
a pure protocol) and y one of two values of which the sum is s (a public bit, or a private one's weight). As w^2 = c w +
a constant, and y^2 likewise,

    sum (u - m w)^2 = c (s - 2 m) (sum u - m sum w) + terms of sum w, of sum y, and of n

and where m is the ratio the first term is 0 on average. Without it this is the variance if m is the ratio, and all m
with (sum u - m sum w)^2 <= z^2 of that are a score interval: that of E. B. Wilson, JASA 22(158), 1927, if w is 1. The
same holds with s = 1 if u and w - u are weights of two values of one column. The interval reaches over both of these:
it is not shorter than Fieller's, and unbounded where that one is.

Of weights with c near 0 (q = 1/2, as of Hadamard response, or in blocks, where w is 0, too) these terms do not grow
with m: if all y are 0, so are they at m = 0. One of them is (s - 2 m) k sum y, with k = w^2 - c w. But if the ratio is
m, sum y is at least m sum w and the lesser y of all others, and at most m sum w and the greater one of them. The
interval also reaches to the ends that follow where sum y is taken to be that.

A ratio to public numbers, as a share over several mechanisms, has the interval of means of two numbers where it has
weights between -1 and 0, or 1 and 2, with J of m_h people as in `weighted_mean`. Where no weight is above 0, one of
2 - a is possible, a the least: it is so in unary encoding (p = 1/2), and of randomized response more than the weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ldp_core.arrays.types import F64
from ldp_core.estimates.base import SingleNumber, score_reach, z_score
from ldp_core.estimates.clusters import student
from ldp_core.estimates.mean import MeanEstimate, off_of, score_interval
from ldp_core.estimates.plausibility import watch_products
from ldp_core.estimates.tails import reach_of_few
from ldp_core.estimates.weights import DIGITS, MANY, SAME, are_two, columns_of, reach, times_of, told_by
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_open
from ldp_core.tables import View


@dataclass(frozen=True, eq=False, repr=False)
class Ratio(SingleNumber):
    """The ratio of two sums of which both are estimated: a mean in a private group, a share of those who answered.

    Attributes:
        ratio: the estimate; nan where the sum below is 0.
        standard_error: of ``ratio`` by linearization, sqrt(sum (u - m w)^2) / |sum w|.
        low, high: ends of the confidence interval; -inf and inf where the sum below is not clearly different from 0.

    >>> ratio([1.0, 3.0, 2.0, 2.0] * 25, [1.0] * 100)
    Ratio of 100 records: 2, standard error 0.0707, 95% interval 1.85867 to 2.14133
    """

    view: ClassVar[View] = View("ratio", unit="ratio")

    ratio: float
    standard_error: float
    low: float
    high: float
    n: int
    confidence: float
    mechanism: Mechanism | None = None


def ratio(above: Any, below: Any, *, of: Any = None, confidence: float = 0.95, repeats: int = 1) -> Ratio:
    """The sum of some numbers over the sum of others, with Fieller's interval; see this module's text for the formula.

    If fewer than 30 reports carry the sum of uneven public numbers there is a warning, of fewer than ten no bound.

    Args:
        above, below: float[n] each, of the same n records, which are independent: products of weights and of public
            numbers. A mean of y in a private group: ``w * y`` and ``w``. A share of those who answered: the weight of
            "yes", and the sum of the weights of "yes" and "no". A rate of one private column in a group of another:
            the product of both weights, and that of the group.
        of: the mechanism of private numbers x, where ``above`` is ``w * x``, w ``below`` and x ``of.weights(reports)``:
            the variance is not below what its noise is known to make, sum w^2 times that of one report;
            and the interval allows for numbers of which nobody came, as a mean of as many people as carry the sum.
        confidence: of the interval, in (0, 1).
        repeats: the most records of one person, where some have several: the variance is taken to be so many times that
            of independent ones, which it is at most (`ldp_core.estimates.clusters`).

    Raises:
        InputError: not two columns of as many finite numbers.
        ParameterError: confidence outside (0, 1), or repeats below 1.

    >>> from ldp_core import RandomizedResponse
    >>> system = RandomizedResponse(["ios", "android"], epsilon=50.0)
    >>> minutes = np.array([30.0, 10.0, 50.0, 20.0])
    >>> w = system.weights(system.perturb(["ios", "android", "ios", "android"]), "ios")  # hardly any noise
    >>> round(ratio(w * minutes, w).ratio, 1)
    40.0
    """
    check_open("confidence", confidence)
    u, w = columns_of(above=above, below=below)
    return _of_columns(u, w, ratio_sums(u, w), confidence, repeats, of)


def ratio_of_terms(u: F64, w: F64, *, confidence: float, repeats: int) -> Ratio:
    """A `ratio` of sums of which u is no product of w: u / w tells nothing."""
    sums = ratio_sums(u, w)
    sums[_ASKED + 1 : -1] = np.inf
    return _of_columns(u, w, sums, confidence, repeats)


def _of_columns(u: F64, w: F64, sums: F64, confidence: float, repeats: int, of: Any = None) -> Ratio:
    known = _known(sums, of)
    two = _two_values(known)
    with np.errstate(over="ignore", invalid="ignore"):
        carrying = float(known[_WW] ** 2 / known[_WWWW])
    near = _near(known)  # sums about it do not cancel
    r = u - near * w
    if two is not None:
        found = _ratio(known, confidence, two, repeats, of)
    else:
        found = _ratio(_plain_sums(r, w), confidence, None, repeats, of, near)
        found = replace(found, ratio=found.ratio + near, low=found.low + near, high=found.high + near)
    with np.errstate(over="ignore"):
        moments = _powers(r)[2:]
    return _bounded(found, known, two, repeats, moments, carrying if of is None else np.inf)


def ratio_sums(above: Any, below: Any) -> F64:
    """float64[47] of some records: what `ratio_of` needs, see `ratio`; `added_sums` are those of all of them.

    The first six are the number of records, and the sums of u, w, u^2, u w and w^2. Then come the least (negated) and
    the greatest w, u / w, and of u and w - u together, and the sums of u^3 to w^3 and of u^4 to w^4. The next 21 are
    those of u - y w, which do not cancel, y a number near the ratios. Then the number of w that are not 0, the sums of
    u / w - y of these, of its squares and cubes, and y.
    """
    u, w = columns_of(above=above, below=below)
    squares = w @ w
    near = float(u @ w / squares) if squares else 0.0
    r, some = u - near * w, np.abs(w) > DIGITS * np.abs(w).max(initial=0)
    with np.errstate(over="ignore"):
        numbers = _powers(r[some] / w[some])[:4]
    if np.abs(u[~some]).max(initial=0) > DIGITS * np.abs(u).max(initial=0):  # they are no products of w
        numbers[1:] = np.inf
    return np.concatenate([_moments(u, w), _moments(r, w), numbers, [near]])


def _powers(x: F64) -> F64:
    """The number of some x, and the sums of them, of their squares, cubes and fourth powers."""
    squares = x * x
    return np.array([len(x), x.sum(), squares.sum(), squares @ x, squares @ squares])


def _moved(powers: F64, t: float) -> F64:
    """Those of x + t."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(
            [sum(math.comb(k, j) * t ** (k - j) * powers[j] for j in range(k + 1)) for k in range(len(powers))]
        )


def _moments(u: F64, w: F64) -> F64:
    with np.errstate(over="ignore"):
        powers = np.stack([u, w, u * u, u * w, w * w])
        products = powers @ powers.T
        return np.concatenate([_sums(u, w), products[:2, (2, 4)].T.ravel(), products[2, 2:], products[3:, 4]])


def added_sums(one: F64, two: F64) -> F64:
    """`ratio_sums` of the records of both."""
    if one[_WW] < two[_WW]:
        one, two = two, one
    with np.errstate(over="ignore", invalid="ignore"):
        moved = two[_SUMS:_ASKED].copy()
        for first, d in ((_U, 1), (_UU, 2), (_UUU, 3), (_UUUU, 4)):  # the sums of (u + t w)^(d - j) w^j
            t, some = two[-1] - one[-1], two[_SUMS + first :]
            moved[first : first + d + 1] = [
                sum(math.comb(d - j, k) * t**k * some[j + k] for k in range(d - j + 1)) for j in range(d + 1)
            ]
        both = zip((one[:_SUMS], one[_SUMS:_ASKED]), (two[:_SUMS], moved), strict=True)
        added = [(a[:6] + b[:6], np.maximum(a[6:12], b[6:12]), a[12:] + b[12:]) for a, b in both]
        numbers = one[_ASKED:-1] + _moved(two[_ASKED:-1], two[-1] - one[-1])
        return np.concatenate([*added[0], *added[1], numbers, one[-1:]])


_N, _U, _W, _UU, _UW, _WW, _LEAST_W, _MOST_W, _LEAST_Y, _MOST_Y = range(10)
_UUU, _WWW, _UUUU, _WWWW, _SUMS, _ASKED = 12, 15, 16, 20, 21, 42
"""Where among `ratio_sums` what is; the least ones are negated."""


def _sums(u: F64, w: F64) -> F64:
    with np.errstate(divide="ignore", invalid="ignore"):
        y = u / w
        if np.isnan(y.sum()):  # (0 of 0 tells nothing)
            y = y[(u != 0) | (w != 0)]
    others = w - u
    none = np.inf
    low = w.min(initial=none), y.min(initial=none), min(u.min(initial=none), others.min(initial=none))
    high = w.max(initial=-none), y.max(initial=-none), max(u.max(initial=-none), others.max(initial=-none))
    return np.concatenate([_plain_sums(u, w), np.stack([-np.array(low), high], axis=1).ravel()])


def _plain_sums(u: F64, w: F64) -> F64:
    return np.array([len(u), u.sum(), w.sum(), u @ u, u @ w, w @ w])


_TwoValues: TypeAlias = tuple[float, float, float | None] | None


def _two_values(sums: F64) -> _TwoValues:
    """c and s of this module's text, and the lesser of both numbers; None where numbers have more than two values.

    Of numbers that are all 0, or all 1, the other value is taken to be 1, or 0; of weights as of symmetric noise.
    """
    n, u, w, uu, uw, ww, *ends = (float(x) for x in sums[:_UUU])
    (low_y, high_y), (low_a, high_a) = ((-ends[i], ends[i + 1]) for i in (2, 4))
    size = max(abs(low_y), abs(high_y))
    if DIGITS * size < high_y - low_y < _CLOSE * size:
        return None  # they are so close to each other that their squares do not tell whether others are between
    if are_two(low_a, high_a, n, u, uu) and are_two(low_a, high_a, n, w - u, ww - 2 * uw + uu):
        return low_a + high_a, 1.0, None
    c = _sum_of_two(sums)
    if c is None:
        return None
    if high_y - low_y <= SAME * max(abs(low_y), 1):
        return (c, 1.0, min(low_y, 1 - low_y)) if -1 < low_y <= 0 or 1 <= low_y < 2 else None
    if -ends[0] > 0 and (-1 < low_y < high_y <= 0 or 1 <= low_y < high_y < 2):
        return None  # these are weights of two mechanisms: no report supports the value, or all do
    return (c, low_y + high_y, low_y) if are_two(low_y, high_y, ww, uw, uu) else None


def _sum_of_two(sums: F64) -> float | None:
    """c of this module's text, of the weights that are not 0, as those of reports of other blocks and buckets are."""
    low, high = min(-float(sums[_LEAST_W]), 0.0), float(sums[_MOST_W])
    high = 1 - low if high < 0 else high
    return low + high if are_two(low, high, float(sums[_ASKED]), float(sums[_W]), float(sums[_WW])) else None


def _carried(sums: F64, confidence: float, repeats: int) -> bool:
    """Whether w is clearly different from 0: if nobody had the value, w^2 would be a constant on average.

    If no report at all supports the value, all weights are the same, and so is each ratio: it is everybody's. Their sum
    is below 0 then, and perhaps clearly so, where reports of those who have the value rarely support it. (With c
    below 0 these may be weights that are negated.)
    """
    c, w, ww = _sum_of_two(sums), float(sums[_W]), float(sums[_WW])
    return c is None or ((w > 0 or c < 0) and w * w > (times_of(repeats) * z_score(confidence)) ** 2 * (ww - c * w))


def ratio_of(sums: F64, confidence: float, repeats: int = 1, of: Any = None) -> Ratio:
    """A `ratio` from `ratio_sums`."""
    near, about, sums = float(sums[-1]), sums[_SUMS:_ASKED], _known(sums, of)
    two = _two_values(sums)
    if two is not None:
        about, near = sums, 0.0
    found = _ratio(about, confidence, two, repeats, of, near)
    with np.errstate(over="ignore", invalid="ignore"):
        m = (-found.ratio) ** np.arange(5)
        squares, told = about[_UU : _WW + 1] * (1, 2, 1) @ m[:3], _TOLD * about[_UU]
        cubes = about[_UUU : _WWW + 1] * (1, 3, 3, 1) @ m[:4] if squares > told / 1000 else 0.0
        fourths = about[_UUUU : _WWWW + 1] * (1, 4, 6, 4, 1) @ m if squares > told else 0.0
        fourths = max(fourths, cubes / squares * cubes) if squares > 0 else 0.0  # (that is the least they can be)
        carrying = float(sums[_WW] ** 2 / sums[_WWWW]) if of is None else np.inf
    found = replace(found, ratio=found.ratio + near, low=found.low + near, high=found.high + near)
    return _bounded(found, sums, two, repeats, np.array([squares, cubes, fourths]), carrying)


def _bounded(found: Ratio, sums: F64, two: _TwoValues, repeats: int, moments: F64, carrying: float = math.inf) -> Ratio:
    """With an interval that reaches far enough, or to infinity, where few records carry a sum.

    The ``moments`` are the sums of (u - m w)^2, ^3 and ^4, or 0 or infinite if they are not known. So many reports are
    ``carrying`` the sum of w.
    """
    z = z_score(found.confidence)
    if sums[_N] > sums[_ASKED] and sums[_LEAST_W] > 0:  # (of reports in blocks, some tell nothing)
        two = None
    bounded = math.isfinite(found.high - found.low) and two is None
    if not _carried(sums, found.confidence, repeats) or (bounded and not told_by(carrying / repeats)):
        return replace(found, low=-np.inf, high=np.inf)
    cubes, total = float(sums[_WWW]), float(sums[_W])
    if bounded:
        second, third, fourth = moments.tolist()
        if second > 0 and fourth < math.inf:
            spread = max(fourth / second / second - 1 / found.n, SAME)
            found = _farther(found, student(z, max(2 / (spread * repeats), 3)), second, third, total, repeats)
        _, _, second, third = _moved(sums[_ASKED:-1], sums[-1] - found.ratio) / max(sums[_ASKED], 1)
        found = _farther(found, z, float(second * sums[_WW]), float(third * cubes), total, repeats)
    low, high = -float(sums[_LEAST_Y]), float(sums[_MOST_Y])
    some, most = -1 < low <= 0, 1 <= high < 2  # as weights are, where few reports support a value, or few do not
    if -float(sums[_LEAST_W]) <= 0 or not (some or most) or two is not None:
        return found
    if some and high <= 0:  # no report supports the value: the weight of one that does is hardly above this
        high = 2 - low
    if most and low >= 1:  # all do
        low = 1 - high
    size, variance = repeats * float(sums[_WW] / sums[_W] ** 2), np.full(2, found.standard_error**2)
    jump = repeats * float(cubes / sums[_WW] / sums[_W])  # (more than ``size``: see `weighted_mean`)
    jumps = jump * np.array([found.ratio - low, high - found.ratio])
    jumps *= variance < MANY * jumps**2
    below, above = reach(z, variance, variance, jumps, size).tolist()
    return replace(found, low=min(found.low, found.ratio - below), high=max(found.high, found.ratio + above))


def _farther(found: Ratio, t: Any, second: float, third: float, total: float, repeats: int) -> Ratio:
    """With an interval as if sum (u - m w)^2 were at least ``second``, and grew with the ``third``; see `weights`."""
    if not 0 < second < math.inf:
        return found
    error = max(found.standard_error, times_of(repeats) * math.sqrt(second) / abs(total))
    jump, m = repeats * third / second / total, found.ratio
    if error**2 < _FEW_OF_RATIOS * jump**2:
        low, high = (m + side * score_reach(t, error, side * jump) for side in (-1, 1))
        found = replace(found, low=min(found.low, float(low)), high=max(found.high, float(high)))
    return found


_CLOSE = 3e-4  # for numbers: its square is a thousand million times what a float64 rounds off
_TOLD, _FEW_OF_RATIOS = 1e-7, 35  # digits of fourth powers; see `MANY`


def _near(sums: F64) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nan_to_num(sums[_U] / sums[_W], posinf=0, neginf=0))


def _known(sums: F64, of: Any) -> F64:
    """With the ends of the reports of private numbers, whichever have come."""
    if of is not None:
        MeanEstimate().check(of)
        sums = sums.copy()
        sums[_LEAST_Y : _MOST_Y + 1] = of.domain.decode(np.array(of.value_bounds())) * (-1, 1)
    return sums


def _ratio(
    sums: F64,
    confidence: float,
    two: _TwoValues,
    repeats: int,
    of: Any = None,
    near: float = 0.0,
) -> Ratio:
    off = 0.0
    if of is not None:
        length = of.domain.high - of.domain.low
        off = off_of(of)
        if two is None:  # the noise is known, also where no report has shown it
            m = _near(sums)
            least = sums[_WW] * float(of.noise((near + m - of.domain.low) / length)) * length**2
            sums = sums.copy()
            sums[_UU] += max(least - (sums[_UU] - 2 * m * sums[_UW] + m * m * sums[_WW]), 0)
    score = rest = None
    if two is not None:
        c, s, lesser = two
        least = -float(sums[_LEAST_W])
        if lesser is not None and least < 0 and c == s and abs(lesser - least) <= SAME < abs(c):  # (a, -a tell nothing)
            watch_products(sums[_N], sums[_U], sums[_UU], least, c - least, repeats)
        score = score_sums(sums[_U : _WW + 1], c, s)
        if lesser is not None:  # (y that are weights are 0 to 1 on average)
            ends = 0.0 if -1 < lesser < 0 else lesser, 1.0 if 1 < s - lesser < 2 else s - lesser
            rest = rest_of(sums[_U : _WW + 1], sums[_ASKED], c, s, ends)  # (without those of weight 0)
    found = ratios(sums[_U : _WW + 1], confidence, score, times_of(repeats), rest=rest)
    m, error, low, high = (float(x) for x in found)
    if of is not None and math.isfinite(error):  # (of as many people as carry the sum)
        people, ends = float(sums[_W] ** 2 / sums[_WW]) / repeats, (of.domain.low, of.domain.high)
        mean, one = np.array(near + m), np.array(error)
        below, above = score_interval(people, mean, one, z_score(confidence), *ends, of.slope * length)
        low, high = min(low, float(below) - near), max(high, float(above) - near)
    return Ratio(m, error, low - off, high + off, int(sums[_N]), confidence)


def ratios(
    sums: F64,
    confidence: float,
    score: F64 | None = None,
    times: float = 1,
    few: tuple[Any, Any] | None = None,
    rest: Rest | None = None,
) -> tuple[F64, F64, F64, F64]:
    """Ratios, their standard errors, and the low and high ends of their intervals, float64[...] each.

    Args:
        sums: float64[..., 5]: of u, w, u^2, u w, w^2.
        confidence: of the intervals.
        score: float64[..., 3], `score_sums`, if it is known how numbers vary.
        times: how many times as large errors are as those of independent records.
        few: with a score, of shares: the number of reports, and what one of them adds to u - m w if it adds much; see
            `ldp_core.estimates.tails`.
        rest: with a score, `rest_of`.
    """
    u, w, uu, uw, ww = np.moveaxis(sums, -1, 0)
    z2 = (times * z_score(confidence)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        m: F64 = np.where(w == 0, np.nan, u / w)
        error: F64 = times * np.sqrt(np.maximum(uu - 2 * m * uw + m**2 * ww, 0)) / np.abs(w)
    low, high = _fieller(u, w, z2 * uu, z2 * uw, z2 * ww)
    if score is not None:
        ends = _fieller(u, w, *np.moveaxis(z2 * score, -1, 0))
        low, high = np.minimum(low, ends[0]), np.maximum(high, ends[1])
        for side, s, a, b in rest or ():
            more = score + np.stack([s * a, a - s * b / 2, -2 * b], axis=-1)
            with np.errstate(invalid="ignore"):  # (infinite ends)
                below, above = (
                    np.where((side * (s - 2 * end) > 0) & (side * (a + b * end) > 0), end, np.nan)
                    for end in _fieller(u, w, *np.moveaxis(z2 * more, -1, 0))
                )
            low, high = np.fmin(low, below), np.fmax(high, above)
        if few is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                step, (a, b, e) = times**2 * few[1] / np.abs(w), np.moveaxis(times**2 * score, -1, 0) / w**2
            low, high = reach_of_few((low, high), m, few[0], z_score(confidence), step, (a, -2 * b, e), 1)
    return m, error, low, high


def score_sums(sums: F64, c: F64 | float, s: F64 | float) -> F64:
    """Sums of u^2, u w and w^2 if m is the ratio: sum (u - m w)^2 without its first term, see this module's text.

    ``c`` and ``s`` are sums of the two values of w, and of u / w.
    """
    u, w, uu, uw, ww = np.moveaxis(sums, -1, 0)
    return np.stack([uu - c * s * u, uw - c * (s * w / 2 + u), ww - 2 * c * w], axis=-1)


Rest: TypeAlias = list[tuple[int, Any, F64, F64]]


def rest_of(sums: F64, n: Any, c: F64 | float, s: F64 | float, ends: tuple[float, float]) -> Rest:
    """On either side of s / 2: by how much A + B m the sum of k y is beyond the one that came, if the ratio is m.

    ``sums`` and c, s as in `score_sums`, of n reports; ``ends`` are between which y is on average, with any value.
    """
    u, w, _, uw, ww = np.moveaxis(sums, -1, 0)
    some = np.maximum(n, 1)
    k, people = np.maximum(ww - c * w, 0) / some, np.clip(w, 0, some)
    return [
        (side, s, k * (some - people) * end - (uw - c * u), k * people) for side, end in zip((1, -1), ends, strict=True)
    ]


def _fieller(u: F64, w: F64, uu: F64, uw: F64, ww: F64) -> tuple[F64, F64]:
    """The ends of all m with (u - m w)^2 <= uu - 2 m uw + m^2 ww."""
    a, b, c = w**2 - ww, u * w - uw, u**2 - uu
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(b**2 - a * c, 0))
        low: F64 = np.where(a > 0, (b - root) / a, -np.inf)
        high: F64 = np.where(a > 0, (b + root) / a, np.inf)
    return low, high
