"""Perturb: every form of element in, the same kind out, at its own time and in its own window.

Most tests call the step without a pipeline; that runners do so is looked at once for each kind of element.
"""

import pickle
import typing
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from itertools import product

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.coders import RowCoder
from apache_beam.coders.typecoders import registry
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, SlidingWindows
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_fields_from_element_type
from apache_beam.utils.timestamp import Timestamp
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_beam.elements import records as records_module
from ldp_beam.elements.faults import OTHER_PLAN
from ldp_core import (
    Domain,
    DomainError,
    DtypeError,
    Hybrid,
    Interval,
    LdpError,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
)

from .estimates.driven import tallied
from .helpers import SURE, SURE_BITS, SURE_BOOL, counters, perturbed, run, run_with_result, stamped

PLAN = PrivacyPlan({"os": SURE, "app": SURE_BITS, "crashed": SURE_BOOL}, keep=["day"])
OS, APP, CRASHED, DAY = ["a", "b", "c", "a"], ["c", "a", "b", "b"], [True, False, False, True], [1, 2, 3, 4]
EVENTS = pa.table({"os": OS, "app": APP, "crashed": CRASHED, "day": DAY, "name": ["w", "x", "y", "z"]})
RECORDS = EVENTS.to_pylist()
HOT = {"a": [True, False, False], "b": [False, True, False], "c": [False, False, True]}
WORD = {"a": [1], "b": [2], "c": [4]}


class Event(typing.NamedTuple):
    os: str
    app: str
    crashed: bool
    day: int
    name: str


def expected(packed):
    app = WORD if packed else HOT
    columns = zip(OS, APP, CRASHED, DAY, strict=True)
    return [{"os": o, "app": app[a], "crashed": c, "day": d} for o, a, c, d in columns]


def reports_of(transform, elements):
    """The reports of one bundle, if there are no dead letters."""
    good, dead = perturbed(transform, elements)
    assert dead == []
    return good


def test_declared_types_in_and_declared_types_out():
    """The output of single records had no schema, and with Beam's checks of types while it runs the job ended."""
    plan = PrivacyPlan({"app": SURE_BITS, "crashed": SURE_BOOL}, keep=["day"])
    bound = ldp_beam.BoundContributions("name", 1)
    of_reports = {"app": typing.Sequence[bool], "crashed": bool, "day": np.int64}
    of_bounded = {"os": str, "app": str, "crashed": bool, "day": np.int64}
    of_schema = [[beam.Row(**record) for record in RECORDS], [Event(**record) for record in RECORDS]]
    for elements in of_schema:
        p = beam.Pipeline("FnApiRunner")
        events = p | beam.Create(elements)
        for transform, fields in (
            (ldp_beam.Perturb(plan), of_reports),
            (ldp_beam.Perturb(plan, packed=True), {**of_reports, "app": typing.Sequence[np.int64]}),
            (ldp_beam.Perturb(plan).with_exception_handling(), of_reports),
            (bound, of_bounded),
            (bound.with_exception_handling(), of_bounded),
        ):
            out = events | f"{id(transform)}" >> transform
            kind = (out if isinstance(out, beam.PCollection) else out[0]).element_type
            assert dict(named_fields_from_element_type(kind)) == fields
            assert isinstance(registry.get_coder(kind), RowCoder)
        kept = events | ldp_beam.BoundContributions("name", 1, drop_id=False)
        assert kept.element_type == events.element_type
        with pytest.raises(PlanError, match="color"):
            _ = events | "Lacks" >> ldp_beam.Perturb(PrivacyPlan({"color": SURE_BITS}))
    by_day = beam.GroupBy("day").aggregate_field("crashed", sum, "crashes")
    crashes = list(zip(DAY, map(int, CRASHED), strict=True))
    for elements in (*of_schema, RECORDS, [EVENTS]):
        with beam.Pipeline("FnApiRunner", options=PipelineOptions(["--runtime_type_check"])) as p:
            reports = p | beam.Create(elements) | bound | ldp_beam.Perturb(plan)
            rows = reports | ldp_beam.Histogram("crashed", SURE_BOOL)
            assert_that(rows | "n" >> beam.Map(lambda row: row.n), equal_to([4, 4]))
            if elements in of_schema:
                found = reports | by_day | "Crashes" >> beam.Map(lambda row: (row.day, row.crashes))
                assert_that(found, equal_to(crashes), "by day")


