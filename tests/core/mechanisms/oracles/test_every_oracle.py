"""Every frequency oracle through its own sampler: repeated runs are unbiased and have the variance that is promised.

At a frequency of 0 and of 0.3: of R runs of n reports each, the mean of the estimates is within the error of a mean of
the truth, and their variance within that of a variance of the closed form.
"""

import numpy as np
import pytest

from ldp_core import (
    Domain,
    FakeDataColumn,
    FrequencyOracle,
    HadamardResponse,
    HybridProjectiveGeometryResponse,
    Mechanism,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    SampledColumn,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)
from ldp_core.mechanisms.sketches.rappor import RapporCandidates
from ldp_core.plans.pairs import SampledPair

from ....cases import each
from ...checks import check_rows_independent
from ...enumeration import check_oracle
from ...examples import ORACLES
from .helpers import (
    KINDS,
    PURE,
    RANDOMIZED,
    N,
    check_reports,
    check_runs,
    domain,
    runs_of,
    supported,
    table_of,
    values_of,
)


@each("name", ORACLES)
@pytest.mark.slow
def test_runs_are_unbiased_and_vary_as_promised(name):
    """And the check has power: a bias, and more noise than promised, of the same runs are found."""
    m = ORACLES[name]
    found = runs_of(m)
    check_runs(m, found)
    with pytest.raises(AssertionError, match="mean"):
        check_runs(m, found + 0.35 * np.sqrt(m.variance(N, 0)))
    with pytest.raises(AssertionError, match="variance"):
        check_runs(m, found.mean(axis=0) + 1.35 * (found - found.mean(axis=0)))


def test_every_oracle_that_is_registered_is_here():
    """A mechanism joins `ORACLES` in `tests/core/examples.py`, and thereby these checks, or has a reason not to.

    One column of several is not perturbed alone; RAPPOR's estimates are a regression's, and not of one value alone;
    the variance of the hybrid response is that of an even population. They have such checks in their own files.
    """
    elsewhere = {SampledColumn, SampledPair, FakeDataColumn, RapporCandidates, HybridProjectiveGeometryResponse}
    made = {type(m) for m in ORACLES.values()} | elsewhere
    kinds = {kind for kind in Mechanism._registry.values() if issubclass(kind, FrequencyOracle)}
    assert {kind for kind in kinds if kind.__module__.startswith("ldp_core")} == made


@each("name", PURE)
@pytest.mark.slow
def test_reports_support_values_as_they_should(name):
    """Under fresh and keyed noise, in both layouts."""
    check_reports(PURE[name], keyed=list(PURE).index(name) % 4 == 0)


ROWS_OF = ["warner", "coins", "d=16", "d=300", "SS d=64", "THE d=64", "HR d=16 none", "PGR d=30 none"] + [
    f"{variant} d=16 none" for variant in ("OLH", "BLH", "FLH")
]


@each("name", ROWS_OF)
def test_rows_are_independent(name):
    """Of one value: whether they support it, and another one."""
    m = PURE[name]
    bits, table = supported(m, m.perturb(values_of(m, np.ones(100_000, np.int64)))), table_of(m)
    for v in (0, 1):
        check_rows_independent(bits[:, v : v + 1], table[1, v : v + 1])


@pytest.mark.fresh(false_alarms=2e-8)  # two counts, each within 5.7 standard errors
@pytest.mark.parametrize("m", [RANDOMIZED["warner"], RANDOMIZED["d=16"], KINDS["OUE"](range(16))], ids=lambda m: m.name)
def test_two_calls_draw_independent_noise(m):
    codes = np.ones(250_000, m.domain.code_dtype)
    values = m.domain.decode(codes)
    a, b = (supported(m, m.perturb(values)) for _ in range(2))
    both = np.empty((2 * len(a), a.shape[1]), bool)
    both[::2], both[1::2] = a, b  # neighbors are the two reports of one record
    check_rows_independent(both[:, 1:2], table_of(m)[1, 1:2])


