"""Nothing but a plan's reports is written under it: into files, or into messages."""

import gc
from collections import Counter
from contextlib import nullcontext

import apache_beam as beam
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.metrics.metric import Metrics
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue

import ldp_beam
import ldp_polars
from ldp_beam.elements.faults import UNREADABLE
from ldp_beam.io import ReadEvents, ReadReports, WatchFolder, WriteReports, decode, encode
from ldp_beam.io.messages import message_of
from ldp_core import (
    DtypeError,
    InputError,
    LdpWarning,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
)
from ldp_core.limits import files_of

from ...cases import case, full_disk
from ...parquet_bombs import levels_of_a_schema
from ..helpers import SURE, SURE_BOOL, run
from ..streams import LATE_AND_LATER, LOCAL, stream

PLAN = PrivacyPlan({"crashed": SURE_BOOL, "os": SURE}, keep=["day"])
EVENTS = pa.record_batch({"crashed": [True, False], "os": ["a", "c"], "day": [1, 2], "user": ["u1", "u2"]})
REPORTS = PLAN.perturb(EVENTS)
RAW = EVENTS.select(list(PLAN)).set_column(1, "os", EVENTS["os"].dictionary_encode().cast(REPORTS["os"].type))


def stamped(batch):
    """A batch with the plan in its metadata and no more, as a hand may put it there."""
    return batch.replace_schema_metadata(REPORTS.schema.metadata)


WRONG = {
    "raw values": (stamped(RAW), PlanError, r"\['crashed', 'os'\]: nothing says that these are reports"),
    "raw text": (REPORTS.set_column(1, "os", RAW["os"]), PlanError, r"\['os'\]: nothing says that these are reports"),
    "an id": (REPORTS.append_column("user", EVENTS["user"]), PlanError, r"\['user'\] are neither perturbed nor kept"),
    "twice": (REPORTS.append_column("day", EVENTS["day"]), PlanError, "several columns of one name"),
    "another mechanism": (
        stamped(
            PrivacyPlan({**PLAN.columns, "crashed": RandomizedResponse(epsilon=9.0)}, keep=["day"]).perturb(EVENTS)
        ),
        MechanismMismatchError,
        "column 'crashed'",
    ),
    "seeded": (stamped(PLAN.seeded(1).perturb(EVENTS, id=[1, 2])), PlanError, "not private"),
}


def write(folder, element, plan=PLAN):
    """The file of one element, or None."""
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | beam.Create([element]) | WriteReports(f"{folder}/part", plan, EVENTS.schema, shard_name_template="")
    return folder / "part.parquet"


def test_what_is_not_a_plans_reports_is_not_sent_or_written_under_it(tmp_path):
    for batch, error, match in WRONG.values():
        for send in (encode, message_of, lambda batch: PLAN.check_reports(batch.schema)):
            with pytest.raises(error, match=match):
                send(batch)
        with pytest.raises(Exception, match=match):
            write(tmp_path, batch)
    assert not list(tmp_path.glob("*.parquet"))


def test_what_claims_nothing_is_sent_as_it_is():
    for batch in (EVENTS, RAW, EVENTS.slice(0, 0)):
        assert decode(encode(batch)).equals(batch, check_metadata=True)


def test_reports_are_written_and_their_proof_survives(tmp_path):
    through = pa.concat_batches([decode(encode(REPORTS)).slice(0, 1), REPORTS.filter(pa.array([False, True]))])
    for element in (REPORTS, pa.Table.from_batches([REPORTS]), through, REPORTS.select(["day", "os", "crashed"])):
        path = write(tmp_path, element)
        schema = pq.read_schema(path)
        assert PrivacyPlan.from_metadata(schema.metadata) == PLAN
        PLAN.check_reports(schema)
        assert pq.read_table(path).to_pylist() == REPORTS.to_pylist()
        with pytest.raises(MechanismMismatchError, match="again"):
            PLAN.perturb(pq.read_table(path).combine_chunks().to_batches()[0])


