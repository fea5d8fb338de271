"""One epsilon for several columns: the joint privacy of a record's reports, exactly; estimators; plans as values."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import (
    Domain,
    DomainError,
    Interval,
    Keyed,
    Keystream,
    LocalHashing,
    Mechanism,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Secret,
    SubsetSelection,
    Tally,
    UnaryEncoding,
)
from ldp_core.estimates.options import Estimation
from ldp_core.exact import sampling
from ldp_core.exact.sampling import ONE
from ldp_core.plans.compare import HEADER, compare
from ldp_core.plans.drawn import DrawnColumns
from ldp_core.plans.fake import FakeDataColumn, published_epsilon
from ldp_core.plans.sampled import SampledColumn

from .checks import check_binomial, check_uniform, exact_exp, exact_ln

AB, ABC = ["a", "b"], ["a", "b", "c"]


# ---- the joint distribution of all reports of a record, exactly


class Branching:
    """Runs a function once for each combination of the random decisions that it asks for, with its probability.

    What is seen of a byte of decisions: ``bits[threshold]`` of them, else one. A word for a fake value is one of
    each interval between ``ends``.
    """

    def __init__(self, bits: dict[int, int], ends: tuple[int, ...]) -> None:
        self.bits, self.ends = bits, [0, *ends, ONE]
        self.choices: list[int] = []
        self.sizes: list[int] = []
        self.probability = Fraction(1)

    def decide(self, probabilities: list[Fraction]) -> int:
        at = len(self.sizes)
        self.sizes.append(len(probabilities))
        if at == len(self.choices):
            self.choices.append(0)
        self.probability *= probabilities[self.choices[at]]
        return self.choices[at]

    def bernoulli_bits(self, threshold, n_bytes, _source):
        assert n_bytes in (0, 1)
        one = Fraction(threshold, ONE)
        seen = [self.decide([1 - one, one]) for _ in range(self.bits.get(threshold, 1) * n_bytes)]
        return np.packbits(np.array(seen + seen[:1] * (8 * n_bytes - len(seen)), np.uint8), bitorder="little")

    def uniform_below(self, d, n, _source):
        assert n in (0, 1)
        return np.array([self.decide([Fraction(1, d)] * d) for _ in range(n)], np.uint8)

    def words(self, _stream, n, _lane):
        shares = [Fraction(b - a, ONE) for a, b in itertools.pairwise(self.ends)]
        return np.array([self.ends[self.decide(shares)] for _ in range(n)], np.uint64)

    def next_run(self) -> bool:
        while self.choices and self.choices[-1] == self.sizes[-1] - 1:
            self.choices.pop()
            self.sizes.pop()
        if not self.choices:
            return False
        self.choices[-1] += 1
        self.sizes, self.probability = [], Fraction(1)
        return True


def exact_distribution(monkeypatch, plan, record) -> dict[tuple, Fraction]:
    """Probability of each tuple of reports of one record."""
    inner = [m.inner if hasattr(m, "inner") else m for m in plan.columns.values()]
    bits = {m.thresholds[1]: m.domain.size for m in inner if isinstance(m, UnaryEncoding)}
    ends = [tuple(map(int, m._ends)) for m in plan.columns.values() if getattr(m, "prior", None)]
    branching = Branching(bits, ends[0] if ends else ())
    monkeypatch.setattr(sampling, "bernoulli_bits", branching.bernoulli_bits)
    monkeypatch.setattr(sampling, "uniform_below", branching.uniform_below)
    monkeypatch.setattr(Keystream, "words", lambda stream, n, lane=0: branching.words(stream, n, lane))
    batch = pa.record_batch({name: [value] for name, value in zip(plan.columns, record, strict=True)})
    result: dict[tuple, Fraction] = defaultdict(Fraction)
    while True:
        reports = plan.perturb(batch, packed=False).to_pylist()[0]
        result[tuple(map(str, reports.values()))] += branching.probability
        if not branching.next_run():
            monkeypatch.undo()
            assert sum(result.values()) == 1
            return dict(result)


def tables_of(monkeypatch, plan) -> dict[tuple, dict[tuple, Fraction]]:
    records = itertools.product(*(m.domain.labels for m in plan.columns.values()))
    return {record: exact_distribution(monkeypatch, plan, record) for record in records}


def worst_ratio(tables, *, differing=None) -> Fraction:
    """The largest ratio over all reports, and all pairs of records, or those that differ in so many columns."""
    worst = Fraction(0)
    for one, other in itertools.permutations(tables, 2):
        if differing is None or sum(a != b for a, b in zip(one, other, strict=True)) == differing:
            a, b = tables[one], tables[other]
            assert set(a) == set(b), "an output that some record cannot give"
            worst = max(worst, *(a[o] / b[o] for o in a))
    return worst


def grr(values, epsilon=1.0):
    return RandomizedResponse(values, epsilon=epsilon)


def oue(values, epsilon=1.0, variant="optimized"):
    return UnaryEncoding(values, epsilon=epsilon, variant=variant)


def fake_of(mechanisms, **options):
    """A fake-data plan whose columns are all faked alike."""
    return PrivacyPlan({n: FakeDataColumn(m, columns=len(mechanisms), **options) for n, m in mechanisms.items()})


PLANS = {
    "sampled GRR, GRR": PrivacyPlan.sampled({"x": grr(AB), "y": grr(ABC)}, epsilon=1),
    "sampled OUE, SUE": PrivacyPlan.sampled({"x": oue(AB, 0.5), "y": oue(AB, 0.5, "symmetric")}, epsilon=0.5),
    "sampled GRR, OUE": PrivacyPlan.sampled({"x": grr(ABC, 3.0), "y": oue(AB, 3.0)}, epsilon=3),
    "sampled 3 GRR": PrivacyPlan.sampled(dict.fromkeys("xyz", grr(AB)), epsilon=1),
    "fake GRR, GRR": fake_of({"x": grr(AB), "y": grr(AB)}),
    "fake GRR, GRR of other sizes": fake_of({"x": grr(AB, 2.0), "y": grr(list(range(3)), 2.0)}),
    "fake OUE of nothing": fake_of({"x": oue(AB), "y": oue(AB)}, fake="none"),
    "fake OUE of a value": fake_of({"x": oue(AB), "y": oue(AB)}, fake="uniform"),
    "fake GRR, OUE": PrivacyPlan.fake({"x": grr(ABC, 1.5), "y": oue(AB, 1.5)}, epsilon=1.5),
    "fake 3 GRR": PrivacyPlan.fake(dict.fromkeys("xyz", grr(AB, 0.7)), epsilon=0.7),
    "prior GRR": PrivacyPlan.fake({"x": grr(ABC), "y": grr(AB)}, epsilon=1, priors={"x": [0.7, 0, 0.1]}),
    "prior OUE": PrivacyPlan.fake({"x": oue(AB), "y": oue(AB)}, epsilon=1, priors={"y": [1, 5]}),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_whole_record_spends_epsilon_at_most(monkeypatch, name):
    """Every record, every tuple of reports, in rational arithmetic."""
    plan = PLANS[name]
    tables = tables_of(monkeypatch, plan)
    worst = worst_ratio(tables)
    assert exact_ln(worst) <= Decimal(plan.epsilon)
    inner = [m.worst_ratio() for m in plan.columns.values()]
    assert min(inner) <= worst <= max(inner)
    if name.startswith("sampled"):
        assert worst == max(inner)
    assert exact_ln(worst) > Decimal(plan.epsilon) * Decimal("0.999999")  # nothing is wasted either
    assert plan.epsilon == max(m.epsilon for m in plan.columns.values())


@pytest.mark.parametrize("name", PLANS)
def test_expected_parts_are_those_of_the_reports(monkeypatch, name):
    """(p*, q*) of fakes, and (p, q) of answers, from the same enumeration."""
    plan = PLANS[name]
    record = tuple(m.domain.labels[0] for m in plan.columns.values())
    table = exact_distribution(monkeypatch, plan, record)
    for at, m in enumerate(plan.columns.values()):
        p, q = m.expected_parts()
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


def test_the_published_amplification_does_not_hold_for_records_that_differ_everywhere(monkeypatch):
    """RS+FD of CIKM 2021 for epsilon 1: its record spends epsilon', the answer's own; see `ldp_core.plans.fake`."""
    for values, other in ((AB, AB), (AB, ABC)):
        spent = published_epsilon(1.0, 2)
        tables = tables_of(monkeypatch, fake_of({"x": grr(values, spent), "y": grr(other, spent)}))
        whole, one = worst_ratio(tables), worst_ratio(tables, differing=1)
        assert abs(exact_ln(whole) - Decimal(spent)) < Decimal("1e-15")
        assert exact_ln(whole) > Decimal("1.48")
        if values is other:  # what the theorem does say: one column changes, and domains of one size
            assert abs(exact_ln(one) - 1) < Decimal("1e-15")
        else:
            assert exact_ln(one) > Decimal("1.05")
    tables = tables_of(monkeypatch, fake_of({"x": oue(AB, spent), "y": oue(AB, spent)}, fake="none"))
    assert abs(exact_ln(worst_ratio(tables)) - Decimal(spent)) < Decimal("1e-15")
    assert abs(exact_ln(worst_ratio(tables, differing=1)) - 1) < Decimal("1e-15")


@pytest.mark.parametrize("d", [2, 5, 40])
@pytest.mark.parametrize("columns", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
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


class DrawnApart(DrawnColumns):
    """The fault: a draw for each column by itself."""

    def perturb(self, values, keyed, *, packed, tag=None):
        reports = []
        for position, ((_, column), column_values) in enumerate(zip(self.columns, values, strict=True)):
            codes = column.inputs.encode(column_values)
            native = column.perturb_drawn(codes, self.draw(len(codes), keyed) == position, Keystream())
            reports.append(column.to_arrow(native, packed=packed))
        return reports


@pytest.mark.parametrize("name", ["sampled GRR, GRR", "fake OUE of nothing"])
def test_the_enumeration_finds_a_draw_for_each_column(monkeypatch, name):
    plan = copy.copy(PLANS[name])
    object.__setattr__(plan, "drawn", DrawnApart(plan.drawn.columns))
    assert exact_ln(worst_ratio(tables_of(monkeypatch, plan))) > Decimal(1.05 * plan.epsilon)


def test_the_enumeration_finds_an_answer_with_too_large_an_epsilon(monkeypatch):
    plan = PrivacyPlan({n: SampledColumn(grr(AB, 1.0 if n == "x" else 1.01), columns=2) for n in "xy"})
    assert exact_ln(worst_ratio(tables_of(monkeypatch, plan))) > 1


# ---- nulls


def test_nulls_depend_on_no_value_and_hide_nothing():
    secret, n = Secret.generate(), 4000
    plan = PrivacyPlan.sampled({"x": Domain(AB, unmatched="other"), "y": oue(range(9)), "z": ABC}, epsilon=1)
    made = []
    for a, b, c in ((None, 0, "a"), ("b", 8, "c")):
        batch = pa.record_batch({"x": pa.array([a] * n, pa.string()), "y": [b] * n, "z": [c] * n})
        made.append(plan.perturb(batch, key=secret, ids=np.arange(n)))
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


def answered(reports) -> list[bool]:
    """Which reports are neither null nor a list of nulls."""
    return [r is not None and not (isinstance(r, list) and r == [None] * len(r)) for r in reports.to_pylist()]


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


# ---- estimators: closed forms


def test_sampled_variance_by_counting_all_samples_and_reports():
    """n = 4 records, m of them answer: mean and variance of the estimate over everything that can happen, exactly."""
    p, q, n, truth = Fraction(3, 4), Fraction(1, 4), 4, (1, 1, 1, 0)
    m = SampledColumn(UnaryEncoding.from_probabilities(AB, p=0.75, q=0.25), columns=2)
    assert m.expected_parts() == ([p, p], [q, q])
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


@pytest.mark.parametrize("f", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("columns", [2, 5])
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
    p, q = grr(ABC).expected_parts()
    for v, share in enumerate((Fraction(1, 4), Fraction(0), Fraction(3, 4))):
        assert m.fake_support[v] == pytest.approx(share * (p[0] - q[0]) + q[0], abs=1e-18)
        assert m.expected_parts()[0][v] == (p[0] + 2 * m.fake_support[v]) / 3
        assert m.expected_parts()[1][v] == (q[0] + 2 * m.fake_support[v]) / 3
    assert FakeDataColumn(grr(ABC), columns=3, prior=[2, 2, 2]).p == pytest.approx(
        FakeDataColumn(grr(ABC), columns=3).p
    )


# ---- estimators: the reports themselves

RUNS, EACH = 800, 1000
FIVE = range(5)
SUBSET, HASHED = SubsetSelection(FIVE, epsilon=1), LocalHashing(FIVE, epsilon=1)
PRIORS = {"x": [0.1, 0.2, 0.3, 0.4, 0], "y": [0.4, 0.3, 0.2, 0.1, 0.0]}
SIMULATED = {
    "sampled": PrivacyPlan.sampled({"x": grr(FIVE), "y": oue(FIVE), "z": SUBSET}, epsilon=1),
    "fake": PrivacyPlan.fake({"x": grr(FIVE), "y": oue(FIVE), "z": HASHED}, epsilon=1),
    "prior": PrivacyPlan.fake({"x": grr(FIVE), "y": oue(FIVE), "z": SUBSET}, epsilon=1, priors=PRIORS),
}


@pytest.fixture(scope="module", params=SIMULATED)
def simulated(request):
    """A plan, and for each column int64[RUNS, counters], of runs in which each column is 0.3, 0.7 and three times 0."""
    plan = SIMULATED[request.param]
    codes = np.tile((np.arange(EACH) % 10 >= 3).astype(np.int64), RUNS)
    batch = pa.record_batch(dict.fromkeys("xyz", pa.array(codes)))
    reports = plan.seeded(5).perturb(batch, ids=np.arange(len(codes)))
    groups = np.repeat(np.arange(RUNS), EACH)
    return plan, {c: m.count_reports(m.from_arrow(reports[c]), groups, RUNS) for c, m in plan.columns.items()}


TRUTH = EACH * np.array([0.3, 0.7, 0, 0, 0])


@pytest.mark.parametrize("column", ["x", "y", "z"])
def test_estimates_are_unbiased_and_vary_as_they_say(simulated, column):
    plan, support = simulated
    m = plan[column]
    counts, errors, low, high = m.debias(EACH, support[column], simultaneous=False)
    check_simulated(m, counts)
    # the reported standard errors, in the mean of their squares, and the coverage of the 95 % intervals
    expected = variances(m)
    assert (errors**2).mean(axis=0) == pytest.approx(expected, rel=0.05)
    covered = ((low <= TRUTH) & (high >= TRUTH)).sum(axis=0)
    check_binomial(covered, RUNS, 0.95)


def variances(m) -> np.ndarray:
    """Of each value's estimated count, from exact p and q."""
    p, q = (np.array([float(x) for x in side]) for side in m.expected_parts())
    noise = (TRUTH * p * (1 - p) + (EACH - TRUTH) * q * (1 - q)) / (p - q) ** 2
    if not isinstance(m, SampledColumn):
        return noise
    people = TRUTH * (1 - TRUTH / EACH) * (1 - 1 / m.columns) * EACH / (EACH - 1)
    return (noise + people) * m.columns * (1 + (m.columns - 1) / EACH)  # E[n / m], to first order


