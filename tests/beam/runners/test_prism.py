"""The streaming suite on Prism, Beam's portable local runner in Go: what holds there, and where Prism 2.77 deviates.

Prism comes as a Go binary: ``go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0``. It is looked for at
``LDP_PRISM``, then where Go installs, then on the PATH; without one the tests are skipped.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue

import ldp_beam
from ldp_beam.persons.transforms import BoundContributions, Deduplicate
from ldp_core import RandomizedResponse, UnaryEncoding

from ...across import keyed
from ..estimates.test_empty_and_late import LATENESSES, histogram
from ..estimates.test_transforms import BOTH
from ..helpers import SURE, SURE_BOOL, Collector, name, run, table
from ..streams import LATE_AND_LATER, LOCAL, batch, counted, late_of, ns, stream, true_panes


def find_prism() -> str | None:
    """The path of the binary, if there is one."""
    given = os.environ.get("LDP_PRISM")
    if given:
        return given
    go = shutil.which("go")
    if go is not None:
        folder = subprocess.run([go, "env", "GOPATH"], capture_output=True, text=True, check=False).stdout.strip()
        if folder and (Path(folder) / "bin" / "prism").is_file():
            return str(Path(folder) / "bin" / "prism")
    return shutil.which("prism")


BINARY = find_prism()
FLAGS = (f"--prism_location={BINARY}", "--environment_type=LOOPBACK")
PRISM = {"runner": "PrismRunner", "flags": FLAGS}

pytestmark = [
    pytest.mark.prism,
    pytest.mark.skipif(BINARY is None, reason="there is no prism binary: set LDP_PRISM, or go install it"),
]

KINDS = [ldp_beam.Histogram, ldp_beam.PrivateHistogram]
WINDOWS = [FixedWindows(10), FixedWindows(10, offset=3), SlidingWindows(20, 10), SlidingWindows(15, 5, 2), Sessions(2)]


def deviates(reason, raises=AssertionError):
    """Prism 2.77.0 does something else than Beam's model; the test says what the model says."""
    return pytest.mark.xfail(strict=True, raises=raises, reason=f"Prism 2.77.0: {reason}")


def events(low, high, n=2000, parts=4, decimals=6):
    rng = np.random.default_rng(0)
    return [
        pa.record_batch(
            {
                "v": rng.choice(["a", "b", "c"], n),
                "t": np.round(rng.uniform(low, high, n), decimals),
                "c": rng.choice(["fr", "it"], n),
            }
        )
        for _ in range(parts)
    ]


def histograms(rows):
    return {
        place: {value: (row.n, round(row.count, 6)) for value, row in values.items()}
        for place, values in table(rows).items()
    }


def pipeline():
    return beam.Pipeline("PrismRunner", options=PipelineOptions(list(FLAGS)))


# ---- bounded input


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", [(), ("c",)], ids=["all", "by"])
@pytest.mark.parametrize("window", WINDOWS, ids=name)
def test_windows_of_batches_are_those_of_the_local_runner(window, by, kind):
    elements = events(100, 300)
    if isinstance(window, Sessions):  # whole milliseconds, and no two events exactly a gap apart: see below
        elements = [
            pa.record_batch({"v": ["a", "b"], "t": [t, t + 0.5], "c": ["fr", "it"]})
            for t in (100.0, 101.25, 110.5, 111)
        ]
    transform = kind("v", SURE, window=window, event_time="t", by=by)
    expected = histograms(run(transform, elements))
    assert len(expected) > 1
    assert histograms(run(transform, elements, **PRISM)) == expected


