"""Texts and tables from outside: bounded, and refused with our own errors only."""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    Domain,
    HadamardCountMeanSketch,
    HierarchicalHistogram,
    LimitError,
    Limits,
    Mechanism,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    ReportError,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)
from ldp_core.arrays.arrow import chosen, taken
from ldp_core.exact import probability
from ldp_core.limits import DEPTH, check_row_groups, read_json, read_toml
from ldp_core.mechanisms.catalog import examples
from ldp_core.plans.forms import PlanTold
from ldp_core.plans.plan import METADATA_KEY, plan_of, refuse_reports
from ldp_core.plans.provenance import NAME, check_made_by, describe, described
from ldp_core.plans.sampled import SampledColumn

from ..cases import case, each

OUE = UnaryEncoding(["a", "b", "c"], epsilon=1.0)
RR = RandomizedResponse(["a", "b"], epsilon=1.0)
DEEP = [b"[" * 1360, b'{"a":' * 1360, b'{"columns":{"x":' + b"[" * 30 + b"]" * 30 + b"}}", b"[" * 30 + b"]" * 30]


@each("text", DEEP)
def test_nested_json_is_no_plan_and_no_mechanism(text):
    with pytest.raises(PlanError):
        plan_of(pa.schema([], {METADATA_KEY: text}))
    with pytest.raises(ReportError):
        described(text.decode())
    field = pa.field("v", pa.bool_(), metadata={"ARROW:extension:name": NAME, "ARROW:extension:metadata": text})
    with pytest.raises(ReportError):
        check_made_by(field, OUE)
    with pytest.raises(ReportError, match="mechanism must be one of"):
        described('{"mechanism": "none", "domain": [1, 2]}')


def test_mechanisms_that_answer_for_mechanisms_without_end():
    data: object = OUE.to_dict()
    for _ in range(400):
        data = {"mechanism": "sampled_column", "columns": 2, "domain": ["a", "b"], "answer": data}
    with pytest.raises(ParameterError, match=f"deeper than {DEPTH}"):
        Mechanism.from_dict(data)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=f"deeper than {DEPTH}"):
        PrivacyPlan.from_dict({"columns": {"x": data}})


@each("epsilon", [5e-324, 1e-300, 1e-50, 1e-20])
def test_an_epsilon_that_no_arithmetic_can_tell_from_0(epsilon):
    with pytest.raises(ParameterError, match="too small"):
        ThresholdHistogramEncoding(["a", "b"], epsilon=epsilon)


@each("key", ["mechanism", "epsilon", "unmatched", "variant", "domain", "extra"])
def test_integers_that_python_does_not_print(key):
    with pytest.raises(ParameterError, match="bits"):
        Mechanism.from_dict({**OUE.to_dict(), key: 10**5000})


def test_toml_takes_no_quadratic_time():
    """A dotted key of n names costs n^2: a million would take an hour."""
    for text in ("a." * 1_000_000 + "b = 1", '"' * 1_000_000, '"\\' * 500_000):
        start = time.process_time()
        with pytest.raises(PlanError):
            read_toml(text, "the plan", PlanError)
        assert time.process_time() - start < 5
    assert read_toml("\ufeffa = 1", "the plan", PlanError) == {"a": 1}  # of an editor that begins files with a mark
    assert read_toml('a = ["' + "1." * 99 + '"]', "the plan", PlanError) == {"a": ["1." * 99]}


def test_a_plan_is_its_json_and_its_limits_can_be_changed():
    plan = PrivacyPlan({"n": UnaryEncoding(range(300), epsilon=1.0)})
    assert PrivacyPlan.from_json(plan.to_json()) == PrivacyPlan.from_json(plan.to_json().encode()) == plan
    for limits in (Limits(labels=299), Limits(plan_bytes=100), Limits(label_length=5)):
        with pytest.raises(PlanError, match="more than the limit"):
            PrivacyPlan.from_json(plan.to_json(), limits=limits)
        with pytest.raises(PlanError, match="more than the limit"):
            PrivacyPlan.from_metadata({b"ldp.plan": plan.to_json().encode()}, limits=limits)
    with pytest.raises(PlanError, match="got int"):
        PrivacyPlan.from_json(5)  # type: ignore[arg-type]


