"""Questions that are defined here are asked in Beam and in Beam YAML: nothing else had to change for them."""

import json
import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.typehints.schemas import named_fields_from_element_type

import ldp_beam
from ldp_beam.elements.rows import row_type
from ldp_beam.io import EstimateBatches, WriteEstimates, bigquery_row, bigquery_schema, estimate_line, estimate_schema
from ldp_beam.telemetry.job import TelemetryJob
from ldp_core import (
    HistogramEstimate,
    MechanismMismatchError,
    ParameterError,
    PrivacyPlan,
    Question,
    Result,
    Tallier,
    UnaryEncoding,
)
from ldp_core.arrays.types import I64
from ldp_core.parameters import check_open, parameter
from ldp_core.tables import View

from ..helpers import on_my_word, run
from ..streams import All

LABELS = ["a", "b", "c"]
BITS = UnaryEncoding(LABELS, epsilon=100.0, variant="symmetric")  # so large that the reports are the truth
TOP = pa.schema(
    [("value", pa.string()), *((name, pa.float64()) for name in ("count", "low", "high")), ("n", pa.int64())]
)
PAIRS = pa.schema([("first", pa.string()), ("second", pa.string()), ("both", pa.int64()), ("n", pa.int64())])


@dataclass(frozen=True, eq=False)
class Mode(Result):
    """The most frequent value."""

    view: ClassVar[View] = View("count", ("value",))

    value: Any
    count: float
    low: float
    high: float
    n: int
    confidence: float
    mechanism: Any = None

    def to_arrow(self):
        return self._with_metadata(pa.Table.from_pylist([{name: getattr(self, name) for name in TOP.names}], TOP))


@dataclass(frozen=True, init=False)
class ModeEstimate(Question[Mode]):
    """Which value most people have: one row per tally, of the mechanism's own counts."""

    name: ClassVar[str] = "mode"
    view: ClassVar[View] = Mode.view
    single: ClassVar[bool] = True

    confidence: float = parameter(check_open)

    def __init__(self, confidence: float = 0.95):
        self._declare(confidence=confidence)

    def check(self, mechanism):
        HistogramEstimate().check(mechanism)

    def schema(self, mechanism):
        return TOP

    def result(self, mechanism, tally):
        found = HistogramEstimate(self.confidence).result(mechanism, tally)
        top = int(np.argmax(found.counts))
        numbers = (float(array[top]) for array in (found.counts, found.low, found.high))
        return Mode(found.values[top], *numbers, tally.n, self.confidence, mechanism)


@dataclass(frozen=True, init=False)
class SetTogether(Question[pa.Table]):
    """How many reports have two bits set: one row per pair of values, of counts that a mechanism does not have."""

    name: ClassVar[str] = "set_together"
    view: ClassVar[View] = View("both", ("first", "second"))

    confidence: float = parameter(check_open)

    def __init__(self, confidence: float = 0.95):
        self._declare(confidence=confidence)

    def check(self, mechanism):
        if not isinstance(mechanism, UnaryEncoding):
            raise ParameterError("pairs of bits need unary encoding")

    def tallier(self, mechanism):
        return Pairs(mechanism)

    def schema(self, mechanism):
        return PAIRS

    def result(self, mechanism, tally):
        return self.rows(mechanism, np.array([tally.n]), tally.counters[None])[0]

    def rows(self, mechanism, n, counters):
        pairs = Pairs(mechanism).pairs
        names = np.array(LABELS)[np.array(pairs)]
        columns = [*np.tile(names, (len(n), 1)).T.tolist(), counters.reshape(-1), np.repeat(n, len(pairs))]
        return pa.table(columns, PAIRS), np.full(len(n), len(pairs))


