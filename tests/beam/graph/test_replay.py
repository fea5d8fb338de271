"""What is fixed before it leaves keeps its windows, and is all there."""

from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.pvalue import Row
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import Sessions, TimestampedValue

import ldp_beam
from ldp_core import PrivacyPlan

from ..helpers import SURE_BOOL, run
from ..streams import LOCAL, batch, stream, true_panes

PERTURB = ldp_beam.Perturb(PrivacyPlan({"v": SURE_BOOL}, keep=["c"]))


def ends(rows):
    return [(row.window_start.micros // 10**6, row.window_end.micros // 10**6, row.n) for row in true_panes(rows)]


def test_late_records_of_sessions_are_perturbed_too():
    """Within the allowed lateness; a Reshuffle in these windows lost two of four."""
    late = AfterWatermark(late=AfterCount(1))
    sessions = beam.WindowInto(
        Sessions(5), trigger=late, accumulation_mode=AccumulationMode.ACCUMULATING, allowed_lateness=60
    )
    records = stream([0, [1, 2], 20, [3], 25, [4], 40], "single records")
    rows = run(sessions | PERTURB | ldp_beam.Histogram("v", SURE_BOOL), records, **LOCAL)
    assert ends(rows) == [(1, 7, 2), (1, 8, 3), (1, 9, 4)]


def test_sessions_that_have_grown_stay_as_they_are():
    """Records that a step had gathered: put into sessions anew they were in those of their last moment alone."""
    sessions = beam.WindowInto(Sessions(5))
    gathered = (
        beam.Map(lambda record: ("all", record)) | sessions | beam.GroupByKey() | beam.FlatMap(lambda group: group[1])
    )
    records = [TimestampedValue({"v": True, "c": "fr"}, t) for t in (100, 103, 120)]
    rows = run(gathered | PERTURB | ldp_beam.Histogram("v", SURE_BOOL), beam.Create(records) | beam.Map(lambda r: r))
    assert ends(rows) == [(100, 108, 2), (120, 125, 1)]


@pytest.mark.parametrize(
    ("event", "kind"),
    [(batch([1]), pa.RecordBatch), (batch([1]), Any), (Row(v=True, t=1.0, c="fr"), None)],
    ids=["batches", "batches-of-unknown-type", "rows"],
)
def test_what_comes_out_of_a_reshuffle_has_the_coder_of_what_went_in(event, kind):
    """Flink hands on its bytes as they are: it failed at the first report whose noise is repeatable."""
    p = beam.Pipeline("FnApiRunner")
    events = p | beam.Create([event], reshuffle=False)
    events.element_type = kind or events.element_type
    plan = PrivacyPlan({"v": SURE_BOOL}, keep=["c"])
    _ = events | ldp_beam.Perturb(plan, record="t")
    graph = p.to_runner_api().components
    shuffles = [one for one in graph.transforms.values() if one.spec.urn == "beam:transform:reshuffle:v1"]
    assert shuffles
    for one in shuffles:
        before, after = ([graph.pcollections[i].coder_id for i in ends.values()] for ends in (one.inputs, one.outputs))
        assert before == after
