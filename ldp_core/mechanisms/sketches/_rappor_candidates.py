"""RAPPOR's reports as a frequency oracle over candidates, and which candidates are there; by `_regression.py`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn, get_args

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools, Codes
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.estimates.histogram import Histogram
from ldp_core.estimates.plausibility import watch
from ldp_core.inputs.domain import Domain, Label
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.sketches._regression import Correction, Design, Fit, p_values, significant
from ldp_core.mechanisms.sketches.base import Candidates, Sketch
from ldp_core.parameters import check_choice, check_open, derived
from ldp_core.tally import Tally


class _NoInfluence(Mechanism):
    """What crafted reports do to a regression is not known."""

    @override
    def influence(self) -> NoReturn:
        """Refused: see the error."""
        raise ParameterError(
            "RAPPOR's counts are a regression, which depends on the candidates and on the reports of each cohort: what "
            "one report moves has no bound that holds for all of them; that of a count mean sketch has"
        )

    @override
    def worst_gain(self, *, fake: int, targets: int = 1) -> NoReturn:
        """Refused: see the error."""
        self.influence()


class FilterSketch(_NoInfluence, Sketch):
    """A sketch of Bloom filters of which each bit is reported with noise: `Rappor`.

    A tally has, of each cohort, the number of reports, and then how many of them have each bit.
    """

    candidates: ClassVar[str] = "rappor_candidates"

    @abstractmethod
    def design(self, codes: Codes, texts: Iterable[Label]) -> Design:
        """The filters of candidates, of their codes or texts, and the noise."""

    @override
    def over(self, candidates: Domain | Iterable[Label]) -> RapporCandidates:
        """The frequency oracle over some candidates, which reads this mechanism's reports and tallies."""
        return RapporCandidates(candidates, self)

    def decode(
        self,
        tally: Tally,
        candidates: Domain | Iterable[Label],
        *,
        level: float = 0.05,
        correction: Correction = "bonferroni",
        confidence: float = 0.95,
    ) -> Decoded:
        """Which candidates are there, and how many of each; see `RapporCandidates.decode`."""
        return self.over(candidates).decode(tally, level=level, correction=correction, confidence=confidence)


