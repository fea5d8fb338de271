"""One or more of every mechanism, for the tests that ask the same of all of them.

`ORACLES` are the frequency oracles, `EVERY` is one or more of each mechanism that is registered.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ldp_core import (
    BlockHadamardResponse,
    CountMeanSketch,
    DBitFlip,
    Domain,
    FakeDataColumn,
    FrequencyOracle,
    HadamardCountMeanSketch,
    HadamardResponse,
    HeavyHitters,
    Hybrid,
    HybridProjectiveGeometryResponse,
    Interval,
    Keyed,
    LocalHashing,
    Loloha,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
    Mechanism,
    OneBitMean,
    Piecewise,
    Prefixes,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    Rappor,
    SampledColumn,
    Secret,
    SquareWave,
    StochasticRounding,
    SubsetSelection,
    SummationHistogramEncoding,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)

FIVE, WIDE = Domain(range(5)), Domain(range(40))
ORACLES: dict[str, FrequencyOracle] = {
    "binary RR": RandomizedResponse(epsilon=1.0),
    "k-ary RR": RandomizedResponse(FIVE, epsilon=1.0),
    "OUE": UnaryEncoding(FIVE, epsilon=1.0),
    "SUE wide": UnaryEncoding(WIDE, epsilon=2.0, variant="symmetric"),
    "SS": SubsetSelection(FIVE, epsilon=1.0),
    "SS wide": SubsetSelection(WIDE, epsilon=1.0),
    "THE": ThresholdHistogramEncoding(FIVE, epsilon=1.0),
    "OLH": LocalHashing(WIDE, epsilon=1.0),
    "BLH": LocalHashing(FIVE, epsilon=1.0, variant="binary"),
    "FLH": LocalHashing(WIDE, epsilon=1.0, variant="fast"),
    "HR": HadamardResponse(WIDE, epsilon=1.0),
    "BHR": BlockHadamardResponse(WIDE, epsilon=1.0),  # one block
    "BHR, a value a block": BlockHadamardResponse(WIDE, epsilon=3.0, blocks=40),  # (between them it depends on others)
    "SHE": SummationHistogramEncoding(FIVE, epsilon=1.0),
    "PGR": ProjectiveGeometryResponse(WIDE, epsilon=1.0),
    "CMS": CountMeanSketch("int", epsilon=1.0, hashes=64, width=64).over(range(40)),
    "HCMS": HadamardCountMeanSketch("int", epsilon=1.0, hashes=64, width=64).over(range(40)),
    "L-GRR": LongitudinalRandomizedResponse(FIVE, epsilon_infinity=2.0, epsilon_1=1.0),
    "L-OSUE": LongitudinalUnaryEncoding(FIVE, epsilon_infinity=2.0, epsilon_1=1.0),
    "L-SUE wide": LongitudinalUnaryEncoding(WIDE, epsilon_infinity=3.0, epsilon_1=2.0, variant="SUE"),
    "dBitFlipPM": DBitFlip(WIDE, epsilon_infinity=2.0, bits=4),
    "LOLOHA": Loloha(WIDE, epsilon_infinity=2.0, epsilon_1=1.0),
    "LOLOHA, linear": Loloha(WIDE, epsilon_infinity=2.0, epsilon_1=1.0, g=3),
}


RAPPOR = Rappor(bits=16, hashes=2, cohorts=4, f=0.5, p=0.5, q=0.75)
EVERY: dict[str, Mechanism] = {
    **ORACLES,
    "HPGR": HybridProjectiveGeometryResponse(range(40), epsilon=1.0),
    "a sketch": CountMeanSketch(epsilon=1.0),
    "a Hadamard sketch": HadamardCountMeanSketch("int", epsilon=1.0, hashes=16, width=64),
    "RAPPOR": RAPPOR,
    "RAPPOR's candidates": RAPPOR.over(["a", "b", "c"]),
    "one bit": OneBitMean((0, 10), epsilon=1.0),
    "piecewise": Piecewise((-1, 1), epsilon=1.0),
    "hybrid": Hybrid((0, 100), epsilon=1.0),
    "square wave": SquareWave((0, 1), epsilon=1.0),
    "stochastic rounding": StochasticRounding((0, 1), epsilon=1.0),
    "heavy hitters": HeavyHitters(Prefixes("abc", 4), epsilon=1.0, rows=64, width=4096),
    "sampled": SampledColumn(UnaryEncoding(range(5), epsilon=1.0), columns=3),
    "fake": FakeDataColumn(RandomizedResponse(range(5), epsilon=1.0), columns=3),
}


ALONE = {name: m for name, m in EVERY.items() if name not in ("sampled", "fake")}
"""Those that perturb a column by itself."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
AB, LABELS = ["a", "b"], ["a", "b", "c"]


def some_values(m: Mechanism, n: int) -> pa.Array:
    """``n`` values that a mechanism takes: of a domain all in turn."""
    inputs = m.inputs
    if isinstance(inputs, Interval):
        return pa.array(np.random.default_rng(0).uniform(inputs.low, inputs.high, n))
    labels = list(inputs.labels) if isinstance(inputs, Domain) else [1, 7, 2] if inputs.kind == "int" else LABELS
    return pa.array(labels).take(pa.array(np.arange(n) % len(labels)))


def noise_for(m: Mechanism, n: int) -> Keyed | None:
    """Keyed noise where a mechanism takes no other."""
    return Keyed(Secret.generate(), np.arange(n), column="x") if m.memoised else None
