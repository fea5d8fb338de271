"""On Flink the watermark of a source moves while the source reads. A pipeline without a line of ours."""

import itertools
import time

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.io.unbounded_source import ReadFromUnboundedSource, UnboundedReader, UnboundedSource
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from .flink_faults import PATIENCE, Job, until

pytestmark = pytest.mark.flink


class Mark:
    def finalize_checkpoint(self):
        pass


class TicksReader(UnboundedReader):
    def start(self):
        return self.advance()

    def advance(self):
        time.sleep(0.01)
        self.now = Timestamp.now()
        return True

    def get_current(self):
        return 1

    def get_current_timestamp(self):
        return self.now

    def get_watermark(self):
        return self.now

    def get_checkpoint_mark(self):
        return Mark()


class Ticks(UnboundedSource):
    """Always has an element, whose time is now."""

    def create_reader(self, options, checkpoint_mark):
        return TicksReader()

    def get_checkpoint_mark_coder(self):
        return beam.coders.PickleCoder()

    def default_output_coder(self):
        return VarIntCoder()


def test_windows_close_while_a_source_reads(flink_cluster, tmp_path):
    path = tmp_path / "windows"

    def tell(pair):
        with path.open("a") as file:
            file.write(f"{time.time()}\n")
        return pair

    def build(p):
        _ = (
            p
            | ReadFromUnboundedSource(Ticks(), max_read_time_seconds=0.5)
            | beam.WindowInto(FixedWindows(1))
            | beam.Map(lambda one: ("all", one))
            | beam.CombinePerKey(sum)
            | beam.Map(tell)
        )

    flags = flink_cluster.pipeline_flags(streaming=True, checkpoint_every=3600.0, parallelism=1)
    with Job(flink_cluster, build, flags):
        until(lambda: path.exists() and len(path.read_text().split()) >= 10, PATIENCE, "ten windows")
        # by default it is 1 GB, and in every checkpoint
        options = [file.read_text() for file in (flink_cluster.directory / "tmp").rglob("OPTIONS-*")]
        assert {"max_manifest_file_size=262144" in text for text in options} == {True}
    times = [float(line) for line in path.read_text().split()]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    print(f"seconds between windows: {', '.join(f'{gap:.1f}' for gap in gaps)}")  # noqa: T201 (pytest -s shows it)
    assert max(gaps) < 10
