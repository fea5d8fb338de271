"""Reports through the public door have the promised probabilities, whatever the layout and the kind of input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import Domain, Keystream, RandomizedResponse, UnaryEncoding
from ldp_core.mechanisms.oracles.hadamard_response import HadamardResponse
from ldp_core.mechanisms.oracles.local_hashing import LocalHashing
from ldp_core.mechanisms.oracles.subset_selection import SubsetSelection
from ldp_core.mechanisms.oracles.threshold_histogram_encoding import ThresholdHistogramEncoding

from .checks import check_binomial, check_marginals, check_rows_independent

ROWS = 1_000_000
KINDS = {
    "OUE": lambda domain: UnaryEncoding(domain, epsilon=1.0),
    "SUE": lambda domain: UnaryEncoding(domain, epsilon=2.0, variant="symmetric"),
    "custom": lambda domain: UnaryEncoding.from_probabilities(domain, p=0.9, q=0.07),
}


def table_of(m) -> np.ndarray:
    """Pr[report supports v | code x], one more row for "none"."""
    p, q = (np.array(x, float) for x in m.expected_parts())
    d = m.domain.size
    table = np.where(np.eye(d, dtype=bool), p, q)
    return np.vstack([table, q]) if m.domain.unmatched == "none" else table


def values_of(m, codes: np.ndarray, kind: str):
    """Values of these codes as ``kind`` of input; unmatched ones are nulls and unknown values by turns."""
    unknown = {"str": ["unknown"], "int": [2**40], "bool": []}[m.domain.kind]
    labels = [*m.domain.labels, None, *unknown]
    indices = codes.astype(np.int64)
    if m.domain.unmatched != "error":
        unmatched = np.flatnonzero(indices == len(m.domain.labels))
        indices[unmatched[::2]] += 1
    dictionary = pa.array(labels)
    array = pa.DictionaryArray.from_arrays(pa.array(indices), dictionary)
    if kind == "dictionary":
        return array
    plain = array.cast(dictionary.type)
    if kind == "list":
        return plain.to_pylist()
    if kind == "numpy":
        return np.array(plain.to_pylist(), object) if plain.null_count else plain.to_numpy(zero_copy_only=False)
    if kind == "chunked":
        return pa.chunked_array([plain[: ROWS // 3], plain[ROWS // 3 :]])
    if kind == "slice":
        return pa.concat_arrays([plain[:5], plain, plain[:9]])[5 : 5 + len(plain)]
    return plain


def supported(m, reports) -> np.ndarray:
    native = m.from_arrow(m._reports_as_arrow(reports))
    if native.ndim == 2:
        return m.to_numpy(native)
    if isinstance(m, RandomizedResponse):
        return native[:, None] == np.arange(m.domain.size)
    return m.count_reports(native, np.arange(len(native)), len(native)).astype(bool)


INPUTS = ["arrow", "dictionary", "numpy", "slice", "chunked", "arrow", "dictionary", "numpy"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("i", "d"), list(enumerate([3, 8, 9, 16, 64, 65, 128, 130])))
def test_bit_vectors(kind, i, d):
    policy = ["error", "other", "none"][(i + list(KINDS).index(kind)) % 3]
    domain = Domain([f"v{k}" for k in range(d - (policy == "other"))], unmatched=policy)
    m = KINDS[kind](domain)
    table = table_of(m)
    codes = np.random.default_rng(i).permutation(ROWS) % len(table)
    reports = m.perturb(values_of(m, codes, INPUTS[i]), packed=i % 2 == 0)
    check_marginals(codes, supported(m, reports), table)


RANDOMIZED = {
    "warner": RandomizedResponse(epsilon=1.0),
    "warner of text": RandomizedResponse(["no", "yes"], epsilon=2.0),
    "warner of (True, False)": RandomizedResponse([True, False], epsilon=2.0),
    "d=3": RandomizedResponse([7, -3, 2**62], epsilon=0.5),
    "d=16": RandomizedResponse([f"v{k}" for k in range(16)], epsilon=2.0),
    "d=16 other": RandomizedResponse(Domain(range(15), unmatched="other"), epsilon=2.0),
    "d=256": RandomizedResponse([f"v{k}" for k in range(256)], epsilon=5.0),
    "d=300": RandomizedResponse(range(-100, 200), epsilon=5.0),
    "coins": RandomizedResponse.from_coins(truth=0.6, yes=0.2),
    "coins of text": RandomizedResponse.from_coins(["no", "yes"], truth=0.3, yes=0.9),
    "coins other": RandomizedResponse.from_coins(Domain(["no"], unmatched="other"), truth=0.3, yes=0.9),
}


ORACLES = {
    "SS": SubsetSelection([f"v{k}" for k in range(16)], epsilon=2.0),
    "SS other": SubsetSelection(Domain([7, -3, 2**62], unmatched="other"), epsilon=1.0),
    "OLH none": LocalHashing(Domain(range(9), unmatched="none"), epsilon=2.0),
    "BLH": LocalHashing([f"v{k}" for k in range(16)], epsilon=1.0, variant="binary"),
    "FLH other": LocalHashing(Domain(range(8), unmatched="other"), epsilon=2.0, variant="fast"),
    "HR none": HadamardResponse(Domain([f"v{k}" for k in range(16)], unmatched="none"), epsilon=1.0),
    "HR of Booleans": HadamardResponse([False, True], epsilon=1.0),
    "THE none": ThresholdHistogramEncoding(Domain(range(9), unmatched="none"), epsilon=2.0),
}


@pytest.mark.parametrize("kind", ["arrow", "numpy", "slice", "chunked", "list"])
@pytest.mark.parametrize("name", [*RANDOMIZED, *ORACLES])
def test_randomized_response_and_other_oracles(name, kind):
    m = (RANDOMIZED | ORACLES)[name]
    n = ROWS if kind == "arrow" else ROWS // 4  # the other layouts are read alike
    table = table_of(m)
    codes = np.random.default_rng(0).permutation(n) % len(table)
    check_marginals(codes, supported(m, m.perturb(values_of(m, codes, kind))), table)


def test_booleans_as_bits_from_every_offset():
    """The path that never unpacks a Boolean column."""
    for m in (RANDOMIZED["warner"], RANDOMIZED["coins"]):
        values = np.random.default_rng(3).random(200_000) < 0.5
        for offset in (0, 1, 7, 8, 13):
            reports = m.perturb(pa.array(values)[offset:-3])
            reports.validate(full=True)
            check_marginals(values[offset:-3].astype(int), supported(m, reports), table_of(m))


@pytest.mark.parametrize(("kind", "d"), [("OUE", 3), ("SUE", 16), ("custom", 65), ("OUE", 128)])
def test_rows_and_columns_of_bit_vectors_are_independent(kind, d):
    m = KINDS[kind](range(d))
    for value in (0, d // 2):
        check_rows_independent(m.perturb(np.full(ROWS // 2, value)), table_of(m)[value])


@pytest.mark.parametrize("name", ["warner", "coins", "d=16", "d=300"])
def test_rows_of_randomized_response_are_independent(name):
    m = RANDOMIZED[name]
    reports = m.perturb_codes(np.ones(ROWS, m.domain.code_dtype), Keystream())
    p, q = m.expected_parts()
    check_rows_independent((reports == 1)[:, None], np.array([float(p[1])]))
    check_rows_independent((reports == 0)[:, None], np.array([float(q[0])]))


@pytest.mark.parametrize("m", [RANDOMIZED["warner"], RANDOMIZED["d=16"], KINDS["OUE"](range(16))], ids=lambda m: m.name)
def test_two_calls_draw_independent_noise(m):
    codes = np.ones(ROWS // 4, m.domain.code_dtype)
    values = m.domain.decode(codes)
    a, b = (supported(m, m.perturb(values)) for _ in range(2))
    both = np.empty((2 * len(a), a.shape[1]), bool)
    both[::2], both[1::2] = a, b  # neighbours are the two reports of one record
    check_rows_independent(both[:, 1:2], table_of(m)[1, 1:2])


@pytest.mark.slow
@pytest.mark.parametrize("d", [1000, 100_000])
def test_wide_bit_vectors(d):
    m = UnaryEncoding(range(d), epsilon=4.0)
    n = 200_000_000 // d
    value = d - 1
    tally = m.tally(m.perturb(np.full(n, value), packed=True))
    check_binomial(tally.counters, n, np.where(np.arange(d) == value, m.p, m.q))
