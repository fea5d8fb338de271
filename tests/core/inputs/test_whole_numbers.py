"""Whole numbers as a declaration: cut between them, so that intervals and ranges are of whole numbers."""

import numpy as np
import pyarrow as pa
import pytest

import ldp_polars  # noqa: F401 (the namespace)
from ldp_core import (
    Dates,
    DistributionEstimate,
    DomainError,
    DtypeError,
    HierarchicalHistogram,
    Hybrid,
    Interval,
    Mechanism,
    MedianEstimate,
    NOutput,
    ParameterError,
    PlanError,
    PrivacyPlan,
    QuantilesEstimate,
    RangeEstimate,
    Secret,
    SquareWave,
    WholeNumbers,
    recommend,
)

AGES = WholeNumbers(18, 90)


def test_a_bucket_is_a_whole_number_and_so_are_the_answers():
    m = SquareWave(AGES, epsilon=40.0)  # hardly any noise
    assert m.buckets == 73
    ages = np.repeat([18, 30, 45, 46, 90], [1000, 2000, 3000, 3000, 1000])
    tally = m.tally(m.perturb(ages))
    middle = MedianEstimate().result(m, tally)
    assert middle.median == 45
    assert middle.low <= 45 <= middle.high
    assert float(middle.low).is_integer()
    found = RangeEstimate(ranges=[(30, 45), (46, 46), (60, None)]).result(m, tally)
    assert found.values == ("30 to 45", "46", "60 to 90")
    assert np.all((found.low <= [5000, 3000, 1000]) & (found.high >= [5000, 3000, 1000]))
    assert m.mean(tally).mean == pytest.approx(ages.mean(), abs=0.1)
    coarse = DistributionEstimate(buckets=10).result(m, tally).edges
    assert np.all(coarse % 1 == 0.5)
    empty = MedianEstimate().result(m, m.empty_tally())
    assert (empty.low, empty.high) == (18, 90)


@pytest.mark.slow
def test_intervals_of_whole_numbers_hold():
    """Two populations, one with a third at one age; of 10 tallies each, about a population."""
    m, rng = SquareWave(AGES, epsilon=1.0), np.random.default_rng(3)
    heap = np.full(73, 1.0)
    heap[22] = 36
    for weights in (heap, np.exp(-(((np.arange(73) - 25) / 12) ** 2))):
        shares = weights / weights.sum()
        truth = 18 + int(np.argmax(np.cumsum(shares) >= 0.5))
        low_to_high, medians = [], []
        for _ in range(10):
            tally = m.simulate_values(np.arange(18, 91), rng.multinomial(20_000, shares), rng)
            one = RangeEstimate(30, 45).result(m, tally)
            low_to_high.append(one.low[0] <= 20_000 * shares[12:28].sum() <= one.high[0])
            middle = MedianEstimate().result(m, tally)
            medians.append(middle.low <= truth <= middle.high)
        assert np.mean(low_to_high) >= 0.9
        assert np.mean(medians) >= 0.9


def test_the_declaration_is_kept_and_refuses_what_is_not_whole():
    plan = PrivacyPlan(
        {"age": SquareWave(AGES, epsilon=1.0), "years": Hybrid(WholeNumbers(0, 9, "clip", 3), epsilon=1.0)}
    )
    again = PrivacyPlan.from_toml(plan.to_toml())
    assert again == plan
    assert again["age"].domain == AGES
    assert repr(again["years"].domain) == "WholeNumbers(0, 9, unmatched='clip', missing=3.0)"
    assert Mechanism.from_dict(plan["age"].to_dict()).fingerprint == plan["age"].fingerprint
    assert plan["age"].compiled()["buckets"] == 73
    assert AGES.compiled() == {"kind": "number", "low": 17.5, "high": 90.5, "unmatched": "error", "whole": True}
    assert AGES.outside([18, 18.5, 90, 91]).tolist() == [False, True, False, True]
    with pytest.raises(DomainError, match=r"2 of 3 values are not numbers in \[18, 90\], whole"):
        AGES.encode([18, 18.5, 91])
    clipped = plan["years"].domain
    assert clipped.encode([-5, 0.2, None, 99]).tolist() == clipped.encode([0, 0, 3, 9]).tolist()
    for ends in ((0, 0), (3, 1), (0.5, 2), (True, 5), (0, 1 << 40)):
        with pytest.raises(DomainError):
            WholeNumbers(*ends)
    assert SquareWave(WholeNumbers(0, 9_999), epsilon=1.0, buckets=2000).buckets == 2000
    for wrong, said in (({"buckets": 10}, "buckets must"), ({"domain": WholeNumbers(0, 9_999)}, "too many buckets")):
        with pytest.raises(ParameterError, match=said):
            SquareWave(**{"domain": AGES, "epsilon": 1.0, **wrong})
    wide = SquareWave(WholeNumbers(0, 999), epsilon=40.0)  # more numbers than the grid of quantiles has steps
    found = QuantilesEstimate([0.5]).result(wide, wide.tally(wide.perturb(np.repeat([100, 500], 500))))
    assert found.low[0] <= 100 <= found.high[0]
    rows = {row.key: row for row in recommend(AGES, 1.0, 10_000, ask="median")}
    assert rows["hierarchical_histogram"].mechanism().domain.size == 73
    assert rows["square_wave"].mechanism() == SquareWave(AGES, epsilon=1.0)


def test_a_refused_number_is_told_what_takes_it():
    with pytest.raises(DomainError) as refused:
        NOutput((0, 60), epsilon=1.0).perturb([None, 70.0])
    for said in (
        'Interval(0, 60, unmatched="clip", missing=30)',
        "unmatched is beside the domain, and missing in its",
    ):
        assert said in str(refused.value)
    takes = Interval(0, 60, unmatched="clip", missing=30)
    assert takes.encode([None, 70]).tolist() == Interval(0, 60).encode([30, 60]).tolist()
    plan = '[columns.x]\nmechanism = "n_output"\nepsilon = 1.0\nunmatched = "clip"\ndomain = {}'
    assert PrivacyPlan.from_toml(plan.format("{low = 0, high = 60, missing = 30}")).inputs["x"] == takes
    for beside in ({"unmatched": "clip"}, {"missing": 30}):
        with pytest.raises(ParameterError, match=r"epsilon, and the domain says .* Interval\(\.\.\., unmatched="):
            NOutput((0, 60), epsilon=1.0, **beside)
    with pytest.raises(PlanError, match=r"in TOML \{low = 0, high = 60\}"):
        PrivacyPlan.from_toml(plan.replace('unmatched = "clip"\n', "").format("[0, 60]"))
    with pytest.raises(PlanError, match=r'in TOML \{kind = "str"\}'):
        PrivacyPlan.from_toml('[columns.x]\nmechanism = "count_mean_sketch"\nepsilon = 1.0\ndomain = ["a", "b"]')
    with pytest.raises(ParameterError, match=r"as Dates\(\.\.\., unmatched=\): leave out"):
        HierarchicalHistogram(Dates("2024-01-01", "2025-01-01", every="1mo"), epsilon=1.0, unmatched="clip")
    with pytest.raises(DtypeError, match="integers, text or binary, one a record, got str"):
        PrivacyPlan.from_toml(plan.format("{low = 0, high = 60}")).perturb(
            pa.table({"x": [1.0]}), key=Secret.generate(), id="user"
        )
