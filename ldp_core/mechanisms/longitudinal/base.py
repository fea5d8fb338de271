"""Longitudinal mechanisms: a permanent answer for each value, remembered for ever, and fresh noise on it every time.

Ulfar Erlingsson, V. Pihur, A. Korolova, "RAPPOR", CCS 2014, sections 2 and 3: a report is the *instantaneous*
randomized response to a *permanent* one. One report spends epsilon_1; all reports about one value together, however
many, spend at most epsilon_infinity, since they are made of the one permanent answer. H. H. Arcolezi, J.-F. Couchot,
B. Al Bouna, X. Xiao, "Improving the Utility of Locally Differentially Private Protocols for Longitudinal and
Multidimensional Frequency Estimates", Digital Communications and Networks, 2022 (arXiv:2111.04636), section 4,
chains any two pure protocols: with (p1, q1) of the permanent round and (p2, q2) of the instantaneous one

    p = p1 p2 + (1 - p1) q2        q = q1 p2 + (1 - q1) q2        p - q = (p1 - q1) (p2 - q2)

is a pure protocol too, so that the estimator is that of all the others.

Nothing is stored: the permanent answer is keyed noise, a function of secret, id and value.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.exact.composition import History, SharedAnswer, Spent, memoized
from ldp_core.exact.probability import log_above
from ldp_core.mechanisms.oracles.base import FrequencyOracle, n_codes
from ldp_core.reports import Native, ReportFormat


def below_infinity(mechanism: Longitudinal) -> tuple[str, float]:
    """The bound of epsilon_1, for `check_epsilon`."""
    return "epsilon_infinity", mechanism.epsilon_infinity


class Longitudinal(FrequencyOracle):
    """A frequency oracle that a person may answer any number of times."""

    memoized: ClassVar[bool] = True

    epsilon_infinity: float
    """What all reports about one value, however many, spend together."""

    epsilon_1: float
    """What one report spends."""

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """What one report spends: epsilon_1."""
        return self.epsilon_1

    @abstractmethod
    def permanent_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of one permanent answer under two values."""

    @property
    def realized_epsilon_infinity(self) -> float:
        """What the rounded probabilities of a permanent answer really spend; see `realized_epsilon`."""
        return log_above(self.permanent_ratio())

    @property
    def permanent_answers(self) -> int:
        """How many permanent answers a person can come to give, if the value changes and changes again."""
        return n_codes(self.domain)


class TwoRounds(Longitudinal):
    """A longitudinal mechanism whose permanent answers are reported with fresh noise."""

    @property
    @abstractmethod
    def shared(self) -> SharedAnswer:
        """The two rounds, for `spent_by`."""

    @property
    def answers_apart(self) -> bool:
        """Whether different values of a person have different permanent answers."""
        return True

    @override
    def spent_by(self, history: History) -> Spent:
        return memoized(
            self.shared,
            history,
            one=self.epsilon_1,
            infinity=self.epsilon_infinity,
            answers=self.permanent_answers,
            apart=self.answers_apart,
        )


class Chain(TwoRounds):
    """One pure protocol on the answers of another; a report is one of the second's."""

    @property
    @abstractmethod
    def permanent(self) -> FrequencyOracle:
        """The first round."""

    @property
    @abstractmethod
    def instantaneous(self) -> FrequencyOracle:
        """The second round."""

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """The chain's p and q."""
        first, second = self.permanent.support_probabilities(), self.instantaneous.support_probabilities()
        rounds = list(zip(*first, *second, strict=True))
        return [chained(p1, p2, q2) for p1, _, p2, q2 in rounds], [chained(q1, p2, q2) for _, q1, p2, q2 in rounds]

    @property
    @override
    def supported(self) -> tuple[int, int]:
        """The second round's."""
        return self.instantaneous.supported

    @override
    def permanent_ratio(self) -> Fraction:
        return self.permanent.worst_ratio()

    @property
    @override
    def reports(self) -> ReportFormat:
        return self.instantaneous.reports

    @override
    def count_reports(self, reports: Native, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        return self.instantaneous.count_reports(reports, groups, n_groups)


def chained(supports: Fraction, p2: Fraction, q2: Fraction) -> Fraction:
    """Pr[the report supports a value], if the permanent answer does with probability ``supports``."""
    return supports * p2 + (1 - supports) * q2
