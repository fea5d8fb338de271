"""Many cases of one test, in one test: which of them failed is said below its error."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

EVIL = "\x1b]0;gotcha\x07\x1b[2J\x9b31m\u202e\u2028"  # a stranger's name, which moves a terminal's cursor


@contextmanager
def case(*name: Any) -> Iterator[None]:
    """Adds the name of the case to what fails within."""
    try:
        yield
    except BaseException as error:
        error.add_note("in the case " + ", ".join(map(str, name)))
        raise


@contextmanager
def full_disk(most: int = 0) -> Iterator[None]:
    """No file of this process may become longer than so many bytes: what writes more has the error of a full disk."""
    resource = pytest.importorskip("resource", reason="only on Unix")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As ``pytest.mark.parametrize``, but all cases run in one test: for those that share one code path.

    A test that is called with positional arguments runs for these alone, as tests of planted faults do. Fixtures are
    made once, for all cases; what `monkeypatch` changes is undone after each.
    """
    names = (names,) if isinstance(names, str) else names
    cases = [case if len(names) > 1 else (case,) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*given: Any, **fixtures: Any) -> None:
            if given:
                return test(*given, **fixtures)
            for values in cases:
                arguments = dict(zip(names, values, strict=True))
                with pytest.MonkeyPatch.context() as patch, case(arguments):
                    if "monkeypatch" in fixtures:
                        fixtures["monkeypatch"] = patch
                    test(**arguments, **fixtures)
            return None

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
