"""docs/api.md is what its script makes, has every public name, and each has an example that runs (as a doctest)."""

from __future__ import annotations

import inspect
import re
import runpy
import typing
from importlib import import_module
from pathlib import Path

import pytest

from ldp_core import LdpError

DOCS = Path(__file__).parents[1] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "make_api.py"))
GROUPS = SCRIPT["GROUPS"]
PUBLIC = [(package, name) for package in GROUPS for name in import_module(package).__all__]

NO_EXAMPLE = {
    ("ldp_beam.io", "ReadPubSub"),  # they need a server
    ("ldp_beam.io", "WritePubSub"),
    ("ldp_beam", "PrivateHeavyHitters"),  # the example is that of `HeavyHitters`
    ("ldp_polars", "find_heavy_hitters"),  # `heavy_hitters`
}


def test_the_page_is_what_the_script_makes():
    assert (DOCS / "api.md").read_text(encoding="utf-8") == SCRIPT["page"](), "run: python docs/make_api.py"


@pytest.mark.parametrize("package", GROUPS)
def test_every_public_name_is_there_once(package):
    listed = [name for _, names in GROUPS[package].values() for name in names.split()]
    assert sorted(listed) == sorted(import_module(package).__all__)


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)]+)\)", SCRIPT["page"]())
    assert len(targets) > len(GROUPS)
    assert [target for target in targets if not (DOCS / target).is_file()] == []


@pytest.mark.parametrize(("package", "name"), PUBLIC, ids=str)
def test_every_public_name_is_documented(package, name):
    summary = SCRIPT["summary"](package, name)
    assert summary.endswith(".")
    value = getattr(import_module(package), name)
    if callable(value):
        assert summary == value.__doc__.strip().splitlines()[0]
        assert has_example(value) == ((package, name) not in NO_EXAMPLE), "an example, or an entry in NO_EXAMPLE"


def has_example(value) -> bool:
    """Of its own (a class does not inherit it), or nothing that a reader could make: bases, errors, rows, options."""
    made_by_others = inspect.isclass(value) and (
        inspect.isabstract(value)
        or issubclass(value, (LdpError, tuple))
        or typing.is_typeddict(value)
        or getattr(value, "_is_protocol", False)
    )
    return made_by_others or ">>> " in vars(value).get("__doc__", value.__doc__)
