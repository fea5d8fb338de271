"""Every mechanism that a peer has, against the peer: clients and servers, one value or one report a call, as made.

Client: n values to n reports. Server: n reports to the estimates of all d values. Ours are calls of ``ldp_core`` on
whole columns. The peers' n are smaller; their costs that do not depend on n are shared by thousands of reports.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.columns import EPSILON
from benchmarks.peers import installed
from benchmarks.timing import Row, compare, seconds
from ldp_core import (
    BlockHadamardResponse,
    CountMeanSketch,
    DBitFlip,
    FrequencyOracle,
    HadamardCountMeanSketch,
    HadamardResponse,
    HybridProjectiveGeometryResponse,
    Keyed,
    LocalHashing,
    Loloha,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
    PrivacyPlan,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    Rappor,
    Secret,
    SubsetSelection,
    SummationHistogramEncoding,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)

BAR = 40.0
OURS = 1_000_000
INFINITY = 2.0  # epsilon_infinity of longitudinal mechanisms, whose epsilon_1 is EPSILON


@dataclass(frozen=True)
class Peer:
    """Another package's client and server of one mechanism over ``range(d)``."""

    name: str
    client: Callable[[Any], Any]
    server: Callable[[list[Any]], Any]
    n: int = 20_000


def rows(scale: float) -> Iterator[Row]:
    warnings.filterwarnings("ignore", module="pure_ldp")  # (about few reports)
    for d in (16, 128):
        for label, mechanism, peers in _cases(d):
            for peer in peers:
                yield from _against(f"{label} d={d}", mechanism, peer, d, scale)
    for label, plan, peer in _plans(16):
        yield from _plan_against(label, plan, peer, 16, scale)
    for d in (128, 1024, 16384):
        for label, mechanism in _independent_of_d(d):
            codes = pa.array(np.random.default_rng(1).integers(0, d, int(OURS * scale)))
            reports = mechanism.perturb(codes)
            cost = seconds(partial(_estimate, mechanism, reports))
            cost = min(cost, seconds(partial(_estimate, mechanism, reports)))
            job = f"{label} d={d}: server, {OURS * scale:.0e} reports"
            yield Row(job, "", "ns/report", 1e9 * cost / len(reports), None, "", None)


def _cases(d: int) -> Iterator[tuple[str, FrequencyOracle, list[Peer]]]:
    domain, one, both = range(d), {"epsilon": EPSILON}, {"epsilon_infinity": INFINITY, "epsilon_1": EPSILON}
    yield "k-ary RR", RandomizedResponse(domain, **one), _k_ary(d)
    yield "OUE", UnaryEncoding(domain, **one), _unary(d)
    yield "SS", SubsetSelection(domain, **one), _subset(d)
    yield "SHE", SummationHistogramEncoding(domain, **one), _histogram(d, threshold=False)
    yield "THE", ThresholdHistogramEncoding(domain, **one), _histogram(d)
    yield "OLH", LocalHashing(domain, **one), _hashing(d)
    yield "FLH", LocalHashing(domain, **one, variant="fast"), _fast_hashing(d)
    yield "HR", HadamardResponse(domain, **one), _hadamard(d)
    yield "BHR, epsilon 2, 4 blocks", BlockHadamardResponse(domain, epsilon=2.0, blocks=4), _hadamard(d, 2.0)
    yield "CMS 256 x 256", CountMeanSketch("int", **one, hashes=256, width=256).over(domain), _sketch(d, False)
    yield "HCMS 256 x 256", HadamardCountMeanSketch("int", **one, hashes=256, width=256).over(domain), _sketch(d, True)
    rappor = Rappor("int", bits=64, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75)
    yield "RAPPOR k=64, 8 cohorts (theirs without the second round)", rappor.over(domain), _rappor(d)
    yield "L-GRR", LongitudinalRandomizedResponse(domain, **both), _longitudinal(d, "GRR")
    for variant in ("SUE", "OUE", "SOUE", "OSUE"):
        yield f"L-{variant}", LongitudinalUnaryEncoding(domain, **both, variant=variant), _longitudinal(d, variant)
    yield "LOLOHA (theirs L-OLH)", Loloha(domain, **both), _longitudinal(d, "LH")
    yield "dBitFlipPM, 4 bits", DBitFlip(domain, epsilon_infinity=INFINITY, bits=4), _d_bit_flip(d)