def check_simulated(m, counts):
    expected = variances(m)
    bias = (counts.mean(axis=0) - TRUTH) / np.sqrt(expected / RUNS)
    assert np.abs(bias).max() < 3
    ratio = counts.var(axis=0, ddof=1) / expected
    assert np.abs(ratio - 1).max() < 3 * math.sqrt(2 / RUNS)


@pytest.mark.parametrize("column", ["x", "y"])
def test_the_simulation_finds_a_wrong_estimator(simulated, column):
    plan, support = simulated
    m = plan[column]
    if isinstance(m, SampledColumn):  # counts of those who answered, not of all
        counts = m.debias(EACH, support[column])[0] / m.columns
    else:  # fakes forgotten
        counts = (support[column] - EACH * m.inner.q) * m.columns / (m.inner.p - m.inner.q)
        if m.fake == "none":
            counts = (support[column] - EACH * m.inner.q) / (m.inner.p - m.inner.q)
    with pytest.raises(AssertionError):
        check_simulated(m, counts)


def test_the_variance_of_a_plan_is_what_planning_says():
    for m in SIMULATED["sampled"].columns.values():
        assert m.variance(EACH, 300) == pytest.approx(variances(m)[0], rel=0.005)
        assert m.accuracy(3000) == m.inner.accuracy(1000)
        _, a, b = m._rates
        assert EACH * a[0] + b[0] * 300 == pytest.approx(m.variance(EACH, 300), rel=0.05)


