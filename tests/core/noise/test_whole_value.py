"""Keyed noise is a function of the whole value, the whole id, and each name: no two share it."""

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    Keyed,
    OpenDomain,
    ParameterError,
    Rappor,
    Secret,
    UnaryEncoding,
)
from ldp_core.exact import bloom
from ldp_core.exact.aes import aes, encrypt
from ldp_core.reports.bits import row_bytes

from ...cases import each
from ...vectors.reader import Draw, keyed
from ..checks import check_binomial
from ..examples import ALONE, some_values
from ..keyed_reference import KEY, SECRET

PERSONS = 3000
SEEDED = Secret.from_seed(5)  # (a second round is then keyed too)


# ---- two texts with one code


def reports_of(m, value, column="c"):
    noise = Keyed(SECRET, np.arange(PERSONS), column=column)
    return m.reports.from_arrow(m.perturb(pa.array([value] * PERSONS), randomness=noise))


def filters(m, value, reports):
    """The bits of the value's Bloom filter, in the cohort of each report."""
    positions = np.array([m.positions(m.inputs.encode([value]), [value])[cohort, 0] for cohort in range(m.cohorts)])
    rows = bloom.filters(positions[reports[:, 0].astype(int)].astype(np.uint32), row_bytes(m.bits))
    return np.unpackbits(rows, axis=1, count=m.bits, bitorder="little")


def flips(m, value):
    """The permanent noise of each person, bit by bit: RAPPOR without a second round."""
    reports = reports_of(m, value)
    bits = np.unpackbits(reports[:, 1:].copy().view(np.uint8), axis=1, count=m.bits, bitorder="little")
    return bits ^ filters(m, value, reports)


def check_flips_are_independent(m, one, two) -> None:
    """Two values' noise agrees as often as that of strangers."""
    agree = flips(m, one) == flips(m, two)
    check_binomial(agree.sum(axis=0), PERSONS, (1 - m.f / 2) ** 2 + (m.f / 2) ** 2)


BARE = Rappor("str", bits=64, hashes=2, cohorts=8, f=0.5, p=0.0, q=1.0)


def made_with_one_code():
    """Two texts with one code of an open domain: its key is public, so that anybody can make them.

    The hash is a CBC-MAC over the length and two blocks. The second blocks undo what the first ones made different,
    which is ASCII where no top bit is different: so in one of 2^16 pairs.
    """
    cipher = aes(b"ldp: codes of an open domain    ")
    start = encrypt(cipher, np.array([[32, 0]], np.uint64))
    first = np.random.default_rng(1).integers(97, 123, (2000, 16)).astype(np.uint8)
    states = encrypt(cipher, (first ^ start).view(np.uint64))
    tops = np.packbits(states >> 7, axis=1).view(np.uint16)[:, 0]
    order = np.argsort(tops)
    twin = int(np.flatnonzero(tops[order][1:] == tops[order][:-1])[0])
    one, two = order[twin], order[twin + 1]
    second = np.full(16, 97, np.uint8)
    return tuple(bytes(t).decode() for t in (
        np.concatenate([first[one], second]),
        np.concatenate([first[two], second ^ states[one] ^ states[two]]),
    ))  # fmt: skip


def test_texts_with_one_code_are_one_value_and_reveal_nothing():
    one, two = made_with_one_code()
    assert one != two
    assert len(set(OpenDomain().encode([one, two]).tolist())) == 1
    for m in (BARE, CountMeanSketch("str", epsilon=1.0), HadamardCountMeanSketch("str", epsilon=1.0)):
        np.testing.assert_array_equal(reports_of(m, one), reports_of(m, two))


def test_by_md5_they_are_two_values_with_noise_of_their_own():
    """There they set other bits, and by the noise of the code they would share what hides these."""
    check_flips_are_independent(Rappor("str", **{**BARE.parameters(), "hashing": "md5"}), *made_with_one_code())


# ---- each bit, of every mechanism

BY_PLACE = ("LOLOHA", "LOLOHA, linear", "dBitFlipPM", "hierarchical", "hierarchical, cells")
"""They answer about a bucket or a node of a tree, by design: the value enters by that alone."""


def differs(reports, bits):
    """For each bit: whether anybody's report changes with it. First come all, then again with each bit flipped."""
    rows = np.asarray(reports).reshape(1 + bits, -1)
    return (rows[1:] != rows[0]).any(axis=1)


