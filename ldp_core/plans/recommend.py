"""Which mechanism, how many reports, what epsilon: planning before any data exist, from closed forms.

All of it follows from the two probabilities of a pure protocol (Wang, Blocki, Li, Jha, USENIX Security 2017): with
n reports, a value of true frequency f is estimated with variance (ibid., Theorem 2)

    variance = (f p (1 - p) + (1 - f) q (1 - q)) / (n (p - q)^2)

and with an error below sqrt(ln(2 / beta) / (2 n)) / (p - q) with probability 1 - beta (Hoeffding). What can be
recommended is a table, `ldp_core.mechanisms.catalogue`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Literal, NamedTuple, TypeAlias

from ldp_core.errors import ParameterError
from ldp_core.inputs.domain import Domain, Label
from ldp_core.mechanisms.catalogue import CHOICES, Choice, choice_named
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.parameters import check_epsilon, check_integer, check_open, check_probability
from ldp_core.poisoning import Influence

Bound: TypeAlias = Literal["hoeffding", "normal"]
"""``"hoeffding"``: `FrequencyOracle.accuracy`, holds for every n and every frequency. ``"normal"``: the half width of a
normal interval around a value of the given frequency, which is narrower and holds for large n."""


@dataclass(frozen=True)
class Recommendation:
    """One mechanism, and what to expect of it. ``print`` shows a row of a table, `HEADER` its head.

    Attributes:
        choice: its row in `CHOICES`.
        domain_size, epsilon, n: what was asked for.
        frequency: true share of the value that the standard error is for.
        standard_error: of that value's estimated frequency; times ``n`` for a count.
        margin: alpha with Pr[|error of a frequency| >= alpha] <= 0.05 for any one value: `FrequencyOracle.accuracy`.
        bytes_per_report: see `Choice`.
        server_operations: per report, see `Choice`.
        influence: what one report moves at most, if clients may lie: `FrequencyOracle.influence`.
    """

    choice: Choice
    domain_size: int
    epsilon: float
    n: int
    frequency: float
    standard_error: float
    margin: float
    bytes_per_report: int
    server_operations: int
    influence: Influence

    def mechanism(self, domain: Domain | Iterable[Label]) -> FrequencyOracle:
        """The mechanism itself.

        Raises:
            ParameterError: the domain is of another size than was asked for.
        """
        made = Domain.of(domain)
        if made.size != self.domain_size:
            raise ParameterError(f"the recommendation is for {self.domain_size} values, the domain has {made.size}")
        return self.choice.make(made, self.epsilon)

    def __str__(self) -> str:
        return _ROW.format(
            self.choice.name,
            f"{100 * self.standard_error:.4g} %",
            f"{100 * self.margin:.4g} %",
            f"{self.bytes_per_report:,}",
            f"{self.server_operations:,}",
            *(f"{x:,.1f}" if x < _LONG else f"{x:.2e}" for x in (self.influence.one, self.influence.all)),
        )


_LONG = 1e6

_ROW = "{:<28}{:>12}{:>12}{:>14}{:>12}{:>13}{:>13}"
HEADER = _ROW.format("mechanism", "std.error", "95% within", "bytes/report", "ops/report", "a lie: one", "all counts")
"""Names of the columns of a printed `Recommendation`."""


def recommend(
    domain_size: int,
    epsilon: float,
    n: int,
    *,
    bytes_per_report: float | None = None,
    frequency: float | None = None,
) -> list[Recommendation]:
    r"""The mechanisms for so many values, such an epsilon and n reports, the best first.

    In order of the standard error of a typical value, to two digits; where these agree, of bytes per report, then of
    operations per report on the server. The last two columns are what a report that lies moves at most: one count, and
    all of them together (an honest one adds 1 to its value on average); see `FrequencyOracle.influence`.

    Args:
        domain_size: number of values, d >= 2.
        epsilon: of a report.
        n: number of reports.
        bytes_per_report: leave out mechanisms whose reports are larger.
        frequency: true share of the typical value; default 1 / d.

    Raises:
        ParameterError: an argument outside its interval, or no mechanism with reports this small.

    >>> print(HEADER, *recommend(16, 1.0, 100_000), sep="\n")
    mechanism                      std.error  95% within  bytes/report  ops/report   a lie: one   all counts
    subset selection                0.5644 %     1.787 %             2          16          3.2         24.5
    projective geometry response    0.6032 %     2.065 %             8           1          3.9         29.4
    unary encoding, optimized        0.612 %     1.859 %             2          16          3.2         50.6
    local hashing, optimal          0.6138 %     1.906 %             8          16          3.3         53.2
    local hashing, fast             0.6159 %     1.769 %             8           1          2.7         43.9
    unary encoding, symmetric       0.6259 %     1.754 %             2          16          2.5         40.7
    Hadamard response               0.6797 %     1.859 %             8           1          2.2         34.6
    randomized response             0.7856 %     4.429 %             1           1          9.7         18.5
    >>> recommend(16, 1.0, 100_000, bytes_per_report=1)[0].mechanism(range(16)).name
    'randomized_response'
    """
    d, e, f = _check_size(domain_size), check_epsilon("epsilon", epsilon), _check_frequency(frequency, domain_size)
    made = [_recommendation(choice, d, e, check_integer("n", n, 1), f) for choice in CHOICES.values()]
    fitting = [r for r in made if bytes_per_report is None or r.bytes_per_report <= bytes_per_report]
    if not fitting:
        least = min(r.bytes_per_report for r in made)
        raise ParameterError(f"bytes_per_report must be at least {least}, got {bytes_per_report!r}")
    return sorted(fitting, key=_rank)


def _recommendation(choice: Choice, d: int, epsilon: float, n: int, f: float) -> Recommendation:
    p, q = choice.probabilities(d, epsilon)
    most = choice.supported(d, epsilon)  # (q is at most 1/2: to support moves a count more than not to)
    return Recommendation(
        choice,
        d,
        epsilon,
        n,
        f,
        math.sqrt(_n_variance(p, q, f) / n),
        _hoeffding(0.05) / (math.sqrt(n) * (p - q)),
        choice.report_bytes(d, epsilon),
        choice.server_operations(d, epsilon),
        Influence((1 - q) / (p - q), (most * (1 - q) + (d - most) * q) / (p - q)),
    )


def _rank(r: Recommendation) -> tuple[float, int, int, float]:
    return float(f"{r.standard_error:.1e}"), r.bytes_per_report, r.server_operations, r.standard_error


def expected_error(
    mechanism: FrequencyOracle | str,
    n: int,
    frequency: float | None = None,
    *,
    domain_size: int | None = None,
    epsilon: float | None = None,
) -> float:
    """Standard error (root mean squared error: there is no bias) of an estimated frequency.

    Args:
        mechanism: a mechanism, or a name in `CHOICES` with ``domain_size`` and ``epsilon``.
        n: number of reports.
        frequency: true share of the value; default 1 / d.

    Raises:
        ParameterError: an argument outside its interval, missing or superfluous.

    >>> round(expected_error("randomized response", 10_000, domain_size=2, epsilon=1.0), 6)
    0.009595
    >>> from ldp_core import RandomizedResponse
    >>> round(expected_error(RandomizedResponse(epsilon=1.0), 10_000), 6)
    0.009595
    """
    error = _resolve(mechanism, domain_size, epsilon)
    return math.sqrt(error.n_variance(_check_frequency(frequency, error.domain_size)) / check_integer("n", n, 1))


def required_n(
    mechanism: FrequencyOracle | str,
    margin: float,
    beta: float = 0.05,
    *,
    domain_size: int | None = None,
    epsilon: float | None = None,
    bound: Bound = "hoeffding",
    frequency: float | None = None,
) -> int:
    """The least number of reports with which a frequency is within ``margin`` of the truth, but for probability beta.

    ``"hoeffding"``: ln(2 / beta) / (2 margin^2 (p - q)^2), the inverse of `FrequencyOracle.accuracy`; ``"normal"``:
    z^2 (f p (1 - p) + (1 - f) q (1 - q)) / (margin^2 (p - q)^2), z the normal quantile of 1 - beta / 2. For all
    d values together, beta / d.

    Args:
        mechanism: a mechanism, or a name in `CHOICES` with ``domain_size`` and ``epsilon``.
        margin: of a frequency, in (0, 1).
        beta: probability of a larger error, in (0, 1).
        bound: see `Bound`.
        frequency: true share of the value, for ``"normal"``; default 1 / d.

    Raises:
        ParameterError: an argument outside its interval, missing or superfluous.

    >>> from ldp_core import RandomizedResponse
    >>> required_n(RandomizedResponse(epsilon=1.0), 0.01)
    86370
    >>> required_n("unary encoding, optimized", 0.01, domain_size=16, epsilon=1.0, bound="normal")
    143871
    """
    error = _resolve(mechanism, domain_size, epsilon)
    exact = _needed(error, check_open("beta", beta), bound, frequency) / check_open("margin", margin) ** 2
    # An n that was computed from a margin comes back as itself, not as one more.
    return max(math.ceil(exact * (1 - 1e-12)), 1)


def required_epsilon(
    mechanism: str,
    margin: float,
    n: int,
    beta: float = 0.05,
    *,
    domain_size: int,
    bound: Bound = "hoeffding",
    frequency: float | None = None,
) -> float:
    """The epsilon with which n reports suffice for a margin: the inverse of `required_n`.

    By bisection below the first of a grid of epsilons that suffices. Where an integer parameter of a mechanism makes
    the error jump upwards now and then, a smaller epsilon within a step of the grid (0.3 %) of a jump can suffice too.

    Args:
        mechanism: a name in `CHOICES`.
        margin, beta, bound, frequency: see `required_n`.
        n: number of reports.
        domain_size: number of values.

    Returns:
        The least epsilon, to twelve digits and rounded up, in (0, 50].

    Raises:
        ParameterError: an argument outside its interval, or no epsilon up to 50 does: more reports or a wider margin.

    >>> round(required_epsilon("randomized response", 0.01, 86370, domain_size=2), 5)
    1.0
    """
    d, reports = _check_size(domain_size), check_integer("n", n, 1)
    target = reports * check_open("margin", margin) ** 2
    probabilities = choice_named(mechanism).probabilities

    def misses(epsilon: float) -> bool:
        p, q = probabilities(d, epsilon)
        return not p > q or _needed(_Error.of(p, q, d), check_open("beta", beta), bound, frequency) > target

    sufficient = (k for k, epsilon in enumerate(_GRID) if not misses(epsilon))
    first = next(sufficient, None)
    if first is None:
        least = required_n(mechanism, margin, beta, domain_size=d, epsilon=_LARGEST, bound=bound, frequency=frequency)
        raise ParameterError(f"no epsilon suffices: {mechanism} needs at least {least:,} reports for margin {margin!r}")
    low, high = [0.0, *_GRID][first : first + 2]
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if misses(middle) else (low, middle)
    return min(high * (1 + 1e-12), _LARGEST)


_LARGEST = 50.0  # beyond it nothing is noisy, and nothing private
_GRID = [_LARGEST * 1.003 ** (k - 4400) for k in range(4401)]  # from 1e-4


class _Error(NamedTuple):
    """What is known of the error of an estimated frequency.

    Attributes:
        n_variance: n times its variance, from the true frequency.
        hoeffding: from beta, the alpha sqrt(n) with Pr[|error| >= alpha] <= beta.
        domain_size: d.
    """

    n_variance: Callable[[float], float]
    hoeffding: Callable[[float], float]
    domain_size: int

    @classmethod
    def of(cls, p: float, q: float, d: int) -> _Error:
        """That of a pure protocol."""
        return cls(partial(_n_variance, p, q), lambda beta: _hoeffding(beta) / (p - q), d)


def _needed(error: _Error, beta: float, bound: Bound, frequency: float | None) -> float:
    """N margin^2."""
    f = _check_frequency(frequency, error.domain_size)
    if bound == "hoeffding":
        return error.hoeffding(beta) ** 2
    if bound == "normal":
        return NormalDist().inv_cdf(beta / 2) ** 2 * error.n_variance(f)
    raise ParameterError(f'bound must be "hoeffding" or "normal", got {bound!r}')


def _hoeffding(beta: float) -> float:
    return math.sqrt(math.log(2 / beta) / 2)


def _n_variance(p: float, q: float, f: float) -> float:
    """N times the variance of an estimated frequency."""
    return (f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2


def _resolve(mechanism: FrequencyOracle | str, d: int | None, epsilon: float | None) -> _Error:
    """The error of a mechanism, which knows it best, or of a choice."""
    if isinstance(mechanism, FrequencyOracle):
        if d is not None or epsilon is not None:
            raise ParameterError(
                "a mechanism has its domain_size and epsilon: give them with the name of a choice only"
            )
        m, n = mechanism, _MANY
        return _Error(
            lambda f: float(m.variance(n, n * f)) / n, lambda beta: m.accuracy(n, beta) * math.sqrt(n), m.domain.size
        )
    choice = choice_named(mechanism)
    if d is None or epsilon is None:
        raise ParameterError(f"{choice.name} needs domain_size and epsilon")
    return _Error.of(*choice.probabilities(_check_size(d), check_epsilon("epsilon", epsilon)), d)


_MANY = 10**9  # reports: where an error falls as 1 / sqrt(n) only in the limit (a sample of columns), it is the limit's


def _check_size(d: int) -> int:
    return check_integer("domain_size", d, 2, 2**31 - 1)


def _check_frequency(f: float | None, d: int) -> float:
    return 1 / d if f is None else float(check_probability("frequency", f))
