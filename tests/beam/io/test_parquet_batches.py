"""What the pages of a Parquet file declare is compared with the limits before memory is taken for it."""

import io
import json
import subprocess
import sys
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldp_beam.io._files import ReadFileDoFn
from ldp_core import LdpError, LimitError, Limits
from ldp_core.arrays.parquet_batches import check_parquet, read_batches
from ldp_core.limits import open_parquet

from ...memory import forget_peak, needs_peak, peak
from ...parquet_bombs import BOMBS, READ_IN_SMALL_BATCHES, Parts, by_differences, differences

LIMIT = 10**6


def written(table, **options):
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream


def batches(stream, columns=None, **limits):
    return list(read_batches(open_parquet(stream), stream, columns, Limits(**limits)))


def read_bombs(folder):
    """In a process of its own: of each bomb the rows, the bytes of the largest batch, the reasons of dead letters."""
    found = {}
    for number, name in enumerate(["", *BOMBS]):
        rows, largest, reasons = 0, 0, []
        if number == 1:  # (the first file is a good one)
            forget_peak()
            before = peak()
        for item in ReadFileDoFn(None, "dead", Limits(row_group_bytes=LIMIT)).process(f"{folder}/{number}.parquet"):
            if isinstance(item, pa.RecordBatch):
                rows, largest = rows + item.num_rows, max(largest, item.nbytes)
            else:
                reasons.append(item.value.reason)
            if rows > 10**6:
                break
        found[name] = rows, largest, reasons
    sys.stdout.write(json.dumps([peak() - before, found]))


@pytest.mark.slow
@needs_peak
def test_little_memory_is_enough_for_them(tmp_path):
    """Most took 64 to 640 MB, of 200 bytes and more; a schema of 20,000 levels ended the process."""
    (tmp_path / "0.parquet").write_bytes(Parts(pa.array([1, 2])).data())
    for number, make in enumerate(BOMBS.values(), 1):
        (tmp_path / f"{number}.parquet").write_bytes(make())
    code = f"from tests.beam.io.test_parquet_batches import read_bombs; read_bombs({str(tmp_path)!r})"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    growth, found = json.loads(done.stdout)
    assert growth < 50_000  # KiB
    assert found.pop("")[0] == 2
    for name, (rows, largest, reasons) in found.items():
        if name in READ_IN_SMALL_BATCHES:
            assert (rows in (1000, 65536, 65537), reasons) == (True, []), name
            assert largest <= LIMIT, name
        else:
            assert (rows, reasons) == (0, ["not a readable file"]), name


WORDS = [None if i % 7 == 0 else f"w{i * i % 1000}" * (i % 5) for i in range(3000)]
COLUMNS = {
    "text": pa.array(WORDS),
    "required": pa.array([word or "" for word in WORDS]),
    "large": pa.array(WORDS, pa.large_string()),
    "bytes": pa.array([None if word is None else f"{word:9.9}".encode() for word in WORDS], pa.binary(9)),
    "number": pa.array(range(3000), pa.int64()),
    "coin": pa.array([True, None, False] * 1000),
    "list": pa.array([WORDS[i : i + i % 4] if i % 5 else None for i in range(3000)]),
    "struct": pa.array([{"a.b": word, "c": 1.5} for word in WORDS]),
    "a.b": pa.array(WORDS),
    "none": pa.nulls(3000),
}
TEXT_ENCODINGS = [None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]


@pytest.mark.slow
def test_good_files_are_read_as_arrow_reads_them():
    codecs = product(("none", "snappy", "gzip", "zstd", "brotli", "lz4"), ("1.0", "2.0"), [None])
    for codec, version, encoding in (*codecs, *product(("none", "snappy"), ("1.0", "2.0"), TEXT_ENCODINGS[1:])):
        dictionary = {} if encoding else {"dictionary": COLUMNS["text"].dictionary_encode()}
        options = {"compression": codec, "data_page_version": version, "row_group_size": 1100, "write_batch_size": 100}
        if encoding is not None:
            texts = ("text", "required", "large", "list.list.element", "struct.a.b", "a.b")
            options |= {"use_dictionary": False, "column_encoding": dict.fromkeys(texts, encoding)}
        stream = written(pa.table({**COLUMNS, **dictionary}), data_page_size=2000, **options)
        for columns in (None, ["struct", "text"], ["a.b", "list"]):
            expected = pq.read_table(stream, columns=columns)
            assert pa.Table.from_batches(batches(stream, columns), expected.schema).equals(expected)


