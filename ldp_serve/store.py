"""Reports on disk: a journal, which is on the disk before a request is answered, and then Parquet.

A journal is records: the length of the data and their CRC-32 (uint32, little-endian), the name of a batch, and the
data, an Arrow record batch, which has its length too. The CRC begins with the journal's random name (from its 17th
letter on), which clients do not know: what they send is no record, wherever reading goes on. A record that is not whole
was never acknowledged, or the disk has damaged it: the others count, and the journal stays as ``*.rest``, which is
logged. A journal that is full becomes a Parquet file of the same name, and then it goes: where that is cut short, the
next start writes the same file again. Its rows are shuffled.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from secrets import randbits, token_hex
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from ldp_core import InputError, LdpError, PrivacyPlan
from ldp_core.engine import JOURNALS, PlanTold, check_made_by, open_parquet, plain

MOST_NAMES = 1 << 18  # batches that are known when they come again: the newest. They take 50 MB.
JOURNAL_BYTES = 1 << 26  # of a journal that becomes a Parquet file; it may be one group of requests longer
_LOG = logging.getLogger("ldp_serve")
_HEAD, _NAME = struct.Struct("<II16s8s"), 24  # bytes of a name and a digest


@dataclass
class Batch:
    """Reports that a client has sent: of the schema of a `Reader`, with a name, and a digest of what was sent."""

    reports: pa.RecordBatch
    name: bytes
    digest: bytes

    @classmethod
    def sent(cls, reports: pa.RecordBatch, key: bytes, body: bytes) -> Batch:
        """What came in ``body`` with an idempotency key. Without the key the digest says nothing."""
        secret = blake2b(key, digest_size=32).digest()
        return cls(reports, blake2b(key, digest_size=16).digest(), blake2b(body, digest_size=8, key=secret).digest())


class Sink(ABC):
    """Where reports of one plan go, each batch once, as far as its name is known. Thread-safe.

    It has the tallies of each column, with all that is kept, and how often groups were made durable since the start.
    """

    def __init__(self, plan: PrivacyPlan) -> None:
        self._plan, self._lock, self._names, self.groups = plan, threading.RLock(), dict[bytes, bytes](), 0
        self.tallies = {name: m.empty_tally() for name, m in plan.columns.items()}

    def known(self, batch: Batch) -> bool:
        """Whether a batch of this name is here; an `InputError` if it has other reports."""
        digest = self._names.get(batch.name, b"")
        if digest and digest != batch.digest:
            raise InputError("this Idempotency-Key came with other reports: each message has a key of its own")
        return bool(digest)

    def append(self, batches: Sequence[Batch]) -> None:
        """Add the batches that are not `known`. When it returns, those that could be kept are durable, and known.

        After an OSError of a disk open the store anew: who sends the same again is right in any case.
        """
        with self._lock:
            named: dict[bytes, Batch] = {}
            for batch in batches:
                named.setdefault(batch.name, batch)
            new = [batch for batch in named.values() if batch.name not in self._names]
            if new and (kept := self._keep(new)):
                self.groups += 1
                for batch in kept:  # first: from here on, who sends it again must not add it again
                    self._know(batch.name, batch.digest)
                self._count([batch.reports for batch in kept])

    @abstractmethod
    def _keep(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        """Make new batches durable; those that are."""

    def finish(self) -> None:  # noqa: B027 (most have none)
        """Make a file of what waits, where there are files."""

    def close(self) -> None:  # noqa: B027
        """Let go of what is open."""

    def _know(self, name: bytes, digest: bytes) -> None:
        self._names[name] = digest
        if len(self._names) > MOST_NAMES:
            del self._names[next(iter(self._names))]

    def _count(self, batches: Sequence[pa.RecordBatch]) -> None:
        joined = pa.concat_batches(batches)
        for name, tally in self.tallies.items():
            self.tallies[name] = tally + self._plan[name].tally(plain(joined.column(name)), column=name)


class Store(Sink):
    """A folder of reports of one plan and schema, for one process at a time. Thread-safe.

    Parquet files are in it, and a folder ``journal`` for what is not yet in one. It is an `InputError` if it has
    reports of another plan, a damaged file, or another process uses it.
    """

    def __init__(self, folder: Path, plan: PrivacyPlan, schema: pa.Schema) -> None:
        super().__init__(plan)
        self._folder, self._journal, self._schema = folder, folder / "journal", schema
        try:
            self._journal.mkdir(parents=True, exist_ok=True)
            self._own = os.open(self._journal / "lock", os.O_CREAT | os.O_RDWR, 0o600)
            try:
                self._start()
            except BaseException:
                os.close(self._own)
                raise
        except OSError as error:
            raise InputError(f"cannot use the folder {str(folder)!r}: {error.strerror}") from None

    def _start(self) -> None:
        try:
            fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another process uses {str(self._folder)!r}: take another folder, or end it") from None
        schema, ours = self._journal / "schema", self._schema.serialize().to_pybytes()
        files = [*self._folder.glob(JOURNALS), *self._folder.glob("reports-*.parquet")]
        if not schema.exists() or not any(file.stat().st_size for file in files):  # (a first start with other options)
            _write(schema, ours)
        elif schema.read_bytes() != ours:
            raise InputError(f"{str(self._folder)!r} has reports of another plan or kind: take another folder")
        if (names := self._journal / "names").exists():
            data = names.read_bytes()
            whole = len(data) - len(data) % _NAME
            if data[whole:] not in (b"", _crc(data[:whole])):  # (once there was none)
                raise InputError(f"{str(names)!r} is damaged: restore it; without it what comes again counts again")
            self._names = {data[at : at + 16]: data[at + 16 : at + _NAME] for at in range(0, whole, _NAME)}
        elif not {path.stem for path in self._folder.glob("reports-*.parquet")} <= {
            f"reports-{path.stem}" for path in files
        }:
            _LOG.warning("%s is not there: what comes again counts again", names)
        for path in self._folder.glob(JOURNALS):
            self._to_parquet(path)
        for path in self._folder.glob("reports-*.parquet"):
            self._count_file(path)
        self._file = self._begin()
        for made in (self._folder, self._folder.parent):
            _sync_folder(made)

    def _count_file(self, path: Path) -> None:
        try:
            with open_parquet(path) as file:
                schema = file.schema_arrow
                told, kinds = PlanTold.of(schema), [_kinds(one, self._plan) for one in (schema, self._schema)]
                ours = told is not None and told.tells(self._plan) and kinds[0] == kinds[1]
                rows = file.metadata.num_rows if ours else 0
                for batch in file.iter_batches(columns=list(self.tallies)) if ours else ():
                    self._count([batch])
                    rows -= batch.num_rows
                if rows:
                    raise pa.ArrowInvalid
        except (pa.ArrowException, OSError, KeyError, UnicodeError, LdpError) as error:  # (KeyError: without a column)
            reason = type(error).__name__
            raise InputError(f"{str(path)!r} cannot be read ({reason}): restore it, or take it away") from None
        if not ours:
            raise InputError(f"{str(path)!r} is of another plan or kind: it is not counted here, take it away")

    @override
    def append(self, batches: Sequence[Batch]) -> None:
        with self._lock, self._told():
            super().append(batches)
            if self._file.tell() > JOURNAL_BYTES:
                self.finish()

    @override
    def _keep(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        for batch in batches:
            data = memoryview(batch.reports.serialize())
            crc = zlib.crc32(data, zlib.crc32(_salt(self._file.name) + batch.name + batch.digest))
            self._file.write(_HEAD.pack(len(data), crc, batch.name, batch.digest) + data)
        _sync(self._file)
        return batches

    @override
    def finish(self) -> None:
        """Make a Parquet file of the journal. If the disk fails, nothing is lost: the next start does it."""
        with self._lock, self._told():
            if self._file.tell():
                self._file.close()
                self._to_parquet(Path(self._file.name))
                self._file = self._begin()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _LOG.error(
                "%s: %s: no more reports are taken, and what was answered is kept. Make room, and start again",
                self._folder,
                error.strerror,
            )
            raise

    @override
    def close(self) -> None:
        """Let go of the folder; what is in the journal becomes a file at the next start."""
        with self._lock:
            os.close(self._own)
            with suppress(OSError):  # (of what was not answered)
                self._file.close()

    def _begin(self) -> BinaryIO:
        file = (self._journal / f"{token_hex(12)}.journal").open("wb")
        _sync_folder(self._journal)
        return file

    def _to_parquet(self, path: Path) -> None:
        batches, read, rest = [], 0, path.with_suffix(".rest")
        for name, digest, data in _records(path):
            self._know(name, digest)
            read += _HEAD.size + len(data)
            batches.append(pa.ipc.read_record_batch(pa.py_buffer(data), self._schema))
        if batches:
            sink = pa.BufferOutputStream()
            table = pa.Table.from_batches(batches)
            shuffled = np.random.default_rng(randbits(128)).permutation(len(table))  # nothing tells who came first
            pq.write_table(table.take(shuffled), sink, write_page_checksum=True)
            _write(self._folder / f"reports-{path.stem}.parquet", sink.getvalue())
        names = b"".join(name + digest for name, digest in self._names.items())
        _write(self._journal / "names", names + _crc(names))
        if read < path.stat().st_size:
            _LOG.warning("%s has %d bytes that are no whole records: not counted", rest, path.stat().st_size - read)
            path.replace(rest)
        else:
            path.unlink()


def _kinds(schema: pa.Schema, plan: PrivacyPlan) -> list[bool | None]:
    """Whether the noise of each column is keyed; None where nothing is said of it."""
    made = [check_made_by(schema.field(name), m) for name, m in plan.columns.items()]
    return [None if one is None else one.keyed for one in made]


def _records(path: Path) -> Iterator[tuple[bytes, bytes, memoryview]]:
    """Name, digest and data of each whole record of a journal."""
    whole, at = memoryview(path.read_bytes()), 0
    while at + _HEAD.size <= len(whole):
        length, crc, name, digest = _HEAD.unpack_from(whole, at)
        at += _HEAD.size
        data, before = whole[at : at + length], zlib.crc32(_salt(path) + name + digest)
        if zlib.crc32(data, before) != crc:  # it may be the length that is damaged
            data = whole[at : at + _length(whole[at:])]
        if zlib.crc32(data, before) == crc:
            yield name, digest, data
            length = len(data)
        at += max(length, len(data))  # no byte is read many times


def _salt(journal: str | Path) -> bytes:
    return Path(journal).stem[16:].encode()  # (once there was none)


def _length(message: memoryview) -> int:
    """Of the Arrow message at the beginning, as it says itself; 0 if there is none."""
    reader = pa.BufferReader(message)
    with suppress(pa.ArrowException, OSError, EOFError):
        pa.ipc.read_message(reader)
        return int(reader.tell())
    return 0


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def _write(path: Path, data: bytes | pa.Buffer) -> None:
    """A file with these data, on the disk, or no change."""
    beside = path.with_suffix(".part")
    with beside.open("wb") as file:
        file.write(data)
        _sync(file)
    beside.replace(path)
    _sync_folder(path.parent)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """So that the names of the files in it are on the disk too."""
    opened = os.open(folder, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)