def test_other_types_and_no_batches_are_refused(tmp_path):
    wide = REPORTS.set_column(2, "day", REPORTS["day"].cast(pa.int32()))
    for element, error in ((wide, "columns \\['day'\\] are of other types"), (REPORTS.to_pylist()[0], "got ")):
        with pytest.raises(Exception, match=error):
            write(tmp_path, element)
    for plan, schema in ((None, EVENTS.schema), (PLAN, EVENTS.schema.remove(2))):
        with pytest.raises(PlanError):
            WriteReports("x", plan, schema)
    with pytest.raises(ParameterError, match="as 'reports/part', no folder"):  # Beam says so when all is done
        WriteReports(f"{tmp_path}/new/", PLAN, EVENTS.schema)
    with pytest.raises(DtypeError):
        encode(REPORTS.to_pylist()[0])


def test_reports_of_rows_are_written_on_the_users_word(tmp_path):
    """Single records have no schema to say how they were made."""
    rows = pa.RecordBatch.from_pylist(REPORTS.to_pylist())
    for kind in (pa.string(), pa.string_view(), pa.dictionary(pa.uint32(), pa.large_string())):  # (Polars has the last)
        given = rows.set_column(rows.schema.get_field_index("os"), "os", rows["os"].cast(kind))
        with pytest.warns(LdpWarning, match="nothing proves that columns \\['crashed', 'os'\\] are reports"):
            assumed = PLAN.assume_reports(given)
        assert pq.read_table(write(tmp_path, assumed)).to_pylist() == REPORTS.to_pylist()
        estimate = ldp_beam.Histogram("os", PLAN["os"])
        assert {row.n for row in run(estimate, [assumed])} == {len(REPORTS)}


def test_a_full_disk_leaves_no_half_file_and_what_runs_again_counts_once(tmp_path):
    """Half a file stayed, to which Python gave an end when it forgot it; and no word said in which folder."""
    events = pa.record_batch({"crashed": [True] * 40_000, "os": ["a", "b"] * 20_000, "day": range(40_000)})
    job = ldp_beam.Perturb(PLAN) | WriteReports(f"{tmp_path}/out/part", PLAN, events.schema)
    for most in (0, 1 << 13):
        with full_disk(most), pytest.raises(InputError, match=f"cannot write into .*'{tmp_path}/out': File too large"):
            run(job, [events])
        gc.collect()
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    run(job, [events])
    assert len(pl.read_parquet(f"{tmp_path}/out/*")) == 40_000


def test_a_stream_of_reports_has_a_file_for_each_time_and_every_one_is_whole(tmp_path):
    """Where several ended in one bundle, Beam closed the file of another one, which stayed without its end."""
    for i in range(4):
        pq.write_table(pa.table({"crashed": [True] * 9, "os": ["a"] * 9, "day": [i] * 9}), tmp_path / f"{i}.parquet")
    timed = beam.Map(lambda batch: TimestampedValue(batch, batch["day"][0].as_py())).with_output_types(pa.RecordBatch)

    def job(**options):
        write = WriteReports(f"{tmp_path}/out/part", PLAN, EVENTS.schema, **options)
        run(ldp_beam.Perturb(PLAN) | timed | write, WatchFolder(f"{tmp_path}/*.parquet", stop_after=0))

    with pytest.raises(ParameterError, match="takes triggering_frequency=, the seconds"):
        job()
    job(triggering_frequency=1)
    files = sorted(tmp_path.glob("out/*.parquet"))
    assert [pq.read_table(file)["day"].to_pylist() for file in files] == [[i] * 9 for i in range(4)]


COUNTED = Counter()


class Counted:
    """In the place of a counter of Beam, as the local streaming runner forgets most of what they count."""

    def __init__(self, _, name):
        self.name = name

    def inc(self, n=1):
        COUNTED[self.name] += n


def test_reports_that_come_after_their_file_are_counted(tmp_path, monkeypatch):
    """Beam drops them in silence."""
    monkeypatch.setattr(Metrics, "counter", Counted)
    COUNTED.clear()
    plan, types = PrivacyPlan({"v": SURE_BOOL}, keep=["t"]), pa.schema([("v", pa.bool_()), ("t", pa.float64())])
    write = WriteReports(f"{tmp_path}/part", plan, types, triggering_frequency=10)
    run(ldp_beam.Perturb(plan) | write, stream([*LATE_AND_LATER, [7, 8]]), **LOCAL)
    assert [pq.read_table(file)["t"].to_pylist() for file in tmp_path.iterdir()] == [[1, 2, 3]]
    assert (COUNTED["perturbed"], COUNTED["late"]) == (7, 4)


