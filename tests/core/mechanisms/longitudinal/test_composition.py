"""What several reports of one person spend, against all reports and all histories, by enumeration."""

import itertools
import math
import time
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from ldp_core import (
    DBitFlip,
    Keyed,
    Loloha,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
    Mechanism,
    ParameterError,
    RandomizedResponse,
    Rappor,
    Secret,
    UnaryEncoding,
)
from ldp_core.exact.probability import power_below
from ldp_core.mechanisms.catalog import examples

from ....cases import each
from ...enumeration import Branching, n_codes
from .helpers import distribution, flip, grr, loloha, second_round, ue

# The losses of one unchanged value that were found by enumeration, to the digits that were published.
PUBLISHED = [
    (LongitudinalRandomizedResponse(range(100), epsilon_infinity=5.0, epsilon_1=0.5), 4, 2.408),
    (LongitudinalRandomizedResponse(range(1000), epsilon_infinity=6.0, epsilon_1=0.3), 4, 2.025),
    (Loloha(range(100), epsilon_infinity=4.0, epsilon_1=0.5, g=16), 4, 2.103),
    (LongitudinalUnaryEncoding(range(9), epsilon_infinity=8.0, epsilon_1=0.5, variant="OUE"), 8, 4.593),
]


@each(("m", "reports", "loss"), PUBLISHED)
def test_published_losses(m, reports, loss):
    assert round(m.epsilon_of(reports), 3) == loss > reports * m.epsilon


# ---- by enumeration

SMALL = {
    "grr d=2": grr(2, 3.0, 0.5),
    "grr d=3": grr(3, 2.0, 0.4),
    "grr d=4 weak": grr(4, 6.0, 0.1),
    "OSUE d=2": ue(2, "OSUE", 3.0, 0.5),
    "OUE d=3": ue(3, "OUE", 4.0, 0.5),
    "SUE d=2 strong": ue(2, "SUE", 8.0, 2.0),
    "SOUE d=2 none": ue(2, "SOUE", 2.0, 0.3, "none"),
}
MOST = {"grr d=2": 5, "grr d=3": 4, "OSUE d=2": 4}


@lru_cache
def rounds(name):
    """Pr[permanent answer | code] and Pr[report | permanent answer], from the code that draws, as exact tables."""
    m = SMALL[name]
    seen = m.domain.size
    first = [distribution(m.permanent.perturb_codes, code, seen) for code in n_codes(m)]
    answers = sorted(first[0])
    if isinstance(m, LongitudinalUnaryEncoding):
        second = [second_round(m, answer, Branching(seen)) for answer in answers]
    else:
        second = [distribution(m.instantaneous.perturb_codes, answer[0], seen) for answer in answers]
    reports = sorted(second[0])
    return [[f[a] for a in answers] for f in first], [[s[r] for r in reports] for s in second]


def chance(permanent, channel, history):
    """Pr[reports | history] of all sequences of reports, an array with an axis for each report."""
    out, axes = np.ones(()), []
    for value in dict.fromkeys(history):
        at = [t for t, v in enumerate(history) if v == value]
        block = permanent[value]
        for _ in at:  # of each answer, all reports so far
            block = block[..., None] * channel.reshape(len(channel), *(1,) * (block.ndim - 1), -1)
        out, axes = np.multiply.outer(out, block.sum(axis=0)), axes + at
    return out.transpose(np.argsort(axes))


def changes(history):
    return sum(a != b for a, b in itertools.pairwise(history))


def pattern(history):
    return tuple(history.index(v) for v in history)


def largest(permanent, channel, histories, same=lambda history: None):
    """The largest log ratio over pairs of histories that are the ``same``, and all reports that are possible."""
    logs = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for history in histories:
            logs.setdefault(same(history), []).append(np.log(chance(permanent, channel, history)))
        return max(np.nanmax(a - b) for group in logs.values() for a in group for b in group)


def exact_unchanged(permanent, channel, reports):
    sequences = list(itertools.product(range(len(channel[0])), repeat=reports))
    of_answers = [[math.prod(q[r] for r in sequence) for sequence in sequences] for q in channel]
    tables = [
        [sum(b * p for b, p in zip(row, column, strict=True)) for column in zip(*of_answers, strict=True)]
        for row in permanent
    ]
    return max(max(column) / min(column) for column in zip(*tables, strict=True) if max(column))


