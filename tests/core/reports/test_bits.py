"""Reports of bits: the layouts that are read, and those that are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import Domain, ReportError, UnaryEncoding


def refused(m, reports, *words):
    with pytest.raises(ReportError) as caught:
        m.tally(reports, column="os")
    for word in ("'os'", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("d", [3, 8, 16, 63, 64, 65, 130])
def test_stray_bits(d):
    m = UnaryEncoding(range(d), epsilon=1)
    words = -(-d // 64)
    for v in range(d, 64 * words):
        row = [0] * words
        row[v // 64] = 1 << v % 64
        array = pa.array([[0] * words, row], pa.list_(pa.uint64(), words))
        refused(m, array, f"{d} values")
        assert m.tally(array[:1]).n == 1
        refused(m, array[1:])
    full = [2**64 - 1] * (d // 64) + ([(1 << d % 64) - 1] if d % 64 else [])
    assert m.tally(pa.array([full], pa.list_(pa.uint64(), words))).counters.tolist() == [1] * d


@pytest.mark.parametrize(
    "reports",
    [
        pa.array([[True, False, None]], pa.list_(pa.bool_(), 3)),
        pa.array([[True, False, True], None], pa.list_(pa.bool_(), 3)),
        pa.array([[1], None], pa.list_(pa.uint64(), 1)),
        pa.array([[1], [None]], pa.list_(pa.uint64(), 1)),
        pa.array([[True, False]], pa.list_(pa.bool_(), 2)),
        pa.array([[True, False, True, True]], pa.list_(pa.bool_(), 4)),
        pa.array([[1, 0]], pa.list_(pa.uint64(), 2)),
        pa.array([[1]], pa.list_(pa.int64(), 1)),
        pa.array([[1]], pa.list_(pa.uint32(), 1)),
        pa.array([[True, False, True]], pa.list_(pa.bool_())),
        pa.array([[1, 0, 1]], pa.list_(pa.uint8(), 3)),
        pa.array(["a", "b"]),
        pa.array([1, 2], pa.uint64()),
        pa.nulls(3),
        pa.array([], pa.bool_()),
        np.zeros((2, 4), bool),
        np.zeros((2, 3), np.uint8),
        np.zeros((2, 3), float),
        np.zeros(3, bool),
        [[True, False]],
    ],
    ids=lambda r: str(getattr(r, "type", getattr(r, "dtype", "list"))),
)
def test_reports_of_another_shape(reports):
    refused(UnaryEncoding(["a", "b", "c"], epsilon=1), reports)


def test_reports_as_numpy_and_lists():
    m = UnaryEncoding(Domain(["a", "b", "c"]), epsilon=1)
    matrix = np.array([[True, False, True], [False, False, True]])
    words = np.array([[5], [4]], np.uint64)
    for reports in (matrix, matrix.tolist(), np.asfortranarray(matrix), matrix[:, ::-1][:, ::-1], words):
        assert m.tally(reports).counters.tolist() == [1, 0, 2]
    assert m.tally(np.zeros((0, 3), bool)).n == 0
    assert m.tally(np.zeros((0, 1), np.uint64)).n == 0
