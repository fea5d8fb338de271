"""Reports whose sums alone leave: what Prio3 is told of them, what it refuses, and tallies of what it adds up.

`prio` is a program of others: circl, by Cloudflare, in Go (tests/bed/prio). It shards, proves, verifies, aggregates.
"""

import json
import math
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from ldp_core import (
    HadamardResponse,
    ParameterError,
    PrivacyPlan,
    PrivSet,
    RandomizedResponse,
    ReportError,
    StochasticRounding,
    SubsetSelection,
    Tally,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)
from ldp_core.reports import Value

from ..cases import each
from .checks import fails
from .examples import EVERY, noise_for, some_values

SUMMED = {
    "randomized_response",
    "unary_encoding",
    "threshold_histogram_encoding",
    "subset_selection",
    "privset",
    "longitudinal_unary_encoding",
    "longitudinal_randomized_response",
    "stochastic_rounding",
    "fake_data_column",
}


def vectors(m, reports):
    """What each client gives to Prio3, int64[n, length], of reports as `perturb` returns them."""
    if isinstance(m.reports, Value):
        return np.equal.outer(np.asarray(reports), np.asarray(m.reports.domain.labels)).astype(int)
    if not isinstance(reports, np.ndarray):
        reports = np.array(pa.array(reports).to_pylist())
    return reports.astype(int)


def test_sums_of_reports_are_the_tally_or_are_refused():
    found = set()
    for m in EVERY.values():
        try:
            vdaf = m.vdaf()
        except ParameterError:
            continue
        found.add(m.name)
        if m.name == "fake_data_column":  # which perturbs with its plan only: it is its inner one's
            assert vdaf == m.inner.vdaf()
            continue
        reports = m.perturb(some_values(m, 50), randomness=noise_for(m, 50))
        rows = vectors(m, reports)
        assert rows.shape == (50, vdaf.length)
        assert rows.sum(axis=1).max() <= vdaf.max_weight
        assert Tally.from_aggregate(50, rows.sum(axis=0).tolist(), m) == m.tally(reports)
    assert found == SUMMED


def check_limit(m, exact, false_alarm):
    """The limit is the least one for ``false_alarm``, and what is said of it is a bound, and near."""
    vdaf, above = m.vdaf(false_alarm=false_alarm), [*list(accumulate(exact[:0:-1]))[::-1], 0]
    assert above[vdaf.max_weight] <= Fraction(vdaf.false_alarm) <= Fraction(false_alarm)
    assert vdaf.false_alarm <= float(above[vdaf.max_weight]) * (1 + 1e-5)
    assert vdaf.max_weight == 1 or above[vdaf.max_weight - 1] * (1 + Fraction(1, 10**5)) > false_alarm


def law_of_ones(m, p_of_one):
    """Exactly: of d independent bits, one of which has the first probability."""
    law = [Fraction(1)]
    for x in [p_of_one, *m.support_probabilities()[1][1:]]:
        law = [a * (1 - x) + b * x for a, b in zip([*law, 0], [0, *law], strict=True)]
    return law


def test_the_limit_is_the_least_for_the_rate_of_honest_reports_that_are_refused():
    mechanisms = [UnaryEncoding(range(d), epsilon=e) for d in (2, 16, 60) for e in (0.5, 4.0)]
    mechanisms += [UnaryEncoding(range(16), epsilon=8.0, variant="symmetric", unmatched="none")]
    mechanisms += [ThresholdHistogramEncoding(range(30), epsilon=3.0)]
    for m in mechanisms:
        law = law_of_ones(m, m.support_probabilities()[0][0])
        for false_alarm in (1e-3, 1e-9, 1e-15):
            check_limit(m, law, false_alarm)
    m = UnaryEncoding(range(16), epsilon=8.0, variant="symmetric")
    planted = law_of_ones(m, m.support_probabilities()[1][0])  # the bit of the value as any other one
    fails(check_limit, m, planted, 1e-9)


def test_the_limit_is_at_most_the_published_one():
    # draft-wang-ppm-differential-privacy: of d - 1 bits that are 0, and one more for that of the value.
    for d in (16, 128, 1024):
        for epsilon in (1.0, 2.0, 4.0, 8.0):
            for variant in ("optimized", "symmetric"):
                m = UnaryEncoding(range(d), epsilon=epsilon, variant=variant)
                for false_alarm in (1e-6, 1e-9):
                    published = int(stats.binom.isf(false_alarm, d - 1, m.q)) + 1
                    assert published - 1 <= m.vdaf(false_alarm=false_alarm).max_weight <= published
    assert UnaryEncoding(range(16), epsilon=4.0).vdaf().max_weight == 8


