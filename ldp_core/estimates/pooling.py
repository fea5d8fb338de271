"""Several mechanisms, one population: estimates from all their tallies together.

A plan has changed, or people choose their epsilon: groups of people report the same values in different ways. If the
groups are samples of one population, the share f of a value is estimated best by the f at which the estimates f_g of
the groups, each with the variance v_g(f) that it would have, are on balance right:

    score(f) = sum over g of (f_g - f) / v_g(f) / sqrt(sum over g of 1 / v_g(f)) = 0

Of pure protocols this is the maximum of the likelihood, as S_g is binomial(n_g, q_g + (p_g - q_g) f), and the f with
|score(f)| <= z are the score interval (C. R. Rao, 1948). Tallies of one mechanism are added up before.

**Means.** Where numbers are skewed a group of small numbers has a small mean and seems to be precise: weights by the
groups' own variances make means too small. So the means m_g of n_g reports have weights n_g / V_g, with

    V_g = noise_g(m) + (1 + c_g) s        c_g = half of the second derivative of noise_g

the variance of one report of numbers with the mean m and the variance s, as the noise is nearly a quadratic function of
the number; m and s are those of all groups together, with weights that do not depend on the reports. (If an error in s
moves weights, it moves those of all groups alike.) The interval adds those of the groups,

    low = m - sqrt(sum over g of w_g^2 (m_g - low_g)^2)        w_g = n_g / V_g / sum over h of n_h / V_h

and high alike (G. Y. Zou, A. Donner, "Construction of Confidence Limits about Effect Measures: A General Approach",
Statistics in Medicine 27(10), 2008).

**One population?** Whether the groups are of one population is tested by
Q = sum (f_g - f)^2 / v_g(f), chi-square with one degree of freedom less than there are groups (W. G. Cochran,
"The Combination of Estimates from Different Experiments", Biometrics 10(1), 1954). People who choose a small epsilon
may differ from others: a total over *these* people is the sum of the groups' estimates, whatever Q is. Where few
reports decide about a group, its term is of their tails (`scores_of_few`). Q of means is about the mean f at which it
is least, and no v_g is less than the group's own: rare large numbers may be in one group only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import MechanismMismatchError, ParameterError, warn_user
from ldp_core.estimates.base import Tabular, check_repeats, refuse_mechanism, z_score
from ldp_core.estimates.chi_square import chi_square_tail
from ldp_core.estimates.comparison import domain_of, nearer, side_of
from ldp_core.estimates.histogram import Side
from ldp_core.estimates.mean import Averaging, MeanEstimate, off_of
from ldp_core.estimates.tails import few_at, reach_of_few, scores_of_few
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_open
from ldp_core.tables import View, in_percent
from ldp_core.tally import Tally

_HALVINGS = 60
_UNKNOWN = np.nan, np.nan, -np.inf, np.inf, np.nan, np.nan  # of records without an answer
_UNTOLD = 1e6  # an error of a share that no group tells, as of a RAPPOR's candidate with another's filter
_OTHERS = 1e-4  # so improbable is Q, of all values together, where it is said that groups differ


@dataclass(frozen=True, eq=False, repr=False)
class Pooled(Tabular):
    """Shares in one population, or its mean, from several mechanisms' reports.

    Attributes:
        values: those that all mechanisms know, k of them, as an Arrow array; nulls for a mean.
        estimates: float64[k], of noise and sampling, as are the next ones.
        standard_errors: of ``estimates``.
        low, high: ends of the confidence interval of each.
        q, p_values: Cochran's Q of each, and the probability of a larger one if all groups are of one population.
        groups: how many there are.
        n: number of all reports.

    >>> from ldp_core import RandomizedResponse
    >>> coarse, fine = RandomizedResponse(["a", "b"], epsilon=1.0), RandomizedResponse(["a", "b"], epsilon=3.0)
    >>> pool([(coarse, coarse.simulate([600, 400], seed=1)), (fine, fine.simulate([300, 200], seed=2))]).n
    1500
    """

    @property
    def view(self) -> View:  # type: ignore[override]
        """Values with their shares, or one mean."""
        is_mean = pa.types.is_null(self.values.type)
        return View("estimate", unit="mean") if is_mean else View("estimate", ("value",), unit="share")

    question: ClassVar[str] = "pool"

    values: pa.Array
    estimates: F64
    standard_errors: F64
    low: F64
    high: F64
    q: F64
    p_values: F64
    groups: int
    n: int
    confidence: float
    mechanism: Mechanism | None = None

    @override
    def _key(self) -> tuple[Any, ...]:
        return tuple(x.tobytes() if isinstance(x, np.ndarray) else str(x) for x in self._values())

    @override
    def _head(self) -> str:
        return f"{self.groups} groups, {self.n:,} reports, {in_percent(self.confidence)}% intervals"

    @override
    def _shown(self) -> tuple[list[tuple[str, ...]], list[str]]:
        rows: list[tuple[str, ...]] = [("", "estimate", "std.error", "low", "high", "Q", "p of Q")]
        for row in self.to_arrow().to_pylist():
            names = ("estimate", "standard_error", "low", "high", "q", "p_value")
            value = "mean" if row["value"] is None else str(row["value"])
            rows.append((value, *(f"{row[name]:.4g}" for name in names)))
        return rows, []

    @override
    def to_arrow(self) -> pa.Table:
        """Table of columns value, estimate, standard_error, low, high, q, p_value, n; a row per value."""
        arrays = (self.estimates, self.standard_errors, self.low, self.high, self.q, self.p_values)
        names = ["value", "estimate", "standard_error", "low", "high", "q", "p_value", "n"]
        return pa.table([self.values, *map(pa.array, arrays), pa.array(np.full(len(self.q), self.n))], names)


def pool(groups: Iterable[tuple[Mechanism, Tally]], *, confidence: float = 0.95, repeats: int | None = None) -> Pooled:
    """What several mechanisms' tallies say together of one population; see this module's text for the formulas.

    Args:
        groups: two or more mechanisms, each with the tally of its reports, of other people each. All are frequency
            oracles, of which the values that all of them list are estimated (``"other"`` only where all list the same),
            or all are for numbers.
        confidence: of each interval, in (0, 1).
        repeats: the most reports of one person in a group; see `HistogramEstimate`. Default: one.

    Warns:
        LdpWarning: the groups are of different populations, which Cochran's Q would hardly say of equal ones (10^-4).

    Raises:
        MechanismMismatchError: a tally is another mechanism's; mechanisms of two kinds, or of numbers of two intervals.
        ParameterError: confidence outside (0, 1); fewer than two groups; an empty one; no value in common.

    >>> from ldp_core import RandomizedResponse, UnaryEncoding
    >>> old, new = UnaryEncoding(["a", "b"], epsilon=1.0), RandomizedResponse(["a", "b", "c"], epsilon=3.0)
    >>> pooled = pool([(old, old.simulate([900, 600], seed=1)), (new, new.simulate([300, 200, 0], seed=2))])
    >>> pooled.values.to_pylist(), bool(pooled.low[0] < 0.6 < pooled.high[0])
    (['a', 'b'], True)
    """
    made: list[Any] = list(groups) if isinstance(groups, Iterable) else []
    if len(made) < 2:
        raise ParameterError(f"pool takes two groups or more, (mechanism, tally) each, got {len(made)}")
    for group in made:
        if not (isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], Mechanism)):
            raise ParameterError(f"pool takes pairs of a mechanism and its tally, got {type(group).__name__}")
    if len({id(tally) for _, tally in made}) < len(made):
        raise ParameterError("a tally is there twice: people count once, so give each tally once")
    for mechanism, tally in made:
        if domain_of(mechanism) is None and not isinstance(mechanism, Averaging):
            continue  # (it has no place here, whatever its tally is)
        mechanism.check_tally(tally)
        if not tally.n:
            raise ParameterError(f"a group of {mechanism.name} has no reports: leave it out")
    return pooled(made, confidence, repeats)


def pooled(groups: Sequence[tuple[Mechanism, Tally]], confidence: float, repeats: int | None) -> Pooled:
    """`pool` of tallies that are the mechanisms' own, of which some may be empty: where it is done by keys."""
    mechanisms, tallies = zip(*groups, strict=True)
    n = np.array([[tally.n for tally in tallies]])
    values, found = pooled_rows(mechanisms, n, [tally.counters[None] for tally in tallies], confidence, repeats)
    estimate, error, low, high, q, p_values = found[:, 0]
    return Pooled(values, estimate, error, low, high, q, p_values, int((n > 0).sum()), int(n.sum()), confidence)


