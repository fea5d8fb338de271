"""What crafted reports can do, by enumeration of all reports and by simulated attacks; which ones are found out."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from ldp_core import (
    BlockHadamardResponse,
    CountMeanSketch,
    DBitFlip,
    Domain,
    FakeDataColumn,
    FrequencyOracle,
    HadamardCountMeanSketch,
    HadamardResponse,
    HeavyHitters,
    HierarchicalHistogram,
    HybridProjectiveGeometryResponse,
    LocalHashing,
    LongitudinalUnaryEncoding,
    Numeric,
    ParameterError,
    Prefixes,
    PrivSet,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    Rappor,
    ReportError,
    SampledColumn,
    Sketch,
    StochasticRounding,
    SubsetSelection,
    SummationHistogramEncoding,
    Tally,
    ThresholdHistogramEncoding,
    UnaryEncoding,
    recommend,
)
from ldp_core.exact.projective import ProjectiveSpace
from ldp_core.mechanisms.catalog import CATALOG, CHOICES, mechanisms_of_size
from ldp_core.mechanisms.heavy_hitters.prefix_extending import Level, by_level
from ldp_core.mechanisms.longitudinal.d_bit_flip import _BucketBits
from ldp_core.mechanisms.oracles.local_hashing import BUCKET_SHIFT, AffineFamily, HashedWord
from ldp_core.mechanisms.oracles.summation_histogram_encoding import _Entries
from ldp_core.mechanisms.sketches._numbered_bits import NumberedBits
from ldp_core.poisoning import chances_of_ones
from ldp_core.reports import Bits, Nullable, Number, Value

from ..cases import each
from .checks import slow
from .examples import EVERY, REGISTERED, keyed

close = pytest.approx


# ---- all reports that a mechanism's format has


def every_report(m):
    """All reports, in the working layout; of affine hash functions and of SHE's entries those that matter, and some."""
    return _every(m.reports, np.random.default_rng(0))


def _every(form, rng):
    if isinstance(form, Nullable):
        answers = _every(form.inner, rng)
        return form.rows(np.ones(len(answers), bool), answers)
    if isinstance(form, Value):
        return np.arange(form.domain.size).astype(form.domain.code_dtype)
    if isinstance(form, Bits):
        rows = np.array(list(itertools.product([0, 1], repeat=form.d)), np.uint8)
        rows = rows if form.ones is None else rows[rows.sum(axis=1) == form.ones]
        return np.packbits(rows, axis=1, bitorder="little")
    if isinstance(form, NumberedBits):
        bits = np.arange(1 << form.bits, dtype=np.uint64)
        return np.array([(number, b) for number in range(form.limit) for b in bits], np.uint64)
    if isinstance(form, _BucketBits):
        chosen = itertools.combinations(range(form.buckets), form.size)
        said = list(itertools.product([0, 1], repeat=form.size))
        return np.array([2 * np.array(c) + s for c in chosen for s in said], form.dtype)
    if isinstance(form, _Entries):
        ends = np.array(list(itertools.product([form.low, form.high], repeat=form.size)), form.dtype)
        return np.concatenate([ends, rng.integers(form.low, form.high + 1, (500, form.size)).astype(form.dtype)])
    if isinstance(form, HashedWord):
        if isinstance(form.family, AffineFamily):
            a, b = rng.integers(0, 1000, (2, 400), np.uint64)
            functions = np.concatenate([[0], b[:20], a << np.uint64(24) | b])  # (with a = 0 they are constant)
        else:
            functions = np.arange(form.family.size, dtype=np.uint64)
        functions = functions.astype(np.uint64)
        return np.concatenate([np.uint64(bucket) << BUCKET_SHIFT | functions for bucket in range(form.family.g)])
    assert isinstance(form, Number)
    return np.arange(form.limit).astype(form.dtype)


def moves(m):
    """float64[reports, d]: what each report adds to the estimated counts, by the mechanism's own tally and estimate."""
    reports = every_report(m)
    n = len(reports)
    return m.debias(np.ones((n, 1), np.int64), m.count_reports(reports, np.arange(n), n))[0]


