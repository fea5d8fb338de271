"""One epsilon for several columns: the mechanisms of plans that split it, or draw the column that spends it.

With D columns and a budget of epsilon per record,

| | a column's epsilon | who answers it | n times the variance of a frequency, V(e) being the mechanism's own |
| --- | --- | --- | --- |
| split (SPL) | epsilon / D | everyone | V(epsilon / D) |
| sampled (SMP) | epsilon | one in D | D V(epsilon) + (D - 1) f (1 - f) |
| fake (RS+FD) | epsilon | one in D, the others fake it | D^2 q* (1 - q*) / (p - q)^2 at f = 0 |

V falls like 1 / epsilon^2 for a small epsilon, so that a split costs D^2 and sampling D. For a large epsilon little
noise is left, and asking only one in D costs more than it. `ldp_core.plans.compare` compares. Sources:
`ldp_core.plans.sampled`, `ldp_core.plans.fake`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any, TypeAlias

from ldp_core.errors import DomainError, LdpError, ParameterError, PlanError, no_warning_of_epsilon
from ldp_core.exact.probability import float_above
from ldp_core.inputs.domain import Domain, Label
from ldp_core.inputs.interval import Interval
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.catalog import CHOICES
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters
from ldp_core.mechanisms.numbers.base import Numeric
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.mechanisms.oracles.randomized_response import RandomizedResponse
from ldp_core.mechanisms.oracles.unary_encoding import UnaryEncoding
from ldp_core.parameters import check_epsilon
from ldp_core.plans.fake import FakeDataColumn
from ldp_core.plans.pairs import SampledPair, joint_domain
from ldp_core.plans.recommend import recommend
from ldp_core.plans.sampled import SampledColumn, SampledNumber

Column: TypeAlias = Domain | Iterable[Label] | Interval | Prefixes | FrequencyOracle | Numeric
"""The values of a column, or the mechanism that perturbs it, with an epsilon of its own."""


@no_warning_of_epsilon()
def split(
    columns: Mapping[str, Column], epsilon: float, weights: Mapping[str, float] | None = None
) -> dict[str, Mechanism]:
    """Mechanisms that spend ``epsilon`` together, in proportion to ``weights``; see `PrivacyPlan.split`."""
    epsilon = _shared(columns, epsilon)
    given = {name: column for name, column in columns.items() if isinstance(column, Mechanism)}
    shares = _shares([name for name in columns if name not in given], weights)
    spent = sum((Fraction(m.epsilon) for m in given.values()), Fraction(0))
    left = Fraction(epsilon) - spent
    if left < 0 or (shares and not left):
        raise PlanError(f"the given mechanisms spend epsilon = {float(spent)!r} of {epsilon!r}: none is left")
    made: dict[str, Mechanism] = {}
    for name, column in columns.items():
        if name in given:
            made[name] = given[name]
        else:  # the greatest float that is not above the part
            made[name] = _named(name, column, -float_above(-left * shares[name]), _best)
    return made


@no_warning_of_epsilon()
def sampled(columns: Mapping[str, Column], epsilon: float) -> dict[str, Mechanism]:
    """Columns of which each record answers one, with all of ``epsilon``; see `PrivacyPlan.sampled`."""
    answers = _answers(columns, epsilon, _best)
    made: dict[str, Mechanism] = {}
    for name, m in answers.items():
        made[name] = (SampledNumber if isinstance(m, Numeric) else SampledColumn)(m, columns=len(answers))
    return made


@no_warning_of_epsilon()
def fake(
    columns: Mapping[str, Column], epsilon: float, priors: Mapping[str, Iterable[float]] | None = None
) -> dict[str, Mechanism]:
    """As `sampled`, with fake data in the columns that are not answered; see `PrivacyPlan.fake`."""

    def best(domain: Domain, e: float) -> FrequencyOracle:
        """The better of the paper's two, by the variance that the fakes leave: its "adaptive" choice."""
        made: list[FrequencyOracle] = [UnaryEncoding(domain, epsilon=e)]
        if domain.unmatched != "none":
            made.append(RandomizedResponse(domain, epsilon=e))
        f = 1 / domain.size
        return min(made, key=lambda m: float(FakeDataColumn(m, columns=len(columns)).variance(1, f)))

    answers, priors = _answers(columns, epsilon, best), _checked("priors", priors, columns, "no such columns")
    made: dict[str, Mechanism] = {}
    for name, m in answers.items():
        if isinstance(m, Numeric):
            raise PlanError(f"column {name!r}: fakes are of a frequency oracle: list the values, or take sampled")
        try:
            made[name] = FakeDataColumn(m, columns=len(columns), prior=priors.get(name))
        except LdpError as error:
            raise PlanError(f"column {name!r}: {error}") from None
    return made