@dataclass(frozen=True)
class Pairs(Tallier):
    """Counts, for each pair of values, the reports in which the bits of both are set."""

    name: ClassVar[str] = "pairs"

    mechanism: UnaryEncoding

    @property
    def pairs(self):
        size = self.mechanism.domain.size
        return [(i, j) for i in range(size) for j in range(i)]

    @property
    def counters(self):
        return len(self.pairs)

    @property
    def fingerprint(self):
        return self.mechanism.fingerprint[::-1]

    @property
    def reports(self):
        return self.mechanism.reports

    def count_reports(self, reports, groups, n_groups) -> I64:
        bits = np.unpackbits(reports, axis=1, bitorder="little")[:, : self.mechanism.domain.size]
        out = np.zeros((n_groups, self.counters), np.int64)
        for at, (i, j) in enumerate(self.pairs):
            np.add.at(out[:, at], groups, (bits[:, i] & bits[:, j]).astype(np.int64))
        return out


@dataclass(frozen=True, init=False)
class Shares(Question[Any]):
    """The share of each value and of its neighbors: values of the domain's own type, lists of numbers, and nulls."""

    name: ClassVar[str] = "shares"
    view: ClassVar[View] = View("n", ("value",))

    confidence: float = parameter(check_open)
    first: Any = None

    def __init__(self, confidence: float = 0.95, first: Any = None):
        self._declare(confidence=confidence, first=first)

    def check(self, mechanism):
        HistogramEstimate().check(mechanism)

    def schema(self, mechanism):
        kind = mechanism.domain.arrow_values.type
        return pa.schema(
            [("value", kind), ("shares", pa.list_(pa.float64())), ("first", pa.string()), ("n", pa.int64())]
        )

    def result(self, mechanism, tally):
        return self.rows(mechanism, np.array([tally.n]), tally.counters[None])[0]

    def rows(self, mechanism, n, counters):
        values = mechanism.domain.arrow_values
        d, k = len(values), len(n)
        lists = [[float("nan"), 0.5]] * (d * k)
        columns = [values.to_pylist() * k, lists, [self.first] * (d * k), np.repeat(n, d)]
        return pa.table(columns, self.schema(mechanism)), np.full(k, d)


class WithAnotherField(Shares):
    """As `Shares`, which gives it the same file."""

    def schema(self, mechanism):
        return super().schema(mechanism).append(pa.field("more", pa.int64()))


QUESTIONS = {"mode": ModeEstimate(), "set_together": SetTogether()}
PEOPLE = pa.record_batch(
    {"v": ["a", "a", "b", "c", "c", "b"], "t": [1, 2, 3, 11, 12, 13], "k": ["x", "x", "y", "x", "x", "x"]}
)
PLAN = PrivacyPlan({"v": BITS}, keep=["t", "k"])
PLACES = {(0, "x"): ("a", 2, 2), (0, "y"): ("b", 1, 1), (10, "x"): ("c", 2, 3)}
"""Window and key: the most frequent value, its count, all."""
OPTIONS = {"window": 10, "event_time": "t", "by": ["k"], "fill": (0, 30), "fill_keys": [("x",), ("y",)]}


