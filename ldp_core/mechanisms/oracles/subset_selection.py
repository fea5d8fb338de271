"""Subset selection: k of the d values, the true one among them with probability p.

M. Ye, A. Barg, "Optimal Schemes for Discrete Distribution Estimation under Locally Differential Privacy", IEEE
Transactions on Information Theory 64(8), 2018; S. Wang, L. Huang, P. Wang, Y. Nie, H. Xu, W. Yang, X.-Y. Li,
C. Qiao, "Mutual Information Optimally Local Private Discrete Distribution Estimation", arXiv:1607.08025, 2016:

    p = k e^eps / (k e^eps + d - k)        q = (k - p) / (d - 1)        k = d / (e^eps + 1), rounded

All k-subsets that hold the true value are equally likely, and so are all that do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Codes, select
from ldp_core.exact import bits
from ldp_core.exact.probability import agreement, check_resolved, exp_below, fraction
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles.base import BitReports, check_reported
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, check_integer, parameter
from ldp_core.reports import Bits, Native
from ldp_core.reports.bits import clear_padding, row_bytes
from ldp_core.simulated_counts import Generator, by_code, subset_sums


@dataclass(frozen=True, init=False)
class SubsetSelection(BitReports):
    """Report a random set of k values: with probability p one of those that hold the true value.

    Args:
        domain: a `Domain` or a list of labels. ``unmatched="none"`` does not exist here: a uniform set
            would support each value with another probability than q.
        k: size of the set, in [1, d - 1]; default d / (e^epsilon + 1), rounded, at least 1.

    Reports are bit vectors with k ones, in the layouts of `UnaryEncoding`: ``FixedSizeList<bool, d>`` or, packed,
    ``FixedSizeList<uint64, ceil(d / 64)>``; as numpy arrays ``bool[n, d]`` or ``uint64[n, ceil(d / 64)]``.

    >>> m = SubsetSelection(range(16), epsilon=1.0)
    >>> m.k, round(m.p, 6), round(m.q, 6)
    (4, 0.475367, 0.234976)
    """

    name: ClassVar[str] = "subset_selection"
    has_two_levels: ClassVar[bool] = True

    domain: Domain = parameter(check_reported, what="subset selection")
    epsilon: float = parameter(check_epsilon)
    k: int = parameter(
        check_integer,
        default=cached_property(lambda self: max(round(self.domain.size / (exp_below(self.epsilon) + 1)), 1)),
        low=1,
        high=lambda self: self.domain.size - 1,
    )

    def __init__(
        self, domain: Domain | Iterable[Label], *, epsilon: float, k: int | None = None, unmatched: Unmatched = "error"
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon, k=k)
        check_resolved(self.epsilon, lambda: (fraction(self._include), Fraction(self.k, self.domain.size)), " * d")

    @property
    @override
    def reports(self) -> Bits:
        return Bits(self.domain.size, ones=self.k)

    @cached_property
    def _include(self) -> int:
        return agreement(self.epsilon, self.domain.size, self.k)

    @cached_property
    def _start(self) -> int:
        """With what probability, over 2^64, each other bit is set to begin with; see `_repaired`.

        Any number is right. This one makes few repairs: a bit too many costs d / k tries and one too few
        d / (d - k), so that Pr[too many] should be k / d, as it is for a mean this many standard deviations below k.
        """
        d, k = self.domain.size, self.k
        deviation = math.sqrt(k * (1 - k / d))
        rate = (k + NormalDist().inv_cdf(k / d) * deviation) / d
        return min(max(int(rate * (1 << 16)), 0), (1 << 16) - 1) << 48 or 1  # 16 bits: no machine's rounding shows

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """Of the k values one is the true one with probability p; the others are any of d - 1."""
        d = self.domain.size
        p = fraction(self._include)
        return [p] * d, [(self.k - p) / (d - 1)] * d

    @cached_property
    @override
    def alike(self) -> float:
        p, others, k = fraction(self._include), self.domain.size - 1, self.k
        return float(p * p / math.comb(others, k - 1) + (1 - p) ** 2 / math.comb(others, k))

    @override
    def worst_ratio(self) -> Fraction:
        """``p / C(d - 1, k - 1)`` for a set that holds the value, ``(1 - p) / C(d - 1, k)`` for another."""
        p = fraction(self._include)
        return p * (self.domain.size - self.k) / ((1 - p) * self.k)

    @property
    @override
    def supported(self) -> tuple[int, int]:
        """``k``, the number of values in a report: it is checked when reports are read."""
        return self.k, self.k

    @property
    @override
    def block_size(self) -> int:
        """Listed: words and tables stay in the L2 cache. Repaired: many rows share the calls of a step."""
        return 1 << 15 if self._is_listed else max((1 << 22) // row_bytes(self.domain.size), 1)

    @property
    def _is_listed(self) -> bool:
        return self.domain.size <= _LISTED

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        return self._listed(codes, noise) if self._is_listed else self._repaired(codes, noise)

    def _listed(self, codes: Codes, noise: Noise) -> npt.NDArray[np.uint8]:
        """Where there are few sets, all are listed: k or, beside the true value, k - 1 of the d - 1 other ones."""
        n = len(codes)
        include = coins(noise, self._include, n, _BITS)
        with_true, without = (table[noise.uniform_below(len(table), n, lane)] for table, lane in self._tables)
        others = select(include, with_true, without)
        true = np.left_shift(np.uint32(1), codes, dtype=np.uint32)
        below = others & (true - np.uint32(1))
        others += others - below  # the bits from the true value's place on move up by one
        others |= true * include
        rows: npt.NDArray[np.uint8] = others.astype("<u4", copy=False).view(np.uint8).reshape(n, 4)
        return rows[:, : row_bytes(self.domain.size)]

    @cached_property
    def _tables(self) -> tuple[tuple[npt.NDArray[np.uint32], int], ...]:
        """All sets of k - 1 and of k of d - 1 values, as words of bits; and the lanes that choose one."""
        words = np.arange(1 << (self.domain.size - 1), dtype=np.uint32)
        weights = np.bitwise_count(words)
        return (words[weights == self.k - 1], _WITH), (words[weights == self.k], _WITHOUT)

    def _repaired(self, codes: Codes, noise: Noise) -> npt.NDArray[np.uint8]:
        """Where there are many sets, bits of about the right weight are repaired.

        The true bit is 1 with probability p. The others start as independent bits of one probability, of which, given
        how many there are, every arrangement is equally likely, and `repair` leaves it so: the set is exactly uniform.
        """
        width = row_bytes(self.domain.size)
        rows = noise.one_hot_rows(self._include, self._start, codes, width, _BITS)
        clear_padding(rows, self.domain.size)
        self._repair(rows, codes, noise)
        return rows

    def _repair(self, rows: npt.NDArray[np.uint8], codes: Codes, noise: Noise) -> None:
        repair(rows, self.k, self.domain.size, noise, lambda at, drawn: drawn != codes[at])

    @override
    def compiled(self) -> dict[str, Any]:
        start = {} if self._is_listed else {"q": str(self._start)}
        return {"draw": "subset", "p": str(self._include), **start, "ones": self.k}

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        have = by_code(codes, people, self.domain.size)
        included = generator.binomial(have, self.p)
        others = subset_sums(self.k - 1, included, generator) + subset_sums(self.k, have - included, generator)
        return included + others

    @override
    def sum_variance(self, weights: F64) -> F64:
        """Of the others, k - 1 are drawn without replacement if x is in the subset, else k."""
        others, k, p = weights.shape[1] - 1, self.k, self.p
        mean = (weights.sum(axis=1, keepdims=True) - weights) / others
        variance = ((weights**2).sum(axis=1, keepdims=True) - weights**2) / others - mean**2
        drawn = (p * (k - 1) * (others - k + 1) + (1 - p) * k * (others - k)) / max(others - 1, 1)
        return drawn * variance + p * (1 - p) * (weights - mean) ** 2


def repair(
    rows: npt.NDArray[np.uint8], k: int, d: int, noise: Noise, movable: Callable[[I64, Codes], npt.NDArray[np.bool_]]
) -> None:
    """Flip uniformly drawn ones of d bits of ``rows``, in place, until each row has weight k.

    Where ``movable``, of row numbers and a bit of each, says so: sets that differ there only are equally likely, if
    they were among those of one weight.
    """
    width = rows.shape[1]
    flat = rows.reshape(-1)
    excess = bits.row_weights(rows) - k
    at = np.flatnonzero(excess != 0)  # of Booleans, which are searched three times as fast
    excess, first = excess[at].astype(np.int8 if max(k, d - k) <= _SMALL else np.int32), at * width
    step = 0
    while len(at):
        drawn = noise.uniform_again(d, at, step, _PICKS)
        mask = np.left_shift(np.uint8(1), (drawn & 7).astype(np.uint8, copy=False))
        byte = first + (drawn >> 3)
        old = flat[byte]
        flip = ((old & mask) != 0) == (excess > 0)
        flip &= movable(at, drawn)
        flip &= excess != 0
        old ^= mask * flip
        flat[byte] = old
        excess -= np.sign(excess) * flip
        step += 1
        if step % _STEPS == 0 or len(at) < _FEW_ROWS:  # rows that are done ride along for a while
            left = np.flatnonzero(excess != 0)
            at, first, excess = at[left], first[left], excess[left]


_SMALL = 127  # up to this an excess fits in a byte
_STEPS, _FEW_ROWS = 3, 1 << 12
_LISTED = 18  # up to this many values all sets are listed: 2^17 words to choose them from

_BITS, _PICKS, _WITH, _WITHOUT = range(4)  # lanes of noise