@no_warning_of_epsilon()
def pairs(columns: Mapping[str, Column], epsilon: float) -> dict[str, Mechanism]:
    """Pairs of columns of which each record answers one, with all of ``epsilon``; see `PrivacyPlan.pairs`."""
    epsilon = _shared(columns, epsilon)
    both = list(combinations(columns, 2))
    joint: dict[str, Domain] = {}
    sources: dict[str, dict[str, Any]] = {}
    for names in both:
        domains = []
        for name in names:
            if isinstance(columns[name], Mechanism | Interval | Prefixes):
                raise PlanError(f"column {name!r}: a pair is of columns of listed values: list them, or take a split")
            try:
                domains.append(Domain.of(columns[name]))  # type: ignore[arg-type]
            except LdpError as error:
                raise PlanError(f"column {name!r}: {error}") from None
        told = zip(("first", "second"), names, domains, strict=True)
        sources["_".join(names)] = {place: {"column": name, **domain.to_dict()} for place, name, domain in told}
        try:
            joint["_".join(names)] = joint_domain(*domains)
        except LdpError as error:
            raise PlanError(f"columns {list(names)}: {error}") from None
    if not both or len(joint) < len(both) or joint.keys() & columns.keys():
        raise PlanError("pairs are of two columns or more, and have names of their own, as os_crashed: rename a column")
    return {
        name: SampledPair(_best(domain, epsilon, alike=True), columns=len(both), **sources[name])
        for name, domain in joint.items()
    }


def _shared(columns: Mapping[str, Column], epsilon: float) -> float:
    """``epsilon`` as a float; raise `PlanError` unless columns have names."""
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns):
        raise PlanError('columns have names: give a mapping, as {"os": ["ios", "android"], "crashed": [False, True]}')
    return check_epsilon("epsilon", epsilon)


def _checked(what: str, by_name: Mapping[str, Any] | None, there: Iterable[str], none: str) -> Mapping[str, Any]:
    """What was given for some of the columns that are there, none by default."""
    if by_name is not None and not isinstance(by_name, Mapping):
        raise PlanError(f"{what} are a mapping from columns, got {type(by_name).__name__}")
    by_name = by_name or {}
    if unknown := sorted(map(str, by_name.keys() - set(there))):
        raise PlanError(f"there are {what} for {unknown}, and {none}")
    return by_name


Choice: TypeAlias = Callable[[Domain, float], FrequencyOracle]
Answer: TypeAlias = FrequencyOracle | Numeric


def _answers(columns: Mapping[str, Column], epsilon: float, choose: Choice) -> dict[str, Answer]:
    """The mechanism of each column, with ``epsilon``, or a given one with no more."""
    epsilon = _shared(columns, epsilon)
    if len(columns) < 2:
        raise PlanError("one column is drawn from at least two; a single one takes a plan of its own")
    made: dict[str, Answer] = {}
    for name, column in columns.items():
        m = _named(name, column, epsilon, choose)
        if not isinstance(m, FrequencyOracle | Numeric):
            is_not = "is neither a frequency oracle nor for the mean of a number"
            raise PlanError(f"column {name!r}: {m.name} {is_not}: take a split, or list the values")
        if m.epsilon > epsilon:
            raise PlanError(f"column {name!r}: its mechanism spends {m.epsilon!r}, more than {epsilon!r}")
        made[name] = m
    return made


def _named(name: str, column: Column, epsilon: float, choose: Choice) -> Mechanism:
    if isinstance(column, Mechanism):
        return column
    try:
        if isinstance(column, Prefixes):
            return HeavyHitters(column, epsilon=epsilon)
        if isinstance(column, Interval):
            return recommend(column, epsilon, 1)[0].mechanism()
        return choose(Domain.of(column), epsilon)
    except LdpError as error:
        raise PlanError(f"column {name!r}: {error}") from None


def _best(domain: Domain, epsilon: float, *, alike: bool = False) -> FrequencyOracle:
    """The first of `recommend` that takes the domain; n moves the order by rounding at most.

    Where sums of counts are asked for, it is one whose reports all support as many values (``alike``).
    """
    for key in _order(domain.size, epsilon):
        try:
            made = CHOICES[key].make(domain, epsilon)
        except DomainError:  # it has no report of no value
            continue
        if not alike or made.supported[0] == made.supported[1]:
            return made
    raise ParameterError("no mechanism takes this domain")


@lru_cache(maxsize=256)
def _order(size: int, epsilon: float) -> list[str]:
    """The keys of `recommend`, remembered: columns of a plan, and their pairs, often have as many values as others."""
    return [recommendation.key for recommendation in recommend(size, epsilon, 1)]


def _shares(names: list[str], weights: Mapping[str, float] | None) -> dict[str, Fraction]:
    """Each column's share of the budget; columns without a weight have weight 1."""
    weights = _checked("weights", weights, names, "no such columns to choose a mechanism for")
    all_weights = dict.fromkeys(names, Fraction(1))
    for name, weight in weights.items():
        try:
            number = check_epsilon("weight", weight)
        except ParameterError:
            raise PlanError(f"weights must be in (0, inf); that of {name!r} is not") from None
        all_weights[name] = Fraction(weight if isinstance(weight, (int, Fraction, Decimal)) else number)
    return {name: weight / sum(all_weights.values()) for name, weight in all_weights.items()}
