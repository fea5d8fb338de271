"""What is looked at in a report: whole reports where there are few, else places, sums and scores of them.

A summary maps each report to one of few numbers, its *key*. Any set of keys is an event, whatever the summary was made
from, so that a bad one costs power and never correctness. They are made from one part of the trials only, see
`ldp_core.auditing.events`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.auditing.columns import Column, Part

Keys: TypeAlias = npt.NDArray[Any]
"""Non-negative integers, one per report."""

MOST_KEYS = 1 << 16
ENOUGH = 64  # reports a key: then whole reports are known so well that nothing else is needed
_MOST_LEVELS = 512  # of a place; with more it is a number, of which bits and ranges are looked at
_SAMPLED = 1 << 17  # reports from which levels and ranges are learned
_BINS = 64
_JOINT = 1 << 12  # keys of several places together
_MOST_CONTEXTS = 2
_MOST_PAIRS = 6  # of parts, which are compared place by place


class Rows:
    """Reports of one input, as columns, and what has been computed of them."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.columns: Part = [column for part in parts for column in part]
        self._coded: dict[Place, Keys] = {}
        self._counted: dict[Summary, npt.NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self.columns[0])

    def coded(self, place: Place) -> Keys:
        """The keys of a place, computed once."""
        if place not in self._coded:
            self._coded[place] = place.code(self.columns[place.column])
        return self._coded[place]

    def counts(self, summary: Summary) -> npt.NDArray[np.int64]:
        """How many reports have each key, computed once."""
        if summary not in self._counted:
            self._counted[summary] = np.bincount(summary.keys(self), minlength=summary.size)
        return self._counted[summary]


class Summary(ABC):
    """Reports to keys below ``size``."""

    name: str
    size: int
    whole: bool = False
    """Whether no two reports share a key, but for those that are rare."""

    @abstractmethod
    def keys(self, rows: Rows) -> Keys:
        """One per report."""


# ---- single places


class Place(Summary):
    """One column of the reports, as few levels."""

    def __init__(self, column: int, name: str) -> None:
        self.column, self.name = column, name

    @abstractmethod
    def code(self, column: Column) -> Keys:
        """Keys of a column of reports."""

    @override
    def keys(self, rows: Rows) -> Keys:
        return rows.coded(self)


class Levels(Place):
    """A column of few distinct numbers: each has a key, and all others together."""

    def __init__(self, column: int, name: str, levels: Column) -> None:
        super().__init__(column, name)
        self._levels = levels
        self.size = len(levels) + 1
        self._table: npt.NDArray[np.uint16] | None = None
        if levels.dtype.kind in "iu" and levels.dtype.itemsize <= 2:
            self._view = np.dtype(f"u{levels.dtype.itemsize}")
            self._table = np.full(1 << 8 * levels.dtype.itemsize, len(levels), np.uint16)
            self._table[levels.view(self._view)] = np.arange(len(levels))

    @override
    def code(self, column: Column) -> Keys:
        if self._table is not None and column.dtype == self._levels.dtype:
            keys: Keys = self._table[column.view(self._view)]
            return keys
        at = np.searchsorted(self._levels, column)
        at[at == len(self._levels)] = 0
        return np.where(self._levels[at] == column, at, len(self._levels)).astype(np.uint16)


class Bins(Place):
    """A column of many distinct numbers: in ranges that are about equally likely."""

    def __init__(self, column: int, name: str, sample: Column) -> None:
        super().__init__(column, name)
        ordered = np.sort(sample)
        self._edges = np.unique(ordered[np.linspace(0, len(ordered) - 1, _BINS + 1).astype(int)])
        self.size = len(self._edges) + 1

    @override
    def code(self, column: Column) -> Keys:
        return np.searchsorted(self._edges, column, side="right").astype(np.uint16)


class Bit(Place):
    """One bit of a column of integers."""

    size = 2

    def __init__(self, column: int, name: str, bit: int) -> None:
        super().__init__(column, f"{name}, bit {bit}")
        self._bit = bit

    @override
    def code(self, column: Column) -> Keys:
        bits: Keys = (column >> column.dtype.type(self._bit)) & column.dtype.type(1)
        return bits.astype(np.uint8)


