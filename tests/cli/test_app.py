"""Help, exit codes, what runs elsewhere, and what is there without Beam and without Polars."""

import json
import os
import re
import shlex
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import pytest
from rich.console import Console
from typer.main import get_command
from typer.models import OptionInfo
from typer.testing import CliRunner

import ldp_cli
from ldp_beam.telemetry import FileOptions, LiveOptions, command
from ldp_beam.telemetry.command import parser
from ldp_beam.telemetry.options import declarations
from ldp_cli import _compat
from ldp_cli.app import app, plans
from ldp_cli.printing import show
from ldp_cli.values import share

ROOT = Path(__file__).parents[2]
_GROUP = get_command(app)
COMMANDS = [name for name in _GROUP.commands if name != "plan"]
COMMANDS += [f"plan {name}" for name in _GROUP.commands["plan"].commands]


def test_help_has_an_example(ldp):
    assert "not installed" not in ldp("--help").out
    for name in COMMANDS:
        text = ldp(f"{name} --help").out
        assert re.search(rf"\bldp {name.split()[0]}", text)
        assert re.search(rf"\bldp {name} ", text[text.index("xample") :])


def test_help_fits_and_cuts_nothing(ldp, monkeypatch):
    """Planted: an example of 80 characters, "privacy plan, TOML" for a help, and boxes, which cut words."""
    for width in (80, 40):  # (examples are not wrapped)
        monkeypatch.setenv("COLUMNS", str(width))
        for name in ("", "plan", *COMMANDS):
            text = ldp(f"{name} --help").out
            assert [line for line in text.splitlines() if len(line) > 80] == [], name
            assert re.findall(r"<bool>|…|\w\.\.\.$|\x1b", text, re.MULTILINE) == [], name
    assert "ldp-telemetry[gcp]" in "".join(ldp("live --help").out.split())
    commands = [*_GROUP.commands.values(), *_GROUP.commands["plan"].commands.values()]
    helps = [option.help for command in commands for option in command.params if option.help]
    assert [text for text in helps if not re.fullmatch(r"[A-Z].*\.", text)] == []


def test_a_narrow_terminal_says_which_columns_it_has_no_room_for(ldp, monkeypatch):
    console = Console(width=40, highlight=False)
    monkeypatch.setattr("ldp_cli.printing.out", lambda: console)
    rows = [{"value": "android", "window": "the first week of January", "estimate": "1,234", "reports": "1,234,567"}]
    with console.capture() as caught:
        show(rows, notes=["a note of more than forty characters, which is folded"])
    said = caught.get().splitlines()
    assert max(map(len, said)) <= 40
    assert "android" in said[2]
    assert "A wider terminal shows more columns: reports." in " ".join(said)


def test_version_and_completion(ldp):
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", ldp("--version").out)
    complete = {"_LDP_COMPLETE": "complete_bash", "COMP_WORDS": "ldp rec", "COMP_CWORD": "1"}
    done = CliRunner().invoke(app, [], prog_name="ldp", env=complete)
    assert done.stdout.split() == ["recommend"]


def test_a_warning_is_one_line(ldp):
    done = ldp("plan new -c os=a,b --epsilon 25")
    assert done.err.startswith("warning: epsilon 25 hides nothing")
    assert ".py" not in done.err


def test_audit(ldp, people):
    done = ldp("audit plan.toml --column os --trials 2e3 --quiet --json")
    assert [found["name"] for found in done.data] == ["os"]
    ldp("audit", code=2)
    ldp("audit plan.toml --catalog", code=2)
    ldp("audit plan.toml --trials many", code=2)
    ldp("audit plan.toml --false-alarm 2", code=2)
    assert "nowhere" in ldp("audit nowhere.toml --quiet", code=1).err


def test_what_is_broken_fails(ldp, people, monkeypatch):
    broken = SimpleNamespace(broken=True, to_dict=dict)
    monkeypatch.setattr("ldp_core.engine.run_audit", lambda *_, **__: [broken])
    ldp("audit plan.toml --json", code=1)


