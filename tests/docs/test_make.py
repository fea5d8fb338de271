"""What docs/make.py makes, docs/api.md and README's table; the catalog is whole; public names have an example."""

import inspect
import re
import runpy
import sys
import typing
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from ldp_core import LdpError, Mechanism
from ldp_core.mechanisms.catalog import CATALOG, examples, mechanisms_of_size

from ..cases import each

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "make.py"))
GROUPS = SCRIPT["GROUPS"]
PUBLIC = [(package, name) for package in GROUPS for name in import_module(package).__all__]

NO_EXAMPLE = {
    ("ldp_beam.io", "ReadPubSub"),  # they need a server
    ("ldp_beam.io", "WritePubSub"),
}
VIEWS = {"candidates", "rappor_candidates", "sampled_column", "sampled_number", "sampled_pair", "fake_data_column"}
"""Names of mechanisms that are made from another one, and never chosen."""
ENTRIES = pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.mechanism.__name__)


def test_the_pages_are_what_the_script_makes():
    again = "run: python docs/make.py"
    assert (DOCS / "api.md").read_text(encoding="utf-8") == SCRIPT["page"](), again
    for path, made in ((DOCS.parent / "README.md", SCRIPT["table"]()), (DOCS / "poisoning.md", SCRIPT["poisoning"]())):
        text = path.read_text(encoding="utf-8")
        assert made in text, again
        assert SCRIPT["within"](text, made) == text, again


def test_the_tables_of_poisoning_have_every_mechanism_and_the_numbers_of_reference():
    rows = [row.strip("| ").split(" | ") for row in SCRIPT["poisoning"]().splitlines() if row.startswith("| ")]
    names = [row[0] for row in rows if row[0] not in ("mechanism", "---")]
    assert set(names) == set(mechanisms_of_size(16, 1.0))
    cells = {row[0]: dict(zip(SCRIPT["SIZES"], row[1:], strict=True)) for row in reversed(rows)}  # (moves, not gains)
    at = (1.0, 16)
    found = {name: cells[name][at].split(" / ")[0] for name in ("OUE", "randomized response", "SHE", "RAPPOR")}
    assert found == {"OUE": "3.16", "randomized response": "9.73", "SHE": "44", "RAPPOR": "no bound"}
    assert cells["randomized response"][0.1, 1024].startswith("9,728 / ")


def test_every_mechanism_is_in_the_catalog_once():
    ours = {name: m for name, m in Mechanism._registry.items() if m.__module__.startswith("ldp_core.")}
    listed = Counter(entry.mechanism for entry in CATALOG)
    assert listed == Counter(mechanism for name, mechanism in ours.items() if name not in VIEWS)
    assert {type(m) for m in examples().values()} == set(listed)


@ENTRIES
def test_an_entry_tells_the_folder_and_the_page(entry):
    assert entry.mechanism.__module__.split(".")[2] == entry.family.replace(" ", "_")
    assert re.search(rf"\b{entry.mechanism.__name__}\b", (DOCS / f"{entry.page}.md").read_text(encoding="utf-8"))
    [row] = [row for row in SCRIPT["table"]().splitlines() if f"`{entry.mechanism.__name__}`" in row] or [None]
    assert (row is None) == (entry.question is None)
    assert row is None or (row.startswith(f"| {entry.question} |") and f"(docs/{entry.page}.md)" in row)


FORM = ["Report", "Probabilities", "Epsilon", "Variance", "Test", "Source", "Good to know"]


@each("entry", [entry for entry in CATALOG if entry.page == "mechanisms"])
def test_a_mechanism_has_its_proof_and_its_test_beside_it(entry):
    page = (DOCS / "mechanisms.md").read_text(encoding="utf-8")
    section = page.partition(f"\n### {entry.mechanism.__name__}")[2].partition("\n#")[0]
    assert re.findall(r"^- \*\*(.+?):\*\*", section, re.MULTILINE) == FORM
    tests = DOCS.parent / "tests" / "core" / "mechanisms" / "oracles"
    named = [tests / name for name in re.findall(r"`(test_\w+\.py)`", section)]
    assert any(entry.mechanism.__name__ in path.read_text(encoding="utf-8") for path in named)


@each("package", GROUPS)
def test_every_public_name_is_there_once(package):
    listed = [name for _, names in GROUPS[package].values() for name in names.split()]
    assert sorted(listed) == sorted(import_module(package).__all__)


@each(("package", "name"), PUBLIC)
def test_every_public_name_is_documented(package, name):
    summary = summary_of(package, name)
    assert summary.endswith(".")
    value = getattr(import_module(package), name)
    if callable(value):
        assert summary == value.__doc__.strip().splitlines()[0]
        assert has_example(value) == ((package, name) not in NO_EXAMPLE), "an example, or an entry in NO_EXAMPLE"


def summary_of(package: str, name: str) -> str:
    """The first line of the documentation of a public name."""
    value = getattr(import_module(package), name)
    if callable(value):
        return inspect.cleandoc(value.__doc__ or "").partition("\n")[0]
    for module in [
        module for key, module in sys.modules.items() if key.startswith((f"{package}.", "ldp_core."))
    ]:  # a constant
        found = re.search(rf'^{name} = .*?^"""(.*?)(?:"""|\n)', inspect.getsource(module), re.DOTALL | re.MULTILINE)
        if found:
            return found[1]
    return ""


def has_example(value) -> bool:
    """Of its own (a class does not inherit it), or nothing that a reader could make: bases, errors, rows, options."""
    made_by_others = inspect.isclass(value) and (
        inspect.isabstract(value)
        or issubclass(value, (LdpError, tuple))
        or typing.is_typeddict(value)
        or getattr(value, "_is_protocol", False)
    )
    return made_by_others or ">>> " in vars(value).get("__doc__", value.__doc__)
