"""The site that docs/site.py made in the folder LDP_SITE, on a phone, light and dark; and its menu."""

import os
import re
from pathlib import Path

import pytest

from ..report.conftest import browser  # noqa: F401 (a fixture)

ROOT = Path(__file__).parents[2]
SITE = os.environ.get("LDP_SITE")
PHONE = {"width": 390, "height": 844, "mobile": True}
# (WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio; a canvas makes numbers of any color)
LOWEST = """(() => {
  const g = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (colors) => {
    colors.forEach(color => { g.fillStyle = color; g.fillRect(0, 0, 1, 1) });
    return [...g.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const backs = e => e ? [...backs(e.parentElement), getComputedStyle(e).backgroundColor] : ['white'];
  const words = [...document.querySelectorAll('.md-typeset code, .md-typeset code span')].filter(
    e => [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()));
  return Math.min(21, ...words.map(e => {
    const both = [rgb(backs(e)), rgb([...backs(e), getComputedStyle(e).color])].map(light).sort((a, b) => b - a);
    return (both[0] + 0.05) / (both[1] + 0.05);
  }));
})()"""


def faults(page):
    wide = page.run("document.scrollingElement.scrollWidth") - PHONE["width"]
    contrast = page.run(LOWEST)
    return [*(["scrolls sideways"] if wide > 0 else []), *(["pale code"] if contrast < 4.5 else [])]


@pytest.mark.browser
@pytest.mark.skipif(SITE is None, reason="no site: python docs/site.py, then LDP_SITE=build/site/site")
def test_pages_on_a_phone(browser):  # noqa: F811
    """Planted: gray code, and a wide line."""
    pages = sorted(path for path in Path(SITE).resolve().glob("*.html") if path.name != "404.html")
    assert len(pages) > 40
    found = {}
    for path in pages:
        for dark in (False, True):
            page = browser.page(path.as_uri(), **PHONE, dark=dark)
            found[path.name, dark] = faults(page)
            page.send("Page.close")
    assert {where: wrong for where, wrong in found.items() if wrong} == {}
    page = browser.page(Path(SITE, "polars.html").resolve().as_uri(), **PHONE)
    page.run("document.querySelector('p code').style = 'color: #999; background: #fff; transition: none'")
    page.run("document.querySelector('h1').style.width = '500px'")
    assert faults(page) == ["scrolls sideways", "pale code"]


@pytest.mark.docs
def test_titles_in_the_menu_are_those_of_the_pages():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    titles = dict(re.findall(r'^ +- "?(.+?)"?: (?!notebook)(\S+)\.md$', menu, re.MULTILINE))
    pages = {path.stem.lower(): path for folder in (ROOT, ROOT / "docs") for path in folder.glob("*.md")}
    assert len(titles) > 35
    found = {title: re.match(r"# (.*)", pages[page].read_text(encoding="utf-8"))[1] for title, page in titles.items()}
    assert {title: page for title, page in found.items() if title != page} == {}
