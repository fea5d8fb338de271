"""What to expect of an estimate, before there are reports."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple


class ExpectedError(NamedTuple):
    """What to expect of an estimate.

    Attributes:
        error: its standard error, in ``unit``; NaN if nothing is known.
        unit: ``"records"``, of a count, or ``"mean"``, in the numbers' own unit.
        share: the same of all records, or of the length of the interval.
        advice: what to do about it, if it is large.
    """

    error: float = math.nan
    unit: str = ""
    share: float = math.nan
    advice: str | None = None

    @property
    def margin(self) -> str:
        """Half of a 95 % interval, in words.

        >>> ExpectedError(104.0, "records", 0.00052).margin
        '± 0.102 % of the records'
        """
        if math.isnan(self.error):
            return ""
        if math.isinf(self.error):
            return "no bound"
        z = NormalDist().inv_cdf(0.975)
        return (
            f"± {z * self.error:.3g} (mean)"
            if self.unit == "mean"
            else f"± {100 * z * self.share:.3g} % of the records"
        )
