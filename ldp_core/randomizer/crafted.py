"""What false reports can do, and which of them stand out; see `ldp_core.poisoning`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldp_core.arrays.types import Bools
from ldp_core.errors import ParameterError
from ldp_core.parameters import check_open
from ldp_core.poisoning import Influence
from ldp_core.randomizer.declared import DeclaredMechanism
from ldp_core.reports import Native


class Crafted(DeclaredMechanism):
    """Bounds of what crafted reports move. A mechanism of which nothing is known says so."""

    def influence(self) -> Influence:
        """By how much one more report, whatever it says, moves estimates.

        Of a frequency oracle: estimated counts, to which an honest report adds 1 on average. Exact, or a bound where
        the mechanism says so.

        Raises:
            ParameterError: it is not known, or there is no bound.
        """
        raise ParameterError(f"{self.name} has no known bound of what one report moves")

    def worst_gain(self, *, fake: int, targets: int = 1) -> float:
        """The most that ``fake`` reports of the maximal gain attack add to the counts of ``targets`` values together.

        (X. Cao, J. Jia, N. Gong, USENIX Security 2021.) For the values for which it is the most. As a share of n honest
        reports and the fake ones it is this over n + ``fake``, less ``fake`` / (n + ``fake``) times what share of the
        honest people holds the targets.

        Raises:
            ParameterError: a number that is not permitted; or what one report moves has no known bound.

        >>> from ldp_core import SubsetSelection, UnaryEncoding
        >>> made = [kind(range(16), epsilon=1.0) for kind in (UnaryEncoding, SubsetSelection)]
        >>> [round(m.worst_gain(fake=100, targets=10)) for m in made]
        [3164, 686]
        """
        raise ParameterError(f"{self.name} has no known bound of what fake reports gain")

    def suspicious(self, reports: Any, *, false_alarm: float = 1e-6, column: str = "reports") -> Bools:
        """Bool[n]: which reports an honest client hardly ever sends, of too few or too many ones.

        This finds crude attacks only, such as vectors of all ones. Reports with as many ones as an honest one has are
        not found, whichever bits these are; see docs/poisoning.md.

        Args:
            reports: what `perturb` returned, in either layout.
            false_alarm: the most that the probability may be that an honest report, of whatever value, is suspicious;
                in (0, 1).
            column: what to call the reports in an error message.

        Raises:
            ReportError: see `tally`.
            ParameterError: false_alarm outside (0, 1); or nothing of the kind is known of these reports.

        >>> from ldp_core import UnaryEncoding
        >>> UnaryEncoding(range(40), epsilon=1.0).suspicious([[True] * 40, [True, False] * 20]).tolist()
        [True, False]
        """
        check_open("false_alarm", false_alarm)
        return self.unlikely(self._checked(reports, column), false_alarm)

    def unlikely(self, reports: Native, false_alarm: float) -> Bools:
        """`suspicious`, of checked reports in the working layout."""
        raise self._no_sums()

    def plausible(self, reports: Any, *, false_alarm: float = 1e-6, column: str = "reports") -> bool:
        """Whether the numbers of ones of all these reports together can be those of honest clients.

        It finds what single reports do not show: many crafted reports that all have the same plausible number of ones,
        as in the published attack. Those with numbers drawn as honest clients draw them are not found. The reports are
        of different people; arguments and errors are those of `suspicious`.

        >>> from ldp_core import UnaryEncoding
        >>> UnaryEncoding(range(40), epsilon=1.0).plausible([[True] * 11 + [False] * 29] * 30)
        False
        """
        check_open("false_alarm", false_alarm)
        return not self.unlikely_together(self._checked(reports, column), false_alarm)

    def unlikely_together(self, reports: Native, false_alarm: float) -> bool:
        """`plausible`, denied, of checked reports in the working layout."""
        raise self._no_sums()

    def copied(self, reports: Any, *, column: str = "reports") -> bool:
        """Whether more of the first reports are equal than of people who report once: 1 in 10^9 false alarms.

        Of s reports ``alike`` s^2 / 2 are equal to an earlier one, on average, or fewer. One report changes how many by
        one at most: there are t more with a probability below exp(-2 t^2 / s) (C. McDiarmid, 1989, Lemma 1.2).
        """
        s = int(min(1 / (8 * self.alike + 1e-9), len(reports), 1 << 15))  # they take a few milliseconds
        if (excess := math.sqrt(s * math.log(1e9) / 2)) >= s:
            return False
        rows = self._checked(reports[:s], column).reshape(s, -1).astype(np.uint64)
        # A number for each row, by powers of an odd one: equal rows have equal numbers, and hardly any others.
        hashes = np.sort(rows @ np.cumprod(np.full(rows.shape[1], 0x9E3779B97F4A7C15, np.uint64)))
        return int(np.count_nonzero(hashes[1:] == hashes[:-1])) > self.alike * s * s / 2 + excess

    def _no_sums(self) -> ParameterError:
        return ParameterError(
            f"nothing is known of reports of {self.name}, such as their number of ones, that tells crafted ones from "
            "honest ones; what every report must be is checked when they are read"
        )
