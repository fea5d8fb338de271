"""People who report again: intervals by person, as those of the core, per window and key."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.trigger import AfterWatermark
from apache_beam.transforms.window import Sessions, SlidingWindows

import ldp_beam
from ldp_beam.estimates._persons import PersonsCombineFn
from ldp_core import (
    DistributionEstimate,
    HistogramEstimate,
    Hybrid,
    MeanEstimate,
    ParameterError,
    PrivacyPlan,
    RandomizedResponse,
    SquareWave,
    StochasticRounding,
    Tally,
    UnaryEncoding,
    compare_persons,
)
from ldp_core.estimates.clusters import tallies_of

from ..helpers import SURE_BOOL, on_my_word, run, run_with_result
from ..streams import LOCAL, late_of, stream, true_panes

RNG = np.random.default_rng(3)
N = 1500
PLAN = PrivacyPlan(
    {"os": UnaryEncoding(["a", "b"], epsilon=1.0), "age": Hybrid((0, 100), epsilon=1.0)}, keep=["user", "day", "of"]
)
RECORDS = pa.record_batch(
    {
        "os": RNG.choice(["a", "b"], N),
        "age": RNG.uniform(0, 100, N),
        "user": [f"person {i}" for i in RNG.integers(0, 60, N)],
        "day": RNG.integers(0, 20, N) * 1.0,
        "of": RNG.choice(["x", "y"], N),
    }
)
REPORTS = PLAN.perturb(RECORDS)
SOURCES = {"batches": [REPORTS.slice(i, 100) for i in range(0, N, 100)], "records": REPORTS.to_pylist()}


@pytest.mark.slow
def test_rows_are_those_of_the_core():
    """In fixed and sliding windows, per key; of batches and of single records."""
    at, keys = REPORTS["day"].to_numpy(), REPORTS["of"].to_numpy(zero_copy_only=False)
    cases = {
        "os": (HistogramEstimate(0.9), {"window": 10}, (0, 10), 10),
        "age": (MeanEstimate(), {"window": SlidingWindows(10, 5)}, (-5, 0, 5, 10, 15), 10),
    }
    for (name, (question, how, starts, length)), source in zip(cases.items(), SOURCES.values(), strict=True):
        m = PLAN[name]
        estimate = ldp_beam.Estimate(name, m, question, event_time="day", by="of", person="user", **how)
        rows = run(estimate, source)
        seen = set()
        for start, key in product(starts, "xy"):
            there = (at >= start) & (at < start + length) & (keys == key)
            some = REPORTS.filter(pa.array(there))
            found = question.of_persons(m, some[name], some["user"]).to_arrow().to_pylist()
            mine = [row for row in rows if (row.window_start.micros // 10**6, row.key["of"]) == (start, key)]
            assert len(mine) == len(found)
            for row, expected in zip(mine, found, strict=True):
                for field, value in expected.items():
                    assert getattr(row, field) == pytest.approx(value), (name, start, field)
            seen |= {(start, key)}
        assert {(row.window_start.micros // 10**6, row.key["of"]) for row in rows} == seen


@pytest.mark.filterwarnings("ignore:implausible:UserWarning")
def test_values_empty_windows_and_bad_ids():
    m = RandomizedResponse(epsilon=1.0)
    records = [{"crashed": i % 3 == 0, "user": i % 40 if i else None, "t": 1.0} for i in range(121)]
    estimate = ldp_beam.Estimate(
        "crashed", m, private=True, person="user", window=10, event_time="t", fill=("1970-01-01T00:00Z", 20)
    )
    (rows, letters), _ = run_with_result(estimate.with_exception_handling(), records)
    assert sorted((row.window_start.micros, row.n) for row in rows.elements if row.value) == [(0, 120), (10**7, 0)]
    assert [(letter.column_name, letter.count) for letter in letters.elements] == [("user", 1)]
    whole = run(ldp_beam.Estimate("crashed", m, private=True, person="user"), records[1:])  # (in the input's window)
    assert {row.n for row in whole} == {120}
    first = next(row for row in rows.elements if row.n and row.value)
    alone = HistogramEstimate(population="many").result(m, Tally(120, np.array([120, 0]), m.fingerprint))
    assert first.standard_error > alone.standard_errors[0] * 0.9


def test_sums_do_not_depend_on_how_they_are_split():
    for name, question in (("os", HistogramEstimate()), ("age", MeanEstimate())):
        m = PLAN[name]
        native = m._checked(REPORTS[name], name)
        codes = np.unique(REPORTS["user"].to_pylist(), return_inverse=True)[1]
        [(n, counted)] = tallies_of(m, native, codes, codes.max() + 1)
        combine, each = (
            PersonsCombineFn(m, question),
            [Tally(int(a), b, m.fingerprint) for a, b in zip(n, counted, strict=True)],
        )
        parts = []
        for some in (each[:7], each[7:], []):
            part = combine.create_accumulator()
            for one in some:
                part = combine.add_input(part, one)
            parts.append(part)
        assert not combine.extract_output(combine.merge_accumulators([]))[
            0
        ].n  # (of a window that closes again, on Flink)
        tally, sums = combine.extract_output(combine.merge_accumulators(parts))
        whole = question.person_sums(m, n, counted)
        assert tally.n == N
        for a, b in zip(sums, whole, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        expected = question.of_persons(m, REPORTS[name], REPORTS["user"])
        np.testing.assert_allclose(question.of_sums(m, tally, sums).low, expected.low, rtol=1e-9)


def test_what_would_count_a_person_twice_is_refused():
    m = RandomizedResponse(epsilon=1.0)
    for how in (
        {"window": 10, "trigger": AfterWatermark()},
        {"window": 10, "allowed_lateness": 5},
        {"window": Sessions(10)},
    ):
        with pytest.raises(ParameterError, match="has one pane"):
            run(ldp_beam.Estimate("crashed", m, person="user", event_time="t", **how), [])
    waves, rounded = SquareWave((0, 1), epsilon=1.0), StochasticRounding((0, 1), epsilon=1.0)
    for mechanism, question, said in (
        (m, HistogramEstimate(population=50), "sample of many"),
        (waves, DistributionEstimate(), "does not tell persons apart"),
        (rounded, MeanEstimate(), "as in Polars"),
    ):
        with pytest.raises(ParameterError, match=said):
            ldp_beam.Estimate("x", mechanism, question, person="user")
    with pytest.raises(ParameterError, match="cannot be event time or key"):
        ldp_beam.Estimate("x", m, person="x")


def test_a_record_that_comes_as_its_window_ends_is_late():
    """The local streaming runner takes it, in a second pane, where all people of the first one counted once more."""
    estimate = ldp_beam.Histogram("v", SURE_BOOL, person="c", window=10, event_time="t").with_exception_handling()
    rows, letters = run(on_my_word(estimate), stream([0, [1, 2], 10, [3], [4, 11], 20]), **LOCAL)
    assert [(row.window_start, row.n) for row in true_panes(rows)] == [(0, 2), (10, 1)]
    assert late_of(letters) == 2


@pytest.mark.slow
def test_windows_are_compared_by_person():
    """Those of the core, of people who are in both windows, per key; with several panes a refusal."""
    at, keys = REPORTS["day"].to_numpy(), REPORTS["of"].to_numpy(zero_copy_only=False)
    for name, source in zip(("os", "age"), SOURCES.values(), strict=True):
        how = {"window": 10, "event_time": "day", "by": "of", "person": "user"}
        rows = run(ldp_beam.Compare(name, PLAN[name], **how), source)
        assert {row.key["of"] for row in rows} == {"x", "y"}
        for key in "xy":
            sides = (REPORTS.filter(pa.array((at // 10 == k) & (keys == key))) for k in (0, 1))
            found = compare_persons(PLAN[name], *((side[name], side["user"]) for side in sides))
            mine = [row for row in rows if row.key["of"] == key]
            for field, expected in found.to_polars().to_dict(as_series=False).items():
                if field != "value":
                    assert [getattr(row, field) for row in mine] == pytest.approx(expected, nan_ok=True), field
    with pytest.raises(ParameterError, match="leave out trigger"):
        run(ldp_beam.Compare("os", PLAN["os"], **how, allowed_lateness=5), [])
    for wrong, said in (({"repeats": 1}, "leave out same_people"), ({"quantiles": [0.5]}, "quantiles do not tell")):
        with pytest.raises(ParameterError, match=said):
            ldp_beam.Compare("age", PLAN["age"], **how, **wrong)
