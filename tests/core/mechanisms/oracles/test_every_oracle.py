"""Every frequency oracle through its own sampler: repeated runs are unbiased and have the variance that is promised.

At a frequency of 0 and of 0.3: of R runs of n reports each, the mean of the estimates is within the error of a mean of
the truth, and their variance within that of a variance of the closed form.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ldp_core import (
    BlockHadamardResponse,
    CountMeanSketch,
    FakeDataColumn,
    FrequencyOracle,
    HadamardCountMeanSketch,
    HadamardResponse,
    HybridProjectiveGeometryResponse,
    Keyed,
    Keystream,
    LocalHashing,
    Mechanism,
    ProjectiveGeometryResponse,
    SampledColumn,
    Secret,
)
from ldp_core.mechanisms.sketches._rappor_candidates import RapporCandidates

from ....cases import each
from ...checks import FALSE_ALARM, check_rows_independent, exact_exp
from ...examples import ORACLES
from .helpers import FORMS, KINDS, PURE, RANDOMIZED, check_reports, supported, table_of

RUNS, N = 600, 300
COMMON = 90  # of N records hold the first value: a frequency of 0.3; the last value nobody holds


def estimates(m: FrequencyOracle, estimator: FrequencyOracle | None = None) -> np.ndarray:
    """float[RUNS, d]: estimated counts of repeated runs over the same records."""
    estimator = m if estimator is None else estimator
    labels = list(estimator.domain.values)
    d = len(labels)
    of_run = np.zeros(N, np.int64)
    of_run[COMMON:] = 1 + np.arange(N - COMMON) % max(d - 2, 1) if d > 2 else 0
    values = np.tile(of_run, RUNS)
    codes = m.inputs.encode([labels[v] for v in range(d)])[values]
    noise = Keystream()
    if m.memoised:  # each run is of other people
        noise = Keyed(Secret.generate(), np.arange(RUNS * N), column="x")
    reports = m.perturb_codes(codes, noise.bind(m.digest, codes))
    counts = m.count_reports(reports, np.repeat(np.arange(RUNS), N), RUNS)
    return estimator.debias(N, counts)[0]


def check(m: FrequencyOracle, found: np.ndarray) -> None:
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


@each("name", ORACLES)
def test_runs_are_unbiased_and_vary_as_promised(name):
    """And the check has power: a bias, and more noise than promised, of the same runs are found."""
    m = ORACLES[name]
    found = estimates(m)
    check(m, found)
    with pytest.raises(AssertionError, match="mean"):
        check(m, found + 0.35 * np.sqrt(m.variance(N, 0)))
    with pytest.raises(AssertionError, match="variance"):
        check(m, found.mean(axis=0) + 1.35 * (found - found.mean(axis=0)))


MADE = {
    "HR": lambda d, e: HadamardResponse(range(d), epsilon=e),
    "BHR": lambda d, e: BlockHadamardResponse(range(d), epsilon=e),
    "BHR, a value a block": lambda d, e: BlockHadamardResponse(range(d), epsilon=e, blocks=d),
    **{v: lambda d, e, v=v: LocalHashing(range(d), epsilon=e, variant=v) for v in ("optimal", "binary", "fast")},
    **{f"PGR {f}": lambda d, e, f=f: ProjectiveGeometryResponse(range(d), epsilon=e, field=f) for f in (None, 2, 31)},
    "HPGR": lambda d, e: HybridProjectiveGeometryResponse(range(d), epsilon=e),
    "HCMS": lambda d, e: HadamardCountMeanSketch(epsilon=e, hashes=3),
    **{v: lambda d, e, v=v: CountMeanSketch(epsilon=e, hashes=3, variant=v) for v in ("optimized", "symmetric")},
}


@given(st.integers(2, 3000), st.floats(1e-6, 200), st.sampled_from(sorted(MADE)))
@settings(max_examples=200)
def test_epsilon_is_never_above_the_one_asked_for(d, epsilon, name):
    m = MADE[name](d, epsilon)
    assert exact_exp(min(epsilon, 30) * 0.99) < m.worst_ratio() <= exact_exp(epsilon)


def test_every_oracle_that_is_registered_is_here():
    """A mechanism joins `ORACLES` in `tests/core/examples.py`, and thereby these checks, or has a reason not to.

    One column of several is not perturbed alone; RAPPOR's estimates are a regression's, and not of one value alone;
    the variance of the hybrid response is that of an even population. They have such checks in their own files.
    """
    elsewhere = {SampledColumn, FakeDataColumn, RapporCandidates, HybridProjectiveGeometryResponse}
    made = {type(m) for m in ORACLES.values()} | elsewhere
    kinds = {kind for kind in Mechanism._registry.values() if issubclass(kind, FrequencyOracle)}
    assert {kind for kind in kinds if kind.__module__.startswith("ldp_core")} == made


@each("keyed", [False, True])
@each("name", PURE)
def test_reports_support_values_as_they_should(name, keyed):
    """Of values in each form, by turns."""
    check_reports(PURE[name], FORMS[(list(PURE).index(name) + keyed) % len(FORMS)], keyed=keyed)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PURE)
def test_many_reports_of_values_in_all_forms(name, form):
    check_reports(PURE[name], form, rows=300_000)


@pytest.mark.fresh(false_alarms=2e-8)  # two counts, each within 5.7 standard errors
@pytest.mark.parametrize("m", [RANDOMIZED["warner"], RANDOMIZED["d=16"], KINDS["OUE"](range(16))], ids=lambda m: m.name)
def test_two_calls_draw_independent_noise(m):
    codes = np.ones(250_000, m.domain.code_dtype)
    values = m.domain.decode(codes)
    a, b = (supported(m, m.perturb(values)) for _ in range(2))
    both = np.empty((2 * len(a), a.shape[1]), bool)
    both[::2], both[1::2] = a, b  # neighbours are the two reports of one record
    check_rows_independent(both[:, 1:2], table_of(m)[1, 1:2])
