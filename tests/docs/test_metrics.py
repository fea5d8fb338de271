"""The table of metrics in docs/deploy.md names those that the code has, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
CODE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "ldp_beam").rglob("*.py")))


def in_the_code():
    made = re.findall(r'Metrics\.(\w+)\(\s*(?:NAMESPACE|"ldp"),\s*([\w."]+),?\s*\)', CODE)
    assert len(made) == CODE.count("Metrics.")  # none is made in another way
    found = {(kind, name.strip('"')) for kind, name in made if name.startswith('"')}
    assert {name for _, name in made if not name.startswith('"')} == {"limit.counter"}
    return found | {("counter", name) for name in re.findall(r'^    counter = "(\w+)"', CODE, re.MULTILINE)}


def test_the_table_lists_exactly_the_metrics_that_there_are():
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    section = page[page.index("## Metrics") :].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)`(?: \((\w+)\))? \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    assert {(kind or "counter", name) for name, kind, _, _ in rows} == in_the_code()
    assert len(rows) == len(in_the_code())
