"""Factorisations of matrices that are safe on any thread.

OpenBLAS, when it factors a matrix of some 300 rows or more on several threads, puts half a megabyte on the stack at
each level of a recursion. Threads that others made may have 2 MB, as those of Polars do: that ends the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import F64

_STACK = 64 << 20  # bytes of address space; no memory until it is used
_STACK_SIZE = threading.Lock()
_SMALL = 128  # rows: up to here nothing is split


def inverse(a: F64) -> F64:
    """See `numpy.linalg.inv`."""
    return _with_room(lambda: np.linalg.inv(a), len(a))


def eigenvalues(a: F64) -> F64:
    """Those of a symmetric matrix, the least first; see `numpy.linalg.eigvalsh`."""
    return _with_room(lambda: np.linalg.eigvalsh(a), len(a))


def _with_room(compute: Callable[[], npt.NDArray[Any]], rows: int) -> F64:
    """What ``compute`` returns, for a large matrix on a thread with a large stack."""
    if rows <= _SMALL:
        return np.asarray(compute(), np.float64)
    future: Future[F64] = Future()

    def run() -> None:
        try:
            future.set_result(np.asarray(compute(), np.float64))
        except BaseException as error:  # raised again where the result is awaited
            future.set_exception(error)

    with _STACK_SIZE:  # of all threads that start from here on
        before = threading.stack_size(_STACK)
        try:
            threading.Thread(target=run, daemon=True).start()
        finally:
            threading.stack_size(before)
    return future.result()
