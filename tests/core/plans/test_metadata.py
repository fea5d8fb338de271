"""Mechanisms and plans in metadata: a long list of labels travels compressed, is bounded, and is read back."""

import base64
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldp_core import Keyed, LocalHashing, Mechanism, PlanError, PrivacyPlan, RandomizedResponse, ReportError, Secret
from ldp_core.limits import DEFAULT, Limits
from ldp_core.plans import provenance
from ldp_core.plans.metadata import from_text, to_text
from ldp_core.plans.plan import METADATA_KEY, plan_of
from ldp_core.plans.provenance import describe, described, maker

from ...cases import each

SMALL = RandomizedResponse(["a", "b"], epsilon=1.0)
LARGE = LocalHashing([f"label {i}" for i in range(20_000)], epsilon=1.0)


def zstd(text: bytes) -> str:
    return json.dumps({"zstd": base64.b64encode(pa.Codec("zstd").compress(text, asbytes=True)).decode()})


def test_a_short_text_is_the_json_as_ever():
    assert describe(SMALL, seeded=False) == json.dumps(SMALL.to_dict())
    assert PrivacyPlan({"x": SMALL}).metadata == {METADATA_KEY: PrivacyPlan({"x": SMALL}).to_json()}
    text = "aä" * 30
    for count, compressed in ((90, False), (1000, True)):
        edge = {"domain": [f"{text}{i}" for i in range(count)]}
        assert to_text(edge, ensure_ascii=False).startswith('{"zstd"') == compressed


def test_a_long_text_is_a_tenth_and_strangers_read_it_in_two_steps():
    text, plan = describe(LARGE, seeded=True), PrivacyPlan({"x": LARGE})
    assert len(text) < len(json.dumps(LARGE.to_dict())) / 10
    for packed, expected in ((text, LARGE.to_dict() | {"seeded": True}), (plan.metadata[METADATA_KEY], plan.to_dict())):
        data = base64.b64decode(json.loads(packed)["zstd"])
        assert json.loads(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()) == expected


def test_what_is_written_is_read_by_another_process_and_as_the_last_release_wrote_it():
    """(`described` without what this process has described itself, of which it need not read anything.)"""
    data = LARGE.to_dict() | {"seeded": True}
    for text in (to_text(data, indent=1), json.dumps(data, indent=2)):
        assert described(text) == (LARGE, True, False)
    plan = PrivacyPlan({"x": LARGE})
    for text in (plan.metadata[METADATA_KEY], plan.to_json()):
        assert PrivacyPlan.from_metadata({METADATA_KEY.encode(): text.encode()}) == plan
        assert plan_of(pa.schema([], {METADATA_KEY: text})) == plan


@pytest.mark.slow
def test_a_file_of_a_million_labels(tmp_path):
    """It is read back under the limits that there are if nothing is said, and is small beside its labels."""
    plan = PrivacyPlan({"x": RandomizedResponse([f"label{i}" for i in range(1_000_000)], epsilon=1.0)})
    pq.write_table(
        pa.Table.from_batches([plan.perturb(pa.record_batch({"x": ["label7"] * 3}))]), tmp_path / "x.parquet"
    )
    assert (
        tmp_path / "x.parquet"
    ).stat().st_size < 20_000_000  # of which the dictionary, a part of the reports, is most
    schema = pq.read_schema(tmp_path / "x.parquet")
    found, made = plan_of(schema), maker(schema.field("x"))
    assert found == plan
    assert found.fingerprint == plan.fingerprint
    assert made is not None
    assert made[0].fingerprint == plan["x"].fingerprint
    assert sum(len(k) + len(v) for k, v in {**schema.metadata, **schema.field("x").metadata}.items()) < 2_000_000