def test_estimates_of_nothing():
    m = SampledColumn(grr(AB), columns=2)
    empty = m.estimate(m.empty_tally())
    assert empty.counts.tolist() == empty.standard_errors.tolist() == [0, 0]
    nobody = m.estimate(m.tally(pa.nulls(3, m.report_type())))
    assert nobody.n == 3
    assert np.isnan([nobody.counts, nobody.standard_errors, nobody.low, nobody.high]).all()
    nobody = m.estimate(m.tally(pa.nulls(3, m.report_type())), consistency="norm-sub")
    assert np.isnan([nobody.counts, nobody.standard_errors, nobody.low, nobody.high]).all()
    several = np.array([[0, 0, 0], [4, 3, 1], [0, 0, 0]])
    counts = m.estimates(np.array([[5], [8], [0]]), several, Estimation(consistency="norm-sub"))[0]
    assert np.isnan(counts[0]).all()
    assert counts[1].sum() == pytest.approx(8)
    assert counts[2].tolist() == [0, 0]
    everybody = m.estimate(m.tally(pa.array(AB * 50)))
    assert everybody.counts.tolist() == grr(AB).estimate(grr(AB).tally(pa.array(AB * 50))).counts.tolist()
    assert everybody.standard_errors == pytest.approx(
        grr(AB).estimate(grr(AB).tally(pa.array(AB * 50))).standard_errors
    )


