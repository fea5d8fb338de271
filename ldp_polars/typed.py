"""Reports that know how they were made: an extension dtype that carries the mechanism.

It travels in Arrow, Parquet and IPC as the extension type ``ldp.report`` with the mechanism's JSON as metadata. A
program that does not know it sees the plain reports. Reports of two mechanisms do not concatenate. (Polars calls
its extension types unstable, so this is opt-in.)
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import polars as pl

from ldp_core import DtypeError, Mechanism, MechanismMismatchError
from ldp_polars.dtypes import report_dtype

NAME = "ldp.report"


class Report(pl.BaseExtension):
    """Dtype of the reports of one mechanism.

    >>> from ldp_core import RandomizedResponse
    >>> Report(RandomizedResponse(epsilon=1.0)).mechanism
    RandomizedResponse(domain=Domain([False, True]), epsilon=1.0, coins=None)
    """

    def __init__(self, mechanism: Mechanism, *, packed: bool = False) -> None:
        super().__init__(NAME, report_dtype(mechanism, packed=packed), json.dumps(mechanism.to_dict()))

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that made the reports."""
        return _mechanism(self.ext_metadata() or "{}")

    def _string_repr(self) -> str:
        return NAME


pl.register_extension_type(NAME, Report)


@lru_cache(maxsize=256)
def _mechanism(metadata: str) -> Mechanism:
    return Mechanism.from_dict(json.loads(metadata))


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


def untyped(reports: pl.Series, mechanism: Mechanism) -> pl.Series:
    """Plain reports; an error if their dtype says that another mechanism made them.

    Raises:
        MechanismMismatchError: it does.
    """
    if not isinstance(reports.dtype, Report):
        return reports
    check_mechanism(reports.dtype, mechanism, reports.name)
    return reports.ext.storage()


def check_mechanism(dtype: Report, mechanism: Mechanism, column: str) -> None:
    """Raise `MechanismMismatchError` unless reports of ``dtype`` were made by ``mechanism``."""
    made_by = dtype.mechanism.fingerprint
    if made_by != mechanism.fingerprint:
        raise MechanismMismatchError(
            f"column {column!r}: the reports were made by the mechanism with fingerprint {made_by}, says their dtype, "
            f"not by {mechanism.fingerprint}: estimate with the mechanism that made them"
        )
