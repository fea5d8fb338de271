"""The pure LDP protocol: what every mechanism is, and the one estimator for all of them.

A mechanism is *pure* (T. Wang, J. Blocki, N. Li, S. Jha, "Locally Differentially Private
Protocols for Frequency Estimation", USENIX Security 2017, Definition 3.2) if a report
supports its own true value with probability p and any other given value with
probability q < p. Then, with C[v] the number of n reports that support v,

    estimate[v] = (C[v] - n q) / (p - q)                               (ibid., Equation 1)
    variance[v] = (c p (1 - p) + (n - c) q (1 - q)) / (p - q)^2        (ibid., Theorem 2)

where c is the true count. Nothing below this class's subclasses knows which one it holds.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.columns import CONVERSION_ERRORS, as_arrow, combine, plain
from ldp_core.consistency import Consistency, consistent
from ldp_core.domain import Codes, Domain
from ldp_core.errors import MechanismMismatchError, ParameterError, ReportError
from ldp_core.histogram import F64, Histogram
from ldp_core.probability import log_above
from ldp_core.randomness import Keystream, Noise, Randomness
from ldp_core.tally import Tally

Native: TypeAlias = npt.NDArray[Any]
"""Reports in a mechanism's working layout: an array with one row (or element) a report."""


class Mechanism(ABC):
    """A frozen, hashable, picklable description of a local randomizer; holds no state and no randomness.

    Subclasses say how codes become reports, which values a report supports and with what exact
    probabilities; everything else is here.
    """

    name: ClassVar[str]
    """What `to_dict` calls the mechanism."""

    _registry: ClassVar[dict[str, type[Mechanism]]] = {}

    domain: Domain
    epsilon: float

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            Mechanism._registry[cls.name] = cls

    # ---- what a subclass supplies

    @abstractmethod
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """Exact (p, q) of each value: Pr[report supports v | v is true], Pr[... | another value is]."""

    @abstractmethod
    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of one report under two inputs; epsilon is its logarithm."""

    @abstractmethod
    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """Draw one report for each code. ``domain.unmatched_code`` may occur where the domain allows it."""

    @abstractmethod
    def support_counts(self, reports: Native, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        """int64[n_groups, d]: in each group, how many reports support each value."""

    @abstractmethod
    def report_type(self, *, packed: bool = False) -> pa.DataType:
        """Arrow type of a report column."""

    @abstractmethod
    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """Reports as an Arrow array of `report_type`."""

    @abstractmethod
    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """Inverse of `to_arrow`, in either layout.

        Raises:
            ReportError: nulls, or another type or width than this mechanism's reports have.
        """

    @abstractmethod
    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """Reports as a numpy array of the nearest numpy type."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """JSON-able constructor arguments other than the domain."""

    @classmethod
    @abstractmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Mechanism:
        """Inverse of `parameters`."""

    # ---- what follows from it

    @property
    def p(self) -> float:
        """Pr[a report supports its own true value]."""
        return float(self.support_probabilities()[0][-1])

    @property
    def q(self) -> float:
        """Pr[a report supports some other given value]."""
        return float(self.support_probabilities()[1][-1])

    @property
    def realised_epsilon(self) -> float:
        """What the rounded probabilities really spend: the least float >= ln of the exact worst ratio.

        The exact value is never above `epsilon`; this float may exceed it by one unit in the last place.
        """
        return log_above(self.worst_ratio())

    def perturb(
        self, values: Any, *, randomness: Randomness | None = None, packed: bool = False, column: str = "values"
    ) -> Any:
        """Turn each value into one private report.

        Args:
            values: length-n Arrow array, numpy array or Python sequence of the domain's kind.
            randomness: default fresh noise, a keystream under a key from the operating system; or `Keyed`
                noise. Reports drawn from a known key are not private.
            packed: bit vectors as 64-bit words rather than as a list of Booleans.
            column: what to call the values in an error message.

        Returns:
            n reports: an Arrow array of `report_type` for Arrow input, else a numpy array.

        Raises:
            DomainError, DtypeError: see `Domain.encode`.
        """
        source = Keystream() if randomness is None else randomness
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            array = as_arrow(values, self.domain.kind, column=column)
            return self.perturb_arrow(array, source, packed=packed, column=column)
        return self.to_numpy(self._draw(values, source, column), packed=packed)

    def perturb_arrow(self, values: pa.Array, randomness: Randomness, *, packed: bool, column: str) -> pa.Array:
        """`perturb` from Arrow to Arrow; a mechanism may know a shorter way for some types."""
        return self.to_arrow(self._draw(values, randomness, column), packed=packed)

    def _draw(self, values: Any, randomness: Randomness, column: str) -> Native:
        codes = self.domain.encode(values, column=column)
        return self.perturb_codes(codes, randomness.bind(self.fingerprint, codes))

    def empty_tally(self) -> Tally:
        """The tally of no reports."""
        return Tally(0, np.zeros(self.domain.size, np.int64), self.fingerprint)

    def tally(self, reports: Any, *, column: str = "reports") -> Tally:
        """Count the reports that support each value.

        Args:
            reports: what `perturb` returned, in either layout.
            column: what to call the reports in an error message.

        Raises:
            ReportError: nulls, or not reports of this mechanism's shape.
        """
        native = self.from_arrow(self._reports_as_arrow(reports, column), column=column)
        support = self.support_counts(native, np.zeros(len(native), np.int64), 1)[0]
        return Tally(len(native), support, self.fingerprint)

    def _reports_as_arrow(self, reports: Any, column: str = "reports") -> pa.Array:
        if isinstance(reports, pa.ChunkedArray):
            reports = combine(reports)
        if isinstance(reports, pa.Array):
            return plain(reports)
        array: pa.Array | None = None
        with suppress(*CONVERSION_ERRORS):
            rows = np.asarray(reports)
            if rows.ndim == 2:
                array = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
            else:
                array = pa.array(reports)
        if array is None:
            raise ReportError(
                f"column {column!r}: reports must be of type {self.report_type()}, or a numpy array of it"
            )
        return array

    def variance(self, n: float, count: Any = 0.0) -> Any:
        """Variance of an estimated count, given ``n`` reports and true count(s) ``count`` (Theorem 2).

        Where the values differ in p and q (unequal coins), ``count`` is that of the last one.
        """
        p, q = self.p, self.q
        return (count * p * (1 - p) + (n - count) * q * (1 - q)) / self._difference**2

    @cached_property
    def _difference(self) -> float:
        """P - q, the same for all values, rounded once: it may be far smaller than either."""
        p, q = self.support_probabilities()
        return float(p[-1] - q[-1])

    @cached_property
    def _rates(self) -> tuple[F64, F64, F64]:
        """float64[d] each: Q; a / n and b of the variance a + b c of an estimated count, c the true one."""
        exact_p, exact_q = self.support_probabilities()
        q = np.array(exact_q, float)
        b = np.array([1 - p - q for p, q in zip(exact_p, exact_q, strict=True)], float) / self._difference
        return q, q * (1 - q) / self._difference**2, b

    def accuracy(self, n: int, beta: float = 0.05) -> float:
        """The alpha with Pr[|estimated - true frequency| >= alpha] <= beta, for one value.

        Hoeffding's inequality for n independent support indicators, divided by p - q:
        ``sqrt(ln(2 / beta) / (2 n)) / (p - q)``.
        """
        if n < 1:
            raise ParameterError(f"n must be at least 1, got {n}")
        if not 0 < beta < 1:
            raise ParameterError(f"beta must be in (0, 1), got {beta!r}")
        return math.sqrt(math.log(2 / beta) / (2 * n)) / self._difference

    def estimate(
        self,
        tally: Tally,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
    ) -> Histogram:
        """Debias a tally.

        Args:
            tally: of reports of this mechanism.
            confidence: of the intervals, in (0, 1).
            simultaneous: widen them so that all d hold together with that confidence (Bonferroni).
            consistency: make the counts non-negative and add up to n by a method of `ldp_core.consistency`;
                biased. Standard errors and intervals remain those of the unbiased estimate.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: confidence outside (0, 1); an unknown method, or one that this domain does not allow.
        """
        if tally.fingerprint != self.fingerprint:
            raise MechanismMismatchError(
                f"the tally has fingerprint {tally.fingerprint}, this mechanism {self.fingerprint}: "
                "estimate with the mechanism that made the reports"
            )
        if tally.support.shape != (self.domain.size,):
            raise MechanismMismatchError(
                f"the tally has {tally.support.size} counts, this mechanism's have {self.domain.size}"
            )
        arrays = self.debias(tally.n, tally.support, confidence=confidence, simultaneous=simultaneous)
        if consistency is not None:
            arrays = (consistent(arrays[0], tally.n, consistency, mechanism=self), *arrays[1:])
        return Histogram(self.domain, tally.n, *arrays, confidence, simultaneous, consistency)

    def debias(
        self, n: Any, support: npt.NDArray[np.int64], *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """Estimated counts, their standard errors, and the low and high ends of their intervals.

        The variance of an estimate depends on the true count c, as a + b c. The interval holds all c that lie
        within z standard errors *of their own* from the estimate, the roots of (estimate - c)^2 = z^2 (a + b c): a
        score interval (E. B. Wilson, JASA 22(158), 1927), here of the debiased count.

        Args:
            n: number of reports, broadcast against ``support`` (int64[k, 1] for k tallies at once).
            support: support counts, int64[..., d].
            confidence: see `estimate`.
            simultaneous: see `estimate`.

        Returns:
            Four arrays float64[..., d].
        """
        if not 0 < confidence < 1:
            raise ParameterError(f"confidence must be in (0, 1), got {confidence!r}")
        q, difference = self._rates[0], self._difference
        counts: F64 = (support - n * q) / difference
        a, b = n * self._rates[1], self._rates[2]
        errors: F64 = np.sqrt(a + b * np.clip(counts, 0, n))
        z = -NormalDist().inv_cdf((1 - confidence) / (2 * self.domain.size if simultaneous else 2))
        shift = np.where(np.equal(n, 0), 0, z * b / 2)  # without reports there is nothing to be uncertain about
        middle = counts + z * shift
        half = z * np.sqrt(np.maximum(a + b * counts + shift**2, 0))
        return counts, errors, middle - half, middle + half

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {"mechanism": self.name, **self.parameters(), **self.domain.to_dict()}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Mechanism:
        """Inverse of `to_dict`.

        Raises:
            ParameterError: an unknown mechanism, a missing or an unknown parameter.
        """
        rest = dict(data)
        name = rest.pop("mechanism", None)
        cls = Mechanism._registry.get(name) if isinstance(name, str) else None
        if cls is None:
            raise ParameterError(f"mechanism must be one of {sorted(Mechanism._registry)}, got {name!r}")
        if "domain" not in rest:
            raise ParameterError(f"{name} needs a domain")
        domain = Domain(rest.pop("domain"), unmatched=rest.pop("unmatched", "error"))
        try:
            return cls.from_parameters(domain, rest)
        except TypeError as error:  # an argument is missing or unknown
            message = str(error)
        raise ParameterError(f"{name}: {message}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_dict, (self.to_dict(),)

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify mechanism, parameters and domain."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _from_dict(data: dict[str, Any]) -> Mechanism:
    return Mechanism.from_dict(data)  # (cloudpickle would take a static method apart, code and all)