def test_reports_with_a_fixed_number_of_ones_are_never_refused():
    for m in (SubsetSelection(range(40), epsilon=1.0), PrivSet(range(20), epsilon=1.0, most=3)):
        assert (m.vdaf().max_weight, m.vdaf().false_alarm) == (m.k, 0.0)
    assert PrivSet(range(20), epsilon=1.0, most=3).vdaf().length == 23


def test_a_chunk_is_the_one_of_the_shortest_proof():
    def elements(proved, chunk):  # draft-irtf-cfrg-vdaf: PROOF_LEN of a ParallelSum of Mul
        calls = math.ceil(proved / chunk)
        return 2 * chunk + 2 * (2 ** math.ceil(math.log2(1 + calls)) - 1) + 1

    for d in [*range(2, 70), 1000, 4097]:
        vdaf = RandomizedResponse(range(d), epsilon=1.0).vdaf()
        proved = vdaf.length
        assert elements(proved, vdaf.chunk_length) == min(elements(proved, c) for c in range(1, proved + 1))


def test_a_description_is_that_of_the_draft():
    m = UnaryEncoding(range(16), epsilon=4.0)
    assert m.vdaf("Prio3SumVec").to_dict() == {"type": "Prio3SumVec", "length": 16, "bits": 1, "chunk_length": 6}
    histogram = RandomizedResponse(range(16), epsilon=4.0).vdaf().to_dict()
    assert histogram == {"type": "Prio3Histogram", "length": 16, "chunk_length": 6}
    assert StochasticRounding((0, 1), epsilon=4.0, buckets=16).vdaf() == m.vdaf()
    for bad in ("Prio3Histogram", "Prio3Sum", 3):
        with pytest.raises(ParameterError, match=r"name must be .*Prio3SumVec"):
            m.vdaf(bad)
    with pytest.raises(ParameterError, match="false_alarm"):
        m.vdaf(false_alarm=0.0)
    with pytest.raises(ParameterError, match="hadamard_response are neither"):
        HadamardResponse(range(4), epsilon=1.0).vdaf()
    with pytest.raises(ParameterError, match='name must be "Prio3Histogram", got'):
        RandomizedResponse(epsilon=1.0).vdaf("Prio3SumVec")


@each(
    ("n", "result", "match"),
    [
        (10, [1, 2], "3 sums, got 2"),
        (10, [1, 2, 3, 4], "3 sums, got 4"),
        (10, [[1, 2, 3]], "integers"),
        (10, [[1], [2, 3]], "integers"),
        (10, [], "3 sums, got 0"),
        (10, [1.0, 2.0, 3.0], "integers"),
        (10, ["1", "2", "3"], "integers"),
        (10, [1, 2, 1 << 70], "integers"),
        (10, [1, 2, (1 << 64) - 1], "integers"),
        (10, None, "list"),
        (10, [1, 2, 11], "cannot be those of 10 reports"),
        (10, [1, 2, -1], "cannot be those of 10 reports"),
        (-1, [0, 0, 0], "n must be"),
        (True, [0, 0, 0], "n must be"),
        (10.0, [1, 2, 3], "n must be"),
        (None, [1, 2, 3], "n must be"),
        (0, [0, 0, 1], "counts nothing"),
    ],
)
def test_an_aggregate_that_no_reports_have_is_refused(n, result, match):
    for m in (UnaryEncoding(range(3), epsilon=1.0), SubsetSelection(range(3), epsilon=1.0)):
        with pytest.raises(ReportError, match=match if m.name == "unary_encoding" else None):
            Tally.from_aggregate(n, result, m)


def test_an_aggregate_of_a_fixed_number_of_ones_has_its_total():
    m = SubsetSelection(range(9), epsilon=1.0)
    sums = vectors(m, m.perturb(list(range(9)) * 5)).sum(axis=0)
    assert Tally.from_aggregate(45, sums, m).n == 45
    for n, given in ((45, sums - np.eye(9, dtype=int)[0]), (46, sums)):
        with pytest.raises(ReportError, match="must add up to"):
            Tally.from_aggregate(n, given, m)
    with pytest.raises(ParameterError, match="neither"):
        Tally.from_aggregate(3, [1, 2], HadamardResponse(range(2), epsilon=1.0))
    for other in (PrivacyPlan({"x": m}), None, "unary_encoding"):
        with pytest.raises(ParameterError, match=r"mechanism must be .*: plan\[column\]"):
            Tally.from_aggregate(3, [1, 2], other)


