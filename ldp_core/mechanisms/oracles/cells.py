"""Frequency oracles whose reports are cells, of Hadamard's matrix or of a geometry: counts of cells say all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools
from ldp_core.errors import ParameterError
from ldp_core.exact.transforms import cell_counts
from ldp_core.mechanisms.oracles.base import PRODUCTS, FrequencyOracle, Moments, means_inside, n_codes
from ldp_core.reports import Native, Word

_EACH = 2048
"""Values, which are looked at one by one."""
_SIGNS = 64
"""Groups of them: a sum of squares is known to a fifth."""


class CountedCells(FrequencyOracle):
    """A mechanism whose reports are numbers of cells: how often each was reported says all, by a fast transform."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many there are."""

    @abstractmethod
    def counters_of(self, counts: I64) -> I64:
        """int64[m, cells], how often each cell was reported, to int64[m, counters]."""

    @property
    @override
    def reports(self) -> Word:
        return Word(self.cells)

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        out = np.empty((n_groups, self.counters), np.int64)
        for first, last, counts in cell_counts(reports.view(np.int64), groups, n_groups, self.cells):
            out[first:last] = self.counters_of(counts)
        return out

    @override
    def noise_covariance(self, shares: F64) -> F64:
        """Over all cells: one is `worst_ratio` times as likely if it supports x."""
        if not self.exhaustive:
            raise ParameterError(
                f'the errors of sums of {self.name} are not known with unmatched="none": take unmatched="other"'
            )
        each = np.arange(self.cells)
        counters = self.count_reports(each.astype(np.uint64), each, self.cells)
        chances = np.where(counters[:, : self.domain.size] > 0, float(self.worst_ratio()), 1.0)
        chances /= chances.sum(axis=0)
        numbers = self.debiased(counters)
        means = chances.T @ numbers
        of_cell = shares @ chances.T
        second = np.einsum("kc,ca,cb->kab", of_cell, numbers, numbers, optimize=True)
        covariances: F64 = second - np.einsum("kx,xa,xb->kab", shares, means, means, optimize=True)
        return covariances / self.rates.difference**2


class SummedCells(CountedCells):
    """It is computed what each cell adds to a sum: some support nearly all values of it, others nearly none.

    A report of x is uniform among the s cells that support x with p, else among the others.
    """

    @property
    @abstractmethod
    def supporting(self) -> int:
        """How many cells support a value: s."""

    @abstractmethod
    def supports(self, cells: I64, codes: I64 | None = None) -> F64:
        """float64[codes, m]: 1 where a code (None: each) is supported by these cells, int64[m], else 0."""

    @override
    def weights_of(self, reports: Native, code: int) -> F64:
        cells, of = np.unique(reports.view(np.int64), return_inverse=True)
        return self.weights_by(self.supports(cells, np.array([code]))[0], code)[of]

    @override
    def sum_variance(self, weights: F64) -> F64:
        return self.moments(weights, np.eye(n_codes(self.domain))).variances.T * self.rates.difference**2

    @override
    def sum_bounds(self, weights: F64) -> tuple[float, float]:
        sums = np.concatenate([weights @ table[: len(weights)] for table in self._tables(1)])
        return float(sums.min()), float(sums.max())

    def _tables(self, rows: int) -> Iterator[F64]:
        """`supports` of all cells, so many at a time that a few arrays of ``rows`` or codes are small."""
        step = max(PRODUCTS // max(self.domain.size, rows), 1)
        for first in range(0, self.cells, step):
            yield self.supports(np.arange(first, min(first + step, self.cells)))

    @override
    def moments(self, weights: F64, people: F64) -> Moments:
        """Over all cells, some at a time.

        How unlike it is for many values is told from groups of random signs: the expected square of a sum with these is
        the sum of squares (M. F. Hutchinson, Communications in Statistics 19(2), 1990).
        """
        (k, codes), (r, d), inside = people.shape, weights.shape, weights > 0
        of = min(k, 1)  # (without people nobody asks)
        if codes <= _EACH:
            signs = np.eye(of * codes, codes)
        else:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (of * _SIGNS, codes)) / _SIGNS**0.5
        high, low, count = weights.max(axis=1, keepdims=True), weights.min(axis=1, keepdims=True), _counting(inside)
        two_levels = np.where(inside, weights == high, weights == low).all()
        groups = np.concatenate([people, np.ones((1, codes)), np.arange(1, codes + 1)[None] == codes, signs])
        supported, square, within = np.zeros((len(groups), r)), np.zeros(r), np.zeros(r)
        least, most = np.full(r, np.inf), np.full(r, -np.inf)
        for table in self._tables(r):
            counts = count(table[:d])
            sums = (high - low) * counts + low * table[:d].sum(axis=0) if two_levels else weights @ table[:d]
            least, most = np.minimum(least, sums.min(axis=1)), np.maximum(most, sums.max(axis=1))
            sums *= sums
            square += sums.sum(axis=1)
            within += np.einsum("rc,rc->r", sums, counts)
            of_groups = np.concatenate([groups[:-codes] @ table, table]) if len(signs) == codes else groups @ table
            supported += of_groups @ sums.T
        other = (1 - float(self.p)) / (self.cells - self.supporting)  # the chance of a cell that does not support x
        more = float(self.p) / self.supporting - other
        q, _, _, difference = self.rates
        base, squares = weights @ q, weights**2

        def noise(people: Any, supported: F64, sums: F64, of_squares: F64) -> F64:
            """Squares, less those of the means of each x, ``base`` + (p - q) w_x."""
            means = people * base**2 + difference * (2 * base * sums + difference * of_squares)
            return (people * other * square + more * supported - means) / difference**2

        size, given, everybody = inside.sum(axis=1), groups[:, :d], groups.sum(axis=1)[:, None]
        variances = noise(everybody, supported, given @ weights.T, given @ squares.T)
        inside_alone = noise(size, within, *(np.einsum("rd,rd->r", w, inside) for w in (weights, squares)))
        inner, outer = means_inside(inside_alone, variances[k], size, codes, variances[k + 1] if codes > d else 0.0)
        signs_in = given[k + 2 :] @ inside.T
        unlike = variances[k + 2 :] - signs_in * inner - (everybody[k + 2 :] - signs_in) * outer
        lowest = variances[k + 2 :].min(axis=0, initial=np.inf).clip(min=0) if codes <= _EACH else np.zeros(r)
        return Moments(variances[:k], inner, outer, (unlike**2).sum(axis=0), most - least, lowest)


def _counting(inside: Bools) -> Callable[[F64], F64]:
    """Makes of a table of numbers, float64[d, m], the sums over the rows that are inside, bool[r, d]: float64[r, m].

    If these are ranges, from the sums up to their ends.
    """
    ends = np.diff(inside.astype(np.int8), axis=1, prepend=0, append=0)
    if np.count_nonzero(ends, axis=1).max() > 2:
        return lambda table: inside.astype(float) @ table
    first, beyond = ends.argmax(axis=1), ends.argmin(axis=1)

    def counts(table: F64) -> F64:
        upto = np.zeros((len(table) + 1, table.shape[1]))
        np.cumsum(table, axis=0, out=upto[1:])
        made: F64 = upto[beyond]
        made -= upto[first]
        return made

    return counts
