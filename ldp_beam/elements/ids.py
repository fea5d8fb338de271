"""Whose record: ids of persons, devices or records, as hashes for what is remembered, and as keys of keyed noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_beam.elements.batches import Batch, Part
from ldp_beam.elements.faults import NO_COLUMN, NULL, WRONG_TYPE, Faults
from ldp_core import DtypeError, InputError, Keyed, ParameterError, Secret
from ldp_core.exact.arrays import U64
from ldp_core.exact.hashing import aes, encrypt, id_words

_PUBLIC = Secret(b"ldp-telemetry: hash of ids without a secret, version 1")


@dataclass(frozen=True)
class IdHash:
    """A 64-bit hash of the ids in one column: AES-256 of what `id_words` makes of them.

    The same after every restart, on every worker and runner; it must be, or a restored pipeline would not
    recognise whom it has seen. Text and binary of the same bytes are one id, and so are integers of any width that
    are equal; the integer 5 and the text ``"5"`` are two.

    Attributes:
        column: that holds the ids.
        key: without a secret, anybody can compute the hash of a guessed id, though not the id of a hash.
    """

    column: str
    key: Secret | Callable[[], Secret] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise ParameterError(f"id must be the name of a column, got {type(self.column).__name__}")
        if not (self.key is None or isinstance(self.key, Secret) or callable(self.key)):
            raise ParameterError("key must be a Secret, or a function that gets one")

    def of(self, part: Part) -> U64:
        """uint64[n], one a record.

        Raises:
            DtypeError: ids that are not integers, text or binary.
            InputError: null ids.
            PlanError: a batch has no such column.
        """
        secret = self.key if isinstance(self.key, Secret) else _PUBLIC if self.key is None else self.key()
        if isinstance(part, Batch):
            return self._hash(self._usable(_decoded(part.required(self.column))), secret)
        ids = part.column(self.column)
        missing, wrong = _missing_and_wrong(ids)
        if wrong.any():
            raise DtypeError(
                f"column {self.column!r}: ids must be integers of 64 bits, text or binary; "
                f"{np.count_nonzero(wrong)} of {len(ids)} are not"
            )
        if missing.any():
            raise InputError(f"column {self.column!r}: {np.count_nonzero(missing)} of {len(ids)} ids are null")
        hashes = np.empty(len(ids), np.uint64)
        texts = np.fromiter((isinstance(i, (str, bytes)) for i in ids), bool, len(ids))
        for rows, array in (
            (texts, pa.array([_bytes(i) for i in ids if isinstance(i, (str, bytes))], pa.large_binary())),
            (~texts, _integers([int(i) for i in ids if not isinstance(i, (str, bytes))])),
        ):
            hashes[rows] = self._hash(array, secret)
        return hashes

    def _usable(self, ids: pa.Array) -> pa.Array:
        if not _has_id_type(ids):
            raise DtypeError(f"column {self.column!r}: ids must be integers, text or binary, got {ids.type}")
        if ids.null_count:
            raise InputError(f"column {self.column!r}: {ids.null_count} of {len(ids)} ids are null")
        return ids

    @staticmethod
    def _hash(ids: pa.Array, secret: Secret) -> U64:
        high, low = id_words(ids, secret.derive("person"))
        blocks = np.zeros((len(ids), 2), np.uint64)
        blocks[:, 0] = high
        if low is not None:
            blocks[:, 1] = low
        return encrypt(aes(secret.derive("seen")), blocks).view(np.uint64)[:, 0].copy()


def check_person_ids(ids: Any, column: str, faults: Faults) -> None:
    """Note the records without an id, or with one of a type that `IdHash` does not take.

    Args:
        ids: n ids, an Arrow array or a list; None if there is no such column.
    """
    if isinstance(ids, list):
        missing, wrong = _missing_and_wrong(ids)
        faults.add(column, NULL, missing)
        faults.add(column, WRONG_TYPE, wrong)
        return
    _check_column(None if ids is None else _decoded(ids), column, faults)


def check_noise_ids(ids: Any, column: str, faults: Faults) -> None:
    """Note the records without an id, or with one of a type that keyed noise does not take: a list has one type.

    Args:
        ids: n ids, an Arrow array or a list; None if there is no such column.
    """
    if isinstance(ids, list):
        n = len(ids)
        faults.add(column, NULL, np.fromiter((i is None for i in ids), bool, n))
        kinds = {type(i) for i in ids if isinstance(i, _ID_TYPES) and not isinstance(i, bool)}
        usual = max(kinds, key=lambda kind: sum(type(i) is kind for i in ids), default=int)
        faults.add(column, WRONG_TYPE, np.fromiter((type(i) is not usual for i in ids), bool, n))
        return
    _check_column(None if ids is None else _without_null_entries(ids), column, faults)


_ID_TYPES = (int, np.integer, str, bytes)


def _check_column(ids: pa.Array | None, column: str, faults: Faults) -> None:
    everywhere = np.ones(len(faults.first), bool)
    if ids is None:
        faults.add(column, NO_COLUMN, everywhere)
    elif not _has_id_type(ids):
        faults.add(column, WRONG_TYPE, everywhere)
    else:
        faults.add(column, NULL, ids.is_null().to_numpy(zero_copy_only=False))


def _decoded(ids: pa.Array) -> pa.Array:
    """The ids without a dictionary if that has nulls; and as integers if there is nothing but nulls."""
    return ids.cast(pa.int64()) if pa.types.is_null(ids.type) else _without_null_entries(ids)


def _without_null_entries(ids: pa.Array) -> pa.Array:
    """The ids, without a dictionary if an entry of that is null."""
    return ids.dictionary_decode() if pa.types.is_dictionary(ids.type) and ids.dictionary.null_count else ids


def _has_id_type(ids: pa.Array) -> bool:
    try:
        id_words(ids.slice(0, 0), bytes(32))
    except DtypeError:
        return False
    return True


def _missing_and_wrong(ids: list[Any]) -> tuple[Any, Any]:
    missing = np.fromiter((i is None for i in ids), bool, len(ids))
    return missing, np.fromiter((not (i is None or _is_id(i)) for i in ids), bool, len(ids))


def _is_id(value: Any) -> bool:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return -(2**63) <= int(value) < 2**64
    return isinstance(value, (str, bytes))


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def _integers(numbers: list[int]) -> pa.Array:
    """Integers modulo 2^64, as Arrow's integers of every width come out of `id_words`."""
    return pa.array(np.array([number % 2**64 for number in numbers], np.uint64))


