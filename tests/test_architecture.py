"""The house: which room may import which, as docs/architecture.md draws it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("ldp_core", "ldp_polars", "ldp_beam", "ldp_plots", "ldp_report", "ldp_serve", "pipelines", "ldp_cli")

PAGE = ROOT / "docs" / "architecture.md"


def drawn(page: str) -> dict[str, list[tuple[str, ...]]]:
    """Folder -> its rooms, from the top floor down, as the page's tree draws them; those on one line are beside.

    A room may import itself and what stands below it.
    """
    [tree] = re.findall(r"```text\n(ldp_core/.*?)```", page, re.DOTALL)
    floors: dict[str, list[tuple[str, ...]]] = {}
    path: list[str] = []
    for indent, names in re.findall(r"^( {0,6})(\S+(?: \S+)*)", tree, re.MULTILINE):
        rooms = tuple(name.removesuffix("/").removesuffix(".py") for name in names.split())
        depth = len(indent) // 2
        if depth:
            floors.setdefault(".".join(path[:depth]), []).append(rooms)
        path[depth:] = [rooms[0]]
    return floors


FLOORS = drawn(PAGE.read_text(encoding="utf-8"))
# Which package may import which.
BELOW = {
    "ldp_core": (),
    "ldp_polars": ("ldp_core",),
    "ldp_beam": ("ldp_core",),
    "ldp_plots": ("ldp_core",),
    "ldp_report": ("ldp_core",),
    "ldp_serve": ("ldp_core", "ldp_report"),
    "pipelines": ("ldp_beam",),
    "ldp_cli": ("ldp_core", "ldp_polars", "ldp_beam", "ldp_plots", "ldp_report", "ldp_serve"),
}

BESIDE: tuple[str, ...] = PACKAGES[1:]
"""The packages that know two modules of the core, and no more: `ldp_core` and `ldp_core.engine`."""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All that are in it. (What `ast.walk` gives are expressions, most of it.)"""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from statements(child)


def imports(path: Path, modules: set[str]) -> list[tuple[str, int]]:
    """(module, line) of each import of ours in a file, those for type checkers and inside functions included."""
    found = []
    for node in statements(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(name.name, node.lineno) for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:  # `from package import module`
                module = f"{node.module}.{name.name}"
                found.append((module if module in modules else node.module, node.lineno))
    return [(module, line) for module, line in found if module.split(".")[0] in PACKAGES]


FILES = {module_of(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


@cache
def arrows() -> list[tuple[str, str, int]]:
    """(module, what it imports, line)."""
    return [
        (module, other, line)
        for module, path in FILES.items()
        for other, line in imports(path, set(FILES))
        if other != module
    ]


def floor(package: str, module: str) -> int | None:
    """The floor of a module's room, the ground having the greatest number; None: it is not in a room of the package."""
    if not module.startswith(f"{package}."):
        return None
    room = module.removeprefix(f"{package}.").split(".")[0]
    return next((number for number, rooms in enumerate(FLOORS[package]) if room in rooms), None)


def where(arrow: tuple[str, str, int]) -> str:
    module, other, line = arrow
    return f"{FILES[module].relative_to(ROOT)}:{line} imports {other}"


def wrong_floors(package: str, arrows: list[tuple[str, str, int]]) -> list[str]:
    """Imports that go up, or from a room to another one beside it."""
    wrong = []
    for arrow in arrows:
        above, below = (floor(package, module) for module in arrow[:2])
        if above is None or below is None:
            continue
        rooms = [module.removeprefix(f"{package}.").split(".")[0] for module in arrow[:2]]
        beside = above == below and rooms[0] != rooms[1]
        if below < above or beside:
            wrong.append(where(arrow))
    return wrong


def circle(arrows: list[tuple[str, str, int]]) -> list[str]:
    """The files of one circle of imports, or none. (A package's face hands names on, and is no room.)"""
    graph: dict[str, set[str]] = {}
    for module, other, _ in arrows:
        if FILES[module].name != "__init__.py" and other in FILES and FILES[other].name != "__init__.py":
            graph.setdefault(module, set()).add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", FLOORS)
def test_imports_go_down(package):
    assert wrong_floors(package, arrows()) == []


def test_every_file_is_in_a_room():
    for package in FLOORS:
        strays = [m for m in FILES if m.startswith(f"{package}.") and floor(package, m) is None]
        assert strays == []


def test_there_are_no_circles():
    assert circle(arrows()) == []


def test_packages_know_only_what_is_below():
    wrong = [a for a in arrows() if (p := a[0].split(".")[0]) != (q := a[1].split(".")[0]) and q not in BELOW[p]]
    assert [where(arrow) for arrow in wrong] == []


def into_the_core(packages: tuple[str, ...], arrows: list[tuple[str, str, int]]) -> list[str]:
    """Imports from a module of the core that is neither its face nor what it hands on to engines."""
    return [
        where(arrow)
        for arrow in arrows
        if arrow[0].split(".")[0] in packages and arrow[1].startswith("ldp_core.") and arrow[1] != "ldp_core.engine"
    ]


def test_packages_beside_the_core_know_its_faces():
    assert into_the_core(BESIDE, arrows()) == []


def test_the_core_knows_no_engine():
    for package, engines in {
        "ldp_core": {"polars", "apache_beam", "altair"},
        "ldp_polars": {"apache_beam", "altair"},
        "ldp_beam": {"polars", "altair"},
        "ldp_plots": {"polars", "apache_beam", "altair"},
        "ldp_report": {"polars", "apache_beam", "altair"},
        "ldp_serve": {"polars", "apache_beam", "altair"},
        "ldp_cli": {"polars", "apache_beam", "altair", "ldp_polars", "ldp_plots", "ldp_serve", "starlette"},
    }.items():
        for module, path in FILES.items():
            if module.split(".")[0] != package:
                continue
            top = [node for node in parsed(path).body if isinstance(node, (ast.Import, ast.ImportFrom))]
            names = {name.name.split(".")[0] for node in top if isinstance(node, ast.Import) for name in node.names}
            names |= {(node.module or "").split(".")[0] for node in top if isinstance(node, ast.ImportFrom)}
            assert not names & engines, f"{path.relative_to(ROOT)} imports {names & engines}"


def test_private_files_are_their_folder_s_own():
    wrong = []
    for arrow in arrows():
        module, other, _ = arrow
        folder, _, name = other.rpartition(".")
        inside = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
        if name.startswith("_") and not f"{inside}.".startswith(f"{folder}."):
            wrong.append(where(arrow))
    assert wrong == []
