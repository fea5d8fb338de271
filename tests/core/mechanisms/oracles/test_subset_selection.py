"""Subset selection: the exact distribution over all k-subsets, from the code itself; known answers; noise by key."""

from __future__ import annotations

import itertools
from contextlib import suppress
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from ldp_core import Domain, Keyed, Secret, SubsetSelection
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.oracles import subset_selection

from ....cases import each
from ...checks import check_binomial
from ...enumeration import Every, check_ratio

# acceptance.json, "subset_selection": epsilon, d, w, p, q, n Var at f = 0 (research note)
KNOWN = [
    (0.5, 16, 6, 0.49729362048943343, 0.36684709196737114, 13.649873751336058),
    (0.5, 128, 48, 0.49729362048943343, 0.37403705810638244, 15.411437637130172),
    (1.0, 16, 4, 0.4753668864186717, 0.2349755409054219, 3.11071570567571),
    (1.0, 128, 34, 0.49576653675492, 0.2638128619153156, 3.6097878268564507),
    (2.0, 16, 2, 0.5135191667978681, 0.09909872221347546, 0.5198318833719695),
    (2.0, 128, 15, 0.4951657462413245, 0.11421129333668249, 0.697096785114494),
    (0.5, 2, 1, 0.6224593312018546, 0.3775406687981454, 3.917698089032762),
    (1.0, 2, 1, 0.731058578630005, 0.268941421369995, 0.920673594207791),
    (2.0, 2, 1, 0.8807970779778824, 0.11920292202211757, 0.18101541524157766),
    (4.0, 2, 1, 0.9820137900379085, 0.01798620996209155, 0.019005457459517764),
    (4.0, 16, 1, 0.784477030023691, 0.014368197998420602, 0.023878816799929942),
    (4.0, 128, 2, 0.46427728682599273, 0.012092304828141788, 0.05842425538035111),
]


@each(("epsilon", "d", "w", "p", "q", "n_var"), KNOWN)
def test_known_answers(epsilon, d, w, p, q, n_var):
    m = SubsetSelection(range(d), epsilon=epsilon)
    assert m.k == w
    assert (m.p, m.q, m.variance(1)) == tuple(pytest.approx(x, rel=1e-12) for x in (p, q, n_var))
    assert m.realized_epsilon == pytest.approx(epsilon, rel=1e-12)


@pytest.fixture
def repairing(monkeypatch):
    """As for domains of which not all sets are listed."""
    monkeypatch.setattr(subset_selection, "_LISTED", 0)


# ---- the exact distribution, where all sets are listed


def listed_distribution(m, code: int) -> dict[int, Fraction]:
    table = Every(m.perturb_codes, code).table
    return {int.from_bytes(bytes(row), "little"): weight for row, weight in table.items()}


@each("m", [SubsetSelection(range(d), epsilon=1.0, k=k) for d, k in [(2, 1), (3, 1), (3, 2), (6, 3), (9, 2), (9, 8)]])
def test_every_listed_set_has_its_exact_probability(m):
    check_distributions(m, [listed_distribution(m, code) for code in range(m.domain.size)])


def check_distributions(m, tables: list[dict[int, Fraction]]) -> None:
    """Of each code, the exact distribution of the sets is that of the paper; and every ratio is within epsilon."""
    d, k = m.domain.size, m.k
    p, q = m.support_probabilities()
    sets = {s for s in range(1 << d) if s.bit_count() == k}
    for code, table in enumerate(tables):
        assert set(table) == sets
        for s, probability in table.items():
            inside = bool(s >> code & 1)
            share = comb(d - 1, k - 1) if inside else comb(d - 1, k)
            assert probability == (p[code] if inside else 1 - p[code]) / share
        for v in range(d):
            assert sum(w for s, w in table.items() if s >> v & 1) == (p[v] if v == code else q[v])
    check_ratio(m, tables)


# ---- the exact distribution, where bits are repaired


class OneDraw(Exception):  # noqa: N818
    """Raised when a second position is asked for."""


class Position:
    """Noise that draws one given position."""

    def __init__(self, position: int) -> None:
        self.left = [position]

    def uniform_again(self, d, rows, step, lane):
        assert (len(rows), step, d > self.left[0] if self.left else True) == (1, 1 - len(self.left), True)
        if not self.left:
            raise OneDraw
        return np.array([self.left.pop()], np.uint8)


