"""What people spend: shuffled, sampled, in groups, over many reports; and how well anybody can guess.

All results are rounded up: exact rational arithmetic, then the next float.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from ldp_core.accounting.shuffling import amplified, closed_form
from ldp_core.errors import ParameterError
from ldp_core.exact.probability import exp_above, float_above, log_above
from ldp_core.parameters import check_choice, check_epsilon, check_integer, check_open, check_probability, shown

_EXACT = 100.0
"""Up to this epsilon exp is computed; beyond it nothing is gained."""


def shuffled_epsilon(epsilon: float, n: int, delta: float, *, method: str = "numerical") -> float:
    """What n reports spend, each of any mechanism that spends ``epsilon``, once nobody can tell whose is whose.

    It holds if each of n people sends one report, and what is seen are the reports without identities, order and
    arrival times, or what is computed from those, such as a histogram. Then what is seen is (the result,
    ``delta``)-differentially private. `Mechanism.shuffled` knows more of a mechanism than its epsilon, and is often
    several times better.

    Args:
        epsilon: of one report (of one record, over all its columns).
        n: number of people, >= 1; more than 10^10 count as 10^10.
        delta: in (0, 1); well below 1 / n.
        method: ``"numerical"`` (V. Feldman, A. McMillan, K. Talwar, "Hiding Among the Clones", FOCS 2021, Theorem
            3.2) or ``"closed form"`` (ibid., Theorem 3.1), which is some 4 times larger.

    Returns:
        An upper bound, at most ``epsilon``: see `ldp_core.accounting.shuffling` for how it is rounded.

    Raises:
        ParameterError: an argument outside its interval.

    >>> shuffled_epsilon(1.0, 100_000, 1e-6) < 0.0153
    True
    """
    check_choice("method", method, among=("numerical", "closed form"))
    bound = amplified if method == "numerical" else closed_form
    return bound(check_epsilon("epsilon", epsilon), check_integer("n", n, low=1), check_open("delta", delta))


def sampled_epsilon(epsilon: float, share: float) -> float:
    """What a person spends who is in a secret random sample with probability ``share``: ln(1 + share (e^epsilon - 1)).

    B. Balle, G. Barthe, M. Gaboardi, "Privacy Amplification by Subsampling", NeurIPS 2018, Theorems 8 and 9. **Nobody
    who sees the reports may know who is in the sample**, and a missing report tells it. So it holds where

    * people outside the sample also send a report, of a value that does not depend on them; or
    * m of n people are drawn (share = m / n), m is fixed, and reports come without identities.

    It does not hold where ids show who has answered, nor for `PrivacyPlan.sampled`, whose nulls show which column was
    drawn. A delta becomes share times delta. It is rounded up, and ``epsilon`` itself above 100.

    Raises:
        ParameterError: an argument outside its interval.

    >>> sampled_epsilon(1.0, 0.1) < 0.1586
    True
    """
    epsilon, exact = check_epsilon("epsilon", epsilon), check_probability("share", share)
    if epsilon > _EXACT:
        return epsilon
    return min(log_above(1 + exact * (exp_above(epsilon) - 1)), epsilon)


def parallel_epsilon(epsilons: Iterable[float]) -> float:
    """What a person spends of whom only one of several groups holds data: the largest epsilon.

    F. McSherry, "Privacy Integrated Queries", SIGMOD 2009, Theorem 4. The groups are disjoint, and **which group a
    person is in does not depend on the value that is protected**: countries, versions of an app. A key that follows
    from the value reveals it. A person with records in several groups spends the sum of their epsilons.

    Raises:
        ParameterError: no list of epsilons, an empty one, or an epsilon outside (0, inf).

    >>> parallel_epsilon([0.5, 1.0, 0.25])
    1.0
    """
    listed = epsilons if isinstance(epsilons, Iterable) and not isinstance(epsilons, (str, bytes)) else ()
    checked = [check_epsilon("epsilon", epsilon) for epsilon in listed]
    if not checked:
        raise ParameterError(f"epsilons must be a list of at least one, got {shown(epsilons)}")
    return max(checked)


def total_epsilon(epsilon: float, *, reports: int, windows: int = 1) -> float:
    """What a person spends with so many reports in each of so many windows: windows * reports * epsilon.

    Sequential composition, for reports whose noise is drawn anew for each (C. Dwork, A. Roth, "The Algorithmic
    Foundations of Differential Privacy", 2014, Theorem 3.16), and not for reports that share a permanent answer.

    Raises:
        ParameterError: an argument outside its interval.

    >>> total_epsilon(0.75, reports=3, windows=7)
    15.75
    """
    reports, windows = check_integer("reports", reports, low=1), check_integer("windows", windows, low=1)
    return float_above(reports * windows * Fraction(check_epsilon("epsilon", epsilon)))


def best_guess(epsilon: float, *, values: int = 2, delta: float = 0.0) -> float:
    """The most often that anybody can be right who guesses which of d equally likely ``values`` a person has.

    (e^epsilon + (d - 1) delta) / (e^epsilon + d - 1), rounded up; 1 for an epsilon above 100. Proof: let S_v be the
    outcomes after which v is guessed, and s_v = Pr[S_v | v]. For each w, 1 = sum over v of Pr[S_v | w] >= s_w +
    e^-epsilon (sum over v != w of (s_v - delta)). Add this up over w. Without a delta, k-ary randomized response
    attains it.

    Epsilon is of one report, or of all reports of the person; ``delta``, in [0, 1], is 0 for reports as they are, and
    more for shuffled ones.

    Raises:
        ParameterError: an argument outside its interval.

    >>> round(best_guess(1.0), 4), round(best_guess(1.0, values=16), 4)
    (0.7311, 0.1534)
    """
    d, exact = check_integer("values", values, low=2), check_probability("delta", delta)
    nothing = isinstance(epsilon, (int, float)) and not epsilon  # what hides completely spends nothing
    epsilon = 0.0 if nothing else check_epsilon("epsilon", epsilon)
    if epsilon > _EXACT:
        return 1.0
    e = exp_above(epsilon)
    return min(float_above((e + (d - 1) * exact) / (e + d - 1)), 1.0)
