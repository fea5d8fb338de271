"""Hashes of ids and values."""

import struct
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ldp_core import Rappor
from ldp_core.exact import bits, bloom, multiply_shift
from ldp_core.exact.hashing import id_words
from ldp_core.exact.multiply_shift import MultiplyShift
from ldp_core.exact.random_functions import RandomFunctions
from ldp_core.reports.bits import row_bytes

from ...cases import each
from ..checks import check_binomial, check_uniform
from ..mechanisms.sketches.helpers import CHROME


def test_hashes_of_text_are_cbc_macs():
    """Of every length up to three blocks and more, of letters of one, two and four bytes."""
    letters = np.random.default_rng(0).integers(97, 123, (70, 70)).astype(np.uint8)
    texts = [letters[n, :n].tobytes().decode() for n in range(70)]
    texts += [letter * n + "b" * more for letter in "é😀\0" for n in range(18) for more in range(4)]
    high, low = id_words(pa.array(texts, pa.string()), bytes(32))
    encryptor = Cipher(algorithms.AES(bytes(32)), modes.ECB()).encryptor()
    for text, a, b in zip(texts, high.tolist(), low.tolist(), strict=True):
        data = text.encode()
        state = encryptor.update(struct.pack("<QQ", len(data), 0))
        for start in range(0, len(data), 16):
            piece = data[start : start + 16].ljust(16, b"\0")
            state = encryptor.update(bytes(x ^ y for x, y in zip(state, piece, strict=True)))
        assert struct.unpack("<QQ", state) == (a, b)


@each("width", [0, 1, 15, 16, 17, 40])
def test_values_of_one_length_have_the_hashes_of_their_bytes(width):
    """They have a way of their own."""
    data = np.random.default_rng(0).bytes(9 * width)
    values = [data[i * width : (i + 1) * width] for i in range(9)]
    fixed, free = (pa.array(values, kind).slice(2, 5) for kind in (pa.binary(width), pa.binary()))
    for own, expected in zip(id_words(fixed, bytes(32)), id_words(free, bytes(32)), strict=True):
        np.testing.assert_array_equal(own, expected)


@each("kind", [pa.int8(), pa.uint64(), pa.decimal128(38), pa.string(), pa.binary_view(), pa.binary(16)])
def test_no_ids(kind):
    for ids in (
        pa.array([], kind),
        pa.nulls(3, kind)[:0],
        pa.chunked_array([], kind),
        pa.array([], kind).dictionary_encode(),
    ):
        high, low = id_words(ids, bytes(32))
        assert len(high) == 0
        assert low is None or len(low) == 0


def test_integers_of_128_bits_in_a_buffer_of_another_length():
    """As a message may bring it: a byte too many."""
    data = struct.pack("<qqqq", 7, 0, -7, -1) + b"\0"
    ids = pa.Array.from_buffers(pa.decimal128(38), 2, [None, pa.py_buffer(data)])
    high, low = id_words(ids, bytes(32))
    assert (high.view(np.int64).tolist(), low) == ([7, -7], None)


# ---- multiply-shift: its formula, and how often it collides


