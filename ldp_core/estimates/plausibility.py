"""Estimates that no data give: a warning that names the likely mistake.

Every number that is debiased is a sum of n independent terms, one per report. Each is in a known range, and its mean
lies between two known ends, whatever the values were: of a report that supports a value with probability p if it is the
true one and q if not, between q and p. So whatever the data, a sum is outside of [n low, n high] by noise alone, and
how seldom it is far outside is known without any approximation. With s the sum's mean, moved to [0, 1], and m the end
of the means that it is beyond,

    Pr[as far or farther] <= exp(-n KL(s, m))        KL(s, m) = s ln(s / m) + (1 - s) ln((1 - s) / (1 - m))

(W. Hoeffding, "Probability Inequalities for Sums of Bounded Random Variables", JASA 58(301), 1963, Theorem 1, which
holds for terms of different means). Where the range is far wider than the noise, Bernstein's inequality is closer: with
the variance v of a term, its range r and the distance t of the sum from n m,

    Pr[as far or farther] <= exp(-t^2 / (2 (n v + r t / 3)))

(S. Boucheron, G. Lugosi, P. Massart, "Concentration Inequalities", 2013, section 2.8). An estimate has k such sums with
two ends each. It is called implausible if the bound of one of them is below `FALSE_ALARMS` / (2 k), so that data that
were perturbed as the mechanism says, record by record, are called so with a probability below `FALSE_ALARMS`.

Reports of one person under keyed noise are not independent of each other. Where a person has at most r of them, these
are r groups of independent ones, and E exp(h X) is at most the product of E exp(r h Y)^(1 / r) of their sums Y (O.
Hölder's inequality). So exponents are an r-th of these: ``repeats`` says r. With ``person`` it is the mean number over
the reports, `Persons.most`, which is r where all have sent as many. Few may have sent many more, but nobody more than
sqrt(r n), the root of the sum of all squares: so much of a sum is left out. Where neither is said, r is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ldp_core.accounting.binomials import divergence
from ldp_core.arrays.types import F64, I64
from ldp_core.errors import warn_user
from ldp_core.parameters import check_integer

FALSE_ALARMS = 1e-9
"""At most so likely is a warning of a call, of however many groups, about reports that are what they should be."""


@dataclass(frozen=True, eq=False)
class Term:
    """What is known of the terms of some sums, numbers or float64[k]."""

    low: Any
    high: Any
    """The mean of a term is in between, whatever the data."""
    least: Any
    greatest: Any
    """A term itself is in between."""
    variance: float | None = None
    """Of a term, at most; None: nothing is known that does not follow from the others."""
    each: int = 1
    """Of how many independent terms the one of a report consists."""

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
    def deviations(self) -> tuple[F64, F64]:
        """The most standard deviation of a term whose mean is low, and of one whose mean is high."""
        if self.variance is not None:
            return np.sqrt(self.variance), np.sqrt(self.variance)
        below, above = ((m - self.least) * (self.greatest - m) for m in (self.low, self.high))
        return np.sqrt(np.maximum(below, 0)), np.sqrt(np.maximum(above, 0))


class Sums(NamedTuple):
    """Sums over n reports each: float64[..., k], n broadcast against them."""

    totals: Any
    n: Any
    term: Term
    of_all: bool = False
    """Whether it is the sum of all estimated counts."""
    likely: str = ""
    """What is the first to look for if no data give it, as "this; or ": what is likely of all sums comes after it."""


def distances(sums: Sequence[Sums], *, tallies: int = 1, repeats: float = 1) -> list[F64]:
    """Of each kind of sums float64[...]: how many standard errors a tally's are outside of what any data give.

    0 where that may well be chance; one 0 for all tallies if it may be for all of them. With `FALSE_ALARMS` at most is
    any other number found in ``tallies`` tallies of honest reports (Bonferroni), of which ``repeats`` are a person's.

    >>> coin = Term(0.25, 0.75, 0.0, 1.0)  # heads: how many of 100?
    >>> [d.round(1).tolist() for d in distances([Sums(np.array([[80], [100]]), 100, coin)])]
    [[0.0, 5.8]]
    """
    tests = 2 * tallies * sum(s.totals.shape[-1] for s in sums)
    enough = math.log(max(tests, 1) / FALSE_ALARMS) * repeats
    return [_distance(s.totals, s.n, s.term, enough, repeats) for s in sums]


def _distance(totals: F64, n: Any, term: Term, enough: float, repeats: float) -> F64:
    terms = n if term.each == 1 else np.multiply(n, term.each)
    if repeats > 1:  # (a person's reports)
        one, nearest = np.sqrt(float(repeats) * n) * term.each * term.length, (terms * term.low, terms * term.high)
        totals = totals - np.clip(totals - np.clip(totals, *nearest), -one, one)
    below, above = term.deviations
    root, rounding = np.sqrt(terms), _ROUNDING * term.length
    # n KL is at most z^2, and Bernstein's exponent at most z^2 / 2: nearly all sums are settled here.
    z = math.sqrt(enough)
    suspects = totals > terms * term.high + z * (root * above + rounding)
    suspects |= totals < terms * term.low - z * (root * below + rounding)
    if not suspects.any():
        return _PLAUSIBLE
    of_each = (terms, root, term.low, term.high, below, above, term.least, term.length, rounding)
    terms, root, low, high, below, above, least, length, rounding = (
        np.broadcast_to(x, suspects.shape)[suspects] for x in of_each
    )
    total = totals[suspects]
    over = total > terms * high
    end, deviation = np.where(over, high, low), np.where(over, above, below)
    far = np.abs(total - terms * end)
    if term.variance is None:
        share, nearest = (np.clip((mean - least) / length, 0, 1) for mean in (total / terms, end))
        exponents = terms * divergence(share, nearest)
    else:
        exponents = far**2 / (2 * (terms * term.variance + length * far / 3))
    outside = np.zeros(suspects.shape)
    outside[suspects] = np.where(exponents > enough, far / (root * deviation + rounding), 0)
    return outside.max(axis=-1)


_PLAUSIBLE = np.zeros(())
_ROUNDING = 1e-6  # of a term's range: far above what floats round, far below what a report adds


def watch(mechanism: Any, n: Any, counters: I64, counts: F64 | None = None, *, repeats: float | None = None) -> bool:
    """Warn once if some of these tallies cannot be of reports of this mechanism, or `Several` of them.

    See `Tallier.bounded_sums`.
    """
    sums = mechanism.bounded_sums(n, counters, counts)
    found = distances(sums, tallies=max(math.prod(counters.shape[:-1]), 1), repeats=repeats or 1)
    if not any(d.any() for d in found):
        return False
    outside = np.maximum.reduce(np.broadcast_arrays(*map(np.atleast_1d, found)))
    odd = [s for d, s in zip(found, sums, strict=True) if d.any()]
    values = not all(s.of_all for s in odd)
    what = "no values make reports say this" if values else "the counts of no reports add up to this"
    many = f"; so it is in {np.count_nonzero(outside)} of {outside.size} estimates" if outside.size > 1 else ""
    doubt = (
        f"implausible for {mechanism.title}, epsilon {mechanism.epsilon:.4g}: {what}, which is {outside.max():,.0f} "
        f"standard errors away from anything possible{many}. Likely {odd[0].likely}the values were never perturbed, or "
        "by another mechanism or with another epsilon than this one. (Many reports of the same people under keyed "
        "noise look like that too, unless repeats= or person= says so.)"
    )
    collected = _collected.get()
    if collected is None:
        warn_user(doubt)
    else:
        collected += [doubt] * int(np.count_nonzero(outside))
    return True


SHARED = (
    "the columns are one column at two times, of which keyed noise is the same: give each time a tag= of its own; or "
)


def watch_products(n: float, products: float, squares: float, low: float, high: float, repeats: int) -> None:
    """Warn if products of two weights, each of them ``low`` or ``high``, cannot be of reports with noise of their own.

    Given their number, their sum and that of their squares. Of how many one report supports its value and the other
    one does not: with a probability between known ends, whatever the values.
    """
    values, q, p = np.array([low * low, low * high, high * high]), -low / (high - low), (1 - low) / (high - low)
    of_each = np.linalg.lstsq(np.stack([values**0, values, values**2]), [n, products, squares], rcond=None)[0]
    unlike = float(of_each[1])
    if abs(unlike - round(unlike)) > _WHOLE:  # (the digits do not tell)
        return
    ends = [a + b - 2 * a * b for a, b in ((q, q), (q, p), (p, p))]
    sums = Sums(np.array([unlike]), n, Term(min(ends), max(ends), 0.0, 1.0))
    [far] = distances([sums], repeats=check_integer("repeats", repeats, 1))
    if far.any():
        warn_user(
            "implausible for products of weights of two columns: no values make reports with noise of their own agree "
            f"so often or so seldom, which is {far:,.0f} standard errors away from anything possible. Likely {SHARED}"
            "people report again, and repeats= does not say so"
        )


_WHOLE = 1e-3
"""How far a number of records, found from sums, is from a whole one."""


# ---- who gets it

_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting() -> Iterator[list[str]]:
    """What `watch` says inside goes into the list, once for each estimate, for those who say it in another way."""
    implausible: list[str] = []
    token = _collected.set(implausible)
    try:
        yield implausible
    finally:
        _collected.reset(token)