BOMBS = {
    "too long": zstd(b'"' + b"a" * (DEFAULT.plan_bytes + 1) + b'"'),
    "of little content": zstd(b" " * 10_000_000),
    "no end": '{"zstd": "'
    + base64.b64encode(pa.Codec("zstd").compress(b"{}" * 9000, asbytes=True)[:-9]).decode()
    + '"}',
    "no zstd": '{"zstd": "AAAA"}',
    "no base64": '{"zstd": "%"}',
    "again": zstd(zstd(b'{"mechanism": "randomized_response", "epsilon": 1.0, "domain": [1, 2]}').encode()),
    "deep": zstd(b"[" * 3000 + b"]" * 3000),
    "no text": zstd(b"\xff" * 100),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused(bomb):
    with pytest.raises(ReportError):
        described(bomb)
    with pytest.raises(PlanError):
        PrivacyPlan.from_metadata({METADATA_KEY.encode(): bomb.encode()})


def test_what_is_decompressed_has_the_limits_of_plain_text():
    packed = to_text(LARGE.to_dict())
    whole = len(json.dumps(LARGE.to_dict()))
    assert Mechanism.from_dict(from_text(packed, "it", PlanError, Limits(plan_bytes=whole))) == LARGE
    for limits in (Limits(plan_bytes=whole - 1), Limits(labels=19_999), Limits(label_length=5), Limits(plan_bytes=99)):
        with pytest.raises(PlanError, match="it has"):
            from_text(packed, "it", PlanError, limits)


def test_labels_that_say_the_same_over_and_over_stay_plain():
    """A text is compressed only if it may be read again: at most so many times its bytes."""
    alike = {"domain": ["long" * 1000 + f"{i}" for i in range(1000)]}
    assert to_text(alike) == json.dumps(alike)
    assert from_text(to_text(alike), "it", PlanError) == alike


def test_plans_of_many_columns_are_plain_and_those_of_others_bounded():
    """Each column costs time to make, and hardly a byte where it is compressed."""
    labels = [f"label number {k} of many" for k in range(40)]
    plan = PrivacyPlan({f"c{k}": RandomizedResponse(labels, epsilon=1.0) for k in range(300)})
    metadata = {key.encode(): text.encode() for key, text in plan.metadata.items()}
    assert PrivacyPlan.from_metadata(metadata) == plan
    few = {"keep": [], "columns": {f"{k}": {"mechanism": "randomized_response", "epsilon": 1} for k in range(2000)}}
    packed = base64.b64encode(pa.Codec("zstd").compress(json.dumps(few).encode(), asbytes=True)).decode()
    with pytest.raises(PlanError, match="at most 256 columns"):
        PrivacyPlan.from_metadata({b"ldp.plan": json.dumps({"zstd": packed}).encode()})


# ---- typed reports


@each("metadata", ["x", "[]", "1", "null"])
def test_metadata_of_typed_reports_are_a_table(metadata):
    with pytest.raises(ReportError, match=r"ldp\.report"):
        described(metadata)


@pytest.mark.slow
def test_a_large_plan_of_one_s_own_has_no_limits(monkeypatch):
    plan = PrivacyPlan({"page": LocalHashing(range(DEFAULT.labels + 1), epsilon=1.0)})
    reports = plan.perturb(pa.record_batch({"page": [1, 2, 3]}))
    plan.check_reports(reports.schema)
    for kept in ("_own", "_beyond_limits"):  # as if they came from elsewhere
        monkeypatch.setattr(provenance, kept, {})
    with pytest.raises(ReportError, match="labels"):
        plan.check_reports(reports.schema)


def test_what_is_beyond_the_limits_is_kept_however_many_come_after_it(monkeypatch):
    monkeypatch.setattr(provenance, "_beyond_limits", {})
    large = RandomizedResponse(["a" * (DEFAULT.label_length + 1), "b"], epsilon=1.0)
    metadata = describe(large, seeded=True)
    others = [describe(RandomizedResponse(epsilon=1 + k), seeded=False) for k in range(200)]
    assert described(metadata) == (large, True, False)
    assert described(others[0]) == (RandomizedResponse(epsilon=1.0), False, False)
    assert RandomizedResponse(epsilon=1.0) not in [kept.mechanism for kept in provenance._beyond_limits.values()]


def test_noise_that_is_keyed_by_person_is_marked():
    """In Arrow and in Polars, of one plan; old metadata without the mark are read as ever, and reports are the same."""
    plan, secret, raw = PrivacyPlan({"x": SMALL}), Secret(bytes(32)), pa.record_batch({"x": ["a", "b"], "id": [1, 2]})
    keyed = plan.perturb(raw, key=secret, id=raw["id"])
    assert maker(keyed.schema.field("x")) == (SMALL, False, True)
    assert maker(plan.perturb(raw).schema.field("x")) == described(json.dumps(SMALL.to_dict())) == (SMALL, False, False)
    assert describe(SMALL, keyed=True) == json.dumps(SMALL.to_dict() | {"keyed": True})
    assert keyed["x"].equals(SMALL.perturb(raw["x"], randomness=Keyed(secret, raw["id"], column="x")))
    for mark, wrong in (("keyed", "no"), *(("seeded", wrong) for wrong in ("no", 1, None, []))):
        with pytest.raises(ReportError, match=f"{mark} must be true or false"):
            described(json.dumps(SMALL.to_dict() | {mark: wrong}))
