"""Hashes of ids and values."""

from __future__ import annotations

import struct

import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from(["", "a", "a" * 16, "a" * 17])), max_size=20))
def test_hashes_of_text_are_cbc_macs(texts):
    from ldp_core.noise.keyed import id_words

    high, low = id_words(pa.array(texts, pa.string()), bytes(32))
    encryptor = Cipher(algorithms.AES(bytes(32)), modes.ECB()).encryptor()
    for text, a, b in zip(texts, high.tolist(), low.tolist(), strict=True):
        data = text.encode()
        state = encryptor.update(struct.pack("<QQ", len(data), 0))
        for start in range(0, len(data), 16):
            piece = data[start : start + 16].ljust(16, b"\0")
            state = encryptor.update(bytes(x ^ y for x, y in zip(state, piece, strict=True)))
        assert struct.unpack("<QQ", state) == (a, b)
