"""Both sketches: every function and report in rational arithmetic, the papers' estimators, collisions, samples."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from ldp_core import (
    CountMeanSketch,
    Domain,
    DomainError,
    DtypeError,
    HadamardCountMeanSketch,
    Mechanism,
    MechanismMismatchError,
    ParameterError,
    ReportError,
    UnaryEncoding,
)
from ldp_core.exact import random_functions
from ldp_core.exact.random_functions import RandomFunctions
from ldp_core.mechanisms.sketches import _numbered_bits

from ....cases import each
from ...checks import FALSE_ALARM, exact_exp
from ...enumeration import Every, worst_ratio

SKETCHES = [CountMeanSketch, HadamardCountMeanSketch]


# ---- every function and every report


class Listed(RandomFunctions):
    """Functions given as a table, int[k, codes]."""

    def listing(self, table) -> Listed:
        object.__setattr__(self, "table", np.asarray(table, np.uint16))
        return self

    def at(self, functions, codes):
        return self.table[functions, codes.astype(int)]

    def all(self, codes):
        return self.table[:, codes.astype(int)].T


def with_functions(kind, hashes, width, epsilon, table):
    m = kind("int", epsilon=epsilon, hashes=hashes, width=width)
    m.__dict__["functions"] = Listed(hashes, width, 0).listing(table)
    return m


SMALL = [(1, 2, 3, 1.0), (1, 4, 3, 1.0), (2, 2, 3, 1.0), (1, 2, 3, 50.0)]  # k, m, codes, epsilon


@each("kind", SKETCHES)
@each(("k", "m", "codes", "epsilon"), SMALL)
@pytest.mark.slow
def test_probabilities_variance_and_ratio_over_all_functions(kind, k, m, codes, epsilon):
    """P, q, the variance with its collisions, the spread and epsilon, by enumeration."""
    records = [0, 0, 0, 1, 1, 2]
    count = np.bincount(records)
    worst = Fraction(0)
    share, first, second = np.full((codes, codes), Fraction(0)), [Fraction(0)] * codes, [Fraction(0)] * codes
    tables = list(itertools.product(itertools.product(range(m), repeat=codes), repeat=k))
    for table in tables:
        sketch = with_functions(kind, k, m, epsilon, table)
        s = np.full((codes, codes), Fraction(0))
        distributions = []
        for v in range(codes):
            every = Every(sketch.perturb_codes, v, dtype=np.uint64, seen=m)
            counters = sketch.count_reports(every.reports, np.arange(every.n), every.n)
            supported = sketch.support_of(counters, np.arange(codes, dtype=np.uint64))
            s[v] = [every.mean(column) for column in supported.T]
            distributions.append(every.table)
            assert every.mean(spreads(sketch, counters)) == sketch.expected_squares
        share += s / len(tables)
        for w in range(codes):
            mean = sum(s[v, w] for v in records)
            first[w] += mean / len(tables)
            second[w] += (sum(s[v, w] * (1 - s[v, w]) for v in records) + mean**2) / len(tables)
        worst = max(worst, worst_ratio(distributions))
    p, q = sketch.support_probabilities()
    assert all(share[v, w] == (p if v == w else q) for v in range(codes) for w in range(codes))
    assert worst == sketch.worst_ratio() <= exact_exp(epsilon)
    n, f2 = len(records), int((count**2).sum())
    for w, c in enumerate(count.tolist()):
        assert first[w] == c * p + (n - c) * q
        pure = c * p * (1 - p) + (n - c) * q * (1 - q)
        collisions = Fraction((f2 - c * c) - (n - c), k * (m - 1)) * (p - q) ** 2
        assert second[w] - first[w] ** 2 == pure + collisions


def spreads(sketch, counters) -> list[Fraction]:
    """Of each report, the sum of the squares of its counters, each less the mean of its row."""
    tables = sketch.table(counters).reshape(len(counters), -1, sketch.width)
    means = [[Fraction(int(row.sum()), sketch.width) for row in table] for table in tables]
    return [
        sum((int(x) - t) ** 2 for row, t in zip(table, mean, strict=True) for x in row)
        for table, mean in zip(tables, means, strict=True)
    ]


# ---- the papers' estimators and other known answers


@each(("epsilon", "n_var"), [(0.5, 16.67079235613105), (1.0, 4.682694376831169)])
def test_the_variance_tends_to_that_of_the_bits(epsilon, n_var):
    """acceptance.json: Hadamard response, and OUE's 4 e / (e - 1)^2."""
    wide = {"hashes": 2, "width": 1 << 16}
    hcms = HadamardCountMeanSketch("int", epsilon=epsilon, **wide).over([1, 2])
    assert hcms.variance(1) == pytest.approx(n_var, rel=1e-4)
    cms = CountMeanSketch("int", epsilon=epsilon, **wide).over([1, 2])
    assert cms.variance(1) == pytest.approx(4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2, rel=1e-4)
    sue = CountMeanSketch("int", epsilon=epsilon, variant="symmetric", **wide)
    assert sue.bucket_probabilities == tuple(
        x[0] for x in UnaryEncoding([0, 1], epsilon=epsilon, variant="symmetric").support_probabilities()
    )