def test_files_of_a_stream_have_names_of_their_windows(tmp_path):
    """Each window's file took the place of the one before where the names did not say the window, in silence."""
    plan, types = PrivacyPlan({"v": SURE_BOOL}, keep=["t"]), pa.schema([("v", pa.bool_()), ("t", pa.float64())])

    def written(**options):
        write = WriteReports(f"{tmp_path}/part", plan, types, triggering_frequency=10, **options)
        run(ldp_beam.Perturb(plan) | write, stream([0, [1, 2], [3], 12, [13], 25]), **LOCAL)
        return sum(pq.read_metadata(file).num_rows for file in tmp_path.iterdir())

    for template in "", "-SSSSS", "-W-SSSSS-U":
        with pytest.raises(ParameterError, match="has W or V, the window"):
            written(shard_name_template=template)
    assert written(shard_name_template="-V-SS") == 4
    assert written(num_shards=3) == 8


def test_a_batch_is_a_row_group_of_one_file_of_several(tmp_path):
    """Each of the other files had one without rows."""
    plan, types = PrivacyPlan({"v": SURE_BOOL}, keep=["t"]), pa.schema([("v", pa.bool_()), ("t", pa.float64())])
    write = WriteReports(f"{tmp_path}/part", plan, types, triggering_frequency=10, num_shards=4)
    run(ldp_beam.Perturb(plan) | write, stream([0, [1], [2], 12]), **LOCAL)
    files = [pq.read_metadata(file) for file in tmp_path.iterdir()]
    assert (len(files), sum(file.num_rows for file in files), sum(file.num_row_groups for file in files)) == (4, 2, 2)


def test_files_that_a_job_has_not_named_are_not_read(tmp_path):
    """A job that is ended leaves whole ones in a folder of Beam's, and what runs again writes their records again."""
    [path] = (write(tmp_path, REPORTS),)
    unfinished = tmp_path / "beam-temp-part-5f0" / "x.part.parquet"
    unfinished.parent.mkdir()
    unfinished.write_bytes(path.read_bytes())
    pattern, watch = f"{tmp_path}/**", WatchFolder(f"{tmp_path}/**", stop_after=0, poll_interval=1)
    assert [batch.num_rows for batch in run(ReadReports(pattern))] == [2]
    assert [batch.num_rows for batch in run(watch)] == [2]
    assert ldp_polars.read_plan(tmp_path) == PLAN
    assert files_of(tmp_path) == files_of(f"{tmp_path}/**/*.parquet") == [str(path)]


# ---- and back


def test_files_come_back_with_their_plan(tmp_path):
    typed = pl.DataFrame(EVENTS).ldp.perturb(PLAN, typed=True)
    for put in (
        lambda: write(tmp_path, REPORTS),
        lambda: ldp_polars.sink_parquet(typed, tmp_path / "part.parquet", PLAN),
    ):
        put()
        read = ReadReports(f"{tmp_path}/*.parquet")
        assert read.plan == PLAN
        [batch] = run(read)
        assert sorted(batch.schema.names) == ["crashed", "day", "os"]
        PLAN.check_reports(batch.schema)
        rows = run(ldp_beam.Histogram("os", read.plan["os"]), ReadReports(f"{tmp_path}/*", plan=PLAN))
        assert {row.value: round(row.count) for row in rows} == {"a": 1, "b": 0, "c": 1}
        [batch] = run(ReadReports([f"{tmp_path}/*"], columns=["day", "os"]))
        assert batch.schema.names == ["day", "os"]


def test_of_columns_in_the_names_of_folders_the_error_says_how_they_come_into_a_file(tmp_path):
    """Reports of a folder by days came without the day, and nothing said what to do."""
    by_day = pl.PartitionBy(tmp_path / "days", key="day", include_key=False)
    pl.DataFrame(EVENTS).ldp.perturb(PLAN).ldp.sink_parquet(by_day, PLAN, mkdir=True)
    files, one = f"{tmp_path}/days/*/*.parquet", tmp_path / "one.parquet"
    for go in (
        lambda: ReadReports(files, columns=["os", "day"]),
        lambda: ReadEvents(files, PLAN),
        lambda: run(ldp_beam.Histogram("os", SURE, by=["day"]), ReadReports(files)),
    ):
        with pytest.raises(
            PlanError, match=r"names of folders.*pl\.scan_parquet\(folder\).*\.ldp\.sink_parquet\(file, "
        ):
            go()
    pl.scan_parquet(tmp_path / "days").ldp.sink_parquet(one, ldp_polars.read_plan(tmp_path / "days"))
    rows = run(ldp_beam.Histogram("os", SURE, by=["day"]), ReadReports(str(one)))
    assert {(row.value, row.key["day"]): round(row.count) for row in rows if row.count > 0.5} == {
        ("a", "1"): 1,
        ("c", "2"): 1,
    }


