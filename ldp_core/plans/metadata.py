"""Mechanisms and plans as text in the metadata of columns, files and messages.

The text is JSON. Above `PLAIN` characters, which only a long list of labels reaches, it is JSON of one entry,
``{"zstd": "..."}``: base64 of the zstd of the JSON that would be there. So each file says by itself how it was made,
and who knows nothing of this package reads it in two steps.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ldp_core.errors import LdpError
from ldp_core.limits import DEFAULT, Limits, over, read_json

PLAIN = 1 << 16
"""Characters up to which a text is not compressed."""
_TIMES = 100
"""A compressed text has at most so many times its bytes: who sends much work has to send many bytes."""
_HEAD, _TAIL = '{"zstd": "', '"}'


def to_text(data: Mapping[str, Any], **options: Any) -> str:
    """The text of what ``to_dict`` of a mechanism or a plan gives; options of ``json.dumps``."""
    text = json.dumps(data, **options)
    if len(text) <= PLAIN:
        return text
    packed = pa.Codec("zstd").compress(text.encode(), asbytes=True)
    return text if len(packed) * _TIMES < len(text) else f"{_HEAD}{base64.b64encode(packed).decode()}{_TAIL}"


def from_text(text: str | bytes, what: str, error: type[LdpError], limits: Limits = DEFAULT) -> Any:
    """Inverse of `to_text`: what the JSON says.

    Raises:
        error: it is no JSON, or over the limits, which are those of the text before it was compressed.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    if text.startswith(_HEAD) and text.endswith(_TAIL):
        _check_length(text, what, error, limits)
        text = _expanded(text[len(_HEAD) : -len(_TAIL)], what, error, limits)
    return read_json(text, what, error, limits)


def _expanded(packed: str, what: str, error: type[LdpError], limits: Limits) -> str:
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


def _check_length(text: str, what: str, error: type[LdpError], limits: Limits) -> None:
    if len(text) > limits.plan_bytes:
        raise error(over(what, len(text), "characters", "plan_bytes", limits))
