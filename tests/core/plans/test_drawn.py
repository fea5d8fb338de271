"""One epsilon for several columns: the joint privacy of a record's reports, exactly; estimators; plans as values."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    CountMeanSketch,
    Domain,
    DomainError,
    FakeDataColumn,
    Interval,
    Keyed,
    Keystream,
    MeanEstimate,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    SampledColumn,
    Secret,
    SubsetSelection,
    SummationHistogramEncoding,
    Tally,
    UnaryEncoding,
)
from ldp_core.estimates.histogram import HistogramEstimate
from ldp_core.plans import sampled

from ...cases import each
from ..checks import check_binomial, check_uniform, exact_ln, slow
from ..examples import LABELS
from .helpers import AB, ABC, PLANS, answered, fake_of, grr, oue, records_of, table_of, tables_of, worst_of

LONG = {"fake GRR, OUE", *list(PLANS)[1::2]}
each_plan = pytest.mark.parametrize("name", [slow(name) if name in LONG else name for name in PLANS])


@each_plan
def test_the_whole_record_spends_epsilon_at_most(name):
    """Every record, every tuple of reports, in rational arithmetic."""
    plan = PLANS[name]
    worst = worst_of({record: table_of(name, record) for record in records_of(plan)})
    assert exact_ln(worst) <= Decimal(plan.epsilon)
    inner = [m.worst_ratio() for m in plan.columns.values()]
    assert min(inner) <= worst <= max(inner)
    if name.startswith("sampled"):
        assert worst == max(inner)
    assert exact_ln(worst) > Decimal(plan.epsilon) * Decimal("0.999999")  # nothing is wasted either
    assert plan.epsilon == max(m.epsilon for m in plan.columns.values())


@each_plan
def test_expected_parts_are_those_of_the_reports(name):
    """(p*, q*) of fakes, and (p, q) of answers, from the same enumeration."""
    plan = PLANS[name]
    table = table_of(name, records_of(plan)[0])
    for at, m in enumerate(plan.columns.values()):
        p, q = m.support_probabilities()
        share = sum(weight for reports, weight in table.items() if not reports[at].strip("[").startswith("None"))
        assert share == (Fraction(1, m.columns) if isinstance(m, SampledColumn) else 1)
        for v, label in enumerate(m.domain.values):
            weight = sum(weight for reports, weight in table.items() if supports(m, reports[at], v, label))
            assert weight == (p if v == 0 else q)[v] * share


def supports(m, report: str, v: int, label) -> bool:
    if report == "None":
        return False
    if report.startswith("["):
        return report.strip("[]").split(",")[v].strip() == "True"
    return report == str(label)


# ---- nulls


def test_nulls_depend_on_no_value_and_hide_nothing():
    secret, n = Secret.generate(), 4000
    plan = PrivacyPlan.sampled({"x": Domain(AB, unmatched="other"), "y": oue(range(9)), "z": ABC}, epsilon=1)
    made = []
    for a, b, c in ((None, 0, "a"), ("b", 8, "c")):
        batch = pa.record_batch({"x": pa.array([a] * n, pa.string()), "y": [b] * n, "z": [c] * n})
        made.append(plan.perturb(batch, packed=True, key=secret, id=np.arange(n)))
    there = np.array([answered(made[0][name]) for name in plan.columns])
    assert (there == [answered(made[1][name]) for name in plan.columns]).all()
    assert (there.sum(axis=0) == 1).all()
    check_uniform(there.sum(axis=1))
    # under a null there is no report of the noise that would have been
    hidden = np.frombuffer(made[0]["y"].values.buffers()[1], np.uint64, n)[~there[1]]
    assert not hidden.any()
    codes = made[0]["z"]
    codes = codes.indices if pa.types.is_dictionary(codes.type) else codes.values
    assert not np.frombuffer(codes.buffers()[1], np.uint8, n)[~there[2]].any()


def test_the_schema_says_which_columns_have_nulls():
    batch = pa.record_batch({"x": AB, "y": AB, "t": [1, 2]})
    for make, nullable in ((PrivacyPlan.sampled, True), (PrivacyPlan.fake, False), (PrivacyPlan.split, False)):
        plan = make({"x": AB, "y": AB}, epsilon=1, keep=["t"])
        reports = plan.perturb(batch)
        assert [reports.schema.field(name).nullable for name in "xy"] == [nullable] * 2
        assert PrivacyPlan.from_metadata(reports.schema.metadata) == plan
        assert reports.validate(full=True) is None


def test_values_are_checked_also_where_the_draw_does_not_fall():
    plan = PrivacyPlan.sampled({"x": AB, "y": AB}, epsilon=1)
    for _ in range(20):
        with pytest.raises(DomainError, match="column 'y': 1 of 1 values"):
            plan.perturb(pa.record_batch({"x": ["a"], "y": ["zz"]}))


# ---- errors

EACH = 1000
TRUTH = EACH * np.array([0.3, 0.7, 0, 0, 0])


def variances(m) -> np.ndarray:
    """Of each value's estimated count, from exact p and q."""
    p, q = (np.array([float(x) for x in side]) for side in m.support_probabilities())
    noise = (TRUTH * p * (1 - p) + (EACH - TRUTH) * q * (1 - q)) / (p - q) ** 2
    people = TRUTH * (1 - TRUTH / EACH) * (1 - 1 / m.columns) * EACH / (EACH - 1)
    return (noise + people) * m.columns * (1 + (m.columns - 1) / EACH)  # E[n / m], to first order


