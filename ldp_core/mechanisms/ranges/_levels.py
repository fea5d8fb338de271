"""One level of a hierarchical histogram: a frequency oracle for 2^l nodes whose report is a word of about l bits.

A report is a block of a *design*: a set of k of the d = 2^l nodes. It is e^epsilon times as likely if it holds the true
node, and each two nodes are together in equally many blocks. All that Ye and Barg's subset selection owes its
variance to is just this (S. Park, Y. Nam, S. Lee, "Block Design-Based Local Differential Privacy Mechanisms",
arXiv:2305.04261, 2023), so that

    p = k e^eps / (k e^eps + d - k)        q = (k - p) / (d - 1)

are the same. But there are few blocks: nodes x are elements of the field GF(2^l), and block (a, b) holds those with

    head(a x) + b < m        a != 0, head(.) the first s bits, + of bits (exclusive or), k = m 2^(l - s)

The maps x -> a x + c take any two nodes to any two others, so that the blocks are a 2-design. With k = 1 it is
randomized response, for which the one multiplier a = 1 is enough.

How many reports hold each node follows from how often each block was reported by Walsh-Hadamard transforms:
1[t + b < m] = 2^-s sum over u of w(u) (-1)^<u, t> (-1)^<u, b>, and <u, head(a x)> is linear in the bits of x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import I64, Codes
from ldp_core.exact.probability import agreement, exp_below, fraction
from ldp_core.exact.sampling import ONE
from ldp_core.exact.transforms import count_numbers, walsh_hadamard
from ldp_core.noise.base import Noise, coins
from ldp_core.simulated_counts import Generator, multinomials, scatter


@dataclass(frozen=True)
class Level:
    """The oracle of one level: of l bits; blocks are told by ``head`` of them, s, and hold m of their 2^s values."""

    bits: int
    head: int
    favored: int
    epsilon: float

    @property
    def nodes(self) -> int:
        """``d``."""
        return 1 << self.bits

    @property
    def support(self) -> int:
        """``k``, how many nodes a report supports."""
        return self.favored << self.bits - self.head

    @property
    def is_direct(self) -> bool:
        """Whether it is randomized response: a report is a node."""
        return self.support == 1

    @property
    def multipliers(self) -> int:
        """How many values a takes."""
        return 1 if self.is_direct else self.nodes - 1

    @property
    def cells(self) -> int:
        """How many reports there are."""
        return self.multipliers << self.head

    @cached_property
    def agree(self) -> int:
        """``p`` as an integer over 2^64, rounded down."""
        return agreement(self.epsilon, 1 << self.head, self.favored)

    @cached_property
    def pair(self) -> tuple[Fraction, Fraction]:
        """Exact (p, q)."""
        p = fraction(self.agree)
        return p, (self.support - p) / (self.nodes - 1)

    def worst_ratio(self) -> Fraction:
        """Of 2^s equally likely shifts b, m have the node in the block."""
        p = fraction(self.agree)
        return p * ((1 << self.head) - self.favored) / ((1 - p) * self.favored)

    @cached_property
    def variances(self) -> tuple[float, float, float]:
        """(A, F, v): with weights a of the nodes that add up to 0, the variance of the estimated sum of a_x f_x.

        Of one report of a person who is drawn from a population with shares f it is

            A sum a_x^2 + F sum f_x a_x^2 - (sum f_x a_x)^2

        as of subset selection; if f is even, v sum a_x^2. (Which three nodes are together depends on the field:
        the variance of a population at one point is a few percent off.)
        """
        p, k, d, few = self.agree, self.support, self.nodes, max(self.nodes - 2, 1)  # (integers are fast, and exact)
        drawn = p * (k - 1) * (d - k) + (ONE - p) * k * (d - 1 - k)
        below = few * (p * d - k * ONE) ** 2
        a, f = drawn * (d - 1) * ONE, p * (ONE - p) * d * d * few - drawn * d * ONE + below
        return a / below, f / below, (a * d + f) / (below * d)

    # ---- reports

    def perturb(self, nodes: Codes, noise: Noise) -> I64:
        """int64[n] below `cells`: a multiplier, and a shift that puts the node into the block or out of it."""
        n, rest = len(nodes), (1 << self.head) - self.favored
        inside = noise.uniform_below(self.favored, n, _INSIDE)
        outside = noise.uniform_below(rest, n, _OUTSIDE).astype(np.int64)
        outside += self.favored
        shift: I64 = np.where(coins(noise, self.agree, n, _AGREE), inside, outside)
        if self.is_direct:
            shift ^= nodes
            return shift
        multiplier: I64 = noise.uniform_below(self.multipliers, n, _MULTIPLIER).astype(np.int64)
        shift ^= self._heads(multiplier, nodes)
        multiplier <<= self.head
        multiplier |= shift
        return multiplier

    def _heads(self, multiplier: I64, nodes: Codes) -> npt.NDArray[np.uint16]:
        field = field_of(self.bits)
        products: npt.NDArray[np.uint16] = field.powers[field.logarithms[nodes] + multiplier]
        products >>= np.uint16(self.bits - self.head)
        return products

    def compiled(self) -> dict[str, Any]:
        """What a client needs of the level, in docs/wire.md: of the field its polynomial, and the nodes' basis."""
        made: dict[str, Any] = {"bits": self.bits, "head": self.head, "favored": self.favored, "p": str(self.agree)}
        if self.is_direct:
            return made
        field = field_of(self.bits)
        basis = [int(field.powers[field.logarithms[1 << bit]]) for bit in range(self.bits)]
        return {**made, "polynomial": _PRIMITIVE[self.bits], "basis": basis}

    def supporters(self, counts: I64) -> I64:
        """int64[m, cells], how often each report was made, to int64[m, d], by how many each node is supported."""
        if self.is_direct:
            return counts
        groups, buckets = len(counts), 1 << self.head
        shifted = walsh_hadamard(counts.reshape(-1, buckets)).reshape(groups, self.multipliers, buckets)
        spectrum = np.zeros((groups, self.nodes), np.int64)
        spectrum[:, 0] = shifted[:, :, 0].sum(axis=1) * self.favored
        for u, weight, vectors in self._terms(slice(None)):  # no vector comes twice: another functional for each a
            spectrum[:, vectors] += weight * shifted[:, :, u]
        return self._supporters(spectrum)

    def supporters_of(self, reports: I64, groups: I64, n_groups: int) -> I64:
        """The same of few reports, without a count for each cell."""
        if self.is_direct:
            return count_numbers(reports, groups, n_groups, self.nodes)
        spectrum = np.zeros((n_groups, self.nodes), np.int64)
        if not len(reports):
            return spectrum
        multiplier, shift = reports >> self.head, reports & (1 << self.head) - 1
        spectrum[:, 0] = np.bincount(groups, minlength=n_groups) * self.favored
        for u, weight, vectors in self._terms(multiplier):
            np.add.at(spectrum, (groups, vectors), np.where(np.bitwise_count(shift & u) & 1, -weight, weight))
        return self._supporters(spectrum)

    def _terms(self, multiplier: Any) -> Iterator[tuple[int, int, I64]]:
        """Each u > 0 with w(u), which is not 0, and for each of some a the vector f with <f, x> = <u, head(a x)>."""
        buckets = 1 << self.head
        weights = walsh_hadamard((np.arange(buckets) < self.favored).astype(np.int64)[None])[0].tolist()
        single = field_of(self.bits).functionals(self.head)[:, multiplier]
        for u in range(1, buckets):
            if weights[u]:
                yield u, weights[u], np.bitwise_xor.reduce([single[t] for t in range(self.head) if u >> t & 1])

    def _supporters(self, spectrum: I64) -> I64:
        supporters: I64 = walsh_hadamard(spectrum)
        supporters >>= self.head
        return supporters

    def simulate(self, people: I64, generator: Generator) -> I64:
        """int64[d]: by how many reports of so many people at each node each one is supported.

        A mixture: a uniform report of those that support the node, or of all.
        """
        share = Fraction(self.favored, 1 << self.head)
        chosen = generator.binomial(people, float((self.pair[0] - share) / (1 - share)))
        counts = multinomials((people - chosen).sum(), self.cells, generator).copy()

        def cell(nodes: I64, choices: I64) -> I64:
            multiplier, shift = np.divmod(choices, self.favored)
            if self.is_direct:
                return nodes
            return multiplier << self.head | shift ^ self._heads(multiplier, nodes)

        scatter(chosen, self.multipliers * self.favored, cell, counts, generator)
        return self.supporters(counts[None])[0]


