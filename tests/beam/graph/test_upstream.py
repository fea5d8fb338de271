"""What the pipeline perturbs before a step is known when it is built, for single records too."""

from itertools import product

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    SlidingWindows,
)

import ldp_beam
from ldp_beam.io import ReadReports
from ldp_core import MechanismMismatchError, ParameterError, PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding

from ...cases import case
from ..helpers import Collector

ONE, THREE = (UnaryEncoding(["a", "b"], epsilon=epsilon) for epsilon in (1.0, 3.0))
COIN = RandomizedResponse(epsilon=1.0)
PLAN = PrivacyPlan({"os": THREE, "crashed": COIN}, keep=["day"])
RECORD = {"os": "a", "crashed": True, "day": "b"}
FORMS = {"dictionaries": [RECORD], "rows": [beam.Row(**RECORD)], "batches": [pa.RecordBatch.from_pylist([RECORD])]}


def new(elements):
    return beam.Pipeline("FnApiRunner") | beam.Create(elements)


@pytest.fixture
def events():
    return new([RECORD])


def passed_on(pcoll):
    """As a pipeline goes on: other steps, another composite, parts that meet again, windows."""
    parts = pcoll | "Filter" >> beam.Filter(bool) | "Spread" >> beam.Reshuffle() | beam.Partition(lambda _, n: 0, 2)
    return (
        (parts[0], parts[1] | "Same" >> beam.Map(lambda x: x))
        | beam.Flatten()
        | beam.WindowInto(beam.window.FixedWindows(60))
    )


def test_reports_are_not_joined_with_the_records_that_they_are_of():
    """Their values counted as reports: 3 records gave n = 6."""
    histogram = ldp_beam.Histogram("crashed", COIN)
    for form, elements in FORMS.items():
        records = new(elements)
        limited = records | ldp_beam.BoundContributions("day", 1, drop_id=False)
        spread = records | "Windows" >> beam.WindowInto(FixedWindows(60)) | beam.Reshuffle()
        reports = limited | ldp_beam.Perturb(PLAN)
        for k, other in enumerate((records, limited, spread, (limited, spread) | beam.Flatten())):
            joined = (reports, other) | f"Join {k}" >> beam.Flatten()
            with case(form, k), pytest.raises(MechanismMismatchError, match="records that they were made of"):
                _ = joined | f"Count {k}" >> histogram
        stored = records.pipeline | "Stored" >> beam.Create([{"crashed": True}])
        _ = (reports, stored) | "More" >> beam.Flatten() | histogram