@each("name", SMALL)
def test_an_unchanged_value_is_exact(name):
    m, (permanent, channel) = SMALL[name], rounds(name)
    for k in (1, 2, 3):
        exact = exact_unchanged(permanent, channel, k)
        assert exact <= m.shared.ratio(k) <= exact * (1 + Fraction(1, 10**50))
        assert m.epsilon_of(k) == pytest.approx(math.log(exact), rel=1e-15)


@each("name", SMALL)
def test_bounds_of_values_that_change(name):
    """At least what enumeration finds."""
    m, tables = SMALL[name], rounds(name)
    permanent, channel = (np.array(table, float) for table in tables)
    for k, c in itertools.product(range(1, MOST.get(name, 3) + 1), (1, 2, None)):
        histories = [h for h in itertools.product(range(len(permanent)), repeat=k) if c is None or changes(h) <= c]
        secret = largest(permanent, channel, histories)
        public = largest(permanent, channel, histories, pattern)
        assert m.epsilon_of(k, changes=c) >= secret * (1 - 1e-12) >= public * (1 - 2e-12)
        assert m.epsilon_of(k, changes=c, change_times="public") >= public * (1 - 1e-12)
        if all(part.subadditive for part in m.shared.parts):
            assert m.epsilon_of(k, changes=c, change_times="public") <= k * m.epsilon_1 * (1 + 1e-15)
        assert m.epsilon_of(k, changes=c) <= (1.75 if k < 3 else 3.5) * secret  # how far the bound is off, here


@each(("k", "h", "f", "p", "q"), [(2, 1, 0.5, 0.3, 0.6), (3, 2, 0.5, 0.5, 0.75), (3, 1, 0.3, 0, 0.9)])
def test_rappor(k, h, f, p, q):
    """All filters are values; the rounds of a bit are checked in `test_rappor`."""
    m = Rappor("int", bits=k, hashes=h, cohorts=3, f=f, p=p, q=q)
    b = m.shared
    filters = sorted({sum(1 << j for j in set(w)) for w in itertools.product(range(k), repeat=h)})
    words = range(1 << k)

    def row(word, one, zero):
        return [
            math.prod(p if r >> j & 1 else 1 - p for j in range(k) for p in [one if word >> j & 1 else zero])
            for r in words
        ]

    permanent, channel = [row(v, b.one, b.zero) for v in filters], [row(v, b.p2, b.q2) for v in words]
    for reports in (1, 2):
        exact = exact_unchanged(permanent, channel, reports)
        assert exact <= b.ratio(reports) <= exact * (1 + Fraction(1, 10**50))
        assert m.epsilon_of(reports) == pytest.approx(math.log(exact), rel=1e-15)
    # Values are more than filters: each filter stands for as many as there are reports.
    rows = np.repeat(np.array(permanent, float), 2, axis=0)
    histories = list(itertools.product(range(len(rows)), repeat=2))
    secret, public = (largest(rows, np.array(channel, float), histories, s) for s in (lambda h: None, pattern))
    assert m.epsilon_of(2, changes=1) >= secret * (1 - 1e-12) >= public * (1 - 2e-12)
    assert m.epsilon_of(2, changes=1, change_times="public") >= public * (1 - 1e-12)
    assert m.epsilon_of(2, changes=1) < 8 * secret
    assert m.epsilon_of(10**6, changes=3, change_times="public") <= 4 * m.epsilon_infinity


def test_rappor_without_a_permanent_response_or_without_another():
    m = Rappor(bits=16, hashes=2, cohorts=8, f=0.0, p=0.5, q=0.75)
    for c in (0, 1, None):
        assert m.epsilon_of(10, changes=c) == pytest.approx(10 * m.epsilon)
    assert m.epsilon_of(None) == math.inf
    once = Rappor(bits=16, hashes=2, cohorts=8, f=0.5, p=0.0, q=1.0)
    assert once.epsilon_of(10) == once.epsilon_of(1) == once.epsilon == once.epsilon_infinity
    assert once.epsilon_of(2, changes=1) == math.inf
    assert once.epsilon_of(10, changes=2, change_times="public") == pytest.approx(3 * once.epsilon_infinity)


