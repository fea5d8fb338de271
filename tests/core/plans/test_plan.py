"""Privacy plans: what leaves a record, as a value, as JSON and as TOML."""

import copy
import json
import math
import pickle
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ldp_core import (
    Domain,
    DomainError,
    DtypeError,
    LdpWarning,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Secret,
    UnaryEncoding,
)

from ...cases import each
from ..examples import AB, LABELS
from .helpers import PLANS

AWKWARD = ["", '"""', "\r\n", "[a]", "a.b", "keep", "columns", "inf", "nan", "true", "\\u0041", "\x1b[0m"]
AWKWARD += " \"'\\\n\r\t\0\x1f\x7f\x80\u2028\ufeff#=1é😀\U0010ffff\ud7ff"
names = st.one_of(st.sampled_from(AWKWARD), st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
epsilons = st.one_of(st.floats(1e-9, 60), st.sampled_from([1e-16, 1e-7, 1e16, 1e22, 1.7976931348623157e308, 1, 5e-17]))
label_lists = st.one_of(
    st.lists(names.filter(lambda s: s != "other" and "\0" not in s), min_size=2, max_size=5, unique=True),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=5, unique=True),
    st.just([True, False]),
)


@st.composite
def mechanisms(draw):
    labels = draw(label_lists)
    kind = draw(st.sampled_from(["grr", "coins", "oue", "sue", "custom"]))
    if kind in ("grr", "coins"):
        domain = Domain(labels, unmatched=draw(st.sampled_from(["error", "other"])))
        if kind == "coins" and domain.size == 2:
            coin = st.floats(1e-6, 1 - 1e-6)
            return RandomizedResponse.from_coins(domain, truth=draw(coin), yes=draw(coin))
        return RandomizedResponse(domain, epsilon=draw(epsilons.filter(lambda e: e > 1e-12)))
    domain = Domain(labels, unmatched=draw(st.sampled_from(["error", "other", "none"])))
    if kind == "custom":
        return UnaryEncoding.from_probabilities(domain, p=draw(st.floats(0.5, 0.999)), q=draw(st.floats(1e-9, 0.4)))
    epsilon = draw(epsilons.filter(lambda e: e > 1e-12))
    return UnaryEncoding(domain, epsilon=epsilon, variant={"oue": "optimized", "sue": "symmetric"}[kind])


@st.composite
def plans(draw):
    columns = draw(st.dictionaries(names, mechanisms(), min_size=1, max_size=4))
    keep = draw(st.lists(names.filter(lambda name: name not in columns), unique=True, max_size=3))
    return PrivacyPlan(columns, keep=keep)


@settings(max_examples=20)
@given(plans())
@example(PrivacyPlan({"a": UnaryEncoding(AB, epsilon=1.7976931348623157e308)}))  # "explain" was an OverflowError
@example(PrivacyPlan.split({"x": AB, "y": range(30)}, epsilon=1.7, keep=["t"]))
@example(PrivacyPlan.sampled({"x": AB, "y": Domain(LABELS, unmatched="none")}, epsilon=1.7, keep=["t"]))
@example(PrivacyPlan.fake({"x": Domain(AB, unmatched="other"), "y": range(30)}, epsilon=1.7))
@example(PrivacyPlan.fake({"x": AB, "y": range(3)}, epsilon=1.7, priors={"y": [0.1, 1e-300, 7]}, seed=4))
@example(PrivacyPlan({**PLANS["fake 3 GRR"].columns, "a": UnaryEncoding(AB, epsilon=1.0)}, keep=["t"]))
def test_round_trips(tmp_path_factory, plan):
    text = plan.to_toml()
    tomllib.loads(text)
    path = tmp_path_factory.getbasetemp() / "plan.toml"
    path.write_bytes(text.encode("utf-8"))
    for again in (
        PrivacyPlan.from_toml(text),
        PrivacyPlan.from_toml(path),
        PrivacyPlan.from_toml(str(path)),
        PrivacyPlan.from_dict(plan.to_dict()),
        PrivacyPlan.from_dict(json.loads(plan.to_json())),
        PrivacyPlan.from_metadata({b"ldp.plan": plan.to_json().encode()}),
        pickle.loads(pickle.dumps(plan)),
        copy.deepcopy(plan),
    ):
        assert again == plan
        assert hash(again) == hash(plan)
        assert again.fingerprint == plan.fingerprint
        assert again.epsilon == plan.epsilon
        assert again.drawn == plan.drawn
        assert list(again) == list(plan)
        assert again.to_toml() == text
        assert repr(again) == repr(plan)
    for n in (0, 1000) if plan.epsilon < math.inf else ():
        assert "total a record" in plan.explain(n)


