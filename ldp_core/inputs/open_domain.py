"""Values that nobody has listed: any text, or any integer, by a public 64-bit hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from ldp_core.arrays.arrow import as_arrow, filled_indices, is_text, null_count
from ldp_core.arrays.types import Codes
from ldp_core.errors import DomainError
from ldp_core.exact.hashing import id_words
from ldp_core.inputs.base import Inputs
from ldp_core.inputs.domain import uint64_as_int64

_PUBLIC_KEY = b"ldp: codes of an open domain    "
"""Not a secret: clients and server must agree on the codes."""


@dataclass(frozen=True)
class OpenDomain(Inputs):
    """Any text (kind ``"str"``), or any 64-bit integer (``"int"``); nulls are an error that counts them.

    A code is 64 bits: of text a fixed public hash, of an integer its bits. Two of a million texts share one with
    probability 3e-8, and are then counted together. (Whoever may choose texts can make two that share one: that spoils
    a count, and reveals nothing; see `ldp_core.noise.keyed`.)

    Raises:
        DomainError: another kind.

    >>> codes = OpenDomain("str").encode(["new", "york", "new"])
    >>> bool(codes[0] == codes[2] != codes[1]), codes.dtype
    (True, dtype('uint64'))
    """

    kind: Literal["str", "int"] = "str"
    unmatched: Literal["error"] = "error"
    remedy: ClassVar[str] = "fill them before"

    def __post_init__(self) -> None:
        if self.kind not in ("str", "int"):
            raise DomainError(f'an open domain is of kind "str" or "int", got {self.kind!r}')
        if self.unmatched != "error":
            raise DomainError(f'unmatched of an open domain must be "error", got {self.unmatched!r}')

    @classmethod
    def of(cls, kind: Any) -> OpenDomain:
        """``kind`` itself, or an open domain of this kind."""
        if isinstance(kind, OpenDomain):
            return kind
        if isinstance(kind, str):
            return cls(kind)  # type: ignore[arg-type]
        raise DomainError(
            f'an open domain is of kind "str" or "int", in TOML {{kind = "str"}}; got {type(kind).__name__}'
        )

    @property
    @override
    def summary(self) -> str:
        return "any text" if self.kind == "str" else "any integer"

    def encode(self, values: Any, *, column: str = "values") -> Codes:
        """Codes of text or integers, uint64.

        Raises:
            DomainError: nulls, integers of more than 63 bits, or indices out of their dictionary's bounds.
            DtypeError: the values are of another kind.
        """
        array = self._as_arrow(values, column)
        if pa.types.is_dictionary(array.type):
            filled_indices(array, len(array.dictionary), column=column)  # (checks them)
        missing = null_count(array)
        if missing:
            raise DomainError(
                f"column {column!r}: {missing} of {len(array)} values are null or beyond 2**63 - 1; {self.remedy}"
            )
        if self.kind == "int":
            if pa.types.is_dictionary(array.type):
                array = array.dictionary_decode()
            return array.cast(pa.int64()).to_numpy().view(np.uint64)
        if is_text(array.type) and _repeats(array):
            array = array.dictionary_encode()
        high, low = id_words(array, _PUBLIC_KEY)
        return high if low is None else high ^ low  # (a hash has both)

    def _as_arrow(self, values: Any, column: str) -> pa.Array:
        """An array of the domain's kind, in which integers that have no int64 are null."""
        array = as_arrow(values, self.kind, column=column)
        if pa.types.is_dictionary(array.type) and array.dictionary.type == pa.uint64():
            array = array.dictionary_decode()
        return uint64_as_int64(array) if array.type == pa.uint64() else array

    @override
    def outside(self, values: Any, *, column: str = "values") -> npt.NDArray[np.bool_]:
        array = self._as_arrow(values, column)
        return pc.is_null(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array).to_numpy(
            zero_copy_only=False
        )

    @override
    def to_dict(self) -> dict[str, Any]:
        return {"domain": {"kind": self.kind}}


_SAMPLE = 1 << 12  # texts


def _repeats(array: pa.Array) -> bool:
    """Whether distinct texts are so few that finding them first costs less than hashing each: below about n / 4.

    Among s texts drawn from D equally likely ones, s^2 / 2 D are repetitions.
    """
    if len(array) < 2 * _SAMPLE:
        return False
    repetitions = _SAMPLE - len(array[:: len(array) // _SAMPLE][:_SAMPLE].dictionary_encode().dictionary)
    return repetitions * len(array) > 2 * _SAMPLE**2
