"""Which mechanism, how many reports, what epsilon: planning before any data exist, from closed forms.

Most of it follows from the two probabilities of a pure protocol (Wang, Blocki, Li, Jha, USENIX Security 2017): with
n reports, a value of true frequency f is estimated with variance (ibid., Theorem 2)

    variance = (f p (1 - p) + (1 - f) q (1 - q)) / (n (p - q)^2)

and so is nearly normal: 1 - beta of all estimates are within z standard errors, z the normal quantile of 1 - beta / 2,
which is what an interval around an estimate is made of. For every n and whatever the frequency is, the error is below
sqrt(ln(2 / beta) / (2 n)) / (p - q) with probability 1 - beta (Hoeffding): that takes two to five times the reports.
Of numbers the error is the mean's, in their own unit, see `Numeric.variance`; of heavy hitters it is
`HeavyHitters.reports_to_find`. What can be recommended is a table, `ldp_core.mechanisms.catalog`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa
from typing_extensions import override

from ldp_core.errors import ParameterError, no_warning_of_epsilon
from ldp_core.inputs.base import Inputs
from ldp_core.inputs.domain import Domain, Label
from ldp_core.inputs.interval import Interval
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.catalog import CHOICES, Choice, choice_named
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters
from ldp_core.mechanisms.numbers.base import Numeric
from ldp_core.mechanisms.numbers.hybrid import Hybrid
from ldp_core.mechanisms.numbers.one_bit_mean import OneBitMean
from ldp_core.mechanisms.numbers.piecewise import Piecewise
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.mechanisms.sketches.base import Sketch
from ldp_core.parameters import check_epsilon, check_integer, check_probability, shown
from ldp_core.poisoning import Influence
from ldp_core.tables import Row, Table

Bound: TypeAlias = Literal["normal", "hoeffding"]
"""``"normal"``: half a normal interval around a value of the given frequency, which is what estimates show.
``"hoeffding"``: `FrequencyOracle.accuracy`, which holds for every n and every frequency, and is wider."""

Values: TypeAlias = int | Domain | Iterable[Label] | Interval | Prefixes
"""What is asked about: declared values, or how many; the mean of numbers in an `Interval`; the most frequent of
`Prefixes`."""


@dataclass(frozen=True)
class Recommendation(Row):
    """One mechanism, and what to expect of it: a row of the table that `recommend` gives.

    Attributes:
        name: the mechanism's, as in TOML.
        variant: an option of it, where it is not the default.
        values: what is asked about.
        epsilon, n: what was asked for; n of all people.
        frequency: true share of the value that the standard error is for; None of numbers.
        standard_error: of that value's estimated frequency, times ``n`` for a count; of a mean in the numbers' unit.
        margin: with a probability of 95 % the error is less, see `Bound`; of heavy hitters, the share that is found.
        bytes_per_report: see `Choice`.
        server_operations: per report, see `Choice`.
        influence: what one report moves at most, if clients may lie: `FrequencyOracle.influence`.
    """

    name: str
    variant: str | None
    domain: Inputs | int
    epsilon: float
    n: int
    frequency: float | None
    standard_error: float
    margin: float
    bytes_per_report: int
    server_operations: int
    influence: Influence

    @no_warning_of_epsilon()
    def mechanism(self, domain: Domain | Iterable[Label] | None = None) -> Mechanism:
        """The mechanism itself.

        Args:
            domain: the declared values, if only their number was asked for.

        Raises:
            ParameterError: the domain is of another size than was asked for, or missing.
        """
        if isinstance(self.domain, (Interval, Prefixes)):
            return _NUMBERS[self.name](self.domain, self.epsilon)
        size = self.domain if isinstance(self.domain, int) else self.domain.listed
        if domain is None and isinstance(self.domain, Domain):
            domain = self.domain
        if domain is None:
            raise ParameterError(f"the recommendation is for {size} values: give them, mechanism([...])")
        made = Domain.of(domain)
        if made.size != size:
            raise ParameterError(f"the recommendation is for {size} values, the domain has {made.size}")
        return CHOICES[self.key].make(made, self.epsilon)

    @property
    def key(self) -> str:
        """Its name in `required_n` and its kin."""
        return self.name if self.variant is None else f"{self.name}:{self.variant}"

    @override
    def values(self) -> dict[str, Any]:
        return {
            "mechanism": self.name,
            "variant": self.variant or "",
            "epsilon": self.epsilon,
            "n": self.n,
            "standard_error": self.standard_error,
            "margin": self.margin,
            "bytes_per_report": self.bytes_per_report,
            "server_operations": self.server_operations,
            "influence_one": self.influence.one,
            "influence_all": self.influence.all,
        }

    @override
    def texts(self) -> dict[str, str]:
        unit = str if isinstance(self.domain, Interval) else _percent
        return {
            "mechanism": self.key,
            "std.error": unit(float(f"{self.standard_error:.4g}")),
            "found from" if isinstance(self.domain, Prefixes) else "95% within": unit(float(f"{self.margin:.4g}")),
            "bytes/report": f"{self.bytes_per_report:,}",
            "ops/report": f"{self.server_operations:,}",
            **self._lies(),
        }

    def _lies(self) -> dict[str, str]:
        if isinstance(self.domain, Interval):
            return {"lie": _moved(self.influence.one)}
        return {"lie, one": _moved(self.influence.one), "lie, all": _moved(self.influence.all)}


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _moved(x: float) -> str:
    return "no bound" if math.isinf(x) else f"{x:,.1f}" if x < _LONG else f"{x:.2e}"


_LONG = 1e6


def recommend(
    values: Values,
    epsilon: float,
    n: int,
    *,
    bytes_per_report: float | None = None,
    frequency: float | None = None,
    group: float = 1.0,
    bound: Bound = "normal",
) -> Table[Recommendation]:
    r"""The mechanisms for such values, such an epsilon and n people, the best first.

    In order of the standard error of a typical value, to two digits; where these agree, of bytes per report, then of
    operations per report on the server. The last columns are what a report that lies moves at most: one count, and
    all of them together (an honest one adds 1 to its value on average), see `FrequencyOracle.influence`; or the sum of
    the numbers.

    Args:
        values: the declared values, or how many, d >= 2; an `Interval`, to estimate a mean; or `Prefixes`, to find the
            most frequent strings.
        epsilon: of a report.
        n: number of people, each of whom sends one report.
        bytes_per_report: leave out mechanisms whose reports are larger.
        frequency: true share of the typical value; default 1 / d.
        group: the share of the people who are in the group that is asked about, if the groups are known (a column that
            is kept) and each has estimates of its own.
        bound: what the margin is.

    Returns:
        A table: a `Recommendation` a row.

    Raises:
        ParameterError: an argument outside its interval, or no mechanism with reports this small.

    >>> recommend(16, 1.0, 100_000)
    mechanism                     std.error  95% within  bytes/report  ops/report  lie, one  lie, all
    subset_selection               0.5644 %     1.106 %             2          16       3.2      24.5
    projective_geometry_response   0.6032 %     1.182 %             8           1       3.9      29.4
    unary_encoding                  0.612 %     1.199 %             2          16       3.2      50.6
    local_hashing                  0.6138 %     1.203 %             8          16       3.3      53.2
    local_hashing:fast             0.6159 %     1.207 %             8           1       2.7      43.9
    unary_encoding:symmetric       0.6259 %     1.227 %             2          16       2.5      40.7
    hadamard_response              0.6797 %     1.332 %             8           1       2.2      34.6
    randomized_response            0.7856 %      1.54 %             1           1       9.7      18.5
    lie: by how much a made-up report moves one count, or all counts together, at
    most; an honest one moves its count by 1 on average.
    >>> from ldp_core import Interval
    >>> recommend(Interval(0, 100), 2.0, 10_000)  # of the mean
    mechanism     std.error  95% within  bytes/report  ops/report    lie
    hybrid           0.5106       1.001             1           1  157.8
    piecewise        0.5541       1.086             1           1  157.8
    one_bit_mean     0.6565       1.287             1           1  115.7
    lie: by how much a made-up report moves the sum of the numbers at most.
    >>> recommend(16, 1.0, 100_000, bytes_per_report=1)[0].mechanism(range(16)).name
    'randomized_response'
    """
    domain, e = _values(values), check_epsilon("epsilon", epsilon)
    people = check_integer("n", n, 1)
    reports = people * check_group(group)
    if isinstance(domain, int | Domain):
        d = domain if isinstance(domain, int) else domain.size
        f = _check_frequency(frequency, d)
        made = [_recommendation(choice, domain, d, e, people, reports, f, bound) for choice in CHOICES.values()]
    else:
        _refuse_frequency(frequency)
        kinds = [_NUMBERS[name](domain, e) for name in KINDS[type(domain)]]
        made = [_of_mechanism(m, domain, e, people, reports, bound) for m in kinds]
    fitting = [r for r in made if bytes_per_report is None or r.bytes_per_report <= bytes_per_report]
    if not fitting:
        least = min(r.bytes_per_report for r in made)
        raise ParameterError(f"bytes_per_report must be at least {least}, got {shown(bytes_per_report)}")
    return Table(tuple(sorted(fitting, key=_rank)), note=_LIE if isinstance(domain, Interval) else _LIES)


_NUMBERS: dict[str, Callable[[Any, float], Mechanism]] = {
    m.name: partial(lambda kind, domain, epsilon: kind(domain, epsilon=epsilon), m)
    for m in (Hybrid, Piecewise, OneBitMean, HeavyHitters)
}
KINDS: dict[type[Any], tuple[str, ...]] = {
    Interval: (Hybrid.name, Piecewise.name, OneBitMean.name),
    Prefixes: (HeavyHitters.name,),
}
"""Of values that are not declared one by one: the mechanisms to ask about."""


_LIES = (
    "lie: by how much a made-up report moves one count, or all counts together, at most; an honest one moves its count "
    "by 1 on average."
)
_LIE = "lie: by how much a made-up report moves the sum of the numbers at most."


def _recommendation(
    choice: Choice, domain: Domain | int, d: int, epsilon: float, n: int, reports: float, f: float, bound: Bound
) -> Recommendation:
    p, q = choice.probabilities(d, epsilon)
    most = choice.supported(d, epsilon)  # (q is at most 1/2: to support moves a count more than not to)
    error = Error.of(p, q, d)
    return Recommendation(
        choice.name,
        choice.variant,
        domain,
        epsilon,
        n,
        f,
        math.sqrt(error.n_variance(f) / reports),
        math.sqrt(error.needed(0.05, bound, f) / reports),
        choice.report_bytes(d, epsilon),
        choice.server_operations(d, epsilon),
        Influence((1 - q) / (p - q), (most * (1 - q) + (d - most) * q) / (p - q)),
    )


def _of_mechanism(m: Mechanism, domain: Inputs, epsilon: float, n: int, reports: float, bound: Bound) -> Recommendation:
    error = error_of(m)
    kind = m.reports.arrow_type()
    return Recommendation(
        m.name,
        None,
        domain,
        epsilon,
        n,
        None,
        math.sqrt(error.n_variance(0.0) / reports),
        error.margin(reports, 0.05, bound, 0.0),
        1 if pa.types.is_boolean(kind) else kind.bit_width // 8,
        1,
        m.influence(),
    )


def _rank(r: Recommendation) -> tuple[float, int, int, float]:
    return float(f"{r.standard_error:.1e}"), r.bytes_per_report, r.server_operations, r.standard_error


def expected_error(
    mechanism: Mechanism | str | type[Mechanism],
    n: int,
    frequency: float | None = None,
    *,
    domain: Values | None = None,
    epsilon: float | None = None,
    group: float = 1.0,
) -> float:
    """Standard error (root mean squared error: there is no bias) of an estimated frequency, or of a mean.

    Of a mean in the numbers' own unit, that of the noise, in the worst case.

    Args:
        mechanism: a mechanism; or a name in `CHOICES`, or a class, with ``domain`` and ``epsilon``.
        n: number of people.
        frequency: true share of the value; default 1 / d.
        domain: the values, or how many declared ones; see `recommend`.
        epsilon: of a report.
        group: the share of the people who are in the group that is asked about, see `recommend`.

    Raises:
        ParameterError: an argument outside its interval, missing or superfluous.

    >>> round(expected_error("randomized_response", 10_000, domain=2, epsilon=1.0), 6)
    0.009595
    >>> from ldp_core import Hybrid, RandomizedResponse
    >>> round(expected_error(RandomizedResponse(epsilon=1.0), 10_000), 6)
    0.009595
    >>> round(expected_error(Hybrid((0, 100), epsilon=1.0), 10_000), 3)
    1.036
    """
    error = resolve(mechanism, domain, epsilon)
    return math.sqrt(error.n_variance(error.share(frequency)) / (check_integer("n", n, 1) * check_group(group)))


# ---- what is known of an error


class Error(NamedTuple):
    """What is known of the error of an estimate.

    Attributes:
        n_variance: n times its variance, from the true frequency.
        hoeffding: from beta, the alpha sqrt(n) with Pr[|error| >= alpha] <= beta.
        together: how many estimates there are: d.
        to_find: of heavy hitters, from a share and beta, the reports that it takes to find it.
        numeric: whether it is that of a mean, which has no frequency.
    """

    n_variance: Callable[[float], float]
    hoeffding: Callable[[float], float]
    together: int
    to_find: Callable[[float, float], float] | None = None
    numeric: bool = False

    @classmethod
    def of(cls, p: float, q: float, d: int) -> Error:
        """That of a pure protocol."""
        return cls(partial(_n_variance, p, q), lambda beta: _hoeffding(beta) / (p - q), d)

    def share(self, frequency: float | None) -> float:
        """The frequency, checked; by default that of one value in d."""
        if self.numeric:
            _refuse_frequency(frequency)
        return _check_frequency(frequency, self.together)

    def needed(self, beta: float, bound: Bound, f: float) -> float:
        """``n margin^2``, which does not depend on n."""
        if bound == "hoeffding":
            return self.hoeffding(beta) ** 2
        if bound == "normal":
            return NormalDist().inv_cdf(beta / 2) ** 2 * self.n_variance(f)
        raise ParameterError(f'bound must be "normal" or "hoeffding", got {shown(bound)}')

    def reports(self, margin: float, beta: float, bound: Bound, f: float) -> float:
        """How many reports a margin takes."""
        needed = self.needed(beta, bound, f)
        return needed / margin**2 if self.to_find is None else self.to_find(margin, beta)

    def margin(self, reports: float, beta: float, bound: Bound, f: float) -> float:
        """The inverse of `reports`."""
        if self.to_find is None:
            return math.sqrt(self.needed(beta, bound, f) / reports)
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.to_find(middle, beta) > reports else (low, middle)
        return high


def error_of(m: Mechanism) -> Error:
    """The error of a mechanism, which knows it best."""
    n = _MANY
    if isinstance(m, FrequencyOracle):
        return Error(
            lambda f: float(m.variance(n, n * f)) / n, lambda beta: m.accuracy(n, beta) * math.sqrt(n), m.domain.size
        )
    if isinstance(m, Numeric):
        low, high = m.value_bounds()
        length = (high - low) * (m.domain.high - m.domain.low)
        return Error(lambda _: m.variance(1), lambda beta: _hoeffding(beta) * length, 1, numeric=True)
    if isinstance(m, HeavyHitters):
        levels = len(m.levels)
        c = float(m.hashes.collision)
        one = Error.of(m.p, m.q + c * (m.p - m.q), 2)
        return Error(
            lambda f: levels * one.n_variance(f) + (levels - 1) * f * (1 - f),
            lambda beta: math.sqrt(levels) * one.hoeffding(beta),
            m.searched.least_candidates(),
            m.reports_to_find,
        )
    if isinstance(m, Sketch):
        p, q = (float(x) for x in m.support_probability())
        return Error.of(p, q, 1)._replace(together=_FEW)
    raise ParameterError(f"the error of {m.name} is not known before there are reports")


_FEW = 100  # candidates, for the frequency of a typical one: a sketch has no list
_MANY = 10**9  # reports: where an error falls as 1 / sqrt(n) only in the limit (a sample of columns), it is the limit's


def resolve(mechanism: Any, domain: Values | None, epsilon: float | None) -> Error:
    """The error of a mechanism, or of a choice."""
    if isinstance(mechanism, Mechanism):
        if domain is not None or epsilon is not None:
            raise ParameterError("a mechanism has its domain and epsilon: give them with a name or a class only")
        return error_of(mechanism)
    name = getattr(mechanism, "name", None) if isinstance(mechanism, type) else mechanism
    if isinstance(name, str) and name in _NUMBERS:
        if not isinstance(domain, Interval | Prefixes) or epsilon is None:
            kind = "Prefixes" if name == HeavyHitters.name else "an Interval"
            raise ParameterError(f"{name} needs domain, {kind}, and epsilon")
        return error_of(_NUMBERS[name](domain, check_epsilon("epsilon", epsilon)))
    choice = choice_named(name)
    if domain is None or epsilon is None:
        raise ParameterError(f"{choice.name} needs domain (the values, or how many) and epsilon")
    d = _values(domain)
    if not isinstance(d, int | Domain):
        raise ParameterError(f"{choice.name} is for declared values, got {type(d).__name__}")
    d = d if isinstance(d, int) else d.size
    return Error.of(*choice.probabilities(d, check_epsilon("epsilon", epsilon)), d)


def _hoeffding(beta: float) -> float:
    return math.sqrt(math.log(2 / beta) / 2)


def _n_variance(p: float, q: float, f: float) -> float:
    """``n`` times the variance of an estimated frequency."""
    return (f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2


def _values(values: Any) -> int | Domain | Interval | Prefixes:
    if isinstance(values, Domain | Interval | Prefixes):
        return values
    if isinstance(values, Iterable) and not isinstance(values, str):
        return Domain.of(values)
    return check_integer("values", values, 2, 2**31 - 1)


def _check_frequency(f: float | None, d: int) -> float:
    return 1 / d if f is None else float(check_probability("frequency", f))


def _refuse_frequency(f: float | None) -> None:
    if f is not None:
        raise ParameterError("frequency is that of a declared value: leave it out")


def check_group(group: float) -> float:
    """Return ``group``, a share of the people that is not 0."""
    share = float(check_probability("group", group))
    if not share:
        raise ParameterError("group must be a share of the people in (0, 1], got 0")
    return share