def test_a_few_bytes_declare_no_great_tally():
    """A file of 1.3 kB named a sketch of 2^26 cells: to estimate it took 24 s and 3.4 GB."""
    great = HadamardCountMeanSketch("str", epsilon=2.0, hashes=1024, width=65536)
    rappor = Rappor("int", bits=255, hashes=2, cohorts=65536, f=0.2, p=0.2, q=0.8)
    for m in (great, great.over(["rome", "oslo"]), rappor.over([1, 2])):
        plan = PrivacyPlan({"w": m})
        for read, text in ((PrivacyPlan.from_json, plan.to_json()), (PrivacyPlan.from_toml, plan.to_toml())):
            with pytest.raises(PlanError, match=r"column 'w': .* more than the limit counters=8388608: .* LDP_LIMITS"):
                read(text)
            assert read(text, limits=Limits(counters=1 << 27)) == plan
        own = describe(m)
        assert described(own).mechanism == m
        with pytest.raises(ReportError, match="more than the limit counters=8388608"):
            described(own + " ")  # a stranger's


def test_the_words_of_the_environment_variable():
    assert Limits.parsed("  rows=5\tlabels=7 ") == Limits(rows=5, labels=7)
    for text in ("rows", "rows=x", "rows=-1", "row=5", "rows=0", "rows=" + "9" * 5000):
        with pytest.raises(ParameterError):
            Limits.parsed(text)


def test_json_says_what_it_is():
    assert read_json('{"a": [1, {"b": null}]}', "the plan", PlanError) == {"a": [1, {"b": None}]}
    with pytest.raises(PlanError, match="the plan is not valid JSON"):
        read_json(b"\xff", "the plan", PlanError)
    for text in ('{"a": 1, "a": 1}', b'[{"b": {"a": 1, "c": 2, "a": 3}}]'):
        with pytest.raises(PlanError, match="the plan is not valid JSON: an object has a name twice"):
            read_json(text, "the plan", PlanError)
    texts = ["\ufeff{}".encode(), '{"a": "\u00e9"}'.encode("utf-16"), b' {"a": 1}\n']  # what others' readers take
    assert [read_json(text, "it", PlanError) for text in texts] == [json.loads(text) for text in texts]


# ---- columns


def ragged(reports: pa.Array) -> pa.Array:
    """The same reports, whose words lie in a buffer with three bytes more."""
    data = reports.flatten().buffers()[1].to_pybytes() + b"abc"
    words = pa.Array.from_buffers(pa.uint64(), len(reports) * reports.type.list_size, [None, pa.py_buffer(data)])
    return pa.FixedSizeListArray.from_arrays(words, reports.type.list_size)


@each("m", [OUE, SampledColumn(OUE, columns=2)])
def test_a_buffer_of_any_length(m):
    reports = OUE.perturb(pa.array(["a", "b", "c"] * 5), packed=True)
    assert m.tally(ragged(reports)) == m.tally(reports)
    assert m.tally(ragged(reports)[3:7]) == m.tally(reports[3:7])


VIEWS = [
    pa.array(["a", None, "b", "a"], pa.string_view()),
    pa.array([["a"], None, ["b"], []], pa.list_(pa.string_view())),
    pa.array([{"a": "x"}] * 4, pa.struct([("a", pa.string_view())])),
    pa.RunEndEncodedArray.from_arrays(pa.array([3, 4]), ["a", "b"]),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None], pa.string_view())),
    pa.array([1, 2, None, 4]),
]


@each("array", VIEWS)
def test_elements_are_chosen_from_columns_of_any_type(array):
    everything = array.to_pylist()
    for rows in (np.array([1, 0, 1, 1], bool), np.zeros(4, bool), np.ones(4, bool)):
        some = chosen(array, rows)
        assert some.type == array.type
        assert some.to_pylist() == [one for one, row in zip(everything, rows, strict=True) if row]
    assert taken(array, np.array([3, 0, 1, 2])).to_pylist() == [everything[i] for i in (3, 0, 1, 2)]


def test_views_are_values_and_ids_like_others():
    views = pa.array(["a", None, "b"], pa.string_view())
    for column in (views, VIEWS[4]):
        for m in (RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1.0), OUE, RR):
            if m.inputs.unmatched == "other":
                assert len(m.perturb(column)) == len(column)
            assert m.inputs.refuses(column).tolist() == m.inputs.refuses(column.to_pylist()).tolist()
    with pytest.raises(ReportError):
        SampledColumn(OUE, columns=2).tally(views)


