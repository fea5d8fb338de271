"""Blocks of keyed noise, one by one, from their description: what tests compute reports with slowly."""

import functools
import hashlib
import hmac
import json
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ldp_core import Secret

SECRET = Secret(bytes(range(32)))


def derived(*parts):
    """HMAC-SHA-256 of the length-prefixed parts, under the bytes 0 to 31."""
    encoded = (part.encode() for part in parts)
    return hmac.digest(bytes(range(32)), b"".join(len(p).to_bytes(8, "big") + p for p in encoded), "sha256")


def encrypted(key, words):
    """AES-256 of a block of two words, as 16 bytes."""
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(struct.pack("<QQ", *words))


@functools.cache
def _key(m, purpose, name):
    digest = hashlib.sha256(json.dumps(m.to_dict(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return derived(purpose, digest, *name)


def id_words(person, key=None):
    """The two words of an id: an integer of 64 bits with its sign is one word, all else is hashed by CBC-MAC."""
    key = derived("id") if key is None else key
    if isinstance(person, int):
        if -(2**63) <= person < 2**63:
            return person % 2**64, 0
        return struct.unpack("<QQ", encrypted(key, (person % 2**64, person % 2**128 >> 64)))
    data = person.encode() if isinstance(person, str) else person
    state = encrypted(key, (len(data), 0))
    for start in range(0, len(data), 16):
        piece = data[start : start + 16].ljust(16, b"\0")
        state = encrypted(key, struct.unpack("<QQ", bytes(x ^ y for x, y in zip(state, piece, strict=True))))
    return struct.unpack("<QQ", state)


def block(m, column, id_word, low_word, code, lane, level, counter, *, tag=None):
    """The block of a place, as 16 bytes. Codes of open domains and of prefixes are tuples of words of 64 bits."""
    name = (column,) if tag is None else (tag, column)
    place = lane << 28 | level << 24 | counter
    if isinstance(code, tuple):
        for word in code:
            id_word, low_word = struct.unpack("<QQ", encrypted(_key(m, "value", name), (id_word, low_word ^ word)))
    else:
        place |= code << 32
    return encrypted(_key(m, "noise", name), (id_word, low_word ^ place))


def first_word(data):
    return struct.unpack("<Q", data[:8])[0]
