"""Writes tests/vectors/*.json, the test vectors of docs/wire.md: `python -m tests.vectors.make`.

A vector is a compiled plan of one column, a secret, ids and values, and the reports that keyed noise makes of them.
Those that must fail are in bad.json.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_core import (
    Cells,
    Dates,
    Domain,
    HadamardResponse,
    HierarchicalHistogram,
    Interval,
    Keyed,
    LocalHashing,
    Mechanism,
    NOutput,
    OneBitMean,
    Piecewise,
    PrivacyPlan,
    PrivSet,
    RandomizedResponse,
    Secret,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
    WholeNumbers,
)
from ldp_core.inputs.sets import Sets

FOLDER = Path(__file__).parent
SECRET = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
COLUMN = "os"
TEXTS = ["ann", "bob", "", "é", "a-long-identifier-of-more-than-16-bytes", "exactly 16 bytes", "語", "x" * 33]
INTEGERS = [17, 18, -1, 2**63 - 1, -(2**63), 0, 1 << 40, 255]
DAYS = "2024-02-28T00:00:00", "2024-03-02T00:00:00"
THREE = ["ios", "android", "web"]


def mechanisms() -> list[Mechanism]:
    """Of each kind small and large ones, likely and unlikely ties, and all ways to treat what is not declared."""
    words = [f"w{i}" for i in range(300)]
    return [
        RandomizedResponse(epsilon=1.0),
        RandomizedResponse.from_coins(["no", "yes"], truth=0.5, yes=0.25),
        RandomizedResponse(THREE, epsilon=1.0),
        RandomizedResponse(Domain([-3, 2**60, 7], unmatched="other"), epsilon=0.5),
        RandomizedResponse(range(3000), epsilon=2.0),
        UnaryEncoding(THREE, epsilon=1.0),
        UnaryEncoding(range(20), epsilon=1.0, variant="symmetric"),
        UnaryEncoding(words, epsilon=3.0, unmatched="none"),
        UnaryEncoding.from_probabilities(words[:130], p=0.75, q=0.25),
        SubsetSelection(THREE, epsilon=0.1),
        SubsetSelection(range(18), epsilon=1.0),
        SubsetSelection(range(19), epsilon=1.0),
        SubsetSelection(words, epsilon=2.0, unmatched="other"),
        LocalHashing(words, epsilon=1.0, unmatched="none"),
        LocalHashing(range(1000), epsilon=4.0),
        LocalHashing(THREE, epsilon=1.0, variant="binary"),
        LocalHashing(words, epsilon=1.0, variant="fast"),
        LocalHashing(range(50), epsilon=3.0, variant="fast"),
        HadamardResponse(THREE, epsilon=1.0, unmatched="none"),
        HadamardResponse(words, epsilon=2.0),
        OneBitMean((0, 10), epsilon=1.0),
        OneBitMean(Interval(-0.1, 0.7, unmatched="clip", missing=0.3), epsilon=0.2),
        Piecewise((-1, 1), epsilon=2.0),
        SquareWave((0, 100), epsilon=1.0, buckets=50),
        SquareWave(Interval(0, 1e-3, unmatched="clip"), epsilon=4.0),
        HierarchicalHistogram(THREE, epsilon=1.0),
        HierarchicalHistogram(range(120), epsilon=1.0),
        HierarchicalHistogram(range(5000), epsilon=2.0, workload="prefixes"),
        HierarchicalHistogram(Cells([0, 5, 20, 60.5, 1e3], unmatched="clip", missing=0), epsilon=1.0),
        NOutput((0, 60), epsilon=0.5),
        NOutput(Interval(-1, 1, unmatched="clip", missing=0.0), epsilon=6.0),
        PrivSet(THREE, epsilon=1.0, most=1),
        PrivSet(range(40), epsilon=0.5, most=5, k=4, on_more="first"),
        PrivSet(words, epsilon=3.0, most=9, k=20, unmatched="other"),
        SquareWave(WholeNumbers(0, 120), epsilon=1.0),
        NOutput(WholeNumbers(-3, 3, unmatched="clip", missing=1.5), epsilon=1.0),
        RandomizedResponse(Dates("2023-11-01", "2024-11-01", every="1mo", unmatched="other"), epsilon=2.0),
        UnaryEncoding(Dates(*DAYS, every="6h", unmatched="clip", missing="2024-02-29 12:00:00"), epsilon=1.0),
        SubsetSelection(Dates("1999-12-27", "2000-03-06", every="1w"), epsilon=1.0),
    ]


def values_of(m: Mechanism, n: int) -> list[Any]:
    """Ends, values between them, and what is not declared where that is taken."""
    inputs = m.inputs
    if isinstance(inputs, Dates):
        if inputs.every == "7d":
            return ["1999-12-27", "2000-01-02", "2000-01-03", "2000-02-29", "2000-03-05", *["2000-02-01"] * (n - 5)]
        if inputs.days:
            odd = ["2023-10-31", "2024-11-01", "2024-02-30", "2023-02-29", None, "never", "2024-06-15 12:00:00"]
            return ["2023-11-01", "2024-10-31", "2024-02-29", "2024-03-01", "2023-11-30", *odd]
        outside = ["2024-02-27 23:59:59", "2024-03-02 00:00:00", "0001-01-01 00:00:00", "2024-02-30 00:00:00", None]
        inside = ["2024-02-28", "2024-02-28T05:59:59.999999Z", "2024-02-28T06:00:00", "2024-02-29 17:59:59.9"]
        return [*inside, "2024-03-01T23:59:59Z", *outside, "2024-02-29 24:00:00", "9999-12-31T23:59:59Z"]
    if isinstance(inputs, Sets):
        items = inputs.domain.labels
        lists = [[items[(i * i + 3 * j * i + j) % len(items)] for j in range(i % (inputs.most + 1))] for i in range(n)]
        lists[1] = [*lists[1], *lists[1]]  # twice, which is once
        if inputs.on_more == "first":
            lists[2] = list(reversed(items))
        return lists if inputs.unmatched == "error" else [*lists[: n - 2], None, [items[5], None, "none of them"]]
    if isinstance(inputs, WholeNumbers):
        made = [inputs.first + (7 * i + i * i) % (inputs.last - inputs.first + 1) for i in range(n)]
        return made if inputs.unmatched == "error" else [0.5, 1.5, -2.5000001, 1e300, None, *made[5:]]
    if isinstance(inputs, Domain):
        listed = inputs.labels
        made = [listed[(7 * i * i + i) % len(listed)] for i in range(n)]
        outside: list[Any] = [None, {"str": "none of them", "int": 1 << 62, "bool": None}[inputs.kind]]
    else:
        low, high = inputs.low, inputs.high
        made = [low, high, *(low + (high - low) * (i * 0.618033988749895 % 1) for i in range(2, n))]
        outside = [] if inputs.unmatched == "error" else [low - 1, high + 1]
        outside += [None] if inputs.takes_nulls and inputs.missing is not None else []
        return [*made[: n - len(outside)], *outside]
    return made if inputs.unmatched == "error" else [*made[: n - 2], *outside]


def as_text(value: Any) -> Any:
    """Integers as decimal text."""
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return str(value) if type(value) is int else value


def vector(m: Mechanism, ids: list[Any], tag: str | None) -> dict[str, Any]:
    """One vector, reports as they stand in NDJSON."""
    plan, values = PrivacyPlan({COLUMN: m}), values_of(m, len(ids))
    kind = {"bool": pa.bool_(), "int": pa.int64(), "str": pa.string(), "float": pa.float64(), "date": pa.string()}[
        m.inputs.kind.removeprefix("list of ")
    ]
    kind = pa.list_(kind) if isinstance(m.inputs, Sets) else kind
    noise = Keyed(Secret.from_hex(SECRET), ids, column=COLUMN, tag=tag)
    reports = m.reports.to_json(m.draw(pa.array(values, kind), noise, COLUMN))
    return {
        "plan": plan.compile(),
        "secret": SECRET,
        "secret_fingerprint": Secret.from_hex(SECRET).fingerprint,
        "tag": tag,
        "id_kind": "text" if isinstance(ids[0], str) else "integer",
        "ids": [str(i) for i in ids],
        "values": [v if kind == pa.float64() else as_text(v) for v in values],
        "reports": reports,
    }


def bad() -> list[dict[str, Any]]:
    """What must fail: a plan, a value or a report; and the kind of error."""
    bits, subset = (PrivacyPlan({COLUMN: m}).compile() for m in (UnaryEncoding(THREE, epsilon=1.0), mechanisms()[10]))
    items, whole, days = (PrivacyPlan({COLUMN: mechanisms()[number]}).compile() for number in (31, 34, 38))
    word, flag, coins, symbol = (
        PrivacyPlan({COLUMN: m}).compile()
        for m in (LocalHashing(THREE, epsilon=1.0), OneBitMean((0, 1), epsilon=1.0), mechanisms()[1], mechanisms()[23])
    )

    def changed(plan: dict[str, Any], **columns: Any) -> dict[str, Any]:
        return {**plan, "columns": {COLUMN: {**plan["columns"][COLUMN], **columns}}}

    plans = {
        "another version": {**bits, "ldp_plan": 2},
        "no version": {k: v for k, v in bits.items() if k != "ldp_plan"},
        "no columns": {**bits, "columns": {}},
        "threshold 0": changed(bits, q="0"),
        "threshold 2^64": changed(bits, p=str(1 << 64)),
        "threshold as a number": changed(bits, p=0.5),
        "threshold in hexadecimal": changed(bits, p="0x10"),
        "p not above q": changed(bits, p=bits["columns"][COLUMN]["q"]),
        "unknown draw": changed(bits, draw="guess"),
        "digest too short": changed(bits, digest="ab"),
        "labels twice": changed(bits, input={"kind": "str", "labels": ["a", "a", "b"], "unmatched": "error"}),
        "one label": changed(bits, input={"kind": "str", "labels": ["a"], "unmatched": "error"}),
        "another length": changed(bits, report={"layout": "bits", "length": 4}),
        "a set of places of another number": changed(items, report={"layout": "bits", "length": 3}),
        "more ones than other items": changed(items, ones=4),
        "no end of dates": changed(days, input={**days["columns"][COLUMN]["input"], "end": None}),
        "an end before the last label": changed(days, input={**days["columns"][COLUMN]["input"], "end": "1999-12-31"}),
        "an unknown kind": changed(bits, input={**bits["columns"][COLUMN]["input"], "kind": "text"}),
        "no levels": changed(bits, draw="tree"),
        "no parameters": changed(bits, draw="hash"),
        "no most": changed(items, input={**items["columns"][COLUMN]["input"], "most": 0}),
    }
    values = [(coins, "maybe"), (coins, None), (coins, 1), (flag, 1.5), (flag, None), (flag, "x"), (bits, True)]
    values += [
        (items, value) for value in (None, "ios", [None], ["ios", "maybe"], ["ios", "web"], [True], [["ios"]], {})
    ]
    values += [(whole, value) for value in (0.5, -0.5, 121, "1", [1])]
    values += [(days, value) for value in ("1999-12-26", "2000-03-06", "2000-02-30", "2000-1-3", "", None, 1, True)]
    base = {
        name: base64.b64encode(data).decode()
        for name, data in {"two": b"\0\0", "stray": b"\x08", "none": b"\0"}.items()
    }
    all_ones = base64.b64encode(np.array([255, 255, 3], np.uint8).tobytes()).decode()
    reports = {
        "wrong length": (bits, base["two"]),
        "no bytes": (bits, ""),
        "bits beyond the values": (bits, base["stray"]),
        "no base64": (bits, "***"),
        "wrong weight": (subset, all_ones),
        "a set of wrong weight": (items, base["none"]),
        "null": (bits, None),
        "a number for base64": (bits, 7),
        "unknown value": (coins, "maybe"),
        "value of another kind": (coins, True),
        "not below the limit": (word, word["columns"][COLUMN]["report"]["limit"]),
        "a word as a number": (word, 7),
        "a negative word": (word, "-1"),
        "a word with a plus": (word, "+1"),
        "a flag as text": (flag, "true"),
        "symbol not below the limit": (symbol, symbol["columns"][COLUMN]["report"]["limit"]),
        "symbol as text": (symbol, "1"),
    }
    made: list[dict[str, Any]] = [{"operation": "plan", "why": why, "plan": plan} for why, plan in plans.items()]
    made += [{"operation": "perturb", "why": "value", "plan": plan, "value": v} for plan, v in values]
    made += [{"operation": "read", "why": w, "plan": plan, "report": r} for w, (plan, r) in reports.items()]
    return made


def files() -> dict[str, str]:
    """The text of each file, by its name."""
    made: dict[str, str] = {}
    for number, m in enumerate(mechanisms()):
        ids = [INTEGERS, TEXTS][number % 2] + ([] if number % 2 == 0 else [f"id {i}" for i in range(4)])
        ids = ids + (list(range(1000, 1004)) if number % 2 == 0 else [])
        made[f"{m.name}_{number}.json"] = vector(m, ids, "tag" if number % 5 == 4 else None)
    made["bad.json"] = bad()
    return {
        name: json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n" for name, content in made.items()
    }


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
