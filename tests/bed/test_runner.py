"""Beam's local streaming runner keeps what is over; ours gives the same results and does not."""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.direct.evaluation_context import EvaluationContext
from apache_beam.runners.direct.transform_evaluator import _PubSubReadEvaluator
from apache_beam.transforms.window import FixedWindows, Sessions

from ldp_beam import Histogram
from tests.bed.runner import LocalRunner

from ..beam.helpers import SURE_BOOL, Collector, on_my_word, run
from ..beam.streams import late_of, stream

STREAMING = ("--streaming",)
FORGETFUL, BEAMS = LocalRunner(), BundleBasedDirectRunner()


def windows(k):
    """Event times and watermarks of k windows of 10 s: each has two batches in time, and one that is late."""
    starts = range(0, 10 * k, 10)
    return [step for start in starts for step in ([start + 5, start + 6], [start + 7], start + 11, [start + 8])]


@pytest.fixture
def kept(monkeypatch):
    """After each bundle: of how many windows there is state, over all steps and keys; and of how many bundles."""
    handle, found = EvaluationContext.handle_result, []

    def look(self, *arguments):
        result = handle(self, *arguments)
        states = [state for keys in self._transform_keyed_states.values() for state in keys.values()]
        steps = self._watermark_manager._transform_to_watermarks.values()
        found.append((sum(len(state.state) for state in states), sum(len(step._pending) for step in steps)))
        return result

    monkeypatch.setattr(EvaluationContext, "handle_result", look)
    return found


def histogram(window):
    return on_my_word(Histogram("v", SURE_BOOL, window=window, event_time="t").with_exception_handling())


def most(kept, runner):
    """Of six windows: the most of which there was state at a time, the rows, and the late records."""
    kept.clear()
    rows, letters = run(histogram(FixedWindows(10)), stream(windows(6)), runner=runner, flags=STREAMING)
    return max(state for state, _ in kept), rows, late_of(letters)


def test_the_state_of_windows_that_are_over_is_dropped(kept):
    ours, rows, late = most(kept, FORGETFUL)
    beams, as_beams, also_late = most(kept, BEAMS)
    assert (rows, late) == (as_beams, also_late)
    assert (len(rows), late) == (12, 6)
    assert ours <= 4  # an open window and the one before, in each of two steps
    assert beams >= 12  # all six


def test_sessions_are_left_to_beam():
    ours, beams = (
        run(histogram(Sessions(2)), stream(windows(3)), runner=r, flags=STREAMING) for r in (FORGETFUL, BEAMS)
    )
    assert ours == beams
    assert ours[0]


class EnoughError(Exception):
    """That many pulls."""


def test_a_pull_that_brings_nothing_leaves_nothing(kept, monkeypatch):
    pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub: pip install 'ldp-telemetry[gcp]'")

    def pull(self, timestamp_attribute):
        if len(kept) >= 50:
            raise EnoughError
        return []

    monkeypatch.setattr(_PubSubReadEvaluator, "_read_from_pubsub", pull)
    found = []
    for runner in (FORGETFUL, BEAMS):
        kept.clear()
        p = beam.Pipeline(runner, options=PipelineOptions(["--streaming"]))
        _ = p | beam.io.ReadFromPubSub(subscription="projects/project/subscriptions/reports") | Collector().sink()
        with pytest.raises(EnoughError):
            p.run().wait_until_finish()
        found.append([bundles for _, bundles in kept])
    ours, beams = found
    assert set(ours) == {1}  # the pull to come
    assert beams == list(range(1, 51))
