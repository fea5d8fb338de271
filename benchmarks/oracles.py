"""Every mechanism that a peer has, against the peer: clients and servers, one value or one report a call, as made.

Client: n values to n reports. Server: n reports to the estimates of all d values. Ours are calls of ``ldp_core`` on
whole columns. The peers' n are smaller; their costs that do not depend on n are shared by thousands of reports.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.columns import EPSILON
from benchmarks.peers import installed
from benchmarks.timing import Row, compare
from ldp_core import (
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)
from ldp_core.frequency_oracle import FrequencyOracle

BAR = 20.0
OURS = 1_000_000


@dataclass(frozen=True)
class Peer:
    """Another package's client and server of one mechanism over ``range(d)``."""

    name: str
    client: Callable[[int], Any]
    server: Callable[[list[Any]], Any]
    n: int = 20_000


def rows(scale: float) -> Iterator[Row]:
    warnings.filterwarnings("ignore", module="pure_ldp")  # (about few reports)
    for d in (16, 128):
        domain = range(d)
        cases: list[tuple[str, FrequencyOracle, list[Peer]]] = [
            ("k-ary RR", RandomizedResponse(domain, epsilon=EPSILON), _k_ary(d)),
            ("OUE", UnaryEncoding(domain, epsilon=EPSILON), _unary(d)),
            ("SS", SubsetSelection(domain, epsilon=EPSILON), _subset(d)),
            ("THE", ThresholdHistogramEncoding(domain, epsilon=EPSILON), _histogram(d)),
            ("OLH", LocalHashing(domain, epsilon=EPSILON), _hashing(d)),
            ("FLH", LocalHashing(domain, epsilon=EPSILON, variant="fast"), _fast_hashing(d)),
            ("HR", HadamardResponse(domain, epsilon=EPSILON), _hadamard(d)),
        ]
        for label, mechanism, peers in cases:
            for peer in peers:
                yield from _against(f"{label} d={d}", mechanism, peer, d, scale)


def _against(label: str, m: FrequencyOracle, peer: Peer, d: int, scale: float) -> Iterator[Row]:
    n = int(OURS * scale)
    codes = np.random.default_rng(1).integers(0, d, n)
    values, theirs = pa.array(codes), codes[: peer.n].tolist()
    yield compare(
        f"{label}: client",
        peer.name,
        lambda: m.perturb(values, packed=True),
        lambda: [peer.client(v) for v in theirs],
        n=n,
        their_n=len(theirs),
        bar=BAR,
        repeats=3,
    )
    reports, their_reports = m.perturb(values, packed=True), [peer.client(v) for v in theirs]
    yield compare(
        f"{label}: server",
        peer.name,
        lambda: m.estimate(m.tally(reports)),
        lambda: peer.server(their_reports),
        n=n,
        their_n=len(theirs),
        bar=BAR,
        repeats=3,
    )


MULTI, PURE = "multi-freq-ldpy 0.2.5", "pure-ldp 1.2.0"


def _served(make: Callable[[], Any], d: int) -> Callable[[list[Any]], Any]:
    """A server of pure-ldp: report by report, then value by value."""

    def serve(reports: list[Any]) -> list[float]:
        server = make()
        for report in reports:
            server.aggregate(report)
        return [server.estimate(v, suppress_warnings=True) for v in range(d)]

    return serve


def _same(v: int) -> int:
    return v


def _k_ary(d: int) -> list[Peer]:
    peers = []
    if installed("multi_freq_ldpy"):
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client

        peers.append(Peer(MULTI, lambda v: GRR_Client(v, d, EPSILON), lambda r: GRR_Aggregator_MI(r, d, EPSILON)))
    if installed("pure_ldp"):
        from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer

        client = DEClient(EPSILON, d, index_mapper=_same)
        peers.append(Peer(PURE, client.privatise, _served(lambda: DEServer(EPSILON, d, index_mapper=_same), d)))
    return peers


def _unary(d: int) -> list[Peer]:
    peers = []
    if installed("multi_freq_ldpy"):
        from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

        peers.append(
            Peer(MULTI, lambda v: UE_Client(v, d, EPSILON, True), lambda r: UE_Aggregator_MI(r, EPSILON, True))
        )
    if installed("pure_ldp"):
        from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

        encoder = UEClient(EPSILON, d, use_oue=True, index_mapper=_same)
        made = _served(lambda: UEServer(EPSILON, d, use_oue=True, index_mapper=_same), d)
        peers.append(Peer(PURE, encoder.privatise, made))
    return peers


def _subset(d: int) -> list[Peer]:
    if not installed("multi_freq_ldpy"):
        return []
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client

    return [Peer(MULTI, lambda v: SS_Client(v, d, EPSILON), lambda r: SS_Aggregator_MI(r, d, EPSILON))]


def _histogram(d: int, *, threshold: bool = True) -> list[Peer]:
    peers = []
    if installed("multi_freq_ldpy"):
        from multi_freq_ldpy.pure_frequency_oracles.HE import HE_Aggregator_MI, HE_Client

        def aggregate(reports: list[Any]) -> Any:
            return HE_Aggregator_MI(list(reports), d, EPSILON, threshold)

        peers.append(Peer(MULTI, lambda v: HE_Client(v, d, EPSILON), aggregate))
    if installed("pure_ldp"):
        from pure_ldp.frequency_oracles.histogram_encoding import HEClient, HEServer

        client = HEClient(EPSILON, d, index_mapper=_same)
        server = _served(lambda: HEServer(EPSILON, d, use_the=threshold, index_mapper=_same), d)
        peers.append(Peer(PURE, client.privatise, lambda r: server([x.copy() for x in r]) if threshold else server(r)))
    return peers


def _hashing(d: int) -> list[Peer]:
    peers = []
    if installed("multi_freq_ldpy"):
        from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client

        client, server = lambda v: LH_Client(v, d, EPSILON), lambda r: LH_Aggregator_MI(r, d, EPSILON)
        peers.append(Peer(MULTI, client, server, 2_000))
    if installed("pure_ldp"):
        from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer

        hashed = LHClient(EPSILON, d, use_olh=True, index_mapper=_same)
        made = _served(lambda: LHServer(EPSILON, d, use_olh=True, index_mapper=_same), d)
        peers.append(Peer(PURE, hashed.privatise, made, 2_000))
    return peers


_FUNCTIONS = 500  # the peer's own examples take 500 hash functions


def _fast_hashing(d: int) -> list[Peer]:
    if not installed("pure_ldp"):
        return []
    from pure_ldp.frequency_oracles.local_hashing import FastLHClient, FastLHServer

    matrix = FastLHServer(EPSILON, d, _FUNCTIONS, use_olh=True, index_mapper=_same).hash_matrix
    client = FastLHClient(EPSILON, d, _FUNCTIONS, use_olh=True, index_mapper=_same)
    server = _served(
        lambda: FastLHServer(EPSILON, d, _FUNCTIONS, use_olh=True, index_mapper=_same, hash_matrix=matrix), d
    )
    return [Peer(PURE, client.privatise, server)]


def _hadamard(d: int) -> list[Peer]:
    if not installed("pure_ldp"):
        return []
    from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer

    server = HadamardResponseServer(EPSILON, d, index_mapper=_same)
    client = HadamardResponseClient(EPSILON, d, server.get_hash_funcs(), index_mapper=_same)
    return [Peer(PURE, client.privatise, _served(lambda: HadamardResponseServer(EPSILON, d, index_mapper=_same), d))]
