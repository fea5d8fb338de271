"""Reports have the declared probabilities and estimates are unbiased, on every engine and dtype.

Every check also runs against a planted fault, which it must detect.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy import stats

import ldp_polars
from ldp_core import Domain, RandomizedResponse, UnaryEncoding

from ..cases import case
from .helpers import some

N = 200_000
LABELS = ["ios", "android", "web", "tv"]
FAULTS = {False: "sound", True: "planted fault"}


def make(kind, domain, epsilon):
    """A mechanism of a kind; where a fault is planted, the reports come from one with another epsilon."""
    if kind == "coins":
        return RandomizedResponse.from_coins(domain, truth=0.5 * epsilon, yes=0.3)
    if kind == "rr":
        return RandomizedResponse(domain, epsilon=epsilon)
    if kind == "p q":
        return UnaryEncoding.from_probabilities(domain, p=0.6 * epsilon, q=0.2)
    return UnaryEncoding(domain, epsilon=epsilon, variant=kind)


CASES = {
    "rr bool": ("rr", Domain([False, True]), pl.Boolean),
    "coins bool": ("coins", Domain([False, True]), pl.Boolean),
    "coins str": ("coins", Domain(["no", "yes"]), pl.Categorical),
    "rr string": ("rr", Domain(LABELS), pl.String),
    "rr categorical other": ("rr", Domain(LABELS, unmatched="other"), pl.Categorical),
    "rr enum": ("rr", Domain(LABELS), pl.Enum(["zz", *LABELS[::-1]])),
    "rr int": ("rr", Domain(range(10)), pl.Int16),
    "rr int sparse": ("rr", Domain([5, -2, 900]), pl.Int64),
    "oue string": ("optimized", Domain(LABELS), pl.String),
    "oue enum none": ("optimized", Domain(LABELS, unmatched="none"), pl.Enum([*LABELS, "zz"])),
    "oue int d=70": ("optimized", Domain(range(70)), pl.UInt8),
    "oue int128": ("optimized", Domain(range(9)), pl.Int128),
    "sue categorical other": ("symmetric", Domain(LABELS, unmatched="other"), pl.Categorical),
    "sue bool": ("symmetric", Domain([True, False]), pl.Boolean),
    "p q uint64": ("p q", Domain(range(5)), pl.UInt64),
}


FAULTY = {"coins": 1.5, "p q": 1.4}


@lru_cache(maxsize=1)
def data(domain, dtype, n=N):
    """Values (geometric frequencies; nulls where the domain allows), their codes, and true counts."""
    k = len(domain.labels)
    labels = [*domain.labels, *([None] if domain.unmatched != "error" else [])]
    weights = 0.7 ** np.arange(len(labels))
    codes = np.random.default_rng(7).choice(len(labels), n, p=weights / weights.sum())
    by_code = pl.Series(labels, dtype=pl.String if domain.kind == "str" else None)
    values = by_code.gather(codes).cast(dtype)
    counts = np.bincount(codes, minlength=k + 1)[: domain.size]
    return pl.DataFrame({"x": values, "code": codes}), counts


def fractions(mechanism):
    return (np.array([float(f) for f in side]) for side in mechanism.support_probabilities())


def too_far(estimates, counts, mechanism, n=N):
    """Whether an estimate is further than 6 standard errors (of the true counts) from the truth."""
    p, q = fractions(mechanism)
    error = np.sqrt(counts * p * (1 - p) + (n - counts) * q * (1 - q)) / (p - q)
    return bool(np.any(np.abs(estimates - counts) > 6 * error))


def reports_and_checks(run, unlikely, name, actual, *, packed=False):
    """Of reports of another mechanism: whether estimates are too far, and whether marginals are unlikely.

    The marginals are every cell (true value, supported value), by an exact binomial.
    """
    kind, domain, dtype = CASES[name]
    mechanism = make(kind, domain, 1.0)
    df, counts = data(domain, dtype)
    noise = ldp_polars.perturb("x", actual, packed=packed, typed=False)
    out = run(df, lambda f: f.select("code", r=noise))
    h = out.select(ldp_polars.histogram("r", mechanism)).explode("r").unnest("r")
    p, q = fractions(mechanism)
    tallies = out.group_by("code").agg(ldp_polars.tally("r", mechanism).struct.unnest())
    seen = np.array(tallies["counters"].to_list())
    expected = np.where(np.arange(domain.size) == tallies["code"].to_numpy()[:, None], p, q)
    far = too_far(h["count"].to_numpy(), counts, mechanism)
    return far, unlikely(seen, tallies["n"].to_numpy()[:, None], expected)


def test_estimates_are_within_six_standard_errors_and_marginals_are_p_and_q(run, unlikely):
    for name, (kind, domain, _) in CASES.items():
        mechanism = make(kind, domain, 1.0)
        for packed in (False, True) if isinstance(mechanism, UnaryEncoding) else (False,):
            with case(name, packed):
                assert reports_and_checks(run, unlikely, name, mechanism, packed=packed) == (False, False)


@pytest.mark.parametrize("engine", some(["eager", "streaming"], "streaming"))
@pytest.mark.filterwarnings("ignore::ldp_core.LdpWarning")  # no honest reports
def test_reports_of_another_epsilon_are_too_far(run, unlikely):
    """The checks have power."""
    for name, (kind, domain, _) in CASES.items():
        with case(name):
            assert reports_and_checks(run, unlikely, name, make(kind, domain, FAULTY.get(kind, 2.0)))[0]
            assert reports_and_checks(run, unlikely, name, make(kind, domain, 1.15))[1]


def test_neighboring_rows_are_uncorrelated(run, unlikely):
    """For a constant column: how often rows 2i and 2i + 1 agree that a value is supported."""
    for name in ("rr bool", "rr string", "rr int", "oue string", "sue bool"):
        kind, domain, dtype = CASES[name]
        mechanism = make(kind, domain, 1.0)
        df = pl.Series("x", [domain.labels[0]], dtype=dtype).new_from_index(0, N).to_frame()
        reports = run(df, lambda f, m=mechanism: f.select(ldp_polars.perturb("x", m, typed=False)))["x"]
        if reports.dtype == pl.Array:
            supported = reports.arr.first().to_numpy()
        else:
            supported = (reports.cast(pl.String) == domain.texts[0]).to_numpy()
        repeated = supported.copy()
        repeated[1::40] = repeated[0::40]  # the fault: one draw in twenty repeated
        p = mechanism.support_probabilities()[0][0]
        agree = float(p * p + (1 - p) * (1 - p))
        for seen, fault in ((supported, False), (repeated, True)):
            k = [(seen[0::2] == seen[1::2]).sum(), (seen[1:-1:2] == seen[2::2]).sum()]
            with case(name, FAULTS[fault]):
                assert unlikely(k, [N // 2, N // 2 - 1], agree) is fault


def test_bits_of_a_row_are_uncorrelated(run, unlikely):
    mechanism = UnaryEncoding(range(6), epsilon=1.0)
    noise = ldp_polars.perturb("x", mechanism, typed=False)
    bits = run(pl.DataFrame({"x": np.zeros(N, int)}), lambda f: f.select(noise))["x"].to_numpy()
    faulty = bits.copy()
    faulty[::20, 2] = faulty[::20, 1]
    p = np.array([mechanism.p] + [mechanism.q] * 5)
    pairs = [(i, j) for i in range(6) for j in range(i)]
    for seen, fault in ((bits, False), (faulty, True)):
        both = [int((seen[:, i] & seen[:, j]).sum()) for i, j in pairs]
        with case(FAULTS[fault]):
            assert unlikely(both, N, [p[i] * p[j] for i, j in pairs]) is fault


def test_groups_are_estimated_each_by_itself(run):
    """Five groups of different distributions; the fault takes the neighbor's reports."""
    rng = np.random.default_rng(3)
    group = rng.integers(0, 5, N)
    code = (group + rng.geometric(0.6, N)) % 4
    df = pl.DataFrame({"x": np.array(LABELS)[code], "g": group})
    for kind, fault in product(("rr", "optimized"), FAULTS):
        mechanism = make(kind, Domain(LABELS), 2.0)
        noise = ldp_polars.perturb("x", mechanism, typed=False)
        seen = (pl.col("g") + 1) % 5 if fault else pl.col("g")
        histogram = ldp_polars.histogram("x", mechanism)
        reports = run(df, lambda f, noise=noise: f.with_columns(noise))
        out = run(reports, lambda f, by=seen, histogram=histogram: f.group_by(by).agg(histogram))
        far = []
        for g, h in out.iter_rows():
            truth = np.bincount(code[group == g], minlength=4)
            far.append(too_far(np.array([row["count"] for row in h]), truth, mechanism, truth.sum()))
        with case(kind, FAULTS[fault]):
            assert len(far) == 5
            assert any(far) is fault


