"""Numbers in a declared interval, as integers on a fine grid."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.arrays.arrow import as_floats
from ldp_core.arrays.types import Codes
from ldp_core.errors import DomainError
from ldp_core.inputs.base import Inputs
from ldp_core.parameters import Declared

STEPS = 1 << 24
"""Grid steps in an interval: a number moves by at most half a step, 3e-8 of the interval's length."""
_BLOCK = 1 << 15  # numbers at a time: they stay in the L2 cache
_LARGEST, _LONGEST = sys.float_info.max, 1e140


class Bounded(Inputs):
    """Numbers from ``low`` to ``high``: which are outside, and what becomes of those, of nulls and of nans."""

    low: float
    high: float
    missing: float | None

    remedy: ClassVar[str] = (
        'declare a wider interval, or unmatched="clip" and for nulls missing=, as Interval(0, 60, unmatched="clip", '
        "missing=30), so of Cells; in TOML unmatched is beside the domain, and missing in its table"
    )

    @property
    @override
    def summary(self) -> str:
        return f"[{self.low:.15g}, {self.high:.15g}]"

    def check_policy(self, what: str) -> None:
        """Convert ``missing``; raise `DomainError` if it, or ``unmatched``, does not exist."""
        if self.unmatched not in ("error", "clip"):
            raise DomainError(f'unmatched of {what} must be "error" or "clip", got {self.unmatched!r}')
        if self.missing is not None:
            if isinstance(self.missing, bool) or not isinstance(self.missing, (int, float)):
                raise DomainError(f"missing must be a number in {self.summary}, got {type(self.missing).__name__}")
            if not self.low <= self.missing <= self.high:
                raise DomainError(f"missing must be a number in {self.summary}, got {self.missing!r}")
            object.__setattr__(self, "missing", float(self.missing) + 0.0)  # (-0.0 is 0.0)

    def parts(self, numbers: npt.NDArray[np.float64], column: str) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
        """Some at a time, clipped and filled in as was asked for; raise `DomainError` for what is refused."""
        for start in range(0, len(numbers), _BLOCK):
            part = numbers[start : start + _BLOCK]
            if self._refused(part).any():
                self._complain(numbers, column)
            part = part if self.missing is None else np.where(np.isnan(part), self.missing, part)
            part = part.clip(self.low, self.high) if self.unmatched == "clip" else part
            yield slice(start, start + len(part)), part

    def _complain(self, numbers: npt.NDArray[np.float64], column: str) -> NoReturn:
        wrong, missing = (int(np.count_nonzero(rows)) for rows in (self._refused(numbers), np.isnan(numbers)))
        raise DomainError(
            f"column {column!r}: {wrong} of {len(numbers)} values are not numbers in {self.summary} ({missing} of "
            f"them null or nan); {self.remedy}"
        )

    @property
    @override
    def takes_nulls(self) -> bool:
        return self.missing is not None

    @override
    def outside(self, values: Any, *, column: str = "values") -> npt.NDArray[np.bool_]:
        return self._outside(as_floats(values, column=column))

    @override
    def refuses(self, values: Any, *, column: str = "values") -> npt.NDArray[np.bool_]:
        return self._refused(as_floats(values, column=column))

    def _outside(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Nulls have come as nan, which is neither below nor above."""
        return ~((numbers >= self.low) & (numbers <= self.high))

    def _refused(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        refused = np.isnan(numbers) if self.unmatched == "clip" else self._outside(numbers)
        return refused if self.missing is None else refused & ~np.isnan(numbers)


@dataclass(frozen=True)
class Interval(Declared, Bounded):
    """The numbers from ``low`` to ``high``, both included.

    Args:
        low, high: finite, ``low < high``. Declared, never learned from the data.
        unmatched: what becomes of numbers outside. ``"error"``: an error that counts them. ``"clip"``:
            numbers outside become the nearer end.
        missing: the number of the interval that a null or a nan counts as. None: it is an error. (To tell them from
            people who have this number, declare a column of its own: whether a number is missing is an answer too.)

    Raises:
        DomainError: ``low`` and ``high`` are not finite numbers in this order, or ``missing`` is not between them.

    >>> Interval(0, 10).encode([0, 2.5, 10]).tolist()
    [0, 4194304, 16777216]
    >>> Interval(0, 10, missing=2.5).encode([None, 10]).tolist()
    [4194304, 16777216]
    """

    low: float
    high: float
    unmatched: Literal["error", "clip"] = "error"
    missing: float | None = None

    kind: Literal["float"] = field(default="float", init=False, repr=False)

    def __post_init__(self) -> None:
        good = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (self.low, self.high))
        good = good and -_LARGEST <= self.low < self.high <= _LARGEST  # (an integer may be beyond all floats)
        if not good or not float(self.low) < float(self.high):
            raise DomainError("an interval (low, high) goes from a finite number to a greater one")
        self._declare(low=float(self.low) + 0.0, high=float(self.high) + 0.0)  # (-0.0 is 0.0)
        self.check_policy("an interval")
        if not 1 / _LONGEST <= self.high - self.low <= _LONGEST:
            raise DomainError(f"an interval has a length that floats can square: {1 / _LONGEST:g} to {_LONGEST:g}")

    @classmethod
    def of(cls, interval: Interval | tuple[float, float]) -> Interval:
        """``interval`` itself, or a pair (low, high) as one with ``unmatched="error"``."""
        if isinstance(interval, Interval):
            return interval
        if isinstance(interval, (tuple, list)) and len(interval) == 2:
            return cls(*interval)
        got = type(interval).__name__
        raise DomainError(f"an interval is a pair of numbers (low, high), in TOML {{low = 0, high = 60}}; got {got}")

    def encode(self, values: Any, *, column: str = "values") -> Codes:
        """Codes 0 to `STEPS`, uint32: the nearest points of the grid, of integers or floats.

        Raises:
            DomainError: nulls and nans, unless ``missing`` says what they are; numbers outside under
                ``unmatched="error"``.
            DtypeError: no numbers.
        """
        numbers = as_floats(values, column=column)
        codes = np.empty(len(numbers), np.uint32)
        for rows, part in self.parts(numbers, column):
            shares = part - self.low
            shares *= STEPS / (self.high - self.low)
            codes[rows] = np.rint(shares, out=shares)
        return codes

    @override
    def counted(self, values: Any) -> list[float]:
        numbers = as_floats(values, column="values")
        return [number for _, part in self.parts(numbers, "values") for number in part.tolist()]

    def decode(self, shares: Any) -> npt.NDArray[np.float64]:
        """Shares of the way from ``low`` to ``high`` as numbers."""
        return self.low + (self.high - self.low) * np.asarray(shares, float)

    @property
    @override
    def even(self) -> Codes:
        return np.arange(STEPS // 2048, STEPS, STEPS // 1024)

    @override
    def to_dict(self) -> dict[str, Any]:
        policy = {} if self.unmatched == "error" else {"unmatched": self.unmatched}
        missing = {} if self.missing is None else {"missing": self.missing}
        return {"domain": {"low": self.low, "high": self.high, **missing}, **policy}


class WholeNumbers(Interval):
    """The whole numbers from ``first`` to ``last``: an interval from first - 1/2 to last + 1/2, cut between them.

    `SquareWave` has a bucket for each of them. Its ranges have both ends in them, and its quantiles are whole numbers.
    ``unmatched="clip"`` takes other numbers for the nearest whole one; for the rest, errors too, see `Interval`.

    >>> ages = WholeNumbers(0, 120, unmatched="clip")
    >>> ages.low, ages.high, ages.summary, ages.encode([0, 0.4, 121]).tolist()
    (-0.5, 120.5, '[0, 120], whole', [69327, 69327, 16707889])
    """

    def __init__(
        self, first: int, last: int, unmatched: Literal["error", "clip"] = "error", missing: float | None = None
    ) -> None:
        whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (first, last))
        if not whole or not -STEPS <= first < last <= STEPS:
            raise DomainError(f"whole numbers go from an integer to a greater one, between -{STEPS} and {STEPS}")
        super().__init__(first - 0.5, last + 0.5, unmatched, missing)

    @property
    def first(self) -> int:
        """The least of them."""
        return int(self.low + 0.5)

    @property
    def last(self) -> int:
        """The greatest of them."""
        return int(self.high - 0.5)

    def __repr__(self) -> str:
        return f"WholeNumbers({self.first}, {self.last}, unmatched={self.unmatched!r}, missing={self.missing!r})"

    @property
    @override
    def summary(self) -> str:
        return f"[{self.first}, {self.last}], whole"

    @override
    def parts(self, numbers: npt.NDArray[np.float64], column: str) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
        for rows, part in super().parts(numbers, column):
            yield rows, np.rint(part).clip(self.first, self.last)

    @override
    def _outside(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        return super()._outside(numbers) | (np.rint(numbers) != numbers)

    @override
    def compiled(self) -> dict[str, Any]:
        return {"kind": "number", **super().to_dict()["domain"], "unmatched": self.unmatched, "whole": True}

    @override
    def to_dict(self) -> dict[str, Any]:
        made = super().to_dict()
        _, _, *missing = made["domain"].items()
        return {**made, "domain": {"first": self.first, "last": self.last, **dict(missing)}}