# ---- through the Prio3 of others


@pytest.fixture(scope="module")
def prio(tmp_path_factory):
    """Function of a `Vdaf`, vectors and vectors of lying clients: what the program says."""
    go, source = shutil.which("go"), Path(__file__).parents[1] / "bed" / "prio"
    if go is None:
        pytest.skip("needs Go: https://go.dev/dl")
    quiet = {"cwd": source, "capture_output": True, "text": True, "timeout": 300}
    had = subprocess.run([go, "mod", "download"], check=False, **quiet)
    if had.returncode:
        pytest.skip(f"the module circl cannot be had: {had.stderr[-300:]}")
    program = tmp_path_factory.mktemp("prio") / "prio"
    subprocess.run([go, "build", "-o", program, "."], cwd=source, check=True, timeout=500)

    def run(vdaf, rows, lies=()):
        task = {"vdaf": vdaf.to_dict(), "reports": np.asarray(rows).tolist(), "lies": np.asarray(lies).tolist()}
        done = subprocess.run(
            [program], input=json.dumps(task), capture_output=True, text=True, check=True, timeout=120
        )
        return json.loads(done.stdout)

    return run


@pytest.mark.dap
def test_aggregates_of_others_are_our_tallies(prio):
    mechanisms = [UnaryEncoding(range(d), epsilon=4.0) for d in (16, 100)]
    mechanisms += [
        UnaryEncoding(range(16), epsilon=6.0, variant="symmetric"),
        ThresholdHistogramEncoding(range(20), epsilon=2.0),
        SubsetSelection(range(16), epsilon=1.0),
        PrivSet(range(12), epsilon=1.0, most=3),
        RandomizedResponse(["a", "b", "c"], epsilon=1.0),
        RandomizedResponse(epsilon=1.0),
        StochasticRounding((0, 10), epsilon=2.0, buckets=6),
    ]
    for m in mechanisms:
        reports = m.perturb(some_values(m, 40))
        rows = vectors(m, reports)
        for name in [None, "Prio3SumVec"][: 1 if isinstance(m.reports, Value) else 2]:
            got = prio(m.vdaf(name), rows)
            assert (got["n"], got["refused"]) == (40, {})
            assert Tally.from_aggregate(got["n"], got["aggregate"], m) == m.tally(reports)


@pytest.mark.dap
def test_the_proof_refuses_a_report_with_more_ones_than_the_limit(prio):
    # A client that lies has a valid proof, of a limit of 15. Nobody but the servers stops it.
    m = UnaryEncoding(range(15), epsilon=3.0)
    reports, lies = m.perturb(list(range(15)) * 2), np.ones((3, 15), int)
    vdaf = m.vdaf()
    assert 8 <= vdaf.max_weight < 15
    got = prio(vdaf, vectors(m, reports), lies)
    assert got["refused"] == {"servers: proof verifier check failed": 3}
    assert Tally.from_aggregate(got["n"], got["aggregate"], m) == m.tally(reports)
    honest = prio(vdaf, lies)["refused"]  # and the program of an honest client does not send it
    assert list(honest.values()) == [3]
    assert "client" in next(iter(honest))
    # Nothing but the limit refuses it: without one it counts.
    for other in (replace(vdaf, max_weight=15), m.vdaf("Prio3SumVec")):
        got = prio(other, vectors(m, reports), lies)
        assert (got["n"], got["refused"]) == (33, {})
        assert got["aggregate"] == (m.tally(reports).counters + 3).tolist()


@pytest.mark.dap
def test_the_sizes_of_the_page(prio):
    names = ("Prio3MultihotCountVec", "Prio3SumVec")
    for d, sizes in ((16, (816, 720)), (128, (3072, 2992)), (1024, (18736, 18640))):
        m = UnaryEncoding(range(d), epsilon=4.0)
        one = vectors(m, m.perturb([3]))
        assert tuple(sum(prio(m.vdaf(name), one)["bytes"].values()) for name in names) == sizes
