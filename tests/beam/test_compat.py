"""What is used of Beam's insides is there, and has the shape that is expected."""

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.portability.common_urns import requirements

from ldp_beam._compat import StableInputParDo, knows_stable_input
from ldp_beam.elements.batches import Batch
from ldp_beam.io._kafka_source import OffsetRangeCoder
from ldp_core import InputError
from ldp_core.plans.provenance import NAME

from ..fuzz.entry_points import OTHER_BATCHES, through_the_steps


def test_the_pipeline_says_which_step_requires_stable_input():
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FlinkRunner", "--flink_master=nowhere:1"]))
    values = pipeline | beam.Create([1])
    assert knows_stable_input(values)
    assert not knows_stable_input(beam.Pipeline("FnApiRunner") | beam.Create([1]))
    _ = values | "Once" >> StableInputParDo(beam.DoFn()) | "Often" >> beam.ParDo(beam.DoFn())
    proto = pipeline.to_runner_api()
    assert requirements.REQUIRES_STABLE_INPUT.urn in proto.requirements
    found = {}
    for step in proto.components.transforms.values():
        if step.unique_name in ("Once", "Often"):
            payload = beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload)
            found[step.unique_name] = payload.requires_stable_input
    assert found == {"Once": True, "Often": False}


def test_a_job_service_of_which_nothing_is_known_may_be_flinks():
    for streaming in (False, True):
        options = PipelineOptions(["--runner=PortableRunner", *(["--streaming"] if streaming else [])])
        assert knows_stable_input(beam.Pipeline(options=options) | beam.Create([1])) == streaming


# ---- batches that strangers may send: a step with dead letters goes on, whatever their types are


def test_steps_with_dead_letters_go_on():
    for batch in OTHER_BATCHES:
        through_the_steps(batch)


def test_metadata_of_a_type_that_no_mechanism_has():
    for text in ("{}", '{"mechanism": "none", "domain": [1, 2]}', "[" * 2000, '{"domain": 5}'):
        metadata = {"ARROW:extension:name": NAME, "ARROW:extension:metadata": text}
        fields = [pa.field(name, pa.string(), metadata=metadata) for name in ("v", "w")]
        through_the_steps(pa.record_batch([["a", "b"]] * 2, schema=pa.schema(fields)))


def test_keys_in_views_are_text():
    batch = pa.record_batch({"k": pa.array(["a", None], pa.string_view())})
    assert Batch(batch, None, None).texts("k")[1] == ["a", "null"]


def test_a_damaged_checkpoint_is_refused():
    for data in (b"", b"5", bytes(15), bytes(17), b"\xff" * 16, b"[[0, 5, 9]]", bytes(7) + b"\t" + bytes(8)):
        with pytest.raises(InputError):
            OffsetRangeCoder().decode(data)