def test_the_variance_of_a_plan_is_what_planning_says():
    five = range(5)
    columns = {"x": grr(five), "y": oue(five), "z": SubsetSelection(five, epsilon=1)}
    for m in PrivacyPlan.sampled(columns, epsilon=1).columns.values():
        assert m.variance(EACH, 300) == pytest.approx(variances(m)[0], rel=0.005)
        assert m.accuracy(3000) == m.inner.accuracy(1000)
        _, a, b, _ = m.rates
        assert EACH * a[0] + b[0] * 300 == pytest.approx(m.variance(EACH, 300), rel=0.05)


def test_the_mean_of_sampled_numbers():
    """Unbiased, with the error of the noise and of who answers; N. Wang et al. have its worst case in closed form.

    That is, on [-1, 1] and with half of the people at each end, n Var = D (V + 1) - 1, V the noise's of one report.
    """
    columns, n = 10, 20_000
    plan = PrivacyPlan.sampled(dict.fromkeys("abcdefghij", Interval(-1, 1)), epsilon=1.0)
    m, e = plan["a"], math.e
    v = 2 * (e + 1) / (e - 1) ** 2 + 2 / (e - 1) + 1 / 3  # of two windows side by side, see `NOutput`
    assert m.variance(1) == pytest.approx(columns * (v + 1) - 1, rel=1e-3)
    counters = np.array([m.simulate({-1.0: n // 2, 1.0: n // 2}, seed=seed).counters for seed in range(400)])
    means = MeanEstimate().rows(m, np.full(400, n), counters)[0]["mean"].to_numpy()
    assert abs(means.mean()) < 4 * math.sqrt(m.variance(n) / 400)
    assert n * means.var() == pytest.approx(m.variance(1), rel=0.25)  # 3.5 standard errors
    split = PrivacyPlan.split(dict.fromkeys(plan.columns, Interval(-1, 1)), epsilon=1.0)["a"]
    assert split.variance(n) / m.variance(n) > 8
    tally = m.simulate({0.5: n}, seed=1)
    answers, counters = int(tally.counters[0]), tally.counters[1:]
    found, alone = m.mean(tally), m.inner.mean(Tally(answers, counters, m.inner.fingerprint))
    assert (found.mean, found.standard_error, found.low, found.n) == (alone.mean, alone.standard_error, alone.low, n)
    with pytest.raises(PlanError, match="frequency oracle"):
        PrivacyPlan.fake({"a": Interval(-1, 1), "b": AB}, epsilon=1.0)


# ---- tallies and reports


@each("name", PLANS)
@each("packed", [False, True])
def test_tallies_merge_and_travel(name, packed):
    plan, n = PLANS[name], 1500
    values = {c: [m.domain.labels[i % len(m.domain.labels)] for i in range(n)] for c, m in plan.columns.items()}
    reports = plan.perturb(pa.record_batch(values), packed=packed)
    for c, m in plan.columns.items():
        whole = m.tally(reports[c])
        assert whole.n == n
        assert m.reports.arrow_type(packed=packed) == reports[c].type
        assert m.tally(reports[c][:700]) + m.tally(reports[c][700:]) == whole
        native = m.reports.from_arrow(reports[c])
        assert m.reports.from_arrow(m.reports.to_arrow(native)).tolist() == native.tolist()
        if isinstance(m, SampledColumn):
            answers = reports[c].filter(pa.array(answered(reports[c])))
            assert whole.counters.tolist() == [len(answers), *m.inner.tally(answers).counters.tolist()]
            assert m.reports.to_numpy(native, packed=packed).tolist() == reports[c].to_pylist()
            assert sum(answered(reports[c])) == len(answers)
            for counted, each_has in ((6, 0), (2, 3)):
                impossible = Tally(5, np.array([counted, *[each_has] * m.inner.counters]), m.fingerprint)
                with pytest.raises(ReportError):
                    m.estimate(impossible)


# ---- keyed and seeded noise


@each("make", [PrivacyPlan.sampled, PrivacyPlan.fake])
def test_keyed_reports_are_a_function_of_person_and_value(make):
    secret, n = Secret.generate(), 5000
    plan = make({"x": grr(range(40)), "y": oue(range(9))}, epsilon=1, keep=["id"])
    rng = np.random.default_rng(1)
    batch = pa.record_batch({"x": rng.integers(0, 40, n), "y": rng.integers(0, 9, n), "id": np.arange(n)})
    first = plan.perturb(batch, key=secret, id=batch["id"])
    assert first.equals(plan.perturb(batch, key=secret, id=batch["id"]))
    order = rng.permutation(n)
    shuffled = batch.take(pa.array(order))
    assert plan.perturb(shuffled, key=secret, id=shuffled["id"]).to_pylist() == first.take(pa.array(order)).to_pylist()
    assert not first.equals(plan.perturb(batch, key=Secret.generate(), id=batch["id"]))
    assert not plan.perturb(batch).equals(plan.perturb(batch))
    # what is not drawn does not change with the values
    other = pa.record_batch(
        {"x": (batch["x"].to_numpy() + 1) % 40, "y": (batch["y"].to_numpy() + 1) % 9, "id": np.arange(n)}
    )
    again = plan.perturb(other, key=secret, id=other["id"])
    drawn = plan.drawn.draw(n, Keyed(secret, np.arange(n), column=""))
    check_uniform(np.bincount(drawn))
    for position, name in enumerate("xy"):
        same = np.array([a == b for a, b in zip(first[name].to_pylist(), again[name].to_pylist(), strict=True)])
        assert same[drawn != position].all()
        assert not same[drawn == position].all()


def test_the_draw_is_the_persons_own_and_independent_of_the_columns_noise():
    keyed = Keyed(Secret.generate(), np.arange(60_000), column="")
    plan = PrivacyPlan.sampled({"x": grr(AB), "y": grr(AB)}, epsilon=1)
    draw = plan.drawn.draw(60_000, keyed)
    assert draw.tolist() == PrivacyPlan.sampled({"x": AB, "y": ABC}, epsilon=0.1).drawn.draw(60_000, keyed).tolist()
    others = [
        plan.drawn.draw(60_000, keyed, tag="t"),
        PrivacyPlan.sampled({"x": AB, "z": AB}, epsilon=1).drawn.draw(60_000, keyed),
    ]
    m = plan["x"]
    others.append(
        m.inner.perturb_codes(np.zeros(60_000, np.uint8), keyed.named("x").bind(m.digest, np.zeros(60_000, np.uint8)))
    )
    p, _ = m.support_probabilities()
    for other, share in zip(others, (0.5, 0.5, 1 - float(p[0])), strict=True):
        check_binomial(np.sum((draw == 1) & (other == 1)), 60_000, share / 2)


@each("make", [PrivacyPlan.sampled, PrivacyPlan.fake])
def test_the_order_of_the_columns_changes_no_report(make):
    """A person answered another column after the columns of a plan were written in another order."""
    names, ids = ["x", "y", "z"], np.arange(300)
    key, records = Secret.generate(), pa.table({name: ["a", "b", "a"] * 100 for name in names})
    one, other = (make(dict.fromkeys(order, AB), epsilon=1) for order in (names, names[::-1]))
    assert one.perturb(records, key=key, id=ids).to_pydict() == other.perturb(records, key=key, id=ids).to_pydict()


# ---- one column alone


@each("make", [SampledColumn, FakeDataColumn])
def test_one_column_alone_does_not_perturb(make):
    m = make(grr(AB), columns=2)
    for attempt in (
        lambda: m.perturb(AB),
        lambda: m.perturb(pa.array(AB), randomness=Keyed(Secret.generate(), [1, 2], column="x")),
        lambda: m.perturb_codes(np.zeros(2, np.uint8), Keystream()),
        lambda: PrivacyPlan({"x": m}),
        lambda: PrivacyPlan({"x": m, "y": m, "z": m}),
        lambda: PrivacyPlan({"x": m, "y": grr(AB)}),
    ):
        with pytest.raises((ParameterError, PlanError), match="columns"):
            attempt()


def test_columns_that_differ_differ():
    none = oue(Domain(AB, unmatched="none"))
    different = [SampledColumn(inner, columns=2) for inner in (grr(AB), grr(AB, 2.0), none)]
    different += [SampledColumn(grr(AB), columns=3), FakeDataColumn(grr(AB), columns=2)]
    for options in ({}, {"fake": "uniform"}, {"prior": [1, 1]}, {"prior": [1, 2]}):
        different.append(FakeDataColumn(oue(AB), columns=2, **options))
    assert len(set(different)) == len({m.fingerprint for m in different}) == len(different)
    for m in different:
        assert m.realized_epsilon <= math.nextafter(m.epsilon, math.inf)


# ---- one column of several, sampled: over everything that can happen, and reports of nothing


def test_sampled_variance_by_counting_all_samples_and_reports(monkeypatch):
    """n = 4 records, m of them answer: mean and variance of the estimate over everything that can happen, exactly."""
    monkeypatch.setattr(sampled, "reach_of_few", lambda ends, *_: ends)  # (so few reports reach farther)
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
    for consistency in (None, "norm-sub"):
        nobody = m.estimate(m.tally(pa.nulls(3, m.reports.arrow_type())), consistency=consistency)
        assert nobody.n == 3
        assert np.isnan([nobody.counts, nobody.standard_errors, nobody.low, nobody.high]).all()
    several = np.array([[0, 0, 0], [4, 3, 1], [0, 0, 0]])
    table, _ = HistogramEstimate(consistency="norm-sub").rows(m, np.array([5, 8, 0]), several)
    counts = table["count"].to_numpy().reshape(3, 2)
    assert np.isnan(counts[0]).all()
    assert counts[1].sum() == pytest.approx(8)
    assert counts[2].tolist() == [0, 0]
    everybody, alone = (one.estimate(one.tally(pa.array(AB * 50))) for one in (m, m.inner))
    assert everybody.counts.tolist() == alone.counts.tolist()
    assert everybody.standard_errors == pytest.approx(alone.standard_errors)


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


# ---- one column of several is answered, the others are fakes


@pytest.mark.slow
def test_the_published_amplification_does_not_hold_for_records_that_differ_everywhere():
    """RS+FD of CIKM 2021 for epsilon 1: its record spends epsilon', the answer's own; see `ldp_core.plans.fake`."""
    for values, other in ((AB, AB), (AB, ABC)):
        spent = math.log1p(2 * math.expm1(1.0))
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
