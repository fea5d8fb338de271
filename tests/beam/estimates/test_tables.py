"""Tables of two columns in Beam: what the core says, per window and key, of batches and of single records."""

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespace)
from ldp_beam.io import estimate_line
from ldp_core import (
    Joint,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    TableEstimate,
    UnaryEncoding,
)

from ...cases import case
from ..helpers import run

PLAN = PrivacyPlan(
    {"os": UnaryEncoding(["ios", "web"], epsilon=2.0), "crashed": RandomizedResponse(epsilon=2.0)}, keep=["k", "t"]
)
PAIR = Joint(PLAN.columns)
N = 600
PEOPLE = pa.record_batch(
    {
        "os": ["ios", "web", "web"] * (N // 3),
        "crashed": [True, False] * (N // 2),
        "k": ["x"] * 500 + ["y"] * 100,
        "t": [i % 20 for i in range(N)],
    }
)
REPORTS = PLAN.perturb(PEOPLE)
OPTIONS = {"window": 10, "event_time": "t", "by": ["k"]}


def test_what_the_core_says():
    for elements in ([REPORTS], REPORTS.slice(0, 300).to_pylist() + REPORTS.slice(300).to_pylist()):
        rows = run(ldp_beam.Table(["os", "crashed"], PLAN, population="many", **OPTIONS), elements)
        assert len(rows) == 2 * 2 * 4
        for key in "xy":
            for start in (0, 10):
                some = REPORTS.filter((np.array(REPORTS["k"]) == key) & (np.array(REPORTS["t"]) // 10 * 10 == start))
                table = PAIR.estimate(PAIR.tally(some), population="many").to_arrow()
                mine = [r for r in rows if r.key == {"k": key} and r.window_start.micros == start * 10**6]
                assert [{n: getattr(r, n) for n in table.column_names} for r in mine] == table.to_pylist()
    assert {row.column_name for row in rows} == {"os, crashed"}
    assert {row.fingerprint for row in rows} == {PAIR.fingerprint}
    assert "rate_low" in estimate_line(rows[0])


def test_three_columns():
    plan = PrivacyPlan({**PLAN.columns, "k": RandomizedResponse(["x", "y"], epsilon=2.0)}, keep=["t"])
    reports, joint = plan.perturb(PEOPLE), Joint(plan.columns, ["k", "os", "crashed"])
    rows = run(ldp_beam.Table(joint.names, plan, window=10, event_time="t"), [reports])
    for start in (0, 10):
        table = joint.estimate(joint.tally(reports.filter(np.array(reports["t"]) // 10 * 10 == start))).to_arrow()
        mine = [row for row in rows if row.window_start.micros == start * 10**6]
        assert [{n: getattr(r, n) for n in table.column_names} for r in mine] == table.to_pylist()
    assert {row.column_name for row in rows} == {"k, os, crashed"}


def test_one_column_of_pairs():
    """What Polars makes of all pairs that hold it, by the name of the column."""
    plan = PrivacyPlan.pairs({"os": ["ios", "web"], "crashed": [False, True], "k": ["x", "y"]}, epsilon=2.0)
    frame = pl.DataFrame(PEOPLE).ldp.perturb(plan)
    for made in (plan, plan.columns):
        rows = run(ldp_beam.Histogram("os", made), [frame.to_arrow()])
        names = ["value", "count", "standard_error", "n"]
        wanted = frame.ldp.histograms(plan).filter(column_name="os").select(names).rows()
        assert [tuple(getattr(row, name) for name in names) for row in rows] == wanted
        assert {row.column_name for row in rows} == {"os"}
    [one] = {row.n for row in run(ldp_beam.Histogram("os_k", plan), [frame.to_arrow()])}
    assert one == N
    for make, error, message in (
        (lambda: ldp_beam.Histogram("zip", plan), ParameterError, "no reports of column 'zip', but of"),
        (lambda: ldp_beam.Histogram("os", plan, person="t"), ParameterError, "say repeats=k"),
        (lambda: ldp_beam.Histogram("os", plan, by=["crashed"]), PlanError, r"\['crashed'\] are private"),
        (lambda: ldp_beam.Histogram("os", plan, consistency="mle-apx"), ParameterError, "several have a part"),
    ):
        with case(message), pytest.raises(error, match=message):
            make()


def test_keyed_noise_asks_how_often_a_person_is_there():
    """Of a `Perturb` before, and of batches that say so."""
    noise = {"key": Secret(bytes(32)), "id": "t"}
    metadata = pl.DataFrame(PEOPLE).ldp.perturb(PLAN, **noise).to_arrow().to_batches()
    for before, elements in ((ldp_beam.Perturb(PLAN, **noise), [PEOPLE]), (None, metadata)):
        tables = [ldp_beam.Table(["os", "crashed"], PLAN, repeats=repeats) for repeats in (None, 1, 4)]
        unsaid, *said = (table if before is None else before | table for table in tables)
        with pytest.raises(ParameterError, match="say repeats=1"):
            run(unsaid, elements)
        once, four = ([row.standard_error for row in run(chain, elements)] for chain in said)
        assert four == pytest.approx([2 * error for error in once])


def test_values_and_bad_elements():
    rows = run(ldp_beam.PrivateTable(["os", "crashed"], PLAN, **OPTIONS), [PEOPLE])
    assert sum(row.n for row in rows) == 4 * N
    combined = ldp_beam.EstimateCombineFn(PAIR, TableEstimate())
    total = combined.merge_accumulators(
        combined.add_input(combined.create_accumulator(), PAIR.tally(part)) for part in (REPORTS[:9], REPORTS[9:])
    )
    assert combined.extract_output(total) == PAIR.estimate(PAIR.tally(REPORTS))
    records = [*REPORTS.to_pylist()[:8], {"os": [True, True], "crashed": None}, {"os": 7, "crashed": True}]
    with beam.Pipeline("FnApiRunner") as p:
        table = ldp_beam.Table(["os", "crashed"], PLAN).with_exception_handling()
        good, bad = p | beam.Create(records) | table
        _ = good | beam.Map(lambda row: row.n) | beam.CombineGlobally(sum) | beam.Map(_is, 4 * 8)
        _ = bad | beam.combiners.Count.Globally() | "bad" >> beam.Map(_is, 2)


def _is(found, expected):
    assert found == expected


def test_what_is_refused():
    other = {**PLAN.columns, "crashed": RandomizedResponse(epsilon=1.0)}
    odd = dict.fromkeys(["my os", "class", "_os"], RandomizedResponse(epsilon=1.0))
    for call, error, message in (
        (lambda: ldp_beam.Table(["os", "os"], PLAN), ParameterError, "each of them once"),
        (lambda: ldp_beam.Table(["os", "k"], PLAN), ParameterError, r"got \['k'\]"),
        (lambda: ldp_beam.Table(["os", "crashed"], "plan"), PlanError, "plan must be"),
        (lambda: ldp_beam.Table(["os", "crashed"], PLAN, by=["os"]), ParameterError, "'os, crashed' cannot be"),
        (lambda: ldp_beam.Table([*odd], odd), ParameterError, r"\['my os', 'class', '_os'\] cannot be fields"),
        (lambda: run(ldp_beam.Table(["os", "crashed"], other), [REPORTS]), MechanismMismatchError, "'crashed'"),
        (lambda: run(ldp_beam.PrivateTable(["os", "crashed"], PLAN), [REPORTS]), MechanismMismatchError, "already"),
    ):
        with case(message), pytest.raises(error, match=message):
            call()
    perturbed = beam.Pipeline("FnApiRunner") | beam.Create([PEOPLE]) | ldp_beam.Perturb(PLAN)
    with pytest.raises(MechanismMismatchError, match="'crashed'"):
        perturbed | ldp_beam.Table(["os", "crashed"], other)


def test_what_says_where_a_record_is_counted_is_no_private_column():
    """A planned column in ``by`` was told exactly, and reports as event times or persons gave wrong numbers."""
    day, v = RandomizedResponse(range(3), epsilon=0.5), RandomizedResponse(["a", "b"], epsilon=2.0)
    plan = PrivacyPlan({"v": v, "w": v, "day": day})
    batch = pa.record_batch({"v": ["a", "b"] * 50, "w": ["a"] * 100, "day": [i % 3 for i in range(100)]})
    in_windows = {"window": "1s", "event_time": "day"}
    for options in ({"by": ["day"]}, in_windows, {"key": Secret(bytes(32)), "id": "day"}):
        with case(options), pytest.raises(PlanError, match=r"\['day'\] are private, says the plan"):
            ldp_beam.PrivateTable(["v", "w"], plan, **options)
    ldp_beam.PrivateTable(["v", "w"], plan, event_time="day")  # (which is not read without a window)
    reports = plan.perturb(batch)
    for options in ({"by": ["day"]}, in_windows, {"person": "day"}):
        asked = {"histogram": ldp_beam.Histogram("v", v, **options)}
        if "person" in options:
            asked |= {"compare": ldp_beam.Compare("v", v, **options, window="1s")}
        else:
            asked |= {"table": ldp_beam.Table(["v", "w"], {"v": v, "w": v}, **options)}
            with case(options), pytest.raises(MechanismMismatchError, match=r"\['day'\] hold reports, says the plan"):
                ldp_beam.Table(["v", "w"], plan, **options)
        with case(options), pytest.raises(MechanismMismatchError, match=r"\['day'\] hold reports, says the plan"):
            ldp_beam.Histogram("v", plan, **options)
        for name, transform in asked.items():
            with case(name, options), pytest.raises(MechanismMismatchError, match=r"\['day'\] hold reports, says the"):
                run(transform, [reports])  # as files have them
            with case(name, options), pytest.raises(MechanismMismatchError, match="says the Perturb before this step"):
                _ = beam.Pipeline() | beam.Create([batch]) | ldp_beam.Perturb(plan) | transform
