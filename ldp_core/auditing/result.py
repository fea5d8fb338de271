"""What an audit found; and a table of several."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ldp_core.tables import aligned


@dataclass(frozen=True, repr=False)
class Audit:
    """A lower bound of epsilon, and whether it contradicts what is claimed; see `audit`.

    Attributes:
        name: of what was audited.
        claimed: epsilon, as it is claimed; of a plan, where two records are told apart too well, that of the columns
            in which they differ.
        exact: epsilon as it follows from the exact probabilities of reports, where these are known; else None.
        lower_bound: epsilon is above it, but for a false alarm.
        false_alarm: the probability that the true epsilon is below ``lower_bound``.
        trials: independent ones, of each input.
        inputs: which were compared, each with each.
        pair: the two of them that are told apart best, or None.
        event: the reports that tell them apart, in words.
        structure: what the structural checks found, see `ldp_core.auditing.structure`: mostly nothing.

    >>> from ldp_core import RandomizedResponse, audit
    >>> found = audit(RandomizedResponse(epsilon=1.0), trials=20_000)
    >>> found.verdict, found.claimed, 0.8 < found.lower_bound < 1.0
    ('not broken', 1.0, True)
    """

    name: str
    claimed: float
    exact: float | None
    lower_bound: float
    false_alarm: float
    trials: int
    inputs: tuple[str, ...]
    pair: tuple[str, str] | None
    event: str
    structure: tuple[str, ...] = ()

    @property
    def verdict(self) -> Literal["broken", "not broken"]:
        """``"broken"`` if the lower bound is above the claim, or a structural check found something.

        ``"not broken"`` is no proof: see `docs/audit.md`.
        """
        return "broken" if self.lower_bound > self.claimed or self.structure else "not broken"

    @property
    def broken(self) -> bool:
        """Whether the verdict is ``"broken"``."""
        return self.verdict == "broken"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form; an infinite epsilon is None there."""
        return {
            "name": self.name,
            "claimed": self.claimed if math.isfinite(self.claimed) else None,
            "exact": self.exact,
            "lower_bound": self.lower_bound,
            "false_alarm": self.false_alarm,
            "trials": self.trials,
            "inputs": list(self.inputs),
            "pair": None if self.pair is None else list(self.pair),
            "event": self.event,
            "structure": list(self.structure),
            "verdict": self.verdict,
        }

    def __repr__(self) -> str:
        told = "no pair of inputs" if self.pair is None else f"{self.pair[0]} against {self.pair[1]}, by {self.event}"
        rows = [
            ("audit of", self.name),
            ("claimed epsilon", f"{self.claimed:.4g}"),
            ("exact epsilon", "-" if self.exact is None else f"{self.exact:.4f}"),
            ("lower bound", f"{self.lower_bound:.4f} (but for a false alarm of probability {self.false_alarm:.1e})"),
            ("trials", f"{self.trials:,} of each of {len(self.inputs)} inputs"),
            ("told apart best", told),
            ("structure", "; ".join(self.structure) or "nothing found"),
            ("verdict", self.verdict),
        ]
        return "\n".join(f"{title:<17}{text}" for title, text in rows)


def table(audits: Iterable[Audit]) -> str:
    """Audits as aligned lines, under a heading."""
    rows = [("audited", "claimed", "exact", "lower bound", "trials", "verdict")]
    for a in audits:
        exact = "-" if a.exact is None else f"{a.exact:.4f}"
        rows.append((a.name, f"{a.claimed:.4g}", exact, f"{a.lower_bound:.4f}", f"{a.trials:,}", a.verdict))
    return "\n".join(aligned(rows, numbers=range(1, 5)))
