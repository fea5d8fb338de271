"""Tallies that no reports have are refused, each by itself; those of reports never are."""

from functools import reduce
from itertools import combinations_with_replacement, product
from operator import add

import numpy as np
import pyarrow as pa
import pytest
from scipy.linalg import hadamard

from ldp_core import (
    BlockHadamardResponse,
    Domain,
    HadamardResponse,
    HybridProjectiveGeometryResponse,
    Keystream,
    LdpError,
    LocalHashing,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    SummationHistogramEncoding,
    Tally,
)
from ldp_core.plans.drawn import DrawnColumn
from ldp_core.reports import Word

from ...cases import each
from ..examples import EVERY, noise_for, some_values

MORE = {
    "RR, other": RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1.0),
    "HR, as few values as there can be": HadamardResponse(range(8), epsilon=1.0),
    "HR, a value a row": HadamardResponse(range(7), epsilon=1.0),
    "PGR, a value a point": ProjectiveGeometryResponse(range(13), epsilon=1.0, field=3),
    "PGR, few values": ProjectiveGeometryResponse(range(5), epsilon=1.0, field=3),
    "PGR, none": ProjectiveGeometryResponse(Domain(range(12), unmatched="none"), epsilon=1.0, field=3),
    "HPGR, a short block": HybridProjectiveGeometryResponse(range(23), epsilon=2.0, field=3, blocks=3),
    "HPGR, an empty block": HybridProjectiveGeometryResponse(range(9), epsilon=2.0, field=2, blocks=4),
    "BHR, uneven": BlockHadamardResponse(range(23), epsilon=3.0, blocks=5),
    "FLH, a part of a block": LocalHashing([7, 8], epsilon=1.0, variant="fast"),
    "FLH, all functions": LocalHashing(range(9), epsilon=1.0, variant="fast"),
    "FLH, none": LocalHashing(Domain(range(27), unmatched="none"), epsilon=1.0, variant="fast"),
    "SHE, fine": SummationHistogramEncoding(range(4), epsilon=1.0, unit=8),
}
ALL = {**EVERY, **MORE}

# How many counters a report adds to, where it is the same for every report. (In blocks it is not.)
ONE = ["binary RR", "k-ary RR", "RR, other", "L-GRR", "HCMS", "HCMS over candidates", "heavy hitters", "fake"]
NUMBERS = ["hybrid", "N outputs", "piecewise", "one bit", "square wave"]
ADDED = {**dict.fromkeys(ONE + NUMBERS, 1), "SS": 1, "SS wide": 11, "dBitFlipPM": 4, "PGR, a value a point": 4}


def natives(m, n, seed=0):
    """Reports of random values, some of which are far more frequent than others."""
    rng = np.random.default_rng(seed)
    values = some_values(m, 1 << 8).take(pa.array(np.minimum(rng.geometric(rng.uniform(0.02, 0.9), n), 256) - 1))
    if isinstance(m, DrawnColumn):
        return m.perturb_drawn(m.inputs.encode(values), rng.random(n) < rng.random(), Keystream())
    return m.draw(values, noise_for(m, n) or Keystream(), "x")


def honest(m, n, k=1, seed=0):
    """Numbers of reports and counters of k tallies of n reports in all, some of them of few or none."""
    group = np.minimum(np.random.default_rng(seed).geometric(0.4, n) - 1, k - 1)
    return np.bincount(group, minlength=k), m.count_reports(natives(m, n, seed), group, k)


@each("name", ALL)
def test_no_honest_tally_is_refused(name):
    m = ALL[name]
    n, counters = honest(m, 600, 40)  # (most groups have no or one report)
    m.check_counts(n, counters)
    tallies = [Tally(int(a), b, m.fingerprint) for a, b in zip(n, counters, strict=True)]
    for tally in tallies:
        m.check_tally(tally)
    whole = m.merge(tallies)
    assert whole == reduce(add, tallies)
    assert (whole.n, whole.counters.tolist()) == (600, counters.sum(axis=0).tolist())


