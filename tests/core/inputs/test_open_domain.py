"""Codes of values that nobody listed: integers, and texts that do not depend on their neighbors."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import DomainError, InputError, Keyed, OpenDomain, Prefixes, Secret

from ...cases import each
from ..examples import LETTERS


def test_codes_of_integers_are_their_bits():
    numbers = [0, 7, -1, -(2**63), 2**63 - 1]
    for values in (numbers, np.array(numbers), pa.array(numbers), pa.array(numbers).dictionary_encode()):
        assert OpenDomain("int").encode(values).tolist() == [number % 2**64 for number in numbers]
    assert OpenDomain("int").encode(pa.array([7], pa.uint8())).tolist() == [7]


def test_integers_beyond_64_bits_with_a_sign_are_refused():
    """2**64 - 1 had the code of -1."""
    numbers = pa.array([5, 2**63, 2**64 - 1, None], pa.uint64())
    for values in (numbers, numbers.dictionary_encode(), [5, 2**63, 2**64 - 1, None]):
        assert OpenDomain("int").refuses(values).tolist() == [False, True, True, True]
        with pytest.raises(DomainError, match="3 of 4 values are null or beyond"):
            OpenDomain("int").encode(values)


@each("distinct", [3, 500, 10**9])
def test_codes_of_texts_do_not_depend_on_their_neighbors(distinct):
    texts = [f"v{k}" for k in np.random.default_rng(0).integers(0, distinct, 20_000)]
    whole = OpenDomain().encode(pa.array(texts))
    few = OpenDomain().encode(texts[:100])
    np.testing.assert_array_equal(whole[:100], few)
    np.testing.assert_array_equal(whole, OpenDomain().encode(pa.array(texts).dictionary_encode()))
    np.testing.assert_array_equal(whole[7:], OpenDomain().encode(pa.array(texts, pa.large_string())[7:]))
    np.testing.assert_array_equal(whole, OpenDomain().encode(pa.array(texts, pa.string_view())))


@each("index", [-1, 2])
def test_indices_out_of_a_dictionary_do_not_wrap(index):
    """-1 was the last entry, and 2 an IndexError."""
    broken = pa.DictionaryArray.from_arrays(pa.array([0, index], pa.int8()), pa.array(["a", "b"]), safe=False)
    with pytest.raises(DomainError, match="1 of 2 values are out of"):
        OpenDomain("str").encode(broken)
    with pytest.raises(InputError, match="1 of 2 ids are out of"):
        Keyed(Secret.generate(), broken, column="x")


# ---- texts and integers by their prefixes


@each(
    "arguments",
    [
        ("", 3),
        ("aa", 3),
        ("aé", 3),
        ("a\0", 3),
        ("ab", 0),
        ("ab", 33),
        (LETTERS, 13),
        (None, 64),
        ("ab", True),
        ("ab", 3, "other"),
        (None, 3, "cut"),
    ],
)
def test_bad_strings(arguments):
    with pytest.raises(DomainError):
        Prefixes(*arguments)


@each("alphabet", ["ab", LETTERS, "".join(map(chr, range(1, 128))), "z"])
def test_codes_and_back(alphabet):
    domain = Prefixes(alphabet, 64 // len(alphabet).bit_length())
    rng = np.random.default_rng(2)
    texts = ["".join(rng.choice(list(alphabet), rng.integers(0, domain.length + 1))) for _ in range(300)]
    arrow = pa.array(texts)
    codes = domain.encode(texts)
    assert domain.decode(codes) == tuple(texts)
    for array in (
        arrow,
        arrow.cast(pa.large_string()),
        arrow.cast(pa.string_view()),
        arrow.dictionary_encode(),
        pa.chunked_array([arrow[:100], arrow[100:]]),
        pa.concat_arrays([arrow[:7], arrow])[7:],
        np.array(texts, object),
    ):
        assert (domain.encode(array) == codes).all()
    plain = codes.tolist()
    assert len(set(plain)) == len(set(texts))
    numbers = [[alphabet.index(c) + 1 for c in text] for text in texts]
    assert sorted(range(300), key=lambda i: plain[i]) == sorted(range(300), key=lambda i: numbers[i])
    first = domain.prefix(codes, 1).tolist()
    assert first == [row[0] if row else 0 for row in numbers]


def test_all_candidates_are_listed():
    domain = Prefixes("abc", 3)
    every = ["".join(t) for k in range(4) for t in product("abc", repeat=k)]
    assert sorted(domain.decode(domain.begin(3))) == sorted(every)
    assert domain.extensions(3) == len(every)
    starts = domain.begin(1)
    assert sorted(domain.decode(domain.extended(starts, 2))) == sorted(every)


TOO_MUCH = ["aaaa", "xyz", "aXb", "aé", "", None, "abc"]


def test_what_is_cut():
    domain = Prefixes("abc", 3, "cut")
    expected = ("aaa", "", "a", "a", "", "", "abc")
    for values in (TOO_MUCH, pa.array(TOO_MUCH), pa.array(TOO_MUCH).dictionary_encode()):
        assert domain.decode(domain.encode(values)) == expected
        assert not domain.refuses(values).any()
        assert domain.outside(values).tolist() == Prefixes("abc", 3).refuses(values).tolist()
    assert Prefixes("ab", 12, "cut").decode(Prefixes("ab", 12, "cut").encode(["abababab?b", "ababababa?b"])) == (
        "abababab",
        "ababababa",
    )
    assert domain.decode(domain.encode(pa.nulls(2))) == ("", "")


def test_what_is_refused():
    domain = Prefixes("abc", 3)
    for values in (TOO_MUCH, pa.array(TOO_MUCH), pa.array(TOO_MUCH).dictionary_encode()):
        assert domain.refuses(values).tolist() == [True, True, True, True, False, True, False]
        with pytest.raises(DomainError, match="5 of 7 values") as caught:
            domain.encode(values, column="c")
        assert not any(value in str(caught.value) for value in ("aaaa", "xyz", "aXb"))
    for values in ([0, 8, -1, None, 7], pa.array([0, 8, 2**64 - 1, None, 7], pa.uint64())):
        assert Prefixes(None, 3).refuses(values).tolist() == [False, True, True, True, False]
    assert Prefixes(None, 3).encode([0, 7]).tolist() == [0, 7]
    assert Prefixes(None, 3).refuses(pa.array([0, None, 9]).dictionary_encode()).tolist() == [False, True, True]


def test_text_under_a_null_is_not_perturbed():
    """A masked column keeps its texts under the nulls, and `Prefixes` read them."""
    whole = pa.array(["ab", "ba"])
    masked = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x01"), *whole.buffers()[1:]])
    assert masked.to_pylist() == ["ab", None]
    cut = Prefixes("ab", 2, unmatched="cut")
    for array in (masked, pa.DictionaryArray.from_arrays(pa.array([0, 1]), masked)):
        assert cut.decode(cut.encode(array)) == ("ab", "")
        with pytest.raises(DomainError, match="1 of 2"):
            Prefixes("ab", 2).encode(array)
