"""The table of mechanisms to choose from before any data exist: probabilities, bytes and operations in closed form.

Each is a pure protocol with two probabilities (Wang, Blocki, Li, Jha, USENIX Security 2017, Section 4, and the paper
that each mechanism's own file names), here in floating point and for any domain size at once, without a domain.
`ldp_core.plans.recommend` ranks the rows of `KINDS`; a mechanism joins by `register`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.inputs.domain import Domain
from ldp_core.mechanisms.oracles._base import FrequencyOracle
from ldp_core.mechanisms.oracles.hadamard_response import HadamardResponse
from ldp_core.mechanisms.oracles.hash_families import MOST_BUCKETS, SMALL_PRIMES
from ldp_core.mechanisms.oracles.local_hashing import LocalHashing
from ldp_core.mechanisms.oracles.projective_geometry_response import (
    ProjectiveGeometryResponse,
    best_field,
    projective_space,
)
from ldp_core.mechanisms.oracles.randomized_response import RandomizedResponse
from ldp_core.mechanisms.oracles.subset_selection import SubsetSelection
from ldp_core.mechanisms.oracles.unary_encoding import UnaryEncoding


@dataclass(frozen=True)
class Kind:
    """One row of the table of mechanisms, every column a function of (domain size d, epsilon).

    Attributes:
        name: what to call it.
        probabilities: (p, q) in closed form.
        report_bytes: what a report takes in a column of many: its own bytes, without dictionary or offsets.
        server_operations: counters that a report adds to, or hashes to compute for it, in a tally.
        make: the mechanism for a domain and an epsilon.
    """

    name: str
    probabilities: Callable[[int, float], tuple[float, float]]
    report_bytes: Callable[[int, float], int]
    server_operations: Callable[[int, float], int]
    make: Callable[[Domain, float], FrequencyOracle]


KINDS: dict[str, Kind] = {}
"""The mechanisms that `ldp_core.recommend` knows, by name."""


def register(kind: Kind) -> None:
    """Add a row to `KINDS`.

    Raises:
        ParameterError: the name is taken.
    """
    if kind.name in KINDS:
        raise ParameterError(f"there is a mechanism {kind.name!r} already")
    KINDS[kind.name] = kind


def kind_named(name: Any) -> Kind:
    """The row of `KINDS`; its name may have ``_`` for spaces, as names of mechanisms have.

    Raises:
        ParameterError: there is none of this name.

    >>> kind_named("Hadamard response").report_bytes(1000, 1.0), kind_named("hadamard_response").name
    (8, 'Hadamard response')
    """
    named = {kind.casefold(): kind for kind in KINDS}.get(str(name).casefold().replace("_", " "))
    if not isinstance(name, str) or named is None:
        raise ParameterError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {name!r}")
    return KINDS[named]


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
    k = max(round(d / (math.exp(epsilon) + 1)), 1)
    p = k / (k + (d - k) * math.exp(-epsilon))
    return p, (k - p) / (d - 1)


def _local_hashing(d: int, epsilon: float) -> tuple[float, float]:
    g = min(round(math.exp(min(epsilon, 20))) + 1, MOST_BUCKETS)
    return 1 / (1 + (g - 1) * math.exp(-epsilon)), 1 / g


def _fast_local_hashing(d: int, epsilon: float) -> tuple[float, float]:
    e = math.exp(min(epsilon, 20))
    g = min(SMALL_PRIMES, key=lambda g: (e - 1 + g) ** 2 / (g - 1))
    return 1 / (1 + (g - 1) * math.exp(-epsilon)), 1 / g


def _projective(d: int, epsilon: float) -> tuple[float, float]:
    space = projective_space(best_field(d, epsilon), d)
    s, c, k = space.support, space.intersection, space.points
    less = math.exp(-epsilon)
    p = s / (s + (k - s) * less)
    return p, p * c / s + p * less * (s - c) / s


def _hadamard(d: int, epsilon: float) -> tuple[float, float]:
    return 1 / (1 + math.exp(-epsilon)), 0.5


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


# ---- the rows


def _make(mechanism: Callable[..., FrequencyOracle], **options: str) -> Callable[[Domain, float], FrequencyOracle]:
    return lambda domain, epsilon: mechanism(domain, epsilon=epsilon, **options)


for _kind in (
    Kind("randomized response", _randomized_response, _code, _one, _make(RandomizedResponse)),
    Kind("unary encoding, optimized", _optimized, _bits, _each_value, _make(UnaryEncoding)),
    Kind("unary encoding, symmetric", _symmetric, _bits, _each_value, _make(UnaryEncoding, variant="symmetric")),
    Kind("subset selection", _subset_selection, _bits, _each_value, _make(SubsetSelection)),
    Kind("local hashing, optimal", _local_hashing, _word, _each_value, _make(LocalHashing)),
    Kind("local hashing, fast", _fast_local_hashing, _word, _one, _make(LocalHashing, variant="fast")),
    Kind("projective geometry response", _projective, _word, _one, _make(ProjectiveGeometryResponse)),
    Kind("Hadamard response", _hadamard, _word, _one, _make(HadamardResponse)),
):
    register(_kind)
