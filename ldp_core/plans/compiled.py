"""A plan as devices take it: what takes exp() is done, and integers are text (docs/wire.md)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from ldp_core.errors import LdpError, LimitError, PlanError, ReportError
from ldp_core.limits import DEFAULT, Limits, over, read_json
from ldp_core.plans.forms import PlanForms

VERSION = 1
"""Of docs/wire.md: a client refuses every other one."""


def compiled(plan: PlanForms) -> dict[str, Any]:
    """What `PrivacyPlan.compile` gives."""
    if plan.seed is not None:
        raise PlanError("a plan with a seed is not private: devices take the plan without it")
    columns = {}
    for name, m in plan.columns.items():
        try:
            drawn = {**m.compiled(), "input": m.inputs.compiled(), "report": m.reports.compiled()}
        except LdpError as error:
            raise PlanError(f"column {name!r}: {error}") from None
        columns[name] = {"mechanism": m.name, "epsilon": m.epsilon, "digest": m.digest, **drawn}
    head = {"ldp_plan": VERSION, "fingerprint": plan.fingerprint, "epsilon": plan.epsilon, "keep": list(plan.keep)}
    return {**head, "columns": columns}


def read_reports(plan: PlanForms, text: str | bytes, limits: Limits = DEFAULT, keyed: bool = False) -> pa.RecordBatch:
    """What `PrivacyPlan.read_reports` gives."""
    lines: Sequence[str | bytes] = text.split("\n") if isinstance(text, str) else text.split(b"\n")
    lines = lines if lines[-1] else lines[:-1]  # (str.splitlines would cut at U+2028, too, which JSON has in its texts)
    if len(lines) > limits.rows:
        raise LimitError(over("the message", len(lines), "rows", "rows", limits))
    names = [*plan.columns, *plan.keep]
    rows = [_row(line, number, names, limits) for number, line in enumerate(lines, 1)]
    arrays = [m.reports.from_json([row[name] for row in rows], column=name) for name, m in plan.columns.items()]
    arrays += [_kept([row[name] for row in rows], name) for name in plan.keep]
    schema = pa.schema([(name, array.type) for name, array in zip(names, arrays, strict=True)])
    return pa.RecordBatch.from_arrays(arrays, schema=plan.with_proof(schema, seeded=False, keyed=keyed))


def _row(line: str | bytes, number: int, names: Sequence[str], limits: Limits) -> dict[str, Any]:
    # UTF-8 and nothing else: other bytes become halves of surrogate pairs, which nothing takes.
    text = line if isinstance(line, str) else line.decode("utf-8-sig", "surrogateescape")
    row = read_json(text, f"line {number}", ReportError, limits)
    if not isinstance(row, dict) or row.keys() != set(names):
        raise ReportError(
            f"line {number}: a report is a JSON object with the plan's {len(names)} columns, and no other"
        )
    return row


def _kept(values: Sequence[Any], column: str) -> pa.Array:
    # Of objects Arrow makes a column for each name there is: the time would be quadratic.
    if not {dict, list} & {*map(type, values)}:
        with suppress(pa.ArrowException, OverflowError, UnicodeError):  # half of a surrogate pair is no text
            return pa.array(values)
    raise ReportError(f"column {column!r}: kept values must be text, numbers or Booleans, of one type, in UTF-8")
