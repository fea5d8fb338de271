"""What all tests run with: noise from fixed keys, and the same examples of Hypothesis each time.

**Noise.** No test fails by chance: where `ldp_core` asks the operating system for a key, it gets one that follows from
the test's id and from how often the test has asked. Noise for a batch of values follows from the values too, so
that threads may take batches in any order. Other processes (`subprocess`, workers of Beam) draw from the system.
Set LDP_TEST_NOISE to any text for other keys: a test that fails with some of them has a bar that is too tight.

**Fresh noise.** A test that is about the system's randomness is marked with the probability that it fails by chance::

    @pytest.mark.fresh(false_alarms=1e-8)  # of each of its parameters; the bound in standard errors beside it

These run in `.ci/run`, not by default. All of them together fail by chance in less than one of a million runs:
pytest stops when the probabilities of the tests that it collects add up to more.

**Hypothesis** does not look for the smallest example, as tests of planted faults would have it do so each time: set
HYPOTHESIS_PROFILE=search for new and more examples when a property fails.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: the workers of pytest share the cores
if os.environ.setdefault("LDP_KERNELS", "numpy") == "auto":  # to compile takes a quarter of all time, in each worker
    del os.environ["LDP_KERNELS"]

import gc
import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, Phase, settings

from ldp_core.noise import fresh, secret

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
_ONCE = [Phase.explicit, Phase.generate]
settings.register_profile(
    "repeatable", max_examples=50, deadline=None, derandomize=True, phases=_ONCE, suppress_health_check=_SLOW
)
settings.register_profile("search", deadline=None, max_examples=2000, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

gc.set_threshold(400_000)  # thousands of tests are in memory: to look through them all takes a tenth of the time

_SALT = os.environ.get("LDP_TEST_NOISE", "")
FALSE_ALARMS = 1e-6
"""The most that the probabilities of all tests of fresh noise may add up to."""


class FixedKeys:
    """In place of the system's randomness: keys that follow from a scope and from what was asked for in it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._scope: str | None = None  # None: the operating system's randomness
        self._asked: Counter[tuple[Any, ...]] = Counter()

    @contextmanager
    def within(self, scope: str | None) -> Iterator[None]:
        before = self._scope, self._asked
        self._scope, self._asked = scope, Counter()
        try:
            yield
        finally:
            self._scope, self._asked = before

    @property
    def fixed(self) -> bool:
        return self._scope is not None

    def draw(self, n: int, *purpose: str) -> bytes:
        if self._scope is None:
            return os.urandom(n)
        with self._lock:
            again = self._asked[purpose]
            self._asked[purpose] += 1
        return hashlib.shake_256(repr((_SALT, self._scope, purpose, again)).encode()).digest(n)

    # ---- which scope it is

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Any:
        with self.within(collector.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
        if fixturedef.scope == "function":
            return (yield)
        with self.within(f"{request.node.nodeid} {fixturedef.argname} {getattr(request, 'param', '')}"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        with self.within(None if item.get_closest_marker("fresh") else item.nodeid):
            return (yield)


keys = FixedKeys()


class _FixedKeystream(fresh.Keystream):
    """A keystream that was given no key."""

    __slots__ = ()

    def bind(self, fingerprint: str, codes: Any) -> fresh.Keystream:
        digest = hashlib.blake2b(np.ascontiguousarray(codes).tobytes()).hexdigest()
        return fresh.Keystream(keys.draw(32, fingerprint, digest))


def _new_keystream(kind: type[fresh.Keystream], key: bytes | None = None) -> fresh.Keystream:
    fixed = key is None and kind is fresh.Keystream and keys.fixed
    return object.__new__(_FixedKeystream if fixed else kind)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(keys)
    fresh.Keystream.__new__ = _new_keystream
    fresh.os = SimpleNamespace(urandom=lambda n: keys.draw(n, "keystream"))
    secret.secrets = SimpleNamespace(token_bytes=lambda n: keys.draw(n, "secret"))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Any:
    """No examples of docstrings are looked for in tests: to do so imports files that most runs do not need."""
    return [collector for collector in (yield) if not isinstance(collector, DoctestModule)]


@pytest.hookimpl(tryfirst=True)  # before tests are deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marks = [mark for item in items if (mark := item.get_closest_marker("fresh"))]
    total = sum(mark.kwargs["false_alarms"] for mark in marks)
    if total > FALSE_ALARMS:
        raise pytest.UsageError(f"tests of fresh noise fail by chance: {total:.1e} together, above {FALSE_ALARMS}")


def pytest_collection_finish() -> None:
    """What is imported and collected stays until the end: the garbage collector need not look through it each time."""
    gc.freeze()


# ---- the table of audits


_WAYS = ("Polars, fresh", "Polars, keyed", "Beam, fresh", "Beam, keyed")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests marked ``audit`` have recorded: a line for each mechanism, its lower bounds in columns."""
    rows: dict[str, dict[str, Any]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for key, found in report.user_properties if report.when == "call" else ():
                if key == "audit":
                    rows.setdefault(found["row"], {})[found["way"]] = found
    if not rows:
        return
    terminalreporter.section("lower bounds of epsilon")
    terminalreporter.line("| audited | claimed | exact | " + " | ".join(_WAYS) + " |")
    terminalreporter.line("| --- |" + " --- |" * (2 + len(_WAYS)))
    for row, ways in sorted(rows.items(), key=lambda item: item[0].casefold()):
        some = next(iter(ways.values()))
        exact = "" if some["exact"] is None else f"{some['exact']:.4f}"
        cells = [_bound(ways.get(way)) for way in _WAYS]
        terminalreporter.line(f"| {row} | {some['claimed']:.4g} | {exact} | " + " | ".join(cells) + " |")


def _bound(found: Any) -> str:
    if found is None:
        return ""
    return f"{found['lower_bound']:.4f}" + (" broken" if found["verdict"] == "broken" else "")
