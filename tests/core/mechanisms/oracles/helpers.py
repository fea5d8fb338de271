"""Examples, strategies and tables for the tests of frequency oracles."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from scipy import stats

from ldp_core import (
    Domain,
    FrequencyOracle,
    HadamardResponse,
    Keyed,
    Keystream,
    LocalHashing,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    Secret,
    SubsetSelection,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)
from ldp_core.exact.sampling import ONE

from ...checks import FALSE_ALARM, check_marginals, exact_ln

ROWS = 20_000
KINDS = {
    "OUE": lambda domain: UnaryEncoding(domain, epsilon=1.0),
    "SUE": lambda domain: UnaryEncoding(domain, epsilon=2.0, variant="symmetric"),
    "custom": lambda domain: UnaryEncoding.from_probabilities(domain, p=0.9, q=0.07),
}


def table_of(m) -> np.ndarray:
    """Pr[report supports v | code x], one more row for "none"."""
    p, q = (np.array(x, float) for x in m.support_probabilities())
    d = m.domain.size
    table = np.where(np.eye(d, dtype=bool), p, q)
    return np.vstack([table, q]) if m.domain.unmatched == "none" else table


def values_of(m, codes: np.ndarray) -> pa.Array:
    """Values of these codes; unmatched ones are nulls and unknown values by turns."""
    unknown = {"str": ["unknown"], "int": [2**40], "bool": []}[m.domain.kind]
    indices = codes.astype(np.int64)
    if m.domain.unmatched != "error":
        indices[np.flatnonzero(indices == len(m.domain.labels))[::2]] += 1
    return pa.array([*m.domain.labels, None, *unknown]).take(pa.array(indices))


def supported(m, reports) -> np.ndarray:
    """bool[n, d]: what each report supports."""
    native = m.reports.from_arrow(m._reports_as_arrow(reports))
    if native.ndim == 2:
        return m.reports.to_numpy(native)
    if isinstance(m, RandomizedResponse):
        return native[:, None] == np.arange(m.domain.size)
    return m.count_reports(native, np.arange(len(native)), len(native)).astype(bool)


def check_reports(m, *, keyed: bool = False) -> None:
    """Reports support values with the probabilities of `table_of`; of wide domains 7."""
    table = table_of(m)
    codes = np.unique([0, 1, 2, len(table) // 3, len(table) // 2, len(table) - 2, len(table) - 1])
    codes = codes[codes < len(table)]
    which = np.random.default_rng(0).permutation(ROWS) % len(codes)
    noise = Keyed(Secret.generate(), np.arange(ROWS), column="c") if keyed else None
    reports = m.perturb(values_of(m, codes[which]), packed=keyed, randomness=noise)
    check_marginals(which, supported(m, reports), table[codes])


def words(d: int, unmatched: str = "error") -> Domain:
    """``d`` texts, the last one of which may be all others."""
    return Domain([f"v{k}" for k in range(d - (unmatched == "other"))], unmatched=unmatched)


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
BIT_VECTORS = {
    "OUE d=3": KINDS["OUE"](words(3)),
    "OUE d=9 other": KINDS["OUE"](words(9, "other")),
    "OUE d=64 none": KINDS["OUE"](words(64, "none")),
    "OUE d=128": KINDS["OUE"](words(128)),
    "SUE d=8 none": KINDS["SUE"](words(8, "none")),
    "SUE d=16": KINDS["SUE"](words(16)),
    "SUE d=65 other": KINDS["SUE"](words(65, "other")),
    "custom d=8": KINDS["custom"](words(8)),
    "custom d=130 none": KINDS["custom"](words(130, "none")),
    "THE d=2": ThresholdHistogramEncoding([0, 1], epsilon=1.0),
    "THE d=9 none": ThresholdHistogramEncoding(Domain(range(9), unmatched="none"), epsilon=2.0),
    "THE d=64": ThresholdHistogramEncoding(range(64), epsilon=0.5),
    "THE d=130 other": ThresholdHistogramEncoding(words(130, "other"), epsilon=4.0),
    "SS d=2": SubsetSelection([0, 1], epsilon=1.0),
    "SS d=3 other": SubsetSelection(Domain([7, -3, 2**62], unmatched="other"), epsilon=1.0),
    "SS d=16 k=15": SubsetSelection(words(16), epsilon=2.0, k=15),
    "SS d=64": SubsetSelection(range(64), epsilon=4.0),
    "SS d=130 other": SubsetSelection(words(130, "other"), epsilon=0.5),
    "SS d=300 k=1": SubsetSelection(range(300), epsilon=3.0, k=1),
}
WORDS = {
    f"{name} {label}": LocalHashing(domain, epsilon=epsilon, variant=variant)
    for name, variant in {"OLH": "optimal", "BLH": "binary", "FLH": "fast"}.items()
    for label, domain, epsilon in [
        ("d=2", words(2), 1.0),
        ("d=16 none", Domain(range(16), unmatched="none"), 3.0),
        ("d=40 other", Domain(range(39), unmatched="other"), 2.0),
    ]
} | {
    "HR d=2": HadamardResponse([False, True], epsilon=1.0),
    "HR d=16 none": HadamardResponse(words(16, "none"), epsilon=3.0),
    "HR d=40 other": HadamardResponse(Domain(range(39), unmatched="other"), epsilon=0.5),
    "PGR d=100": ProjectiveGeometryResponse(range(100), epsilon=1.5),
    "PGR d=30 none": ProjectiveGeometryResponse(Domain(range(30), unmatched="none"), epsilon=1.0, field=5),
    "PGR d=12 other": ProjectiveGeometryResponse(words(12, "other"), epsilon=1.0, field=3),
}
PURE = RANDOMIZED | BIT_VECTORS | WORDS


AWKWARD = (
    [1e-6, math.nextafter(1e-6, 1), 0.1, 1 / 3, math.log(2), math.log(3), math.e, math.pi, 1, 2, 50]
    + [math.nextafter(1, 0), math.nextafter(1, 2), 2**-10, 44.361419555836498, 44.4, 45.0, 49.99999999999999]
    + [math.log(k) for k in (5, 7, 255, 256, 257, 2**32, 2**53)]
)
epsilons = st.one_of(
    st.floats(math.log(1e-6), math.log(50)).map(lambda x: min(max(math.exp(x), 1e-6), 50.0)), st.sampled_from(AWKWARD)
)
sizes = st.one_of(st.integers(2, 300), st.integers(2, 5000), st.sampled_from([2, 3, 4, 255, 256, 257, 5000]))
policies = st.sampled_from(["error", "other"])


def domain(d: int, unmatched: str = "error") -> Domain:
    """``d`` integers, the last one of which may be all others."""
    return Domain(range(d - (unmatched == "other")), unmatched=unmatched)


def spends_at_most(m, epsilon: float) -> bool:
    return exact_ln(m.worst_ratio()) <= Decimal(epsilon)


def as_threshold(p: Fraction) -> int:
    scaled = p * ONE
    assert scaled.denominator == 1, "not an integer over 2^64"
    assert 0 < scaled < ONE
    return int(scaled)


open_unit = st.one_of(
    st.floats(0, 1, exclude_min=True, exclude_max=True),
    st.floats(-40, -1e-9).map(math.exp).filter(lambda x: 0 < x < 1),
    st.floats(-36, -1).map(lambda x: 1 - math.exp(x)).filter(lambda x: 0 < x < 1),
)


def is_least_float_above(epsilon: float, ratio: Fraction) -> bool:
    return Decimal(math.nextafter(epsilon, 0)) < exact_ln(ratio) <= Decimal(epsilon)


def some_codes(m, n: int) -> np.ndarray:
    return np.random.default_rng(1).permutation(n) % (m.domain.size + (m.domain.unmatched == "none"))


def values_for(m, codes) -> pa.Array:
    return pa.array(codes, mask=codes == len(m.domain.labels) if m.domain.unmatched != "error" else None)


# ---- repeated runs

RUNS, N = 600, 200
COMMON = 60  # of N records hold the first value: a frequency of 0.3; the last value nobody holds


def runs_of(m: FrequencyOracle) -> np.ndarray:
    """float[RUNS, d]: estimated counts of repeated runs over the same records."""
    labels = list(m.domain.values)
    d = len(labels)
    of_run = np.zeros(N, np.int64)
    of_run[COMMON:] = 1 + np.arange(N - COMMON) % max(d - 2, 1) if d > 2 else 0
    values = np.tile(of_run, RUNS)
    given = [[label] for label in labels] if m.inputs.kind.startswith("list") else labels
    codes = values.astype(m.domain.code_dtype) if isinstance(m.inputs, Domain) else m.inputs.encode(given)[values]
    noise = Keystream()
    if m.memoized:  # each run is of other people
        noise = Keyed(Secret.generate(), np.arange(RUNS * N), column="x")
    reports = m.perturb_codes(codes, noise.bind(m.digest, codes))
    counts = m.count_reports(reports, np.repeat(np.arange(RUNS), N), RUNS)
    return m.debias(N, counts)[0]


def check_runs(m: FrequencyOracle, found: np.ndarray) -> None:
    """Mean and variance of the first value (frequency 0.3, or 1 where there are but two) and of the last (0)."""
    common = COMMON if m.domain.size > 2 else N
    for column, count in ((0, common), (-1, 0)):
        runs = found[:, column]
        variance = float(np.asarray(m.variance(N, count)))
        z = (runs.mean() - count) / np.sqrt(variance / RUNS)
        assert 2 * stats.norm.sf(abs(z)) > FALSE_ALARM, f"mean {runs.mean():.2f}, truth {count}: {z:.1f} errors"
        ratio = runs.var(ddof=1) / variance
        # Of a variance; the fourth moment of sums of N bounded terms is nearly normal, for which 10 % is left.
        low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], RUNS - 1) / (RUNS - 1)
        assert 0.9 * low < ratio < 1.1 * high, f"variance {runs.var(ddof=1):.1f}, promised {variance:.1f}"
