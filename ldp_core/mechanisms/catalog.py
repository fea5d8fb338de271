"""The catalog of mechanisms: one entry each, from which tests, planning, README and the API page follow.

A mechanism that can be chosen before any data exist has `Choice`s: its two probabilities as a pure protocol (Wang,
Blocki, Li, Jha, USENIX Security 2017, Section 4, and the paper that its own file names), bytes and operations in closed
form, in floating point and for any domain size at once, without a domain. `recommend` ranks them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any, Literal, TypeAlias

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.exact.probability import best_symbols
from ldp_core.inputs.domain import Domain
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters
from ldp_core.mechanisms.longitudinal.d_bit_flip import DBitFlip
from ldp_core.mechanisms.longitudinal.loloha import Loloha
from ldp_core.mechanisms.longitudinal.randomized_response import LongitudinalRandomizedResponse
from ldp_core.mechanisms.longitudinal.unary_encoding import LongitudinalUnaryEncoding
from ldp_core.mechanisms.numbers.hybrid import Hybrid
from ldp_core.mechanisms.numbers.one_bit_mean import OneBitMean
from ldp_core.mechanisms.numbers.piecewise import Piecewise
from ldp_core.mechanisms.numbers.square_wave import SquareWave
from ldp_core.mechanisms.numbers.stochastic_rounding import StochasticRounding
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.mechanisms.oracles.block_hadamard_response import BlockHadamardResponse
from ldp_core.mechanisms.oracles.hadamard_response import HadamardResponse
from ldp_core.mechanisms.oracles.hash_families import MOST_BUCKETS, SMALL_PRIMES
from ldp_core.mechanisms.oracles.hybrid_projective_geometry_response import HybridProjectiveGeometryResponse
from ldp_core.mechanisms.oracles.local_hashing import LocalHashing
from ldp_core.mechanisms.oracles.projective_geometry_response import (
    ProjectiveGeometryResponse,
    best_field,
    projective_space,
)
from ldp_core.mechanisms.oracles.randomized_response import RandomizedResponse
from ldp_core.mechanisms.oracles.subset_selection import SubsetSelection
from ldp_core.mechanisms.oracles.summation_histogram_encoding import SummationHistogramEncoding
from ldp_core.mechanisms.oracles.threshold_histogram_encoding import ThresholdHistogramEncoding
from ldp_core.mechanisms.oracles.unary_encoding import UnaryEncoding
from ldp_core.mechanisms.sketches.count_mean_sketch import CountMeanSketch
from ldp_core.mechanisms.sketches.hadamard_count_mean_sketch import HadamardCountMeanSketch
from ldp_core.mechanisms.sketches.rappor import Rappor

Family: TypeAlias = Literal["oracles", "sketches", "heavy hitters", "numbers", "longitudinal"]


@dataclass(frozen=True)
class Choice:
    """One way to make a mechanism from a domain size d and an epsilon, and what to expect of it.

    Attributes:
        name: the mechanism's, as in TOML; `CHOICES` has it under this name, or with its variant: ``NAME:VARIANT``.
        probabilities: (p, q) in closed form.
        report_bytes: what a report takes in a column of many: its own bytes, without dictionary or offsets.
        server_operations: counters that a report adds to, or hashes to compute for it, in a tally.
        make: the mechanism for a domain and an epsilon.
        supported: the most values that one report supports.
        variant: where there are several, that which is not the default: an option of the mechanism.
    """

    name: str
    probabilities: Callable[[int, float], tuple[float, float]]
    report_bytes: Callable[[int, float], int]
    server_operations: Callable[[int, float], int]
    make: Callable[[Domain, float], FrequencyOracle]
    supported: Callable[[int, float], int] = lambda d, _: d
    variant: str | None = None

    @property
    def key(self) -> str:
        """Its name in `CHOICES`."""
        return self.name if self.variant is None else f"{self.name}:{self.variant}"


@dataclass(frozen=True)
class Entry:
    """A mechanism.

    Attributes:
        mechanism: its class.
        family: the folder of its file.
        page: of the documentation, ``docs/PAGE.md``.
        question: the row of README's table that offers it; none: its page alone does.
        examples: small ones, by a short name: each stands for a way of working of its own. Tests ask of all of them
            whatever must hold for every mechanism.
        choices: for `recommend`.
        sized: from a domain size d and an epsilon of one report the ones to compare, by name; of sketches for d
            candidates. Numbers and heavy hitters do not depend on d.
    """

    mechanism: type[Mechanism]
    family: Family
    page: str
    question: str | None
    examples: Callable[[], dict[str, Mechanism]]
    choices: tuple[Choice, ...] = ()
    sized: Callable[[int, float], dict[str, Mechanism]] = field(kw_only=True)


# ---- (p, q)


def _randomized_response(d: int, epsilon: float) -> tuple[float, float]:
    less = math.exp(-epsilon)  # e^eps / (e^eps + d - 1) without overflow
    return 1 / (1 + (d - 1) * less), less / (1 + (d - 1) * less)


def _optimized(d: int, epsilon: float) -> tuple[float, float]:
    return 0.5, math.exp(-epsilon) / (1 + math.exp(-epsilon))


def _symmetric(d: int, epsilon: float) -> tuple[float, float]:
    half = math.exp(-epsilon / 2)
    return 1 / (1 + half), half / (1 + half)


def _subset_selection(d: int, epsilon: float) -> tuple[float, float]:
    k = _subset(d, epsilon)
    p = k / (k + (d - k) * math.exp(-epsilon))
    return p, (k - p) / (d - 1)


def _local_hashing(d: int, epsilon: float) -> tuple[float, float]:
    g = min(round(math.exp(min(epsilon, 20))) + 1, MOST_BUCKETS)
    return 1 / (1 + (g - 1) * math.exp(-epsilon)), 1 / g


def _fast_local_hashing(d: int, epsilon: float) -> tuple[float, float]:
    g = best_symbols(SMALL_PRIMES, epsilon)
    return 1 / (1 + (g - 1) * math.exp(-epsilon)), 1 / g


def _projective(d: int, epsilon: float) -> tuple[float, float]:
    space = projective_space(best_field(d, epsilon), d)
    s, c, k = space.support, space.intersection, space.points
    less = math.exp(-epsilon)
    p = s / (s + (k - s) * less)
    return p, p * c / s + p * less * (s - c) / s


def _hadamard(d: int, epsilon: float) -> tuple[float, float]:
    return 1 / (1 + math.exp(-epsilon)), 0.5


# ---- the most values that a report supports


def _subset(d: int, epsilon: float) -> int:
    return max(round(d / (math.exp(epsilon) + 1)), 1)


def _hyperplane(d: int, epsilon: float) -> int:
    return projective_space(best_field(d, epsilon), d).supported(d)[1]


# ---- bytes of a report, operations on the server


def _code(d: int, epsilon: float) -> int:
    return np.min_scalar_type(d).itemsize  # integers and Booleans travel as themselves, in 8 bytes and in one bit


def _bits(d: int, epsilon: float) -> int:
    return -(-d // 8)


def _word(d: int, epsilon: float) -> int:
    return 8


def _one(d: int, epsilon: float) -> int:
    return 1


def _each_value(d: int, epsilon: float) -> int:
    return d


# ---- the entries


def _make(mechanism: Callable[..., FrequencyOracle], **options: str) -> Callable[[Domain, float], FrequencyOracle]:
    return lambda domain, epsilon: mechanism(domain, epsilon=epsilon, **options)


_FEW = "yes or no, one of a few values"
_MANY = "one of many declared values"
_UNLISTED = "values that nobody listed; candidates come later"
_FREQUENT = "the most frequent of millions of possible strings"
_MEAN = "the mean of a number"
_DISTRIBUTION = "the distribution of a number"
_AGAIN = "the same people, again and again"


def _rappor(epsilon: float) -> Rappor:
    """Of basic settings, with which one report spends about epsilon."""
    p = 1 / (1 + math.exp(epsilon / 4))
    return Rappor("int", bits=32, hashes=2, cohorts=16, f=0.0, p=p, q=1 - p)


CATALOG: tuple[Entry, ...] = (
    Entry(
        RandomizedResponse,
        "oracles",
        "mechanisms",
        _FEW,
        lambda: {
            "binary RR": RandomizedResponse(epsilon=1.0),
            "k-ary RR": RandomizedResponse(range(5), epsilon=1.0),
        },
        (Choice("randomized_response", _randomized_response, _code, _one, _make(RandomizedResponse), _one),),
        sized=lambda d, e: {"randomized response": RandomizedResponse(range(d), epsilon=e)},
    ),
    Entry(
        UnaryEncoding,
        "oracles",
        "mechanisms",
        _MANY,
        lambda: {
            "OUE": UnaryEncoding(range(5), epsilon=1.0),
            "SUE wide": UnaryEncoding(range(40), epsilon=2.0, variant="symmetric"),
        },
        (
            Choice("unary_encoding", _optimized, _bits, _each_value, _make(UnaryEncoding)),
            Choice(
                "unary_encoding",
                _symmetric,
                _bits,
                _each_value,
                _make(UnaryEncoding, variant="symmetric"),
                variant="symmetric",
            ),
        ),
        sized=lambda d, e: {
            "OUE": UnaryEncoding(range(d), epsilon=e),
            "SUE": UnaryEncoding(range(d), epsilon=e, variant="symmetric"),
        },
    ),
    Entry(
        SubsetSelection,
        "oracles",
        "mechanisms",
        _MANY,
        lambda: {
            "SS": SubsetSelection(range(5), epsilon=1.0),
            "SS wide": SubsetSelection(range(40), epsilon=1.0),
        },
        (Choice("subset_selection", _subset_selection, _bits, _each_value, _make(SubsetSelection), _subset),),
        sized=lambda d, e: {"subset selection": SubsetSelection(range(d), epsilon=e)},
    ),
    Entry(
        ThresholdHistogramEncoding,
        "oracles",
        "mechanisms",
        None,
        lambda: {"THE": ThresholdHistogramEncoding(range(5), epsilon=1.0)},
        sized=lambda d, e: {"THE": ThresholdHistogramEncoding(range(d), epsilon=e)},
    ),
    Entry(
        LocalHashing,
        "oracles",
        "mechanisms",
        _MANY,
        lambda: {
            "OLH": LocalHashing(range(40), epsilon=1.0),
            "BLH": LocalHashing(range(5), epsilon=1.0, variant="binary"),
            "FLH": LocalHashing(range(40), epsilon=1.0, variant="fast"),
        },
        (
            Choice("local_hashing", _local_hashing, _word, _each_value, _make(LocalHashing)),
            Choice(
                "local_hashing",
                _fast_local_hashing,
                _word,
                _one,
                _make(LocalHashing, variant="fast"),
                variant="fast",
            ),
        ),
        sized=lambda d, e: {
            "OLH": LocalHashing(range(d), epsilon=e),
            "FLH": LocalHashing(range(d), epsilon=e, variant="fast"),
        },
    ),
    Entry(
        HadamardResponse,
        "oracles",
        "mechanisms",
        _MANY,
        lambda: {"HR": HadamardResponse(range(40), epsilon=1.0)},
        (Choice("hadamard_response", _hadamard, _word, _one, _make(HadamardResponse)),),
        sized=lambda d, e: {"Hadamard response": HadamardResponse(range(d), epsilon=e)},
    ),
    Entry(
        BlockHadamardResponse,
        "oracles",
        "mechanisms",
        _MANY,
        lambda: {
            "BHR": BlockHadamardResponse(range(40), epsilon=1.0),  # one block
            "BHR, a value a block": BlockHadamardResponse(range(40), epsilon=3.0, blocks=40),
        },
        sized=lambda d, e: {"BHR": BlockHadamardResponse(range(d), epsilon=e)},
    ),
    Entry(
        SummationHistogramEncoding,
        "oracles",
        "mechanisms",
        None,
        lambda: {"SHE": SummationHistogramEncoding(range(5), epsilon=1.0)},
        sized=lambda d, e: {"SHE": SummationHistogramEncoding(range(d), epsilon=e)},
    ),
    Entry(
        ProjectiveGeometryResponse,
        "oracles",
        "mechanisms",
        _MANY,
        lambda: {"PGR": ProjectiveGeometryResponse(range(40), epsilon=1.0)},
        (
            Choice(
                "projective_geometry_response", _projective, _word, _one, _make(ProjectiveGeometryResponse), _hyperplane
            ),
        ),
        sized=lambda d, e: {"PGR": ProjectiveGeometryResponse(range(d), epsilon=e)},
    ),
    Entry(
        HybridProjectiveGeometryResponse,
        "oracles",
        "mechanisms",
        None,
        lambda: {"HPGR": HybridProjectiveGeometryResponse(range(40), epsilon=1.0)},
        sized=lambda d, e: {"HPGR": HybridProjectiveGeometryResponse(range(d), epsilon=e)},
    ),
    Entry(
        CountMeanSketch,
        "sketches",
        "sketches",
        _UNLISTED,
        lambda: {"CMS": CountMeanSketch("int", epsilon=1.0, hashes=64, width=64)},
        sized=lambda d, e: {"CMS": CountMeanSketch("int", epsilon=e).over(range(d))},
    ),
    Entry(
        HadamardCountMeanSketch,
        "sketches",
        "sketches",
        _UNLISTED,
        lambda: {"HCMS": HadamardCountMeanSketch("int", epsilon=1.0, hashes=64, width=64)},
        sized=lambda d, e: {"HCMS": HadamardCountMeanSketch("int", epsilon=e).over(range(d))},
    ),
    Entry(
        Rappor,
        "sketches",
        "rappor",
        _UNLISTED,
        lambda: {"RAPPOR": Rappor(bits=16, hashes=2, cohorts=4, f=0.5, p=0.5, q=0.75)},
        sized=lambda d, e: {"RAPPOR": _rappor(e).over(range(d))},
    ),
    Entry(
        HeavyHitters,
        "heavy hitters",
        "heavy_hitters",
        _FREQUENT,
        lambda: {"heavy hitters": HeavyHitters(Prefixes("abc", 4), epsilon=1.0, rows=64, width=4096)},
        sized=lambda d, e: {"heavy hitters, of 6 letters": HeavyHitters(Prefixes(ascii_lowercase, 6), epsilon=e)},
    ),
    Entry(
        Hybrid,
        "numbers",
        "numbers",
        _MEAN,
        lambda: {"hybrid": Hybrid((0, 100), epsilon=1.0)},
        sized=lambda d, e: {"hybrid, [0, 1]": Hybrid((0, 1), epsilon=e)},
    ),
    Entry(
        Piecewise,
        "numbers",
        "numbers",
        _MEAN,
        lambda: {"piecewise": Piecewise((-1, 1), epsilon=1.0)},
        sized=lambda d, e: {"piecewise, [0, 1]": Piecewise((0, 1), epsilon=e)},
    ),
    Entry(
        OneBitMean,
        "numbers",
        "numbers",
        _MEAN,
        lambda: {"one bit": OneBitMean((0, 10), epsilon=1.0)},
        sized=lambda d, e: {"one bit, [0, 1]": OneBitMean((0, 1), epsilon=e)},
    ),
    Entry(
        SquareWave,
        "numbers",
        "numbers",
        _DISTRIBUTION,
        lambda: {"square wave": SquareWave((0, 1), epsilon=1.0)},
        sized=lambda d, e: {"square wave, [0, 1]": SquareWave((0, 1), epsilon=e)},
    ),
    Entry(
        StochasticRounding,
        "numbers",
        "numbers",
        _DISTRIBUTION,
        lambda: {"stochastic rounding": StochasticRounding((0, 1), epsilon=1.0)},
        sized=lambda d, e: {"stochastic rounding, [0, 1]": StochasticRounding((0, 1), epsilon=e)},
    ),
    Entry(
        LongitudinalRandomizedResponse,
        "longitudinal",
        "longitudinal",
        None,
        lambda: {"L-GRR": LongitudinalRandomizedResponse(range(5), epsilon_infinity=2.0, epsilon_1=1.0)},
        sized=lambda d, e: {"L-GRR": LongitudinalRandomizedResponse(range(d), epsilon_infinity=2 * e, epsilon_1=e)},
    ),
    Entry(
        LongitudinalUnaryEncoding,
        "longitudinal",
        "longitudinal",
        _AGAIN,
        lambda: {
            "L-OSUE": LongitudinalUnaryEncoding(range(5), epsilon_infinity=2.0, epsilon_1=1.0),
            "L-SUE wide": LongitudinalUnaryEncoding(range(40), epsilon_infinity=3.0, epsilon_1=2.0, variant="SUE"),
        },
        sized=lambda d, e: {"L-OSUE": LongitudinalUnaryEncoding(range(d), epsilon_infinity=2 * e, epsilon_1=e)},
    ),
    Entry(
        Loloha,
        "longitudinal",
        "longitudinal",
        _AGAIN,
        lambda: {
            "LOLOHA": Loloha(range(40), epsilon_infinity=2.0, epsilon_1=1.0),
            "LOLOHA, linear": Loloha(range(40), epsilon_infinity=2.0, epsilon_1=1.0, g=3),
        },
        sized=lambda d, e: {"LOLOHA": Loloha(range(d), epsilon_infinity=2 * e, epsilon_1=e)},
    ),
    Entry(
        DBitFlip,
        "longitudinal",
        "longitudinal",
        _AGAIN,
        lambda: {"dBitFlipPM": DBitFlip(range(40), epsilon_infinity=2.0, bits=4)},
        sized=lambda d, e: {"dBitFlipPM, 4 bits": DBitFlip(range(d), epsilon_infinity=e, bits=4)},
    ),
)

CHOICES: dict[str, Choice] = {choice.key: choice for entry in CATALOG for choice in entry.choices}
"""What `ldp_core.recommend` knows, by name."""


def choice_named(mechanism: Any) -> Choice:
    """The row of `CHOICES`, by its name or by the mechanism's class.

    Raises:
        ParameterError: there is none of this name.

    >>> choice_named("hadamard_response").report_bytes(1000, 1.0), choice_named(UnaryEncoding).key
    (8, 'unary_encoding')
    """
    name = getattr(mechanism, "name", None) if isinstance(mechanism, type) else mechanism
    if not isinstance(name, str) or name not in CHOICES:
        raise ParameterError(f"mechanism must be one of {', '.join(map(repr, CHOICES))}, got {name!r}")
    return CHOICES[name]
