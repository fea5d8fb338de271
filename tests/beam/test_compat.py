"""What is used of Beam's insides is there, and has the shape that is expected."""

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.portability.common_urns import requirements

from ldp_beam._compat import StableInputParDo, knows_stable_input


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
