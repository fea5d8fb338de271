"""One record, one report: repeated bundles, several consumers, several worker processes."""

import subprocess
import sys
import textwrap

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, GlobalWindows

import ldp_beam
from ldp_core import PrivacyPlan, UnaryEncoding

from ..helpers import Collector

# 2^64 patterns: that two draws of a record agree has probability about 1e-15
PLAN = PrivacyPlan({"v": UnaryEncoding(list(range(64)), epsilon=0.01, variant="symmetric")}, keep=["id"])
RECORDS = [{"v": i % 64, "id": i} for i in range(30)]
BATCHES = [pa.RecordBatch.from_pylist(RECORDS[i : i + 10]) for i in range(0, 30, 10)]


def reports_seen(stabilize, elements, windows):
    """What two consumers with side effects see: id -> the distinct reports of the record; and how many sightings."""
    p = beam.Pipeline("FnApiRunner", options=PipelineOptions(["--direct_runner_bundle_repeat=2"]))
    sinks = [Collector(), Collector()]
    reports = p | beam.Create(elements) | beam.WindowInto(windows) | ldp_beam.Perturb(PLAN, stabilize=stabilize)
    for i, sink in enumerate(sinks):
        _ = reports | f"Sink{i}" >> sink | f"Shuffle{i}" >> beam.Reshuffle()
    p.run().wait_until_finish()
    distinct, sightings = {}, 0
    for element in sinks[0].elements + sinks[1].elements:
        for record in element.to_pylist() if isinstance(element, pa.RecordBatch) else [element]:
            distinct.setdefault(record["id"], set()).add(tuple(record["v"]))
            sightings += 1
    assert set(distinct) == set(range(30))
    return distinct, sightings


forms = pytest.mark.parametrize(
    ("elements", "windows"),
    [(RECORDS, GlobalWindows()), (BATCHES, GlobalWindows()), (BATCHES, FixedWindows(10))],
    ids=["single", "batches", "batches in windows"],
)


@forms
def test_a_repeated_bundle_shows_one_report_of_each_record(elements, windows):
    distinct, sightings = reports_seen(True, elements, windows)
    assert sightings > 60, "the bundles were not repeated: the test shows nothing"
    assert all(len(reports) == 1 for reports in distinct.values())


@forms
def test_without_the_reshuffle_it_would_show_several(elements, windows):
    distinct, _ = reports_seen(False, elements, windows)
    assert all(len(reports) > 1 for reports in distinct.values())


@pytest.mark.slow
def test_two_worker_processes_draw_different_noise(tmp_path):
    script = tmp_path / "two_workers.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys, uuid
            import apache_beam as beam
            import ldp_beam
            import pyarrow as pa
            from apache_beam.options.pipeline_options import PipelineOptions
            from ldp_core import PrivacyPlan, UnaryEncoding

            PLAN = PrivacyPlan({"v": UnaryEncoding(list(range(64)), epsilon=0.01)}, keep=["id"])

            class Write(beam.DoFn):
                def process(self, report):
                    batch = isinstance(report, pa.RecordBatch)
                    words = report["v"].flatten().to_pylist() if batch else report["v"]
                    with open(os.path.join(sys.argv[1], uuid.uuid4().hex), "w") as file:
                        file.write("\\n".join(f"{os.getpid()} {word}" for word in words))

            if __name__ == "__main__":
                folder = sys.argv[1]
                class WriteThere(Write):
                    def process(self, report):
                        sys.argv = ["", folder]
                        return Write.process(self, report)
                batches = [pa.record_batch({"v": [5] * 4, "id": [i] * 4}) for i in range(20)]
                records = [{"v": 5, "id": i} for i in range(80)]
                options = PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
                with beam.Pipeline("FnApiRunner", options=options) as p:
                    events = p | beam.Create(batches + records) | "Spread" >> beam.Reshuffle()
                    _ = events | ldp_beam.Perturb(PLAN, packed=True, stabilize=False) | beam.ParDo(WriteThere())
            """
        )
    )
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run([sys.executable, str(script), str(out)], check=True, timeout=100, capture_output=True)
    lines = [line.split() for path in out.iterdir() for line in path.read_text().splitlines()]
    assert len(lines) == 160
    assert len({process for process, _ in lines}) == 2, "one worker had all the work: the test shows nothing"
    # 160 draws of 64 bits, of which one is fair and 63 almost: a collision has probability below 1e-14
    assert len({word for _, word in lines}) == 160
