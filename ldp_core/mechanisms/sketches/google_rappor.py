"""RAPPOR's two rounds as Google's Python client draws them (google/rappor): to check a port, or to replay reports."""

from __future__ import annotations

import hmac
import struct

from ldp_core.errors import ParameterError


def google_permanent(bloom: int, secret: bytes, *, bits: int, f: float) -> tuple[int, int, int]:
    """The permanent round of Google's Python client, to check a port or to replay its reports; not for new data.

    Byte i of HMAC-SHA256(secret, filter as 4 big-endian bytes) decides bit i: its low bit is what a random answer
    would be, and the answer is random if its upper seven bits are below 128 f. So f is rounded up to a
    multiple of 1/128, and there are at most 32 bits. `Rappor` has neither limit.

    Returns:
        Uniform bits, the mask of random answers, and the permanent response, as integers.

    >>> google_permanent(8256, b"secret", bits=16, f=0.5)
    (50360, 56237, 57576)
    """
    if not (1 <= bits <= 32 and 0 <= bloom < 1 << bits):
        raise ParameterError(f"bits must be in [1, 32], and the filter below 2**bits, got bits={bits!r}")
    digest = hmac.digest(secret, struct.pack(">L", bloom), "sha256")[:bits]
    uniform = sum((byte & 1) << i for i, byte in enumerate(digest))
    mask = sum(((byte >> 1) < 128 * f) << i for i, byte in enumerate(digest))
    return uniform, mask, bloom & ~mask | uniform & mask


def google_instantaneous(permanent: int, ones_p: int, ones_q: int) -> int:
    """The instantaneous round of Google's clients: bits of ``ones_q`` where the permanent ones are 1, else ``ones_p``.

    >>> google_instantaneous(0b0011, ones_p=0b0101, ones_q=0b1110)
    6
    """
    return ones_p & ~permanent | ones_q & permanent