def test_n_is_exact_whatever_the_noise():
    mechanism = UnaryEncoding(["a", "b", "c"], epsilon=1.0)
    rows = run(ldp_beam.PrivateHistogram("v", mechanism, window=10, event_time="t"), events(0, 50), **PRISM)
    times = np.concatenate([batch["t"].to_numpy() for batch in events(0, 50)])
    assert ns(rows) == {(10 * w, 10 * w + 10): int(np.sum(times // 10 == w)) for w in range(5)}


@pytest.mark.parametrize("elements", keyed.ELEMENTS)
def test_keyed_reports_are_those_of_polars_bit_for_bit(elements):
    with pipeline() as p:
        perturb = ldp_beam.Perturb(keyed.PLAN, key=keyed.SECRET, id="user")
        reports = p | beam.Create(keyed.ELEMENTS[elements](), reshuffle=False) | perturb
        collector = Collector()
        _ = reports | beam.FlatMap(keyed.rows_of) | "Collect" >> collector
    assert sorted(map(_tuples, collector.elements)) == sorted(keyed.polars_reports())


def _tuples(row):
    return tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row)


def test_errors_reach_us_through_prism_without_the_value(caplog):
    mechanism = RandomizedResponse(["a", "b"], epsilon=1.0)
    with pytest.raises(RuntimeError, match="DomainError") as caught:
        run(ldp_beam.PrivateHistogram("v", mechanism), [{"v": "s3cr3t"}], **PRISM)
    assert "s3cr3t" not in str(caught.value)
    assert "DomainError" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_state_of_contributions_and_duplicates():
    people = [{"user": i % 3, "n": i, "t": float(i)} for i in range(30)]
    kept = run(BoundContributions("user", 2, window=15, event_time="t"), people, **PRISM)
    assert len(kept) == 3 * 2 * 2
    source = Stream().advance_watermark_to(0)
    for _ in range(3):
        source.add_elements([TimestampedValue({"id": f"x{i}", "v": "a", "t": float(i)}, i) for i in (1, 2, 3)])
    source.advance_watermark_to_infinity()
    once = run(Deduplicate("id", within="1h", event_time="t"), source, **PRISM)
    assert sorted(record["t"] for record in once) == [1, 2, 3]


def test_a_hundred_thousand_reports_from_kafka_are_counted_exactly():
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka: pip install 'ldp-telemetry[kafka]'")
    from ..io import test_kafka
    from ..io.mock_broker import MockBroker

    broker = MockBroker()
    n, messages = 100_000, 250
    batch = pa.record_batch({"os": [f"os{i * i % 16}" for i in range(n)], "t": np.arange(n) // 1000})
    reports = test_kafka.PLAN.perturb(batch)
    parts = [reports.slice(i * n // messages, n // messages) for i in range(messages)]
    test_kafka.send(broker, "reports", [(test_kafka.encode(part), i % 2, 0) for i, part in enumerate(parts)])
    read = test_kafka.ReadKafka(broker.servers, "reports", stop_at="latest", max_batch=40)
    rows = run(ldp_beam.Histogram("os", test_kafka.OS, window=10, event_time="t"), read, **PRISM)
    assert ns(rows) == {(10 * w, 10 * w + 10): 10_000 for w in range(10)}
    broker.stop()


# ---- streams


@pytest.mark.parametrize("form", ["batches", "single records"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mode", "late"), [(AccumulationMode.ACCUMULATING, 4), (AccumulationMode.DISCARDING, 1)])
def test_default_panes(form, kind, mode, late):
    transform = kind("v", SURE_BOOL, window=10, event_time="t", allowed_lateness="20s", accumulation_mode=mode)
    rows = run(transform, stream(LATE_AND_LATER, form), **PRISM)
    true = true_panes(rows)
    assert [(row.pane_timing, row.n, row.pane_index) for row in true] == [("ON_TIME", 3, 0), ("LATE", late, 1)]
    assert [round(row.count, 9) for row in true] == [row.n for row in true]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (SlidingWindows(20, 10), {(-10, 10): 2, (0, 20): 4, (10, 30): 2}),
        (Sessions(5), {(1, 9): 2, (13, 20): 2}),
    ],
    ids=name,
)
def test_overlapping_and_merging_windows_of_a_stream(window, expected):
    histogram = ldp_beam.Histogram("v", SURE_BOOL, window=window, event_time="t")
    rows = run(histogram, stream([0, [1, 4, 15], 12, [13]]), **PRISM)
    assert ns(rows) == expected


@pytest.mark.parametrize("form", ["stream", "bounded"])
def test_empty_windows_are_filled(form):
    transform = ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", fill=(0, 50))
    rows = run(transform, stream([0, [1], 35, [36]]) if form == "stream" else [batch([1, 36])], **PRISM)
    assert ns(rows) == {(0, 10): 1, (10, 20): 0, (20, 30): 0, (30, 40): 1, (40, 50): 0}


def test_an_endless_fill_goes_on_until_it_is_cancelled():
    now = int(time.time())
    collector = Collector()
    p = pipeline()
    transform = ldp_beam.Histogram("v", SURE_BOOL, window=1, event_time="t", fill=(now - 3, None))
    _ = p | beam.Create([batch([now - 1.5])]) | transform | "Collect" >> collector
    result = p.run()
    deadline = time.monotonic() + 60
    while len(collector.elements) < 6 * 2 and time.monotonic() < deadline:
        time.sleep(0.05)  # the pipeline runs in other threads, which tell nobody
    state = result.state
    result.cancel()
    assert state == "RUNNING"
    found = {start - now: n for (start, _), n in ns(list(collector.elements)[: 6 * 2]).items()}
    assert len(found) == 6
    assert found.pop(-2) == 1
    assert set(found.values()) == {0}


@pytest.mark.parametrize("form", ["batches", "single records"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("lateness", "expected", "late"), LATENESSES)
def test_records_that_come_too_late_are_dead_letters(form, kind, lateness, expected, late):
    source = stream([0, [1, 2], 12, [3], 16, [4, 13], 21, [25], 45], form)
    good, dead = run(histogram(kind, allowed_lateness=lateness), source, **PRISM)
    assert counted(good) == expected
    assert late_of(dead) == late


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lateness", [0, 7])
def test_read_is_counted_plus_late(lateness, seed):
    """For Prism, as for Java's runners, a record is late at its window's last instant; see `test_empty_and_late`."""
    rng = random.Random(f"{seed} {lateness}")
    watermark, steps, expected, late = 100, [100], defaultdict(int), 0
    for _ in range(30):
        if rng.random() < 0.4:
            watermark += rng.randrange(1, 12)
            steps.append(watermark)
            continue
        times = [watermark + rng.randrange(-70, 20) for _ in range(rng.randrange(1, 5))]
        steps.append(times)
        for t in times:
            start = t - t % 10
            if watermark >= start + 10 + lateness:
                late += 1
            else:
                expected[start] += 1
    good, dead = run(histogram(allowed_lateness=lateness), stream(steps), **PRISM)
    assert counted(good) == expected
    assert late_of(dead) == late > 0


# ---- where Prism deviates


@deviates("panics (assignment to entry in nil map) for windows before 1970", RuntimeError)
def test_windows_before_1970():
    transform = ldp_beam.Histogram("v", SURE, window=10, event_time="t")
    assert histograms(run(transform, events(-9, -1), **PRISM)) == histograms(run(transform, events(-9, -1)))


@deviates("cuts the ends of sessions to milliseconds, and panics where that takes two sessions for one", RuntimeError)
def test_sessions_of_microseconds():
    transform = ldp_beam.Histogram("v", SURE, window=Sessions(1), event_time="t")
    assert histograms(run(transform, events(100, 300), **PRISM)) == histograms(run(transform, events(100, 300)))


@deviates("joins sessions of events exactly a gap apart, which the Python and Java runners keep apart")
def test_sessions_that_touch():
    transform = ldp_beam.Histogram("v", SURE_BOOL, window=Sessions(5), event_time="t")
    assert ns(run(transform, [batch([1, 6])], **PRISM)) == {(1, 6): 1, (6, 11): 1}


@pytest.mark.parametrize(
    ("options", "panes"),
    [
        pytest.param(
            {},
            [("EARLY", 2), ("EARLY", 3), ("ON_TIME", 3), ("LATE", 4)],
            marks=deviates("AfterWatermark(early, late) fires a late record three times: EARLY, ON_TIME and LATE"),
            id="accumulating",
        ),
        pytest.param(
            {"accumulation_mode": AccumulationMode.DISCARDING},
            [("EARLY", 2), ("EARLY", 1), ("ON_TIME", 0), ("LATE", 1)],
            marks=deviates("has no ON_TIME pane if it would be empty"),
            id="discarding",
        ),
    ],
)
def test_early_and_late_panes(options, panes):
    options = {"trigger": BOTH, "allowed_lateness": "20s", **options}
    transform = ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", **options)
    rows = run(transform, stream(LATE_AND_LATER), **PRISM)
    true = true_panes(rows)
    assert true[-1].n == panes[-1][1]
    assert [(row.pane_timing, row.n) for row in true] == panes


@pytest.mark.parametrize(
    ("steps", "panes"),
    [
        pytest.param(
            [0, [1], 12, [2], 13, [3], 14],
            [("ON_TIME", 1), ("LATE", 2), ("LATE", 3)],
            marks=deviates("late records wait until the lateness is over, and come in one pane"),
            id="one for each late batch",
        ),
        pytest.param(
            [0, [1], 50],
            [("ON_TIME", 1)],
            marks=deviates("when the lateness is over, a window without late records has its pane again, as LATE"),
            id="none without late records",
        ),
    ],
)
def test_default_late_panes(steps, panes):
    rows, _ = run(histogram(allowed_lateness=20), stream(steps), **PRISM)
    true = true_panes(rows)
    assert [(row.pane_timing, row.n) for row in true] == panes


@deviates("with sliding windows and allowed lateness, takes records after a window's last pane; they replace its tally")
def test_too_late_for_some_of_its_sliding_windows():
    transform = histogram(window=SlidingWindows(15, 5, 2), allowed_lateness=7)
    source = [0, [21, 22, 31], 35, [21], 38, [22], 40, [23]]
    good, _ = run(transform, stream(source), **LOCAL)
    expected = counted(good)
    good, _ = run(transform, stream(source), **PRISM)
    assert counted(good) == expected
