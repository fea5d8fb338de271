"""Local differential privacy: mechanisms, exact randomness, tallies and histograms.

values -> Domain -> codes -> Mechanism.perturb -> reports -> tally -> Tally -> estimate -> Histogram
"""

from ldp_core.block_hadamard_response import BlockHadamardResponse
from ldp_core.consistency import consistent
from ldp_core.count_mean_sketch import CountMeanSketch
from ldp_core.d_bit_flip import DBitFlip
from ldp_core.distribution import Distribution
from ldp_core.domain import Domain
from ldp_core.errors import (
    DomainError,
    DtypeError,
    InputError,
    LdpError,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    ReportError,
)
from ldp_core.fake_data import FakeDataColumn
from ldp_core.frequency_oracle import FrequencyOracle
from ldp_core.hadamard_count_mean_sketch import HadamardCountMeanSketch
from ldp_core.hadamard_response import HadamardResponse
from ldp_core.heavy_hitters import HeavyHitters
from ldp_core.histogram import Histogram
from ldp_core.histogram_encoding import ThresholdHistogramEncoding
from ldp_core.hybrid import Hybrid
from ldp_core.hybrid_projective_geometry_response import HybridProjectiveGeometryResponse
from ldp_core.interval import Interval
from ldp_core.keyed import Keyed, Secret
from ldp_core.local_hashing import LocalHashing
from ldp_core.loloha import Loloha
from ldp_core.longitudinal import LongitudinalRandomizedResponse, LongitudinalUnaryEncoding
from ldp_core.mean import Mean
from ldp_core.mechanism import Mechanism
from ldp_core.numeric import Numeric
from ldp_core.one_bit_mean import OneBitMean
from ldp_core.open_domain import OpenDomain
from ldp_core.piecewise import Piecewise
from ldp_core.plan import PrivacyPlan
from ldp_core.plan_planning import compare as compare_plans
from ldp_core.planning import expected_error, recommend, required_epsilon, required_n
from ldp_core.prefixes import Prefixes
from ldp_core.projective_geometry_response import ProjectiveGeometryResponse
from ldp_core.randomized_response import RandomizedResponse
from ldp_core.randomness import Keystream, Randomness
from ldp_core.rappor import Rappor
from ldp_core.sampled_column import SampledColumn
from ldp_core.sketch import Candidates, Sketch
from ldp_core.square_wave import SquareWave
from ldp_core.stochastic_rounding import StochasticRounding
from ldp_core.subset_selection import SubsetSelection
from ldp_core.summation_histogram_encoding import SummationHistogramEncoding
from ldp_core.tally import Tally
from ldp_core.unary_encoding import UnaryEncoding

__all__ = [
    "BlockHadamardResponse",
    "Candidates",
    "CountMeanSketch",
    "DBitFlip",
    "Distribution",
    "Domain",
    "DomainError",
    "DtypeError",
    "FakeDataColumn",
    "FrequencyOracle",
    "HadamardCountMeanSketch",
    "HadamardResponse",
    "HeavyHitters",
    "Histogram",
    "Hybrid",
    "HybridProjectiveGeometryResponse",
    "InputError",
    "Interval",
    "Keyed",
    "Keystream",
    "LdpError",
    "LocalHashing",
    "Loloha",
    "LongitudinalRandomizedResponse",
    "LongitudinalUnaryEncoding",
    "Mean",
    "Mechanism",
    "MechanismMismatchError",
    "Numeric",
    "OneBitMean",
    "OpenDomain",
    "ParameterError",
    "Piecewise",
    "PlanError",
    "Prefixes",
    "PrivacyPlan",
    "ProjectiveGeometryResponse",
    "RandomizedResponse",
    "Randomness",
    "Rappor",
    "ReportError",
    "SampledColumn",
    "Secret",
    "Sketch",
    "SquareWave",
    "StochasticRounding",
    "SubsetSelection",
    "SummationHistogramEncoding",
    "Tally",
    "ThresholdHistogramEncoding",
    "UnaryEncoding",
    "compare_plans",
    "consistent",
    "expected_error",
    "recommend",
    "required_epsilon",
    "required_n",
]
