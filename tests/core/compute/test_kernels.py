"""Every kernel makes the same bits as numpy, of the same keystream.

Its loop is run by Python, and compiled by numba.
"""

import importlib.util

import numpy as np
import pytest

from ldp_core import (
    CountMeanSketch,
    Keyed,
    Keystream,
    RandomizedResponse,
    ReportError,
    Secret,
    SummationHistogramEncoding,
)
from ldp_core.compute import compiled, kernels
from ldp_core.exact.bits import counts_of_pairs, grouped_column_sums
from ldp_core.exact.sampling import ONE, bernoulli_bits, kept_or_drawn, one_hot_rows
from ldp_core.exact.transforms import count_numbers
from ldp_core.mechanisms.oracles.local_hashing import AffineFamily

from ...cases import each

# ruff: noqa: B023 (jobs are run at once)

ALL = [value for value in vars(kernels).values() if isinstance(value, compiled.Kernel)]
HALF = ONE // 2
THRESHOLDS = [1, 2, 1 << 55, 1 << 56, 3 << 56, ONE // 4, HALF - 1, HALF, HALF + 1, ONE // 3, ONE - (1 << 56), ONE - 1]
needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")
MODES = ["python", pytest.param("numba", marks=[pytest.mark.slow, needs_numba])]


class Runs:
    """The same job by numpy and by kernels, of which it must be seen that they ran."""

    def __init__(self, mode, monkeypatch):
        self.mode, self.patch, self.ran = mode, monkeypatch, set()
        if mode == "python":
            for kernel in ALL:
                monkeypatch.setattr(kernel, "_compiled", {})
            monkeypatch.setattr(compiled, "_compiled", lambda loop, kinds, written: loop)
        real = compiled.Kernel.__call__

        def noted(kernel, *args):
            result = real(kernel, *args)
            if result is not None:
                self.ran.add(kernel)
            return result

        monkeypatch.setattr(compiled.Kernel, "__call__", noted)

    def set(self, value):
        self.patch.setenv("LDP_KERNELS", value)
        compiled._mode.cache_clear()

    def by(self, value, job):
        self.set(value)
        with np.errstate(over="ignore"):  # unsigned integers wrap
            return job()

    def same(self, kernel, job):
        self.ran.clear()
        expected = self.by("numpy", job)
        assert not self.ran
        for given, wanted in zip(self.by("numba", job), expected, strict=True):
            assert given.dtype == wanted.dtype
            np.testing.assert_array_equal(given, wanted)
        assert kernel in self.ran


@pytest.fixture(params=MODES)
def runs(request, monkeypatch):
    yield Runs(request.param, monkeypatch)
    monkeypatch.undo()
    compiled._mode.cache_clear()


@pytest.fixture
def sizes(runs):
    return (0, 1, 7, 8, 9, 63, 65, 300) if runs.mode == "python" else (0, 1, 8, 63, 2048, 5003, 70_001)


def keystream():
    return Keystream(bytes(32))


def with_the_rest(job):
    """What the job draws from a keystream, and what comes next in it."""
    stream = keystream()
    return job(stream), stream.bytes(16).copy()


@each("threshold", THRESHOLDS)
def test_decisions(runs, sizes, threshold):
    for n in sizes:
        runs.same(kernels.decided, lambda: with_the_rest(lambda s: bernoulli_bits(threshold, n, s)))


class Tied:
    """Bytes that agree with a threshold nearly everywhere: many more ties than there are words for."""

    def __init__(self, threshold):
        self.byte, self.stream = threshold >> 56, keystream()

    def bytes(self, n):
        planes = [0 if self.byte >> (7 - i) & 1 else 255 for i in range(8)]
        wrong = self.stream.bytes(n).copy() & self.stream.bytes(n) & self.stream.bytes(n)
        return np.repeat(np.array(planes, np.uint8), -(-n // 8))[:n] ^ wrong


@each("threshold", [ONE // 3, 3 << 56, ONE - 1])
def test_more_ties_than_words_for_them(runs, sizes, threshold):
    for n in sizes[1:6]:
        runs.same(kernels.decided, lambda: (bernoulli_bits(threshold, n, Tied(threshold)),))
        position = np.arange(n, dtype=np.uint8)
        runs.same(kernels.one_hot, lambda: (one_hot_rows(HALF, threshold, position, 1, Tied(threshold)),))


@each(("p", "q"), [(HALF, ONE // 4 + 1), (ONE - 1, 1), (ONE // 3, HALF), (3 << 56, 1 << 63)])
@each("width", [1, 2, 3, 4, 8, 13])
def test_one_hot_rows(runs, sizes, p, q, width):
    for n in (min(size, (1 << 19) // width) for size in sizes):  # one block
        for kind in (np.uint8, np.uint16) if runs.mode == "python" else (np.uint8,):
            position = (np.arange(n) * 7 % (8 * width + 5)).astype(kind)  # some are in no row
            position.flags.writeable = False
            runs.same(kernels.one_hot, lambda: with_the_rest(lambda s: one_hot_rows(p, q, position, width, s)))


@each("d", [2, 3, 16, 200, 256, 257, 60_000, 1 << 30, (1 << 31) - 1])
def test_kept_or_drawn(runs, sizes, d):
    kind = np.min_scalar_type(d - 1)
    for n in sizes:
        codes = (np.arange(n) * 11 % d).astype(kind)
        for keep in (1, ONE // 3, ONE - 1):
            runs.same(kernels.kept_or_drawn, lambda: with_the_rest(lambda s: kept_or_drawn(keep, codes, d, s)))


@each(("n", "d1", "d2"), [(1, 3, 16), (130, 16, 9), (1000, 20, 2)])
def test_counts_of_pairs(runs, n, d1, d2):
    """(The last words are not full; a plane of all ones has the most.)"""
    first, second = (keystream().bytes(n * w).reshape(n, w).copy() for w in (-(-d1 // 8), -(-d2 // 8)))
    first[:, 0] |= 1
    runs.same(kernels.ones_of_pairs, lambda: counts_of_pairs(first, second, d1, d2))
    x, y = (np.unpackbits(rows, axis=1, bitorder="little").astype(int) for rows in (first, second))
    both, *_ = runs.by("numpy", lambda: counts_of_pairs(first, second, d1, d2))
    np.testing.assert_array_equal(both, x[:, :d1].T @ y[:, :d2])
    assert counts_of_pairs(first[:0], second[:0], d1, d2)[0].tolist() == [[0] * d2] * d1


@each("width", [2, 8, 13])
@each("n_groups", [2, 300])
@pytest.mark.slow
def test_grouped_column_sums(runs, sizes, width, n_groups):
    for n in sizes[1:]:
        rows = keystream().bytes(n * width).reshape(n, width).copy()
        groups = np.arange(n) ** 2 % n_groups
        for of in (groups, np.sort(groups), np.zeros(n, int)):
            runs.same(kernels.grouped_column_sums, lambda: (grouped_column_sums(rows, 8 * width - 3, of, n_groups),))


def test_sums_of_more_than_255_rows_of_ones(runs):
    rows = np.full((1300, 2), 255, np.uint8)
    sums = runs.by("numba", lambda: grouped_column_sums(rows, 16, np.arange(1300) % 2, 2))
    assert sums.tolist() == [[650] * 16] * 2


def test_sums_of_a_sketch(runs):
    sketch = CountMeanSketch("int", epsilon=2.0, hashes=64, width=128)
    reports = sketch.perturb(np.arange(900), randomness=keystream())
    runs.same(kernels.grouped_column_sums, lambda: (sketch.tally(reports).counters,))


@each("g", [2, 3, 1000])
def test_support_of_hashed_reports(runs, sizes, g):
    family = AffineFamily(g)
    for n in sizes[1:6]:
        stream = keystream()
        reports = family.draw(n, stream) | stream.uniform_below(g, n).astype(np.uint64) << np.uint64(48)
        for n_groups in (1, 4):
            groups = np.arange(n) ** 2 % n_groups
            runs.same(kernels.affine_support, lambda: (family.support_counts(reports, groups, n_groups, 37),))


@each("text", [False, True])
def test_keyed_noise(runs, sizes, text):
    secret = Secret.from_seed(1)
    for n in sizes[1:6]:
        ids = [f"person {k}" for k in range(n)] if text else range(-3, n - 3)
        for d in (2, 3, 100):
            m = RandomizedResponse(range(d), epsilon=1.0)
            values = np.arange(n) * 11 % d
            job = lambda: (m.perturb(values, randomness=Keyed(secret, list(ids), column="x")),)  # noqa: E731
            for kernel in (kernels.keyed_blocks, kernels.less if d == 2 else kernels.kept_or_drawn_by_words):
                runs.same(kernel, job)


def test_a_keyed_draw_that_is_rejected(runs):
    """With d = 3 * 2^30, a quarter of the draws: 2^32 mod d is 2^30."""
    noise = Keyed(Secret.from_seed(1), range(300), column="x").bind("digest", np.zeros(300, np.uint32))
    codes = np.arange(300, dtype=np.uint32)
    words = noise._pairs(0)
    with np.errstate(over="ignore"):
        d = np.uint64(3 << 30)
        fine = kernels.kept_or_drawn_by_words._loop(words.reshape(-1), np.uint64(HALF), codes, d, codes.copy())
    assert not fine
    d = 3 << 29
    job = lambda: (noise.kept_or_drawn(HALF, codes, d, 0),)  # noqa: E731
    runs.same(kernels.kept_or_drawn_by_words, job)


@each("epsilon", [0.1, 1.0, 20.0])  # below 0.3 entries have 16 bits
def test_entries_of_a_summation_histogram(runs, sizes, epsilon):
    m = SummationHistogramEncoding(range(7), epsilon=epsilon)
    for n in filter(None, sizes):
        codes = np.arange(n) % 7
        runs.same(kernels.looked_up, lambda: [m.perturb_codes(codes, keystream())])


@each("epsilon", [0.1, 1.0])
@each("d", [2, 7, 300])  # several rows at a time, and wider ones than a piece
def test_sums_of_a_summation_histogram(runs, sizes, epsilon, d):
    m = SummationHistogramEncoding(range(d), epsilon=epsilon)
    for n in sizes[1:6]:
        reports = m.perturb(np.arange(n) % d, randomness=keystream())
        runs.same(kernels.entry_sums, lambda: (m.tally(reports).counters,))


def test_an_entry_that_is_out_of_range_is_refused(runs):
    m = SummationHistogramEncoding(range(3), epsilon=1.0)
    for entry in (m.entries[0] - 1, m.entries[1] + 1):
        for at in (0, 500, 999):
            rows = np.zeros((1000, 3), np.int8)
            rows[at] = entry
            with pytest.raises(ReportError, match=r"entries must be in \[-43, 44\]"):
                runs.by("numba", lambda: m.tally(rows))


@each("kind", [bool, np.uint8, np.uint32, np.int64, np.uint64])
@each("k", [2, 5000])  # several counters a number, and one
def test_counts_of_numbers(runs, sizes, kind, k):
    for n in sizes:
        numbers = (np.arange(n) ** 2 % min(k, 256)).astype(kind)
        for n_groups in (1, 3):
            groups = np.arange(n) % n_groups
            runs.same(kernels.counted, lambda: (count_numbers(numbers, groups, n_groups, k),))


@each("size", [1, 3, 1000, 600_000_000, 604_800_000_000, (1 << 51) - 1, 1 << 52])
@each("first", [-(1 << 60), -1, 0, 1_780_000_000_000_000])
def test_fixed_slots(runs, size, first):
    """Distances at and beside multiples, where the product is off most easily, and random ones, to the last."""
    last = (1 << 52) - 1
    near = np.unique(np.linspace(0, last // size, 200).astype(np.int64)) * size
    random = np.random.default_rng(1).integers(0, last, 500, endpoint=True)
    distances = np.concatenate((near - 1, near, near + 1, random, [0, last]))
    distances = distances[(distances >= 0) & (distances <= last)]
    made = np.empty_like(distances)
    assert runs.by("numba", lambda: kernels.fixed_slots(distances + first, first, size, made))
    np.testing.assert_array_equal(made, distances // size)


def test_a_group_or_a_bucket_that_does_not_exist_is_not_written_to():
    """The kernels say no; numpy says what it always said."""
    rows, out = np.zeros(3, np.uint8), np.zeros((2, 8), np.int64)
    family = AffineFamily(3)
    for groups in ([0, 1, 2], [0, -1, 0]):
        of = np.array(groups)
        assert not kernels.grouped_column_sums._loop(rows, 0, of, out)
        assert not kernels.counted._loop(rows, of, out)
        reports = np.zeros(3, np.uint64)
        with np.errstate(over="ignore"):
            assert not kernels.affine_support._loop(reports, np.sort(of), family._low, family._width, 7, out)
    for number in (-1, 8):
        for groups in (np.zeros(0, np.int64), np.zeros(1, np.int64)):
            with np.errstate(over="ignore"):
                assert not kernels.counted._loop(np.array([number]), groups, out)
    reports = np.array([3 << 48], np.uint64)
    assert not kernels.affine_support._loop(reports, np.zeros(0, np.int64), family._low, family._width, 7, out)
