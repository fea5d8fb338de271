"""What the Dataflow template starts: ``pipelines/yaml/streaming.yaml``, its blanks filled from the options.

The plan is part of the image: who launches the template chooses topics, not epsilon.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

PARAMETERS = ("subscription", "topic", "unusable")
"""The blanks; the same as in ``metadata.json``."""

SAFE = ("--experiments=disable_always_on_exception_sampling", "--default_sdk_harness_log_level=WARNING")
"""Dataflow would keep the element at which a step failed, to show it: it may be a raw record."""

_PIPELINE = Path(__file__).parents[1] / "yaml" / "streaming.yaml"


def arguments(argv: Sequence[str]) -> list[str]:
    """The command line for ``apache_beam.yaml.main``.

    >>> arguments(["--runner=DataflowRunner"])[-1]
    '--runner=DataflowRunner'
    """
    fixed = [f"--yaml_pipeline_file={_PIPELINE}", f"--jinja_variable_flags={','.join(PARAMETERS)}"]
    return [*fixed, *SAFE, *argv]


if __name__ == "__main__":
    from apache_beam.yaml.main import run

    run(arguments(sys.argv[1:]))
