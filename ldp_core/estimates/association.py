"""Whether columns are independent, and how far from it two of them are: the chi-square test, and Cramer's V.

R = J / n - f g^T, of the estimated shares of pairs and of the columns, is 0 but for noise if the columns are
independent. S / n are its covariances then. Of columns that are perturbed by themselves S is the Kronecker product of
those of the columns (`FrequencyOracle.covariance`), since their weights are independent too; of pairs that are answered
it follows from those of the cells, as R changes by dJ / n - f dg^T - df g^T.

**The test.** Whitened, R is (d1 - 1) (d2 - 1) standard normal numbers, whose squares add up to a chi-square variable:
Pearson's test if there were no noise. Of more columns the means of products of w - f over two of them, over three and
so on are uncorrelated if all columns are independent. Each has the Kronecker product of its columns' covariances, so
that all whitened squares are added up, and the degrees of freedom too.

**Cramer's V** is sqrt(phi2 / (min(d1, d2) - 1)), with phi2 = sum of R^2 / (f g) = R^T W R. Noise makes this sum larger
by tr(W S) / n on average, which is taken off. (If people may report again, only the most that it may be is known: there
is no V.) The sum is a quadratic form in normal numbers. If phi2 is v, its first three cumulants are

    t1 + v,   2 t2 + 4 s v,   8 t3 + 24 s^2 v,        tk = tr((W S)^k) / n^k

where 4 s v is the variance of phi2 by the delta method, at the estimated shares. A chi-square variable, moved and
scaled, has these cumulants (J. P. Imhof, Biometrika 48, 1961, Section 4). The interval is all v for which the sum is
between its quantiles, as in J. H. Steiger, "Beyond the F Test", Psychological Methods 9, 2004, for V without noise.
Where phi2 is nearly all that it can be, and noise does not hide it, few people are not where they are expected: the
sample's part of s is then in proportion to what v lacks, so that the low end is farther (of two equal halves,
4 v (1 - v) / n without noise).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ldp_core.arrays.types import F64, I64, Bools
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.estimates.chi_square import adding_up, chi_square_tail, enough, whitening
from ldp_core.estimates.margins import along, margin, turned

RARE = 2.0
"""Standard errors that each share must be above: V divides by it.

