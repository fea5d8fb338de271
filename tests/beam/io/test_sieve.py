"""What the sieve refuses, Arrow refuses; and of what Arrow refuses next to nothing gets through."""

import datetime as dt
import random

import pyarrow as pa
import pytest

from ldp_beam.io import ndjson
from ldp_beam.io._sieve import Sieve
from ldp_beam.io.ndjson import parse_lines

SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("i", pa.int64()),
        ("u", pa.uint8()),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", "UTC")),
        ("m", pa.timestamp("ms")),
        ("y", pa.date32()),
        ("d", pa.decimal128(5, 2)),  # of which the sieve knows nothing
    ]
)


def arrow_takes(line, schema=SCHEMA):
    return ndjson._together([line], schema) is not None


def words(text):
    return text.encode().split()


TIMES = [
    *words(
    """
    2024-01-01T00:00:00Z 2024-01-01 2024-01-01T00 2024-01-01T00:00 2024-01-01T23:59:59.123 2024-01-01T00:00:00.1234
    2024-01-01T00:00:00.1234567Z 2024-02-29 2023-02-29 2024-02-30 2100-02-29 2000-02-29 0000-02-29 0000-01-01 2024-04-31
    2024-11-31 2024-12-31 2024-01-01T24:00:00 2024-01-01T23:59:60 2024-01-01T23:60 2024-13-01 2024-00-01 2024-01-00
    2024-01-32 9999-12-31 10000-01-01 -001-01-01 2024-1-1 20240101 2024-01-01T00:00:00+01:00 2024-01-01T00:00:00+0100
    2024-01-01T00:00:00+01 2024-01-01T00:00:00-23:59 2024-01-01T00:00:00+24:00 2024-01-01T00:00:00+23:60
    2024-01-01T00:00:00z 2024-01-01t00:00:00Z 2024-01-01Z 2024-01-01T00Z 2024-01-01T00:00Z 2024-01-01T00:00:00.
    2024-01-01T000000 2024/01/01 2024-01-01T00:00:00,5 1.5 x ٢024-01-01
    """
    ),
    rb"\u0032024-01-01", rb"2024-01-01\n", rb"2024-01-01T00:00:00Z\u0000", b"2024-01-01 00:00:00", b"2024-01-01T00 Z",
]  # fmt: skip
VALUES = [
    *words(
    r"""
    1 -0 -1 01 -01 +1 1. .5 1.e5 1.0 1e2 1E0 1e-400 1e308 1e309 0e400 1e999999999999 0.00001e313 0.00001e314 18e307 256
    255 12345678901234567890123 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 -
    true false null True tru truee "1" "a" "true" [] {} [1] {"a":1} NaN -NaN nan Inf -Inf Infinity -Infinity Infinit
    +Inf 1Inf ["Inf"] [Inf,] "é" "\xe9" "\ud800" "\udc00" "\ud83d\ude00" "\uD83D\uDE00" "\ud83d\\ude00" "\\ud800"
    "\ud800\u0041" "\x" "\u12" "\/" "\uInf0" "\Inf" 'a' [1,] [1,2] {"y":1,"y":2} {"y":1,} [Inf,1e999]
    """
    ),
    b'"\xff"', b'["\xff"]', b'{"\xff":1}', b'"\xed\xa0\x80"', b'"a\x0b"', b'"a\x7f"', b'"a\tb"', b'"a\0"',
    b"9" * 5000, b"[" * 5000 + b"]" * 5000,
]  # fmt: skip
OBJECTS = [
    *words(
        r"""
        {} {,} {]} {"s":"a"}} {"s":"a"}{"s":"b"} {s:1} {"":1} {"s":"a",} {"s":"a"/*c*/} {"s":"a","s":"b"}
        {"s":null,"s":null} {"s":"a","\u0073":"b"} {"\u0073":1} {"x":1,"x":2} {"x":1,"x":2,"i":1,"i":2} {"s\u0000":1}
        {"x":[{"y":-Inf}],"s":1} {"x":"Inf","s":Inf} {"Inf":1} {"Inf":1
        """
    ),
    b"{ }", b'{"s":"a"} {"s":"b"}', b'{"s":"a"}\r{"s":"b"}', b'{"s" "a"}', b'{"s":"a" "i":1}', b'{"s":"a"\0}',
    b'{"\xff":1}', b'{\xa0"s":1}', b'{\x0b"s":"a"}',
]  # fmt: skip
LINES = [
    *(b'{"%c":"%s"}' % (name, time) for time in TIMES for name in b"tmy"),
    *(b'{"%c":%s}' % (name, value) for name in b"siufbtydx" for value in VALUES),
    *OBJECTS,
]


