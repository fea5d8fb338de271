"""Plans of pairs on the command line: what Polars says of them."""

from pathlib import Path

import polars as pl

from ldp_core import PrivacyPlan

from ..across.test_pairs import EVENTS, PLAN, VALUES


def test_the_command_line(ldp):
    EVENTS[:3000].write_parquet("people.parquet")
    Path("plan.toml").write_text(PLAN.to_toml())
    ldp("plan check plan.toml people.parquet")
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    reports = pl.read_parquet("reports.parquet")
    [found] = ldp("estimate reports.parquet --table os,crashed --json").data["columns"].values()
    expected = reports.ldp.table("os", "crashed").to_dicts()
    assert [{k: v for k, v in row.items() if k != "value"} for row in found["estimates"]] == expected
    assert list(ldp("estimate reports.parquet --json").data["columns"]) == [*PLAN.columns, *VALUES]
    ldp("estimate reports.parquet --output out")
    assert len(pl.read_parquet("out/os.parquet")) == 3
    for only in ("os_crashed", "os"):
        assert list(ldp(f"estimate reports.parquet --column {only} --json").data["columns"]) == [only]
    assert list(ldp("estimate reports.parquet --repeats 1 --json").data["columns"]) == [*PLAN.columns, *VALUES]
    halves = ldp("compare reports.parquet --by g --column os_age --json").data
    assert {row["column_name"] for row in halves} == {"os_age"}
    ldp("plan new made.toml -c os=ios,web,tv -c crashed=false,true -c age=1..4 --epsilon 2 --keep g --way pairs")
    assert PrivacyPlan.from_toml("made.toml") == PLAN