# ---- buckets that values share


def test_loloha_with_public_changes_is_no_sum():
    """Of the values' pattern (a, b) two are in one bucket and two others in two: the pattern of buckets differs."""
    m = loloha(3, 2, 3.0, 0.5)
    functions = m.family.draw(
        64, Keyed(Secret.from_seed(1), np.arange(64), column="c").bind("f", np.zeros(64, np.uint8))
    )
    cells = {tuple(m.family.hash(np.full(3, f), np.arange(3)).tolist()) for f in functions}
    assert any(c[0] == c[1] != c[2] for c in cells)  # so that there is such a person
    p1, q1, p2, q2 = map(float, (m.shared.p1, m.shared.q1, m.shared.p2, m.shared.q2))
    permanent, channel = np.array([[p1, q1], [q1, p1]]), np.array([[p2, q2], [q2, p2]])
    for k in (2, 3):
        histories = [h for h in itertools.product(range(3), repeat=k) if changes(h) <= 1]
        exact = 0.0
        for c in cells:
            logs = {}
            for h in histories:
                buckets = [c[v] for v in h]
                logs.setdefault(pattern(h), []).append(np.log(chance(permanent, channel, buckets)))
            exact = max([exact, *((a - b).max() for group in logs.values() for a in group for b in group)])
        assert m.epsilon_of(k, changes=1, change_times="public") == m.epsilon_of(k, changes=1) >= exact * (1 - 1e-12)
    # Later, one pair: both values in bucket 0, or one there and one in bucket 1; reports 0 ... 0 1 ... 1.
    half, gain = 40, math.log(p2 / q2)
    still = log_mean([p1, q1], [half * gain, half * gain])
    moved = 2 * log_mean([p1, q1], [half * gain, 0])
    sum_over_values = m.epsilon_of(2 * half - 1) + m.epsilon_of(1), 2 * m.epsilon_infinity
    assert max(sum_over_values) < moved - still <= m.epsilon_of(2 * half, changes=1, change_times="public")


def test_d_bit_flip_shows_changes_also_where_they_are_public():
    m = DBitFlip(range(10), epsilon_infinity=1.0, bits=2)
    assert m.epsilon_of(1000) == m.epsilon_of(1) == m.epsilon_of(None) == 1.0
    for times in ("secret", "public"):
        assert m.epsilon_of(2, changes=1, change_times=times) == math.inf
    noise = Keyed(Secret.from_seed(1), np.repeat(np.arange(3000), 2), column="c")
    reports = m.perturb(np.tile([0, 1], 3000), randomness=noise).reshape(3000, 2, 2)
    asked = np.isin(reports[:, 0] >> 1, [0, 1]).any(axis=1)
    same = (reports[:, 0] == reports[:, 1]).all(axis=1)
    assert same[~asked].all()  # two values that share an answer
    assert not same[asked].all()  # and the same two values, which do not
    # All values are apart if none or one is in no bucket of the person's.
    for apart in (flip(4, 4), flip(4, 3), flip(4, 4, unmatched="none")):
        assert apart.epsilon_of(9, changes=1, change_times="public") == 2 * apart.epsilon_infinity
    assert flip(4, 3, unmatched="none").epsilon_of(9, changes=1, change_times="public") == math.inf


# ---- keyed noise


def test_keyed_noise_promises_a_value_and_not_a_change():
    m, n = RandomizedResponse(["a", "b"], epsilon=0.1), 4000
    noise = Keyed(Secret.from_seed(1), np.repeat(np.arange(n), 2), column="c")
    differ = {
        history: np.diff((m.perturb(list(history) * n, randomness=noise) == "a").reshape(n, 2)).sum()
        for history in ("aa", "ab")
    }
    assert differ["aa"] == 0 < 1500 < differ["ab"]  # no epsilon bounds this
    assert m.epsilon_of(2, changes=1, keyed=True) == math.inf
    assert m.epsilon_of(10, keyed=True) == m.epsilon_of(10, changes=0, change_times="public", keyed=True) == 0.1
    assert m.epsilon_of(10, changes=2, change_times="public", keyed=True) == pytest.approx(0.3)
    assert m.epsilon_of(2, changes=None, change_times="public", keyed=True) == 0.2
    # The same times of change are not the same pattern: a, b, a has two equal reports, and a, b, c has not.
    three = RandomizedResponse(["a", "b", "c"], epsilon=0.1)
    noise = Keyed(Secret.from_seed(1), np.repeat(np.arange(n), 3), column="c")
    aba, abc = (three.perturb(list(h) * n, randomness=noise).reshape(n, 3) for h in ("aba", "abc"))
    assert (aba[:, 0] == aba[:, 2]).all()
    assert not (abc[:, 0] == abc[:, 2]).all()


