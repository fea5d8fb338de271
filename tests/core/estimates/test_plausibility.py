"""Estimates that no data give are called so, with the likely mistake; those of honest reports are not."""

import math
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import stats

from ldp_core import (
    CdfEstimate,
    DBitFlip,
    HadamardResponse,
    Hybrid,
    Joint,
    LdpWarning,
    LocalHashing,
    LongitudinalUnaryEncoding,
    MedianEstimate,
    OneBitMean,
    PrivacyPlan,
    RandomizedResponse,
    SquareWave,
    StochasticRounding,
    SubsetSelection,
    SummationHistogramEncoding,
    Tally,
    UnaryEncoding,
    compare_persons,
    ratio,
    total,
)
from ldp_core.accounting.binomials import divergence
from ldp_core.estimates import plausibility
from ldp_core.estimates.distribution import Distributing, DistributionEstimate
from ldp_core.estimates.heavy_hitters import HeavyHittersEstimate, Searching
from ldp_core.estimates.histogram import Counting, HistogramEstimate
from ldp_core.estimates.mean import Averaging, MeanEstimate
from ldp_core.estimates.plausibility import FALSE_ALARMS, Sums, Term, collecting, distances
from ldp_core.estimates.ratios import ratio_of, ratio_sums

from ...cases import case, each
from ..examples import ALONE, DRAWN, EVERY, keyed, noise_for, some_values

N = 20_000


def estimates_of(m):
    """Every kind of estimate that a mechanism offers."""
    found = []
    found += [HistogramEstimate()] if isinstance(m, Counting) else []
    found += [MeanEstimate()] if isinstance(m, Averaging) else []
    found += [DistributionEstimate()] if isinstance(m, Distributing) else []
    found += [HeavyHittersEstimate(5)] if isinstance(m, Searching) else []
    return found


def doubts(m, tally):
    """What is said of each kind of estimate of a tally."""
    said = []
    for estimate in estimates_of(m):
        with collecting() as heard:
            estimate.result(m, tally)
        assert len(heard) <= 1
        said += heard
    return said


def reports_of(name, m, n, *, alike):
    """Reports of n records, all of one value or of all values in turn."""
    values = some_values(m, n)
    if alike:
        values = values.take(pa.array(np.zeros(n, np.int64)))
    if name in DRAWN:
        plan = PrivacyPlan({str(k): m for k in range(m.columns)})
        columns = dict.fromkeys(plan.columns, values)
        return plan.perturb_columns(columns, None, packed=False)["0"]
    return m.perturb(values, randomness=noise_for(m, n))


# ---- honest reports


@each("name", EVERY)
@pytest.mark.slow
def test_honest_reports_of_every_mechanism_are_plausible(name):
    m = EVERY[name]
    for n in (0, 1, 3000):
        for alike in (True, False):
            tally = m.tally(reports_of(name, m, n, alike=alike))
            with collecting() as heard:
                if isinstance(m, Searching):
                    plausibility.watch(m, tally.n, tally.counters)
                for estimate in estimates_of(m):
                    if not isinstance(estimate, (DistributionEstimate, HeavyHittersEstimate)):  # slow, and the same
                        estimate.result(m, tally)
            assert heard == []


TALLIES, RECORDS = 150, 200


def alarms(m):
    """How many of 150 tallies of 200 people with one value each give an alarm."""
    n = TALLIES * RECORDS
    native = m.reports.from_arrow(reports_of("", m, n, alike=True))
    counters = m.count_reports(native, np.repeat(np.arange(TALLIES), RECORDS), TALLIES)
    counts = m.debias(np.full((TALLIES, 1), RECORDS), counters)[0] if isinstance(m, Counting) else None
    found = distances(m.bounded_sums(np.full((TALLIES, 1), RECORDS), counters, counts))
    return np.count_nonzero(np.maximum.reduce(np.broadcast_arrays(np.zeros(TALLIES), *found)))


