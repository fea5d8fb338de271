"""Cases in a loop of one test: which of them failed is said below its error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def case(*name: Any) -> Iterator[None]:
    """Adds the name of the case to what fails within."""
    try:
        yield
    except BaseException as error:
        error.add_note("in the case " + ", ".join(map(str, name)))
        raise