@dataclass(frozen=True, init=False)
class RapporCandidates(_NoInfluence, Candidates):
    """RAPPOR as a frequency oracle over candidates: estimates by least squares on the bits of all cohorts.

    See `ldp_core.mechanisms.sketches._regression` for the method, and `Rappor.over`.

    >>> from ldp_core import Keyed, Rappor, Secret
    >>> m = Rappor("int", bits=32, hashes=2, cohorts=16, f=0.1, p=0.1, q=0.9)
    >>> noise = Keyed(Secret.from_seed(1), range(30_000), column="n")
    >>> tally = m.tally(m.perturb(np.arange(30_000) % 3 % 2, randomness=noise))
    >>> m.decode(tally, [0, 1, 2, 3]).found
    (0, 1)
    """

    name: ClassVar[str] = "rappor_candidates"

    sketch: FilterSketch = derived()

    @cached_property
    def design(self) -> Design:
        """The candidates' filters."""
        return self.sketch.design(self._codes, self.domain.labels)

    def fit(self, counters: I64) -> Fit:
        """Shares of the candidates from the counters of one tally, int64[m (1 + k)]."""
        table = counters.reshape(self.design.cohorts, 1 + self.design.bits)
        return self.design.fit(table[:, 0], table[:, 1:])

    @override
    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """Counts by least squares, and z standard errors to both sides, z a normal quantile."""
        check_open("confidence", confidence)
        fits = [self.fit(row) for row in counters.reshape(-1, self.counters)]
        shape = (*counters.shape[:-1], self.domain.size)
        counts = n * np.array([fit.shares for fit in fits]).reshape(shape)
        errors = n * np.array([fit.errors for fit in fits]).reshape(shape)
        return self._intervals(counts, errors, confidence, simultaneous)

    def _intervals(self, counts: F64, errors: F64, confidence: float, simultaneous: bool) -> tuple[F64, F64, F64, F64]:
        z = z_score(confidence, self.domain.size if simultaneous else 1)
        return counts, errors, counts - z * errors, counts + z * errors

    @property
    @override
    def parts(self) -> tuple[float, float]:
        """Least squares have no bounds: few reports may give any share."""
        return -math.inf, math.inf

    @override
    def variance(self, n: float, count: Any = 0.0) -> Any:
        """Of an estimated count, if few people hold any one value and reports are spread evenly; an approximation.

        n r (1 - r) / ((q* - p*)^2 k d (1 - d)) over 1 - c / (m k), with the density d = 1 - (1 - 1 / k)^h,
        r = p* + d (q* - p*) and c candidates. Standard errors of an estimate are computed from the filters themselves.
        """
        r = self.design.rate
        return n * r * (1 - r) / self.design.contrast**2 + 0 * np.asarray(count)

    @override
    def accuracy(self, n: int, beta: float = 0.05) -> float:
        """The alpha with Pr[|estimated - true frequency| >= alpha] <= beta, under the conditions of `variance`.

        Hoeffding's inequality for the bits of n reports, which are independent given the filters:
        ``sqrt(ln(2 / beta) / (2 n k d (1 - d) (1 - c / (m k)))) / (q* - p*)``.
        """
        if n < 1:
            raise ParameterError(f"n must be at least 1, got {n}")
        return math.sqrt(math.log(2 / check_open("beta", beta)) / (2 * n)) / self.design.contrast

    def decode(
        self, tally: Tally, *, level: float = 0.05, correction: Correction = "bonferroni", confidence: float = 0.95
    ) -> Decoded:
        """Which candidates are there, and how many of each.

        Args:
            tally: of reports of this mechanism.
            level: of the test, in (0, 1): with Bonferroni's correction the chance that any candidate is found that
                nobody holds; with ``"fdr"`` the share of such among the found ones, on average.
            correction: ``"bonferroni"`` or ``"fdr"``.
            confidence: of the histogram's intervals.

        Raises:
            ParameterError: level or confidence outside (0, 1), or another correction.
            MechanismMismatchError: the tally is another mechanism's.
        """
        check_open("level", level)
        check_choice("correction", correction, get_args(Correction))
        check_open("confidence", confidence)
        self.check_tally(tally)
        watch(self, tally.n, tally.counters)
        fit, n = self.fit(tally.counters), tally.n
        arrays = self._intervals(n * fit.shares, n * fit.errors, confidence, False)
        histogram = Histogram(self.domain, n, *arrays, confidence, simultaneous=False, mechanism=self)
        p = p_values(fit)
        passed = significant(p, level, correction)
        return Decoded(histogram, n * fit.nonnegative, p, passed, fit.selected, fit.misfit)


@dataclass(frozen=True, eq=False)
class Decoded:
    """What `Rappor.decode` found among c candidates.

    Attributes:
        histogram: unbiased counts of all candidates with their intervals.
        counts: by non-negative least squares, float64[c]: less noisy for rare values, and biased upwards for them.
        p_values: float64[c]: the probability of such an estimate or a greater one if nobody held the candidate.
        significant: bool[c]: which pass the corrected level.
        selected: bool[c]: which were in the regression; all, unless there are too many or they cannot be told apart.
        misfit: by how much residuals exceed the noise (a ratio of variances, 1 if they do not): above 1 if
            frequent values are missing among the candidates.
    """

    histogram: Histogram
    counts: F64
    p_values: F64
    significant: Bools
    selected: Bools
    misfit: float

    @property
    def found(self) -> tuple[Label, ...]:
        """The significant candidates, the most frequent first."""
        order = np.argsort(-self.histogram.counts, kind="stable")
        return tuple(self.histogram.domain.values[i] for i in order if self.significant[i])