def found(rows):
    """(start, key) -> rows, of places with reports; that the others are filled."""
    out = {}
    for row in rows:
        out.setdefault((row.window_start.micros // 10**6, row.key["k"]), []).append(row)
    assert set(out) == {(start, key) for start in (0, 10, 20) for key in "xy"}
    empty = [rows for place, rows in out.items() if place not in PLACES]
    assert {row.n for rows in empty for row in rows} == {0}
    return {place: out[place] for place in PLACES}


def test_rows_from_reports_and_from_values():
    """As batches and as single records; behind a shuffle, where rows have gone through their coder."""
    for private in (True, False):
        elements = PEOPLE if private else PLAN.perturb(PEOPLE)
        asked = [question if private else name for name, question in QUESTIONS.items()]
        estimates = [ldp_beam.Estimate("v", BITS, question, private=private, **OPTIONS) for question in asked]
        for records in ([elements], elements.to_pylist()):
            answers = run(All([estimate | beam.Reshuffle() for estimate in estimates]), records)
            for name, rows in zip(QUESTIONS, map(found, answers), strict=True):
                for place, (value, count, n) in PLACES.items():
                    if name == "mode":
                        [row] = rows[place]
                        assert (row.value, round(row.count), row.n) == (value, count, n)
                        assert row.low <= row.count <= row.high
                    else:  # of each report one bit is set
                        pairs = [("b", "a", 0, n), ("c", "a", 0, n), ("c", "b", 0, n)]
                        assert [(r.first, r.second, r.both, r.n) for r in rows[place]] == pairs
                    about = {(r.column_name, r.confidence, r.fingerprint) for r in rows[place]}
                    assert about == {("v", 0.95, BITS.fingerprint)}


def test_a_tally_of_its_own_counts_and_adds_up():
    bits = pa.array([[True, True, False], [True, True, True], [False] * 3], pa.list_(pa.bool_(), 3))
    combine = ldp_beam.TallyCombineFn(BITS, SetTogether())
    parts = [combine.add_inputs(combine.create_accumulator(), inputs) for inputs in ([bits], bits.to_pylist())]
    assert combine.extract_output(combine.merge_accumulators(parts)).counters.tolist() == [4, 2, 2]
    with pytest.raises(MechanismMismatchError, match="fingerprint"):
        combine.add_input(combine.create_accumulator(), BITS.tally(bits))
    answered = ldp_beam.EstimateCombineFn(BITS, SetTogether())
    table = answered.extract_output(answered.add_input(answered.create_accumulator(), bits))
    assert table["both"].to_pylist() == [2, 1, 1]
    (first, *_) = run(on_my_word(ldp_beam.Estimate("v", BITS, SetTogether())), [pa.record_batch({"v": bits})])
    assert (first.first, first.second, first.both, first.n) == ("b", "a", 2, 3)


def test_the_type_of_the_rows():
    for question, names in ((ModeEstimate(), ["value", "count", "low", "high"]), (SetTogether(), PAIRS.names[:3])):
        kind = row_type(question.schema(BITS))
        assert kind is row_type(question.schema(BITS))
        assert list(kind._fields[8:-4]) == names
        pcoll = beam.Pipeline() | beam.Create([PEOPLE]) | ldp_beam.Estimate("v", BITS, question, private=True)
        assert pcoll.element_type is kind
        assert isinstance(beam.coders.registry.get_coder(kind), beam.coders.RowCoder)
        assert dict(named_fields_from_element_type(kind))["n"] in (int, np.int64)
        for row in run(ldp_beam.Estimate("v", BITS, question, private=True), [PEOPLE]):
            for pickler in (pickle, cloudpickle):
                copy = pickle.loads(pickler.dumps(row))
                assert copy == row
                assert type(copy) is kind
    for schema in (pa.schema([("key", pa.string())]), pa.schema([("x", pa.struct([]))])):
        with pytest.raises(ParameterError):
            row_type(schema)


def test_sinks(tmp_path):
    for name, question in QUESTIONS.items():
        estimate = ldp_beam.Estimate("v", BITS, question, private=True, by=["k"])
        columns = [c for c in question.schema(BITS).names if c != "n"]
        sinks = [estimate | WriteEstimates(str(tmp_path / name / form), form) for form in ("parquet", "ndjson")]
        rows, [batch], *paths = run(All([estimate, estimate | EstimateBatches(), *sinks]), [PEOPLE])
        assert batch.schema.equals(estimate_schema(row_type(question.schema(BITS))))
        for form, [path] in zip(("parquet", "ndjson"), paths, strict=True):
            if form == "parquet":
                written = pq.read_table(path).to_pylist()
            else:
                with open(path) as lines:
                    written = [json.loads(line) for line in lines]
            expected = [[getattr(row, c) for c in (*columns, "n")] for row in rows]
            assert [[row[c] for c in (*columns, "n")] for row in written] == expected
        for row in rows:
            assert list(json.loads(estimate_line(row))) == batch.schema.names
            assert bigquery_row(row)["key"] == [{"key": "k", "value": row.key["k"]}]
        assert [field["name"] for field in bigquery_schema(batch.schema)["fields"]] == batch.schema.names


def test_lists_with_nan_and_nulls_in_rows_of_its_own():
    rows = run(ldp_beam.Estimate("v", BITS, Shares(first="x"), private=True), [PEOPLE])
    assert [json.loads(estimate_line(row))["shares"] for row in rows] == [[None, 0.5]] * 3
    with pytest.raises(ParameterError, match=r"shares has nulls in \['first'\]"):
        run(ldp_beam.Estimate("v", BITS, Shares(), private=True), [PEOPLE])


def test_the_telemetry_job_writes_one_table_of_columns_of_different_types(tmp_path):
    """Rows of an own question went through the type of a histogram's: `AttributeError`."""
    source, plan = tmp_path / "events.parquet", PrivacyPlan({"v": BITS, "i": UnaryEncoding([1, 2], epsilon=100.0)})
    times = pa.array([0] * 6, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"v": PEOPLE["v"], "i": [1, 2, 1, 2, 1, 1], "at": times}), source)
    ask = {name: Shares(first="x") for name in plan.columns}
    job = TelemetryJob(plan, (str(source),), "at", "1d", str(tmp_path / "out"), ask=ask)
    with beam.Pipeline("FnApiRunner") as p:
        job.build(p)
    written = pq.read_table(tmp_path / "out" / "shares.parquet").to_pylist()
    assert sorted((row["column_name"], row["value"]) for row in written) == [
        *(("i", value) for value in "12"),
        *(("v", value) for value in LABELS),
    ]
    ask["i"] = WithAnotherField(first="x")
    with pytest.raises(ParameterError, match="different fields"):
        TelemetryJob(plan, (str(source),), "at", "1d", str(tmp_path / "out"), ask=ask)


