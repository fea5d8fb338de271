"""Heavy hitters: the 50 most frequent of 10^6 strings; ours, PEM over OLH as in its paper, and pure-ldp's protocols.

``python -m benchmarks.heavy_hitters`` prints the tables of docs/heavy_hitters.md, in Markdown. pure-ldp is the extra
``peers``, where installed. Seconds are of the processor, so that other work on the machine counts less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.peers import apple_cms, installed
from benchmarks.simulation import Table, print_tables
from ldp_core import HeavyHitters, LocalHashing, Prefixes
from ldp_core.mechanisms.oracles.local_hashing import FUNCTION, PRIME

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
STRINGS = 1_000_000
TOPS = (10, 20, 50)
K, M = 256, 1024  # rows and width of pure-ldp's sketch


# ---- the population


class Population(NamedTuple):
    values: pa.Array
    numbers: np.ndarray  # int64[n]: of the values, among all strings of the full length
    ranked: np.ndarray  # numbers in order of their true counts
    alphabet: str
    length: int

    def top(self, k: int) -> list[str]:
        return [text(int(number), self.alphabet, self.length) for number in self.ranked[:k]]

    def binary(self, bits: int) -> list[str]:
        return [format(number, f"0{bits}b") for number in self.numbers.tolist()]


def population(n: int, alphabet: str, length: int, seed: int = 1) -> Population:
    """n draws from 10^6 strings, the i-th most frequent with a probability like i^-1.1."""
    rng = np.random.default_rng(seed)
    size = len(alphabet) ** length
    strings = min(STRINGS, size)
    numbers = rng.permutation(size)[:strings] if size < 1 << 24 else np.unique(rng.integers(0, size, strings))
    numbers = rng.permutation(numbers)
    shares = np.arange(1, len(numbers) + 1) ** -1.1
    counts = rng.multinomial(n, shares / shares.sum())
    of_person = rng.permutation(np.repeat(numbers, counts))
    bytes_ = np.frombuffer(alphabet.encode(), np.uint8)
    digits = [of_person // len(alphabet) ** place % len(alphabet) for place in reversed(range(length))]
    data = np.ascontiguousarray(np.stack([bytes_[digit] for digit in digits], axis=1))
    offsets = np.arange(0, length * (n + 1), length, dtype=np.int32)
    values = pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(data))
    return Population(values, of_person, numbers[np.argsort(-counts, kind="stable")], alphabet, length)


def text(number: int, alphabet: str, length: int) -> str:
    return "".join(alphabet[number // len(alphabet) ** place % len(alphabet)] for place in reversed(range(length)))


def recall(true: list[str], found) -> float:
    return len(set(true) & set(found)) / len(true)


def ncr(true: list[str], found: Sequence[str]) -> float:
    """Normalized cumulative rank (Wang, Li, Jha 2021): the most frequent of k is worth k, the last one 1."""
    k = len(true)
    return sum(k - true.index(value) for value in set(true) & set(found)) / (k * (k + 1) / 2)


# ---- PEM over OLH, as in the paper


def measure_pem_over_olh(people: Population, epsilon: float, levels: tuple[int, ...]) -> Measured:
    """A group of persons a level; all reports are kept, and each candidate is hashed under each report."""
    base, groups = len(people.alphabet), np.array_split(people.numbers, len(levels))  # (they are in random order)
    prefixes = [group // base ** (people.length - level) for group, level in zip(groups, levels, strict=True)]
    oracles = [LocalHashing(range(base**level), epsilon=epsilon) for level in levels]
    _ = [oracle.perturb([0]) for oracle in oracles]
    start = time.process_time()
    reports = [oracle.perturb(some) for oracle, some in zip(oracles, prefixes, strict=True)]
    perturbed = time.process_time()
    kept, last = np.zeros(1, np.uint64), 0
    for level, column in zip(levels, reports, strict=True):
        found, counts = supporters(
            np.asarray(column), kept, LocalHashing(range(base ** (level - last)), epsilon=epsilon)
        )
        kept, last = found[np.argsort(-counts, kind="stable")[: 2 * max(TOPS)]], level
    search = time.process_time() - perturbed
    ranked = [text(number, people.alphabet, people.length) for number in kept[: max(TOPS)].tolist()]
    return measured(people, ranked, (perturbed - start) / len(people.values), 0.0, search, 8 * len(people.values))


def supporters(reports: np.ndarray, prefixes: np.ndarray, oracle: LocalHashing) -> tuple[np.ndarray, np.ndarray]:
    """All values that begin with one of the prefixes, and how many reports support each.

    A report's function is a, b: v has the hash of a v + b modulo P. So x + i has under it the hash that i has under
    a, a x + b, and ``oracle``, which is over i only, counts.
    """
    d, groups = np.uint64(oracle.domain.size), np.zeros(len(reports), np.int64)
    a, b = (reports & FUNCTION) >> np.uint64(24), reports & np.uint64((1 << 24) - 1)
    counts = [
        oracle.count_reports(reports - b + (a * first + b) % np.uint64(PRIME), groups, 1)[0] for first in prefixes * d
    ]
    values = prefixes[:, None] * d + np.arange(d, dtype=np.uint64)
    return values.reshape(-1), np.concatenate(counts)


# ---- the peer


class Made(NamedTuple):
    client: object
    server: object
    bits: int | None  # of its texts; None: they are the strings themselves
    tally_bytes: int


def sketch(epsilon: float, rows: int):
    """Client and server of pure-ldp's Hadamard count mean sketch."""
    apple = apple_cms()
    server = apple.CMSServer(epsilon, rows, M, is_hadamard=True)
    return {"fo_client": apple.CMSClient(epsilon, server.get_hash_funcs(), M, is_hadamard=True)}, {"fo_server": server}


