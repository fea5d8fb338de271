"""What the pages link to and name is there, and the site shows their formulas as they are written."""

import pkgutil
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


def test_tests_that_security_names():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)` in `([\w/.]+)`", text)
    assert named
    for test, file in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


# ---- what the pages name exists, and a user needs nothing but the public names


TEXTS = {path.name: path.read_text(encoding="utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))}
PACKAGES = ("ldp_core", "ldp_polars", "ldp_beam", "ldp_plots", "ldp_report", "ldp_cli", "pipelines")
FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs", "examples")
PUBLIC = {"ldp_core", "ldp_polars", "ldp_beam", "ldp_beam.io", "ldp_plots", "ldp_report"}
DOTTED = r"\b(?:ldp_(?:core|polars|beam|plots|report)|pipelines)(?:\.[A-Za-z_]\w*)+"


def files() -> list[str]:
    there = [f"/{path.relative_to(ROOT).as_posix()}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    return [*there, "/pyproject.toml"]


def test_files_exist():
    there = files()
    others = {"plan.toml", "results.json", "transform_evaluator.py"}  # the reader's, the reader's, Beam's
    for page, text in TEXTS.items():
        named = set(re.findall(r"`([a-z_/]+\.(?:py|toml|yaml|json))`", text)) - others
        assert {name for name in named if not any(file.endswith(f"/{name}") for file in there)} == set(), page


def test_dotted_names_exist():
    pages = [re.sub(r"`[^`\n]+` -> ", "", text) for text in TEXTS.values()]  # a changelog has old names
    for name in {name for text in pages for name in re.findall(DOTTED, text)}:
        pkgutil.resolve_name(name)


def test_users_import_public_names_only():
    for page, text in TEXTS.items():
        blocks = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        modules = set(re.findall(r"^\s*(?:from|import) (ldp_[\w.]+)", blocks, re.MULTILINE))
        assert page == "architecture.md" or modules <= PUBLIC, page
    code = "\n".join(
        (ROOT / name[1:]).read_text(encoding="utf-8") for name in files() if re.match(r"/ldp_.*\.py$", name)
    )
    assert set(re.findall(r">>> (?:from|import) (ldp_[\w.]+)", code)) <= PUBLIC


# ---- the table of metrics in docs/deploy.md names those that the code has, and no others


BEAM = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "ldp_beam").rglob("*.py")))


def in_the_code():
    made = re.findall(r'Metrics\.(\w+)\(\s*(?:NAMESPACE|"ldp"),\s*([\w."]+),?\s*\)', BEAM)
    assert len(made) == BEAM.count("Metrics.")  # none is made in another way
    found = {(kind, name.strip('"')) for kind, name in made if name.startswith('"')}
    assert {name for _, name in made if not name.startswith('"')} == {"limit.counter"}
    return found | {("counter", name) for name in re.findall(r'^    counter = "(\w+)"', BEAM, re.MULTILINE)}


def test_the_table_lists_exactly_the_metrics_that_there_are():
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    section = page[page.index("## Metrics") :].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)`(?: \((\w+)\))? \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    assert {(kind or "counter", name) for name, kind, _, _ in rows} == in_the_code()
    assert len(rows) == len(in_the_code())