def pooled_rows(
    mechanisms: Sequence[Mechanism], n: I64, counters: Sequence[I64], confidence: float, repeats: int | None
) -> tuple[pa.Array, F64]:
    """`pooled` of k rows at once: n is int64[k, groups], counters int64[k, ...] of each group.

    The values, and float64[6, k, values]: estimates, errors, low and high ends, Q, and its p-values.
    """
    z, repeats = z_score(check_open("confidence", confidence)), check_repeats("repeats", repeats)
    values, places = common_values(mechanisms)
    found = np.empty((6, len(n), len(values)))
    each = [made.answers(n[:, g], counters[g]) for g, made in enumerate(cast("Sequence[Any]", mechanisms))]
    there_are = np.stack([answers > 0 for _, answers, _ in each], axis=1)
    patterns, pattern_of = np.unique(there_are, axis=0, return_inverse=True)
    for number, there in enumerate(patterns):  # which groups have answers
        rows = np.flatnonzero(pattern_of.reshape(-1) == number)
        groups = [(each[g][0], each[g][1][rows], each[g][2][rows], places[g]) for g in np.flatnonzero(there).tolist()]
        if groups:
            found[:, rows] = _pooled(groups, confidence, z, repeats, means=pa.types.is_null(values.type))
        else:
            found[:, rows] = np.reshape(_UNKNOWN, (-1, 1, 1))
    p_values = found[5]
    if (p_values * p_values.size < _OTHERS).any():
        warn_user(
            f"the groups are not of one population (Cochran's Q, p = {np.nanmin(p_values):.1g}), so that no number "
            "here is that of all of them: look at each group, or sum the weights of their reports (docs/compare.md)"
        )
    return values, found


