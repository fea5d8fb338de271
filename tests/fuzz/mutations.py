"""Broken input, made from sound input by a few random edits: of bytes, of tables, of Arrow messages, of columns."""

import copy
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

SECRET = "qq-raw-value-qq"
"""A value of the data, which no message may show."""

_BYTES = (0, 1, 2, 7, 8, 127, 128, 255, ord("["), ord("{"), ord('"'), ord("\n"), ord(","))
_NUMBERS = (0, 1, -1, 2, 7, 2**7, 2**8, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32)
_NUMBERS += (10**9, 10**12, 2**62, 2**63 - 1)


def edited_bytes(rng: random.Random, seeds: list[bytes]) -> bytes:  # noqa: C901 (one branch for each kind of edit)
    """A seed with up to eight edits: bits flipped, bytes and whole integers replaced, cut, doubled, spliced."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(9)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice(_BYTES)
        elif kind == 2:
            data[at] = rng.randrange(256)
        elif kind in (3, 4):  # a number, often aligned, as formats have them
            width, code = rng.choice(((2, "<h"), (4, "<i"), (4, "<I"), (8, "<q"), (8, "<q")))
            at -= at % rng.choice((1, width))
            if at + width <= len(data):
                number = rng.choice(_NUMBERS) * rng.choice((1, 1, 1, -1)) + rng.choice((0, 0, -1, 1))
                data[at : at + width] = struct.pack(code.upper(), number % 2 ** (8 * width))
        elif kind == 5:
            del data[at:]
        elif kind == 6:
            del data[at : at + rng.choice((1, 2, 8, 64))]
        elif kind == 7:
            data[at:at] = data[at : at + rng.choice((1, 8, 64))] * rng.choice((1, 1, 2, 100))
        else:
            other = rng.choice(seeds)
            data[at:] = other[rng.randrange(len(other) + 1) :]
    return bytes(data[: 1 << 20])


def odd(rng: random.Random) -> Any:
    """A value that may be anything that JSON, TOML or a caller can bring."""
    return rng.choice(_ODD)(rng)


_ODD: tuple[Callable[[random.Random], Any], ...] = (
    lambda _: None,
    lambda rng: rng.random() < 0.5,
    lambda rng: rng.choice(_NUMBERS) * rng.choice((1, -1)),
    lambda rng: rng.randrange(-3, 70),
    lambda rng: rng.choice((2**63, 2**64, 2**70, -(2**63) - 1, 10**5000)),
    lambda rng: rng.choice((0.0, -0.0, 5e-324, 1e-300, 1e-60, 1e-18, 1e-9, 0.5, 1.0, 1.5, 50.0, 1e3, 1e300, 1.7e308)),
    lambda rng: rng.choice((float("nan"), float("inf"), -float("inf"), -1.0)),
    lambda rng: rng.choice(
        ("", "a", "error", "other", "none", "clip", "cut", "0" * 5000, "\0", "\ud800", "é", "str", "int")
    ),
    lambda _: [],
    lambda _: {},
    lambda rng: [odd(rng) for _ in range(rng.randrange(4))],
    lambda rng: {rng.choice(("low", "high", "kind", "a", "mechanism")): odd(rng) for _ in range(rng.randrange(3))},
    lambda rng: list(range(rng.randrange(1, 40))),
    lambda rng: nested(rng.choice((3, 20, 700)), rng.random() < 0.5),
    lambda _: b"bytes",
    lambda _: (1, 2),
)


def nested(levels: int, table: bool) -> Any:
    """A list in a list, or a table in a table, and so on."""
    made: Any = 1
    for _ in range(levels):
        made = {"a": made, "answer": made, "mechanism": "sampled_column"} if table and levels < 10 else [made]
    return made


def edited_table(rng: random.Random, seeds: list[Any], others: list[Any] | None = None) -> Any:
    """A seed, tables and lists, with up to four entries replaced, removed, renamed, added or taken from another."""
    data = copy.deepcopy(rng.choice(seeds))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        places = list(_places(data))
        if not places:
            return odd(rng)
        inside, key = rng.choice(places)
        kind = rng.randrange(6)
        if kind <= 2:
            inside[key] = odd(rng)
        elif kind == 3:
            del inside[key]
        elif kind == 4 and isinstance(inside, dict):
            inside[rng.choice(("epsilon", "mechanism", "domain", "unmatched", "keep", "x", "", 5))] = inside.pop(key)
        else:
            theirs, there = rng.choice(list(_places(rng.choice(others or seeds))) or [([0], 0)])
            inside[key] = copy.deepcopy(theirs[there])
    return data if rng.random() < 0.98 else odd(rng)


def _places(data: Any) -> Any:
    """(table or list, key) of each entry, at any depth that is worth it."""
    stack = [data]
    for _ in range(300):
        if not stack:
            return
        inside = stack.pop()
        keys = (
            list(inside) if isinstance(inside, dict) else range(min(len(inside), 4)) if isinstance(inside, list) else ()
        )
        for key in keys:
            yield inside, key
            stack.append(inside[key])


# ---- columns

_TYPES: tuple[pa.DataType, ...] = (
    pa.null(), pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint64(), pa.float16(),
    pa.float32(), pa.float64(), pa.decimal128(20, 2), pa.decimal256(40, 3), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.timestamp("us",
    "Mars/Phobos"), pa.duration("us"), pa.month_day_nano_interval(), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(0),
    pa.list_(pa.bool_(), 3), pa.list_(pa.uint64(), 1), pa.list_(pa.bool_(), 0), pa.list_(pa.null(), 2),
    pa.list_(pa.uint8(), 2), pa.list_(pa.string(), 1), pa.list_(pa.bool_()), pa.large_list(pa.int64()),
    pa.list_view(pa.int64()), pa.struct([]), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64()),
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint64(), pa.string()), pa.dictionary(pa.int32(),
    pa.int64()), pa.dictionary(pa.int8(), pa.string_view()), pa.dictionary(pa.int8(), pa.list_(pa.int64())),
    pa.dictionary(pa.int8(), pa.null()), pa.dictionary(pa.int16(), pa.bool_()), pa.dictionary(pa.int16(),
    pa.float64()), pa.run_end_encoded(pa.int32(), pa.string()), pa.run_end_encoded(pa.int16(), pa.int64()),
    pa.sparse_union([pa.field("a", pa.int64())]), pa.dense_union([pa.field("a", pa.string())]),
    pa.list_(pa.string_view()), pa.struct([("a", pa.string_view())]), pa.run_end_encoded(pa.int32(),
    pa.string_view()), pa.large_list_view(pa.string()), pa.dictionary(pa.int8(), pa.binary_view()), pa.uuid(),
    pa.json_(), pa.bool8(), pa.opaque(pa.int64(), "a", "b"),
)  # fmt: skip


def odd_column(rng: random.Random) -> pa.Array:
    """A short column of any type, with nulls, an offset, values of the domain and foreign ones."""
    kind = rng.choice(_TYPES)
    n = rng.choice((0, 1, 2, 5, 9))
    array = _array(rng, kind, n)
    if n and rng.random() < 0.3:
        array = array.slice(rng.randrange(n))
    return array


def _array(rng: random.Random, kind: pa.DataType, n: int) -> pa.Array:
    types = pa.types
    nulls = rng.choice((0.0, 0.0, 0.3, 1.0))
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _array(rng, kind.storage_type, n))
    if types.is_dictionary(kind):
        entries = _array(rng, kind.value_type, 3)
        at = [None if rng.random() < nulls else rng.choice((0, 1, 2)) for _ in range(n)]
        return pa.DictionaryArray.from_arrays(pa.array(at, kind.index_type), entries, safe=False)
    if types.is_run_end_encoded(kind):
        ends = pa.array([max(n, 1)], kind.run_end_type)
        made = pa.RunEndEncodedArray.from_arrays(ends, _array(rng, kind.value_type, 1))
        return made.slice(0, n)
    if types.is_union(kind):
        child = _array(rng, kind.field(0).type, n)
        codes = pa.array(np.zeros(n, np.int8))
        if kind.mode == "sparse":
            return pa.UnionArray.from_sparse(codes, [child])
        return pa.UnionArray.from_dense(codes, pa.array(np.arange(n, dtype=np.int32)), [child])
    return pa.array([None if rng.random() < nulls else _value(rng, kind) for _ in range(n)], kind)


def _value(rng: random.Random, kind: pa.DataType) -> Any:  # noqa: C901 (one branch for each kind of type)
    types = pa.types
    if types.is_boolean(kind):
        return rng.random() < 0.5
    if types.is_integer(kind) or types.is_duration(kind) or types.is_time(kind) or types.is_timestamp(kind):
        return rng.choice((0, 1, 2, 3, 39, 100))
    if types.is_date64(kind):
        return 86_400_000 * rng.choice((0, 3))
    if types.is_date(kind):
        return rng.choice((0, 3, 2**31 - 1))
    if types.is_floating(kind):
        return np.float16(rng.choice((0.0, 0.5, -1.0, float("nan"), float("inf"))))
    if types.is_decimal(kind):
        return rng.choice((0, 1, -5))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return rng.choice(("a", "b", "c", "", SECRET, "other", "é" * 30))
    if types.is_fixed_size_binary(kind):
        return b"\xff" * kind.byte_width
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return rng.choice((b"a", b"\xff\xfe", SECRET.encode()))
    if types.is_fixed_size_list(kind):
        return [_value(rng, kind.value_type) for _ in range(kind.list_size)]
    if types.is_map(kind):
        return [(SECRET, 1)]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_list_view(kind):
        return [_value(rng, kind.value_type) for _ in range(rng.randrange(3))]
    if types.is_struct(kind):
        return {field.name: _value(rng, field.type) for field in kind}
    if types.is_interval(kind):
        return (1, 2, 3)
    return None
