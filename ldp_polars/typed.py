"""Reports that know how they were made: an extension dtype that carries the mechanism.

It travels in Arrow, Parquet and IPC as the extension type ``ldp.report`` with the mechanism's JSON as metadata. A
program that does not know it sees the plain reports. Reports of two mechanisms do not concatenate. (Polars calls
its extension types unstable, so this is opt-in.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from ldp_core import DtypeError, Mechanism, MechanismMismatchError
from ldp_core.plans.provenance import NAME, check_same, describe, described
from ldp_polars.dtypes import report_dtype


class Report(pl.BaseExtension):
    """Dtype of the reports of one mechanism.

    >>> from ldp_core import RandomizedResponse
    >>> Report(RandomizedResponse(epsilon=1.0)).mechanism
    RandomizedResponse(domain=Domain([False, True]), epsilon=1.0, coins=None)
    """

    def __init__(self, mechanism: Mechanism, *, packed: bool = False, seeded: bool = False) -> None:
        super().__init__(NAME, storage_dtype(mechanism, packed=packed), describe(mechanism, seeded=seeded))

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that made the reports."""
        return described(self.ext_metadata() or "{}")[0]

    @property
    def seeded(self) -> bool:
        """Whether they were made under ``seed=``: such reports are **not private**."""
        return described(self.ext_metadata() or "{}")[1]

    def _string_repr(self) -> str:
        return NAME


def storage_dtype(mechanism: Mechanism, *, packed: bool) -> pl.DataType:
    """What typed reports are stored as: text as String, because Polars 2.1 cannot export an extension of an Enum."""
    dtype = report_dtype(mechanism, packed=packed)
    return pl.String() if isinstance(dtype, pl.Enum) else dtype


pl.register_extension_type(NAME, Report)


def mechanism_of(dtype: Any, column: str) -> Mechanism:
    """The mechanism that a column's dtype carries.

    Raises:
        DtypeError: it carries none.
    """
    if isinstance(dtype, Report):
        return dtype.mechanism
    raise DtypeError(
        f"column {column!r}: pass the mechanism: only reports perturbed with typed=True carry it, not {dtype}"
    )


def refuse_reports(dtypes: Mapping[str, Any]) -> None:
    """Raise if the dtype of a column that is to be perturbed says that it holds reports already.

    Raises:
        MechanismMismatchError: perturbing reports again makes estimates wrong.
    """
    again = [name for name, dtype in dtypes.items() if isinstance(dtype, Report)]
    if again:
        raise MechanismMismatchError(
            f"columns {again} hold reports already, says their dtype; do not perturb them again"
        )


def untyped(reports: pl.Series, mechanism: Mechanism) -> pl.Series:
    """Plain reports; an error if their dtype says that another mechanism made them.

    Raises:
        MechanismMismatchError: it does.
    """
    if not isinstance(reports.dtype, Report):
        return reports
    check_same(reports.dtype.mechanism, mechanism, reports.name)
    return reports.ext.storage()
