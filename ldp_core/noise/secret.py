"""The secret of keyed noise."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ldp_core.errors import ParameterError

_MIN_BYTES = 16
_MOST_TEXT = 1 << 12
"""Characters of a text: a file that is longer is no secret, and is not read to its end."""
_MOST_BYTES = 1 << 10
"""Of a key, so that its text, with a line break, is no longer than that: what `Secret.to_file` writes can be read."""
_HEX = re.compile(rf"\s*((?:[0-9a-fA-F]{{2}}){{{_MIN_BYTES},}})\s*", re.ASCII)
_FORM = f"{2 * _MIN_BYTES} to {2 * _MOST_BYTES} hexadecimal digits, as Secret.generate().to_file(path) writes them"


class Secret:
    """The key of keyed noise. Whoever has it can take the noise away; whoever loses it cannot repeat a report.

    As text a secret has one form, in a file, in an environment variable and in a vault: hexadecimal digits, upper or
    lower case; white space before and after them is ignored. To see whether two machines have the same secret, compare
    `fingerprint`. It never shows in a repr. It pickles only when asked to: ``secret.shared()``.

    Args:
        key: 16 to 1024 bytes, from a cryptographic source (`Secret.generate`). Not the text form.

    Raises:
        ParameterError: it is too short or too long, or it is the text form, which `from_hex` takes.

    >>> Secret.generate()
    Secret(...)
    """

    __slots__ = ("_key", "_seeded", "_shared")

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, (bytes, bytearray)) or not _MIN_BYTES <= len(key) <= _MOST_BYTES:
            got = f"{len(key)} bytes" if isinstance(key, (bytes, bytearray)) else type(key).__name__
            raise ParameterError(
                f"a secret is at least {_MIN_BYTES} random bytes, and at most {_MOST_BYTES}, got {got}: make one with "
                "Secret.generate(), or read one with Secret.from_file, .from_env or .from_hex"
            )
        if _HEX.fullmatch(bytes(key).decode("latin1")):  # of random bytes with probability 1e-16 at most
            raise ParameterError("these are not random bytes but hexadecimal digits: use Secret.from_hex")
        self._key = bytes(key)
        self._seeded = self._shared = False

    @classmethod
    def generate(cls) -> Secret:
        """A new secret of 32 bytes from the operating system."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def from_hex(cls, text: str | bytes) -> Secret:
        """A secret in its text form, as a vault returns it.

        Raises:
            ParameterError: there are other characters, or too few digits or too many.
        """
        return cls._read(text, "a secret as text is")

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> Secret:
        """A file that holds the text form, as `to_file` writes it.

        Raises:
            ParameterError: it cannot be read, or holds anything else. (A file of random bytes is read by
                ``Secret(pathlib.Path(path).read_bytes())``; one form is better.)
        """
        try:
            with Path(path).open("rb") as file:
                text = file.read(_MOST_TEXT + 1)
        except (OSError, ValueError) as error:  # (no path: with a NUL, or half of a surrogate pair)
            why = getattr(error, "strerror", "that is no path")
            raise ParameterError(f"cannot read the secret file {str(path)!r}: {why}") from None
        return cls._read(text, f"the secret file {str(path)!r} must hold")

    @classmethod
    def from_env(cls, name: str) -> Secret:
        """An environment variable that holds the text form.

        Raises:
            ParameterError: there is none, or it holds anything else.
        """
        text = ""
        with suppress(ValueError):  # (half of a surrogate pair is in no name)
            text = os.environ.get(name, "")
        return cls._read(text, f"environment variable {name!r} must hold")

    @classmethod
    def _read(cls, text: str | bytes, where: str) -> Secret:
        if not isinstance(text, (str, bytes, bytearray)):
            raise ParameterError(f"a secret as text is a str or bytes, got {type(text).__name__}")
        found = _HEX.fullmatch(text if isinstance(text, str) else bytes(text).decode("latin1"))
        if found is None or len(text) > _MOST_TEXT or len(found[1]) > 2 * _MOST_BYTES:
            raise ParameterError(f"{where} {_FORM}")
        return cls(bytes.fromhex(found[1]))

    @classmethod
    def from_seed(cls, seed: int) -> Secret:
        """The secret of a seeded run, which anybody can compute: **what it makes is not private**; it pickles."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise ParameterError(f"a seed is an integer, got {type(seed).__name__}")
        made = cls(hashlib.sha256(f"ldp-telemetry seed {seed}".encode()).digest()).shared()
        made._seeded = True
        return made

    def to_hex(self) -> str:
        """The text form, in lower case: for a vault, never for a log.

        Raises:
            ParameterError: it is a seed's, and the text would not say so.
        """
        if self._seeded:
            raise ParameterError("a secret that is made from a seed is not private: keep the seed")
        return self._key.hex()

    def to_file(self, path: str | PathLike[str]) -> None:
        """Write the text form, and a line break, to a new file, which none but its owner may read (on POSIX).

        Raises:
            ParameterError: there is such a file already (another secret is another answer of everybody), or it cannot
                be written; or the secret is a seed's.
        """
        text = self.to_hex()
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(f"{text}\n")
        except OSError as error:
            raise ParameterError(f"cannot write the secret file {str(path)!r}: {error.strerror}") from None

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits by which to compare secrets: equal on every machine, and fit for a log.

        The first 64 bits of HMAC-SHA-256 of a fixed label under the secret, which no noise is made of. Who does not
        have the secret learns nothing from them but whether two are equal, if it is random as `generate` makes it. (Of
        a secret that can be guessed they show which guess is right.)
        """
        return self.derive("fingerprint")[:8].hex()

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
