"""The notebooks of examples/ show what their code gives now, are short, and are where readers look for them."""

import json
import re

import pytest

from ..cases import each
from .test_make import DOCS, SCRIPT

NOTEBOOKS = {path.stem: path for path in SCRIPT["NOTEBOOKS"]}


@pytest.mark.slow  # of a wrong number see below
@each("name", NOTEBOOKS)
def test_a_notebook_shows_what_its_code_gives(name):
    for package in ("polars", "altair"):
        pytest.importorskip(package)
    path = NOTEBOOKS[name]
    assert SCRIPT["executed"](path) == path.read_text(encoding="utf-8"), "run: python docs/make.py"


def test_a_wrong_number_is_found(tmp_path):
    """Planted: 0.1 for a share that is printed, in the text and not in the code."""
    text = NOTEBOOKS["tables"].read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"][:2]
    found = tmp_path / "wrong.ipynb"
    found.write_text(json.dumps({"cells": cells}).replace("0.497", "0.1"), encoding="utf-8")
    assert SCRIPT["executed"](found) != found.read_text(encoding="utf-8")
    assert "0.497" in SCRIPT["executed"](found)


@each("name", NOTEBOOKS)
def test_a_notebook_is_short_and_has_its_line_and_no_place_of_ours(name):
    text = NOTEBOOKS[name].read_text(encoding="utf-8")
    cells = json.loads(text)["cells"]
    assert len(cells) <= 12
    assert re.match(r"# \w", cells[0]["source"][0])
    assert re.search(r"(?<![\w.<:/])/\w+/|file:/", text) is None  # no absolute path, of whatever machine
    assert f"](../examples/notebooks/{name}.ipynb)" in (DOCS / "examples.md").read_text(encoding="utf-8")
    said = "".join(line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"])
    for target in re.findall(r"\]\(\.\./\.\./docs/([\w.]+)", said):
        assert (DOCS / target).is_file()