class InPart(beam.PTransform):
    """A transform within another one."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def expand(self, pcoll):
        return pcoll | "Inner" >> self.inner


def test_another_mechanism_than_the_one_that_perturbs_is_refused():
    for form, after, stabilize in product(FORMS.values(), (lambda pcoll: pcoll, passed_on), (True, False)):
        reports = after(new(form) | ldp_beam.Perturb(PLAN, stabilize=stabilize))
        with pytest.raises(MechanismMismatchError, match=rf"'os'.*{THREE.fingerprint}\), says the Perturb before"):
            _ = reports | ldp_beam.Histogram("os", ONE)
        _ = reports | "Right" >> ldp_beam.Histogram("os", THREE)
        _ = reports | "Coin" >> ldp_beam.Histogram("crashed", COIN)
        reports, _ = new(form) | ldp_beam.Perturb(PLAN, stabilize=stabilize).with_exception_handling()
        with pytest.raises(MechanismMismatchError, match="the Perturb before"):
            _ = after(reports) | ldp_beam.Histogram("os", ONE).with_exception_handling()


def test_a_column_that_is_kept_holds_no_reports(events):
    reports = events | ldp_beam.Perturb(PLAN)
    with pytest.raises(MechanismMismatchError, match="'day' is kept as it is"):
        _ = reports | ldp_beam.Histogram("day", ONE)
    _ = reports | ldp_beam.PrivateHistogram("day", ONE)  # it holds values


def test_reports_are_not_perturbed_again(events):
    reports = events | ldp_beam.Perturb(PLAN)
    for again in (
        ldp_beam.Perturb(PrivacyPlan({"os": ONE})),
        ldp_beam.PrivateHistogram("os", THREE),
        ldp_beam.Perturb(PLAN),
    ):
        with pytest.raises(MechanismMismatchError, match=r"'os'\] hold reports already"):
            _ = reports | f"Again {id(again)}" >> again
    _ = reports | "Kept" >> ldp_beam.Perturb(PrivacyPlan({"day": ONE}))


def test_limits_come_before_what_perturbs(events):
    keeping = PrivacyPlan(PLAN.columns, keep=["user"])
    limits = (
        lambda name="user": ldp_beam.BoundContributions(name, 1),
        lambda name="user": ldp_beam.PrivacyLedger(PLAN, id=name, budget=9),
    )
    for i, (limit, after) in enumerate(product(limits, (lambda pcoll: pcoll, passed_on))):
        reports = after(new([{**RECORD, "user": 1}]) | ldp_beam.Perturb(keeping))
        with pytest.raises(ParameterError, match=r"after Perturb protects nothing.*before what perturbs"):
            _ = reports | limit()
        _ = reports | ldp_beam.Deduplicate("user", within="1h")
        _ = events | f"Values {i}" >> limit()
        rows = events | f"Rows {i}" >> ldp_beam.PrivateHistogram("os", THREE)
        _ = rows | f"Of rows {i}" >> limit("value")


def test_a_limit_takes_no_column_that_is_perturbed_for_the_id_of_a_person():
    """One record of each value would pass: the histogram would be flat."""
    for limit in (ldp_beam.BoundContributions("os", 1), ldp_beam.PrivacyLedger(PLAN, id="os", budget=9)):
        limited = beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([RECORD]) | limit | same()
        for step in (ldp_beam.Perturb(PLAN), ldp_beam.PrivateHistogram("os", THREE), ldp_beam.Histogram("os", THREE)):
            with pytest.raises(ParameterError, match=r"id='os' is a column that is perturbed.*tells the persons apart"):
                _ = limited | step
        _ = limited | ldp_beam.PrivateHistogram("crashed", COIN)
    once = new([RECORD]) | ldp_beam.Deduplicate("os", within=60, drop_id=False)  # (nor of a record)
    for step in (ldp_beam.Perturb(PLAN), ldp_beam.PrivateHistogram("os", THREE)):
        with pytest.raises(ParameterError, match=r"id='os' is a column that is perturbed.*tells the records apart"):
            _ = once | step
    with pytest.raises(ParameterError, match=r"id='os' is a column that is perturbed.*tells the records apart"):
        ldp_beam.Perturb(PLAN, record="os")


def test_a_limit_takes_no_column_that_is_perturbed_for_the_time():
    """How many records passed told how many different values a person had, exactly."""
    plan = PrivacyPlan({"day": RandomizedResponse([0, 1, 2], epsilon=1.0)})
    how = {"event_time": "day", "drop_id": False}
    for limit in (
        ldp_beam.BoundContributions("user", 1, window=1, **how),
        ldp_beam.Deduplicate("user", within=1, **how),
        ldp_beam.PrivacyLedger(plan, id="user", budget=1, per=1, **how),
    ):
        limited = beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([{"user": 1, "day": 2}]) | limit
        with pytest.raises(ParameterError, match="takes 'day', which is perturbed, for its event_time"):
            _ = limited | ldp_beam.Perturb(plan)


class TwoLengths(NonMergingWindowFn):
    """Each time in a window of 10 and in one of 20 seconds."""

    def assign(self, context):
        second = context.timestamp.micros // 10**6
        return [IntervalWindow(second // n * n, second // n * n + n) for n in (10, 20)]

    def get_window_coder(self):
        return IntervalWindowCoder()


class Weekends(TwoLengths):
    """Days, and Saturday with Sunday in one more: none of them on 1970-01-01, a Thursday."""

    def assign(self, context):
        day = context.timestamp.micros // (86_400 * 10**6)
        more = [IntervalWindow((day - (day - 2) % 7) * 86_400, (day - (day - 2) % 7 + 2) * 86_400)]
        return [IntervalWindow(day * 86_400, (day + 1) * 86_400), *(more if (day - 2) % 7 < 2 else [])]


class Lunch(TwoLengths):
    """Days, and a quarter of an hour of each, that begins at no full hour, in one more."""

    def assign(self, context):
        day = context.timestamp.micros // (86_400 * 10**6) * 86_400
        lunch = IntervalWindow(day + 45_000, day + 45_900)
        return [IntervalWindow(day, day + 86_400), *([lunch] if lunch.start <= context.timestamp < lunch.end else [])]


def test_records_that_were_in_several_windows_are_not_perturbed_and_not_counted():
    """Beam makes k records of one in k windows, and other windows behind these do not join them."""
    perturb, private = ldp_beam.Perturb(PLAN), ldp_beam.PrivateHistogram("crashed", COIN)
    count = ldp_beam.Histogram("crashed", COIN, window="1h", event_time="time")
    ledger, own = ldp_beam.PrivacyLedger(1.0, id="user", budget=1), ldp_beam.Histogram("crashed", COIN)
    for overlapping in (SlidingWindows(30, 10), TwoLengths(), Weekends(), Lunch()):
        for last, then in [*product((perturb, count, private, ledger), (False, True)), (own, True)]:
            steps = new([RECORD]) | beam.WindowInto(overlapping) | beam.Map(lambda record: record)
            with pytest.raises(ParameterError, match="windows that overlap"):
                _ = (steps | "Whole" >> beam.WindowInto(GlobalWindows()) if then else steps) | last
        _ = new([RECORD]) | beam.WindowInto(overlapping) | own  # which asks each window of its own


def test_records_that_were_grouped_in_panes_that_accumulate_are_not_perturbed_and_not_counted():
    """Each pane has those of the panes before once more: 500 records were 2,000."""
    early = AfterWatermark(early=AfterCount(1))
    key, ledger = beam.Map(lambda record: ("a", record)), ldp_beam.PrivacyLedger(1.0, id="user", budget=1)
    count = ldp_beam.Histogram("crashed", COIN, window="1h", event_time="time")
    for last in (ldp_beam.Perturb(PLAN), ldp_beam.PrivateHistogram("crashed", COIN), ledger, count):
        for group in (beam.GroupByKey(), beam.combiners.Latest.PerKey()):
            for mode in (AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING):
                windows = beam.WindowInto(FixedWindows(60), trigger=early, accumulation_mode=mode)
                steps = new([RECORD]) | windows | key | group | beam.Map(lambda pair: pair[1])
                if mode == AccumulationMode.DISCARDING:
                    _ = steps | last
                    continue
                with pytest.raises(ParameterError, match="groups records in panes that accumulate"):
                    _ = steps | last
    at_end = beam.WindowInto(
        FixedWindows(60), trigger=AfterWatermark(), accumulation_mode=AccumulationMode.ACCUMULATING
    )
    _ = new([RECORD]) | at_end | key | beam.GroupByKey() | "Values" >> beam.FlatMap(lambda pair: pair[1]) | count


class ByDay(TwoLengths):
    def assign(self, context):
        start = {"a": 0, "b": 60}[context.element["day"]]
        return [IntervalWindow(start, start + 60)]


def test_windows_by_the_element_are_refused_where_they_would_be_assigned_anew():
    """Behind what stabilizes they were of the report: five windows became two."""
    steps = new([RECORD]) | beam.WindowInto(ByDay())
    with pytest.raises(ParameterError, match="windows by the element"):
        _ = steps | ldp_beam.Perturb(PLAN)
    _ = steps | "At once" >> ldp_beam.Perturb(PLAN, stabilize=False) | ldp_beam.Histogram("crashed", COIN)


def test_what_is_perturbed_behind_a_ledger_is_added_up():
    def ledger(charged, **options):
        return new([{**RECORD, "user": 1}]) | ldp_beam.PrivacyLedger(charged, id="user", budget=99, **options)

    coin = ldp_beam.PrivateHistogram("crashed", COIN)
    for charged in (COIN.epsilon, PrivacyPlan({"crashed": COIN})):
        for second in (coin, ldp_beam.Perturb(PrivacyPlan({"crashed": COIN})), InPart(coin)):
            records = ledger(charged)
            _ = records | "First" >> coin
            with pytest.raises(ParameterError, match=r"charges 99 for 99 records .* the 2 steps behind it.* spend 198"):
                _ = passed_on(records) | "Second" >> second
    records = ledger(PLAN)  # of several columns each has its part, and what was refused spends nothing
    _ = records | "Of OS" >> ldp_beam.PrivateHistogram("os", THREE)
    with pytest.raises(ParameterError, match=r"charges 96 for 24 records .* the 2 steps behind it.* spend 144"):
        _ = records | "Again" >> ldp_beam.Perturb(PrivacyPlan({"os": THREE}))
    _ = records | coin
    with pytest.raises(ParameterError, match=r"the 3 steps behind it.* spend 120"):
        _ = records | "Third" >> coin
    reports = ledger(PLAN) | ldp_beam.Perturb(PLAN)
    for i in range(3):
        _ = reports | f"{i}" >> ldp_beam.Histogram("os", THREE)
    seeded = ledger(COIN.epsilon, drop_id=False)  # not private anyway
    for i in range(2):
        _ = seeded | f"{i}" >> ldp_beam.Perturb(PrivacyPlan({"crashed": COIN}).seeded(1), id="user")


def test_records_that_come_as_a_side_input_are_behind_their_ledger():
    """What is perturbed twice spends twice, and answers that a step is told of spend nothing."""
    key = Secret.generate()
    for told, refused in ((False, "the 2 steps behind it that perturb spend 2"), (True, "charges for fresh noise")):
        records = new([{**RECORD, "user": 1}]) | ldp_beam.PrivacyLedger(1.0, id="user", budget=1, drop_id=False)
        beside = beam.FlatMap(lambda _, records: records, beam.pvalue.AsList(records))
        again = records.pipeline | "One" >> beam.Create([0]) | beside
        coin = PrivacyPlan({"crashed": COIN})
        _ = told or records | "First" >> ldp_beam.Perturb(coin)
        second = ldp_beam.Perturb(coin, key=key, id="user") if told else ldp_beam.PrivateHistogram("crashed", COIN)
        with pytest.raises(ParameterError, match=refused):
            _ = again | second
    rows = records | "Rows" >> ldp_beam.PrivateHistogram("crashed", COIN)
    others = records.pipeline | "Others" >> beam.Create([RECORD])
    _ = others | beam.Filter(lambda _, rows: True, beam.pvalue.AsList(rows)) | "Second" >> ldp_beam.Perturb(coin)


UNNAMED = PipelineOptions(["--auto_unique_labels"])
USER = {**RECORD, "user": 1}


def same():
    return beam.Map(lambda x: x)


def parts_of(pcoll):
    return pcoll | beam.Partition(lambda _, n: 0, 2)


def test_an_estimate_looks_at_what_is_before_it_and_not_at_the_whole_pipeline(monkeypatch):
    """Each walked through all estimates before it: of 200 that took 4.4 s."""
    reports = beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([RECORD]) | ldp_beam.Perturb(PLAN)
    monkeypatch.setattr(beam.Pipeline, "visit", None)
    _ = reports | ldp_beam.Histogram("os", THREE)
    with pytest.raises(ParameterError, match="comes here 2 times"):
        _ = (reports, reports) | beam.Flatten() | ldp_beam.Histogram("os", THREE)


def test_a_collection_that_is_joined_with_itself_is_not_perturbed_and_not_counted():
    perturb, count, private = ldp_beam.Perturb(PLAN), ldp_beam.Histogram("os", THREE), ldp_beam.PrivateHistogram
    values = beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([RECORD])
    reports = values | perturb
    for records, step in ((values, perturb), (values, private("os", THREE)), (reports, count)):
        for more in (records, records | beam.Reshuffle(), records | beam.WindowInto(FixedWindows(60))):
            with pytest.raises(ParameterError, match=r"comes here 2 times.*Give beam.Flatten each collection once"):
                _ = (records, more) | beam.Flatten() | step
    again = values | beam.Reshuffle() | perturb.with_exception_handling()
    with pytest.raises(ParameterError, match=r"comes here 2 times.*several reports of each"):
        _ = (reports, again[0]) | beam.Flatten() | count
    filtered = tuple(reports | beam.Filter(bool) for _ in range(2))
    others = (reports, values.pipeline | beam.Create([RECORD]) | perturb)
    of_another_column = (reports, values | beam.Reshuffle() | ldp_beam.RandomizedResponse("seen", epsilon=1.0))
    for branches in (filtered, others, parts_of(reports), of_another_column):
        _ = branches | beam.Flatten() | count


def test_reports_are_not_joined_with_what_is_made_of_others_of_the_same_records():
    """`Perturb | Map` beside `Perturb`: 3 people were n = 6."""
    perturb, count = ldp_beam.Perturb(PLAN), ldp_beam.Histogram("os", THREE)
    values = beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([RECORD])
    reports, other = values | perturb, values | beam.Reshuffle() | perturb
    made = other | same() | beam.WindowInto(FixedWindows(60)) | same()
    shared = "with what one has made of other reports of the same records"
    for branches in ((reports, made), (made, reports | beam.Reshuffle()), (reports, other | beam.Filter(bool))):
        for step in (count, ldp_beam.PrivateHistogram("day", THREE)):
            with pytest.raises(ParameterError, match=shared):
                _ = branches | beam.Flatten() | step
    _ = (reports, made) | beam.Flatten() | ldp_beam.Histogram("os", THREE, by=["day"])  # (what made it may say whose)
    others = values.pipeline | beam.Create([RECORD]) | perturb | same()
    part, rest = parts_of(values)
    letters = values | perturb.with_exception_handling()
    of_another_column = values | ldp_beam.RandomizedResponse("seen", epsilon=1.0) | same()
    grouped = other | beam.WithKeys(lambda row: row["day"]) | beam.GroupByKey() | same()
    for branches in (
        (reports, others),
        (part | perturb, rest | perturb | same()),
        (letters[0], letters[1] | same()),
        (reports, of_another_column),
        (reports | beam.Filter(bool), other | beam.Filter(bool)),
        (reports, grouped),
    ):
        _ = branches | beam.Flatten() | count


def test_what_steps_have_made_of_two_reports_of_the_same_records_is_not_joined():
    """`Perturb | Map` twice: 3 people were n = 6. Of filters and of named outputs nobody knows whether they share."""
    perturb, count = ldp_beam.Perturb(PLAN), ldp_beam.Histogram("os", THREE)
    values = beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([RECORD])
    one, other = values | perturb, values | beam.Reshuffle() | perturb
    mapped = one | "Named" >> same() | beam.Reshuffle() | beam.Map(dict).with_output_types(dict)
    keyed = other | beam.WithKeys("a") | beam.Values()
    for branches in ((mapped, other | same()), (keyed, one | same()), (mapped, other | beam.Filter(bool))):
        for joined in (branches | beam.Flatten(), branches | beam.Flatten() | same()):
            with pytest.raises(ParameterError, match="with what one has made of other reports"):
                _ = joined | count
    _ = (mapped, keyed) | beam.Flatten() | ldp_beam.Histogram("os", THREE, by=["day"])
    part, rest = parts_of(values)
    outputs = [reports | same().with_outputs("a", main="b") for reports in (one, other)]
    for branches in (
        (part | perturb | same(), rest | perturb | same()),
        (one | same(), one | same()),
        (one | beam.Filter(bool), other | beam.Filter(bool)),
        (values | beam.Filter(bool) | perturb | same(), values | beam.Filter(bool) | perturb | same()),
        (values | same() | perturb | same(), values | same() | perturb | same()),
        (outputs[0].a, outputs[1].b),
        (mapped, values.pipeline | beam.Create([RECORD]) | perturb | same()),
    ):
        _ = branches | beam.Flatten() | count


def test_what_begins_at_one_place_of_a_pipeline_has_no_record_in_common(tmp_path):
    for name in "ab":
        table = pa.Table.from_pylist([], PLAN.schema(FORMS["batches"][0].schema)).replace_schema_metadata(PLAN.metadata)
        pq.write_table(table, tmp_path / f"{name}.parquet")
    begin = beam.pvalue.PBegin(beam.Pipeline("FnApiRunner", options=UNNAMED))  # as expand() of a first step has it
    files = [begin | ReadReports(str(tmp_path / f"{name}.parquet")) for name in "ab"]
    _ = files | beam.Flatten() | ldp_beam.Histogram("os", THREE)
    users, others = (begin | beam.Create([USER]) for _ in range(2))
    _ = (users | LIMITS[1], others) | beam.Flatten() | ldp_beam.Perturb(PLAN)


LIMITS = [
    ldp_beam.PrivacyLedger(PLAN, id="user", budget=9, drop_id=False),
    ldp_beam.BoundContributions("user", 1, drop_id=False),
]


@pytest.mark.parametrize("limit", LIMITS)
def test_branches_behind_a_limit_are_not_joined(limit):
    records = beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([USER]) | limit
    perturb = ldp_beam.Perturb(PLAN)
    for step in (perturb, ldp_beam.PrivateHistogram("os", THREE), InPart(perturb)):
        for ways, branches in (
            (2, (records, records)),
            (2, (records, records | same())),
            (2, (records | same() | beam.Reshuffle(), passed_on(records | same()))),
            (3, (records, (records, records) | beam.Flatten())),
        ):
            with pytest.raises(ParameterError, match=rf"{type(limit).__name__} lets through comes here by {ways} ways"):
                _ = branches | beam.Flatten() | step


@pytest.mark.parametrize("limit", LIMITS)
def test_what_a_limit_lets_through_is_not_joined_with_what_it_was_given(limit):
    raw = beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([USER])
    for branches in ((raw, raw | limit), (raw | same(), raw | same() | limit | same()), (passed_on(raw), raw | limit)):
        with pytest.raises(ParameterError, match=r"with the records that it was given.*Put the limit behind"):
            _ = branches | beam.Flatten() | ldp_beam.Perturb(PLAN)
    _ = (raw, raw | limit) | beam.Flatten() | limit | ldp_beam.Perturb(PLAN)
    part, other = parts_of(raw)
    _ = (part | limit, other) | beam.Flatten() | ldp_beam.Perturb(PLAN)


@pytest.mark.parametrize("limit", LIMITS)
def test_what_two_limits_let_through_of_the_same_records_is_not_joined(limit):
    """Each let a person have all that it allows."""

    def branches_of(raw):
        return raw | beam.Reshuffle() | limit, raw | LIMITS[1]

    one, two = branches_of(beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([USER]))
    for branches in ((one, two), (one | same(), two | LIMITS[1] | same()), ((one | same(), two) | beam.Flatten(),)):
        for step in (ldp_beam.Perturb(PLAN), ldp_beam.PrivateHistogram("os", THREE)):
            with pytest.raises(ParameterError, match=r"two limits.*what both allow.*Put one limit behind beam.Flatten"):
                _ = branches | beam.Flatten() | step
    for right in (
        lambda raw: branches_of(raw) | beam.Flatten() | limit,
        lambda raw: tuple(part | limit for part in parts_of(raw)) | beam.Flatten(),
        lambda raw: branches_of(raw)[1] | limit,
    ):
        _ = right(beam.Pipeline("FnApiRunner", options=UNNAMED) | beam.Create([USER])) | ldp_beam.Perturb(PLAN)


@pytest.mark.parametrize("limit", LIMITS)
def test_what_shares_no_record_is_joined_behind_a_limit(limit):
    """Parts, other sources, and what is known of the same people beside their records."""
    p = beam.Pipeline("FnApiRunner", options=UNNAMED)
    values, others = (p | beam.Create([USER]) for _ in range(2))
    first, second = parts_of((values, values) | beam.Flatten() | limit)
    keyed = values | limit | beam.WithKeys(lambda row: row["user"])
    beside = (keyed, keyed | beam.combiners.Count.PerKey()) | beam.CoGroupByKey()
    for records in (
        (first, second | same()) | beam.Flatten(),
        (values | limit, others | limit) | beam.Flatten(),
        beside | beam.FlatMap(lambda both: both[1][0]),
    ):
        _ = records | ldp_beam.Perturb(PLAN)


def test_the_last_one_that_perturbs_counts(events):
    """The column may have had another name before, and rows of estimates are values."""
    renamed = events | "First" >> ldp_beam.Perturb(PrivacyPlan({"os": THREE}, keep=["day"])) | beam.Map(dict)
    reports = renamed | ldp_beam.Perturb(PrivacyPlan({"day": ONE})) | "Rename" >> beam.Map(dict)
    _ = reports | ldp_beam.Histogram("os", ONE)
    rows = events | "All" >> ldp_beam.PrivateHistogram("os", THREE) | "Values" >> beam.Map(dict)
    _ = rows | ldp_beam.PrivateHistogram("day", ONE)


# ---- one record, one report: repeated bundles, several consumers, several worker processes


# 2^64 patterns: that two draws of a record agree has probability about 1e-15
FAIR = PrivacyPlan({"v": UnaryEncoding(list(range(64)), epsilon=0.01, variant="symmetric")}, keep=["id"])
RECORDS = [{"v": i % 64, "id": i} for i in range(30)]
BATCHES = [pa.RecordBatch.from_pylist(RECORDS[i : i + 10]) for i in range(0, 30, 10)]


def reports_seen(stabilize, elements, windows):
    """What two consumers with side effects see: id -> the distinct reports of the record; and how many sightings."""
    p = beam.Pipeline("FnApiRunner", options=PipelineOptions(["--direct_runner_bundle_repeat=2"]))
    sinks = [Collector(), Collector()]
    reports = p | beam.Create(elements) | beam.WindowInto(windows) | ldp_beam.Perturb(FAIR, stabilize=stabilize)
    for i, sink in enumerate(sinks):
        _ = reports | f"Sink{i}" >> sink | f"Shuffle{i}" >> beam.Reshuffle()
    p.run().wait_until_finish()
    distinct, sightings = {}, 0
    for element in sinks[0].elements + sinks[1].elements:
        for record in element.to_pylist() if isinstance(element, pa.RecordBatch) else [element]:
            distinct.setdefault(record["id"], set()).add(tuple(record["v"]))
            sightings += 1
    assert set(distinct) == set(range(30))
    return distinct, sightings


forms = pytest.mark.parametrize(
    ("elements", "windows"),
    [(RECORDS, GlobalWindows()), (BATCHES, FixedWindows(10))],
    ids=["single", "batches in windows"],
)


@forms
def test_a_repeated_bundle_shows_one_report_of_each_record(elements, windows):
    distinct, sightings = reports_seen(True, elements, windows)
    assert sightings > 60, "the bundles were not repeated: the test shows nothing"
    assert all(len(reports) == 1 for reports in distinct.values())


NOISE = {"key": Secret(bytes(range(32))), "id": "person"}
PEOPLE = PrivacyPlan({"os": ONE}, keep=["t"])


def test_a_bound_of_one_id_is_none_of_noise_that_another_id_shares():
    """A person with 20 devices sends 20 reports of one noise, although each device sends one."""
    where = {"window": 10, "event_time": "t"}
    perturb = ldp_beam.Perturb(PEOPLE, **NOISE)
    each = {
        "values": ldp_beam.PrivateHistogram("os", ONE, **NOISE, **where),
        "reports": perturb | ldp_beam.Histogram("os", ONE, **where),
        "windows": perturb | ldp_beam.Compare("os", ONE, same_people=True, **where),
    }
    for name, counted in each.items():
        events = new([{"os": "a", "person": 1, "device": 2, "t": 3.0}])
        person, device = (ldp_beam.BoundContributions(of, 1, drop_id=False, **where) for of in ("person", "device"))
        with pytest.raises(ParameterError, match="repeats="):
            _ = events | f"{name} of a device" >> (device | counted)
        _ = events | f"{name} of a person" >> (person | counted)
        _ = events | f"{name} of both" >> (person | "Device" >> device | counted)


def test_keyed_noise_stays_keyed_behind_other_steps():
    """They may repeat records, so that no bound holds behind them."""
    for form in ("dictionaries", "rows"):
        for noise, asks in ((NOISE, True), (NOISE | {"id": None, "record": "day"}, False), ({}, False)):
            record = {"os": "a", "person": 1, "day": 2, "t": 3.0}
            events = new([record if form == "dictionaries" else beam.Row(**record)])
            bounded = events | ldp_beam.BoundContributions("person", 1, drop_id=False, window=GlobalWindows())
            reports = passed_on(bounded | ldp_beam.Perturb(PEOPLE, **noise))
            if asks:
                with pytest.raises(ParameterError, match="repeats="):
                    _ = reports | ldp_beam.Histogram("os", ONE)
            _ = reports | "Said" >> ldp_beam.Histogram("os", ONE, **({"repeats": 1} if asks else {}))
