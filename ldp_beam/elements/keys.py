"""Keyed noise in a pipeline: whose record it is, and where the secret comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ldp_beam.elements.batches import Batch, Part
from ldp_beam.elements.faults import Faults
from ldp_beam.elements.ids import check_noise_ids
from ldp_core import Keyed, ParameterError, Secret


@dataclass(frozen=True)
class NoiseKey:
    """A secret, or a function that gets it on the worker, and the name of the id column."""

    source: Secret | Callable[[], Secret]
    id: str

    @property
    def secret(self) -> Secret:
        """The secret itself."""
        return self.source if isinstance(self.source, Secret) else self.source()

    def ids(self, part: Part) -> Any:
        """The ids of the records, one each.

        Raises:
            PlanError: a batch has no such column.
        """
        return part.required(self.id) if isinstance(part, Batch) else part.column(self.id)

    def randomness(self, part: Part, column: str) -> Keyed:
        """The noise of the records for one column."""
        return Keyed(self.secret, self.ids(part), column=column)

    def find_faults(self, part: Part, faults: Faults) -> None:
        """Note the records that have no usable id."""
        check_noise_ids(part.column(self.id), self.id, faults)


def noise_key(key: Secret | Callable[[], Secret] | None, id_column: str | None) -> NoiseKey | None:
    """What ``key=`` and ``id=`` of a transform ask for; None for fresh noise.

    Raises:
        ParameterError: one without the other, or a key that is none.
    """
    if key is None and id_column is None:
        return None
    if not isinstance(id_column, str) or not (isinstance(key, Secret) or callable(key)):
        raise ParameterError("keyed noise takes key=, a Secret or a function that gets one, and id=, a column's name")
    return NoiseKey(key.shared() if isinstance(key, Secret) else key, id_column)
