"""Compiled plans, their vectors, and reports in NDJSON: docs/wire.md."""

import json
import math
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from ldp_core import (
    Dates,
    DomainError,
    DtypeError,
    LimitError,
    LocalHashing,
    OneBitMean,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Secret,
    SummationHistogramEncoding,
)
from ldp_core.limits import Limits
from tests.vectors import reader
from tests.vectors.make import COLUMN, FOLDER, THREE, bad, files, mechanisms


def test_the_vectors_are_what_keyed_noise_makes():
    made = files()
    assert {path.name for path in FOLDER.glob("*.json")} == made.keys()
    for name, text in made.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, name
    assert sum(len(json.loads(text)["reports"]) for name, text in made.items() if name != "bad.json") >= 200


def test_reports_of_the_proof_of_concept_stay():
    """Digest, thresholds and fingerprint as another program, in JavaScript, read them before there was this page."""
    [vector] = [json.loads(text) for name, text in files().items() if name == "unary_encoding_5.json"]
    column = vector["plan"]["columns"][COLUMN]
    assert column["digest"] == "795f698ab2f7998badb8d2b504cac374225f4b572722d039994aa5892d54f3e1"
    assert (column["p"], column["q"]) == ("9223372036854775808", "4961093570831980854")
    assert vector["secret_fingerprint"] == "e4928179ceba4bb1"


def test_reports_in_ndjson_are_read_as_they_were_made():
    plan = PrivacyPlan({str(i): m for i, m in enumerate(mechanisms())}, keep=["day"])
    vectors = [json.loads(text) for text in islice(files().values(), len(plan.columns))]
    lines = [
        json.dumps({**{str(i): v["reports"][row] for i, v in enumerate(vectors)}, "day": row}) for row in range(12)
    ]
    batch = plan.read_reports("\n".join(lines))
    plan.check_reports(batch.schema)
    for i, (m, v) in enumerate(zip(plan.columns.values(), vectors, strict=True)):
        native = m.reports.from_arrow(batch.column(str(i)))
        assert m.reports.to_json(native) == v["reports"]
        assert m.tally(batch.column(str(i))).n == 12
    assert batch.column("day").to_pylist() == list(range(12))


def test_thresholds_say_the_probabilities():
    """Of randomized response and unary encoding, from exp() in doubles."""
    e = math.e
    two, three, bits = mechanisms()[0].compiled(), mechanisms()[2].compiled(), mechanisms()[5].compiled()
    found = [int(two["yes"]), int(three["keep"]), int(bits["p"]), int(bits["q"])]
    np.testing.assert_allclose(
        np.array(found) / 2.0**64, [e / (e + 1), (e - 1) / (e + 2), 0.5, 1 / (e + 1)], rtol=1e-15
    )


def test_reports_that_must_fail():
    others = LocalHashing(THREE, epsilon=1.0), OneBitMean((0, 1), epsilon=1.0)
    plans = [PrivacyPlan({COLUMN: m}) for m in (*mechanisms(), *others)]
    by_plan = {plan.fingerprint: plan for plan in plans}
    reads = [case for case in bad() if case["operation"] == "read"]
    for case in reads:
        plan = by_plan[case["plan"]["fingerprint"]]
        with pytest.raises(ReportError) as found:
            plan.read_reports(json.dumps({COLUMN: case["report"]}))
        assert "maybe" not in str(found.value)
    assert len(reads) >= 12


def test_values_that_must_fail():
    by_digest = {m.digest: m for m in (*mechanisms(), OneBitMean((0, 1), epsilon=1.0))}
    tried = 0
    for case in bad():
        if case["operation"] == "perturb":
            [compiled] = case["plan"]["columns"].values()
            inputs = by_digest[compiled["digest"]].inputs
            if inputs.compiled() == compiled["input"]:
                tried += 1
                with pytest.raises((DomainError, DtypeError)):
                    inputs.encode([case["value"]])
    assert tried >= 38


