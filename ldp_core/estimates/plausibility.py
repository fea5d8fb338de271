"""Estimates that no data give: a warning that names the likely mistake.

Every number that is debiased is a sum of n independent parts, one a report, each in a known range, and the mean of each
lies between two known ends, whatever the values were: of a report that supports a value with probability p if it is the
true one and q if not, between q and p. So whatever the data, a sum is outside of [n low, n high] by noise alone, and
how seldom it is far outside is known without any approximation. With s the sum's mean, moved to [0, 1], and m the end
of the means that it is beyond,

    Pr[as far or farther] <= exp(-n KL(s, m))        KL(s, m) = s ln(s / m) + (1 - s) ln((1 - s) / (1 - m))

(W. Hoeffding, "Probability Inequalities for Sums of Bounded Random Variables", JASA 58(301), 1963, Theorem 1, which
holds for parts of different means). Where the range is far wider than the noise, Bernstein's inequality is closer: with
the variance v of a part, its range r and the distance t of the sum from n m,

    Pr[as far or farther] <= exp(-t^2 / (2 (n v + r t / 3)))

(S. Boucheron, G. Lugosi, P. Massart, "Concentration Inequalities", 2013, section 2.8). An estimate has k such sums with
two ends each. It is called implausible if the bound of one of them is below `FALSE_ALARMS` / (2 k), so that data that
were perturbed as the mechanism says, record by record, are called so with a probability below `FALSE_ALARMS`.

The one honest case that is not covered: many reports of one person under keyed noise are not independent of each other.
(The standard errors do not allow for that either.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ldp_core.accounting.binomials import divergence
from ldp_core.arrays.types import F64, I64
from ldp_core.errors import warn_user

FALSE_ALARMS = 1e-9
"""At most so likely is a warning of a call, of however many groups, about reports that are what they should be."""


@dataclass(frozen=True, eq=False)
class Part:
    """What is known of the parts of some sums, numbers or float64[k].

    Attributes:
        low, high: the mean of a part is at least and at most this, whatever the data.
        least, greatest: a part itself is.
        variance: of a part, at most; None: nothing is known that does not follow from the others.
        each: of how many independent parts the one of a report consists.
    """

    low: Any
    high: Any
    least: Any
    greatest: Any
    variance: float | None = None
    each: int = 1

    def __post_init__(self) -> None:
        for name in ("low", "high", "least", "greatest"):  # one number, where it is the same of all: less to compute
            values = np.asarray(getattr(self, name), float)
            if values.size and values.min() == values.max():
                object.__setattr__(self, name, float(values.flat[0]))

    @cached_property
    def length(self) -> F64:
        """Of the range."""
        return np.asarray(self.greatest - self.least, float)

    @cached_property
    def spreads(self) -> tuple[F64, F64]:
        """The most standard deviation of a part whose mean is low, and of one whose mean is high."""
        if self.variance is not None:
            return np.sqrt(self.variance), np.sqrt(self.variance)
        below, above = ((m - self.least) * (self.greatest - m) for m in (self.low, self.high))
        return np.sqrt(np.maximum(below, 0)), np.sqrt(np.maximum(above, 0))


class Sums(NamedTuple):
    """Sums over n reports each.

    Attributes:
        totals: float64[..., k].
        n: number of reports, broadcast against ``totals``.
        part: of each.
        of_all: whether it is the sum of all estimated counts.
    """

    totals: Any
    n: Any
    part: Part
    of_all: bool = False


class Bounded(Protocol):
    """A mechanism of which it is known what its reports can add up to."""

    @property
    def epsilon(self) -> float:
        """What one report spends."""
        ...

    @property
    def title(self) -> str:
        """What tables call it."""
        ...

    def bounded_sums(self, n: Any, counters: I64, counts: Any) -> Sequence[Sums]:
        """Sums over the reports of tallies.

        Args:
            n: numbers of reports, broadcast against ``counters``.
            counters: of tallies, int64[..., counters].
            counts: of a histogram the estimated counts, float64[..., d], else None.
        """
        ...


def distances(sums: Sequence[Sums], *, tallies: int = 1) -> list[F64]:
    """Of each kind of sums float64[...]: how many standard errors a tally's are outside of what any data give.

    0 where that may well be chance; one 0 for all tallies if it may be for all of them. With `FALSE_ALARMS` at most is
    any other number found in ``tallies`` tallies of honest reports (Bonferroni).

    >>> coin = Part(0.25, 0.75, 0.0, 1.0)  # heads: how many of 100?
    >>> [d.round(1).tolist() for d in distances([Sums(np.array([[80], [100]]), 100, coin)])]
    [[0.0, 5.8]]
    """
    tests = 2 * tallies * sum(s.totals.shape[-1] for s in sums)
    enough = math.log(max(tests, 1) / FALSE_ALARMS)
    return [_distance(s.totals, s.n, s.part, enough) for s in sums]


def _distance(totals: F64, n: Any, part: Part, enough: float) -> F64:
    parts = n if part.each == 1 else np.multiply(n, part.each)
    below, above = part.spreads
    root, rounding = np.sqrt(parts), _ROUNDING * part.length
    # n KL is at most z^2, and Bernstein's exponent at most z^2 / 2: nearly all sums are settled here.
    z = math.sqrt(enough)
    top, bottom = parts * part.high + z * (root * above + rounding), parts * part.low - z * (root * below + rounding)
    suspects = (totals > top) | (totals < bottom)
    if not suspects.any():
        return _PLAUSIBLE
    of_each = (parts, root, part.low, part.high, below, above, part.least, part.length, rounding)
    parts, root, low, high, below, above, least, length, rounding = (
        np.broadcast_to(x, suspects.shape)[suspects] for x in of_each
    )
    total = totals[suspects]
    over = total > parts * high
    end, spread = np.where(over, high, low), np.where(over, above, below)
    far = np.abs(total - parts * end)
    if part.variance is None:
        share, nearest = (np.clip((mean - least) / length, 0, 1) for mean in (total / parts, end))
        exponents = parts * divergence(share, nearest)
    else:
        exponents = far**2 / (2 * (parts * part.variance + length * far / 3))
    outside = np.zeros(suspects.shape)
    outside[suspects] = np.where(exponents > enough, far / (root * spread + rounding), 0)
    distance: F64 = outside.max(axis=-1)
    return distance


_PLAUSIBLE = np.zeros(())
_ROUNDING = 1e-6  # of a part's range: far above what floats round, far below what a report adds


def watch(mechanism: Bounded, n: Any, counters: I64, counts: F64 | None = None) -> None:
    """Warn once if some of these tallies cannot be of reports of this mechanism; see `Bounded`."""
    sums = mechanism.bounded_sums(n, counters, counts)
    found = distances(sums, tallies=max(math.prod(counters.shape[:-1]), 1))
    if not any(d.any() for d in found):
        return
    outside = np.maximum.reduce(np.broadcast_arrays(*map(np.atleast_1d, found)))
    values = any(d.any() for d, s in zip(found, sums, strict=True) if not s.of_all)
    what = "no values make reports say this" if values else "the counts of no reports add up to this"
    many = f"; so it is in {np.count_nonzero(outside)} of {outside.size} estimates" if outside.size > 1 else ""
    _say(
        f"implausible for {mechanism.title}, epsilon {mechanism.epsilon:.4g}: {what}, which is {outside.max():,.0f} "
        f"standard errors away from anything possible{many}. Likely the values were never perturbed, or by another "
        "mechanism or with another epsilon than this one. (Many reports of the same people under keyed noise look like "
        "that too: error bars do not allow for them.)"
    )


# ---- who gets it

_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting() -> Iterator[list[str]]:
    """What `watch` says inside is not shown but put into the list, for those who say it in another way.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(epsilon=1.0)
    >>> with collecting() as implausible:
    ...     _ = m.estimate(m.tally([True] * 1000))  # not perturbed
    >>> len(implausible)
    1
    """
    implausible: list[str] = []
    token = _collected.set(implausible)
    try:
        yield implausible
    finally:
        _collected.reset(token)


def _say(doubt: str) -> None:
    collected = _collected.get()
    if collected is not None:
        collected.append(doubt)
        return
    warn_user(doubt)