def exact_coverage(mechanism, n, counts) -> np.ndarray:
    """How often intervals of counts hold these: by the distribution of a support count, a sum of two binomials."""
    support = np.repeat(np.arange(n + 1)[:, None], mechanism.domain.size, axis=1)
    _, _, low, high = mechanism.debias(n, support)
    p, q = fractions(mechanism)
    probabilities = [
        np.convolve(stats.binom.pmf(np.arange(c + 1), c, p[v]), stats.binom.pmf(np.arange(n - c + 1), n - c, q[v]))
        for v, c in enumerate(counts)
    ]
    return (np.transpose(probabilities) * (low <= counts) * (counts <= high)).sum(axis=0)


@pytest.mark.slow
def test_intervals_cover(unlikely):
    """Of 2000 repetitions as many as the exact distribution says, which is nearly 95 %."""
    for name, (kind, domain, dtype) in CASES.items():
        mechanism = make(kind, domain, 1.0)
        df, counts = data(domain, dtype, 5000)
        repeated = pl.concat([df] * 100).with_columns(g=np.arange(500_000) // 5000)
        covered = np.zeros(domain.size, int)
        for _ in range(20):
            reports = repeated.select("g", ldp_polars.perturb("x", mechanism, typed=False))
            h = reports.group_by("g").agg(ldp_polars.histogram("x", mechanism)).explode("x").unnest("x")
            low, high = (h[end].to_numpy().reshape(100, -1) for end in ("low", "high"))
            covered += ((low <= counts) & (counts <= high)).sum(axis=0)
        coverage = exact_coverage(mechanism, 5000, counts)
        with case(name):
            assert np.abs(coverage - 0.95).max() < 0.01
            assert not unlikely(covered, 2000, coverage)
