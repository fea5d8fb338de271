"""Heavy hitters: the most frequent of so many possible strings that nobody can list them.

The prefix extending method (T. Wang, N. Li, S. Jha, "Locally Differentially Private Heavy Hitter Identification", IEEE
TDSC 18(2), 2021): each record is at one of L levels, drawn uniformly, and spends its whole epsilon on the prefix of
that level's length; the server extends those prefixes of one level that survive to candidates of the next
(`search`). The paper keeps all reports, for local hashing. Here a report is the number of a
counter, so that the tally has a fixed size, adds up, and is all that the search needs, as in TreeHist (R. Bassily, K.
Nissim, U. Stemmer, A. Thakurta, "Practical Locally Private Heavy Hitters", NIPS 2017) and in Apple's sketches
("Learning with Privacy at Scale", 2017).

A level's prefix goes through one of R public hash functions, drawn uniformly, to one of g^m buckets, and that bucket
through the frequency oracle of V. Feldman, J. Nelson, H. Nguyen, K. Talwar, "Private Frequency Estimation via
Projective Geometry", ICML 2022: bucket v in F_g^m, g prime, is the vector (1, v); a report is a vector y of F_g^(m+1)
up to a factor (a point), uniform among those with <y, (1, v)> = 0 with probability p, among the others with 1 - p, and
supports the buckets that are orthogonal to it. (Theirs leaves out the vector 0; here it is one more point, so that q is
exactly 1 / g.)

    p = e^eps / (e^eps + g - 1)        q = 1 / g

as in local hashing, so that g about e^eps + 1 has the variance of OUE, with g / (g - 1) counters a bucket.

**The search.** A level has R rows, each with a public hash function h_j. With n reports at the level, C_j[b] those of
row j that support bucket b, n_j those of row j, and c the probability that two prefixes share a bucket,

    T_j[b] = (C_j[b] - n_j q) / (p - q)
    estimate[v] = (sum over j of T_j[h_j(v)] - n c) / (1 - c)

which is the estimator of a pure protocol whose q is c p + (1 - c) q. Given the hash functions a frequent prefix u is
an error of count(u) / R for all that share a bucket with it in one row. So what is found frequent is taken out of the
table and all are estimated again: T_j[h_j(u)] less estimate[u] n_j / n, n less estimate[u] (Jacobi iterations of the
least-squares fit; in signal processing, matching pursuit). The noise of an estimate is read off the table that is left,
the sum of the rows' variances over buckets: it has the noise of the reports and of the collisions that remain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from ldp_core.accounting.binomials import normal_tail
from ldp_core.arrays.types import F64, I64, U64, Codes
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.estimates.heavy_hitters import MOST_CANDIDATES, Found, HeavyHittersEstimate
from ldp_core.estimates.plausibility import Sums, Term
from ldp_core.estimates.tails import least_beyond, least_that, two_point_score
from ldp_core.exact.multiply_shift import MultiplyShift
from ldp_core.exact.probability import agreement, best_symbols, check_resolved, fraction
from ldp_core.exact.projective import PointsAndZero, primes_to
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.mechanism import Mechanism
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, check_integer, check_open, check_probability, converted, parameter
from ldp_core.poisoning import Influence, check_fake
from ldp_core.randomizer.tallying import NumberedCounters
from ldp_core.simulated_counts import Generator, inner_products, scatter
from ldp_core.tally import Tally

_LEAST_KEPT = 128  # prefixes that can survive a level of the default levels
_MOST_EXTENSIONS = 1 << 24
_PLANNED_ROWS = 8  # from here on 92.9 to 94.8 % of 1,000 searches found it, of 95 % planned; of 4 rows 82, of 1 none


def check_levels(name: str, levels: Iterable[int] | None, domain: Prefixes) -> tuple[int, ...]:
    """Lengths that increase to that of the domain, in steps that can be searched; None: as few as that allows."""
    if levels is None:
        return _default_levels(domain)
    if not isinstance(levels, Iterable):
        raise ParameterError(f"{name} must be lengths of prefixes in [1, {domain.length}], got {levels!r}")
    lengths = tuple(check_integer(name, level, 1, domain.length) for level in levels)
    steps = [b - a for a, b in zip((0, *lengths), lengths, strict=False)]
    if not lengths or min(steps) < 1 or lengths[-1] != domain.length:
        raise ParameterError(f"{name} must be increasing lengths in [1, {domain.length}], the last one {domain.length}")
    most = max(map(domain.extensions, steps))
    if most > _MOST_EXTENSIONS:
        raise ParameterError(
            f"{name} are too far apart: a prefix may be continued in {most} ways, and at most {_MOST_EXTENSIONS} are "
            "looked up; declare more levels"
        )
    return lengths


def _default_levels(domain: Prefixes) -> tuple[int, ...]:
    levels = [_longest(domain, domain.length, MOST_CANDIDATES)]
    while levels[-1] < domain.length:
        levels.append(levels[-1] + _longest(domain, domain.length - levels[-1], MOST_CANDIDATES // _LEAST_KEPT))
    return tuple(levels)


def _longest(domain: Prefixes, most: int, candidates: int) -> int:
    steps = 1
    while steps < most and domain.extensions(steps + 1) <= candidates:
        steps += 1
    return steps


def _prefixes(domain: Prefixes) -> Prefixes:
    if not isinstance(domain, Prefixes):
        raise ParameterError(f"heavy hitters are of Prefixes, got {type(domain).__name__}")
    return domain


@dataclass(frozen=True, init=False)
class HeavyHitters(NumberedCounters, Mechanism):
    """Report a prefix of the value, through one of many small frequency oracles; `find` ranks whole values.

    Args:
        domain: `Prefixes`: what alphabet and length, or how many bits.
        levels: lengths of the prefixes, increasing, the last one that of the values. Default: as few as
            allow a search of about a million candidates a level, since the records are divided among them.
        rows: R, hash functions of a level, 1 to 256.
        width: the most buckets of a row, 64 to 16384. A tally has a quarter of to twice ``len(levels) * rows * width``
            counters; the search costs some transforms of ``rows * width`` numbers, and ``rows`` steps a candidate.

    Reports are one ``uint64`` each, the number of the counter that it is counted by. Under keyed noise a person is
    always at the same level.

    >>> m = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 6), epsilon=4.0)
    >>> m.levels, m.g, round(m.p, 3), round(m.q, 3)
    ((4, 6), 53, 0.512, 0.019)
    >>> tally = m.tally(m.perturb(["paris"] * 60_000 + ["rome"] * 40_000))
    >>> m.find(tally, 10, confidence=0.99).values[:2]
    ('paris', 'rome')
    """

    name: ClassVar[str] = "heavy_hitters"

    domain: Prefixes = converted(_prefixes)
    epsilon: float = parameter(check_epsilon)
    levels: tuple[int, ...] = parameter(check_levels, domain=lambda self: self.domain)
    rows: int = parameter(check_integer, low=1, high=256)
    width: int = parameter(check_integer, low=64, high=1 << 14)

    def __init__(
        self,
        domain: Prefixes,
        *,
        epsilon: float,
        levels: Iterable[int] | None = None,
        rows: int = 16,
        width: int = 8192,
    ) -> None:
        self._declare(domain=domain, epsilon=epsilon, levels=levels, rows=rows, width=width)
        check_resolved(self.epsilon, lambda: (fraction(self._agree), Fraction(1, self.g)), " * g")

    # ---- sizes

    @cached_property
    def g(self) -> int:
        """The prime, of which the buckets and the reports are vectors, that has the least variance."""
        return best_symbols(_fields(self.width), self.epsilon)

    @cached_property
    def points(self) -> PointsAndZero:
        """What a row's reports and buckets are."""
        return _points(self.g, _digits(self.g, self.width))

    @property
    @override
    def counters(self) -> int:
        return len(self.levels) * self.rows * self.points.size

    @cached_property
    def hashes(self) -> MultiplyShift:
        """The hash function of each level and row."""
        return MultiplyShift(len(self.levels) * self.rows, self.points.buckets)

    # ---- the protocol of one level

    @cached_property
    def _agree(self) -> int:
        return agreement(self.epsilon, self.g)

    @property
    def p(self) -> float:
        """Pr[a report supports the bucket of its own prefix]."""
        return float(fraction(self._agree))

    @property
    def q(self) -> float:
        """Pr[a report supports some other given bucket of its row]."""
        return 1 / self.g

    @cached_property
    def difference(self) -> float:
        """``p - q``, rounded once: it may be far smaller than either."""
        return float(fraction(self._agree) - Fraction(1, self.g))

    @override
    def worst_ratio(self) -> Fraction:
        """Of g - 1 multiples one has <y, (1, v)> = 1, and all have 0 if one has.

        So a point that supports the bucket has probability p (g - 1) / g^m, one that does not (1 - p) / g^m, each over
        L R, and the vector 0 has p / g^m under every input.
        """
        p = fraction(self._agree)
        return p * (self.g - 1) / (1 - p)

    # ---- reports

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        n = len(codes)
        agree = coins(noise, self._agree, n, _AGREE)
        row = noise.uniform_below(self.rows, n, _ROW).astype(np.intp)
        tail = noise.uniform_below(self.points.buckets, n, _TAIL).astype(np.uint16)
        level = noise.of_persons().uniform_below(len(self.levels), n, _LEVEL)
        prefixes = self.domain.prefix(codes, np.array(self.levels)[level])
        row += level.astype(np.intp) * self.rows
        out = row * self.points.size + self.points.draw(self.hashes.at(row, prefixes), agree, tail)
        return out.view(np.uint64)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        points, buckets, lengths = self.points, self.points.buckets, np.array(self.levels)
        rows = len(lengths) * self.rows
        table = np.zeros(rows * buckets, np.int64)

        def cell(values: I64, row: I64) -> I64:
            prefixes = self.domain.prefix(codes[values], lengths[row // self.rows])
            return row * buckets + self.hashes.at(row, prefixes)

        scatter(people, rows, cell, table, generator)
        agree = generator.binomial(table, self.p)
        start = np.zeros((rows, buckets, self.g), np.int64)
        start[..., 0], start[..., -1] = agree.reshape(rows, -1), (table - agree).reshape(rows, -1)
        return points.counted(inner_products(start, generator)).reshape(-1)

    # ---- what crafted reports can do

    def _move(self, part: int) -> Fraction:
        """What a report of the last level adds to a value's estimate at that level: part 1 if it supports it."""
        c = self.hashes.collision
        q = Fraction(1, self.g)
        return ((part - q) / (fraction(self._agree) - q) - c) / (1 - c)

    @override
    def influence(self) -> Influence:
        """Of any one estimated count between 0 and n, before what is found frequent is taken out of the table.

        Where all L levels have as many reports. One more report at the last level also lowers the number of people that
        each stands for, by which a count falls by at most L - 1. Of all values together there is no bound.
        """
        levels = len(self.levels)
        return Influence(float(max(levels * self._move(1), levels * -self._move(0) + levels - 1)), math.inf)

    @override
    def worst_gain(self, *, fake: int, targets: int = 1) -> float:
        """Of any ``targets`` values, by reports of the vector 0 at the last level: it supports every bucket."""
        each = check_integer("targets", targets, 1) * len(self.levels) * self._move(1)
        return float(check_fake(fake) * each)

    def bounded_sums(self, n: Any, counters: I64, counts: F64 | None) -> Sequence[Sums]:
        """How often each report was made; see `worst_ratio`."""
        cells = len(self.levels) * self.rows * self.points.buckets
        ends = min(self.p, 1 - self.p) / cells, max(self.p * (self.g - 1), 1 - self.p) / cells
        return (Sums(counters, n, Term(*ends, 0.0, 1.0)),)

    # ---- the search

    def find(self, tally: Tally, k: int, *, confidence: float = 0.95, threshold: float | None = None) -> Found:
        """The most frequent values, ranked by estimated count: see `HeavyHittersEstimate`.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
        """
        return HeavyHittersEstimate(k, confidence, threshold).result(self, tally)

    def search(self, tally: Tally, how: HeavyHittersEstimate) -> Found:
        """The values found in a tally of this mechanism: from its counters to what survives the last level."""
        domain, lengths, counts, k = self.domain, self.levels, by_level(self, tally.counters), how.k
        wrong = 1 - how.confidence
        candidates = domain.begin(lengths[0])
        for number, steps in enumerate(np.diff(lengths).tolist()):
            # Twice as many as are wanted: with more, those that only the next level's noise lifts cost more than is
            # gained.
            found = Level(self, number, counts[number]).estimates(candidates, _kept(self, k, steps))
            candidates = domain.extended(candidates[found.at], steps)
        level = Level(self, len(lengths) - 1, counts[-1])
        scale = tally.n / level.n if level.n else 1.0
        # One more, as chance may have lifted those who are wanted above it.
        found = level.estimates(candidates, k + 1, wrong)
        threshold = how.threshold
        if threshold is None:
            tail = wrong * (1 - _PASS) / len(candidates)
            threshold = max(level.exceeded(found.left, found.n, tail), least_improbable(self, level.n, tail)) * scale
        top, least = found.counts[:k], max(threshold, float(found.counts[k:].max(initial=0)) * scale)
        enough = np.flatnonzero((top * scale >= threshold) & (level.n > 0))
        top = top[enough]
        errors = scale * np.sqrt(variances(self, level.n, tally.n, top, found.error))
        counted, z = top * scale, z_score(how.confidence)
        values = domain.decode(candidates[found.at[enough]])
        low, chosen = counted - z * errors, counted - least < _FAR * errors
        chosen &= low > 0  # (no count is below 0)
        count, error = counted[chosen], errors[chosen]
        low[chosen] = np.maximum(count - error * reach_of_chosen(z, (count - least) / error), 0)
        ends = low, counted + z * errors
        return Found(values, tally.n, counted, errors, *ends, how.confidence, threshold, len(candidates), self)

    def reports_to_find(self, frequency: float, beta: float = 0.05) -> float:
        """About how many reports it takes to `find` a value that this share of people has, but for a chance of beta.

        Those at a level that support the value, Bin(n / L, f p + (1 - f) q') with q' = c p + (1 - c) q and c the
        probability of a collision, are to be as many as the search asks for there: at the last level of its candidates
        with a confidence of 0.95, before to be one of those that it keeps. Each level has a chance of beta / L to miss
        it (`ldp_core.estimates.tails`). Whatever the others have: if all are as frequent, each is to stand out, too
        (`stand_out`).

        Raises:
            ParameterError: fewer than 8 rows, or a width that is too small for so many values as frequent: then
                collisions alone may hide a value, however many reports there are.

        >>> m = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 6), epsilon=4.0)
        >>> round(m.reports_to_find(0.01), -2)
        78300.0
        """
        if not check_probability("frequency", frequency):
            return math.inf
        reports = least_that(lambda reports: self.finds(reports, frequency, beta), float(len(self.levels)))
        if reports == math.inf:
            raise ParameterError(
                f"in rows={self.rows} of {self.points.buckets} buckets no number of reports is sure to find a value of "
                f"a share of {frequency:g}, as others may be as frequent: take a greater width (of {self.width}), more "
                "rows, or more levels"
            )
        return reports

    def finds(self, reports: float, frequency: float, beta: float = 0.05) -> bool:
        """Whether so many reports are at least `reports_to_find`, which asks this many times."""
        f, levels = float(check_probability("frequency", frequency)), len(self.levels)
        if self.rows < _PLANNED_ROWS:
            raise ParameterError(
                f"of {self.rows} rows no number of reports is sure to find a value, as others share its buckets: take "
                f"rows={_PLANNED_ROWS} or more"
            )
        z, n = -NormalDist().inv_cdf(check_open("beta", beta) / levels), max(math.floor(reports / levels), 1)
        supporting = f * self.p + (1 - f) * chance_of_none(self)
        if not stand_out(self, n, f, self._least_tail, z):
            return False
        short = n * supporting - supporters_to_find(self, n, self._least_tail) + 1
        variance = n * supporting * (1 - supporting)
        return short > 0 and float(two_point_score(*map(np.array, (short, n, variance, supporting)))) >= z

    @cached_property
    def _looked_up(self) -> list[int]:
        """About how many candidates are looked up at each level, in a search for few values."""
        first, *steps = np.diff((0, *self.levels)).tolist()
        after = (_kept(self, 1, step) * self.domain.extensions(step) for step in steps)
        return [self.domain.extensions(first), *after]

    @cached_property
    def _least_tail(self) -> float:
        """The least probability with which a level lets a candidate pass that nobody has.

        At the last one of all candidates together what the threshold has of 0.05. Before, of as many as are kept half
        may be of none.
        """
        kept = [_kept(self, 1, step) for step in np.diff(self.levels).tolist()]
        before = [few / 2 / many for few, many in zip(kept, self._looked_up, strict=False)]
        return min(0.5, *before, _WRONG * (1 - _PASS) / self.least_candidates)

    @property
    def least_candidates(self) -> int:
        """About how many are looked up at the last level, in a search for few values."""
        return self._looked_up[-1]

    # ---- as JSON

    @override
    def parameters(self) -> dict[str, Any]:
        domain: dict[str, Any] = {"length": self.domain.length}
        if self.domain.alphabet is not None:
            domain |= {"alphabet": self.domain.alphabet, "outside": self.domain.unmatched}
        return {**domain, **super().parameters(), "levels": list(self.levels)}

    @classmethod
    @override
    def from_parameters(cls, domain: Any, parameters: Mapping[str, Any]) -> HeavyHitters:
        rest = dict(parameters)
        inputs = Prefixes(rest.pop("alphabet", None), rest.pop("length", 0), rest.pop("outside", "error"))
        return cls(inputs, **rest)


def _digits(g: int, width: int) -> int:
    """The largest m with g^m <= width."""
    m = 0
    while g ** (m + 1) <= width:
        m += 1
    return m


def _fields(width: int) -> list[int]:
    """Those primes g of which a power, from the square on, is at most ``width`` and not far below."""
    return [g for g in primes_to(_MOST) if (m := _digits(g, width)) > 1 and 4 * g**m >= width]


_MOST = 127  # the largest prime of which the square is at most 2^14
_points = lru_cache(maxsize=16)(PointsAndZero)
_AGREE, _ROW, _TAIL, _LEVEL = 0, 1, 2, 4  # lanes of noise


_PASSES = 16
_HEAVY = 5.0  # standard errors, from which on a prefix is taken out of the table
_SETTLED = 0.01  # of one, by which what is taken out may still be off
_GHOSTS = 4.0  # rows in which what is taken out at once may share a bucket with the most frequent that is left
_MOST_HEAVY = 1024
_MORE = 1 << 14  # candidates that are looked up again besides those that are wanted
_ROUNDING = 1e-9
_WRONG = 0.05
_PASS = 0.3  # of the chance that a search finds what nobody has: that a pass takes it out; the threshold has the others


# ---- estimates


class Estimates(NamedTuple):
    """The largest counts of candidates among a level's reports, and how those of candidates that nobody has vary."""

    at: I64
    """Which candidates these are."""
    counts: F64
    error: float
    """Their standard error."""
    left: F64
    """The table without what was taken out."""
    n: float
    """Reports that are left in it."""


class Level:
    """The table T of one level."""

    def __init__(self, m: HeavyHitters, number: int, counts: I64) -> None:
        self._mechanism, self._rows, self._hashes = m, m.rows, m.hashes
        self._first = number * m.rows
        self._collision = float(m.hashes.collision)
        of_row = counts.sum(axis=1)
        q, difference = m.q, m.difference
        self.n = int(of_row.sum())
        self._share_of_row = of_row / max(self.n, 1)
        self._most_heavy = most_heavy(m)
        self._least = self.n * q * (1 - q) / difference**2
        self._table = (m.points.supporters(counts) - of_row[:, None] * q) / difference

    def estimates(self, candidates: U64, most: int, wrong: float = _WRONG) -> Estimates:
        """The ``most`` candidate prefixes with the largest estimates, of distinct ones, uint64[c], in their order.

        When something is taken out of the table, others fall where they share its buckets, and rise by no more than the
        share c / (1 - c) of it; of what is less than 0, where many were taken out for what they shared, by no more than
        all. So few can still be large enough; only these are looked up again.
        """
        before, share = self._sums(self._table, float(self.n), candidates), self._collision / (1 - self._collision)
        may_be_heavy = np.flatnonzero(before > _HEAVY * self._least**0.5 - self.n * share)
        out, taken, table = self._taken_out(candidates[may_be_heavy], min(wrong, _WRONG) * _PASS / len(candidates))
        out = may_be_heavy[out]
        rise = share * float(taken.clip(min=0).sum()) - float(taken.clip(max=0).sum())

        def after(among: I64) -> tuple[I64, F64]:
            at = np.union1d(out, among)
            counts = self._sums(table, self.n - float(taken.sum()), candidates[at])
            counts[np.searchsorted(at, out)] += taken
            return at, counts

        some = min(most + _MORE, len(candidates))  # more than are wanted: some are large by what falls
        _, counts = after(np.argpartition(before, -some)[-some:])
        wanted = min(most, some)
        at, counts = after(np.flatnonzero(before >= np.partition(counts, -wanted)[-wanted] - rise - _ROUNDING * self.n))
        top = best(counts, np.arange(len(at)), most)
        return Estimates(at[top], counts[top], self._error(table), table, self.n - float(taken.sum()))

    def _taken_out(self, candidates: U64, tail: float) -> tuple[I64, F64, F64]:
        """Positions of what is clearly frequent, in order, how much of it is taken out, and the rest.

        What nobody has, and is taken out, takes from the values that it shares buckets with what would show that it is
        made of them: with 30 values alike, in rows of 121 buckets, 5 standard errors are not clear, and a sixth of all
        searches found one. So what is taken out is beyond what chance exceeds with the probability ``tail``, too.
        """
        table, heavy, taken = self._table, np.arange(0), np.zeros(0)
        # Of few reports standard errors do not say what is clear: half a million candidates that nobody has, among 60
        # reports at epsilon 4, hid one that half of the people had in a fifth of all searches.
        clear, n = least_improbable(self._mechanism, self.n, tail), float(self.n)
        left = self._sums(table, n, candidates)
        for _ in range(_PASSES):
            ghosts = float(left.max(initial=0)) * _GHOSTS / self._rows
            at_least = max(_HEAVY * self._error(table), ghosts, clear)
            if left.max(initial=0) >= at_least:
                at_least = max(at_least, self.exceeded(table, n, tail))
            new = np.setdiff1d(np.flatnonzero(left >= at_least), heavy)
            new = best(left, new, self._most_heavy - len(heavy))
            if not len(new):
                break
            heavy, taken = np.append(heavy, new), np.append(taken + left[heavy], left[new])
            table = self._without(candidates[heavy], taken)
            n = self.n - float(taken.sum())
            left = self._sums(table, n, candidates)
        left = left[heavy]
        for _ in range(_PASSES):  # those of the last pass share buckets, too
            if (np.abs(left) < _SETTLED * self._least**0.5).all():
                break
            taken = taken + left
            table = self._without(candidates[heavy], taken)
            left = self._sums(table, self.n - float(taken.sum()), candidates[heavy])
        order = np.argsort(heavy)
        return heavy[order], taken[order], table

    def _sums(self, table: F64, n: float, candidates: U64) -> F64:
        sums = self._hashes.sums(table, self._first, candidates)
        sums -= n * self._collision
        sums /= 1 - self._collision
        return sums

    def _without(self, prefixes: U64, counts: F64) -> F64:
        """The table without what these prefixes add to it: to a row its share of the reports, which were assigned."""
        table: F64 = self._table.copy()
        for row, share in enumerate(self._share_of_row):
            np.subtract.at(table[row], self._hashes.at(self._first + row, prefixes), counts * share)
        return table

    def _error(self, table: F64) -> float:
        """Standard error of the sum over rows of an entry each."""
        return max(float(table.var(axis=1).sum()), self._least) ** 0.5 / (1 - self._collision)

    def exceeded(self, table: F64, n: float, tail: float) -> float:
        """What the estimate of a candidate that nobody has exceeds with about this probability, given such a table.

        In each row it has any bucket: its estimate is a sum of entries that are drawn one a row, uniformly.
        """
        most = table.max(axis=1, keepdims=True)
        below, shift, variance = table - most, float(table.mean(axis=1).sum()), float(table.var(axis=1).sum())

        def cumulants(s: float) -> tuple[float, float, float]:
            weights = np.exp(s * below)
            total = weights.sum(axis=1)
            weights *= below
            mean = weights.sum(axis=1) / total
            weights *= below
            first = float(most.sum() + mean.sum()) - shift
            log = s * (float(most.sum()) - shift) + float(np.log(total / table.shape[1]).sum())
            return log, first, float((weights.sum(axis=1) / total - mean**2).sum())

        above = saddlepoint_quantile(cumulants, variance, tail) * max(1.0, self._least / max(variance, 1e-99)) ** 0.5
        if above == math.inf:  # of few reports: no candidate has more than the largest entry of each row
            above = (float(most.sum()) - shift) * (1 + _ROUNDING)
        return (above + shift - n * self._collision) / (1 - self._collision)


def saddlepoint_quantile(
    cumulants: Callable[[float], tuple[float, float, float]], variance: float, tail: float
) -> float:
    """What a variable of mean 0 exceeds with about this probability; infinity if its largest value is likelier.

    O. E. Barndorff-Nielsen's r* is nearly normal ("Inference on Full or Partial Parameters", Biometrika 73(2), 1986).

    Args:
        cumulants: K(s) = log E exp(s X), and its first and second derivative.
    """
    if not variance or tail >= 1 / 2:
        return 0.0
    z = -NormalDist().inv_cdf(tail)
    s, low, high = z / variance**0.5, 0.0, math.inf
    for step in range(_STEPS):
        k, first, second = cumulants(s)
        w, u = max(2 * (s * first - k), 0.0) ** 0.5, s * max(second, 0.0) ** 0.5
        score = w + math.log(u / w) / w if min(u, w) > _BOUND else math.inf
        if abs(score - z) < _NEAR * z:
            return first
        low, high = (s, high) if score < z else (low, s)
        s = s * z / score if score > 0 else high
        if step > _STEPS // 8 or not low < s < high:
            s = (low + high) / 2 if high < math.inf else 2 * low
    return math.inf


_STEPS, _NEAR, _BOUND = 64, 1e-3, 1e-6


def reach_of_chosen(z: float, excess: F64) -> F64:
    """How many standard errors the interval of an estimate reaches below it that is so many above its threshold.

    Such a u that Pr[X >= x | X >= t] is the tail of z: that of u over that of u - (x - t). (H. Zhong, R. L. Prentice,
    "Bias-reduced Estimators and Confidence Intervals for Odds Ratios in Genome-wide Association Studies", Biostatistics
    9(4), 2008.) The normal z far above it, and no bound at it; here at most `_FARTHEST`.

    >>> reach_of_chosen(1.959964, np.array([9.0, 2.0, 1.0])).round(3).tolist()
    [1.96, 2.37, 3.933]
    """

    def score(u: F64) -> F64:
        inside = np.minimum(u, _FARTHEST)
        return np.where(u > _FARTHEST, math.inf, np.log(normal_tail(inside - excess) / normal_tail(inside)))

    return least_beyond(-math.log(NormalDist().cdf(-z)), score, np.ones(len(excess)), 1e-9)


_FAR, _FARTHEST = 9.0, 30.0  # standard errors: above the threshold where intervals are normal; that they reach at most


# ---- the search


def by_level(m: HeavyHitters, counters: I64) -> I64:
    """Reports of each point, int64[levels, rows, points], from the counters of a tally."""
    return counters.reshape(len(m.levels), m.rows, m.points.size)


def _kept(m: HeavyHitters, k: int, steps: int) -> int:
    """How many prefixes are extended by so many characters, in a search for k values."""
    ways = m.domain.extensions(steps)
    return max(
        min(max(2 * k, _LEAST_KEPT // 2), MOST_CANDIDATES // ways), min(k, max(_MOST_EXTENSIONS // ways, _LEAST_KEPT))
    )


def least_improbable(m: HeavyHitters, n: int, tail: float) -> float:
    """The least count that a prefix of none of ``n`` reports has with a probability of at most ``tail``.

    Of a large n nothing is asked: `Level.exceeded` is near enough.
    """
    if not 0 < n <= _FEW_REPORTS:
        return 0.0
    c = float(m.hashes.collision)
    return ((_improbable_supporters(m, n, tail) - n * m.q) / m.difference - n * c) / (1 - c)


def _improbable_supporters(m: HeavyHitters, n: int, tail: float) -> int:
    chance, k = chance_of_none(m), np.arange(1, n + 1)
    logarithms = np.cumsum(np.log((n - k + 1) / k)) + k * math.log(chance) + (n - k) * math.log1p(-chance)
    at_least = np.cumsum(np.exp(logarithms)[::-1])[::-1]  # Pr[supporters >= k]
    improbable = np.flatnonzero(at_least <= tail)
    return int(k[improbable[0]]) if len(improbable) else n + 1


def chance_of_none(m: HeavyHitters) -> float:
    """With what probability a report supports a prefix that its value does not have."""
    return m.q + float(m.hashes.collision) * (m.p - m.q)


def supporters_to_find(m: HeavyHitters, n: int, tail: float) -> int:
    """How many of ``n`` reports a prefix of none of them has with a probability of at most ``tail``, as the search."""
    if n <= _FEW_REPORTS:
        return _improbable_supporters(m, n, tail)
    chance = chance_of_none(m)

    def cumulants(s: float) -> tuple[float, float, float]:
        log, share = _log_mean_exp(chance, s)
        return n * (log - s * chance), n * (share - chance), n * share * (1 - share)

    return math.ceil(n * chance + saddlepoint_quantile(cumulants, n * chance * (1 - chance), tail))


def most_heavy(m: HeavyHitters) -> int:
    """How many prefixes of a level are taken out at most."""
    return min(_MOST_HEAVY, max(m.rows, 8) * m.points.buckets // 64)


def stand_out(m: HeavyHitters, n: int, f: float, tail: float, z: float) -> bool:
    """Whether of 1 / f values alike, which all of ``n`` reports have, each is found but for the probability beyond z.

    What shares a bucket with some of them in most rows raises the threshold until they are taken out: in a row it is
    Bin(1 / f, c) of them, each n f / R reports that support it with p, not q. Those above are taken out, which lowers
    it for the others. Of these z standard errors more than are expected are left in each time.
    """
    c, each, left, least = float(m.hashes.collision), n * f / m.rows, 1.0, max(f, 1 - most_heavy(m) * f)
    for _ in range(_PASSES):
        shared = left * m.rows / f

        def cumulants(s: float, shared: float = shared) -> tuple[float, float, float]:
            (a, a1), (b, b1) = _log_mean_exp(m.q, s), _log_mean_exp(m.p, s)
            a2, slope = a1 * (1 - a1), each * (b1 - a1)
            d, w = _log_mean_exp(c, each * (b - a))
            second = w * (1 - w) * slope**2 + w * each * (b1 * (1 - b1) - a2)
            mean = n * m.q + shared * c * each * m.difference
            return n * a + shared * d - s * mean, n * a1 + shared * w * slope - mean, n * a2 + shared * second

        support = f * m.p + (1 - f) * m.q
        variance = n * support * (1 - support) + shared * c * (1 - c) * (each * m.difference) ** 2
        above = n * f * m.difference * (1 - c) - saddlepoint_quantile(cumulants, cumulants(0.0)[2], tail)
        if above >= z * variance**0.5:
            return True
        missed = NormalDist().cdf(-above / variance**0.5)
        before, left = left, min(1.0, max(least, missed + z * (missed * (1 - missed) * f) ** 0.5))
        if left > 0.999 * before:
            return False
    return False


def _log_mean_exp(chance: float, s: float) -> tuple[float, float]:
    """Of a coin that adds s: the logarithm of its mean exponential, and that of heads as a share of it."""
    # (logaddexp has errors of 1e-16, which 1e15 reports multiply)
    log = math.log1p(chance * math.expm1(s)) if s < 500 else math.log(chance) + s
    return log, chance * math.exp(s - log)


def variances(m: HeavyHitters, at_level: int, n: int, counts: F64, error: float) -> F64:
    """Of estimated counts at the last level, as of all records'.

    That of a count of 0; what the reports of the value itself add to it, as in any pure protocol; and that the
    records at the level are a random sample of all (hypergeometric).
    """
    p, q = m.p, m.q
    counts = counts.clip(0, at_level)
    own = counts * (p * (1 - p) - q * (1 - q)) / m.difference**2
    drawn = counts * (1 - counts / max(at_level, 1)) * (1 - at_level / max(n, 1))
    return error**2 + own + drawn


_FEW_REPORTS = 1 << 16


def best(counts: F64, among: I64, most: int) -> I64:
    """The positions ``among`` those of counts that have the largest, in their order."""
    if len(among) > most:
        among = among[np.argpartition(-counts[among], most)[:most]]
    return among[np.argsort(-counts[among], kind="stable")]
