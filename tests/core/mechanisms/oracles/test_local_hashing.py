"""Local hashing: every function, bucket and value of small families; known answers; counting in all its ways."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import Domain, Keystream, LocalHashing, ParameterError, ReportError
from ldp_core.mechanisms.oracles import local_hashing

from ....cases import each
from ...checks import check_binomial, check_uniform
from ...enumeration import check_oracle
from .helpers import domain

VARIANTS = ("optimal", "binary", "fast")


# acceptance.json: epsilon -> g = round(e) + 1, n Var of OLH at f = 0, n Var of BLH, n Var at the best (real) g
TABLE = {
    0.5: (3, 15.817400276842235, 16.67079235613105, 15.670792356131049),
    1.0: (4, 3.6916546174566887, 4.6826943768311695, 3.6826943768311686),
    1.5: (5, 1.4836270250328183, 2.4788418963142878, 1.4788418963142878),
    2.0: (8, 0.7245913890681452, 1.7240616609663102, 0.7240616609663105),
    2.5: (13, 0.3897118264076894, 1.3896896322635055, 0.3896896322635055),
    3.0: (21, 0.22056502631986147, 1.2205640220082392, 0.22056402200823907),
    3.5: (34, 0.12842924394356933, 1.1284288523274184, 0.12842885232741852),
    4.0: (56, 0.07602285187263673, 1.0760218298380713, 0.0760218298380711),
    4.5: (91, 0.045439963615391904, 1.045439963203872, 0.04543996320387187),
    5.0: (149, 0.027318744597042394, 1.0273186915207684, 0.027318691520768223),
}


@each("epsilon", TABLE)
def test_known_variances(epsilon):
    """To 1e-9, because c exceeds 1 / g by less than g / P^2, 1e-14 g."""
    g, optimal, binary, best = TABLE[epsilon]
    m = LocalHashing(range(100), epsilon=epsilon)
    assert m.g == g
    assert m.variance(1) == pytest.approx(optimal, rel=1e-9)
    assert LocalHashing(range(100), epsilon=epsilon, variant="binary").variance(1) == pytest.approx(binary, rel=1e-9)
    fast = LocalHashing(range(100), epsilon=epsilon, variant="fast")
    e = math.exp(epsilon)
    closed = (e - 1 + fast.g) ** 2 / ((fast.g - 1) * (e - 1) ** 2)
    assert fast.variance(1) == pytest.approx(closed, rel=1e-12)
    assert best <= closed <= 1.034 * best  # the price of a prime g


# ---- every outcome, through the code


def small(prime, monkeypatch, variant, d, epsilon, policy="error"):
    """A mechanism whose whole noise can be listed."""
    monkeypatch.setattr(local_hashing, "PRIME", prime)
    return LocalHashing(domain(d, policy), epsilon=epsilon, variant=variant)


CASES = [
    *itertools.product(("optimal", "binary"), (5, 7), ((2, 1.0, "error"), (4, 2.0, "none"), (5, 0.1, "other"))),
    *itertools.product(
        ("fast",), (13,), ((2, 1.0, "error"), (4, 1.5, "none"), (9, 0.5, "error"), (10, 1.0, "other"), (6, 2.0, "none"))
    ),
]


@each(("variant", "prime", "case"), CASES)
@pytest.mark.slow
def test_probabilities_and_ratios_over_all_reports(monkeypatch, variant, prime, case):
    d, epsilon, policy = case
    assert d + (policy == "none") <= prime
    m = small(prime, monkeypatch, variant, d, epsilon, policy)
    check_oracle(m, reports=m.functions * m.g)


# ---- counting


def slow_support(m, reports, d):
    """bool[n, d], by hashing each value."""
    functions, bucket = reports & np.uint64(2**48 - 1), reports >> np.uint64(48)
    return np.array([m.family.hash(functions, np.full(len(reports), v)) == bucket for v in range(d)]).T


def test_both_ways_of_fast_counting_are_taken(monkeypatch):
    m = LocalHashing(range(20), epsilon=1.0, variant="fast")
    reports = m.perturb(np.arange(60_000) % 20)
    expected = slow_support(m, reports, 20)
    whole = m.tally(reports).counters
    np.testing.assert_array_equal(whole, expected.sum(axis=0))
    monkeypatch.setattr(local_hashing, "_CELLS", m.functions * m.g * 2)  # few groups at a time
    groups = np.arange(60_000) * 7 % 5
    counts = m.count_reports(reports, groups, 5)
    np.testing.assert_array_equal(counts, [expected[groups == g].sum(axis=0) for g in range(5)])
    monkeypatch.setattr(local_hashing, "_counts_of_rows", None)
    np.testing.assert_array_equal(m.tally(reports).counters, whole)


def test_few_reports_are_counted_as_many_are(monkeypatch):
    """Each with all codes at once: numpy was called for each code, so that one report of 65,000 values took 1.8 s."""
    for variant, epsilon in itertools.product(("optimal", "binary", "fast"), (0.5, 2.0, 5.0)):
        m = LocalHashing(range(300), epsilon=epsilon, variant=variant)
        few, groups = m.perturb(np.arange(40) * 7), np.arange(40) % 3
        many = m.count_reports(np.tile(few, 500), np.tile(groups, 500), 3)
        monkeypatch.setattr(type(m.family), "supported", None)  # the codes one by one
        np.testing.assert_array_equal(500 * m.count_reports(few, groups, 3), many, str(m))
        monkeypatch.undo()


# ---- value object and errors


def test_a_domain_that_is_too_large(monkeypatch):
    monkeypatch.setattr(local_hashing, "PRIME", 5)
    LocalHashing(range(5), epsilon=1)
    with pytest.raises(ParameterError, match="at most"):
        LocalHashing(range(6), epsilon=1)
    with pytest.raises(ParameterError, match="at most"):
        LocalHashing(Domain(range(5), unmatched="none"), epsilon=1)


@each("variant", VARIANTS)
def test_what_is_no_report(variant):
    m = LocalHashing(range(9), epsilon=1, variant=variant)
    good = m.perturb(pa.array([1, 2, 3])).to_numpy()
    beyond = m.g << 48
    no_function = m.functions if variant == "fast" else 2**24 - 3
    for bad in (beyond, no_function, 2**64 - 1):
        with pytest.raises(ReportError, match="1 of 4 reports"):
            m.tally(np.append(good, np.uint64(bad)))


@each("g", [2, 3, 4, 149, 1000, 65536])
def test_collision_probability_of_the_real_family(g):
    family = local_hashing.AffineFamily(g)
    assert family._width.sum() == local_hashing.PRIME
    exact = sum(Fraction(int(w), local_hashing.PRIME) ** 2 for w in family._width.tolist())
    assert family.collision == exact
    assert 0 <= family.collision - Fraction(1, g) <= Fraction(g, local_hashing.PRIME**2)


def test_the_prime_is_one():
    prime = local_hashing.PRIME
    assert prime == 2**24 - 3
    assert all(prime % k for k in range(2, math.isqrt(prime) + 1))


def test_codes_at_the_end_of_the_largest_domain():
    """All the arithmetic at its edges; of a domain of 16 million values two are looked at."""
    family = local_hashing.AffineFamily(1 << 16)
    n, top = 400_000, local_hashing.PRIME - 1
    functions = family.draw(n, Keystream())
    one, other = (family.hash(functions, np.full(n, v, np.uint32)) for v in (top, top - 1))
    assert max(one.max(), other.max()) < 1 << 16
    check_binomial(np.sum(one == other), n, float(family.collision))
    check_uniform(np.bincount((one >> np.uint64(8)).astype(int), minlength=256))
