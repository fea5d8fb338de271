"""Plans of pairs in Polars, Beam and on the command line: the same draw, the same table, histograms of each column."""

import datetime as dt

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars
from ldp_beam.io import ReadEvents
from ldp_beam.telemetry.job import TelemetryJob
from ldp_core import (
    Dates,
    DomainError,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
)

from ..beam.helpers import run
from ..cases import case

VALUES = {"os": ["ios", "web", "tv"], "crashed": [False, True], "age": [1, 2, 3, 4]}
PLAN = PrivacyPlan.pairs(VALUES, epsilon=2.0, keep=["g"])
N = 30_000
RNG = np.random.default_rng(3)
EVENTS = pl.DataFrame(
    {
        "os": RNG.choice(VALUES["os"], N, p=[0.6, 0.3, 0.1]),
        "crashed": RNG.random(N) < 0.2,
        "age": RNG.integers(1, 5, N),
        "g": np.arange(N) % 2,
        "id": np.arange(N),
    }
)
SECRET = Secret.generate()


def test_reports_of_one_key_are_the_same_everywhere():
    expected = pa.table(PLAN.perturb(EVENTS[:200], key=SECRET, id=EVENTS["id"][:200].to_arrow())).to_pylist()
    small = EVENTS[:200]
    for packed in (False, True):
        eager = small.ldp.perturb(PLAN, key=SECRET, id="id", packed=packed)
        lazy = small.lazy().ldp.perturb(PLAN, key=SECRET, id="id", packed=packed).collect()
        assert eager.ldp.table("os", "crashed", repeats=1).equals(lazy.ldp.table("os", "crashed", repeats=1))
    [batch] = run(ldp_beam.Perturb(PLAN, key=SECRET, id="id"), [small.to_arrow().to_batches()[0]])
    assert batch.to_pylist() == expected
    singles = run(ldp_beam.Perturb(PLAN, key=SECRET, id="id"), small.to_dicts())
    assert all(sum(row[name] is not None for name in PLAN.columns) == 1 for row in singles)
    by_pair = {name: sum(row[name] is not None for row in singles) for name in PLAN.columns}
    assert by_pair == {name: sum(any(v is not None for v in _flat(row[name])) for row in expected) for name in by_pair}


def _flat(report):
    return report if isinstance(report, list) else [report]


