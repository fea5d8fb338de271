"""Reports that know how they were made: the Arrow extension type ``ldp.report``.

The type's metadata are the mechanism's JSON. They travel in Arrow, Parquet and IPC; a program that knows nothing of
them sees the plain reports. A frame or a batch that a plan has perturbed has such columns; whoever tallies them
checks, and whoever writes them under the plan asks for them as the proof that they are reports.

Of a dictionary (text) it is not the extension type but a field's metadata alone, under the key ``ldp.report``: Polars
2.1 ends with a panic where it meets an extension of a dictionary.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from ldp_core.errors import LdpError, ReportError, warn_user
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_flag
from ldp_core.plans.metadata import canonical, checked_counters, from_text, to_text
from ldp_core.randomizer.declared import check_same

NAME = "ldp.report"
_EXTENSION, _EXTENSION_METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"


class Made(NamedTuple):
    """Who made the reports of a column, and with what noise."""

    mechanism: Mechanism
    seeded: bool
    keyed: bool


_MARKS = Made._fields[1:]
_MOST_OWN = 64


@lru_cache(maxsize=_MOST_OWN)
def describe(mechanism: Mechanism, *, seeded: bool = False, keyed: bool = False) -> str:
    """The type's metadata: the mechanism, and whether its noise was seeded, which is not private, or keyed by person.

    What is keyed by person is the same again where a person reports a value again. Who does not find it said knows
    nothing of it.
    """
    made = Made(mechanism, seeded, keyed)
    metadata = _text(made)
    with _one_at_a_time:
        _own[_digest(metadata)] = made
        if len(_own) > _MOST_OWN:
            _forget_oldest()
    return metadata


def _text(made: Made) -> str:
    return to_text(made.mechanism.to_dict() | {name: True for name in _MARKS if getattr(made, name)})


def _forget_oldest() -> None:
    """Forget what was described first, unless it is beyond the limits: nothing else could read that again."""
    digest = next(iter(_own))
    oldest = _own.pop(digest)
    try:
        _read(_text(oldest))
    except ReportError:
        _beyond_limits[digest] = oldest


_one_at_a_time = threading.Lock()
_own: dict[bytes, Made] = {}
"""What this process has described itself: for that there are no limits, as it does not come from outside."""
_beyond_limits: dict[bytes, Made] = {}
"""Of it, what is kept for good."""


def _digest(metadata: str) -> bytes:
    return hashlib.sha256(metadata.encode(errors="replace")).digest()


def described(metadata: str) -> Made:
    """Inverse of `describe`, of the same process without any limits; of others `ReportError` over them."""
    digest = _digest(metadata)
    return _own.get(digest) or _beyond_limits.get(digest) or _read(metadata)


def _read(metadata: str) -> Made:
    made = from_text(metadata, f"the metadata of a column of type {NAME}", ReportError)
    if not isinstance(made, dict):
        raise ReportError(f"the metadata of a column of type {NAME} are not a mechanism's")
    reason = ""
    try:
        marks = {name: check_flag(name, made.pop(name, False)) for name in _MARKS}
        return Made(checked_counters(Mechanism.from_dict(made)), **marks)
    except LdpError as error:
        reason = str(error)
    raise ReportError(f"the metadata of a column of type {NAME} are not a mechanism's: {reason}")


@lru_cache(maxsize=2)
def canonical_once(metadata: str) -> str:
    """The text as `describe` writes it in this process, whoever has written it."""
    return metadata if _digest(metadata) in _own else canonical(metadata)


described_once = lru_cache(maxsize=64)(described)
"""`described`, for a program's own columns. (What strangers write is not kept: it may be large, and new each time.)"""


def typed(field: pa.Field, mechanism: Mechanism, **marks: bool) -> pa.Field:
    """The field of a column of reports, with who made them, and with marks as of `describe`."""
    made = describe(mechanism, **marks).encode()
    if pa.types.is_dictionary(field.type):
        return field.with_metadata({NAME: made})
    return field.with_metadata({_EXTENSION: NAME, _EXTENSION_METADATA: made})


def maker(field: pa.Field) -> Made | None:
    """Who made the reports of a column, and with what noise, as `described`; None of most columns."""
    name, text = _extension(field)
    return described(text.decode(errors="replace")) if name == NAME.encode() and text is not None else None


def check_made_by(field: pa.Field, mechanism: Mechanism) -> Made | None:
    """`maker`; raise `MechanismMismatchError` if it is another mechanism."""
    made = maker(field)
    if made is not None:
        check_same(made[0], mechanism, field.name)
    return made


def is_report(field: pa.Field) -> bool:
    """Whether a column's type says that it holds reports; its extension, where pyarrow knows it, or its metadata."""
    return _extension(field)[0] == NAME.encode()


def _extension(field: pa.Field) -> tuple[bytes | None, bytes | None]:
    """Name and metadata of the extension type of a column; None and None of most."""
    metadata = field.metadata or {}
    if NAME.encode() in metadata:
        return NAME.encode(), metadata[NAME.encode()]
    name, text = metadata.get(_EXTENSION), metadata.get(_EXTENSION_METADATA)
    if isinstance(field.type, pa.BaseExtensionType):
        name = field.type.extension_name.encode()
        with suppress(AttributeError):  # a type that is not Python's
            text = field.type.__arrow_ext_serialize__()
    return name, text


def not_proved(columns: Iterable[str]) -> str:
    """What to say of columns that are no reports as far as is known."""
    names = list(columns)
    return (
        f"columns {names}: nothing says that these are reports: perturb the values; for reports that were made "
        "elsewhere there is assume_reports"
    )


def warn_assumed(columns: Iterable[str]) -> None:
    """Warn the user that columns are taken for reports on somebody's word."""
    doubt = f"assume_reports: nothing proves that columns {list(columns)} are reports, of this mechanism or plan"
    warn_user(doubt)
