"""Noise that is the record's: a replay gives the same report, another record another one, here and in Polars."""

import pickle
from functools import partial

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PipelineOptions

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_beam import DeadLetter, Perturb, PrivacyLedger
from ldp_beam._compat import StableInputParDo
from ldp_beam.elements.faults import NOT_DISTINCT, NULL
from ldp_beam.io import DecodeMessages, encode
from ldp_core import (
    InputError,
    Keyed,
    Loloha,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
    Mechanism,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    Secret,
    UnaryEncoding,
)

from .helpers import Collector, drive, perturbed, run

SECRET = Secret(bytes(range(32)))
N, D = 240, 64
OS = UnaryEncoding(range(D), epsilon=1.0)  # 64 bits: two draws agree with probability below 1e-11
PLAN = PrivacyPlan({"v": OS, "w": RandomizedResponse(range(5), epsilon=1.0)}, keep=["i"])
DRAWN = PrivacyPlan.sampled({"v": OS, "w": RandomizedResponse(range(5), epsilon=1.0)}, epsilon=1.0)
RECORDS = pa.record_batch({"v": np.arange(N) % D, "w": np.arange(N) % 5, "i": np.arange(N), "u": np.arange(N) % 7})


def batches(cuts=(N,), name="m"):
    """The records as they come from messages of 6 records, which are gathered by these numbers of messages."""
    messages = [(encode(RECORDS.slice(k, 6)), f"{name}{k}".encode()) for k in range(0, N, 6)]
    out, at = [], 0
    for cut in cuts:
        portion = messages[at : at + cut]
        out += [b for d in DecodeMessages(position="position")._decoder.decode(portion) for b in d.batches]
        at += cut
    return out


def reports(transform, elements):
    good, dead = perturbed(transform, elements)
    assert not dead
    return [row for batch in good for row in batch.to_pylist()]


def test_a_replay_in_other_pieces_gives_the_same_reports_and_fresh_noise_does_not():
    for plan in (PLAN, DRAWN):
        transform = Perturb(plan, record="position")
        again = pickle.loads(pickle.dumps(transform._key))  # as on another worker
        assert again.secret == transform._key.secret
        whole = reports(transform, batches([40]))
        for cuts in ([1] * 40, [7] * 6, [39, 1]):
            assert reports(transform, batches(cuts)) == whole
        assert "position" not in whole[0]
        assert reports(Perturb(plan), batches([40])) != whole  # the planted twin
        assert reports(Perturb(plan, record="position"), batches([40])) != whole, "each transform makes its own secret"


def test_a_column_that_does_not_tell_the_records_apart_is_refused():
    """By country 1,800 of 3,000 were told as 1,308 [1,177, 1,441]: the records of a country have one noise."""
    countries = RECORDS.append_column("c", pa.array(np.arange(N) % 4))
    for elements in ([countries], countries.to_pylist()):
        perturb = Perturb(PLAN, record="c")
        tally = ldp_beam.PrivateHistogram("v", OS, record="c")._partial_tallies()
        for attempt in (
            partial(perturbed, perturb),
            partial(drive, tally),
        ):
            with pytest.raises(InputError, match="'c' does not tell the records apart: 4 of 240"):
                attempt(elements)
    again = pa.concat_batches(batches([40]) * 2)  # a source may deliver all of them twice
    assert len(reports(Perturb(PLAN, record="position"), [again])) == 2 * N
    assert len(perturbed(Perturb(PLAN, record="position"), again.to_pylist())[0]) == 2 * N


def test_a_message_whose_records_share_their_id_is_a_dead_letter_and_not_the_jobs_end():
    """One of 32 records did, whoever sent it; and again after each restart."""
    shared = RECORDS.take(pa.array([0] * 64))
    nulls = pa.array([None] * 38 + [1] * 32, pa.int64())  # of all 39 have ids of their own, of the others none
    hidden = RECORDS.take(pa.array([*range(38), *[0] * 32])).set_column(0, "v", nulls)
    for message, letters in (
        (shared, [("i", NOT_DISTINCT, 64)]),
        (hidden, [("v", NULL, 38), ("i", NOT_DISTINCT, 32)]),
    ):
        for elements in ([RECORDS, message], [message, RECORDS]):
            good, dead = perturbed(Perturb(PLAN, record="i").with_exception_handling(), elements)
            assert ([batch.num_rows for batch in good], dead) == ([N], [DeadLetter(*one) for one in letters])
            tally = ldp_beam.PrivateHistogram("v", OS, record="i").with_exception_handling()._partial_tallies()
            good, dead = drive(tally, elements)
            assert [one.value[1].n for one in good] == [N]
            assert [one.value for one in dead] == [DeadLetter(*one) for one in letters]


def test_single_records_and_batches_are_the_same():
    transform = Perturb(PLAN, record="position", key=SECRET)
    [batch] = batches([40])
    good, _ = perturbed(transform, batch.to_pylist())
    assert good == reports(transform, [batch])