def test_batches():
    for form in ("batch", "table", "chunks", "dictionary", "view"):
        for packed in (True, False):
            table = EVENTS
            if form == "chunks":
                table = pa.concat_tables([EVENTS[:1], EVENTS[1:]])
            if form in ("dictionary", "view"):
                text = table["os"].cast(pa.string_view()) if form == "view" else table["os"].dictionary_encode()
                table = table.set_column(0, "os", text)
            elements = EVENTS.to_batches() if form == "batch" else [table]
            [out] = reports_of(ldp_beam.Perturb(PLAN, packed=packed), elements)
            assert isinstance(out, pa.RecordBatch)
            assert out.schema == PLAN.schema(table.schema, packed=packed)
            assert PrivacyPlan.from_metadata(out.schema.metadata) == PLAN
            PLAN.check_reports(out.schema)
            assert out.to_pylist() == expected(packed)


def test_single_records():
    for packed in (True, False):
        out = reports_of(ldp_beam.Perturb(PLAN, packed=packed), RECORDS)
        assert out == expected(packed)
        assert {type(v) for v in (out[0]["os"], out[0]["app"], out[0]["crashed"])} == {str, list, bool}
        for kind in (beam.Row, Event):
            out = reports_of(ldp_beam.Perturb(PLAN, packed=packed), [kind(**record) for record in RECORDS])
            assert out == [beam.Row(**record) for record in expected(packed)]


def test_mixed_elements_in_a_pipeline():
    out = run(ldp_beam.Perturb(PLAN, packed=True), [*RECORDS, EVENTS, *(beam.Row(**record) for record in RECORDS)])
    by_kind = {kind: [e for e in out if isinstance(e, kind)] for kind in (dict, pa.RecordBatch, beam.Row)}
    assert by_kind[dict] == by_kind[pa.RecordBatch][0].to_pylist() == expected(packed=True)
    assert by_kind[beam.Row] == [beam.Row(**record) for record in expected(packed=True)]
    assert len(out) == 4 + 1 + 4


