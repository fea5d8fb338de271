"""Whose reports these are: what is said, the same everywhere, where a column holds reports already, or another's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ldp_core.errors import MechanismMismatchError
from ldp_core.randomizer.declared import DeclaredMechanism


def maker_of(column: Any) -> DeclaredMechanism | None:
    """The mechanism of a Series of typed reports, which its dtype has (`ldp_polars.Report`); None of other columns."""
    made = getattr(getattr(column, "dtype", None), "mechanism", None)
    return made if isinstance(made, DeclaredMechanism) else None


def refuse_reports_in(columns: Iterable[str], who: str) -> None:
    """Raise `MechanismMismatchError` if there are columns of which ``who`` says that they hold reports already."""
    if again := sorted(columns):
        raise MechanismMismatchError(f"columns {again} hold reports already, says {who}; do not perturb them again")


def check_same(made_by: DeclaredMechanism, mechanism: DeclaredMechanism, column: str, who: str = "their type") -> None:
    """Raise `MechanismMismatchError` unless the two mechanisms are the same."""
    if made_by.fingerprint != mechanism.fingerprint:
        raise MechanismMismatchError(
            f"column {column!r}: the reports were made by the mechanism {_known(made_by)}, says {who}, not by "
            f"{_known(mechanism)}: estimate with the mechanism that made them"
        )


def _known(m: DeclaredMechanism) -> str:
    return f"{m.title} (epsilon {m.epsilon:.4g}, fingerprint {m.fingerprint})"
