"""The command, run in this process and in a folder of its own."""

import json
import shlex
from dataclasses import dataclass
from functools import cache

import polars as pl
import pytest
from typer import testing
from typer.testing import CliRunner

from ldp_cli.app import app

N = 4000

testing._get_command = cache(testing._get_command)  # it builds all commands, 60 ms, for each line that is run


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def data(self):
        return json.loads(self.out)


@pytest.fixture
def ldp(tmp_path, monkeypatch):
    """``ldp("recommend 16 -e 1")``, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(line: str, code: int = 0) -> Done:
        done = CliRunner().invoke(app, shlex.split(line), prog_name="ldp")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, f"{done.stdout}{done.stderr}"
        return Done(done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture
def people(ldp):
    """people.parquet, and plan.toml for it."""
    columns = {
        "user": [f"u{k}" for k in range(N)],
        "day": pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 10), eager=True).to_list() * (N // 10),
        "os": (["ios"] * 5 + ["android"] * 4 + ["web"]) * (N // 10),
        "minutes": [float(k % 60) for k in range(N)],
        "crashed": [k % 20 == 0 for k in range(N)],
    }
    frame = pl.DataFrame(columns)
    frame.write_parquet("people.parquet")
    ldp("plan new plan.toml -c os=ios,android,web -c minutes=0:60 -c crashed=false,true --epsilon 6 --keep day")
    return frame
