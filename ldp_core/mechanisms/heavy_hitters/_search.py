"""The search for heavy hitters: what a level's counters say of a prefix, and from prefixes to longer ones.

A level has R rows, each with a public hash function h_j and a frequency oracle over its buckets (see
`HeavyHitters`). With n reports at the level, C_j[b] those of row j that support bucket b, n_j those of row j,
and c the probability that two prefixes share a bucket,

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
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ldp_core.arrays.types import F64, I64, U64
from ldp_core.errors import ParameterError
from ldp_core.estimates.heavy_hitters import MOST_CANDIDATES
from ldp_core.exact.multiply_shift import MultiplyShift
from ldp_core.exact.projective import PointsAndZero
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.parameters import check_integer

_LEAST_KEPT = 128  # prefixes that can survive a level of the default levels
_PASSES = 16
_HEAVY = 5.0  # standard errors, from which on a prefix is taken out of the table
_GHOSTS = 4.0  # rows in which what is taken out at once may share a bucket with the most frequent that is left
_MOST_HEAVY = 256
_MORE = 1 << 14  # candidates that are looked up again besides those that are wanted
_ROUNDING = 1e-9


# ---- levels


def check_levels(name: str, levels: Iterable[int] | None, domain: Prefixes) -> tuple[int, ...]:
    """Return ``levels`` as a tuple.

    None: as few as `MOST_CANDIDATES` allow, if `_LEAST_KEPT` prefixes are to survive each.

    Raises:
        ParameterError: unless the lengths increase to that of the domain, in steps that can be searched.
    """
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


_MOST_EXTENSIONS = 1 << 24


# ---- estimates


class Estimates(NamedTuple):
    """The largest counts of candidates among a level's reports, and how those of candidates that nobody has vary."""

    at: I64
    """Which candidates these are."""
    counts: F64
    error: float
    """Their standard error."""
    skewness: float
    """They are debiased counts of rare events, whose large deviations are more often upwards."""
    kurtosis: float
    """In excess of the normal distribution's: of the few that share a bucket with what is frequent more is noise."""

    def quantile(self, tail: float) -> float:
        """What one of them exceeds with about this probability, by Cornish and Fisher's corrections.

        The second one only upwards. Without it 30 values that 18,000 have, at epsilon 4 and 8 rows of width 256, let
        17 % of searches find one that nobody has, at confidence 0.95.
        """
        z, skewness = -NormalDist().inv_cdf(tail), max(self.skewness, 0.0)
        second = self.kurtosis * (z**3 - 3 * z) / 24 - skewness**2 * (2 * z**3 - 5 * z) / 36
        return self.error * (z + skewness * (z**2 - 1) / 6 + max(second, 0.0))


