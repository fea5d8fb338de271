"""Packages that only some users need: imported when they are used, and missed with a clear word."""

from __future__ import annotations

import importlib
from types import ModuleType

from ldp_core.errors import LdpError


class MissingExtraError(LdpError, ImportError):
    """A package is missing that an extra of this project brings."""


def import_extra(module: str, extra: str) -> ModuleType:
    """Import ``module``; raise `MissingExtraError`, which says which extra brings it, if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        pass
    raise MissingExtraError(f"{module} is not installed: pip install 'ldp-telemetry[{extra}]'")
