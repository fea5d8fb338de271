"""What the pages name exists, and a user needs nothing but the public names."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))}
PACKAGES = ("ldp_core", "ldp_polars", "ldp_beam", "ldp_plots", "ldp_report", "ldp_cli", "pipelines")
FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs", "examples")
PUBLIC = {"ldp_core", "ldp_polars", "ldp_beam", "ldp_beam.io", "ldp_plots", "ldp_report"}
DOTTED = r"\b(?:ldp_(?:core|polars|beam|plots|report)|pipelines)(?:\.[A-Za-z_]\w*)+"

pytestmark = pytest.mark.docs


def files() -> list[str]:
    there = [f"/{path.relative_to(ROOT).as_posix()}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    return [*there, "/pyproject.toml"]


def test_files_exist():
    there = files()
    others = {"plan.toml", "results.json", "transform_evaluator.py"}  # the reader's, the reader's, Beam's
    for page, text in PAGES.items():
        named = set(re.findall(r"`([a-z_/]+\.(?:py|toml|yaml|json))`", text)) - others
        assert {name for name in named if not any(file.endswith(f"/{name}") for file in there)} == set(), page


def test_dotted_names_exist():
    pages = [re.sub(r"`[^`\n]+` -> ", "", text) for text in PAGES.values()]  # a changelog has old names
    for name in {name for text in pages for name in re.findall(DOTTED, text)}:
        pkgutil.resolve_name(name)


def test_users_import_public_names_only():
    for page, text in PAGES.items():
        blocks = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        modules = set(re.findall(r"^\s*(?:from|import) (ldp_[\w.]+)", blocks, re.MULTILINE))
        assert page == "architecture.md" or modules <= PUBLIC, page
    code = "\n".join(
        (ROOT / name[1:]).read_text(encoding="utf-8") for name in files() if re.match(r"/ldp_.*\.py$", name)
    )
    assert set(re.findall(r">>> (?:from|import) (ldp_[\w.]+)", code)) <= PUBLIC