def test_records_of_folders_of_a_private_value_are_not_stored_as_reports(tmp_path):
    """Reports came in the order of folders, which is that of the value; sums of them do not tell it."""
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    people = pl.DataFrame({"crashed": [True, False] * 50})
    people.lazy().sink_parquet(pl.PartitionBy(tmp_path / "raw", key="crashed", include_key=True), mkdir=True)
    events = ReadEvents(f"{tmp_path}/raw/*/*.parquet", plan)
    out = WriteReports(f"{tmp_path}/out", plan, events.schema)
    with beam.Pipeline("FnApiRunner") as p, pytest.raises(InputError, match=r"named after values of \['crashed'\]"):
        _ = p | events | ldp_beam.Perturb(plan) | out
    again = ReadEvents(f"{tmp_path}/raw/*/*.parquet", plan)
    assert {row.n for row in run(ldp_beam.PrivateHistogram("crashed", plan["crashed"]), again)} == {100}


def test_windows_that_overlap_are_not_stored(tmp_path):
    """A report was in the files once for each of its windows."""
    plan, events = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}), pa.record_batch({"crashed": [True] * 9})
    for again in (SlidingWindows(20, 10), FixedWindows(20)):
        with beam.Pipeline("FnApiRunner") as p:
            reports = p | beam.Create([TimestampedValue(events, 5)]) | ldp_beam.Perturb(plan)
            copies = reports | beam.WindowInto(SlidingWindows(20, 10)) | "Again" >> beam.WindowInto(again)
            with pytest.raises(ParameterError, match="windows that overlap"):
                _ = copies | WriteReports(f"{tmp_path}/part", plan, events.schema)


def test_another_mechanism_is_refused_before_anything_is_read(tmp_path):
    write(tmp_path, REPORTS)
    other = RandomizedResponse(epsilon=1.0)
    reports = beam.Pipeline("FnApiRunner") | ReadReports(f"{tmp_path}/*")
    with pytest.raises(MechanismMismatchError, match="'crashed'"):
        _ = reports | ldp_beam.Histogram("crashed", other)
    with pytest.raises(MechanismMismatchError, match="do not perturb them again"):
        _ = reports | ldp_beam.Perturb(PrivacyPlan({"crashed": other}))


def test_files_without_their_plan_or_of_another_one_are_refused(tmp_path):
    write(tmp_path, REPORTS)
    pq.write_table(pa.table(EVENTS), tmp_path / "raw.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 s3cr3t")
    (tmp_path / "deep.parquet").write_bytes(levels_of_a_schema(20_000))  # which would end the process
    (tmp_path / "odd").mkdir()
    odd = pa.table(EVENTS).replace_schema_metadata({"ldp.plan": "s3cr3t"})
    pq.write_table(odd, tmp_path / "odd" / "odd.parquet")
    other = PrivacyPlan(PLAN.columns | {"os": UnaryEncoding(SURE.domain, epsilon=3.0)}, keep=PLAN.keep)
    for files, options, error, match in (
        ("raw.parquet", {}, PlanError, "does not say which plan made it"),
        ("odd/*", {}, PlanError, "plan in its metadata cannot be read"),
        ("broken.parquet", {}, InputError, "cannot be read as parquet"),
        ("deep.parquet", {}, InputError, "cannot be read as parquet"),
        ("nothing*", {}, InputError, "no file matches"),
        ("part.parquet", {"plan": other}, PlanError, "reports of another plan, with 'os': .*one plan at a time"),
        ("part.parquet", {"plan": other}, PlanError, rf"epsilon {SURE.epsilon:.4g}, .* in place of 'os': .*epsilon 3,"),
        ("part.parquet", {"plan": PLAN.seeded(7)}, PlanError, "another plan, with seed=None in place of seed=7: read"),
        ("part.parquet", {"plan": {}}, PlanError, "must be a PrivacyPlan"),
        ("part.parquet", {"columns": ["os", "user"]}, PlanError, r"do not have the columns \['user'\]"),
    ):
        with pytest.raises(error, match=match) as caught:
            ReadReports(f"{tmp_path}/{files}", **options)
        assert "s3cr3t" not in str(caught.value)
    for files in ([], [1]):
        with pytest.raises(ParameterError, match="files must be a pattern"):
            ReadReports(files)
    with pytest.raises(InputError, match="extra for its file system"):
        ReadReports("nowhere://reports/*.parquet")


