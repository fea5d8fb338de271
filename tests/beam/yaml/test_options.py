"""The options of the transforms of Beam YAML: what is refused before anything runs."""

from __future__ import annotations

import apache_beam as beam
import pytest

from ldp_beam.yaml import (
    LdpBoundContributions,
    LdpDeduplicate,
    LdpDistribution,
    LdpHeavyHitters,
    LdpHistogram,
    LdpMean,
    LdpPerturb,
    LdpPrivacyLedger,
    LdpPrivateHeavyHitters,
    LdpPrivateHistogram,
    LdpPrivateMean,
)
from ldp_core import DomainError, DtypeError, LdpError, ParameterError, PlanError, Rappor

from .spec import COIN, NUMBER, OS, SKETCH, TWICE, WORD, create, expand

PLAN = {"columns": {"os": OS}}


@pytest.mark.parametrize(
    ("error", "config"),
    [
        (PlanError, {"plan": "no/such/plan.toml"}),
        (PlanError, {"plan": 7}),
        (PlanError, {"plan": {}}),
        (PlanError, {"plan": {"columns": {}}}),
        (PlanError, {"plan": {"columns": {"os": {**OS, "epsilon": -1}}}}),
        (PlanError, {"plan": {"columns": {"os": {**OS, "mechanism": "laplace"}}}}),
        (PlanError, {"plan": {"columns": {"os": {**OS, "domain": ["ios", False]}}}}),  # unquoted no
        (PlanError, {"plan": {**PLAN, "seed": 1}}),
        (ParameterError, {"plan": PLAN, "packed": "yes"}),
        (ParameterError, {"plan": PLAN, "stabilize": 0}),
        (ParameterError, {"plan": PLAN, "id": "user"}),
        (ParameterError, {"plan": PLAN, "key": {"env": "NAME"}}),
        (ParameterError, {"plan": PLAN, "key": "00" * 32, "id": "user"}),
        (ParameterError, {"plan": PLAN, "key": {"hex": "00" * 32}, "id": "user"}),
        (ParameterError, {"plan": PLAN, "key": {"function": "os.no_such_function"}, "id": "user"}),
        (ParameterError, {"plan": PLAN, "key": {"function": "nothing"}, "id": "user"}),
        (ParameterError, {"plan": PLAN, "error_handling": {"output": "good"}}),
        (ParameterError, {"plan": PLAN, "error_handling": "bad"}),
    ],
)
def test_bad_arguments_of_perturb(error, config):
    with pytest.raises(error) as caught:
        LdpPerturb(**config)
    assert "00" * 32 not in str(caught.value)


@pytest.mark.parametrize("kind", [LdpHistogram, LdpPrivateHistogram, LdpMean, LdpPrivateHeavyHitters])
@pytest.mark.parametrize(
    ("error", "config"),
    [
        (TypeError, {"columns": "os"}),
        (ParameterError, {"mechanism": None}),
        (ParameterError, {"plan": PLAN}),
        (ParameterError, {"mechanism": "unary_encoding"}),
        (ParameterError, {"mechanism": {**OS, "epsilon": 0}}),
        (ParameterError, {"mechanism": {**OS, "epsilon": "1"}}),
        (ParameterError, {"mechanism": {**OS, "size": 3}}),
        (DomainError, {"mechanism": {**OS, "domain": ["ios"]}}),
        (PlanError, {"mechanism": None, "plan": {"columns": {"crashed": COIN}}}),
        (ParameterError, {"window": "1 hour"}),
        (ParameterError, {"window": {"type": "fixed"}}),
        (ParameterError, {"window": {"type": "fixed", "size": 0}}),
        (ParameterError, {"window": {"type": "fixed", "size": "1h", "gap": 3}}),
        (ParameterError, {"window": {"type": "daily"}}),
        (ParameterError, {"window": {"type": ["fixed"]}}),
        (ParameterError, {"window": 10**400}),
        (ParameterError, {"event_time": 5}),
        (ParameterError, {"by": {"c": 1}}),
        (ParameterError, {"by": ["os"]}),
        (ParameterError, {"confidence": "0.95"}),
        (ParameterError, {"confidence": 1}),
        (ParameterError, {"confidence": 10**400}),
        (ParameterError, {"allowed_lateness": "1m"}),
        (ParameterError, {"accumulation_mode": "retracting"}),
        (ParameterError, {"accumulation_mode": ["discarding"]}),
        (ParameterError, {"window": "1h", "fill": "2026"}),
        (ParameterError, {"window": "1h", "fill": ["today", None]}),
        (ParameterError, {"window": "1h", "fill": [0, 7200], "by": "c", "fill_keys": ["fr"]}),
        (ParameterError, {"error_handling": {}}),
    ],
)
def test_bad_arguments_of_estimates(kind, error, config):
    good = {LdpMean: {"mechanism": NUMBER}, LdpPrivateHeavyHitters: {"mechanism": WORD, "k": 3}}
    made = {"column": "os", "mechanism": OS, **good.get(kind, {})}
    kind(**made)
    with pytest.raises(error):
        kind(**{**made, **config})


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("simultaneous", lambda: LdpHistogram(column="os", mechanism=OS, simultaneous=1)),
        ("LdpMean, .*LdpHeavyHitters", lambda: LdpHistogram(column="x", mechanism=NUMBER)),
        ("candidates", lambda: LdpHistogram(column="x", mechanism={**SKETCH, "domain": {"kind": "str"}})),
        ("mechanism for numbers", lambda: LdpMean(column="os", mechanism=OS)),
        ("SquareWave or", lambda: LdpDistribution(column="x", mechanism=NUMBER)),
        ("HeavyHitters", lambda: LdpHeavyHitters(column="os", mechanism=OS, k=3)),
        ("k must be", lambda: LdpHeavyHitters(column="os", mechanism=WORD, k=0)),
        ("threshold", lambda: LdpHeavyHitters(column="os", mechanism=WORD, k=3, threshold="high")),
        ("keyed noise takes", lambda: LdpPrivateMean(column="x", mechanism=NUMBER, key={"env": "NAME"})),
        ("records must be", lambda: LdpBoundContributions(id="user", per_window=0)),
        ("does not pay", lambda: LdpPrivacyLedger(id="user", plan=TWICE, budget=0.4)),
        ("drop_id", lambda: LdpDeduplicate(id="user", within="1h", drop_id="no")),
        ("longer than 0", lambda: LdpDeduplicate(id="user", within={"type": "fixed", "size": 0})),
    ],
)
def test_what_one_kind_alone_refuses(message, make):
    with pytest.raises(ParameterError, match=message):
        make()


