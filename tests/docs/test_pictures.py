"""The pictures of the pages are of the code above them; the commands of docs/command.md print what is shown."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from ldp_cli.app import app

from ..cases import each
from .test_make import DOCS, SCRIPT

AGAIN = "run: python docs/make.py"
PAGES = SCRIPT["pages_with_pictures"]()
NAMES = {page: re.findall(r"<!-- picture: ([\w-]+) -->", text) for page, text in PAGES.items()}


@each("page", NAMES)
def test_pages_show_their_pictures(page):
    text = PAGES[page]
    assert SCRIPT["with_pictures"](text) == text, AGAIN
    told = re.findall(r'<img alt="([^"]*)"', text)
    assert [alt for alt in told if not re.fullmatch(r"[A-Z][^\[\]]{30,}\.", alt)] == [], (
        "say what is seen, in a sentence"
    )
    sources = re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert sources == [f"pictures/{name}{end}.svg" for name in NAMES[page] for end in ("-dark", "")]
    assert [source for source in sources if not (DOCS / source).is_file()] == []


def test_there_are_no_other_pictures():
    there = {path.name for path in (DOCS / "pictures").iterdir()}
    assert {*SCRIPT["SCREENS"]} <= {name for names in NAMES.values() for name in names}
    assert there == {f"{name}{end}.svg" for names in NAMES.values() for name in names for end in ("", "-dark")}


FEW = min(NAMES, key=lambda page: len(NAMES[page]))


@pytest.mark.parametrize("page", [FEW, *(pytest.param(page, marks=pytest.mark.slow) for page in NAMES if page != FEW)])
def test_pictures_are_of_the_code_above_them(page):
    charts = SCRIPT["charts"](PAGES[page])
    assert {*charts} == {*NAMES[page]} - {*SCRIPT["SCREENS"]}
    for name, themes in charts.items():
        for theme, spec in themes.items():
            drawn = SCRIPT["file_of"](name, theme).read_text(encoding="utf-8")
            assert f"<!-- {SCRIPT['digest'](spec)} -->" in drawn, AGAIN


def test_terminals_show_what_the_command_prints():
    for name, text in SCRIPT["screens"]().items():
        for theme in ("light", "dark"):
            drawn = SCRIPT["file_of"](name, theme).read_text(encoding="utf-8")
            assert f"<!-- {SCRIPT['digest'](text)} -->" in drawn, AGAIN
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
        assert max(map(len, plain.splitlines())) <= 80


@pytest.mark.parametrize("most", [4, pytest.param(None, marks=pytest.mark.slow)])
def test_the_commands_print_what_is_shown(tmp_path, monkeypatch, most):
    monkeypatch.chdir(tmp_path)
    exec(SCRIPT["PEOPLE"], {})
    page = (DOCS / "command.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", page, re.DOTALL)
    assert len(blocks) > 5
    for lines, shown in blocks[:most]:
        printed = ""
        for line in lines.splitlines():
            done = CliRunner().invoke(app, shlex.split(line)[1:], prog_name="ldp")
            assert done.exit_code == 0, f"{line}: {done.stderr}"
            printed += done.stdout
        assert not shown or printed == shown
