"""Keyed reports under local differential privacy: docs/wire.md (version 1), for tests.

Its author had the page and the vectors, and saw nothing else of the project: it is the second implementation that the
page promises. Change it only where the page changes. `python -m tests.vectors.reader tests/vectors/*.json` checks all.
"""

import base64
import hmac
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KINDS = {"bool": (bool,), "int": (int,), "str": (str,), "date": (str,), "number": (int, float)}
LAYOUTS = {"coins": "value", "keep": "value", "bits": "bits", "subset": "bits", "set": "bits", "hash": "word"}
LAYOUTS |= {"hadamard": "word", "tree": "word", "window": "symbol", "one_bit": "flag"}
THRESHOLDS = {"coins": ["no", "yes"], "keep": ["keep"], "bits": ["p", "q"], "subset": ["p"], "set": ["p"], "tree": []}
THRESHOLDS |= {"hash": ["keep"], "hadamard": ["agree"], "window": ["keep"], "one_bit": ["flip"]}
INTEGERS = {"subset": ["ones"], "set": ["ones"], "hash": ["buckets"], "hadamard": ["columns"]}
INTEGERS |= {"window": ["cells", "window"]}
Code = int | tuple[int, ...]
Blocks = Callable[[Code, int], bytes]


def need(ok: bool, why: str) -> None:
    """Refuse unless ok, by a ValueError whose text never has a value of a person."""
    if not ok:
        raise ValueError(why)


def is_kind(value: Any, kind: str) -> bool:
    """Whether a value that is not null is of a kind of section 2."""
    return isinstance(value, KINDS[kind]) and (kind == "bool" or not isinstance(value, bool))


def integer(params: dict, name: str, low: int = 1, high: int = 2**53 - 1) -> int:
    """The JSON integer of a parameter."""
    need(is_kind(params.get(name), "int") and low <= params[name] <= high, f"{name} is no integer in its range")
    return params[name]


def decimal(text: Any, low: int, end: int) -> int:
    """The integer from low, below end, of a decimal text without a sign or leading zeros."""
    need(isinstance(text, str) and re.fullmatch("0|[1-9][0-9]{0,19}", text) is not None, "no decimal text")
    need(low <= int(text) < end, "a decimal text is out of its range")
    return int(text)


def moment(text: str, days: bool) -> str | None:
    """A day or a time in the form of the labels, or None if there is none such."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.\d{1,9})?Z?)?", text, re.ASCII)
    made = f"{match[1]} {match[2] or '00:00:00'}" if match else ""
    try:  # (Python has no year 0, which is a leap year)
        datetime.fromisoformat(re.sub("^0000", "2000", made))
    except ValueError:
        return None
    return made[: 10 if days else 19]


def number_code(rules: dict, value: float | None) -> int:
    """The code of a number."""
    edges = rules.get("edges") or [rules["low"], rules["high"]]
    low, high, whole = edges[0], edges[-1], rules.get("whole", False)
    first, last = (low + 0.5, high - 0.5) if whole else (low, high)
    if value is None or math.isnan(value):
        value = rules.get("missing")
        need(value is not None, "a null is refused")
    elif rules["unmatched"] == "error":
        need(first <= value <= last and (not whole or value == int(value)), "a number is outside, or not whole")
    x = float(min(max(value, low), high))
    x = min(max(float(round(x)), first), last) if whole else x
    return sum(e <= x for e in edges[1:-1]) if "edges" in rules else round((x - low) * (2**24 / (high - low)))


def item_code(rules: dict, value: Any) -> int:
    """The code of one value that is not a list."""
    kind, labels, unmatched = rules["kind"], rules.get("labels", []), rules["unmatched"]
    need(value is None or is_kind(value, kind), "a value of another kind")
    if kind == "number":
        return number_code(rules, value)
    if kind == "date":
        texts, days = [value, rules.get("missing")], len(rules["end"]) == 10
        texts = [value] if re.search(":.*[+-]", value or "") else texts
        value = next((m for t in texts if t is not None and (m := moment(t, days)) is not None), None)
        code = sum(label <= value for label in labels) - 1 if value is not None else -1
        if value is not None and (unmatched == "clip" or (code >= 0 and value < rules["end"])):
            return max(code, 0)
    elif value is not None and (text := value if kind == "str" else str(value).lower()) in labels:
        return labels.index(text)
    need(unmatched in ("other", "none"), "a value is unmatched")
    return len(labels)


def size(rules: dict) -> int:
    """How many values there are: d."""
    return len(rules["edges"]) - 1 if "edges" in rules else len(rules["labels"]) + (rules["unmatched"] == "other")


def encode(rules: dict, value: Any) -> Code:
    """The code of a value: an integer, or the places of a set."""
    if "most" not in rules:
        return item_code(rules, value)
    need(value is None or isinstance(value, list), "a value of a set is no list")
    codes = list(dict.fromkeys(item_code(rules, item) for item in ([None] if value is None else value)))
    need(len(codes) <= rules["most"] or rules["on_more"] == "first", "a set has too many values")
    codes, d = sorted(codes[: rules["most"]]), size(rules)
    return (*codes, *range(d, d + rules["most"] - len(codes)))


def derive(secret: bytes, *parts: str) -> bytes:
    """A key or fingerprint that is derived from a secret."""
    texts = [part.encode() for part in parts]
    return hmac.digest(secret, b"".join(len(text).to_bytes(8, "big") + text for text in texts), "sha256")


def aes(key: bytes) -> Callable[[int], int]:
    """AES-256 under a key, of blocks as 128-bit little-endian integers."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return lambda block: int.from_bytes(encryptor.update(block.to_bytes(16, "little")), "little")


