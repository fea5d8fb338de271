"""Codes of values that nobody listed: integers, and texts that do not depend on their neighbors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import DomainError, InputError, Keyed, OpenDomain, Secret

from ...cases import each


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
