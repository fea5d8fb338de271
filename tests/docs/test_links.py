"""What the pages link to and name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:tests|benchmarks|docs|pipelines|ldp_(?:core|polars|beam|plots|report|cli))/[\w./]*)`")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page(page):
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    # FAMILY and NAME are for the reader to fill in
    named = [name for name in NAMED.findall(text) if not re.search("[A-Z]{4}", name)]
    wrong = [name for name in named if not (ROOT / name).exists()]
    for target in LINK.findall(text):
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            wrong.append(target)
    assert wrong == []


def test_tests_that_security_names():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)` in `([\w/.]+)`", text)
    assert named
    for test, file in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