def test_row_groups_of_a_file_are_bounded(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"n": np.zeros(10**6)}), tmp_path / "a.parquet")
    file = pq.ParquetFile(tmp_path / "a.parquet")
    size = file.metadata.row_group(0).total_byte_size
    check_row_groups(file, Limits(row_group_bytes=size))
    with pytest.raises(LimitError, match="row_group_bytes"):
        check_row_groups(file, Limits(row_group_bytes=size - 1))


def test_a_plan_is_refused_before_its_mechanisms_are_made():
    text = json.dumps({"columns": {"x": {**OUE.to_dict(), "domain": list(range(1 << 20 | 1))}}})
    with pytest.raises(PlanError, match="entries"):
        PrivacyPlan.from_json(text)


def test_a_plan_s_mechanisms_are_made_when_they_are_asked_for():
    """Of a message: one of 104,857 planned columns took 217 s."""
    good, bad = RR.to_dict(), {"mechanism": "none"}
    told = PlanTold.read(json.dumps({"columns": {"x": good, "y": bad}, "keep": ["t"]}))
    assert (list(told), told.keep, told["x"]) == (["x", "y"], ["t"], RR)
    with pytest.raises(PlanError, match="column 'y': mechanism must be one of"):
        told["y"]
    schema = pa.schema([pa.field("x", pa.string())], {METADATA_KEY: json.dumps({"columns": {"x": good, "y": bad}})})
    with pytest.raises(MechanismMismatchError):
        refuse_reports(schema, ["x"])
    for keep in (5, None, {}, "t"):
        with pytest.raises(PlanError, match="keep is a list of column names"):
            PlanTold({"columns": {"x": good}, "keep": keep})


def without_choices(m: Mechanism) -> dict[str, object]:
    """The shortest table of a mechanism: it has to find by itself what it can."""
    table = m.to_dict()
    return {key: value for key, value in table.items() if key not in ("shares", "theta", "k", "g", "field", "blocks")}


def work(run: Callable[[], object], monkeypatch) -> int:
    """Calls of functions, where an exponential or a logarithm of 60 digits counts as 200."""
    calls, exact = [0], probability._DIGITS
    monkeypatch.setattr(
        probability,
        "_DIGITS",
        SimpleNamespace(
            divide=exact.divide,
            **{name: lambda x, f=f: (calls.append(200), f(x))[1] for name, f in (("exp", exact.exp), ("ln", exact.ln))},
        ),
    )

    def count(frame, event, argument):
        calls[0] += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
        monkeypatch.undo()
    return sum(calls)


HOSTILE = {
    "tree": {"mechanism": "hierarchical_histogram", "epsilon": 1.0, "domain": {"low": 0, "high": 1, "count": 256}},
    "days": {
        "mechanism": "hierarchical_histogram",
        "domain": {"low": "1900-01-01", "high": "2079-06-06", "every": "1d"},
    },
}


def test_the_work_for_a_plan_is_in_proportion_to_its_bytes(monkeypatch):
    """4,096 trees of 256 values took 19.3 s, 257 us a byte. A call takes 0.1 us: 8 a byte are 0.8 s a megabyte."""
    tables = {name: without_choices(m) for name, m in examples().items()}
    tables |= {name: {"epsilon": 1.0, **table} for name, table in HOSTILE.items()}
    for name, table in tables.items():
        few = [{k: v * (1 + i / 1e9) if k.startswith("epsilon") else v for k, v in table.items()} for i in range(64)]
        text = json.dumps({"columns": {f"{i}": one for i, one in enumerate(few)}})
        PrivacyPlan.from_json(text.replace("1.0", "0.9"))
        with case(name):
            assert work(lambda text=text: PrivacyPlan.from_json(text), monkeypatch) < 8 * len(text)
    tree = {**HOSTILE["tree"], "epsilon": 0.8125}  # of no other test, as equal trees share what they have
    plan = PrivacyPlan.from_json(json.dumps({"columns": {"x": tree}}))
    assert work(lambda: plan.fingerprint, monkeypatch) > 8 * 150  # the shares of the levels