@each("name", [name for name in ALONE if name not in ("heavy hitters", "RAPPOR over candidates")])
def test_an_alarm_that_may_be_false_as_often_as_one_time_in_five_is_not_false_more_often(name, monkeypatch):
    """The same bounds at a level that can be seen."""
    monkeypatch.setattr(plausibility, "FALSE_ALARMS", 0.2)
    check = stats.binomtest(int(alarms(ALONE[name])), TALLIES, 0.2, alternative="greater")
    assert check.pvalue > 1e-9


def first_alarm(part, n, totals):
    """The least total above the mean of which a warning comes."""
    [outside] = distances([Sums(totals[:, None], n, part)])
    return totals[np.flatnonzero((outside > 0) & (totals > n * part.high))[0]]


@each("n", [20, 100, 1000, 10**5])
@each(("low", "high"), [(0.25, 0.75), (0.001, 0.5), (0.27, 0.5), (1e-5, 2e-5), (0.5, 0.9999)])
def test_the_chance_of_a_false_alarm_is_what_it_should_be(low, high, n):
    """By the exact tails of binomials, for the data that are the nearest to an alarm; and it is not far below."""
    part, totals = Term(low, high, 0.0, 1.0), np.arange(n + 1)
    if high**n > FALSE_ALARMS:
        assert not distances([Sums(totals[-1:, None], n, part)])[0].any()
        return
    first = first_alarm(part, n, totals)
    assert stats.binom.sf(first - 1, n, high) <= FALSE_ALARMS / 2
    assert stats.binom.sf(first - 2 - 0.05 * (first - n * high), n, high) > FALSE_ALARMS / 2000  # the bound is near
    down = Term(1 - high, 1 - low, 0.0, 1.0)  # the mirror image
    [outside] = distances([Sums((n - totals)[:, None], n, down)])
    assert totals[np.flatnonzero((outside > 0) & (totals > n * high))[0]] == first


def test_wide_parts_have_a_bound_of_their_own():
    """Laplace entries: the exact distribution of a sum of 40, by convolution, which is without cancellation."""
    m, n = SummationHistogramEncoding(range(5), epsilon=1.0), 40
    low, entry = m.entries[0], np.array(m._weights[1], float) / 2.0**64
    entries = np.array([1.0])
    for _ in range(n):
        entries = np.convolve(entries, entry)
    sums = n * low + np.arange(len(entries))
    counts = (sums - n * m.q) / m.rates.difference
    [outside] = distances([Sums(counts[:, None], n, m.count_term)])
    below = (outside > 0) & (counts < 0)  # of a value that nobody has
    assert 0 < entries[below].sum() <= FALSE_ALARMS / 2


# ---- planted mistakes


RAW_FLAGS = np.arange(N) % 100 < 3
NUMBERS = np.full(N, 20.0)


def one_hot(d):
    return np.eye(d, dtype=bool)[np.arange(N) % d]


RR, OUE = RandomizedResponse(epsilon=1.0), UnaryEncoding(range(20), epsilon=1.0)
SUE = UnaryEncoding(range(20), epsilon=1.0, variant="symmetric")
SAMPLED = PrivacyPlan.sampled({"a": [False, True], "b": [False, True]}, epsilon=1.0)["a"]
LUE = LongitudinalUnaryEncoding(range(20), epsilon_infinity=2.0, epsilon_1=1.0)


