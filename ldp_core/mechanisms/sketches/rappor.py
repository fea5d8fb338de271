"""RAPPOR: Bloom filters of unlisted values, answered once and for all, and each time anew.

U. Erlingsson, V. Pihur, A. Korolova, "RAPPOR: Randomized Aggregatable Privacy-Preserving Ordinal Response", CCS 2014.
A person is in one of m cohorts for ever. A value sets h of k bits, by its cohort's hash functions. The *permanent*
response flips each bit with probability f / 2, the same way for ever (noise from a secret and the person's id); the
*instantaneous* one reports a bit as 1 with probability q if it is 1 there, p if it is 0, freshly each time. So

    p* = p + f (q - p) / 2      q* = q - f (q - p) / 2      Pr[a bit is reported as 1 | it is 0, is 1 in the filter]
    epsilon_1        = h ln(q* (1 - p*) / (p* (1 - q*)))    of one report                     (ibid., section 3.2)
    epsilon_infinity = 2 h ln((1 - f / 2) / (f / 2))        of all reports of a value         (ibid., section 3.1)

if two filters can differ in 2 h bits; where k < 2 h they differ in k at most, and the bounds here are the smaller ones
that follow. What several reports spend together is in `ldp_core.exact.composition`: the permanent response is a
function of the value, not of its filter, so that different values have different ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, NoReturn, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from ldp_core.accounting.binomials import pmf, spread
from ldp_core.arrays.arrow import as_arrow
from ldp_core.arrays.types import F64, I64, U8, U64, Bools, Codes
from ldp_core.errors import ParameterError, warn_large
from ldp_core.estimates.base import z_score
from ldp_core.estimates.clusters import student
from ldp_core.estimates.histogram import Histogram
from ldp_core.estimates.plausibility import Sums, Term, watch
from ldp_core.estimates.tails import least_beyond
from ldp_core.exact import bloom
from ldp_core.exact.composition import History, SharedBits, Spent, memoized, memoryless
from ldp_core.exact.probability import ceil_threshold, floor_threshold, fraction, log_above
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.domain import Domain, Label
from ldp_core.inputs.open_domain import OpenDomain
from ldp_core.mechanism import Mechanism, of_inner
from ldp_core.mechanisms.oracles.base import hoeffding
from ldp_core.mechanisms.sketches._numbered_bits import NumberedBits
from ldp_core.mechanisms.sketches._regression import FULL, Correction, Design, Fit, p_values, significant
from ldp_core.mechanisms.sketches.base import Candidates, Sketch
from ldp_core.noise.base import Noise, Randomness
from ldp_core.parameters import check_choice, check_integer, check_open, check_share, converted, derived, parameter
from ldp_core.poisoning import CountsOnes, chances_of_ones
from ldp_core.reports import Native
from ldp_core.reports.bits import row_bytes
from ldp_core.simulated_counts import Generator, by_code, scatter
from ldp_core.tally import Tally

Hashing = Literal["aes", "md5"]


def _check_hashing(name: str, value: Hashing, domain: OpenDomain) -> Hashing:
    """One of `Hashing`; MD5 where values are texts."""
    if check_choice(name, value, get_args(Hashing)) == "md5" and domain.kind != "str":
        raise ParameterError(f'{name}="md5" is for texts, kind="str"')
    return value


class _NoInfluence(Mechanism):
    """What crafted reports do to a regression is not known."""

    @override
    def influence(self) -> NoReturn:
        raise ParameterError(
            "RAPPOR's counts are a regression, which depends on the candidates and on the reports of each cohort: what "
            "one report moves has no bound that holds for all of them; that of a count mean sketch has"
        )

    @override
    def worst_gain(self, *, fake: int, targets: int = 1) -> NoReturn:
        self.influence()


@dataclass(frozen=True, init=False)
class Rappor(CountsOnes, _NoInfluence, Sketch):
    """Report a cohort and k bits: the value's Bloom filter after a permanent and an instantaneous randomized response.

    It takes keyed noise only: a secret, and whose value each is. ``epsilon`` is epsilon_1, what one report spends.

    Args:
        kind: ``"str"`` or ``"int"`` (or an `OpenDomain`): any text, or any integer.
        bits: k, of a filter: in [2, 65536], with MD5 at most 256.
        hashes: h, bits that a value sets: in [1, 16].
        cohorts: m, in [1, 65536]; cohorts * (1 + bits) is at most 2**24.
        f: share of bits that the permanent response makes random: in [0, 1). With 0 there is none: repeated reports
            of a value then reveal it.
        p: probability that a 0 is reported as 1, in [0, 1).
        q: probability that a 1 is reported as 1, in (p, 1]. p = 0 with q = 1 reports the permanent response itself.
        hashing: ``"aes"``, or ``"md5"`` for filters like those of Google's clients (texts only).

    Reports are ``FixedSizeList<uint64, 1 + ceil(k / 64)>``, as numpy arrays ``uint64[n, 1 + ceil(k / 64)]``: the
    cohort, then the bits, bit j of a filter being bit j % 64 of word j // 64. A tally has m (1 + k) counters: of each
    cohort the number of reports, then how many of them have each bit.

    >>> from ldp_core import Keyed, Secret
    >>> m = Rappor("str", bits=16, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75)
    >>> round(m.epsilon, 6), round(m.epsilon_infinity, 6)
    (1.074286, 4.394449)
    >>> reports = m.perturb(["lemon", "plum"], randomness=Keyed(Secret.generate(), [1, 2], column="fruit"))
    >>> reports.shape, len(m.over(["lemon", "plum"]).estimate(m.tally(reports)))
    ((2, 2), 2)
    """

    name: ClassVar[str] = "rappor"
    chunk: ClassVar[int] = 1 << 16  # filters with their noise, eight times as much, stay in the L2 cache
    memoized: ClassVar[bool] = True
    candidates: ClassVar[str] = "rappor_candidates"

    domain: OpenDomain = converted(OpenDomain.of)
    bits: int = parameter(check_integer, low=2, high=lambda self: 256 if self.hashing == "md5" else 1 << 16)
    hashes: int = parameter(check_integer, low=1, high=bloom.MD5_BYTES)
    cohorts: int = parameter(check_integer, low=1, high=1 << 16)
    f: float = parameter(check_share)
    p: float = parameter(check_share)
    q: float = parameter(check_share)
    hashing: Hashing = parameter(_check_hashing, domain=lambda self: self.domain)
    epsilon: float = derived(cached_property(lambda self: log_above(self.worst_ratio())))

    def __init__(
        self,
        kind: Literal["str", "int"] | OpenDomain = "str",
        *,
        bits: int,
        hashes: int,
        cohorts: int,
        f: float,
        p: float,
        q: float,
        hashing: Hashing = "aes",
    ) -> None:
        self._declare(domain=kind, hashing=hashing, bits=bits, hashes=hashes, cohorts=cohorts, f=f, p=p, q=q)
        if self.counters > _MAX_COUNTERS:
            raise ParameterError(f"a tally has cohorts * (1 + bits) counters: at most {_MAX_COUNTERS}")
        if not (self.f < 1 and self.p < self.q):
            raise ParameterError(f"f must be in [0, 1) and p below q, got f={f!r}, p={p!r}, q={q!r}")
        if not self.f and (not self.p or self.q == 1):
            raise ParameterError("with f = 0, p must be above 0 and q below 1, or epsilon is infinite")
        if self._thresholds[1] >= self._thresholds[2]:
            raise ParameterError("p and q are too close: they must differ by more than 64-bit probabilities resolve")
        ratio = self.worst_ratio()
        warn_large(math.log(ratio.numerator) - math.log(ratio.denominator))

    # ---- probabilities and privacy

    @cached_property
    def _thresholds(self) -> tuple[int, int, int]:
        """(f / 2, p, q) as integers over 2^64: towards each other, 0 and 1 as they are."""
        flip = ceil_threshold(Fraction(self.f) / 2) if self.f else 0
        p = ceil_threshold(Fraction(self.p)) if self.p else 0
        return flip, p, ONE if self.q == 1 else floor_threshold(Fraction(self.q))

    def bit_probabilities(self) -> tuple[Fraction, Fraction]:
        """Exact (p*, q*): Pr[a bit is reported as 1 | it is 0 in the filter], Pr[... | it is 1].

        >>> [float(x) for x in Rappor(bits=16, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75).bit_probabilities()]
        [0.5625, 0.6875]
        """
        flip, p, q = (fraction(t) for t in self._thresholds)
        return p + flip * (q - p), q - flip * (q - p)

    @property
    def p_star(self) -> float:
        """Pr[a bit is reported as 1 | it is 0 in the filter]."""
        return float(self.bit_probabilities()[0])

    @property
    def q_star(self) -> float:
        """Pr[a bit is reported as 1 | it is 1 in the filter]."""
        return float(self.bit_probabilities()[1])

    def _ratio(self, p: Fraction, q: Fraction) -> Fraction:
        """The worst ratio of two filters, bits of which come out as 1 with probabilities p and q, independently.

        Of a bits (1 to h) only in the first one each gives q / p at worst, of b in the second (1 - p) / (1 - q).
        """
        most = min(self.hashes, self.bits - 1)
        one, zero = q / p, (1 - p) / (1 - q)
        return max(one**a * zero ** min(self.hashes, self.bits - a) for a in range(1, most + 1))

    @override
    def worst_ratio(self) -> Fraction:
        """Of one report. The cohort does not depend on the value."""
        return self._ratio(*self.bit_probabilities())

    def infinite_ratio(self) -> Fraction | None:
        """The worst ratio of all reports of a value together: that of the permanent response. None: it is infinite."""
        flip = fraction(self._thresholds[0])
        return self._ratio(flip, 1 - flip) if flip else None

    @property
    def epsilon_infinity(self) -> float:
        """What all reports of one value of one person spend together, however many; infinite where f = 0."""
        ratio = self.infinite_ratio()
        return float("inf") if ratio is None else log_above(ratio)

    @cached_property
    def shared(self) -> SharedBits:
        """Two rounds of each bit of a filter. Cohorts do not depend on values."""
        flip, p, q = (fraction(t) for t in self._thresholds)
        return SharedBits(self.bits, 1, min(self.hashes, self.bits), 1 - flip, flip, q, p)

    @override
    def spent_by(self, history: History) -> Spent:
        """With f = 0 there is no permanent response: reports are independent, and spend as much each."""
        if not self._thresholds[0]:
            return memoryless(replace(history, keyed=False), self.epsilon)
        return memoized(
            self.shared, history, one=self.epsilon, infinity=self.epsilon_infinity, answers=math.inf, apart=True
        )

    @override
    def common_noise(self, *, keyed: bool, share: float | None = None) -> float:
        """The permanent response's: of a bit that is 1 with probability x, (x - p) (q - x) of x (1 - x) (`TwoRounds`).

        The bit is the value's own, or one that another value may have.
        """
        _, p, q = (float(fraction(t)) for t in self._thresholds)
        own, other = map(float, self.support_probabilities())
        parts = ((own, share or 0.0), (other, 1 - (share or 0.0)))
        return sum(part * (x - p) * (q - x) for x, part in parts) / sum(part * x * (1 - x) for x, part in parts)

    @override
    def support_probabilities(self) -> tuple[Fraction, Fraction]:
        """A report supports a value if it has the bit of the value's first hash function.

        Over the hash functions another value has that bit with probability 1 - (1 - 1 / k)^h.
        """
        p, q = self.bit_probabilities()
        shared = 1 - (1 - Fraction(1, self.bits)) ** self.hashes
        return q, p + (q - p) * shared

    # ---- client

    @property
    @override
    def reports(self) -> NumberedBits:
        return NumberedBits.of(self.cohorts, self.bits)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """By MD5, ``codes`` are the bits that values set, uint32[n, h], as `draw` finds them; no other codes do."""
        n, width = len(codes), row_bytes(self.bits)
        cohorts = noise.of_persons().uniform_below(self.cohorts, n, _COHORT)
        where = codes if self.hashing == "md5" else bloom.positions(codes, cohorts, self.bits, self.hashes)
        if where.ndim != 2:
            raise ParameterError('hashing="md5" needs texts, not codes')
        flip, p, q = self._thresholds
        rows = bloom.filters(where, width)
        rows ^= _bits(noise, flip, n, width, _PERMANENT)
        again = noise.instantaneous()
        zeros = _bits(again, p, n, width, _ZEROS)
        ones = _bits(again, q, n, width, _ONES)
        ones ^= zeros
        rows &= ones
        rows ^= zeros  # the bit of `ones` where the permanent one is 1, else that of `zeros`
        return self.reports.joined(cohorts, rows)

    @override
    def draw(self, values: Any, randomness: Randomness, column: str) -> Native:
        """By MD5 each distinct text, and each distinct pair of text and cohort, is hashed once.

        Texts with one code may set other bits, so that the noise of a text is not that of its code but of 128 bits of
        its SHA-256: nobody is known to be able to find two texts that share them.
        """
        if self.hashing != "md5":
            return super().draw(values, randomness, column)
        self.inputs.encode(values, column=column)  # (which refuses what is none)
        array = as_arrow(values, "str", column=column)
        array = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
        texts = [(text or "").encode() for text in array.dictionary.to_pylist()]  # (a null there is nobody's)
        whole = np.frombuffer(b"".join(hashlib.sha256(text).digest()[:16] for text in texts), "<u8").reshape(-1, 2)
        noise = randomness.bind(self.digest, whole[array.indices.to_numpy()])
        pairs = array.indices.to_numpy().astype(np.int64) * self.cohorts
        pairs += noise.of_persons().uniform_below(self.cohorts, len(pairs), _COHORT)
        distinct, of_record = np.unique(pairs, return_inverse=True)
        words, cohorts = np.divmod(distinct, self.cohorts)
        table = bloom.md5_positions((texts[w] for w in words.tolist()), cohorts.tolist(), self.bits, self.hashes)
        return self.perturb_codes(table[of_record], noise)

    # ---- server

    @property
    @override
    def counters(self) -> int:
        """``m (1 + k)``: each of the m cohorts has a row of ``n, bits``, as in the counts files of google/rappor."""
        return self.cohorts * (1 + self.bits)

    def _by_cohort(self, counters: I64) -> I64:
        return counters.reshape(*counters.shape[:-1], self.cohorts, 1 + self.bits)

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        form, n_cells = self.reports, n_groups * self.cohorts
        cells = form.cells(reports, groups)
        out = np.empty((n_cells, 1 + self.bits), np.int64)
        out[:, 0] = np.bincount(cells, minlength=n_cells)
        out[:, 1:] = form.sums(reports, cells, n_cells)
        return out.reshape(n_groups, self.counters)

    @override
    def simulate_values(self, values: Any, people: I64, generator: Generator, column: str = "values") -> Tally:
        codes = self.inputs.encode(values, column=column) if len(people) else np.zeros(0, np.uint64)
        texts = []
        if self.hashing == "md5" and len(people):
            texts = as_arrow(values, "str", column=column).to_pylist()
        counters = self._simulated_counters(codes, texts, people, generator)
        return Tally(int(people.sum()), counters, self.fingerprint)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """Not by MD5, which needs texts; see `simulate`."""
        if self.hashing == "md5" and len(codes):
            raise ParameterError('hashing="md5" needs texts, not codes')
        return self._simulated_counters(codes, (), people, generator)

    def _simulated_counters(self, codes: Codes, texts: Sequence[str], people: I64, generator: Generator) -> I64:
        m, k = self.cohorts, self.bits
        sizes, set_by = np.zeros(m, np.int64), np.zeros(m * k, np.int64)
        step = max(_MAX_COUNTERS // m, 1)
        for start in range(0, len(people), step):  # values at a time
            some = people[start : start + step]
            pairs = np.zeros(len(some) * m, np.int64)
            scatter(some, m, lambda v, cohort: v * m + cohort, pairs, generator)
            there = np.flatnonzero(pairs)
            v, cohort = np.divmod(there, m)
            if self.hashing == "md5":
                words = (texts[start + i].encode() for i in v.tolist())
                where = bloom.md5_positions(words, cohort.tolist(), k, self.hashes)
            else:
                where = bloom.positions(codes[start + v], cohort, k, self.hashes)
            where = np.sort(where, axis=1)
            first = np.diff(where, axis=1, prepend=np.uint32(k)) != 0  # a bit may be set by two hash functions
            cells = cohort[:, None] * k + where
            set_by += by_code(cells[first], np.broadcast_to(pairs[there, None], cells.shape)[first], m * k)
            sizes += pairs.reshape(-1, m).sum(axis=0)
        ones_of = set_by.reshape(m, k)
        ones = generator.binomial(ones_of, self.q_star) + generator.binomial(sizes[:, None] - ones_of, self.p_star)
        return np.concatenate((sizes[:, None], ones), axis=1).reshape(-1)

    ones = of_inner("ones", "reports")

    @override
    def ones_chances(self) -> F64:
        p, q = self.bit_probabilities()
        most = min(self.hashes, self.bits)
        return chances_of_ones(self.bits, range(1, most + 1), float(q), float(p))

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Cohorts add up to n, and none has more 1s of a bit than reports."""
        table = self._by_cohort(counters)
        inside = (table[..., 1:].max(axis=-1) <= table[..., 0]).all(axis=-1)
        return super().is_possible(n, counters) & inside & (table[..., 0].sum(axis=-1) == n)

    @override
    def bounded_sums(self, n: Any, counters: I64, counts: F64 | None) -> Sequence[Sums]:
        table = self._by_cohort(counters)
        ones = table[..., 1:].reshape(*counters.shape[:-1], self.cohorts * self.bits)
        return (Sums(ones, np.repeat(table[..., 0], self.bits, axis=-1), self._bit_term),)

    @cached_property
    def _bit_term(self) -> Term:
        return Term(min(self.p_star, self.q_star), max(self.p_star, self.q_star), 0.0, 1.0)

    @override
    def collided(self) -> tuple[F64, F64]:
        """Two filters share each of m k bits with a probability of nearly d^2, d the density; see `Design`."""
        cells, d = self.cohorts * self.bits, float(1 - (1 - 1 / self.bits) ** self.hashes)
        first, last = spread(cells, d**2, 1 - d**2, 1e-12)
        shared = np.arange(first, last + 1.0)
        return (shared / cells - d**2) / (d * (1 - d)), pmf(shared, np.array(float(cells)), d**2, 1 - d**2)

    @override
    def support_of(self, counters: I64, codes: Codes) -> I64:
        """See `support_probabilities`; by codes, so not for MD5. `over` has the better estimate."""
        if self.hashing == "md5":
            raise ParameterError('hashing="md5" needs texts, not codes: use over(candidates)')
        first = self.positions(codes, ())[:, :, 0]
        table = self._by_cohort(counters)
        return table[..., np.arange(self.cohorts)[:, None], 1 + first].sum(axis=-2)

    def positions(self, codes: Codes, texts: Iterable[Label]) -> I64:
        """Bits of candidates in each cohort: int64[m, c, h]; of their codes or, by MD5, of their texts."""
        c, m = len(codes), self.cohorts
        cohorts = np.repeat(np.arange(m), c)
        if self.hashing == "md5":
            words = [str(text).encode() for text in texts] * m
            flat = bloom.md5_positions(words, cohorts.tolist(), self.bits, self.hashes)
        else:
            flat = bloom.positions(np.tile(codes, m), cohorts, self.bits, self.hashes)
        return flat.astype(np.int64).reshape(m, c, self.hashes)

    def design(self, codes: Codes, texts: Iterable[Label]) -> Design:
        """The filters of candidates, of their codes or texts, and the noise."""
        density = bloom.density(self.bits, self.hashes, md5=self.hashing == "md5")
        return Design(self.positions(codes, texts), density, self.p_star, self.q_star)

    @override
    def over(self, candidates: Domain | Iterable[Label]) -> RapporCandidates:
        """The frequency oracle over some candidates, which reads this mechanism's reports and tallies."""
        return RapporCandidates(candidates, self)