def test_of_another_plan_than_ours_one_mechanism_is_compared():
    trees = {f"{i}": HierarchicalHistogram(range(9), epsilon=1 + i / 64) for i in range(64)}
    ours = PrivacyPlan(trees, keep=["t"])
    for columns, same in ((trees, True), (trees | {"0": RR}, False), (trees | {"64": RR}, False), ({"0": RR}, False)):
        told = PlanTold(PrivacyPlan(columns, keep=["t"]).to_dict())
        assert told.tells(ours) == same
        assert len(told._made) == (64 if same else "64" not in columns and len(columns) > 1)
    assert not PlanTold(PrivacyPlan(trees).to_dict()).tells(ours)


def test_columns_of_a_plan_are_limited():
    text = json.dumps({"columns": {f"{i}": RR.to_dict() for i in range(20_000)}})
    start = time.process_time()
    for read in (PrivacyPlan.from_json, lambda text: plan_of(pa.schema([], {METADATA_KEY: text}))):
        with pytest.raises(PlanError, match="the plan has 20000 columns, more than the limit columns=4096"):
            read(text)
    assert time.process_time() - start < 2e-6 * 2 * len(text)


def test_cells_that_a_plan_declares_by_their_number_are_limited():
    """400 kB declared 4,096 columns of 65,536 cells: 127 s and 8 GB. Buckets of hashes took 1 MB a column."""
    cells = {"mechanism": "hierarchical_histogram", "epsilon": 1.0, "domain": {"low": 0.0, "high": 1.0, "count": 300}}
    other = {**cells, "domain": {**cells["domain"], "count": -1000}}
    hashed = {"mechanism": "loloha", "domain": ["a", "b"], "epsilon_infinity": 4.0, "epsilon_1": 2.0, "g": 1 << 15}
    text = json.dumps({"columns": {"count": cells, "b": other, "c": {"inner": cells}}})
    for read in (PrivacyPlan.from_json, PlanTold.read):
        with pytest.raises(PlanError, match="the plan has 600 cells in all columns, more than the limit labels=599"):
            read(text, limits=Limits(labels=599))
    PlanTold.read(text, limits=Limits(labels=600))
    days = {**HOSTILE["days"], "mechanism": "randomized_response", "epsilon": 1.0}
    text = json.dumps({"columns": {str(i): days if i % 2 else hashed for i in range(6)}})
    tracemalloc.start()
    plan = PrivacyPlan.from_json(text)
    assert tracemalloc.get_traced_memory()[0] < 1e6
    tracemalloc.stop()
    assert plan["0"].permanent_answers == 2


def test_the_time_for_a_prior_and_for_nested_lists_is_linear():
    """4,000 values took 27 s; the ends of the shares are the same as by their definition."""
    weights = [5e-324, *(1 / (i + 1) for i in range(3998)), 1e300]
    columns = {"a": RandomizedResponse(range(4000), epsilon=1.0), "b": RR}
    plan = PrivacyPlan.fake(columns, epsilon=1.0, priors={"a": weights})
    few = PrivacyPlan.fake({**columns, "a": range(4)}, epsilon=1.0, priors={"a": [0.1, 0.2, 0.3, 0.5]})["a"]
    start = time.process_time()
    plan.perturb(pa.record_batch({"a": [0], "b": ["a"]}))
    assert read_toml("a = [" + "[]," * 100_000 + "]", "the plan", PlanError) == {"a": [[]] * 100_000}
    assert time.process_time() - start < 2
    shares = np.cumsum([Fraction(x) for x in (0.1, 0.2, 0.3)]) / sum(map(Fraction, (0.1, 0.2, 0.3, 0.5)))
    assert few._ends.tolist() == [int(share * 2**64) for share in shares]


def test_the_fingerprint_of_a_plan_of_many_trees_finds_their_shares_once():
    """It has the shares of each tree, and found them 4,000 times: 14 s."""
    trees = {str(i): HierarchicalHistogram(range(9 + i % 8), epsilon=1.7) for i in range(1000)}
    plan = PrivacyPlan(trees)
    start = time.process_time()
    assert len({tree.shares for tree in plan.columns.values()}) == 1
    assert len(plan.fingerprint) == 16
    assert time.process_time() - start < 0.2
