"""Heavy hitters: the most frequent of so many possible strings that nobody can list them.

The prefix extending method (T. Wang, N. Li, S. Jha, "Locally Differentially Private Heavy Hitter Identification", IEEE
TDSC 18(2), 2021): each record is at one of L levels, drawn uniformly, and spends its whole epsilon on the prefix of
that level's length; the server extends those prefixes of one level that survive to candidates of the next
(`_search.py`). The paper keeps all reports, for local hashing. Here a report is the number of a
counter, so that the tally has a fixed size, adds up, and is all that the search needs, as in TreeHist (R. Bassily, K.
Nissim, U. Stemmer, A. Thakurta, "Practical Locally Private Heavy Hitters", NIPS 2017) and in Apple's sketches
("Learning with Privacy at Scale", 2017).

A level's prefix goes through one of R public hash functions, drawn uniformly, to one of g^m buckets, and that bucket
through the frequency oracle of V. Feldman, J. Nelson, H. Nguyen, K. Talwar, "Private Frequency Estimation via
Projective Geometry", ICML 2022: bucket v in F_g^m, g prime, is the vector (1, v); a report is a vector y of F_g^(m+1)
up to a factor (a point), uniform among those with <y, (1, v)> = 0 with probability p, among the others with 1 - p, and
supports the buckets that are orthogonal to it. (Theirs leaves out the vector 0; here it is one more point, so that q is
exactly 1 / g.)

    p = e^eps / (e^eps + g - 1)        q = 1 / g

as in local hashing, so that g about e^eps + 1 has the variance of OUE, with g / (g - 1) counters a bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.estimates.options import check_confidence
from ldp_core.exact.arrays import I64, U64, Codes
from ldp_core.exact.probability import check_resolved, exp_below, floor_threshold, fraction
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.mechanisms.heavy_hitters import _search as prefix_extending
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, check_integer
from ldp_core.reports.words import CountedWords
from ldp_core.tally import Tally


@dataclass(frozen=True, init=False)
class HeavyHitters(CountedWords):
    """Report a prefix of the value, through one of many small frequency oracles; `find` ranks whole values.

    Args:
        domain: `Prefixes`: what alphabet and length, or how many bits.
        epsilon: of a report, whatever its level; finite, > 0.
        levels: lengths of the prefixes, increasing, the last one that of the values. Default: as few as
            allow a search of about a million candidates a level, since the records are divided among them.
        rows: R, hash functions of a level, 1 to 256.
        width: the most buckets of a row, 64 to 16384. A tally has about ``len(levels) * rows * width`` counters; the
            search costs some transforms of ``rows * width`` numbers, and ``rows`` steps a candidate.

    Reports are one ``uint64`` each, the number of the counter that it is counted by. Under keyed noise a person is
    always at the same level.

    Raises:
        ParameterError: parameters that do not exist.

    >>> m = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 6), epsilon=4.0)
    >>> m.levels, m.g, round(m.p, 3), round(m.q, 3)
    ((4, 6), 53, 0.512, 0.019)
    >>> tally = m.tally(m.perturb(["paris"] * 60_000 + ["rome"] * 40_000))
    >>> m.find(tally, 10, confidence=0.99).values[:2]
    ('paris', 'rome')
    """

    name: ClassVar[str] = "heavy_hitters"

    domain: Prefixes
    epsilon: float
    levels: tuple[int, ...]
    rows: int
    width: int

    def __init__(
        self,
        domain: Prefixes,
        *,
        epsilon: float,
        levels: Iterable[int] | None = None,
        rows: int = 16,
        width: int = 8192,
    ) -> None:
        if not isinstance(domain, Prefixes):
            raise ParameterError(f"heavy hitters are of Prefixes, got {type(domain).__name__}")
        lengths = prefix_extending.default_levels(domain)
        if levels is not None:
            if not isinstance(levels, Iterable):
                raise ParameterError(f"levels must be lengths of prefixes in [1, {domain.length}], got {levels!r}")
            lengths = tuple(check_integer("levels", level, 1, domain.length) for level in levels)
        prefix_extending.check_levels(domain, lengths)
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", epsilon))
        object.__setattr__(self, "levels", lengths)
        object.__setattr__(self, "rows", check_integer("rows", rows, 1, 256))
        object.__setattr__(self, "width", check_integer("width", width, 64, 1 << 14))
        check_resolved(fraction(self._agree), Fraction(1, self.g), " * g")

    @property
    def inputs(self) -> Prefixes:
        """The strings or integers that may be found."""
        return self.domain

    # ---- sizes

    @cached_property
    def g(self) -> int:
        """The prime, of which the buckets and the reports are vectors, that has the least variance."""
        e = exp_below(self.epsilon)
        return min(prefix_extending.primes(self.width), key=lambda g: (e - 1 + g) ** 2 / (g - 1))  # of n Var at f = 0

    @cached_property
    def points(self) -> prefix_extending.Points:
        """What a row's reports and buckets are."""
        return prefix_extending.points(self.g, prefix_extending.digits(self.g, self.width))

    @property
    def counters(self) -> int:
        """One for each level, row and point."""
        return len(self.levels) * self.rows * self.points.size

    @cached_property
    def hashes(self) -> prefix_extending.Hashes:
        """The hash function of each level and row."""
        return prefix_extending.Hashes(len(self.levels) * self.rows, self.points.buckets)

    # ---- the protocol of one level

    @cached_property
    def _agree(self) -> int:
        """P as an integer over 2^64, rounded down."""
        e = exp_below(self.epsilon)
        return floor_threshold(e / (e - 1 + self.g))

    @property
    def p(self) -> float:
        """Pr[a report supports the bucket of its own prefix]."""
        return float(fraction(self._agree))

    @property
    def q(self) -> float:
        """Pr[a report supports some other given bucket of its row]."""
        return 1 / self.g

    @cached_property
    def difference(self) -> float:
        """P - q, rounded once: it may be far smaller than either."""
        return float(fraction(self._agree) - Fraction(1, self.g))

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`. Of g - 1 multiples one has <y, (1, v)> = 1, and all have 0 if one has.

        So a point that supports the bucket has probability p (g - 1) / g^m, one that does not (1 - p) / g^m, each over
        L R, and the vector 0 has p / g^m under every input.
        """
        p = fraction(self._agree)
        return p * (self.g - 1) / (1 - p)

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]: a level, a row, and a point of the row's plane."""
        n = len(codes)
        agree = coins(noise, self._agree, n, _AGREE)
        row = noise.uniform_below(self.rows, n, _ROW).astype(np.intp)
        tail = noise.uniform_below(self.points.buckets, n, _TAIL).astype(np.uint16)
        level = noise.of_persons().uniform_below(len(self.levels), n, _LEVEL)
        prefixes = self.domain.prefix(self.domain.plain(codes), np.array(self.levels)[level])
        row += level.astype(np.intp) * self.rows
        buckets = self.hashes.of(row, prefixes)
        out = row * self.points.size + self.points.on(buckets, tail, agree)
        reports: U64 = out.view(np.uint64)
        return reports

    # ---- the search

    def find(self, tally: Tally, k: int, *, confidence: float = 0.95, threshold: float | None = None) -> Found:
        """The most frequent values, ranked by estimated count; see `_search.py`.

        Args:
            tally: of reports of this mechanism.
            k: the most values to return.
            confidence: of the intervals, and that no value is returned that nobody has, if ``threshold`` is None.
            threshold: the least estimated count of what is returned. Default: what the noise of none of the candidates
                of the last level exceeds with probability ``confidence`` (Bonferroni). 0 returns k values, found or
                not.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: a k, a confidence or a threshold that does not exist.
        """
        self.check_search(k, confidence, threshold)
        self.check_tally(tally)
        found = prefix_extending.find(self, self.level_counts(tally), k, confidence, threshold)
        half = -NormalDist().inv_cdf((1 - confidence) / 2) * found.errors
        return Found(
            self.domain.values(found.codes),
            tally.n,
            found.counts,
            found.errors,
            found.counts - half,
            found.counts + half,
            confidence,
            found.threshold,
            found.candidates,
        )

    def check_search(self, k: int, confidence: float, threshold: float | None) -> None:
        """Raise `ParameterError` now for what `find` would refuse later."""
        check_integer("k", k, 1, prefix_extending.CANDIDATES)
        check_confidence(confidence)
        if threshold is not None and (
            isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not threshold >= 0
        ):
            raise ParameterError(f"threshold must be None or a number in [0, inf), got {threshold!r}")

    def level_counts(self, tally: Tally) -> I64:
        """Reports of each point, int64[levels, rows, points]."""
        return tally.counters.reshape(len(self.levels), self.rows, self.points.size)

    # ---- as JSON

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        domain: dict[str, Any] = {"length": self.domain.length}
        if self.domain.alphabet is not None:
            domain |= {"alphabet": self.domain.alphabet, "outside": self.domain.unmatched}
        return {**domain, "epsilon": self.epsilon, "levels": list(self.levels), "rows": self.rows, "width": self.width}

    @classmethod
    def from_parameters(cls, domain: Any, parameters: Mapping[str, Any]) -> HeavyHitters:
        """See `Mechanism`."""
        rest = dict(parameters)
        inputs = Prefixes(rest.pop("alphabet", None), rest.pop("length", 0), rest.pop("outside", "error"))
        return cls(inputs, **rest)


_AGREE, _ROW, _TAIL, _LEVEL = 0, 1, 2, 4  # lanes of noise