_AGREE, _INSIDE, _OUTSIDE, _MULTIPLIER = range(4)  # lanes of noise


@lru_cache(maxsize=1024)
def best_level(bits: int, epsilon: float) -> Level:
    """The oracle of fewest reports among those whose variance is at most a 400th above the least one.

    What a block of a share c = k / d of the nodes tells is proportional to c (1 - c) / (c (e - 1) + 1)^2, e = e^eps,
    whatever d is: the most at c = 1 / (e + 1).

    >>> [(level.head, level.favored) for level in (best_level(bits, 1.0) for bits in (1, 2, 3, 8))]
    [(1, 1), (2, 1), (2, 1), (2, 1)]
    """
    e = round(exp_below(epsilon) * _FINE)  # the same choice on every machine
    levels = [Level(bits, bits, 1, epsilon)]
    for head in range(1, min(bits, _MOST_HEAD) + 1):
        levels += [Level(bits, head, m, epsilon) for m in range(1, (1 << head - 1) + 1, 2) if (head, m) != (bits, 1)]

    def told(level: Level) -> Fraction:
        m, rest = level.favored, (1 << level.head) - level.favored
        return Fraction(m * rest, (m * e + rest * _FINE) ** 2)

    enough = max(map(told, levels)) * Fraction(399, 400)
    return min((level for level in levels if told(level) >= enough), key=lambda level: level.cells)


_FINE = 1 << 20
_MOST_HEAD = 7


# ---- the field of 2^l elements