def test_consistent_estimates():
    for plan in SIMULATED.values():
        batch = pa.record_batch(dict.fromkeys("xyz", pa.array(np.arange(5000) % 5)))
        reports = plan.perturb(batch)
        for name, m in plan.columns.items():
            for method in ("norm-sub", "mle-apx", "base-cut"):
                histogram = m.estimate(m.tally(reports[name]), consistency=method)
                assert (histogram.counts >= 0).all()


# ---- tallies and reports


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("packed", [False, True])
def test_tallies_merge_and_travel(name, packed):
    plan, n = PLANS[name], 3000
    values = {c: [m.domain.labels[i % len(m.domain.labels)] for i in range(n)] for c, m in plan.columns.items()}
    reports = plan.perturb(pa.record_batch(values), packed=packed)
    for c, m in plan.columns.items():
        whole = m.tally(reports[c])
        assert whole.n == n
        assert m.report_type(packed=packed) == reports[c].type
        parts = [m.tally(reports[c].slice(start, 700)) for start in range(0, n, 700)]
        assert Tally.merge(parts) == Tally.from_bytes(whole.to_bytes()) == whole
        assert m.from_arrow(m.to_arrow(m.from_arrow(reports[c]))).tolist() == m.from_arrow(reports[c]).tolist()
        if isinstance(m, SampledColumn):
            answers = reports[c].filter(pa.array(answered(reports[c])))
            assert whole.counters.tolist() == [len(answers), *m.inner.tally(answers).counters.tolist()]
            assert m.to_numpy(m.from_arrow(reports[c]), packed=packed).tolist() == reports[c].to_pylist()
            assert sum(answered(reports[c])) == len(answers)
            impossible = Tally(5, np.array([6, *[0] * m.inner.counters]), m.fingerprint)
            with pytest.raises(ReportError):
                m.estimate(impossible)
            impossible = Tally(5, np.array([2, *[3] * m.inner.counters]), m.fingerprint)
            with pytest.raises(ReportError):
                m.estimate(impossible)


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


