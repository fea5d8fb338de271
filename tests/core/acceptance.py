"""Numbers that others computed: closed forms, what peers print, worked examples (`acceptance.json`)."""

import json
from pathlib import Path

import pytest

ACCEPTANCE = json.loads((Path(__file__).parent / "acceptance.json").read_text())
PEERS = ACCEPTANCE["epsilon_from_parameters"]
close = pytest.approx


def exactly(value):
    return close(value, rel=1e-12, abs=0)
