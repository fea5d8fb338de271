"""Random sampling plus fake data (RS+FD, RS+RFD): a record answers one column of D, and the others carry fake data.

H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao, "Random Sampling Plus Fake Data: Multidimensional Frequency
Estimates With Local Differential Privacy", CIKM 2021 (RS+FD); H. H. Arcolezi, S. Gambs, J.-F. Couchot, C. Palamidessi,
"On the Risks of Collecting Multidimensional Data Under Local Differential Privacy", VLDB 2023 (RS+RFD: fakes
from a prior).

A fake report is an ordinary report of a fake value, drawn without a look at the record, or of no value at all. Let
phi[v] be the probability that it supports v. A column is then a pure protocol with

    p*[v] = p / D + phi[v] (D - 1) / D        q*[v] = q / D + phi[v] (D - 1) / D        p* - q* = (p - q) / D

    phi[v] = p / d + (1 - 1 / d) q        a uniform value: 1 / d for randomized response; "UE-r" for bit vectors
    phi[v] = q                            no value: the bits of an all-zero vector ("UE-z")
    phi[v] = f[v] p + (1 - f[v]) q        a value drawn from the prior f (RS+RFD, whose GRR has phi = f)

**The epsilon is the answer's own, not the larger one of the paper.** CIKM 2021 answers with
epsilon' = ln(D (exp(epsilon) - 1) + 1) and calls the record epsilon-LDP, by amplification by sampling. But
amplification supposes that a report is free of the data if the draw falls elsewhere, and here it then shows *another
column of the same record*. Take two records that differ in all columns, (a, a, ...) and (b, b, ...), and the report
(a, a, ...) under randomized response with uniform fakes. Its probability is

    from (a, a, ...): sum over j of 1 / D * p (1 / d)^(D - 1)          from (b, b, ...): the same with q in place of p

and the ratio is p / q = exp(epsilon'), not exp(epsilon). The paper's bound holds for records that differ in one
column only (and, for randomized response, if all domains are of one size); but by that measure D independent
reports, each with epsilon, are as private, and their errors are smaller. So here a record that is said to spend
epsilon spends epsilon. For the paper's own reports ask for epsilon'.

**Under keyed noise** a fake is drawn once for a person, and so is its report. Reports of the column that is answered
are others once its value changes: then they show which column it is. It was drawn without a look at the values, so this
spends nothing more (`ldp_core.plans.drawn`); but to hide it is what fake data are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools, Codes
from ldp_core.errors import ParameterError
from ldp_core.exact.probability import fraction
from ldp_core.exact.sampling import ONE
from ldp_core.mechanism import of_inner
from ldp_core.mechanisms.oracles.base import FrequencyOracle, sample_covariance
from ldp_core.mechanisms.oracles.unary_encoding import IndependentBits
from ldp_core.noise.base import Noise, Randomness
from ldp_core.parameters import parameter, shown
from ldp_core.plans.drawn import DrawnColumn, check_oracle
from ldp_core.reports import Native
from ldp_core.simulated_counts import Generator, multinomials

Fake = Literal["uniform", "none"]


@dataclass(frozen=True, init=False)
class FakeDataColumn(DrawnColumn, FrequencyOracle):
    """One of D columns, of which each record answers one; the others carry fake data.

    Args:
        inner: the frequency oracle that answers, and perturbs the fake values.
        columns: D, at least 2.
        fake: ``"uniform"``: a uniform value. ``"none"``: no value, for bit vectors and for domains with
            ``unmatched="none"``; the least variance. Default ``"none"`` where it can be.
        prior: instead, a weight for each value of the domain: at least 0, not all 0. Public knowledge, never learned
            from the records.

    Reports and tallies are the inner mechanism's. Where a prior is given, p and q differ from value to value, and
    `variance` is that of the noisiest.

    Raises:
        ParameterError: a fake that the mechanism cannot make, or weights that are no prior.

    >>> from ldp_core import RandomizedResponse
    >>> m = FakeDataColumn(RandomizedResponse(["a", "b"], epsilon=1.0), columns=2)
    >>> round(m.p, 6), round(m.q, 6)  # (0.731059 + 0.5) / 2, (0.268941 + 0.5) / 2
    (0.615529, 0.384471)
    """

    name: ClassVar[str] = "fake_data_column"
    with_sums: ClassVar[str] = "PrivacyPlan.split or .sampled, with subset_selection or unary_encoding"

    inner: FrequencyOracle = parameter(check_oracle)
    exhaustive = of_inner("exhaustive")
    parts = of_inner("parts")
    supported = of_inner("supported")

    fake: Fake | None = None
    prior: tuple[float, ...] | None = None

    def __init__(
        self, inner: FrequencyOracle, *, columns: int, fake: Fake | None = None, prior: Iterable[float] | None = None
    ) -> None:
        super().__init__(inner, columns=columns)
        if inner.inputs is not inner.domain or inner.counters != inner.domain.size:
            raise ParameterError(f"fake data need a mechanism that perturbs a declared domain, not {inner.name}")
        if inner.parts != (0.0, 1.0):
            raise ParameterError(f"fake data need reports that support a value or do not, not those of {inner.name}")
        can_be_none = isinstance(inner, IndependentBits) or inner.domain.unmatched == "none"
        if prior is not None and fake is not None:
            raise ParameterError("fake values are drawn from a prior or as fake= says, not both")
        if prior is None and fake is None:
            fake = "none" if can_be_none else "uniform"
        if fake not in (None, "uniform", "none"):
            raise ParameterError(f'fake must be "uniform" or "none", got {shown(fake)}')
        if fake == "none" and not can_be_none:
            raise ParameterError(f'{inner.name} has no report of no value: use fake="uniform"')
        self._declare(fake=fake, prior=None if prior is None else _weights(prior, inner.domain.size))

    # ---- reports

    @override
    def perturb_drawn(self, codes: Codes, drawn: Bools, randomness: Randomness) -> Native:
        """Fake values take the place of those that are not drawn, and all are perturbed alike."""
        noise = randomness.bind(f"fake data {self.digest}", np.zeros(len(codes), np.uint8)).of_persons()
        answers = np.where(drawn, codes, self._fakes(len(codes), noise))
        if self.fake != "none":  # reports may have the codes' dtype (that of no value can be one past its end)
            answers = answers.astype(self.domain.code_dtype, copy=False)
        return self.inner.perturb_codes(answers, randomness.bind(self.digest, answers))

    def _fakes(self, n: int, noise: Noise) -> npt.NDArray[Any]:
        """Codes of n fake values, or the one code past all values, which is none."""
        if self.prior is not None:
            return np.searchsorted(self._ends, noise.words(n, 0), side="right").astype(np.uint32)
        if self.fake == "uniform":
            return noise.uniform_below(self.domain.size, n, 0)
        return np.broadcast_to(np.uint32(self.domain.size), n)

    @cached_property
    def _ends(self) -> npt.NDArray[np.uint64]:
        """Where the share of each value but the last ends on the scale of 64-bit words."""
        parts = [weight.as_integer_ratio() for weight in self.prior or ()]
        unit = max(unit for _, unit in parts)  # (all are powers of 2)
        *sums, total = accumulate(part * (unit // own) for part, own in parts)
        return np.array([min(ONE * end // total, ONE - 1) for end in sums], np.uint64)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """Who answers, and how many of the others draw each fake; then the inner mechanism's."""
        d, answers = self.domain.size, generator.binomial(people, 1 / self.columns)
        others = (people - answers).sum()
        fakes = np.zeros(d + 1, np.int64)
        if self.fake == "none":
            fakes[d] = others
        else:
            ends = np.array([0, *map(int, self._ends), ONE] if self.prior is not None else range(d + 1), float)
            fakes[:d] = multinomials(others, np.diff(ends), generator)
        drawn = np.append(codes.astype(np.int64), np.flatnonzero(fakes))
        return self.inner.simulate_counters(drawn, np.append(answers, fakes[fakes > 0]), generator)

    # ---- the pure protocol

    @cached_property
    def fake_support(self) -> list[Fraction]:
        """Phi, exact: Pr[a fake report supports v] for each value v."""
        p, q = self.inner.support_probabilities()
        return [share * (pv - qv) + qv for share, pv, qv in zip(self.fake_shares, p, q, strict=True)]

    @cached_property
    def fake_shares(self) -> list[Fraction]:
        """How likely a fake is to be each value; if they do not add up to 1, it may be none."""
        d = self.domain.size
        if self.prior is None:
            return [Fraction(self.fake == "uniform", d)] * d
        return [fraction(end - start) for start, end in pairwise([0, *map(int, self._ends), ONE])]

    @override
    def noise_covariance(self, shares: F64) -> F64:
        """The inner mechanism's, over a sample of answers and fakes, less what is the answers' sample."""
        d, fakes = self.domain.size, np.array(self.fake_shares, float)
        fakes = np.append(fakes, 1 - fakes.sum())[: shares.shape[1]]
        mixed = (shares + (self.columns - 1) * fakes) / self.columns
        of_all = self.inner.noise_covariance(mixed) + sample_covariance(mixed[:, :d])
        return self.columns**2 * of_all - sample_covariance(shares[:, :d])

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """(p*, q*)."""
        p, q = self.inner.support_probabilities()
        fakes = [phi * (self.columns - 1) for phi in self.fake_support]
        starred = [[(s + phi) / self.columns for s, phi in zip(side, fakes, strict=True)] for side in (p, q)]
        return starred[0], starred[1]

    @override
    def variance(self, n: float, count: Any = 0.0) -> Any:
        """Where a prior makes values differ, that of the noisiest: the one nearest to 1/2 with its support."""
        noise = np.unique([self.rates.a, self.rates.b], axis=1)
        return (n * noise[0] + np.multiply.outer(count, noise[1])).max(axis=-1)

    @override
    def parameters(self) -> dict[str, Any]:
        how = {"fake": self.fake} if self.prior is None else {"prior": list(self.prior)}
        return {**super().parameters(), **how}


def _weights(prior: Iterable[float], size: int) -> tuple[float, ...]:
    weights: list[float] | None = None
    with suppress(TypeError, ValueError, OverflowError):
        weights = None if isinstance(prior, Mapping) else [float(weight) for weight in prior]
    if weights is None:
        raise ParameterError(f"a prior is a list of numbers, in the order of the values, got {type(prior).__name__}")
    if len(weights) != size:
        raise ParameterError(f"a prior has a weight for each of the {size} values, got {len(weights)}")
    if not (all(0 <= weight < np.inf for weight in weights) and 0 < sum(weights) < np.inf):
        raise ParameterError("the weights of a prior must be numbers in [0, inf), and not all 0")
    return tuple(weights)
