"""The options of the transforms of Beam YAML: what is refused before anything runs."""

from datetime import UTC, date, datetime
from functools import partial

import apache_beam as beam
import pytest
from apache_beam.transforms.trigger import AfterCount, AfterProcessingTime, AfterWatermark

from ldp_beam.yaml import (
    LdpBoundContributions,
    LdpCompare,
    LdpDeduplicate,
    LdpEstimate,
    LdpHistogram,
    LdpPerturb,
    LdpPrivacyLedger,
    LdpPrivateHistogram,
    LdpPrivateTable,
    LdpReadCsv,
    LdpTable,
    LdpWriteEstimates,
)
from ldp_core import DtypeError, LdpError, MechanismMismatchError, ParameterError, PlanError

from ..helpers import run
from .spec import COIN, NUMBER, OS, SKETCH, TWICE, WORD, create, expand

PLAN = {"columns": {"os": OS}}
OF_PERTURB = [
    (PlanError, {"plan": "no/such/plan.toml"}),
    (PlanError, {"plan": 7}),
    (PlanError, {"plan": {}}),
    (PlanError, {"plan": {"columns": {}}}),
    (PlanError, {"plan": {"columns": {"os": {**OS, "mechanism": "laplace"}}}}),
    (PlanError, {"plan": {"columns": {"os": {**OS, "domain": ["ios", False]}}}}),  # unquoted no
    (PlanError, {"plan": {**PLAN, "seed": 1}}),
    (ParameterError, {"plan": PLAN, "packed": "yes"}),
    (ParameterError, {"plan": PLAN, "stabilize": 0}),
    (ParameterError, {"plan": PLAN, "key": "00" * 32, "id": "user"}),
    (ParameterError, {"plan": PLAN, "key": {"hex": "00" * 32}, "id": "user"}),
    (ParameterError, {"plan": PLAN, "key": {"function": "os.no_such_function"}, "id": "user"}),
    (ParameterError, {"plan": PLAN, "key": {"function": "..."}, "id": "user"}),
    (ParameterError, {"plan": PLAN, "key": {"function": "nothing"}, "id": "user"}),
    (ParameterError, {"plan": PLAN, "error_handling": {"output": "good"}}),
    (ParameterError, {"plan": PLAN, "error_handling": "bad"}),
]


def test_bad_arguments_of_perturb():
    for error, config in OF_PERTURB:
        with pytest.raises(error) as caught:
            LdpPerturb(**config)
        assert "00" * 32 not in str(caught.value)


OF_ESTIMATES = [
    (TypeError, {"columns": "os"}),
    (ParameterError, {"mechanism": None}),
    (ParameterError, {"plan": PLAN}),
    (ParameterError, {"mechanism": "unary_encoding"}),
    (ParameterError, {"mechanism": {**OS, "epsilon": "1"}}),
    (ParameterError, {"mechanism": {**OS, "size": 3}}),
    (LdpError, {"mechanism": None, "plan": {"columns": {"crashed": COIN}}}),
    (ParameterError, {"window": {"type": "fixed"}}),
    (ParameterError, {"window": {"type": "fixed", "size": 0}}),
    (ParameterError, {"window": {"type": "fixed", "size": "1h", "gap": 3}}),
    (ParameterError, {"window": {"type": "fixed", "size": "1h", 5: 3}}),
    (ParameterError, {"window": {"type": "daily"}}),
    (ParameterError, {"window": {"type": ["fixed"]}}),
    (ParameterError, {"window": 10**400}),
    (ParameterError, {"by": {"c": 1}}),
    (ParameterError, {"confidence": "0.95"}),
    (ParameterError, {"accumulation_mode": "retracting"}),
    (ParameterError, {"accumulation_mode": ["discarding"]}),
    (ParameterError, {"window": "1h", "fill": "2026"}),
    (ParameterError, {"window": "1h", "fill": ["today", None]}),
    (ParameterError, {"window": "1h", "fill": [0, 7200], "by": "c", "fill_keys": ["fr"]}),
    (ParameterError, {"error_handling": {}}),
    (ParameterError, {"window": "1h", "trigger": {}}),
    (ParameterError, {"window": "1h", "trigger": "1m"}),
    (ParameterError, {"window": "1h", "trigger": {"early": "soon"}}),
    (ParameterError, {"window": "1h", "trigger": {"early": "1m", "on_time": "1m"}}),
    (ParameterError, {"trigger": {"early": "1m"}}),
    *((ParameterError, {"window": "1h", "trigger": {"early": wait}}) for wait in ("500ms", "0s", 1.5)),
]


def test_a_trigger_is_beams():
    made = LdpHistogram(column="os", mechanism=OS, window="1h", trigger={"early": "2m", "late": "each"})
    assert str(made.read["trigger"]) == str(AfterWatermark(early=AfterProcessingTime(120), late=AfterCount(1)))


