"""What reports spend: one, several of one person, one among many that are shuffled."""

from __future__ import annotations

import math

from ldp_core.accounting.shuffling import amplified, amplified_sums
from ldp_core.exact.composition import Composing, History, Spent, memoryless
from ldp_core.exact.probability import log_above
from ldp_core.parameters import check_integer, check_open
from ldp_core.randomizer.declared import DeclaredMechanism


class Spending(DeclaredMechanism, Composing):
    """Privacy, in numbers."""

    @property
    def realized_epsilon(self) -> float:
        """What the rounded probabilities really spend: the least float >= ln of the exact worst ratio.

        The exact value is never above `epsilon`; this float may exceed it by one unit in the last place.
        """
        return log_above(self.worst_ratio())

    @property
    def answers_apart(self) -> bool:
        """Whether different values of a person have different answers, which stay: permanent ones, or keyed reports."""
        return True

    def spent_by(self, history: History) -> Spent:
        """`epsilon_of` as an exact fraction. A mechanism with permanent answers says how; here they have no bound."""
        if self.memoized and history.reports not in (0, 1):
            return math.inf
        return memoryless(history, self.epsilon, apart=self.answers_apart)

    def shuffled(self, n: int, delta: float, *, rows: bool = True) -> float:
        """What one of n shuffled reports spends: they are (this epsilon, ``delta``)-differentially private.

        It assumes that each of n people sends one report, with noise of its own, and that only the reports are seen, or
        what is computed from them (a tally, a histogram): no identities, no order, no arrival times. Of a memoized
        mechanism it is about one report a person, ever. Who can tell whose report is whose learns what `epsilon`
        allows.

        Args:
            n: number of people, >= 1.
            delta: in (0, 1); well below 1 / n.
            rows: whether the shuffled reports are seen; False if no more is seen than their tally, say after secure
                aggregation. That hides more of bit vectors whose bits are drawn apart, such as `UnaryEncoding`.

        Returns:
            An upper bound, at most `epsilon`: for any mechanism that of V. Feldman, A. McMillan, K. Talwar, "Hiding
            Among the Clones", FOCS 2021, Theorem 3.2, and a smaller one where `two_levels` are known. Formulas,
            sources and rounding: `ldp_core.accounting.shuffling`; of tallies of bits `ldp_core.accounting.sums`.

        Raises:
            ParameterError: n or delta outside its interval.

        >>> from ldp_core import UnaryEncoding
        >>> wide = UnaryEncoding(range(16), epsilon=10.0, variant="symmetric")
        >>> [round(wide.shuffled(100_000, delta=1e-9, rows=rows), 3) for rows in (True, False)]
        [6.387, 0.308]
        """
        n, delta = check_integer("n", n, low=1), check_open("delta", delta)
        epsilon = self.realized_epsilon
        bound = min(amplified(epsilon, n, delta, self.two_levels), self.epsilon)
        bits = None if rows else self.independent_bits
        return bound if bits is None else amplified_sums(*bits, n, delta, bound)