Just above it shares are too high where they are seldom so: intervals reach `_WIDER` / (errors - `RARE`) times as far.
"""
MOST_VALUES = 64
"""Of a column that has V: the time, then 0.2 s, grows with their fourth power."""
_NOTHING = 1e-12
_NEAR_MOST = 80.0
_WIDER = 2.5
_COINS, _FOR_V = 2.0, 5.0  # that decide about a cell: of sums of values, in the test; and of values, for V


class Association(NamedTuple):
    """Of k tables: float64[k] each, but for the degrees of freedom. nan (and 0) where it is not known."""

    statistic: F64
    degrees_of_freedom: I64
    p_value: F64
    cramers_v: F64
    cramers_v_low: F64
    cramers_v_high: F64


def unknown(k: int) -> Association:
    """What is said of k tables of which nothing is known."""
    nan = np.full(k, np.nan)
    return Association(nan, np.zeros(k, np.int64), nan, nan, nan, nan)


def of_columns(
    mechanisms: Sequence[Any], n: I64, counts: F64, times: float = 1.0, confidence: float = 0.95
) -> Association:
    """Of columns that are perturbed by themselves.

    Args:
        mechanisms: of the columns.
        n, counts: int64[k], and with their margins float64[k, d1 + 1, d2 + 1, ...].
        times: what standard errors are multiplied by.
        confidence: of the interval of V.
    """
    people = np.maximum(n, 1).astype(float)
    k, each = len(mechanisms), people.reshape(-1, *[1] * len(mechanisms))
    alone = [counts[margin(k, (axis,))] / people[:, None] for axis in range(k)]
    shares, corner = [_inside(f) for f in alone], margin(k, ())
    apart = counts / each
    apart[corner] = 1
    # Means of products of w - f over some of the columns; of one alone they are 0.
    apart = along(apart, [(1, -f.reshape(len(n), *[1] * (k - 1), -1)) for f in alone], margins=True)
    apart[corner] = 0
    try:
        covariances = [m.covariance(share) for m, share in zip(mechanisms, shares, strict=True)]
    except ParameterError:  # it is not known
        return unknown(len(n))
    scale = times**2 / people
    variances = [np.einsum("kaa->ka", one) for one in covariances]
    errors, many = [np.sqrt(one * scale[:, None]) for one in variances], scale[:, None] ** (-1 / k)
    made, few = _enough_each([many * v / m.step**2 for m, v in zip(mechanisms, variances, strict=True)])
    errors[0][few | (times > 1)], white, ranks = np.inf, apart, []  # (there is no V)
    for m, one, (sums, classes) in zip(mechanisms, covariances, made, strict=True):
        two, of_sums = _projected(m, sums @ one @ sums.transpose(0, 2, 1))
        whites, rank = whitening(of_sums)
        some = classes > m.exhaustive
        cells, every = turned(white, k)
        cells = np.einsum("kab,k...b->k...a", some[:, None, None] * whites @ two @ sums, cells)
        white = np.concatenate([cells, every], axis=-1)
        ranks.append(np.where(some, rank, 0))
    degrees = np.prod([rank + 1 for rank in ranks], axis=0) - np.sum(ranks, axis=0) - 1
    tested = _tested(white * np.sqrt(each) / times, np.where(n > 0, degrees, 0))
    # (where not all are exhaustive some people are in no row, or in several)
    known = k == 2 and max(counts.shape[1:]) <= MOST_VALUES + 1
    if not known or not all(m.exhaustive for m in mechanisms):
        return Association(*tested, *unknown(len(n))[3:])
    before, covariances = map(list, zip(*map(_projected, mechanisms, covariances), strict=True))
    found = before[0] @ apart[:, :-1, :-1] @ before[1].transpose(0, 2, 1)
    joint, moves, of_f, of_g = _moves(found, *shares)
    moves = before[0].transpose(0, 2, 1) @ moves @ before[1]
    of_f, of_g = (np.einsum("kab,ka->kb", *one) for one in zip(before, (of_f, of_g), strict=True))
    noise = [m.noise_covariance(np.eye(m.domain.size)) for m in mechanisms]
    by_g, by_f = moves - of_g[:, None, :], moves - of_f[:, :, None]
    means = by_g - of_f[:, :, None]
    sample = spread = (joint * means**2).sum(axis=(1, 2)) - (joint * means).sum(axis=(1, 2)) ** 2
    first, second = (np.tensordot(joint, one, axes=(side, 0)) for side, one in ((1, noise[0]), (2, noise[1])))
    spread = spread + np.einsum("kxi,kxij,kxj->k", by_g, second, by_g, optimize=True)
    spread += np.einsum("kiy,kyij,kjy->k", by_f, first, by_f, optimize=True)
    spread += np.einsum("kyab,kyab->k", first, moves[:, None] @ noise[1] @ moves.transpose(0, 2, 1)[:, None])
    traces = np.prod([_traces(one, share) for one, share in zip(covariances, shares, strict=True)], axis=0)
    return Association(*tested, *_cramers_v(found, shares, errors, traces, spread, sample, scale, confidence))


def of_cells(
    mechanism: Any, n: I64, counts: F64, margins: Sequence[F64], times: float = 1.0, confidence: float = 0.95
) -> Association:
    """Of columns whose pairs of values are one column, in any order: ``mechanism`` treats all values alike."""
    people, (k, d1, d2) = np.maximum(n, 1).astype(float), counts.shape
    raw = [margin / people[:, None] for margin in margins]
    f, g = shares = [_inside(one) for one in raw]
    found = counts / people[:, None, None] - raw[0][:, :, None] * raw[1][:, None, :]
    independent = (f[:, :, None] * g[:, None, :]).reshape(k, -1)
    try:
        covariances = mechanism.covariance(independent)
    except ParameterError:
        return unknown(k)
    by_axis = covariances.reshape(k, d1, d2, d1, d2)
    scale = times**2 / people
    errors = [np.sqrt(np.einsum(word, by_axis) * scale[:, None]) for word in ("kabac->ka", "kabcb->kb")]
    coins = np.einsum("kabab->kab", by_axis) / (scale[:, None, None] * mechanism.step**2)
    root = np.sqrt(coins.sum(axis=(1, 2)))[:, None]
    ((one, rows), (two, columns)), few = _enough_each([coins.sum(axis=2) / root, coins.sum(axis=1) / root])
    errors[0][few | (times > 1)] = np.inf
    # (At the estimates as they are: of those moved inside, errors of f g^T would be missing where they are large.)
    change = np.eye(d1 * d2).reshape(d1, d2, d1, d2) - (
        raw[0][:, :, None, None, None] * np.eye(d2)[:, None, :]
        + raw[1][:, None, :, None, None] * np.eye(d1)[:, None, :, None]
    )
    change = change.reshape(k, d1 * d2, d1 * d2)
    covariances = change @ covariances @ change.transpose(0, 2, 1)
    sums = np.einsum("kab,kcd->kacbd", one, two).reshape(k, d1 * d2, d1 * d2)
    white, rank = whitening(sums @ covariances @ sums.transpose(0, 2, 1))
    white = white @ sums @ found.reshape(k, -1, 1) / np.sqrt(scale)[:, None, None]
    tested = _tested(white, np.where((n > 0) & (rows > 1) & (columns > 1), rank, 0))
    joint, moves, of_f, of_g = _moves(found, f, g)
    moves = (moves - of_f[:, :, None] - of_g[:, None, :]).reshape(k, -1)
    joint = joint.reshape(k, -1)
    spread = np.einsum("ka,kab,kb->k", moves, mechanism.covariance(joint), moves, optimize=True)
    sample = (joint * moves**2).sum(axis=1) - (joint * moves).sum(axis=1) ** 2
    traces = _traces(covariances, independent)
    return Association(*tested, *_cramers_v(found, shares, errors, traces, spread, sample, scale, confidence))


def _enough_each(coins: Sequence[F64]) -> tuple[list[tuple[F64, I64]], Bools]:
    """`enough` of each column, of coins float64[k, d] whose products are those of cells; and whether a cell is rare."""
    least = [np.full(len(one), _COINS ** (1 / len(coins))) for one in coins]
    made: list[Any] = [None] * len(coins)
    for axis in 2 * [*range(len(coins))]:
        one, others = coins[axis], np.prod([*least[:axis], *least[axis + 1 :]], axis=0)
        sums, _ = made[axis] = enough(one, _COINS / others)
        held = np.where(sums.any(axis=2), np.einsum("kab,kb->ka", sums, one), np.inf).min(axis=1)
        least[axis] = np.maximum(held, _COINS / others)
    return made, np.prod([one.min(axis=1) for one in coins], axis=0) < _FOR_V


def _inside(f: F64) -> F64:
    """Shares of a column of which none is below 0."""
    shares = np.maximum(f, _NOTHING)
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1)


def _projected(mechanism: Any, covariances: F64) -> tuple[F64, F64]:
    return adding_up(covariances) if mechanism.exhaustive else (np.eye(covariances.shape[1])[None], covariances)


def _tested(white: F64, degrees: I64) -> tuple[F64, I64, F64]:
    statistic, known = (white**2).sum(axis=tuple(range(1, white.ndim))), degrees > 0
    tail = chi_square_tail(np.where(known, statistic, 0), degrees)
    return np.where(known, statistic, np.nan), degrees, np.where(known, tail, np.nan)


def _traces(covariances: F64, shares: F64) -> F64:
    """float64[3, k]: tr((W S)^j), W having one over the shares on its diagonal."""
    root = np.sqrt(shares)
    values = np.linalg.eigvalsh(covariances / root[:, :, None] / root[:, None, :])
    return np.array([(values**power).sum(axis=1) for power in (1, 2, 3)])


def _moves(found: F64, f: F64, g: F64) -> tuple[F64, F64, F64, F64]:
    """Shares of pairs; how phi2 moves with the share of a pair; and how much less with those of the two columns."""
    joint = np.clip(f[:, :, None] * g[:, None, :] + found, 0, None)
    joint /= np.maximum(joint.sum(axis=(1, 2), keepdims=True), _NOTHING)
    moves = 2 * found / f[:, :, None] / g[:, None, :]
    both = moves * found / 2
    return joint, moves, both.sum(axis=2) / f, both.sum(axis=1) / g


def _cramers_v(
    found: F64,
    shares: Sequence[F64],
    errors: Sequence[F64],
    traces: F64,
    spread: F64,
    sample: F64,
    scale: F64,
    confidence: float,
) -> tuple[F64, F64, F64]:
    """V and the ends of its interval; nan where a share is not above `RARE` times its standard error."""
    f, g = shares
    phi2 = (found**2 / f[:, :, None] / g[:, None, :]).sum(axis=(1, 2))
    t1, t2, t3 = (traces[j] * scale ** (j + 1) for j in range(3))
    most, at = float(min(found.shape[1:]) - 1), 4 * np.maximum(phi2, _NOTHING)
    noise = np.sqrt(np.maximum(scale * (spread - sample), 0))
    room = np.maximum(most - phi2, np.maximum(scale, noise))  # (no nearer than noise tells)
    sample = np.where(room < _NEAR_MOST * scale, np.maximum(sample, 4 * scale), 0)  # (perhaps none is off by chance)
    rest, rises = scale * (spread - sample), scale * sample / room

    def end(z: F64) -> F64:
        low, high = np.zeros(len(phi2)), np.full(len(phi2), most)
        for _ in range(50):
            v = (low + high) / 2
            s = (rest + rises * np.maximum(most - v, room)) / at
            variance, third = 2 * t2 + 4 * s * v, 8 * t3 + 24 * s**2 * v
            degrees = 8 * variance**3 / third**2
            part = 2 / (9 * degrees)  # (E. B. Wilson, M. M. Hilferty, 1931)
            quantile = t1 + v + np.sqrt(variance * degrees / 2) * ((1 - part + z * np.sqrt(part)) ** 3 - 1)
            low, high = np.where(quantile <= phi2, v, low), np.where(quantile <= phi2, high, v)
        return low

    parts = zip(shares, errors, strict=True)
    far = np.minimum(*(np.divide(f, e, out=np.full_like(f, np.inf), where=e > 0).min(axis=1) for f, e in parts))
    known, z = far > RARE, z_score(confidence) * np.maximum(1, _WIDER / np.maximum(far - RARE, _NOTHING))
    # (If one column says all about the other, it has no error of the sample that would make the sum larger.)
    ends = (np.clip(phi2 - t1, 0, most), end(z), np.maximum(end(-z), np.minimum(phi2 - t1 * (1 - phi2 / most), most)))
    v, low, high = (np.where(known, np.sqrt(one / most), np.nan) for one in ends)
    return v, low, high