def pem(epsilon: float, *, bits: int, step: int = 5) -> Made:
    """PEM with a sketch. With its default, OLH, its server hashes the whole domain of 2^bits for every report."""
    from pure_ldp.heavy_hitters.prefix_extending import PEMClient, PEMServer

    client, server = sketch(epsilon, K)
    shape = {"start_length": step, "max_string_length": bits, "fragment_length": step}
    tally = (bits // step - 1) * 8 * K * M
    return Made(PEMClient(epsilon, **shape, **client), PEMServer(epsilon, **shape, **server), bits, tally)


FRAGMENTS = {"fragment_length": 2, "max_string_length": 4, "index_mapper": str}
FEWER = K // 4  # rows where the server hashes each of 2 * 9^2 * 256 fragments under each row, one by one


def sfp(epsilon: float) -> Made:
    """Apple's sequence fragment puzzle: a half of epsilon for two characters with a hash of the word, one for the word.

    (The server adds the padding to the alphabet that it was given, so that each gets its own.)
    """
    client, server = sketch(epsilon, FEWER)
    from pure_ldp.heavy_hitters.apple_sfp import SFPClient, SFPServer

    made = SFPClient(epsilon, alphabet=set("01234567"), **FRAGMENTS, **client)
    return Made(made, SFPServer(epsilon, alphabet=set("01234567"), **FRAGMENTS, **server), None, 3 * 8 * FEWER * M)


def tree_histogram(epsilon: float) -> Made:
    """Bassily et al. 2017: a half of epsilon for a prefix of a random length, one for the word."""
    client, server = sketch(epsilon, FEWER)
    from pure_ldp.heavy_hitters.treehistogram import TreeHistClient, TreeHistServer

    made = TreeHistClient(epsilon, alphabet=set("01234567"), **FRAGMENTS, **client)
    return Made(made, TreeHistServer(epsilon, alphabet=set("01234567"), **FRAGMENTS, **server), None, 2 * 8 * FEWER * M)


# ---- the table of the documentation


class Measured(NamedTuple):
    n: int
    recall: tuple[float, ...]
    f1: tuple[float, ...]
    ncr: tuple[float, ...]
    above: float  # how many values are above the threshold, and of those how many are of the 100 most frequent
    right: float
    client: float
    server: float
    search: float
    tally: float


def measured(people: Population, ranked: Sequence[str], *costs: float, sure: Sequence[str] | None = None) -> Measured:
    """``sure``: what is above a threshold, where there is one."""
    taken = ranked if sure is None else sure
    tops = [people.top(k) for k in TOPS]
    f1 = tuple(2 * len(set(top) & set(taken[:k])) / (k + len(taken[:k])) for k, top in zip(TOPS, tops, strict=True))
    above = (np.nan, np.nan) if sure is None else (len(sure), len(set(people.top(100)) & set(sure)))
    recalls = tuple(recall(top, ranked[: len(top)]) for top in tops)
    ranks = tuple(ncr(top, ranked[: len(top)]) for top in tops)
    return Measured(len(people.values), recalls, f1, ranks, *above, *costs)


def measure_ours(people: Population, m: HeavyHitters) -> Measured:
    _ = m.perturb(people.values[:1000]), m.points
    start = time.process_time()
    reports = m.perturb(people.values)
    perturbed = time.process_time()
    tally = m.tally(reports)
    tallied = time.process_time()
    sure = m.find(tally, max(TOPS)).values
    search = time.process_time() - tallied
    ranked = m.find(tally, max(TOPS), threshold=0).values
    costs = (perturbed - start) / tally.n, (tallied - perturbed) / tally.n, search, len(tally.to_bytes())
    return measured(people, ranked, *costs, sure=sure)


def measure_peer(people: Population, made: Made) -> Measured:
    client, server, bits, tally_bytes = made
    texts = people.values.to_pylist() if bits is None else people.binary(bits)
    start = time.process_time()
    reports = [client.privatise(one) for one in texts]
    perturbed = time.process_time()
    for report in reports:
        server.aggregate(report)
    tallied = time.process_time()
    found, estimates = server.find_heavy_hitters(k=max(TOPS))
    search = time.process_time() - tallied
    ranked = [found[i] for i in np.argsort(-np.asarray(estimates), kind="stable")]
    if bits is not None:
        ranked = [text(int(one, 2), people.alphabet, people.length) for one in ranked]
    return measured(
        people, ranked, (perturbed - start) / len(texts), (tallied - perturbed) / len(texts), search, tally_bytes
    )


HEADING = ("protocol", "n", "epsilon", "recall@10 / 20 / 50, %", "F1", "NCR", "above the threshold")
HEADING += ("client, ns", "server, ns", "search, s", "reports or tally, MB")
Measure = Callable[[Population], Measured]


def row(name: str, epsilon: float, people: list[Population], measure: Measure) -> list[str]:
    runs = [measure(some) for some in people]
    mean = [np.mean(column, axis=0) for column in zip(*runs, strict=True)]
    n, recalls, f1, ranks, above, right, client, server, search, tally = mean
    cells = [name, f"{n:,.0f}", f"{epsilon:g}", " / ".join(f"{100 * share:.0f}" for share in recalls)]
    cells += [" / ".join(f"{one:.2f}" for one in scores) for scores in (f1, ranks)]
    cells += ["" if np.isnan(above) else f"{right:.1f} of {above:.1f}"]
    return [*cells, f"{1e9 * client:,.0f}", f"{1e9 * server:,.0f}", f"{search:.2f}", f"{tally / 1e6:.2f}"]


def ours(epsilon: float, people: list[Population], levels: Sequence[int] | None = None) -> list[str]:
    m = HeavyHitters(Prefixes(people[0].alphabet, people[0].length), epsilon=epsilon, levels=levels)
    return row(f"ours, levels {', '.join(map(str, m.levels))}", epsilon, people, partial(measure_ours, m=m))


def over_olh(epsilon: float, people: list[Population], levels: tuple[int, ...]) -> list[str]:
    olh = partial(measure_pem_over_olh, epsilon=epsilon, levels=levels)
    return row(f"PEM over OLH, levels {', '.join(map(str, levels))}", epsilon, people, olh)


def populations(sizes: Sequence[float], alphabet: str, length: int, runs: int, scale: float) -> Iterator[Any]:
    """Epsilons, and people of each size, of so many seeds."""
    for n in sizes:
        people = [population(int(n * scale), alphabet, length, seed) for seed in range(runs)]
        yield from product((1.0, 2.0, 4.0), [people])


def million(runs: int, scale: float) -> Table:
    yield HEADING
    for epsilon, people in populations((1e5, 1e6), ALPHABET, 4, runs, scale):
        yield ours(epsilon, people)
        yield ours(epsilon, people, (2, 3, 4))
        yield over_olh(epsilon, people, (2, 3, 4))
        if installed("pure_ldp"):
            peer = lambda some: measure_peer(some, pem(epsilon, bits=20))  # noqa: E731 (a server keeps its reports)
            yield row("pure-ldp PEM, HCMS, 3 levels", epsilon, people[:2], peer)


def letters(runs: int, scale: float) -> Table:
    yield HEADING
    for epsilon, people in populations((1e5, 1e6), LETTERS, 6, runs, scale):
        yield ours(epsilon, people)


def few(runs: int, scale: float) -> Table:
    """2^12 strings of 4 out of 8 characters."""
    yield HEADING
    for epsilon, people in populations((2e4,), "01234567", 4, runs, scale):
        yield ours(epsilon, people)
        yield ours(epsilon, people, (2, 4))
        yield over_olh(epsilon, people, (2, 4))
        if installed("pure_ldp"):
            for name, make in (("SFP", sfp), ("TreeHist", tree_histogram)):
                yield row(f"pure-ldp 1.2.0, {name}", epsilon, people, lambda some: measure_peer(some, make(epsilon)))


if __name__ == "__main__":
    print_tables([million, letters, few], 5, __doc__, scale=1.0)
