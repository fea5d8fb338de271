"""Structural checks: what reports show beside their values, and what rows have to do with each other.

The statistical part compares the reports of one row, which it knows by its position. Raw values may be elsewhere: in
memory that no row shows, in a dictionary, in metadata, in the order of the rows; or in few rows, or few values.
`CHECKS` is the table of what is looked at. Each check has a chance of 1e-9 or less to accuse independent reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.arrays.arrow import column_of
from ldp_core.auditing.binomial import epsilon_bound
from ldp_core.auditing.boxes import Box
from ldp_core.auditing.columns import NULL, columns
from ldp_core.auditing.summaries import hashed

_FEW = 1 << 12  # rows of a run that is looked at as a whole
# 2^5 5^4: rows that are raw at each 10th, 16th, 100th ... 10,000th place come again at the same places
_PERIOD = 20_000
_BLOCK = 1 << 14  # and the last ones of blocks of powers of two
_ROWS = 64 * _PERIOD
_BATCH = 1 << 8  # rows of one of many small runs
_CELLS = 1 << 25
_CHANCE = 1e-9
_SURE = 48  # runs of two inputs more, to tell what some runs have beside their values from chance
_LEAST = 17  # of these, which can tell it
_LAGS = [1 << k for k in range(17)]

Words: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Runs:
    """Runs of a black box, each made when it is asked for, of so many trials of each input as the audit may take."""

    box: Box
    trials: int

    def of(self, inputs: Sequence[tuple[Any, ...]], rows: npt.NDArray[np.int64]) -> tuple[Any, ...]:
        """What the box makes of rows with these inputs, of which each row says the place."""
        made = self.box.perturb(*(pa.array(column).take(pa.array(rows)) for column in zip(*inputs, strict=True)))
        return made if isinstance(made, tuple) else (made,)

    def words(self, inputs: Sequence[tuple[Any, ...]], rows: npt.NDArray[np.int64]) -> Words:
        """A hash of each report."""
        return _words(self.of(inputs, rows))

    @cached_property
    def twice(self) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Of each of the first inputs two runs, in which all rows have it."""
        return [(self.few(at), self.few(at)) for at in range(len(self.box.inputs[:3]))]

    def few(self, at: int) -> tuple[Any, ...]:
        """One of these more."""
        return self.of([self.box.inputs[at]], np.zeros(_FEW, np.int64))

    @cached_property
    def long(self) -> list[tuple[Words, npt.NDArray[np.int64]]]:
        """Of each of the first two inputs as many rows as there may be, and how often each word is there."""
        width = sum(len(part) for part in columns(self.twice[0][0]))
        most = min(_ROWS, max(2 * self.trials, _LAGS[-1] * 2), _CELLS // max(width, 1))
        rows = np.zeros(max(most, _FEW), np.int64)
        words = [self.words([value], rows) for value in self.box.inputs[:2]]
        return [(each, np.unique(each, return_counts=True)[1]) for each in words]


def _alike(times: npt.NDArray[np.int64], rows: int) -> float:
    """That so many rows are the same, if each word is there so often."""
    return min(float(((times / times.sum()) ** rows).sum()), 1.0)


def _words(reports: tuple[Any, ...]) -> Words:
    return hashed([column for part in columns(reports) for column in part])


def find(box: Box, trials: int) -> tuple[str, ...]:
    """What the checks find, in words; mostly nothing."""
    runs = Runs(box, trials)
    return tuple(what for what, check in CHECKS.items() if check(runs))


# ---- what is beside the values: the same in two runs of one input, and not the same of two inputs


def _arrow(reports: Any) -> pa.Array | None:
    reports = column_of(reports)
    if isinstance(reports, pa.ChunkedArray):
        reports = pa.concat_arrays(reports.chunks) if reports.num_chunks else None
    return reports if isinstance(reports, pa.Array) else None


def _chunks(reports: Any) -> list[Any]:
    """Those of each column of Arrow (where they are combined, what is behind them is left out); else the reports."""
    columns = reports.columns if isinstance(reports, (pa.Table, pa.RecordBatch)) else [reports]
    return [chunk for column in columns for chunk in getattr(column, "chunks", [column])]


def _arrays(reports: Any) -> list[pa.Array | None]:
    return list(map(_arrow, _chunks(reports)))


def _tells(view: Callable[[Any], Any], of: Callable[[Any], list[Any]] = _arrays) -> Callable[[Runs], bool]:
    """A check of a view of reports, which is None where there is nothing to see."""

    def seen(run: tuple[Any, ...]) -> list[Any]:
        return [view(array) for reports in run for array in of(reports) if array is not None]

    def check(runs: Runs) -> bool:
        twice = [(seen(one), seen(other)) for one, other in runs.twice]
        stable = [(at, one) for at, (one, other) in enumerate(twice) if one == other and None not in one]
        for at, other in stable[1:]:
            first, one = stable[0]
            if one == other:
                continue
            more = [[(_outline(run), seen(run) == one) for run in map(runs.few, [k] * _SURE)] for k in (first, at)]
            for parts in (slice(None), slice(2)):  # where hardly two runs have one outline, a rough one will do
                outlines = {outline[parts] for runs_of in more for outline, _ in runs_of}
                alike = [[[same for each, same in runs_of if each[parts] == o] for runs_of in more] for o in outlines]
                if enough := [pair for pair in alike if min(map(len, pair)) >= _LEAST]:
                    if any(_differ(*pair) for pair in enough):
                        return True
                    break
        return False

    return check


def _outline(run: tuple[Any, ...]) -> tuple[int, ...]:
    """What rows may do to the memory and the type of a run: are some below 0 or null, how long they are, how many."""
    found, missing, below = [], False, False
    for part in columns(run):
        ends = [end(column) for end in (np.fmin.reduce, np.fmax.reduce) for column in part]  # (of all that is no NaN)
        longest = max(map(abs, map(float, ends)))
        missing |= (
            any(column.dtype.kind == "f" and bool(np.isnan(column).any()) for column in part) or min(ends) <= NULL + 9
        )
        below |= min(ends) < 0
        found += [min(ends) < 0, math.frexp(longest)[1], len(np.unique(hashed(part))).bit_length()]
    return missing, below, *found


def _differ(one: Sequence[bool], other: Sequence[bool]) -> bool:
    """Whether a thing that so many runs of two inputs have has two probabilities, by Fisher's exact test."""
    (a, n), (b, m) = ((sum(runs), len(runs)) for runs in (one, other))
    both = a + b
    as_far = [math.comb(n, k) * math.comb(m, both - k) for k in range(max(both - m, 0), min(n, both) + 1)]
    return sum(ways for ways in as_far if ways <= math.comb(n, a) * math.comb(m, b)) < _CHANCE * math.comb(n + m, both)


def _kind(reports: Any) -> tuple[str, bytes] | None:
    """The name, and the type and its metadata."""
    said = (
        getattr(reports, "attrs", None),
        getattr(getattr(reports, "dtype", None), "metadata", None),
    )  # (pandas, numpy)
    name = f"{getattr(reports, 'name', '')}{said}"
    if isinstance(reports, np.ndarray) and reports.dtype.kind in "biuf":  # (a text's type has the longest one's length)
        return name, reports.dtype.str.encode()
    array = _arrow(reports)
    table = isinstance(reports, (pa.Table, pa.RecordBatch))
    schema = reports.schema if table else array if array is None else pa.schema([("", array.type)])
    return schema if schema is None else (name, schema.serialize().to_pybytes())


def _layout(reports: Any) -> list[Any] | None:
    """Chunks of Arrow, where they begin in memory, and whether they say which rows are null. None if some are."""
    chunks = [chunk for chunk in _chunks(reports) if isinstance(chunk, pa.Array)]
    if any(chunk.null_count for chunk in chunks):
        return None
    return [(len(chunk), chunk.offset, chunk.buffers()[0] is None) for chunk in chunks]


def _plain(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _cells(array: pa.Array, dead: npt.NDArray[np.bool_]) -> Iterator[bytes]:
    """The different cells in the buffers of an array that no row shows, or only one that is ``dead``."""
    array = _plain(array)
    kind, types, n = array.type, pa.types, len(array)
    yield from _unseen(array.buffers()[0], 1, array.offset + np.flatnonzero(~dead))
    dead = dead | array.is_null().to_numpy(zero_copy_only=False)
    if types.is_struct(kind):
        for k in range(kind.num_fields):
            yield from _cells(array.field(k), dead)
        return
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        yield from _cells(array.values.slice(array.offset * size, n * size), np.repeat(dead, size))
        return
    if types.is_dictionary(kind):
        yield from _cells(array.dictionary, np.zeros(len(array.dictionary), bool))
        array = array.indices
    views = types.is_string_view(kind) or types.is_binary_view(kind)  # 16 bytes each, which hold short texts
    data, rows = array.buffers()[1 if views else -1], array.offset + np.flatnonzero(~dead)
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        width = 8 if "large" in str(kind) else 4
        raw, ends = np.frombuffer(data or b"", np.uint8), np.frombuffer(array.buffers()[1], f"i{width}")
        yield raw[~_between(ends[rows], ends[rows + 1], len(raw))].tobytes()
        yield from _unseen(array.buffers()[1], 8 * width, array.offset + np.arange(n + 1))
    elif data is not None:  # (of nulls there is none)
        yield from _unseen(data, 128 if views else array.type.bit_width, rows)
    if views:  # those of long texts say in which buffer they are, and where
        size, _, which, at = np.frombuffer(data, np.int32).reshape(-1, 4)[rows].T.astype(np.int64)
        for k, texts in enumerate(array.buffers()[2:]):
            raw, here = np.frombuffer(texts or b"", np.uint8), (size > 12) & (which == k)
            yield raw[~_between(at[here], at[here] + size[here], len(raw))].tobytes()


def _between(starts: npt.NDArray[Any], ends: npt.NDArray[Any], size: int) -> npt.NDArray[np.bool_]:
    """Which of so many places are in one of these ranges."""
    steps = np.zeros(size + 1, np.int64)
    np.add.at(steps, starts, 1)
    np.add.at(steps, ends, -1)
    return np.cumsum(steps)[:-1] > 0


def _unseen(data: pa.Buffer | None, width: int, rows: npt.NDArray[np.int64]) -> Iterator[bytes]:
    """What is at other places than these of a buffer: the different cells of so many bits, or all bits as they are."""
    if data is None:
        return
    raw = np.frombuffer(data, np.uint8)
    if width == 1:
        bits = np.unpackbits(raw, bitorder="little")
        bits[rows] = 0
        if bits.any():  # (what is not used is 0)
            yield np.packbits(bits).tobytes()
        return
    cells = raw[: len(raw) // (width // 8) * (width // 8)].reshape(-1, width // 8)
    shown = np.zeros(len(cells), bool)
    shown[rows] = True
    hidden = cells[~shown]
    for cell in np.unique(hidden[hidden.any(axis=1)], axis=0):
        yield cell.tobytes()


def _dictionary(array: pa.Array) -> frozenset[Any] | None:
    """The entries, where there are some that no row has."""
    array = _plain(array)
    if not pa.types.is_dictionary(array.type):
        return None
    entries = array.dictionary.to_pylist()
    return frozenset(entries) if len(array.indices.drop_null().unique()) < len(entries) else None


# ---- what rows have to do with each other


def _matches_too_often(matches: int, n: int, chance: float) -> bool:
    """Whether so many of n pairs are no chance; those that share rows vary at most 3 times as much as others do."""
    return matches > n * chance + 8 * math.sqrt(3 * n * chance * (1 - chance)) + 8


def _chance(first: Words, second: Words) -> float:
    """That two reports are the same, one of each run."""
    (words, times), (others, theirs) = (np.unique(run, return_counts=True) for run in (first, second))
    _, one, other = np.intersect1d(words, others, assume_unique=True, return_indices=True)
    return min(float((times[one] / len(first) * (theirs[other] / len(second))).sum()), 1.0)


def _repeats_at_lags(runs: Runs) -> bool:
    words, times = runs.long[0]
    some = words[: 2 * _LAGS[-1]].astype(float) - words.mean()
    waves = np.fft.rfft(some, 2 * len(some))
    like = np.fft.irfft(waves * waves.conj())[: len(some) // 2]  # autocorrelation (Wiener and Khinchin)
    lags = [*_LAGS, int(like[1:].argmax()) + 1, int(like[1:].argmin()) + 1]
    return _depend(words, times, chain(_rolled(words, lags), [words[::-1]]))  # (and mirrored)


def _rolled(words: npt.NDArray[Any], lags: Sequence[int]) -> Iterator[npt.NDArray[Any]]:
    return (np.roll(words, lag) for lag in lags if 2 * lag <= len(words))


def _depend(words: npt.NDArray[Any], times: npt.NDArray[np.int64], others: Iterable[npt.NDArray[Any]]) -> bool:
    """Whether rows are those of one of ``others``, other orders of them, more often than chance has it, or less often.

    ``times``: how often each word is there. A count of joins (P. Moran, JRSS B 10(2), 1948), each perhaps twice.
    """
    n, two, three = len(words), _alike(times, 2), _alike(times, 3)
    reach = 8 * math.sqrt(max(2 * n * (two + two**2 - 2 * three), 0)) + 8
    return any(abs(int(np.count_nonzero(words == other)) - n * two) > reach for other in others)


def _repeats_between_runs(runs: Runs) -> bool:
    for pair in runs.twice:
        first, second = map(_words, pair)
        if _matches_too_often(int(np.count_nonzero(first == second)), len(first), _chance(first, second)):
            return True
    return False


def _coins_of_a_batch(runs: Runs) -> bool:
    """Whether two rows of one run are the same more often than two of any runs of one input."""
    for at, pair in enumerate(runs.twice[:2]):
        words = np.array([_words(run) for run in pair])
        if (words == words[:, :1]).all():  # one coin may have fallen twice the same way
            rows = np.zeros(_BATCH, np.int64)
            words = np.array([runs.words(runs.box.inputs[at : at + 1], rows) for _ in range(_SURE)])
        chance = _alike(np.unique(words, return_counts=True)[1], 2)
        pairs = words.reshape(-1, 2)
        if _matches_too_often(int(np.count_nonzero(pairs[:, 0] == pairs[:, 1])), len(pairs), chance):
            return True
    return False


def _places_without_noise(runs: Runs) -> bool:
    """Rows that are the same in each period, more of them than chance leaves: raw ones at known places."""
    return any(_same_in_each(*each, period) for each in runs.long for period in (_PERIOD, _BLOCK))


def _same_in_each(words: Words, times: npt.NDArray[np.int64], period: int) -> bool:
    period = min(period, len(words) // 2)
    table = words[: len(words) // period * period].reshape(-1, period)
    expected = period * _alike(times, len(table))
    same = int(np.count_nonzero((table == table[0]).all(axis=0)))
    if expected > 1:
        return same > expected + 8 * math.sqrt(expected) + 8
    return same > 0 and expected**same / math.factorial(min(same, 100)) < _CHANCE


def _few_rows_without_noise(runs: Runs) -> bool:
    """Whether a row of small batches is the same in more of them than chance leaves; mostly the second is another."""
    sizes = (1, 9)
    for value, (_, times) in zip(runs.box.inputs, runs.long, strict=False):
        enough = next((k for k in range(2, 257) if sum(sizes) * _alike(times, k) < _CHANCE), 0)
        for rows in (np.zeros(n, np.int64) for n in sizes if enough):
            first = runs.words([value], rows)
            same, more = np.ones(len(rows), bool), enough
            while same.any() and (more := more - 1):
                same &= runs.words([value], rows) == first
            if same.any():
                return True
    return False


def _order(runs: Runs) -> bool:
    """Whether rows are like those near them, or the first half unlike the second, of inputs in a random order."""
    words = runs.words(runs.box.inputs[:2], np.random.default_rng(0).permutation(1 << 16) % 2)
    kinds = np.unique(words, return_inverse=True)[1] % 16  # (so that two reports are of two kinds)
    half = len(kinds) // 2
    first, second = (np.bincount(part, minlength=16).astype(float) for part in (kinds[:half], kinds[half:]))
    square = float(np.sum((first - second) ** 2 / np.maximum(first + second, 1)))
    unlike = square > 90  # chi-square of 15 degrees of freedom: 1e-12
    return unlike or _depend(kinds, np.bincount(kinds), _rolled(kinds, _LAGS))


# ---- each value


def _a_value_without_noise(runs: Runs) -> bool:
    """Whether a report that is frequent of one value is so rare of another one that epsilon is above the claim."""
    values = runs.box.values
    if len(values) < 3:
        return False
    width = sum(len(part) for part in columns(runs.twice[0][0]))
    each = min(max(2 * runs.trials // len(values), 128), _CELLS // max(width * len(values), 1)) // 2
    if each < 16:
        return False
    places = np.arange(len(values), dtype=np.min_scalar_type(len(values)))  # (small ones are sorted fast)
    order = np.random.default_rng(1).permutation(np.repeat(places, 2 * each))
    words = runs.words([(value,) for value in values], order)[np.argsort(order, kind="stable")]
    return _tell_apart(words.reshape(len(values), 2, each), runs.box.claimed)


def _batches_of_one_value(runs: Runs) -> bool:
    """The same of batches in which all rows have one value: what is made of a whole batch may tell it."""
    return _tell_apart(np.array([[_words(run) for run in pair] for pair in runs.twice]), runs.box.claimed)


def _tell_apart(words: Words, claimed: float) -> bool:
    """Whether a report breaks the claim in the second of two runs of each value, and was chosen in the first."""
    values, _, each = words.shape
    alpha = _CHANCE / (2 * values**2)
    for k, (chosen, counted) in enumerate(words):
        found, times = np.unique(chosen, return_counts=True)
        hits = np.count_nonzero(words[:, 1] == found[times.argmax()], axis=1)
        hits[k] = each
        own = int(np.count_nonzero(counted == found[times.argmax()]))
        if epsilon_bound(own, each, int(hits.min()), each, alpha) > claimed:
            return True
    return False


CHECKS: dict[str, Callable[[Runs], bool]] = {
    "memory that no row shows tells the input": _tells(
        lambda array: frozenset(_cells(array, np.zeros(len(array), bool)))
    ),
    "entries of a dictionary tell the input": _tells(_dictionary),
    "the name, the type or its metadata tell the input": _tells(lambda kind: kind, lambda reports: [_kind(reports)]),
    "where memory begins or is cut tells the input": _tells(_layout, lambda reports: [reports]),
    "the order of the rows tells the inputs": _order,
    "reports repeat after some rows, or never do": _repeats_at_lags,
    "reports repeat in another run": _repeats_between_runs,
    "reports of one batch have noise in common": _coins_of_a_batch,
    "rows at some places have no noise": _places_without_noise,
    "rows of small batches have no noise": _few_rows_without_noise,
    "a value of the domain has less noise than others": _a_value_without_noise,
    "batches of one value tell it": _batches_of_one_value,
}
"""What each check says if it finds something."""
