"""The result for numbers: an estimated mean with an error bar."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mean:
    """An unbiased estimate of the mean of ``n`` numbers, in their own unit.

    Attributes:
        mean: the estimate; it can lie outside of the declared interval. nan where there are no reports.
        standard_error: of ``mean``: of noise and sampling together, if the people who reported are a sample of many. As
            the error of the mean of those very people, who are not sampled, it is on the safe side.
        low, high: ends of the confidence interval.
        n: number of reports.
        confidence: of the interval.

    >>> Mean(21.5, 0.4, 20.716, 22.284, 10_000, 0.95)
    Mean of 10,000 reports: 21.5, standard error 0.4, 95% interval 20.716 to 22.284
    """

    mean: float
    standard_error: float
    low: float
    high: float
    n: int
    confidence: float

    def __repr__(self) -> str:
        numbers = f"{self.mean:.6g}, standard error {self.standard_error:.3g}"
        return (
            f"Mean of {self.n:,} reports: {numbers}, {self.confidence:.0%} interval {self.low:.6g} to {self.high:.6g}"
        )
