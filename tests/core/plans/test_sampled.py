"""One column of several, sampled: estimates over everything that can happen, and reports of nothing."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    CountMeanSketch,
    FakeDataColumn,
    ParameterError,
    PrivacyPlan,
    ReportError,
    SampledColumn,
    Secret,
    SummationHistogramEncoding,
    Tally,
    UnaryEncoding,
)
from ldp_core.estimates.histogram import HistogramEstimate

from ..examples import LABELS
from .helpers import AB, grr, oue


def test_sampled_variance_by_counting_all_samples_and_reports():
    """n = 4 records, m of them answer: mean and variance of the estimate over everything that can happen, exactly."""
    p, q, n, truth = Fraction(3, 4), Fraction(1, 4), 4, (1, 1, 1, 0)
    m = SampledColumn(UnaryEncoding.from_probabilities(AB, p=0.75, q=0.25), columns=2)
    assert m.support_probabilities() == ([p, p], [q, q])
    for answers in (1, 2, 3, 4):
        mean = square = Fraction(0)
        samples = list(itertools.combinations(truth, answers))
        for sample in samples:
            for support in itertools.product((0, 1), repeat=answers):
                weight = Fraction(1, len(samples))
                for true, seen in zip(sample, support, strict=True):
                    one = p if true else q
                    weight *= one if seen else 1 - one
                estimate = Fraction(n, answers) * (sum(support) - answers * q) / (p - q)
                mean += weight * estimate
                square += weight * estimate**2
        assert mean == sum(truth)
        assert square - mean**2 == variance_given(n, answers, sum(truth), p, q)
        for support in range(answers + 1):
            counts, errors, low, high = (
                array[0] for array in m.debias(n, np.array([answers, support, answers - support]), confidence=0.9)
            )
            assert counts == pytest.approx(float(Fraction(n, answers) * (support - answers * q) / (p - q)))
            inside = Fraction(min(max(counts, 0), n))
            assert errors**2 == pytest.approx(float(variance_given(n, answers, inside, p, q)))
            for end in (low, high):  # the score interval's ends, at z of their own standard errors
                own = float(variance_given(n, answers, Fraction(end), p, q))
                assert (counts - end) ** 2 == pytest.approx(1.6448536269514722**2 * own)


def variance_given(n, m, c, p, q) -> Fraction:
    """Variance of an estimate given m answers, from first principles: noise, and a sample without replacement."""
    f = Fraction(c) / n
    noise = m * (f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2
    people = m * f * (1 - f) * Fraction(n - m, n - 1)
    return Fraction(n, m) ** 2 * (noise + people)


@pytest.mark.filterwarnings("ignore::ldp_core.LdpWarning")  # no honest reports
def test_estimates_of_nothing():
    m = SampledColumn(grr(AB), columns=2)
    empty = m.estimate(m.empty_tally())
    assert empty.counts.tolist() == empty.standard_errors.tolist() == [0, 0]
    nobody = m.estimate(m.tally(pa.nulls(3, m.reports.arrow_type())))
    assert nobody.n == 3
    assert np.isnan([nobody.counts, nobody.standard_errors, nobody.low, nobody.high]).all()
    nobody = m.estimate(m.tally(pa.nulls(3, m.reports.arrow_type())), consistency="norm-sub")
    assert np.isnan([nobody.counts, nobody.standard_errors, nobody.low, nobody.high]).all()
    several = np.array([[0, 0, 0], [4, 3, 1], [0, 0, 0]])
    table, _ = HistogramEstimate(consistency="norm-sub").rows(m, np.array([5, 8, 0]), several)
    counts = table["count"].to_numpy().reshape(3, 2)
    assert np.isnan(counts[0]).all()
    assert counts[1].sum() == pytest.approx(8)
    assert counts[2].tolist() == [0, 0]
    everybody = m.estimate(m.tally(pa.array(AB * 50)))
    assert everybody.counts.tolist() == grr(AB).estimate(grr(AB).tally(pa.array(AB * 50))).counts.tolist()
    assert everybody.standard_errors == pytest.approx(
        grr(AB).estimate(grr(AB).tally(pa.array(AB * 50))).standard_errors
    )


def test_reports_that_are_none_are_refused():
    m = SampledColumn(oue(range(3)), columns=2)
    nothing, both = [None] * 3, [True, None, True]
    bits = pa.list_(pa.bool_(), 3)
    for wrong in (pa.array([1, None]), *(pa.array([both, other], bits) for other in (None, nothing, [True] * 3))):
        with pytest.raises(ReportError):
            m.tally(wrong)
    with pytest.raises(ReportError):
        m.tally(pa.array([[None, True, True]], bits))
    right = pa.array([nothing, None, [True] * 3, nothing], bits)
    assert [m.tally(r).counters.tolist() for r in (right, right[1:], right[3:])] == [[1] * 4, [1] * 4, [0] * 4]
    with pytest.raises(ReportError):
        SampledColumn(grr(AB), columns=2).tally(pa.array(["a", None, "z"]))
    with pytest.raises(ReportError):
        FakeDataColumn(grr(AB), columns=2).tally(pa.array(["a", None]))


def test_a_sampled_sketch_has_the_errors_of_its_collisions():
    """They were left out: with 8 functions, and one value that nearly all hold, errors were far too small."""
    values, z = pa.array([0] * 5000), []
    for salt in range(40):
        m = SampledColumn(CountMeanSketch("int", epsilon=3.0, hashes=8, width=16, salt=salt).over([1, 2]), columns=2)
        plan = PrivacyPlan({"x": m, "y": m})
        batch = pa.record_batch({"x": values, "y": values})
        reports = plan.perturb(batch, key=Secret.from_seed(salt), id=np.arange(5000))
        histogram = m.estimate(m.tally(reports.column("x")))
        z += (histogram.counts / histogram.standard_errors).tolist()
    assert 0.5 < np.std(z) < 2  # (it was 6.1)


def test_sampled_columns_know_the_parts_of_their_reports():
    """Estimates of SHE were refused as impossible, and ``mle`` was not."""
    m = SampledColumn(SummationHistogramEncoding(LABELS, epsilon=1.0), columns=2)
    tally = Tally(20, np.array([10, 12, -9, 3]), m.fingerprint)
    assert m.estimate(tally, consistency="norm-sub").counts.sum() == pytest.approx(20)
    with pytest.raises(ParameterError, match="mle is for"):
        m.estimate(tally, consistency="mle")
