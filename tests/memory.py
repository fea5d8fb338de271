"""The most memory that this process has had, on Linux.

(``ru_maxrss`` does not do: a new process begins with that of the one that started it.)
"""

from pathlib import Path

import pytest

_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")

needs_peak = pytest.mark.skipif(not _RESET.exists(), reason="needs /proc/self/clear_refs, of Linux")


def forget_peak() -> None:
    """Count from what it has now."""
    _RESET.write_text("5")


def peak() -> int:
    """In KiB."""
    return next(int(line.split()[1]) for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
