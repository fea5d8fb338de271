"""How many people, and what epsilon, for a wanted margin of error: the inverses of the errors in `recommend`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from ldp_core.errors import ParameterError, no_warning_of_epsilon
from ldp_core.estimates.base import Population, Question, check_population, sampled_part
from ldp_core.estimates.mean import FEW_NUMBERS
from ldp_core.estimates.registry import Ask
from ldp_core.estimates.tails import FEW, coins_score, least_that
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.catalog import CHOICES
from ldp_core.mechanisms.ranges.hierarchical import HierarchicalHistogram
from ldp_core.parameters import check_epsilon, check_integer, check_open, check_share, shown
from ldp_core.plans.answered import Margin, margins
from ldp_core.plans.explanation import epsilon_above
from ldp_core.plans.known_error import Error, Shares, error_of_half, part_of
from ldp_core.plans.pairs import SampledPair
from ldp_core.plans.plan import PrivacyPlan
from ldp_core.plans.power import MANY_COINS, finder
from ldp_core.plans.recommend import (
    EVERYBODY,
    Values,
    answering,
    asked_of,
    check_group,
    error_of_answer,
    in_steps,
    keys_for,
    make,
    of_each,
    of_group,
    of_smooth,
    resolve,
    said_of,
    spread,
    whom_of,
)
from ldp_core.tables import Row, Table


@dataclass(frozen=True)
class Need(Row):
    """What one mechanism needs for a margin: a row of the table that `required_n` or `required_epsilon` gives.

    Attributes:
        name: of the column of a plan, else empty.
        mechanism: its name, with its variant where that is not the default.
        margin: what was asked for; of a change, the change.
        epsilon: of a report; None where it is not known (a mechanism's own).
        n: number of people.
    """

    name: str
    mechanism: str
    margin: float
    epsilon: float
    n: int
    wanted: str = "margin"
    """``"margin"`` or ``"change"``."""

    @override
    def values(self) -> dict[str, Any]:
        asked = {"name": self.name, "mechanism": self.mechanism, self.wanted: self.margin}
        return {**asked, "epsilon": self.epsilon, "n": self.n}

    @override
    def texts(self) -> dict[str, str]:
        named = {"name": self.name} if self.name else {}
        return {
            **named,
            "mechanism": self.mechanism,
            self.wanted: f"{self.margin:g}",
            "epsilon": epsilon_above(self.epsilon, 6),  # (a smaller one needs more people)
            "people": f"{self.n:,}",
        }


@dataclass(frozen=True, repr=False)
class Needs(Table[Need]):
    """What some mechanisms need.

    Attributes:
        n: the people that it takes: of a plan for all its columns, of several mechanisms for the first.
        epsilon: of a report of the same; of a plan, of a whole record.
    """

    n: int = 0
    epsilon: float = 0.0


def required_n(
    mechanism: Mechanism | PrivacyPlan | str | type[Mechanism] | None = None,
    margin: float | Mapping[str, float] | None = None,
    beta: float = 0.05,
    *,
    ask: Ask | None = None,
    change: float | None = None,
    base: float | None = None,
    power: float = 0.8,
    domain: Values | None = None,
    epsilon: float | None = None,
    simultaneous: bool = False,
    frequency: float | None = None,
    group: float = 1.0,
    population: Population = "many",
    repeats: int = 1,
) -> Needs:
    """The least number of people with which an estimate is within ``margin`` of the truth, but for probability beta.

    Or, with ``change``, the people before and as many after with whom `compare` finds a change of a share or a mean
    with probability ``power``: a change takes far more people than a margin of the same size. With V(f) the variance of
    one report it is n = (z sqrt(2 V(base + change / 2)) + y sqrt(V(base) + V(base + change)))^2 / change^2,
    z and y the normal quantiles of 1 - beta / 2 and of power (J. L. Fleiss, B. Levin, M. C. Paik, "Statistical Methods
    for Rates and Proportions", 3rd ed., 2003, equation 4.14, of estimates with noise). Of a share that few reports tell
    it is found by the test itself, of all pairs of counts, see `ldp_core.plans.power`.

    Of a share it is where an error beyond the margin has the probability beta, as `ldp_core.estimates.tails` bounds it:
    for many people z^2 (f p (1 - p) + (1 - f) q (1 - q)) / (margin^2 (p - q)^2), z the normal quantile of 1 - beta / 2,
    and for a population z^2 f (1 - f) / margin^2 more. Of a sketch it is over random hash functions, where all other
    people have one value, with which the most collides; of values in blocks (`BlockHadamardResponse`) it is where all
    other people have values of the same block. Of a mean the margin is in the numbers' own unit, for the noise in the
    worst case; of heavy hitters it is the share of people that a value must have to be found
    (`HeavyHitters.reports_to_find`); of a `HierarchicalHistogram` in a plan it is that of the first half of its values,
    as in `PrivacyPlan.explain`.

    Args:
        mechanism: a mechanism; a plan, of which each column is asked; a name in `CHOICES`, or a class, with ``domain``
            and ``epsilon``; None: of all that are for such values, the one that needs the fewest first.
        margin: of a frequency, in (0, 1), or of a mean; of a plan also by column, of pairs by pair or column. Default:
            0.01.
        beta: probability of a larger error, or of finding a change where there is none, in (0, 1).
        ask: the question, as ``"median"``; see `recommend`. The margin is half of its widest interval where people are
            spread evenly: of quantiles and means in the values' own unit (of labels in whole steps), of dates in cells,
            else of a share. To 0.1 % of n.
        change: in place of a margin: what a share gains, in (0, 1), or how much a mean moves, in its own unit, of 20
            people or more.
        base: with a change of a share: what the share is before.
        power: with a change: the probability of finding it, in (0, 1).
        domain: the values, or how many declared ones; see `recommend`.
        epsilon: of a report.
        simultaneous: whether all values are to be as near, together (Bonferroni), and not any one by itself.
        frequency: true share of the value, with ``simultaneous`` the greatest one; default: any share.
        group: the share of the people who are in the group that is asked about, see `recommend`.
        population: of whose share or mean the margin is, see `Population`: ``"many"``, a large one of which the people
            are a random sample; None, these people themselves, of whom noise is the only error, as in an interval of a
            histogram unless it says more (of whom a whole number changes; a change of a mean is tested as one of
            ``"many"``); or N, of a change on either side: what takes more people is left out, or refused if all do.
        repeats: how many reports each person sends, of values that stay, and that many in every group: their noise
            averages out but for what permanent answers have in common (`Mechanism.common_noise`), and who is in the
            sample does not: a change of a population is one that `compare_persons` finds, and not `compare` with its
            ``repeats``. Under keyed noise a person's reports are one: leave it out. What they spend is not
            ``epsilon``, see `PrivacyPlan.epsilon_of`.

    Returns:
        A table, `Need` a row; ``.n`` is the number.

    Raises:
        ParameterError: an argument outside its interval, missing or superfluous.

    >>> from ldp_core import UnaryEncoding
    >>> required_n(UnaryEncoding(range(12), epsilon=2.0), 0.02)
    mechanism       margin  epsilon  people
    unary_encoding    0.02        2  16,819
    Asked for: one share, whatever it is, of a population that the people are a
    random sample of, within the margin with a probability of 95 %. Ask for all
    shares at once: simultaneous.
    >>> required_n("hierarchical_histogram", 1.0, ask="median", domain=120, epsilon=1.0).n  # to one year
    1296797
    >>> required_n("randomized_response", change=0.01, base=0.05, domain=2, epsilon=1.0)
    mechanism            change  epsilon   people
    randomized_response    0.01        1  152,683
    Asked for: a test at level 5 % finds, with a probability of 80 %, that a share
    of 5 % has become one of 6 %, from so many people before and as many after, of a
    population that the people are a random sample of. To test all of them:
    simultaneous.
    """
    check_population("population", population)
    found = _change(change, base, power, margin)
    asked = _Asked(beta, simultaneous, frequency, check_group(group), population, found, repeats)
    if ask is not None:
        return _of_answers(mechanism, ask, margin, domain, epsilon, asked)
    if isinstance(mechanism, PrivacyPlan):
        if change is not None:
            keyed = mechanism.memoized and repeats != 1
            kept = ", and repeats only if it remembers: all noise of this plan is keyed" if keyed else ""
            raise ParameterError(f"a change is one column's: give the mechanism, plan[NAME]{kept}")
        if domain is not None or epsilon is not None or frequency is not None:
            raise ParameterError(
                "a plan has its domains and epsilons, and each column a frequency of its own: leave them out"
            )
        return _of_plan(mechanism, _MARGIN if margin is None else margin, asked)
    if isinstance(margin, Mapping):
        raise ParameterError("margins by column are a plan's: give one number")
    margin = asked.size(margin)
    rows = []
    for key in _keys(mechanism, domain):
        error = asked.error(key, domain, epsilon)
        spent = key.epsilon if isinstance(key, Mechanism) else float(epsilon or 0)
        rows.append(Need("", _called(key), margin, spent, asked.people(error, margin), asked.wanted))
    return asked.table(rows, asked.question(error))


def _keys(mechanism: Any, domain: Values | None) -> list[Any]:
    """What to ask: one mechanism, or all that are for such values."""
    return keys_for(domain) if mechanism is None else [mechanism]


def _called(mechanism: Any) -> str:
    return str(getattr(mechanism, "name", mechanism))


class _Change(NamedTuple):
    """A change that is to be found; see `required_n`."""

    size: float
    base: float | None
    power: float

    def _shares(self, error: Error) -> list[float]:
        """Those before, in the middle and after; of a mean, whose noise is the same, 0."""
        if error.finds is not None:
            raise ParameterError("which values are found is no share that changes: change is for shares and means")
        if error.length:
            if self.base is not None:
                raise ParameterError(
                    "the noise of a mean is taken where it is greatest, whatever the mean: leave out base"
                )
            return [0.0, 0.0, 0.0]
        if self.base is None or not 0 <= self.base < self.base + self.size <= 1:
            raise ParameterError(
                "a change of a share is in (0, 1), and needs base, the share before, in [0, 1 - change], got a change "
                f"of {self.size:g} and base={shown(self.base)}"
            )
        return [self.base, self.base + self.size / 2, self.base + self.size]

    def reports(self, error: Error, beta: float, population: Population, given: float | None = None) -> float:
        """How many it takes on either side; where some are ``given``, those if they suffice, or infinity."""
        shares = self._shares(error)
        if error.length and population is None:
            population = "many"  # (of these people the test is the same)
        z, y = (NormalDist().inv_cdf(p) for p in (1 - beta / 2, self.power))
        size = self.size - 4 * error.off  # (of numbers at the ends of buckets: the test leaves half as much out)
        if size <= 0:
            return math.inf

        def takes(n: float, moved: float) -> tuple[float, float, float]:
            """How many, by the variances of n: one without a change, and those before and after it, added up."""
            before, between, after = (error.variance(f, part_of(population, n), n) for f in shares)
            both = before + after
            return float((z * math.sqrt(2 * between) + y * math.sqrt(both)) / max(moved, 1e-99)) ** 2, between, both

        def suffices(n: float) -> bool:
            moved = size if error.length else _of_whole_people(size, n if population is None else population)
            needed, between, both = takes(n, moved)
            if power and needed <= 4 * n and 0 < n * between < MANY_COINS * coin**2:
                return power(n) >= self.power
            if needed > n or n * between >= FEW * coin**2:
                return needed <= n
            found = moved - y * math.sqrt(both / n)
            if_alike = 2 * between / n
            coins = map(np.array, (found, 2 * n * apart, if_alike, coin / n))
            tails = error.tails and error.tails(np.array(found / math.sqrt(if_alike)), 2 * n)  # of `Compare.p_values`
            return bool((coins_score(*coins, ends=False) if tails is None else tails) >= z)

        power = finder(error, float(self.base or 0), size, beta, population)
        apart = error.apart if population is None else 1  # (of a sample a test takes a person's reports as one)
        coin = error.coin / apart
        coin = math.inf if error.tails else coin  # (a sum with tails of its own is never taken for normal)
        normal = max(takes(1.0, size)[0], 1e-9)
        few = normal * error.variance(shares[1], part_of(population, 1.0)) < 2 * MANY_COINS * coin**2
        if population == "many" and not (few or error.collided):
            return normal
        if given is not None:
            return given if suffices(given) else math.inf
        if population is not None:
            return least_that(suffices, normal)
        # Of these people the fewest of whom so many change: if no more do, among more people it is a smaller share.
        changed = least_that(lambda changed: suffices(_of_whom(changed, size)), normal * size)
        return _of_whom(changed, size) if changed < math.inf else changed


def _of_whom(changed: float, share: float) -> int:
    """The fewest people of whom so many, rounded up, are no more than this share."""
    return math.ceil(math.ceil(changed) / share * (1 - 1e-9))


def _of_whole_people(share: float, people: Population | float) -> float:
    """The greatest share of so many people, or of many, that is no more than this."""
    return share if people is None or isinstance(people, str) else math.floor(share * people * (1 + 1e-9)) / people


def _change(size: float | None, base: float | None, power: float, margin: object) -> _Change | None:
    """What is asked for, if it is a change."""
    found = check_open("power", power)
    if size is None:
        if base is not None:
            raise ParameterError("base is the share before a change: give change, too")
        return None
    if margin is not None:
        raise ParameterError("give a margin or a change, not both")
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 < size < math.inf:
        raise ParameterError(f"change must be a number in (0, inf), of a share in (0, 1), got {shown(size)}")
    return _Change(float(size), None if base is None else check_share("base", base), found)


class _Asked(NamedTuple):
    """What is asked for beside the margin; see `required_n`."""

    beta: float
    simultaneous: bool
    frequency: float | None
    group: float
    population: Population
    change: _Change | None = None
    repeats: int = 1

    def error(
        self, key: Any, domain: Values | None = None, epsilon: float | None = None, *, keyed: bool = False
    ) -> Error:
        """The error of a mechanism, or of a choice; an error that is known is taken."""
        found = key if isinstance(key, Error) else resolve(key, domain, epsilon).worst_others()
        return found.repeated(check_integer("repeats", self.repeats, 1), keyed=keyed)

    @property
    def wanted(self) -> str:
        """What is asked for, in a word."""
        return "margin" if self.change is None else "change"

    def size(self, margin: float | None) -> float:
        """The number that is asked for."""
        wanted = _MARGIN if margin is None else margin
        return wanted if self.change is None else self.change.size

    def reports(self, error: Error, margin: float, given: float | None = None) -> float:
        """How many it takes; see `_Change.reports` for those ``given``."""
        if self.change is None:
            return error.reports(*self._of(error, margin))
        if self.frequency is not None:
            raise ParameterError("a change has base in place of a frequency")
        beta = check_open("beta", self.beta) / (error.together if self.simultaneous else 1)
        found = self.change.reports(error, beta, of_group(self.population, self.group), given)
        return max(found, FEW_NUMBERS) if error.length else found  # (fewer do not tell by how much they differ)

    def suffices(self, error: Error, margin: float, reports: float) -> bool:
        """Whether so many do."""
        if self.change is not None:
            return self.reports(error, margin, reports) <= reports
        return error.suffices(reports, *self._of(error, margin))

    def _of(self, error: Error, margin: float) -> tuple[float, float, Shares, Population]:
        """What one estimate is asked for: margin, beta, shares, population."""
        together = error.together if self.simultaneous and not error.length else 1
        if self.frequency is not None and self.frequency * together < 1 - 1e-9 and together > 1:
            raise ParameterError(
                f"with simultaneous, frequency is the greatest share: at least 1 / {together}, got {self.frequency:g}; "
                "the shares of all values add up to 1, and a frequent value may be noisier than a rare one"
            )
        most, beta = 1.0 if self.frequency is None else error.share(self.frequency), check_open("beta", self.beta)
        shares = (0.0 if self.simultaneous or self.frequency is None else most, most)
        whom = of_group(self.population, self.group)
        return _check_margin(margin, own_unit=error.length > 0), beta / together, shares, whom

    def people(self, error: Error, margin: float) -> int:
        """How many it takes, of whom a share is asked about."""
        reports = math.inf
        with suppress(OverflowError, ZeroDivisionError):
            reports = self.reports(error, margin) / self.group
        if math.isinf(reports):
            larger = ", or take a larger sketch, in which less collides" if error.collided else ""
            raise ParameterError(f"it takes more people than can be counted: ask for a wider {self.wanted}{larger}")
        return max(math.ceil(reports * (1 - 1e-12)), 1)  # of one computed from a margin itself, and not one more

    @property
    def everybody(self) -> float:
        """How many people there are."""
        return self.population if isinstance(self.population, int) else math.inf

    def check(self, n: int) -> None:
        """Raise `ParameterError` unless there are so many people."""
        if n > self.everybody:
            raise ParameterError(
                f"it takes {n:,} people, and population={self.population} are all there are: ask for a wider "
                f"{self.wanted} or a larger epsilon"
            )

    def table(self, rows: list[Need], note: str) -> Needs:
        """What takes no more people than there are, the fewest first."""
        rows.sort(key=lambda row: (row.n, row.epsilon))
        self.check(rows[0].n)
        found = tuple(row for row in rows if row.n <= self.everybody)
        if left := [row.mechanism for row in rows[len(found) :]]:
            note += f" Left out, as it takes more people than there are: {', '.join(left)}."
        return Needs(found, "", note, found[0].n, found[0].epsilon)

    @property
    def whom(self) -> str:
        """Whose share or mean it is, in words."""
        return "of these people themselves" if self.population is None else whom_of(self.population, "the people")

    @property
    def sure(self) -> str:
        """How sure it is to be, in words."""
        return f"with a probability of {100 * (1 - self.beta):.4g} %"

    def question(self, error: Error) -> str:
        """What is asked for, in a sentence."""
        if self.change is not None:
            return self.sentence(self._of_change(self.change))
        whom, frequency = self.whom, f"{100 * float(self.frequency or 0):.4g} %"
        if error.finds is not None:
            said = f"a value is found {self.sure} if so great a share of the people has it (the margin is that share)"
        elif error.length:
            said = f"the mean {whom}, within the margin {self.sure}, where the noise is greatest"
        elif self.simultaneous:
            said = f"the shares of all {error.together:,} values at once, {whom}, all within the margin {self.sure}"
            said += "" if self.frequency is None else f"; no value has more than {frequency}"
        else:
            of = "whatever it is" if self.frequency is None else f"that of a value that {frequency} of the people has"
            of += ", whatever the other people have" if error.crowded else ""
            said = f"one share, {of}, {whom}, within the margin {self.sure}. Ask for all shares at once: simultaneous"
        return self.sentence(said)

    def _of_change(self, change: _Change) -> str:
        level, power = (f"{100 * share:.4g} %" for share in (self.beta, change.power))
        test = f"a test at level {level} finds, with a probability of {power}, that"
        sides = f"from so many people before and as many after, {self.whom}"
        if change.base is None:
            return f"{test} a mean has moved by {change.size:g}, {sides}, where the noise is greatest"
        before, after = (f"{100 * share:.4g} %" for share in (change.base, change.base + change.size))
        together = "It tests all shares (Bonferroni)" if self.simultaneous else "To test all of them: simultaneous"
        return f"{test} a share of {before} has become one of {after}, {sides}. {together}"

    def sentence(self, said: str) -> str:
        """What is asked for, and of whom."""
        group = f" A share of {self.group:g} of the people is in the group that is asked about."
        return f"Asked for: {said}.{'' if self.group == 1 else group}{of_each(self.repeats)}"


def _of_answers(
    mechanism: Any, ask: Ask, margin: Any, domain: Values | None, epsilon: float | None, asked: _Asked, people: int = 0
) -> Needs:
    """Of the answer to a question: how many people it takes, or of so many people the epsilon."""
    other = asked.simultaneous or asked.change or isinstance(mechanism, PrivacyPlan)
    if other or isinstance(margin, Mapping):
        raise ParameterError("with ask give a margin of one mechanism: no plan, change or simultaneous")
    f, repeats = asked.frequency, check_integer("repeats", asked.repeats, 1)
    margin = asked.size(margin)
    own = isinstance(mechanism, Mechanism)
    if own is not (domain is None) or own is not (epsilon is None):
        raise ParameterError("give a mechanism, or else domain and epsilon, and perhaps a name or a class")
    spent = mechanism.epsilon if epsilon is None else check_epsilon("epsilon", epsilon)
    values = mechanism.inputs if domain is None else domain
    question, inputs, kinds = asked_of(ask, values, asked.population, check_open("beta", asked.beta))
    sure = getattr(question, "confidence", 1 - asked.beta)  # (a question may say so itself)
    asked = asked._replace(beta=round(1 - sure, 12), population=said_of(question, asked.population))
    question = _about(question, asked.population and "many")  # (a finite one, too: more people may be tried)
    margin = _check_margin(margin, own_unit=not (question.view.counts or question.view.shares))
    whole = question.whole_steps(inputs, margin, f)
    named = [key for key in kinds if not (people and key == _SLOW)] if mechanism is None else [mechanism]
    rows, off = [], 0.0
    for key, m, _ in answering(question, inputs, named, spent, _FIRST, f, repeats):
        left = whole - (off := question.rounding(m))

        @cache
        def suffices(epsilon: float, times: float, key: Any = key, left: float = left) -> bool:
            reports = people * asked.group * times
            half = error_of_answer(question, make(key, inputs, epsilon), reports, f, repeats)[1]
            return bool(half <= left)

        n = people or _people(question, m, left, f, repeats) / asked.group
        if n > asked.everybody:  # if all of them report, there is no error of a sample
            n = max(_people(_about(question, None), m, left, f, repeats) / asked.group, asked.everybody)
        least = _least(suffices, 1.2, 1e-3) if people else spent
        if least is not None and least < _ANY:
            raise ParameterError(f"any epsilon keeps margin {margin:g} of {question.name}: give a smaller margin")
        if n < _MOST and least is not None:
            rows.append(Need("", _called(key), margin, least, math.ceil(n)))
    if not rows:
        what = "epsilon" if people else "number of people"
        cells = f": an answer is the middle of a cell, {off:g} from its ends; ask for a wider one, or of narrower Cells"
        raise ParameterError(f"no {what} is enough for margin {margin:g} of {question.name}" + cells * (off > 0))
    said = f"{question.name} {asked.whom}, within the margin{in_steps(question, inputs)} {asked.sure}, "
    said += spread(asked.frequency, inputs)
    half = f". Of cells an answer is the middle of one, and half of a cell is a part of the margin, here {off:g}: "
    said += f"{half}there may be narrower Cells" * (off > 0)
    if _SLOW in kinds and _SLOW not in named and mechanism is None:
        said += f". Left out: {_SLOW}, whose errors take minutes unless it is named"
    return asked.table(rows, asked.sentence(said) + of_smooth((row.mechanism for row in rows), question))


def _about(question: Any, population: Population) -> Any:
    """It, of another population, if it has one."""
    return replace(question, population=population) if "population" in vars(question) else question


def _people(question: Question[Any], m: Mechanism, margin: float, f: float | None, repeats: int) -> float:
    """How many people it takes, or `_MOST`: intervals narrow as the root of n, or more slowly, or in steps."""
    n, few, enough = _FIRST, 0.5, _MOST
    while margin > 0 and enough > max(1.001 * few, few + 1):
        half = error_of_answer(question, m, n, f, repeats)[1]
        if 0.999 * margin <= half <= margin:
            return n
        few, enough = (few, n) if half <= margin else (n, enough)
        n *= (half / margin) ** 2 * 1.0005
        if not few < n <= enough - 1:  # (or rounded up it is tried again, for ever)
            n = math.sqrt(few * enough)
        n = math.ceil(n)  # (what is answered is what was tried)
    return enough


_FIRST, _MOST, _ANY = 10_000.0, 1e14, 1e-9  # (`EVERYBODY` needs more)
_SLOW = "local_hashing:fast"  # seconds for each epsilon above 3
_MARGIN = 0.01


def _check_margin(margin: float, *, own_unit: bool) -> float:
    if not own_unit:
        return check_open("margin", margin)
    if isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 0 < margin < math.inf:
        raise ParameterError(f"margin in the unit of the numbers must be a number in (0, inf), got {shown(margin)}")
    return float(margin)


def _of_plan(plan: PrivacyPlan, margin: float | Mapping[str, float], asked: _Asked) -> Needs:
    rows = []
    alike = {name for name, m in plan.columns.items() if isinstance(m, SampledPair) and len({*m.inner.supported}) == 1}
    of_pairs = {name: m for name, m in margins(plan.columns).items() if alike >= m.makers.keys()}
    columns: dict[str, Any] = {**plan.columns, **of_pairs}
    if isinstance(margin, Mapping) and (more := margin.keys() - columns.keys()):
        raise ParameterError(f"margin names columns {sorted(more)}, which the plan does not perturb: {list(columns)}")
    for name, m in columns.items():
        wanted = margin.get(name) if isinstance(margin, Mapping) else margin
        if wanted is None and margin and isinstance(m, SampledPair | Margin):
            continue  # (of pairs one asks for tables, for columns, or for both)
        if wanted is None:
            raise ParameterError(f"margin has no number for column {name!r} of the plan: give one for each")
        called, own = (m.title, m.pairs[0][1]) if isinstance(m, Margin) else (m.name, m)
        error = asked.error(error_of_half(m) if isinstance(m, HierarchicalHistogram) else m, keyed=plan.memoized)
        rows.append(Need(name, called, wanted, own.epsilon, asked.people(error, wanted)))
    asked.check(most := max(row.n for row in rows))
    shares = "of all shares of a column together" if asked.simultaneous else "of one share, whatever it is"
    said = f"of each column the margin holds {asked.sure}: {shares}, and of a mean where the noise is greatest; "
    if any(isinstance(m, HierarchicalHistogram) for m in columns.values()):
        said += f"of a {HierarchicalHistogram.name} it is the share of the first half of its values by itself; "
    said += asked.whom
    return Needs(tuple(rows), f"all columns: {most:,} people", asked.sentence(said), most, plan.epsilon)


@no_warning_of_epsilon()
def required_epsilon(
    mechanism: str | type[Mechanism] | None = None,
    margin: float | None = None,
    n: int = 1,
    beta: float = 0.05,
    *,
    ask: Ask | None = None,
    change: float | None = None,
    base: float | None = None,
    power: float = 0.8,
    domain: Values,
    simultaneous: bool = False,
    frequency: float | None = None,
    group: float = 1.0,
    population: Population = "many",
    repeats: int = 1,
) -> Needs:
    """The epsilon with which n people suffice for a margin: the inverse of `required_n`.

    By bisection below the first of a grid of epsilons that suffices. Where an integer parameter of a mechanism makes
    the error jump upwards now and then, a smaller epsilon within a step of the grid (0.3 %) of a jump can suffice too.

    Args:
        mechanism: a name in `CHOICES`, or a class; None: of all that are for such values, the one with the least
            epsilon first.
        margin, beta, ask, change, base, power, simultaneous, frequency, group, population, repeats: see `required_n`.
        n: number of people; of a change, of those before as of those after.
        domain: the values, or how many declared ones; see `recommend`.

    Returns:
        A table, `Need` a row; ``.epsilon`` is the least epsilon, to twelve digits (of numbers six, of a question
        three) and rounded up, in (0, 50].

    Raises:
        ParameterError: an argument outside its interval, or no epsilon up to 50 does: more people or a wider margin.

    >>> required_epsilon("randomized_response", 0.02, 10_000, domain=2)
    mechanism            margin  epsilon  people
    randomized_response    0.02  1.08526  10,000
    Asked for: one share, whatever it is, of a population that the people are a
    random sample of, within the margin with a probability of 95 %. Ask for all
    shares at once: simultaneous.
    >>> round(required_epsilon("hierarchical_histogram", 1.0, 100_000, ask="median", domain=120).epsilon, 2)
    3.04
    """
    check_population("population", population)
    people = check_integer("n", n, 1, None if ask is None else EVERYBODY)
    sampled_part(population, people)
    changed = _change(change, base, power, margin)
    asked = _Asked(beta, simultaneous, frequency, check_group(group), population, changed, repeats)
    if ask is not None:
        return _of_answers(mechanism, ask, margin, domain, 1.0, asked, people)
    margin = asked.size(margin)
    rows, hopeless = [], []
    for key in _keys(mechanism, domain):

        def suffices(epsilon: float, times: float, key: Any = key) -> bool:
            return asked.suffices(asked.error(key, domain, epsilon), margin, people * asked.group * times)

        # Others make a mechanism each time, and nothing is known of their jumps.
        found = _least(suffices, *((1.003, 1e-12) if _called(key) in CHOICES else (1.2, 1e-6, 1e6)))
        if found is None:
            enough = asked.reports(asked.error(key, domain, _LARGEST), margin) / asked.group
            many = f"at least {math.ceil(enough):,} people" if enough < math.inf else "more people than can be counted"
            hopeless.append(f"{_called(key)} needs {many} for {asked.wanted} {margin!r}")
        else:
            rows.append(Need("", _called(key), margin, found, people, asked.wanted))
    if not rows:
        raise ParameterError(f"no epsilon suffices: {hopeless[0]}")
    rows.sort(key=lambda row: row.epsilon)
    note = asked.question(asked.error(_keys(mechanism, domain)[0], domain, _LARGEST))
    if hopeless:
        note += f" Left out, as no epsilon is enough: {'; '.join(hopeless)}."
    return Needs(tuple(rows), "", note, people, rows[0].epsilon)


_LARGEST = 50.0  # beyond it nothing is noisy, and nothing private
_JUMP = 4.0  # measured: at most 3.2, for 2 to 100,000 values and any frequency


def _least(takes: Callable[[float, float], bool], step: float, precision: float, jump: float = _JUMP) -> float | None:
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


_RESOLVED = 1e-3
_SMALLEST = 1e-4
