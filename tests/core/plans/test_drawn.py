"""One epsilon for several columns: the joint privacy of a record's reports, exactly; estimators; plans as values."""

from __future__ import annotations

import copy
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    Domain,
    DomainError,
    FakeDataColumn,
    Keyed,
    Keystream,
    LocalHashing,
    ParameterError,
    PlanError,
    PrivacyPlan,
    ReportError,
    SampledColumn,
    Secret,
    SubsetSelection,
    Tally,
)
from ldp_core.plans.drawn import DrawnColumns

from ...cases import each
from ..checks import check_binomial, check_moments, check_uniform, exact_ln, slow
from .helpers import AB, ABC, PLANS, answered, grr, oue, records_of, table_of, tables_of, worst_of

each_plan = pytest.mark.parametrize("name", [slow(name) if k % 2 else name for k, name in enumerate(PLANS)])


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


class DrawnApart(DrawnColumns):
    """The fault: a draw for each column by itself."""

    def perturb(self, values, keyed, *, packed, tag=None):
        reports = []
        for position, ((_, column), column_values) in enumerate(zip(self.columns, values, strict=True)):
            codes = column.inputs.encode(column_values)
            native = column.perturb_drawn(codes, self.draw(len(codes), keyed) == position, Keystream())
            reports.append(column.reports.to_arrow(native, packed=packed))
        return reports


@each("name", ["sampled GRR, GRR", "fake OUE of nothing"])
def test_the_enumeration_finds_a_draw_for_each_column(name):
    plan = copy.copy(PLANS[name])
    object.__setattr__(plan, "drawn", DrawnApart(plan.drawn.columns))
    assert exact_ln(worst_of(tables_of(plan))) > Decimal(1.05 * plan.epsilon)


def test_the_enumeration_finds_an_answer_with_too_large_an_epsilon():
    plan = PrivacyPlan({n: SampledColumn(grr(AB, 1.0 if n == "x" else 1.01), columns=2) for n in "xy"})
    assert exact_ln(worst_of(tables_of(plan))) > 1


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
    reports = plan.seeded(5).perturb(batch, id=np.arange(len(codes)))
    groups = np.repeat(np.arange(RUNS), EACH)
    return plan, {c: m.count_reports(m.reports.from_arrow(reports[c]), groups, RUNS) for c, m in plan.columns.items()}


TRUTH = EACH * np.array([0.3, 0.7, 0, 0, 0])


@each("column", ["x", "y", "z"])
def test_estimates_are_unbiased_and_vary_as_they_say(simulated, column):
    plan, support = simulated
    m = plan[column]
    counts, errors, low, high = m.debias(EACH, support[column], simultaneous=False)
    check_moments(counts, TRUTH, variances(m))
    # the reported standard errors, in the mean of their squares, and the coverage of the 95 % intervals
    expected = variances(m)
    assert (errors**2).mean(axis=0) == pytest.approx(expected, rel=0.05)
    covered = ((low <= TRUTH) & (high >= TRUTH)).sum(axis=0)
    check_binomial(covered, RUNS, 0.95)


def variances(m) -> np.ndarray:
    """Of each value's estimated count, from exact p and q."""
    p, q = (np.array([float(x) for x in side]) for side in m.support_probabilities())
    noise = (TRUTH * p * (1 - p) + (EACH - TRUTH) * q * (1 - q)) / (p - q) ** 2
    if not isinstance(m, SampledColumn):
        return noise
    people = TRUTH * (1 - TRUTH / EACH) * (1 - 1 / m.columns) * EACH / (EACH - 1)
    return (noise + people) * m.columns * (1 + (m.columns - 1) / EACH)  # E[n / m], to first order


@each("column", ["x", "y"])
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
        check_moments(counts, TRUTH, variances(m))


def test_the_variance_of_a_plan_is_what_planning_says():
    for m in SIMULATED["sampled"].columns.values():
        assert m.variance(EACH, 300) == pytest.approx(variances(m)[0], rel=0.005)
        assert m.accuracy(3000) == m.inner.accuracy(1000)
        _, a, b, _ = m.rates
        assert EACH * a[0] + b[0] * 300 == pytest.approx(m.variance(EACH, 300), rel=0.05)


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
        assert Tally.merge([m.tally(reports[c][:700]), m.tally(reports[c][700:])]) == whole
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
