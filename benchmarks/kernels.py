"""AES in OpenSSL's modes that give the same bits, and compiled loops against numpy, on the same values.

``LDP_KERNELS=numpy python -m benchmarks`` measures all other suites without compiled loops.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.columns import EPSILON
from benchmarks.timing import Job, Row, compare, seconds
from ldp_core import CountMeanSketch, Keyed, Keystream, LocalHashing, RandomizedResponse, Secret, UnaryEncoding
from ldp_core.compute import compiled, threads
from ldp_core.exact import aes


def rows(scale: float) -> Iterator[Row]:
    yield from _modes(scale)
    yield from _against_the_floor(scale)
    if importlib.util.find_spec("numba") is not None:
        rng, n = np.random.default_rng(0), int(1e6 * scale)
        for label, job, count in _jobs(rng, n):
            yield compare(f"{label}: compiled", "numpy", _by("numba", job), _by("numpy", job), n=count)


def _modes(scale: float) -> Iterator[Row]:
    key, n, times = os.urandom(32), 1 << 20, max(int(64 * scale), 1)
    out, blocks = np.empty(n + aes.SPARE, np.uint8), np.random.default_rng(0).integers(0, 1 << 60, n // 8)
    for label, modes, given in (
        ("keystream, 1 MiB a call: GCM", ("gcm", "ctr"), memoryview(bytes(n))),
        ("single blocks of AES, 1 MiB a call: XTS", ("xts", "ecb"), blocks.view(np.uint8).data),
    ):
        makers = next(m for m in aes.MODES.values() if modes[0] in m)
        ours, theirs = (makers[mode](key, 0) for mode in modes)
        yield compare(
            label,
            modes[1].upper(),
            lambda: [ours.update_into(given, out) for _ in range(times)],
            lambda: [theirs.update_into(given, out) for _ in range(times)],
            n=n * times,
            unit="ns/byte",
        )


def _against_the_floor(scale: float) -> Iterator[Row]:
    """What the randomness alone costs, and a second core."""
    mode = "numpy" if os.environ.get("LDP_KERNELS") == "numpy" else "numba"
    rng = np.random.default_rng(0)
    for d, bar in ((16, 1 / 3.5), (128, 1 / 2.5)):
        n = max(int(2e7 * scale) // d, 1)
        m, codes = UnaryEncoding(range(d), epsilon=EPSILON), rng.integers(0, d, n).astype(np.uint8)
        ours = _by(mode, _perturbed(m, codes))
        step = m.block_size

        def floor() -> None:
            stream = Keystream()
            for start in range(0, n, step):
                stream.bytes(d * min(step, n - start))

        yield compare(f"OUE d={d}, codes to rows of bits", "its keystream alone", ours, floor, n=n, bar=round(bar, 3))
        for rows in (100_000, m.block_size):
            some = np.resize(codes, rows)
            share = 100 * _share_of_the_lock(_by(mode, _perturbed(m, some)))
            speed = [100 / (share + (100 - share) / cores) for cores in (8, 32)]
            said = f"holds Python's lock; by Amdahl's law {speed[0]:.2g}x on 8 cores, {speed[1]:.2g}x on 32"
            yield Row(f"the same, {rows:,} rows: share of the time that", said, "%", share, None, "", None)
        large = _by(mode, _perturbed(m, np.tile(codes, 8)))
        yield compare("the same, on two cores", "on one", _on(2, large), _on(1, large), n=8 * n, bar=1.75)
    n = int(1e6 * scale)
    ids, cipher, blocks = np.arange(n), aes.aes(bytes(32)), np.zeros((1 << 15, 2), np.uint64)
    for label, d in (("binary", 2), ("k-ary d=16", 16)):
        m, codes = RandomizedResponse(range(d), epsilon=EPSILON), rng.integers(0, d, n).astype(np.uint8)
        for cores, words in ((1, "one core"), (2, "two cores")):
            yield compare(
                f"{label} RR with keyed noise, codes to codes, {words}",
                "one block of AES a record, one core",
                _on(cores, _by(mode, _keyed(m, codes, ids))),
                lambda: [aes.encrypt(cipher, blocks) for _ in range(max(n >> 15, 1))],
                n=n,
                their_n=max(n >> 15, 1) << 15,
                bar=0.5,
            )


def _jobs(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Job, int]]:
    ids = np.arange(n)
    for d in (16, 128):
        some = n * 16 // d
        codes, hours = rng.integers(0, d, some).astype(np.uint8), rng.integers(0, 24, some)
        bits, hashing = UnaryEncoding(range(d), epsilon=EPSILON), LocalHashing(range(d), epsilon=EPSILON)
        vectors, hashed = bits.perturb_codes(codes, Keystream()), hashing.perturb_codes(codes, Keystream())
        yield f"OUE d={d}", _perturbed(bits, codes), some
        yield f"OUE d={d}, sums by 24 groups", lambda v=vectors, h=hours: bits.count_reports(v, h, 24), some
        yield f"OLH d={d}, tally", lambda: hashing.tally(hashed), some
    for label, d in (("binary", 2), ("k-ary d=16", 16), ("k-ary d=100", 100)):
        m, codes = RandomizedResponse(range(d), epsilon=EPSILON), rng.integers(0, d, n).astype(np.uint8)
        yield f"{label} RR", _perturbed(m, codes), n
        yield f"{label} RR, keyed noise", _keyed(m, codes, ids), n
    sketch = CountMeanSketch("int", epsilon=EPSILON, hashes=256, width=256)
    reports = sketch.perturb(rng.integers(0, 1000, n // 4))
    yield "CMS 256 x 256, tally", lambda: sketch.tally(reports), n // 4


def _perturbed(m: UnaryEncoding | RandomizedResponse, codes: np.ndarray) -> Job:
    return lambda: m.perturb_codes(codes, Keystream())


def _keyed(m: RandomizedResponse, codes: np.ndarray, ids: np.ndarray) -> Job:
    noise = Keyed(Secret.generate(), ids, column="x")
    return lambda: m.perturb_codes(codes, noise.bind(m.digest, codes))


def _by(mode: str, job: Job) -> Job:
    return _where("LDP_KERNELS", mode, compiled._mode, job)


def _on(cores: int, job: Job) -> Job:
    return _where("LDP_THREADS", str(cores), threads._cores, job)


def _where(variable: str, value: str, known: Any, job: Job) -> Job:
    """The job while an environment variable, of which a cached function ``known`` depends, has a value."""

    def run() -> object:
        known.cache_clear()
        try:
            with patch.dict(os.environ, {variable: value}):
                return job()
        finally:
            known.cache_clear()

    return run


def _share_of_the_lock(job: Job) -> float:
    """Median of the time that is not spent in a keystream or in a loop, which run without the lock."""
    outside, turns = [0.0], []

    def timed(function: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object) -> object:
            start = time.perf_counter()
            result = function(*args)
            outside[0] += time.perf_counter() - start
            return result

        return run

    before = aes.Segments.into, compiled.Kernel.__call__
    aes.Segments.into, compiled.Kernel.__call__ = timed(before[0]), timed(before[1])  # type: ignore[method-assign]
    try:
        for _ in range(101):
            outside[0] = 0
            total = seconds(job)
            turns.append(1 - outside[0] / total)
    finally:
        aes.Segments.into, compiled.Kernel.__call__ = before  # type: ignore[method-assign]
    return statistics.median(turns)
