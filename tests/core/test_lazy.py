"""The public names of the core, and those that it hands on, are imported when they are first used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ldp_core
import ldp_core.engine

UNUSED = [  # rooms and files that a program needs for none of its reports and estimates
    "ldp_core.accounting.people",
    "ldp_core.auditing",
    "ldp_core.engine",
    "ldp_core.mechanisms.catalog",
    "ldp_core.plans.compare",
    "ldp_core.plans.explanation",
    "ldp_core.plans.recommend",
    "ldp_core.plans.required",
    "ldp_core.plans.sharing",
    "ldp_core.plans.simulation",
    "ldp_core.plans.sql",
    "numba",
]


def loaded(*programs: str) -> list[list[str]]:
    """The modules of the core, and of numba, that a new process has after each of these programs."""
    look = "import sys, json; print(json.dumps(sorted(m for m in sys.modules if m.startswith(('ldp_core', 'numba')))))"
    program = "\n".join(f"{program}; {look}" for program in programs)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_the_package_is_imported_from_a_zip_archive(tmp_path):
    archive = tmp_path / "wheel.zip"
    with zipfile.ZipFile(archive, "w") as made:
        root = Path(ldp_core.__file__).parent
        for path in sorted(root.rglob("*.py*")):
            if path.suffix in (".py", ".pyi"):
                made.write(path, path.relative_to(root.parent))
    data = {"mechanism": "local_hashing", "domain": [1, 2], "epsilon": 1.0}  # found by its name before it was used
    program = (
        f"import ldp_core, ldp_core.engine; print(ldp_core.__file__, ldp_core.Mechanism.from_dict({data}).epsilon)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": ""},
    )
    assert done.stdout.startswith(str(archive))
    assert done.stdout.endswith("1.0\n")


def test_a_program_loads_what_it_uses():
    names = "from ldp_core import PrivacyPlan, UnaryEncoding, Mechanism"
    program = f"{names}; m = UnaryEncoding([1, 2], epsilon=1.0); m.estimate(m.tally(m.perturb([1, 2])))"
    first, modules = loaded("import ldp_core", program)
    assert first == ["ldp_core", "ldp_core.lazy"]
    assert not [m for m in modules if any(m == room or m.startswith(f"{room}.") for room in UNUSED)]
    others = [m for m in modules if m.startswith("ldp_core.mechanisms.oracles.")]
    assert "ldp_core.mechanisms.oracles.local_hashing" not in others


@pytest.mark.parametrize("module", [ldp_core, ldp_core.engine])
def test_every_name_is_there(module):
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match=r"module 'ldp_core.*' has no attribute 'nothing'"):
        module.nothing  # noqa: B018
    names: dict[str, object] = {}
    exec(f"from {module.__name__} import *", names)
    assert set(module.__all__) == names.keys() - {"__builtins__"}
