"""The secret of keyed noise."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from ldp_core.errors import ParameterError

_MIN_BYTES = 16


class Secret:
    """The key of keyed noise. Whoever has it can take the noise away; whoever loses it cannot repeat a report.

    Args:
        key: at least 16 bytes, from a cryptographic source (`Secret.generate`).

    It never shows in a repr. It pickles only when asked to: ``secret.shared()``.

    >>> Secret.generate()
    Secret(...)
    """

    __slots__ = ("_key", "_seeded", "_shared")

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, (bytes, bytearray)) or len(key) < _MIN_BYTES:
            raise ParameterError(f"a secret is at least {_MIN_BYTES} random bytes")
        self._key = bytes(key)
        self._seeded = self._shared = False

    @classmethod
    def generate(cls) -> Secret:
        """A new secret of 32 bytes from the operating system."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> Secret:
        """The bytes of a file, as they are."""
        try:
            key = Path(path).read_bytes()
        except OSError as error:
            raise ParameterError(f"cannot read the secret file {str(path)!r}: {error.strerror}") from None
        return cls(key)

    @classmethod
    def from_env(cls, name: str) -> Secret:
        """An environment variable: hexadecimal digits, at least 32 of them."""
        text = os.environ.get(name, "")
        key = None
        with suppress(ValueError):  # it quotes what it could not read
            key = bytes.fromhex(text)
        if not key or len(key) < _MIN_BYTES:
            raise ParameterError(
                f"environment variable {name!r} must hold at least {2 * _MIN_BYTES} hexadecimal digits"
            )
        return cls(key)

    @classmethod
    def from_seed(cls, seed: int) -> Secret:
        """The secret of a seeded run, which anybody can compute: **what it makes is not private**; it pickles.

        >>> Secret.from_seed(1) == Secret.from_seed(1)
        True
        """
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ParameterError(f"a seed is an integer, got {type(seed).__name__}")
        made = cls(hashlib.sha256(f"ldp-telemetry seed {seed}".encode()).digest()).shared()
        made._seeded = True
        return made

    @property
    def seeded(self) -> bool:
        """Whether it was made from a seed, which is **not private**."""
        return self._seeded

    def shared(self) -> Secret:
        """The same secret, but one that pickles: for plans that travel to workers over a protected way."""
        copy = Secret(self._key)
        copy._shared, copy._seeded = True, self._seeded
        return copy

    def derive(self, *context: str) -> bytes:
        """A 32-byte key that is independent for every context: HMAC-SHA-256 of its length-prefixed parts."""
        parts = (part.encode() for part in context)
        return hmac.digest(self._key, b"".join(len(part).to_bytes(8, "big") + part for part in parts), "sha256")

    def __repr__(self) -> str:
        return "Secret(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(("Secret", self._key))

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._shared:
            raise TypeError("a Secret does not pickle, so that it cannot leak by accident; secret.shared() does")
        return _shared_secret, (self._key, self._seeded)


def _shared_secret(key: bytes, seeded: bool = False) -> Secret:
    secret = Secret(key).shared()
    secret._seeded = seeded
    return secret
