"""What the pages link to and name is there, and the site shows their formulas as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import markdown
import pytest

from ..cases import each

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:tests|benchmarks|docs|pipelines|ldp_(?:core|polars|beam|plots|report|cli))/[\w./]*)`")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each("page", PAGES)
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


def lost_stars(text: str) -> list[str]:
    """What the site shows as emphasis and is no words: two stars of a formula are missing around it."""
    with_stars = [block for block in CODE.sub("", text).split("\n\n") if re.search(r"\w\*[\s)]", block)]
    shown = markdown.markdown("\n\n".join(with_stars), extensions=["tables"])
    return re.findall(r'<em>([^\w"].*?)</em>', re.sub(r"<code>.*?</code>", "", shown, flags=re.DOTALL))


@each("page", PAGES)
def test_formulas_keep_their_stars(page):
    assert lost_stars(page.read_text(encoding="utf-8")) == []


def test_a_lost_star_is_seen():
    """Planted: stars of a formula that are not escaped."""
    assert lost_stars("the *density*, and (c / N - p*) / (q* - p*)") == [") / (q"]
    assert lost_stars(r"the *density*, and (c / N - p\*) / (q\* - p\*)") == []


def test_tests_that_security_names():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)` in `([\w/.]+)`", text)
    assert named
    for test, file in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
