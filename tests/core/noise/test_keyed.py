"""Keyed noise: a pure function of secret, mechanism, column, id and value; independent in each of them."""

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    Domain,
    DtypeError,
    InputError,
    Keyed,
    LdpError,
    LongitudinalRandomizedResponse,
    ParameterError,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
)
from ldp_core.exact.hashing import id_words as hashed_ids
from ldp_core.noise.keyed import Ciphers, KeyedRows

from ...cases import each
from ...vectors.reader import derive
from ..keyed_reference import KEY, SECRET, slowly

MECHANISMS = {
    "binary": RandomizedResponse(epsilon=1.0),
    "coins": RandomizedResponse.from_coins(truth=0.4, yes=0.3),
    "k-ary": RandomizedResponse(range(11), epsilon=1.0),
    "k-ary, 300": RandomizedResponse(range(300), epsilon=3.0),
    "other": RandomizedResponse(Domain(range(4), unmatched="other"), epsilon=1.0),
    "d=3": UnaryEncoding(range(3), epsilon=1.0),
    "d=16": UnaryEncoding(range(16), epsilon=1.0),
    "d=21, none": UnaryEncoding(Domain(range(21), unmatched="none"), epsilon=2.0, variant="symmetric"),
    "d=100": UnaryEncoding.from_probabilities(range(100), p=0.7, q=0.1),
}
N = 4000


def values(m, n=N):
    """Values of a mechanism, some of them outside its domain where it takes them."""
    codes = np.arange(n) % (m.domain.size + (m.domain.unmatched != "error"))
    return codes % 2 == 1 if m.domain.kind == "bool" else codes


def report(m, values, ids, secret=SECRET, column="c"):
    """Reports as rows of numbers."""
    return m.reports.from_arrow(m.perturb(pa.array(values), randomness=Keyed(secret, ids, column=column)))


def slow_bits(m, code, person):
    """The bits of a unary encoding of one value."""
    p, q = m.thresholds
    return slowly(m, code, person).draw_bits({"p": p, "q": q}, m.domain.size)


@each("name", ["d=3", "d=16", "d=21, none", "d=100"])
def test_bit_vectors_are_those_of_the_reference(name):
    m = MECHANISMS[name]
    n = 600
    ids = np.arange(n) * 7 - 50
    rows = np.unpackbits(report(m, values(m, n), ids), axis=1, count=m.domain.size, bitorder="little")
    expected = [slow_bits(m, int(v), int(i)) for v, i in zip(values(m, n), ids, strict=True)]
    np.testing.assert_array_equal(rows, expected)


@each("name", ["k-ary", "k-ary, 300", "other"])
def test_answers_are_those_of_the_reference(name):
    m = MECHANISMS[name]
    n = 600
    ids = np.arange(n) * 7 - 50
    codes = np.minimum(values(m, n), m.domain.unmatched_code)
    drawn = (slowly(m, int(code), int(i)) for code, i in zip(codes, ids, strict=True))
    assert report(m, values(m, n), ids).tolist() == [one.draw_keep({"keep": m._keep}, m.domain.size) for one in drawn]


def test_reports_stay_the_same_for_ever():
    """Golden values, of the reference: memoized reports of older releases must not change under anybody."""
    m = MECHANISMS["d=16"]
    for ids, golden in GOLDEN.items():
        rows = [slow_bits(m, code, person) for code, person in enumerate(ids)]
        assert np.packbits(rows, axis=1, bitorder="little").tobytes().hex() == golden
        assert report(m, np.arange(4), list(ids)).tobytes().hex() == golden


def test_a_rejected_draw_draws_again_as_the_reference_does():
    """A width at which half of all draws are rejected: redraws wrap into the counter."""
    m = MECHANISMS["k-ary"]
    d = (1 << 31) + 1
    codes = np.full(300, 5, np.uint32)
    drawn = Keyed(SECRET, np.arange(300), column="c").bind(m.digest, codes).uniform_below(d, 300, 1)
    assert drawn.tolist() == [slowly(m, 5, i).uniform(d, 1) for i in range(300)]


