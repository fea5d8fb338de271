"""Heavy hitters: each report exactly, what is found in tallies, keyed noise, values and errors."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from ldp_core import (
    HeavyHitters,
    Keyed,
    MechanismMismatchError,
    ParameterError,
    Prefixes,
    Secret,
)
from ldp_core.estimates.histogram import ENTRY
from ldp_core.exact.probability import fraction

from ....cases import each
from ...acceptance import ACCEPTANCE
from ...checks import check_binomial, exact_exp
from ...exact.helpers import orthogonal, report_vectors, vector
from ...examples import LETTERS
from .helpers import POPULATION, SMALL, population, small, words


@each("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 6.0, 10.0])
@each("width", [64, 4096, 1 << 14])
def test_the_realized_epsilon_is_at_most_the_one_asked_for(epsilon, width):
    m = small(epsilon, width=width)
    assert exact_exp(epsilon) * (1 - Fraction(1, 10**12)) < m.worst_ratio() <= exact_exp(epsilon)
    assert m.width / 4 <= m.points.buckets <= m.width
    assert m.points.size < 1 << 16


@each("row", ACCEPTANCE["n_var"])
def test_the_variance_is_near_that_of_oue(row):
    m = HeavyHitters(SMALL, epsilon=row["epsilon"])
    n_var = m.q * (1 - m.q) / (m.p - m.q) ** 2
    e = float(exact_exp(row["epsilon"]))
    assert n_var == pytest.approx((e - 1 + m.g) ** 2 / ((m.g - 1) * (e - 1) ** 2), rel=1e-9)
    assert (
        row["OUE"] * 0.9999 < n_var < row["OUE"] * (1.08 if row["epsilon"] < 5 else 1.25)
    )  # no prime above 61 has a fitting power


# ---- a report, all of it


def expected_cells(m: HeavyHitters, code: int) -> np.ndarray:
    """Probability of each report of one value, slowly."""
    p, g, size = fraction(m._agree), m.g, m.points.size
    digits = round(math.log(m.points.buckets, g))
    out = []
    for number, (level, _row) in enumerate(product(m.levels, range(m.rows))):
        prefix = code >> (m.domain.length - level) * m.domain.symbol_bits
        low, high, added = (int(part[number]) for part in (m.hashes._low, m.hashes._high, m.hashes._added))
        bucket = ((high * (prefix >> 32) + low * (prefix % 2**32) + added) % 2**64 >> 32) * m.points.buckets >> 32
        for y in report_vectors(g, digits):
            vectors = g - 1 if y else 1
            supports = orthogonal(vector(int(y), g, digits + 1), vector(bucket, g, digits), g)
            probability = p * vectors if supports else 1 - p
            out.append(probability / m.points.buckets / m.rows / len(m.levels))
    assert len(out) == m.counters == len(m.levels) * m.rows * size
    assert sum(out) == 1
    return np.array(out, float)


def check_cells(m: HeavyHitters, value: str = "bead", n: int = 400_000) -> None:
    counts = m.tally(m.perturb(words(**{value: n}))).counters
    check_binomial(counts, n, expected_cells(m, int(m.domain.encode([value])[0])))


@each("epsilon", [0.2, 2.0])
def test_reports_have_the_probabilities_of_the_formula(epsilon):
    check_cells(small(epsilon, rows=2, width=64))


@each("levels", [(4,), (2, 4), (1, 2, 3, 4)])
@each("outside", ["error", "cut"])
def test_find(levels, outside):
    m = HeavyHitters(Prefixes("abcdefg", 4, outside), epsilon=5.0, levels=levels, rows=16, width=1024)
    found = m.find(m.tally(m.perturb(population())), 6)
    truth = POPULATION
    assert sorted(found.values) == sorted(truth)
    sigmas = (found.counts - [truth[v] + 20_000 / 2801 for v in found.values]) / found.standard_errors
    assert np.abs(sigmas).max() < 7
    assert (np.diff(found.counts) <= 0).all()
    assert found.n == 49_500
    assert found.counts.min() >= found.threshold
    assert (found.low < found.counts).all()
    assert (found.high > found.counts).all()
    table = found.to_arrow()
    assert table.column_names == list(ENTRY)
    assert found.to_polars()["value"].to_list() == list(found.values)
    assert "bead" in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(pickle.loads(pickle.dumps(found))) == hash(found)


def test_find_integers():
    m = HeavyHitters(Prefixes(None, 20), epsilon=5.0, levels=(8, 14, 20), rows=16, width=1024)
    values = np.repeat([1_000_000, 7, 0, *range(500)], [20_000, 15_000, 10_000, *[1] * 500])
    assert set(m.find(m.tally(m.perturb(values)), 3).values) == {1_000_000, 7, 0}


def test_long_texts():
    m = HeavyHitters(Prefixes(LETTERS, 12), epsilon=6.0, rows=4, width=1024)
    assert m.levels == (4, 6, 8, 10, 12)
    values = words(conversation=90_000, constitution=70_000)
    assert m.find(m.tally(m.perturb(values)), 2).values == ("conversation", "constitution")


def test_no_reports_and_few():
    m = small()
    assert m.find(m.empty_tally(), 10).values == ()
    assert m.find(m.empty_tally(), 10, threshold=0).values == ()
    assert len(m.find(m.tally(m.perturb(["a"])), 10)) <= 10
    assert m.find(m.empty_tally(), 3).to_arrow().num_rows == 0
    assert "0 of" in repr(m.find(m.empty_tally(), 3))


def test_k_and_thresholds():
    m = small(5.0, levels=(4,), width=1024)
    tally = m.tally(m.perturb(population()))
    assert len(m.find(tally, 40, threshold=0)) == 40
    assert set(m.find(tally, 40, threshold=3500).values) == {"bead", "cafe", "a", "gag"}
    assert len(m.find(tally, 1)) == 1


# ---- keyed noise


@each("domain", [SMALL, Prefixes(LETTERS, 8)])
def test_a_person_stays_at_a_level_under_keyed_noise(domain):
    m = HeavyHitters(domain, epsilon=2.0, levels=(domain.length // 2, domain.length), rows=4, width=64)
    noise = Keyed(Secret.generate(), np.arange(3000), column="x")
    first, second = (m.perturb(np.full(3000, value), randomness=noise) for value in ("bead", "face"))
    per_level = m.counters // 2
    assert (first // per_level == second // per_level).all()
    assert 1300 < (first // per_level).sum() < 1700
    check_binomial(int((first == second).sum()), 3000, 2 / (m.rows * m.points.size))  # (at most: another row)


# ---- value object


def test_default_levels_are_few():
    assert HeavyHitters(Prefixes("0123456789ABCDEFGHIJKLMNOPQRSTUV", 4), epsilon=1.0).levels == (4,)
    assert HeavyHitters(Prefixes(LETTERS, 6), epsilon=1.0).levels == (4, 6)
    assert HeavyHitters(Prefixes(None, 20), epsilon=1.0).levels == (20,)
    assert HeavyHitters(Prefixes(None, 63), epsilon=1.0).levels[-1] == 63


def test_levels_too_far_apart_and_other_domains():
    with pytest.raises(ParameterError, match="too far apart"):
        HeavyHitters(Prefixes(LETTERS, 12), epsilon=1.0, levels=(12,))
    with pytest.raises(ParameterError):
        HeavyHitters(["a", "b"], epsilon=1.0)


@each(
    ("k", "options"),
    [(0, {}), (1.5, {}), (5, {"confidence": 1.0}), (5, {"threshold": -1}), (5, {"threshold": float("nan")})],
)
def test_bad_searches(k, options):
    m = small()
    with pytest.raises(ParameterError):
        m.find(m.empty_tally(), k, **options)
    with pytest.raises(MechanismMismatchError):
        m.find(small(1.0).empty_tally(), 3)
