"""Text as other types: what converts alone converts among others, and nothing else does; numbers as Polars' own."""

import io
import random

import polars as pl
import pyarrow as pa
import pytest

from ldp_beam.io import csv_text
from ldp_beam.io.csv_text import cast_or_null

KINDS = [
    pa.bool_(), pa.int8(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64(), pa.timestamp("us"),
    pa.timestamp("us", "UTC"), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.date32(), pa.string(),
]  # fmt: skip
WORDS = """
    1 +1 -1 01 0 -0 +0 2 255 256 -128 127 128 -129 0x1F 0X1f -0x1 0xff 0x0ff 0xFFFFFFFFFFFFFFFF 0x7fffffffffffffff
    1.0 1e2 - 9223372036854775807 9223372036854775808 -9223372036854775808 18446744073709551615 18446744073709551616
    1_0 NA null 00000000000000000000001 .5 5. . 1e5 1E+5 1e inf -inf +inf Infinity INF infinit nan NaN -nan nan(abc)
    1e400 0x1p3 1d t true TRUE True tRue false False yes 2024-01-01 2024-01-01T00 2024-01-01T00:00
    2024-01-01T23:59:59 2024-01-01T24:00:00 2024-01-01T23:59:59.1 2024-01-01T23:59:59.123456
    2024-01-01T23:59:59.1234567 2024-01-01T00:00:00Z 2024-01-01Z 2024-01-01T00:00:00.123456Z
    2024-01-01T00:00:00+01:00 2024-01-01T00:00:00+0100 2024-01-01T00:00:00-01 20240101 2024-1-1 2024-01-01T00:00:00z
    2024-01-01T00Z 2024-01-01T00:00+23:59 2024-01-01T00:00+24:00 2024-02-29 2023-02-29 2024-02-30 x 2024-04-31
    2024-12-31 2024-13-01 2024-00-10 2024-01-00 2024-01-32 9999-12-31 10000-01-01 0000-01-01
""".split()  # noqa: SIM905
VALUES = [
    *(word.encode() for word in WORDS),
    b"",
    b" ",
    b" 1",
    b"\t 1",
    b" +1",
    b"+ 1",
    b"+-1",
    b"1 ",
    "٣".encode(),
    b"1\n",
    b"2024-01-01 00:00:00",
    b"\xff",
    b"1\xff",
    "é".encode(),
    None,
]


def alone(value, kind):
    """As Arrow has it; None if it does not."""
    try:
        return pa.array([value], pa.binary()).cast(pa.string()).cast(kind)
    except pa.ArrowException:
        return pa.nulls(1, kind)


def each(values, kind):
    """Numbers as Polars reads them from CSV (Arrow took 0x10 for 16, and refused +5); others as Arrow has them."""
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return pa.concat_arrays([alone(value, kind) for value in values])
    file = b"x\n" + b"\n".join(b"" if value is None else b'"%s"' % value for value in values)
    dtype = pl.DataFrame(pa.table({"x": pa.nulls(0, kind)})).schema
    return pl.read_csv(file, schema_overrides=dtype, ignore_errors=True)["x"].to_arrow()


def mutants(n, seed):
    rng = random.Random(seed)
    for _ in range(n):
        word = rng.choice(WORDS)
        at = rng.randrange(len(word) + 1)
        yield (
            word[:at] + rng.choice("0159-+:.TZzeExX naif") * rng.randint(0, 1) + word[at + rng.randint(0, 1) :]
        ).encode()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("n", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_what_converts_is_what_converts_alone(kind, n):
    values = [*VALUES, *mutants(n, n)]
    expected = each(values, kind)
    found = cast_or_null(pa.array(values, pa.binary()), kind)
    assert repr(found.cast(pa.string()).to_pylist()) == repr(expected.cast(pa.string()).to_pylist())
    assert found.type == kind


@pytest.mark.parametrize("kind", KINDS[:-2], ids=str)
def test_few_bad_values_are_left_to_be_found_by_halving(kind, monkeypatch):
    """Each costs as much as thousands of good ones."""
    calls = []
    monkeypatch.setattr(csv_text, "in_halves", lambda array, cast: calls.append(array) or [(array, None)])
    cast_or_null(pa.array(VALUES, pa.binary()), kind)
    left = [
        value for value in calls[0].to_pylist() if value is not None and not alone(value.encode(), kind)[0].is_valid
    ]
    assert len(left) <= 9  # numbers that are a little too large, and dates


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_quotes_that_do_not_end_with_the_field_are_the_fault_of_one_line(size, monkeypatch):
    """A comment that began as "Great, without an end, took all records up to the next one with it, and nobody said so.

    At the end of a file, too: all that was below it was one bad line.
    """
    monkeypatch.setattr(csv_text, "_READ_BYTES", size)
    fine = ["fine,1", '"two\nlines, ""quoted""",2', '5 inch",3', '"",4', ",5"]
    values = [b"fine", b'two\nlines, "quoted"', b'5 inch"', b"", None]
    for wrong in (['"Great app,8', '"Great" app,9'], ['"Great app,8', '"Bad app,9'], ['8,"no end', '""no field,9']):
        for lines in ([*fine, wrong[0], *fine, wrong[1], *fine], [*fine, *wrong, "last,10"]):
            found = list(csv_text.read_text(io.BytesIO("\n".join(["comment,n", *lines]).encode()), ["comment"]))
            kept = [b"last"] if lines[-1] == "last,10" else values * 2
            assert [value for batch, _ in found for value in batch.column(0).to_pylist()] == values + kept
            assert sum(bad for _, bad in found) == 2