GOLDEN = {
    (0, 1, 2, 3): "bc08204621342a18",
    ("ann", "bob", "", "ann"): "89088200a4008980",
    (-1, 2**63, 2**64 - 1, -(2**63)): "17041220089508a6",
}


# ---- purity


@each("name", MECHANISMS)
def test_layout_and_type_of_ids_do_not_matter(name):
    """Nor order and batches, of any mechanism: see test_every_mechanism.py."""
    m = MECHANISMS[name]
    x, ids = values(m), np.arange(N)
    whole = report(m, x, ids)
    for other in (ids.astype(np.int16), ids.astype(np.uint64), pa.array(ids).dictionary_encode(), ids.tolist()):
        np.testing.assert_array_equal(report(m, x, other), whole)
    packed = m.perturb(pa.array(x), packed=True, randomness=Keyed(SECRET, ids, column="c"))
    assert m.tally(packed) == m.tally(m.perturb(pa.array(x), randomness=Keyed(SECRET, ids, column="c")))
    numpy = m.perturb(x, randomness=Keyed(SECRET, ids, column="c"))
    assert m.tally(numpy) == m.tally(packed)


def test_forms_of_text_ids():
    m, x = MECHANISMS["d=16"], values(MECHANISMS["d=16"], 100)
    ids = [f"user {i}" * (i % 9) for i in range(100)]
    whole = report(m, x, ids)
    text = pa.array(ids)
    forms = [
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int32(), pa.string()),
    ]
    for form in forms:
        np.testing.assert_array_equal(report(m, x, text.cast(form)), whole)
    padded = pa.array(["x", *ids, "y"])[1:101]
    np.testing.assert_array_equal(report(m, x, padded), whole)
    np.testing.assert_array_equal(report(m, x, pa.chunked_array([text[:40], text[40:]])), whole)


NUMBERS = [7, -1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**38 - 1]


def test_integers_are_one_id_if_they_are_equal_and_only_then():
    """-1 and 2**64 - 1 were one id, and a list of both none."""
    m = MECHANISMS["d=100"]
    whole = report(m, np.zeros(9, int), NUMBERS)
    assert len(np.unique(whole, axis=0)) == len(NUMBERS)
    for person, row in zip(NUMBERS, whole, strict=True):
        np.testing.assert_array_equal(np.packbits(slow_bits(m, 0, person), bitorder="little"), row)
    for dtype, some in (
        (pa.decimal128(38), range(9)),
        (pa.int64(), range(4)),
        (pa.uint64(), [0, 2, 4, 5]),
        (pa.int8(), [0, 1]),
        (pa.decimal128(20), [5, 1, 0]),
    ):
        ids = pa.array([NUMBERS[k] for k in some], dtype)
        for form in (ids, ids.dictionary_encode(), pa.concat_arrays([ids, ids])[len(ids) :]):
            np.testing.assert_array_equal(report(m, np.zeros(len(ids), int), form), whole[list(some)])
    mixed = [np.int8(7), -1, np.int64(2**63 - 1), -(2**63), np.uint64(2**63), np.uint64(2**64 - 1), *NUMBERS[6:]]
    np.testing.assert_array_equal(report(m, np.zeros(9, int), mixed), whole)


def test_what_are_two_ids():
    """Numbers and texts, letters of two cases, and two Unicode forms of one name."""
    m = MECHANISMS["d=100"]
    for one, two in ((17, "17"), ("ann", "Ann"), ("Zo\u00eb", "Zoe\u0308"), ("ann", "ann "), ("", "\0")):
        a, b = (report(m, [0], [person]).tobytes() for person in (one, two))
        assert a != b


def test_texts_of_numpy_are_not_cut():
    """Where "a\\0x" and "a\\0y" were one id, "a", two people had the same noise."""
    m, ids = MECHANISMS["d=100"], ["a\0x", "a\0y", "a"]
    whole = report(m, np.zeros(3, int), ids)
    assert len(np.unique(whole, axis=0)) == 3
    for form in (np.array(ids), np.array(ids, bytes), np.array(ids, object)):
        np.testing.assert_array_equal(report(m, np.zeros(3, int), form), whole)


# ---- independence


