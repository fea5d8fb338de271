"""Events, a plan and a secret; and the reports that Polars makes of them with keyed noise."""

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa

import ldp_polars  # noqa: F401 (registers the namespace)
from ldp_core import Dates, Domain, PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding

SECRET = Secret(bytes(range(32)))
PLAN = PrivacyPlan(
    {
        "os": UnaryEncoding(Domain(["ios", "android"], unmatched="other"), epsilon=1.0),
        "crashed": RandomizedResponse(epsilon=1.0),
        "hour": RandomizedResponse(range(24), epsilon=1.0),
        "day": UnaryEncoding(Dates("2024-01-01", "2024-12-30", "2w", unmatched="other"), epsilon=1.0),
    },
    keep=["n"],
)
N = 500


def events() -> pa.RecordBatch:
    k = np.arange(N)
    return pa.record_batch(
        {
            "n": k,
            "user": [f"user {i % 100}" for i in range(N)],
            "os": pa.array([["ios", "android", "web", None][i % 4] for i in range(N)]),
            "crashed": k % 3 == 0,
            "hour": k % 24,
            "day": np.datetime64("2024-01-01") + k,
        }
    )


def polars_reports() -> list[tuple]:
    """What Polars makes of the events: the plan's rows."""
    reports = pl.from_arrow(pa.Table.from_batches([events()])).ldp.perturb(PLAN, key=SECRET, id="user")
    return of_frame(reports)


def of_frame(reports: pl.DataFrame) -> list[tuple]:
    rows = reports.select("n", "os", "crashed", "hour", "day").rows()
    return [(n, tuple(os), crashed, hour, tuple(day)) for n, os, crashed, hour, day in rows]


def rows_of(report) -> list[tuple]:
    records = report.to_pylist() if isinstance(report, pa.RecordBatch) else [report]
    records = [r if isinstance(r, dict) else r._asdict() for r in records]
    return [(r["n"], tuple(r["os"]), r["crashed"], r["hour"], tuple(r["day"])) for r in records]


ELEMENTS = {
    "batch": lambda: [events()],
    "batches": lambda: [events()[:123], events()[123:]],
    "dicts": lambda: events().to_pylist(),
    "rows": lambda: [beam.Row(**record) for record in events().to_pylist()],
}
