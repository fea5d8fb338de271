"""A second client, written from docs/wire.md alone: it uses none of our code. Slow and plain on purpose."""

from __future__ import annotations

import base64
import hmac
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, count
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

Noise = Callable[[int, int], bytes]


class RefusedError(ValueError):
    """What a client must refuse."""


ONE = 1 << 64
NEEDS = {
    "coins": ("no", "yes"), "keep": ("keep",), "bits": ("p", "q"), "subset": ("p",), "hash": ("keep",),
    "hadamard": ("agree",), "one_bit": ("flip",), "window": ("keep",), "tree": (),
}  # fmt: skip


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
    if len({*labels}) < len(labels) or d < 2:
        raise RefusedError("labels")
    return d


def column_of(plan: Mapping[str, Any]) -> tuple[str, Any]:
    """The one column of a plan that is checked."""
    if plan.get("ldp_plan") != 1 or not plan["columns"]:
        raise RefusedError("version or columns")
    [(name, column)] = plan["columns"].items()
    if column["draw"] not in NEEDS or len(column["digest"]) != 64:
        raise RefusedError("draw or digest")
    t = {key: threshold(column[key]) for key in NEEDS[column["draw"]]}
    d = values_in(column["input"])
    if column["draw"] == "bits" and (t["p"] <= t["q"] or column["report"]["length"] != d):
        raise RefusedError("bits")
    return name, column


def code_of(given: Mapping[str, Any], value: Any) -> int:
    """Section 2."""
    if given["kind"] != "number":
        kind = {"bool": bool, "int": str, "str": str}[given["kind"]]  # (integers are text in vectors)
        if value is not None and type(value) is not kind:
            raise RefusedError("kind")
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else value
        if text in given["labels"]:
            return int(given["labels"].index(text))
        if given["unmatched"] == "error":
            raise RefusedError("not declared")
        return len(given["labels"])
    edges = given.get("edges", (given.get("low"), given.get("high")))
    x = given.get("missing") if value is None else value
    if not isinstance(x, (int, float)):
        raise RefusedError("no number")
    if given["unmatched"] == "clip":
        x = min(max(x, edges[0]), edges[-1])
    if not edges[0] <= x <= edges[-1]:
        raise RefusedError("outside")
    if "edges" in given:
        return sum(edge <= x for edge in edges[1:-1])
    return round((x - edges[0]) * (2**24 / (edges[1] - edges[0])))


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
    e = cipher(derive("noise", digest, *([] if tag is None else [tag]), column))

    def block(code: int, place: int) -> bytes:
        return e(words[0].to_bytes(8, "little") + (words[1] ^ (code << 32 | place)).to_bytes(8, "little"))

    return block


def place(lane: int, level: int = 0, number: int = 0) -> int:
    return lane << 28 | level << 24 | number


def word(block: bytes, i: int) -> int:
    return int.from_bytes(block[8 * i : 8 * i + 8], "little")


class Drawer:
    """Section 4, for one code."""

    def __init__(self, noise: Noise, code: int) -> None:
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
    row = draw.bits(p, int(m["q"]), d)
    for step in count():
        if sum(row) == ones:
            return row
        j = draw.again(d, 1, step)
        if j != c and row[j] == (sum(row) > ones):
            row[j] ^= 1
    raise AssertionError


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


def drawn(noise: Noise, m: Mapping[str, Any], c: int) -> Any:
    """Sections 4 and 5: a report in JSON."""
    given, draw, d = m["input"], Drawer(noise, c), values_in(m["input"])
    match m["draw"]:
        case "coins":
            no, yes = int(m["no"]), int(m["yes"])
            v = c ^ draw.coin(no, 0) if no + yes == ONE else draw.coin(yes, 1) if c else draw.coin(no, 0)
        case "keep":
            v = draw.kept(int(m["keep"]), c, d)
        case "bits" | "subset":
            row = draw.bits(int(m["p"]), int(m["q"]), d) if m["draw"] == "bits" else subset(draw, m, d)
            packed = sum(bit << j for j, bit in enumerate(row)).to_bytes(-(-d // 8), "little")
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
