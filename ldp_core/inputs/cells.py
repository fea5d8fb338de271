"""Numbers cut into declared cells: values in order, of which ranges and quantiles can be asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.arrow import as_floats
from ldp_core.arrays.types import F64, Codes
from ldp_core.errors import DomainError
from ldp_core.inputs.base import edges_between
from ldp_core.inputs.interval import Bounded, Interval
from ldp_core.parameters import Declared, check_choice, check_integer

MOST_CELLS = 1 << 16


@dataclass(frozen=True)
class Cells(Declared, Bounded):
    """The numbers between the first and the last of increasing edges, cut at the others.

    A number x is in the cell with edge <= x < next edge; the last cell has its upper edge, too. Edges are 3 to 65,537
    finite numbers, declared, never learned from the data. ``unmatched="clip"`` takes numbers outside for the first or
    the last cell; for the rest see `Interval`.

    Raises:
        DomainError: edges that are too few, too many, not finite or not increasing; a ``missing`` that is outside.

    >>> cells = Cells([0, 5, 20, 60], unmatched="clip")
    >>> cells.encode([0, 4.99, 5, 60, 1000]).tolist(), cells.values
    ([0, 0, 1, 2, 2], ('0 to 5', '5 to 20', '20 to 60'))
    """

    edges: Sequence[float]
    unmatched: Literal["error", "clip"] = "error"
    missing: float | None = None

    kind: Literal["float"] = field(default="float", init=False, repr=False)

    def __post_init__(self) -> None:
        edges = () if isinstance(self.edges, (str, bytes)) or not isinstance(self.edges, Iterable) else self.edges
        listed: list[Any] = [edge.item() if isinstance(edge, np.generic) else edge for edge in edges]
        if not all(issubclass(kind, (int, float)) and kind is not bool for kind in set(map(type, listed))):
            raise DomainError("edges of cells must be numbers")
        if not 3 <= len(listed) <= MOST_CELLS + 1:
            raise DomainError(f"cells have 3 to {MOST_CELLS + 1} edges, got {len(listed)}")
        try:
            numbers = np.array(listed, float) + 0.0  # (-0.0 is 0.0)
        except OverflowError:
            numbers = np.array([math.inf])
        if not (np.isfinite(numbers).all() and (np.diff(numbers) > 0).all()):
            raise DomainError("edges of cells must be finite numbers, each greater than the one before")
        self._declare(edges=tuple(numbers.tolist()))
        self.check_policy("cells")

    @classmethod
    def declared(
        cls,
        edges: Sequence[float] | None = None,
        *,
        low: float | None = None,
        high: float | None = None,
        count: int | None = None,
        scale: Literal["linear", "log"] = "linear",
        unmatched: Literal["error", "clip"] = "error",
        missing: float | None = None,
    ) -> Cells:
        """As in a table of TOML: ``edges``, or ``count`` cells from ``low`` to ``high``.

        They have one length, or with ``scale="log"`` each is as many times as long as the one before, and ``low`` above
        0; those edges are rounded to 12 digits, so that they are the same on every machine.

        Raises:
            DomainError: see `Cells`; both, or neither; a logarithmic scale from 0 or below.
            ParameterError: a number of cells or a scale that does not exist.

        >>> Cells.declared(low=1, high=1000, count=3, scale="log").edges
        (1.0, 10.0, 100.0, 1000.0)
        """
        if edges is None and low is not None and high is not None and count is not None:
            ends = Interval(low, high)
            edges = _edges(ends.low, ends.high, check_integer("count", count, 2, MOST_CELLS), scale)
        elif edges is None or not low is high is count is None:
            raise DomainError("cells are declared by edges, or else by low, high and count")
        return cls(edges, unmatched, missing)

    @property
    def low(self) -> float:  # type: ignore[override]
        """The first edge."""
        return self.edges[0]

    @property
    def high(self) -> float:  # type: ignore[override]
        """The last edge."""
        return self.edges[-1]

    @property
    def size(self) -> int:
        """d, the number of cells."""
        return len(self.edges) - 1

    @property
    @override
    def listed(self) -> int:
        """``d``."""
        return self.size

    @property
    @override
    def summary(self) -> str:
        return f"{super().summary} in {self.size} cells"

    @cached_property
    def _edges(self) -> F64:
        return np.array(self.edges)

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The cells in words."""
        shown = [f"{edge:.12g}" for edge in self.edges]
        return tuple(f"{low} to {high}" for low, high in pairwise(shown))

    @property
    def texts(self) -> tuple[str, ...]:
        """The same as `values`."""
        return self.values

    @property
    def arrow_type(self) -> pa.DataType:
        """Of `arrow_values`: text."""
        return pa.string()

    @cached_property
    def arrow_values(self) -> pa.Array:
        """`values` as an Arrow array."""
        return pa.array(self.values)

    @property
    @override
    def ends(self) -> tuple[pa.Array, pa.Array]:
        return pa.array(self.edges[:-1]), pa.array(self.edges[1:])

    @override
    def between(self, low: Any, high: Any) -> tuple[int, int]:
        """Both are edges."""
        return edges_between(self._edges, low, high)

    def encode(self, values: Any, *, column: str = "values") -> Codes:
        """The cell of each number, 0 to d - 1, uint16; ``values`` and errors are those of `Interval.encode`."""
        numbers = as_floats(values, column=column)
        codes = np.empty(len(numbers), np.uint16)
        for rows, part in self.parts(numbers, column):
            codes[rows] = np.searchsorted(self._edges[1:-1], part, side="right")
        return codes

    @override
    def to_dict(self) -> dict[str, Any]:
        policy = {} if self.unmatched == "error" else {"unmatched": self.unmatched}
        missing = {} if self.missing is None else {"missing": self.missing}
        return {"domain": {"edges": list(self.edges), **missing}, **policy}


def _edges(low: float, high: float, count: int, scale: str) -> list[float]:
    if check_choice("scale", scale, ("linear", "log")) == "linear":
        return [*(low + (high - low) * np.arange(count) / count).tolist(), high]
    if low <= 0:
        raise DomainError("a logarithmic scale goes from a number above 0")
    inside = (low * (high / low) ** (k / count) for k in range(1, count))
    return [low, *(float(f"{edge:.12g}") for edge in inside), high]
