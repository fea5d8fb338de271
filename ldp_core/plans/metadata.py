"""Mechanisms and plans as text in the metadata of columns, files and messages.

The text is JSON. Above `PLAIN` characters, which only a long list of labels reaches, it is JSON of one entry,
``{"zstd": "..."}``: base64 of the zstd of the JSON that would be there. So each file says by itself how it was made,
and who knows nothing of this package reads it in two steps.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from ldp_core.errors import LdpError, LimitError
from ldp_core.inputs.open_domain import OpenDomain
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.limits import DEFAULT, Limits, over, read_json
from ldp_core.mechanism import Mechanism

PLAIN = 1 << 16
"""Characters up to which a text is not compressed."""
_TIMES = 100
"""A compressed text has at most so many times its bytes: who sends much work has to send many bytes."""
_COLUMNS = 256
"""A plan of more columns is not compressed: a mechanism costs far more time than the few bytes that it takes there."""
_HEAD, _TAIL = '{"zstd": "', '"}'


def to_text(data: Mapping[str, Any], **options: Any) -> str:
    """The text of what ``to_dict`` of a mechanism or a plan gives; options of ``json.dumps``."""
    text = json.dumps(data, **options)
    return text if _columns(data) > _COLUMNS else _packed(text)


def _columns(data: Any) -> int:
    """How many columns a plan has; 0 of what is none."""
    columns = data.get("columns") if isinstance(data, Mapping) else None
    return len(columns) if isinstance(columns, Mapping) else 0


def _packed(text: str) -> str:
    if len(text) <= PLAIN:
        return text
    packed = pa.Codec("zstd").compress(text.encode(), asbytes=True)
    return text if len(packed) * _TIMES < len(text) else f"{_HEAD}{base64.b64encode(packed).decode()}{_TAIL}"


def canonical(text: str) -> str:
    """The text as `to_text` writes it here: another release wrote a long one plain, another zstd compresses otherwise.

    What cannot be read is as it was.
    """
    with suppress(LdpError):
        return _packed(_unpacked(text, "", LdpError, DEFAULT))
    return text


def from_text(text: str | bytes, what: str, error: type[LdpError], limits: Limits = DEFAULT) -> Any:
    """Inverse of `to_text`: what the JSON says.

    Raises:
        error: it is no JSON, or over the limits, which are those of the text before it was compressed.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    whole = _unpacked(text, what, error, limits)
    data = read_json(whole, what, error, limits)
    if whole is not text and _columns(data) > _COLUMNS:
        raise error(f"{what} is compressed and has {_columns(data):,} columns: it may have at most {_COLUMNS} columns")
    return data


def checked_counters(mechanism: Mechanism, limits: Limits = DEFAULT) -> Mechanism:
    """A mechanism from outside; raise `LimitError` if it is a sketch whose tallies are larger than that."""
    if isinstance(mechanism.inputs, OpenDomain | Prefixes) and mechanism.counters > limits.counters:
        raise LimitError(over("a tally", mechanism.counters, "counters", "counters", limits))
    return mechanism


def _unpacked(given: str, what: str, error: type[LdpError], limits: Limits) -> str:
    """The JSON of a text, which is the text itself unless it is compressed."""
    if not (given.startswith(_HEAD) and given.endswith(_TAIL)):
        return given
    if len(given) > limits.plan_bytes:
        raise error(over(what, len(given), "characters", "plan_bytes", limits))
    packed = given[len(_HEAD) : -len(_TAIL)]
    text: bytes | None = None
    most = 0
    try:
        data = base64.b64decode(packed, validate=True)
        most = min(limits.plan_bytes, _TIMES * len(data))
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            text = stream.read(most + 1)  # no more than that is made of it
    except (ValueError, OSError):
        pass
    if text is None:
        raise error(f"{what} is not valid base64 of zstd")
    if len(text) > most:
        raise error(f"{what} has more than {most} characters when decompressed; see plan_bytes of ldp_core.Limits")
    return text.decode(errors="replace")