GOOD = {
    "plan new": "plan new -c os=a,b -e 1",
    "plan check": "plan check plan.toml",
    "plan compile": "plan compile plan.toml",
    "plan explain": "plan explain plan.toml -n 10",
    "recommend": "recommend 16 -e 1 -n 100",
    "size": "size 16 -m 0.1 -e 1",
    "simulate": "simulate plan.toml people.parquet",
    "perturb": "perturb people.parquet out.parquet --plan plan.toml --id user --records 1",
    "estimate": "estimate reports.parquet --window 7d --event-time day",
    "compare": "compare reports.parquet --window 7d --event-time day",
    "pool": "pool old.parquet new.parquet --window 7d --event-time day",
    "report": "report results",
    "planner": "planner",
    "audit": "audit plan.toml --trials 1e3 --quiet",
    "run": "run --plan plan.toml --input people.parquet --event-time day --output out",
    "serve": "serve --plan plan.toml --output out --port 0",
    "live": "live --for 1s",
    "flink": "flink status",
}
"""A line of each command that is right, but for what is added to it."""
BAD = {int: ["many", "-1", "1.000", "1,000"], float: ["much"], "share": ["much", "2"], Literal: ["nothing"]}
"""Values that no option of this type takes."""
BY_NAME = {
    "--margin": ["much", "-1", "0", "os=0.1"],
    "--change": ["much", "1%"],  # (without --margin, and --base)
    "--column": ["os", "os=a,a"],  # (of `plan new`)
    "--share": ["os", "os=ios", "os=ios:much"],
    "--window": ["7x", "0d", "-7d", "d"],
    "--per": ["day=7x", "day="],
    "--mechanism": ["nothing"],
    "--other": ["nothing"],
    "--plot": ["a.gif", "a"],
    **{flag: [*BAD[int], "0"] for flag in ("--trials", "--most-bytes", "--top")},
    "--every": ["7x"],
    "--candidates": ["os"],
    "--engine": ["nothing"],
    "--max-dead": ["much"],
}
ANY = {"--seed", "--timeout"}  # (of which -1 is one)


def options():
    """(command, flag, type) of all options."""
    for prefix, group in (("", app), ("plan ", plans)):
        for one in group.registered_commands:
            for name, kind in get_type_hints(one.callback, include_extras=True).items():
                [annotated] = [k for k in (kind, *get_args(kind)) if get_origin(k) is Annotated] or [None]
                for option in get_args(annotated)[1:] if annotated else ():
                    if isinstance(option, OptionInfo):
                        flag = max([*(option.param_decls or ()), f"--{name.replace('_', '-')}"], key=len)
                        inner = [get_args(annotated)[0], *get_args(get_args(annotated)[0])]
                        inner += [k for part in inner for k in get_args(part)]
                        found = {Literal if get_origin(k) is Literal else k for k in inner}
                        flags = [d for d in option.param_decls or () if d.startswith("--")] or [flag]
                        yield prefix + one.name, flags[0], "share" if option.parser is share else found


def wrong_lines():
    for name, flag, found in options():
        values = BY_NAME.get(flag) or BAD.get(
            found if found == "share" else next((k for k in BAD if k in found), None), []
        )
        if flag != "--column" or name == "plan new":
            yield from (f"{GOOD[name]} {flag} {value}" for value in values if not (flag in ANY and value == "-1"))
    yield "run --plan plan.toml --input people.parquet --event-time day --output out --max-dead much"
    yield "live --engine nothing"
    yield "flink nothing"
    yield from (f"{GOOD[name]} --no-such-option" for name in COMMANDS if name != "run")  # (it has Beam's)


WRONG = sorted(set(wrong_lines()))


@pytest.mark.slow
def test_every_value_on_the_line_that_cannot_be_ends_with_2(ldp, people):
    assert len(WRONG) > 70
    assert sorted(COMMANDS) == sorted(GOOD)
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    ended = {line: CliRunner().invoke(app, shlex.split(line), prog_name="ldp").exit_code for line in WRONG}
    assert {line: code for line, code in ended.items() if code != 2} == {}