def unperturbed_codes(m):
    """The symbols that stand for the numbers themselves."""
    return np.full(N, m.symbols // 5, m.reports.dtype)


def read_as(m, other, values=None, **noise):
    """Reports of another mechanism, read as those of ``m``."""
    reports = other.perturb(np.arange(N) % 20 if values is None else values, **noise)
    return Tally(N, other.tally(reports).counters, m.fingerprint)


SHE = SummationHistogramEncoding(range(20), epsilon=1.0)
TEN = RandomizedResponse(range(10), epsilon=1.0)
HYBRID, WAVE = Hybrid((0, 100), epsilon=1.0), SquareWave((0, 100), epsilon=1.0, buckets=64)
COIN, ROUNDING = OneBitMean((0, 10), epsilon=1.0), StochasticRounding((0, 100), epsilon=1.0)
SETS, MANY_SETS = (SubsetSelection(range(20), epsilon=e, k=9) for e in (0.2, 1.0))
HASHES, MANY_HASHES = (LocalHashing(range(20), epsilon=e, variant="binary") for e in (1.0, 2.0))
FLIP, MANY_FLIPS = (DBitFlip(range(20), epsilon_infinity=e, bits=4) for e in (1.0, 4.0))
THREES = [3] * N
VIEWED = ("CMS over candidates", "HCMS over candidates")
MISTAKES = {
    "raw flags": (RR, lambda: RR.tally(RAW_FLAGS)),
    "raw integers": (TEN, lambda: TEN.tally(np.zeros(N, int))),
    "raw one-hot vectors": (OUE, lambda: OUE.tally(one_hot(20))),
    "raw one-hot vectors, symmetric": (SUE, lambda: SUE.tally(one_hot(20))),
    "raw one-hot vectors, longitudinal": (LUE, lambda: LUE.tally(one_hot(20))),
    "raw entries": (SHE, lambda: SHE.tally(np.full((N, 20), 2, np.int8))),
    "raw flags of a sampled column": (SAMPLED, lambda: SAMPLED.tally(pa.array(RAW_FLAGS))),
    "every record answers": (SAMPLED, lambda: SAMPLED.tally(pa.array(np.arange(N) % 2 == 0))),
    "another epsilon of vectors": (OUE, lambda: read_as(OUE, UnaryEncoding(range(20), epsilon=2.0))),
    "a slightly other epsilon of vectors": (OUE, lambda: read_as(OUE, UnaryEncoding(range(20), epsilon=1.1))),
    "another variant": (OUE, lambda: read_as(OUE, SUE)),
    "a larger epsilon of flags": (RR, lambda: read_as(RR, RandomizedResponse(epsilon=2.0), RAW_FLAGS)),
    "a larger epsilon of sets": (SETS, lambda: read_as(SETS, MANY_SETS, THREES)),
    "a larger epsilon of hashes": (HASHES, lambda: read_as(HASHES, MANY_HASHES, THREES)),
    "a larger epsilon of some bits": (FLIP, lambda: read_as(FLIP, MANY_FLIPS, THREES, randomness=keyed(N))),
    "numbers as they are": (HYBRID, lambda: HYBRID.tally(unperturbed_codes(HYBRID))),
    "buckets as they are": (WAVE, lambda: WAVE.tally(unperturbed_codes(WAVE))),
    "bits as they are": (COIN, lambda: COIN.tally(RAW_FLAGS)),
    "another epsilon of rounded numbers": (
        ROUNDING,
        lambda: read_as(ROUNDING, StochasticRounding((0, 100), epsilon=3.0), NUMBERS),
    ),
    **{
        f"the same report of all, {name}": (
            EVERY[name],
            lambda m=EVERY[name]: m.tally(m.perturb(some_values(m, 1)).take(pa.array(np.zeros(N, int)))),
        )
        for name in ("HR", "PGR", "HPGR", "BHR", "OLH", "FLH", *VIEWED, "heavy hitters")
    },
}


@each("name", MISTAKES)
def test_planted_mistakes_are_found(name):
    m, tally = MISTAKES[name]
    said = doubts(m, tally())
    assert len(said) == len(estimates_of(m))
    assert all(f"implausible for {m.title}, epsilon" in text and "never perturbed" in text for text in said)


def test_raw_flags_are_as_many_standard_errors_off_as_arithmetic_says():
    """97 % say no, of which e / (e + 1) is the most that reports can: by hand."""
    p = math.e / (math.e + 1)
    expected = (0.97 * N - N * p) / math.sqrt(N * p * (1 - p))
    assert round(expected) == 76
    [said] = doubts(RR, RR.tally(RAW_FLAGS))
    assert f"which is {expected:,.0f} standard errors away from anything possible" in said


AT_TWO_TIMES = {repr(m): m for m in (RR, OUE, SUE, LocalHashing(range(20), epsilon=2.0), SETS)}


@each("name", AT_TWO_TIMES)
def test_one_keyed_column_at_two_times_is_no_two_columns(name):
    """Of nine in ten the value stays, and its report: a table and products of weights say 144 % of whom 90 % stay."""
    m, users = AT_TWO_TIMES[name], np.arange(N)
    first = some_values(m, N)
    then = pc.if_else(pa.array(users % 10 > 0), first, first.take(pa.array(users[::-1])))
    joint, value = Joint({"x": m, "y": m}), first[0].as_py()

    def heard_of(x, y):
        reports = {"x": m.perturb(first, randomness=x), "y": m.perturb(then, randomness=y)}
        u, w = (m.weights(reports[name], value) for name in ("x", "y"))
        asked = (
            lambda: joint.estimate(joint.tally(reports)),
            lambda: ratio(u * w, w),
            lambda: ratio_of(ratio_sums(u * w, w), 0.95),
        )
        heard = [warned(one) for one in asked]
        return [sum("implausible" in text and "at two times" in text for text in some) for some in heard]

    assert heard_of(keyed(N, 1), keyed(N, 1)) == [1, 1, 1]
    assert heard_of(keyed(N, 1), keyed(N, 2)) == [0, 0, 0]


OF_TWO = {
    repr(m): m
    for m in (
        *(RandomizedResponse(range(size), epsilon=e) for size, e in ((2, 0.5), (3, 0.5), (4, 1.0), (10, 2.0))),
        *(HadamardResponse(range(2), epsilon=e) for e in (1.0, 3.0, 6.0)),
        *(UnaryEncoding(range(5), epsilon=e, variant=v) for e in (0.1, 3.0) for v in ("optimized", "symmetric")),
        SETS,
        HASHES,
    )
}


@each("name", OF_TWO)
def test_products_of_two_columns_are_plausible(name):
    """Of those who have neither value, and by weights a and -a, honest reports were called implausible."""
    m, runs = OF_TWO[name], 40
    x, y = (m.perturb(some_values(m, N), randomness=keyed(N, seed)) for seed in (1, 2))
    a, b = (m.weights(reports, m.domain.values[0]).reshape(runs, -1) for reports in (x, y))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "implausible")
        for u, w in ((a * b, a), ((1 - a) * (1 - b), 1 - a), (a * (1 - b), a)):
            for one, of in zip(u, w, strict=True):
                ratio(one, of)
                total(one)