def _bits(noise: Noise, threshold: int, n: int, width: int, lane: int) -> U8:
    """uint8[n, width]: independent bits of probability ``threshold / 2**64``, of which 0 and 1 need no noise."""
    if threshold in (0, ONE):
        return np.full((n, width), 255 if threshold else 0, np.uint8)
    nowhere = np.full(n, 8 * width, np.uint32)  # no bit of a row has another probability
    return noise.one_hot_rows(ONE // 2, threshold, nowhere, width, lane)


_MAX_COUNTERS = 1 << 24  # of a tally: 128 MiB
_PERMANENT, _COHORT = 0, 2  # lanes of noise; cohorts share no AES block with anything
_ZEROS, _ONES = 0, 1  # lanes of the instantaneous noise


# ---- candidates


@dataclass(frozen=True, init=False)
class RapporCandidates(_NoInfluence, Candidates):
    """RAPPOR as a frequency oracle over candidates: estimates by least squares on the bits of all cohorts.

    See `ldp_core.mechanisms.sketches._regression` for the method, and `Rappor.over`. Candidates are 0.8 m k at most, of
    m cohorts and k bits.

    >>> from ldp_core import Keyed, Rappor, Secret
    >>> m = Rappor("int", bits=32, hashes=2, cohorts=16, f=0.1, p=0.1, q=0.9)
    >>> noise = Keyed(Secret.from_seed(1), range(30_000), column="n")
    >>> tally = m.tally(m.perturb(np.arange(30_000) % 3 % 2, randomness=noise))
    >>> m.over([0, 1, 2, 3]).decode(tally).found
    (0, 1)
    """

    name: ClassVar[str] = "rappor_candidates"

    sketch: Rappor = derived()

    def __init__(self, candidates: Domain | Iterable[Label], sketch: Rappor) -> None:
        super().__init__(candidates, sketch)
        most = int(FULL * sketch.cohorts * sketch.bits)
        if self.domain.size > most:
            raise ParameterError(
                f"these are {self.domain.size:,} candidates, and bits={sketch.bits} in cohorts={sketch.cohorts} tell "
                f"{most:,} at most (0.8 bits * cohorts): ask of fewer, or take more cohorts"
            )

    @cached_property
    def design(self) -> Design:
        """The candidates' filters."""
        return self.sketch.design(self._codes, self.domain.labels)

    def fit(self, counters: I64) -> Fit:
        """Shares of the candidates from the counters of one tally, int64[m (1 + k)]."""
        table = counters.reshape(self.design.cohorts, 1 + self.design.bits)
        return self.design.fit(table[:, 0], table[:, 1:])

    @override
    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """Counts by least squares, and z standard errors to both sides, z a normal quantile, or Student's of a misfit.

        See `Fit.score`.
        """
        check_open("confidence", confidence)
        fits = [self.fit(row) for row in counters.reshape(-1, self.counters)]
        z = z_score(confidence, self.domain.size if simultaneous else 1)
        return self._intervals(fits, n, counters.shape[:-1], z)

    def _intervals(self, fits: list[Fit], n: Any, shape: tuple[int, ...], z: float) -> tuple[F64, F64, F64, F64]:
        found = []
        for fit in fits:
            reach = student(z, fit.degrees)
            found.append(
                (fit.shares, fit.errors, least_beyond(z, fit.score, np.array(reach)) * fit.errors, reach * fit.errors)
            )
        arrays = np.array(found, float).reshape(-1, 4, self.domain.size)
        counts, errors, below, above = (n * arrays[:, i].reshape(*shape, self.domain.size) for i in range(4))
        return counts, errors, counts - below, counts + above

    @override
    def in_common(self, n: Any, counters: I64, counts: F64) -> tuple[Any, Any]:
        """A misfit: bits of frequent values that nobody listed, by functions that all filters have."""
        fits = [self.fit(row) for row in counters]
        common = [(1 - 1 / fit.misfit) * np.where(np.isinf(fit.errors), 0, fit.errors) ** 2 for fit in fits]
        return self.sketch.name, np.array(common) * n**2

    @property
    @override
    def parts(self) -> tuple[float, float]:
        """Least squares have no bounds: few reports may give any share."""
        return -math.inf, math.inf

    @override
    def variance(self, n: float, count: Any = 0.0) -> Any:
        """Of an estimated count, if other people are spread evenly over many values; an approximation.

        (n - count) r (1 - r) + count ((1 - d) q* (1 - q*) + d p* (1 - p*)), over (q* - p*)^2 k d (1 - d) and over
        1 - c / (m k), with the density d = 1 - (1 - 1 / k)^h, r = p* + d (q* - p*) and c candidates: a value's own bits
        are q* for those who hold it. An estimate's own errors follow from the filters themselves.
        """
        r = self.design.rate
        return (n * r * (1 - r) + count * (self.design.held - r * (1 - r))) / self.design.contrast**2

    @override
    def accuracy(self, n: int, beta: float = 0.05) -> float:
        """The alpha with Pr[|estimated - true frequency| >= alpha] <= beta, under the conditions of `variance`.

        Hoeffding's inequality for the bits of n reports, which are independent given the filters:
        ``sqrt(ln(2 / beta) / (2 n k d (1 - d) (1 - c / (m k)))) / (q* - p*)``.
        """
        return hoeffding(n, beta) / self.design.contrast

    def decode(
        self, tally: Tally, *, level: float = 0.05, correction: Correction = "bonferroni", confidence: float = 0.95
    ) -> Decoded:
        """Which candidates are there, and how many of each.

        Args:
            tally: of reports of this mechanism.
            level: of the test, in (0, 1): with Bonferroni's correction the chance that any candidate is found that
                nobody holds; with ``"fdr"`` the share of such among the found ones, on average.
            correction: ``"bonferroni"`` or ``"fdr"``.
            confidence: of the histogram's intervals.
        """
        check_open("level", level)
        check_choice("correction", correction, get_args(Correction))
        check_open("confidence", confidence)
        self.check_tally(tally)
        watch(self, tally.n, tally.counters)
        fit, n = self.fit(tally.counters), tally.n
        arrays = self._intervals([fit], n, (), z_score(confidence))
        histogram = Histogram(self.domain, n, *arrays, confidence, simultaneous=False, mechanism=self)
        p = p_values(fit)
        passed = significant(p, level, correction)
        return Decoded(histogram, n * fit.nonnegative, p, passed, fit.selected, fit.misfit)


@dataclass(frozen=True, eq=False)
class Decoded:
    """What `RapporCandidates.decode` found among c candidates.

    Attributes:
        histogram: unbiased counts of all candidates with their intervals.
        counts: by non-negative least squares, float64[c]: less noisy for rare values, and biased upwards for them.
        p_values: float64[c]: the probability of such an estimate or a greater one if nobody held the candidate.
        significant: bool[c]: which pass the corrected level.
        selected: bool[c]: which were in the regression; all, unless they cannot be told apart.
        misfit: by how much residuals exceed the noise (a ratio of variances, 1 if they do not): above 1 if
            frequent values are missing among the candidates.
    """

    histogram: Histogram
    counts: F64
    p_values: F64
    significant: Bools
    selected: Bools
    misfit: float

    @property
    def found(self) -> tuple[Label, ...]:
        """The significant candidates, the most frequent first."""
        order = np.argsort(-self.histogram.counts, kind="stable")
        return tuple(self.histogram.domain.values[i] for i in order if self.significant[i])