def test_a_text_is_the_same_date_here_and_on_devices():
    """Python read times without seconds, and times with a zone, which devices take for no date."""
    days = ["2024-01-02", "0000-02-29", "2024-02-30", "2024-1-2", "20240102", "9999-12-31", ""]
    times = [
        "",
        "T10:00:00",
        " 23:59:59.123456789Z",
        "T10:00",
        " 10",
        "T10:00Z",
        "T10:00:00z",
        "Z",
        "T24:00:00",
        "T10:00:60",
    ]
    zones = ["+00:00", "-0200", "+02", " +", ""]
    texts = [day + time + zone for day in days for time in times for zone in zones]
    for ends in (("2024-01-01", "2024-03-01", "1d"), ("2024-01-01T00:00:00", "2024-01-03T00:00:00", "6h")):
        for missing in (None, "2024-01-02"):
            for unmatched in ("error", "other", "clip"):
                domain = Dates(*ends, unmatched, missing)
                there = []
                for text in [None, *texts]:
                    with suppress(ValueError):
                        there.append((text, reader.encode(domain.compiled(), text)))
                refused = domain.refuses([None, *texts])
                here = [text for text, bad in zip([None, *texts], refused, strict=True) if not bad]
                assert list(zip(here, domain.encode(here).tolist(), strict=True)) == there


def test_secrets_that_must_fail():
    for size in (0, 15, 1025):
        with pytest.raises(ParameterError):
            Secret(bytes(i % 256 for i in range(size)))
        with pytest.raises(ValueError, match="secret"):
            reader.keyed(bytes(size), 7, "", "os")


def test_lines_that_are_no_rows():
    plan = PrivacyPlan({"os": RandomizedResponse(["a", "b"], epsilon=1.0)}, keep=["day"])
    good = '{"os": "a", "day": 1}'
    for text in ("[]", "{", '{"os": "a"}', '{"os": "a", "day": 1, "id": 7}', "", "\n", good + "\nnull"):
        if text:
            with pytest.raises(ReportError, match="line"):
                plan.read_reports(text)
    with pytest.raises(ReportError, match="day"):
        plan.read_reports(good + '\n{"os": "a", "day": "x"}')
    for nested in ('{"x": "y"}', "[]", "[1]"):  # 0.85 MB of objects with a name each would take minutes, and 3.6 GB
        with pytest.raises(ReportError, match="column 'day': kept values must be text, numbers or Booleans"):
            plan.read_reports(good.replace("1", nested))
    for number in ("1e400", "-1e400", "[1e309]", "NaN", "Infinity"):  # a sum with one of them would be of nobody
        with pytest.raises(ReportError, match="line 1 is not valid JSON"):
            plan.read_reports(good.replace("1", number))
    assert plan.read_reports(good.replace("1", "1e308"))["day"].to_pylist() == [1e308]
    for column, half in (("os", '{"os": "\\ud800", "day": 1}'), ("day", '{"os": "a", "day": "\\ud800"}')):
        with pytest.raises(ReportError, match=column):  # half of a surrogate pair
            plan.read_reports(half)
    for coding in ("utf-16", "utf-32-le"):  # rows are sent in UTF-8
        with pytest.raises(ReportError, match="line 1 is not valid JSON"):
            plan.read_reports(good.encode(coding))
    with pytest.raises(LimitError, match="rows"):
        plan.read_reports(f"{good}\n" * 3, limits=Limits(rows=2))
    assert plan.read_reports("").num_rows == 0
    kept = "a line\u2028of\x85two"  # separators that JSON.stringify leaves as they are
    for text in (
        json.dumps({"os": "a", "day": kept}, ensure_ascii=False),
        good.replace("1", json.dumps(kept)) + "\r\n",
    ):
        for message in (text, text.encode()):
            assert plan.read_reports(message)["day"].to_pylist() == [kept]


def test_plans_that_do_not_compile():
    plan = PrivacyPlan({"os": RandomizedResponse(epsilon=1.0)})
    with pytest.raises(PlanError, match="seed"):
        plan.seeded(1).compile()
    with pytest.raises(PlanError, match=r"'w'.*docs/wire\.md"):
        PrivacyPlan({"w": SummationHistogramEncoding(["a", "b"], epsilon=1.0)}).compile()
    drawn = PrivacyPlan.sampled({"a": ["x", "y"], "b": ["x", "y"]}, epsilon=1.0)
    with pytest.raises(PlanError, match="'a'"):
        drawn.compile()


def test_a_program_made_from_the_page_makes_the_same_reports():
    for path in sorted(Path(FOLDER).glob("*.json")):
        if path.name != "bad.json":
            vector = json.loads(path.read_text(encoding="utf-8"))
            assert reader.equal(vector) == len(vector["reports"]), path.name
    for case in bad():
        assert reader.is_refused(case), case["why"]
