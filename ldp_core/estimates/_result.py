"""What all results are: frozen, compared by value, picklable, and a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl


class Result(ABC):
    """Base of a dataclass (``frozen=True, eq=False``) of which some fields are numpy arrays; they become read-only."""

    def __post_init__(self) -> None:
        for value in self._values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def _key(self) -> tuple[Any, ...]:
        return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in self._values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()

    def __deepcopy__(self, memo: object) -> Self:
        return self  # immutable

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """As a table."""

    def to_polars(self) -> pl.DataFrame:
        """`to_arrow` as a Polars frame; needs Polars."""
        import polars as pl  # noqa: PLC0415 (optional: the core does not depend on it)

        return pl.DataFrame(self.to_arrow())