_Group = tuple[Any, I64, I64, list[int]]  # a mechanism, n and counters of its k tallies, and where it has the values


def _pooled(groups: list[_Group], confidence: float, z: float, repeats: int | None, *, means: bool) -> list[F64]:
    """`pooled_rows` where all groups have answers."""
    alike: dict[bytes, _Group] = {}
    for m, n, counters, codes in groups:
        _, others, sums, _ = alike.get(m.fingerprint, (m, 0, 0, codes))
        m.check_total(int((n + others).max()))
        alike[m.fingerprint] = (m, n + others, counters + sums, codes)
    alone, sides = (
        [_of(side_of(m, n, counters, "many", repeats), codes) for m, n, counters, codes in some]
        for some in (alike.values(), groups)
    )
    off: Any = 0.0
    if means:
        (estimate, error, low, high, off), of_one = _means(list(alike.values()), confidence, repeats)
        each = zip(groups, sides, strict=True)
        variances = np.array(
            [(np.maximum(of_one[m.fingerprint], of.a) + of.more(estimate)) / of.n for (m, *_), of in each]
        )
        middle = np.average([of.estimates for of in sides], axis=0, weights=1 / variances)
    else:
        alone = _that_share(alone, list(alike.values()), repeats or 1)
        estimate, low, high = _roots(alone, np.array([0.0, z, -z]))
        variances, of_alone = (np.array([s.variance(_inside(estimate, s)) for s in of]) for of in (sides, alone))
        error = (1 / of_alone).sum(axis=0) ** -0.5
        (low, high), middle = _of_few((low, high), alone, error**2 / of_alone, estimate, z), estimate
        far = np.where(error > _UNTOLD / 1e3, np.inf, 0)
        error, low, high = error + far, low - far, high + far
    scores = (_score(side, middle, v, off) for side, v in zip(sides, variances, strict=True))
    q: F64 = sum((score**2 for score in scores), start=0 * estimate)
    return [estimate, error, low, high, q, chi_square_tail(q, np.full(q.shape, len(sides) - 1))]