def test_tables_and_histograms(tmp_path):
    reports = EVENTS.ldp.perturb(PLAN)
    table = reports.ldp.table("crashed", "os")
    true = EVENTS.group_by("crashed", "os").len().join(table, on=["crashed", "os"])
    assert len(true) == 6
    assert ((true["count"] - true["len"]).abs() < 5 * true["standard_error"]).all()
    found = reports.ldp.histograms(PLAN, by="g")
    each = reports.lazy().ldp.estimates(PLAN)
    assert list(each) == [*PLAN.columns, *VALUES]
    for name in VALUES:
        whole = each[name].collect()
        true = EVENTS.group_by(name).len().join(whole, left_on=name, right_on="value")
        assert ((true["count"] - true["len"]).abs() < 5 * true["standard_error"]).all()
        assert found.filter(column_name=name)["n"].unique().to_list() == [N // 2]
    whole = reports.ldp.histograms(PLAN, consistency="norm-sub").filter(column_name="os")
    assert (whole["count"].min() >= 0, whole["count"].sum()) == (True, pytest.approx(N))
    asked = reports.ldp.estimates(PLAN, ask={"os": "histogram:simultaneous=true"})
    assert (asked["os"]["high"] > each["os"].collect()["high"]).all()
    assert asked["age"].equals(each["age"].collect())
    rows = run(ldp_beam.Table(["crashed", "os"], PLAN), [pa.table(PLAN.perturb(EVENTS)).to_batches()[0]])
    assert [(r.crashed, r.os) for r in rows] == table.select("crashed", "os").rows()
    assert sum(row.count for row in rows) == pytest.approx(N, rel=0.01)
    reports.ldp.sink_parquet(tmp_path / "reports.parquet", PLAN)
    assert ldp_polars.read_plan(tmp_path / "reports.parquet") == PLAN


def test_dates_have_pairs(tmp_path):
    """Of 18 a report in 10^7 is another one: counts are those of the people, the same of all engines and in a file."""
    months = Dates("2024-01-01", "2024-04-01", every="1mo", unmatched="clip")
    plan = PrivacyPlan.pairs({"born": months, "os": VALUES["os"]}, epsilon=18.0, seed=1)
    born = [dt.date(2023 + k % 2, 1 + k % 12, 1 + k % 28) for k in range(600)]  # (those of 2023 are clipped)
    people = pl.DataFrame({"born": born, "os": EVENTS["os"][:600]})
    reports = people.ldp.perturb(plan)
    clipped = pl.col("born").clip(dt.date(2024, 1, 1), dt.date(2024, 3, 31)).dt.truncate("1mo")
    true = people.group_by(clipped, "os").len().join(reports.ldp.table("born", "os"), on=["born", "os"])
    assert true["count"].round().to_list() == true["len"].to_list()
    assert true["len"].sum() == 600
    assert reports.ldp.histograms(plan).filter(column_name="born")["value"].to_list() == list(months.values)
    reports.ldp.sink_parquet(tmp_path / "reports.parquet", plan)
    assert ldp_polars.read_plan(tmp_path / "reports.parquet") == plan == PrivacyPlan.from_toml(plan.to_toml())
    numbered = people.with_row_index("id").to_dicts()
    rows = run(ldp_beam.Perturb(plan, id="id") | ldp_beam.Table(["born", "os"], plan), numbered)
    assert sorted(round(row.count) for row in rows if row.count > 0.5) == sorted(true["len"])
    declared = plan.to_dict()
    declared["columns"]["born_os"]["first"]["domain"] = {"low": 0, "high": 1}
    with pytest.raises(PlanError, match="a pair is of columns of listed values"):
        PrivacyPlan.from_dict(declared)


def test_keyed_reports():
    """Each person once: the same tables; and twice: the same shares, and errors that are no smaller."""
    reports = EVENTS.ldp.perturb(PLAN, key=SECRET, id="id")
    once = reports.ldp.histograms(PLAN, repeats=1).filter(column_name="os")
    twice = pl.concat([reports, reports]).ldp.histograms(PLAN, repeats=2).filter(column_name="os")
    true = EVENTS["os"].value_counts().join(once, left_on="os", right_on="value")
    assert len(true) == 3
    assert ((true["count"] - true["count_right"]).abs() < 5 * true["standard_error"]).all()
    for name, error in (("frequency", 1e-9), ("frequency_standard_error", 1e-3)):
        assert np.allclose(once[name], twice[name], rtol=error)
    assert list(reports.ldp.estimates(PLAN, repeats=1)) == [*PLAN.columns, *VALUES]
    with pytest.raises(ParameterError, match="repeats=1"):
        reports.ldp.histograms(PLAN)


def test_some_of_the_pairs():
    """A table needs its own pair, and no other."""
    reports = EVENTS.ldp.perturb(PLAN)
    assert reports.select("os_crashed").ldp.table("os", "crashed").equals(reports.ldp.table("os", "crashed"))


def test_simulations():
    """Of frames and of mappings, with the shares of the pairs of the data."""
    for found in (EVENTS.ldp.simulate(PLAN, seed=1), PLAN.simulate(EVENTS, seed=1)):
        assert list(found) == list(PLAN.columns)
        pairs = EVENTS.group_by("os", "crashed").len()
        labels = [f'["{name}", {str(crashed).lower()}]' for name, crashed in pairs.select("os", "crashed").rows()]
        assert dict(found.people["os_crashed"]) == dict(zip(labels, pairs["len"], strict=True))
        cells = found["os_crashed"]
        assert np.abs(cells.counts - [dict(found.people["os_crashed"])[v] for v in cells.values]).max() < 1500
    assert PLAN.simulate(EVENTS, n=10**6, seed=1)["os_age"].n == 10**6


def test_private_columns_of_events(tmp_path):
    """What a pair is made from is a private column in Beam, too, though no column of reports has its name."""
    path = str(tmp_path / "events.parquet")
    other = PrivacyPlan({"os": RandomizedResponse(VALUES["os"], epsilon=1.0)}, keep=["crashed", "age", "g"])
    EVENTS.head(10).ldp.perturb(other).ldp.sink_parquet(path, other)
    with pytest.raises(MechanismMismatchError, match="'os'"):
        ReadEvents(path, PLAN)
    EVENTS.head(10).write_parquet(path)
    options = {"plan": PLAN, "inputs": (path,), "window": "1d", "output": "unused"}
    for kind, changes, message in (
        (PlanError, {"event_time": "age"}, "perturbs 'age'"),
        (MechanismMismatchError, {"event_time": "g", "by": ("os",)}, r"columns \['os'\] hold reports"),
        (PlanError, {"event_time": "g", "id": "os", "key": Secret.generate}, "id column 'os'"),
    ):
        with case(message), pytest.raises(kind, match=message):
            TelemetryJob(**{**options, **changes})


def test_what_is_refused():
    for call, error, message in (
        (lambda: EVENTS.drop("age").ldp.perturb(PLAN), PlanError, "'age'"),
        (lambda: PLAN.perturb(EVENTS.with_columns(os=pl.lit("mac"))), DomainError, "'os'"),
        (lambda: EVENTS.ldp.perturb(PLAN).ldp.perturb(PLAN), PlanError, "do not have"),
        (lambda: EVENTS.ldp.perturb(PLAN).ldp.table("os", "g"), ParameterError, "private columns"),
        (lambda: EVENTS.ldp.perturb(PLAN).ldp.table("os", "age", "crashed"), ParameterError, "fit_tables"),
        (lambda: ldp_beam.Table(["os", "crashed"], PLAN, by="age"), PlanError, "'age'.* private"),
        (lambda: ldp_beam.PrivateTable(["os", "crashed"], PLAN), ParameterError, "private columns"),
        (lambda: EVENTS.ldp.perturb(PLAN).ldp.histograms(PLAN, by="os_age"), MechanismMismatchError, "os_age"),
        (lambda: EVENTS.ldp.perturb(PLAN).with_columns(EVENTS["os"]).ldp.histograms(PLAN, by="os"), PlanError, "raw"),
        (lambda: EVENTS.ldp.perturb(PLAN).ldp.histograms(PLAN, person="g"), ParameterError, "repeats=k"),
        (lambda: EVENTS.ldp.perturb(PLAN).ldp.estimates(PLAN, ask={"os": "mean"}), ParameterError, "no mean"),
        (lambda: PLAN.simulate({name: dict.fromkeys(of, 1) for name, of in VALUES.items()}), PlanError, "row by row"),
    ):
        with case(message), pytest.raises(error, match=message):
            call()
