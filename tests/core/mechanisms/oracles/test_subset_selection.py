"""Subset selection: the exact distribution over all k-subsets, from the code itself; known answers; noise by key."""

from __future__ import annotations

import functools
import itertools
from contextlib import suppress
from fractions import Fraction
from math import comb

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_core import Domain, DomainError, Keyed, Keystream, ReportError, Secret, SubsetSelection
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.oracles import subset_selection

from ....cases import each
from ...checks import check_binomial, exact_exp
from ...enumeration import Every, check_ratio
from ...keyed_reference import SECRET, block, first_word

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


def test_variance_of_a_frequent_value():
    """acceptance.json, Monte Carlo rows: n Var at f = 0.3, epsilon 1, d = 16."""
    m = SubsetSelection(range(16), epsilon=1.0)
    assert m.variance(1000, 300) / 1000 == pytest.approx(3.4721982358277046, rel=1e-12)


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


def test_a_listed_set_in_the_wrong_place_is_found(monkeypatch):
    m = SubsetSelection(range(6), epsilon=1.0, k=3)
    (with_true, a), (without, b) = m._tables
    m.__dict__["_tables"] = ((with_true, a), (without[::-1] | 1, b))
    with pytest.raises(AssertionError):
        check_distributions(m, [listed_distribution(m, code) for code in range(6)])


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


def test_a_repair_that_may_take_the_true_bit_is_found(monkeypatch, repairing):
    m = SubsetSelection(range(5), epsilon=1.0, k=2)
    real = SubsetSelection._repair
    monkeypatch.setattr(SubsetSelection, "_repair", lambda self, rows, codes, noise: real(self, rows, codes + 8, noise))
    table = distribution(m, 3)
    assert sum(w for s, w in table.items() if s >> 3 & 1) != m.support_probabilities()[0][3]


@given(
    st.integers(2, 300),
    st.floats(1e-9, 200).filter(lambda e: e > 1e-6),
    st.data(),
)
def test_epsilon_is_never_above_the_one_asked_for(d, epsilon, data):
    k = data.draw(st.one_of(st.none(), st.integers(1, d - 1)))
    m = SubsetSelection(range(d), epsilon=epsilon, k=k)
    assert m.worst_ratio() <= exact_exp(epsilon)
    p, q = m.support_probabilities()
    assert p[0] + (d - 1) * q[0] == m.k
    assert 0 < m._start < ONE


# ---- samples


def subsets(m, code, n):
    rows = m.perturb_codes(np.full(n, code, np.uint8), Keystream())
    return np.bincount(rows[:, 0], minlength=1 << m.domain.size)


def exact_counts(m, code):
    table = distribution(m, code)
    return np.array([float(table.get(s, 0)) for s in range(1 << m.domain.size)])


@each("listed", [True, False])
def test_sets_have_their_probabilities(listed, monkeypatch):
    m = SubsetSelection(range(6), epsilon=1.0, k=3)
    expected = listed_distribution(m, 2)
    if not listed:
        monkeypatch.setattr(subset_selection, "_LISTED", 0)
    found = subsets(m, 2, 1_000_000)
    check_binomial(found, 1_000_000, [float(expected.get(s, 0)) for s in range(64)])


def test_draws_that_favor_a_position_are_found(monkeypatch, repairing):
    m = SubsetSelection(range(6), epsilon=1.0, k=3)
    expected = exact_counts(m, 2)
    real = Keystream.uniform_again
    monkeypatch.setattr(
        Keystream, "uniform_again", lambda self, d, rows, step, lane: real(self, 8, rows, step, lane) % np.uint8(d)
    )
    with pytest.raises(AssertionError, match="probability"):
        check_binomial(subsets(m, 2, 1_000_000), 1_000_000, expected)


# ---- layouts, tallies, groups


