"""Heavy hitters: the most frequent of so many possible strings that nobody can list them.

The prefix extending method (T. Wang, N. Li, S. Jha, "Locally Differentially Private Heavy Hitter Identification", IEEE
TDSC 18(2), 2021): each record is at one of L levels, drawn uniformly, and spends its whole epsilon on the prefix of
that level's length; the server extends those prefixes of one level that survive to candidates of the next
(`_search.py`). The paper keeps all reports, for local hashing. Here a report is the number of a
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
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, U64, Bools, Codes
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.estimates.heavy_hitters import Found, HeavyHittersEstimate
from ldp_core.estimates.plausibility import Part, Sums
from ldp_core.exact.multiply_shift import MultiplyShift
from ldp_core.exact.primes import primes_to
from ldp_core.exact.probability import agreement, best_symbols, check_resolved, fraction
from ldp_core.exact.projective import PointsAndZero
from ldp_core.exact.transforms import count_numbers
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.heavy_hitters._search import Search, check_levels
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, check_integer, check_open, check_probability, converted, parameter
from ldp_core.poisoning import Influence, check_fake
from ldp_core.reports import Native, Word
from ldp_core.simulated_counts import Generator, inner_products, spread
from ldp_core.tally import Tally


def _prefixes(domain: Prefixes) -> Prefixes:
    if not isinstance(domain, Prefixes):
        raise ParameterError(f"heavy hitters are of Prefixes, got {type(domain).__name__}")
    return domain


@dataclass(frozen=True, init=False)
class HeavyHitters(Mechanism):
    """Report a prefix of the value, through one of many small frequency oracles; `find` ranks whole values.

    Args:
        domain: `Prefixes`: what alphabet and length, or how many bits.
        epsilon: of a report, whatever its level; finite, > 0.
        levels: lengths of the prefixes, increasing, the last one that of the values. Default: as few as
            allow a search of about a million candidates a level, since the records are divided among them.
        rows: R, hash functions of a level, 1 to 256.
        width: the most buckets of a row, 64 to 16384. A tally has about ``len(levels) * rows * width`` counters; the
            search costs some transforms of ``rows * width`` numbers, and ``rows`` steps a candidate.

    Reports are one ``uint64`` each, the number of the counter that it is counted by. Under keyed noise a person is
    always at the same level.

    Raises:
        ParameterError: parameters that do not exist.

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
        check_resolved(fraction(self._agree), Fraction(1, self.g), " * g")

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
        """One for each level, row and point."""
        return len(self.levels) * self.rows * self.points.size

    @cached_property
    def hashes(self) -> MultiplyShift:
        """The hash function of each level and row."""
        return MultiplyShift(len(self.levels) * self.rows, self.points.buckets)

    # ---- the protocol of one level

    @cached_property
    def _agree(self) -> int:
        """``p`` as an integer over 2^64, rounded down."""
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

    @property
    @override
    def reports(self) -> Word:
        """The number of the counter that counts the report."""
        return Word(self.counters)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """A level, a row, and a point of the row's plane."""
        n = len(codes)
        agree = coins(noise, self._agree, n, _AGREE)
        row = noise.uniform_below(self.rows, n, _ROW).astype(np.intp)
        tail = noise.uniform_below(self.points.buckets, n, _TAIL).astype(np.uint16)
        level = noise.of_persons().uniform_below(len(self.levels), n, _LEVEL)
        prefixes = self.domain.prefix(codes, np.array(self.levels)[level])
        row += level.astype(np.intp) * self.rows
        out = row * self.points.size + self.points.draw(self.hashes.at(row, prefixes), agree, tail)
        reports: U64 = out.view(np.uint64)
        return reports

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        return count_numbers(reports, groups, n_groups, self.counters)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """How many people are at each level and row and have each bucket there; who agrees; and a point for each."""
        points, buckets, lengths = self.points, self.points.buckets, np.array(self.levels)
        rows = len(lengths) * self.rows
        table = np.zeros(rows * buckets, np.int64)

        def cell(values: I64, row: I64) -> I64:
            prefixes = self.domain.prefix(codes[values], lengths[row // self.rows])
            at: I64 = row * buckets + self.hashes.at(row, prefixes)
            return at

        spread(people, rows, cell, table, generator)
        agree = generator.binomial(table, self.p)
        start = np.zeros((rows, buckets, self.g), np.int64)
        start[..., 0], start[..., -1] = agree.reshape(rows, -1), (table - agree).reshape(rows, -1)
        counters: I64 = points.counted(inner_products(start, generator)).reshape(-1)
        return counters

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Each report counts once."""
        possible: Bools = super().is_possible(n, counters) & (counters.sum(axis=-1) == n)
        return possible

    # ---- what crafted reports can do

    def _move(self, part: int) -> Fraction:
        """What a report of the last level adds to a value's estimate at that level: part 1 if it supports it."""
        c = self.hashes.collision
        q = Fraction(1, self.g)
        return ((part - q) / (fraction(self._agree) - q) - c) / (1 - c)

    @override
    def influence(self) -> Influence:
        """Of any one estimated count between 0 and n, before what is found frequent is taken out of the table.

        Where all L levels have as many reports, so that an estimate at the last one is taken times L. One more report
        there also lowers the number of people that each stands for, by which a count falls by at most L - 1. Of all
        values together there is no bound: the vector 0 supports every bucket of its row.
        """
        levels = len(self.levels)
        return Influence(float(max(levels * self._move(1), levels * -self._move(0) + levels - 1)), math.inf)

    @override
    def worst_gain(self, *, fake: int, targets: int = 1) -> float:
        """Of any ``targets`` values, by reports of the vector 0 at the last level; under the conditions of `influence`.

        To be found, a value must also get through the levels before.
        """
        each = check_integer("targets", targets, 1) * len(self.levels) * self._move(1)
        return float(check_fake(fake) * each)

    def bounded_sums(self, n: Any, counters: I64, counts: F64 | None) -> Sequence[Sums]:
        """How often each report was made; see `worst_ratio`."""
        cells = len(self.levels) * self.rows * self.points.buckets
        ends = min(self.p, 1 - self.p) / cells, max(self.p * (self.g - 1), 1 - self.p) / cells
        return (Sums(counters, n, Part(*ends, 0.0, 1.0)),)

    # ---- the search

    def find(self, tally: Tally, k: int, *, confidence: float = 0.95, threshold: float | None = None) -> Found:
        """The most frequent values, ranked by estimated count; see `_search.py`.

        Args:
            tally: of reports of this mechanism.
            k: the most values to return.
            confidence: of the intervals, and that no value is returned that nobody has, if ``threshold`` is None.
            threshold: the least estimated count of what is returned. Default: what the noise of none of the candidates
                of the last level exceeds with probability ``confidence`` (Bonferroni). 0 returns k values, found or
                not.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: a k, a confidence or a threshold that does not exist.
        """
        return HeavyHittersEstimate(k, confidence, threshold).result(self, tally)

    def search(self, tally: Tally, how: HeavyHittersEstimate) -> Found:
        """The values found in a tally of this mechanism."""
        found = self.searched.find(tally.counters, how.k, how.confidence, how.threshold)
        half = z_score(how.confidence) * found.errors
        return Found(
            self.domain.decode(found.codes),
            tally.n,
            found.counts,
            found.errors,
            found.counts - half,
            found.counts + half,
            how.confidence,
            found.threshold,
            found.candidates,
            self,
        )

    def reports_to_find(self, frequency: float, beta: float = 0.05) -> float:
        """About how many reports it takes to `find` a value that this share of people has, but for a chance of beta.

        n f^2 = (z(beta / c) s(0) + z(beta) s(f))^2: the estimate at the last level is above what the noise of none of
        its c candidates exceeds, with n s(f)^2 = L (f p (1 - p) + (1 - f) q' (1 - q')) / (p - q')^2 + (L - 1) f (1 - f)
        and q' = c' p + (1 - c') q, c' the probability of a collision. An approximation by normal distributions, of a
        search for a few values; what others are frequent adds noise of its own.

        >>> m = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 6), epsilon=4.0)
        >>> round(m.reports_to_find(0.01), -2)
        65400.0
        """
        f, levels = float(check_probability("frequency", frequency)), len(self.levels)
        tail = check_open("beta", beta) / self.searched.least_candidates()
        collision = float(self.hashes.collision)
        p, q = self.p, self.q + collision * (self.p - self.q)

        def variance(share: float) -> float:
            noise = (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
            return levels * noise + (levels - 1) * share * (1 - share)

        z = [-NormalDist().inv_cdf(probability) for probability in (tail, beta)]
        root = z[0] * math.sqrt(variance(0)) + max(z[1], 0) * math.sqrt(variance(f))
        return root**2 / f**2 if f else math.inf

    @cached_property
    def searched(self) -> Search:
        """What a search needs to know."""
        return Search(self.domain, self.levels, self.rows, self.hashes, self.points, self.p, self.q, self.difference)

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
