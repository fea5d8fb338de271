"""The public names, and where they are: `ldp_core.lazy` and type checkers read this file."""

from ldp_core.accounting.people import best_guess, parallel_epsilon, sampled_epsilon, shuffled_epsilon, total_epsilon
from ldp_core.auditing.result import Audit
from ldp_core.auditing.run import audit
from ldp_core.errors import (
    DomainError,
    DtypeError,
    InputError,
    LdpError,
    LdpWarning,
    LimitError,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    ReportError,
)
from ldp_core.estimates.base import Question, Result, estimates_metadata
from ldp_core.estimates.change import changes
from ldp_core.estimates.comparison import Comparison, compare
from ldp_core.estimates.comparison_of_persons import compare_persons
from ldp_core.estimates.consistency import consistent
from ldp_core.estimates.distribution import Distribution, DistributionEstimate
from ldp_core.estimates.fitted import FittedTables, fit_tables
from ldp_core.estimates.heavy_hitters import HeavyHittersEstimate
from ldp_core.estimates.histogram import Histogram, HistogramEstimate
from ldp_core.estimates.joint import Joint, Table, TableEstimate
from ldp_core.estimates.mean import Mean, MeanEstimate
from ldp_core.estimates.moments import LinearFit, linear_fit
from ldp_core.estimates.pooling import Pooled, pool
from ldp_core.estimates.quantile_differences import QuantileDifferences, compare_quantiles
from ldp_core.estimates.quantiles import Cdf, CdfEstimate, Median, MedianEstimate, QuantilesEstimate
from ldp_core.estimates.ranges import RangeEstimate, Ranges
from ldp_core.estimates.ratios import Ratio, ratio
from ldp_core.estimates.registry import question_of, usual_question
from ldp_core.estimates.weights import (
    Quantiles,
    Total,
    WeightedMean,
    total,
    weighted_mean,
    weighted_quantiles,
)
from ldp_core.inputs.cells import Cells
from ldp_core.inputs.dates import Dates
from ldp_core.inputs.domain import Domain
from ldp_core.inputs.interval import Interval, WholeNumbers
from ldp_core.inputs.open_domain import OpenDomain
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.limits import Limits
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters
from ldp_core.mechanisms.longitudinal.d_bit_flip import DBitFlip
from ldp_core.mechanisms.longitudinal.loloha import Loloha
from ldp_core.mechanisms.longitudinal.two_rounds import LongitudinalRandomizedResponse, LongitudinalUnaryEncoding
from ldp_core.mechanisms.numbers.base import Numeric
from ldp_core.mechanisms.numbers.means import Hybrid, NOutput, OneBitMean, Piecewise
from ldp_core.mechanisms.numbers.square_wave import SquareWave
from ldp_core.mechanisms.numbers.stochastic_rounding import StochasticRounding
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.mechanisms.oracles.hadamard_response import BlockHadamardResponse, HadamardResponse
from ldp_core.mechanisms.oracles.local_hashing import LocalHashing
from ldp_core.mechanisms.oracles.projective_geometry_response import (
    HybridProjectiveGeometryResponse,
    ProjectiveGeometryResponse,
)
from ldp_core.mechanisms.oracles.randomized_response import RandomizedResponse
from ldp_core.mechanisms.oracles.subset_selection import SubsetSelection
from ldp_core.mechanisms.oracles.summation_histogram_encoding import SummationHistogramEncoding
from ldp_core.mechanisms.oracles.unary_encoding import ThresholdHistogramEncoding, UnaryEncoding
from ldp_core.mechanisms.ranges.hierarchical import HierarchicalHistogram
from ldp_core.mechanisms.sets.privset import PrivSet
from ldp_core.mechanisms.sketches.base import Candidates as Candidates
from ldp_core.mechanisms.sketches.base import Sketch
from ldp_core.mechanisms.sketches.count_mean_sketch import CountMeanSketch, HadamardCountMeanSketch
from ldp_core.mechanisms.sketches.rappor import Rappor
from ldp_core.noise.base import Randomness as Randomness
from ldp_core.noise.fresh import Keystream as Keystream
from ldp_core.noise.keyed import Keyed
from ldp_core.noise.secret import Secret
from ldp_core.plans.compare import compare as compare_plans
from ldp_core.plans.fake import FakeDataColumn as FakeDataColumn
from ldp_core.plans.plan import PrivacyPlan
from ldp_core.plans.recommend import expected_error, recommend
from ldp_core.plans.required import required_epsilon, required_n
from ldp_core.plans.sampled import SampledColumn as SampledColumn
from ldp_core.plans.sampled import SampledNumber as SampledNumber
from ldp_core.poisoning import Influence
from ldp_core.randomizer.aggregating import Vdaf
from ldp_core.randomizer.tallying import Tallier
from ldp_core.tally import Tally

# What is imported ``as`` itself is for tests and for those who extend the library.
__all__ = [
    "Audit",
    "BlockHadamardResponse",
    "Cdf",
    "CdfEstimate",
    "Cells",
    "Comparison",
    "CountMeanSketch",
    "DBitFlip",
    "Dates",
    "Distribution",
    "DistributionEstimate",
    "Domain",
    "DomainError",
    "DtypeError",
    "FittedTables",
    "FrequencyOracle",
    "HadamardCountMeanSketch",
    "HadamardResponse",
    "HeavyHitters",
    "HeavyHittersEstimate",
    "HierarchicalHistogram",
    "Histogram",
    "HistogramEstimate",
    "Hybrid",
    "HybridProjectiveGeometryResponse",
    "Influence",
    "InputError",
    "Interval",
    "Joint",
    "Keyed",
    "LdpError",
    "LdpWarning",
    "LimitError",
    "Limits",
    "LinearFit",
    "LocalHashing",
    "Loloha",
    "LongitudinalRandomizedResponse",
    "LongitudinalUnaryEncoding",
    "Mean",
    "MeanEstimate",
    "Mechanism",
    "MechanismMismatchError",
    "Median",
    "MedianEstimate",
    "NOutput",
    "Numeric",
    "OneBitMean",
    "OpenDomain",
    "ParameterError",
    "Piecewise",
    "PlanError",
    "Pooled",
    "Prefixes",
    "PrivSet",
    "PrivacyPlan",
    "ProjectiveGeometryResponse",
    "QuantileDifferences",
    "Quantiles",
    "QuantilesEstimate",
    "Question",
    "RandomizedResponse",
    "RangeEstimate",
    "Ranges",
    "Rappor",
    "Ratio",
    "ReportError",
    "Result",
    "Secret",
    "Sketch",
    "SquareWave",
    "StochasticRounding",
    "SubsetSelection",
    "SummationHistogramEncoding",
    "Table",
    "TableEstimate",
    "Tallier",
    "Tally",
    "ThresholdHistogramEncoding",
    "Total",
    "UnaryEncoding",
    "Vdaf",
    "WeightedMean",
    "WholeNumbers",
    "audit",
    "best_guess",
    "changes",
    "compare",
    "compare_persons",
    "compare_plans",
    "compare_quantiles",
    "consistent",
    "estimates_metadata",
    "expected_error",
    "fit_tables",
    "linear_fit",
    "parallel_epsilon",
    "pool",
    "question_of",
    "ratio",
    "recommend",
    "required_epsilon",
    "required_n",
    "sampled_epsilon",
    "shuffled_epsilon",
    "total",
    "total_epsilon",
    "usual_question",
    "weighted_mean",
    "weighted_quantiles",
]
