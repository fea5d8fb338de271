"""The recipes of docs/architecture.md run, and the mechanism that one of them adds is right."""

import pickle
import re
import sys
from pathlib import Path

import polars as pl
import pytest

import ldp_core
from ldp_core import Domain, DomainError, Mechanism, ParameterError, PrivacyPlan, RandomizedResponse, UnaryEncoding
from ldp_core.plans import provenance
from ldp_polars.perturbing import Perturb

from ..beam import cheap_pipelines  # noqa: F401 (changes Beam when it is imported)

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.fixture
def names(monkeypatch):
    monkeypatch.setattr(Mechanism, "_registry", dict(Mechanism._registry))
    return {}


def test_the_recipes_run(names, capsys):
    for code, shown in re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL):
        exec(compile(code, "architecture.md", "exec"), names)
        printed = capsys.readouterr().out
        assert not shown or printed == shown
        if "beam.Create(people" in code:
            found = dict(re.findall(r"^(\w+) (-?\d+ to -?\d+)$", printed, re.MULTILINE))
            bounds = {value: tuple(map(int, text.split(" to "))) for value, text in found.items()}
            truth = {"ios": 6000, "android": 4000, "web": 0}
            assert bounds.keys() == truth.keys()
            for value, (low, high) in bounds.items():
                assert abs((low + high) / 2 - truth[value]) < 6 * (high - low) / 3.92
    mine, same = names["mine"], RandomizedResponse(["ios", "android", "web"], epsilon=3.0)
    assert mine.support_probabilities() == same.support_probabilities()  # it is k-ary randomized response
    assert mine.worst_ratio() == same.worst_ratio()
    plan = PrivacyPlan({"os": mine})
    assert (pickle.loads(pickle.dumps(mine)), PrivacyPlan.from_toml(plan.to_toml())["os"]) == (mine, mine)
    people = pl.DataFrame({"os": ["ios"] * 500})
    typed = people.select(pl.col("os").ldp.perturb(mine, typed=True))
    assert typed.select(pl.col("os").ldp.tally()).item()["n"] == 500
    for epsilon, message in ((-1, r"^epsilon must be in \(0, inf\), got -1"), (1e-30, "^epsilon is too small")):
        with pytest.raises(ParameterError, match=message):
            type(mine)(["ios", "web"], epsilon=epsilon)
    with pytest.raises(DomainError, match="keep or draw"):
        type(mine)(Domain(["ios", "web"], unmatched="none"), epsilon=1.0)


def test_the_walk_names_the_files_that_a_value_goes_through(monkeypatch):
    root, went = Path(ldp_core.__file__).parents[1], set()

    def follow(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(root) and path.parts[len(root.parts)].startswith("ldp_"):
            went.add(path.relative_to(root).as_posix())

    def followed(function):
        def call(*arguments, **options):
            sys.setprofile(follow)  # (of this thread alone)
            try:
                return function(*arguments, **options)
            finally:
                sys.setprofile(None)

        return call

    monkeypatch.setattr(provenance, "_own", {})  # (so that none of another test's is looked at)
    monkeypatch.setattr(Perturb, "__call__", followed(Perturb.__call__))
    m = followed(UnaryEncoding)(["ios", "android", "web"], epsilon=1.25)  # (one that has not been described)
    pl.DataFrame({"os": ["ios", "web"]}).select(followed(lambda: pl.col("os").ldp.unary_encode(m))())
    steps = PAGE[PAGE.index("1. **Making `m`**") : PAGE.index("The way back")]
    named = [f"/{name}" for name in re.findall(r"`([a-z_/]+\.py)`", steps)]
    assert {path for path in went if not f"/{path}".endswith(tuple(named))} == set()
    missed = {name for name in named if not any(f"/{path}".endswith(name) for path in went)}
    assert missed <= {"/compute/kernels.py", "/compute/threads.py"}  # which two rows are not worth
