"""Reports of bits: the layouts that are read, and those that are refused."""

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_core import Domain, ReportError, UnaryEncoding
from ldp_core.reports import Bits, Nullable

from ...cases import each
from ..bit_rows import random_rows, seeds, sizes, unpacked


def refused(m, reports, *words):
    with pytest.raises(ReportError) as caught:
        m.tally(reports, column="os")
    for word in ("'os'", *words):
        assert word in str(caught.value)


@each("d", [3, 8, 16, 63, 64, 65, 130])
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


@each(
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
)
def test_reports_of_another_shape(reports):
    refused(UnaryEncoding(["a", "b", "c"], epsilon=1), reports)


def test_reports_that_hold_nulls_are_counted():
    m = UnaryEncoding(["a", "b", "c"], epsilon=1)
    holes = pa.array([[True, None, None], None, [True, False, True], [None] * 3], pa.list_(pa.bool_(), 3))
    for reports, count in ((holes, "3 of 4"), (holes[2:], "1 of 2"), (holes[:2], "2 of 2"), (holes[:1], "1 of 1")):
        with pytest.raises(ReportError, match=f"{count} reports are null, or hold nulls: leave these rows out"):
            m.tally(reports)


@pytest.mark.parametrize("d", [3, 8, 131])
def test_answers_among_bits_of_any_offset(d):
    rows = np.random.default_rng(d).integers(0, 2, (40, d), np.uint8).astype(bool)
    there = np.arange(40) % 3 == 1
    holes = pa.array([row.tolist() if i % 2 else [None] * d for i, row in enumerate(rows)], pa.list_(pa.bool_(), d))
    nulls = pa.array([row.tolist() if yes else None for row, yes in zip(rows, there, strict=True)], holes.type)
    form = Nullable(Bits(d))
    for reports, yes in ((holes, np.arange(40) % 2 == 1), (nulls, there)):
        for some in (slice(None), slice(5, 30), slice(8, 8)):
            answered, answers = form.answers(reports[some])
            assert answered.tolist() == yes[some].tolist()
            assert form.inner.to_numpy(answers).tolist() == rows[some][yes[some]].tolist()


def test_answers_among_long_bits_cost_little():
    """Arrow takes lists of Booleans bit after bit: 4,000 reports of 12,000 bits took 70 times as long."""
    form = Nullable(Bits(12_000))
    answered = np.arange(4_000) % 2 == 0
    reports = form.to_arrow(form.rows(answered, form.inner.empty(2_000)))
    start = time.process_time()
    form.answers(reports)
    assert time.process_time() - start < 0.1


def test_reports_as_numpy_and_lists():
    m = UnaryEncoding(Domain(["a", "b", "c"]), epsilon=1)
    matrix = np.array([[True, False, True], [False, False, True]])
    words = np.array([[5], [4]], np.uint64)
    for reports in (matrix, matrix.tolist(), np.asfortranarray(matrix), matrix[:, ::-1][:, ::-1], words):
        assert m.tally(reports).counters.tolist() == [1, 0, 2]
    assert m.tally(np.zeros((0, 3), bool)).n == 0
    assert m.tally(np.zeros((0, 1), np.uint64)).n == 0


# ---- layouts


@given(sizes, st.integers(0, 40), seeds)
def test_list_of_booleans(d, n, seed):
    matrix, rows = random_rows(n, d, seed)
    array = Bits(d).to_arrow(rows, packed=False)
    array.validate(full=True)
    assert array.type == pa.list_(pa.bool_(), d)
    assert array.to_pylist() == matrix.tolist()
    np.testing.assert_array_equal(unpacked(Bits(d).from_arrow(array), d), matrix)


@given(sizes, st.integers(0, 40), seeds)
def test_packed_words_by_hand(d, n, seed):
    matrix, rows = random_rows(n, d, seed)
    array = Bits(d).to_arrow(rows, packed=True)
    array.validate(full=True)
    words = -(-d // 64)
    assert array.type == pa.list_(pa.uint64(), words)
    expected = [
        [sum(int(row[v]) << v % 64 for v in range(64 * w, min(64 * w + 64, d))) for w in range(words)] for row in matrix
    ]
    assert array.to_pylist() == expected
    np.testing.assert_array_equal(unpacked(Bits(d).from_arrow(array), d), matrix)


@given(sizes, st.integers(0, 40), seeds, st.booleans(), st.data())
def test_slices_and_chunks(d, n, seed, packed, data):
    matrix, rows = random_rows(n, d, seed)
    start = data.draw(st.integers(0, n))
    length = data.draw(st.integers(0, n - start))
    array = Bits(d).to_arrow(rows, packed=packed).slice(start, length)
    np.testing.assert_array_equal(unpacked(Bits(d).from_arrow(array), d), matrix[start : start + length])
    again = Bits(d).to_arrow(Bits(d).from_arrow(array), packed=not packed)
    np.testing.assert_array_equal(unpacked(Bits(d).from_arrow(again), d), matrix[start : start + length])
    if d > 1:
        m = UnaryEncoding(range(d), epsilon=1)
        assert m.tally(array).counters.tolist() == matrix[start : start + length].sum(axis=0).tolist()
        both = m.tally(pa.chunked_array([array, array[: length // 2]]))
        assert both == m.tally(array) + m.tally(array[: length // 2])


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), max_size=9), st.integers(0, 9))
def test_lists_that_others_built(values, skip):
    """Arrow arrays built from Python, with child offsets of their own."""
    skip = min(skip, len(values))
    array = pa.array([*values], pa.list_(pa.bool_(), 5))[skip:]
    m = UnaryEncoding(range(5), epsilon=1)
    assert m.tally(array).counters.tolist() == np.array(values[skip:], int).reshape(-1, 5).sum(axis=0).tolist()
    child = pa.array([True, *(b for row in values for b in row)])[1:]
    array = pa.FixedSizeListArray.from_arrays(child, 5)[skip:]
    assert m.tally(array).counters.tolist() == np.array(values[skip:], int).reshape(-1, 5).sum(axis=0).tolist()