def _that_share(sides: list[Side], groups: list[_Group], repeats: int) -> list[Side]:
    """Sides of which errors do not average out that are the same in several groups, as collisions of sketches are.

    Noise of the variances v_g and a common error of c have together 1 / sum(1 / v_g) + c, as have independent errors of
    v_g + c v_g sum(1 / v_h).
    """
    found = []
    for side, (m, n, counters, _) in zip(sides, groups, strict=True):
        people = np.maximum(n, 1)[:, None]
        name, common = m.in_common(people, counters, side.estimates * people)
        more = common * repeats / people  # of one report
        found.append((name, more, np.maximum(side.variance(side.inside) - more / people, 1e-300)))
    totals = [sum(1 / v for other, _, v in found if other == name) for name, *_ in found]
    return [
        side._replace(a=side.a + more * np.maximum(v * total - 1, 0))
        for side, (_, more, v), total in zip(sides, found, totals, strict=True)
    ]


def _means(groups: list[_Group], confidence: float, repeats: int | None) -> tuple[F64, dict[bytes, F64]]:
    """Of k tallies of each mechanism: means, errors, ends and `off_of`, float64[5, k, 1], and V_g, [k, 1], by name."""
    domain, n = groups[0][0].domain, np.array([n for _, n, *_ in groups], float)
    question, length, times = MeanEstimate(confidence, repeats=repeats), domain.high - domain.low, repeats or 1
    numbers = [question._numbers(m, people, counters) for m, people, counters, _ in groups]
    means, *others = np.moveaxis(np.array(numbers), 1, 0)  # [groups, k] each
    most = np.array([m.most_noise for m, *_ in groups])[:, None] + 0.25  # (no numbers vary more than length^2 / 4)
    middle = np.clip((np.average(means, axis=0, weights=n / most) - domain.low) / length, 0, 1)
    noise = np.array([m.noise(middle) for m, *_ in groups])
    at0, at_half, at1 = np.array([m.noise(np.array([0.0, 0.5, 1.0])) for m, *_ in groups]).T[..., None]
    slopes = np.maximum(1 + 2 * (at0 - 2 * at_half + at1), 0)
    known, squares = n * slopes / most**2, (others[0] / length) ** 2 * n / times
    spread = np.clip(
        (known * (squares - noise)).sum(axis=0) / np.maximum((known * slopes).sum(axis=0), 1e-300), 0, 0.25
    )
    variances = np.maximum(noise + slopes * spread, 1e-12) * length**2 * times
    weights = n / variances
    weights /= weights.sum(axis=0)
    offs = np.array([off_of(m) for m, *_ in groups])[:, None]
    mean, off = (weights * means).sum(axis=0), (weights * offs).sum(axis=0)
    ends = others[0], means - others[1] - offs, others[2] - means - offs
    error, below, above = (np.sqrt((weights**2 * one**2).sum(axis=0)) for one in ends)
    of_one = {m.fingerprint: v[:, None] for (m, *_), v in zip(groups, variances, strict=True)}
    return np.array([mean, error, mean - below - off, mean + above + off, off])[..., None], of_one


