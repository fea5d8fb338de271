"""Exceptions, and one warning.

Every class can be built from one string, because Polars re-creates an exception
raised inside an expression as ``type(error)(message)``. Messages say which column,
how many rows and what was expected; they never contain a value from the data.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar, TypeAlias


class LdpError(Exception):
    """Base class of all errors raised by this project."""

    endings: ClassVar[tuple[str, ...]] = ()
    """With which an engine begins what it adds to a message as it makes an error anew; left out, with what follows."""

    def __init__(self, *args: object) -> None:
        super().__init__(*map(self._without_endings, args))

    def _without_endings(self, message: object) -> object:
        if isinstance(message, str):
            for ending in self.endings:
                message = message.partition(ending)[0]
        return message


class ParameterError(LdpError, ValueError):
    """A privacy parameter is outside its permitted interval."""


class DomainError(LdpError, ValueError):
    """A domain is ill-formed, or values do not belong to it."""


class DtypeError(LdpError, TypeError):
    """Data has another type than the domain or the mechanism needs."""


class ReportError(LdpError, ValueError):
    """Reports have the wrong shape, contain nulls, or were not made by this mechanism."""


class MechanismMismatchError(LdpError, ValueError):
    """Tallies or reports of different mechanisms were about to be combined."""


class PlanError(LdpError, ValueError):
    """A privacy plan is inconsistent, or does not fit the data."""


class InputError(LdpError, ValueError):
    """An input file or stream cannot be read, or lacks what was asked for."""


class LimitError(InputError):
    """What comes in declares more than a limit permits; see `ldp_core.limits.Limits`."""


class LdpWarning(UserWarning):
    """Something is probably wrong: estimates that no reports give, or reports that nothing proves to be some.

    >>> import warnings
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> with warnings.catch_warnings(action="error", category=LdpWarning):  # let a test or a job stop at it
    ...     assert PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}).epsilon == 1.0
    """


def warn_user(message: str) -> None:
    """An `LdpWarning` at the line outside of this project, and of Beam and Polars, which call it, that led here."""
    level, frame = 1, sys._getframe()
    while (ours := frame.f_globals.get("__name__", "").startswith(_CALLERS)) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    shown = _shown.get()
    if ours and shown is not None:
        warnings.warn_explicit(message, LdpWarning, frame.f_code.co_filename, frame.f_lineno, registry=shown)
    else:
        warnings.warn(message, LdpWarning, level)


_CALLERS = ("ldp_", "apache_beam", "polars.")
_Shown: TypeAlias = dict[str | tuple[str, type[Warning], int], int]  # as `warnings` has it of a module
_shown: ContextVar[_Shown | None] = ContextVar("shown", default=None)


@contextmanager
def shown_once(registry: _Shown) -> Iterator[None]:
    """In here a warning from a thread of an engine, to which no line of the user led, is one of this registry.

    Without it Python shows one of the same words once a process: all of them have the line of the engine.
    """
    token = _shown.set(registry)
    try:
        yield
    finally:
        _shown.reset(token)


def disk_error(error: Exception) -> OSError | None:
    """That a disk takes no more, if this error says so: Polars' and Beam's do in their text alone."""
    found = re.search(r"(?:\(os error |\[Errno )(\d+)", str(error))
    code = error.errno if isinstance(error, OSError) and error.errno else int(found[1]) if found else 0
    return OSError(code, os.strerror(code)) if code in _DISK_ERRORS else None


_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_warned_of_epsilon: ContextVar[bool] = ContextVar("warned_of_epsilon", default=False)


@contextmanager
def no_warning_of_epsilon() -> Iterator[None]:
    """No `warn_large` in here: of parts of a mechanism, of what is read back, and where the caller has warned."""
    token = _warned_of_epsilon.set(True)
    try:
        yield
    finally:
        _warned_of_epsilon.reset(token)


def warn_large(epsilon: float) -> None:
    """`warn_user` if epsilon is so large that there is no privacy to speak of: above `LARGE_EPSILON`."""
    if epsilon > LARGE_EPSILON and not _warned_of_epsilon.get():
        warn_user(
            f"epsilon {epsilon:.4g} hides nothing: a report may be e^{epsilon:.4g} times as likely under one value as "
            "under another, and nearly always tells which it was. Epsilons of 0.5 to 5 are usual; above "
            f"{LARGE_EPSILON} only tests make sense"
        )


LARGE_EPSILON = 20
