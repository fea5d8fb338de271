"""Changes over time: Page's CUSUM of shares, or of a mean, over windows of reports.

E. S. Page, "Continuous Inspection Schemes", Biometrika 41, 1954: with independent standard normal z,

    up = max(0, up + z - k)        down = max(0, down - z - k)        an alarm if one of them is above h

finds a shift of 2 k standard errors the fastest. Here z is a window's estimate less that of all windows before, over
the standard error of this difference. It needs no known share, and if nothing changes such differences are independent
(R. L. Brown, J. Durbin, J. M. Evans, "Techniques for Testing the Constancy of Regression Relationships over Time",
Journal of the Royal Statistical Society B 37(2), 1975; as a CUSUM D. M. Hawkins, "Self-Starting CUSUM Charts", The
Statistician 36, 1987). Differences of successive windows are not: what one window has too much its two differences
share.

Without a change it takes on average L(0) windows until a one-sided CUSUM is above h (Page 1954, of normal z):

    L(u) = 1 + L(0) Phi(k - u) + the integral over x from 0 to h of L(x) phi(x + k - u)

and 2 d of them have the first false alarm 2 d times as early, at the earliest. Far out it grows as D. Siegmund's
approximation does ("Sequential Analysis", 1985, equation 2.56), which is 6 to 24 % too long for k of 1 and more:

    (exp(2 k b) - 2 k b - 1) / (2 k^2)        b = h + 1.166
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from typing_extensions import override

from ldp_core.accounting.binomials import normal_tail
from ldp_core.errors import ParameterError
from ldp_core.estimates.comparison import Compare, domain_of
from ldp_core.estimates.tails import least_that
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_epsilon
from ldp_core.tables import Row, Table
from ldp_core.tally import Tally


@dataclass(frozen=True)
class Change(Row):
    """An alarm: a row of the table that `changes` gives.

    Attributes:
        value: which share; None of a mean.
        window, since: the windows, from 0, at the end of which the alarm is, and from which on it seems to be changed:
            the first after the CUSUM was last 0.
        direction: ``"up"`` or ``"down"``.
    """

    value: Any
    window: int
    since: int
    direction: str

    @override
    def values(self) -> dict[str, Any]:
        return vars(self).copy()

    @override
    def texts(self) -> dict[str, str]:
        return {name: str(value) for name, value in vars(self).items()}


def changes(
    mechanism: Mechanism,
    tallies: Iterable[Tally],
    *,
    run_length: float = 1000,
    shift: float = 1.0,
    same_people: bool | None = None,
    repeats: int | None = None,
) -> Table[Change]:
    """At which windows a share, or a mean, has changed: alarms of a CUSUM.

    After an alarm it begins anew, and what was so far is forgotten.

    Args:
        mechanism: that made the reports.
        tallies: of the windows, in order; of other people, or with fresh noise.
        run_length: how many windows there are, on average and at least, until the first false alarm.
        shift: the shift that is to be found the fastest, in standard errors of a window's estimate.
        same_people: see `compare`; True is refused, as then windows are not independent.
        repeats: the most reports of one person in a window; see `HistogramEstimate`. Default: one.

    Returns:
        A row an alarm, in order of the windows.

    Raises:
        ParameterError: a run length below 10, a shift that is not positive, no list; what `compare` refuses.
        MechanismMismatchError: a tally is another mechanism's.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(["ok", "crashed"], epsilon=2.0)
    >>> weeks = [m.simulate([9500, 500] if week < 20 else [9200, 800], seed=week) for week in range(30)]
    >>> changes(m, weeks, run_length=10_000)
    value    window  since  direction
    crashed      21     20  up
    ok           21     20  down
    """
    if same_people or (same_people is None and getattr(mechanism, "memoized", False)):
        raise ParameterError(
            "a CUSUM is for windows of different people, or fresh noise: say same_people=False if nobody is in two "
            "windows, and leave it out where noise is fresh"
        )
    windows = check_epsilon("run_length", run_length)
    if windows < 10:
        raise ParameterError(f"run_length must be a number of windows, at least 10, got {windows!r}")
    k = check_epsilon("shift", shift) / 2
    if not isinstance(tallies, Iterable) or isinstance(tallies, str):
        raise ParameterError(f"tallies must be a list of tallies, one a window, got {type(tallies).__name__}")
    made = list(tallies)
    asked = Compare(same_people=same_people, repeats=repeats)
    asked.check(mechanism)
    domain = domain_of(mechanism)
    labels: Sequence[Any] = (None,) if domain is None else domain.values
    limit = threshold(windows * 2 * len(labels), k)
    for tally in made:
        mechanism.check_tally(tally)
    mechanism.check_total(sum(tally.n for tally in made))
    found: list[Change] = []
    sums, since = np.zeros((2, len(labels))), np.zeros((2, len(labels)), np.int64)
    before = mechanism.empty_tally()
    for window, tally in enumerate(made):
        n, counters = np.array([[before.n, tally.n]]), np.array([[before.counters, tally.counters]])
        z = asked.scores(mechanism, n, counters)[0]
        since = np.where(sums == 0, window, since)
        sums = np.maximum(sums + np.array([z, -z]) - k, 0)
        alarms = np.argwhere(sums > limit).tolist()
        found += [Change(labels[v], window, int(since[i, v]), ("up", "down")[i]) for i, v in alarms]
        before = before + tally
        if alarms:
            before, sums = mechanism.empty_tally(), np.zeros_like(sums)  # (those of the alarm were chosen by it)
    return Table(tuple(found))


@lru_cache
def threshold(run_length: float, k: float) -> float:
    """``h`` of a one-sided CUSUM of standard normal variables less k.

    >>> round(threshold(2 * 465, 0.5), 2)  # 5 in tables of D. C. Montgomery, "Statistical Quality Control"
    5.0
    """
    k = min(k, 5.0)  # (of a k above 5 doubles do not tell the solution, nor farther out)
    near = min(10.0, 10 / k)

    def approximate(h: float) -> float:
        b = 2 * k * (h + 1.166)
        return math.inf if b > 700 else (math.expm1(b) - b) / (2 * k**2)

    def suffices(h: float) -> bool:
        inner = min(h, near)
        return _solved(inner, k) * approximate(h) / approximate(inner) >= run_length

    return least_that(suffices, 1.0)


def _solved(h: float, k: float) -> float:
    """L(0), by the Gauss-Legendre rule."""
    at, weights = (part * h / 2 for part in np.polynomial.legendre.leggauss(40))
    at, of = at + h / 2, np.append(0, at + h / 2)[:, None]
    moves = weights * np.exp(-((at + k - of) ** 2) / 2) / math.sqrt(2 * math.pi)
    kernel = np.column_stack([normal_tail(of[:, 0] - k), moves])
    return float(np.linalg.solve(np.eye(41) - kernel, np.ones(41))[0])
