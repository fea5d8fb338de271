"""When a kernel is compiled, which of the two runs, and what happens where numba cannot compile."""

import importlib
import logging
import sys
import threading
import types
import warnings

import numpy as np
import pytest

from ldp_core import UnaryEncoding
from ldp_core.compute import compiled, kernels
from ldp_core.compute.compiled import MANY, Kernel
from ldp_core.errors import LdpWarning, ParameterError


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No test sees the state of another, nor of the process."""
    monkeypatch.delenv("LDP_KERNELS", raising=False)
    monkeypatch.setattr(compiled, "_FAILED", [])
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget():
    compiled._mode.cache_clear()
    compiled._numba.cache_clear()


class Jit:
    """In place of numba: what it was asked to compile."""

    def __init__(self, monkeypatch, failure=None):
        self.asked, self.failure = [], failure
        module = types.ModuleType("numba")
        module.__spec__ = importlib.machinery.ModuleSpec("numba", None)
        module.int64, module.uint64, module.boolean = "int64", "uint64", "boolean"
        module.from_dtype = str
        module.types = types.SimpleNamespace(Array=lambda kind, ndim, layout, readonly: (kind, ndim, layout, readonly))
        module.njit = self.njit
        extending = types.ModuleType("numba.extending")
        extending.register_jitable = lambda function: None
        monkeypatch.setitem(sys.modules, "numba", module)
        monkeypatch.setitem(sys.modules, "numba.extending", extending)

    def njit(self, signature, **options):
        def made(loop):
            self.asked.append((signature, options))
            if self.failure:
                raise self.failure
            return loop

        return made


def doubled(src, times, out):
    out[:] = src * times
    return True


def ask(kernel, n=10):
    out = np.zeros(n, np.int64)
    return kernel(np.ones(n, np.int64), 2, out), out


def test_a_kernel_is_compiled_after_many_elements(monkeypatch, caplog):
    jit, kernel = Jit(monkeypatch), Kernel(doubled)
    caplog.set_level(logging.INFO, logger="ldp_core")
    assert ask(kernel, MANY // 2)[0] is None
    assert ask(kernel, MANY // 2 - 1)[0] is None
    assert not jit.asked
    made, out = ask(kernel, 1)
    assert made
    assert out.tolist() == [2]
    assert ask(kernel)[0]
    (signature, options) = jit.asked[0]
    assert signature == (("int64", 1, "C", True), "int64", ("int64", 1, "C", False))
    assert options == {"nogil": True}
    assert len(jit.asked) == 1
    assert [record.getMessage()[:20] for record in caplog.records] == ["kernels: numba, when", "doubled: compiled by"]


def test_arrays_of_another_type_are_another_kernel_and_those_with_gaps_for_numpy(monkeypatch):
    monkeypatch.setenv("LDP_KERNELS", "numba")
    jit, kernel = Jit(monkeypatch), Kernel(doubled)
    assert kernel(np.ones(6, np.int64)[::2], 2, np.zeros(3, np.int64)) is None
    odd = np.zeros(25, np.uint8)[1:].view(np.int64)
    assert kernel(odd, 2, np.zeros(3, np.int64)) is None
    assert not jit.asked
    for kind in (np.uint8, np.uint16, np.uint8):
        assert kernel(np.ones(3, kind), 2, np.zeros(3, kind))
    assert len(jit.asked) == 2


def test_numpy_by_choice_and_where_there_is_no_numba(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="ldp_core")
    jit, kernel = Jit(monkeypatch), Kernel(doubled)
    monkeypatch.setenv("LDP_KERNELS", "numpy")
    assert ask(kernel, 2 * MANY)[0] is None
    monkeypatch.delenv("LDP_KERNELS")
    monkeypatch.setattr(compiled.importlib.util, "find_spec", lambda name: None)
    forget()
    assert ask(kernel, 2 * MANY)[0] is None
    assert not jit.asked
    assert [record.getMessage() for record in caplog.records] == ["kernels: numpy"] * 2
    monkeypatch.setenv("LDP_KERNELS", "cython")
    forget()
    with pytest.raises(ParameterError, match="LDP_KERNELS must be numpy or numba, or not be set, got 'cython'"):
        ask(kernel)


@pytest.mark.parametrize("failure", [OSError("no LLVM"), RuntimeError("unknown CPU"), ImportError("needs NumPy 1")])
def test_one_warning_where_numba_cannot_compile(monkeypatch, failure):
    monkeypatch.setenv("LDP_KERNELS", "numba")
    jit, both = Jit(monkeypatch, failure), [Kernel(doubled), Kernel(doubled)]
    with pytest.warns(LdpWarning, match=f"numba cannot compile .{type(failure).__name__}: {failure}.: numpy") as seen:
        assert [ask(kernel)[0] for kernel in both] == [None, None]
    assert len(seen) == 1
    assert len(jit.asked) == 1


def test_a_numba_that_cannot_be_imported(monkeypatch):
    monkeypatch.setenv("LDP_KERNELS", "numba")
    monkeypatch.setitem(sys.modules, "numba", None)
    for kernel in (value for value in vars(kernels).values() if isinstance(value, Kernel)):
        monkeypatch.setattr(kernel, "_compiled", {})
    m = UnaryEncoding(range(10), epsilon=1.0)
    with pytest.warns(LdpWarning, match="numba cannot compile .ModuleNotFoundError"):
        reports = m.perturb(np.zeros(100_000, np.int64))
    sums = reports.sum(axis=0) / 100_000
    assert abs(sums - [m.p, *[m.q] * 9]).max() < 0.01
    with warnings.catch_warnings(action="error"):
        m.perturb(np.zeros(10, np.int64))


def test_others_do_not_wait_for_a_thread_that_compiles(monkeypatch):
    jit, kernel = Jit(monkeypatch), Kernel(doubled)
    inside, go_on = threading.Event(), threading.Event()

    def njit(signature, **options):
        inside.set()
        assert go_on.wait(30)
        return lambda loop: loop

    monkeypatch.setattr(sys.modules["numba"], "njit", njit)
    first = threading.Thread(target=lambda: ask(kernel, MANY))
    first.start()
    assert inside.wait(30)
    assert ask(kernel, MANY)[0] is None  # by numpy
    go_on.set()
    first.join()
    assert ask(kernel)[0]
    assert not jit.asked