@each("kind", SKETCHES)
def test_candidates_in_blocks(monkeypatch, kind):
    m = kind("int", epsilon=1.0, hashes=5, width=8)
    reports, groups = m.perturb(np.arange(4000) % 11), np.arange(4000) % 3
    counters = m.count_reports(reports, groups, 3)
    codes = m.domain.encode(np.arange(40))
    naive = np.zeros((3, 40), np.int64)
    for j, hashes in enumerate(m.functions.all(codes).T):
        naive += m.table(counters)[:, j][:, hashes]
    np.testing.assert_array_equal(m.support_of(counters, codes), naive)
    monkeypatch.setattr(random_functions, "_PAIRS", 17)
    np.testing.assert_array_equal(m.support_of(counters, codes), naive)
    np.testing.assert_array_equal(m.support_of(counters[1], codes), naive[1])


# ---- samples


def runs(kind, salts, n, share, epsilon, hashes, width, candidates):
    """Oracles and tallies under many choices of functions; of the candidates the first has ``share`` of the records."""
    heavy = round(share * n)
    values = np.where(np.arange(n) < heavy, 0, 1_000_000 + np.arange(n) % 50)
    for salt in range(salts):
        m = kind("int", epsilon=epsilon, hashes=hashes, width=width, salt=salt)
        yield m.over(range(candidates)), m.tally(m.perturb(values))


def coverage(kind, hashes=64, width=64, *, simultaneous=False) -> np.ndarray:
    """Which 95 % intervals of values that nobody holds hold 0, bool[runs, values]; one value has most records."""
    made = runs(kind, 25, 30_000, 0.6, 4.0, hashes, width, 400)
    found = [o.estimate(t, simultaneous=simultaneous) for o, t in made]
    return np.array([(h.low <= 0) & (h.high >= 0) for h in found])[:, 1:]


@each("kind", SKETCHES)
@pytest.mark.slow
def test_intervals_cover_in_spite_of_a_heavy_value(kind):
    assert 0.94 < coverage(kind).mean() < 0.995


RARE = int(stats.binom.ppf(FALSE_ALARM, 25, 0.95))  # of 25 runs hardly ever fewer are right


@pytest.mark.slow
def test_simultaneous_intervals_cover_in_spite_of_a_heavy_value():
    assert coverage(CountMeanSketch, 32, 256, simultaneous=True).all(axis=1).sum() >= RARE


@each("kind", SKETCHES)
@each(("k", "m"), [(1, 2), (8, 2), (1, 16)])
@each("people", [[20_000], [10_000, 10_000]])
@pytest.mark.slow
def test_intervals_hold_together_over_the_functions_of_few_cells(kind, k, m, people):
    """Who collides with a frequent value under every function looks as frequent; two that never collide as rare."""
    truth = np.array(people + [0] * 30)
    holding = 0
    for salt in range(25):
        sketch = kind("int", epsilon=4.0, hashes=k, width=m, salt=salt)
        tally = sketch.simulate(dict(enumerate(people)), seed=salt)
        found = sketch.over(range(len(truth))).estimate(tally, simultaneous=True)
        holding += bool(((found.low <= truth) & (truth <= found.high)).all())
    assert holding >= RARE


@each("kind", SKETCHES)
def test_the_sketch_knows_the_sum_of_squares(kind):
    n, k, width = 50_000, 128, 64
    m = kind("int", epsilon=1.0, hashes=k, width=width)
    values = np.where(np.arange(n) < 20_000, 7, np.arange(n) % 100)
    f2 = int((np.bincount(values).astype(int) ** 2).sum())
    found = m.collisions(n, m.tally(m.perturb(values)).counters)[0].item()
    rare = m.over([1, 2]).variance(n)
    # the sums of squares of noise alone vary by sqrt(2 / (k * width)) * rare; with those people at most 1.4 times that
    assert abs(found - (f2 - n) / (k * (width - 1))) < 9 * math.sqrt(2 / (k * width)) * rare
    everyone, each = m.collisions(n, m.tally(m.perturb(np.full(n, 7))).counters)
    assert everyone[0] == pytest.approx(n * (n - 1) / (k * (width - 1)), rel=0.1)
    assert everyone[0] - n * (n - 1) * each < 6 * math.sqrt(2 / (k * width)) * rare  # nobody else to collide with


