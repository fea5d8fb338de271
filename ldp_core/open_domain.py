"""Values that nobody has listed: any text, or any integer, by a public 64-bit hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ldp_core.columns import as_arrow, null_count
from ldp_core.domain import Codes
from ldp_core.errors import DomainError
from ldp_core.keyed import id_words

_PUBLIC_KEY = b"ldp: codes of an open domain    "
"""Not a secret: clients and server must agree on the codes."""


@dataclass(frozen=True)
class OpenDomain:
    """Any text, or any 64-bit integer.

    Args:
        kind: ``"str"`` or ``"int"``.
        unmatched: ``"error"``: nulls are an error that counts them. (Fill them before, if they are an answer.)

    A code is 64 bits: of text a fixed public hash, of an integer itself. Two of a million texts share one with
    probability 3e-8, and are then counted together.

    Raises:
        DomainError: another kind.

    >>> codes = OpenDomain("str").encode(["new", "york", "new"])
    >>> bool(codes[0] == codes[2] != codes[1]), codes.dtype
    (True, dtype('uint64'))
    """

    kind: Literal["str", "int"] = "str"
    unmatched: Literal["error"] = "error"

    def __post_init__(self) -> None:
        if self.kind not in ("str", "int"):
            raise DomainError(f'an open domain is of kind "str" or "int", got {self.kind!r}')
        if self.unmatched != "error":
            raise DomainError(f'unmatched of an open domain must be "error", got {self.unmatched!r}')

    @property
    def summary(self) -> str:
        """See `Inputs`."""
        return "any text" if self.kind == "str" else "any integer"

    def encode(self, values: Any, *, column: str = "values") -> Codes:
        """Codes of ``values``, uint64.

        Args:
            values: text or integers: an Arrow or numpy array, or a Python sequence.
            column: what to call the values in an error message.

        Raises:
            DomainError: nulls.
            DtypeError: the values are of another kind.
        """
        array = as_arrow(values, self.kind, column=column)
        missing = null_count(array)
        if missing:
            raise DomainError(f"column {column!r}: {missing} of {len(array)} values are null; fill them before")
        high, low = id_words(array, _PUBLIC_KEY)
        return high if low is None else high ^ low

    def refuses(self, values: Any, *, column: str = "values") -> npt.NDArray[np.bool_]:
        """See `Inputs`."""
        array = as_arrow(values, self.kind, column=column)
        missing: npt.NDArray[np.bool_] = pc.is_null(
            array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        ).to_numpy(zero_copy_only=False)
        return missing

    def to_dict(self) -> dict[str, Any]:
        """See `Inputs`."""
        return {"domain": {"kind": self.kind}}
