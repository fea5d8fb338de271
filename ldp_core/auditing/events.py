"""For each pair of inputs the event that tells them apart best, chosen on one half of the trials.

The half is parted again: on its first part reports are ordered by their estimated likelihood ratio, on the second part
it is seen where to cut the order, and which summary is the best. So an order that was only noise is not chosen. What is
chosen is a fixed set by the time that the other half of the trials is drawn: its bounds hold as if there had been no
choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ldp_core.auditing.summaries import Rows, Summary, of_pair, places, shared


@dataclass(frozen=True)
class Event:
    """A set of reports, and the inputs that it tells apart.

    Attributes:
        pair: positions of the inputs: the event is more likely under the first.
        summary: what is looked at.
        chosen: bool[size]: which keys of the summary are in the event.
    """

    pair: tuple[int, int]
    summary: Summary
    chosen: npt.NDArray[np.bool_]

    def hits(self, rows: Rows) -> int:
        """How many reports are in the event."""
        return int(self.summary.counts(rows)[self.chosen].sum())

    def __str__(self) -> str:
        return f"{self.summary.name}: {np.count_nonzero(self.chosen)} of {self.summary.size} classes"


def choose(
    first: Sequence[Rows], second: Sequence[Rows], names: Sequence[str], *, trials: int, alpha: float
) -> list[Event]:
    """The best event for each ordered pair of inputs.

    Args:
        first: of each input, the reports by which others are ordered.
        second: of each input, the reports on which the orders are compared.
        names: of the columns.
        trials: of each input, on which the events will be bounded.
        alpha: of each bound.
    """
    part_of = [k for k, part in enumerate(first[0].parts) for _ in part]
    found = places(first, names)
    z = -NormalDist().inv_cdf(alpha)
    best: dict[tuple[int, int], tuple[float, Event]] = {}

    def consider(summary: Summary, pairs: Iterator[tuple[int, int]]) -> None:
        tables: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}
        for pair in pairs:
            for at in pair:
                if at not in tables:
                    tables[at] = summary.counts(first[at]), summary.counts(second[at])
            for x, y in (pair, pair[::-1]):
                promise, chosen = _cut(*tables[x], *tables[y], trials, z)
                if (x, y) not in best or promise > best[x, y][0]:
                    best[x, y] = promise, Event((x, y), summary, chosen)

    for summary in shared(first, found, part_of):
        consider(summary, combinations(range(len(first)), 2))
    for x, y in combinations(range(len(first)), 2):
        for summary in of_pair(first[x], first[y], found):
            consider(summary, iter([(x, y)]))
    return [event for _, event in best.values()]


def _cut(
    x: npt.NDArray[np.int64],
    x_again: npt.NDArray[np.int64],
    y: npt.NDArray[np.int64],
    y_again: npt.NDArray[np.int64],
    trials: int,
    z: float,
) -> tuple[float, npt.NDArray[np.bool_]]:
    """The keys of the largest ratios, cut where the bound will be greatest; and what it will be, about."""
    order = np.argsort((y + 0.5) / (x + 0.5), kind="stable")
    p = np.cumsum(x_again[order]) / max(x_again.sum(), 1)
    q = np.cumsum(y_again[order]) / max(y_again.sum(), 1)
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
    bound: npt.NDArray[np.float64] = np.clip((middle + half) / (1 + z * z / n), 0, 1)
    return bound