def test_of_a_repeated_bundle_a_sink_sees_one_report_unless_nothing_protects_it():
    """Beam's local runner does each bundle three times."""
    for options, different in (
        ({"record": "position", "stabilize": False}, 1),
        ({"key": SECRET, "id": "i", "stabilize": False}, 1),
        ({"stabilize": False}, 3),  # the planted twin
    ):
        sink = Collector()
        with beam.Pipeline("FnApiRunner", options=PipelineOptions(["--direct_runner_bundle_repeat=2"])) as p:
            _ = p | beam.Create(batches([20, 20])) | Perturb(PLAN, packed=True, **options) | "Sink" >> sink
        seen = [(row["i"], row["v"][0]) for batch in sink.elements for row in batch.to_pylist()]
        assert len(seen) == 3 * N
        assert len(set(seen)) == different * N


def test_private_histogram():
    transform = ldp_beam.PrivateHistogram("v", OS, record="position")
    secret = transform._key.secret
    rows = run(transform, batches([13] * 4))
    assert rows == run(transform, batches([40]))
    [batch] = batches([40])
    drawn = OS.perturb(RECORDS.column("v"), randomness=Keyed(secret, batch.column("position"), column="v"))
    expected = OS.estimate(OS.tally(drawn)).counts
    np.testing.assert_array_equal([row.count for row in rows], expected)


LASTING: dict[str, Mechanism] = {
    "grr": LongitudinalRandomizedResponse(range(D), epsilon_infinity=2.0, epsilon_1=0.5),
    "ue": LongitudinalUnaryEncoding(range(D), epsilon_infinity=2.0, epsilon_1=0.5),
    "loloha": Loloha(range(D), epsilon_infinity=2.0, epsilon_1=0.5),
    "rappor": Rappor("int", bits=32, hashes=2, cohorts=4, f=0.5, p=0.5, q=0.75).over(range(D)),
}


def test_the_second_round_is_the_records_and_the_first_the_persons():
    for mechanism in LASTING.values():
        plan = PrivacyPlan({"v": mechanism})
        both = Perturb(plan, key=SECRET, id="u", record="position")
        whole = reports(both, batches([40]))
        assert reports(both, batches([17] * 3)) == whole
        assert reports(Perturb(plan, key=SECRET, id="u"), batches([40])) != whole, "else the second round is fresh"
        [batch] = batches([40])
        places = batch.column("position")
        drawn = partial(mechanism.perturb, RECORDS.column("v"))
        ours = drawn(randomness=Keyed(SECRET, RECORDS.column("u"), column="v", records=places))
        assert [row["v"] for row in whole] == ours.to_pylist()
        other = drawn(randomness=Keyed(SECRET, RECORDS.column("u"), column="v", records=pa.array(range(N))))
        assert ours != other
        fn = ldp_beam.PrivateHistogram(
            "v", mechanism, key=SECRET, id="u", record="position", repeats=1
        )._partial_tallies()
        [tally], _ = drive(fn, [batch])
        assert tally.value[1] == mechanism.tally(ours)


def test_a_mechanism_that_remembers_needs_a_person():
    plan = PrivacyPlan({"v": LASTING["grr"]})
    for make in (Perturb, partial(ldp_beam.PrivateHistogram, "v")):
        with pytest.raises(ParameterError, match="whose value each is"):
            make(plan if make is Perturb else plan["v"], record="position", key=SECRET)


def test_configuration_is_checked_at_once():
    for options, error in (
        ({"record": "position", "id": "u", "key": SECRET}, "has no part in it"),
        ({"record": 5}, "must be a column's name, got int"),
        ({"record": "position", "key": "text"}, "got key=str"),
        ({"key": SECRET}, "or record="),
        ({"key": SECRET, "id": "v"}, "tells the persons apart"),
    ):
        for make in (partial(Perturb, PLAN), partial(ldp_beam.PrivateHistogram, "v", OS)):
            with pytest.raises(ParameterError, match=error):
                make(**options)
    for transform in (ldp_beam.RandomizedResponse, ldp_beam.UnaryEncode):  # a domain where the column is due
        with pytest.raises(ParameterError, match="column must be the name of a column, got list"):
            transform(["ios", "android"], epsilon=1.0, domain=["ios", "android"])


def test_a_seeded_plan_has_its_own():
    with pytest.raises(PlanError, match="takes id="):
        Perturb(PLAN.seeded(1), record="position")


def test_records_without_a_position_are_dead_letters():
    places = pa.array([b"a" * 16, None], pa.binary(16))
    odd = pa.record_batch({"v": [1, 2], "w": [1, 2], "i": [1, 2], "position": places})
    for elements in ([odd], odd.to_pylist()):
        transform = Perturb(PLAN, record="position").with_exception_handling()
        good, dead = perturbed(transform, elements)
        assert sum(len(b) if isinstance(b, pa.RecordBatch) else 1 for b in good) == 1
        assert [(letter.column_name, letter.reason) for letter in dead] == [("position", "null")]
    _, dead = perturbed(Perturb(PLAN, record="position").with_exception_handling(), [RECORDS])
    assert [(letter.column_name, letter.count) for letter in dead] == [("position", N)]


