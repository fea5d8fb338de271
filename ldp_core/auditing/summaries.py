"""What is looked at in a report: whole reports where there are few, else places, sums and scores of them.

A summary maps each report to one of few numbers, its *key*. Any set of keys is an event, whatever the summary was made
from, so that a bad one costs power and never correctness. They are made from one part of the trials only, see
`ldp_core.auditing.events`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ldp_core.auditing.columns import Column, Part

Keys: TypeAlias = npt.NDArray[Any]
"""Non-negative integers, one per report."""

MOST_KEYS = 1 << 16
_REPEATED = 8  # times that a report is there, to be known where hardly any is there twice: a raw one in few rows
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
        self._keys: dict[Summary, Keys] = {}
        self._counted: dict[tuple[Summary, Place | None], npt.NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self.columns[0])

    def keys(self, place: Place) -> Keys:
        """The keys of a place, computed once."""
        if place not in self._keys:
            self._keys[place] = place.keys(self)
        return self._keys[place]

    def cells(self, place: Place, context: Place | None) -> Keys:
        """The keys of a place, those of each key of the context apart."""
        return self.keys(context) * np.int64(place.size) + self.keys(place) if context else self.keys(place)

    def counts(self, summary: Summary, context: Place | None = None) -> npt.NDArray[np.int64]:
        """How many reports have each key, computed once."""
        if (summary, context) not in self._counted:
            keys = self.cells(summary, context) if isinstance(summary, Place) else summary.keys(self)
            size = summary.size * (context.size if context else 1)
            self._counted[summary, context] = np.bincount(keys, minlength=size)
        return self._counted[summary, context]


@dataclass(frozen=True, eq=False)
class Summary:
    """Reports to ``keys`` below ``size``; ``whole``: no two reports share a key, but for those that are rare."""

    name: str
    size: int
    keys: Callable[[Rows], Keys]
    whole: bool = False


# ---- single places


@dataclass(frozen=True, eq=False)
class Place(Summary):
    """One column of the reports, as few levels.

    ``kind`` is ``"levels"``: each of few distinct numbers has a key, and all others together; ``"ranges"`` of about
    equally likely numbers; a ``"bit"`` of an integer.
    """

    column: int = 0
    kind: Literal["levels", "ranges", "bit"] = "levels"


def _levels(column: int, name: str, levels: Column) -> Place:
    small = np.min_scalar_type(len(levels))
    themselves = levels.dtype.kind in "iu" and levels[0] == 0 and levels[-1] == len(levels) - 1

    def keys(rows: Rows) -> Keys:
        values = rows.columns[column]
        if not themselves or values.dtype != levels.dtype:
            return _among(levels, values).astype(small)
        view = np.dtype(f"u{levels.dtype.itemsize}")  # (what is negative is large)
        found: Keys = np.minimum(values.view(view), min(len(levels), np.iinfo(view).max))
        return found.astype(small)

    return Place(name, len(levels) + 1, keys, column=column)


def _among(known: Column, values: Column) -> Keys:
    """Positions of values among the known ones, in order; one past the end for others."""
    at = np.searchsorted(known, values)
    at[at == len(known)] = 0
    return np.where(known[at] == values, at, len(known))


def _ranges(column: int, name: str, sample: Column) -> Place:
    ordered = np.sort(sample)
    edges = np.unique(ordered[np.linspace(0, len(ordered) - 1, _BINS + 1).astype(int)])

    def keys(rows: Rows) -> Keys:
        return np.searchsorted(edges, rows.columns[column], side="right").astype(np.uint16)

    return Place(name, len(edges) + 1, keys, column=column, kind="ranges")


def _bit(column: int, name: str, bit: int) -> Place:
    def keys(rows: Rows) -> Keys:
        values = rows.columns[column]
        bits: Keys = (values >> values.dtype.type(bit)) & values.dtype.type(1)
        return bits.astype(np.uint8)

    return Place(f"{name}, bit {bit}", 2, keys, column=column, kind="bit")


def places(samples: Sequence[Rows], names: Sequence[str]) -> list[Place]:
    """All places, as a part of the trials shows them."""
    made: list[Place] = []
    for column, name in enumerate(names):
        sample = np.concatenate([rows.columns[column][: _SAMPLED // len(samples)] for rows in samples])
        levels, _ = np.unique(sample, return_counts=True)  # (by sorting: much faster than without counts)
        if len(levels) <= _MOST_LEVELS:
            if len(levels) > 1:
                made.append(_levels(column, name, levels))
            continue
        made.append(_ranges(column, name, sample))
        if sample.dtype.kind in "iu":
            both = np.bitwise_or.reduce(sample) & ~np.bitwise_and.reduce(sample)
            made += [_bit(column, name, bit) for bit in range(8 * sample.dtype.itemsize) if int(both) >> bit & 1]
    return made


# ---- whole reports, and what several places have together


def _joint(name: str, among: Sequence[Place], *, whole: bool = False) -> Summary:
    """Several places at once."""

    def keys(rows: Rows) -> Keys:
        out = np.zeros(len(rows), np.uint32)
        for place in among:
            out *= np.uint32(place.size)
            out += rows.keys(place)
        return out

    return Summary(name, math.prod(place.size for place in among), keys, whole)


def _hashed_whole(samples: Sequence[Rows], least: int) -> Summary:
    """Whole reports, by a hash of all their places; those that were not ``least`` times in a first part are one."""
    counted = [np.unique(hashed(rows.columns), return_counts=True) for rows in samples]
    known = np.unique(np.concatenate([words[times >= least] for words, times in counted]))
    keys = lambda rows: _among(known, hashed(rows.columns))  # noqa: E731
    return Summary("the whole report", len(known) + 1, keys, whole=least == 1)


_MIX, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def hashed(columns: Part) -> npt.NDArray[np.uint64]:
    """A word per report; that two reports share one would make them one event, which does no harm."""
    words = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        words ^= column.astype(np.float64 if column.dtype.kind == "f" else np.int64).view(np.uint64)
        words *= _MIX
        words ^= words >> _SHIFT
    return words


def _differences(first: int, second: int, size: int) -> Summary:
    """In how many places two reports of one shape differ: rounds of a person, columns of a record."""

    def keys(rows: Rows) -> Keys:
        out = np.zeros(len(rows), np.uint32)
        for a, b in zip(rows.parts[first], rows.parts[second], strict=True):
            if _is_words(a):  # perhaps of bits
                out += np.bitwise_count(a.astype(np.int64) ^ b.astype(np.int64))
            else:
                out += a != b
        return np.minimum(out, size)

    return Summary(f"places in which reports {first + 1} and {second + 1} differ", size + 1, keys)


def _is_words(column: Column) -> bool:
    return column.dtype.itemsize == 8 and column.dtype.kind in "iu"


def _ones(name: str, among: Sequence[Place]) -> Summary:
    """How many places of two levels have the higher one."""

    def keys(rows: Rows) -> Keys:
        out = np.zeros(len(rows), np.uint16)
        for place in among:
            out += rows.keys(place) == 1
        return out

    return Summary(f"number of ones in {name}", len(among) + 1, keys)


def shared(samples: Sequence[Rows], found: Sequence[Place], part_of: Sequence[int]) -> list[Summary]:
    """Summaries that serve all pairs of inputs, of reports of the first part of the trials; ``part_of`` each column."""
    made: list[Summary] = list(found)
    few = all(place.kind == "levels" for place in found) and math.prod(place.size for place in found) <= MOST_KEYS
    if found and few:
        made.append(_joint("the whole report", found, whole=True))
    elif found:
        sampled = np.concatenate([hashed([c[:_SAMPLED] for c in rows.columns]) for rows in samples])
        least = 1 if len(np.unique(sampled, return_counts=True)[0]) < len(sampled) / 2 else _REPEATED
        if 1 < (whole := _hashed_whole(samples, least)).size <= MOST_KEYS:
            made.append(whole)
    for part in sorted(set(part_of)):
        places = (place for place in found if part_of[place.column] == part)
        bits = [place for place in places if place.size - (place.kind == "levels") == 2]
        if len(bits) > 2:
            made.append(_ones(f"report {part + 1}", bits))
    parts = samples[0].parts
    widths = [sum(64 if _is_words(c) else 1 for c in part) for part in parts]
    same = [(a, b) for a, b in itertools.combinations(range(len(parts)), 2) if len(parts[a]) == len(parts[b])]
    return made + [_differences(a, b, max(widths[a], widths[b])) for a, b in same[:_MOST_PAIRS]]


# ---- of one pair of inputs


def _score(x: Rows, y: Rows, among: Sequence[Place], context: Place | None) -> Summary:
    """The sum over the places of the estimated ln(Pr[level | x] / Pr[level | y]), as if places were independent.

    In a context the estimates are of the reports with the same level there, as are those that name a hash function.
    What is within the noise of the estimate counts as 0.
    """
    n = context.size if context else 1

    weighted = []
    for place in among:
        if place is context:
            continue
        counts = [rows.counts(place, context).reshape(n, place.size) + 0.5 for rows in (x, y)]
        totals = [table.sum(axis=1, keepdims=True) for table in counts]
        weights = np.log(counts[0] / totals[0]) - np.log(counts[1] / totals[1])
        noise = np.sqrt(1 / counts[0] + 1 / counts[1])
        weights[np.abs(weights) < _SIGMAS * noise] = 0
        if weights.any():
            weighted.append((place, weights.reshape(-1)))

    def scores(rows: Rows) -> npt.NDArray[np.float64]:
        out = np.zeros(len(rows))
        for place, weights in weighted:
            out += weights.take(rows.cells(place, context))
        return np.round(out, 9)

    seen = np.concatenate([scores(x), scores(y)])
    low, step = seen.min(), max(np.ptp(seen) / (MOST_KEYS - 1), 1e-9)

    def steps(of: npt.NDArray[np.float64]) -> Keys:  # (much faster than a search among quantiles)
        return ((of - low) / step).clip(0, MOST_KEYS - 1).astype(np.uint16)

    ordered = np.sort(steps(seen), kind="stable")  # (two bytes are sorted by their digits)
    inner = ordered[np.linspace(0, len(ordered) - 1, _QUANTILES).astype(int)]
    edges = np.unique(np.concatenate([ordered[:_TAIL], inner, ordered[-_TAIL:]]))
    table = np.searchsorted(edges, np.arange(MOST_KEYS), side="right").astype(np.uint16)
    name = "score of all places" + (f", given {context.name}" if context else "")
    return Summary(name, len(edges) + 1, lambda rows: table[steps(scores(rows))])


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
        made.append(_joint("the places " + "; ".join(place.name for place in best[:4]) + ", ...", best))
    scored = [place for place in found if place.kind != "ranges"]
    if len(scored) > 1:
        made.append(_score(x, y, scored, None))
    contexts = [
        place
        for place, d in zip(found, differences, strict=True)
        if place.kind == "levels" and place.size > 3 and d < 2 * place.size + _INDEPENDENT
    ]
    return made + [_score(x, y, scored, place) for place in contexts[:_MOST_CONTEXTS] if len(scored) > 2]


_INDEPENDENT = 40