def check_oracle(m):
    added = moves(m)
    influence = m.influence()
    assert influence.one == close(np.abs(added).max(), rel=1e-9)
    assert influence.all == close(np.abs(added).sum(axis=1).max(), rel=1e-9)
    best = -np.sort(-added, axis=1)
    for t in range(1, m.domain.size + 1):
        assert m.worst_gain(fake=7, targets=t) == close(7 * best[:, :t].sum(axis=1).max(), rel=1e-9, abs=1e-9)


SIZES = [(2, 1.0), slow(6, 0.1), slow(6, 1.0), (7, 3.0)]


def sized(d, epsilon):
    """Of the whole catalog; sketches, the reports of which are too many, small ones."""
    made = mechanisms_of_size(d, epsilon)
    made["CMS"] = CountMeanSketch("int", epsilon=epsilon, hashes=3, width=8).over(range(d))
    made["HCMS"] = HadamardCountMeanSketch("int", epsilon=epsilon, hashes=3, width=8).over(range(d))
    return made


@pytest.mark.parametrize(("d", "epsilon"), SIZES)
def test_no_report_moves_counts_further_and_some_report_does_move_them_so_far(d, epsilon):
    checked = 0
    for m in sized(d, epsilon).values():
        if isinstance(m, FrequencyOracle) and m.name != "rappor_candidates":
            check_oracle(m)
            checked += 1
    # Two sketches are added; the candidates of RAPPOR are left out, and the mechanism of sets is in `OTHERS`.
    assert checked == sum(issubclass(entry.mechanism, (FrequencyOracle, Sketch)) for entry in CATALOG) + 2 - 2


OTHERS = {
    "two coins": RandomizedResponse.from_coins(truth=0.3, yes=0.9),
    "many ones": UnaryEncoding.from_probabilities(range(5), p=0.9, q=0.8),
    "one missing": SubsetSelection(range(5), epsilon=1.0, k=4),
    "sets": PrivSet(range(4), epsilon=1.0, most=2, k=2),
    "none": UnaryEncoding(Domain(range(5), unmatched="none"), epsilon=1.0),
    "HR, none": HadamardResponse(Domain(range(8), unmatched="none"), epsilon=1.0),
    "BHR, uneven blocks": BlockHadamardResponse(range(11), epsilon=1.0, blocks=3),
    "BHR, a value a block": BlockHadamardResponse(range(5), epsilon=3.0, blocks=5),
    "PGR, none": ProjectiveGeometryResponse(Domain(range(13), unmatched="none"), epsilon=1.0, field=3),
    "HPGR, uneven blocks": HybridProjectiveGeometryResponse(range(19), epsilon=2.0, field=2, blocks=3),
    "HPGR, field 3": HybridProjectiveGeometryResponse(range(11), epsilon=1.0, field=3, blocks=2),
    "dBitFlipPM, all": DBitFlip(range(5), epsilon_infinity=1.0, bits=5),
    "L-SUE": LongitudinalUnaryEncoding(range(5), epsilon_infinity=3.0, epsilon_1=2.0, variant="SUE"),
    "SHE, unit": SummationHistogramEncoding(range(4), epsilon=1.0, unit=5),
    "fake": FakeDataColumn(RandomizedResponse(range(5), epsilon=1.0), columns=3),
    "fake, prior": FakeDataColumn(UnaryEncoding(range(5), epsilon=3.0), columns=3, prior=[9, 5, 1, 1, 0]),
    "fake, likely prior": FakeDataColumn(
        UnaryEncoding(range(5), epsilon=6.0, variant="symmetric"), columns=9, prior=[9, 0, 0, 1, 0]
    ),
}


@each("name", OTHERS)
def test_other_settings(name):
    check_oracle(OTHERS[name])