def common_values(mechanisms: Sequence[Mechanism]) -> tuple[pa.Array, list[list[int]]]:
    """The values that all mechanisms know, and where each has them; of numbers a null, and the only place.

    Raises:
        MechanismMismatchError, ParameterError: they do not go together, see `pool`.
    """
    for mechanism in mechanisms:
        if domain_of(mechanism) is None and not isinstance(mechanism, Averaging):
            raise refuse_mechanism("pooling", "frequency oracles or mechanisms for numbers", mechanism)
    domains = [domain_of(mechanism) for mechanism in mechanisms]
    if len({domain and domain.kind for domain in domains}) > 1:
        raise MechanismMismatchError(
            "frequency oracles are pooled with those for values of the same kind, numbers with numbers"
        )
    there = [domain for domain in domains if domain is not None]
    if not there:
        if len({mechanism.inputs for mechanism in mechanisms}) > 1:
            raise MechanismMismatchError(
                "means are pooled of numbers of one interval: clip the numbers to the same one"
            )
        return pa.nulls(1), [[0] for _ in mechanisms]
    lists = [domain.meanings for domain in there]
    if all(one == lists[0] for one in lists):  # (what is "other" depends on what is listed)
        lists = [[*one, *domain.values[len(one) :]] for one, domain in zip(lists, there, strict=True)]
    places = [{value: k for k, value in enumerate(one)} for one in lists]
    common = [value for value in lists[0] if all(value in others for others in places)]
    if not common:
        raise ParameterError("the mechanisms know no value in common, so that there is nothing to pool")
    codes = [[known[value] for value in common] for known in places]
    return there[0].arrow_values.take(pa.array(codes[0])), codes


def _of(side: Side, codes: list[int]) -> Side:
    """Of some values only; of what a group does not tell the variance is finite here, to count with."""
    a = np.minimum(side.a[:, codes], _UNTOLD**2 * np.maximum(side.n, 1))
    return side._replace(estimates=side.estimates[:, codes], a=a, b=np.broadcast_to(side.b, side.a.shape[1:])[codes])


def _of_few(ends: tuple[F64, F64], sides: Sequence[Side], weights: F64, estimate: F64, z: float) -> tuple[F64, F64]:
    """Ends moved out where few coins decide, of the group whose coins weigh most; see `ldp_core.estimates.tails`."""
    n, a, b, e, step = zip(*((x.n, x.a, x.b + x.sampled, -x.sampled, x.step) for x in sides), strict=True)
    of_one = [sum(w**2 / m * part for w, m, part in zip(weights, n, parts, strict=True)) for parts in (a, b, e)]
    most = np.max([w / m * x for w, m, x in zip(weights, n, step, strict=True)], axis=0)
    return reach_of_few(ends, estimate, sum(n), z, most, tuple(of_one), 1)


def _score(side: Side, f: F64, variance: F64, off: Any) -> F64:
    """How many standard errors a group is from f; where few coins decide, of their tails."""
    error, coin = np.sqrt(variance), side.step / np.maximum(side.n, 1)
    z: F64 = nearer(side.estimates - f, side.off + off) / error
    return scores_of_few(z, variance < few_at(z) * coin**2, side.n, error, coin)


def _inside(f: F64, side: Side) -> F64:
    """Where there is a variance: of shares in [0, 1]."""
    return np.clip(f, 0, 1) if side.sampled else f


def _roots(sides: Sequence[Side], t: F64) -> F64:
    """Where the score is each t, by bisection: float64[len(t), k, values]."""
    t = t[:, None, None]

    def score(f: F64) -> F64:
        weights = np.array([1 / np.maximum(side.variance(_inside(f, side)), 1e-300) for side in sides])
        errors = np.array([side.estimates - f for side in sides])
        return (weights * errors).sum(axis=0) / np.sqrt(weights.sum(axis=0))

    estimates = np.array([side.estimates for side in sides])
    each = [side.variance(np.full_like(side.estimates, f)).max(axis=1) for side in sides for f in (0, 0.5, 1)]
    reach = (np.abs(t) + 2) * np.sqrt(np.max(each, axis=0))[:, None]
    low, high = estimates.min(axis=0) - reach, estimates.max(axis=0) + reach
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = score(middle) > t
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2
