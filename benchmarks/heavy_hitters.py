"""Heavy hitters: the 50 most frequent of 10^6 strings, ours and pure-ldp's PEM (extra ``peers``, where installed).

``python -m benchmarks.heavy_hitters`` prints the table of docs/heavy_hitters.md, in Markdown.
"""

from __future__ import annotations

import argparse
import time
import types
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.peers import installed
from benchmarks.timing import Row, compare
from ldp_core.heavy_hitters import HeavyHitters
from ldp_core.prefixes import Prefixes

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
STRINGS = 1_000_000
TOPS = (10, 20, 50)
K, M = 256, 1024  # rows and width of pure-ldp's sketch: as many counters a level as ours has


def rows(scale: float) -> Iterator[Row]:
    n = int(1e6 * scale)
    people = population(n, ALPHABET, 4)
    for epsilon in (1.0, 4.0):
        m = HeavyHitters(Prefixes(ALPHABET, 4), epsilon=epsilon)
        reports = m.perturb(people.values)
        if installed("pure_ldp"):
            client, server, _ = pem(epsilon, bits=20)
            texts = people.binary(20)[:20_000]
            theirs = [client.privatise(text) for text in texts]
            against = "pure-ldp 1.2.0, PEM with HCMS"
            yield compare(
                f"heavy hitters eps={epsilon:g}, text to reports",
                against,
                lambda: m.perturb(people.values),
                lambda: [client.privatise(text) for text in texts],
                n=n,
                their_n=len(texts),
                repeats=3,
            )
            yield compare(
                f"heavy hitters eps={epsilon:g}, reports to tally",
                against,
                lambda: m.tally(reports),
                lambda: [server.aggregate(report) for report in theirs],
                n=n,
                their_n=len(texts),
                repeats=3,
            )
        else:
            start = time.perf_counter()
            m.perturb(people.values)
            cost = 1e9 * (time.perf_counter() - start) / n
            yield Row(f"heavy hitters eps={epsilon:g}, text to reports", "", "ns/row", cost, None, "", None)
        found = m.find(m.tally(reports), 20, threshold=0).values
        share = 100 * recall(people.top(20), found)
        yield Row(f"heavy hitters eps={epsilon:g}, n={n:,}: recall of the top 20", "", "%", share, None, "", None)


# ---- the population


class Population(NamedTuple):
    values: pa.Array
    numbers: np.ndarray
    """int64[n]: of the values, among all strings of the full length."""
    ranked: np.ndarray
    """Numbers in order of their true counts."""
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


# ---- the peer


def pem(epsilon: float, *, bits: int, step: int = 5):
    """pure-ldp's PEM client and server with its Hadamard count mean sketch, and the levels.

    With its default, OLH, the server hashes the whole domain of 2^bits for every report.
    """
    import pure_ldp.core._freq_oracle_server as base

    class Numpy(types.ModuleType):  # its sketches ask for numpy.zeros(None), which numpy 2.4 refuses
        def __getattr__(self, name):
            return getattr(np, name)

        def zeros(self, shape):
            return np.zeros(() if shape is None else shape)

    base.np = Numpy("numpy")
    from pure_ldp.frequency_oracles.apple_cms import CMSClient, CMSServer
    from pure_ldp.heavy_hitters.prefix_extending import PEMClient, PEMServer

    sketch = CMSServer(epsilon, K, M, is_hadamard=True)
    shape = {"start_length": step, "max_string_length": bits, "fragment_length": step}
    client = PEMClient(epsilon, **shape, fo_client=CMSClient(epsilon, sketch.get_hash_funcs(), M, is_hadamard=True))
    return client, PEMServer(epsilon, **shape, fo_server=sketch), bits // step - 1


def pem_with_olh(epsilon: float, bits: int, step: int):
    from pure_ldp.heavy_hitters.prefix_extending import PEMClient, PEMServer

    shape = {"start_length": step, "max_string_length": bits, "fragment_length": step}
    return PEMClient(epsilon, **shape), PEMServer(epsilon, **shape), bits // step - 1


# ---- the table of the documentation


class Measured(NamedTuple):
    recall: tuple[float, ...]
    f1: tuple[float, ...]
    above: float
    """How many values are above the threshold, and of those how many are of the 100 most frequent."""
    right: float
    client: float
    server: float
    search: float
    tally: float