def test_batches_are_as_large_as_before():
    stream = written(pa.table({"text": [f"word {i}" for i in range(200_000)]}), row_group_size=50_000)
    assert [batch.num_rows for batch in batches(stream)] == [65536, 65536, 65536, 3392]


def test_row_groups_that_are_too_large_together_are_not_in_one_batch():
    table = pa.table({"text": ["x" * 1000] * 900})
    stream = written(table, row_group_size=300, use_dictionary=False)
    assert [batch.num_rows for batch in batches(stream, row_group_bytes=700_000)] == [600, 300]
    assert [batch.num_rows for batch in batches(stream, row_group_bytes=400_000)] == [300, 300, 300]
    with pytest.raises(LimitError, match="row_group_bytes=300000"):
        batches(stream, row_group_bytes=300_000)


def test_long_texts_of_a_dictionary_come_in_small_batches():
    shared = pa.table({"text": ["x" * 10_000] * 900 + ["y"] * 100})
    assert [batch.num_rows for batch in batches(written(shared), row_group_bytes=1_001_000)] == [100] * 10
    many = pa.table(
        {"text": [[{"a": f"{i:016}"}, None] for i in range(30_000)]}
    )  # 30,000 times all of them is too much
    assert sum(batch.num_rows for batch in batches(written(many))) == 30_000
    listed = pa.table({"text": [["x" * 10_000] * 50]})  # in one row
    with pytest.raises(LimitError):
        batches(written(listed), row_group_bytes=400_000)
    assert len(batches(written(listed), row_group_bytes=600_000)) == 1


def test_only_the_columns_that_are_read_are_counted():
    table = pa.table({"small": range(10), "a.b": [np.random.default_rng(i).bytes(10_000) for i in range(10)]})
    stream = written(table)
    declared = pq.ParquetFile(stream).metadata.row_group(0).total_byte_size
    lying = stream.getvalue()
    assert declared > 100_000
    assert sum(batch.num_rows for batch in batches(io.BytesIO(lying), ["small"], row_group_bytes=declared)) == 10


def test_as_many_lengths_as_values_pass():
    stream = io.BytesIO(by_differences(6, differences(1000)))
    assert batches(stream)[0].column(0).to_pylist() == [""] * 1000
    for encoding, content in (
        (6, differences(1001)),
        (7, differences(1000) + differences(1001)),
        (6, b""),
        (7, b"\0" * 9),
    ):
        with pytest.raises(Exception, match="corrupt"):
            batches(io.BytesIO(by_differences(encoding, content)))


@pytest.mark.parametrize("stored", [False, True])
def test_of_a_row_group_as_a_whole_each_text_counts_as_it_is_spelled(stored):
    """By Polars all of it is read at once. One long text among short ones is no fault."""
    shared = pa.DictionaryArray.from_arrays(np.arange(1000) % 2, ["x" * 10_000, "y"])
    stream = written(pa.table({"other": range(1000), "text": shared}), store_schema=stored)
    check_parquet(open_parquet(stream), stream, None, Limits(row_group_bytes=5_100_000))
    check_parquet(open_parquet(stream), stream, ["other"], Limits(row_group_bytes=50_000))
    with pytest.raises(LimitError, match="row_group_bytes=5000000"):
        check_parquet(open_parquet(stream), stream, None, Limits(row_group_bytes=5_000_000))


@pytest.mark.slow
def test_none_of_them_is_read_as_a_whole():
    passed = []
    for name, make in BOMBS.items():
        with suppress(LdpError, OSError):  # (Arrow's, of a schema)
            check_parquet(open_parquet(stream := io.BytesIO(make())), stream, None, Limits(row_group_bytes=LIMIT))
            passed.append(name)
    assert passed == ["statistics of another size"]  # which Polars reads, and 8 kB are