def test_times_and_windows_stay(monkeypatch):
    monkeypatch.setattr(records_module, "ROW_BATCH", 50)
    n = 110  # more than twice as many: some are handled in the middle of a bundle
    values = np.random.default_rng(0).choice(["a", "b", "c"], n).tolist()
    records = [{"os": v, "i": i} for i, v in enumerate(values)]
    for batched, stabilize in ((True, True), (False, True), (False, False)):
        elements = [pa.RecordBatch.from_pylist([r]) for r in records[:20]] if batched else records
        perturb = ldp_beam.Perturb(PrivacyPlan({"os": SURE}, keep=["i"]), stabilize=stabilize)
        source = stamped((e, 3 * i) for i, e in enumerate(elements))
        [out], result = run_with_result(beam.WindowInto(FixedWindows(100)) | perturb, source)
        assert len(out.stamped) == len(elements)
        for element, time, window in out.stamped:
            record = element.to_pylist()[0] if batched else element
            assert record == records[record["i"]]
            assert time == Timestamp(3 * record["i"])
            assert window.start == Timestamp(3 * record["i"] // 100 * 100)
        assert rows_at_once(result).max == (1 if batched else 50)


def rows_at_once(result):
    return result.metrics().query(beam.metrics.MetricsFilter().with_name("batch_rows"))["distributions"][0].committed


def test_metrics():
    batches = EVENTS.to_batches(max_chunksize=3)
    _, result = run_with_result(ldp_beam.Perturb(PLAN), [*batches, *RECORDS])
    assert counters(result) == {"records_read": 8, "perturbed": 8}
    rows = rows_at_once(result)
    assert (rows.sum, rows.count, rows.min, rows.max) == (8, 3, 1, 4)


def test_there_is_no_generator_in_a_pickle():
    plan = PrivacyPlan({"v": UnaryEncoding(list(range(64)), epsilon=0.01, variant="symmetric")})
    records = [{"v": i} for i in range(30)]
    fn = ldp_beam.Perturb(plan)
    one, other = (reports_of(pickler.loads(pickler.dumps(fn)), records) for _ in range(2))
    # 2^64 patterns: that two draws of a record agree has probability about 1e-15
    assert not {tuple(report["v"]) for report in one} & {tuple(report["v"]) for report in other}


def test_one_column_shorthands():
    now = datetime(2024, 5, 1)  # what is kept may be anything
    events = [{"crashed": True, "os": "b", "day": 3, "at": now}]
    by_epsilon = ldp_beam.RandomizedResponse("crashed", epsilon=80.0, keep=["day", "at"])
    assert reports_of(by_epsilon, events) == [{"crashed": True, "day": 3, "at": now}]
    assert reports_of(ldp_beam.RandomizedResponse("os", domain=["a", "b"], epsilon=80.0), events) == [{"os": "b"}]
    options = {"epsilon": 120.0, "variant": "symmetric"}
    symmetric = ldp_beam.UnaryEncode("os", domain=["a", "b"], keep=["day"], packed=True, **options)
    assert reports_of(symmetric, events) == [{"os": [2], "day": 3}]
    other = ldp_beam.UnaryEncode("os", domain=["a", "c"], unmatched="other", **options)
    assert reports_of(other, events) == [{"os": [False, False, True]}]
    other = ldp_beam.RandomizedResponse("os", domain=["a"], unmatched="other", epsilon=80.0)
    assert reports_of(other, events) == [{"os": "other"}]
    keyed = ldp_beam.UnaryEncode("os", domain=["a", "b"], epsilon=1.0, key=Secret(bytes(32)), id="day")
    assert reports_of(keyed, events * 20) == reports_of(keyed, events) * 20


def test_bad_parameters_at_construction():
    for make in (
        lambda: ldp_beam.RandomizedResponse("os", epsilon=0.0),
        lambda: ldp_beam.RandomizedResponse("os", epsilon=float("nan")),
        lambda: ldp_beam.RandomizedResponse("os", epsilon=1.0, keep=["os"]),
        lambda: ldp_beam.RandomizedResponse("os", domain=["a"], epsilon=1.0),
        lambda: ldp_beam.UnaryEncode("os", domain=Domain(["a", "b"]), epsilon=1.0, unmatched="none"),
        lambda: ldp_beam.UnaryEncode("os", domain=["a", "b"], epsilon=1.0, variant="x"),
        lambda: ldp_beam.Perturb(PLAN).with_exception_handling("x", "x"),
    ):
        with pytest.raises(LdpError):
            make()


def test_records_in_several_windows_are_refused():
    for transform in (ldp_beam.Perturb(PLAN), ldp_beam.PrivateHistogram("os", SURE)):
        records = beam.Pipeline("FnApiRunner") | beam.Create(RECORDS) | beam.WindowInto(SlidingWindows(10, 5))
        with pytest.raises(ParameterError, match="sliding"):
            _ = records | transform


def test_unusable_records_stop_the_pipeline():
    for elements, error, match in (
        ([EVENTS.drop_columns(["app"])], PlanError, "app"),
        ([EVENTS.drop_columns(["day"])], PlanError, "day"),
        ([EVENTS.set_column(0, "os", pa.array([1, 2, 3, 4]))], DtypeError, "'os'.*int64"),
        ([EVENTS.set_column(0, "os", pa.array(["a", None, "z", "z"]))], DomainError, "'os': 3 of 4.*1 of them null"),
        ([{**RECORDS[0], "os": "z"}, {**RECORDS[0], "os": None}, RECORDS[1]], DomainError, "'os': 2 of 3"),
        ([{**RECORDS[0], "os": 5}, RECORDS[1]], DtypeError, "'os'"),
        ([{"app": "a", "crashed": True}], PlanError, "there is no column 'os' in any of 1 records"),
        (["text"], DtypeError, "got str"),
        ([("a", "b")], DtypeError, "got tuple"),
        ([5], DtypeError, "got int"),
    ):
        with pytest.raises(error, match=match):
            perturbed(ldp_beam.Perturb(PLAN), elements)


def test_reports_are_not_perturbed_again():
    reports = PLAN.perturb(EVENTS.to_batches()[0])
    perturb, private = ldp_beam.Perturb(PrivacyPlan({"os": SURE})), ldp_beam.PrivateHistogram("os", SURE)
    for attempt, transform, nothing in ((perturbed, perturb, []), (tallied, private, {})):
        with pytest.raises(MechanismMismatchError, match="again"):
            attempt(transform, [reports])
        handled = attempt(transform.with_exception_handling(), [reports])
        assert handled == (nothing, [("", OTHER_PLAN, reports.num_rows)])
    typed = pl.DataFrame({"os": OS}).ldp.perturb(PrivacyPlan({"os": SURE}), typed=True).to_arrow().to_batches()
    for attempt, transform in ((perturbed, perturb), (tallied, private)):
        with pytest.raises(MechanismMismatchError, match=r"\['os'\] hold reports already"):
            attempt(transform, typed)
    day = PrivacyPlan({"day": RandomizedResponse([1, 2, 3, 4], epsilon=80.0)})
    [kept] = reports_of(ldp_beam.Perturb(day), [reports])
    assert kept["day"].to_pylist() == DAY


def test_dead_letters_of_a_batch():
    os = ["a", None, "z", "b", None, "z"]
    crashed = [True, None, True, None, False, True]
    bad = pa.record_batch({"os": os, "app": ["a"] * 6, "crashed": crashed, "day": range(6)})
    good, letters = perturbed(ldp_beam.Perturb(PLAN).with_exception_handling(), [bad, EVENTS])
    assert [batch["day"].to_pylist() for batch in good] == [[0], DAY]
    assert sorted(letters) == [("crashed", "null", 1), ("os", "not in the domain", 2), ("os", "null", 2)]
    assert all(isinstance(letter, ldp_beam.DeadLetter) for letter in letters)


def test_dead_letters_of_single_records():
    for kind in (dict, beam.Row):
        ok = RECORDS[0]
        records = [
            ok,
            {**ok, "os": "z"},
            {**ok, "os": 3},
            {**ok, "crashed": None, "os": None},
            {**ok, "crashed": 1},
            {"os": "a", "app": "b", "day": 1},
            ok,
        ]
        elements = [kind(**record) for record in records]
        (good, letters), result = run_with_result(
            beam.WindowInto(FixedWindows(10)) | ldp_beam.Perturb(PLAN).with_exception_handling(),
            stamped((e, 4 * i) for i, e in enumerate(elements)),
        )
        assert [time.micros for _, time, _ in good.stamped] == [0, 24_000_000]
        per_window = sorted((window.start.micros // 10**6, *letter) for letter, _, window in letters.stamped)
        assert per_window == [
            (0, "os", "not in the domain", 1),
            (0, "os", "not of type str", 1),
            (10, "crashed", "not of type bool", 1),
            (10, "os", "null", 1),
            (20, "crashed", "no such column", 1),
        ]
        assert all(window.start <= time < window.end for _, time, window in letters.stamped)
        assert counters(result) == {"records_read": 7, "perturbed": 2, "dead_lettered": 5}


def test_elements_that_are_no_records_are_dead_letters():
    """They ended the job; the Struct of protobuf, which says that it is a mapping, with an AttributeError."""
    plan, odd = PrivacyPlan({"os": SURE}), ParseDict({"os": "a"}, Struct())
    good, bad = perturbed(ldp_beam.Perturb(plan).with_exception_handling(), [{"os": "a"}, None, "text", odd])
    assert (good, bad) == ([{"os": "a"}], [("", "not of type record", 1)] * 3)
    frames = [pl.DataFrame({"os": ["a", "b"]})]
    frames += [frames[0].to_pandas()] if find_spec("pandas") else []
    for frame in frames:  # (each was one letter of one record)
        out, result = run_with_result(ldp_beam.Perturb(plan).with_exception_handling(), [frame])
        assert out[1].elements == [("", "not of type pyarrow.Table", 2)]
        assert counters(result) == {"records_read": 2, "dead_lettered": 2}
        with pytest.raises(DtypeError, match=r"got DataFrame: pass frame.to_arrow\(\), or of pandas"):
            perturbed(ldp_beam.Perturb(plan), [frame])
    with pytest.raises(DtypeError, match="got Struct"):
        perturbed(ldp_beam.Perturb(plan), [odd])


def test_a_wholly_unusable_batch():
    for batch, letters in (
        (EVENTS.drop_columns(["app"]), [("app", "no such column", 4)]),
        (EVENTS.drop_columns(["day"]), [("day", "no such column", 4)]),
        (EVENTS.set_column(0, "os", pa.array([1, 2, 3, None])), [("os", "not of type str", 3), ("os", "null", 1)]),
        (EVENTS.set_column(0, "os", pa.nulls(4)), [("os", "null", 4)]),
        (EVENTS.set_column(0, "os", pa.array(["z"] * 4).dictionary_encode()), [("os", "not in the domain", 4)]),
    ):
        good, bad = perturbed(ldp_beam.Perturb(PLAN).with_exception_handling(), [batch])
        assert good == []
        assert sorted(bad) == sorted(letters)
    perturb = ldp_beam.Perturb(PrivacyPlan({"i": RandomizedResponse([1, 2], epsilon=80.0)})).with_exception_handling()
    good, bad = perturbed(perturb, [{"i": 1}, {"i": 2**70}, {"i": 7}, {"i": True}])  # (one has no 64 bits)
    assert good == [{"i": 1}]
    assert sorted(bad) == [("i", "not in the domain", 2), ("i", "not of type int", 1)]
    others = ldp_beam.Perturb(PrivacyPlan({"i": RandomizedResponse(Domain([1, 2], unmatched="other"), epsilon=80.0)}))
    good, bad = perturbed(others.with_exception_handling(), [{"i": 1}, {"i": 2**70}, {"i": True}])
    assert (good, bad) == ([{"i": "1"}, {"i": "other"}], [("i", "not of type int", 1)])  # as without the last one


def test_unmatched_values_are_no_dead_letters_where_the_domain_takes_them():
    for unmatched in ("other", "none"):
        domain = Domain(["a", "b"], unmatched=unmatched)
        plan = PrivacyPlan({"os": UnaryEncoding(domain, epsilon=120.0, variant="symmetric")})
        code = {"other": [4], "none": [0]}[unmatched]
        transform = ldp_beam.Perturb(plan, packed=True).with_exception_handling()
        good, bad = perturbed(transform, [{"os": "z"}, {}, {"os": "a"}, {"os": 5}])
        assert [record["os"] for record in good] == [code, code, [1]]
        assert bad == [("os", "not of type str", 1)]
        good, bad = perturbed(transform, [pa.record_batch({"os": ["z", None, "b"]})])
        assert (good[0]["os"].to_pylist(), bad) == ([code, code, [2]], [])
    transform = ldp_beam.Perturb(PrivacyPlan({"age": Hybrid(Interval(0, 9, missing=4), epsilon=1.0)}))
    good, bad = perturbed(transform.with_exception_handling(), [{"age": None}, {}, {"age": 3.0}, {"age": 10.0}])
    assert (len(good), bad) == (3, [("age", "not in the domain", 1)])


# ---- keyed noise; that it is the same everywhere is tested in `tests/across`


KEY = Secret(bytes(range(32)))


def test_bad_options_of_keyed_noise():
    for bad in ({"key": KEY}, {"id": "user"}, {"key": bytes(32), "id": "user"}):
        with pytest.raises(ParameterError):
            ldp_beam.Perturb(PLAN, **bad)
        with pytest.raises(ParameterError):
            ldp_beam.PrivateHistogram("os", PLAN["os"], **bad)


def test_the_secret_travels_only_if_it_is_given():
    given = pickle.dumps(ldp_beam.Perturb(PLAN, key=KEY, id="user"))
    assert bytes(range(32)) in given
    named = pickle.dumps(ldp_beam.Perturb(PLAN, key=partial(Secret.from_env, "LDP_SECRET"), id="user"))
    assert bytes(range(32)) not in named


def test_a_function_that_gets_no_secret_makes_no_noise_fresh():
    """Of batches it did, as if there were no key=: a ledger had charged for keyed noise."""
    keyed = {"key": lambda: None, "id": "user"}
    batch = pa.record_batch({"os": ["a"], "crashed": [True], "user": ["u"], "day": [1], "country": ["fr"]})
    for transform in (
        ldp_beam.Perturb(PrivacyPlan({"os": PLAN["os"]}), **keyed),
        ldp_beam.PrivateHistogram("os", PLAN["os"], repeats=1, **keyed),
        ldp_beam.BoundContributions("user", 1, key=keyed["key"]),
    ):
        for elements, one in product(([batch], batch.to_pylist()), (transform, transform.with_exception_handling())):
            with pytest.raises(ParameterError, match="it got NoneType"):
                run(one, elements)


ID = "not of type int, str or bytes"


def test_unusable_ids_are_dead_letters():
    for ids, reasons in (
        (pa.array([1.5, 2.5, 3.5]), {ID: 3}),
        (pa.array([True, False, True]), {ID: 3}),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None])), {"null": 1}),
        (None, {"no such column": 3}),
        ([1.5, 2.5, None], {"null": 1, "not of type int": 2}),
        ([1, "a", 2], {"not of type int": 1}),
    ):
        crashed, left = [True, False, True], 3 - sum(reasons.values())
        if isinstance(ids, list):
            elements = [{"v": v, "user": user} for v, user in zip(crashed, ids, strict=True)]
        else:
            elements = [pa.record_batch({"v": crashed} if ids is None else {"v": crashed, "user": ids})]
        perturb = ldp_beam.Perturb(PrivacyPlan({"v": SURE_BOOL}), key=KEY, id="user").with_exception_handling()
        good, dead = perturbed(perturb, elements)
        assert {letter.reason: letter.count for letter in dead} == reasons
        assert {letter.column_name for letter in dead} == {"user"}
        assert sum(e.num_rows if isinstance(e, pa.RecordBatch) else 1 for e in good) == left
        private = ldp_beam.PrivateHistogram("v", SURE_BOOL, key=KEY, id="user").with_exception_handling()
        found, letters = tallied(private, elements)
        assert (sum(tally.n for tally in found.values()), letters) == (left, dead)