@pytest.mark.parametrize(
    ("epsilon", "once", "thrice"), [(1.23449, "1.235", "3.704"), (0.1, "0.1", "0.3"), (10.0, "10", "30")]
)
def test_no_epsilon_is_said_to_be_less_than_it_is_and_none_has_digits_of_a_float(epsilon, once, thrice):
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=epsilon)})
    text = plan.explain(10**8, records=[1, 3], total=3 * epsilon)
    _, column, total, _, _, together, _, *learnt = text.splitlines()
    assert column.split()[2] == total.split()[-1] == once
    assert together.split()[2:4] == [once, thrice]
    assert f"one record (epsilon {once})" in " ".join(learnt)
    assert f"all reports of a person (epsilon {thrice})" in " ".join(learnt)
    assert repr(plan).split()[-1] == once


@settings(max_examples=20)
@given(plans())
def test_perturb(plan):
    n = 11
    data = {name: [m.domain.labels[0]] * n for name, m in plan.columns.items()}
    dropped = "".join(plan) + "dropped"
    batch = pa.record_batch({dropped: ["raw"] * n, **{k: list(range(n)) for k in plan.keep}, **data})
    for packed in (True, False):
        reports = plan.perturb(batch, packed=packed)
        reports.validate(full=True)
        assert reports.schema.names == list(plan)
        assert reports.schema == plan.schema(batch.schema, packed=packed)
        assert PrivacyPlan.from_metadata(reports.schema.metadata) == plan
        for name, m in plan.columns.items():
            assert reports.column(name).type == m.reports.arrow_type(packed=packed)
            tally = m.tally(reports.column(name))
            assert (tally.n, tally.counters.shape) == (n, (m.domain.size,))
        for name in plan.keep:
            assert reports.column(name).equals(batch.column(name))


def test_anything_that_differs_shows_in_the_fingerprint():
    a, b = RandomizedResponse(epsilon=1), RandomizedResponse(epsilon=2)
    different = [
        PrivacyPlan({"x": a}),
        PrivacyPlan({"y": a}),
        PrivacyPlan({"x": b}),
        PrivacyPlan({"x": a, "y": a}),
        PrivacyPlan({"y": a, "x": a}),
        PrivacyPlan({"x": a}, keep=["y"]),
        PrivacyPlan({"x": a}, keep=["y", "z"]),
        PrivacyPlan({"x": a}, keep=["z", "y"]),
    ]
    assert len({p.fingerprint for p in different}) == len(different) == len(set(different))


def test_frozen():
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1)})
    for name in ("columns", "keep", "epsilon", "anything"):
        with pytest.raises(AttributeError):
            setattr(plan, name, 1)
    with pytest.raises(TypeError):
        plan.columns["y"] = RandomizedResponse(epsilon=9)
    for value, name in ((plan, "keep"), (Domain(AB), "labels")):
        with pytest.raises(AttributeError):
            delattr(value, name)


ONE = "[columns.a]\nmechanism = 'randomized_response'\ndomain = [1, 2]\nepsilon = 1\n"
WRONG = {
    "epsilon = 1": ["", "epsilon = -1", "epsilon = inf", "epsilon = nan", "epsilon = true", "epsilon = '1'"],
    "domain = [1, 2]": ["domain = [1, 1.5]", "domain = 'ab'", "domain = 5", "domain = [1, 2]\nsecret = 1"],
    "'randomized_response'": ["'olh'"],
    "[columns.a]": ["extra = 1\n[columns.a]", *(f"keep = {keep}\n[columns.a]" for keep in ("['a']", "5", "[5]"))],
}


TEXTS = [ONE.replace(right, wrong) for right, wrongs in WRONG.items() for wrong in wrongs]
TEXTS += ["", "keep = []\n", "= = =", "columns = 1\n", "columns = []\n", "[columns]\na = 1\n", "[columns]\n"]
TEXTS += ["a = [" + "[" * 3000, "a = 0x" + "f" * 9000, "a = " + "9" * 5000, "a.b.c = 1\n", "no-such-file.toml", "a\0b"]


COIN = RandomizedResponse(epsilon=1)
NO_PLANS = {
    PrivacyPlan: [{}, {"a": None}, {1: COIN}, {"a": "randomized_response"}],
    lambda keep: PrivacyPlan({"a": COIN}, keep=keep): [["a"], ["t", "t"], "t"],
    lambda seed: PrivacyPlan({"a": COIN}, seed=seed): [True, 1.5, "7"],
    PrivacyPlan.from_toml: [*TEXTS, "[[columns]]\nx = 1979-05-27\n", 5],
    PrivacyPlan.from_metadata: [None, {b"other": b"{}"}, {b"ldp.plan": b"{"}, {b"ldp.plan": b"[]"}],
    PrivacyPlan.from_dict: [5, None, [], "columns", {5: {}}, {"columns": {5: COIN.to_dict()}}, {"columns": 5}],
}