def test_run_and_live_call_a_function_with_typed_options(ldp, monkeypatch):
    asked = []
    monkeypatch.setattr("ldp_beam.telemetry.running.start", asked.append)
    monkeypatch.setattr("tests.bed.live.start", lambda options: asked.append(options) or 0)
    ldp("run --plan a --input x --input y --event-time t --output o --max-dead 0.5 -x --by day --runner=FlinkRunner")
    ldp("live --for 5s --engine flink --page")
    given = {"plan": "a", "input": ("x", "y"), "event_time": "t", "output": "o", "max_dead": 0.5, "by": ("day",)}
    assert asked == [
        FileOptions(**given, beam=("-x", "--runner=FlinkRunner")),
        LiveOptions(duration="5s", engine="flink", page=True),
    ]


def test_both_commands_have_the_options_that_are_declared(ldp):
    """Planted: an option that only one of them has."""
    for declared in [FileOptions, LiveOptions]:
        flags = {one.flag: one.help for one in declarations(declared)}
        line = {FileOptions: "run --help", LiveOptions: "live --help"}[declared]
        for text in (ldp(line).out, parser(declared).format_help()):
            words = re.sub(r"[\s│]+", " ", text)
            assert [flag for flag in flags if f" {flag} " not in words] == []
            assert [flag for flag, told in flags.items() if told[:20] not in words] == []
        assert f" {max(flags)}x " not in words


def test_usage_is_of_the_command_that_was_called(ldp, people, capsys):
    for line in ("live --demo", "flink sideways", "flink up --sideways 3", "run --top many"):
        said = ldp(line, code=2).err
        assert f"ldp {line.split()[0]}" in said
        assert "python -m" not in said
    for line in ("run --help", "live --help", "flink --help"):
        said = ldp(line).out
        assert f"sage: ldp {line.split()[0]} " in said
        assert "python -m" not in said


def test_the_tools_of_a_checkout_run_there_and_say_so_where_they_are_missing(ldp, monkeypatch, tmp_path):
    monkeypatch.chdir(Path(__file__).parents[1])  # in a checkout, also where this is installed elsewhere
    monkeypatch.setattr(command, "__file__", str(tmp_path / "ldp_beam" / "telemetry" / "command.py"))  # installed
    assert "no cluster in" in ldp(f"flink status --dir {tmp_path}", code=1).out
    monkeypatch.chdir(tmp_path)
    for name in ("flink up", "live --for 5s"):
        assert "run it in a checkout" in ldp(name, code=1).err


_WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # an import of it fails
import json, shlex
from typer.testing import CliRunner
from ldp_cli.app import app
ended = [CliRunner().invoke(app, shlex.split(line)) for line in sys.argv[2:]]
print(json.dumps([(done.exit_code, done.stderr, done.stdout) for done in ended]))
"""


def without(missing, *lines, cwd):
    command = [sys.executable, "-c", _WITHOUT, missing, *lines]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd, env={"PYTHONPATH": str(ROOT)})
    return json.loads(done.stdout)


@pytest.mark.slow
def test_without_beam_and_altair_the_others_work(ldp, people, tmp_path):
    lines = ["perturb people.parquet reports.parquet --plan plan.toml", "estimate reports.parquet"]
    lines += ["run --help", "--help"]
    needy = ["run --plan plan.toml --input people.parquet --event-time day --output out"]
    needy += ["simulate plan.toml people.parquet --plot a.html"]
    done = without("apache_beam,altair", *lines, *needy, cwd=tmp_path)
    assert [code for code, *_ in done] == [0, 0, 0, 0, 1, 1]
    assert re.search(r"run +Run .*?ldp-telemetry\[beam\]", re.sub(r"[\s│]+", " ", done[3][2]))
    assert done[3][2].count("not installed") == 2  # run and live
    assert "ldp-telemetry[beam]" in done[4][1]
    assert "ldp-telemetry[plot]" in done[5][1]


@pytest.mark.slow
def test_without_its_renderer_a_picture_names_the_extra(ldp, people, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    ldp("simulate plan.toml people.parquet --plot a.json")
    for kind in ("html", "png"):
        assert "ldp-telemetry[plot]" in ldp(f"simulate plan.toml people.parquet --plot a.{kind}", code=1).err


def test_a_process_ends_at_once(monkeypatch, capsys):
    """Polars' threads may still call back; as Python ends, that would abort the process."""
    for line, code, said in [("plan check nowhere.toml", 1, "nowhere"), ("size 2 -m 1% -e 1", 0, "")]:
        ended = []
        monkeypatch.setattr(os, "_exit", ended.append)
        monkeypatch.setattr(_compat, "FIXED", (4,))
        monkeypatch.delitem(sys.modules, "apache_beam", raising=False)  # its threads are waited for
        monkeypatch.setattr(sys, "argv", ["ldp", *line.split()])
        with pytest.raises(SystemExit):
            ldp_cli.main()
        assert ended == [code]
        assert said in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdout", None)  # a shell has closed it: there was an AttributeError
    with pytest.raises(SystemExit):
        ldp_cli.main()
    assert ended == [0, 0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only on Linux")
@pytest.mark.slow
def test_a_process_that_cannot_write_its_help_says_so():
    """There was a traceback; as of Ctrl-C while it imports."""
    run = [sys.executable, "-c", "import ldp_cli; ldp_cli.main()", "--help"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "error: cannot write: No space left on device\n")
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *run[:3], "recommend", "16", "-e", "1", "-n", "9", "--json"]
    done = subprocess.run(closed, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    run[2] = "import sys, ldp_cli; sys.modules['ldp_cli.app'] = type('', (), {'__getattr__': stop})()"
    run[2] = run[2].replace("import sys", "def stop(*_): raise KeyboardInterrupt\nimport sys") + "; ldp_cli.main()"
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (130, "")


def test_what_an_encoding_does_not_have_is_escaped(ldp, monkeypatch):
    """A column, a value or a file of other letters ended the command, as in a locale of Latin-1."""
    ldp("plan new plan.toml -c café=1..3,日本 --epsilon 1")
    monkeypatch.setattr(_compat.os, "_exit", lambda code: None)
    for encoding, word in (("ascii", b"caf\\xe9"), ("latin-1", b"caf\xe9"), ("utf-8", "café".encode())):
        written = BytesIO()
        monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding))
        monkeypatch.setattr(sys, "argv", ["ldp", "plan", "check", "plan.toml"])
        with pytest.raises(SystemExit) as ended:
            ldp_cli.main()
        sys.stdout.flush()
        assert ended.value.code == 0
        assert word in written.getvalue()


OF_THE_CORE = ["plan check plan.toml people.parquet", "recommend 16 -e 1 -n 100", "simulate plan.toml people.parquet"]
OF_THE_CORE += ["size 16 -m 0.1 -e 1", "plan explain plan.toml -n 10", "audit plan.toml --trials 1e3 --quiet"]
OF_POLARS = ["estimate reports.parquet", "plan explain plan.toml --data people.parquet --id user"]


def test_without_polars_those_of_the_core_work(ldp, people, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "ldp_polars"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "polars", None)
    for line in OF_THE_CORE:
        ldp(line)
    for line in OF_POLARS:
        assert "ldp-telemetry[polars]" in ldp(line, code=1).err


@pytest.mark.slow
def test_without_polars_a_process_starts(ldp, people, tmp_path):
    done = without("apache_beam,polars", *OF_THE_CORE, *OF_POLARS, cwd=tmp_path)
    assert [code for code, *_ in done] == [0] * len(OF_THE_CORE) + [1] * len(OF_POLARS)
    assert all("ldp-telemetry[polars]" in said for _, said, _ in done[-2:])


def test_without_its_extra_the_command_says_what_to_install(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("ldp_cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        ldp_cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: typer is not installed: pip install 'ldp-telemetry[cli]'\n"
