"""What an audit finds of sound mechanisms, what it answers, and what it refuses."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from ldp_core import (
    Audit,
    Dates,
    DBitFlip,
    Domain,
    HeavyHitters,
    Hybrid,
    Interval,
    LocalHashing,
    Loloha,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    UnaryEncoding,
    audit,
)
from ldp_core.auditing.binomial import epsilon_bound, lower_bound, upper_bound
from ldp_core.auditing.columns import NULL, columns
from ldp_core.auditing.inputs import inputs_of
from ldp_core.auditing.result import table
from ldp_core.auditing.run import run_audit
from ldp_core.mechanisms.catalog import examples

from ...cases import each
from ..examples import ALONE, DRAWN, REGISTERED

TRIALS = 20_000
SOME = ["binary RR", "SHE", "OLH", "HCMS", "piecewise"]


@pytest.mark.parametrize("name", [n if n in SOME else pytest.param(n, marks=pytest.mark.slow) for n in ALONE])
def test_mechanisms_are_not_broken_and_hardly_spend_less(name):
    m = ALONE[name]
    # (So few trials: sketches have 4096 bits or reports, two given buckets are seldom both among dBitFlipPM's.)
    hard = name.startswith(("CMS", "HCMS", "dBit"))
    found = audit(m, trials=(3 if hard else 1) * TRIALS, name=name)
    assert found.exact == m.realized_epsilon
    assert found.lower_bound <= m.realized_epsilon
    least = 0.1 if hard else 0.5
    assert found.lower_bound > least * m.realized_epsilon
    assert found.verdict == "not broken"


def test_reports_of_heavy_hitters_are_read_by_whether_they_speak_for_a_value():
    m = HeavyHitters(Prefixes("ab", 8), epsilon=1.0, rows=4, width=64)
    found = audit(m, trials=TRIALS)
    assert 0.5 < found.lower_bound < m.realized_epsilon


def test_it_finds_what_is_there():
    """The bound is no more than some standard errors below the exact epsilon."""
    m = RandomizedResponse(epsilon=1.0)
    found = audit(m, trials=400_000, false_alarm=1e-6)
    assert 0.95 < found.lower_bound < m.realized_epsilon


@pytest.mark.slow
def test_bounds_are_seldom_too_high():
    """Of 30 audits with a false alarm of 1/2 at most 15 are expected to be wrong, and 27 with probability 5e-6."""
    m = RandomizedResponse([0, 1], epsilon=0.5)
    wrong = sum(audit(m, trials=1000, false_alarm=0.5).lower_bound > 0.5 for _ in range(30))
    assert wrong < 27


@pytest.mark.slow
def test_rounds_are_held_against_what_they_spend_together():
    m = Loloha(range(10), epsilon_infinity=2.0, epsilon_1=1.0)
    together = audit(m, rounds=4, trials=TRIALS)
    assert (together.claimed, together.exact) == (m.epsilon_of(4), None)
    assert 1 < together.lower_bound < m.epsilon_of(4) < 2
    changing = audit(m, inputs=[(0, 0), (0, 1), (1, 2)], trials=TRIALS)
    assert changing.claimed == m.epsilon_of(2, changes=1)
    assert not changing.broken
    coin = RandomizedResponse(epsilon=1.0)
    assert audit(coin, rounds=3, trials=TRIALS).claimed == 3.0
    kept = audit(coin, rounds=3, keyed=True, trials=TRIALS)
    assert kept.claimed == 1.0
    assert 0.8 < kept.lower_bound < 1


def test_a_plan_is_audited_as_a_whole():
    plan = PrivacyPlan(
        {
            "os": UnaryEncoding(Domain(["a", "b"], unmatched="other"), epsilon=1.0),
            "crashed": RandomizedResponse(epsilon=0.5),
        }
    )
    found = audit(plan, trials=TRIALS)
    assert found.claimed == 1.5
    assert 1 < found.lower_bound < 1.5
    assert found.name == "the whole record"
    assert found.exact == pytest.approx(1.5, rel=1e-9)
    sampled = PrivacyPlan.sampled({"a": ["x", "y"], "b": range(5)}, epsilon=1.0)
    assert 0.5 < audit(sampled, trials=TRIALS).lower_bound < 1.0
    hashed = {"a": LocalHashing(range(100), epsilon=1.0), "b": range(5)}
    assert 0.4 < audit(PrivacyPlan.sampled(hashed, epsilon=1.0), trials=TRIALS).lower_bound < 1.0
    faked = PrivacyPlan.fake({"a": ["x", "y"], "b": range(5)}, epsilon=1.0)
    assert 0.2 < audit(faked, trials=TRIALS).lower_bound < 1.0


def test_the_result():
    found = Audit("x", 1.0, None, 1.5, 1e-6, 1000, ("a", "b"), ("a", "b"), "the report: 1 of 3 classes")
    assert found.verdict == "broken"
    assert found.broken
    assert repr(found).splitlines()[-1] == "verdict          broken"
    assert "a against b, by the report" in repr(found)
    assert json.loads(json.dumps(found.to_dict()))["lower_bound"] == 1.5
    endless = Audit("x", math.inf, None, 0.0, 1e-6, 1000, ("a", "b"), None, "")
    assert endless.to_dict()["claimed"] is None
    assert not endless.broken
    assert "no pair of inputs" in repr(endless)
    with pytest.raises(AttributeError):
        found.claimed = 2.0


@each("name", REGISTERED)
def test_inputs_are_some_that_the_mechanism_takes(name):
    m = REGISTERED[name]
    inputs = inputs_of(m)
    assert 2 <= len(inputs) == len(set(inputs)) <= 6
    assert len(m.inputs.encode(inputs)) == len(inputs)


def test_inputs_outside_are_among_them_where_they_may_be():
    assert inputs_of(RandomizedResponse(Domain([0, 1, -1], unmatched="other"), epsilon=1.0)) == [0, 1, -1, -2, None]
    assert inputs_of(UnaryEncoding(Domain(["a", "bb"], unmatched="none"), epsilon=1.0)) == ["a", "bb", "bb?", None]
    assert inputs_of(RandomizedResponse(epsilon=1.0)) == [False, True]
    months = Dates("2024-01-01", "2024-06-01", every="1mo", unmatched="clip")  # none of them was tried
    assert inputs_of(RandomizedResponse(months, epsilon=1.0))[-1] == "2024-06-01"
    hours = Dates("2024-01-01 00:00", "2024-01-02 00:00", every="6h", unmatched="other")
    assert inputs_of(RandomizedResponse(hours, epsilon=1.0))[-2:] == ["2024-01-02 00:00:00", None]
    assert inputs_of(Hybrid(Interval(0, 2, "clip"), epsilon=1.0)) == [0, 2, 1, 4, -2]


def test_what_is_refused():
    m = RandomizedResponse(epsilon=1.0)
    refused = [
        ({"claim": 1.0}, "a number claims nothing by itself"),
        ({"claim": -1.0, "perturb": m.perturb, "inputs": [False, True]}, "the claimed epsilon must be in"),
        ({"claim": 1.0, "perturb": m.perturb, "inputs": [False]}, "at least two values"),
        ({"claim": 1.0, "perturb": m.perturb, "inputs": [(1, 2), 3]}, "at least two values"),
        ({"claim": 1.0, "perturb": m.perturb, "inputs": range(40)}, "inputs must be 2 to 32, got 40"),
        ({"claim": m, "trials": 10}, r"trials must be an integer in \[1000, 10000000000\], got 10"),
        ({"claim": m, "trials": 10**99}, r"trials must be an integer in \[1000, 10000000000\]"),
        ({"claim": m, "false_alarm": 0.0}, "false_alarm must be in"),
        ({"claim": m, "rounds": 0}, "rounds must be an integer"),
        ({"claim": 1.0, "perturb": m.perturb, "inputs": [False, True], "rounds": 2}, "rounds are of a mechanism"),
        ({"claim": PrivacyPlan({"x": m}, seed=1)}, "a seeded plan is no noise"),
        ({"claim": PrivacyPlan({"x": m}), "inputs": [(False, True), (True, True)]}, "are tuples of 1 values"),
        ({"claim": DRAWN["fake"]}, "perturb the whole record"),
        ({"claim": m, "inputs": [(False, True), (True, True)], "keyed": True}, "give epsilon"),
    ]
    for arguments, message in refused:
        with pytest.raises(ParameterError, match=message):
            audit(**arguments)
    with pytest.raises(ParameterError, match="give inputs"):
        inputs_of(SimpleNamespace(inputs=object()))


def test_reports_that_are_none_are_refused():
    for reports in (lambda values: np.zeros(3), lambda values: (), lambda values: np.zeros((len(values), 0))):
        with pytest.raises(ReportError, match="need as many reports"):
            audit(1.0, reports, inputs=[1, 2], trials=1000)


def test_reports_that_are_not_the_mechanism_s():
    """Words of a hash function that does not exist are counted; what is no word is refused."""
    m = LocalHashing(range(9), epsilon=1.0)

    def leak(values):
        return np.where(values.to_numpy() == 1, np.uint64(2**64 - 1), m.perturb(values.to_numpy()))

    assert audit(m, leak, trials=4000).broken
    with pytest.raises(ReportError, match="reports of local_hashing are unsigned integers"):
        audit(m, lambda values: values.cast("string"), trials=4000)
    with pytest.raises(ParameterError, match="epsilon must be in"):
        audit(m, epsilon=0.0)


def test_reports_that_are_real_numbers():
    """Laplace noise of scale 1 / epsilon, on a grid; half of it; and what floats make of it.

    (I. Mironov, "On Significance of the Least Significant Bits for Differential Privacy", CCS 2012.)
    """
    rng = np.random.default_rng(1)
    for scale, grid, broken in ((1.0, 2.0**-10, False), (0.5, 2.0**-10, True), (1.0, None, True)):

        def add_noise(values, scale=scale, grid=grid):
            numbers = values.to_numpy() + rng.laplace(0, scale, len(values))
            return numbers if grid is None else np.round(numbers / grid) * grid + 0.0

        found = audit(1.0, add_noise, inputs=[0, 1], trials=TRIALS)
        assert found.broken == broken
        assert 0.7 / scale < found.lower_bound < (1 / scale if grid else math.inf)


# ---- Clopper-Pearson bounds, against scipy.stats


COUNTS = [(0, 10), (1, 10), (10, 10), (3, 7), (0, 500_000), (1, 500_000), (20, 500_000), (250_000, 500_000)]
COUNTS += [(365_529, 500_000), (499_999, 500_000), (10**6, 10**7)]


@each(("k", "n"), COUNTS)
@each("alpha", [0.5, 0.05, 1e-6, 1e-12])
def test_the_tail_at_a_bound_of_many_trials_is_alpha(k, n, alpha):
    """By another function of another library than the one that inverts: `scipy.stats.binom`."""
    if k:
        assert stats.binom.sf(k - 1, n, lower_bound(k, n, alpha)) == pytest.approx(alpha, rel=1e-6)
    if (bound := upper_bound(k, n, alpha)) < 1:
        resolved = 2**-52 / (1 - bound)  # what the next float would change
        assert stats.binom.cdf(k, n, bound) == pytest.approx(alpha, rel=1e-6 + resolved)


def test_what_was_never_seen_bounds_nothing():
    assert epsilon_bound(0, 1000, 5, 1000, 1e-6) == -math.inf
    assert epsilon_bound(1000, 1000, 0, 1000, 1e-6) == pytest.approx(
        math.log(1e-6 ** (1 / 1000) / (1 - 1e-6 ** (1 / 1000)))
    )


# ---- reports of any kind become the same columns, in any form and in any batch


def numbers(reports):
    return [[column.tolist() for column in part] for part in columns(reports)]


@each(
    "reports",
    [
        np.array([[1, 0], [1, 1], [0, 1]]),
        [[1, 0], [1, 1], [0, 1]],
        pa.array([[1, 0], [1, 1], [0, 1]], pa.list_(pa.int64(), 2)),
        pa.array([[9, 9], [1, 0], [1, 1], [0, 1]], pa.list_(pa.int64(), 2))[1:],
        pa.chunked_array([pa.array([[True, False]], pa.list_(pa.bool_(), 2)), [[True, True], [False, True]]]),
        [(True, False), (True, True), (False, True)],
    ],
)
def test_lists(reports):
    assert numbers(reports) == [[[1, 1, 0], [0, 1, 1]]]


def test_several_reports_and_structs():
    assert numbers((np.array([1, 2]), pa.array([True, False]))) == [[[1, 2]], [[1, 0]]]
    assert numbers(pa.array([{"a": 1, "b": True}, {"a": 2, "b": False}])) == [[[1, 2], [1, 0]]]


def test_nulls_are_a_value_of_their_own():
    assert numbers(pa.array([1, None])) == [[[1, NULL]]]
    assert numbers(pa.array([None, True])) == [[[NULL, 1]]]
    outer = NULL + 1  # (a list that is missing is no list of missing ones)
    assert numbers(pa.array([[1, 2], None, [None, 4]], pa.list_(pa.int8(), 2))) == [[[1, outer, NULL], [2, outer, 4]]]
    top = np.uint64(2**64 - 1)
    assert numbers(pa.array([top, None], pa.uint64())) == [[[-1, NULL]]]
    assert numbers(np.array([top])) == numbers(pa.array([top])) == [[[-1]]]
    assert numbers(pa.nulls(2)) == [[[NULL, NULL]]]
    assert np.isnan(columns(pa.array([0.5, None]))[0][0]).tolist() == [False, True]


def test_texts_are_the_same_in_every_batch():
    one, two = numbers(["a", "b", "a"])[0][0], numbers(pa.array(["b", None, "a"]).dictionary_encode())[0][0]
    assert one == [two[2], two[0], two[2]]
    assert two[1] == NULL
    assert numbers(np.array(["a", "b", "a"]))[0][0] == one


@each("reports", [[[1, 2], [1]], pa.array([[1], [1, 2]]), 5, [object()], np.zeros((2, 2, 2))])
def test_other_types_are_refused(reports):
    with pytest.raises(ReportError, match="an audit takes"):
        columns(reports)


# ---- the table: which lines it has, and what they share


PLAN = PrivacyPlan(
    {"crashed": RandomizedResponse(epsilon=1.0), "hour": DBitFlip(range(4), epsilon_infinity=2.0, bits=4)}
)


def first_column(text):
    return [line.split("  ")[0] for line in text.splitlines()]


def test_each_column_and_the_whole_record():
    progress = []
    audits = run_audit(PLAN, trials=4_000, false_alarm=1e-3, progress=progress.append)
    assert first_column(table(audits)) == ["audited", "crashed", "hour", "hour, 4 reports", "the whole record"]
    assert [found.false_alarm for found in audits] == [1e-3 / 4] * 4
    assert not any(found.broken for found in audits)
    assert "hour: 4,000 of 4,000 trials of each input" in progress


def test_no_rounds_and_one_column():
    [found] = run_audit(PLAN, columns=["hour"], trials=4_000, rounds=1)
    assert (found.name, found.claimed, found.false_alarm) == ("hour", 2.0, 1e-6)
    lines: list[str] = []
    with pytest.raises(ParameterError, match="rounds must be an integer"):  # (once it was after the first audits)
        run_audit(PLAN, rounds=65, trials=1_000, progress=lines.append)
    assert not lines


def test_a_sampled_plan_has_the_whole_record_only():
    plan = PrivacyPlan.sampled({"a": ["x", "y"], "b": [1, 2]}, epsilon=1.0)
    assert first_column(table(run_audit(plan, trials=4_000))) == ["audited", "the whole record"]


def test_what_is_broken_is_said(monkeypatch):
    monkeypatch.setattr(RandomizedResponse, "perturb", lambda self, values, **_: values)
    audits = run_audit(PLAN, columns=["crashed"], trials=4_000)
    assert audits[0].broken
    assert table(audits).splitlines()[1].endswith("broken")


def test_an_encoding_of_many_values():
    """Reports of many places are told apart by few of them."""
    [found] = run_audit(PrivacyPlan({"x": UnaryEncoding(range(100), epsilon=1.0)}), trials=1_000)
    assert found.verdict == "not broken"


def test_without_a_plan_each_mechanism_is_audited(monkeypatch):
    asked = []
    monkeypatch.setattr("ldp_core.auditing.run.audit", lambda m, *, name, **_: asked.append((name, m)))
    run_audit()
    assert {m for _, m in asked} == set(examples().values())


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"columns": ["nothing"]}, PlanError, "the plan does not perturb column 'nothing'"),
        ({"trials": 10}, ParameterError, "trials must be an integer in"),
        ({"false_alarm": 0}, ParameterError, r"false_alarm must be in \(0, 1\)"),
        ({"false_alarm": 2}, ParameterError, r"false_alarm must be in \(0, 1\)"),
    ],
)
def test_what_cannot_be_audited(options, error, said):
    with pytest.raises(error, match=said):
        run_audit(PLAN, **options)