class Level:
    """The table T of one level."""

    def __init__(self, search: Search, number: int, counts: I64) -> None:
        self._rows, self._hashes = search.rows, search.hashes
        self._first = number * search.rows
        self._collision = float(search.hashes.collision)
        of_row = counts.sum(axis=1)
        q, difference = search.q, search.difference
        self.n = int(of_row.sum())
        self._share_of_row = of_row / max(self.n, 1)
        self._most_heavy = min(_MOST_HEAVY, search.points.buckets // 8)
        self._least = self.n * q * (1 - q) / difference**2
        self._table = (search.points.supporters(counts) - of_row[:, None] * q) / difference

    def estimates(self, candidates: U64, most: int) -> Estimates:
        """The ``most`` candidate prefixes with the largest estimates, of distinct ones, uint64[c], in their order.

        All are looked up once. When something is taken out of the table, others fall where they share its buckets, and
        rise by no more than the share c / (1 - c) of it; of what is less than 0, where many were taken out for what
        they shared, they rise by no more than all. So few can still be large enough; only these are looked up again.
        """
        before, share = self._sums(self._table, float(self.n), candidates), self._collision / (1 - self._collision)
        may_be_heavy = np.flatnonzero(before > _HEAVY * self._least**0.5 - self.n * share)
        out, taken, table = self._taken_out(candidates[may_be_heavy])
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
        return Estimates(at[top], counts[top], *self._moments(table))

    def _taken_out(self, candidates: U64) -> tuple[I64, F64, F64]:
        """Positions of what is clearly frequent, in order, how much of it is taken out, and the table without that."""
        table, heavy, taken = self._table, np.arange(0), np.zeros(0)
        left = self._sums(table, float(self.n), candidates)
        for _ in range(_PASSES):
            at_least = max(_HEAVY * self._moments(table)[0], float(left.max(initial=0)) * _GHOSTS / self._rows)
            new = np.setdiff1d(np.flatnonzero(left >= at_least), heavy)
            new = best(left, new, self._most_heavy - len(heavy))
            if not len(new):
                break
            heavy, taken = np.append(heavy, new), np.append(taken + left[heavy], left[new])
            table = self._without(candidates[heavy], taken)
            left = self._sums(table, self.n - float(taken.sum()), candidates)
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

    def _moments(self, table: F64) -> tuple[float, float, float]:
        """Standard error, skewness and excess kurtosis of the sum over rows of an entry each."""
        deviations = table - table.mean(axis=1, keepdims=True)
        squares = deviations**2
        variances = squares.mean(axis=1)
        variance = max(float(variances.sum()), self._least)
        deviations *= squares
        third = float(deviations.mean(axis=1).sum())
        squares *= squares
        fourth = float((squares.mean(axis=1) - 3 * variances**2).sum())
        unit = max(variance, 1.0)
        return variance**0.5 / (1 - self._collision), third / unit**1.5, fourth / unit**2


# ---- the search


class Survivors(NamedTuple):
    """What the last level says of the candidates that got there."""

    codes: U64
    """Plain codes, the most frequent first: at most k, with a count of at least the threshold."""
    counts: F64
    """Of all n records."""
    errors: F64
    """Standard errors of the counts."""
    threshold: float
    candidates: int
    """How many were looked up at the last level."""


@dataclass(frozen=True, eq=False)
class Search:
    """What is known of reports and counters; see `HeavyHitters` for the names."""

    domain: Prefixes
    levels: tuple[int, ...]
    rows: int
    hashes: MultiplyShift
    points: PointsAndZero
    p: float
    q: float
    difference: float
    """p - q, rounded once."""

    def by_level(self, counters: I64) -> I64:
        """Reports of each point, int64[levels, rows, points], from the counters of a tally."""
        return counters.reshape(len(self.levels), self.rows, self.points.size)

    def find(self, counters: I64, k: int, confidence: float, threshold: float | None) -> Survivors:
        """From the counters of a tally to what survives the last level."""
        domain, lengths, counts = self.domain, self.levels, self.by_level(counters)
        candidates = domain.begin(lengths[0])
        for number, steps in enumerate(np.diff(lengths).tolist()):
            # Twice as many as are wanted: with more, those that only the next level's noise lifts cost more than is
            # gained.
            kept = self._kept(k, steps)
            found = Level(self, number, counts[number]).estimates(candidates, kept)
            candidates = domain.extended(candidates[found.at], steps)
        level = Level(self, len(lengths) - 1, counts[-1])
        n = int(counts.sum())
        scale = n / level.n if level.n else 1.0
        found = level.estimates(candidates, k)
        if threshold is None:
            tail = (1 - confidence) / len(candidates)
            threshold = max(found.quantile(tail), self.least_improbable(level.n, tail)) * scale
        enough = (found.counts * scale >= threshold) & (level.n > 0)
        top = found.counts[enough]
        errors = scale * np.sqrt(self._variances(level.n, n, top, found.error))
        return Survivors(candidates[found.at[enough]], top * scale, errors, threshold, len(candidates))

    def _kept(self, k: int, steps: int) -> int:
        """How many prefixes are extended by so many characters, in a search for k values."""
        return max(min(max(2 * k, _LEAST_KEPT // 2), MOST_CANDIDATES // self.domain.extensions(steps)), k)

    def least_candidates(self) -> int:
        """About how many are looked up at the last level, in a search for few values."""
        first, *steps = np.diff((0, *self.levels)).tolist()
        if not steps:
            return self.domain.extensions(first)
        return self._kept(1, steps[-1]) * self.domain.extensions(steps[-1])

    def least_improbable(self, n: int, tail: float) -> float:
        """The least count that a prefix of none of ``n`` reports has with a probability of at most ``tail``.

        Of a large n nothing is asked: `Estimates.quantile` is near enough. The number of reports that support such a
        prefix is binomial, over the functions: its bucket is another one's with the probability of a collision, and is
        supported with q otherwise.
        """
        if not 0 < n <= _FEW_REPORTS:
            return 0.0
        c = float(self.hashes.collision)
        chance = self.q + c * (self.p - self.q)
        k = np.arange(1, n + 1)
        logarithms = np.cumsum(np.log((n - k + 1) / k)) + k * math.log(chance) + (n - k) * math.log1p(-chance)
        at_least = np.cumsum(np.exp(logarithms)[::-1])[::-1]  # Pr[supporters >= k]
        improbable = np.flatnonzero(at_least <= tail)
        supporters = int(k[improbable[0]]) if len(improbable) else n + 1
        return ((supporters - n * self.q) / self.difference - n * c) / (1 - c)

    def _variances(self, at_level: int, n: int, counts: F64, error: float) -> F64:
        """Of estimated counts at the last level, as of all records'.

        That of a count of 0; what the reports of the value itself add to it, as in any pure protocol; and that the
        records at the level are a random sample of all (hypergeometric).
        """
        p, q = self.p, self.q
        counts = counts.clip(0, at_level)
        own = counts * (p * (1 - p) - q * (1 - q)) / self.difference**2
        drawn = counts * (1 - counts / max(at_level, 1)) * (1 - at_level / max(n, 1))
        out: F64 = error**2 + own + drawn
        return out


_FEW_REPORTS = 1 << 16


def best(counts: F64, among: I64, most: int) -> I64:
    """The positions ``among`` those of counts that have the largest, in their order."""
    if len(among) > most:
        among = among[np.argpartition(-counts[among], most)[:most]]
    out: I64 = among[np.argsort(-counts[among], kind="stable")]
    return out