def measure_ours(people: Population, m: HeavyHitters) -> Measured:
    _ = m.perturb(people.values[:1000]), m.points
    start = time.perf_counter()
    reports = m.perturb(people.values)
    client = time.perf_counter() - start
    tally = m.tally(reports)
    server = time.perf_counter() - start - client
    start = time.perf_counter()
    sure = m.find(tally, max(TOPS)).values
    search = time.perf_counter() - start
    ranked = m.find(tally, max(TOPS), threshold=0).values
    n = len(people.values)
    recalls = tuple(recall(people.top(k), ranked[:k]) for k in TOPS)
    f1 = tuple(2 * len(set(people.top(k)) & set(sure[:k])) / (k + len(sure[:k])) for k in TOPS)
    right = len(set(people.top(100)) & set(sure))
    return Measured(recalls, f1, len(sure), right, client / n, server / n, search, len(tally.to_bytes()))


def measure_pem(people: Population, bits: int, made, tally_bytes: int) -> Measured:
    client, server, _ = made
    texts = people.binary(bits)
    start = time.perf_counter()
    reports = [client.privatise(one) for one in texts]
    perturbed = time.perf_counter()
    for report in reports:
        server.aggregate(report)
    tallied = time.perf_counter()
    found, _ = server.find_heavy_hitters(k=max(TOPS))
    search = time.perf_counter() - tallied
    ranked = [text(int(one, 2), people.alphabet, people.length) for one in found]
    recalls = tuple(recall(people.top(k), ranked[:k]) for k in TOPS)
    n = len(texts)
    costs = (perturbed - start) / n, (tallied - perturbed) / n
    return Measured(recalls, recalls, np.nan, np.nan, *costs, search, tally_bytes)


def line(name: str, n: int, epsilon: float, runs: list[Measured]) -> str:
    mean = [np.mean(column, axis=0) for column in zip(*runs, strict=True)]
    recalls, f1, above, right, client, server, search, tally = mean
    cells = [name, f"{n:,}", f"{epsilon:g}", *(f"{100 * share:.0f} %" for share in recalls)]
    cells += [" / ".join(f"{one:.2f}" for one in f1), "" if np.isnan(above) else f"{right:.1f} of {above:.1f}"]
    cells += [f"{1e9 * client:,.0f}", f"{1e9 * server:,.0f}", f"{search:.1f}", f"{tally / 1e6:.2f}"]
    return "| " + " | ".join(cells) + " |"


HEADING = ["protocol", "n", "epsilon", *(f"recall@{k}" for k in TOPS), f"F1@{'/'.join(map(str, TOPS))}"]
HEADING += ["above the threshold", "client, ns", "server, ns", "search, s", "tally, MB"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heavy_hitters")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    n = int(1e6 * args.scale)

    def show(name: str, epsilon: float, people: list[Population], measure) -> None:
        print(line(name, len(people[0].values), epsilon, [measure(some) for some in people]), flush=True)

    def show_ours(epsilon: float, people: list[Population], levels=None) -> None:
        m = HeavyHitters(Prefixes(people[0].alphabet, people[0].length), epsilon=epsilon, levels=levels)
        show(f"ours, levels {', '.join(map(str, m.levels))}", epsilon, people, lambda some: measure_ours(some, m))

    print("| " + " | ".join(HEADING) + " |")
    print("|" + " --- |" * len(HEADING))
    people = [population(n, ALPHABET, 4, seed) for seed in range(args.runs)]
    for epsilon in (1.0, 2.0, 4.0):
        show_ours(epsilon, people)
        show_ours(epsilon, people, (2, 3, 4))
        if installed("pure_ldp"):
            measure = lambda some: measure_pem(some, 20, pem(epsilon, bits=20), 3 * 8 * K * M)  # noqa: E731
            show("pure-ldp PEM, HCMS, 3 levels", epsilon, people, measure)
    people = [population(n, LETTERS, 6, seed) for seed in range(args.runs)]
    for epsilon in (1.0, 2.0, 4.0):
        show_ours(epsilon, people)
    people = [population(n // 100, "01234567", 4, seed) for seed in range(args.runs)]
    for epsilon in (2.0, 4.0):
        show_ours(epsilon, people, (2, 4))
        if installed("pure_ldp"):
            measure = lambda some: measure_pem(some, 12, pem_with_olh(epsilon, 12, 4), 8 * (2**8 + 2**12))  # noqa: E731
            show("pure-ldp PEM, OLH, 2 levels", epsilon, people, measure)


if __name__ == "__main__":
    main()