def test_weeks_begin_on_mondays_however_they_are_written():
    monday = 4 * 86400  # of 1970, which began on a Thursday
    for window in ("2w", {"type": "fixed", "size": "2w"}, {"type": "sliding", "size": "2w", "period": "1w"}):
        made = LdpHistogram(column="os", mechanism=OS, window=window, event_time="t")
        starts = {
            row.window_start.micros // 10**6 for row in run(made, [beam.Row(os=[True, False, False], t=float(monday))])
        }
        assert starts == ({monday, monday - 7 * 86400} if "sliding" in str(window) else {monday})


def test_bad_arguments_of_estimates():
    for kind, good in (
        (LdpHistogram, {"mechanism": OS}),
        (LdpPrivateHistogram, {"mechanism": OS}),
        (LdpEstimate, {"mechanism": NUMBER}),
        (LdpEstimate, {"mechanism": WORD, "ask": {"question": "heavy_hitters", "k": 3}, "private": True}),
    ):
        kind(column="os", **good)
        for error, config in OF_ESTIMATES:
            with pytest.raises(error):
                kind(**{"column": "os", **good, **config})


def test_columns_of_a_plan_do_not_say_where_a_record_is_counted():
    """Of a plan the step saw one mechanism alone: what the plan calls private was told exactly."""
    plan = {"columns": {"os": OS, "crashed": COIN, "minutes": NUMBER}}
    two, in_windows = {"columns": ["os", "crashed"]}, {"window": 10, "event_time": "minutes"}
    for options in ({"by": ["minutes"]}, in_windows):
        for kind, more in (
            (LdpPrivateHistogram, {"column": "os"}),
            (LdpEstimate, {"column": "os", "private": True}),
            (LdpPrivateTable, two),
        ):
            with pytest.raises(PlanError, match=r"\['minutes'\] are private, says the plan"):
                kind(plan=plan, **more, **options)
        for kind, more in (
            (LdpHistogram, {"column": "os"}),
            (LdpEstimate, {"column": "os"}),
            (LdpCompare, {"column": "os", "window": 10}),
            (LdpTable, two),
        ):
            with pytest.raises(MechanismMismatchError, match=r"\['minutes'\] hold reports, says the plan"):
                kind(plan=plan, **more, **{name: one for name, one in options.items() if name not in more})


def ask(mechanism, question=None, **options):
    return LdpEstimate(column="x", mechanism=mechanism, ask=question, **options)


FIXED = {"type": "fixed"}


def test_what_one_kind_alone_refuses():
    for message, make in (
        ("column must be the name", lambda: LdpHistogram(column=["os"], mechanism=OS)),
        ("column must be the name", lambda: LdpEstimate(column={"os": 1}, mechanism=OS)),
        ("columns is a list of texts", lambda: LdpTable(columns=5, plan=PLAN)),
        ("columns is a list of texts", lambda: LdpTable(columns=None, plan=PLAN)),
        ("required is a list of texts", lambda: LdpReadCsv(path=__file__, columns={"os": "string"}, required=None)),
        ("path must be", lambda: LdpWriteEstimates(path=None)),
        (
            "window must be|size must be",
            lambda: LdpHistogram(column="os", mechanism=OS, window={**FIXED, "size": None}),
        ),
        *(
            ("error_handling is", partial(LdpPerturb, plan=PLAN, error_handling={"output": name}))
            for name in (None, 5, ["bad"], "")
        ),
        ("format must be one of", lambda: LdpWriteEstimates(path="out", format=["csv"])),
        ("simultaneous", lambda: LdpHistogram(column="os", mechanism=OS, simultaneous=1)),
        ("an estimate needs .*candidates", lambda: ask({**SKETCH, "domain": {"kind": "str"}})),
        ("threshold", lambda: ask(WORD, {"question": "heavy_hitters", "threshold": "high"})),
        ("a question is its name", lambda: ask(NUMBER, 5)),
        ("private must be", lambda: ask(NUMBER, private="yes")),
        *(
            (
                "fill are in quotes",
                partial(ask, NUMBER, window="1h", fill=[time, None]),
            )  # (Beam: "not JSON serializable")
            for time in (date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC))
        ),
        ("keyed noise takes", lambda: ask(NUMBER, private=True, key={"env": "NAME"})),
        ("private=True", lambda: ask(NUMBER, id="user", key={"env": "NAME"})),
        ("private=True", lambda: ask(NUMBER, id="user")),  # (it asked for key= first, and then for neither)
        ("per_window must be", lambda: LdpBoundContributions(id="user", per_window=0)),
        ("does not pay", lambda: LdpPrivacyLedger(id="user", plan=TWICE, budget=0.4)),
        ("drop_id", lambda: LdpDeduplicate(id="user", within="1h", drop_id="no")),
        ("longer than 0", lambda: LdpDeduplicate(id="user", within={"type": "fixed", "size": 0})),
    ):
        with pytest.raises(ParameterError, match=message):
            make()