# ---- keyed and seeded noise


@pytest.mark.parametrize("make", [PrivacyPlan.sampled, PrivacyPlan.fake])
def test_keyed_reports_are_a_function_of_person_and_value(make):
    secret, n = Secret.generate(), 5000
    plan = make({"x": grr(range(40)), "y": oue(range(9))}, epsilon=1, keep=["id"])
    rng = np.random.default_rng(1)
    batch = pa.record_batch({"x": rng.integers(0, 40, n), "y": rng.integers(0, 9, n), "id": np.arange(n)})
    first = plan.perturb(batch, key=secret, ids=batch["id"])
    assert first.equals(plan.perturb(batch, key=secret, ids=batch["id"]))
    order = rng.permutation(n)
    shuffled = batch.take(pa.array(order))
    assert plan.perturb(shuffled, key=secret, ids=shuffled["id"]).to_pylist() == first.take(pa.array(order)).to_pylist()
    assert not first.equals(plan.perturb(batch, key=Secret.generate(), ids=batch["id"]))
    assert not plan.perturb(batch).equals(plan.perturb(batch))
    # what is not drawn does not change with the values
    other = pa.record_batch(
        {"x": (batch["x"].to_numpy() + 1) % 40, "y": (batch["y"].to_numpy() + 1) % 9, "id": np.arange(n)}
    )
    again = plan.perturb(other, key=secret, ids=other["id"])
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
        m.inner.perturb_codes(
            np.zeros(60_000, np.uint8), keyed.named("x").bind(m.fingerprint, np.zeros(60_000, np.uint8))
        )
    )
    p, _ = m.expected_parts()
    for other, share in zip(others, (0.5, 0.5, 1 - float(p[0])), strict=True):
        check_binomial(np.sum((draw == 1) & (other == 1)), 60_000, share / 2)