def test_unusable_ids_say_in_which_column():
    for ids, words in (
        ([1.5, 2], r"columns \['user'\]: ids must be integers, text or binary, got double"),
        ([1, "a"], r"columns \['user'\]: ids must be integers, text or binary, one a record"),
        (pa.array([1.5, 2.5]), "column 'user': ids must be integers, text or binary, got double"),
        (pa.array(["a", None]), "column 'user': 1 of 2 ids are null"),
        (["a", None], "column 'user': 1 of 2 ids are null"),
    ):
        batch = isinstance(ids, pa.Array)
        elements = (
            [pa.record_batch({"v": [True, False], "user": ids})] if batch else [{"v": True, "user": i} for i in ids]
        )
        for noise in ({"key": KEY, "id": "user"}, {"record": "user"}):
            with pytest.raises(LdpError, match=words):
                perturbed(ldp_beam.Perturb(PrivacyPlan({"v": SURE_BOOL}), **noise), elements)


def test_a_column_that_the_schema_lacks_is_an_error_before_anything_runs():
    """With unmatched="other" all records of a misspelled column were others, in silence."""
    coins = RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1.0)
    for transform in (
        ldp_beam.PrivateHistogram("oss", coins),
        ldp_beam.PrivateTable(["oss", "crashed"], {"oss": coins, "crashed": SURE_BOOL}),
        ldp_beam.PrivateHistogram("os", coins, by=["oss"]),
        ldp_beam.PrivateHistogram("os", coins, window="1h", event_time="oss"),
        ldp_beam.PrivateHistogram("os", coins, record="oss"),
        ldp_beam.PrivateHistogram("os", coins, person="oss"),
    ):
        rows = beam.Pipeline("FnApiRunner") | beam.Create([beam.Row(os="a", crashed=True)])
        with pytest.raises(PlanError, match=r"no columns \['oss'\]; the rows have \['crashed', 'os'\]"):
            _ = rows | transform