def flipped(words, bits, first=0):
    """The words, then all of them with one bit flipped after the other."""
    one = words.dtype.type(1)
    return np.concatenate([words, *(words ^ (one << words.dtype.type(b)) for b in range(first, first + bits))])


def changes_of_code(m):
    """For each bit of a code: whether the noise of the mechanism depends on it."""
    n = 50
    codes = m.inputs.encode(some_values(m, n))
    wide = codes if codes.dtype == np.uint64 else codes.astype(np.uint32)
    bits = 8 * wide.dtype.itemsize
    noise = Keyed(SEEDED, np.tile(np.arange(n), 1 + bits), column="x").bind(m.digest, flipped(wide, bits))
    return differs(m.perturb_codes(np.concatenate([codes] * (1 + bits)), noise), bits)


def changes_of_id(m, ids, bits):
    n = len(ids) // (1 + bits)
    values = some_values(m, n).take(pa.array(np.tile(np.arange(n), 1 + bits)))
    noise = Keyed(SEEDED, ids, column="x")
    return differs(m.reports.from_arrow(m.perturb(values, randomness=noise)), bits)


@each("name", ALONE)
def test_each_bit_of_the_code_changes_the_noise(name):
    changed = changes_of_code(ALONE[name])
    assert not changed.any() if name in BY_PLACE else changed.all()


@each("name", ALONE)
def test_each_bit_of_the_id_changes_the_report(name):
    m = ALONE[name]
    numbers = np.random.default_rng(2).integers(0, 2**64, 50, dtype=np.uint64)
    assert changes_of_id(m, flipped(numbers, 64), 64).all()
    assert changes_of_id(m, flipped(numbers, 64).view(np.int64), 64).all()
    texts = np.random.default_rng(3).integers(0, 256, (50, 20), dtype=np.uint8)  # two blocks
    masks = np.packbits(np.eye(160, dtype=np.uint8), axis=1)
    rows = np.concatenate([texts, (texts ^ masks[:, None]).reshape(-1, 20)])
    assert changes_of_id(m, pa.array([row.tobytes() for row in rows], pa.binary()), 160).all()


@each("values", ["int", "str"])
def test_words_of_open_domains_are_those_of_the_reference(values):
    m = HadamardCountMeanSketch(values, epsilon=1.0)
    x = [3, -1, 2**40, -(2**63)] if values == "int" else ["a", "bb", "", "ccc"]
    codes, ids = m.inputs.encode(x), np.array([7, -1, 7, 2**62])
    noise = Keyed(SECRET, ids, column="c", tag="t").bind(m.digest, codes)
    for lane in range(4):
        for word, code, person in zip(noise.words(4, lane), codes.tolist(), ids.tolist(), strict=True):
            assert word == Draw(keyed(KEY, person, m.digest, "t", "c"), (code,)).lane(lane)


# ---- names


def test_tag_and_column_do_not_run_into_each_other():
    m = UnaryEncoding(range(64), epsilon=0.5)
    names = [("a/b", "c"), ("a", "b/c"), (None, "a/b/c"), ("", "a/b/c"), ("a/b/c", ""), (None, '["a", "b/c"]')]
    codes = np.zeros(20, np.uint8)
    made = [
        m.perturb_codes(codes, Keyed(SECRET, np.arange(20), column=column, tag=tag).bind(m.digest, codes)).tobytes()
        for tag, column in names
    ]
    assert len(set(made)) == len(names)


def test_mechanisms_with_one_fingerprint_have_noise_of_their_own():
    """It has 64 bits: whoever makes 2^32 mechanisms finds two that have the same."""
    one, two = (UnaryEncoding(range(64), epsilon=epsilon) for epsilon in (1.0, 1.0 + 2**-40))
    object.__setattr__(two, "fingerprint", one.fingerprint)
    reports = [m.perturb(np.zeros(50, int), randomness=Keyed(SECRET, np.arange(50), column="c")) for m in (one, two)]
    assert (reports[0] != reports[1]).mean() > 0.1


def test_more_decisions_than_a_counter_numbers_are_refused():
    noise = Keyed(SECRET, [1], column="c").bind("0" * 64, np.zeros(1, np.uint8))
    width = (1 << 21) + 1
    with pytest.raises(ParameterError, match="at most 16777216 decisions"):
        noise.one_hot_rows(1, 1, np.zeros(1, np.uint32), width, 0)
    with pytest.raises(ParameterError, match="at most 16777216 decisions"):
        noise.head_rows(1, 8 * width, 0)