def test_a_confidence_beside_a_question_is_checked():
    for asked in (None, "histogram", HistogramEstimate()):
        with pytest.raises(ParameterError, match="confidence"):
            ldp_beam.Estimate("v", BITS, asked, confidence=7)


@pytest.mark.slow
def test_other_processes(tmp_path):
    """They know neither the types of the rows nor the questions before they read them."""
    flags = PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=1"])
    with beam.Pipeline("FnApiRunner", options=flags) as p:
        people = p | beam.Create([PEOPLE])
        for name, question in QUESTIONS.items():
            rows = (
                people | name >> ldp_beam.Estimate("v", BITS, question, private=True) | f"{name} S" >> beam.Reshuffle()
            )
            _ = rows | f"{name} W" >> WriteEstimates(str(tmp_path / name), "ndjson")
    for name, number in (("mode", 1), ("set_together", 3)):
        [file] = (tmp_path / name).iterdir()
        assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [6] * number


@pytest.mark.slow
def test_yaml():
    pytest.importorskip("jinja2", reason="needs Beam YAML: pip install 'ldp-telemetry[yaml]'")
    from ..yaml.spec import create, expand

    options = {**OPTIONS, "fill": [0, 30], "fill_keys": [["x"], ["y"]]}
    config = {"column": "v", "mechanism": BITS.to_dict(), "private": True, **options}
    ask = {"question": "mode", "confidence": 0.9}
    fields = {"language": "python", "append": True, "fields": {"wide": "high - low > 0"}}
    steps = [
        create(PEOPLE.to_pylist()),
        {"type": "LdpEstimate", "name": "Modes", "input": "Create", "config": {**config, "ask": ask}},
        {"type": "MapToFields", "name": "Wide", "input": "Modes", "config": fields},
        {"type": "LdpEstimate", "name": "Pairs", "input": "Create", "config": {**config, "ask": "set_together"}},
    ]
    rows = {name: found(made) for name, made in expand(steps, modes="Wide", pairs="Pairs").items()}
    assert {place: made[0].value for place, made in rows["modes"].items()} == {
        p: top for p, (top, *_) in PLACES.items()
    }
    assert {(row.confidence, row.wide) for place in rows["modes"].values() for row in place} == {(0.9, True)}
    assert {(row.confidence, row.both) for place in rows["pairs"].values() for row in place} == {(0.95, 0)}
