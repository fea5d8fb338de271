"""Results to show, and a browser to look at them."""

import datetime as dt
import json

import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    DistributionEstimate,
    HeavyHitters,
    HeavyHittersEstimate,
    Hybrid,
    Prefixes,
    PrivacyPlan,
    SquareWave,
    UnaryEncoding,
)
from ldp_report import RESULTS, about

from . import chromium

N = 6000
EVIL = [
    "<script>document.title='evil'</script>",
    "\"><img src=x onerror=document.title='evil'>",
    "</script>",
    "&lt;b&gt;",
    "'\\",
]
EVIL_COLUMN = "<b>os</b>"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    path = chromium.found()
    if path is None:
        pytest.skip("there is no Chromium here: apt-get install chromium, or LDP_BROWSER names one")
    with chromium.Browser(path, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """A folder as ``ldp estimate --output`` writes it, with four kinds of estimates, and values that are HTML."""
    columns = {
        EVIL_COLUMN: UnaryEncoding([*EVIL, *(f"v{k}" for k in range(20))], epsilon=2.0),
        "minutes": Hybrid((0, 60), epsilon=1.0),
        "length": SquareWave((0, 60), epsilon=2.0),
        "word": HeavyHitters(Prefixes("ab", 2), epsilon=4.0),
    }
    plan = PrivacyPlan(columns, keep=["day"])
    values = columns[EVIL_COLUMN].domain.labels
    frame = pl.DataFrame(
        {
            EVIL_COLUMN: [values[(k * k) % len(values)] for k in range(N)],
            "minutes": [float(k % 60) for k in range(N)],
            "length": [float(k % 60) for k in range(N)],
            "word": ["ab", "ba", "ab"] * (N // 3),
            "day": pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 24), eager=True).to_list() * (N // 24),
        }
    )
    ask = {"word": HeavyHittersEstimate(3, 0.95), "length": DistributionEstimate(0.95)}
    reports = frame.ldp.perturb(plan)
    found = ldp_polars.estimates(reports.lazy(), plan, window="8d", event_time="day", ask=ask)
    folder = tmp_path_factory.mktemp("results")
    for k, (name, estimate) in enumerate(found.items()):
        table = estimate.collect()
        if k:
            table.write_parquet(folder / f"{name}.parquet")
        else:  # a file cannot have this name
            table.with_columns(column_name=pl.lit(name)).write_parquet(folder / "histograms.parquet")
    (folder / RESULTS).write_text(about(plan, 0.95, (dt.date(2024, 1, 1), dt.date(2024, 1, 24))))
    letters = [("os", "late", 3), (EVIL_COLUMN, "<i>null</i>", 2), ("", "not a readable file", 1)]
    keys = ("column_name", "reason", "count")
    lines = [json.dumps(dict(zip(keys, letter, strict=True))) for letter in letters]
    (folder / "dead_letters.ndjson").write_text("\n".join(lines))
    return folder