# ---- what comes after


class BatchedReports(beam.DoFn):
    """A consumer that works in batches of Beam's own making, as ``WriteToJson`` does."""

    @beam.DoFn.yields_elements
    def process_batch(self, batch: list[typing.Any]) -> Iterator[int]:
        yield len(batch)


class BatchedLetters(beam.DoFn):
    @beam.DoFn.yields_elements
    def process_batch(self, batch: list[ldp_beam.DeadLetter]) -> Iterator[int]:
        yield len(batch)


def test_what_a_bundle_ends_with_reaches_consumers_of_batches():
    records = [{**RECORDS[0]}, {**RECORDS[0], "os": None}]
    perturb = ldp_beam.Perturb(PLAN, stabilize=False).with_exception_handling()
    with beam.Pipeline("FnApiRunner") as p:
        good, dead = p | beam.Create(records, reshuffle=False) | perturb
        assert_that(good | beam.ParDo(BatchedReports()), equal_to([1]), label="good")
        assert_that(dead | beam.ParDo(BatchedLetters()), equal_to([1]), label="dead")


# ---- single reports fit into a schema: no integer has more than 63 bits and a sign


def test_single_reports_fit_into_a_schema():
    """Words of more than 63 bits were integers that no schema holds; the bits stay the same."""
    for kind in (dict, beam.Row):
        for packed in (True, False):
            sure = UnaryEncoding(range(130), epsilon=300.0, variant="symmetric")
            plan = PrivacyPlan({"v": sure})
            values = [0, 63, 64, 127, 129]
            reports = reports_of(ldp_beam.Perturb(plan, packed=packed), [kind(v=value) for value in values])
            rows = [report["v"] if kind is dict else report.v for report in reports]
            if packed:
                low = -(2**63)
                assert rows == [[1, 0, 0], [low, 0, 0], [0, 1, 0], [0, low, 0], [0, 0, 2]]
            held = pa.array(rows, pa.list_(pa.int64() if packed else pa.bool_()))  # as a database has them
            coder = RowCoder.from_type_hint(RowTypeConstraint.from_fields([("v", Sequence[int])]), None)
            again = [coder.decode(coder.encode(beam.Row(v=row))).v for row in rows] if packed else rows
            unsigned = [[word % 2**64 for word in row] if packed else row for row in rows]
            for form in (rows, held.to_pylist(), again, unsigned):
                rows_of = tallied(ldp_beam.Histogram("v", sure), [kind(v=list(row)) for row in form])[0]
                [tally] = rows_of.values()
                assert np.flatnonzero(tally.counters).tolist() == values