RR = RandomizedResponse(range(8), epsilon=0.5)


@each(
    "make",
    [
        lambda path: Secret(b"short"),
        lambda path: Secret("text" * 10),
        lambda path: Secret.from_file(path / "nothing"),
        lambda path: Secret.from_file("no\0path"),
        lambda path: Secret.from_env("LDP_NOT_SET"),
        lambda path: Secret.from_env("\ud800"),
        lambda path: Secret.from_env("LDP_NOT_HEX"),
        lambda path: Keyed(b"x" * 32, [1], column="c"),
        lambda path: Keyed(SECRET, [1, None], column="c"),
        lambda path: Keyed(SECRET, [None], column="c"),
        lambda path: Keyed(SECRET, [1.5], column="c"),
        lambda path: Keyed(SECRET, [True], column="c"),
        lambda path: Keyed(SECRET, ["s3cr3t", 1], column="c"),
        lambda path: Keyed(SECRET, [10**38], column="c"),
        lambda path: Keyed(SECRET, [2**64, True], column="c"),
        lambda path: Keyed(SECRET, {7, 8}, column="c"),
        lambda path: Keyed(SECRET, "ann", column="c"),
        lambda path: Keyed(SECRET, [1], column="s3cr3t\ud800"),
        lambda path: Keyed(SECRET, [1], column="c", tag=5),
        lambda path: Keyed(SECRET, pa.array([1], pa.decimal128(3, 1)), column="c"),
        lambda path: Keyed(SECRET, [1, 2, 3], column="c", records=[1, 2]),
        lambda path: RR.perturb([1, 2], randomness=Keyed(SECRET, [1], column="c")),
        lambda path: RR.perturb(pa.array([1, 2]), randomness=Keyed(SECRET, [1, 2, 3], column="c")),
    ],
)
def test_bad_secrets_and_ids(make, tmp_path, monkeypatch):
    monkeypatch.setenv("LDP_NOT_HEX", "s3cr3t" * 8)
    with pytest.raises((ParameterError, DtypeError, InputError)) as caught:
        make(tmp_path)
    assert isinstance(caught.value, LdpError)
    said = [str(caught.value), repr(caught.value.__cause__), repr(caught.value.__context__)]
    assert not any("s3cr3t" in text for text in said)


# ---- a second round that is the record's


def second_round_twin(m, ids, records, values):
    """From the description: the second round is drawn under a key of its own, and of the record."""
    name = derive(KEY, "instantaneous", m.digest, "c")
    noise, value = (derive(KEY, purpose, m.digest, "c") for purpose in ("noise", "value"))
    codes = m.inputs.encode(values, column="c")
    rounds = [
        KeyedRows(Ciphers(key, value), None, *hashed_ids(whose, derive(KEY, "id")), codes)
        for key, whose in ((noise, ids), (name, records))
    ]
    return m.instantaneous.perturb_codes(m.permanent.perturb_codes(codes, rounds[0]), rounds[1])


def test_a_second_round_is_a_function_of_the_record():
    m = LongitudinalRandomizedResponse(range(50), epsilon_infinity=2.0, epsilon_1=0.5)
    ids, records = np.arange(N) % 7, np.array([f"r{i}" for i in range(N)])
    given = np.arange(N) % 50
    drawn = m.perturb(given, randomness=Keyed(SECRET, ids, column="c", records=records.tolist()))
    np.testing.assert_array_equal(drawn, second_round_twin(m, ids, records.tolist(), given))
    order = np.random.default_rng(0).permutation(N)
    again = Keyed(SECRET, ids[order], column="c", records=records[order].tolist())
    np.testing.assert_array_equal(m.perturb(given[order], randomness=again), drawn[order])


def test_records_change_nothing_else():
    m = UnaryEncoding(range(16), epsilon=1.0)
    given = np.arange(N) % 16
    drawn = [
        m.perturb(given, randomness=Keyed(SECRET, np.arange(N), column="c", records=records))
        for records in (None, np.arange(N), np.arange(N) + 1)
    ]
    for other in drawn[1:]:
        np.testing.assert_array_equal(other, drawn[0])
