"""A second client, written from docs/wire.md alone: it uses none of our code. Slow and plain on purpose."""

from __future__ import annotations

import base64
import hmac
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import accumulate, count
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

Code = int | tuple[int, ...]
Noise = Callable[[Code, int], bytes]


class RefusedError(ValueError):
    """What a client must refuse."""


ONE = 1 << 64
NEEDS = {
    "coins": ("no", "yes"), "keep": ("keep",), "bits": ("p", "q"), "subset": ("p",), "hash": ("keep",),
    "hadamard": ("agree",), "one_bit": ("flip",), "window": ("keep",), "tree": (),
    "set": ("p",),
}  # fmt: skip
ALSO = {"hash": ("buckets",), "tree": ("levels", "shares")}


def threshold(text: Any) -> int:
    """Section 1."""
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and text[0] != "0" and int(text) < ONE):
        raise RefusedError("not a threshold")
    return int(text)


def values_in(given: Mapping[str, Any]) -> int:
    """d; section 2."""
    if given["kind"] == "number":
        return len(given.get("edges", (0, 1))) - 1
    labels = given["labels"]
    d = len(labels) + (given["unmatched"] == "other")
    if len({*labels}) < len(labels) or d < 2 or given["kind"] not in ("bool", "int", "str", "date"):
        raise RefusedError("labels or kind")
    if given["kind"] == "date" and not labels[-1] < (given.get("end") or ""):
        raise RefusedError("end")
    return d


def column_of(plan: Mapping[str, Any]) -> tuple[str, Any]:
    """The one column of a plan that is checked."""
    if plan.get("ldp_plan") != 1 or not plan["columns"]:
        raise RefusedError("version or columns")
    [(name, column)] = plan["columns"].items()
    if column["draw"] not in NEEDS or len(column["digest"]) != 64:
        raise RefusedError("draw or digest")
    if any(key not in column for key in (*NEEDS[column["draw"]], *ALSO.get(column["draw"], ()))):
        raise RefusedError("missing")
    t = {key: threshold(column[key]) for key in NEEDS[column["draw"]]}
    d = values_in(column["input"])
    if column["draw"] == "bits" and (t["p"] <= t["q"] or column["report"]["length"] != d):
        raise RefusedError("bits")
    if column["draw"] == "set":
        most = column["input"].get("most", 0)
        if type(most) is not int or most < 1 or column["ones"] > d or column["report"]["length"] != d + most:
            raise RefusedError("set")
    return name, column


def code_of(given: Mapping[str, Any], value: Any) -> Code:
    """Section 2."""
    if "most" not in given:
        return single(given, value)
    if not (value is None or isinstance(value, list)):
        raise RefusedError("no list")
    items = list(dict.fromkeys(single(given, item) for item in ([None] if value is None else value)))
    if len(items) > given["most"] and given["on_more"] != "first":
        raise RefusedError("too many")
    items = sorted(items[: given["most"]])
    return *items, *(values_in(given) + j for j in range(given["most"] - len(items)))


def single(given: Mapping[str, Any], value: Any) -> int:
    """A value that is no list."""
    if given["kind"] != "number":
        kind = {"bool": bool, "int": str, "str": str, "date": str}[given["kind"]]  # (integers are text in vectors)
        if value is not None and type(value) is not kind:
            raise RefusedError("kind")
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else value
        text = begun(given, value) if given["kind"] == "date" else text
        if text in given["labels"]:
            return int(given["labels"].index(text))
        if given["unmatched"] in ("error", "clip"):
            raise RefusedError("not declared")
        return len(given["labels"])
    edges = given.get("edges", (given.get("low"), given.get("high")))
    x = given.get("missing") if value is None else value
    if not isinstance(x, (int, float)):
        raise RefusedError("no number")
    if given["unmatched"] == "clip":
        x = min(max(x, edges[0]), edges[-1])
    if not edges[0] <= x <= edges[-1] or (
        value is not None and given["unmatched"] == "error" and given.get("whole") and x % 1
    ):
        raise RefusedError("outside")
    if given.get("whole"):
        x = min(max(round(x), edges[0] + 0.5), edges[-1] - 0.5)
    if "edges" in given:
        return sum(edge <= x for edge in edges[1:-1])
    return round((x - edges[0]) * (2**24 / (edges[1] - edges[0])))