WORDS = [name for name, m in ALL.items() if type(m.reports) is Word and m.reports.limit <= 1 << 11]


@each("name", WORDS)
def test_no_report_alone_is_refused(name):
    """All that there are, of the mechanisms whose report is a number."""
    m = ALL[name]
    reports = np.arange(m.reports.limit, dtype=np.uint64)
    counters = m.count_reports(reports, np.arange(len(reports)), len(reports))
    m.check_counts(np.ones(len(reports), np.int64), counters)


@each("name", ["HR", *(name for name in MORE if name.startswith(("HR", "PGR")))])
def test_what_one_report_supports_is_as_little_and_as_much_as_said(name):
    """Bounds; where all rows but one, or all points, are values, there are reports that reach them."""
    m = ALL[name]
    reports = np.arange(m.reports.limit, dtype=np.uint64)
    sums = m.count_reports(reports, np.arange(len(reports)), len(reports)).sum(axis=1)
    least, most = m.supported
    assert least <= sums.min() <= sums.max() <= most
    if "a value a" in name:
        assert (least, most) == (sums.min(), sums.max())


def forged(m, name):
    """(n, counters) that no reports have."""
    n, (good,) = 50, honest(m, 50)[1]
    top = m.entries[1] if isinstance(m, SummationHistogramEncoding) else 1
    for i in (0, len(good) // 2, len(good) - 1):
        for wrong in (n * top + 1, n * -top - 1, 2**62, -(2**62), 2**63 - 1, -(2**63)):
            yield n, np.where(np.arange(len(good)) == i, wrong, good)
        if name in ADDED:  # one more, and one less
            for step in (1, -1):
                yield n, good + step * (np.arange(len(good)) == i)
    yield n, good - 2**62
    yield 0, good
    yield -n, good
    yield -n, -good
    if not isinstance(m, SummationHistogramEncoding):
        yield 1, -good
        yield max(int(good.max()) - 1, 1), good
    yield 2**63 - 1, np.full_like(good, 2**62)
    yield m.most_reports + 1, good
    four = np.zeros_like(good)
    four[: min(4, len(four))] = 2**62  # of which the sum is 0 in 64 bits
    yield n, good + four
    yield 2**62, four


@each("name", ALL)
def test_forged_tallies_are_refused(name):
    m = ALL[name]
    good_n, good = honest(m, 200)
    m.check_counts(good_n, good)
    before = Tally(200, good[0], m.fingerprint)
    for n, counters in forged(m, name):
        with pytest.raises(LdpError):
            m.check_counts(np.array([200, n]), np.stack((good[0], counters)))
        with pytest.raises(LdpError):
            m.merge([before, Tally(n, counters, m.fingerprint)])


def parts(m, counters):
    """Supporters of each value, reports in each block."""
    return counters[: m.domain.size], counters[m.domain.size :]


def moved(m, counters):
    """A report less in a block of which all reports support its one value, and one more in another block."""
    supporters, blocks = parts(m, counters)
    [full, *_] = np.flatnonzero((supporters == blocks) & (blocks > 0))
    blocks[full] -= 1
    blocks[full - 1] += 1
    return counters


@each(
    ("name", "how"),
    [
        # Of 5 values in a block with 8 columns each column supports one at least, and a point of HPGR s at most.
        ("BHR, uneven", lambda m, c: np.concatenate((0 * parts(m, c)[0], parts(m, c)[1]))),
        ("HPGR, a short block", lambda m, c: np.concatenate((parts(m, c)[1][m.block_of], parts(m, c)[1]))),
        ("BHR, a value a block", moved),  # a column supports the value or not: a block of one has as many or fewer
        ("BHR", lambda m, c: np.concatenate((parts(m, c)[0], parts(m, c)[1] + 1))),
        ("HR", lambda m, c: 0 * c),
        ("PGR", lambda m, c: np.full_like(c, 40)),
        ("dBitFlipPM", lambda m, c: np.array([40, 40, 40, 40] + [0] * 76)),  # 80 bits of a bucket, of 40 reports
        ("dBitFlipPM", lambda m, c: np.array([40, 0, 0, 40, 40, 0] + [0] * 74)),  # 3 bits a report, and not 4
        ("RAPPOR", lambda m, c: np.concatenate((c[:1], c[:1] + 1, c[2:]))),  # more 1s than reports of the cohort
        ("RAPPOR", lambda m, c: np.concatenate((c[:1] + 1, c[1:]))),
        ("CMS", lambda m, c: np.arange(len(c)) % m.width == 0),  # 64 functions, and 40 reports
        ("sampled", lambda m, c: np.concatenate(([41], c[1:]))),
        ("sampled", lambda m, c: np.concatenate(([0], c[1:] + 1))),
    ],
)
def test_sums_that_reports_imply(name, how):
    m = ALL[name]
    good = honest(m, 40)[1][0]
    assert m.is_possible(np.array(40), good)
    assert not m.is_possible(np.array(40), how(m, good.copy()))


def hyperplanes(g, digits, d):
    """Bool[reports, d]: which codes below d each report (a, b) of FLH supports, by its definition."""
    vectors = np.array(list(product(range(g), repeat=digits)))
    hashed = vectors @ vectors.T % g
    return np.array([row[:d] == b for row in hashed for b in range(g)])


@each(("epsilon", "d", "g", "digits"), [(1.5, 3, 5, 1), (1.0, 3, 3, 1), (1.0, 9, 3, 2)])
def test_counters_of_fast_local_hashing_are_those_of_some_reports_or_refused(epsilon, d, g, digits):
    """All counters that n reports can have, and no other: of whole blocks the test is exact."""
    m = LocalHashing(range(d), epsilon=epsilon, variant="fast")
    assert (m.g, m.family.digits) == (g, digits)
    reports = np.unique(hyperplanes(g, digits, d), axis=0).astype(np.int64)
    n, reached = 3, {(0,) * d}
    for _ in range(n):
        reached = {tuple(row + np.array(before)) for before in reached for row in reports}
    rng = np.random.default_rng(1)
    near = np.array(sorted(reached))[rng.integers(len(reached), size=4000)] + rng.integers(-1, 2, (4000, d))
    tried = np.array(list(product(range(n + 1), repeat=d))) if d < 9 else np.concatenate([near, np.array([*reached])])
    possible = m.is_possible(np.full(len(tried), n), tried)
    assert possible.tolist() == [tuple(row) in reached for row in tried.tolist()]
    assert 0 < possible.sum() < len(tried)


@each("d", [2, 3, 4, 7])
def test_counters_of_hadamard_response_are_those_of_some_reports_or_refused(d):
    """Of so many values the test is exact; of others it refuses some."""
    m, n = HadamardResponse(range(d), epsilon=1.0), 3
    signs = hadamard(m.cells)[1 : d + 1].T > 0
    reached = {tuple(signs[list(some)].sum(axis=0)) for some in combinations_with_replacement(range(m.cells), n)}
    tried = np.array(list(product(range(n + 1), repeat=d)))
    possible = m.is_possible(np.full(len(tried), n), tried)
    assert {tuple(row) for row in tried[possible].tolist()} == reached
    assert m.is_possible(np.array(10**18), np.full(d, 5 * 10**17))  # (too many to add up: not looked at)


@each("epsilon", [1.0, 4.0])
def test_counters_of_fast_local_hashing_with_many_blocks(epsilon):
    """A counter more or less in any block is found, also where only sums of blocks are looked at."""
    d = 6000
    m = LocalHashing(range(d), epsilon=epsilon, variant="fast")
    good = honest(m, 500)[1][0]
    block = m.g ** (m.family.digits - 1)
    assert m.is_possible(np.array(500), good)
    for code in range(0, d // block * block, 701):
        for step in (-1, 1):
            assert not m.is_possible(np.array(500), good + step * (np.arange(d) == code))
