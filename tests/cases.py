"""Many cases of one test, in one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As ``pytest.mark.parametrize``, but all cases run in one test: for those that share one code path.

    A failure names its case. A test that is called with positional arguments runs for these alone, as tests of
    planted faults do. Fixtures are made once, for all cases.
    """
    names = (names,) if isinstance(names, str) else names
    cases = [case if len(names) > 1 else (case,) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*given: Any, **fixtures: Any) -> None:
            if given:
                return test(*given, **fixtures)
            for case in cases:
                arguments = dict(zip(names, case, strict=True))
                try:
                    test(**arguments, **fixtures)
                except BaseException as error:
                    error.add_note(f"in the case {arguments}")
                    raise
            return None

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
