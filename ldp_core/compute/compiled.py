"""Loops over arrays that numba compiles, where it is installed (the extra ``fast``): they run without Python's lock.

A `Kernel` is asked first, and answers None where it is not compiled; then numpy does the same. The numpy code that
follows the question is the kernel's specification: both make the same bits of the same arrays.

* **When.** Compiling takes about a second. So a kernel is compiled when it has been asked for `MANY` elements in a
  process; from then on it takes all calls, small ones too.
* **The environment variable ``LDP_KERNELS``**: ``numpy``, nothing is compiled; ``numba``, everything, at once.
* **Where numba cannot compile** (it does not import, there is no LLVM, or none for this processor) there is one
  warning, and numpy does the work.
* **Threads** run kernels at the same time; no kernel starts any. While one thread compiles, the others use numpy.
* **Nothing is stored on disk**.

Which of the two runs is logged, at level INFO.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from threading import Lock
from time import perf_counter
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

import numpy as np

from ldp_core.errors import LdpWarning, ParameterError

MANY = 1 << 20
"""Elements of its largest array, over all calls, that a kernel is asked for before it is compiled."""

_PLAIN = 0x101
"""The flags of a contiguous and aligned array (numpy's C API: `NPY_ARRAY_CARRAY_RO`): others have no kernel."""

_LOG = logging.getLogger(__name__)
_COMPILING = Lock()
_P = ParamSpec("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])
_Kinds: TypeAlias = tuple[Any, ...]


class Kernel(Generic[_P, _R]):
    """A function of arrays and numbers, written as a loop that numba compiles.

    It writes to the arrays whose names begin with ``out``, and to no others. Functions that it calls are
    marked by `inlined`.
    """

    def __init__(self, loop: Callable[_P, _R]) -> None:
        self._loop = loop
        code = loop.__code__
        self._written = [name.startswith("out") for name in code.co_varnames[: code.co_argcount]]
        self._compiled: dict[_Kinds, Callable[_P, _R] | None] = {}
        self._asked: Counter[_Kinds] = Counter()

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        """What the loop returns, or None if it is not compiled for such arguments."""
        mode = _mode()
        if mode == "numpy":
            return None
        kinds = tuple([(a.dtype, a.ndim, a.flags.num & _PLAIN) if type(a) is np.ndarray else type(a) for a in args])
        if kinds not in self._compiled:
            self._asked[kinds] += max([a.size for a in args if isinstance(a, np.ndarray)])
            if mode == "numba" or self._asked[kinds] >= MANY:
                self._compile(kinds)
        run = self._compiled.get(kinds)
        return None if run is None else run(*args, **kwargs)

    def _compile(self, kinds: _Kinds) -> None:
        """Compile it for such arguments, unless somebody compiles."""
        if not _COMPILING.acquire(blocking=_mode() == "numba"):
            return
        try:
            if kinds not in self._compiled:
                plain = all(kind[2] == _PLAIN for kind in kinds if isinstance(kind, tuple))
                self._compiled[kinds] = _compiled(self._loop, kinds, self._written) if plain else None
        finally:
            _COMPILING.release()


def inlined(function: _F) -> _F:
    """Mark a function that kernels call."""
    _INLINED.append(function)
    return function


_INLINED: list[Callable[..., Any]] = []


def _compiled(loop: Callable[_P, _R], kinds: _Kinds, written: list[bool]) -> Callable[_P, _R] | None:
    numba = _numba()
    if numba is None:
        return None
    start = perf_counter()
    numbers = {int: numba.int64, bool: numba.boolean, np.uint64: numba.uint64}
    try:
        signature = tuple(
            numba.types.Array(numba.from_dtype(np.dtype(kind[0])), kind[1], "C", readonly=not out)  # or read-only
            if isinstance(kind, tuple)
            else numbers[kind]
            for kind, out in zip(kinds, written, strict=True)
        )
        made: Callable[_P, _R] = numba.njit(signature, nogil=True)(loop)
    except Exception as error:  # a compiler may fail of anything
        _give_up(error)
        return None
    _LOG.info("%s: compiled by numba in %.1f s", loop.__name__, perf_counter() - start)
    return made


_FAILED: list[Exception] = []


def _give_up(error: Exception) -> None:
    """Warn, once, and use numpy from now on."""
    _FAILED.append(error)
    _mode.cache_clear()
    if len(_FAILED) == 1:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        warnings.warn(
            f"numba cannot compile ({reason}): numpy does the work. Repair or remove numba, or set LDP_KERNELS=numpy",
            LdpWarning,
            6,
        )


@cache
def _mode() -> str:
    """What the environment variable says; else "lazy", or "numpy" where there is no numba."""
    mode = os.environ.get("LDP_KERNELS") or "lazy"
    if mode not in ("numpy", "numba", "lazy"):
        raise ParameterError(f"LDP_KERNELS must be numpy or numba, or not be set, got {mode!r}")
    if _FAILED or (mode == "lazy" and importlib.util.find_spec("numba") is None):
        mode = "numpy"
    _LOG.info("kernels: %s", {"lazy": "numba, when there are many rows"}.get(mode, mode))
    return mode


@cache
def _numba() -> Any:
    """The package, told what kernels call; None if it cannot be imported."""
    try:
        numba = importlib.import_module("numba")
        extending = importlib.import_module("numba.extending")
        for function in _INLINED:
            extending.register_jitable(function)
    except Exception as error:  # an import may fail of anything
        _give_up(error)
        return None
    return numba
