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
FILES = [f"/{path.relative_to(ROOT).as_posix()}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
FILES.append("/pyproject.toml")
PUBLIC = {"ldp_core", "ldp_polars", "ldp_beam", "ldp_beam.io", "ldp_plots", "ldp_report"}
each = pytest.mark.parametrize("page", PAGES)


@each
def test_files_exist(page):
    named = set(re.findall(r"`([a-z_/]+\.(?:py|toml|yaml|json))`", PAGES[page]))
    others = {"plan.toml", "results.json", "transform_evaluator.py"}  # the reader's, the reader's, Beam's
    assert {name for name in named - others if not any(file.endswith(f"/{name}") for file in FILES)} == set()


@each
def test_dotted_names_exist(page):
    for name in set(
        re.findall(r"\b(?:ldp_(?:core|polars|beam|plots|report)|pipelines)(?:\.[A-Za-z_]\w*)+", PAGES[page])
    ):
        pkgutil.resolve_name(name)


@each
def test_users_import_public_names_only(page):
    blocks = "\n".join(re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL))
    modules = set(re.findall(r"^\s*(?:from|import) (ldp_[\w.]+)", blocks, re.MULTILINE))
    assert page == "architecture.md" or modules <= PUBLIC


def test_examples_of_docstrings_import_public_names_only():
    code = "\n".join((ROOT / name[1:]).read_text(encoding="utf-8") for name in FILES if re.match(r"/ldp_.*\.py$", name))
    assert set(re.findall(r">>> (?:from|import) (ldp_[\w.]+)", code)) <= PUBLIC