def warned(question):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        question()
    return [str(one.message) for one in caught]


def test_counts_that_add_up_to_twice_the_records():
    """20,000 vectors with a share of 1s that is that of a smaller epsilon."""
    other = UnaryEncoding(range(20), epsilon=0.8)
    tally = read_as(OUE, other)
    with pytest.warns(LdpWarning):
        total = OUE.estimate(tally).counts.sum()
    expected = N * (other.q - OUE.q) * 19 / (OUE.p - OUE.q) + N  # what wrong bits add
    assert total == pytest.approx(expected, rel=0.05)
    assert total > 1.9 * N
    [said] = doubts(OUE, tally)
    assert "no reports add up to this" in said or "no values make reports say this" in said


# ---- who is told


def test_reports_of_the_same_people_are_plausible_where_that_is_said():
    """500 people with keyed noise who send one answer 30 times each: it was said of 8 to 20 in 20."""
    persons = np.repeat(np.arange(500), 30)

    def heard_of(m, run):
        ask: Any = MeanEstimate if isinstance(m, Averaging) else HistogramEstimate
        reports = np.repeat(m.perturb([1] * 500, randomness=keyed(500, run)), 30, axis=0)
        raw = reports[[np.argmax(reports.reshape(15_000, -1)[:, 0])] * 15_000]
        for answer in (
            lambda: ask().result(m, m.tally(reports)),
            lambda: ask(repeats=30).result(m, m.tally(raw)),
            lambda: ask(repeats=30).result(m, m.tally(reports)),
            lambda: ask().of_persons(m, reports, persons),
            lambda: compare_persons(m, (reports, persons), (reports, persons)),
        ):
            with collecting() as said:
                answer()
            yield bool(said)

    for m in (
        Hybrid((1, 2), epsilon=3.0),
        SubsetSelection(range(8), epsilon=1.0),
        RandomizedResponse(range(4), epsilon=2.0),
    ):
        with case(m):
            unsaid, raw, *said = np.sum([list(heard_of(m, run)) for run in range(20)], axis=0)
            assert unsaid >= 5
            assert (raw, *said) == (20, 0, 0, 0)


