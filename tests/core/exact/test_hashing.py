"""Hashes of ids and values."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ldp_core.exact.hashing import id_words

from ...cases import each


def test_hashes_of_text_are_cbc_macs():
    """Of every length up to three blocks and more, of letters of one, two and four bytes."""
    letters = np.random.default_rng(0).integers(97, 123, (70, 70)).astype(np.uint8)
    texts = [letters[n, :n].tobytes().decode() for n in range(70)]
    texts += [letter * n + "b" * more for letter in "é😀\0" for n in range(18) for more in range(4)]
    high, low = id_words(pa.array(texts, pa.string()), bytes(32))
    encryptor = Cipher(algorithms.AES(bytes(32)), modes.ECB()).encryptor()
    for text, a, b in zip(texts, high.tolist(), low.tolist(), strict=True):
        data = text.encode()
        state = encryptor.update(struct.pack("<QQ", len(data), 0))
        for start in range(0, len(data), 16):
            piece = data[start : start + 16].ljust(16, b"\0")
            state = encryptor.update(bytes(x ^ y for x, y in zip(state, piece, strict=True)))
        assert struct.unpack("<QQ", state) == (a, b)


@each("width", [0, 1, 15, 16, 17, 40])
def test_values_of_one_length_have_the_hashes_of_their_bytes(width):
    """They have a way of their own."""
    data = np.random.default_rng(0).bytes(9 * width)
    values = [data[i * width : (i + 1) * width] for i in range(9)]
    fixed, free = (pa.array(values, kind).slice(2, 5) for kind in (pa.binary(width), pa.binary()))
    for own, expected in zip(id_words(fixed, bytes(32)), id_words(free, bytes(32)), strict=True):
        np.testing.assert_array_equal(own, expected)


@each(
    "kind",
    [pa.int8(), pa.uint64(), pa.decimal128(38), pa.string(), pa.binary_view(), pa.binary(16)],
)
def test_no_ids(kind):
    for ids in (
        pa.array([], kind),
        pa.nulls(3, kind)[:0],
        pa.chunked_array([], kind),
        pa.array([], kind).dictionary_encode(),
    ):
        high, low = id_words(ids, bytes(32))
        assert len(high) == 0
        assert low is None or len(low) == 0


def test_integers_of_128_bits_in_a_buffer_of_another_length():
    """As a message may bring it: a byte too many."""
    data = struct.pack("<qqqq", 7, 0, -7, -1) + b"\0"
    ids = pa.Array.from_buffers(pa.decimal128(38), 2, [None, pa.py_buffer(data)])
    high, low = id_words(ids, bytes(32))
    assert (high.view(np.int64).tolist(), low) == ([7, -7], None)
