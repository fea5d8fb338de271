"""A limit without a pipeline, records to put into it, and the definition of what passes."""

import dataclasses
import random
import typing
from collections import Counter, defaultdict

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import WindowFn

from ldp_beam.persons._limits import AdmitFirst, PieceCoder, SplitByPerson

from ..helpers import drive, parted, values

N = 400
_rng = np.random.default_rng(0)
EVENTS = pa.table(
    {
        "user": _rng.integers(0, 20, N),
        "time": _rng.integers(-50, 50, N),
        "n": np.arange(N),
        "os": _rng.choice(["a", "b", "c"], N),
    }
)
RECORDS = EVENTS.to_pylist()


class Cell:
    """A state cell."""

    value: bytes | None = None

    def read(self) -> bytes | None:
        return self.value

    def write(self, value: bytes) -> None:
        self.value = value


def placed(bound, *bundles, windows=None, shuffled: int | None = None, forgets: bool = False):
    """What passes a limit, and its dead letters: its two steps, one after the other, as a runner calls them.

    Between the steps pieces are encoded, as between machines; each shard and window has a state of its own.
    """
    limit, tag, coder = bound._limit, bound._dead_letter_tag, PieceCoder()
    split, admit = SplitByPerson(limit, tag, bound.values), AdmitFirst(limit, tag, forgets=forgets)
    states: dict[typing.Any, Cell] = defaultdict(Cell)
    pieces, dead, passed = [], [], []
    for bundle in bundles:
        found, letters = drive(split, bundle, windows)
        pieces += found
        dead += letters
    if shuffled is not None:
        random.Random(shuffled).shuffle(pieces)
    for one in pieces:
        shard, piece = one.value
        [window] = one.windows
        if limit.windows is not None:
            [window] = limit.windows.assign(WindowFn.AssignContext(one.timestamp))
        found, letters = parted(list(admit.process((shard, coder.decode(coder.encode(piece))), states[shard, window])))
        passed += found
        dead += letters
    return passed, dead


def limited(bound, *bundles, **options):
    """`placed`, without times and windows."""
    passed, dead = placed(bound, *bundles, **options)
    return values(passed), values(dead)


def rows_of(elements):
    """Records of any kind of elements, as dicts."""
    for element in elements:
        if isinstance(element, (pa.RecordBatch, pa.Table)):
            yield from element.to_pylist()
        else:
            yield dict(element) if isinstance(element, dict) else element._asdict()


def numbers(elements):
    return sorted(row["n"] for row in rows_of(elements))


def total(letters):
    """Dead letters by column and reason."""
    out: Counter = Counter()
    for letter in letters:
        out[letter[:2]] += letter.count
    return dict(out)


def first(k, records, size=10, *, user="user", time="time"):
    """The definition: one record after the other; ``size`` is the window's, None for ever."""
    seen, out = Counter(), []
    for record in records:
        place = (record[user], record[time] // size if size else 0)
        seen[place] += 1
        if seen[place] <= k:
            out.append(record["n"])
    return sorted(out)


class Event(typing.NamedTuple):
    user: int
    time: int
    n: int
    os: str


@dataclasses.dataclass
class EventData:
    user: int
    time: int
    n: int
    os: str


FORMS = {
    "one table": lambda t: [t],
    "batches": lambda t: t.to_batches(max_chunksize=100),
    "chunked tables": lambda t: [pa.concat_tables([t[:200], t[200:300]]), t[300:]],
    "tiny batches": lambda t: t[:50].to_batches(max_chunksize=1) + t[50:].to_batches(),
    "empty batches": lambda t: [t[:0], t, t[:0]],
    "dicts": lambda t: t.to_pylist(),
    "rows": lambda t: [beam.Row(**r) for r in t.to_pylist()],
    "named tuples": lambda t: [Event(**r) for r in t.to_pylist()],
    "dataclasses": lambda t: [EventData(**r) for r in t.to_pylist()],
}