NO_HISTOGRAM = {
    "number": {"mechanism": "hybrid", "epsilon": 1.0, "domain": {"low": 0, "high": 100}},
    "word": {**SKETCH, "domain": {"kind": "str"}},
    "page": Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75).to_dict(),
    "name": WORD,
}


@pytest.mark.parametrize("column", NO_HISTOGRAM)
def test_a_histogram_of_what_has_none_says_what_to_do_instead(column):
    with pytest.raises(ParameterError, match=r"candidates .*LdpMean, .*LdpHeavyHitters"):
        LdpHistogram(column=column, mechanism=NO_HISTOGRAM[column])


@pytest.mark.parametrize(
    ("mechanism", "needs"),
    [(NO_HISTOGRAM["number"], "hybrid needs float values, not str"), ({**SKETCH, "domain": {"kind": "int"}}, "int")],
)
def test_the_mechanism_is_named_and_not_labels_that_it_has_not(mechanism, needs):
    rows = beam.Pipeline("FnApiRunner") | beam.Create([beam.Row(word="rome")])
    with pytest.raises(DtypeError, match=f"'word': .*{needs}"):
        _ = rows | LdpPerturb(plan={"columns": {"word": mechanism}})


@pytest.mark.parametrize(
    ("option", "make"),
    [
        ("column", lambda: LdpMean(mechanism=NUMBER)),
        ("k", lambda: LdpHeavyHitters(column="w", mechanism=WORD)),
        ("simultaneous", lambda: LdpMean(column="x", mechanism=NUMBER, simultaneous=True)),
    ],
)
def test_missing_and_unknown_options(option, make):
    with pytest.raises(TypeError, match=f"'{option}'"):
        make()


@pytest.mark.parametrize(
    ("error", "message", "transform"),
    [
        (PlanError, "colour", LdpPerturb(plan={"columns": {"colour": OS}})),
        (PlanError, "hour", LdpPerturb(plan={**PLAN, "keep": ["hour"]})),
        (PlanError, "user", LdpPerturb(plan=PLAN, key={"env": "NAME"}, id="user")),
        (DtypeError, "'n'", LdpPerturb(plan={"columns": {"n": OS}})),
        (DtypeError, "'os'", LdpPerturb(plan={"columns": {"os": {**OS, "domain": [True, False]}}})),  # unquoted yes, no
        (PlanError, "colour", LdpHistogram(column="colour", mechanism=OS)),
        (PlanError, "'t'", LdpHistogram(column="os", mechanism=OS, window="1h", event_time="t")),
        (PlanError, "'c'", LdpPrivateHistogram(column="os", mechanism=OS, by=["c"])),
        (DtypeError, "'n'", LdpPrivateHistogram(column="n", mechanism=OS)),
        (PlanError, "user", LdpPrivateHistogram(column="os", mechanism=OS, key={"env": "NAME"}, id="user")),
        (DtypeError, "'os'", LdpPrivateMean(column="os", mechanism=NUMBER)),
        (DtypeError, "'n'", LdpPrivateHeavyHitters(column="n", mechanism=WORD, k=1)),
        (PlanError, "seconds", LdpMean(column="seconds", mechanism=NUMBER)),
        (PlanError, "user", LdpDeduplicate(id="user", within="1h")),
        (PlanError, "'t'", LdpBoundContributions(id="n", per_window=1, window="1h", event_time="t")),
    ],
)
def test_what_does_not_fit_the_rows_is_refused_before_anything_runs(error, message, transform):
    p = beam.Pipeline("FnApiRunner")
    rows = p | beam.Create([beam.Row(os="ios", n=1)])
    with pytest.raises(error, match=message):
        _ = rows | transform


def test_kept_columns_need_a_schema():
    p = beam.Pipeline("FnApiRunner")
    rows = p | beam.Create([{"os": "ios", "hour": 1}])
    with pytest.raises(PlanError, match="schema"):
        _ = rows | LdpPerturb(plan={**PLAN, "keep": ["hour"]})


def test_errors_in_yaml_say_where_and_have_ours_as_their_cause():
    with pytest.raises(ValueError, match=r"LdpPerturb.* at line") as caught:
        expand([create([{"os": "ios"}]), {"type": "LdpPerturb", "config": {"plan": "no/such/plan.toml"}}])
    assert isinstance(caught.value.__cause__, LdpError)
    with pytest.raises(ValueError, match="epsilonn"):
        expand([create([{"os": "ios"}]), {"type": "LdpPrivateHistogram", "config": {"column": "os", "epsilonn": 1}}])