def _independent_of_d(d: int) -> Iterator[tuple[str, FrequencyOracle]]:
    """Mechanisms of which a tally does not cost n d."""
    yield "FLH", LocalHashing(range(d), epsilon=EPSILON, variant="fast")
    yield "HR", HadamardResponse(range(d), epsilon=EPSILON)
    yield "PGR", ProjectiveGeometryResponse(range(d), epsilon=EPSILON)
    for epsilon in (EPSILON, 4.0):  # the larger, the more blocks
        yield f"BHR, epsilon {epsilon:g}", BlockHadamardResponse(range(d), epsilon=epsilon)
        yield f"HPGR, epsilon {epsilon:g}", HybridProjectiveGeometryResponse(range(d), epsilon=epsilon)
    yield "CMS 256 x 256", CountMeanSketch("int", epsilon=EPSILON, hashes=256, width=256).over(range(d))
    yield "HCMS 256 x 256", HadamardCountMeanSketch("int", epsilon=EPSILON, hashes=256, width=256).over(range(d))


def _estimate(m: FrequencyOracle, reports: Any) -> Any:
    return m.estimate(m.tally(reports))


def _against(label: str, m: FrequencyOracle, peer: Peer, d: int, scale: float) -> Iterator[Row]:
    n = int(OURS * scale)
    codes = np.random.default_rng(1).integers(0, d, n)
    values, theirs = pa.array(codes), codes[: peer.n].tolist()
    secret, ids = Secret.generate(), np.arange(n)

    def client() -> Any:
        noise = Keyed(secret, ids, column="x") if m.memoised else None
        return m.perturb(values, packed=True, randomness=noise)

    reports, their_reports = client(), [peer.client(v) for v in theirs]
    jobs = {
        "client": (client, lambda: [peer.client(v) for v in theirs]),
        "server": (partial(_estimate, m, reports), lambda: peer.server(their_reports)),
    }
    for side, (ours, their_job) in jobs.items():
        yield compare(f"{label}: {side}", peer.name, ours, their_job, n=n, their_n=len(theirs), bar=BAR, repeats=3)


def _plan_against(label: str, plan: PrivacyPlan, peer: Peer, d: int, scale: float) -> Iterator[Row]:
    n = int(OURS * scale)
    table = np.random.default_rng(1).integers(0, d, (n, len(plan.columns)))
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in table.T], names=list(plan.columns))
    theirs = table[: peer.n].tolist()
    reports, their_reports = plan.perturb(batch, packed=True), [peer.client(v) for v in theirs]
    jobs = {
        "client": (lambda: plan.perturb(batch, packed=True), lambda: [peer.client(v) for v in theirs]),
        "server": (
            lambda: [_estimate(m, reports.column(name)) for name, m in plan.oracles.items()],
            lambda: peer.server(their_reports),
        ),
    }
    for side, (ours, their_job) in jobs.items():
        yield compare(f"{label}: {side}", peer.name, ours, their_job, n=n, their_n=len(theirs), bar=BAR, repeats=3)


MULTI, PURE = "multi-freq-ldpy 0.2.5", "pure-ldp 1.2.0"


def _served(make: Callable[[], Any], d: int) -> Callable[[list[Any]], Any]:
    """A server of pure-ldp: report by report, then value by value."""

    def serve(reports: list[Any]) -> list[float]:
        server = make()
        for report in reports:
            server.aggregate(report)
        return [server.estimate(v, suppress_warnings=True) for v in range(d)]

    return serve


def _fresh(server: Any) -> Any:
    server.reset()
    return server


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


def _hadamard(d: int, epsilon: float = EPSILON) -> list[Peer]:
    """Theirs is that of one block up to epsilon 1, and from there on that of blocks."""
    if not installed("pure_ldp"):
        return []
    from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer

    server = HadamardResponseServer(epsilon, d, index_mapper=_same)
    client = HadamardResponseClient(epsilon, d, server.get_hash_funcs(), index_mapper=_same)
    return [Peer(PURE, client.privatise, _served(partial(_fresh, server), d))]