def test_a_file_that_breaks_later_is_a_dead_letter(tmp_path):
    path = write(tmp_path, REPORTS)
    read = ReadReports(str(path))
    path.write_bytes(b"PAR1 and no more")
    assert run(read.with_exception_handling()) == ([], [("", UNREADABLE, 1)])


def test_files_say_that_noise_is_keyed_by_person(tmp_path):
    """And not where it is fresh, or that of records."""
    flag, raw = RandomizedResponse(epsilon=1.0), pa.record_batch({"x": [True, False], "user": [1, 2]})
    plan, key = PrivacyPlan({"x": flag}), Secret(bytes(range(16, 48)))
    for name, noise in (("id", {"key": key, "id": "user"}), ("record", {"key": key, "record": "user"}), ("fresh", {})):
        with beam.Pipeline("FnApiRunner") as p:
            reports = p | beam.Create([raw]) | ldp_beam.Perturb(plan, **noise)
            _ = reports | WriteReports(str(tmp_path / name), plan, raw.schema, shard_name_template="")
        assert pl.read_parquet_schema(tmp_path / f"{name}.parquet")["x"].keyed == (name == "id")


def test_an_estimate_of_keyed_files_says_how_often_a_person_is_there_or_is_not_built(tmp_path):
    """With dead letters all reports were dead letters, and the job ended well."""
    plan = PrivacyPlan({"x": SURE_BOOL, "y": SURE_BOOL}, keep=["user"])
    raw = pa.record_batch({"x": [True] * 2, "y": [True] * 2, "user": ["a", "b"]})
    fresh, keyed = plan.perturb(raw), plan.perturb(raw, key=Secret(bytes(range(32))), id=raw["user"])
    ldp_polars.sink_parquet(pl.from_arrow(fresh), tmp_path / "fresh.parquet", plan)
    ldp_polars.sink_parquet(pl.from_arrow(keyed), tmp_path / "keyed.parquet", plan)
    for name, options, refused in (
        ("fresh", {}, False),
        ("keyed", {}, True),
        ("*", {}, True),
        ("keyed", {"repeats": 1}, False),
        ("keyed", {"person": "user"}, False),
    ):
        read = ReadReports(str(tmp_path / f"{name}.parquet"))
        histogram = ldp_beam.Histogram("x", plan["x"], **options).with_exception_handling()
        with case(name, options), pytest.raises(ParameterError, match="say repeats=1") if refused else nullcontext():
            rows, dead = run(histogram, read | "By hand" >> beam.Map(lambda batch: batch.slice(0)))
            assert (len(rows), dead) == (2, [])
    compare = ldp_beam.Compare("x", plan["x"], window="1h", event_time="user").with_exception_handling()
    with pytest.raises(ParameterError, match="same_people"):
        run(compare, ReadReports(str(tmp_path / "keyed.parquet")))


def test_files_say_that_noise_is_keyed_if_any_batch_says_so(tmp_path):
    """Of batches that come through other steps, or from elsewhere, also beside others: a bundle has one file."""
    raw = pa.record_batch({"x": [True, False], "user": [1, 2]})
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)})
    keyed, fresh = plan.perturb(raw, key=Secret(bytes(range(16, 48))), id=raw["user"]), plan.perturb(raw)
    for name, batches in {"fresh": [fresh], "keyed": [keyed], "last": [fresh, keyed], "first": [keyed, fresh]}.items():
        with beam.Pipeline("FnApiRunner") as p:
            reports = p | beam.Create(batches, reshuffle=False) | beam.Filter(lambda batch: batch.num_rows)
            _ = reports | WriteReports(str(tmp_path / name), plan, raw.schema, shard_name_template="")
        path = tmp_path / f"{name}.parquet"
        assert pl.read_parquet_schema(path)["x"].keyed == (name != "fresh"), name
        assert pl.read_parquet(path).height == 2 * len(batches)
        assert ReadReports(str(path)).plan == plan