# ---- of every mechanism

EVERY = examples()
KNOWN = list(itertools.product((0, 1, 5, None), ("secret", "public"), (False, True)))


@each("name", EVERY)
def test_every_mechanism(name):
    m = EVERY[name]
    for c, times, keyed in KNOWN:
        spent = [m.epsilon_of(k, changes=c, change_times=times, keyed=keyed) for k in (0, 1, 2, 3, 7, 100, 10**6, None)]
        assert spent[0] == 0
        assert spent == sorted(spent)
        assert 0.9 * m.epsilon < spent[1] <= m.epsilon
        if not keyed and not m.memoized:
            assert spent[4] == pytest.approx(7 * m.epsilon)
        if times == "public":
            secret = m.epsilon_of(7, changes=c, keyed=keyed)
            assert spent[4] <= secret


def test_a_memoized_mechanism_that_says_nothing_has_no_bound():
    class Mine(LongitudinalRandomizedResponse):
        name = "mine, of two rounds"
        spent_by = Mechanism.spent_by

    try:
        m = Mine(["a", "b"], epsilon_infinity=2.0, epsilon_1=1.0)
        assert m.epsilon_of(1, changes=None) == 1.0
        assert m.epsilon_of(2) == m.epsilon_of(2, changes=1) == math.inf
    finally:
        del Mechanism._registry["mine, of two rounds"]


def test_fresh_noise_adds_up_the_declared_epsilon():
    m = UnaryEncoding(["a", "b"], epsilon=0.1)
    assert Fraction(m.epsilon_of(3)) >= 3 * Fraction(0.1) > Fraction(math.nextafter(m.epsilon_of(3), 0))
    assert m.epsilon_of(None) == math.inf


def test_bad_arguments():
    m = RandomizedResponse(epsilon=1.0)
    for given in ({"reports": -1}, {"reports": 1.5}, {"changes": -1}, {"change_times": "known"}, {"keyed": "no"}):
        with pytest.raises(ParameterError):
            m.epsilon_of(**given)


# ---- many reports

LONG = {"grr": grr(50, 5.0, 0.3), "OSUE": ue(16, "OSUE", 4.0, 0.5), "weak": ue(3, "SUE", 1.0, 1e-6)}


@each("name", LONG)
def test_many_reports_come_to_epsilon_infinity_and_cost_no_time(name):
    m = LONG[name]
    began = time.process_time()
    found = [
        m.epsilon_of(k, **c)
        for k in (10**6, 10**9)
        for c in ({}, {"changes": 1}, {"changes": 9, "change_times": "public"})
    ]
    assert time.process_time() - began < 6 * 0.1
    assert found[3] <= m.epsilon_infinity == m.epsilon_of(None)
    if name != "weak":
        assert found[0] == found[3] == pytest.approx(m.epsilon_infinity, rel=1e-12)
        assert found[2] == pytest.approx(10 * m.epsilon_infinity, rel=1e-8)


def log_mean(weights, logs):
    return math.log(sum(w * math.exp(x - max(logs)) for w, x in zip(weights, logs, strict=True))) + max(logs)


@each("base", [Fraction(1, 3), Fraction(2**63, 2**64 - 1), Fraction(1, 2**64), Fraction(1)])
def test_powers(base):
    for exponent in (0, 1, 2, 3, 7, 100):
        exact = base**exponent
        found = power_below(base, exponent)
        assert found <= exact
        assert found >= exact * (1 - Fraction(1, 2**240)) or exact < Fraction(1, 2**400)
    near = 1 - Fraction(1, 2**60)
    assert float(power_below(near, 2**60)) == pytest.approx(math.exp(-1), rel=1e-15)
    assert power_below(Fraction(0), 0) == 1
    assert power_below(Fraction(0), 5) == 0
