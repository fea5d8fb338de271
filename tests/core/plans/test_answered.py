"""Plans of pairs: what a record spends, exactly; tables and histograms against true counts and closed forms."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ldp_core import HistogramEstimate, ParameterError, PlanError, PrivacyPlan, Secret, TableEstimate, audit, consistent
from ldp_core.auditing.boxes import box_of
from ldp_core.noise.keyed import Keyed
from ldp_core.plans.answered import MarginEstimate, _Cells, joint_of, margins
from ldp_core.plans.drawn import DrawnColumns
from ldp_core.tally import Tally

from ...cases import each
from ..checks import exact_ln, slow

COLUMNS = {"os": ["ios", "web", "tv"], "crashed": [False, True], "age": range(4)}
PLAN = PrivacyPlan.pairs(COLUMNS, epsilon=1.0)


def test_a_record_spends_epsilon_and_no_more():
    """Every record of three bits, every answer, in rational arithmetic, from the exact p and q of the cells."""
    for epsilon in (1.0, 2.0):
        plan = PrivacyPlan.pairs({key: [0, 1] for key in "abc"}, epsilon=epsilon)
        names = list(plan.columns)
        chances = {}
        for record in itertools.product((0, 1), repeat=3):
            values = dict(zip("abc", record, strict=True))
            for name, m in plan.columns.items():
                p, q = m.inner.support_probabilities()
                own = int(m.codes({c: [v] for c, v in values.items()}, name)[0])
                for cell in range(4):  # (randomized response, so that a report is a cell)
                    chances[record, name, cell] = Fraction(1, len(names)) * (p if cell == own else q)[cell]
            assert sum(c for (r, *_), c in chances.items() if r == record) == 1
        records = list(itertools.product((0, 1), repeat=3))
        reports = [(name, cell) for name in names for cell in range(4)]
        worst = max(chances[x, *y] / chances[z, *y] for x in records for z in records for y in reports)
        assert exact_ln(worst) <= Decimal(plan.epsilon) == Decimal(epsilon)
        assert exact_ln(worst) > Decimal(epsilon) * Decimal("0.999999")


def test_one_pair_is_answered_and_a_person_keeps_it():
    n, secret = 3000, Secret.generate()
    rng = np.random.default_rng(2)
    made = []
    for _ in range(2):  # the same people with other values
        batch = {name: rng.choice(np.array(list(values)), n).tolist() for name, values in COLUMNS.items()}
        made.append(PLAN.perturb(pa.table(batch), key=secret, id=np.arange(n)))
    there = [np.array([[v != [None] * len(v or ()) for v in c.to_pylist()] for c in t.columns]) for t in made]
    assert (there[0].sum(axis=0) == 1).all()
    assert (there[0] == there[1]).all()
    assert PrivacyPlan.from_metadata(made[0].schema.metadata) == PLAN
    seeded = PLAN.seeded(3)
    with pytest.warns(Warning, match="seed"):
        first, second = (seeded.perturb(pa.table(batch), id=np.arange(n)) for _ in range(2))
    assert first.equals(second)


def test_plans_travel():
    for plan in (PLAN, PrivacyPlan.pairs({"a": [0, 1], "b": ["x", "y"]}, epsilon=1.0, keep=["day"], seed=4)):
        assert PrivacyPlan.from_dict(plan.to_dict()) == PrivacyPlan.from_toml(plan.to_toml()) == plan
        assert list(plan.inputs) == [*dict.fromkeys(name for m in plan.columns.values() for name, _ in m.of)]


def unlikely(noise: dict, *, fault: float = 0.0) -> float:
    """Pearson's chi-square of 200,000 reports of each of 4 records of three bits, the largest; 11 degrees of freedom.

    Expected are the exact probabilities of 3 pairs of 4 cells. With a ``fault`` some of those whose first bit is 1
    answer the first pair, whatever they have drawn.
    """
    plan, n, found = PrivacyPlan.pairs({key: [0, 1] for key in "abc"}, epsilon=1.0), 200_000, []
    draw, late = DrawnColumns.draw, np.arange(n) >= n * (1 - fault)
    for record in ((0, 0, 0), (1, 1, 1), (0, 1, 0), (1, 0, 1)):
        values = {c: np.full(n, v) for c, v in zip("abc", record, strict=True)}
        with pytest.MonkeyPatch.context() as patch:
            if fault and record[0]:
                patch.setattr(DrawnColumns, "draw", lambda *given: np.where(late, 0, draw(*given)))
            keyed = Keyed(noise["key"], np.arange(n) + n * len(found), column="") if noise else None
            reports = plan.perturb_columns(values, keyed, packed=False)
        for_each, counts = [], []
        for name, m in plan.columns.items():
            p, q = m.inner.support_probabilities()
            own = 2 * values[name[0]][0] + values[name[2]][0]
            for_each += [n / 3 * float(p[k] if k == own else q[k]) for k in range(4)]
            cells = reports[name].drop_null()
            counts += [pc.sum(pc.equal(cells, m.domain.values[k])).as_py() for k in range(4)]
        assert sum(counts) == n
        found.append(sum((x - e) ** 2 / e for x, e in zip(counts, for_each, strict=True)))
    return max(found)


@pytest.mark.slow
def test_reports_have_their_exact_probabilities():
    """(Pr[chi-square of 11 > 50] is 6e-7.)"""
    noise = {"key": Secret.generate()}
    assert unlikely(noise) < 50
    assert unlikely({}) < 50
    assert unlikely(noise, fault=0.02) > 100  # the pair that is drawn depends on a value


def test_an_audit_of_the_whole_record():
    """It has an argument for each private column, and knows of a mechanism that answers with more."""
    found = audit(PLAN, trials=20_000, keyed=True)
    assert (found.verdict, found.exact) == ("not broken", pytest.approx(1.0))
    assert found.lower_bound > 0.8
    louder = PrivacyPlan.pairs(COLUMNS, epsilon=2.0)
    perturb = box_of(louder, None, None, None, 1, keyed=False, name=None).perturb
    assert audit(PLAN, perturb, trials=5_000).verdict == "broken"


def test_what_several_reports_spend():
    """Values (os, crashed), each column changing c times, at times of its own: 2 c + 1 keyed reports differ."""
    for changes, spent in ((0, 1.0), (1, 3.0), (2, 5.0), (3, 7.0)):
        history = {"changes": changes, "change_times": "public", "keyed": True}
        assert PLAN.epsilon_of(100, **history) == PLAN["os_age"].epsilon_of(100, **history) == spent
    assert PLAN.epsilon_of(2, changes=1, change_times="public", keyed=True) == 2.0
    assert math.isinf(PLAN.epsilon_of(100, changes=1, keyed=True))
    assert PLAN.epsilon_of(100, changes=1) == 100.0


def test_what_strangers_may_not_say():
    told = PLAN.to_dict()["columns"]["os_age"]
    labels = [f"{k:0500}" for k in range(1 << 9)]
    sides = {place: {"column": place, "domain": labels} for place in ("first", "second")}
    one = {"mechanism": "sampled_pair", "columns": 1, "answer": {"mechanism": "randomized_response", "epsilon": 1.0}}
    swapped = {**told, "first": {"column": "os", "domain": ["web", "ios", "tv"]}}
    cells = [cell.replace("tv", "TV") for cell in told["domain"]]
    other = {**told, "first": {"column": "os", "domain": ["ios", "web", "TV"]}, "domain": cells}
    for columns, message in (
        ({"x": {**one, **sides, "domain": ["a", "b"]}}, "all pairs of their values"),  # (all pairs are 270 MB)
        ({"x": {**one, **sides, "domain": [*map(str, range(1 << 18))]}}, "all pairs of their values"),
        ({**PLAN.to_dict()["columns"], "os_age": swapped}, "all pairs of their values"),
        ({**PLAN.to_dict()["columns"], "os_age": other}, "column 'os' has other values in 'os_age'"),
    ):
        tracemalloc.start()
        with pytest.raises(PlanError, match=message):
            PrivacyPlan.from_dict({"keep": [], "columns": columns})
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert taken < 60e6
    with pytest.raises(PlanError, match="labels=1048576"):
        PrivacyPlan.pairs({"a": range(2000), "b": range(2000)}, epsilon=1.0)


def test_a_private_column_is_not_kept():
    for keep in (["os"], ["day", "age"], ["os_age"]):
        with pytest.raises(PlanError, match="either perturbed or kept"):
            PrivacyPlan.pairs(COLUMNS, epsilon=1.0, keep=keep)


@each(
    ("columns", "message"),
    [
        ({"a": [0, 1], "b": [0, 1], "a_b": [0, 1]}, "names of their own"),
        ({"a": [0, 1]}, "two columns"),
        ({"a": [0, 1], "b": [1]}, "column 'b'"),
        ({"a": [0, 1], "b_c": [0, 1], "a_b": [0, 1], "c": [0, 1]}, "names of their own"),
    ],
)
def test_what_is_no_plan_of_pairs(columns, message):
    with pytest.raises(PlanError, match=message):
        PrivacyPlan.pairs(columns, epsilon=1.0)


def test_noise_of_cells_is_that_of_their_covariances():
    for m in PLAN.columns.values():
        shares = np.zeros((1, m.domain.size))
        shares[0, 0] = 1
        c, noise = m.inner.covariance(shares)[0], _Cells.of(m.inner)
        assert np.allclose([c[0, 0], c[1, 1], c[0, 1], c[1, 2]], noise)
        for cells in (2, 3):
            row, other = slice(0, cells), slice(cells, 2 * cells)
            assert np.allclose(noise.of_row(cells), [c[row, row].sum(), c[other, other].sum()])
            assert np.allclose(noise.with_row(cells), [c[0, row].sum(), c[1, row].sum(), c[cells, other].sum()])


def coverage(runs: int, n: int, planted: float) -> dict[str, np.ndarray]:
    """How often 95 % intervals of cells, of shares and of rates hold; "short" ones are ``planted`` times as long."""
    shape = tuple(len(list(values)) for values in COLUMNS.values())
    shares = np.random.default_rng(8).dirichlet(np.full(math.prod(shape), 1.5)).reshape(shape)
    people = np.random.default_rng(9).multinomial(n, shares.reshape(-1)).reshape(shape)
    rows = np.unravel_index(np.tile(np.repeat(np.arange(people.size), people.reshape(-1)), runs), shape)
    values = {name: np.array(COLUMNS[name])[at] for name, at in zip(COLUMNS, rows, strict=True)}
    reports, of_run, of = PLAN.perturb_columns(values, None, packed=False), np.repeat(np.arange(runs), n), {}
    for name, m in PLAN.columns.items():
        of[name] = m.count_reports(m.reports.from_arrow(reports[name]), of_run, runs)
    hits: dict[str, list] = {}

    def add(name, table, true, low="low", high="high"):
        low, high = (table[end].to_numpy().reshape(runs, -1) for end in (low, high))
        hits.setdefault(name, []).append((low <= true) & (true <= high))
        counts = table["count"].to_numpy().reshape(runs, -1)
        short = [counts + (end - counts) * planted for end in (low, high)]
        hits.setdefault("short " + name, []).append((short[0] <= true) & (true <= short[1]))

    pair, ns, both = joint_of(PLAN.columns, ["crashed", "os"]), np.full(runs, n), people.sum(axis=2).T
    table, _ = TableEstimate().rows(pair, ns, of["os_crashed"])
    add("cells", table, both.reshape(-1))
    add("rates", table, (both / both.sum(axis=1, keepdims=True)).reshape(-1), "rate_low", "rate_high")
    for axis, margin in enumerate(margins(PLAN.columns).values()):
        counters = np.concatenate([of[name] for name, _ in margin.pairs], axis=1)
        add("shares", MarginEstimate().rows(margin, ns, counters)[0], people.sum(axis=tuple({0, 1, 2} - {axis})))
    return {name: np.concatenate(found, axis=1).mean(axis=0) for name, found in hits.items() if name != "short rates"}


@pytest.mark.parametrize(("runs", "n"), [(300, 2_000), slow(2000, 2_000), slow(300, 20_000)])
def test_intervals_hold(runs, n):
    slack = max(4 * math.sqrt(0.05 * 0.95 / runs), 0.02)
    found = coverage(runs, n, planted=0.8)
    for name in ("short cells", "short shares"):  # intervals that are a fifth too short are found
        assert found.pop(name).mean() < 0.93
    for held in found.values():
        assert 0.93 <= held.mean() <= 0.97
        assert np.abs(held - 0.95).max() <= slack


def test_variances_are_those_of_the_closed_forms():
    """Of two columns with OUE: V(eps / D)^2 of a split, V(eps) D (D - 1) / 2 of pairs; and ours is no larger."""

    def v(epsilon: float) -> float:
        return 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2

    for columns, gain in ((2, 67), (3, 115), (5, 270), (10, 964)):
        oue = v(1.0) * columns * (columns - 1) / 2
        assert round(v(1.0 / columns) ** 2 / oue) == gain
        plan = PrivacyPlan.pairs({f"c{k}": range(4) for k in range(columns)}, epsilon=1.0)
        ours = plan["c0_c1"].columns * plan["c0_c1"].inner.variance(1)
        assert 0.8 * oue < ours <= oue


def test_one_column_weighs_all_its_pairs():
    """About D / 2 times less variance than of one pair's cells alone, if all domains are alike."""
    plan = PrivacyPlan.pairs({f"c{k}": range(4) for k in range(4)}, epsilon=1.0)
    margin = margins(plan.columns)["c1"]
    assert [name for name, _ in margin.pairs] == ["c0_c1", "c1_c2", "c1_c3"]
    counters = np.concatenate([np.append(1000, np.full(16, 250)) for _ in range(3)])
    one = MarginEstimate().result(margin, Tally(6000, counters, margin.fingerprint))
    (_name, m), *_ = margin.pairs
    v1, v0 = _Cells.of(m.inner).of_row(4)
    f = one.frequencies
    sampled = f * (1 - f) * (6000 / 3000 - 1) * 6000 / 5999
    assert np.allclose(one.frequency_standard_errors**2, ((v0 + (v1 - v0) * f) * 2 + sampled) / 6000, rtol=1e-9)
    # Three equal reports of each person, as keyed noise makes them, tell what one does.
    many = MarginEstimate(population="many").result(margin, Tally(6000, counters, margin.fingerprint))
    three = MarginEstimate(population="many", repeats=3)
    three = three.result(margin, Tally(18000, 3 * counters, margin.fingerprint))
    assert np.allclose(three.frequencies, many.frequencies)
    assert np.allclose(three.frequency_standard_errors, many.frequency_standard_errors, rtol=1e-3)
    assert np.allclose(three.frequency_low, many.frequency_low, atol=1e-3)
    tables = np.array([0, 250, 250, 500]) * np.ones((3, 4, 1), int)  # of c1 by the others
    tables[1:] = tables[1:].transpose(0, 2, 1)
    counters = np.concatenate([np.append(1000, cells.reshape(-1)) for cells in tables])
    raw, made = (
        MarginEstimate(consistency=how).result(margin, Tally(6000, counters, margin.fingerprint)).counts
        for how in (None, "norm-sub")
    )
    assert raw.min() < 0
    assert np.allclose(made, consistent(raw, 6000, "norm-sub"))
    for question, message in (
        (MarginEstimate(consistency="mle-apx"), "mle-apx needs the noise of one mechanism"),
        (HistogramEstimate(), "a histogram"),
    ):
        with pytest.raises(ParameterError, match=message):
            question.check(margin)
    with pytest.raises(ParameterError, match="no mean"):
        MarginEstimate.of("mean")
    with pytest.raises(ParameterError, match="repeats=k"):
        MarginEstimate().person_sums(margin, np.array([6000]), counters)
    with pytest.raises(ParameterError, match="private columns"):
        joint_of(plan.columns, ["c0", "zz"])
    with pytest.raises(ParameterError, match=r"\['count'\] of its own"):
        joint_of(PrivacyPlan.pairs({"count": [0, 1], "b": [0, 1]}, epsilon=1.0).columns, ["count", "b"])


@pytest.mark.filterwarnings("error")
def test_a_pair_that_nobody_answers_has_no_part_in_its_columns():
    """4 people answer c0_c1, with c0 = 0: without a warning, their weights in randomized response of 4 values."""
    margin = margins(PrivacyPlan.pairs({f"c{k}": range(2) for k in range(3)}, epsilon=1.0).columns)["c0"]
    found = MarginEstimate().result(margin, Tally(4, np.array([4, 2, 2, *[0] * 7]), margin.fingerprint))
    np.testing.assert_allclose(found.counts, np.array([math.e + 1, -2]) * 4 / (math.e - 1))