# ---- every report, through the code that perturbs


COINS = [(0.5, 0.5), (0.25, 0.5), (0.5, 0.25), (0.5, 0.75), (0.2, 0.5), (0.99, 0.9), (0.01, 0.3)]
BITS = (UnaryEncoding, ThresholdHistogramEncoding)
HADAMARD = [(2, "error"), (3, "other"), (3, "none"), (4, "error"), (4, "none"), (7, "error"), (8, "none"), (9, "other")]
SPACES = [(2, 2, "error"), (2, 3, "none"), (3, 3, "other"), (2, 7, "error"), (3, 12, "none"), (5, 6, "error")]
ENUMERATED = {
    **{f"warner {e}": RandomizedResponse(epsilon=e) for e in (1e-6, 1, 50)},
    **{f"grr d={d} {e}": RandomizedResponse(range(d), epsilon=e) for d in (2, 3, 4) for e in (1e-6, 1, 50)},
    **{f"grr other {d}": RandomizedResponse(domain(d, "other"), epsilon=1.5) for d in (2, 3, 4)},
    **{f"coins {t}, {y}": RandomizedResponse.from_coins(truth=t, yes=y) for t, y in COINS},
    "coins with other": RandomizedResponse.from_coins(Domain(["no"], unmatched="other"), truth=0.4, yes=0.3),
    **{
        f"{v} d={d} {u} {e}": UnaryEncoding(domain(d, u), epsilon=e, variant=v)
        for v in ("optimized", "symmetric")
        for d, u, e in [(2, "error", 1e-6), (2, "none", 1), (3, "none", 50), (4, "other", 1), (4, "error", 3)]
    },
    **{
        f"p={p} q={q} {u}": UnaryEncoding.from_probabilities(domain(3, u), p=p, q=q)
        for p, q in [(0.75, 0.25), (0.9, 0.01), (0.02, 0.01), (0.999, 0.99)]
        for u in ("error", "none")
    },
    **{
        f"THE d={d} {u} {e} {theta}": ThresholdHistogramEncoding(domain(d, u), epsilon=e, theta=theta)
        for d, u in [(2, "error"), (3, "other"), (3, "none"), (4, "error")]
        for e, theta in [(1e-6, None), (1.0, None), (1.0, 0.5), (3.0, 1.0), (80.0, None)]
    },
    **{f"HR {d} {u} {e}": HadamardResponse(domain(d, u), epsilon=e) for d, u in HADAMARD for e in (1e-6, 1.0, 50.0)},
    **{
        f"PGR {field} {d} {u} {e}": ProjectiveGeometryResponse(domain(d, u), epsilon=e, field=field)
        for field, d, u in SPACES
        for e in (1e-6, 1.0, 40.0)
    },
}


@each("name", ENUMERATED)
@pytest.mark.slow
def test_probabilities_and_ratios_over_all_reports(name):
    m, d = ENUMERATED[name], ENUMERATED[name].domain.size
    if isinstance(m, BITS):
        check_oracle(m, seen=d, reports=1 << d)
    else:
        check_oracle(m, reports=d if isinstance(m, RandomizedResponse) else m.reports.limit)


# acceptance.json, "hadamard_response": epsilon, p, q, n Var at f = 0
KNOWN = [
    (0.5, 0.6224593312018546, 0.5, 16.67079235613105),
    (1.0, 0.7310585786300049, 0.5, 4.682694376831169),
    (2.0, 0.8807970779778824, 0.5, 1.7240616609663106),
]


@each(("epsilon", "p", "q", "n_var"), KNOWN)
@each("d", [2, 16, 128])
def test_known_answers_of_hadamard_response(epsilon, p, q, n_var, d):
    m = HadamardResponse(range(d), epsilon=epsilon)
    assert (m.p, m.q, m.variance(1)) == tuple(pytest.approx(x, rel=1e-12) for x in (p, q, n_var))
    assert m.realized_epsilon == pytest.approx(epsilon, rel=1e-12)
