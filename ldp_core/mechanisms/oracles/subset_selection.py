"""Subset selection: k of the d values, the true one among them with probability p.

M. Ye, A. Barg, "Optimal Schemes for Discrete Distribution Estimation under Locally Differential Privacy", IEEE
Transactions on Information Theory 64(8), 2018; S. Wang, L. Huang, P. Wang, Y. Nie, H. Xu, W. Yang, X.-Y. Li,
C. Qiao, "Mutual Information Optimally Local Private Discrete Distribution Estimation", arXiv:1607.08025, 2016:

    p = k e^eps / (k e^eps + d - k)        q = (k - p) / (d - 1)        k = d / (e^eps + 1), rounded

All k-subsets that hold the true value are equally likely, and so are all that do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.errors import DomainError, ReportError
from ldp_core.exact import bits
from ldp_core.exact.arrays import Codes
from ldp_core.exact.probability import check_resolved, exp_below, floor_threshold, fraction
from ldp_core.inputs.domain import Domain, Label
from ldp_core.mechanism import Native
from ldp_core.mechanisms.oracles._independent_bits import BitVectors
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, check_integer


@dataclass(frozen=True, init=False)
class SubsetSelection(BitVectors):
    """Report a random set of k values: with probability p one of those that hold the true value.

    Args:
        domain: a `Domain` or a list of labels. ``unmatched="none"`` does not exist here: a uniform set
            would support each value with another probability than q.
        epsilon: finite, > 0.
        k: size of the set, in [1, d - 1]; default d / (e^epsilon + 1), rounded, at least 1.

    Reports are bit vectors with k ones, in the layouts of `UnaryEncoding`: ``FixedSizeList<bool, d>`` or, packed,
    ``FixedSizeList<uint64, ceil(d / 64)>``; as numpy arrays ``bool[n, d]`` or ``uint64[n, ceil(d / 64)]``.

    Raises:
        ParameterError: epsilon or k outside its interval.
        DomainError: ``unmatched="none"``.

    >>> m = SubsetSelection(range(16), epsilon=1.0)
    >>> m.k, round(m.p, 6), round(m.q, 6)
    (4, 0.475367, 0.234976)
    >>> m.perturb([3, 15]).sum(axis=1).tolist()
    [4, 4]
    """

    name: ClassVar[str] = "subset_selection"

    domain: Domain
    epsilon: float
    k: int

    def __init__(self, domain: Domain | Iterable[Label], *, epsilon: float, k: int | None = None) -> None:
        domain, epsilon = Domain.of(domain), check_epsilon("epsilon", epsilon)
        if domain.unmatched == "none":
            raise DomainError('subset selection has no "none": use unmatched="error" or "other"')
        d = domain.size
        if k is None:
            k = max(round(d / (exp_below(epsilon) + 1)), 1)
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "k", check_integer("k", k, 1, d - 1))
        check_resolved(fraction(self._include), Fraction(self.k, d), " * d")

    @cached_property
    def _include(self) -> int:
        """P as an integer over 2^64, rounded down."""
        weight = self.k * exp_below(self.epsilon)
        return floor_threshold(weight / (weight + self.domain.size - self.k))

    @cached_property
    def _start(self) -> int:
        """With what probability, over 2^64, each other bit is set to begin with; see `perturb_codes`.

        Any number is right. This one makes few repairs: a bit too many costs d / k tries and one too few
        d / (d - k), so that Pr[too many] should be k / d, as it is for a mean this many standard deviations below k.
        """
        d, k = self.domain.size, self.k
        deviation = math.sqrt(k * (1 - k / d))
        rate = (k + NormalDist().inv_cdf(k / d) * deviation) / d
        return min(max(int(rate * (1 << 16)), 0), (1 << 16) - 1) << 48 or 1  # 16 bits: no machine's rounding shows

    def expected_parts(self) -> tuple[list[Fraction], list[Fraction]]:
        """See `Mechanism`: of the k values one is the true one with probability p; the others are any of d - 1."""
        d = self.domain.size
        p = fraction(self._include)
        return [p] * d, [(self.k - p) / (d - 1)] * d

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: p / C(d - 1, k - 1) for a set that holds the value, (1 - p) / C(d - 1, k) for another."""
        p = fraction(self._include)
        return p * (self.domain.size - self.k) / ((1 - p) * self.k)

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """Codes to rows of bytes, uint8[n, ceil(d / 8)], with k ones each."""
        n, d = len(codes), self.domain.size
        width = bits.row_bytes(d)
        rows = np.empty((n, width), np.uint8)
        listed = d <= _LISTED
        make, step = (self._listed, _ROWS) if listed else (self._repaired, max(_BLOCK // width, 1))
        for start in range(0, n, step):
            stop = min(start + step, n)
            rows[start:stop] = make(codes[start:stop], noise.rows(start, stop))
        return rows

    def _listed(self, codes: Codes, noise: Noise) -> npt.NDArray[np.uint8]:
        """Where there are few sets, all are listed: k or, beside the true value, k - 1 of the d - 1 other ones."""
        n = len(codes)
        include = coins(noise, self._include, n, _BITS)
        with_true, without = (table[noise.uniform_below(len(table), n, lane)] for table, lane in self._tables)
        others = without ^ ((without ^ with_true) & np.negative(include.astype(np.uint32)))
        true = np.left_shift(np.uint32(1), codes, dtype=np.uint32)
        below = others & (true - np.uint32(1))
        others += others - below  # the bits from the true value's place on move up by one
        others |= true * include
        rows: npt.NDArray[np.uint8] = others.astype("<u4", copy=False).view(np.uint8).reshape(n, 4)
        return rows[:, : bits.row_bytes(self.domain.size)]

    @cached_property
    def _tables(self) -> tuple[tuple[npt.NDArray[np.uint32], int], ...]:
        """All sets of k - 1 and of k of d - 1 values, as words of bits; and the lanes that choose one."""
        words = np.arange(1 << (self.domain.size - 1), dtype=np.uint32)
        weights = np.bitwise_count(words)
        return (words[weights == self.k - 1], _WITH), (words[weights == self.k], _WITHOUT)

    def _repaired(self, codes: Codes, noise: Noise) -> npt.NDArray[np.uint8]:
        """Where there are many sets, bits of about the right weight are repaired.

        The true bit is 1 with probability p. The others start as independent bits of one probability, of which, given
        how many there are, every arrangement is equally likely. Then single bits, not the true one, are drawn
        uniformly and flipped where that brings the weight nearer to k: a uniform choice among the ones (or zeros)
        leaves every arrangement equally likely. So the set is exactly uniform, at the cost of few draws.
        """
        width = bits.row_bytes(self.domain.size)
        rows = noise.one_hot_rows(self._include, self._start, codes, width, _BITS)
        bits.clear_padding(rows, self.domain.size)
        self._repair(rows, codes, noise)
        return rows

    def _repair(self, rows: npt.NDArray[np.uint8], codes: Codes, noise: Noise) -> None:
        """Flip uniformly drawn bits of ``rows``, in place, until each has weight k."""
        d, width = self.domain.size, rows.shape[1]
        flat = rows.reshape(-1)
        excess = bits.row_weights(rows) - self.k
        at = np.flatnonzero(excess != 0)  # of Booleans, which are searched three times as fast
        excess, true, first = (
            excess[at].astype(np.int8 if max(self.k, d - self.k) <= _SMALL else np.int32),
            codes[at],
            at * width,
        )
        step = 0
        while len(at):
            drawn = noise.uniform_again(d, at, step, _PICKS)
            mask = np.left_shift(np.uint8(1), (drawn & 7).astype(np.uint8, copy=False))
            byte = first + (drawn >> 3)
            old = flat[byte]
            flip = ((old & mask) != 0) == (excess > 0)
            flip &= drawn != true
            flip &= excess != 0
            old ^= mask * flip
            flat[byte] = old
            excess -= np.sign(excess) * flip
            step += 1
            if step % _STEPS == 0 or len(at) < _FEW_ROWS:  # rows that are done ride along for a while
                left = np.flatnonzero(excess != 0)
                at, first, excess, true = at[left], first[left], excess[left], true[left]

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`; a vector of another weight than k is no report."""
        rows = super().from_arrow(reports, column=column)
        wrong = int(np.count_nonzero(bits.row_weights(rows) != self.k))
        if wrong:
            raise ReportError(f"column {column!r}: {wrong} of {len(rows)} reports are not sets of {self.k} values")
        return rows

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"epsilon": self.epsilon, "k": self.k}


_SMALL = 127  # up to this an excess fits in a byte
_STEPS, _FEW_ROWS = 3, 1 << 12
_BLOCK = 1 << 22  # bytes of reports made at a time: many rows share the calls of a step

_ROWS = 1 << 15  # records at a time: words and tables stay in the L2 cache
_LISTED = 18  # up to this many values all sets are listed: 2^17 words to choose them from

_BITS, _PICKS, _WITH, _WITHOUT = range(4)  # lanes of noise
