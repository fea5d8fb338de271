"""AES as a hash, of ids and texts of any length."""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import CipherContext

from ldp_core.arrays.arrow import CONVERSION_ERRORS, array_of, combine, plain, stored
from ldp_core.arrays.types import U64, type_words
from ldp_core.errors import DtypeError, InputError
from ldp_core.exact.aes import BLOCK, aes, encrypt


def id_words(ids: Any, key: bytes) -> tuple[U64, U64 | None]:
    """Ids as two words each, uint64[n]; the second is None if it is 0 everywhere.

    An integer from -2**63 to 2**63 - 1 is itself and 0; all else has a keyed 128-bit hash: text, binary and, as 128
    bits, integers beyond. Equal integers have equal words, whatever their types. (Arrow has integers of up to 64 bits;
    larger ones are decimals without digits after the point.)

    Raises:
        DtypeError: ids of another type.
        InputError: null ids.
    """
    array = _id_array(ids)
    kind = None if array is None else array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if array is None or not any(is_kind(kind) for is_kind in _ID_KINDS):
        each = "one a record, " if array is None else ""
        raise DtypeError(f"ids must be integers, text or binary, {each}got {type_words(kind or type(ids).__name__)}")
    if array.null_count:
        raise InputError(f"{array.null_count} of {len(array)} ids are null: keyed noise needs an id for each record")
    if pa.types.is_dictionary(array.type):
        at = array.indices.to_numpy()
        beyond = int(np.count_nonzero((at < 0) | (at >= len(array.dictionary))))
        if beyond:
            raise InputError(f"{beyond} of {len(at)} ids are out of their dictionary's bounds")
        return tuple(None if w is None else w.take(at) for w in id_words(array.dictionary, key))  # type: ignore[return-value]
    if pa.types.is_decimal(array.type) or array.type == pa.uint64():
        return _wide_words(array, key)
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64()).to_numpy().view(np.uint64), None
    fixed = pa.types.is_fixed_size_binary(array.type)
    hashed = _hash_fixed(array, aes(key)) if fixed else _hash(array.cast(pa.large_binary()), aes(key))
    return hashed[:, 0].copy(), hashed[:, 1].copy()


def check_id_type(kind: pa.DataType) -> None:
    """Raise `DtypeError` unless ids of this type tell people apart: of floats all NaN would be one person."""
    id_words(pa.nulls(0, kind), bytes(32))


def _id_array(ids: Any) -> pa.Array | None:
    """Ids as an Arrow array, without nulls in its dictionary; None if there is none of them."""
    array: pa.Array | None = None
    if isinstance(ids, (str, bytes, bytearray, Set, Mapping)):  # no column: a set has no order
        return None
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "US":  # (Arrow cuts these at NUL: two ids would be one)
        ids = ids.tolist()
    with suppress(*CONVERSION_ERRORS):
        array = (
            combine(ids) if isinstance(ids, pa.ChunkedArray) else ids if isinstance(ids, pa.Array) else array_of(ids)
        )
    if (
        array is None
        and isinstance(ids, (list, tuple))
        and all(type(i) is int or isinstance(i, np.integer) for i in ids)
    ):
        with suppress(*CONVERSION_ERRORS):  # integers that no type of 64 bits has all of
            array = pa.array([int(i) for i in ids], pa.decimal128(38))
    if array is None:
        return None
    array = plain(array)
    if pa.types.is_null(array.type) and not len(array):  # an empty list, or column, has no other type
        return array.cast(pa.int64())
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        array = array.dictionary_decode()
    return array


def _wide_words(array: pa.Array, key: bytes) -> tuple[U64, U64 | None]:
    """The words of integers of which some may have no int64.

    The block (low half, high half) of such an integer is never the first one of a text in `_hash`, (length, 0).
    """
    if array.type == pa.uint64():
        words = np.zeros((len(array), 2), np.uint64)
        words[:, 0] = array.to_numpy()
    else:
        end = 2 * (array.offset + len(array))
        words = np.frombuffer(array.buffers()[1] or b"", np.uint64, end).reshape(-1, 2)[array.offset :].copy()
    signs = (words[:, 0].view(np.int64) >> 63).view(np.uint64)
    far = np.flatnonzero(words[:, 1] != signs)
    hashed = encrypt(aes(key), words[far]).view(np.uint64)
    words[:, 1] = 0
    words[far] = hashed
    return words[:, 0].copy(), words[:, 1].copy() if len(far) else None


_ID_KINDS = (
    pa.types.is_integer, pa.types.is_string, pa.types.is_large_string,
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary,
    lambda kind: pa.types.is_decimal128(kind) and kind.scale == 0,
)  # fmt: skip


def _hash(array: pa.Array, cipher: CipherContext) -> U64:
    """A keyed 128-bit hash of each binary value: CBC-MAC over its length and its bytes, all values at once.

    With the length in front no input is a prefix of another, and CBC-MAC is then a pseudo-random function
    (E. Petrank, C. Rackoff, "CBC MAC for Real-Time Data Sources", Journal of Cryptology 13(3), 2000).
    """
    offsets = stored(array, len(array) + 1, np.int64)
    lengths = np.diff(offsets)
    data = np.zeros(int(offsets[-1] - offsets[0]) + BLOCK, np.uint8)  # so that every block can be read whole
    data[:-BLOCK] = np.frombuffer(array.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    blocks = np.lib.stride_tricks.sliding_window_view(data, BLOCK)
    at = offsets[:-1] - offsets[0]
    state = np.zeros((len(array), 2), np.uint64)
    state[:, 0] = lengths
    state = encrypt(cipher, state).view(np.uint64)
    rows: npt.NDArray[np.int64] | slice = slice(None)
    for start in range(0, int(lengths.max(initial=0)), BLOCK):
        if start or not lengths.all():
            rows = np.flatnonzero(lengths > start)
        block = blocks[at[rows] + start].view(np.uint64)
        block &= _LEADING[np.minimum(lengths[rows] - start, BLOCK)]
        state[rows] = encrypt(cipher, state[rows] ^ block).view(np.uint64)
    return state


def _hash_fixed(array: pa.Array, cipher: CipherContext) -> U64:
    """`_hash` of values that all have one length, in a third of the time: every block is whole, or filled up with 0."""
    n, width = len(array), array.type.byte_width
    blocks = np.zeros((n, -(-width // 16), 2), np.uint64)
    if blocks.size:
        values = stored(array, n * width, np.uint8, array.offset * width).reshape(n, width)
        blocks.reshape(n, -1).view(np.uint8)[:, :width] = values
    state = np.broadcast_to(encrypt(cipher, np.array([[width, 0]], np.uint64)).view(np.uint64), (n, 2))
    for at in range(blocks.shape[1]):
        state = encrypt(cipher, state ^ blocks[:, at]).view(np.uint64)
    return state


# The masks of the first 0 to 16 bytes of a block.
_LEADING = np.where(np.tri(BLOCK + 1, BLOCK, -1) > 0, np.uint8(255), np.uint8(0)).view(np.uint64)
