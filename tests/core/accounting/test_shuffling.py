"""Shuffled reports: never less than what they reveal, and no more than other people's programs say."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ldp_core import (
    BlockHadamardResponse,
    Domain,
    HadamardResponse,
    HybridProjectiveGeometryResponse,
    OneBitMean,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from ldp_core.accounting import shuffling
from ldp_core.accounting.binomials import ERROR, pmf, spread
from ldp_core.accounting.shuffling import Curve, Levels, Reduction, amplified, clones, closed_form, two_levels

from ...cases import each
from ..checks import slow
from ..enumeration import Every, n_codes

VECTORS = {1.0: (0.0101, 0.0155), 2.0: (0.0247, 0.0452), 4.0: (0.0847, 0.1725)}
"""Local epsilon to what n = 10^5 shuffled reports spend at delta 10^-6: at least, and at most for any mechanism."""
N, DELTA = 100_000, 1e-6


# ---- exact divergences, by SciPy and by enumeration


def divergence(p, q, epsilon: float) -> float:
    """The larger one of both hockey-stick divergences."""
    e = math.exp(epsilon)
    return max(float(np.maximum(a - e * b, 0).sum()) for a, b in ((p, q), (q, p)))


def solved(delta_of, delta: float, high: float) -> float:
    """The epsilon with this delta, by bisection."""
    low = 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
    return high


def coin_among_zeros(epsilon: float, n: int, delta: float) -> float:
    """The exact loss of a 0 or a 1 among n - 1 zeros, all through binary randomized response: of binomials alone."""
    q = 1 / (math.exp(epsilon) + 1)
    k = np.arange(n + 1)
    without, with_one = stats.binom.pmf(k, n - 1, q), stats.binom.pmf(k - 1, n - 1, q)
    zero, one = (1 - q) * without + q * with_one, q * without + (1 - q) * with_one
    return solved(lambda eps: divergence(zero, one, eps), delta, epsilon)


def cloned(epsilon: float, n: int, at: float) -> float:
    """Delta of the two laws of Theorem 3.2 of Feldman, McMillan and Talwar, term by term."""
    e, share = math.exp(epsilon), math.exp(-epsilon)
    total = 0.0
    for c in range(n):
        x = np.arange(c + 2)
        first, second = stats.binom.pmf(x - 1, c, 0.5), stats.binom.pmf(x, c, 0.5)
        total += stats.binom.pmf(c, n - 1, share) * divergence(
            (e * first + second) / (e + 1), (first + e * second) / (e + 1), at
        )
    return total


def laws(m) -> list[dict]:
    """Of each code, the probability of each report, from the code that perturbs."""
    seen = m.domain.size if isinstance(m, UnaryEncoding) else 0
    return [Every(m.perturb_codes, code, dtype=m.domain.code_dtype, seen=seen).table for code in n_codes(m)]


def pile(tables) -> dict:
    """The probability of each multiset of one report of each table."""
    piles = {(): Fraction(1)}
    for table in tables:
        added: dict = defaultdict(Fraction)
        for (reports, chance), (report, more) in itertools.product(piles.items(), table.items()):
            added[tuple(sorted((*reports, report)))] += chance * more
        piles = added
    return piles


def worst_pile(tables, n: int, epsilons) -> list[float]:
    """The largest delta over two values of one person and all values of the other n - 1, for each epsilon."""
    worst = [0.0] * len(epsilons)
    for others in itertools.combinations_with_replacement(tables, n - 1):
        piles = [pile([table, *others]) for table in tables]
        for a, b in itertools.permutations(piles, 2):
            p, q = (np.array([float(x[key]) for key in a]) for x in (a, b))
            worst = [
                max(w, float(np.maximum(p - math.exp(e) * q, 0).sum())) for w, e in zip(worst, epsilons, strict=True)
            ]
    return worst


# ---- the numbers


@each("epsilon", VECTORS)
def test_vectors(epsilon):
    low, high = VECTORS[epsilon]
    exact = coin_among_zeros(epsilon, N, DELTA)
    assert round(exact, 4) == low
    coin = RandomizedResponse(epsilon=epsilon)
    assert exact < coin.shuffled(N, DELTA) < amplified(epsilon, N, DELTA) < high


TABLE = (Path(__file__).parents[3] / "docs" / "several_reports.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("binary randomized response", lambda e: RandomizedResponse(epsilon=e).shuffled(N, DELTA)),
        ("any mechanism", lambda e: amplified(e, N, DELTA)),
        slow(
            "randomized response over 16 values", lambda e: RandomizedResponse(range(16), epsilon=e).shuffled(N, DELTA)
        ),
        slow("unary encoding (OUE) over 16 values", lambda e: UnaryEncoding(range(16), epsilon=e).shuffled(N, DELTA)),
    ],
)
def test_the_table_of_the_guide(name, bound):
    """Upper bounds are rounded up."""
    [row] = [line.split("|")[2:-1] for line in TABLE.splitlines() if line.startswith(f"| {name} |")]
    assert [float(cell) for cell in row] == [math.ceil(bound(e) * 1e4) / 1e4 for e in VECTORS]
    exact = "| " + " | ".join(f"{low:.4f}" for low, _ in VECTORS.values()) + " |"
    assert f"| binary randomized response, exact loss among zeros {exact}" in TABLE


@each(
    ("n", "epsilon", "delta", "low", "high", "closed"),
    [  # both numbers of the program, with steps of 20 (4 for n = 1000) and 20 iterations; its closed form
        (100_000, 1.0, 1e-6, 0.0152799495, 0.0160696307, 0.0752901157),
        (100_000, 2.0, 1e-6, 0.0450086288, 0.0467697957, 0.1905797067),
        (100_000, 4.0, 1e-6, 0.1693070027, 0.1728849225, 0.5378040242),
        (10_000, 1.0, 1e-5, 0.0433780855, 0.0463723170, 0.2157558621),
        (1_000, 0.5, 1e-4, 0.0436411205, 0.0468205119, 0.2820263504),
        (10_000, 3.0, 1e-8, 0.3981600137, 0.4113320102, 0.9174254019),
    ],
)
def test_the_authors_program(n, epsilon, delta, low, high, closed):
    """apple/ml-shuffling-amplification, computeamplification.py of commit 993d285: a lower and an upper bound."""
    assert low <= amplified(epsilon, n, delta) <= high
    # (its closed form has 1 + exp(-epsilon - result) for the paper's 1 + exp(-epsilon), and is larger)
    assert amplified(epsilon, n, delta) < closed_form(epsilon, n, delta) <= closed


@each(
    ("epsilon", "n", "at"),
    [(1.0, 300, 0.1), (2.0, 300, 0.7), (4.0, 300, 2.0), (1.0, 20, 0.5), (0.1, 50, 0.05), (3.0, 5, 2.9)],
)
def test_delta_of_any_mechanism_is_exact_and_above(epsilon, n, at):
    exact = cloned(epsilon, n, at)
    assert exact < Curve(clones(epsilon), n, exact)(at) < exact * (1 + 2e-7)


def trinomial(reduction: Reduction, n: int, at: float) -> float:
    """(*) for a reduction, term by term."""
    w, r, difference, mean, ratio = reduction
    e, total = math.exp(at), 0.0
    p1, p2 = w * (mean + difference / 2), w * (mean - difference / 2)
    for m in range(n + 1):
        chance = stats.binom.pmf(m, n, 2 * w + r)
        for pairs in range(m + 1):
            a = np.arange(pairs + 1)
            value = a * (p1 - e * p2) / w + (pairs - a) * (p2 - e * p1) / w - (m - pairs) * (e - 1) * ratio
            here = stats.binom.pmf(pairs, m, 2 * w / (2 * w + r)) * stats.binom.pmf(a, pairs, 0.5)
            total += chance * float((here * np.maximum(value, 0)).sum())
    return total / n


@each(("epsilon", "distance", "greater", "share"), [(1.0, 0.1, 0.4, 0.2), (1.0, 0.4, 0.7, 0.7), (3.0, 0.5, 0.53, 0.2)])
def test_delta_of_two_levels_is_exact_and_above(epsilon, distance, greater, share):
    for reduction in two_levels(epsilon, Levels(Fraction(distance), Fraction(greater))):
        exact = trinomial(reduction, 25, share * epsilon)
        assert exact < Curve(reduction, 25, exact)(share * epsilon) < exact * (1 + 2e-7)


# ---- what is proved of two levels


TWO_LEVELS = {
    "coin": RandomizedResponse(epsilon=1.0),
    "3-ary": RandomizedResponse(range(3), epsilon=1.5),
    "5-ary": RandomizedResponse(range(5), epsilon=0.7),
    "OUE": UnaryEncoding(range(3), epsilon=1.0),
    "SUE": UnaryEncoding(range(2), epsilon=2.0, variant="symmetric"),
    "subsets": SubsetSelection(range(4), epsilon=1.0, k=2),
    "Hadamard": HadamardResponse(range(3), epsilon=1.0),
    "blocks": BlockHadamardResponse(range(2), epsilon=2.0, blocks=2),
}
EPSILONS = np.array([0.0, 0.1, 0.3, 0.6, 0.9])


def curves_of(m, n: int, at: float) -> list[float]:
    """Of either reduction; the larger one, if there are several kinds of pairs."""
    kinds = [two_levels(m.realized_epsilon, pair) for pair in m.two_levels]
    return [max(Curve(reduction, n, 1e-9)(at) for reduction in same) for same in zip(*kinds, strict=True)]


@each("name", TWO_LEVELS)
@each("n", [1, 2, 3])
def test_no_pile_of_reports_reveals_more(name, n):
    """Enumerated: all values of all people, and all piles of their reports."""
    m = TWO_LEVELS[name]
    at = EPSILONS * m.epsilon
    worst = worst_pile(laws(m), n, at)
    for epsilon, delta in zip(at, worst, strict=True):
        assert delta <= min(curves_of(m, n, epsilon))
    if n == 1:  # nobody to hide among: delta is exact
        assert max(curves_of(m, 1, at[1])) < worst[1] * (1 + 1e-6) + 1e-12


@each(("d", "epsilon"), [(4, 1.0), (100, 4.0)])
def test_the_bound_is_near_the_truth(d, epsilon):
    """K-ary randomized response, all others with a third value: at least the exact loss, and at most 20 % more."""
    n, delta = 500, 1e-6
    m = RandomizedResponse(range(d), epsilon=epsilon)
    p, q = m.p, m.q
    pairs = np.arange(int(n * 2 * q + 12 * math.sqrt(n * q) + 40))
    chance = stats.binom.pmf(pairs, n - 1, 2 * q)
    of_pair = np.array([stats.binom.pmf(pairs, c, 0.5) for c in pairs]) * chance[:, None]
    both = np.zeros((len(pairs) + 1, len(pairs) + 1))  # [a, b]: how many of the other reports name x, and x'
    for c in pairs:
        both[np.arange(c + 1), c - np.arange(c + 1)] = of_pair[c, : c + 1]

    def with_report(x, y):
        out = (1 - x - y) * both
        out[1:] += x * both[:-1]
        out[:, 1:] += y * both[:, :-1]
        return out

    first, second = with_report(p, q), with_report(q, p)
    exact = solved(lambda eps: divergence(first, second, eps), delta, epsilon)
    assert exact < m.shuffled(n, delta) < 1.2 * exact


def test_who_has_two_levels():
    assert not RandomizedResponse.from_coins(truth=0.5, yes=0.25).two_levels
    for oracle in (UnaryEncoding, HadamardResponse, BlockHadamardResponse, HybridProjectiveGeometryResponse):
        assert oracle(range(4), epsilon=1.0).two_levels
        assert not oracle(Domain(range(4), unmatched="none"), epsilon=1.0).two_levels
    m = OneBitMean((0, 1), epsilon=1.0)
    assert not m.two_levels
    assert m.shuffled(N, DELTA) == pytest.approx(amplified(1.0, N, DELTA), rel=1e-4)


# ---- properties


def k_ary(epsilon: float, values: int) -> list[Levels]:
    e = math.exp(min(epsilon, 300))
    return [Levels(Fraction(math.expm1(min(epsilon, 300)) / (e + values - 1)), Fraction(e / (e + values - 1)))]


@pytest.mark.parametrize("epsilon", [1e-18, 1e-9, 0.3, slow(5.0), slow(49.9), 50.0, 1e300])
def test_at_the_ends(epsilon):
    for n, delta in itertools.product((1, 2, 50), (5e-324, 1e-300, 1e-12, 0.5, 1 - 1e-9)):
        for levels in ([], k_ary(epsilon, 2), k_ary(epsilon, 10**9)):
            assert 0 <= amplified(epsilon, n, delta, levels) <= epsilon


def test_where_nothing_is_proved_and_where_all_is_hidden(monkeypatch):
    assert amplified(1.0, 1, 0.46212) == 0  # its total variation
    assert amplified(4.0, 10, 1e-9) == 4.0  # nothing is proved
    monkeypatch.setattr(shuffling, "MOST", 10**4)
    assert amplified(1.0, 10**30, 1e-6) == amplified(1.0, 10**4, 1e-6)
    assert closed_form(5.0, 1000, 1e-6) == 5.0


@pytest.mark.slow
def test_very_many_reports_are_put_together_and_their_bound_is_no_less():
    """Blocks, few and many of them, against sums over all numbers; of each reduction."""
    for epsilon, values in ((0.5, 2), (1.0, 16), (5.0, 16)):
        levels = k_ary(epsilon, values)
        whole = [amplified(epsilon, 10**6, DELTA, given) for given in ((), levels)]
        for name, blocks, most in (("_CELLS", 20, 1.01), ("_CELLS", 1000, 1.004), ("_PRODUCTS", 1000, 1.004)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(shuffling, name, 1000)
                patch.setattr(shuffling, "_BLOCKS", blocks)
                found = [amplified(epsilon, 10**6, DELTA, given) for given in ((), levels)]
            assert all(one <= other <= one * most for one, other in zip(whole, found, strict=True)), (epsilon, blocks)


def test_tails_of_many_coins_are_lower_bounds():
    for coins in (2, 101, 10**5, 10**9):
        k = np.unique(np.ceil(coins / 2 + math.sqrt(coins) / 2 * np.linspace(0, 30, 400)))
        k = k[(k > coins / 2) & (k <= coins)]
        exact = stats.binom.sf(k - 1, coins, 0.5)
        tails = shuffling._normal_tails(k, np.full_like(k, coins), pmf(k, np.array(float(coins)), 0.5, 0.5))
        assert np.all((tails < exact) & (exact < tails * math.exp(math.sqrt(math.pi / 2 / coins)) * (1 + 1e-9)))


@pytest.mark.slow
def test_counts_of_work_stay_small():
    """A million reports take a part of a second, and 10^10 too: so many numbers at a time, and so many times."""
    levels = k_ary(1.0, 16)
    for n, reduction in itertools.product((10**6, 10**10), (clones(1.0), *two_levels(1.0, levels[0]))):
        assert Curve(reduction, n, DELTA)._weights.size < 200_000
        assert Curve(reduction, n, 1e-200)._weights.size < 1_100_000  # (4 million, and 40 s, of 10^6 reports)
    asked = Counter()
    original = Curve.__call__

    def counted(self, epsilon):
        asked["all"] += 1
        return original(self, epsilon)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Curve, "__call__", counted)
        amplified(1.0, 10**6, DELTA, levels)
    assert asked["all"] < 60


# ---- binomials


_PRECISE = Context(prec=40)


def exact_pmf(k: int, n: int, p: float) -> Decimal:
    """From integers: a float is a fraction over a power of two."""
    up, down = Fraction(p).as_integer_ratio()
    ratio = Fraction(math.comb(n, k) * up**k * (down - up) ** (n - k), down**n)
    return _PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))


def worst_error(n: int, p: float, ks: list[int]) -> float:
    found = pmf(np.array(ks, float), np.array(float(n)), p, 1 - p)
    errors = [
        abs(float(Decimal(float(got)) / exact - 1))
        for k, got in zip(ks, found, strict=True)
        if (exact := exact_pmf(k, n, p)) > Decimal("1e-300")
    ]
    return max(errors)


@each("n", [1, 2, 7, 15, 16, 33, 200, 400])
@each("p", [0.5, 0.25, 0.01, 0.999])
def test_probabilities_are_within_the_stated_error(n, p):
    assert worst_error(n, p, sorted({*range(min(n, 20) + 1), *range(0, n, max(n // 20, 1)), n})) < ERROR / 10
    large = n * 25_000_000  # SciPy's are not as exact there
    k = np.round(large * p + np.linspace(-8, 8, 33) * math.sqrt(large * p * (1 - p)))
    np.testing.assert_allclose(pmf(k, np.array(float(large)), p, 1 - p), stats.binom.pmf(k, large, p), rtol=1e-8)


def test_outside_nothing_is_probable():
    assert pmf(np.array([-1.0, 0, 3, 4]), np.array(3.0), 0.5, 0.5) == pytest.approx(
        [0, 0.125, 0.125, 0], abs=0, rel=ERROR
    )
    assert pmf(np.array([0.0, 1]), np.array(0.0), 0.25, 0.75).tolist() == [1, 0]


@each("rest", [1e-3, 1e-13])
@each(("n", "p"), [(0, 0.5), (1, 0.5), (10, 0.1), (1000, 0.5), (10**6, 1e-4)])
def test_little_is_left_out_of_a_spread(n, p, rest):
    low, high = spread(n, p, 1 - p, rest)
    assert stats.binom.cdf(low - 1, n, p) + stats.binom.sf(high, n, p) <= rest
