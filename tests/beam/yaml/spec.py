"""Pipelines of plain text, and the mechanisms in them."""

import json
from pathlib import Path

import apache_beam as beam
import pytest

pytest.importorskip("jinja2", reason="needs Beam YAML: pip install 'ldp-telemetry[yaml]'")
pytest.importorskip("jsonschema", reason="needs Beam YAML: pip install 'ldp-telemetry[yaml]'")

import yaml as pyyaml
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.yaml.yaml_transform import expand_pipeline

from ldp_beam.yaml import PROVIDERS

from ..helpers import Collector

EXAMPLES = Path(__file__).parents[3] / "pipelines" / "yaml"

# with probability above 1 - 1e-15 these report the truth
BITS = {"mechanism": "unary_encoding", "variant": "symmetric", "epsilon": 120.0}
OS = {**BITS, "domain": ["ios", "android", "web"]}
COIN = {"mechanism": "randomized_response", "epsilon": 80.0, "domain": [False, True]}
WIDE = {**BITS, "domain": list(range(70))}
# reports whether a number was 0 or 10, which the numbers of these tests are
NUMBER = {"mechanism": "one_bit_mean", "epsilon": 80.0, "domain": {"low": 0, "high": 10}}
SKETCH = {"mechanism": "hadamard_count_mean_sketch", "epsilon": 1.0}
TWICE = {"columns": {"os": {**OS, "epsilon": 0.5}}}
LETTERS = {"domain": {"kind": "str"}, "alphabet": "abcdefghijklmnopqrstuvwxyz", "length": 4}
WORD = {"mechanism": "heavy_hitters", "epsilon": 5.0, **LETTERS, "levels": [2, 4], "rows": 8}


def expand(transforms, **outputs):
    """Run a pipeline of these transforms; the elements that come out of the last one, or of the outputs named."""
    pipeline = {"type": "chain", "transforms": transforms}
    if outputs:
        pipeline = {"type": "composite", "transforms": transforms, "output": outputs}
    spec = {"pipeline": pipeline, "providers": [{"include": str(PROVIDERS)}]}
    p = beam.Pipeline("FnApiRunner", options=PipelineOptions([], pickle_library="cloudpickle"))
    out = expand_pipeline(p, pyyaml.safe_dump(spec), validate_schema="none" if outputs else "generic")
    outputs = out if isinstance(out, dict) else {"out": out}
    collectors = {name: Collector() for name in outputs}
    for name, pcoll in outputs.items():
        _ = pcoll | f"Collect {name}" >> collectors[name]
    p.run().wait_until_finish()
    found = {name: collector.elements for name, collector in collectors.items()}
    return found if len(found) > 1 else next(iter(found.values()))


def create(rows):
    return {"type": "Create", "config": {"elements": rows}}


def lines(folder, pattern):
    """The objects in files of lines of JSON."""
    return [json.loads(line) for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()]