def begun(given: Mapping[str, Any], value: Any) -> str | None:
    """The label of the cell of a date."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(?:\.\d+)?Z?)?", value or "")
    text = given.get("missing")
    with suppress(ValueError, AttributeError, TypeError):
        text = str(datetime.fromisoformat(f"{found[1]} {found[2] or '00:00:00'}"))[: len(given["end"])]  # type: ignore[index]
    if text is None or (given["unmatched"] != "clip" and not given["labels"][0] <= text < given["end"]):
        return None
    return [given["labels"][0], *(label for label in given["labels"] if label <= text)][-1]


def keyed(secret: bytes, digest: str, column: str, tag: str | None, given: Any) -> Noise:
    """Section 3."""

    def derive(*parts: str) -> bytes:
        coded = (part.encode() for part in parts)
        return hmac.digest(secret, b"".join(len(part).to_bytes(8, "big") + part for part in coded), "sha256")

    def cipher(key: bytes) -> Callable[[bytes], bytes]:
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update

    if isinstance(given, int):
        words = given % ONE, 0
    else:
        data, e = given.encode(), cipher(derive("id"))
        state = e(len(data).to_bytes(8, "little") + bytes(8))
        for at in range(0, len(data), 16):
            part = data[at : at + 16].ljust(16, b"\0")
            state = e(bytes(a ^ b for a, b in zip(state, part, strict=True)))
        words = word(state, 0), word(state, 1)
    name = [*([] if tag is None else [tag]), column]
    e, of_value = cipher(derive("noise", digest, *name)), cipher(derive("value", digest, *name))

    def block(code: Code, place: int) -> bytes:
        high, low = words
        if isinstance(code, tuple):
            packed = b"".join(number.to_bytes(2, "little") for number in code)
            for at in range(0, len(packed), 8):
                low ^= int.from_bytes(packed[at : at + 8], "little")
                seed = of_value(high.to_bytes(8, "little") + low.to_bytes(8, "little"))
                high, low = word(seed, 0), word(seed, 1)
        else:
            low ^= code << 32
        return e(high.to_bytes(8, "little") + (low ^ place).to_bytes(8, "little"))

    return block


def place(lane: int, level: int = 0, number: int = 0) -> int:
    return lane << 28 | level << 24 | number


def word(block: bytes, i: int) -> int:
    return int.from_bytes(block[8 * i : 8 * i + 8], "little")


class Drawer:
    """Section 4, for one code."""

    def __init__(self, noise: Noise, code: Any) -> None:
        self.noise, self.c = noise, code

    def lane(self, number: int) -> int:
        return word(self.noise(self.c, place(number - number % 2)), number % 2)

    def coin(self, t: int, lane: int) -> int:
        return int(self.lane(lane) < t)

    def _scaled(self, n: int, words: Iterator[int]) -> int:
        for w in words:
            t = w % 2**32 * n
            if t % 2**32 >= 2**32 % n:
                return t >> 32
        raise AssertionError

    def uniform(self, n: int, lane: int) -> int:
        later = (word(self.noise(self.c, place(lane, k % 8, k // 8)), 0) for k in count(1))
        return self._scaled(n, (self.lane(lane) if w is None else w for w in _chained(None, later)))

    def again(self, n: int, lane: int, step: int) -> int:
        return self._scaled(n, (word(self.noise(self.c, place(lane, 10, 256 * step + k)), 0) for k in count()))

    def kept(self, t: int, v: int, n: int) -> int:
        return v if self.coin(t, 0) else self.uniform(n, 1)

    def bits(self, p: int, q: int, d: int) -> list[int]:
        out = []
        for j in range(d):
            h, r = divmod(p if j == self.c else q, 1 << 56)
            b = self.noise(self.c, place(0, 8, j // 16))[j % 16]
            tie = b == h and r > 0 and word(self.noise(self.c, place(0, 9, j)), 0) >> 8 < r
            out.append(int(b < h or tie))
        return out


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def subset(draw: Drawer, m: Mapping[str, Any], d: int) -> list[int]:
    p, ones, c = int(m["p"]), m["ones"], draw.c
    if "q" not in m:
        o = draw.coin(p, 0)
        r = draw.uniform(math.comb(d - 1, ones - o), 2 if o else 3)
        w = [x for x in range(1 << (d - 1)) if x.bit_count() == ones - o][r]
        row = [w >> j & 1 for j in range(d - 1)]
        return [*row[:c], o, *row[c:]]
    return repaired(draw, draw.bits(p, int(m["q"]), d), ones, (c,))


def repaired(draw: Drawer, row: list[int], ones: int, settled: Sequence[int]) -> list[int]:
    for step in count():
        if sum(row) == ones:
            return row
        j = draw.again(len(row), 1, step)
        if j not in settled and row[j] == (sum(row) > ones):
            row[j] ^= 1
    raise AssertionError


def set_of(draw: Drawer, m: Mapping[str, Any], d: int) -> list[int]:
    ones, most = m["ones"], len(draw.c)
    row, settled = [0] * (d + most), draw.c
    if draw.coin(int(m["p"]), 0):
        r = next(r for s in count(0, most) if (r := first_met(draw, ones, d + most, s)) is not None)
        row[draw.c[r]], settled = 1, draw.c[: r + 1]
    return repaired(draw, row, ones, settled)


def first_met(draw: Drawer, ones: int, places: int, step: int) -> int | None:
    r = draw.again(len(draw.c), 3, step)
    missed = (draw.again(places - 1 - b, 3, step + 1 + b) < places - ones - b for b in range(r))
    return r if ones == 1 or all(missed) else None


_SETS = {"subset": subset, "set": set_of}


def hashed(draw: Drawer, m: Mapping[str, Any]) -> int:
    g, v = m["buckets"], 0
    if "prime" in m:
        a, b = draw.uniform(m["prime"], 2), draw.uniform(m["prime"], 3)
        f, v = a << 24 | b, (a * draw.c + b) % m["prime"] * g // m["prime"]
    else:
        f = draw.uniform(m["functions"], 2)
        left, right = f, draw.c
        while right:
            v, left, right = v + left % g * (right % g), left // g, right // g
        v %= g
    return draw.kept(int(m["keep"]), v, g) << 48 | f


def hadamard(draw: Drawer, m: Mapping[str, Any], d: int) -> int:
    a, y = draw.coin(int(m["agree"]), 0), draw.uniform(m["columns"], 1)
    r = 0 if draw.c >= d else draw.c + 1
    return y ^ (r & -r) if (r & y).bit_count() % 2 == a else y


def window(draw: Drawer, m: Mapping[str, Any]) -> int:
    cells, w = m["cells"], m["window"]
    if "buckets" in m:
        f = min(draw.c * m["buckets"] + m["buckets"] // 2 >> 24, m["buckets"] - 1)
    else:
        f = draw.c * (cells - w) + draw.uniform(2**24, 15) >> 24
    return f + draw.uniform(w, 12) if draw.coin(int(m["keep"]), 14) else draw.uniform(cells, 13)


def tree(draw: Drawer, m: Mapping[str, Any]) -> int:
    u = Drawer(draw.noise, 0).uniform(1024, 0)
    at = next(i for i, total in enumerate(accumulate(m["shares"])) if u < total)
    sizes = [((1 << x["bits"]) - 1 if "polynomial" in x else 1) << x["head"] for x in m["levels"]]
    level, first = m["levels"][at], sum(sizes[:at])
    bits, head, favored = level["bits"], level["head"], level["favored"]
    x = draw.c >> (len(m["levels"]) - bits)
    draw = Drawer(draw.noise, x)
    inside = draw.coin(int(level["p"]), 0)
    y = draw.uniform(favored, 1) if inside else favored + draw.uniform((1 << head) - favored, 2)
    if "polynomial" not in level:
        return first + (y ^ x)
    a, e = draw.uniform((1 << bits) - 1, 3), 0
    for t, element in enumerate(level["basis"]):
        e ^= element * (x >> t & 1)
    for _ in range(a):
        e <<= 1
        e ^= level["polynomial"] * (e >> bits)
    return first + (a << head) + (y ^ e >> (bits - head))


def drawn(noise: Noise, m: Mapping[str, Any], c: Any) -> Any:
    """Sections 4 and 5: a report in JSON."""
    given, draw, d = m["input"], Drawer(noise, c), values_in(m["input"])
    match m["draw"]:
        case "coins":
            no, yes = int(m["no"]), int(m["yes"])
            v = c ^ draw.coin(no, 0) if no + yes == ONE else draw.coin(yes, 1) if c else draw.coin(no, 0)
        case "keep":
            v = draw.kept(int(m["keep"]), c, d)
        case "bits" | "subset" | "set":
            row = draw.bits(int(m["p"]), int(m["q"]), d) if m["draw"] == "bits" else _SETS[m["draw"]](draw, m, d)
            packed = sum(bit << j for j, bit in enumerate(row)).to_bytes(-(-len(row) // 8), "little")
            return base64.b64encode(packed).decode()
        case "hash":
            return str(hashed(draw, m))
        case "hadamard":
            return str(hadamard(draw, m, d))
        case "one_bit":
            return bool((c + draw.uniform(2**24, 15) >> 24) ^ draw.coin(int(m["flip"]), 14))
        case "window":
            return window(draw, m)
        case _:
            return str(tree(draw, m))
    label = [*given["labels"], "other"][v]
    return label == "true" if given["kind"] == "bool" and given["unmatched"] != "other" else label


def reports(vector: Mapping[str, Any]) -> Iterator[Any]:
    """Section 6."""
    name, column = column_of(vector["plan"])
    for given, value in zip(vector["ids"], vector["values"], strict=True):
        mine = int(given) if vector["id_kind"] == "integer" else given
        noise = keyed(bytes.fromhex(vector["secret"]), column["digest"], name, vector["tag"], mine)
        yield drawn(noise, column, code_of(column["input"], value))


def refused(case: Mapping[str, Any]) -> None:
    """Raise `RefusedError` for what bad.json says of plans and values."""
    _, column = column_of(case["plan"])
    if case["operation"] == "perturb":
        code_of(column["input"], case["value"])