@each(("make", "wrong"), [(make, wrong) for make, some in NO_PLANS.items() for wrong in some])
def test_what_is_no_plan(make, wrong):
    with pytest.raises(PlanError):
        make(wrong)


def test_a_domain_that_is_no_table_says_so():
    """Errors named the open domain's arguments, which nobody had written."""
    for table, words in (
        ("unmatched = 'other'", "beside the domain"),
        ("kind = 'str'", r"a table has no \['labels'\]"),
    ):
        with pytest.raises(PlanError, match=words):
            PrivacyPlan.from_toml(ONE.replace("[1, 2]", f"{{labels = [1, 2], {table}}}"))


def test_a_file_is_a_plan_or_none(tmp_path):
    assert PrivacyPlan.from_toml(ONE)
    (tmp_path / "plan.toml").write_bytes(b"\xff\xfe = 1\n")
    with pytest.raises(PlanError):
        PrivacyPlan.from_toml(tmp_path / "plan.toml")


def test_data_that_do_not_fit():
    plan = PrivacyPlan({"a": RandomizedResponse(["x", "y"], epsilon=1)}, keep=["t"])
    with pytest.raises(PlanError, match="'t'"):
        plan.perturb(pa.record_batch({"a": ["x"]}))
    with pytest.raises(DomainError, match="'a': 1 of 2"):
        plan.perturb(pa.record_batch({"a": ["x", "z"], "t": [1, 2]}))
    with pytest.raises(DtypeError, match="'a'"):
        plan.perturb(pa.record_batch({"a": [1, 2], "t": [1, 2]}))
    with pytest.raises(PlanError, match="'b'"):
        plan["b"]
    assert plan["a"].epsilon == 1


# ---- seeded plans


def test_a_seeded_plan_says_wherever_it_travels_that_it_is_not_private():
    plan = PrivacyPlan({"x": UnaryEncoding(["a", "b"], epsilon=1.0)}, keep=["t"])
    seeded = plan.seeded(7)
    assert seeded != plan
    assert seeded.fingerprint != plan.fingerprint
    assert seeded.seeded(None) == plan
    assert "NOT private" in repr(seeded)
    assert "NOT private" in seeded.explain(1000)
    assert "NOT private" in seeded.to_toml()
    assert "NOT private" not in repr(plan) + plan.explain(1000) + plan.to_toml()


def test_a_seeded_plan_perturbs_by_ids():
    plan = PrivacyPlan({"x": UnaryEncoding(range(9), epsilon=1.0), "y": UnaryEncoding(range(9), epsilon=1.0)}).seeded(7)
    values = pa.array(np.arange(90) % 9)
    batch = pa.record_batch({"x": values, "y": values})
    with pytest.warns(LdpWarning, match="seeded with 7.*NOT private"):
        first = plan.perturb(batch, id=np.arange(90))
    order = np.random.default_rng(0).permutation(90)
    assert plan.perturb(batch.take(pa.array(order)), id=order).equals(first.take(pa.array(order)))
    assert not first["x"].equals(first["y"])
    assert not plan.seeded(8).perturb(batch, id=np.arange(90)).equals(first)
    for options in ({}, {"key": Secret.generate(), "id": np.arange(90)}):
        with pytest.raises(PlanError, match="seeded plan takes id="):
            plan.perturb(batch, **options)
    for options in ({"id": np.arange(90)}, {"records": np.arange(90)}):  # (the noise was fresh)
        with pytest.raises(ParameterError, match="give key="):
            plan.seeded(None).perturb(batch, **options)


# ---- what proves that columns are reports


PROVED = PrivacyPlan({"os": RandomizedResponse(AB, epsilon=1.0), "app": UnaryEncoding(AB, epsilon=1.0)}, keep=["day"])
EVENTS = pa.record_batch({"os": AB * 4, "app": AB * 4, "day": range(8), "user": range(8)})


def through_a_file(batch, path):
    pq.write_table(pa.Table.from_batches([batch]), path)
    return pq.read_table(path).combine_chunks().to_batches()[0]