def id_words(secret: bytes, identity: int | str | bytes) -> int:
    """The two words of an id: I0 + I1*2^64."""
    if isinstance(identity, int):
        need(-(2**63) <= identity < 2**63, "an id is out of range")
        return identity % 2**64
    data = identity.encode() if isinstance(identity, str) else identity
    cipher = aes(derive(secret, "id"))
    state = cipher(len(data))
    for i in range(0, len(data), 16):
        state = cipher(state ^ int.from_bytes(data[i : i + 16], "little"))
    return state


def keyed(secret: bytes, identity: int | str | bytes, *parts: str) -> Blocks:
    """The blocks of keyed noise of an id; parts are the digest, perhaps a tag, and the column's name."""
    need(16 <= len(secret) <= 1024, "a secret is 16 to 1024 bytes")
    words, cipher = id_words(secret, identity), aes(derive(secret, "noise", *parts))
    seeds = aes(derive(secret, "value", *parts))

    def block(code: Code, place: int) -> bytes:
        if isinstance(code, int):
            return cipher(words ^ (code * 2**32 + place) << 64).to_bytes(16, "little")
        seed = words
        for i in range(0, len(code), 4):
            seed = seeds(seed ^ sum(c << 16 * j for j, c in enumerate(code[i : i + 4])) << 64)
        return cipher(seed ^ place << 64).to_bytes(16, "little")

    return block


def accepted(n: int, words: Iterable[int]) -> int:
    """An integer below n from the first word that is not to be drawn again."""
    products = (word % 2**32 * n for word in words)
    return next(t >> 32 for t in products if t % 2**32 >= 2**32 % n)


def cells(level: dict) -> int:
    """The size of a level of a tree."""
    return 2 ** level["head"] * (2 ** level["bits"] - 1 if "polynomial" in level else 1)


