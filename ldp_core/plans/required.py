"""How many people, and what epsilon, for a wanted margin of error: the inverses of the errors in `recommend`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from typing_extensions import override

from ldp_core.errors import ParameterError, no_warning_of_epsilon
from ldp_core.estimates.base import About
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.catalog import CHOICES
from ldp_core.parameters import check_integer, check_open, shown
from ldp_core.plans.plan import PrivacyPlan
from ldp_core.plans.recommend import KINDS, Bound, Error, Values, check_asked, check_group, error_of, resolve
from ldp_core.tables import Row, Table


@dataclass(frozen=True)
class Need(Row):
    """What one mechanism needs for a margin: a row of the table that `required_n` or `required_epsilon` gives.

    Attributes:
        name: of the column of a plan, else empty.
        mechanism: its name, with its variant where that is not the default.
        margin: what was asked for.
        epsilon: of a report; None where it is not known (a mechanism's own).
        n: number of people.
    """

    name: str
    mechanism: str
    margin: float
    epsilon: float
    n: int

    @override
    def values(self) -> dict[str, Any]:
        return vars(self).copy()

    @override
    def texts(self) -> dict[str, str]:
        named = {"name": self.name} if self.name else {}
        return {
            **named,
            "mechanism": self.mechanism,
            "margin": f"{self.margin:g}",
            "epsilon": f"{self.epsilon:.6g}",
            "people": f"{self.n:,}",
        }


@dataclass(frozen=True, repr=False)
class Needs(Table[Need]):
    """What some mechanisms need; `int` and `float` of it give ``n`` and ``epsilon``.

    Attributes:
        n: the people that it takes: of a plan for all its columns, of several mechanisms for the first.
        epsilon: of a report of the same; of a plan, of a whole record.
    """

    n: int = 0
    epsilon: float = 0.0

    def __int__(self) -> int:
        return self.n

    def __float__(self) -> float:
        return self.epsilon


def required_n(
    mechanism: Mechanism | PrivacyPlan | str | type[Mechanism] | None = None,
    margin: float | Mapping[str, float] = 0.01,
    beta: float = 0.05,
    *,
    domain: Values | None = None,
    epsilon: float | None = None,
    bound: Bound = "normal",
    simultaneous: bool = False,
    frequency: float | None = None,
    group: float = 1.0,
    about: About = "population",
) -> Needs:
    """The least number of people with which an estimate is within ``margin`` of the truth, but for probability beta.

    Of a share it is where an error beyond the margin has the probability beta, as `ldp_core.estimates.tails` bounds it:
    for many people z^2 (f p (1 - p) + (1 - f) q (1 - q)) / (margin^2 (p - q)^2), z the normal quantile of 1 - beta / 2,
    and for a population z^2 f (1 - f) / margin^2 more. Of a mean the margin is in the numbers' own unit, for the noise
    in the worst case; of heavy hitters it is the share of people that a value must have to be found
    (`HeavyHitters.reports_to_find`).

    Args:
        mechanism: a mechanism; a plan, of which each column is asked; a name in `CHOICES`, or a class, with ``domain``
            and ``epsilon``; None: of all that are for such values, the one that needs the fewest first.
        margin: of a frequency, in (0, 1), or of a mean; of a plan also by column.
        beta: probability of a larger error, in (0, 1).
        domain: the values, or how many declared ones; see `recommend`.
        epsilon: of a report.
        bound: ``"normal"``, or ``"hoeffding"``, ln(2 / beta) / (2 margin^2 (p - q)^2), which holds for every n and
            every frequency and takes two to five times the people: the inverse of `FrequencyOracle.accuracy`.
        simultaneous: whether all values are to be as near, together (Bonferroni), and not any one by itself.
        frequency: true share of the value; default: the share that takes the most people.
        group: the share of the people who are in the group that is asked about, see `recommend`.
        about: of whose share or mean the margin is: that of a population of which the people are a random sample, or
            that of the ``"people"`` themselves, of which noise is the only error. An interval of a histogram is about
            these people.

    Returns:
        A table, `Need` a row; ``.n``, or ``int`` of it, is the number.

    Raises:
        ParameterError: an argument outside its interval, missing or superfluous.

    >>> from ldp_core import Hybrid, RandomizedResponse, UnaryEncoding
    >>> required_n(UnaryEncoding(range(12), epsilon=2.0), 0.02)
    mechanism       margin  epsilon  people
    unary_encoding    0.02        2  16,819
    Asked for: one share, whatever it is, of a population that the people are a
    random sample of, within the margin with a probability of 95 %. For all shares
    at once: simultaneous.
    >>> required_n(UnaryEncoding(range(12), epsilon=2.0), 0.02, simultaneous=True).n
    35646
    >>> required_n(UnaryEncoding(range(12), epsilon=2.0), 0.02, bound="hoeffding").n
    31800
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0), "minutes": Hybrid((0, 60), epsilon=1.0)})
    >>> required_n(plan, {"crashed": 0.02, "minutes": 0.5}, group=0.1)  # of a tenth of the people
    all columns: 731,594 people
    name     mechanism            margin  epsilon   people
    crashed  randomized_response    0.02        1  114,575
    minutes  hybrid                  0.5        1  731,594
    Asked for: of each column the margin holds with a probability of 95 %: of one
    share, whatever it is, and of a mean where the noise is greatest; of a
    population that the people are a random sample of. A share of 0.1 of the people
    is in the group that is asked about.
    """
    check_asked(bound, about)
    asked = _Asked(beta, bound, simultaneous, frequency, check_group(group), about)
    if isinstance(mechanism, PrivacyPlan):
        if domain is not None or epsilon is not None or frequency is not None:
            raise ParameterError(
                "a plan has its domains and epsilons, and each column a frequency of its own: leave them out"
            )
        return _of_plan(mechanism, margin, asked)
    if isinstance(margin, Mapping):
        raise ParameterError("margins by column are a plan's: give one number")
    rows = []
    for key in _keys(mechanism, domain):
        error = resolve(key, domain, epsilon)
        spent = key.epsilon if isinstance(key, Mechanism) else float(epsilon or 0)
        rows.append(Need("", _called(key), margin, spent, asked.people(error, margin)))
    rows.sort(key=lambda row: row.n)
    return Needs(tuple(rows), "", asked.question(error), rows[0].n, rows[0].epsilon)


def _keys(mechanism: Any, domain: Values | None) -> list[Any]:
    """What to ask: one mechanism, or all that are for such values."""
    if mechanism is not None:
        return [mechanism]
    return list(KINDS.get(type(domain), CHOICES))


def _called(mechanism: Any) -> str:
    return str(getattr(mechanism, "name", mechanism))


class _Asked(NamedTuple):
    """What is asked for beside the margin; see `required_n`."""

    beta: float
    bound: Bound
    simultaneous: bool
    frequency: float | None
    group: float
    about: About

    def reports(self, error: Error, margin: float) -> float:
        """How many it takes."""
        return error.reports(*self._of(error, margin))

    def suffices(self, error: Error, margin: float, reports: float) -> bool:
        """Whether so many do."""
        return error.suffices(reports, *self._of(error, margin))

    def _of(self, error: Error, margin: float) -> tuple[float, float, Bound, float, About]:
        """What one estimate is asked for: margin, beta, bound, share, about."""
        together = error.together if self.simultaneous and not error.length else 1
        if self.frequency is not None and self.frequency * together < 1 - 1e-9 and together > 1:
            raise ParameterError(
                f"with simultaneous, frequency is the greatest share: at least 1 / {together}, got {self.frequency:g}; "
                "the shares of all values add up to 1, and a frequent value may be noisier than a rare one"
            )
        share = error.share(self.frequency) if self.frequency is not None else error.worst(self.about)
        return _check_margin(margin, error), check_open("beta", self.beta) / together, self.bound, share, self.about

    def people(self, error: Error, margin: float) -> int:
        """How many it takes, of whom a share is asked about."""
        # An n that was computed from a margin comes back as itself, not as one more.
        return max(math.ceil(self.reports(error, margin) / self.group * (1 - 1e-12)), 1)

    @property
    def sure(self) -> str:
        """How sure it is to be, in words."""
        return f"with a probability of {100 * (1 - self.beta):.4g} %"

    def question(self, error: Error) -> str:
        """What is asked for, in a sentence."""
        whom, frequency = _WHOM[self.about], f"{100 * float(self.frequency or 0):.4g} %"
        if error.finds is not None:
            said = f"a value is found {self.sure} if so great a share of the people has it (the margin is that share)"
        elif error.length:
            said = f"the mean {whom}, within the margin {self.sure}, where the noise is greatest"
        elif self.simultaneous:
            said = f"the shares of all {error.together:,} values at once, {whom}, all within the margin {self.sure}"
            said += "" if self.frequency is None else f"; no value has more than {frequency}"
        else:
            any_value = self.frequency is None or self.bound == "hoeffding"
            of = "whatever it is" if any_value else f"that of a value that {frequency} of the people has"
            said = f"one share, {of}, {whom}, within the margin {self.sure}. For all shares at once: simultaneous"
        return self.sentence(said)

    def sentence(self, said: str) -> str:
        """What is asked for, and of whom."""
        group = f" A share of {self.group:g} of the people is in the group that is asked about."
        return f"Asked for: {said}.{'' if self.group == 1 else group}"


_WHOM: dict[About, str] = {
    "population": "of a population that the people are a random sample of",
    "people": "of these people themselves",
}


def _check_margin(margin: float, error: Error) -> float:
    if not error.length:
        return check_open("margin", margin)
    if isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 0 < margin < math.inf:
        raise ParameterError(f"margin of a mean must be a number in (0, inf), got {shown(margin)}")
    return float(margin)


def _of_plan(plan: PrivacyPlan, margin: float | Mapping[str, float], asked: _Asked) -> Needs:
    rows = []
    for name, m in plan.columns.items():
        wanted = margin.get(name) if isinstance(margin, Mapping) else margin
        if wanted is None:
            raise ParameterError(f"margin has no number for column {name!r} of the plan: give one for each")
        rows.append(Need(name, m.name, wanted, m.epsilon, asked.people(error_of(m), wanted)))
    most = max(row.n for row in rows)
    shares = "of all shares of a column together" if asked.simultaneous else "of one share, whatever it is"
    said = f"of each column the margin holds {asked.sure}: {shares}, and of a mean where the noise is greatest; "
    said += _WHOM[asked.about]
    return Needs(tuple(rows), f"all columns: {most:,} people", asked.sentence(said), most, plan.epsilon)


@no_warning_of_epsilon()
def required_epsilon(
    mechanism: str | type[Mechanism] | None = None,
    margin: float = 0.01,
    n: int = 1,
    beta: float = 0.05,
    *,
    domain: Values,
    bound: Bound = "normal",
    simultaneous: bool = False,
    frequency: float | None = None,
    group: float = 1.0,
    about: About = "population",
) -> Needs:
    """The epsilon with which n people suffice for a margin: the inverse of `required_n`.

    By bisection below the first of a grid of epsilons that suffices. Where an integer parameter of a mechanism makes
    the error jump upwards now and then, a smaller epsilon within a step of the grid (0.3 %) of a jump can suffice too.

    Args:
        mechanism: a name in `CHOICES`, or a class; None: of all that are for such values, the one with the least
            epsilon first.
        margin, beta, bound, simultaneous, frequency, group, about: see `required_n`.
        n: number of people.
        domain: the values, or how many declared ones; see `recommend`.

    Returns:
        A table, `Need` a row; ``.epsilon``, or ``float`` of it, is the least epsilon, to twelve digits and rounded up,
        in (0, 50].

    Raises:
        ParameterError: an argument outside its interval, or no epsilon up to 50 does: more people or a wider margin.

    >>> required_epsilon("randomized_response", 0.02, 10_000, domain=2)
    mechanism            margin  epsilon  people
    randomized_response    0.02  1.08526  10,000
    Asked for: one share, whatever it is, of a population that the people are a
    random sample of, within the margin with a probability of 95 %. For all shares
    at once: simultaneous.
    >>> from ldp_core import Hybrid, Interval
    >>> round(required_epsilon(Hybrid, 1.0, 10_000, domain=Interval(0, 60)).epsilon, 3)
    1.5
    """
    check_asked(bound, about)
    people = check_integer("n", n, 1)
    asked = _Asked(beta, bound, simultaneous, frequency, check_group(group), about)
    rows, hopeless = [], []
    for key in _keys(mechanism, domain):

        def suffices(epsilon: float, times: float, key: Any = key) -> bool:
            return asked.suffices(resolve(key, domain, epsilon), margin, people * asked.group * times)

        found = _least(suffices, closed=_called(key) in CHOICES)
        if found is None:
            enough = math.ceil(asked.reports(resolve(key, domain, _LARGEST), margin) / asked.group)
            hopeless.append(f"{_called(key)} needs at least {enough:,} people for margin {margin!r}")
        else:
            rows.append(Need("", _called(key), margin, found, people))
    if not rows:
        raise ParameterError(f"no epsilon suffices: {hopeless[0]}")
    rows.sort(key=lambda row: row.epsilon)
    note = asked.question(resolve(_keys(mechanism, domain)[0], domain, _LARGEST))
    if hopeless:
        note += f" Left out, as no epsilon is enough: {'; '.join(hopeless)}."
    return Needs(tuple(rows), "", note, people, rows[0].epsilon)


def _least(takes: Callable[[float, float], bool], *, closed: bool) -> float | None:
    """The least epsilon with which the reports suffice, or so many times as many; None: there is none."""

    def suffices(epsilon: float, times: float = 1.0) -> bool:
        try:
            return takes(epsilon, times)
        except ZeroDivisionError:  # p is q
            return False
        except ParameterError:  # below what 64-bit probabilities resolve
            if epsilon > _RESOLVED:
                raise
            return False

    # Others make a mechanism each time, and nothing is known of their jumps.
    step, precision, jump = (1.003, 1e-12, _JUMP) if closed else (1.2, 1e-6, math.inf)
    grid = [_LARGEST * step**-k for k in range(int(math.log(_LARGEST / _SMALLEST, step)), -1, -1)]
    suffices(_LARGEST)  # refuses what no epsilon is asked for
    first = _first(lambda k, times=1.0: suffices(grid[k], times), len(grid), jump)
    if first is None:
        return None
    low, high = [0.0, *grid][first : first + 2]
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return min(high * (1 + precision), _LARGEST)


def _first(suffices: Callable[..., bool], points: int, jump: float) -> int | None:
    """The first of the points at which the reports suffice; None: there is none.

    What is needed falls from point to point, but may come back up to ``jump`` times as much. Before a point that needs
    more than that many times the reports there is none that they suffice for: bisection finds such a point.
    """
    low, high = -1, points - 1
    if not suffices(high, jump):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle, jump) else (middle, high)
    return next((k for k in range(high, points) if suffices(k)), None)


_JUMP = 4.0  # measured: at most 3.2, for 2 to 100,000 values and any frequency
_RESOLVED = 1e-3
_LARGEST = 50.0  # beyond it nothing is noisy, and nothing private
_SMALLEST = 1e-4
