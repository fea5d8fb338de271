"""Who has been seen how often: a table of hashed ids and counts, looked up and added to by whole arrays.

A table is what a worker's state holds for one shard and one window, so it is compact: 8 bytes for the hash of an id
and 1 for its count (more if the limit is above 255). Two ids that share a hash share a count. With N persons in a
window that befalls a given person with probability N / 2^64, and anybody at all with N^2 / 2^65: for 10^8 persons,
5e-12 and 3e-4. It can only make a table refuse too early: what a person has used is never more than what
the table has counted for the person's hash, and that is never above the limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ldp_core import InputError
from ldp_core.engine import U64, Bools

Counts = npt.NDArray[np.unsignedinteger]

MOST = 2**62
"""Limits above this are as good as this."""
_VERSION = 1
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

    hashes: U64
    """uint64[m], ascending, distinct."""
    counts: Counts
    """Unsigned integers[m], at least 1."""

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
        """Inverse of `to_bytes`, without a copy.

        Raises:
            InputError: another version, or damaged.
        """
        width = data[1] if len(data) >= _HEADER and data[0] == _VERSION else 0
        size, rest = divmod(len(data) - _HEADER, 8 + width)
        if width not in (1, 2, 4, 8) or rest:
            raise InputError(f"this state is not a table of version {_VERSION} of who has been seen")
        hashes = np.frombuffer(data, "<u8", size, _HEADER)
        counts = np.frombuffer(data, f"<u{width}", size, _HEADER + 8 * size)
        if not ((hashes[1:] > hashes[:-1]).all() and (not size or 1 <= counts.min() <= counts.max() <= MOST)):
            raise InputError("this state of who has been seen is damaged: hashes are out of order, or counts of range")
        return cls(hashes, counts)
