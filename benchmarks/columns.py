"""Columns: Polars expressions and the core against plain numpy and Polars' own one-hot encoding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import ldp_polars  # noqa: F401 (registers the namespace)
from benchmarks.timing import Row, absolute, compare
from ldp_core import Keyed, RandomizedResponse, Secret, UnaryEncoding

EPSILON = 1.0
KEY = Secret.generate()


def enum_frame(d: int, n: int) -> tuple[pl.DataFrame, np.ndarray]:
    codes = np.random.default_rng(0).integers(0, d, n).astype(np.uint8)
    labels = pl.Enum([f"v{i}" for i in range(d)])
    return pl.DataFrame({"code": codes}).with_columns(x=pl.col("code").cat.to(labels)), codes


def plain_unary(codes: np.ndarray, d: int, p: float, q: float) -> np.ndarray:
    onehot = np.zeros((len(codes), d), bool)
    onehot[np.arange(len(codes)), codes] = True
    return np.random.default_rng().random((len(codes), d)) < np.where(onehot, p, q)


def plain_k_ary(codes: np.ndarray, d: int, p: float) -> np.ndarray:
    rng = np.random.default_rng()
    other = rng.integers(0, d - 1, len(codes), dtype=np.uint8)
    other += other >= codes
    return np.where(rng.random(len(codes)) < p, codes, other)


def plain_binary(values: np.ndarray, p: float) -> np.ndarray:
    return np.where(np.random.default_rng().random(len(values)) < p, values, ~values)


def rows(scale: float) -> Iterator[Row]:
    for d, n, bar, dummies in ((16, int(4e6 * scale), 6.0, 2.5), (128, int(1e6 * scale), 8.0, 1.33)):
        frame, codes = enum_frame(d, n)
        m = UnaryEncoding(frame["x"].dtype.categories.to_list(), epsilon=EPSILON)
        their = codes[: n // 4]
        yield compare(
            f"OUE d={d}, Enum column, .ldp.unary_encode",
            "plain numpy",
            lambda: frame.select(pl.col("x").ldp.unary_encode(m)),
            lambda: plain_unary(their, d, m.p, m.q),
            n=n,
            their_n=len(their),
            bar=bar,
        )
        yield compare(
            f"OUE d={d}, the same",
            "Polars to_dummies, no noise",
            lambda: frame.select(pl.col("x").ldp.unary_encode(m)),
            lambda: frame["x"].to_dummies(),
            n=n,
            bar=dummies,
        )
        for words, size in ((", morsels of 2^19 rows", 1 << 19), ("", None)):
            pl.Config.set_streaming_chunk_size(size)
            yield compare(
                f"OUE d={d}, packed, streaming engine{words}",
                "Polars to_dummies, no noise",
                lambda: frame.lazy().select(pl.col("x").ldp.unary_encode(m, packed=True)).collect(engine="streaming"),
                lambda: frame["x"].to_dummies(),
                n=n,
                bar=dummies,
            )
    n = int(4e6 * scale)
    frame, codes = enum_frame(16, n)
    k = RandomizedResponse(frame["x"].dtype.categories.to_list(), epsilon=EPSILON)
    binary = RandomizedResponse(epsilon=EPSILON)
    values, ids = codes % 3 == 0, np.arange(n)
    booleans = pl.DataFrame({"x": values})
    column = booleans["x"].to_arrow()
    for job, ours, theirs, bar in (
        (
            "k-ary RR d=16, Enum column, .ldp.randomized_response",
            lambda: frame.select(pl.col("x").ldp.randomized_response(k)),
            lambda: plain_k_ary(codes, 16, k.p),
            5,
        ),
        (
            "binary RR, Arrow Boolean array, RandomizedResponse.perturb",
            lambda: binary.perturb(column),
            lambda: plain_binary(values, binary.p),
            12,
        ),
        (
            "binary RR, Boolean column, .ldp.randomized_response",
            lambda: booleans.select(pl.col("x").ldp.randomized_response(binary)),
            lambda: plain_binary(values, binary.p),
            12,
        ),
    ):
        yield compare(job, "plain numpy", ours, theirs, n=n, bar=bar)
    for label, kind, d, count in (
        ("OUE d=16", UnaryEncoding, 16, int(2e6 * scale)),
        ("OUE d=128", UnaryEncoding, 128, int(2e6 * scale) // 8),
        ("k-ary RR d=16", RandomizedResponse, 16, n),
    ):
        people = enum_frame(d, count)[0].with_columns(user=pl.int_range(pl.len()))
        m = kind(people["x"].dtype.categories.to_list(), epsilon=EPSILON)
        yield compare(
            f"{label} with keyed noise, integer ids",
            "the same with fresh noise",
            lambda: people.select(pl.col("x").ldp.perturb(m, key=KEY, id="user")),
            lambda: people.select(pl.col("x").ldp.perturb(m)),
            n=count,
            bar=0.4,
        )
    yield compare(
        "binary RR with keyed noise, integer ids",
        "the same with fresh noise",
        lambda: binary.perturb(column, randomness=Keyed(KEY, ids, column="x")),
        lambda: binary.perturb(column),
        n=n,
        bar=0.4,
    )
    for d in (16, 128):
        count = int(4e6 * scale) * 16 // d
        frame, _ = enum_frame(d, count)
        m = UnaryEncoding(frame["x"].dtype.categories.to_list(), epsilon=EPSILON)
        reports = frame.select(pl.col("x").ldp.unary_encode(m, packed=True))["x"].to_arrow()
        yield absolute(f"tally of packed bits, d={d}", lambda: m.tally(reports), n=count * d, unit="ns/bit", limit=0.4)
