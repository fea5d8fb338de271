"""Writes tests/vectors/*.json, the test vectors of docs/wire.md: `python -m tests.vectors.make`.

A vector is a compiled plan of one column, a secret, ids and values, and the reports that keyed noise makes of them.
Those that must fail are in bad.json.
"""

import base64
import json
from functools import cache
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
from ldp_core.mechanisms.oracles.local_hashing import LinearFamily

FOLDER = Path(__file__).parent
COLUMN = "os"
GONE = object()
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
        PrivSet(range(40), epsilon=0.5, most=5, k=23, on_more="first"),
        PrivSet(words, epsilon=3.0, most=9, k=20, unmatched="other"),
        SquareWave(WholeNumbers(0, 120), epsilon=1.0),
        NOutput(WholeNumbers(-3, 3, unmatched="clip", missing=1.5), epsilon=1.0),
        RandomizedResponse(Dates("2023-11-01", "2024-11-01", every="1mo", unmatched="other"), epsilon=2.0),
        UnaryEncoding(Dates(*DAYS, every="6h", unmatched="clip", missing="2024-02-29 12:00:00"), epsilon=1.0),
        SubsetSelection(Dates("1999-12-27", "2000-03-06", every="1w"), epsilon=1.0),
    ]


def _many_functions() -> LocalHashing:
    """Of 3^19 functions, of which one in five draws again: more than people ask for, but a plan that clients take."""
    m, family = LocalHashing(THREE, epsilon=1.0, variant="fast"), LinearFamily(3, 3**19)
    m.__dict__.update(family=family, functions=family.size)
    return m


