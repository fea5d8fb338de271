"""Blocks of keyed noise, as the second implementation of docs/wire.md has them: what reports are drawn from slowly."""

from ldp_core import Secret

from ..vectors.reader import Draw, aes, derive, id_words

KEY = bytes(range(32))
SECRET = Secret(KEY)


def slowly(m, code, person):
    """What draws the report of a person's code, column "c". An integer beyond 64 bits with its sign is hashed whole."""
    wide = isinstance(person, int) and not -(2**63) <= person < 2**63
    words = aes(derive(KEY, "id"))(person % 2**128) if wide else id_words(KEY, person)
    noise = aes(derive(KEY, "noise", m.digest, "c"))
    return Draw(lambda code, place: noise(words ^ (code * 2**32 + place) << 64).to_bytes(16, "little"), code)
