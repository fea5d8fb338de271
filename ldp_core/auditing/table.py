"""A table of audits: of each column of a plan and of its whole record, or of an example of each mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ldp_core.auditing.result import Audit
from ldp_core.auditing.run import audit
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.catalog import CATALOG
from ldp_core.parameters import check_open
from ldp_core.plans.drawn import DrawnColumn
from ldp_core.plans.plan import PrivacyPlan


def run_audit(
    plan: PrivacyPlan | None = None,
    *,
    columns: Sequence[str] = (),
    trials: int = 1_000_000,
    false_alarm: float = 1e-6,
    keyed: bool = False,
    rounds: int = 4,
    progress: Callable[[str], None] | None = None,
) -> list[Audit]:
    """Audit each column of a plan and its whole record: the lines of the table that `ldp audit` prints.

    Args:
        plan: without one, an example of each mechanism is audited.
        columns: only these columns of the plan, and not the whole record.
        trials: of each input.
        false_alarm: the probability that any line is wrong, all together.
        keyed: under keyed noise, with new secrets and ids.
        rounds: of a memoized mechanism, also this many reports of one unchanged value. If it is 0 or 1, it is not done.
        progress: called with a line for each batch.

    Raises:
        LdpError: there is no such column, or it cannot be audited.
    """
    check_open("false_alarm", false_alarm)
    audits: list[Callable[..., Audit]] = []
    for name, m in _mechanisms(plan, columns):
        audits.append(partial(audit, m, name=name, keyed=keyed))
        if m.memoized and rounds > 1:
            audits.append(partial(audit, m, name=f"{name}, {rounds} reports", rounds=rounds))
    if plan and not columns and (len(plan.columns) > 1 or not audits):
        audits.append(partial(audit, plan, keyed=keyed))
    share = false_alarm / len(audits)
    return [run(trials=trials, false_alarm=share, progress=progress) for run in audits]


def _mechanisms(plan: PrivacyPlan | None, columns: Sequence[str]) -> Iterable[tuple[str, Mechanism]]:
    if plan is None:
        return ((name, m) for entry in CATALOG for name, m in entry.examples().items())
    if columns:
        return ((name, plan[name]) for name in columns)
    return ((name, m) for name, m in plan.columns.items() if not isinstance(m, DrawnColumn))


def table(audits: Iterable[Audit]) -> str:
    """Audits as aligned lines, under a heading."""
    rows = [("audited", "claimed", "exact", "lower bound", "trials", "verdict")]
    for a in audits:
        exact = "-" if a.exact is None else f"{a.exact:.4f}"
        rows.append((a.name, f"{a.claimed:.4g}", exact, f"{a.lower_bound:.4f}", f"{a.trials:,}", a.verdict))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(c.ljust(w) if k in (0, 5) else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
