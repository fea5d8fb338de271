"""Who has been seen how often, or when: tables of hashed ids, looked up and added to by whole arrays.

A table is what a worker's state holds for one shard and one window, so it is compact: 8 bytes for the hash of an id
and 1 for its count (more if the limit is above 255). Two ids that share a hash share a count. With N persons in a
window that befalls a given person with probability N / 2^64, and anybody at all with N^2 / 2^65: for 10^8 persons,
5e-12 and 3e-4. It can only make a table refuse too early: what a person has used is never more than what
the table has counted for the person's hash, and that is never above the limit.
"""

from __future__ import annotations

from bisect import bisect
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ldp_core import InputError
from ldp_core.engine import I64, U64, Bools

Counts = npt.NDArray[np.unsignedinteger]

MOST = 2**62  # limits above this are as good as this
_VERSION, _VERSION_OF_TIMES = 1, 2
_HEADER = 8  # bytes: version, bytes a count, and zeros that align the hashes


class Seen(NamedTuple):
    """How often each hash has been let through.

    >>> seen, hashes = Seen.nobody(2), np.array([7, 9, 7, 7], np.uint64)
    >>> passes, seen = seen.admit(hashes, 2)
    >>> passes.tolist(), seen.hashes.tolist(), seen.counts.tolist()
    ([True, True, True, False], [7, 9], [2, 1])
    >>> seen.admit(hashes, 2)[0].tolist()
    [False, True, False, False]
    """

    hashes: U64  # uint64[m], ascending, distinct
    counts: Counts  # unsigned integers[m], at least 1

    @classmethod
    def nobody(cls, limit: int) -> Seen:
        """The empty table, for counts up to ``limit``."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.min_scalar_type(min(limit, MOST))))

    def admit(self, hashes: U64, limit: int) -> tuple[Bools, Seen]:
        """Let the first ``limit`` records of each hash through, those of earlier calls included.

        Args:
            hashes: uint64[n], one per record, in order of arrival.
            limit: at least 1.

        Returns:
            bool[n], which records pass; and the table after them: this very table if none does.
        """
        limit = min(limit, MOST)
        order = np.argsort(hashes, kind="stable")  # stable: of equal hashes the earlier is first
        runs = hashes[order]
        starts = np.flatnonzero(np.append(True, runs[1:] != runs[:-1])) if len(runs) else order
        lengths = np.diff(np.append(starts, len(runs)))
        found = runs[starts]
        at = np.searchsorted(self.hashes, found)
        known = np.zeros(len(found), bool)
        within = at < len(self.hashes)
        known[within] = self.hashes[at[within]] == found[within]
        before = np.zeros(len(found), np.int64)
        before[known] = self.counts[at[known]]
        rank = np.arange(len(runs)) - np.repeat(starts, lengths)
        passes = np.empty(len(runs), bool)
        passes[order] = rank < np.repeat(limit - before, lengths)
        if not passes.any():
            return passes, self
        after = np.minimum(before + lengths, np.maximum(before, limit))
        width = np.promote_types(self.counts.dtype, np.min_scalar_type(int(after.max())))
        counts = self.counts.astype(width)
        counts[at[known]] = after[known]
        new = ~known
        if not new.any():
            return passes, Seen(self.hashes, counts)
        fresh = after[new].astype(width)
        return passes, Seen(np.insert(self.hashes, at[new], found[new]), np.insert(counts, at[new], fresh))

    def to_bytes(self) -> bytes:
        """8 bytes (version, bytes a count, zeros), then the hashes, then the counts; little-endian."""
        width = self.counts.dtype.itemsize
        header = bytes([_VERSION, width]).ljust(_HEADER, b"\0")
        return b"".join((header, self.hashes.astype("<u8").data, self.counts.astype(f"<u{width}").data))

    @classmethod
    def from_bytes(cls, data: bytes) -> Seen:
        width = data[1] if len(data) >= _HEADER and data[0] == _VERSION else 0
        size, rest = divmod(len(data) - _HEADER, 8 + width)
        if width not in (1, 2, 4, 8) or rest:
            raise InputError(f"this state is not a table of version {_VERSION} of who has been seen")
        hashes = np.frombuffer(data, "<u8", size, _HEADER)
        counts = np.frombuffer(data, f"<u{width}", size, _HEADER + 8 * size)
        if not ((hashes[1:] > hashes[:-1]).all() and (not size or 1 <= counts.min() <= counts.max() <= MOST)):
            raise InputError("this state of who has been seen is damaged: hashes are out of order, or counts of range")
        return cls(hashes, counts)


class SeenAt(NamedTuple):
    """When each hash has been let through: for a limit that holds in *any* stretch of a length of time.

    >>> seen, times = SeenAt.nobody(), np.array([0, 6, 5, 10, 11])
    >>> passes, seen = seen.admit(np.full(5, 7, np.uint64), times, 2, 10)
    >>> passes.tolist(), seen.times.tolist()
    ([True, True, False, True, False], [0, 6, 10])
    """

    hashes: U64  # uint64[m], ascending
    times: I64  # int64[m] microseconds, ascending where hashes are equal

    @classmethod
    def nobody(cls) -> SeenAt:
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64))

    def admit(
        self, hashes: U64, times: I64, limit: int, length: int, horizon: int | None = None
    ) -> tuple[Bools, SeenAt]:
        """Let each record through with which no stretch of time has more than ``limit`` of its hash; see `Seen.admit`.

        Args:
            hashes, limit: see `Seen.admit`.
            times: int64[n], microseconds.
            length: of the stretch, in microseconds; it has its beginning, and not its end.
            horizon: microseconds: what is older than the newest of its hash by more is not let through, and what is not
                needed for that is forgotten. None: all is kept.
        """
        asked = np.unique(hashes)
        places = zip(*(np.searchsorted(self.hashes, asked, side).tolist() for side in ("left", "right")), strict=True)
        own = {name: self.times[i:j].tolist() for name, (i, j) in zip(asked.tolist(), places, strict=True)}
        each = zip(hashes.tolist(), times.tolist(), strict=True)
        passes = np.fromiter((_fits(own[name], time, limit, length, horizon) for name, time in each), bool, len(hashes))
        if not passes.any():
            return passes, self
        others = ~np.isin(self.hashes, asked)
        names = np.repeat(asked, [len(one) for one in own.values()])
        at = np.searchsorted(self.hashes[others], names)
        after = np.array([time for one in own.values() for time in one], np.int64)
        return passes, SeenAt(np.insert(self.hashes[others], at, names), np.insert(self.times[others], at, after))

    def to_bytes(self) -> bytes:
        """8 bytes (version, zeros), then the hashes, then the times; little-endian."""
        header = bytes([_VERSION_OF_TIMES]).ljust(_HEADER, b"\0")
        return b"".join((header, self.hashes.astype("<u8").data, self.times.astype("<i8").data))

    @classmethod
    def from_bytes(cls, data: bytes) -> SeenAt:
        size, rest = divmod(len(data) - _HEADER, 16)
        if data[:1] != bytes([_VERSION_OF_TIMES]) or rest:
            raise InputError(f"this state is not a table of version {_VERSION_OF_TIMES} of who has been seen when")
        hashes = np.frombuffer(data, "<u8", size, _HEADER)
        if not (hashes[1:] >= hashes[:-1]).all():
            raise InputError("this state of who has been seen when is damaged: hashes are out of order")
        return cls(hashes, np.frombuffer(data, "<i8", size, _HEADER + 8 * size))


def _fits(own: list[int], time: int, limit: int, length: int, horizon: int | None) -> bool:
    """Whether a time may join these, ascending; then it is among them."""
    if horizon is not None and own and time < own[-1] - horizon:
        return False
    at = bisect(own, time)
    near = [*own[max(at - limit, 0) : at], time, *own[at : at + limit]]
    if len(own) >= limit and any(last - first < length for first, last in zip(near, near[limit:], strict=False)):
        return False
    own.insert(at, time)
    if horizon is not None:
        del own[: bisect(own, own[-1] - horizon - length)]
    return True