def test_seeded_plans():
    plan = PrivacyPlan.sampled({"x": AB, "y": AB}, epsilon=1).seeded(3)
    batch = pa.record_batch({"x": AB * 50, "y": AB * 50})
    assert plan.perturb(batch, ids=np.arange(100)).equals(plan.perturb(batch, ids=np.arange(100)))
    assert plan.drawn == plan.seeded(None).drawn


# ---- one column alone


@pytest.mark.parametrize("make", [SampledColumn, FakeDataColumn])
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


# ---- plans


def test_splitting_spends_no_more_than_was_asked():
    plan = PrivacyPlan.split({"a": AB, "b": ABC, "c": range(40)}, epsilon=1.0)
    assert [m.epsilon for m in plan.columns.values()] == [float(Fraction(1, 3))] * 3
    weighed = PrivacyPlan.split({"a": AB, "b": ABC}, epsilon=2, weights={"a": 3})
    assert [m.epsilon for m in weighed.columns.values()] == [1.5, 0.5]
    given = PrivacyPlan.split({"a": grr(AB, 0.25), "b": ABC, "c": AB}, epsilon=1.25)
    assert [m.epsilon for m in given.columns.values()] == [0.25, 0.5, 0.5]
    assert given["a"] == grr(AB, 0.25)
    assert PrivacyPlan.split({"a": AB}, epsilon=1.0)["a"] == grr(AB)


@given(st.floats(1e-3, 50), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9))
@settings(max_examples=60)
def test_the_parts_of_a_split_add_up_to_no_more(epsilon, weights):
    names = [f"c{i}" for i in range(len(weights))]
    try:
        plan = PrivacyPlan.split(
            dict.fromkeys(names, AB), epsilon=epsilon, weights=dict(zip(names, weights, strict=True))
        )
    except PlanError:
        return
    assert sum(Fraction(m.epsilon) for m in plan.columns.values()) <= Fraction(epsilon)
    assert epsilon * (1 - 1e-12) <= plan.epsilon <= epsilon
    product = math.prod((m.worst_ratio() for m in plan.columns.values()), start=Fraction(1))
    assert product <= exact_exp(epsilon)


