"""Hadamard count mean sketch (HCMS): one bit of the Hadamard transform of the value's bucket, in one word.

Apple Differential Privacy Team, "Learning with Privacy at Scale", Apple Machine Learning Journal 1(8), 2017; one bit of
a Hadamard transform also in R. Bassily, K. Nissim, U. Stemmer, A. Thakurta, "Practical Locally Private Heavy Hitters",
NIPS 2017. A report is (j, l, y): j uniform over the k functions, l over the m columns of Sylvester's matrix
H[r, l] = (-1)^<r, l>, and y = H[h_j(v), l] with probability p' = e^eps / (e^eps + 1), else its opposite. It supports w
if H[h_j(w), l] = y. Two different rows of H agree in half of the columns, so that over the functions

    p = p'        q = c p' + (1 - c) / 2        c = 1 / m

and all else is as for `CountMeanSketch` with q' = 1 / 2. The variance of a rare value is nearly
n ((e^eps + 1) / (e^eps - 1))^2 (m / (m - 1))^2, and what collisions add to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from ldp_core.exact.arrays import I64, U64, Codes
from ldp_core.exact.probability import check_resolved, exp_below, floor_threshold, fraction
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.open_domain import OpenDomain
from ldp_core.mechanisms.sketches.count_mean_sketch import CountMean
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon
from ldp_core.reports.words import CountedWords


@dataclass(frozen=True, init=False)
class HadamardCountMeanSketch(CountedWords, CountMean):
    """Report a hash function, a column of a Hadamard matrix, and whether the value's bucket is +1 there, perturbed.

    Args:
        kind: ``"str"`` or ``"int"``: any text, or any integer.
        epsilon: finite, > 0.
        hashes: k, the number of hash functions.
        width: m, the number of buckets: a power of two.
        salt: chooses other hash functions.

    Reports are one ``uint64`` each, 2 (j m + l) + (y = 1), which is also the number of the counter that counts it: a
    tally has 2 k m, which add up to n.

    Raises:
        ParameterError: a parameter outside its interval.
        DomainError: another kind.

    >>> sketch = HadamardCountMeanSketch("int", epsilon=2.0)
    >>> tally = sketch.tally(sketch.perturb([17] * 3000 + [2**40] * 1000))
    >>> tally.n, tally.counters.size
    (4000, 131072)
    >>> sketch.over([17, 18, 2**40]).estimate(tally).values
    (17, 18, 1099511627776)
    """

    name: ClassVar[str] = "hadamard_count_mean_sketch"

    domain: OpenDomain
    epsilon: float
    hashes: int
    width: int
    salt: int

    def __init__(
        self,
        kind: OpenDomain | Literal["str", "int"] = "str",
        *,
        epsilon: float,
        hashes: int = 512,
        width: int = 128,
        salt: int = 0,
    ) -> None:
        self._set(kind, check_epsilon("epsilon", epsilon), hashes, width, salt)
        check_resolved(self._agree, ONE // 2)

    @cached_property
    def _agree(self) -> int:
        """P as an integer over 2^64, rounded down."""
        e = exp_below(self.epsilon)
        return floor_threshold(e / (e + 1))

    @property
    def bucket_probability(self) -> tuple[Fraction, Fraction]:
        """See `CountMean`: two rows of the matrix agree in half of the columns."""
        return fraction(self._agree), Fraction(1, 2)

    @property
    def spread(self) -> Fraction:
        """See `CountMean`: a column is half +1 and half -1, but for column 0, which is the same for all buckets."""
        return Fraction(self.width - 1, 4)

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: function and column do not depend on the value, the bit is a randomized response."""
        p = fraction(self._agree)
        return p / (1 - p)

    @property
    def counters(self) -> int:
        """Two a function and column."""
        return 2 * self.hashes * self.width

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]."""
        n = len(codes)
        agree = coins(noise, self._agree, n, _AGREE)
        cells = noise.uniform_below(self.hashes * self.width, n, _CELL).astype(np.uint32)
        columns = cells.astype(np.uint16)
        columns &= np.uint16(self.width - 1)
        rows = self.functions.at(cells >> np.uint32(self.width.bit_length() - 1), codes)
        rows &= columns
        odd = np.bitwise_count(rows)  # an odd number of common bits: the matrix has -1
        odd ^= agree
        odd &= 1
        reports: U64 = cells.astype(np.uint64)
        reports <<= np.uint64(1)
        reports |= odd
        return reports

    def table(self, counters: I64) -> I64:
        """See `CountMean`. The transform is, for each row of the matrix, reports that agree less those that do not."""
        k, m = self.hashes, self.width
        pairs = counters.reshape(-1, m, 2)
        agree = _transform(pairs[:, :, 1] - pairs[:, :, 0])
        agree += pairs.sum(axis=(1, 2))[:, None]
        agree >>= 1
        return agree.reshape(*counters.shape[:-1], k, m)

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"epsilon": self.epsilon, "hashes": self.hashes, "width": self.width, "salt": self.salt}


_AGREE, _CELL = 0, 1  # lanes of noise


def _transform(counts: I64) -> I64:
    """`hadamard_response.walsh_hadamard` of many short rows: as columns, so that no loop is shorter than their number.

    >>> _transform(np.array([[3, 1, 0, 2]])).tolist()
    [[6, 0, 2, 4]]
    """
    m = counts.shape[1]
    columns = np.ascontiguousarray(counts.T)
    shape = columns.shape
    done = 1
    while done < m:
        halves = columns.reshape(-1, 2, done * shape[1])
        columns = np.empty_like(halves)
        np.add(halves[:, 0], halves[:, 1], out=columns[:, 0])
        np.subtract(halves[:, 0], halves[:, 1], out=columns[:, 1])
        done *= 2
    return np.ascontiguousarray(columns.reshape(shape).T)
