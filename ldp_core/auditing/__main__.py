"""The command: ``python -m ldp_core.auditing plan.toml``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress

from ldp_core.auditing.table import run_audit, table
from ldp_core.errors import LdpError
from ldp_core.plans.plan import PrivacyPlan

_EPILOG = """\
For each line it draws reports of a few inputs (null and values outside of the domain among them, where the column takes
them), looks for the reports that tell two inputs apart best, and prints a lower bound of epsilon. "broken" means that
the bound is above what is claimed: then the claim is false, but for a false alarm. "not broken" is no proof.
docs/audit.md says more.

Examples:

  python -m ldp_core.auditing plan.toml
  python -m ldp_core.auditing plan.toml --column os --trials 1e7
  python -m ldp_core.auditing --catalogue --json > audit.json

Exit status: 0 nothing is broken, 1 something is, 2 it could not be audited.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit what the arguments name; print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m ldp_core.auditing",
        description="Lower bounds of epsilon, with confidence, for every column of a plan and for the whole record.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plan", nargs="?", metavar="PLAN", help="a plan as a TOML file")
    parser.add_argument("--catalogue", action="store_true", help="instead: an example of each mechanism there is")
    parser.add_argument("--column", action="append", metavar="NAME", help="only this column (may be given again)")
    parser.add_argument(
        "--trials", type=whole_number, default=1_000_000, metavar="N", help="of each input (default 1e6)"
    )
    parser.add_argument(
        "--false-alarm", type=float, default=1e-6, metavar="P", help="that any line is wrong, all together (1e-6)"
    )
    parser.add_argument("--keyed", action="store_true", help="under keyed noise, with new secrets and ids")
    parser.add_argument(
        "--rounds",
        type=whole_number,
        default=4,
        metavar="T",
        help="of columns that remember: also T reports of one unchanged value (default 4; 1: do not)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    given = parser.parse_args(arguments)
    if (given.plan is None) == (not given.catalogue):
        parser.error("give a plan, or --catalogue")
    if given.catalogue and given.column:
        parser.error("--column is of a plan")
    if not 0 < given.false_alarm < 1:
        parser.error(f"--false-alarm must be in (0, 1), got {given.false_alarm:g}")

    def progress(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    try:
        audits = run_audit(
            PrivacyPlan.from_toml(given.plan) if given.plan else None,
            columns=given.column or (),
            trials=given.trials,
            false_alarm=given.false_alarm,
            keyed=given.keyed,
            rounds=given.rounds,
            progress=None if given.quiet else progress,
        )
    except LdpError as error:
        parser.exit(2, f"error: {error}\n")
    text = json.dumps([found.to_dict() for found in audits], indent=2) if given.json else table(audits)
    sys.stdout.write(text + "\n")
    return int(any(found.broken for found in audits))


def whole_number(text: str) -> int:
    """A whole number, also as 1e6."""
    with suppress(ValueError):
        if float(text).is_integer():
            return int(float(text))
    raise argparse.ArgumentTypeError(f"expected a whole number, like 1000000 or 1e6, got {text!r}")


if __name__ == "__main__":
    sys.exit(main())