@each("kind", SKETCHES)
def test_accuracy_holds_whatever_the_values_are(kind):
    """Everybody holds one value, the worst case for the others."""
    bound = kind("int", epsilon=4.0, hashes=16, width=16).over([0, 1]).accuracy(3000)
    errors = [np.abs(o.estimate(t).frequencies[1:]) for o, t in runs(kind, 20, 3000, 1.0, 4.0, 16, 16, 50)]
    assert 0.3 * bound < np.max(errors)
    assert np.mean(np.array(errors) >= bound) < 0.05


# ---- tallies, reports, keys


@each("kind", SKETCHES)
def test_one_candidate_is_estimated_as_among_others(kind):
    m = kind("int", epsilon=2.0, hashes=16, width=16)
    tally = m.tally(m.perturb(np.arange(5000) % 7))
    alone, among = m.over([3]).estimate(tally), m.over([3, 9, 4]).estimate(tally)
    assert alone.values == (3,)
    for name in ("counts", "standard_errors", "low", "high"):
        assert getattr(alone, name)[0] == pytest.approx(getattr(among, name)[0])
    together = m.over([3]).estimate(tally, simultaneous=True)
    lengths = [h.high[0] - h.low[0] for h in (alone, together)]
    assert 1 <= lengths[1] / lengths[0] < 1.1  # Bonferroni's correction of one; and the tails as they are


# ---- value objects and errors


@each("kind", SKETCHES)
def test_bad_kinds_and_variants(kind):
    with pytest.raises(DomainError, match="kind"):
        kind("float", epsilon=1)
    with pytest.raises(ParameterError, match="variant"):
        CountMeanSketch(epsilon=1, variant="best")
    m = kind(epsilon=1, hashes=2, width=2)
    with pytest.raises(ParameterError, match="str"):
        m.over([1, 2])
    with pytest.raises(ParameterError, match="unmatched"):
        m.over(Domain(["a"], unmatched="other"))
    with pytest.raises(DtypeError):
        m.perturb([1])


@each("kind", SKETCHES)
def test_what_is_no_report_or_no_tally(kind):
    m = kind(epsilon=1, hashes=3, width=16)
    good = m.perturb(pa.array(["a", "b"]))
    bad = good.to_pylist()
    bad[1] = [0, 1 << 16] if kind is CountMeanSketch else 96
    with pytest.raises(ReportError):
        m.tally(pa.array(bad, m.reports.arrow_type()))
    if kind is CountMeanSketch:
        with pytest.raises(ReportError, match="1 of 1"):
            m.tally(pa.array([[3, 0]], m.reports.arrow_type()))
        with pytest.raises(ReportError, match="null"):
            m.tally(pa.array([[0, None]], m.reports.arrow_type()))
    with pytest.raises(MechanismMismatchError):
        m.over(["a", "b"]).estimate(kind(epsilon=1, hashes=3, width=16, salt=1).tally(good))


def test_candidates_have_no_other_parameters():
    data = CountMeanSketch(epsilon=1.0).over(["a", "b"]).to_dict()
    assert Mechanism.from_dict(data).fingerprint == CountMeanSketch(epsilon=1.0).fingerprint
    with pytest.raises(ParameterError, match="epsilon"):
        Mechanism.from_dict({**data, "epsilon": 2.0})


@each("kind", [CountMeanSketch, HadamardCountMeanSketch])
def test_groups_are_tallied_as_they_are_alone(kind, monkeypatch):
    m = kind("int", epsilon=1.0, hashes=4, width=128)
    reports = m.perturb(np.arange(3000))
    groups = np.random.default_rng(0).integers(0, 5, 3000)
    grouped = m.count_reports(reports, groups, 6)
    monkeypatch.setattr(_numbered_bits, "_ROWS", 700)  # in blocks, some of which
    in_order = np.argsort(reports if reports.ndim == 1 else reports[:, 0])  # are all of one function
    np.testing.assert_array_equal(m.count_reports(reports[in_order], groups[in_order], 6), grouped)
    monkeypatch.setattr(_numbered_bits, "_LONG", 0)
    np.testing.assert_array_equal(m.count_reports(reports, groups, 6), grouped)
