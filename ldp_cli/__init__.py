"""The command ``ldp``: plan, perturb, estimate, audit and run from a terminal. It needs the extra ``cli``."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from pathlib import Path

from ldp_cli._compat import end_at_once


def main() -> None:
    """Run the command; the exit code is 0 if it succeeded, 1 if it failed, 2 if the command line is wrong."""
    try:
        from ldp_cli.app import app  # noqa: PLC0415 (typer and rich may be missing)
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.stderr.write(f"error: {error.name} is not installed: pip install 'ldp-telemetry[cli]'\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    for name in ("stdout", "stderr"):  # closed by a shell's >&-
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (until the end)
    if isinstance(sys.stdout, TextIOWrapper):  # (not every encoding has every value)
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="ldp")
    except SystemExit as ended:
        end_at_once(ended.code)
        raise
    except OSError as error:  # of a help, which no command writes
        sys.stderr.write(f"error: cannot write: {error.strerror}\n")
        sys.exit(1)
