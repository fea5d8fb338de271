"""Every mechanism that a peer has, against the peer: clients and servers, one value or one report per call, as made.

Client: n values to n reports. Server: n reports to the estimates of all d values. Ours are calls of ``ldp_core`` on
whole columns. The peers' n are smaller; their costs that do not depend on n are shared by thousands of reports.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import ldp_core as ldp
from benchmarks.columns import EPSILON
from benchmarks.peers import Peer, apple_cms, installed, k_ary, multi, pure, unary
from benchmarks.timing import Row, absolute, compare

BAR = 40.0
OURS = 1_000_000
INFINITY = 2.0  # epsilon_infinity of longitudinal mechanisms, whose epsilon_1 is EPSILON


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
            job = f"{label} d={d}: server, {OURS * scale:.0e} reports"
            yield absolute(job, partial(_estimate, mechanism, reports), n=len(reports), unit="ns/report", repeats=3)


def _cases(d: int) -> Iterator[tuple[str, ldp.FrequencyOracle, list[Peer]]]:
    """Names, our mechanisms, and those of the peers that have the same."""
    domain, one, both = range(d), {"epsilon": EPSILON}, {"epsilon_infinity": INFINITY, "epsilon_1": EPSILON}
    of_d, few = (EPSILON, d), {"n": 2_000}
    yield "k-ary RR", ldp.RandomizedResponse(domain, **one), k_ary(d)
    yield "OUE", ldp.UnaryEncoding(domain, **one), unary(d)
    yield "SS", ldp.SubsetSelection(domain, **one), multi("pure_frequency_oracles.SS", (d, EPSILON), (d, EPSILON))
    for label, kind, threshold in (
        ("SHE", ldp.SummationHistogramEncoding, False),
        ("THE", ldp.ThresholdHistogramEncoding, True),
    ):
        theirs = pure("histogram_encoding", "HE", d, of_d, lambda _: of_d, use_the=threshold, copied=threshold)
        peers = multi("pure_frequency_oracles.HE", (d, EPSILON), (d, EPSILON, threshold)) + theirs
        yield label, kind(domain, **one), peers
    theirs = pure("local_hashing", "LH", d, of_d, lambda _: of_d, use_olh=True, **few)
    peers = multi("pure_frequency_oracles.LH", (d, EPSILON), (d, EPSILON), **few) + theirs
    yield "OLH", ldp.LocalHashing(domain, **one), peers
    shape = (EPSILON, d, 500)  # the peer's own examples take 500 hash functions
    peers = pure("local_hashing", "FastLH", d, shape, lambda _: shape, use_olh=True)
    yield "FLH", ldp.LocalHashing(domain, **one, variant="fast"), peers
    yield "HR", ldp.HadamardResponse(domain, **one), _hadamard(d, EPSILON)
    yield "BHR, epsilon 2, 4 blocks", ldp.BlockHadamardResponse(domain, epsilon=2.0, blocks=4), _hadamard(d, 2.0)
    if installed("pure_ldp"):
        apple_cms()
    size = {"hashes": 256, "width": 256}
    for label, sketch, hadamard in (
        ("CMS 256 x 256", ldp.CountMeanSketch("int", **one, **size), False),
        ("HCMS 256 x 256", ldp.HadamardCountMeanSketch("int", **one, **size), True),
    ):
        client = lambda server: (EPSILON, server.get_hash_funcs(), 256)  # noqa: E731
        peers = pure("apple_cms", "CMS", d, (EPSILON, 256, 256), client, is_hadamard=hadamard, n=5_000)
        yield label, sketch.over(domain), peers
    rappor = ldp.Rappor("int", bits=64, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75)
    client = lambda server: (0.5, 64, server.get_hash_funcs())  # noqa: E731
    peers = pure("rappor", "RAPPOR", d, (0.5, 64, 2, d), client, num_of_cohorts=8, reg_const=0.05, n=5_000)
    yield "RAPPOR k=64, 8 cohorts (theirs without the second round)", rappor.over(domain), peers
    rounds = (INFINITY, EPSILON)
    peers = multi("long_freq_est.L_GRR", (d, *rounds), (d, *rounds))
    yield "L-GRR", ldp.LongitudinalRandomizedResponse(domain, **both), peers
    for variant in ("SUE", "OUE", "SOUE", "OSUE"):
        peers = multi(f"long_freq_est.L_{variant}", (d, *rounds), rounds)
        yield f"L-{variant}", ldp.LongitudinalUnaryEncoding(domain, **both, variant=variant), peers
    peers = multi("long_freq_est.L_LH", (d, *rounds), (d, *rounds), **few)
    yield "LOLOHA (theirs L-OLH)", ldp.Loloha(domain, **both), peers
    peers = multi("long_freq_est.dBitFlipPM", (d, d, 4, INFINITY), (d, 4, INFINITY))
    yield "dBitFlipPM, 4 bits", ldp.DBitFlip(domain, epsilon_infinity=INFINITY, bits=4), peers


def _hadamard(d: int, epsilon: float) -> list[Peer]:
    """Theirs is that of one block up to epsilon 1, and from there on that of blocks."""
    client = lambda server: (epsilon, d, server.get_hash_funcs())  # noqa: E731
    return pure("hadamard_response", "HadamardResponse", d, (epsilon, d), client)


def _independent_of_d(d: int) -> Iterator[tuple[str, ldp.FrequencyOracle]]:
    """Mechanisms of which a tally does not cost n d."""
    yield "FLH", ldp.LocalHashing(range(d), epsilon=EPSILON, variant="fast")
    yield "HR", ldp.HadamardResponse(range(d), epsilon=EPSILON)
    yield "PGR", ldp.ProjectiveGeometryResponse(range(d), epsilon=EPSILON)
    for epsilon in (EPSILON, 4.0):  # the larger, the more blocks
        yield f"BHR, epsilon {epsilon:g}", ldp.BlockHadamardResponse(range(d), epsilon=epsilon)
        yield f"HPGR, epsilon {epsilon:g}", ldp.HybridProjectiveGeometryResponse(range(d), epsilon=epsilon)
    yield "CMS 256 x 256", ldp.CountMeanSketch("int", epsilon=EPSILON, hashes=256, width=256).over(range(d))
    yield "HCMS 256 x 256", ldp.HadamardCountMeanSketch("int", epsilon=EPSILON, hashes=256, width=256).over(range(d))


def _estimate(m: ldp.FrequencyOracle, reports: Any) -> Any:
    return m.estimate(m.tally(reports))


def _against(label: str, m: ldp.FrequencyOracle, peer: Peer, d: int, scale: float) -> Iterator[Row]:
    n = int(OURS * scale)
    codes = np.random.default_rng(1).integers(0, d, n)
    values, secret, ids = pa.array(codes), ldp.Secret.generate(), np.arange(n)

    def client() -> Any:
        noise = ldp.Keyed(secret, ids, column="x") if m.memoized else None
        return m.perturb(values, packed=True, randomness=noise)

    yield from _both_sides(label, client, partial(_estimate, m), codes.tolist(), peer)


def _plan_against(label: str, plan: ldp.PrivacyPlan, peer: Peer, d: int, scale: float) -> Iterator[Row]:
    table = np.random.default_rng(1).integers(0, d, (int(OURS * scale), len(plan.columns)))
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in table.T], names=list(plan.columns))

    def server(reports: Any) -> Any:
        return [_estimate(m, reports.column(name)) for name, m in plan.oracles.items()]

    yield from _both_sides(label, lambda: plan.perturb(batch, packed=True), server, table.tolist(), peer)


def _both_sides(
    label: str, client: Callable[[], Any], server: Callable[[Any], Any], values: list[Any], peer: Peer
) -> Iterator[Row]:
    theirs = values[: peer.n]
    reports, their_reports = client(), [peer.client(v) for v in theirs]
    how: dict[str, Any] = {"n": len(values), "their_n": len(theirs), "bar": BAR, "repeats": 3}
    yield compare(f"{label}: client", peer.name, client, lambda: [peer.client(v) for v in theirs], **how)
    yield compare(f"{label}: server", peer.name, lambda: server(reports), lambda: peer.server(their_reports), **how)


COLUMNS = 4


def _plans(d: int) -> Iterator[tuple[str, ldp.PrivacyPlan, Peer]]:
    """Plans of several columns, each over ``range(d)``."""

    def columns(epsilon: float) -> dict[str, ldp.RandomizedResponse]:
        return {f"x{i}": ldp.RandomizedResponse(range(d), epsilon=epsilon) for i in range(COLUMNS)}

    parameters = ([d] * COLUMNS, COLUMNS, EPSILON)
    for label, name, plan in (
        ("SPL", "SPL", ldp.PrivacyPlan(columns(EPSILON / COLUMNS))),
        ("SMP", "SMP", ldp.PrivacyPlan.sampled(columns(EPSILON), epsilon=EPSILON)),
        ("RS+FD", "RSpFD", ldp.PrivacyPlan.fake(columns(EPSILON), epsilon=EPSILON)),
    ):
        for peer in multi(f"mdim_freq_est.{name}_solution", parameters, parameters, f"{name}_GRR"):
            yield f"{label}[GRR], {COLUMNS} columns of d={d}", plan, peer
