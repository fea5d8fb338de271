"""One column of several is answered, the others are fakes: variances, priors, and the published epsilon."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from ldp_core import (
    FakeDataColumn,
    ParameterError,
    PrivacyPlan,
    RandomizedResponse,
    SampledColumn,
    SummationHistogramEncoding,
)
from ldp_core.plans.fake import published_epsilon

from ...cases import each
from ..checks import exact_ln
from ..examples import LABELS
from .helpers import AB, ABC, fake_of, grr, oue, tables_of, worst_of


def test_the_published_amplification_does_not_hold_for_records_that_differ_everywhere():
    """RS+FD of CIKM 2021 for epsilon 1: its record spends epsilon', the answer's own; see `ldp_core.plans.fake`."""
    for values, other in ((AB, AB), (AB, ABC)):
        spent = published_epsilon(1.0, 2)
        tables = tables_of(fake_of({"x": grr(values, spent), "y": grr(other, spent)}))
        whole, one = worst_of(tables), worst_of(tables, differing=1)
        assert abs(exact_ln(whole) - Decimal(spent)) < Decimal("1e-15")
        assert exact_ln(whole) > Decimal("1.48")
        if values is other:  # what the theorem does say: one column changes, and domains of one size
            assert abs(exact_ln(one) - 1) < Decimal("1e-15")
        else:
            assert exact_ln(one) > Decimal("1.05")
    tables = tables_of(fake_of({"x": oue(AB, spent), "y": oue(AB, spent)}, fake="none"))
    assert abs(exact_ln(worst_of(tables)) - Decimal(spent)) < Decimal("1e-15")
    assert abs(exact_ln(worst_of(tables, differing=1)) - 1) < Decimal("1e-15")


@each("d", [2, 5, 40])
@each("columns", [2, 3, 10])
@each("epsilon", [0.1, 1.0, 3.0])
def test_by_the_measure_of_that_theorem_independent_reports_have_smaller_errors(d, columns, epsilon):
    """If but one column of a record may change, D reports with epsilon each are epsilon-LDP; RS+FD's are noisier."""
    spent = published_epsilon(epsilon, columns)
    for make in (grr, oue):
        published = FakeDataColumn(make(range(d), spent), columns=columns)
        for count in (0, 300, 1000):
            assert published.variance(1000, count) > make(range(d), epsilon).variance(1000, count)
        # and for the epsilon that the record does spend, sampling without fakes is better
        honest = FakeDataColumn(make(range(d), epsilon), columns=columns)
        sampled = SampledColumn(make(range(d), epsilon), columns=columns)
        for count in (0, 300, 1000):
            assert honest.variance(1000, count) > sampled.variance(1000, count)


@each("f", [0.0, 0.3, 1.0])
@each("columns", [2, 5])
def test_fake_variance_is_the_published_one_less_the_sampling_of_the_population(f, columns):
    """CIKM 2021: D^2 s (1 - s) / (n (p - q)^2), with people drawn from a population; here n people are given."""
    n, k = 1000, 7
    for inner, fake in ((grr(range(k)), "uniform"), (oue(range(k)), "none"), (oue(range(k)), "uniform")):
        m = FakeDataColumn(inner, columns=columns, fake=fake)
        p, q = inner.p, inner.q
        if isinstance(inner, RandomizedResponse):
            s = (q + f * (p - q) + (columns - 1) / k) / columns
        elif fake == "none":
            s = (columns * q + f * (p - q)) / columns
        else:
            s = (f * (p - q) + q + (columns - 1) * (p / k + (k - 1) / k * q)) / columns
        published = columns**2 * s * (1 - s) / (n * (p - q) ** 2)
        assert m.variance(n, f * n) / n**2 + f * (1 - f) / n == pytest.approx(published, rel=1e-12)


def test_fakes_of_a_prior():
    m = FakeDataColumn(grr(ABC), columns=3, prior=[1, 0, 3])
    p, q = grr(ABC).support_probabilities()
    for v, share in enumerate((Fraction(1, 4), Fraction(0), Fraction(3, 4))):
        assert m.fake_support[v] == pytest.approx(share * (p[0] - q[0]) + q[0], abs=1e-18)
        assert m.support_probabilities()[0][v] == (p[0] + 2 * m.fake_support[v]) / 3
        assert m.support_probabilities()[1][v] == (q[0] + 2 * m.fake_support[v]) / 3
    assert FakeDataColumn(grr(ABC), columns=3, prior=[2, 2, 2]).p == pytest.approx(
        FakeDataColumn(grr(ABC), columns=3).p
    )


@each("prior", [None, (1.0, 1.0, 1.0)])
@each("d", [3, 300])
def test_fakes_do_not_widen_reports(d, prior):
    """A wider type of fakes made another Arrow type than `report_type` says: dictionaries of other indices."""
    m = FakeDataColumn(
        RandomizedResponse([f"v{i}" for i in range(d)], epsilon=1.0), columns=2, prior=prior and [1.0] * d
    )
    plan = PrivacyPlan({"x": m, "y": m})
    reports = plan.perturb_columns({name: pa.array(["v0", "v2"]) for name in plan}, None, packed=True)
    assert reports["x"].type == m.reports.arrow_type()


def test_fakes_are_of_reports_that_support_a_value_or_do_not():
    """SHE's sums have neither the variance of a count (of 1000 records 750 was said, 33000 is true) nor its range."""
    with pytest.raises(ParameterError, match="summation_histogram_encoding"):
        FakeDataColumn(SummationHistogramEncoding(LABELS, epsilon=1.0), columns=2)
