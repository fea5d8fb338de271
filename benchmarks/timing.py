"""Comparisons: both sides measured alternately in one run, medians, one ratio."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Job = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table: our cost and the other side's for the same job, in ns a unit."""

    job: str
    against: str
    unit: str
    ours: float
    theirs: float | None
    bar: str
    reached: bool | None

    @property
    def ratio(self) -> float | None:
        return self.theirs / self.ours if self.theirs is not None else None

    def cells(self) -> list[str]:
        ratio = f"{self.ratio:.3g}x" if self.ratio is not None else ""
        theirs = f"{self.theirs:.3g}" if self.theirs is not None else ""
        verdict = {True: "yes", False: "NO", None: ""}[self.reached]
        return [self.job, self.against, self.unit, f"{self.ours:.3g}", theirs, ratio, self.bar, verdict]


HEADING = ["job", "against", "unit", "ours", "theirs", "ratio", "bar", "reached"]


def seconds(job: Job) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def compare(
    job: str,
    against: str,
    ours: Job,
    theirs: Job,
    *,
    n: int,
    their_n: int | None = None,
    unit: str = "ns/row",
    bar: float | None = None,
    repeats: int = 7,
) -> Row:
    """Row for two jobs over ``n`` (and ``their_n``) units; reached if ours is ``bar`` times as fast.

    Medians, after one warm-up, taken in turns so that both meet the same noise.
    """
    ours(), theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    mine, others = zip(*pairs, strict=True)
    a, b = 1e9 * statistics.median(mine) / n, 1e9 * statistics.median(others) / (their_n or n)
    return Row(job, against, unit, a, b, f">= {bar:g}x" if bar else "", b / a >= bar if bar else None)


def absolute(job: str, ours: Job, *, n: int, unit: str, limit: float | None = None, repeats: int = 7) -> Row:
    """Row for a job on its own, in ns a unit, with an absolute limit if there is one."""
    ours()
    cost = 1e9 * statistics.median(seconds(ours) for _ in range(repeats)) / n
    return Row(job, "", unit, cost, None, f"<= {limit:g}" if limit else "", cost <= limit if limit else None)
