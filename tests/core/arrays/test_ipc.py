"""What a message declares is compared with the limits before memory is taken for it."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ldp_beam.elements.coders import AnyReportsCoder, RecordBatchCoder
from ldp_core import InputError, LimitError, Limits
from ldp_core.arrays.ipc import bytes_of, read_batch, write_batch
from ldp_core.limits import DEPTH

from ...beam.raw_values import SECRET, assert_clean, everything_about
from ...memory import needs_peak

MANY = 2**31 - 1
SMALL = Limits(rows=1000, bytes=100_000)


def one(array):
    return pa.record_batch({"v": array})


def nulls(n):
    return pa.Array.from_buffers(pa.null(), n, [None])


def null_lists(n, size):
    return pa.Array.from_buffers(pa.list_(pa.null(), size), n, [None], children=[nulls(n * size)])


BOMBS = {
    "nulls": write_batch(one(nulls(MANY))),
    "10^12 nulls": write_batch(one(nulls(MANY))).replace(MANY.to_bytes(8, "little"), (10**12).to_bytes(8, "little")),
    "lists of nulls": write_batch(one(null_lists(2**10, 2**20))),
    "texts of no bytes": write_batch(one(pa.Array.from_buffers(pa.binary(0), 2**30, [None, pa.py_buffer(b"")]))),
    "structs of nothing": write_batch(one(pa.Array.from_buffers(pa.struct([]), 2**30, [None]))),
    "a run": write_batch(one(pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), ["a"]))),
    "zstd": write_batch(one(pa.array(np.zeros(10**7, np.uint64))), compression="zstd"),
    "lz4": write_batch(one(pa.array(np.zeros(10**6, np.uint64))), compression="lz4"),
    "forged reports": write_batch(
        one(pa.DictionaryArray.from_arrays(pa.array(np.zeros(5 * 10**6, np.uint8)), ["a"])), compression="zstd"
    ),
    "a dictionary": write_batch(
        one(pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["x" * 10**6]))), compression="zstd"
    ),
    "a text that many share": write_batch(
        one(pa.DictionaryArray.from_arrays(pa.array(np.zeros(900, np.uint8)), pa.array(["x" * 50_000])))
    ),
    "a run of a long text": write_batch(one(pa.RunEndEncodedArray.from_arrays(pa.array([900]), ["x" * 50_000]))),
}


def test_what_declares_too_much_is_refused():
    for bomb in BOMBS.values():
        with pytest.raises(LimitError, match="more than the limit") as caught:
            read_batch(bomb, SMALL)
        assert isinstance(caught.value, InputError)
        assert caught.value.__context__ is None


def test_views_that_share_a_text():
    array = pa.array(["x" * 50_000], pa.string_view())
    view = array.buffers()[1].to_pybytes()
    many = pa.Array.from_buffers(pa.string_view(), 900, [None, pa.py_buffer(view * 900), array.buffers()[2]])
    with pytest.raises(LimitError):
        read_batch(write_batch(one(many)), SMALL)
    assert read_batch(write_batch(one(array)), SMALL).num_rows == 1


def test_what_has_no_elements_has_a_size():
    """At ``nbytes`` of Arrow 25 the process ended: a message of 560 bytes ended a server of reports."""
    sparse = pa.UnionArray.from_sparse(pa.array([], pa.int8()), [pa.array([], pa.int64())])
    dense = pa.UnionArray.from_dense(pa.array([], pa.int8()), pa.array([], pa.int32()), [pa.array([], pa.string())])
    no_offsets = pa.Array.from_buffers(pa.list_(pa.string()), 0, [None, pa.py_buffer(b"")], children=[pa.array(["a"])])
    for empty in (sparse, dense, no_offsets):
        lists = pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), empty)
        dictionaries = [pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), of) for of in (empty, lists)]
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), lists)
        structs = pa.StructArray.from_arrays([empty], ["a"])
        for column in (empty, lists, *dictionaries, runs, structs):
            batch = read_batch(write_batch(one(column)), SMALL)
            assert (batch.num_rows, bytes_of(batch) < 100) == (len(column), True)


def test_the_length_of_a_view_under_a_null_counts():
    """Arrow adds them up when it casts, and asks for as much memory."""
    view = (MANY).to_bytes(16, "little")
    validity = pa.py_buffer(b"\0")
    array = pa.Array.from_buffers(pa.string_view(), 1, [validity, pa.py_buffer(view)])
    with pytest.raises(LimitError):
        read_batch(write_batch(one(array)), Limits())


def test_nested_columns_cost_what_their_bytes_are():
    """Lists of dictionaries in each other: 5 kB, of which each level doubled the time."""
    for levels in (7, 8, 26):
        array = pa.array(["a"])
        for _ in range(levels):
            lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), array)
            array = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), lists)
        message = write_batch(one(array))
        start = time.process_time()
        if 2 * levels < DEPTH:
            assert read_batch(message, SMALL).num_rows == 1
        else:
            with pytest.raises(LimitError, match=f"nests columns deeper than {DEPTH} levels"):
                read_batch(message, SMALL)
        assert time.process_time() - start < 1


def test_columns_are_counted_with_those_in_them():
    flat = pa.record_batch({f"{i}": [1] for i in range(50)})
    nested = one(pa.StructArray.from_arrays([pa.array([1])] * 49, [f"{i}" for i in range(49)]))
    for batch in (flat, nested):
        assert read_batch(write_batch(batch), Limits(columns=50)).equals(batch)
        with pytest.raises(LimitError, match="50 columns, nested ones included, more than the limit columns=49"):
            read_batch(write_batch(batch), Limits(columns=49))


def test_exactly_the_limits_pass():
    batch = one(pa.array(np.zeros(1000, np.uint8)))
    for compression in (None, "zstd", "lz4"):
        message = write_batch(batch, compression=compression)
        declared = 2000  # a byte for each value, and the buffer
        assert read_batch(message, Limits(rows=1000, bytes=declared)).equals(batch)
        with pytest.raises(LimitError, match="rows=999"):
            read_batch(message, Limits(rows=999, bytes=declared))
        with pytest.raises(LimitError, match=f"bytes={declared - 1}"):
            read_batch(message, Limits(rows=1000, bytes=declared - 1))


def test_sizes_that_are_none():
    message = write_batch(one(nulls(77_777)))
    for number in (-1, -(2**63), 2**63 - 1):
        forged = message.replace((77_777).to_bytes(8, "little"), (number % 2**64).to_bytes(8, "little"))
        with pytest.raises(InputError):
            read_batch(forged, SMALL)
    packed = bytearray(write_batch(one(pa.array(np.arange(500))), compression="zstd"))
    at = packed.index((4000).to_bytes(8, "little"))
    for number in (-5, -(2**63), 2**62, 10**9):
        packed[at : at + 8] = (number % 2**64).to_bytes(8, "little")
        with pytest.raises(InputError):
            read_batch(bytes(packed), SMALL)
        with pytest.raises(InputError):
            RecordBatchCoder().decode(bytes(packed))


def test_a_zone_that_is_no_utf8():
    """Who asked for it, as for a group's name, got an error of Arrow's: a job ended, which has dead letters."""
    kind = pa.timestamp("us", "QQQQ")
    for column in (pa.array([0], kind), pa.array([[0]], pa.list_(kind)), pa.array([0], kind).dictionary_encode()):
        with pytest.raises(InputError, match="not an Arrow"):
            read_batch(write_batch(one(column)).replace(b"QQQQ", b"QQ\xff\xff"), SMALL)


def test_coders_refuse_with_our_errors():
    for data in (b"", b"\xff" * 40, SECRET.encode(), write_batch(one(pa.array([SECRET])))[:-150]):
        for decode in (RecordBatchCoder().decode, lambda encoded: AnyReportsCoder().decode(encoded + b"A")):
            with pytest.raises(InputError) as caught:
                decode(data)
            assert_clean(everything_about(caught.value))


@pytest.mark.slow
@needs_peak
def test_little_memory_is_enough_to_refuse_them():
    code = (
        "from tests.core.arrays.test_ipc import BOMBS, read_batch, Limits, LimitError\n"
        "from tests.memory import forget_peak, peak\n"
        "forget_peak()\n"
        "before = peak()\n"
        "for bomb in BOMBS.values():\n"
        "    try: read_batch(bomb, Limits(rows=1000, bytes=10**5))\n"
        "    except LimitError: pass\n"
        "print(peak() - before)\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert int(done.stdout) < 50_000  # KiB
