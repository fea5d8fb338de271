"""Whose record: ids of persons, devices or records, as hashes for what is remembered, and as keys of keyed noise."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldp_beam.elements.batches import AnyBatch, Batch, find_lacking
from ldp_beam.elements.faults import NOT_DISTINCT, NULL, Faults, not_of
from ldp_core import DtypeError, InputError, Keyed, ParameterError, Secret
from ldp_core.engine import U64, Bools, aes, check_id_type, encrypt, id_words, refuse_own, type_words

KeyLike: TypeAlias = Secret | Callable[[], Secret]
"""A secret, which then travels with the job; or a function that gets it on the worker."""

_KINDS = "int, str or bytes"
_PUBLIC = Secret(b"ldp-telemetry: hash of ids without a secret, version 1")


def _secret_of(key: KeyLike) -> Secret:
    """The secret; a function that gets none must not make noise fresh, which a ledger has not charged for."""
    secret = key if isinstance(key, Secret) else key()
    if not isinstance(secret, Secret):
        raise ParameterError(f"key must be a Secret, or a function that gets one: it got {type(secret).__name__}")
    return secret


@dataclass(frozen=True)
class IdHash:
    """A 64-bit hash of the ids in one column: AES-256 of what `id_words` makes of them.

    The same after every restart, on every worker and runner; it must be, or a restored pipeline would not
    recognize whom it has seen. Which ids are equal `ldp_core.Keyed` says: text and binary of the same bytes, and
    integers of any width that are equal; the integer 5 and the text ``"5"`` are two ids.
    Without a key anybody can compute the hash of a guessed id, though not the id of a hash.
    """

    column: str
    key: KeyLike | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise ParameterError(f"id must be the name of a column, got {type(self.column).__name__}")
        if not (self.key is None or isinstance(self.key, Secret) or callable(self.key)):
            raise ParameterError("key must be a Secret, or a function that gets one")

    def of(self, part: AnyBatch) -> U64:
        """uint64[n], one per record."""
        ids, missing, wrong = self._read(part)
        if wrong.any():
            raise DtypeError(
                f"column {self.column!r}: ids must be integers of at most 38 digits, text or binary; "
                f"{np.count_nonzero(wrong)} of {len(ids)} are not"
            )
        if missing.any():
            raise InputError(f"column {self.column!r}: {np.count_nonzero(missing)} of {len(ids)} ids are null")
        secret = _PUBLIC if self.key is None else _secret_of(self.key)
        if isinstance(ids, pa.Array):
            return _hash(ids, secret)
        hashes = np.empty(len(ids), np.uint64)
        texts = np.fromiter((isinstance(i, (str, bytes)) for i in ids), bool, len(ids))
        for rows, array in (
            (texts, pa.array([_bytes(i) for i in ids if isinstance(i, (str, bytes))], pa.large_binary())),
            (~texts, pa.array([int(i) for i in ids if not isinstance(i, (str, bytes))], _INTEGERS)),
        ):
            hashes[rows] = _hash(array, secret)
        return hashes

    def find_faults(self, part: AnyBatch, faults: Faults) -> None:
        """Note the records of which there is no hash."""
        with faults.of(self.column, _KINDS):
            _, missing, wrong = self._read(part)
            find_lacking(part, self.column, faults)
            faults.add(self.column, NULL, missing)
            faults.add(self.column, not_of(_KINDS), wrong)

    def _read(self, part: AnyBatch) -> tuple[pa.Array | list[Any], Bools, Bools]:
        """The ids; and bool[n], which are null, and which are no ids."""
        if isinstance(part, Batch):
            column = _typed(part, self.column)
            return column, column.is_null().to_numpy(zero_copy_only=False), np.zeros(len(column), bool)
        ids = [*map(_plain, part.required(self.column))]
        missing = np.fromiter((i is None for i in ids), bool, len(ids))
        return ids, missing, np.fromiter((not (i is None or _is_id(i)) for i in ids), bool, len(ids))


@dataclass(frozen=True)
class NoiseKey:
    """A secret, or a function that gets it on the worker, and the columns that keyed noise is a function of."""

    source: KeyLike
    id: str | None
    record: str | None = None

    @property
    def keyed(self) -> bool:
        """Whether reports of a person are alike: it is charged for as keyed noise, and else as fresh one.

        Noise of records is not: each has noise of its own, as many as a person has, and a record that is perturbed
        again gives the same report, from which nobody learns more.
        """
        return self.id is not None

    @property
    def secret(self) -> Secret:
        """The secret itself."""
        return _secret_of(self.source)

    def columns(self, part: AnyBatch) -> tuple[Any, Any]:
        """What tells the noise of the records apart, one each; and the same for a second round, or None."""
        names = (self.record, None) if self.id is None else (self.id, self.record)
        first, second = (None if name is None else _ids(part, name) for name in names)
        if self.record is not None:
            _check_distinct(first if self.id is None else second, self.record)
        return first, second

    def randomness(self, part: AnyBatch, column: str) -> Keyed:
        """The noise of the records for one column."""
        ids, records = self.columns(part)
        secret = self.secret
        try:
            return Keyed(secret, ids, column=column, records=records)
        except DtypeError as error:  # (of a list: values that are no ids, or texts and numbers)
            raise DtypeError(f"columns {[name for name in (self.id, self.record) if name]}: {error}") from None

    def find_faults(self, part: AnyBatch, faults: Faults) -> None:
        """Note the records without an id, or with one of a type that `Keyed` does not take: a list has one type."""
        for name in (self.id, self.record):
            if name is not None:
                _find_faults(part, name, faults)

    def find_shared(self, part: AnyBatch, faults: Faults) -> None:
        """Note the records without any other fault, if `columns` would refuse them together."""
        if self.record is not None and faults.good.any():
            with suppress(InputError):
                _check_distinct(_ids(part.take(faults.good), self.record), self.record)
                return
            faults.add(self.record, NOT_DISTINCT)


def _find_faults(part: AnyBatch, name: str, faults: Faults) -> None:
    if isinstance(part, Batch):
        with faults.of(name, _KINDS):
            faults.add(name, NULL, _typed(part, name).is_null().to_numpy(zero_copy_only=False))
        return
    ids = [*map(_plain, part.column(name))]
    find_lacking(part, name, faults)
    faults.add(name, NULL, np.fromiter((i is None for i in ids), bool, len(ids)))
    types = {type(i) for i in ids if isinstance(i, _ID_TYPES) and not isinstance(i, bool)}
    usual = max(types, key=lambda one: sum(type(i) is one for i in ids), default=int)
    wrong = (isinstance(i, (str, bytes)) is not issubclass(usual, (str, bytes)) or not _is_id(i) for i in ids)
    faults.add(name, not_of(usual.__name__), np.fromiter(wrong, bool, len(ids)))
    halves = (isinstance(i, str) and _HALF_PAIRS.search(i) is not None for i in ids)
    faults.add(name, not_of("str"), np.fromiter(halves, bool, len(ids)))


def _ids(part: AnyBatch, name: str) -> pa.Array | list[Any]:
    """The ids in a column, of which none is null."""
    ids = _typed(part, name) if isinstance(part, Batch) else [*map(_plain, part.required(name))]
    missing = ids.null_count if isinstance(ids, pa.Array) else sum(one is None for one in ids)
    if missing:
        raise InputError(f"column {name!r}: {missing} of {len(ids)} ids are null")
    return ids


_LOOKED_AT, _TOO_FEW = 4096, 32


def _check_distinct(records: pa.Array | list[Any], name: str) -> None:
    """Raise if of the first records more than half have what an earlier one has: that is no redelivery."""
    some = records[:_LOOKED_AT]
    if isinstance(some, list):
        distinct = len({one if isinstance(one, _ID_TYPES) else object() for one in some})  # (else said later)
    else:
        some, distinct = some.dictionary_decode() if pa.types.is_dictionary(some.type) else some, len(some)
        with suppress(pa.ArrowNotImplementedError):  # (lists and the like: said later)
            distinct = int(pc.count_distinct(some, mode="all").as_py())
    if len(some) >= _TOO_FEW and 2 * distinct < len(some):
        raise InputError(
            f"column {name!r} does not tell the records apart: {distinct} of {len(some)} are different. Records that "
            "share it share their noise, and error bars would be too narrow: record= is the position in the source, or "
            "an id of each record's own"
        )


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def noise_key(
    key: KeyLike | None,
    id_column: str | None,
    record: str | None,
    *,
    perturbed: Container[str],
    remembers: bool,
) -> NoiseKey | None:
    """What ``key=``, ``id=`` and ``record=`` of a transform ask for; None for fresh noise."""
    refuse_own(id_column, perturbed)
    if key is None and id_column is None and record is None:
        return None
    if record is not None:
        if not isinstance(record, str):
            raise ParameterError(f"record must be a column's name, got {_kind(record)}")
        refuse_own(record, perturbed, "record")
        if id_column is not None and not remembers:
            raise ParameterError(
                "with id= the noise is that of a person and a value, and record= has no part in it: give record= alone "
                "for reports that are independent, or id= alone for those that stay the same"
            )
        if id_column is None and key is None:
            key = Secret.generate()
    named = isinstance(id_column, str) or (id_column is None and record is not None)
    if not named or not (isinstance(key, Secret) or callable(key)):
        raise ParameterError(
            "keyed noise takes key=, a Secret or a function that gets one, and id=, a column's name (or record=); got "
            f"key={_kind(key)}, id={_kind(id_column)}"
        )
    return NoiseKey(key.shared() if isinstance(key, Secret) else key, id_column, record)


def is_repeatable(key: NoiseKey | None, *, remembers: bool) -> bool:
    """Whether a record that is perturbed again gives the same report.

    (The second round of a mechanism that remembers is fresh, unless it is that of a record, or of a seed.)
    """
    if key is None or not remembers:
        return key is not None
    return key.record is not None or (isinstance(key.source, Secret) and key.source.seeded)


_ID_TYPES = (int, np.integer, str, bytes)
_HALF_PAIRS = re.compile("[\ud800-\udfff]")  # JSON may have them; they are no text, of which there is noise
_INTEGERS, _BEYOND = pa.decimal128(38), 10**38  # all the integers that are ids: Arrow has none of more than 64 bits


def _typed(batch: Batch, name: str) -> pa.Array:
    """A column of ids; without its dictionary if an entry of that is null, and as integers if there are only nulls."""
    ids = batch.required(name)
    if pa.types.is_dictionary(ids.type) and ids.dictionary.null_count:
        ids = ids.dictionary_decode()
    if pa.types.is_null(ids.type):
        ids = ids.cast(pa.int64())
    with suppress(DtypeError):
        check_id_type(ids.type)
        return ids
    raise DtypeError(f"column {name!r}: ids must be integers, text or binary, got {type_words(ids.type)}")


def _plain(one: Any) -> Any:
    """An id of a single record as that of a batch is: of a UUID the bytes, of a decimal the integer."""
    if isinstance(one, (UUID, bytearray)):
        return one.bytes if isinstance(one, UUID) else bytes(one)
    whole = isinstance(one, Decimal) and one.is_finite() and one.adjusted() < 39 and one == int(one)
    return int(one) if whole else one


def _is_id(value: Any) -> bool:
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64)):
        return -_BEYOND < int(value) < _BEYOND
    return isinstance(value, (str, bytes))


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def _hash(ids: pa.Array, secret: Secret) -> U64:
    high, low = id_words(ids, secret.derive("person"))
    blocks = np.zeros((len(ids), 2), np.uint64)
    blocks[:, 0] = high
    if low is not None:
        blocks[:, 1] = low
    return encrypt(aes(secret.derive("seen")), blocks).view(np.uint64)[:, 0].copy()
