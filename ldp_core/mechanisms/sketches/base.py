"""Sketches: reports and tallies that know no domain, and their view of a list of candidates.

A sketch perturbs values of an `OpenDomain`; its tally has a fixed number of counters. Which values to estimate is
said later, with ``sketch.over(candidates)``: a `FrequencyOracle` over the candidates that reads the sketch's own
reports and tallies, so that `.ldp.histogram` in Polars and `ldp_beam.Histogram` take it as they take any other.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Codes
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.estimates.clusters import student
from ldp_core.estimates.consistency import Rates
from ldp_core.inputs.domain import Domain, Label
from ldp_core.inputs.open_domain import OpenDomain
from ldp_core.mechanism import Mechanism, Wrapping, of_inner
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.parameters import check_integer, parameter
from ldp_core.poisoning import Influence, check_fake


class Sketch(Mechanism):
    """A mechanism that counts into a fixed number of counters, from which any candidate value can be estimated.

    It is a pure protocol: a report supports a value with probability p if it is the true one and q if
    it is another given one, over the random hash functions.
    """

    candidates: ClassVar[str] = "candidates"
    """Name of the mechanism that `over` gives."""

    domain: OpenDomain

    @abstractmethod
    def support_probabilities(self) -> tuple[Fraction, Fraction]:
        """Exact (p, q): Pr[report supports v | v is true], Pr[... | another given value is]."""

    @abstractmethod
    def support_of(self, counters: I64, codes: Codes) -> I64:
        """int64[..., c]: how many reports support each candidate, of codes uint64[c], in int64[..., counters]."""

    def collisions(self, n: Any, counters: I64) -> tuple[F64, float]:
        """The variance that collisions add to a count c, where all reports share a few hash functions.

        It is a - b (c^2 - c), at least 0: a, float64[..., 1], estimated from the sketch itself with 1 / b degrees of
        freedom, and b. The pure protocol's variance holds if reports are independent of each other over the choice of
        the functions. If they are not, this is the rest; here, none.
        """
        return np.zeros(1), 0.0

    @property
    def collision_skewness(self) -> float:
        """An upper bound of the skewness of what collisions add to an estimate; here, 0."""
        return 0.0

    @abstractmethod
    def collided(self) -> tuple[F64, F64]:
        """By what collisions move the share of a value that nobody holds if all hold one other, and how probably."""

    def collision_error(self, beta: float) -> float:
        """The alpha with Pr[collisions move an estimated frequency by alpha or more] <= beta; here, 0."""
        return 0.0

    @override
    def influence(self) -> Influence:
        """Of the count of any one candidate; of all together there is no bound, as one report may support any number.

        Of a list of candidates it is that of ``over(candidates)``.
        """
        p, q = self.support_probabilities()
        return Influence(float(max(1 - q, q) / (p - q)), math.inf)

    @override
    def worst_gain(self, *, fake: int, targets: int = 1) -> float:
        """Of the counts of any ``targets`` candidates, all of which one report supports."""
        p, q = self.support_probabilities()
        return float(check_fake(fake) * check_integer("targets", targets, 1) * (1 - q) / (p - q))

    def over(self, candidates: Domain | Iterable[Label]) -> Candidates:
        """The frequency oracle over some candidates, one or more, which reads this sketch's reports and tallies."""
        return Candidates(candidates, self)