def more() -> list[tuple[Mechanism, list[Any], list[Any], dict[str, Any]]]:
    """Mechanisms, values, ids and names: what faults of clients the others do not show (each was tried with some)."""
    count = list(range(24))
    again = [2007381, 1080087, 2604231, 76739, 310558, *range(7)]  # the first draw 7 to 9 times again
    ties = [0.09073493480682371, 0.16666700839996337, 0.2814697980880737, 0.4722047090530396, 0.4722051858901978]
    sets = [[11 - (i + j) % 12 for j in range(5)] for i in count]
    odd = ["ios", None, "none of them"] * 8
    times = ["0000-02-29", "2024-02-28 11:59:59.999999999Z", "2024-02-28 12:00:00.5", None]
    times += ["2024-02-29t00:00:00", "2024-02-29 00:00:00z", "2024-02-29 23:59:60", "2024-02-28 12:00:00.Z"]
    names = {"column": "Größe ☂", "tag": "Jahr 😀"}
    return [
        (RandomizedResponse(epsilon=1.0), [False, True] * 12, count, {}),
        (RandomizedResponse.from_coins(["no", "yes"], truth=0.5, yes=0.25), ["no", "yes"] * 12, count, {}),
        (RandomizedResponse(Domain([True, False], unmatched="other"), epsilon=1.0), [True, False, None] * 4, count, {}),
        # Lanes 3 and 2 of these ids draw again, and below steps of PrivSet: found by trying 10^7 of them.
        (LocalHashing(THREE, epsilon=4.0), ["web"] * 4, [10056202, 12794833, 15267120, 17924437], {}),
        (_many_functions(), ["web"] * 12, again, {}),
        (PrivSet(range(240), epsilon=0.5, most=3, k=120), [[7, 200, 31]] * 3, [151947, 330813, 343076], {}),
        (HierarchicalHistogram(range(30), epsilon=0.2), [i * i % 30 for i in count], count, {}),
        (
            HierarchicalHistogram(Cells([-1.5, 0, 0.1, 0.3, 1e3]), epsilon=4.0),
            [-1.5, 0.0, 0.1, 0.3, 1e3] * 4,
            count,
            {},
        ),
        (NOutput((-0.1, 0.7), epsilon=4.0), ties, count, {}),
        (NOutput((0, 10), epsilon=4.0), [10 * (k + 0.5) / 2**24 for k in (0, 1, 2, 8388608, 16777214)], count, {}),
        (SquareWave((0, 51), epsilon=4.0, buckets=51), [7.0, 14.0, 23.0, 28.0, 46.0, 50.0, 50.5, 51.0], count, {}),
        (SquareWave((0, 50), epsilon=4.0, buckets=50), [7.0, 14.0, 23.0, 28.0, 46.0, 49.0, 49.5, 50.0], count, {}),
        (
            SquareWave(WholeNumbers(-3, 3, unmatched="clip", missing=0.5), epsilon=4.0),
            [-3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, None],
            count,
            {},
        ),
        (PrivSet(range(12), epsilon=3.0, most=4, k=4, on_more="first"), sets, count, {}),
        (HadamardResponse(THREE, epsilon=0.5, unmatched="none"), odd, count, {}),
        (
            UnaryEncoding(["é", "e\u0301", "語"], epsilon=1.0),
            ["é", "e\u0301", "語", "é"] * 2,
            TEXTS,
            {**names, "size": 16},
        ),
        (RandomizedResponse(range(99), epsilon=1.0), [7, 98] * 4, [i.encode("utf-16") for i in TEXTS], {"size": 65}),
        (
            RandomizedResponse(["😀", "\uffff"], epsilon=1.0),
            ["😀", "\uffff"] * 4,
            INTEGERS,
            {"size": 1024, "column": ""},
        ),
        (
            RandomizedResponse(
                Dates(*DAYS, every="6h", unmatched="other", missing="2024-02-29 12:00:00.5"), epsilon=3.0
            ),
            times,
            count,
            {},
        ),
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


def vector(
    m: Mechanism, values: list[Any], ids: list[Any], tag: str | None = None, column: str = COLUMN, size: int = 32
) -> dict[str, Any]:
    """One vector, reports as they stand in NDJSON, by a secret of ``size`` bytes."""
    plan, secret, ids = PrivacyPlan({column: m}), bytes(i % 256 for i in range(size)), ids[: len(values)]
    kind = {"bool": pa.bool_(), "int": pa.int64(), "str": pa.string(), "float": pa.float64(), "date": pa.string()}[
        m.inputs.kind.removeprefix("list of ")
    ]
    kind = pa.list_(kind) if isinstance(m.inputs, Sets) else kind
    noise = Keyed(Secret(secret), ids, column=column, tag=tag)
    reports = m.reports.to_json(m.draw(pa.array(values, kind), noise, column))
    return {
        "plan": plan.compile(),
        "secret": secret.hex(),
        "secret_fingerprint": Secret(secret).fingerprint,
        "tag": tag,
        "id_kind": {str: "text", bytes: "bytes"}.get(type(ids[0]), "integer"),
        "ids": [i.hex() if isinstance(i, bytes) else str(i) for i in ids],
        "values": [v if kind == pa.float64() else as_text(v) for v in values],
        "reports": reports,
    }


@cache
def bad() -> list[dict[str, Any]]:
    """What must fail: a plan, a value or a report; and the kind of error."""
    bits, subset = (PrivacyPlan({COLUMN: m}).compile() for m in (UnaryEncoding(THREE, epsilon=1.0), mechanisms()[10]))
    items, whole, days = (PrivacyPlan({COLUMN: mechanisms()[number]}).compile() for number in (31, 34, 38))
    word, flag, coins, symbol = (
        PrivacyPlan({COLUMN: m}).compile()
        for m in (LocalHashing(THREE, epsilon=1.0), OneBitMean((0, 1), epsilon=1.0), mechanisms()[1], mechanisms()[23])
    )

    tree, cells, asked, fast, small, clip, truth = (
        PrivacyPlan({COLUMN: mechanisms()[number]}).compile() for number in (26, 28, 18, 17, 11, 21, 0)
    )

    def changed(plan: dict[str, Any], **columns: Any) -> dict[str, Any]:
        kept = {key: value for key, value in {**plan["columns"][COLUMN], **columns}.items() if value is not GONE}
        return {**plan, "columns": {COLUMN: kept}}

    def entered(plan: dict[str, Any], **rules: Any) -> dict[str, Any]:
        all_rules = {**plan["columns"][COLUMN]["input"], **rules}
        return changed(plan, input={key: value for key, value in all_rules.items() if value is not GONE})

    def of_levels(levels: list[dict[str, Any]], **columns: Any) -> dict[str, Any]:
        sizes = (((1 << x["bits"]) - 1 if "polynomial" in x else 1) << x["head"] for x in levels)
        return changed(tree, levels=levels, report={"layout": "word", "limit": str(sum(sizes))}, **columns)

    def leveled(number: int, **parts: Any) -> dict[str, Any]:
        changes = {key: value for key, value in {**of_tree["levels"][number], **parts}.items() if value is not GONE}
        return of_levels([changes if i == number else level for i, level in enumerate(of_tree["levels"])])

    of_tree, of_bits, basis = tree["columns"][COLUMN], bits["columns"][COLUMN], [1] * 7
    texts = {"hexadecimal": "0x10", "a number": 0.5, "an integer": 7, "of a leading zero": "07", "with a sign": "+7"}
    texts |= {"with a space": " 7", "empty": "", "with a line": "7\n", "negative": "-7", "of Arabic digits": "\u0667"}
    plans: dict[str, Any] = {
        "no plan": [],
        "another version": {**bits, "ldp_plan": 2},
        "a version that is true": {**bits, "ldp_plan": True},
        "no version": {k: v for k, v in bits.items() if k != "ldp_plan"},
        "no columns": {**bits, "columns": {}},
        "columns in a list": {**bits, "columns": [of_bits]},
        "no fingerprint": {k: v for k, v in bits.items() if k != "fingerprint"},
        "no keep": {k: v for k, v in bits.items() if k != "keep"},
        "keep of numbers": {**bits, "keep": [1]},
        "keep twice": {**bits, "keep": ["day", "day"]},
        "keep of a column": {**bits, "keep": [COLUMN]},
        "threshold 0": changed(bits, q="0"),
        "threshold 2^64": changed(bits, p=str(1 << 64)),
        **{f"threshold {why}": changed(bits, q=text) for why, text in texts.items()},
        "threshold q of subset": changed(small, q="0"),
        "p not above q": changed(bits, p=of_bits["q"]),
        "no not below yes": changed(coins, no=coins["columns"][COLUMN]["yes"]),
        "no yes": changed(coins, yes=GONE),
        "coins of three": entered(coins, labels=THREE),
        "unknown draw": changed(bits, draw="guess"),
        "a draw of every object": changed(bits, draw="constructor"),
        "digest too short": changed(bits, digest="ab"),
        "digest in upper case": changed(bits, digest=of_bits["digest"].upper()),
        "no input": changed(bits, input=GONE),
        "labels twice": entered(bits, labels=["a", "a", "b"]),
        "one label": entered(bits, labels=["a"]),
        "no labels": entered(bits, labels=GONE),
        "labels that are numbers": entered(bits, labels=[1, 2, 3]),
        "labels of integers with a zero": entered(bits, kind="int", labels=["1", "02", "3"]),
        "labels of bool that are none": entered(bits, kind="bool", labels=["true", "false", "maybe"]),
        "a label other": entered(coins, labels=["other"], unmatched="other"),
        "no unmatched": entered(bits, unmatched=GONE),
        "unknown unmatched": entered(bits, unmatched="skip"),
        "clip of labels": entered(bits, unmatched="clip"),
        "other of numbers": entered(symbol, unmatched="other"),
        "none of coins": entered(coins, unmatched="none"),
        "none of a tree": entered(tree, unmatched="none"),
        "an unknown kind": entered(bits, kind="text"),
        "a kind of every object": entered(bits, kind="constructor"),
        "numbers for bits": changed(
            bits, input=cells["columns"][COLUMN]["input"], report={"layout": "bits", "length": 4}
        ),
        "labels for a window": changed(symbol, input=of_bits["input"]),
        "edges for a window": changed(symbol, input=cells["columns"][COLUMN]["input"]),
        "ends for a tree": changed(cells, input=symbol["columns"][COLUMN]["input"]),
        "no low": entered(symbol, low=GONE),
        "low above high": entered(symbol, low=1e9),
        "low as text": entered(symbol, low="0"),
        "numbers too near": entered(symbol, low=0, high=1e-310),
        "numbers too far": entered(symbol, low=-1.7e308, high=1.7e308),
        "edges that are no list": entered(cells, edges="abcde"),
        "edges down": entered(cells, edges=[1e3, 60.5, 20, 5, 0], missing=GONE),
        "edges twice": entered(cells, edges=[0, 5, 5, 20, 1e3]),
        "two edges": entered(cells, edges=[0, 1e3]),
        "missing outside": entered(clip, missing=1.7),
        "missing as text": entered(clip, missing="0.3"),
        "whole as text": entered(whole, whole="true"),
        "whole with other ends": entered(whole, low=0, high=120),
        "whole with edges": entered(cells, edges=[-0.5, 0.5, 2.5, 3.5, 4.5], whole=True),
        "whole numbers too large": entered(whole, high=(1 << 24) + 1.5),
        "another length": changed(bits, report={"layout": "bits", "length": 4}),
        "an unknown layout": changed(bits, report={"layout": "bytes", "length": 3}),
        "another layout": changed(bits, report={"layout": "value"}),
        "no report": changed(bits, report=GONE),
        "another limit of words": changed(word, report={"layout": "word", "limit": "1125899906842625"}),
        "a limit of words as a number": changed(asked, report={"layout": "word", "limit": 4}),
        "another limit of a tree": changed(tree, report={"layout": "word", "limit": "1"}),
        "another limit of symbols": changed(symbol, report={"layout": "symbol", "limit": 75}),
        "a set of places of another number": changed(items, report={"layout": "bits", "length": 3}),
        "more ones than other items": changed(items, ones=4),
        "more ones than half of the places": changed(items, ones=3),
        "ones of all": changed(small, ones=19),
        "true as an integer": changed(small, ones=True),
        "an integer as text": changed(small, ones="5"),
        "0 ones": changed(small, ones=0),
        "many values without q": changed(small, q=GONE),
        "no end of dates": entered(days, end=None),
        "an end before the last label": entered(days, end="1999-12-31"),
        "an end that is no day": entered(days, end="2001-02-29"),
        "dates down": entered(
            days, labels=["2000-01-10", "2000-01-03", *days["columns"][COLUMN]["input"]["labels"][3:]]
        ),
        "a time among days": entered(days, end="2000-03-06 00:00:00"),
        "missing outside of dates": entered(days, missing="2000-03-06"),
        "missing that is no date": entered(days, missing="2000-02-30"),
        "no levels": changed(tree, levels=GONE),
        "levels too few": of_levels(of_tree["levels"][:-1], shares=[0, 0, 0, 0, 0, 1024]),
        "shares of another sum": changed(tree, shares=[*of_tree["shares"][:-1], of_tree["shares"][-1] + 1]),
        "shares below 0": changed(tree, shares=[0, 0, 0, 0, 0, -1, 1025]),
        "shares with a fraction": changed(tree, shares=[0, 0, 0, 0, 0, 0.5, 1023.5]),
        "shares that are too few": changed(tree, shares=[1024]),
        "a level of other bits": leveled(3, bits=5),
        "a level without a threshold": leveled(3, p=GONE),
        "a head of more bits": leveled(3, head=5),
        "favored by all": leveled(3, favored=1 << of_tree["levels"][3]["head"]),
        "a polynomial that lacks": leveled(6, polynomial=GONE, basis=GONE),
        "a polynomial of another degree": leveled(6, polynomial=3),
        "a basis that is no list": leveled(6, basis="1234567"),
        "a level that is none": changed(tree, levels=[*of_tree["levels"][:-1], None]),
        "a column that is none": {**bits, "columns": {COLUMN: None}},
        "a basis too short": leveled(6, basis=basis[:-1]),
        "a basis of large elements": leveled(6, basis=[*basis[:-1], 1 << 7]),
        "no parameters": changed(word, buckets=GONE, prime=GONE),
        "no family": changed(word, prime=GONE),
        "two families": changed(word, functions=word["columns"][COLUMN]["buckets"]),
        "a prime too large": changed(word, prime=(1 << 24) + 43),
        "functions that are no power": changed(fast, functions=fast["columns"][COLUMN]["functions"] + 1),
        "columns too few": changed(asked, columns=2, report={"layout": "word", "limit": "2"}),
        "columns that are no power of 2": changed(asked, columns=5, report={"layout": "word", "limit": "5"}),
        "a window beyond the cells": changed(symbol, window=74),
        "no cells": changed(symbol, cells=GONE),
        "no most": changed(entered(items, most=0), report={"layout": "bits", "length": 3}),
        "a set without most": changed(entered(items, most=GONE), report={"layout": "bits", "length": 3}),
        "a set of dates": changed(
            items,
            input={**days["columns"][COLUMN]["input"], "most": 1, "on_more": "error"},
            report={"layout": "bits", "length": 11},
        ),
        "most without a set": entered(bits, most=1, on_more="error"),
        "no on_more": entered(items, on_more=GONE),
        "an unknown on_more": entered(items, on_more="last"),
    }
    values = {
        "an unknown label": (coins, "maybe"),
        "a null": (coins, None),
        "an integer for text": (coins, 1),
        "a truth for text": (bits, True),
        "a label in upper case": (bits, "IOS"),
        "a number outside": (flag, 1.5),
        "a null for a number": (flag, None),
        "text for a number": (flag, "x"),
        "digits for a number": (flag, "1"),
        "a truth for a number": (flag, True),
        "a null for a set": (items, None),
        "text for a set": (items, "ios"),
        "a set of null": (items, [None]),
        "a set with an unknown item": (items, ["ios", "maybe"]),
        "too many items": (items, ["ios", "web"]),
        "an item of another kind": (items, [True]),
        "a list in a list": (items, [["ios"]]),
        "an object for a set": (items, {}),
        "a number that is not whole": (whole, 0.5),
        "a number below, and not whole": (whole, -0.5),
        "a whole number above": (whole, 121),
        "digits for a whole number": (whole, "1"),
        "a list for a number": (whole, [1]),
        "a null to clip": (entered(clip, missing=GONE), None),
        "a day too early": (days, "1999-12-26"),
        "the end of days": (days, "2000-03-06"),
        "a day that is none": (days, "2000-02-30"),
        "a day of one digit": (days, "2000-1-3"),
        "no text for a day": (days, ""),
        "a null for a day": (days, None),
        "an integer for a day": (days, 1),
        "a truth for a day": (days, True),
        "a time zone after a day": (days, "2000-01-03Z"),
        "a fraction without digits": (days, "2000-01-03T00:00:00.Z"),
        "a fraction of ten digits": (days, "2000-01-03T00:00:00.0000000000"),
        "a small t": (days, "2000-01-03t00:00:00"),
        "second 60": (days, "2000-01-03T23:59:60Z"),
        "hour 24": (days, "2000-01-03T24:00:00Z"),
        "a zone": (days, "2000-01-03T00:00:00+00:00"),
        "a zone where nulls are a date": (entered(days, missing="2000-01-03"), "2000-01-03 00:00:00.5+02:00"),
        "a zone to clip": (entered(days, missing="2000-01-03", unmatched="clip"), "2000-01-03T00:00:00-0200"),
    }
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
        "base64 without padding": (bits, "AQ"),
        "base64 with a line": (bits, "AQ==\n"),
        "spare bits of base64": (bits, "AR=="),
        "base64 of URLs": (subset, "__8D"),
        "wrong weight": (subset, all_ones),
        "a set of wrong weight": (items, base["none"]),
        "null": (bits, None),
        "a number for base64": (bits, 7),
        "unknown value": (coins, "maybe"),
        "value of another kind": (coins, True),
        "a null for a value": (coins, None),
        "1 for true": (truth, 1),
        "text for true": (truth, "true"),
        "not below the limit": (word, word["columns"][COLUMN]["report"]["limit"]),
        "a word as a number": (word, 7),
        "a negative word": (word, "-1"),
        "a word with a plus": (word, "+1"),
        "a word with a leading zero": (word, "01"),
        "an empty word": (word, ""),
        "not below the limit of a tree": (tree, of_tree["report"]["limit"]),
        "a flag as text": (flag, "true"),
        "symbol not below the limit": (symbol, symbol["columns"][COLUMN]["report"]["limit"]),
        "symbol as text": (symbol, "1"),
        "symbol that is true": (symbol, True),
        "symbol with a fraction": (symbol, 1.5),
        "negative symbol": (symbol, -1),
        "a flag as a number": (flag, 1),
    }
    made: list[dict[str, Any]] = [{"operation": "plan", "why": why, "plan": plan} for why, plan in plans.items()]
    made += [{"operation": "perturb", "why": w, "plan": plan, "value": v} for w, (plan, v) in values.items()]
    made += [{"operation": "read", "why": w, "plan": plan, "report": r} for w, (plan, r) in reports.items()]
    return made


@cache
def files() -> dict[str, str]:
    """The text of each file, by its name."""
    made: dict[str, str] = {}
    for number, m in enumerate(mechanisms()):
        ids = [INTEGERS, TEXTS][number % 2] + ([] if number % 2 == 0 else [f"id {i}" for i in range(4)])
        ids = ids + (list(range(1000, 1004)) if number % 2 == 0 else [])
        made[f"{m.name}_{number}.json"] = vector(m, values_of(m, len(ids)), ids, "tag" if number % 5 == 4 else None)
    for number, (m, values, ids, names) in enumerate(more(), len(made)):
        made[f"{m.name}_{number}.json"] = vector(m, values, ids, **names)
    made["bad.json"] = bad()
    return {
        name: json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n" for name, content in made.items()
    }


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
