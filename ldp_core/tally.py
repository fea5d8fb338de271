"""The accumulator: how many reports there were, and what they add up to."""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ldp_core.errors import MechanismMismatchError, ParameterError, ReportError
from ldp_core.parameters import Declared
from ldp_core.tables import html

_VERSION = 1
MOST = (1 << 63) - 1
"""The greatest n, and the greatest counter."""
_FINGERPRINT = re.compile("[0-9a-f]{16}")
_HEADER = struct.Struct("<BB16sqI")  # version, bytes a count, fingerprint, n, number of counts


@dataclass(frozen=True, eq=False)
class Tally(Declared):
    """What many reports add up to; tallies of one mechanism add up exactly, in any order.

    Attributes:
        n: number of reports.
        counters: int64, read-only. For a frequency oracle int64[d]: how many reports support each value.
            What the counters of another mechanism count, its own documentation says.
        fingerprint: of the mechanism that made the reports.

    >>> Tally(3, np.array([1, 2]), "a" * 16) + Tally(1, np.array([1, 0]), "a" * 16)
    Tally(n=4, counters=[2 2], fingerprint='aaaaaaaaaaaaaaaa')
    """

    n: int
    counters: npt.NDArray[np.int64]
    fingerprint: str

    def __post_init__(self) -> None:
        given = np.asarray(self.counters)
        if isinstance(self.n, bool) or not isinstance(self.n, (int, np.integer)) or not 0 <= self.n <= MOST:
            raise ReportError("a tally's n must be an integer, at least 0 and below 2**63")
        if given.ndim != 1 or given.dtype.kind not in "iu" or int(given.max(initial=0)) > MOST:
            raise ReportError("a tally's counters must be a row of integers of 64 bits")
        if not isinstance(self.fingerprint, str) or not _FINGERPRINT.fullmatch(self.fingerprint):
            raise ReportError("a tally's fingerprint must be 16 hexadecimal digits")
        if not self.n and given.any():
            raise ReportError("a tally of no reports counts nothing: its counters must be 0, it is damaged or forged")
        counters = np.array(given, np.int64)
        counters.flags.writeable = False
        self._declare(n=int(self.n), counters=counters)

    def __add__(self, other: Tally) -> Tally:
        """Add tallies; raise `MechanismMismatchError` for those of others, `ReportError` for a sum beyond 64 bits.

        A tally does not know what its counters count: add tallies from outside by `Mechanism.merge`, which checks each.
        """
        if not isinstance(other, Tally):
            return NotImplemented
        check_same_mechanism(self, other)
        counters = self.counters + other.counters
        wrapped = (counters ^ self.counters) & (counters ^ other.counters)  # negative: both have the other sign
        if wrapped.min(initial=0) < 0 or self.n + other.n > MOST:
            raise ReportError("the sum of these tallies is beyond 64 bits: one of them is damaged or forged")
        return Tally(self.n + other.n, counters, self.fingerprint)

    @staticmethod
    def from_aggregate(n: int, result: Any, mechanism: Summed) -> Tally:
        """The tally of reports that nobody saw, of what secure aggregation gives: see `Mechanism.vdaf`.

        Args:
            n: number of reports in the batch.
            result: the sums, a list or an array of as many integers as the type's ``length``.
            mechanism: the one that made the reports.

        Raises:
            ParameterError: no mechanism, or one whose counters are no sums of its reports.
            ReportError: not so many sums, or not integers; no n reports of this mechanism have these.

        >>> from ldp_core import UnaryEncoding
        >>> m = UnaryEncoding(["a", "b", "c"], epsilon=1.0)
        >>> m.estimate(Tally.from_aggregate(1000, [500, 300, 290], m)).counts.round().tolist()
        [1000.0, 134.0, 91.0]
        """
        if not hasattr(mechanism, "counters_of_sums"):
            raise ParameterError(f"mechanism must be that of the reports, got {type(mechanism).__name__}: plan[column]")
        given = result.tolist() if isinstance(result, np.ndarray) else result
        sums = Tally.from_dict({"n": n, "counters": given, "fingerprint": mechanism.fingerprint})
        tally = Tally(sums.n, mechanism.counters_of_sums(sums.n, sums.counters), mechanism.fingerprint)
        mechanism.check_tally(tally)
        return tally

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and (self.n, self.fingerprint) == (other.n, other.fingerprint)
            and np.array_equal(self.counters, other.counters)
        )

    def __hash__(self) -> int:
        return hash((self.n, self.fingerprint, self.counters.tobytes()))

    def __repr__(self) -> str:
        counters = np.array2string(self.counters, threshold=8)
        return f"Tally(n={self.n}, counters={counters}, fingerprint={self.fingerprint!r})"

    def _repr_html_(self) -> str:
        shown = [f"{count:,}" for count in self.counters[:8].tolist()]
        more = [f"... {len(self.counters):,} counters"] if len(self.counters) > len(shown) else []
        rows = [("reports", f"{self.n:,}"), ("counters", ", ".join([*shown, *more])), ("mechanism", self.fingerprint)]
        return html([("Tally", ""), *rows])

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (self.to_bytes(),)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {"n": self.n, "counters": self.counters.tolist(), "fingerprint": self.fingerprint}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Tally:
        """Inverse of `to_dict`.

        Raises:
            ReportError: it is not a tally.
        """
        fields = {"n", "counters", "fingerprint"}
        if not isinstance(data, dict) or data.keys() != fields or not isinstance(data["counters"], list):
            raise ReportError("a tally is a table of n, a list counters, and fingerprint, and of nothing else")
        counters = None
        with suppress(ValueError):  # lists in the list
            counters = np.asarray(data["counters"] or np.zeros(0, np.int64))
        if counters is None:
            raise ReportError("a tally's counters must be a row of integers of 64 bits")
        return cls(data["n"], counters, data["fingerprint"])

    def to_bytes(self) -> bytes:
        """A compact, deterministic, versioned encoding: counts take 1, 2, 4 or 8 bytes, as the largest needs."""
        top = int(self.counters.max(initial=0))
        width = next(w for w in (1, 2, 4, 8) if top < 1 << (8 * w - (w == 8)))
        if self.counters.min(initial=0) < 0:  # sums of signed reports: two's complement
            width = 8
        header = _HEADER.pack(_VERSION, width, self.fingerprint.encode("ascii"), self.n, len(self.counters))
        return header + self.counters.astype(f"<u{width}").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Tally:
        """Inverse of `to_bytes`.

        Raises:
            ReportError: the bytes are not a tally, or of a version that this release cannot read.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ReportError(f"a tally is encoded as bytes, got {type(data).__name__}")
        if len(data) < _HEADER.size or data[0] != _VERSION or data[1] not in (1, 2, 4, 8):
            raise ReportError(f"not a tally in encoding version {_VERSION}")
        _, width, fingerprint, n, d = _HEADER.unpack_from(data)
        if len(data) != _HEADER.size + width * d:
            raise ReportError(f"a tally of {d} counts in {width} bytes each has another length than {len(data)} bytes")
        counters = np.frombuffer(data, f"<u{width}", offset=_HEADER.size)
        return cls(n, counters.astype(np.int64), fingerprint.decode("latin1"))


class Counts(Protocol):
    """What a `Tally` and an accumulator of one have in common."""

    @property
    def n(self) -> int:
        """Number of reports."""

    @property
    def fingerprint(self) -> str:
        """Of the mechanism."""

    @property
    def counters(self) -> npt.NDArray[np.int64]:
        """What it has counted."""


class Summed(Protocol):
    """A mechanism whose counters are sums of its reports."""

    @property
    def fingerprint(self) -> str:
        """Of its tallies."""

    def counters_of_sums(self, n: int, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Of n reports."""

    def check_tally(self, tally: Counts) -> None:
        """Raise an error if it cannot be."""


def check_same_mechanism(one: Counts, other: Counts) -> None:
    """Raise `MechanismMismatchError` unless two tallies may be added."""
    if one.fingerprint != other.fingerprint or one.counters.shape != other.counters.shape:
        raise MechanismMismatchError(
            f"cannot add tallies of different mechanisms: fingerprints {one.fingerprint} and {other.fingerprint}"
        )


def _from_bytes(data: bytes) -> Tally:
    return Tally.from_bytes(data)  # (cloudpickle would take a static method apart, and not find its way by name)