def test_epsilon_of_mixed_plans():
    drawn = PrivacyPlan.sampled({"x": AB, "y": grr(ABC, 0.5)}, epsilon=1.0)
    plan = PrivacyPlan({"b": oue(AB, 0.25), **drawn.columns, "a": grr(AB, 2.0)}, keep=["t"])
    assert drawn.epsilon == 1.0
    assert plan.epsilon == 3.25
    batch = pa.record_batch(dict.fromkeys("abxy", AB * 500) | {"t": range(1000)})
    reports = plan.perturb(batch)
    assert reports.schema.names == ["b", "x", "y", "a", "t"]
    assert [all(answered(reports[c])) for c in "bxya"] == [True, False, False, True]
    assert sum(answered(reports["x"])) + sum(answered(reports["y"])) == 1000
    assert list(plan.oracles) == ["b", "x", "y", "a"]


MAKERS = {
    "split": lambda: PrivacyPlan.split({"x": AB, "y": range(30)}, epsilon=1.7, keep=["t"]),
    "sampled": lambda: PrivacyPlan.sampled({"x": AB, "y": Domain(ABC, unmatched="none")}, epsilon=1.7, keep=["t"]),
    "fake": lambda: PrivacyPlan.fake({"x": Domain(AB, unmatched="other"), "y": range(30)}, epsilon=1.7),
    "prior": lambda: PrivacyPlan.fake({"x": AB, "y": range(3)}, epsilon=1.7, priors={"y": [0.1, 1e-300, 7]}, seed=4),
    "mixed": lambda: PrivacyPlan({**PLANS["fake 3 GRR"].columns, "a": oue(AB)}, keep=["t"]),
}


@pytest.mark.parametrize("name", MAKERS)
def test_plans_travel(name):
    plan = MAKERS[name]()
    text = plan.to_toml()
    for again in (
        pickle.loads(pickle.dumps(plan)),
        copy.deepcopy(plan),
        PrivacyPlan.from_toml(text),
        PrivacyPlan.from_dict(json.loads(plan.to_json())),
        PrivacyPlan.from_metadata({b"ldp.plan": plan.to_json().encode()}),
        MAKERS[name](),
    ):
        assert again == plan
        assert hash(again) == hash(plan)
        assert again.fingerprint == plan.fingerprint
        assert again.epsilon == plan.epsilon
        assert again.drawn == plan.drawn
        assert repr(again) == repr(plan)
    assert "total a record" in plan.explain(1000)
    assert "total a record" in plan.explain(0)


MECHANISMS = [
    SampledColumn(grr(AB), columns=2),
    SampledColumn(grr(AB), columns=3),
    SampledColumn(grr(AB, 2.0), columns=2),
    SampledColumn(oue(Domain(AB, unmatched="none")), columns=2),
    FakeDataColumn(grr(AB), columns=2),
    FakeDataColumn(oue(AB), columns=2),
    FakeDataColumn(oue(AB), columns=2, fake="uniform"),
    FakeDataColumn(oue(AB), columns=2, prior=[1, 1]),
    FakeDataColumn(oue(AB), columns=2, prior=[1, 2]),
]


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: m.fingerprint)
def test_columns_are_values(m):
    for again in (
        pickle.loads(pickle.dumps(m)),
        copy.copy(m),
        copy.deepcopy(m),
        Mechanism.from_dict(json.loads(json.dumps(m.to_dict()))),
    ):
        assert again == m
        assert type(again) is type(m)
        assert hash(again) == hash(m)
        assert again.fingerprint == m.fingerprint
        assert repr(again) == repr(m)
        assert again.expected_parts() == m.expected_parts()
    for name in ("inner", "columns", "epsilon", "domain", "anything"):
        with pytest.raises(AttributeError):
            setattr(m, name, 1)
    assert m.realised_epsilon <= math.nextafter(m.epsilon, math.inf)


def test_columns_that_differ_differ():
    assert len(set(MECHANISMS)) == len({m.fingerprint for m in MECHANISMS}) == len(MECHANISMS)


