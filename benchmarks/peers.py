"""The peers, where installed (extra ``peers``): one value a call, as they are made. Ours is a Polars expression."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl

import ldp_polars  # noqa: F401 (registers the namespace)
from benchmarks.columns import EPSILON, enum_frame
from benchmarks.timing import Row, compare
from ldp_core import RandomizedResponse, UnaryEncoding

MULTI, PURE = "multi-freq-ldpy 0.2.5", "pure-ldp 1.2.0"


@dataclass(frozen=True)
class Peer:
    """Another package's client and server of one mechanism over ``range(d)``."""

    name: str
    client: Callable[[Any], Any]
    server: Callable[[list[Any]], Any]
    n: int = 20_000


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def multi(path: str, client: tuple[Any, ...], server: tuple[Any, ...], name: str = "", n: int = 20_000) -> list[Peer]:
    """Of multi-freq-ldpy: functions of a value, or of all reports, with these parameters."""
    if not installed("multi_freq_ldpy"):
        return []
    module = importlib.import_module(f"multi_freq_ldpy.{path}")
    name = name or path.rpartition(".")[2]
    perturb, estimate = getattr(module, f"{name}_Client"), getattr(module, f"{name}_Aggregator_MI")
    return [Peer(MULTI, lambda v: perturb(v, *client), lambda reports: estimate(list(reports), *server), n)]


def pure(
    path: str, name: str, d: int, server: tuple[Any, ...], client: Callable[[Any], tuple[Any, ...]], **options: Any
) -> list[Peer]:
    """Of pure-ldp: objects. A server adds up report by report, copied if it changes them, and estimates by value."""
    if not installed("pure_ldp"):
        return []
    module = importlib.import_module(f"pure_ldp.frequency_oracles.{path}")
    n, copied = options.pop("n", 20_000), options.pop("copied", False)
    use = {"index_mapper": lambda v: v} if "apple" not in path else {}
    served = getattr(module, f"{name}Server")(*server, **use, **options)
    options.pop("use_the", None)
    options.pop("reg_const", None)
    made = getattr(module, f"{name}Client")(*client(served), **use, **options)

    def serve(reports: list[Any]) -> list[float]:
        served.reset()
        for report in reports:
            served.aggregate(report.copy() if copied else report)
        return [served.estimate(v, suppress_warnings=True) for v in range(d)]

    return [Peer(PURE, made.privatise, serve, n)]


class _Numpy(ModuleType):
    """Numpy for a peer that asks for ``zeros(None)``, which numpy 2.4 refuses."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any) -> Any:
        return np.zeros(() if shape is None else shape)


def apple_cms() -> Any:
    importlib.import_module("pure_ldp.core._freq_oracle_server").np = _Numpy("numpy")
    return importlib.import_module("pure_ldp.frequency_oracles.apple_cms")


def k_ary(d: int) -> list[Peer]:
    parameters = (d, EPSILON)
    return [
        *multi("pure_frequency_oracles.GRR", parameters, parameters),
        *pure("direct_encoding", "DE", d, (EPSILON, d), lambda _: (EPSILON, d)),
    ]


def unary(d: int) -> list[Peer]:
    return [
        *multi("pure_frequency_oracles.UE", (d, EPSILON, True), (EPSILON, True)),
        *pure("unary_encoding", "UE", d, (EPSILON, d), lambda _: (EPSILON, d), use_oue=True),
    ]


def _opendp(d: int, mechanism: str) -> list[Peer]:
    if not installed("opendp"):
        return []
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    if mechanism == "OUE":
        f = 2 / (1 + np.exp(EPSILON / 2))
        vector = dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f)
        onehot = [np.packbits(np.arange(d) == v).tobytes() for v in range(d)]
        return [Peer("OpenDP 0.16.0 (SUE; it has no OUE)", lambda v: vector(onehot[v]), list, 1_000)]
    p = float(np.exp(EPSILON) / (np.exp(EPSILON) + d - 1))
    return [Peer("OpenDP 0.16.0", dp.m.make_randomized_response(list(range(d)), p), list, 1_000)]


def rows(scale: float) -> Iterator[Row]:
    cases: list[tuple[str, str, int, type[Any], list[Peer]]] = [
        *(("OUE", "unary_encode", d, UnaryEncoding, [*unary(d), *_opendp(d, "OUE")]) for d in (16, 128)),
        ("k-ary RR", "randomized_response", 16, RandomizedResponse, [*k_ary(16), *_opendp(16, "k-ary RR")]),
    ]
    for label, method, d, kind, peers in cases:
        frame, codes = enum_frame(d, int(1e6 * scale))
        m = kind(frame["x"].dtype.categories.to_list(), epsilon=EPSILON)
        for peer in peers:
            values = codes[: peer.n].tolist()
            yield compare(
                f"{label} d={d}, Enum column, .ldp.{method}",
                peer.name,
                lambda: frame.select(getattr(pl.col("x").ldp, method)(m)),
                lambda: [peer.client(v) for v in values],
                n=len(codes),
                their_n=peer.n,
                bar=100 if (label, d, peer.name) == ("OUE", 16, MULTI) else None,
                repeats=3,
            )