@dataclass(frozen=True)
class NoiseKey:
    """A secret, or a function that gets it on the worker, and the name of the id column."""

    source: Secret | Callable[[], Secret]
    id: str

    @property
    def secret(self) -> Secret:
        """The secret itself."""
        return self.source if isinstance(self.source, Secret) else self.source()

    def ids(self, part: Part) -> Any:
        """The ids of the records, one each.

        Raises:
            PlanError: a batch has no such column.
        """
        return part.required(self.id) if isinstance(part, Batch) else part.column(self.id)

    def randomness(self, part: Part, column: str) -> Keyed:
        """The noise of the records for one column."""
        return Keyed(self.secret, self.ids(part), column=column)

    def find_faults(self, part: Part, faults: Faults) -> None:
        """Note the records that have no usable id."""
        check_noise_ids(part.column(self.id), self.id, faults)


def noise_key(key: Secret | Callable[[], Secret] | None, id_column: str | None) -> NoiseKey | None:
    """What ``key=`` and ``id=`` of a transform ask for; None for fresh noise.

    Raises:
        ParameterError: one without the other, or a key that is none.
    """
    if key is None and id_column is None:
        return None
    if not isinstance(id_column, str) or not (isinstance(key, Secret) or callable(key)):
        raise ParameterError("keyed noise takes key=, a Secret or a function that gets one, and id=, a column's name")
    return NoiseKey(key.shared() if isinstance(key, Secret) else key, id_column)
