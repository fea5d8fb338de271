"""The comparison of the fault tests sees what it is there for: here nothing runs, and the faults are planted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

pytest.importorskip("confluent_kafka")

from ldp_beam.elements.faults import NOT_A_BATCH, TOO_LARGE
from ldp_beam.io.messages import Decoder
from ldp_core.limits import Limits

from .flink_faults import Append
from .flink_stream import MESSAGE_BYTES, PAYS, PERIOD, RECORDS, WINDOW, Comparison, Made, _bytes, bounded, cells

START = 1_780_000_000  # a multiple of WINDOW and PERIOD


@pytest.fixture
def served(tmp_path):
    """A folder, what was made for a period and a window; and what the files would say: rows, and records passed."""
    made = Made()
    for second in range(PERIOD + WINDOW):
        made.messages(START + second + 0.999999)
        made.records += RECORDS
    frame = made.frame()
    rows = [[*cell, "ON_TIME", n, count, 0.0] for cell, (n, count) in cells(frame).items()]
    paid = bounded(frame).filter(pl.int_range(pl.len()).over("period", "person") < PAYS)
    seconds = paid["t"].dt.epoch("s")
    passed = np.stack([paid["person"], paid["id"], seconds, paid["id"] % 7], axis=1)
    return (tmp_path, made), rows, passed


def compared(stream, rows, passed):
    folder, made = stream
    for row in rows:
        Append(folder / "rows").process(_bytes(row))
    Append(folder / "passed").process(passed)
    return Comparison(made, folder)(START + PERIOD)


def test_the_poison_is_of_these_kinds():
    made = Made()
    decoder = Decoder("arrow", limits=Limits(bytes=MESSAGE_BYTES))
    found = decoder.decode([made._poison(kind, np.zeros(1, np.int64)) for kind in range(4)])
    assert [{letter.reason: letter.count for letter in part.letters} for part in found] == [
        {NOT_A_BATCH: 1, TOO_LARGE: 1}
    ]
    assert set(made.poisoned.values()) == {1, 10}


def test_a_stream_that_came_whole_passes(served):
    figures = compared(*served)
    assert figures["windows"] == (PERIOD + WINDOW) / WINDOW
    assert figures["records"] == (PERIOD + WINDOW) * RECORDS
    assert (figures["rows told again"], figures["reports told again"]) == (0, 0)


def test_what_has_been_compared_is_forgotten(served):
    (folder, made), rows, passed = served
    Append(folder / "passed").process(passed)
    for row in rows:
        Append(folder / "rows").process(_bytes(row))
    compare = Comparison(made, folder)
    figures = compare(START + PERIOD - 1)
    assert figures["windows"] == PERIOD / WINDOW
    assert made.frame()["period"].unique().to_list() == [START, START + PERIOD]  # of the first not all was compared
    assert compare(START + PERIOD)["windows"] == 1
    assert made.frame()["period"].unique().to_list() == [START + PERIOD]  # it has not ended


def test_what_is_told_again_in_the_same_words_is_counted(served):
    stream, rows, passed = served
    figures = compared(stream, [*rows, rows[3]], np.concatenate([passed, passed[:5]]))
    assert (figures["rows told again"], figures["reports told again"]) == (1, 5)


@pytest.mark.parametrize("place", [4, 5], ids=["n", "count"])
def test_a_cell_that_differs_by_the_least_is_seen(served, place):
    stream, rows, passed = served
    rows[7][place] = rows[7][place] + 1 if place == 4 else float(np.nextafter(rows[7][place], 0))
    with pytest.raises(AssertionError, match=r"1 of \d+ cells differ"):
        compared(stream, rows, passed)


def test_a_pane_told_again_with_another_row_is_seen(served):
    stream, rows, passed = served
    other = [*rows[7][:5], 1.5, 0.0]
    with pytest.raises(AssertionError, match="told again with other rows"):
        compared(stream, [other, *rows], passed)


def test_an_early_pane_of_more_records_than_the_last_is_seen(served):
    stream, rows, passed = served
    early = [*rows[7][:3], "EARLY", rows[7][4] + 1, 0.0, 0.0]
    with pytest.raises(AssertionError, match="told again with other rows"):
        compared(stream, [early, *rows], passed)


def test_a_person_over_the_budget_is_seen(served):
    stream, rows, passed = served
    person, counts = np.unique(passed[:, 0], return_counts=True)
    spent = passed[passed[:, 0] == person[counts.argmax()]][:1].copy()
    more = np.repeat(spent, PAYS, axis=0)
    more[:, 1] = -1 - np.arange(PAYS)  # other records
    with pytest.raises(AssertionError, match="the budget pays for"):
        compared(stream, rows, np.concatenate([passed, more]))


def test_two_reports_of_a_record_are_seen(served):
    stream, rows, passed = served
    other = passed[:1].copy()
    other[0, 3] += 1
    with pytest.raises(AssertionError, match="two reports of a record"):
        compared(stream, rows, np.concatenate([passed, other]))
