"""Browser telemetry, for a colleague who has DuckDB and nothing of this project.

10 million browsers report their name in private, into a Parquet file. The plan writes the query in SQL. DuckDB
answers it with the same numbers as this project.

    pip install '.[polars]' duckdb && python examples/telemetry.py
"""

import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import ldp_polars  # noqa: F401 (gives columns and frames the methods .ldp)
from ldp_core import PrivacyPlan, UnaryEncoding

N = 10_000_000
BROWSERS = ["chrome", "safari", "edge", "firefox", "other"]
SHARES = [0.62, 0.21, 0.09, 0.05, 0.03]


class Step:
    """Say how long something took."""

    def __init__(self, title: str) -> None:
        self.title, self.start = title, time.perf_counter()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        print(f"{time.perf_counter() - self.start:5.1f} s  {self.title}")


with Step(f"made {N:,} browsers"):
    rng = np.random.default_rng(0)
    codes = np.searchsorted(np.cumsum(SHARES[:-1]), rng.random(N), side="right")
    browser = pl.Series(codes, dtype=pl.UInt8).replace_strict(range(5), BROWSERS, return_dtype=pl.Enum(BROWSERS))
    events = pl.DataFrame({"day": pl.Series(rng.integers(1, 8, N), dtype=pl.UInt8), "browser": browser})

# Our side: reports go into a file, without the true values. One report is a word of 64 bits (packed).
# (For five values randomized response has less error. This shows how a database reads bits.)
plan = PrivacyPlan({"browser": UnaryEncoding(BROWSERS, epsilon=1.0)}, keep=["day"])
folder = tempfile.TemporaryDirectory()  # gone at the end
file = Path(folder.name) / "reports.parquet"
with Step("perturbed them, and wrote the reports"):
    events.lazy().ldp.perturb(plan, packed=True).ldp.sink_parquet(file, plan)
print(f"         {file.stat().st_size / 1e6:.0f} MB")

# The colleague's side: one query, which we have sent along.
query = plan.sql("browser", f"read_parquet('{file}')", packed=True, by=["day"])
with Step("DuckDB estimated each day"):
    theirs = duckdb.sql(query).pl()

# The same, with this project.
with Step("so did we"):
    ours = pl.scan_parquet(file).ldp.histograms(plan, by="day").collect()
columns = ["count", "standard_error", "low", "high"]
difference = max((theirs[name] - ours[name]).abs().max() for name in columns)
assert difference < 1e-3, difference  # of a million people a day
print(f"The two differ by at most {difference:.0e} people.\n")

print("Day 1, in DuckDB, next to the truth:")
truth = events.filter(day=1)["browser"].value_counts(name="truth").with_columns(pl.col("browser").cast(pl.String))
day = theirs.filter(day=1).join(truth, left_on="value", right_on="browser", maintain_order="left")
for row in day.iter_rows(named=True):
    print(f"  {row['value']:8} {row['count']:9,.0f}  ({row['low']:9,.0f} to {row['high']:9,.0f})  {row['truth']:9,}")
