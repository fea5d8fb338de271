"""No sentence of the pages is too long for readers whose English is a second language."""

import re
from pathlib import Path

import pytest

from ..cases import each

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
WORDS = 45

CODE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
NO_PROSE = re.compile(r" {4}|\s*(?:#|\||<|>|!\[)")  # formulas, headings, tables, HTML, quotations, pictures
ITEM = re.compile(r"\s*(?:[*-]|\d+\.) ")
END = re.compile(r"(?<=[.?!])[*)\"_]*\s|\n\n")
NAMES = re.compile(r"(?:NAME,? (?:and |or )?)+NAME")


def sentences(text: str) -> list[str]:
    """Of the prose of a page. A piece of code is one word, and so is a list of them."""
    lines = CODE.sub("", text).splitlines()
    prose = "\n".join("\n" if NO_PROSE.match(line) else ITEM.sub("\n\n", line, count=1) for line in lines)
    prose = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "NAME", prose))
    return [NAMES.sub("NAME", " ".join(sentence.split())) for sentence in END.split(prose)]


def too_long(text: str) -> list[str]:
    return [sentence for sentence in sentences(text) if len(sentence.split()) > WORDS]


@each("page", PAGES)
def test_a_page(page):
    assert too_long(page.read_text(encoding="utf-8")) == []
