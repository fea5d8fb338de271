"""How to estimate: what a histogram is asked for besides the reports, checked once and passed on as one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ldp_core.estimates.consistency import Consistency, check_method
from ldp_core.exact.probability import check_open

if TYPE_CHECKING:
    from ldp_core.mechanisms.oracles._base import FrequencyOracle


@dataclass(frozen=True)
class Estimation:
    """Options of `FrequencyOracle.estimate`.

    Args:
        confidence: of the intervals, in (0, 1).
        simultaneous: widen them so that all d hold together with that confidence (Bonferroni).
        consistency: make the counts non-negative and add up to n by a method of `consistent`;
            biased. Standard errors and intervals remain those of the unbiased estimate.

    Raises:
        ParameterError: confidence outside (0, 1), or an unknown method.
    """

    confidence: float = 0.95
    simultaneous: bool = False
    consistency: Consistency | None = None

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if self.consistency is not None:
            check_method(self.consistency)

    def of(self, mechanism: FrequencyOracle) -> Estimation:
        """These options, if they suit ``mechanism``.

        Raises:
            ParameterError: a method of consistency that its domain does not allow.
        """
        if self.consistency is not None:
            check_method(self.consistency, mechanism)
        return self


def check_confidence(confidence: float) -> float:
    """Return ``confidence`` as a float.

    Raises:
        ParameterError: unless it is a number in (0, 1).
    """
    return check_open("confidence", confidence)