@each("packed", [False, True])
def test_the_proof_stays_with_the_reports(packed, tmp_path):
    """Text is a dictionary, whose field has no extension type but a key of its own."""
    reports = PROVED.perturb(EVENTS, packed=packed)
    table = pa.Table.from_batches([reports, reports])
    for same in (
        reports.slice(2, 3),
        reports.filter(pa.array([True, False] * 4)),
        reports.take(pa.array([1, 1])),
        reports.select(["app", "day"]),
        pa.concat_batches([reports, reports]),
        table.sort_by("day"),
        table.filter(pc.field("day") > 3),
        pa.ipc.open_stream(_stream(reports)).read_next_batch(),
        through_a_file(reports, tmp_path / "reports.parquet"),
        pickle.loads(pickle.dumps(reports)),
    ):
        PROVED.check_reports(same.schema)
        for other in (PrivacyPlan(PROVED.columns), PrivacyPlan({"app": RandomizedResponse(range(4), epsilon=1.0)})):
            with pytest.raises(
                MechanismMismatchError, match="the plan in the data's metadata; do not perturb them again"
            ):
                other.perturb(same)
    for name in PROVED.columns:
        alone = pa.record_batch({name: reports[name]}, schema=pa.schema([reports.schema.field(name)]))
        with pytest.raises(MechanismMismatchError, match="says their type; do not perturb them again"):
            PrivacyPlan({name: PROVED[name]}).perturb(alone)


def _stream(batch):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def test_seeded_noise_is_in_the_proof():
    for reports in (
        PROVED.seeded(1).perturb(EVENTS, id=EVENTS["user"]),
        PROVED.perturb(EVENTS, key=Secret.from_seed(1), id=EVENTS["user"]),
    ):
        PROVED.seeded(1).check_reports(reports.schema)
        with pytest.raises(PlanError, match="seeded reports, which are not private"):
            PROVED.check_reports(reports.schema)
    PROVED.check_reports(PROVED.perturb(EVENTS, key=Secret.generate(), id=EVENTS["user"]).schema)


def test_nobody_s_word_is_above_what_columns_say():
    """A file that pyarrow writes again may lose the plan alone. Its reports became fresh ones of any plan."""
    keyed = PROVED.perturb(EVENTS, key=Secret.generate(), id=EVENTS["user"])
    assert PROVED.assume_reports(keyed.replace_schema_metadata(None)).schema.equals(keyed.schema, check_metadata=True)
    rows = keyed.set_column(0, "os", keyed["os"].cast(pa.string())).replace_schema_metadata(None)
    with pytest.warns(LdpWarning, match=r"that columns \['os'\] are reports"):
        PROVED.check_reports(PROVED.assume_reports(rows).schema)
    with pytest.raises(PlanError, match="seeded reports, which are not private"):
        PROVED.assume_reports(PROVED.seeded(1).perturb(EVENTS, id=EVENTS["user"]).replace_schema_metadata(None))
    other = PrivacyPlan(
        {**PROVED.columns, "os": RandomizedResponse(PROVED["os"].domain, epsilon=7.0)}, keep=PROVED.keep
    )
    with pytest.raises(MechanismMismatchError, match="epsilon 7"):
        other.assume_reports(PROVED.perturb(EVENTS).replace_schema_metadata(None))


def test_reports_that_another_program_wrote_are_cast_before_they_are_assumed():
    """DuckDB and pandas write lists in Parquet. The errors named one layout of two, and no remedy."""
    plan = PrivacyPlan({"os": UnaryEncoding(["a", "b", "c"], epsilon=1.0)})
    vectors = plan.perturb(pa.table({"os": ["a", "b", "c"] * 9}), packed=True).replace_schema_metadata(None)["os"]
    lists = pa.table({"os": vectors.cast(pa.list_(pa.uint64()))})
    with pytest.raises(PlanError, match=r"bool>\[3\] or .*uint64>\[1\], got list.* are cast to that before"):
        plan.assume_reports(lists)
    with pytest.raises(ReportError, match="and cast reports of another program to that"):
        plan["os"].tally(lists["os"])
    again = lists["os"].cast(pa.list_(pa.uint64(), 1))
    with pytest.warns(LdpWarning, match="nothing proves"):
        plan.check_reports(plan.assume_reports(pa.table({"os": again})).schema)
    assert plan["os"].tally(again) == plan["os"].tally(vectors)


def test_assumed_reports_may_be_text_of_any_type():
    """Dictionaries of other programs, as Polars and pandas export them, were no reports."""
    others = pa.dictionary(pa.uint32(), pa.large_string()), pa.dictionary(pa.int8(), pa.string())
    for kind in (pa.string(), pa.large_string(), pa.string_view(), *others, PROVED["os"].reports.arrow_type()):
        rows = PROVED.perturb(EVENTS).replace_schema_metadata(None)
        rows = rows.set_column(0, "os", rows["os"].cast(pa.string()).cast(kind)).set_column(1, "app", rows["app"])
        with pytest.warns(LdpWarning, match="nothing proves") as caught:
            PROVED.check_reports(PROVED.assume_reports(rows).schema)
        assert caught[0].filename == __file__