def test_the_mechanism_is_named_and_not_labels_that_it_has_not():
    for mechanism, needs in (
        (
            {"mechanism": "hybrid", "epsilon": 1.0, "domain": {"low": 0, "high": 100}},
            "hybrid needs float values, not str",
        ),
        ({**SKETCH, "domain": {"kind": "int"}}, "int"),
    ):
        rows = beam.Pipeline("FnApiRunner") | beam.Create([beam.Row(word="rome")])
        with pytest.raises(DtypeError, match=f"'word': .*{needs}"):
            _ = rows | LdpPerturb(plan={"columns": {"word": mechanism}})


def test_missing_and_unknown_options():
    for option, make in (
        ("column", lambda: LdpEstimate(mechanism=NUMBER)),
        ("within", lambda: LdpDeduplicate(id="user")),
        ("simultaneous", lambda: ask(NUMBER, simultaneous=True)),
        ("key", lambda: LdpHistogram(column="x", mechanism=OS, key={"env": "NAME"})),
    ):
        with pytest.raises(TypeError, match=f"'{option}'"):
            make()


def test_what_does_not_fit_the_rows_is_refused_before_anything_runs():
    rows = beam.Pipeline("FnApiRunner") | beam.Create([beam.Row(os="ios", n=1)])
    for i, (error, message, transform) in enumerate(
        [
            (PlanError, "color", LdpPerturb(plan={"columns": {"color": OS}})),
            (PlanError, "hour", LdpPerturb(plan={**PLAN, "keep": ["hour"]})),
            (PlanError, "user", LdpPerturb(plan=PLAN, key={"env": "NAME"}, id="user")),
            (DtypeError, "'n'", LdpPerturb(plan={"columns": {"n": OS}})),
            (DtypeError, "'os'", LdpPerturb(plan={"columns": {"os": {**OS, "domain": [True, False]}}})),  # unquoted
            (PlanError, "color", LdpHistogram(column="color", mechanism=OS)),
            (PlanError, "'t'", LdpHistogram(column="os", mechanism=OS, window="1h", event_time="t")),
            (PlanError, "color", LdpTable(columns=["os", "color"], plan={"columns": {"os": OS, "color": OS}})),
            (PlanError, "'c'", LdpPrivateHistogram(column="os", mechanism=OS, by=["c"])),
            (DtypeError, "'n'", LdpPrivateHistogram(column="n", mechanism=OS)),
            (PlanError, "user", LdpPrivateHistogram(column="os", mechanism=OS, key={"env": "NAME"}, id="user")),
            (DtypeError, "'os'", LdpEstimate(column="os", mechanism=NUMBER, private=True)),
            (DtypeError, "'n'", LdpEstimate(column="n", mechanism=WORD, private=True)),
            (PlanError, "seconds", LdpEstimate(column="seconds", mechanism=NUMBER)),
            (PlanError, "user", LdpHistogram(column="os", mechanism=OS, person="user")),
            (PlanError, "user", LdpDeduplicate(id="user", within="1h")),
            (PlanError, "'t'", LdpBoundContributions(id="n", per_window=1, window="1h", event_time="t")),
        ]
    ):
        with pytest.raises(error, match=message):
            _ = rows | f"{i}" >> transform


def test_errors_in_yaml_say_where_and_have_ours_as_their_cause():
    with pytest.raises(ValueError, match=r"LdpPerturb.* at line") as caught:
        expand([create([{"os": "ios"}]), {"type": "LdpPerturb", "config": {"plan": "no/such/plan.toml"}}])
    assert isinstance(caught.value.__cause__, LdpError)
    with pytest.raises(ValueError, match="epsilonn"):
        expand([create([{"os": "ios"}]), {"type": "LdpPrivateHistogram", "config": {"column": "os", "epsilonn": 1}}])


def test_inputs_are_joined_as_in_python():
    """Beam YAML's Flatten puts a Map before each: raw values counted as reports, and records twice."""
    raw = {**create([{"os": "ios"}] * 3), "name": "raw"}
    reports = {"type": "LdpPerturb", "name": "reports", "input": "raw", "config": {"plan": PLAN}}
    config = {"column": "os", "mechanism": OS}
    for message, kind, inputs in (
        ("records that they were made of", "LdpHistogram", ["reports", "raw"]),
        ("comes here 2 times", "LdpHistogram", ["reports", "reports"]),
        ("comes here 2 times", "LdpPrivateHistogram", ["raw", "raw"]),
    ):
        job = {"type": kind, "name": "job", "input": inputs, "config": config}
        with pytest.raises(ValueError, match=message):
            expand([raw, reports, job], job="job")
    other = {**create([{"os": "web"}]), "name": "other"}
    job = {"type": "LdpPrivateHistogram", "name": "job", "input": ["raw", "other"], "config": config}
    found = {row.value: round(row.count) for row in expand([raw, other, job], job="job")}
    assert found == {"ios": 3, "android": 0, "web": 1}