def _sketch(d: int, hadamard: bool) -> list[Peer]:
    if not installed("pure_ldp"):
        return []
    from pure_ldp.core import _freq_oracle_server
    from pure_ldp.frequency_oracles.apple_cms import CMSClient, CMSServer

    _freq_oracle_server.np = _Numpy()
    server = CMSServer(EPSILON, 256, 256, is_hadamard=hadamard)
    client = CMSClient(EPSILON, server.get_hash_funcs(), 256, is_hadamard=hadamard)

    return [Peer(PURE, client.privatise, _served(partial(_fresh, server), d), 5_000)]


class _Numpy:
    """Numpy for a peer that asks for ``zeros(None)``, which numpy 2 refuses."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any) -> Any:
        return np.zeros(() if shape is None else shape)


def _rappor(d: int) -> list[Peer]:
    if not installed("pure_ldp"):
        return []
    from pure_ldp.frequency_oracles.rappor import RAPPORClient, RAPPORServer

    server = RAPPORServer(0.5, 64, 2, d, num_of_cohorts=8, reg_const=0.05, index_mapper=_same)
    client = RAPPORClient(0.5, 64, server.get_hash_funcs(), num_of_cohorts=8, index_mapper=_same)

    return [Peer(PURE, client.privatise, _served(partial(_fresh, server), d), 5_000)]


def _longitudinal(d: int, variant: str) -> list[Peer]:
    if not installed("multi_freq_ldpy"):
        return []
    module = importlib.import_module(f"multi_freq_ldpy.long_freq_est.L_{variant}")
    client, server = getattr(module, f"L_{variant}_Client"), getattr(module, f"L_{variant}_Aggregator_MI")
    if variant in ("GRR", "LH"):
        return [
            Peer(
                MULTI,
                lambda v: client(v, d, INFINITY, EPSILON),
                lambda r: server(r, d, INFINITY, EPSILON),
                2_000 if variant == "LH" else 20_000,
            )
        ]
    return [Peer(MULTI, lambda v: client(v, d, INFINITY, EPSILON), lambda r: server(r, INFINITY, EPSILON))]


def _d_bit_flip(d: int) -> list[Peer]:
    if not installed("multi_freq_ldpy"):
        return []
    from multi_freq_ldpy.long_freq_est.dBitFlipPM import dBitFlipPM_Aggregator_MI, dBitFlipPM_Client

    return [
        Peer(
            MULTI,
            lambda v: dBitFlipPM_Client(v, d, d, 4, INFINITY),
            lambda r: dBitFlipPM_Aggregator_MI(r, d, 4, INFINITY),
        )
    ]


COLUMNS = 4


def _plans(d: int) -> Iterator[tuple[str, PrivacyPlan, Peer]]:
    """Plans of several columns, each over ``range(d)``."""
    if not installed("multi_freq_ldpy"):
        return
    from multi_freq_ldpy.mdim_freq_est import RSpFD_solution as fd
    from multi_freq_ldpy.mdim_freq_est import SMP_solution as smp
    from multi_freq_ldpy.mdim_freq_est import SPL_solution as spl

    sizes = [d] * COLUMNS

    def columns(epsilon: float) -> dict[str, RandomizedResponse]:
        return {f"x{i}": RandomizedResponse(range(d), epsilon=epsilon) for i in range(COLUMNS)}

    made = {
        "SPL": (spl, "SPL_GRR", PrivacyPlan(columns(EPSILON / COLUMNS))),
        "SMP": (smp, "SMP_GRR", PrivacyPlan.sampled(columns(EPSILON), epsilon=EPSILON)),
        "RS+FD": (fd, "RSpFD_GRR", PrivacyPlan.fake(columns(EPSILON), epsilon=EPSILON)),
    }
    for label, (module, name, plan) in made.items():
        client, server = getattr(module, f"{name}_Client"), getattr(module, f"{name}_Aggregator_MI")
        peer = Peer(
            MULTI,
            partial(lambda client, v: client(v, sizes, COLUMNS, EPSILON), client),
            partial(lambda server, r: server(r, sizes, COLUMNS, EPSILON), server),
        )
        yield f"{label}[GRR], {COLUMNS} columns of d={d}", plan, peer
