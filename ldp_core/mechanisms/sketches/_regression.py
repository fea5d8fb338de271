"""Decoding RAPPOR: shares of candidate values from the bits of their Bloom filters, by least squares.

U. Erlingsson, V. Pihur, A. Korolova, "RAPPOR", CCS 2014, section 4: (1) estimate how often each bit of each cohort was
set in the filters; (2) select candidates by LASSO; (3) regress on the selected ones, which gives counts, standard
errors and p-values; (4) compare the p-values with a Bonferroni-corrected level or control the false discovery rate.
Three things are done otherwise here, for honest intervals:

- Step 2 is left out, as in Google's R code with no more candidates than 0.8 times the bits of all cohorts: all are in
  the regression. It is then unbiased, and its p-values are not those of a search on the same data. More candidates are
  refused: frequent ones that are not selected are mistaken for others (intervals of these held in 57 to 90 %).
- From each bit its density is taken, the probability that a value's filter has it. What nobody listed, having random
  filters, then adds noise but no bias. (The R code has an intercept in its LASSO, and none in the regression.)
- Bits of a filter are set together, so that their counts are correlated beyond the noise. The standard errors are those
  of the whole covariance, not of independent bits, given how many hold each value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ldp_core.accounting.binomials import normal_tail
from ldp_core.arrays.types import F64, I64, Bools
from ldp_core.estimates.clusters import normal
from ldp_core.estimates.tails import two_point_score
from ldp_core.exact import linear_algebra

Correction = Literal["bonferroni", "fdr"]

FULL = 0.8
"""With more candidates than this share of the bits the regression is close to underdetermined (so the R code)."""
_PIVOT = 1e-6  # share of a candidate's variance that the others must leave for it to be told apart
_SWEEPS = 1000
_CELLS = 1 << 20  # bits of candidates' filters at a time: 8 MiB


@dataclass(frozen=True)
class Fit:
    """Shares of candidates.

    Attributes:
        shares: least squares, unbiased: float64[c]. A candidate that was not selected has the coefficient that it would
            get if it alone were added to the selected ones. All are alone where too few cohorts have reports.
        errors: standard errors of ``shares``; infinite where a candidate cannot be told from the others.
        nonnegative: least squares under shares >= 0, over the selected candidates; float64[c].
        selected: which candidates are in the regression.
        misfit: by how much the residuals exceed what noise explains, a ratio of variances, at least 1; in ``errors``.
        added: standard errors by each bit shared with a frequent unlisted value (Poisson: m k d^2); 0 without a misfit.
        degrees: of freedom of the residuals that a misfit is estimated from; infinite without one.
    """

    shares: F64
    errors: F64
    nonnegative: F64
    selected: Bools
    misfit: float
    added: float = 0.0
    degrees: float = math.inf

    def score(self, z: F64) -> F64:
        """How many standard errors of a normal variable are as improbable as estimates z of theirs too high."""
        if not self.added:
            return z
        z = normal(z, self.degrees)
        return np.minimum(z, two_point_score(np.maximum(z, 0), *map(np.array, (1e9, 1.0, self.added))))


@dataclass(frozen=True)
class Design:
    """What the filters of candidates are, and how their bits are reported.

    Args:
        positions: bits that each candidate sets, integers [m, c, h]: of m cohorts, c candidates.
        density: probability that a value sets a bit, float64[k].
        p_star, q_star: probability that a bit is reported as 1, if it is 0 and if it is 1 in the filter.
    """

    positions: npt.NDArray[Any]
    density: F64
    p_star: float
    q_star: float

    @property
    def cohorts(self) -> int:
        """Number of cohorts, m."""
        return len(self.positions)

    @property
    def bits(self) -> int:
        """Of a filter, k."""
        return len(self.density)

    @property
    def _even(self) -> float:
        """The probability that a value sets a bit, if all bits are alike: 1 - (1 - 1 / k)^h."""
        return float(1 - (1 - 1 / self.bits) ** self.positions.shape[2])

    @property
    def rate(self) -> float:
        """The probability that a bit is reported as 1, over all values."""
        return self.p_star + (self.q_star - self.p_star) * self._even

    @property
    def held(self) -> float:
        """The variance of a bit in reports of one value: of its own bits, and of as many others as these weigh."""
        d, (p, q) = self._even, (x * (1 - x) for x in (self.p_star, self.q_star))
        return (1 - d) * q + d * p

    @property
    def contrast(self) -> float:
        """(q* - p*) root of k d (1 - d) (1 - c / (m k)): how much of a report's bits per value moves."""
        d, c = self._even, self.positions.shape[1]
        room = 1 - c / (self.cohorts * self.bits)
        return (self.q_star - self.p_star) * math.sqrt(self.bits * d * (1 - d) * room)

    def fit(self, sizes: I64, ones: I64) -> Fit:
        """Estimate from counts: reports of each cohort, int64[m], and 1s of each of their bits, int64[m, k]."""
        n, c = int(sizes.sum()), self.positions.shape[1]
        if not n:
            return Fit(np.zeros(c), np.zeros(c), np.zeros(c), np.ones(c, bool), 1.0)
        # The share of each cohort in which each bit is set, estimated, less its density: the paper's t_ij / N_i - d_j.
        rates = np.divide(ones, sizes[:, None], out=np.zeros(ones.shape), where=sizes[:, None] > 0)
        y = (rates - self.p_star) / (self.q_star - self.p_star) - self.density
        gram, target = self._equations(sizes, y)
        if c > FULL * self._rows(sizes):  # too few cohorts have reports
            return Fit(target / np.diag(gram), np.full(c, np.inf), nonnegative(gram, target), np.zeros(c, bool), 1.0)
        return self._regression(sizes, y, gram, target, _apart(gram, target) if _singular(gram) else np.arange(c))

    def _rows(self, sizes: I64) -> int:
        """How many bits of cohorts with reports there are."""
        return len(self.density) * int(np.count_nonzero(sizes))

    def _equations(self, sizes: I64, y: F64) -> tuple[F64, F64]:
        """Of least squares: X' X / n and X' y / n, of n reports."""
        c, n = self.positions.shape[1], int(sizes.sum())
        gram, target = np.zeros((c, c)), np.zeros(c)
        for some in self._blocks(sizes):
            centered = (self._filters(some) - self.density).reshape(c, -1)
            weighted = centered * np.repeat(sizes[some] / n, len(self.density))
            gram += weighted @ centered.T
            target += weighted @ y[some].reshape(-1)
        return gram, target

    def _regression(self, sizes: I64, y: F64, gram: F64, target: F64, selected: I64) -> Fit:
        """Least squares on selected candidates, of which the reports of these cohorts do not decide."""
        c, rows = len(target), self._rows(sizes)
        functionals = _functionals(gram, selected)
        shares = functionals @ target
        positive = np.zeros(c)
        positive[selected] = nonnegative(gram[np.ix_(selected, selected)], target[selected])
        variance, misfit = self._variance(sizes, y, functionals, shares, positive, selected)
        variance[np.diag(functionals) == 0] = np.inf
        chosen = np.zeros(c, bool)
        chosen[selected] = True
        beyond = misfit > 1 + math.sqrt(2 / max(rows - len(selected), 1))
        added = math.sqrt((1 - 1 / misfit) / (rows * self._even**2 * (1 - self._even))) * beyond
        degrees = rows - len(selected) if added else math.inf
        return Fit(shares, np.sqrt(variance), positive, chosen, misfit, added, degrees)

    def _blocks(self, sizes: I64) -> list[I64]:
        """Cohorts with reports, so many at a time that few large products of matrices do the work."""
        there = np.flatnonzero(sizes)
        step = max(_CELLS // (self.positions.shape[1] * len(self.density)), 1)
        return [there[start : start + step] for start in range(0, len(there), step)]

    def _filters(self, cohorts: I64) -> F64:
        """The candidates' filters in some cohorts, as 0 and 1: float64[c, b, k]."""
        where = self.positions[cohorts]
        out = np.zeros((where.shape[1], len(cohorts), len(self.density)))
        out[np.arange(where.shape[1])[None, :, None], np.arange(len(cohorts))[:, None, None], where] = 1
        return out

    def _variance(
        self, sizes: I64, y: F64, functionals: F64, shares: F64, positive: F64, selected: I64
    ) -> tuple[F64, float]:
        """Variances of the shares, misfit included, and the misfit.

        In a cohort of N reports y has covariance (noise + joint - mean mean') / N: the noise of each bit, and which
        bits come together in the filters of the cohort's people, drawn at random from all. This is the variance of an
        estimate of the share among all people that there might be; of the share among those that there are,
        s, it is less by s (1 - s) / n (law of total variance).
        """
        n = int(sizes.sum())
        held = positive / max(1.0, positive.sum())
        others = 1 - held.sum()
        contrast = self.q_star - self.p_star
        some_held = np.flatnonzero(held)
        whole, alone, squares = np.zeros(len(held)), np.zeros(len(held)), 0.0
        for some in self._blocks(sizes):
            filters = self._filters(some)
            centered = (filters - self.density).reshape(len(held), -1)
            mean = others * self.density + (held @ filters.reshape(len(held), -1)).reshape(len(some), -1)
            noise = (
                mean * self.q_star * (1 - self.q_star) + (1 - mean) * self.p_star * (1 - self.p_star)
            ) / contrast**2
            rows = (functionals @ centered).reshape(filters.shape)
            from_noise = np.einsum("cbk,bk->cb", np.square(rows), noise)
            # The quadratic form of joint = sum of held filter filter' + others (density density', 1s on the diagonal).
            together = others * np.square(rows @ self.density)
            together += others * (np.square(rows) @ (self.density * (1 - self.density)))
            for b in range(len(some)):
                together[:, b] += np.square(rows[:, b] @ filters[some_held, b].T) @ held[some_held]
            together -= np.square(np.einsum("cbk,bk->cb", rows, mean))
            alone += from_noise @ (sizes[some] / n**2)
            whole += (from_noise + together) @ (sizes[some] / n**2)
            residuals = y[some] - (shares[selected] @ centered[selected]).reshape(len(some), -1)
            squares += float(sizes[some] @ (np.square(residuals) / (noise + mean * (1 - mean))).sum(axis=1))
        freedom = y.shape[1] * int(np.count_nonzero(sizes)) - len(selected)
        misfit = max(1.0, squares / freedom) if freedom > 0 else 1.0
        return misfit * np.maximum(whole - held * (1 - held) / n, alone), misfit


def _singular(gram: F64) -> bool:
    scale = np.sqrt(np.diag(gram))
    return bool(linear_algebra.eigenvalues(gram / np.outer(scale, scale))[0] < _PIVOT)


def _apart(gram: F64, target: F64) -> I64:
    """Candidates that are not combinations of more frequent ones, by Cholesky's pivots."""
    order = np.argsort(-nonnegative(gram, target), kind="stable")
    gram, c = gram[np.ix_(order, order)], len(gram)
    factor, kept, left = np.zeros((c, c)), np.zeros(c, bool), np.diag(gram).copy()
    for j in range(c):
        if left[j] < _PIVOT * gram[j, j]:
            continue
        kept[j] = True
        factor[:, j] = (gram[:, j] - factor @ factor[j]) / math.sqrt(left[j])
        left -= np.square(factor[:, j])
    return np.sort(order[kept])


def _functionals(gram: F64, selected: I64) -> F64:
    """The matrix that makes shares of targets: of the selected the inverse, of another one added to them its row."""
    c = len(gram)
    out = np.zeros((c, c))
    inverse = linear_algebra.inverse(gram[np.ix_(selected, selected)])
    out[np.ix_(selected, selected)] = inverse
    others = np.setdiff1d(np.arange(c), selected)
    if len(others):
        projected = gram[np.ix_(others, selected)] @ inverse
        diagonal = np.diag(gram)[others]
        left = diagonal - (projected * gram[np.ix_(others, selected)]).sum(axis=1)
        apart = left > _PIVOT * diagonal
        others, projected, left = others[apart], projected[apart], left[apart]
        out[others, others] = 1 / left
        out[np.ix_(others, selected)] = -projected / left[:, None]
    return out


def nonnegative(gram: F64, target: F64) -> F64:
    """The x >= 0 that minimizes x' G x / 2 - x' t: non-negative least squares.

    Coordinate descent with "covariance updates" (J. Friedman, T. Hastie, R. Tibshirani, J. Stat. Software 33(1), 2010).

    >>> nonnegative(np.eye(2), np.array([1.0, -1.0])).tolist()
    [1.0, 0.0]
    """
    x, diagonal = np.zeros(len(target)), np.diag(gram)
    descent = target.copy()  # the negative gradient
    enough = 1e-12 * float(np.max(np.abs(target), initial=0.0))
    for _ in range(_SWEEPS):
        moved = 0.0
        for j in np.flatnonzero((x > 0) | (descent > 0)):
            step = max(descent[j] / diagonal[j], -x[j])
            if step:
                x[j] += step
                descent -= gram[j] * step
                moved = max(moved, abs(step) * diagonal[j])
        if moved <= enough:
            break
    return x


def p_values(fit: Fit) -> F64:
    """Of each candidate, the probability of its share or a greater one if nobody held it; one-sided."""
    z = fit.score(np.divide(fit.shares, fit.errors, out=np.zeros(len(fit.shares)), where=fit.errors > 0))
    return normal_tail(z)


def significant(p: F64, level: float, correction: str) -> Bools:
    """Which p-values pass: ``"bonferroni"``, p <= level / c; ``"fdr"``, Benjamini and Hochberg (JRSS B 57(1), 1995).

    >>> significant(np.array([0.001, 0.03, 0.04, 0.9]), 0.1, "bonferroni").tolist()
    [True, False, False, False]
    >>> significant(np.array([0.001, 0.03, 0.04, 0.9]), 0.1, "fdr").tolist()
    [True, True, True, False]
    """
    if correction == "bonferroni":
        return p <= level / len(p)
    ordered = np.sort(p)
    passing = np.flatnonzero(ordered <= level * np.arange(1, len(p) + 1) / len(p))
    return p <= (ordered[passing[-1]] if len(passing) else -1.0)