@each(("field", "dimension"), [(2, 2), (2, 4), (3, 3), (3, 4), (5, 3)])
def test_values_in_one_hyperplane(field, dimension):
    """Of every number of values, also of fewer than the space is for."""
    space = ProjectiveSpace(field, dimension)
    supported = np.cumsum(space.supporters(np.eye(space.points, dtype=np.int64), space.points), axis=1)
    most = [space.supported(d)[1] for d in range(1, space.points + 1)]
    assert most == supported.max(axis=0).tolist()
    assert most[-1] == space.support


def test_no_report_moves_a_tree_further():
    """Of sizes that are no power of two, and of people who all have one value, reports moved counts up to 1.9 times."""
    for d, epsilon in ((3, 0.1), (5, 1.0), (9, 1.0), (12, 2.0), (33, 0.1), (64, 2.0)):
        m = HierarchicalHistogram(range(d), epsilon=epsilon)
        reports = m.perturb(np.arange(100) % d, randomness=keyed(100))
        crafted = [m.tally(reports[i : i + 1]) for i in range(100)]
        for people in ([10**6 // d] * d, [10**6] + [0] * (d - 1), [0] * (d - 1) + [10**6]):
            honest = m.simulate(people, seed=1)
            before = m.estimate(honest).counts
            made = [m.estimate(honest + Tally(100, 100 * t.counters, t.fingerprint)).counts - before for t in crafted]
            assert np.abs(made).max() < 1.02 * m.worst_gain(fake=100)  # (levels have not just as many as on average)
        assert m.influence().one == close(m.worst_gain(fake=1))


def test_without_more_knowledge_it_is_an_upper_bound():
    """A mechanism of somebody's own, that says nothing of how many values a report supports."""
    rr, some = RandomizedResponse(range(6), epsilon=1.0), FrequencyOracle.supported.fget
    assert some(rr) == (0, 6)
    m = RandomizedResponse(range(6), epsilon=1.0)
    unknown = type("Unknown", (RandomizedResponse,), {"supported": property(some)})(range(6), epsilon=1.0)
    assert unknown.influence().one == m.influence().one
    assert unknown.influence().all > m.influence().all
    assert unknown.worst_gain(fake=1, targets=3) > m.worst_gain(fake=1, targets=3)


# ---- other people's numbers


@each("epsilon", [0.1, 1.0, 3.0])
@each("targets", [1, 5, 10])
def test_the_gains_of_the_paper(epsilon, targets):
    """Cao, Jia, Gong 2021: overall gains of the maximal gain attack on kRR, OUE and OLH, in frequencies.

    beta is the share of fake reports, f_T that of the targets among honest people.
    """
    d, n, fake, f_targets = 102, 389_894, 20_520, 0.01
    beta, e, r = fake / (n + fake), math.exp(epsilon), targets
    published = {
        RandomizedResponse: beta * (1 - f_targets) + beta * (d - r) / (e - 1),
        UnaryEncoding: beta * (2 * r - f_targets) + 2 * beta * r / (e - 1),
    }
    for kind, gain in published.items():
        ours = kind(range(d), epsilon=epsilon).worst_gain(fake=fake, targets=targets)
        assert ours / (n + fake) - beta * f_targets == close(gain, rel=1e-12)
    hashing = LocalHashing(range(d), epsilon=math.log(3))  # g = e^epsilon + 1 is 4
    beta, e = fake / (n + fake), 3.0
    gain = hashing.worst_gain(fake=fake, targets=targets) / (n + fake) - beta * f_targets
    assert gain == close(beta * (2 * r - f_targets) + 2 * beta * r / (e - 1), rel=1e-9)


# ---- planted: wrong formulas


def test_one_column_of_several():
    """The share that answers is estimated: a bound for counts between 0 and n, met where nobody has the value."""
    inner, columns, answers = RandomizedResponse(range(5), epsilon=0.1), 4, 10**8
    m, people = SampledColumn(inner, columns=columns), columns * answers
    added = every_report(m)
    n = len(added)
    for shares in ([1.0, 0, 0, 0, 0], [0.2] * 5, [0.6, 0.4, 0, 0, 0]):
        before = np.append(answers, answers * (inner.q + np.array(shares) * inner.rates.difference)).round().astype(int)
        after = before + m.count_reports(added, np.arange(n), n)
        gains = m.debias(np.full((n, 1), people + 1), after)[0] - m.debias(people, before)[0]
        assert np.abs(gains).max() <= m.influence().one + 1e-4
        assert np.abs(gains).sum(axis=1).max() <= m.influence().all + 1e-4
        assert gains.max() == close(m.worst_gain(fake=1) - (columns - 1) * min(shares), abs=1e-4)
    assert m.worst_gain(fake=1) == close(columns * inner.worst_gain(fake=1))


# ---- numbers


@each("epsilon", [0.1, 1.0, 4.0])
def test_numbers(epsilon):
    made = [m for m in mechanisms_of_size(6, epsilon).values() if isinstance(m, Numeric)]
    assert len(made) == 6
    made = [type(m).from_parameters(type(m.domain)(-3, 7), {**m.parameters(), **_few(m)}) for m in made]
    for oracle in ("randomized_response", "subset_selection", "hadamard_response", "threshold_histogram_encoding"):
        made.append(StochasticRounding((-3, 7), epsilon=epsilon, buckets=8, oracle=oracle))
    for m in made:
        reports = every_report(m)
        n = len(reports)
        value = m.means(np.ones(n), m.count_reports(reports, np.arange(n), n))[0]  # of one report the mean is its value
        one = m.influence().one
        assert one == close(max(value.max() - -3, 7 - value.min()), rel=1e-9)
        assert (m.influence().all, m.worst_gain(fake=9)) == (one, close(9 * one))
        with pytest.raises(ParameterError, match="targets"):
            m.worst_gain(fake=9, targets=2)


def _few(m):
    """Few buckets, so that all reports are soon listed."""
    return {"buckets": 8} if isinstance(m, StochasticRounding) else {}


# ---- values that nobody listed


def test_a_sketch_says_as_much_as_its_candidates():
    for m in (REGISTERED["CMS"], REGISTERED["HCMS"]):
        some = m.over(range(20))
        assert m.influence().one == close(some.influence().one)
        assert m.influence().all == math.inf
        assert m.worst_gain(fake=10, targets=20) == close(some.worst_gain(fake=10, targets=20))


def test_rappor_has_no_bound():
    m = Rappor("int", bits=16, hashes=2, cohorts=4, f=0.5, p=0.5, q=0.75)
    for one in (m, m.over([1, 2])):
        with pytest.raises(ParameterError, match="no bound"):
            one.influence()
        with pytest.raises(ParameterError, match="no bound"):
            one.worst_gain(fake=1)


@each("epsilon", [0.1, 1.0, 4.0])
@each("alike", [False, True])
def test_heavy_hitters(epsilon, alike):
    """Every report of the last level, added to as many reports at each level, moves a count between 0 and n so far."""
    m, n = HeavyHitters(Prefixes("abc", 4), epsilon=epsilon, levels=(2, 4), rows=3, width=64), 6000
    codes = np.full(n, 5) if alike else np.random.default_rng(2).integers(0, 81, n)
    values = np.array(["".join(letters) for letters in itertools.product("abc", repeat=4)])[codes]
    reports = m.reports.from_arrow(pa.array(m.perturb(values, randomness=keyed(n)))).astype(np.int64)
    last = reports >= m.counters // 2
    size = min(np.count_nonzero(last), np.count_nonzero(~last))
    honest = np.bincount(np.append(reports[last][:size], reports[~last][:size]), minlength=m.counters)
    prefixes = m.domain.extended(m.domain.begin(2), 2)
    start = estimates(m, honest, prefixes)
    one = np.eye(m.counters, dtype=np.int64)[m.counters // 2 :]
    gains = np.array([estimates(m, honest + added, prefixes) for added in one]) - start
    counted = (start >= 0) & (start <= 2 * size)
    assert np.abs(gains[:, counted]).max() <= m.influence().one
    rare, best = np.abs(start).argmin(), m.worst_gain(fake=1)
    assert gains[:, rare].max() == close(best - start[rare] / (2 * size), rel=1e-3)
    assert m.worst_gain(fake=20, targets=5) == close(100 * best)
    assert (gains[0] > 0.4 * best).all()  # the vector 0 supports every value
    assert m.influence().all == math.inf


def estimates(m, counters, prefixes):
    """Of all records: those of the last level, before anything is taken out, times all over those of the level."""
    _, last = by_level(m, counters)
    level = Level(m, 1, last)
    return level._sums(level._table, float(level.n), prefixes) * (counters.sum() / level.n)


@each("epsilon", [50.0, 90.0])
def test_noise_so_small_that_p_is_1_as_a_float(epsilon):
    m = UnaryEncoding(range(4), epsilon=epsilon, variant="symmetric")
    reports = m.perturb([0, 1, 2, 3], randomness=keyed(4))
    assert not m.suspicious(reports).any()
    assert m.plausible(reports)
    assert m.suspicious(np.ones((2, 4), bool)).all()


# ---- arguments


@each("name", EVERY)
def test_of_every_mechanism_there_is_an_answer_or_an_error(name):
    m = EVERY[name]
    if "RAPPOR" in name:  # of which a test above asks
        return
    influence = m.influence()
    assert 1 < influence.one <= influence.all
    assert math.isfinite(influence.one)
    assert m.worst_gain(fake=0) == 0
    assert m.worst_gain(fake=3) == close(3 * m.worst_gain(fake=1))
    too_many = {"targets": 10**9} if math.isfinite(influence.all) else {"targets": 1.5}
    for wrong in ({"fake": -1}, {"fake": 1.5}, {"fake": True}, {"targets": 0}, too_many):
        with pytest.raises(ParameterError, match=r"^(fake|targets) must be an integer"):
            m.worst_gain(**{"fake": 1, **wrong})


@each("name", sorted(CHOICES))
def test_recommendations_know_it(name):
    for d, epsilon in itertools.product((2, 200), (0.1, 4.0)):
        [r] = [r for r in recommend(d, epsilon, 1000) if r.key == name]
        exact = r.mechanism(range(d)).influence()
        assert (r.influence.one, r.influence.all) == (close(exact.one, rel=1e-6), close(exact.all, rel=1e-6))
        assert list(r.texts().values())[-2:] == [f"{x:,.1f}" for x in (exact.one, exact.all)]
    assert "e+" in repr(recommend(10**9, 1e-4, 1000))


# ---- reports that honest clients hardly send


COUNTED = {
    "OUE": UnaryEncoding(range(12), epsilon=1.0),
    "SUE, none": UnaryEncoding(Domain(range(12), unmatched="none"), epsilon=2.0, variant="symmetric"),
    "THE": ThresholdHistogramEncoding(range(12), epsilon=1.0),
    "L-OSUE": LongitudinalUnaryEncoding(range(12), epsilon_infinity=2.0, epsilon_1=1.0),
    "CMS": CountMeanSketch("int", epsilon=1.0, hashes=4, width=16),
    "RAPPOR": Rappor("int", bits=12, hashes=3, cohorts=4, f=0.5, p=0.4, q=0.8),
    "dBitFlipPM": DBitFlip(range(12), epsilon_infinity=2.0, bits=9),
    "dBitFlipPM, all": DBitFlip(range(9), epsilon_infinity=2.0, bits=9),
    "stochastic rounding": StochasticRounding((0, 1), epsilon=1.0, buckets=12),
}
"""Mechanisms of which the ones of a report are counted."""


def exact_chances(m):
    """Fractions [kinds, bits + 1], from the probabilities of the bits and how many a value can set."""
    if isinstance(m, StochasticRounding):
        return exact_chances(m.oracle)
    if isinstance(m, Rappor):
        (q, p), bits, kinds = m.bit_probabilities(), m.bits, (1, 2, 3)
    elif isinstance(m, CountMeanSketch):
        (p, q), bits, kinds = m.bucket_probabilities, m.width, (1,)
    elif isinstance(m, DBitFlip):
        p, bits, kinds = Fraction(m._keep, 1 << 64), m.bits, (0, 1) if m.bits < m.domain.size else (1,)
        q = 1 - p
    else:
        p, q = (parts[0] for parts in m.support_probabilities())
        bits, kinds = m.domain.size, (0, 1) if m.domain.unmatched == "none" else (1,)
    return [poisson_binomial([p] * k + [q] * (bits - k)) for k in kinds]


def poisson_binomial(probabilities):
    chances = [Fraction(1)]
    for p in probabilities:
        chances = [a * (1 - p) + b * p for a, b in zip([*chances, 0], [0, *chances], strict=True)]
    return chances


def ones_of(m, k):
    """A report of k ones."""
    form = m.reports
    if isinstance(form, Bits):
        return [True] * k + [False] * (form.d - k)
    if isinstance(form, NumberedBits):
        return np.array([1, (1 << k) - 1], np.uint64)
    return [2 * v + (v < k) for v in range(form.size)]


def reports_of(m, numbers):
    rows = np.array([ones_of(m, k) for k in numbers])
    return rows.astype(m.reports.dtype) if isinstance(m, DBitFlip) else rows


def check_false_alarms(m):
    """The probability is never more than the one that is asked for, and one more number would make it so."""
    chances = exact_chances(m)
    numbers = reports_of(m, range(len(chances[0])))
    for alarm in (0.5, 0.1, 1e-2, 1e-3, 1e-5, 1e-9):
        flagged = m.suspicious(numbers, false_alarm=alarm).tolist()
        assert all(sum(itertools.compress(row, flagged)) <= alarm for row in chances)
        few = sum(itertools.takewhile(bool, flagged))
        many = sum(itertools.takewhile(bool, flagged[::-1]))
        assert sum(flagged) == few + many
        assert sum(chances[0][:few]) <= alarm / 2 < sum(chances[0][: few + 1])
        assert sum(chances[-1][len(flagged) - many :]) <= alarm / 2 < sum(chances[-1][len(flagged) - many - 1 :])


@each("name", COUNTED)
def test_false_alarms_are_as_rare_as_asked_for(name):
    check_false_alarms(COUNTED[name])


def test_many_bits():
    exact = stats.binom.pmf(np.arange(5000), 4999, 0.01)
    expected = 0.5 * np.append(exact, 0) + 0.5 * np.append(0, exact)
    assert chances_of_ones(5000, [1], 0.5, 0.01)[0] == close(expected, rel=1e-9, abs=1e-300)


# ---- crude attacks, planted among honest reports


@each("packed", [False, True])
def test_all_ones_stand_out(packed):
    m, n = UnaryEncoding(range(70), epsilon=1.0), 20_000
    honest = m.perturb(np.arange(n) % 70, randomness=keyed(n), packed=packed)
    everything = m.reports.to_numpy(np.packbits(np.ones((50, 70), bool), axis=1, bitorder="little"), packed=packed)
    nothing = np.zeros_like(everything)
    found = m.suspicious(np.concatenate([honest, everything, nothing]), false_alarm=1e-7)
    assert found.tolist() == [False] * n + [True] * 100


@each("name", COUNTED)
def test_honest_reports_are_plausible(name):
    m, n = COUNTED[name], 3000
    values = pa.array(np.linspace(0, 1, n) if isinstance(m, StochasticRounding) else np.arange(n) % 9)
    reports = m.perturb(values, randomness=keyed(n))
    assert m.plausible(reports)
    assert not m.suspicious(reports, false_alarm=1e-9).any()
    assert not m.plausible(reports_of(m, [3] * 200))
    assert m.plausible(reports[:0])
    assert m.suspicious(reports[:0]).shape == (0,)


@each("alarm", [0.3, 0.1, 0.01])
@each("epsilon", [0.5, 4.0])
@pytest.mark.slow
def test_piles_are_found_implausible_as_rarely_as_asked_for(alarm, epsilon):
    """Over all piles of 6 reports of 3 bits, and whoever of them has a value at all."""
    m = UnaryEncoding(Domain(range(3), unmatched="none"), epsilon=epsilon)
    chances = [tuple(float(x) for x in row) for row in exact_chances(m)]
    piles = list(itertools.combinations_with_replacement(range(4), 6))
    implausible = [pile for pile in piles if not m.plausible(reports_of(m, pile), false_alarm=alarm)]
    assert implausible
    for valued in range(7):  # so many people have a value
        kinds = (chances[1],) * valued + (chances[0],) * (6 - valued)
        assert sum(pile_chance(pile, kinds) for pile in implausible) <= alarm


@cache
def pile_chance(pile, kinds):
    """The probability that people of these kinds have these numbers of ones, in any order."""
    orders = set(itertools.permutations(pile))
    return sum(math.prod(kind[k] for kind, k in zip(kinds, order, strict=True)) for order in orders)


@each("name", REGISTERED)
def test_where_nothing_can_be_counted_there_is_an_error(name):
    m = REGISTERED[name]
    reports = m.reports.to_arrow(m.reports.empty(0))
    if name in ("OUE", "SUE wide", "THE", "CMS", "RAPPOR", "stochastic rounding", "dBitFlipPM") or "UE" in name:
        assert m.suspicious(reports).shape == (0,)
    else:
        with pytest.raises(ParameterError, match="number of ones"):
            m.suspicious(reports)


def test_wrong_arguments():
    m = UnaryEncoding(range(4), epsilon=1.0)
    for ask in (m.suspicious, m.plausible):
        for wrong in (0, 1, -0.1, "x"):
            with pytest.raises(ParameterError, match=r"^false_alarm must be"):
                ask([[True] * 4], false_alarm=wrong)
        with pytest.raises(ReportError, match="'seen'"):
            ask([1, 2], column="seen")


@pytest.mark.parametrize(
    "m",
    [
        UnaryEncoding(range(4), epsilon=1.0),
        UnaryEncoding(Domain(range(4), unmatched="none"), epsilon=1.0),
        UnaryEncoding.from_probabilities(range(3), p=0.9, q=0.3),
        SubsetSelection(range(6), epsilon=2.0, k=2),
    ],
    ids=str,
)
def test_how_often_two_reports_are_equal(m):
    """At most as often as said; by the probabilities of all reports under all values."""
    d, ones = m.domain.size, getattr(m, "k", None)
    chances = []
    for value in range(d + (m.domain.unmatched == "none")):
        own = [(m.p if v == value else m.q, v) for v in range(d)]
        rows = np.array(list(itertools.product((0, 1), repeat=d)))
        if ones is None:
            chances.append(np.prod([np.where(rows[:, v], p, 1 - p) for p, v in own], axis=0))
        else:
            there = rows[:, value]
            sets = np.where(there, m.p / math.comb(d - 1, ones - 1), (1 - m.p) / math.comb(d - 1, ones))
            chances.append(np.where(rows.sum(axis=1) == ones, sets, 0))
    equal = np.array(chances) @ np.array(chances).T
    assert equal.max() <= m.alike * (1 + 1e-12)
    assert m.alike <= 1.25 * equal.max()


def test_reports_that_are_there_twice_are_found():
    m = LocalHashing(range(100), epsilon=1.0)
    reports = m.perturb(np.zeros(1000, np.int64))
    assert not m.copied(reports)
    assert m.copied(np.concatenate([reports, reports]))
    assert not m.copied(np.concatenate([reports, reports[:100]]))  # 8 % may be chance: sqrt(s ln(10^9) / 2) of s
    assert not RandomizedResponse(epsilon=1.0).copied([True] * 1000)
    for long in (UnaryEncoding(range(3000), epsilon=1.0), SubsetSelection(range(3000), epsilon=1.0)):  # (0 as a float)
        rows = long.perturb(np.zeros(50, np.int64))
        assert not long.copied(rows)
        assert long.copied(np.concatenate([rows, rows]))
