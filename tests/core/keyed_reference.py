"""Blocks of keyed noise, one by one, from their description: what tests compute reports with slowly."""

from __future__ import annotations

import functools
import hmac
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ldp_core import Secret

SECRET = Secret(bytes(range(32)))


@functools.cache
def _cipher(fingerprint, column):
    parts = (part.encode() for part in ("noise", fingerprint, column))
    key = hmac.digest(bytes(range(32)), b"".join(len(p).to_bytes(8, "big") + p for p in parts), "sha256")
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor()


def block(m, column, id_word, low_word, code, lane, level, counter):
    """AES-256 of one block, as 16 bytes."""
    place = code << 32 | lane << 28 | level << 24 | counter
    return _cipher(m.fingerprint, column).update(struct.pack("<QQ", id_word, low_word ^ place))


def first_word(data):
    return struct.unpack("<Q", data[:8])[0]