class Field:
    """GF(2^l): powers of a generator, uint16[3 (2^l - 1)], and logarithms of the nodes' elements, int64[2^l].

    Node x is the sum of c_t over its bits t, the c_t being powers of the generator far from each other, and a basis:
    neighbors would otherwise have products that have much in common. The logarithm of 0 is where powers are zeros.
    """

    def __init__(self, bits: int) -> None:
        order = (1 << bits) - 1
        powers, element = [], 1
        for _ in range(order):
            powers.append(element)
            element <<= 1
            element ^= _PRIMITIVE[bits] * (element >> bits)
        self.powers = np.array(powers * 2 + [0] * order, np.uint16)
        of_element = np.full(1 << bits, 2 * order, np.int64)
        of_element[self.powers[:order]] = np.arange(order)
        nodes, at = np.zeros(1, np.int64), 0
        while len(nodes) <= order:
            at = (at + order * _GOLDEN[0] // _GOLDEN[1]) % order
            while np.any(nodes == int(self.powers[at])):  # no combination of those before
                at = (at + 1) % order
            nodes = np.concatenate([nodes, nodes ^ int(self.powers[at])])
        self.logarithms: I64 = of_element[nodes]
        self._bits = bits
        self._functionals: dict[int, I64] = {}

    def functionals(self, head: int) -> I64:
        """int64[s, 2^l - 1]: the vector f with <f, x> = bit t of head(a x), for each t and each power a."""
        if head not in self._functionals:
            at = np.arange((1 << self._bits) - 1)
            out = np.zeros((head, len(at)), np.int64)
            for bit in range(self._bits):
                heads = self.powers[self.logarithms[1 << bit] + at] >> self._bits - head
                out |= (heads >> np.arange(head, dtype=np.uint16)[:, None] & 1).astype(np.int64) << bit
            self._functionals[head] = out
        return self._functionals[head]


@lru_cache(maxsize=32)
def field_of(bits: int) -> Field:
    """The field of 2^bits elements, made once."""
    return Field(bits)


_PRIMITIVE = {
    2: 0x7, 3: 0xB, 4: 0x13, 5: 0x25, 6: 0x43, 7: 0x83, 8: 0x11D, 9: 0x211, 10: 0x409,
    11: 0x805, 12: 0x1053, 13: 0x201B, 14: 0x4443, 15: 0x8003, 16: 0x1100B,
}  # fmt: skip
"""Primitive polynomials over GF(2), by their degree: W. Peterson, E. Weldon, "Error-Correcting Codes", 1972."""
_GOLDEN = 144, 233


# ---- how often each level is asked


@lru_cache(maxsize=1024)  # (a plan has many columns of one epsilon, and says the shares of each)
def best_shares(levels: tuple[Level, ...], workload: str) -> tuple[int, ...]:
    """Of 1024 reports, how many are of each level: of least variance on average over a workload.

    Sums of the leaves of a node less those of its sibling are estimated independently (see `hierarchical`), at depth j
    with a variance of D / 2^j / L_j, where L_j = sum over l > j of (s_l / v_l) D / 2^l. A query has, at the nodes
    that it cuts at r of their length, the coefficients min(r, 1 - r); with C_j the mean of their sum of squares, the
    average variance is sum over j of C_j D / 2^j / L_j. It is convex in the shares s_l, and least where multiplicative
    steps s_l <- s_l (gradient / mean gradient)^(1/2) end (B. Torsney, "Moments, Duality and Optimal Experimental
    Design", 1983). Plain floats, the same on every machine; rounded to 1024ths, which costs less than 0.01 %.

    Args:
        levels: 1 to h.
        workload: "ranges", all D (D + 1) / 2, or "prefixes", all D - 1.
    """
    h = len(levels)
    leaves = 1 << h
    costs = []
    for j in range(h):
        size = leaves >> j
        squares, sums = (size * size + 2) / (12 * size), size / 4
        if workload == "prefixes":
            mean = (1 << j) * squares / (leaves - 1)
        else:  # (a difference of two prefixes: each pair of cuts, and of those in one node twice the product less)
            mean = (1 << j) * (leaves * squares - (sums * sums - squares)) / (leaves * (leaves + 1) / 2)
        costs.append(mean * size)
    gains = [(leaves >> level.bits) / level.variances[2] for level in levels]
    shares = [1 / h] * h
    for _ in range(_STEPS):
        informations, total = [0.0] * h, 0.0
        for j in reversed(range(h)):
            total += shares[j] * gains[j]
            informations[j] = total
        slopes, total = [], 0.0
        for j in range(h):
            total += costs[j] / informations[j] ** 2
            slopes.append(total * gains[j])
        shares = [s * math.sqrt(slope) for s, slope in zip(shares, slopes, strict=True)]
        whole = math.fsum(shares)
        shares = [s / whole for s in shares]
    return _rounded(shares)


def _rounded(shares: list[float]) -> tuple[int, ...]:
    """Whole 1024ths that add up to 1024: the largest remainders are rounded up."""
    parts = [int(s * PARTS) for s in shares]
    order = sorted(range(len(parts)), key=lambda i: parts[i] - shares[i] * PARTS)
    for i in order[: PARTS - sum(parts)]:
        parts[i] += 1
    return tuple(parts)


PARTS = 1024
_STEPS = 300
