"""What a mechanism takes, in one language: a column goes in, unsigned integer codes come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.arrays.types import F64, Codes
from ldp_core.errors import ParameterError
from ldp_core.parameters import shown


class Inputs(ABC):
    """What values may be perturbed, and the codes that stand for them."""

    kind: str
    """Of the values: ``"bool"``, ``"int"``, ``"str"`` or ``"float"``."""

    unmatched: str
    """What becomes of values that are not among these, nulls included."""

    @property
    def remedy(self) -> str:
        """What to do about values that are refused."""
        return "declare them"

    @property
    def listed(self) -> int | None:
        """How many codes there are, if they are 0, 1, ... of values that are listed; None if they are not."""
        return None

    @property
    def takes_nulls(self) -> bool:
        """Whether a null stands for something that is declared, and is perturbed; else it is refused."""
        return self.unmatched != "error"

    @property
    @abstractmethod
    def summary(self) -> str:
        """A few characters for a table."""

    @abstractmethod
    def encode(self, values: Any, *, column: str = "values") -> Codes:
        """Codes of ``values``, unsigned integers; raise `DomainError` or `DtypeError` for what is refused."""

    @abstractmethod
    def outside(self, values: Any, *, column: str = "values") -> npt.NDArray[np.bool_]:
        """Bool[n]: which values are not declared, nulls included: `encode` refuses them, or takes them for others.

        Raise `DtypeError` for values of another kind.
        """

    def refuses(self, values: Any, *, column: str = "values") -> npt.NDArray[np.bool_]:
        """Bool[n]: which values `encode` would refuse; errors as of `outside`."""
        outside = self.outside(values, column=column)
        return outside if self.unmatched == "error" else np.zeros_like(outside)

    def counted(self, values: pa.Array) -> list[Any]:
        """What each of the values that `encode` takes is counted as: it, the label that stands for it, or None."""
        if self.listed is None:
            return values.to_pylist()
        of: Any = self
        labels = [*of.arrow_values.to_pylist(), None]
        return [labels[code] for code in self.encode(values).tolist()]

    def compiled(self) -> dict[str, Any]:
        """How a client makes a code of a value, as in docs/wire.md."""
        return {"kind": "number", **self.to_dict()["domain"], "unmatched": self.unmatched}

    @property
    def even(self) -> Codes:
        """Codes of people who are spread evenly over the values, as many of each."""
        return np.arange(self.listed or 0)

    @property
    def ends(self) -> tuple[pa.Array, pa.Array]:
        """The lowest and the highest value of each ordered code, in order: both the label itself, if there are labels.

        Raise `ParameterError` if there is no order that is declared.
        """
        raise ParameterError(f"ranges and quantiles need values in a declared order, got {type(self).__name__}")

    def between(self, low: Any, high: Any) -> tuple[int, int]:
        """The codes of the values from ``low`` to ``high``: of the first one, and one beyond the last.

        Both belong to the range if they are labels, or are edges of cells; None is no end. Raise `ParameterError` for
        no such values, or not in this order; see `ends`.
        """
        raise ParameterError(f"ranges and quantiles need values in a declared order, got {type(self).__name__}")

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-able form: ``domain``, and ``unmatched`` where it is not ``"error"``."""


def edges_between(edges: F64, low: Any, high: Any) -> tuple[int, int]:
    """The cells between two of increasing ``edges``, float64[cells + 1]: the first one, and one beyond the last.

    Raise `ParameterError` for a range that cuts a cell; for no edges, or not in this order.
    """
    found = {"low": 0, "high": len(edges) - 1}
    for name, value in (("low", low), ("high", high)):
        if value is not None:
            number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else np.nan
            near = int(np.argmin(np.abs(edges - number)))
            if not abs(edges[near] - number) <= 1e-12 * (edges[-1] - edges[0]):
                after = int(np.clip(np.searchsorted(edges, number), 1, len(edges) - 1))
                raise ParameterError(
                    f"{name} of a range must be an edge of cells, which are not cut, got {shown(value)}: the nearest "
                    f"edges are {edges[after - 1]:.15g} and {edges[after]:.15g}; or left out (None) for no end"
                )
            found[name] = near
    if not found["low"] < found["high"]:
        raise ParameterError(f"a range goes from low to a greater high, got {shown(low)} to {shown(high)}")
    return found["low"], found["high"]