# ---- what a new user of Beam meets first: the error says what to do


GRR = RandomizedResponse(["rome", "oslo"], epsilon=3.0)
WORDS = PrivacyPlan({"word": GRR})


def test_what_is_called_wrongly_says_the_right_call():
    for wrong, remedy in (
        (lambda: ldp_beam.Perturb(GRR), r"PrivacyPlan\(\{name: mechanism\}\)"),
        (
            lambda: ldp_beam.PrivateHistogram("word", WORDS),
            r"got PrivacyPlan; the mechanism of one column is plan\[name\]",
        ),
        (lambda: ldp_beam.PrivateHistogram("word", ["rome", "oslo"]), r"got list; .*RandomizedResponse\("),
        (lambda: ldp_beam.Histogram("word", RandomizedResponse), "the class RandomizedResponse; make one"),
        (lambda: ldp_beam.PrivateHistogram("word", Hybrid((0, 1), epsilon=1.0)), "mechanisms for numbers have a mean"),
        (lambda: ldp_beam.PrivateHistogram("word", GRR, window="1 hour", event_time="t"), 'like "1w"'),
    ):
        with pytest.raises(LdpError, match=remedy):
            wrong()


def test_values_that_were_never_perturbed_are_to_be_perturbed_first():
    oue = UnaryEncoding(["rome", "oslo"], epsilon=1.0)
    with pytest.raises(Exception, match="perturb them first"):
        run(ldp_beam.Histogram("word", oue), [{"word": "rome"}])
    with pytest.raises(Exception, match="needs bool values, got str"):
        run(ldp_beam.RandomizedResponse("word", epsilon=1.0), [{"word": "rome"}])