@each(
    "reports",
    [
        pa.array([1, 2]),
        pa.array([[True, False]], pa.list_(pa.bool_(), 2)),
        pa.nulls(3, pa.list_(pa.bool_(), 9)),
        pa.array([[True, True, *[False] * 7], [True, True, True, *[False] * 6]], pa.list_(pa.bool_(), 9)),
        pa.array([[0b101], [0b111]], pa.list_(pa.uint64(), 1)),
    ],
)
def test_what_is_no_report(reports):
    with pytest.raises(ReportError):
        SubsetSelection(range(9), epsilon=1).tally(reports)


# ---- keyed noise


@functools.cache
def sorted_sets(d, k):
    return sorted(itertools.combinations(range(d), k), key=lambda c: sum(1 << v for v in c))


def slow_listed_set(m, code, id_word):
    """The same where all sets are listed: lane 0 says whether the true value is in, lanes 2 and 3 which others."""

    def drawn(lane, d):  # 32 bits, and again on the next level where they are rejected
        blocks = (block(m, "c", id_word, 0, code, 2, level, 0) for level in range(8))
        wides = (int.from_bytes(b[8 * (lane - 2) :][:4], "little") * d for b in blocks)
        return next(wide >> 32 for wide in wides if wide % 2**32 >= 2**32 % d)

    d, include = m.domain.size, first_word(block(m, "c", id_word, 0, code, 0, 0, 0)) < m._include
    others = [v for v in range(d) if v != code]
    chosen = sorted_sets(d - 1, m.k - include)
    index = drawn(2 if include else 3, len(chosen))
    values = {others[i] for i in chosen[index]} | ({code} if include else set())
    return [v in values for v in range(d)]


def slow_set(m, code, id_word):
    """Bits of a keyed report, from the description of the blocks: levels 8 and 9 of lane 0, level 10 of lane 1."""
    d, bits = m.domain.size, []
    for v in range(d):
        threshold = m._include if v == code else m._start
        byte = block(m, "c", id_word, 0, code, 0, 8, v // 16)[v % 16]
        bit = byte < threshold >> 56
        if byte == threshold >> 56:
            bit = first_word(block(m, "c", id_word, 0, code, 0, 9, v)) >> 8 < threshold % (1 << 56)
        bits.append(bit)
    step = 0
    while excess := sum(bits) - m.k:
        words = (block(m, "c", id_word, 0, code, 1, 10, step << 8 | attempt)[:4] for attempt in range(40))
        wides = (int.from_bytes(word, "little") * d for word in words)
        position = next(wide >> 32 for wide in wides if wide % 2**32 >= 2**32 % d)
        if bits[position] == (excess > 0) and position != code:
            bits[position] = not bits[position]
        step += 1
    return bits


@each(("d", "k"), [(5, 2), (16, 4), (18, 9), (19, 9), (100, 1), (300, None)])
def test_keyed_reports_are_those_of_the_reference(d, k):
    m = SubsetSelection(range(d), epsilon=1.0, k=k)
    x, ids = np.arange(100) % d, np.arange(100) * 7
    rows = m.reports.to_numpy(m.reports.from_arrow(m.perturb(pa.array(x), randomness=Keyed(SECRET, ids, column="c"))))
    slow = slow_listed_set if d <= 18 else slow_set
    np.testing.assert_array_equal(rows, [slow(m, int(v), int(i)) for v, i in zip(x, ids, strict=True)])


def test_keyed_reports_are_the_same_for_ever():
    m = SubsetSelection(range(16), epsilon=1.0)
    noise = Keyed(SECRET, np.arange(4), column="c")
    assert m.reports.from_arrow(m.perturb(pa.array(np.arange(4)), randomness=noise)).tobytes().hex() == GOLDEN


GOLDEN = "096034080c121806"  # of the reference


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


# ---- value object and errors


def test_none_is_refused():
    with pytest.raises(DomainError):
        SubsetSelection(Domain(range(4), unmatched="none"), epsilon=1)