def can_be_missed(line):
    """What the sieve lets through: too deep for Python, or of a type that it does not know."""
    return b"[" * 999 in line or line.startswith(b'{"d":')


def test_what_is_refused_is_what_arrow_refuses():
    for schema in (SCHEMA, pa.schema([field.with_nullable(False) for field in SCHEMA][:1])):
        sieve = Sieve(schema)
        for line in LINES:
            refused, taken = sieve.fault_of(line) is not None, arrow_takes(line, schema)
            assert not (refused and taken), line
            assert refused or taken or can_be_missed(line), line


def test_days_are_read_of_text():
    """Arrow's reader takes a number of days alone, so that each record with a date was a dead letter."""
    for kind in (pa.date32(), pa.date64()):
        lines = [b'{"day":"2024-02-29"}', b'{"day":null}', b'{"day":19782}']
        batches, numbers, bad = parse_lines(lines, pa.schema([("day", kind)]))
        assert [batch.to_pylist() for batch in batches] == [[{"day": dt.date(2024, 2, 29)}, {"day": None}]]
        assert (numbers.tolist(), dict(bad)) == ([0, 1], {("day", f"not of type {kind}"): 1})


def mutants(n, seed):
    """Lines with a few bytes changed, put in or left out; some of two lines."""
    rng = random.Random(seed)
    pieces = [*words(r'" \ { } [ , : e E . - 0 9 \u d8 Inf NaN'), b" ", b"\xff"]
    whole = [b'{"s":"a","i":5,"f":1.5e3,"b":true,"t":"2024-01-31T12:00:00.5Z","x":[1,{"y":"z"}]}', *LINES]
    for _ in range(n):
        line = rng.choice(whole if rng.random() < 0.5 else whole[:1])
        for _ in range(rng.randint(1, 3)):
            at, more = rng.randrange(1, max(len(line), 2)), rng.choice(pieces)
            line = line[:at] + (more if rng.random() < 0.8 else b"") + line[at + rng.randint(0, 2) :]
        yield line[:2000].strip()


@pytest.mark.parametrize("n", [1500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_what_is_refused_of_mutated_lines_is_what_arrow_refuses(n):
    sieve, missed, refused = Sieve(SCHEMA), 0, 0
    for line in mutants(n, n):
        if line.startswith(b"{") and line.endswith(b"}"):
            taken, out = arrow_takes(line), sieve.fault_of(line) is not None
            assert not (taken and out), line
            refused += out
            missed += not taken and not out
    assert refused > n / 4
    assert missed < refused / 100


def as_text(batches):
    """A table in which NaN is NaN."""
    table = pa.Table.from_batches(batches, SCHEMA)
    return table.set_column(SCHEMA.names.index("f"), "f", table["f"].cast(pa.string()))


def test_the_good_lines_pass_in_their_order_and_the_others_are_counted(monkeypatch):
    """As they do one by one."""
    monkeypatch.setattr(ndjson, "_LINES", 16)
    good = [b'{"s":"%d","i":%d,"f":1e3,"t":"2024-02-29"}' % (i, i) for i in range(300)]
    for share in (0.02, 0.3, 1.0):
        rng = random.Random(share)
        lines = [rng.choice(LINES) if rng.random() < share else line for line in good]
        batches, numbers, bad = parse_lines(lines, SCHEMA)
        alone = [parse_lines([line], SCHEMA)[0] for line in lines]
        assert as_text(batches).equals(as_text([batch for batches in alone for batch in batches]))
        assert numbers.tolist() == [i for i, batches in enumerate(alone) if batches]
        assert bad.total() == len(lines) - len(numbers)
        assert len(batches) <= 1  # and not one for each piece


def test_a_line_goes_to_arrow_few_times_though_half_of_them_are_bad(monkeypatch):
    """By halving alone it goes there twelve times; a bad line then costs 230 good ones and more."""
    handed = []
    together = ndjson._together
    monkeypatch.setattr(ndjson, "_together", lambda lines, schema: handed.append(len(lines)) or together(lines, schema))
    rng = random.Random(7)
    good = b'{"s":"x","i":5,"f":1e3,"t":"2024-02-29"}'
    bad = [b'{"i":5', b'{"i":"x"}', b"not JSON", b'{"s":5}', b'{"t":"2024-13-01"}', b'{"i":1.5}', b'{"b":1}', b"\xff"]
    lines = [rng.choice(bad) if i % 2 else good for i in range(2000)]
    batches, _, missing = parse_lines(lines, SCHEMA)
    assert (sum(batch.num_rows for batch in batches), missing.total()) == (1000, 1000)
    assert sum(handed) <= 3 * len(lines)
    assert len(handed) <= len(lines) / 50