def test_hashes_are_those_of_the_formula_and_collide_as_often_as_it_says():
    hashes = MultiplyShift(30_000, 49)
    pairs = np.array([[0, 1], [5, 5 << 32], [2**63, 3], [77, 78]], np.uint64)
    functions = np.arange(30_000)
    for x, y in pairs:
        of_x = hashes.at(functions, np.full(30_000, x))
        same = of_x == hashes.at(functions, np.full(30_000, y))
        check_binomial(int(same.sum()), 30_000, float(hashes.collision))
        check_binomial(np.bincount(of_x, minlength=49), 30_000, 1 / 49)
    a0, a1, b = (int(part[7]) for part in (hashes._low, hashes._high, hashes._added))
    x = 0x123456789ABCDEF
    expected = ((a1 * (x >> 32) + a0 * (x % 2**32) + b) % 2**64 >> 32) * 49 >> 32
    assert hashes.at(7, np.array([x], np.uint64)).tolist() == [expected]
    sizes = np.diff([-(-(i << 32) // 49) for i in range(50)])
    assert sum(Fraction(int(s), 1 << 32) ** 2 for s in sizes) == hashes.collision


def test_sums_over_rows_are_of_the_buckets_that_the_formula_gives():
    hashes = MultiplyShift(7, 49)
    table = np.random.default_rng(3).integers(0, 1000, (4, 49)).astype(float)
    short = np.arange(2**20, 2**20 + multiply_shift._BLOCK + 5, dtype=np.uint64)
    for codes in (short, short << np.uint64(40) | short):  # (the last block is not full; the second has both halves)
        expected = [sum(table[j][hashes.at(3 + j, codes[[i]])[0]] for j in range(4)) for i in (0, 77, -1)]
        assert hashes.sums(table, 3, codes)[[0, 77, -1]].tolist() == expected
    assert (hashes.sums(table, 3, short) != hashes.sums(table, 3, short << np.uint64(40) | short)).mean() > 0.9
    assert len(hashes.sums(table, 3, short[:0])) == 0


# ---- random functions


def test_hashes_are_the_same_for_ever_and_either_way():
    """Stored reports and tallies rely on them."""
    f = RandomFunctions(19, 1 << 16, salt=3)
    codes = np.random.default_rng(0).integers(0, 2**64, 50, np.uint64)
    together = f.all(codes)
    for j in range(19):
        np.testing.assert_array_equal(f.at(np.full(50, j, np.uint8), codes), together[:, j])
        np.testing.assert_array_equal(RandomFunctions(19, 32, salt=3).all(codes)[:, j], together[:, j] % 32)
    assert not np.array_equal(together, RandomFunctions(19, 1 << 16, salt=4).all(codes))
    assert RandomFunctions(9, 16, 5).all(np.array([0, 1], np.uint64)).tolist() == [
        [10, 14, 11, 2, 7, 6, 10, 8, 12],
        [6, 13, 2, 12, 8, 6, 12, 10, 6],
    ]


def collisions_of_integers(functions) -> tuple[np.ndarray, np.ndarray]:
    """Of 64 consecutive integers with the first: how many collide, and how many neighbors both do, a function."""
    hashes = functions.all(np.arange(65, dtype=np.uint64))
    same = hashes[1:] == hashes[0]
    return same.sum(axis=0), (same[::2] & same[1::2]).sum(axis=0)


def check_collisions(functions) -> None:
    single, pairs = (x.sum() for x in collisions_of_integers(functions))
    check_binomial(single, 64 * functions.count, 1 / functions.width)
    check_binomial(pairs, 32 * functions.count, 1 / functions.width**2)


class Affine(RandomFunctions):
    """The top bits of a x + b modulo 2^64: pairwise independent for 32-bit x (Dietzfelbinger 1996), but no more."""

    def all(self, codes):
        a, b = np.random.default_rng(0).integers(0, 2**64, (2, self.count), np.uint64)
        return (codes[:, None] * a + b) >> np.uint64(65 - self.width.bit_length())


def test_collisions_are_those_of_random_functions():
    for width in (2, 16, 128):
        check_collisions(RandomFunctions(4096, width, 0))
    f = RandomFunctions(2, 64, 0)
    for j in range(2):
        check_uniform(np.bincount(f.all(np.arange(500_000, dtype=np.uint64))[:, j], minlength=64))


def test_collisions_that_come_in_numbers_are_found():
    functions = Affine(4096, 16, 0)
    single, _ = collisions_of_integers(functions)
    assert abs(single.mean() / 4 - 1) < 0.1  # no bias
    with pytest.raises(AssertionError, match="probability"):
        check_collisions(functions)


# ---- Bloom filters: those of Google's client, and how uniform they are


# acceptance.json, "bloom_k16_h2"
@each(
    ("word", "cohort", "expected"),
    [("v1", 0, [8, 10]), ("v1", 1, [3, 6]), ("v2", 0, [7, 5]), ("foo", 0, [6, 6]), ("foo", 4, [4, 7])],
)
def test_md5_filters_are_those_of_google(word, cohort, expected):
    assert bloom.md5_positions([word.encode()], [cohort], 16, 2).tolist() == [expected]
    m = Rappor(bits=16, hashes=2, cohorts=8, **CHROME, hashing="md5")
    assert m.over([word, "x"]).design.positions[cohort, 0].tolist() == expected


def test_filters_have_the_bits_of_their_positions():
    where = np.random.default_rng(0).integers(0, 21, (500, 3)).astype(np.uint32)
    rows = np.unpackbits(bloom.filters(where, 3), axis=1, bitorder="little")
    for row, bits_set in zip(rows, where, strict=True):
        assert set(np.flatnonzero(row)) == set(bits_set.tolist())


@each(("k", "h"), [(16, 2), (100, 5), (7, 16)])
def test_public_hash_is_uniform_and_independent_in_values_cohorts_and_functions(k, h):
    n = 40_000
    codes, cohorts = np.arange(n, dtype=np.uint64) // 8, np.arange(n) % 8
    where = bloom.positions(codes, cohorts, k, h)
    for column in where.T:
        check_uniform(np.bincount(column, minlength=k))
    check_binomial((where[:, 1:] == where[:, :-1]).sum(axis=0), n, 1 / k)  # another function
    check_binomial((where[1::2] == where[::2]).sum(axis=0), n // 2, 1 / k)  # another cohort
    check_binomial((where[8:] == where[:-8]).sum(axis=0), n - 8, 1 / k)  # another value
    found = bits.column_sums(bloom.filters(where, row_bytes(k)), k)
    check_binomial(found, n, bloom.density(k, h))
    np.testing.assert_array_equal(where[:, :2], bloom.positions(codes, cohorts, k, 2))


def test_density_of_md5_counts_bytes():
    n, k = 40_000, 100
    where = bloom.md5_positions((b"%d" % i for i in range(n)), [3] * n, k, 2)
    check_binomial(bits.column_sums(bloom.filters(where, 13), k), n, bloom.density(k, 2, md5=True))
    with pytest.raises(AssertionError):  # bytes modulo 100 are not uniform
        check_binomial(bits.column_sums(bloom.filters(where, 13), k), n, bloom.density(k, 2))
