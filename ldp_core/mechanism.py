"""What every mechanism is: values go in, private reports come out, and tallies of reports add up.

values -> `inputs` -> codes -> `perturb` -> reports -> `tally` -> `Tally`, and from there what the mechanism can
estimate: counts (`FrequencyOracle`), counts of candidates (`Sketch`), means and distributions
(`Numeric`).
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.accounting.shuffling import Levels, amplified
from ldp_core.arrays.arrow import CONVERSION_ERRORS, column_of, is_of_pandas, plain
from ldp_core.arrays.types import I64, Bools, Codes
from ldp_core.compute.threads import in_threads
from ldp_core.errors import LARGE_EPSILON, MechanismMismatchError, ParameterError, ReportError, warn_large
from ldp_core.exact.composition import ChangeTimes, History, Spent, memoryless
from ldp_core.exact.probability import float_above, log_above
from ldp_core.inputs import inputs_from_dict
from ldp_core.inputs.base import Inputs
from ldp_core.limits import check_nesting
from ldp_core.noise.base import Noise, Randomness
from ldp_core.noise.fresh import Keystream
from ldp_core.noise.keyed import Keyed
from ldp_core.noise.secret import Secret
from ldp_core.parameters import Declared, check_integer, check_open
from ldp_core.poisoning import Influence
from ldp_core.reports import Native, ReportFormat
from ldp_core.simulated_counts import Generator, generator_of
from ldp_core.tables import html
from ldp_core.tally import MOST, Counts, Tally


class Outlook(NamedTuple):
    """What to expect of an estimate.

    Attributes:
        error: its standard error, in ``unit``; NaN if nothing is known.
        unit: ``"records"``, of a count, or ``"mean"``, in the numbers' own unit.
        share: the same of all records, or of the length of the interval.
        advice: what to do about it, if it is large.
    """

    error: float = math.nan
    unit: str = ""
    share: float = math.nan
    advice: str | None = None

    @property
    def margin(self) -> str:
        """Half of a 95 % interval, in words.

        >>> Outlook(104.0, "records", 0.00052).margin
        '± 0.102 % of the records'
        """
        if math.isnan(self.error):
            return ""
        if math.isinf(self.error):
            return "no bound"
        z = NormalDist().inv_cdf(0.975)
        return (
            f"± {z * self.error:.3g} (mean)"
            if self.unit == "mean"
            else f"± {100 * z * self.share:.3g} % of the records"
        )


class Mechanism(Declared, ABC):
    """A frozen, hashable, picklable description of a local randomizer; holds no state and no randomness.

    Subclasses say how codes become reports and how reports are counted; everything else is here.
    """

    name: ClassVar[str]
    """What `to_dict` calls the mechanism."""

    _registry: ClassVar[dict[str, type[Mechanism]]] = {}

    memoised: ClassVar[bool] = False
    """Whether part of the noise must stay the same for a person: such a mechanism takes keyed noise only."""

    epsilon: float
    """What one report spends."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            Mechanism._registry[cls.name] = cls

    @override
    def _declare(self, **values: Any) -> None:
        super()._declare(**values)
        self._warn_of(max((getattr(self, name) for name in values if name.startswith("epsilon")), default=0))

    def _warn_of(self, epsilon: float) -> None:
        """Warn of an epsilon that hides nothing, but not in parts of mechanisms, nor in what is read back."""
        if epsilon > LARGE_EPSILON and not _called_by_core(self):
            warn_large(epsilon)

    # ---- what a subclass supplies

    @property
    def title(self) -> str:
        """What tables call it."""
        return self.name

    domain: Any
    """The inputs, in nearly all mechanisms."""
    usual_domain: ClassVar[tuple[Any, ...] | None] = None
    """The labels of a mechanism that needs none, as ``from_dict`` and TOML."""

    @property
    def inputs(self) -> Inputs:
        """What values may be perturbed: a `Domain`, an `Interval`, an `OpenDomain`, `Prefixes`."""
        made: Inputs = self.domain
        return made

    @property
    @abstractmethod
    def counters(self) -> int:
        """Number of counters in a tally."""

    @abstractmethod
    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of one report under two inputs; epsilon is its logarithm."""

    @property
    def two_levels(self) -> Sequence[Levels]:
        """Of a mechanism of two levels, what there is between two values: of each kind of pairs one.

        Two levels: a report is equally likely under any two values, or `worst_ratio` times as likely under one of them.
        Empty where that is not so, or not known; see `ldp_core.accounting.shuffling` for what follows from it.
        """
        return ()

    @property
    @abstractmethod
    def reports(self) -> ReportFormat:
        """What reports look like."""

    chunk: ClassVar[int] = 1 << 16
    """How many elements of reports are made at a time, so that the intermediate arrays stay in a cache."""

    parallel: ClassVar[tuple[type[Noise], ...]] = ()
    """Noise of which several threads draw blocks: faster where nearly all of the work needs no lock of Python's."""

    @property
    def block_size(self) -> int:
        """How many records are perturbed at a time."""
        return max(self.chunk // self.reports.width, 1)

    @abstractmethod
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        """Draw one report for each code, of a block of records.

        ``inputs.unmatched_code`` may occur where the inputs allow it.
        """

    @abstractmethod
    def count_reports(self, reports: Native, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        """int64[n_groups, counters]: in each group, how many reports each counter counts.

        In a frequency oracle there is one counter a value: the number of reports that support it.
        """

    # ---- what follows from it

    def parameters(self) -> dict[str, Any]:
        """JSON-able constructor arguments other than the inputs: the declared parameters."""
        return {name: value for name, value in self._parameters().items() if name != "domain"}

    @classmethod
    def from_parameters(cls, domain: Any, parameters: Mapping[str, Any]) -> Self:
        """Inverse of `parameters`; ``domain`` are the inputs."""
        make: Any = cls  # nearly every mechanism takes its inputs, and then its parameters by name
        made: Self = make(domain, **parameters)
        return made

    @property
    def realised_epsilon(self) -> float:
        """What the rounded probabilities really spend: the least float >= ln of the exact worst ratio.

        The exact value is never above `epsilon`; this float may exceed it by one unit in the last place.
        """
        return log_above(self.worst_ratio())

    def epsilon_of(
        self,
        reports: int | None = 1,
        *,
        changes: int | None = 0,
        change_times: ChangeTimes = "secret",
        keyed: bool = False,
    ) -> float:
        """What several reports of one person spend together: an upper bound, rounded up.

        Without permanent answers and with fresh noise it is ``reports * epsilon``, with the declared epsilon, as a plan
        and a budget count it. (The exact loss is less by what 64-bit probabilities round off.) With permanent
        answers and ``changes=0`` it is the exact loss: more than ``reports * epsilon`` for a few reports, and at most
        epsilon_infinity. See `ldp_core.exact.composition` for all formulas and their proofs.

        Args:
            reports: how many; None for any number.
            changes: how often the value changes at most, from one report to the next; None for any number. A value
                is what the domain makes of it: all that are unmatched are one.
            change_times: ``"secret"``: that the value changed, and when, is protected too. ``"public"``: it is known
                which reports have the same value (more than the times of the changes: also what returns).
            keyed: whether the noise is keyed (`Keyed`). A memoised mechanism's always is.

        Returns:
            A number of nats; infinite if there is no bound.

        Raises:
            ParameterError: negative numbers, or other words.

        >>> from ldp_core import LongitudinalRandomizedResponse, RandomizedResponse
        >>> RandomizedResponse(epsilon=0.5).epsilon_of(10), RandomizedResponse(epsilon=0.5).epsilon_of(10, keyed=True)
        (5.0, 0.5)
        >>> RandomizedResponse(epsilon=0.5).epsilon_of(2, changes=1, keyed=True)  # whether they differ is seen
        inf
        >>> m = LongitudinalRandomizedResponse(range(100), epsilon_infinity=5.0, epsilon_1=0.5)
        >>> [round(m.epsilon_of(k), 3) for k in (1, 4, 10, 1000, None)]
        [0.5, 2.408, 4.859, 5.0, 5.0]
        >>> m.epsilon_of(1000, changes=1, change_times="public"), round(m.epsilon_of(1000, changes=1))
        (10.0, 379)
        """
        return float_above(self.spent_by(History.of(reports, changes, change_times, keyed)))

    def spent_by(self, history: History) -> Spent:
        """`epsilon_of` as an exact fraction. A mechanism with permanent answers says how; here they have no bound."""
        if self.memoised and history.reports not in (0, 1):
            return math.inf
        return memoryless(history, self.epsilon)

    def shuffled(self, n: int, delta: float) -> float:
        """What one of n shuffled reports spends: they are (this epsilon, ``delta``)-differentially private.

        It assumes that each of n people sends one report, with noise of its own, and that only the reports are seen,
        or what is computed from them (a tally, a histogram): no identities, no order, no arrival times, nothing beside
        the report that tells people apart. Of a memoised mechanism it is about one report a person, ever. Who can tell
        whose report is whose learns what `epsilon` allows.

        Args:
            n: number of people, >= 1.
            delta: in (0, 1); well below 1 / n.

        Returns:
            An upper bound, at most `epsilon`: for any mechanism that of V. Feldman, A. McMillan, K. Talwar, "Hiding
            Among the Clones", FOCS 2021, Theorem 3.2, and a smaller one where `two_levels` are known. Formulas,
            sources and rounding: `ldp_core.accounting.shuffling`.

        Raises:
            ParameterError: n or delta outside its interval.

        >>> from ldp_core import RandomizedResponse, UnaryEncoding
        >>> coin, bits = RandomizedResponse(epsilon=1.0), UnaryEncoding(range(16), epsilon=1.0)
        >>> [round(m.shuffled(100_000, delta=1e-6), 4) for m in (coin, bits)]
        [0.0124, 0.0085]
        """
        n, delta = check_integer("n", n, low=1), check_open("delta", delta)
        epsilon = self.realised_epsilon
        return min(amplified(epsilon, n, delta, self.two_levels), self.epsilon)

    def perturb(
        self, values: Any, *, randomness: Randomness | None = None, packed: bool = False, column: str = "values"
    ) -> Any:
        """Turn each value into one private report.

        Args:
            values: length-n Arrow array, numpy array, Series of Polars or pandas, or Python sequence, of the domain's
                kind.
            randomness: default fresh noise, a keystream under a key from the operating system; or `Keyed`
                noise, which `memoised` mechanisms need. Reports drawn from a known key are not private.
            packed: bit vectors as 64-bit words rather than as a list of Booleans.
            column: what to call the values in an error message.

        Returns:
            n reports: an Arrow array of ``reports.arrow_type()`` for Arrow input, else a numpy array.

        Raises:
            DomainError, DtypeError: see `Domain.encode`.
            MechanismMismatchError: a Series of Polars that holds reports already.
            ParameterError: no keyed noise, and the mechanism is memoised.
        """
        self.check_noise(keyed=randomness is not None and randomness.by_value)
        source = Keystream() if randomness is None else randomness
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            return self.perturb_arrow(column_of(values), source, packed=packed, column=column)
        if _maker(values) is not None:
            raise MechanismMismatchError(
                f"column {column!r} holds reports already, says its dtype; do not perturb them again"
            )
        return self.reports.to_numpy(self.draw(values, source, column), packed=packed)

    def perturb_arrow(self, values: pa.Array, randomness: Randomness, *, packed: bool, column: str) -> pa.Array:
        """`perturb` from Arrow to Arrow; a mechanism may know a shorter way for some types."""
        return self.reports.to_arrow(self.draw(values, randomness, column), packed=packed)

    def draw(self, values: Any, randomness: Randomness, column: str) -> Native:
        """`perturb` to the working layout, which `count_reports` takes."""
        codes = self.inputs.encode(values, column=column)
        return self.perturb_codes(codes, randomness.bind(self.digest, codes))

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """One report for each code, in the working layout: `perturb_block`, a block at a time."""
        n, step = len(codes), self.block_size
        if 0 < n <= step:  # no copy, if it is of the right type
            return np.ascontiguousarray(self.perturb_block(codes, noise.rows(0, n)), self.reports.empty(0).dtype)
        reports = self.reports.empty(n)

        def fill(noise: Noise, start: int) -> None:
            stop = min(start + step, n)
            reports[start:stop] = self.perturb_block(codes[start:stop], noise.rows(start, stop))

        in_threads(fill, range(0, n, step), noise, noise.another if isinstance(noise, self.parallel) else None)
        return reports

    def check_noise(self, *, keyed: bool) -> None:
        """Raise `ParameterError` if the mechanism is memoised and the noise is not keyed."""
        if self.memoised and not keyed:
            raise ParameterError(
                f"{self.name} remembers its permanent answers by keyed noise: give the secret and whose value each is "
                "(key= and id=; randomness=Keyed(...) in ldp_core)"
            )

    def empty_tally(self) -> Tally:
        """The tally of no reports."""
        return Tally(0, np.zeros(self.counters, np.int64), self.fingerprint)

    def tally(self, reports: Any, *, column: str = "reports") -> Tally:
        """Count reports: of a frequency oracle, those that support each value.

        Args:
            reports: what `perturb` returned, in either layout.
            column: what to call the reports in an error message.

        Raises:
            MechanismMismatchError: a Series of Polars whose dtype says that another mechanism made the reports.
            ReportError: nulls, or not reports of this mechanism's shape.
        """
        native = self._checked(reports, column)
        one_group = np.broadcast_to(np.int64(0), len(native))  # zeros that nobody has to write
        return Tally(len(native), self.count_reports(native, one_group, 1)[0], self.fingerprint)

    def _checked(self, reports: Any, column: str) -> Native:
        """What `perturb` returned, in the working layout."""
        return self.reports.from_arrow(self._reports_as_arrow(reports, column), column=column)

    def _reports_as_arrow(self, reports: Any, column: str = "reports") -> pa.Array:
        made_by = _maker(reports)
        if made_by is not None and made_by.fingerprint != self.fingerprint:
            raise MechanismMismatchError(
                f"column {column!r}: the reports were made by {made_by.name} (epsilon {made_by.epsilon:.4g}), says "
                f"their dtype, not by {self.name} (epsilon {self.epsilon:.4g}): tally with the mechanism that made them"
            )
        given, reports = reports, column_of(reports)
        if isinstance(reports, pa.Array):
            made = plain(reports)
            return made if isinstance(given, (pa.Array, pa.ChunkedArray)) else _of_one_length(made)
        array: pa.Array | None = None
        with suppress(*CONVERSION_ERRORS):
            rows = np.asarray(reports)
            if rows.ndim == 2:
                array = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
            else:
                array = _of_one_length(pa.array(reports))
        if array is None:
            raise ReportError(
                f"column {column!r}: reports must be of type {self.reports.arrow_type()}, or a numpy array of it"
            )
        return array

    # ---- without reports

    def simulate(self, counts: Mapping[Any, int] | npt.ArrayLike, *, seed: int | Generator | None = None) -> Tally:
        """The tally that the reports of so many people might have, drawn without making the reports.

        It has the distribution that the tally of their reports has: each person reports once, with noise of its own
        (a mechanism says where its counters are right each by itself, but not all together). Counters are exact
        integers, and a billion people take hardly longer than a million. **A simulation, not a release**: numpy's
        generator, which is no cryptographic one, and probabilities as floats.

        Args:
            counts: how many people have each value: a mapping from values to numbers (None for a null; values that are
                not declared are treated as ``unmatched`` says), or a Series of pandas with the values as index; or,
                where values are declared, int64[d], in their order (with ``unmatched="none"`` int64[d + 1]: the last
                one of people without a value).
            seed: for the same tally again; default: the operating system's randomness.

        Raises:
            ParameterError: numbers of people that are none; no mapping where values are not declared.
            DomainError, DtypeError: see `Domain.encode`.

        >>> from ldp_core import RandomizedResponse
        >>> m = RandomizedResponse(["ios", "android"], epsilon=1.0)
        >>> m.estimate(m.simulate({"ios": 600_000_000, "android": 400_000_000}, seed=1))
        Histogram of 1,000,000,000 reports, 95% intervals (per value)
        value            count  std.error            low           high  frequency      low     high
        ios      599,982,165.3   30,342.6  599,922,694.9  600,041,635.7    60.00 %  59.99 %  60.00 %
        android  400,017,834.7   30,342.6  399,958,364.3  400,077,305.1    40.00 %  40.00 %  40.01 %
        """
        generator = generator_of(seed)
        if is_of_pandas(counts) and hasattr(
            counts, "items"
        ):  # a Series, whose order is that of its index, as `value_counts` makes it
            counts = dict(counts.items())
        people, listed = (
            check_people(list(counts.values()) if isinstance(counts, Mapping) else counts),
            self.inputs.listed,
        )
        self.check_total(sum(people.tolist()))
        if isinstance(counts, Mapping):
            return self.simulate_values(list(counts), people, generator)
        if listed is None:
            raise ParameterError(
                f"counts for {self.name} must map values to numbers of people: its values are not listed"
            )
        if len(people) != listed:
            raise ParameterError(f"counts must be {listed} numbers of people, one a code, got {len(people)}")
        counters = self.simulate_counters(np.arange(listed), people, generator)
        return Tally(int(people.sum()), counters, self.fingerprint)

    def simulate_values(self, values: Any, people: I64, generator: Generator) -> Tally:
        """`simulate`, of values as `perturb` takes them, and how many people have each."""
        codes = self.inputs.encode(values) if len(people) else np.zeros(0, np.uint64)
        return Tally(int(people.sum()), self.simulate_counters(codes, people, generator), self.fingerprint)

    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """The counters that the reports of so many people might have; not private.

        Here the reports are made, a block of people at a time: right for every mechanism, and as slow as that is. One
        that knows how its counters are distributed draws them; see `ldp_core.simulated_counts`.

        Args:
            codes: of values, as `inputs` encodes them; not necessarily distinct.
            people: int64, how many have each.
            generator: numpy's.

        Returns:
            int64[counters].
        """
        secret = Secret.from_seed(int.from_bytes(generator.bytes(16)))
        counters = np.zeros(self.counters, np.int64)
        ends = np.cumsum(people)
        for start in range(0, int(ends[-1]) if len(ends) else 0, _PEOPLE):
            ids = np.arange(start, min(start + _PEOPLE, int(ends[-1])))
            of = codes[np.searchsorted(ends, ids, side="right")]
            noise = Keyed(secret, ids, column="simulation").bind(self.digest, of)  # (memoised mechanisms take no other)
            counters += self.count_reports(self.perturb_codes(of, noise), np.zeros(len(ids), np.int64), 1)[0]
        return counters

    # ---- what clients that lie can do; see `ldp_core.poisoning`

    def influence(self) -> Influence:
        """By how much one more report, whatever it says, moves estimates.

        Of a frequency oracle: estimated counts, to which an honest report adds 1 on average. Exact, or a bound where
        the mechanism says so.

        Raises:
            ParameterError: it is not known, or there is no bound.
        """
        raise ParameterError(f"{self.name} has no known bound of what one report moves")

    def worst_gain(self, *, fake: int, targets: int = 1) -> float:
        """The most that the maximal gain attack adds to the estimated counts of ``targets`` values together.

        (X. Cao, J. Jia, N. Gong, USENIX Security 2021.) For the values for which it is the most. As a share of n honest
        reports and the fake ones it is this over n + ``fake``, less ``fake`` / (n + ``fake``) times what share of the
        honest people holds the targets.

        Args:
            fake: number of fake reports.
            targets: number of values whose counts are to be raised.

        Raises:
            ParameterError: a number that is not permitted; or what one report moves has no known bound.

        >>> from ldp_core import SubsetSelection, UnaryEncoding
        >>> round(UnaryEncoding(range(16), epsilon=1.0).worst_gain(fake=100, targets=10))
        3164
        >>> round(SubsetSelection(range(16), epsilon=1.0).worst_gain(fake=100, targets=10))  # 4 values a report
        686
        """
        raise ParameterError(f"{self.name} has no known bound of what fake reports gain")

    def suspicious(self, reports: Any, *, false_alarm: float = 1e-6, column: str = "reports") -> Bools:
        """Which reports an honest client hardly ever sends: their number of ones (or sum) is too small or too large.

        This finds crude attacks only, such as vectors of all ones. Reports with as many ones as an honest one has are
        not found, whichever bits these are; see docs/poisoning.md.

        Args:
            reports: what `perturb` returned, in either layout.
            false_alarm: the most that the probability may be that an honest report, of whatever value, is suspicious;
                in (0, 1).
            column: what to call the reports in an error message.

        Returns:
            Boolean array, one a report.

        Raises:
            ReportError: see `tally`.
            ParameterError: false_alarm outside (0, 1); or nothing of the kind is known of these reports.

        >>> from ldp_core import UnaryEncoding
        >>> m = UnaryEncoding(range(40), epsilon=1.0)
        >>> m.suspicious([[True] * 40, [True, False] * 20]).tolist()
        [True, False]
        """
        check_open("false_alarm", false_alarm)
        return self.unlikely(self._checked(reports, column), false_alarm)

    def unlikely(self, reports: Native, false_alarm: float) -> Bools:
        """`suspicious`, of checked reports in the working layout."""
        raise self._no_sums()

    def plausible(self, reports: Any, *, false_alarm: float = 1e-6, column: str = "reports") -> bool:
        """Whether the numbers of ones of all these reports together can be those of honest clients.

        It finds what single reports do not show: many crafted reports that all have the same plausible number of ones,
        as in the published attack. Those with numbers drawn as honest clients draw them are not found.

        Args:
            reports: of different people, as in `suspicious`.
            false_alarm: the most that the probability may be that honest reports are found implausible; in (0, 1).
            column: what to call the reports in an error message.

        Raises:
            ReportError, ParameterError: see `suspicious`.

        >>> from ldp_core import UnaryEncoding
        >>> m = UnaryEncoding(range(40), epsilon=1.0)
        >>> m.plausible([[True] * 11 + [False] * 29] * 30)
        False
        """
        check_open("false_alarm", false_alarm)
        return not self.unlikely_together(self._checked(reports, column), false_alarm)

    def unlikely_together(self, reports: Native, false_alarm: float) -> bool:
        """`plausible`, denied, of checked reports in the working layout."""
        raise self._no_sums()

    def _no_sums(self) -> ParameterError:
        return ParameterError(
            f"nothing is known of reports of {self.name}, such as their number of ones, that tells crafted ones from "
            "honest ones; what every report must be is checked when they are read"
        )

    def explain(self, n: int) -> Outlook:
        """What to expect of ``n`` reports, for `PrivacyPlan.explain`; here nothing is known."""
        return Outlook()

    def check_tally(self, tally: Counts) -> None:
        """Raise `MechanismMismatchError` unless a tally is of this mechanism, or `ReportError` if it cannot be."""
        if not hasattr(tally, "fingerprint"):
            raise ReportError(f"expected a tally, as {self.name}'s tally(reports) gives, got {type(tally).__name__}")
        if tally.fingerprint != self.fingerprint:
            raise MechanismMismatchError(
                f"the tally has fingerprint {tally.fingerprint}, this mechanism {self.fingerprint}: "
                "estimate with the mechanism that made the reports"
            )
        if tally.counters.shape != (self.counters,):
            raise MechanismMismatchError(
                f"the tally has {tally.counters.size} counts, this mechanism's have {self.counters}"
            )
        if not 0 <= tally.n <= self.most_reports or not self.is_possible(np.array(tally.n), tally.counters):
            raise ReportError(
                f"the tally's counts cannot be those of {tally.n} reports of this mechanism: "
                "it is damaged or forged, leave it out"
            )

    def check_counts(self, n: I64, counters: I64, *, column: str = "tallies") -> None:
        """`check_tally` of many tallies at once, each by itself.

        Args:
            n: numbers of reports, int64[k].
            counters: int64[k, counters].
            column: what to call the tallies in an error message.

        Raises:
            ReportError: the counters of some cannot be those of n reports of this mechanism.
        """
        known = (n >= 0) & (n <= self.most_reports)
        wrong = len(n) - int(np.count_nonzero(known & self.is_possible(n, counters)))
        if wrong:
            raise ReportError(
                f"column {column!r}: {wrong} of {len(n)} tallies have counts that no n reports of this mechanism "
                "have: they are damaged or forged, leave them out"
            )

    def check_total(self, n: int) -> None:
        """Raise `ReportError` if these are more than `most_reports`, what all tallies together may have."""
        if n > self.most_reports:
            raise ReportError(
                f"tallies of this mechanism can be added up to at most {self.most_reports} reports, and these have {n}"
            )

    def merge(self, tallies: Iterable[Tally]) -> Tally:
        """The sum of tallies, each of which is checked by itself: one forged tally cannot hide behind the others.

        Use it, and not ``+``, for tallies that come from outside. Without tallies it is the empty one.

        Raises:
            MechanismMismatchError: a tally is another mechanism's.
            ReportError: a tally's counters cannot be those of its n reports; all together are more than `most_reports`.

        >>> from ldp_core import RandomizedResponse
        >>> m = RandomizedResponse(epsilon=1.0)
        >>> honest = m.tally([True, False, True])
        >>> m.merge([honest, honest]).n
        6
        >>> m.merge([honest, Tally(1, -honest.counters, m.fingerprint)])  # it would take the honest one's counts away
        Traceback (most recent call last):
        ldp_core.errors.ReportError: the tally's counts cannot be those of 1 reports of this mechanism: it is damaged \
or forged, leave it out
        """
        total = self.empty_tally()
        for tally in tallies:
            self.check_tally(tally)
            self.check_total(total.n + tally.n)
            total += tally
        return total

    @property
    def most_reports(self) -> int:
        """The most reports that a tally can hold, so that no sum of its counters is beyond 64 bits: 2^63 / counters."""
        return MOST // self.counters

    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Whether these can be the counters of n reports; here, whether each counter is in [0, n].

        A mechanism knows more where it is so: for example that each report counts once.

        Args:
            n: int64[...], in [0, `most_reports`], so that n times the number of counters is no overflow.
            counters: int64[..., counters], any numbers.

        Returns:
            bool[...].
        """
        least, most = np.minimum.reduce(counters, axis=-1), np.maximum.reduce(counters, axis=-1)
        possible: Bools = (least >= 0) & (most <= n)
        return possible

    def bounded_sums(self, n: Any, counters: npt.NDArray[np.int64], counts: Any) -> Sequence[Any]:
        """Sums of which it is known what reports can add up to, see `ldp_core.estimates.plausibility`; here, none."""
        return ()

    def _repr_html_(self) -> str:
        """Parameters, and what reports are."""
        shown = {"values": self.inputs.summary, "epsilon": self.epsilon, **self.parameters()}
        rows = [(key, _cell(value)) for key, value in shown.items()]
        return html(
            [(self.title, ""), *rows, ("reports", str(self.reports.arrow_type())), ("fingerprint", self.fingerprint)]
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {"mechanism": self.name, **self.parameters(), **self.inputs.to_dict()}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Mechanism:
        """Inverse of `to_dict`.

        Raises:
            ParameterError: an unknown mechanism, a missing or an unknown parameter; or one that nests too deep.
            DomainError: see `Domain`.
        """
        if not isinstance(data, Mapping):
            raise ParameterError(f"a mechanism is a table, got {type(data).__name__}")
        check_nesting(data, "a mechanism", ParameterError)
        rest = dict(data)
        name = rest.pop("mechanism", None)
        if not isinstance(name, str) or name not in Mechanism._registry:
            _import_mechanisms()
        cls = Mechanism._registry.get(name) if isinstance(name, str) else None
        if cls is None:
            got = repr(name) if "mechanism" in data else "none"
            raise ParameterError(f"mechanism must be one of {sorted(Mechanism._registry)}, got {got}")
        if cls.usual_domain is not None:
            rest.setdefault("domain", list(cls.usual_domain))
        if "domain" not in rest:
            raise ParameterError(f"{name} needs a domain")
        try:
            domain = inputs_from_dict({k: rest.pop(k) for k in ("domain", "unmatched") if k in rest})
            return cls.from_parameters(domain, rest)
        except TypeError as error:  # an argument is missing or unknown
            message = str(error).partition(".__init__() ")[2] or str(error)
        takes = [field.name for field in fields(cls) if field.name != "domain"] if is_dataclass(cls) else ["parameters"]
        raise ParameterError(f"{name}: {message}; it takes domain (and unmatched), {', '.join(takes)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_dict, (self.to_dict(),)

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits, SHA-256 of mechanism, parameters and domain: what keyed noise depends on."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 digits of `digest`: they tell mechanisms apart that nobody has made in order to be alike."""
        return self.digest[:16]


def _import_mechanisms() -> None:
    """Import those of this package: they are above this file, and so far only those that were used are there."""
    for module in ("ldp_core.mechanisms.catalogue", "ldp_core.plans.sampled", "ldp_core.plans.fake"):
        import_module(module)


def _called_by_core(made: Mechanism) -> bool:
    """Whether ``made`` is being constructed by code of this package that is not its own constructor."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_locals.get("self") is made:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).startswith("ldp_core.")


def _maker(column: Any) -> Mechanism | None:
    """The mechanism of a Series of typed reports, which its dtype has (`ldp_polars.Report`); None of other columns."""
    made = getattr(getattr(column, "dtype", None), "mechanism", None)
    return made if isinstance(made, Mechanism) else None


def _of_one_length(rows: pa.Array) -> pa.Array:
    """Lists of one length as Arrow has vectors; anything else as it is.

    (pandas keeps a vector as an object.)
    """
    if not (pa.types.is_list(rows.type) or pa.types.is_large_list(rows.type)) or rows.null_count or not len(rows):
        return rows
    size, items = len(rows[0]), rows.flatten()
    lengths = rows.value_lengths().to_numpy(zero_copy_only=False)
    return pa.FixedSizeListArray.from_arrays(items, size) if size and (lengths == size).all() else rows


def _cell(value: Any) -> str:
    """A parameter as people read it; of a mechanism in a mechanism what `to_dict` says, but for its inputs."""
    if isinstance(value, Mapping):
        own = (f"{key} {_cell(part)}" for key, part in value.items() if key not in ("mechanism", "domain", "unmatched"))
        return ", ".join([str(value.get("mechanism", "")), *own])
    return f"{value:.6g}" if isinstance(value, float) else f"{value}"


_PEOPLE = 1 << 16  # whose reports are made at a time


def check_people(counts: npt.ArrayLike) -> I64:
    """Numbers of people as int64[k].

    Raises:
        ParameterError: they are not a row of integers, at least 0.
    """
    array = np.asarray(counts)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu") or array.min(initial=0) < 0:
        raise ParameterError(f"counts must be whole numbers of people, at least 0, got an array of {array.dtype}")
    if array.max(initial=0) > MOST:
        raise ParameterError("counts of people must be below 2**63")
    return array.astype(np.int64)


def _from_dict(data: dict[str, Any]) -> Mechanism:
    return Mechanism.from_dict(data)  # (cloudpickle would take a static method apart, code and all)


def not_a_mechanism(given: object, more: str = "") -> str:
    """What came in the place of a mechanism, and how to get one; for errors.

    >>> not_a_mechanism(1.0)
    'float; a mechanism is made of labels and epsilon, as RandomizedResponse(["yes", "no"], epsilon=1.0)'
    """
    if isinstance(given, type) and issubclass(given, Mechanism):
        return f"the class {given.__name__}; make one of it, {given.__name__}(..., epsilon=1.0)"
    if isinstance(getattr(given, "columns", None), Mapping):  # a plan
        return f"{type(given).__name__}; {more}the mechanism of one column is plan[name]"
    made = 'a mechanism is made of labels and epsilon, as RandomizedResponse(["yes", "no"], epsilon=1.0)'
    return f"{type(given).__name__}; {made}"