def test_quantiles_of_rounded_numbers_are_plausible_where_repeats_are_said():
    """Their distribution knew no repeats=: it was said of 12 in 20."""
    m, heard = StochasticRounding((0, 7), epsilon=1.0, buckets=8), []
    for run in range(20):
        reports = np.repeat(m.perturb([1] * 500, randomness=keyed(500, run)), 30, axis=0)
        for ask in (MedianEstimate(), MedianEstimate(repeats=30), CdfEstimate(repeats=30)):
            with collecting() as said:
                ask.result(m, m.tally(reports))
            heard.append(bool(said))
    unsaid, *said = np.reshape(heard, (20, 3)).sum(axis=0)
    assert unsaid >= 5
    assert said == [0, 0]


def test_persons_of_far_more_reports_than_others_are_plausible():
    """100 of one person say the same of 1,000 values, beside one of each of 2,000 others: it was always said."""
    m, persons = RandomizedResponse(range(1000), epsilon=1.0), np.repeat(np.arange(2001), [100] + [1] * 2000)
    for run in range(5):
        reports = m.perturb(np.arange(2001) % 5, randomness=keyed(2001, run))
        with collecting() as said:
            HistogramEstimate().of_persons(m, reports[persons], persons)
        assert not said
    with collecting() as said:
        HistogramEstimate().of_persons(m, reports[np.zeros(2100, int)], persons)
    assert said


def test_it_is_said_once_a_call_with_the_place_of_the_call():
    with pytest.warns(LdpWarning) as caught:
        RR.estimate(RR.tally(RAW_FLAGS))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    n, counters = np.full(50, N), np.tile(RR.tally(RAW_FLAGS).counters, (50, 1))
    counters[:20] = N // 2
    with pytest.warns(LdpWarning, match="so it is in 30 of 50 estimates") as caught:
        HistogramEstimate().rows(RR, n, counters)
    assert len(caught) == 1
    m = OneBitMean((0, 10), epsilon=1.0)
    with pytest.warns(LdpWarning, match="so it is in 30 of 50 estimates"):
        MeanEstimate().rows(m, n, counters)


def test_of_many_tallies_each_has_a_part_of_the_false_alarms():
    """At the edge of what one tally may be called for, the same tally among a million is not called."""
    coin, n = Term(0.25, 0.75, 0.0, 1.0), 1000
    heads = np.arange(751, 1001)[:, None]
    alone, among = (distances([Sums(heads, n, coin)], tallies=k)[0] > 0 for k in (1, 10**6))
    assert 0 < among.sum() < alone.sum()
    first = heads[np.argmax(among), 0]  # Hoeffding's bound, in exact terms: 2 * 10^6 tests
    assert n * divergence(first / n, 0.75) >= math.log(2e6 / FALSE_ALARMS) > n * divergence((first - 1) / n, 0.75)