class Draw:
    """How the report of a code is drawn: draw_NAME is what the draw NAME makes of a column and of d."""

    def __init__(self, blocks: Blocks, code: Code) -> None:
        self.blocks, self.code = blocks, code

    def block(self, lane: int, level: int, count: int) -> bytes:
        return self.blocks(self.code, lane * 2**28 + level * 2**24 + count)

    def word(self, lane: int, level: int = 0, count: int = 0, i: int = 0) -> int:
        return int.from_bytes(self.block(lane, level, count)[8 * i : 8 * i + 8], "little")

    def lane(self, lane: int) -> int:
        return self.word(lane - lane % 2, i=lane % 2)

    def coin(self, chance: str, lane: int) -> int:
        return int(self.lane(lane) < int(chance))

    def uniform(self, n: int, lane: int) -> int:
        later = (self.word(lane, k % 8, k // 8) for k in itertools.count(1))
        return accepted(n, itertools.chain([self.lane(lane)], later))

    def again(self, n: int, lane: int, s: int) -> int:
        return accepted(n, (self.word(lane, 10, k) for k in itertools.count(256 * s)))

    def kept(self, chance: str, value: int, n: int) -> int:
        return value if self.coin(chance, 0) else self.uniform(n, 1)

    def repaired(self, bits: list[int], fixed: set[int], ones: int) -> list[int]:
        steps = itertools.count()
        while excess := sum(bits) - ones:
            j = self.again(len(bits), 1, next(steps))
            if j not in fixed and bits[j] == (excess > 0):
                bits[j] ^= 1
        return bits

    def draw_coins(self, column: dict, d: int) -> int:
        if int(column["no"]) + int(column["yes"]) == 2**64:
            return self.code ^ self.coin(column["no"], 0)
        return self.coin(column["yes"], 1) if self.code else self.coin(column["no"], 0)

    def draw_keep(self, column: dict, d: int) -> int:
        return self.kept(column["keep"], self.code, d)

    def draw_bits(self, column: dict, d: int) -> list[int]:
        bits = []
        for j in range(d):
            head, rest = divmod(int(column["p" if j == self.code else "q"]), 2**56)
            b = self.block(0, 8, j // 16)[j % 16]
            bits.append(int(b < head or (b == head and self.word(0, 9, j) >> 8 < rest)))
        return bits

    def draw_subset(self, column: dict, d: int) -> list[int]:
        c, ones = self.code, column["ones"]
        if "q" in column:
            return self.repaired(self.draw_bits(column, d), {c}, ones)
        own = self.coin(column["p"], 0)
        r = self.uniform(math.comb(d - 1, ones - own), 2 if own else 3)
        w = [w for w in range(2 ** (d - 1)) if w.bit_count() == ones - own][r]
        others = [w >> j & 1 for j in range(d - 1)]
        return [*others[:c], own, *others[c:]]

    def draw_set(self, column: dict, d: int) -> list[int]:
        places, m, ones, r = self.code, len(self.code), column["ones"], 0
        total = d + m
        if not self.coin(column["p"], 0):
            return self.repaired([0] * total, set(places), ones)
        for s in itertools.count(0, m):
            r = self.again(m, 3, s)
            if ones == 1 or all(self.again(total - 1 - b, 3, s + 1 + b) < total - ones - b for b in range(r)):
                break
        return self.repaired([int(j == places[r]) for j in range(total)], set(places[: r + 1]), ones)

    def draw_hash(self, column: dict, d: int) -> int:
        c, g, prime = self.code, column["buckets"], column.get("prime")
        if prime is not None:
            a, b = self.uniform(prime, 2), self.uniform(prime, 3)
            f, v = a * 2**24 + b, (a * c + b) % prime * g // prime
        else:
            f = self.uniform(column["functions"], 2)
            v = sum((f // g**i) % g * (c // g**i % g) for i in range(32)) % g
        return self.kept(column["keep"], v, g) * 2**48 + f

    def draw_hadamard(self, column: dict, d: int) -> int:
        a, y = self.coin(column["agree"], 0), self.uniform(column["columns"], 1)
        r = self.code + 1 if self.code < d else 0
        return y ^ (r & -r) if (r & y).bit_count() % 2 == a else y

    def draw_one_bit(self, column: dict, d: int) -> int:
        return (self.code + self.uniform(2**24, 15)) // 2**24 ^ self.coin(column["flip"], 14)

    def draw_window(self, column: dict, d: int) -> int:
        cells, window, buckets = column["cells"], column["window"], column.get("buckets")
        if not self.coin(column["keep"], 14):
            return self.uniform(cells, 13)
        if buckets is None:
            first = (self.code * (cells - window) + self.uniform(2**24, 15)) // 2**24
        else:
            first = min((self.code * buckets + buckets // 2) // 2**24, buckets - 1)
        return first + self.uniform(window, 12)

    def draw_tree(self, column: dict, d: int) -> int:
        u, levels = Draw(self.blocks, 0).uniform(1024, 0), column["levels"]
        i = next(i for i, end in enumerate(itertools.accumulate(column["shares"])) if u < end)
        bits, head, favored, polynomial = (levels[i].get(name) for name in ("bits", "head", "favored", "polynomial"))
        start = sum(map(cells, levels[:i]))
        x = self.code >> (len(levels) - bits)
        node, e = Draw(self.blocks, x), 0
        near = node.coin(levels[i]["p"], 0)
        y = node.uniform(favored, 1) if near else favored + node.uniform(2**head - favored, 2)
        if polynomial is None:
            return start + (y ^ x)
        for t, element in enumerate(levels[i]["basis"]):
            e ^= element if x >> t & 1 else 0
        a = node.uniform(2**bits - 1, 3)
        for _ in range(a):
            e = e << 1 ^ (polynomial if e >> (bits - 1) & 1 else 0)
        return start + a * 2**head + (y ^ e >> (bits - head))


def texts(rules: dict) -> list[Any]:
    """What a report of the layout `value` can be, by code."""
    if rules["kind"] == "bool" and rules["unmatched"] != "other":
        return [label == "true" for label in rules["labels"]]
    return rules["labels"] + ["other"] * (rules["unmatched"] == "other")


def report(
    plan: dict, name: str, secret: bytes, identity: int | str | bytes, value: Any, tag: str | None = None
) -> Any:
    """The keyed report, in JSON, of a value of a column of a checked plan."""
    column = plan["columns"][name]
    rules, layout = column["input"], column["report"]["layout"]
    blocks = keyed(secret, identity, column["digest"], *([] if tag is None else [tag]), name)
    d = 0 if layout in ("flag", "symbol") else size(rules)
    drawn = getattr(Draw(blocks, encode(rules, value)), f"draw_{column['draw']}")(column, d)
    if layout == "bits":
        packed = sum(bit << j for j, bit in enumerate(drawn)).to_bytes((len(drawn) + 7) // 8, "little")
        return base64.b64encode(packed).decode()
    if layout == "value":
        return texts(rules)[drawn]
    return {"word": str, "symbol": int, "flag": bool}[layout](drawn)


def check_input(rules: Any) -> None:
    """Refuse an input that breaks a rule of section 2."""
    need(isinstance(rules, dict) and rules.get("kind") in list(KINDS), "unknown kind")
    kind, labels, missing, allowed = (
        rules["kind"],
        rules.get("labels"),
        rules.get("missing"),
        ["error", "other", "none"],
    )
    if kind == "number":
        allowed = ["clip", "error"]
        edges = rules.get("edges", [rules.get("low"), rules.get("high")])
        need(isinstance(edges, list) and all(is_kind(e, kind) and math.isfinite(e) for e in edges), "no edges")
        need(edges == sorted(set(edges)) and (missing is None or is_kind(missing, kind)), "bad edges or missing")
        need(missing is None or edges[0] <= missing <= edges[-1], "missing is outside")
        length = edges[-1] - edges[0]
        need("edges" in rules or 2**24 / sys.float_info.max <= length < math.inf, "too near or far")
        whole = rules.get("whole", False)
        need(isinstance(whole, bool) and (not whole or "edges" not in rules), "a bad whole")
        need(not whole or all(e % 1 == 0.5 and abs(e) <= 2**24 + 0.5 for e in edges), "ends that are not between")
    else:
        need(isinstance(labels, list) and all(isinstance(label, str) for label in labels), "labels are no texts")
        need(len(set(labels)) == len(labels), "labels are not different")
        need(rules.get("unmatched") != "other" or "other" not in labels, "other is a label, too")
        form = {"bool": "true|false", "int": "0|-?[1-9][0-9]*"}.get(kind, r"(?s:.*)")
        need(all(re.fullmatch(form, label) for label in labels), "labels that are not of the kind")
    if kind == "date":
        allowed.append("clip")
        ends, days = [*labels, rules.get("end")], len(str(rules.get("end"))) == 10
        need(all(isinstance(x, str) and moment(x, days) == x for x in ends) and sorted(set(ends)) == ends, "bad dates")
        need(
            missing is None or (isinstance(missing, str) and ends[0] <= (moment(missing, days) or "") < ends[-1]),
            "outside",
        )
    need(rules.get("unmatched") in allowed, "unknown unmatched")
    need((kind == "number" and "edges" not in rules) or size(rules) >= 2, "fewer than 2 values")
    if "most" in rules:
        need(kind != "date" and integer(rules, "most") and rules.get("on_more") in ("error", "first"), "bad on_more")


def check_tree(levels: Any, shares: Any, d: int) -> None:
    """Refuse a bad tree."""
    need(isinstance(levels, list) and isinstance(shares, list) and len(shares) == len(levels) <= 16, "bad levels")
    need(all(is_kind(x, "int") and x >= 0 for x in shares) and sum(shares) == 1024, "shares do not add up")
    need(2 ** len(levels) >= d and all(isinstance(level, dict) for level in levels), "bad levels")
    for bits, level in enumerate(levels, 1):
        integer(level, "bits", bits, bits)
        integer(level, "favored", 1, 2 ** integer(level, "head", 1, bits) - 1)
        decimal(level.get("p"), 1, 2**64)
        need("polynomial" in level or level["head"] == bits, "a level without a polynomial")
        if "polynomial" in level:
            integer(level, "polynomial", 2**bits, 2 ** (bits + 1) - 1)
            basis = level.get("basis")
            need(isinstance(basis, list) and len(basis) == bits, "a basis is not of its bits")
            need(all(is_kind(x, "int") and 0 < x < 2**bits for x in basis), "a basis is too large")


def check_column(column: Any) -> None:
    """Refuse a column that breaks a rule of the page."""
    need(isinstance(column, dict) and re.fullmatch("[0-9a-f]{64}", str(column.get("digest"))) is not None, "bad digest")
    kind, shape = column.get("draw"), column.get("report")
    need(isinstance(kind, str) and kind in LAYOUTS, "unknown draw")
    need(isinstance(shape, dict) and shape.get("layout") == LAYOUTS[kind], "a layout that is not of the draw")
    chances = [decimal(column.get(name), 1, 2**64) for name in THRESHOLDS[kind]]
    integers = {name: integer(column, name) for name in INTEGERS.get(kind, [])}
    check_input(column.get("input"))
    rules = column["input"]
    scaled = rules["kind"] == "number" and "edges" not in rules
    need(scaled == (kind in ("one_bit", "window")) and ("most" in rules) == (kind == "set"), "an input not of the draw")
    need(rules["unmatched"] != "none" or kind in ("bits", "hash", "hadamard"), "none is not for this draw")
    need("edges" not in rules or kind == "tree", "edges are for trees")
    d = 0 if scaled else size(rules)
    need(kind != "coins" or (d == 2 and chances[0] < chances[1]), "coins are of 2 values, no below yes")
    need(kind != "bits" or chances[0] > chances[1], "p is not above q")
    if kind in ("subset", "set"):
        most = min(d, (d + rules["most"] + 1) // 2) if kind == "set" else d - 1
        need(integers["ones"] <= most, "too many ones")
        need(kind == "set" or (decimal(column["q"], 1, 2**64) > 0 if "q" in column else d <= 18), "no q")
    elif kind == "hash":
        n, g = d + (rules["unmatched"] == "none"), integer(column, "buckets", 2, 2**16)
        need(("prime" in column) != ("functions" in column), "one of prime and functions")
        if "prime" in column:
            integer(column, "prime", n, 2**24)
        else:
            need(integer(column, "functions", n, 2**31) in [g**i for i in range(1, 32)], "functions are no power")
    elif kind == "hadamard":
        need(integer(column, "columns", d + 1, 2**31).bit_count() == 1, "columns are no power of 2")
    elif kind == "window":
        need(
            column["window"] <= column["cells"] - (integer(column, "buckets") - 1 if "buckets" in column else 0), "wide"
        )
    elif kind == "tree":
        check_tree(column.get("levels"), column.get("shares"), d)
    if shape["layout"] == "bits":
        need(integer(shape, "length") == d + rules.get("most", 0), "length is not d")
        need(shape["length"] <= {"subset": 2**24, "set": 2**16}.get(kind, math.inf), "too many places")
    elif shape["layout"] == "word":
        ends = {"hash": lambda: integers["buckets"] << 48, "hadamard": lambda: integers["columns"]}
        limit = ends.get(kind, lambda: sum(map(cells, column["levels"])))()
        need(decimal(shape.get("limit"), 1, 2**64) == limit, "another limit")
    elif shape["layout"] == "symbol":
        need(integer(shape, "limit", 1, 2**16) == integers["cells"], "another limit")


def check(plan: Any) -> None:
    """Refuse a compiled plan that breaks a rule of the page."""
    need(isinstance(plan, dict) and integer(plan, "ldp_plan", 1, 1) == 1, "no version 1")
    need(isinstance(plan.get("fingerprint"), str) and isinstance(plan.get("keep"), list), "no fingerprint or keep")
    need(all(isinstance(name, str) for name in plan["keep"]), "keep has no names")
    need(isinstance(plan.get("columns"), dict) and len(plan["columns"]) > 0, "no columns")
    names = [*plan["keep"], *plan["columns"]]
    need(len(set(names)) == len(names), "a column twice")
    for column in plan["columns"].values():
        check_column(column)


def read(column: dict, value: Any) -> None:
    """Refuse what is no report of a column."""
    shape, end = column["report"], column["report"].get("limit")
    if shape["layout"] == "bits":
        need(isinstance(value, str), "no text")
        data = base64.b64decode(value, validate=True)
        bits = int.from_bytes(data, "little")
        need(base64.b64encode(data).decode() == value and len(data) == (shape["length"] + 7) // 8, "a wrong length")
        need(bits >> shape["length"] == 0, "bits from length on")
        need(column["draw"] == "bits" or bits.bit_count() == column["ones"], "another number of ones")
    elif shape["layout"] == "value":
        need(any(type(value) is type(text) and value == text for text in texts(column["input"])), "no label")
    elif shape["layout"] == "word":
        decimal(value, 0, int(end))
    else:
        flag = shape["layout"] == "flag"
        need(isinstance(value, bool) if flag else is_kind(value, "int") and 0 <= value < end, "no flag, or no symbol")


def from_text(kind: str, value: Any) -> Any:
    """A value of a vector: of the kind int it is decimal text there, in lists too."""
    if isinstance(value, list):
        return [from_text(kind, item) for item in value]
    return int(value) if kind == "int" and isinstance(value, str) and re.fullmatch("-?[0-9]+", value) else value


def equal(vector: dict) -> int:
    """How many reports of a vector are equal to ours."""
    check(vector["plan"])
    ((name, column),) = vector["plan"]["columns"].items()
    secret, count = bytes.fromhex(vector["secret"]), 0
    need(derive(secret, "fingerprint")[:8].hex() == vector["secret_fingerprint"], "another fingerprint")
    for text, raw, theirs in zip(vector["ids"], vector["values"], vector["reports"], strict=True):
        identity = {"integer": int, "text": str, "bytes": bytes.fromhex}[vector["id_kind"]](text)
        read(column, theirs)
        value = from_text(column["input"]["kind"], raw)
        count += report(vector["plan"], name, secret, identity, value, vector["tag"]) == theirs
    return count


def is_refused(case: dict) -> bool:
    """Whether a case of bad.json is refused: what it is of, and not the plan that it needs."""
    try:
        check(case["plan"])
    except ValueError:
        return case["operation"] == "plan"
    ((name, column),) = case["plan"]["columns"].items()
    try:
        if case["operation"] == "perturb":
            report(case["plan"], name, bytes(32), 0, from_text(column["input"]["kind"], case["value"]))
        elif case["operation"] == "read":
            read(column, case["report"])
    except ValueError:
        return True
    return False


def main() -> None:
    """Say per file how many reports are equal, or cases refused."""
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if isinstance(content, list):
            said = f"{sum(map(is_refused, content))} of {len(content)} refused"
        else:
            said = f"{equal(content)} of {len(content['reports'])} equal"
        sys.stdout.write(f"{path}: {said}\n")


if __name__ == "__main__":
    main()
