"""The peers, where installed (extra ``peers``): one value a call, as they are made."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

import ldp_polars  # noqa: F401 (registers the namespace)
from benchmarks.columns import EPSILON, enum_frame
from benchmarks.timing import Row, compare
from ldp_core import RandomizedResponse, UnaryEncoding


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def rows(scale: float) -> Iterator[Row]:
    for d in (16, 128):
        frame, codes = enum_frame(d, int(1e6 * scale))
        m = UnaryEncoding(frame["x"].dtype.categories.to_list(), epsilon=EPSILON)
        for name, client, n, bar in _unary(d):
            values = codes[:n].tolist()
            yield compare(
                f"OUE d={d}, Enum column, .ldp.unary_encode",
                name,
                lambda: frame.select(pl.col("x").ldp.unary_encode(m)),
                lambda: [client(v) for v in values],
                n=len(codes),
                their_n=n,
                bar=bar,
                repeats=3,
            )
    frame, codes = enum_frame(16, int(1e6 * scale))
    k = RandomizedResponse(frame["x"].dtype.categories.to_list(), epsilon=EPSILON)
    for name, client, n in _k_ary(16):
        values = codes[:n].tolist()
        yield compare(
            "k-ary RR d=16, Enum column, .ldp.randomized_response",
            name,
            lambda: frame.select(pl.col("x").ldp.randomized_response(k)),
            lambda: [client(v) for v in values],
            n=len(codes),
            their_n=n,
            repeats=3,
        )


def _unary(d: int) -> Iterator[tuple[str, Callable[[int], object], int, float | None]]:
    if installed("multi_freq_ldpy"):
        from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client

        yield "multi-freq-ldpy 0.2.5", lambda v: UE_Client(v, d, EPSILON, True), 20_000, 100.0 if d == 16 else None
    if installed("pure_ldp"):
        from pure_ldp.frequency_oracles.unary_encoding import UEClient

        oracle = UEClient(EPSILON, d, use_oue=True, index_mapper=lambda v: v)
        yield "pure-ldp 1.2.0", oracle.privatise, 5_000, None
    if installed("opendp"):
        import opendp.prelude as dp

        dp.enable_features("contrib")
        f = 2 / (1 + np.exp(EPSILON / 2))
        vector = dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f)
        onehot = [np.packbits(np.arange(d) == v).tobytes() for v in range(d)]
        yield "OpenDP 0.16.0 (SUE; it has no OUE)", lambda v: vector(onehot[v]), 1_000, None


def _k_ary(d: int) -> Iterator[tuple[str, Callable[[int], object], int]]:
    if installed("multi_freq_ldpy"):
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client

        yield "multi-freq-ldpy 0.2.5", lambda v: GRR_Client(v, d, EPSILON), 20_000
    if installed("pure_ldp"):
        from pure_ldp.frequency_oracles.direct_encoding import DEClient

        yield "pure-ldp 1.2.0", DEClient(EPSILON, d, index_mapper=lambda v: v).privatise, 20_000
    if installed("opendp"):
        import opendp.prelude as dp

        dp.enable_features("contrib")
        p = float(np.exp(EPSILON) / (np.exp(EPSILON) + d - 1))
        yield "OpenDP 0.16.0", dp.m.make_randomized_response(list(range(d)), p), 1_000