BAD = {
    "no columns": (lambda: PrivacyPlan.sampled({}, epsilon=1), "at least two"),
    "one column": (lambda: PrivacyPlan.fake({"x": AB}, epsilon=1), "at least two"),
    "epsilon": (lambda: PrivacyPlan.sampled({"x": AB, "y": AB}, epsilon=0), r"\(0, inf\)"),
    "split epsilon": (lambda: PrivacyPlan.split({"x": AB}, epsilon=math.inf), r"\(0, inf\)"),
    "too much": (lambda: PrivacyPlan.sampled({"x": AB, "y": grr(AB, 2.0)}, epsilon=1), "more than 1"),
    "nothing left": (lambda: PrivacyPlan.split({"x": AB, "y": grr(AB, 2.0)}, epsilon=2), "none is left"),
    "weight": (lambda: PrivacyPlan.split({"x": AB, "y": AB}, epsilon=1, weights={"x": 0}), r"\(0, inf\)"),
    "weights": (lambda: PrivacyPlan.split({"x": AB}, epsilon=1, weights={"z": 1}), "no such columns"),
    "domain": (lambda: PrivacyPlan.split({"x": ["a"]}, epsilon=1), "column 'x': .*two values"),
    "priors": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"z": [1]}), "no such columns"),
    "prior size": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"x": [1]}), "each of the 2"),
    "prior sign": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"x": [1, -1]}), "weights"),
    "prior zero": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"x": [0, 0]}), "weights"),
    "prior nan": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"x": [1, math.nan]}), "weights"),
    "no oracle": (lambda: SampledColumn(Interval(0, 1), columns=2), "frequency oracle"),
    "nested": (lambda: SampledColumn(SampledColumn(grr(AB), columns=2), columns=2), "frequency oracle"),
    "count": (lambda: SampledColumn(grr(AB), columns=1), r"\[2, 65536\)"),
    "bool": (lambda: FakeDataColumn(grr(AB), columns=True), r"\[2, 65536\)"),
    "fake": (lambda: FakeDataColumn(grr(AB), columns=2, fake="x"), '"uniform" or "none"'),
    "no none": (lambda: FakeDataColumn(grr(AB), columns=2, fake="none"), "no report of no value"),
    "both": (lambda: FakeDataColumn(oue(AB), columns=2, fake="none", prior=[1, 1]), "not both"),
    "answer": (lambda: Mechanism.from_dict({"mechanism": "sampled_column", "columns": 2, "domain": AB}), "answer"),
    "published": (lambda: published_epsilon(1.0, 0), "at least 1"),
    "n": (lambda: compare({"x": AB, "y": AB}, 1.0, 0), "at least 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_refused(name):
    attempt, message = BAD[name]
    with pytest.raises((ParameterError, PlanError), match=message):
        attempt()


# ---- which way is best


def test_the_comparison_agrees_with_the_reports():
    columns, n, runs = {"x": range(4), "y": range(12), "z": [False, True]}, 500, 400
    found = {}
    for sharing in compare(columns, 1.0, n):
        rng = np.random.default_rng(2)
        values = {name: rng.permutation(np.arange(n * runs) % len(domain)) for name, domain in columns.items()}
        codes = {**values, "z": values["z"].astype(bool)}
        reports = sharing.plan.seeded(1).perturb(pa.record_batch(codes), ids=np.arange(n * runs))
        groups = np.repeat(np.arange(runs), n)
        errors = {}
        for name, m in sharing.plan.columns.items():
            counts = m.debias(n, m.count_reports(m.from_arrow(reports[name]), groups, runs))[0]
            d = len(columns[name])
            true = np.bincount(groups * d + values[name], minlength=runs * d).reshape(runs, d)
            errors[name] = math.sqrt(((counts - true) ** 2).mean()) / n
            assert sharing.standard_errors[name] == pytest.approx(errors[name], rel=0.1)
        found[sharing.way] = math.sqrt(sum(e**2 for e in errors.values()) / 3)
    assert list(found) == sorted(found, key=found.get)
    assert next(iter(found)) == "sampled"


def test_a_large_epsilon_is_better_split():
    assert [s.way for s in compare({"x": AB, "y": AB}, 5.0, 1000)] == ["split", "sampled", "fake"]
    table = [HEADER, *map(str, compare({"x": AB, "y": AB}, 5.0, 1000))]
    assert len({line.index(word) for line, word in zip(table, ("in", "x", "x", "x"), strict=True)}) == 1
