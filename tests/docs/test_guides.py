"""The blocks of the guides run one after the other, and print what is shown."""

import re
from pathlib import Path

import pytest

from ldp_core import PrivacyPlan

from ..beam import cheap_pipelines  # noqa: F401 (changes Beam when it is imported)
from ..cases import each
from .test_readme import without_noise

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
PYTHON = re.compile(
    r"```python\n(.*?)```(?:\n\n</details>)?"
    r"(?:\n\n(<!-- but for the noise -->\n\n)?(?:```text\n(.*?)```|<!-- printed -->\n\n((?:\|[^\n]*\n)+)))?",
    re.DOTALL,
)
TOML = re.compile(r"```toml\n(.*?)```", re.DOTALL)
# these are tested with what they are about; and live.md's block needs files
ELSEWHERE = {"architecture", "live", "plots"}
# what only the extra `test` brings
NEEDED = {"sql": ["duckdb"]}
# what is printed and not shown, because rows of Beam come in any order
PRINTED = {"numbers": ["True", "True", "fr", "it"]}
SLOW = {"beam", "several_reports", "heavy_hitters", "numbers", "tables", "compare", "sets", "several_columns"}
"""These take longest; what they show is tested in rooms of its own."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else [])
        for page, text in PAGES.items()
        if PYTHON.search(text) and page not in ELSEWHERE
    ],
)
def test_python(page, capsys):
    for package in NEEDED.get(page, []):
        pytest.importorskip(package)
    names: dict = {}
    others = []
    for code, noisy, text, table in PYTHON.findall(PAGES[page]):
        shown = text or table
        exec(compile(code, f"{page}.md", "exec"), names)
        printed = capsys.readouterr().out
        same = without_noise if noisy else str.splitlines
        assert not shown or same(printed) == same(shown)
        others += [] if shown else sorted(printed.split())
    assert page not in PRINTED or others == PRINTED[page]


@each("page", ["audit", "sketches", "rappor", "numbers", "heavy_hitters"])
def test_a_plan_in_toml_can_be_copied(page):
    plan = PrivacyPlan.from_toml(TOML.findall(PAGES[page])[0])
    assert PrivacyPlan.from_toml(plan.to_toml()) == plan