def places(samples: Sequence[Rows], names: Sequence[str]) -> list[Place]:
    """All places, as a part of the trials shows them."""
    made: list[Place] = []
    for column, name in enumerate(names):
        sample = np.concatenate([rows.columns[column][: _SAMPLED // len(samples)] for rows in samples])
        levels = np.unique(sample)
        if len(levels) <= _MOST_LEVELS:
            if len(levels) > 1:
                made.append(Levels(column, name, levels))
            continue
        made.append(Bins(column, name, sample))
        if sample.dtype.kind in "iu":
            both = np.bitwise_or.reduce(sample) & ~np.bitwise_and.reduce(sample)
            made += [Bit(column, name, bit) for bit in range(8 * sample.dtype.itemsize) if int(both) >> bit & 1]
    return made


# ---- whole reports, and what several places have together


class Joint(Summary):
    """Several places at once."""

    def __init__(self, name: str, among: Sequence[Place], *, whole: bool = False) -> None:
        self.name, self._among, self.whole = name, among, whole
        self.size = math.prod(place.size for place in among)

    @override
    def keys(self, rows: Rows) -> Keys:
        out = np.zeros(len(rows), np.uint32)
        for place in self._among:
            out *= np.uint32(place.size)
            out += rows.coded(place)
        return out


class Whole(Summary):
    """Whole reports, by a hash of all their places; those that were not in the first part of the trials are one."""

    name = "the whole report"
    whole = True

    def __init__(self, samples: Sequence[Rows]) -> None:
        self._known = np.unique(np.concatenate([np.unique(_hashed(rows.columns)) for rows in samples]))
        self.size = len(self._known) + 1

    @override
    def keys(self, rows: Rows) -> Keys:
        words = _hashed(rows.columns)
        at = np.searchsorted(self._known, words)
        at[at == len(self._known)] = 0
        return np.where(self._known[at] == words, at, len(self._known))


_MIX, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def _hashed(columns: Part) -> npt.NDArray[np.uint64]:
    """A word per report; that two reports share one would make them one event, which does no harm."""
    words = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        words ^= column.astype(np.float64 if column.dtype.kind == "f" else np.int64).view(np.uint64)
        words *= _MIX
        words ^= words >> _SHIFT
    return words


class Differences(Summary):
    """In how many places two reports of one shape differ: rounds of a person, columns of a record."""

    def __init__(self, first: int, second: int, size: int) -> None:
        self.name = f"places in which reports {first + 1} and {second + 1} differ"
        self._pair, self.size = (first, second), size + 1

    @override
    def keys(self, rows: Rows) -> Keys:
        one, other = (rows.parts[part] for part in self._pair)
        out = np.zeros(len(rows), np.uint32)
        for a, b in zip(one, other, strict=True):
            different = a != b
            if a.dtype.itemsize == 8 and a.dtype.kind in "iu":  # words, perhaps of bits
                out += np.bitwise_count(a.astype(np.int64) ^ b.astype(np.int64))
            else:
                out += different
        return np.minimum(out, self.size - 1)


class Ones(Summary):
    """How many places of two levels have the higher one."""

    def __init__(self, name: str, among: Sequence[Place]) -> None:
        self.name, self._among, self.size = f"number of ones in {name}", among, len(among) + 1

    @override
    def keys(self, rows: Rows) -> Keys:
        out = np.zeros(len(rows), np.uint16)
        for place in self._among:
            out += rows.coded(place) == 1
        return out


def shared(samples: Sequence[Rows], found: Sequence[Place], part_of: Sequence[int]) -> list[Summary]:
    """Summaries that serve all pairs of inputs.

    Args:
        samples: of each input, reports of the first part of the trials.
        found: `places`.
        part_of: of each column.
    """
    made: list[Summary] = list(found)
    levels = [place for place in found if isinstance(place, Levels)]
    few = len(levels) == len(found) and math.prod(place.size for place in found) <= MOST_KEYS
    if found and few:
        made.append(Joint("the whole report", found, whole=True))
    elif found:
        sampled = np.concatenate([_hashed([c[:_SAMPLED] for c in rows.columns]) for rows in samples])
        if len(np.unique(sampled)) < len(sampled) / 2 and (whole := Whole(samples)).size <= MOST_KEYS:
            made.append(whole)
    for part in sorted(set(part_of)):
        bits = [p for p in found if part_of[p.column] == part and p.size - isinstance(p, Levels) == 2]
        if len(bits) > 2:
            made.append(Ones(f"report {part + 1}", bits))
    parts = samples[0].parts
    widths = [sum(64 if c.dtype.itemsize == 8 and c.dtype.kind in "iu" else 1 for c in part) for part in parts]
    same = [(a, b) for a, b in itertools.combinations(range(len(parts)), 2) if len(parts[a]) == len(parts[b])]
    return made + [Differences(a, b, max(widths[a], widths[b])) for a, b in same[:_MOST_PAIRS]]


# ---- of one pair of inputs


class Score(Summary):
    """The sum over the places of the estimated ln(Pr[level | x] / Pr[level | y]), as if places were independent.

    In a context the estimates are of the reports with the same level there, as are those that name a hash function.
    What is within the noise of the estimate counts as 0.
    """

    def __init__(self, x: Rows, y: Rows, among: Sequence[Place], context: Place | None) -> None:
        self.name = "score of all places" + (f", given {context.name}" if context else "")
        self._context = context
        n = context.size if context else 1
        self._weights = []
        for place in among:
            if place is context:
                continue
            counts = [self._table(rows, place, n) + 0.5 for rows in (x, y)]
            totals = [table.sum(axis=1, keepdims=True) for table in counts]
            weights = np.log(counts[0] / totals[0]) - np.log(counts[1] / totals[1])
            noise = np.sqrt(1 / counts[0] + 1 / counts[1])
            weights[np.abs(weights) < _SIGMAS * noise] = 0
            if weights.any():
                self._weights.append((place, weights.reshape(-1)))
        self._edges = np.zeros(0)
        if self._weights:
            scores = np.sort(np.concatenate([self._scores(x), self._scores(y)]))
            inner = scores[np.linspace(0, len(scores) - 1, _QUANTILES).astype(int)]
            self._edges = np.unique(np.concatenate([scores[:_TAIL], inner, scores[-_TAIL:]]))
        self.size = len(self._edges) + 1

    def _table(self, rows: Rows, place: Place, n: int) -> npt.NDArray[np.float64]:
        keys = rows.coded(place)
        if self._context:
            keys = rows.coded(self._context) * np.int64(place.size) + keys
        return np.bincount(keys, minlength=n * place.size).reshape(n, place.size).astype(float)

    def _scores(self, rows: Rows) -> npt.NDArray[np.float64]:
        out = np.zeros(len(rows))
        context = None if self._context is None else rows.coded(self._context).astype(np.int64)
        for place, weights in self._weights:
            keys = rows.coded(place)
            out += weights[keys if context is None else context * place.size + keys]
        rounded: npt.NDArray[np.float64] = np.round(out, 9)
        return rounded

    @override
    def keys(self, rows: Rows) -> Keys:
        return np.searchsorted(self._edges, self._scores(rows), side="right")


_SIGMAS = 3.0
_QUANTILES = 257
_TAIL = 64


def of_pair(x: Rows, y: Rows, found: Sequence[Place]) -> list[Summary]:
    """Summaries that serve one pair of inputs, made from the first part of the trials."""
    if len(found) < 2:
        return []
    made: list[Summary] = []
    differences = []  # chi-squares: about as large as a place has levels, if it does not depend on the input
    for place in found:
        a, b = (rows.counts(place).astype(float) for rows in (x, y))
        differences.append(float(np.sum((a - b) ** 2 / np.maximum(a + b, 1))))
    best: list[Place] = []
    for at in np.argsort([d / place.size for d, place in zip(differences, found, strict=True)])[::-1]:
        if math.prod(place.size for place in [*best, found[at]]) <= _JOINT:
            best.append(found[at])
    if 1 < len(best) < len(found):
        made.append(Joint("the places " + "; ".join(place.name for place in best[:4]) + ", ...", best))
    scored = [place for place in found if not isinstance(place, Bins)]
    if len(scored) > 1:
        made.append(Score(x, y, scored, None))
    contexts = [
        place
        for place, d in zip(found, differences, strict=True)
        if isinstance(place, Levels) and place.size > 3 and d < 2 * place.size + _INDEPENDENT
    ]
    return made + [Score(x, y, scored, place) for place in contexts[:_MOST_CONTEXTS] if len(scored) > 2]


_INDEPENDENT = 40