@dataclass(frozen=True, init=False)
class Candidates(Wrapping, FrequencyOracle):
    """A sketch as a frequency oracle over candidate values; see `Sketch.over`.

    Its reports, tallies and fingerprint are the sketch's: it may be made after they were. Values that are
    no candidates are perturbed too, and support candidates with probability q.

    Candidates are one or more labels (or a `Domain` with ``unmatched="error"``), of the sketch's kind.

    >>> from ldp_core import HadamardCountMeanSketch
    >>> sketch = HadamardCountMeanSketch("int", epsilon=1.0)
    >>> tally = sketch.tally(sketch.perturb([17, 17, 4]))
    >>> m = sketch.over([17, 18])
    >>> m.estimate(tally).values, m.fingerprint == sketch.fingerprint
    ((17, 18), True)
    """

    name: ClassVar[str] = "candidates"

    domain: Domain = parameter()
    sketch: Sketch = parameter()

    title = of_inner("title")
    digest = of_inner("digest")
    inputs = of_inner("inputs")
    collided = of_inner("collided")
    unlikely = of_inner("unlikely")
    unlikely_together = of_inner("unlikely_together")
    block_size = of_inner("block_size")
    common_noise = of_inner("common_noise")
    perturb_block = of_inner("perturb_block")
    draw = of_inner("draw")
    simulate_values = of_inner("simulate_values")

    def __init__(self, candidates: Domain | Iterable[Label], sketch: Sketch) -> None:
        if not isinstance(sketch, Sketch):
            raise ParameterError(f"{self.name} are of a sketch, got {type(sketch).__name__}")
        if sketch.candidates != self.name:
            raise ParameterError(f"of {sketch.name} the candidates are {sketch.candidates!r}, not {self.name!r}")
        domain = candidates if isinstance(candidates, Domain) else Domain(candidates)  # (not `of`: one will do)
        if domain.kind != sketch.inputs.kind:
            raise ParameterError(
                f"the sketch holds {sketch.inputs.summary}: candidates must be {sketch.inputs.kind}, got {domain.kind}"
            )
        if domain.unmatched != "error":
            raise ParameterError("candidates are a list of labels, without unmatched: other values are no candidates")
        self._declare(domain=domain, sketch=sketch)

    @property
    def inner(self) -> Sketch:  # type: ignore[override]
        """The sketch, whose reports and tallies these are."""
        return self.sketch

    exhaustive = False  # other values than the candidates are perturbed too

    @cached_property
    def _codes(self) -> Codes:
        return self.sketch.inputs.encode(self.domain.arrow_values)

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        p, q = self.sketch.support_probabilities()
        return [p] * self.domain.size, [q] * self.domain.size

    @cached_property
    @override
    def rates(self) -> Rates:
        """Of one element for all candidates, of which there may be a million."""
        p, q = self.sketch.support_probabilities()
        d = float(p - q)
        return Rates(np.array([float(q)]), np.array([float(q * (1 - q)) / d**2]), np.array([float(1 - p - q) / d]), d)

    @override
    def accuracy(self, n: int, beta: float = 0.05) -> float:
        """As of other oracles; where collisions have an error of their own, half of beta is for it."""
        alone = super().accuracy(n, beta)
        error = self.sketch.collision_error(beta / 2)
        return error + super().accuracy(n, beta / 2) if error else alone

    @override
    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """Of the sketch's counters.

        Errors and intervals include the variance of collisions. These only ever add to a count, and seldom but
        much where there are few functions, so that the low end is moved by (z^2 - 1) / 6 times the skewness and the
        standard error (E. A. Cornish, R. A. Fisher, "Moments and Cumulants in the Specification of Distributions",
        Revue de l'Institut International de Statistique 5(4), 1938). It is the farthest count that is so near by the
        variance that it would have itself: what collides with all others looks like a frequent value, which collides
        with none. The high end is left where it is. Ends reach as far as Student's distribution does, as the variance
        is estimated from few cells; of very few the estimate says nothing, and all others have one value.
        """
        supporting = self.sketch.support_of(counters, self._codes)
        counts, errors, low, high = super().debias(n, supporting, confidence=confidence, simultaneous=simultaneous)
        pairs, each = self.sketch.collisions(n, counters)
        error: F64 = np.sqrt(errors**2 + _of_count(pairs, each, np.clip(counts, 0, n)))
        if not each:
            return counts, error, low, high
        z = z_score(confidence, self.domain.size if simultaneous else 1)
        far = student(z, 1 / each)
        if 1 / each < _LEAST_CELLS:
            far, pairs = z, np.asarray(n * (n - 1.0) * each)
        skewness = self.sketch.collision_skewness * max(z**2 - 1, 0) / 6

        def reach(end: F64, at: F64) -> tuple[F64, F64]:
            more = _of_count(pairs, each, np.clip(at, 0, n))
            skew = skewness * more**1.5 / np.maximum(errors**2 + more, 1e-300)  # (0 without reports)
            return far * np.sqrt(((counts - end) / z) ** 2 + more), skew

        below: F64 = sum(reach(low, np.zeros_like(counts)), np.zeros(1))
        for _ in range(_STEPS):  # from beyond, down to the farthest one
            nearer: F64 = sum(reach(low, counts - below), np.zeros(1))
            moves = below - nearer > 1e-9 * below
            if not moves.any():
                break
            below = np.where(moves, nearer, below)
        return counts, error, counts - below, counts + reach(high, counts)[0]

    @override
    def code_of(self, value: Any) -> NoReturn:
        raise ParameterError(
            f"candidates of {self.sketch.name} have no weights: intervals of their sums would leave out that values "
            "collide, in all reports alike; take histograms by group, or a mechanism of declared values"
        )

    @override
    def in_common(self, n: Any, counters: I64, counts: F64) -> tuple[Any, Any]:
        """Collisions, under the functions of one salt."""
        pairs, each = self.sketch.collisions(n, counters)
        return getattr(self.sketch, "salt", None), _of_count(pairs, each, np.clip(counts, 0, n))

    bounded_sums = of_inner("bounded_sums")  # (candidates collide, by a few functions, and theirs are not bounded)

    # ---- as JSON

    @override
    def to_dict(self) -> dict[str, Any]:
        return {"mechanism": self.name, **self.parameters(), **self.domain.to_dict()}

    @override
    def parameters(self) -> dict[str, Any]:
        return {"sketch": self.sketch.to_dict()}

    @classmethod
    @override
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Candidates:
        rest = dict(parameters)
        return cls(domain, Mechanism.from_dict(rest.pop("sketch", {})), **rest)  # type: ignore[arg-type]


_LEAST_CELLS, _STEPS = 8, 100


def _of_count(pairs: F64, each: float, counts: F64) -> F64:
    """See `Sketch.collisions`."""
    return np.maximum(pairs - (counts * counts - counts) * each, 0)
