"""The catalog of mechanisms: one entry each, from which tests, planning, README and the API page follow.

A mechanism that can be chosen before any data exist has `Choice`s: its two probabilities as a pure protocol (Wang,
Blocki, Li, Jha, USENIX Security 2017, Section 4, and the paper that its own file names), bytes and operations in closed
form, in floating point and for any domain size at once, without a domain. `recommend` ranks them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.exact.probability import best_symbols
from ldp_core.inputs.cells import Cells
from ldp_core.inputs.dates import Dates
from ldp_core.inputs.domain import Domain
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters
from ldp_core.mechanisms.longitudinal.d_bit_flip import DBitFlip
from ldp_core.mechanisms.longitudinal.loloha import Loloha
from ldp_core.mechanisms.longitudinal.two_rounds import LongitudinalRandomizedResponse, LongitudinalUnaryEncoding
from ldp_core.mechanisms.numbers.means import Hybrid, NOutput, OneBitMean, Piecewise
from ldp_core.mechanisms.numbers.square_wave import SquareWave
from ldp_core.mechanisms.numbers.stochastic_rounding import StochasticRounding
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.mechanisms.oracles.hadamard_response import BlockHadamardResponse, HadamardResponse
from ldp_core.mechanisms.oracles.local_hashing import MOST_BUCKETS, SMALL_PRIMES, LocalHashing
from ldp_core.mechanisms.oracles.projective_geometry_response import (
    HybridProjectiveGeometryResponse,
    ProjectiveGeometryResponse,
    best_field,
    projective_space,
)
from ldp_core.mechanisms.oracles.randomized_response import RandomizedResponse
from ldp_core.mechanisms.oracles.subset_selection import SubsetSelection
from ldp_core.mechanisms.oracles.summation_histogram_encoding import SummationHistogramEncoding
from ldp_core.mechanisms.oracles.unary_encoding import ThresholdHistogramEncoding, UnaryEncoding
from ldp_core.mechanisms.ranges.hierarchical import HierarchicalHistogram
from ldp_core.mechanisms.sets.privset import PrivSet
from ldp_core.mechanisms.sketches.count_mean_sketch import CountMeanSketch, HadamardCountMeanSketch
from ldp_core.mechanisms.sketches.rappor import Rappor


@dataclass(frozen=True)
class Choice:
    """One way to make a mechanism from a domain size d and an epsilon, and what to expect of it.

    Attributes:
        mechanism: its class, whose name `CHOICES` has; or with its variant: ``NAME:VARIANT``.
        probabilities: (p, q) in closed form.
        form: of a report: "code", "bits" or "word".
        most: the most values that one report supports, if these are not all.
        one: whether a report adds to one counter, whatever d is.
        variant: where there are several, that which is not the default: an option of the mechanism.
        none: whether a record may have none of the values, in place of "other".
    """

    mechanism: type[FrequencyOracle]
    probabilities: Callable[[int, float], tuple[float, float]]
    form: str
    most: Callable[[int, float], int] | None = None
    one: bool = False
    variant: str | None = None
    none: bool = True

    @property
    def name(self) -> str:
        """The mechanism's, as in TOML."""
        return self.mechanism.name

    @property
    def key(self) -> str:
        """Its name in `CHOICES`."""
        return self.name if self.variant is None else f"{self.name}:{self.variant}"

    def make(self, domain: Domain, epsilon: float) -> FrequencyOracle:
        """The mechanism for a domain and an epsilon."""
        kind: Any = self.mechanism
        return kind(domain, epsilon=epsilon, **({"variant": self.variant} if self.variant else {}))

    def report_bytes(self, d: int, epsilon: float) -> int:
        """What a report takes in a column of many: codes as themselves, without dictionary or offsets."""
        return {"code": np.min_scalar_type(d).itemsize, "bits": -(-d // 8), "word": 8}[self.form]

    def server_operations(self, d: int, epsilon: float) -> int:
        """Counters that a report adds to, or hashes to compute for it, in a tally."""
        return 1 if self.one else d

    def supported(self, d: int, epsilon: float) -> int:
        """The most values that one report supports."""
        return d if self.most is None else self.most(d, epsilon)


@dataclass(frozen=True)
class Entry:
    """A mechanism.

    Attributes:
        mechanism: its class.
        question: the row of README's table that offers it; none: its page alone does.
    """

    mechanism: type[Mechanism]
    question: str | None

    @property
    def family(self) -> str:
        """The folder of its file: oracles, sketches, heavy hitters, numbers, ranges, sets or longitudinal."""
        return self.mechanism.__module__.split(".")[-2].replace("_", " ")

    @property
    def page(self) -> str:
        """Of the documentation, ``docs/PAGE.md``."""
        if self.mechanism is Rappor:
            return "rappor"
        return "mechanisms" if self.family == "oracles" else self.family.replace(" ", "_")


# ---- (p, q)


def _randomized_response(d: int, epsilon: float) -> tuple[float, float]:
    less = math.exp(-epsilon)  # e^eps / (e^eps + d - 1) without overflow
    return 1 / (1 + (d - 1) * less), less / (1 + (d - 1) * less)


def _kept(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


def _subset_selection(d: int, epsilon: float) -> tuple[float, float]:
    k = _subset(d, epsilon)
    p = k / (k + (d - k) * math.exp(-epsilon))
    return p, (k - p) / (d - 1)


def _of_buckets(g: int, epsilon: float) -> tuple[float, float]:
    return 1 / (1 + (g - 1) * math.exp(-epsilon)), 1 / g


def _projective(d: int, epsilon: float) -> tuple[float, float]:
    space = projective_space(best_field(d, epsilon), d)
    s, c, k = space.support, space.intersection, space.points
    less = math.exp(-epsilon)
    p = s / (s + (k - s) * less)
    return p, p * c / s + p * less * (s - c) / s


def _subset(d: int, epsilon: float) -> int:
    return max(round(d / (math.exp(min(epsilon, 700)) + 1)), 1)


# ---- the entries


_FEW = "yes or no, one of a few values"
_MANY = "one of many declared values"
_UNLISTED = "values that nobody listed; candidates come later"
_FREQUENT = "the most frequent of millions of possible strings"
_MEAN = "the mean of a number"
_DISTRIBUTION = "the distribution of a number"
_RANGE = "ranges, quantiles and the curve of ordered values"
_SETS = "several of many values at once: lists, boxes to tick"
_AGAIN = "the same people, again and again"


CATALOG: tuple[Entry, ...] = (
    Entry(RandomizedResponse, _FEW),
    Entry(UnaryEncoding, _MANY),
    Entry(SubsetSelection, _MANY),
    Entry(ThresholdHistogramEncoding, None),
    Entry(LocalHashing, _MANY),
    Entry(HadamardResponse, _MANY),
    Entry(BlockHadamardResponse, _MANY),
    Entry(SummationHistogramEncoding, None),
    Entry(ProjectiveGeometryResponse, _MANY),
    Entry(HybridProjectiveGeometryResponse, None),
    Entry(CountMeanSketch, _UNLISTED),
    Entry(HadamardCountMeanSketch, _UNLISTED),
    Entry(Rappor, _UNLISTED),
    Entry(HeavyHitters, _FREQUENT),
    Entry(NOutput, _MEAN),
    Entry(Hybrid, _MEAN),
    Entry(Piecewise, _MEAN),
    Entry(OneBitMean, _MEAN),
    Entry(SquareWave, _DISTRIBUTION),
    Entry(StochasticRounding, _DISTRIBUTION),
    Entry(HierarchicalHistogram, _RANGE),
    Entry(PrivSet, _SETS),
    Entry(LongitudinalRandomizedResponse, None),
    Entry(LongitudinalUnaryEncoding, _AGAIN),
    Entry(Loloha, _AGAIN),
    Entry(DBitFlip, _AGAIN),
)


def examples() -> dict[str, Mechanism]:
    """Small ones of each mechanism, by a short name: each stands for a way of working of its own.

    Tests ask of all of them whatever must hold for every mechanism.
    """
    return {
        "binary RR": RandomizedResponse(epsilon=1.0),
        "k-ary RR": RandomizedResponse(range(5), epsilon=1.0),
        "OUE": UnaryEncoding(range(5), epsilon=1.0),
        "SUE wide": UnaryEncoding(range(40), epsilon=2.0, variant="symmetric"),
        "SS": SubsetSelection(range(5), epsilon=1.0),
        "SS wide": SubsetSelection(range(40), epsilon=1.0),
        "THE": ThresholdHistogramEncoding(range(5), epsilon=1.0),
        "OLH": LocalHashing(range(40), epsilon=1.0),
        "BLH": LocalHashing(range(5), epsilon=1.0, variant="binary"),
        "FLH": LocalHashing(range(40), epsilon=1.0, variant="fast"),
        "HR": HadamardResponse(range(40), epsilon=1.0),
        "BHR": BlockHadamardResponse(range(40), epsilon=1.0),
        "BHR, a value a block": BlockHadamardResponse(range(40), epsilon=3.0, blocks=40),
        "SHE": SummationHistogramEncoding(range(5), epsilon=1.0),
        "PGR": ProjectiveGeometryResponse(range(40), epsilon=1.0),
        "HPGR": HybridProjectiveGeometryResponse(range(40), epsilon=1.0),
        "CMS": CountMeanSketch("int", epsilon=1.0, hashes=64, width=64),
        "HCMS": HadamardCountMeanSketch("int", epsilon=1.0, hashes=64, width=64),
        "RAPPOR": Rappor(bits=16, hashes=2, cohorts=4, f=0.5, p=0.5, q=0.75),
        "heavy hitters": HeavyHitters(Prefixes("abc", 4), epsilon=1.0, rows=64, width=4096),
        "hybrid": Hybrid((0, 100), epsilon=1.0),
        "piecewise": Piecewise((-1, 1), epsilon=1.0),
        "one bit": OneBitMean((0, 10), epsilon=1.0),
        "N outputs": NOutput((0, 10), epsilon=3.0),
        "square wave": SquareWave((0, 1), epsilon=1.0),
        "stochastic rounding": StochasticRounding((0, 1), epsilon=1.0),
        "hierarchical": HierarchicalHistogram(range(11), epsilon=1.0),
        "hierarchical, cells": HierarchicalHistogram(Cells([0, 1, 5, 20]), epsilon=2.0, workload="prefixes"),
        "k-ary RR, dates": RandomizedResponse(Dates("2024-01-01", "2024-06-01", every="1mo"), epsilon=1.0),
        "PrivSet": PrivSet(range(5), epsilon=1.0, most=2),
        "PrivSet wide": PrivSet(range(40), epsilon=0.5, most=3, on_more="first"),
        "L-GRR": LongitudinalRandomizedResponse(range(5), epsilon_infinity=2.0, epsilon_1=1.0),
        "L-OSUE": LongitudinalUnaryEncoding(range(5), epsilon_infinity=2.0, epsilon_1=1.0),
        "L-SUE wide": LongitudinalUnaryEncoding(range(40), epsilon_infinity=3.0, epsilon_1=2.0, variant="SUE"),
        "LOLOHA": Loloha(range(40), epsilon_infinity=2.0, epsilon_1=1.0),
        "LOLOHA, linear": Loloha(range(40), epsilon_infinity=2.0, epsilon_1=1.0, g=3),
        "dBitFlipPM": DBitFlip(range(40), epsilon_infinity=2.0, bits=4),
    }


def mechanisms_of_size(d: int, epsilon: float) -> dict[str, Mechanism]:
    """The ones to compare, by name, for d values and an epsilon of one report; of sketches for d candidates.

    Numbers and heavy hitters do not depend on d.
    """
    values = range(d)
    p = 1 / (1 + math.exp(min(epsilon / 4, 700)))  # of RAPPOR, a report of which then spends about epsilon
    return {
        "randomized response": RandomizedResponse(values, epsilon=epsilon),
        "OUE": UnaryEncoding(values, epsilon=epsilon),
        "SUE": UnaryEncoding(values, epsilon=epsilon, variant="symmetric"),
        "subset selection": SubsetSelection(values, epsilon=epsilon),
        "THE": ThresholdHistogramEncoding(values, epsilon=epsilon),
        "OLH": LocalHashing(values, epsilon=epsilon),
        "FLH": LocalHashing(values, epsilon=epsilon, variant="fast"),
        "Hadamard response": HadamardResponse(values, epsilon=epsilon),
        "BHR": BlockHadamardResponse(values, epsilon=epsilon),
        "SHE": SummationHistogramEncoding(values, epsilon=epsilon),
        "PGR": ProjectiveGeometryResponse(values, epsilon=epsilon),
        "HPGR": HybridProjectiveGeometryResponse(values, epsilon=epsilon),
        "CMS": CountMeanSketch("int", epsilon=epsilon).over(values),
        "HCMS": HadamardCountMeanSketch("int", epsilon=epsilon).over(values),
        "RAPPOR": Rappor("int", bits=32, hashes=2, cohorts=max(16, d // 25 + 1), f=0.0, p=p, q=1 - p).over(values),
        "heavy hitters, of 6 letters": HeavyHitters(Prefixes(ascii_lowercase, 6), epsilon=epsilon),
        "N outputs, [0, 1]": NOutput((0, 1), epsilon=epsilon),
        "hybrid, [0, 1]": Hybrid((0, 1), epsilon=epsilon),
        "piecewise, [0, 1]": Piecewise((0, 1), epsilon=epsilon),
        "one bit, [0, 1]": OneBitMean((0, 1), epsilon=epsilon),
        "square wave, [0, 1]": SquareWave((0, 1), epsilon=epsilon),
        "stochastic rounding, [0, 1]": StochasticRounding((0, 1), epsilon=epsilon),
        "hierarchical histogram": HierarchicalHistogram(values, epsilon=epsilon),
        "L-GRR": LongitudinalRandomizedResponse(values, epsilon_infinity=2 * epsilon, epsilon_1=epsilon),
        "L-OSUE": LongitudinalUnaryEncoding(values, epsilon_infinity=2 * epsilon, epsilon_1=epsilon),
        "LOLOHA": Loloha(values, epsilon_infinity=2 * epsilon, epsilon_1=epsilon),
        "dBitFlipPM, 4 bits": DBitFlip(values, epsilon_infinity=epsilon, bits=min(4, d)),
    }


_CHOICES = (
    Choice(RandomizedResponse, _randomized_response, "code", lambda _d, _epsilon: 1, one=True, none=False),
    Choice(UnaryEncoding, lambda _d, e: (0.5, math.exp(-e) * _kept(e)), "bits"),
    Choice(UnaryEncoding, lambda _d, e: (_kept(e / 2), math.exp(-e / 2) * _kept(e / 2)), "bits", variant="symmetric"),
    Choice(SubsetSelection, _subset_selection, "bits", _subset, none=False),
    Choice(LocalHashing, lambda _d, e: _of_buckets(min(round(math.exp(min(e, 20))) + 1, MOST_BUCKETS), e), "word"),
    Choice(LocalHashing, lambda _d, e: _of_buckets(best_symbols(SMALL_PRIMES, e), e), "word", one=True, variant="fast"),
    Choice(HadamardResponse, lambda _d, e: (_kept(e), 0.5), "word", one=True),
    Choice(
        ProjectiveGeometryResponse,
        _projective,
        "word",
        lambda d, e: projective_space(best_field(d, e), d).supported(d)[1],
        one=True,
    ),
)
CHOICES: dict[str, Choice] = {choice.key: choice for choice in _CHOICES}
"""What `ldp_core.recommend` knows, by name."""


def choice_named(mechanism: Any) -> Choice:
    """The row of `CHOICES`, by its name or by the mechanism's class; `ParameterError` if there is none."""
    name = getattr(mechanism, "name", None) if isinstance(mechanism, type) else mechanism
    if not isinstance(name, str) or name not in CHOICES:
        raise ParameterError(f"mechanism must be one of {', '.join(map(repr, CHOICES))}, got {name!r}")
    return CHOICES[name]