def test_what_tells_records_apart_may_be_a_dictionary_and_no_list():
    """Both were an error of Arrow's, which ended the job also with dead letters."""
    [batch] = batches([40])
    at, transform = batch.schema.get_field_index("position"), Perturb(PLAN, record="position", key=SECRET)
    coded = batch.set_column(at, "position", batch["position"].dictionary_encode())
    assert reports(transform, [coded]) == reports(transform, [batch])
    lists = batch.set_column(at, "position", pa.array([["a"]] * len(batch)))
    with pytest.raises(Exception, match="ids must be integers"):
        run(transform, [lists])
    assert [letter.count for letter in run(transform.with_exception_handling(), [lists])[1]] == [N]


def test_the_secret_that_is_made_is_not_shown():
    transform = Perturb(PLAN, record="position")
    text = f"{transform!r} {transform._key!r} {transform.display_data()}"
    assert transform._key.secret.to_hex() not in text
    assert pickler.loads(pickler.dumps(transform._key)).secret == transform._key.secret


# ---- what it is charged for


def test_a_ledger_charges_for_it_as_for_fresh_noise():
    """Each record has noise of its own, and a person has many: what k of them spend is k epsilon."""
    ledger = PrivacyLedger(PLAN, id="u", budget=2 * PLAN.epsilon)
    assert ledger.records == 2
    out = run(ledger | Perturb(PLAN, record="position", packed=True), batches([20, 20]))
    assert sum(len(batch) for batch in out) == 7 * 2
    keyed = PrivacyLedger(PLAN, id="u", budget=2 * PLAN.epsilon, keyed=True, changes=0)
    with pytest.raises(ParameterError, match="charges for keyed noise"):
        run(keyed | Perturb(PLAN, record="position"), batches([40]))


def test_the_id_of_a_ledger_does_not_tell_records_apart():
    """Two reports of (a, a) would be equal, of (a, b) not: no epsilon bounds that, and the ledger charges two."""
    for step in (Perturb(PLAN, record="u"), Perturb(PLAN, record="u", key=SECRET)):
        with pytest.raises(ParameterError, match="share their noise"):
            run(PrivacyLedger(PLAN, id="u", budget=2 * PLAN.epsilon, drop_id=False) | step, batches([4]))
    once = PrivacyLedger(PLAN, id="u", budget=PLAN.epsilon, drop_id=False)
    assert sum(len(batch) for batch in run(once | Perturb(PLAN, record="u"), batches([20, 20]))) == 7


# ---- what waits for a checkpoint


FLINK = ("--runner=FlinkRunner",)
BEHIND = ("--runner=PortableRunner", "--job_endpoint=localhost:1", "--streaming")


def pipeline(transform, flags):
    p = beam.Pipeline(options=PipelineOptions(list(flags)))
    _ = p | beam.Create([RECORDS], reshuffle=False) | "T" >> transform
    return p


def waiting(transform, flags=FLINK):
    """Names of the steps that require stable input."""
    found, ahead = [], list(pipeline(transform, flags).transforms_stack)
    while ahead:
        step = ahead.pop()
        ahead += step.parts
        if isinstance(step.transform, StableInputParDo):
            found.append(step.full_label)
    return found


def test_on_flink_fresh_reports_and_estimates_wait_for_a_checkpoint():
    histogram = partial(ldp_beam.PrivateHistogram, "v", OS, repeats=1)
    for flags in (FLINK, BEHIND):
        assert waiting(Perturb(PLAN), flags) == ["T/Stabilize/Checkpointed"]
        assert waiting(histogram(), flags) == ["T/Estimate"]
    for flags in ((), BEHIND[:2], ("--runner=PrismRunner", "--streaming")):
        assert waiting(Perturb(PLAN), flags) == waiting(histogram(), flags) == []
    for options in ({"record": "i"}, {"key": SECRET, "id": "i"}, {"stabilize": False}):
        assert waiting(Perturb(PLAN, **options)) == waiting(histogram(**options)) == []
    assert waiting(ldp_beam.Histogram("v", OS)) == [], "these are reports"


def test_a_second_round_that_is_fresh_waits_too():
    mechanism = LASTING["grr"]
    for record, waits in (({}, True), ({"record": "i"}, False)):
        options = {"key": SECRET, "id": "u", **record}
        assert bool(waiting(Perturb(PrivacyPlan({"v": mechanism}), **options))) == waits
        assert bool(waiting(ldp_beam.PrivateHistogram("v", mechanism, repeats=1, **options))) == waits
