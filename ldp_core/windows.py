"""Lengths of time and windows as people write them: one grammar for Polars, Beam, YAML and the command.

A length is a number and a unit, ``"15m"``, or several of them, ``"1d12h"``. Units are ms, s, m, h, d, w, and of windows
in Polars mo, q, y too. A window is a length, and perhaps how much later windows begin: ``"7d+3d"``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ldp_core.errors import ParameterError
from ldp_core.parameters import shown

_MICROS = {"ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6, "d": 86400e6, "w": 7 * 86400e6}
_MONTHS = {"mo": 1, "q": 3, "y": 12}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|mo|[smhdwqy])")
_MOST_MONTHS, _MOST_SECONDS = 12_000, 1000 * 366 * 86400
"""A thousand years: times that are later than this after 1970 have no room in 64 bits of nanoseconds."""
_MONDAY = 4 * 86400 * 10**6
"""Microseconds from the beginning of 1970, a Thursday, to its first Monday."""


@dataclass(frozen=True)
class Window:
    """Fixed windows of event time: each begins where the one before ends.

    Windows begin at multiples of their length since 1970-01-01, a Thursday: those of ``"7d"`` on Thursdays. Those of
    weeks, ``"1w"`` and ``"2w"``, begin on Mondays. ``"7d+3d"`` are those of ``"7d"``, each 3 days later.

    Attributes:
        micros: length in microseconds; 0 where it is in months.
        months: length in months, quarters and years together; such windows begin with a month.
        offset: how much later than at multiples they begin, in microseconds.

    >>> Window.of("1d12h").micros / 3600e6, Window.of("1w").offset / 86400e6, Window.of("1q").months
    (36.0, 4.0, 3)
    """

    micros: int
    months: int = 0
    offset: int = 0

    @classmethod
    def of(cls, window: float | str | timedelta) -> Window:
        """Windows of a length in seconds, as text, or as a timedelta; raise `ParameterError` for what is none."""
        text, plus, later = window.partition("+") if isinstance(window, str) else (window, "", "")
        offset = micros_of(later, "what comes after + in window") if plus else 0
        parts = _parts(text) if isinstance(text, str) else []
        months = [float(number) * _MONTHS[unit] for number, unit in parts if unit in _MONTHS]
        whole = months and len(months) == len(parts) and 0 < sum(months) <= _MOST_MONTHS
        if whole and sum(months) == int(sum(months)):
            return cls(0, int(sum(months)), offset)
        micros = micros_of(text, "window")
        if not micros:
            raise ParameterError(f"window must be longer than 0 seconds, got {shown(window)}")
        weeks = bool(parts) and all(unit == "w" for _, unit in parts)
        return cls(micros, 0, offset + weeks * _MONDAY)


def seconds(length: Any, name: str = "window") -> float:
    """A length in seconds, at least 0: a number of them, text, a timedelta, or Beam's Duration; or `ParameterError`."""
    if isinstance(length, str):
        parts = _parts(length)
        if not parts or any(unit in _MONTHS for _, unit in parts):
            months = ": months have different lengths" if parts else ""
            raise ParameterError(
                f'{name} must be like "1w", "30d", "1d12h", "15m", "10s" or "500ms", got {length[:100]!r}{months}'
            )
        length = sum(float(number) * _MICROS[unit] for number, unit in parts) / 1e6
    if isinstance(length, timedelta):
        length = length.total_seconds()
    if hasattr(length, "micros"):
        length = length.micros / 1e6
    if isinstance(length, bool) or not isinstance(length, (int, float)) or not 0 <= length <= _MOST_SECONDS:
        raise ParameterError(
            f'{name} must be a length as "7d" or "15m", or a number of seconds in [0, {_MOST_SECONDS}], got {length!r}'
        )
    return float(length)


def micros_of(length: float | str | timedelta, name: str) -> int:
    """`seconds` in whole microseconds."""
    return round(seconds(length, name) * 1e6)


def _parts(text: str) -> list[tuple[str, str]]:
    """Numbers and units; none if the text is no length, or longer than lengths are."""
    parts = _PART.findall(text.strip()) if len(text) <= 100 else []
    return parts if "".join(number + unit for number, unit in parts) == text.strip() else []
