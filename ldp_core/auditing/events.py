"""For each pair of inputs the event that tells them apart best, chosen on one half of the trials.

The half is parted again: on its first part reports are ordered by their estimated likelihood ratio, on the second part
it is seen where to cut the order, and which summary is the best. What is chosen is a fixed set by the time that the
other half of the trials is drawn: its bounds hold as if there had been no choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ldp_core.auditing.summaries import ENOUGH, Rows, Summary, of_pair, places, shared

Counts: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""How many reports of an input have each key of a summary: of the first reports, of the second."""


@dataclass(frozen=True)
class Event:
    """A set of reports: those with some keys of a summary, ``chosen``, bool[size].

    It is more likely under the first one of the inputs in ``pair``, which are positions.
    """

    pair: tuple[int, int]
    summary: Summary
    chosen: npt.NDArray[np.bool_]

    def hits(self, rows: Rows) -> int:
        """How many reports are in the event."""
        return int(rows.counts(self.summary)[self.chosen].sum())

    def __str__(self) -> str:
        return f"{self.summary.name}: {np.count_nonzero(self.chosen)} of {self.summary.size} classes"


def choose(
    first: Sequence[Rows], second: Sequence[Rows], names: Sequence[str], *, trials: int, alpha: float
) -> list[Event]:
    """The best event for each ordered pair of inputs, to be bounded on so many ``trials`` of each with ``alpha`` each.

    Of each input the ``first`` reports order others, and on the ``second`` the orders are compared.
    """
    part_of = [k for k, part in enumerate(first[0].parts) for _ in part]
    found = places(first, names)
    z = -NormalDist().inv_cdf(alpha)
    best: dict[tuple[int, int], tuple[float, Event]] = {}

    def consider(summary: Summary, pairs: Iterable[tuple[int, int]]) -> None:
        for pair in pairs:
            for x, y in (pair, pair[::-1]):
                tables = [(first[at].counts(summary), second[at].counts(summary)) for at in (x, y)]
                promise, chosen = _cut(tables[0], tables[1], trials, z)
                if (x, y) not in best or promise > best[x, y][0]:
                    best[x, y] = promise, Event((x, y), summary, chosen)

    pairs = list(combinations(range(len(first)), 2))
    general = shared(first, found, part_of)
    for summary in general:
        consider(summary, pairs)
    if not any(s.whole and ENOUGH * s.size <= len(first[0]) for s in general):
        for x, y in pairs:
            for summary in of_pair(first[x], first[y], found):
                consider(summary, [(x, y)])
    return [event for _, event in best.values()]


def _cut(x: Counts, y: Counts, trials: int, z: float) -> tuple[float, npt.NDArray[np.bool_]]:
    """The keys of the largest ratios, cut where the bound will be greatest; and what it will be, about."""
    order = np.argsort((y[0] + 0.5) / (x[0] + 0.5), kind="stable")
    p, q = (np.cumsum(again[order]) / max(again.sum(), 1) for _, again in (x, y))
    with np.errstate(divide="ignore"):
        promises = np.log(_wilson(p, trials, -z)) - np.log(_wilson(q, trials, z))
    at = int(np.argmax(promises))
    chosen = np.zeros(len(order), bool)
    chosen[order[: at + 1]] = True
    return float(promises[at]), chosen


def _wilson(p: npt.NDArray[np.float64], n: int, z: float) -> npt.NDArray[np.float64]:
    """Bounds z standard errors away, near those of Clopper and Pearson.

    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22(158), 1927.
    """
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    return np.clip((middle + half) / (1 + z * z / n), 0, 1)
