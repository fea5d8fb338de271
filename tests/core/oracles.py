"""One or more of every frequency oracle, for the tests that ask the same of all of them."""

from __future__ import annotations

from ldp_core import (
    BlockHadamardResponse,
    CountMeanSketch,
    DBitFlip,
    Domain,
    HadamardCountMeanSketch,
    HadamardResponse,
    LocalHashing,
    Loloha,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    SubsetSelection,
    SummationHistogramEncoding,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)
from ldp_core.mechanisms.oracles._base import FrequencyOracle

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
    "BHR, a value a block": BlockHadamardResponse(
        WIDE, epsilon=3.0, blocks=40
    ),  # between them it depends on the others
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
