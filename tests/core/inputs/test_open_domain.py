"""Codes of values that nobody listed: mixed integers, and texts that do not depend on their neighbours."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import DomainError, InputError, Keyed, OpenDomain, Secret

from ..checks import check_uniform


def test_codes_of_integers_are_mixed_as_in_splitmix64():
    """The first outputs of SplitMix64 with seed 0, as published with it: of the multiples of the golden ratio."""
    gamma = np.uint64(0x9E3779B97F4A7C15) * np.arange(1, 4, dtype=np.uint64)
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert OpenDomain("int").encode(gamma.view(np.int64)).tolist() == expected
    codes = OpenDomain("int").encode(np.arange(200_000) << 32)
    assert len(np.unique(codes)) == 200_000
    check_uniform(np.bincount((codes & np.uint64(255)).astype(int), minlength=256))


@pytest.mark.parametrize("distinct", [3, 500, 10**9])
def test_codes_of_texts_do_not_depend_on_their_neighbours(distinct):
    texts = [f"v{k}" for k in np.random.default_rng(0).integers(0, distinct, 20_000)]
    whole = OpenDomain().encode(pa.array(texts))
    few = OpenDomain().encode(texts[:100])
    np.testing.assert_array_equal(whole[:100], few)
    np.testing.assert_array_equal(whole, OpenDomain().encode(pa.array(texts).dictionary_encode()))
    np.testing.assert_array_equal(whole[7:], OpenDomain().encode(pa.array(texts, pa.large_string())[7:]))
    np.testing.assert_array_equal(whole, OpenDomain().encode(pa.array(texts, pa.string_view())))


@pytest.mark.parametrize("index", [-1, 2])
def test_indices_out_of_a_dictionary_do_not_wrap(index):
    """-1 was the last entry, and 2 an IndexError."""
    broken = pa.DictionaryArray.from_arrays(pa.array([0, index], pa.int8()), pa.array(["a", "b"]), safe=False)
    with pytest.raises(DomainError, match="1 of 2 values are out of"):
        OpenDomain("str").encode(broken)
    with pytest.raises(InputError, match="1 of 2 ids are out of"):
        Keyed(Secret.generate(), broken, column="x")
