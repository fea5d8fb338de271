"""Reports of any kind become the same columns, in any form and in any batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import ReportError
from ldp_core.auditing.columns import NULL, columns

from ...cases import each


def numbers(reports):
    return [[column.tolist() for column in part] for part in columns(reports)]


@each(
    "reports",
    [
        np.array([[1, 0], [1, 1], [0, 1]]),
        [[1, 0], [1, 1], [0, 1]],
        pa.array([[1, 0], [1, 1], [0, 1]], pa.list_(pa.int64(), 2)),
        pa.array([[9, 9], [1, 0], [1, 1], [0, 1]], pa.list_(pa.int64(), 2))[1:],
        pa.chunked_array([pa.array([[True, False]], pa.list_(pa.bool_(), 2)), [[True, True], [False, True]]]),
        [(True, False), (True, True), (False, True)],
    ],
)
def test_lists(reports):
    assert numbers(reports) == [[[1, 1, 0], [0, 1, 1]]]


def test_several_reports():
    assert numbers((np.array([1, 2]), pa.array([True, False]))) == [[[1, 2]], [[1, 0]]]


def test_nulls_are_a_value_of_their_own():
    assert numbers(pa.array([1, None])) == [[[1, NULL]]]
    assert numbers(pa.array([None, True])) == [[[NULL, 1]]]
    assert numbers(pa.array([[1, 2], None, [None, 4]], pa.list_(pa.int8(), 2))) == [[[1, NULL, NULL], [2, NULL, 4]]]
    top = np.uint64(2**64 - 1)
    assert numbers(pa.array([top, None], pa.uint64())) == [[[-1, NULL]]]
    assert numbers(np.array([top])) == numbers(pa.array([top])) == [[[-1]]]
    assert numbers(pa.nulls(2)) == [[[NULL, NULL]]]
    assert np.isnan(columns(pa.array([0.5, None]))[0][0]).tolist() == [False, True]


def test_texts_are_the_same_in_every_batch():
    one, two = numbers(["a", "b", "a"])[0][0], numbers(pa.array(["b", None, "a"]).dictionary_encode())[0][0]
    assert one == [two[2], two[0], two[2]]
    assert two[1] == NULL
    assert numbers(np.array(["a", "b", "a"]))[0][0] == one


def test_structs_are_their_fields():
    assert numbers(pa.array([{"a": 1, "b": True}, {"a": 2, "b": False}])) == [[[1, 2], [1, 0]]]


@each("reports", [[[1, 2], [1]], pa.array([[1], [1, 2]]), 5, [object()], np.zeros((2, 2, 2))])
def test_other_types_are_refused(reports):
    with pytest.raises(ReportError, match="an audit takes"):
        columns(reports)
