"""L-GRR: two rounds of randomized response; see `base.py`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import I64, Codes
from ldp_core.errors import no_warning_of_epsilon
from ldp_core.exact.composition import Symbols
from ldp_core.exact.probability import exp_below, log_above
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.longitudinal.base import Chain, below_infinity
from ldp_core.mechanisms.oracles.randomized_response import RandomizedResponse
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_epsilon, converted, parameter
from ldp_core.reports import Native
from ldp_core.simulated_counts import Generator

_STEP = Fraction(1, 1 << 53)


@dataclass(frozen=True, init=False)
class LongitudinalRandomizedResponse(Chain):
    """L-GRR: a randomized response to a permanent randomized response.

    Args:
        domain: a `Domain` or a list of labels; no ``unmatched="none"``.
        unmatched: beside a list of labels: what becomes of other values, nulls included; see `Domain`.
        epsilon_infinity: of all reports about one value, finite, > 0.
        epsilon_1: of one report, in (0, epsilon_infinity).

    Reports are those of `RandomizedResponse`; they take keyed noise.

    The chain is itself a randomized response, whose probability of keeping the value is the product of the two; so
    that the second one follows exactly from epsilon_1 = ln(p / q), and p and q are those of `RandomizedResponse` with
    epsilon_1. (For more than two values the paper's second round is noisier: it takes ln((p1 p2 + q1 q2) /
    (p1 q2 + q1 p2)) for epsilon_1, which leaves out the other d - 2 ways to a report.)

    Raises:
        ParameterError: epsilons that do not exist, or are too small.

    >>> m = LongitudinalRandomizedResponse(["a", "b", "c"], epsilon_infinity=2.0, epsilon_1=1.0)
    >>> round(m.permanent.p, 6), round(m.p, 6), round(m.q, 6)
    (0.786986, 0.576117, 0.211942)
    >>> from ldp_core import Keyed, Secret
    >>> m.perturb(["a", "c"], randomness=Keyed(Secret.generate(), [17, 18], column="os")).shape
    (2,)
    """

    name: ClassVar[str] = "longitudinal_randomized_response"

    domain: Domain = converted(Domain.of)
    epsilon_infinity: float = parameter(check_epsilon)
    epsilon_1: float = parameter(check_epsilon, below=below_infinity)

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon_infinity: float,
        epsilon_1: float,
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon_infinity=epsilon_infinity, epsilon_1=epsilon_1)
        _ = self.permanent, self.instantaneous  # they refuse what is too small

    @cached_property
    @no_warning_of_epsilon()
    def permanent(self) -> RandomizedResponse:
        """The first round."""
        return RandomizedResponse(self.domain, epsilon=self.epsilon_infinity)

    @cached_property
    @no_warning_of_epsilon()
    def instantaneous(self) -> RandomizedResponse:
        """The second round: the least noise with which a report spends no more than epsilon_1."""
        d, e = self.domain.size, exp_below(self.epsilon_1)
        p1, q1 = self.permanent.support_probabilities()
        keep = min((e - 1) / (e - 1 + d) / (p1[0] - q1[0]), 1 - _STEP)
        # Below ln(1 + d keep / (1 - keep)), whose exp `exp_below` takes to be less by more than `log_above` added.
        return RandomizedResponse(self.domain, epsilon=math.nextafter(log_above(1 + d * keep / (1 - keep)), 0))

    @cached_property
    def shared(self) -> Symbols:
        """Two rounds over the values."""
        (p1, *_), (q1, *_) = self.permanent.support_probabilities()
        (p2, *_), (q2, *_) = self.instantaneous.support_probabilities()
        return Symbols(self.domain.size, p1, q1, p2, q2)

    @override
    def worst_ratio(self) -> Fraction:
        """``p / q``, as of the randomized response that the chain is."""
        p, q = self.support_probabilities()
        return p[0] / q[0]

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        """Codes in, codes out."""
        return self.instantaneous.perturb_codes(self.permanent.perturb_codes(codes, noise), noise.instantaneous())

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """The second round's, of the people that have each permanent answer."""
        permanent = self.permanent.simulate_counters(codes, people, generator)
        return self.instantaneous.simulate_counters(np.arange(len(permanent)), permanent, generator)
