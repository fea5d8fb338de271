"""PrivSet: a random set of k places, more probable if it meets the person's own set.

S. Wang, L. Huang, Y. Nie, P. Wang, H. Xu, W. Yang, "PrivSet: Set-Valued Data Analyses with Local Differential Privacy",
IEEE INFOCOM 2018. A person's set of at most m of d items is padded to m of D = d + m places (`Sets`). A report is a set
of k of the D places, e^epsilon times as probable if it meets the padded set. With

    hit = C(D, k) - C(d, k)        miss = C(d, k)        t = Pr[meets] = e^eps hit / (e^eps hit + miss)

sets that meet the person's own are equally likely, and so are all that do not, so that

    p = t C(D - 1, k - 1) / hit
    q = t (C(D - 1, k - 1) - C(d - 1, k - 1)) / hit + (1 - t) k / d

**Privacy.** A report has one of two probabilities, t / hit or (1 - t) / miss. t is rounded down to an integer over
2^64, and all else is drawn exactly, so that their ratio is at most e^epsilon, whatever two sets there are.

**How a report is drawn.** If it does not meet, it is any k of the other d places. If it meets, let r, of 0 to m - 1, be
the number of the first item of the person's set that is in it: there are C(D - 1 - r, k - 1) such reports. So r is
drawn uniformly, and kept with probability C(D - 1 - r, k - 1) / C(D - 1, k - 1), the probability that k - 1 of D - 1
places avoid r given ones. The k - 1 others are any of the D - 1 - r places that remain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import I64, U8, Bools, Codes
from ldp_core.exact.probability import agreement, check_resolved, exp_below, fraction
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.inputs.sets import MOST_ITEMS, OnMore, Sets
from ldp_core.mechanisms.oracles.base import BitReports, check_reported
from ldp_core.mechanisms.oracles.subset_selection import repair
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_choice, check_epsilon, check_integer, parameter
from ldp_core.reports import Bits, Native
from ldp_core.reports.bits import row_bytes
from ldp_core.simulated_counts import Generator, multinomials


@dataclass(frozen=True, init=False)
class PrivSet(BitReports):
    """Of people who may each hold several items, the share who hold each: lists, answers with several boxes to tick.

    A person spends epsilon once for all items, whose number is hidden too. Shares add up to the mean of that number.

    Args:
        domain: the items. One that is listed twice is there once. The empty list is an answer; a null is none, and is
            refused, or becomes the item "other", as all items do that are not declared.
        most: the most items of a person, in [1, min(d, 256)]. Declared, not learned: the error grows with it.
        k: size of a report, at most half of d + most, rounded up; default the one of least variance for an item
            that nobody has.
        on_more: what becomes of longer lists: ``"error"``, an error that counts them, or ``"first"``, which keeps the
            first ``most`` different items; see `Sets`.

    Reports are bit vectors with k ones of d + most, in the layouts of `SubsetSelection`.

    >>> m = PrivSet(["mail", "maps", "news", "chat"], epsilon=1.0, most=2)
    >>> m.k, round(m.p, 6), round(m.q, 6)
    (1, 0.288058, 0.105971)
    """

    name: ClassVar[str] = "privset"
    chunk: ClassVar[int] = 1 << 20

    domain: Domain = parameter(check_reported, what="a set")
    epsilon: float = parameter(check_epsilon)
    most: int = parameter(check_integer, low=1, high=lambda self: min(self.domain.size, MOST_ITEMS))
    k: int = parameter(
        check_integer,
        default=cached_property(lambda self: best_report(self.domain.size, self.most, self.epsilon)),
        low=1,
        high=lambda self: largest_report(self.domain.size, self.most),
    )
    on_more: OnMore = parameter(check_choice, among=("error", "first"))

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon: float,
        most: int,
        k: int | None = None,
        on_more: OnMore = "error",
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon, most=most, k=k, on_more=on_more)
        _ = self.inputs  # which refuse too many items
        check_resolved(self.epsilon, lambda: tuple(rates[0] for rates in self.support_probabilities()), " * d")

    @cached_property
    def inputs(self) -> Sets:
        """Lists of items."""
        return Sets(self.domain, self.most, self.on_more)

    exhaustive = False  # counts of items do not add up to the number of people

    @property
    @override
    def reports(self) -> Bits:
        return Bits(self.inputs.places, ones=self.k)

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        """How many reports meet a set, and how many do not."""
        miss = math.comb(self.domain.size, self.k)
        return math.comb(self.inputs.places, self.k) - miss, miss

    @cached_property
    def _meets(self) -> int:
        """t as an integer over 2^64, rounded down."""
        hit, miss = self._sizes
        return agreement(self.epsilon, hit + miss, hit)

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        d, k, t, hit = self.domain.size, self.k, fraction(self._meets), self._sizes[0]
        own = math.comb(self.inputs.places - 1, k - 1)
        return [t * own / hit] * d, [t * (own - math.comb(d - 1, k - 1)) / hit + (1 - t) * k / d] * d

    @override
    def worst_ratio(self) -> Fraction:
        """``t / hit`` for a report that meets the one set, ``(1 - t) / miss`` if it does not meet the other."""
        (hit, miss), t = self._sizes, fraction(self._meets)
        return t * miss / ((1 - t) * hit)

    @property
    @override
    def supported(self) -> tuple[int, int]:
        """Of the k places all may be items, or all that are not pads."""
        return max(self.k - self.most, 0), self.k

    # ---- reports

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        places, width = self.inputs.places, row_bytes(self.inputs.places)
        items, n = self.inputs.items(codes).astype(np.int64), len(codes)
        meets = np.flatnonzero(coins(noise, self._meets, n, _MEETS))
        first = np.full(n, self.most)
        first[meets] = self._first_met(meets, noise)
        settled = np.zeros((n, width), np.uint8)  # what the draw of the others does not touch
        for rank in range(self.most):
            _set(settled, np.flatnonzero(first >= rank), items[:, rank])
        rows = np.zeros((n, width), np.uint8)
        _set(rows, meets, items[np.arange(n), np.minimum(first, self.most - 1)])
        repair(rows, self.k, places, noise, lambda at, drawn: settled[at, drawn >> 3] >> (drawn & 7) & 1 == 0)
        return rows

    def _first_met(self, rows: I64, noise: Noise) -> I64:
        """For each of the rows that meet: the rank of the first item of the set that is in the report."""
        out, at, step = np.zeros(len(rows), np.int64), np.arange(len(rows)), 0
        while len(at):
            rank, keep = self._candidate(rows[at], noise, step)
            out[at[keep]] = rank[keep]
            at, step = at[~keep], step + self.most
        return out

    def _candidate(self, rows: I64, noise: Noise, step: int) -> tuple[I64, Bools]:
        """For each row a rank, and whether it is kept: whether k - 1 others avoid the items before it."""
        rank: I64 = noise.uniform_again(self.most, rows, step, _RANK)
        keep = np.ones(len(rows), bool)
        for before in range(self.most - 1 if self.k > 1 else 0):
            others = self.inputs.places - 1 - before  # the places among which the k - 1 still are
            avoids = noise.uniform_again(others, rows, step + 1 + before, _RANK) < others - (self.k - 1)
            keep &= avoids | (before >= rank)
        return rank, keep

    @override
    def compiled(self) -> dict[str, Any]:
        return {"draw": "set", "p": str(self._meets), "ones": self.k}

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """How many reports meet which item of a set first; then who has how many more, a place at a time."""
        if people.sum() <= self.inputs.places * len(people):
            return super().simulate_counters(codes, people, generator)
        step = max(self.chunk // ((self.most + 1) * (self.k + 1)), 1)
        counters = np.zeros(self.inputs.places, np.int64)
        for at in range(0, len(codes), step):
            self._simulate(self.inputs.items(codes[at : at + step]), people[at : at + step], generator, counters)
        return counters[: self.domain.size]

    def _simulate(self, items: Codes, people: I64, generator: Generator, counters: I64) -> None:
        """Add to int64[places] the reports of people of u sets, of which r meet the sets' items number 0 to r - 1 not.

        left[set, r, j]: how many have j elements among the places that remain; r = most: those who meet none.
        """
        places, most, k = self.inputs.places, self.most, self.k
        ways = [math.comb(places - 1 - r, k - 1) / math.comb(places - 1, k - 1) for r in range(most)]
        meets = generator.binomial(people, float(fraction(self._meets)))
        first = multinomials(meets, np.array(ways), generator)
        left = np.zeros((len(items), most + 1, k + 1), np.int64)
        left[:, :most, k - 1], left[:, most, k] = first, people - meets
        np.add.at(counters, items.astype(np.int64), first)
        settled = np.minimum(np.arange(most + 1), most - 1)  # the items up to this one
        remaining = np.broadcast_to(places - 1 - settled, left.shape[:2]).copy()
        for place in range(places):
            own = items == place
            free = np.where(own.any(axis=1), own.argmax(axis=1), most)[:, None] > settled
            share = free[..., None] * np.arange(k + 1) / np.maximum(remaining, 1)[..., None]
            taken = generator.binomial(left, np.minimum(share, 1))
            counters[place] += taken.sum()
            left -= taken
            left[..., :-1] += taken[..., 1:]
            remaining -= free


def _set(rows: U8, at: I64, position: I64) -> None:
    """Set one bit in each of the rows ``at``, of the positions of all rows."""
    rows[at, position[at] >> 3] |= np.left_shift(1, position[at] & 7).astype(np.uint8)


def largest_report(d: int, most: int) -> int:
    """The largest k: half of the places; and so few that the first item that is met is found in a few draws."""
    return min((d + most + 1) // 2, 1 + 4 * (d + most) // most)


def best_report(d: int, most: int, epsilon: float) -> int:
    """The k of least q (1 - q) / (p - q)^2, n times the variance of the share of an item that nobody has.

    By products and quotients of floats alone, so that it is the same on every machine.

    >>> [best_report(d, m, epsilon) for d, m, epsilon in ((20, 3, 1.0), (50, 5, 1.0), (50, 5, 2.0), (100, 10, 1.0))]
    [2, 3, 1, 3]
    """
    e, places = float(exp_below(epsilon)), d + most
    k: I64 = np.arange(1, largest_report(d, most) + 1)
    miss = np.ones(len(k))  # of all sets of k places
    for i in range(most):
        miss *= (places - k - i) / (places - i)
    own, whole = k / places, e * (1 - miss) + miss
    p, without = e * own / whole, miss * k / d
    q = (e * (own - without) + without) / whole
    with np.errstate(divide="ignore", invalid="ignore"):  # of an epsilon that is too small, and refused
        return int(k[np.argmin(q * (1 - q) / (p - q) ** 2)])


_MEETS, _RANK = 0, 3  # lanes of noise; that of `repair` is between them