def after_one_draw(m, report: int, code: int, position: int) -> int:
    """What the repair makes of a report (as an integer) when it draws this position."""
    rows = np.frombuffer(report.to_bytes(1, "little"), np.uint8).reshape(1, 1).copy()
    with suppress(OneDraw):
        m._repair(rows, np.array([code], np.uint8), Position(position))
    return int(rows[0, 0])


class GivenBits(Position):
    """Noise that starts with given bits, and checks what it is asked for."""

    def __init__(self, m, row: int) -> None:
        self.m, self.row = m, row

    def rows(self, start, stop):
        return self

    def one_hot_rows(self, p, q, position, width, lane):
        assert (p, q, width) == (self.m._include, self.m._start, 1)
        return np.array([[self.row]], np.uint8)

    def uniform_again(self, d, rows, step, lane):
        raise OneDraw


def repaired(m, report: int, code: int, memo: dict) -> dict[int, Fraction]:
    """Distribution of the set that a report ends as: uniform draws, of which those that change nothing do not count."""
    if report not in memo:
        after = [after_one_draw(m, report, code, position) for position in range(m.domain.size)]
        moves = [new for new in after if new != report]
        if report.bit_count() == m.k:
            assert not moves
            memo[report] = {report: Fraction(1)}
        else:
            total: dict[int, Fraction] = {}
            for new in moves:
                for end, weight in repaired(m, new, code, memo).items():
                    total[end] = total.get(end, Fraction(0)) + weight / len(moves)
            memo[report] = total
    return memo[report]


def distribution(m, code: int) -> dict[int, Fraction]:
    """Exact probability of each set of values, as an integer of bits."""
    d = m.domain.size
    p, q = Fraction(m._include, ONE), Fraction(m._start, ONE)
    total: dict[int, Fraction] = {}
    memo: dict[int, dict[int, Fraction]] = {}
    for row in range(1 << d):
        weight = Fraction(1)
        for v in range(d):
            one = p if v == code else q
            weight *= one if row >> v & 1 else 1 - one
        try:  # the whole of perturb_codes, up to the first draw; padding is as bad as can be
            started = int(m.perturb_codes(np.array([code], np.uint8), GivenBits(m, row | 0xFF << d & 0xFF))[0, 0])
        except OneDraw:
            started = row
        assert started == row
        for end, share in repaired(m, row, code, memo).items():
            total[end] = total.get(end, Fraction(0)) + weight * share
    assert sum(total.values()) == 1
    return total


SMALL = [
    SubsetSelection(range(d), epsilon=epsilon, k=k)
    for d, k, epsilon in [(2, 1, 1e-6), (2, 1, 1), (3, 1, 1), (3, 2, 1), (4, 2, 3), (5, 2, 1), (5, 1, 50), (6, 3, 0.5)]
] + [SubsetSelection(Domain(["a", "b"], unmatched="other"), epsilon=1.5)]


@each("m", SMALL)
def test_every_set_has_its_exact_probability_and_every_ratio_is_within_epsilon(m, repairing):
    check_distributions(m, [distribution(m, code) for code in range(m.domain.size)])


@each("start", [1, ONE // 2, ONE - 1])
def test_the_start_does_not_matter(start, repairing):
    m = SubsetSelection(range(5), epsilon=1.0, k=2)
    expected = distribution(m, 3)
    m.__dict__["_start"] = start
    assert distribution(m, 3) == expected


# ---- keyed noise


def test_repeated_keyed_draws_are_uniform_and_independent_of_each_other():
    """Also where half of all draws are rejected."""
    d, n = (1 << 31) + 1, 50_000
    codes = np.zeros(n, np.uint8)
    noise = Keyed(Secret.generate(), np.arange(n), column="c").bind("f" * 16, codes)
    rows = np.arange(n)[::-1]
    bits = [noise.uniform_again(d, rows, step, lane) < d // 2 for step in range(3) for lane in (1, 2)]
    bits.append(noise.uniform_below(d, n, 1)[rows] < d // 2)
    for a in bits:
        check_binomial(a.sum(), n, 0.5)
    for a, b in itertools.combinations(bits, 2):
        check_binomial((a & b).sum(), n, 0.25)
    few = noise.uniform_again(d, np.array([7, 3]), 1, 1) < d // 2
    assert few.tolist() == [bits[2][n - 1 - 7], bits[2][n - 1 - 3]]
