"""Which mechanism, how many reports, what epsilon: planning before any data exist, from closed forms.

The errors are those of `known_error` in this room. What can be recommended is a table, `ldp_core.mechanisms.catalog`.

Of a question (a range, a median, a curve) the error is what the question itself says of the tally that people who are
spread evenly over the values have on average: `Question.expected_error`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.errors import DomainError, ParameterError, no_warning_of_epsilon
from ldp_core.estimates.base import Population, Question, check_population, sampled_part
from ldp_core.estimates.mean import MeanEstimate
from ldp_core.estimates.registry import Ask, question_of
from ldp_core.inputs.base import Inputs
from ldp_core.inputs.cells import MOST_CELLS, Cells
from ldp_core.inputs.dates import Dates
from ldp_core.inputs.domain import Domain, Label
from ldp_core.inputs.interval import Interval, WholeNumbers
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.catalog import CHOICES, Choice, choice_named
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters
from ldp_core.mechanisms.numbers.means import Hybrid, NOutput, OneBitMean, Piecewise
from ldp_core.mechanisms.numbers.square_wave import SquareWave
from ldp_core.mechanisms.numbers.stochastic_rounding import StochasticRounding
from ldp_core.mechanisms.ranges.hierarchical import HierarchicalHistogram
from ldp_core.parameters import check_epsilon, check_integer, check_probability, shown
from ldp_core.plans.answered import Margin
from ldp_core.plans.known_error import ANY, Error, check_frequency, error_of, refuse_frequency
from ldp_core.poisoning import Influence
from ldp_core.tables import Row, Table

Values: TypeAlias = int | Domain | Iterable[Label] | Interval | Cells | Prefixes
"""What is asked about: declared values, or how many; the mean of numbers in an `Interval`; the most frequent of
`Prefixes`; `Cells` of numbers, if a question is said."""


@dataclass(frozen=True)
class Recommendation(Row):
    """One mechanism, and what to expect of it: a row of the table that `recommend` gives.

    Attributes:
        name, variant: the mechanism's, as in TOML, and an option of it, where it is not the default.
        domain, epsilon, n: what was asked for; n of all people.
        frequency: true share of the value that the standard error is for; None of numbers.
        standard_error: of that value's estimated frequency, times ``n`` for a count; of a mean in the numbers' unit.
        margin: with a probability of 95 % the error is less; of heavy hitters, the share that is found. Of a quantile
            of declared values or whole numbers at least one step, from one value to the next: see `required_n`.
            Infinite, of a curve, where the number of all that it is a share of may be 0.
        bytes_per_report, server_operations: of a report, see `Choice`.
        influence: what one report moves at most, if clients may lie: `FrequencyOracle.influence`.
        ask: the question whose errors these are; None: a typical value's share, or a mean.
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
    ask: Question[Any] | None = None

    @no_warning_of_epsilon()
    def mechanism(self, domain: Domain | Iterable[Label] | None = None) -> Mechanism:
        """The mechanism itself; ``domain`` are the declared values, if only their number was asked for.

        Raises:
            ParameterError: the domain is of another size than was asked for, or missing.
        """
        if isinstance(self.domain, (Interval, Cells, Prefixes)):
            return make(self.key, self.domain, self.epsilon)
        size = self.domain.size if isinstance(self.domain, Domain) else self.domain
        if domain is None and isinstance(self.domain, Domain):
            domain = self.domain
        if domain is None:
            raise ParameterError(f"the recommendation is for {size} values: give them, mechanism([...])")
        made = Domain.of(domain)
        if made.size != size:
            raise ParameterError(f"the recommendation is for {size} values, the domain has {made.size}")
        return make(self.key, made, self.epsilon)

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
        one, numeric, ask = self.influence.one, isinstance(self.domain, Interval), self.ask
        shares = not numeric if ask is None else ask.view.counts or ask.view.shares
        unit = _percent if shares else str
        moves = [("moves", one)] if numeric else [("moves one", one), ("moves all", self.influence.all)]
        if numeric and ask is not None:  # of some mechanisms it moves a sum, of others a count
            moves = []
        sure = f"{100 * (0.95 if ask is None else ask.confidence):.4g}% within"
        return {
            "mechanism": self.key,
            "std.error": unit(float(f"{self.standard_error:.4g}")),
            "found from" if isinstance(self.domain, Prefixes) else sure: unit(float(f"{self.margin:.4g}")),
            "bytes/report": f"{self.bytes_per_report:,}",
            "ops/report": f"{self.server_operations:,}",
            **{head: "no bound" if math.isinf(x) else f"{x:,.1f}" if x < _LONG else f"{x:.2e}" for head, x in moves},
        }


def _percent(share: float) -> str:
    return "no bound" if math.isinf(share) else f"{100 * share:.4g} %"


_LONG = 1e6


def recommend(
    values: Values,
    epsilon: float,
    n: int,
    *,
    ask: Ask | None = None,
    bytes_per_report: float | None = None,
    frequency: float | None = None,
    group: float = 1.0,
    population: Population = "many",
    repeats: int = 1,
) -> Table[Recommendation]:
    r"""The mechanisms for such values, such an epsilon and n people, the best first.

    In order of the standard error of a typical value, which is that of noise alone; where it differs by less than 1 %,
    what costs less comes first, in operations per report on the server and then in bytes; by less than 2 %, what costs
    the server less than a hundredth.

    Args:
        values: the declared values, or how many, d >= 2; an `Interval`, to estimate a mean; or `Prefixes`, to find the
            most frequent strings.
        epsilon: of a report.
        n: number of people.
        ask: the question, as ``"median"``, ``"cdf"``, ``"mean"`` or ``"range:low=30,high=45"`` (`question_of`): which
            mechanisms can answer it, in order of the interval of that answer where people are spread evenly over the
            values. Numbers of an `Interval` are in 256 cells for a hierarchical histogram. Default: shares of declared
            values, the mean of numbers.
        bytes_per_report: leave out mechanisms whose reports are larger.
        frequency: true share of the typical value; default 1 / d for the standard error, and for the margin the share
            that has the widest one. Of quantiles see `QuantilesEstimate.expected_error`.
        group: the share of the people who are in the group that is asked about, if the groups are known (a column that
            is kept) and each has estimates of its own.
        population: of whose share or mean the margin is, see `Population`: ``"many"``, a large one of which the people
            are a random sample; None, these people themselves, of whom noise is the only error; or one of N people.
        repeats: how many reports each of them sends, see `required_n`; with ``ask`` of answers that are sums over
            reports, as ranges, medians and curves.

    Returns:
        A table: a `Recommendation` a row.

    Raises:
        ParameterError: an argument outside its interval, or no mechanism with reports this small.

    >>> recommend(16, 1.0, 100_000)
    mechanism                     std.error  95% within  bytes/report  ops/report  moves one  moves all
    subset_selection               0.5644 %     1.292 %             2          16        3.2       24.5
    projective_geometry_response   0.6032 %     1.462 %             8           1        3.9       29.4
    local_hashing:fast             0.6159 %     1.281 %             8           1        2.7       43.9
    unary_encoding                  0.612 %     1.346 %             2          16        3.2       50.6
    local_hashing                  0.6138 %     1.378 %             8          16        3.3       53.2
    unary_encoding:symmetric       0.6259 %     1.269 %             2          16        2.5       40.7
    hadamard_response              0.6797 %     1.346 %             8           1        2.2       34.6
    randomized_response            0.7856 %     2.318 %             1           1        9.7       18.5
    std.error: of noise alone, of a value that 1 in d of the people has. 95% within:
    any share of a population that these people are a random sample of. moves: by
    how much a false report moves one count, or all counts together, at most; an
    honest one moves its count by 1 on average.
    >>> [row.key for row in recommend(128, 1.0, 100_000, ask="median")][:2]
    ['hierarchical_histogram:prefixes', 'hierarchical_histogram']
    >>> recommend(16, 1.0, 100_000, bytes_per_report=1)[0].mechanism(range(16)).name
    'randomized_response'
    """
    check_population("population", population)
    domain, e = _values(values), check_epsilon("epsilon", epsilon)
    most = None if ask is None else EVERYBODY  # (of which tallies are made)
    people, repeats = check_integer("n", n, 1, most), check_integer("repeats", repeats, 1)
    sampled_part(population, people)
    reports = people * check_group(group)
    whom = of_group(population, group)
    if ask is not None:
        question, inputs, kinds = asked_of(ask, domain, population)
        answers = answering(question, inputs, kinds, e, reports, frequency, repeats)
        made = [replace(_of_mechanism(key, m, domain, e, people, *error), ask=question) for key, m, error in answers]
    elif isinstance(domain, int | Domain):
        f = check_frequency(frequency, domain if isinstance(domain, int) else domain.size)

        def errors(error: Error) -> tuple[float, float]:
            each = error.repeated(repeats)
            margin = each.margin(reports, 0.05, ANY if frequency is None else (f, f), whom)
            return math.sqrt(each.n_variance(f) / reports), margin

        made = [_recommendation(CHOICES[key], domain, e, people, f, errors) for key in keys_for(domain)]
    else:
        refuse_frequency(frequency)
        if isinstance(domain, Cells):
            raise ParameterError(_ASK_OF_CELLS)
        made = []
        for m in (make(name, domain, e) for name in KINDS[type(domain)]):
            known = error_of(m).repeated(repeats)
            alone = math.sqrt(known.n_variance(0.0) / reports), known.margin(reports, 0.05, (0.0, 0.0), whom)
            made.append(_of_mechanism(m.name, m, domain, e, people, *alone))
    fitting = [r for r in made if bytes_per_report is None or r.bytes_per_report <= bytes_per_report]
    if not fitting:
        least = min(r.bytes_per_report for r in made)
        raise ParameterError(f"bytes_per_report must be at least {least}, got {shown(bytes_per_report)}")
    if ask is not None:
        cells = f" A hierarchical histogram has {_CELLS} cells." if type(domain) is Interval else ""
        whom = said_of(question, population)
        note = f"Asked: {question.name} {whom_of(whom, 'these people')}. std.error and within: of the answer"
        note += f"{in_steps(question, inputs) or ','} {spread(frequency, inputs)}.{cells}"
        note += of_each(repeats)
        rounded = partial(question.least_margin, inputs, frequency=frequency)  # (once they are ranked)
        rows = tuple(replace(row, margin=rounded(row.margin)) for row in _ranked(fitting))
        return Table(rows, note=note + of_smooth((row.name for row in fitting), question))
    kind = "interval" if isinstance(domain, Interval) else "prefixes" if isinstance(domain, Prefixes) else "values"
    return Table(
        _ranked(fitting),
        note=" ".join([*_notes(kind, frequency, population), _MOVES_SUM if kind == "interval" else _MOVES])
        + of_each(repeats),
    )


_NUMBERS: dict[str, Any] = {
    m.name: m for m in (NOutput, Hybrid, Piecewise, OneBitMean, SquareWave, StochasticRounding, HeavyHitters)
}
KINDS: dict[type[Any], tuple[str, ...]] = {
    **dict.fromkeys((Interval, WholeNumbers), (NOutput.name, Hybrid.name, Piecewise.name, OneBitMean.name)),
    Prefixes: (HeavyHitters.name,),
}
"""Of values that are not declared one by one: the mechanisms to ask about."""


def _tree(inputs: Any, *, epsilon: float, **options: Any) -> Mechanism:
    if isinstance(inputs, WholeNumbers):
        inputs = Domain(range(inputs.first, inputs.last + 1))
    elif isinstance(inputs, Interval):
        ends: dict[str, Any] = {"low": inputs.low, "high": inputs.high, "count": _CELLS}
        inputs = Cells.declared(**ends, unmatched=inputs.unmatched, missing=inputs.missing)
    return HierarchicalHistogram(inputs, epsilon=epsilon, **options)


_CELLS = 256
_TREES = {
    HierarchicalHistogram.name: _tree,
    f"{HierarchicalHistogram.name}:prefixes": partial(_tree, workload="prefixes"),
}
_NUMBERS |= _TREES
_ASKED: dict[type[Any], tuple[str, ...]] = {
    **dict.fromkeys((Domain, Dates), (*CHOICES, *_TREES)),
    Cells: tuple(_TREES),
    **dict.fromkeys((Interval, WholeNumbers), (*KINDS[Interval], SquareWave.name, StochasticRounding.name, *_TREES)),
}


def asked_of(
    ask: Ask, values: Any, population: Population, beta: float = 0.05
) -> tuple[Question[Any], Inputs, tuple[str, ...]]:
    """A question, of which values, and the names of all mechanisms for these; of a number of values 0, 1, ...

    A finite population is taken for a large one, which is on the safe side.
    """
    inputs: Any = _values(values)
    if isinstance(inputs, int):
        inputs = Domain.of(range(check_integer("values", inputs, 2, MOST_CELLS)))
    question = question_of(ask, confidence=1 - beta, population=None if population is None else "many")
    return question, inputs, _ASKED.get(type(inputs), ())


def said_of(question: Any, population: Population) -> Population:
    """Whose answer it is: a question may say so itself (`asked_of` takes a finite population for a large one)."""
    own = vars(question).get("population", population)
    return population if own == "many" and population is not None else own


def make(key: Any, inputs: Inputs, epsilon: float) -> Mechanism:
    """The mechanism of a name, or of a class; or itself."""
    if isinstance(key, Mechanism):
        return key
    name = getattr(key, "name", None) if isinstance(key, type) else key
    if isinstance(name, str) and name in _NUMBERS:
        return _NUMBERS[name](inputs, epsilon=epsilon)
    return choice_named(name).make(inputs, epsilon)  # type: ignore[arg-type]


def error_of_answer(
    question: Question[Any], m: Mechanism, n: float, frequency: float | None, repeats: int = 1
) -> tuple[float, float]:
    """`Question.expected_error` of n people who are spread evenly over the values, and send so many reports each.

    The part of noise is as `Error.repeated` has it, and that of the sample stays.
    """
    if repeats > 1:
        asked: Any = question  # (that has a population)
        ways = replace(asked, population=None), asked
        kept = (1 + (repeats - 1) * m.common_noise(keyed=False)) / repeats
        # As of so many people as reports are worth: of fewer an interval of a quantile may have all values.
        alone, both = (np.square(error_of_answer(one, m, n / kept, frequency)) for one in ways)
        with np.errstate(invalid="ignore"):  # (neither may be finite)
            error, half = np.sqrt(alone + np.fmax(both - alone, 0) / kept).tolist()
        return error, half
    codes, reports = m.inputs.even, max(round(n), 1)
    people = np.full(len(codes), EVERYBODY // len(codes))
    drawn = m.simulate_counters(codes, people, np.random.default_rng(0))  # (what chance adds is a millionth)
    counters = np.diff(np.rint(np.cumsum(drawn) * (reports / people.sum())), prepend=0)  # (symbols add up to n)
    return question.expected_error(m, reports, counters.astype(np.int64), frequency)


EVERYBODY = 10**12


def answering(
    question: Question[Any],
    inputs: Inputs,
    kinds: Iterable[Any],
    epsilon: float,
    people: float,
    f: float | None,
    repeats: int = 1,
) -> Iterator[tuple[Any, Mechanism, tuple[float, float]]]:
    """Those that can answer the question, by name, with their errors."""
    if type(inputs) not in _ASKED:
        raise ParameterError(f"no question is asked of {type(inputs).__name__} in advance: leave out ask=")
    if repeats > 1 and isinstance(question, MeanEstimate):
        raise ParameterError("of a mean leave out ask=: what repeats changes is known of the mechanism, and not of it")
    if isinstance(inputs, Domain) and isinstance(question, MeanEstimate):
        ends = f"{min(inputs.labels)}, {max(inputs.labels)}" if inputs.kind == "int" else "0, 60"
        raise ParameterError(f"a mean is of numbers between two ends, as Interval({ends}), got declared values")
    refused: DomainError | ParameterError | None
    found, refused = 0, None
    for key in kinds:
        try:
            m = make(key, inputs, epsilon)
            replace(question, repeats=repeats).check(m)
            error, half = error_of_answer(question, m, people, f, repeats)
            yield key, m, (error, half + question.rounding(m))
            found += 1
        except (DomainError, ParameterError) as why:
            refused = why
    if not found and refused:
        raise refused


def in_steps(question: Question[Any], inputs: Inputs) -> str:
    """In what the error of a quantile is, where it is not in the unit of numbers."""
    unit = question.error_unit(inputs)
    return f", in {unit}," if unit else ""


def spread(frequency: float | None, inputs: Inputs) -> str:
    """Of which people the errors of answers are."""
    if frequency is None:
        return "if people are spread evenly over the values"
    near = "have each value" if isinstance(inputs, Domain | WholeNumbers) else "are in each unit of the numbers"
    return f"if {100 * frequency:.4g} % of the people {near} near it"


def of_smooth(names: Iterable[str], question: Question[Any]) -> str:
    """Why square_wave asks for so many people, if it is among these mechanisms, of all that is asked but means."""
    return f" {_SMOOTH}" if question.name != "mean" and SquareWave.name in names else ""


_SMOOTH = (
    "square_wave: its intervals hold for every population, and are wide for that. Of smooth ones its estimates are "
    "nearer (100,000 people at epsilon 1: its curve is 0.44 % off on average, a tree's 0.89 %), of heaps they are not "
    "(30 % at one value: up to 15 %, a tree's 3 %)."
)


_MOVES = (
    "moves: by how much a false report moves one count, or all counts together, at most; an honest one moves its count "
    "by 1 on average."
)
_MOVES_SUM = "moves: by how much a false report moves the sum of the numbers at most."


def _recommendation(
    choice: Choice, domain: Domain | int, epsilon: float, n: int, f: float, errors: Callable[..., tuple[float, float]]
) -> Recommendation:
    d = domain if isinstance(domain, int) else domain.size
    p, q = _probabilities(choice, domain, epsilon)
    error = errors(Error.of(p, q, d))
    listed = d if isinstance(domain, int) else domain.listed
    most = min(choice.supported(listed, epsilon), d)  # (q is at most 1/2: to support moves a count more than not to)
    costs = choice.report_bytes(d, epsilon), choice.server_operations(d, epsilon)
    lies = Influence((1 - q) / (p - q), (most * (1 - q) + (d - most) * q) / (p - q))
    return Recommendation(choice.name, choice.variant, domain, epsilon, n, f, *error, *costs, lies)


def _of_mechanism(
    key: str, m: Mechanism, domain: Any, epsilon: float, n: int, error: float, margin: float
) -> Recommendation:
    name, _, variant = key.partition(":")
    if key in CHOICES:
        choice, d = CHOICES[key], m.domain.size
        size, operations = choice.report_bytes(d, epsilon), choice.server_operations(d, epsilon)
    else:
        kind = m.reports.arrow_type()
        listed = pa.types.is_fixed_size_list(kind)
        bits = kind.list_size * kind.value_type.bit_width if listed else kind.bit_width
        size, operations = -(-bits // 8), kind.list_size if listed else 1
    costs = (size, operations, m.influence())
    return Recommendation(name, variant or None, domain, epsilon, n, None, error, margin, *costs)


def _ranked(rows: list[Recommendation]) -> tuple[Recommendation, ...]:
    """In order of the error; of all whose error is nearly the least that is left, what costs the least comes first."""
    left, out = list(rows), []
    while left:
        least = min(map(_error, left))
        left.sort(key=lambda r: (r.server_operations, r.bytes_per_report, _error(r)))
        first = next(r for r in left if _error(r) <= _NEARLY * least)
        for r in left:
            if _error(r) <= _NEAR * least and _FAR * r.server_operations < first.server_operations:
                first = r
                break
        out.append(first)
        left.remove(first)
    return tuple(out)


def _error(row: Recommendation) -> float:
    """By which rows are ranked; of a question's answers intervals say more, as they have bias and cells in them."""
    if math.isinf(row.margin):  # (curves of a share of too few people: last)
        return _LONG * row.standard_error
    return row.standard_error if row.ask is None else row.margin


_NEARLY, _NEAR = 1.01, 1.02
_FAR = 100  # times the operations: of 5,000 values local hashing takes 24 s where projective geometry takes 3 s


def of_each(repeats: int) -> str:
    """How many reports a person sends, in words, if it is not one."""
    return "" if repeats == 1 else f" Each of them sends {repeats} reports."


def _notes(kind: str, frequency: float | None, population: Population) -> list[str]:
    """What the errors of a table are of."""
    whom = whom_of(population, "these people")
    if kind == "prefixes":
        return []
    if kind == "interval":
        return [f"std.error: of noise alone, in the worst case. 95% within: the mean {whom}."]
    typical = "1 in d" if frequency is None else f"{100 * frequency:.4g} %"
    any_share = "any share" if frequency is None else "this share"
    return [f"std.error: of noise alone, of a value that {typical} of the people has. 95% within: {any_share} {whom}."]


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
    """
    error = resolve(mechanism, domain, epsilon)
    return math.sqrt(error.n_variance(error.share(frequency)) / (check_integer("n", n, 1) * check_group(group)))


def of_group(population: Population, group: float) -> Population:
    """That of a group, which is such a share of it."""
    return max(round(population * group), 1) if isinstance(population, int) else population


def whom_of(population: Population, people: str) -> str:
    """Whose share or mean it is, in words."""
    if population is None:
        return f"of {people}"
    size = f" of {population:,}" if isinstance(population, int) else ""
    return f"of a population{size} that {people} are a random sample of"


_ASK_OF_CELLS = 'of cells say what is asked: ask="median", or another question'


def resolve(mechanism: Any, domain: Values | None, epsilon: float | None) -> Error:
    """The error of a mechanism, or of a choice."""
    if isinstance(mechanism, Mechanism | Margin):
        if domain is not None or epsilon is not None:
            raise ParameterError("a mechanism has its domain and epsilon: give them with a name or a class only")
        return error_of(mechanism)
    name = getattr(mechanism, "name", None) if isinstance(mechanism, type) else mechanism
    if isinstance(name, str) and name in _NUMBERS:
        if name in _TREES:
            raise ParameterError(f'say what {name} is asked for: ask="median", or another question')
        if not isinstance(domain, Interval | Prefixes) or epsilon is None:
            kind = "texts, Prefixes" if name == HeavyHitters.name else "numbers, as Interval(0, 60)"
            given = f"domain of type {type(domain).__name__} and epsilon {epsilon}"
            raise ParameterError(f"{name} is for {kind}, and needs epsilon: got {given}")
        return error_of(_NUMBERS[name](domain, epsilon=check_epsilon("epsilon", epsilon)))
    choice = choice_named(name)
    if domain is None or epsilon is None:
        raise ParameterError(f"{choice.name} needs domain (the values, or how many) and epsilon")
    d = _values(domain)
    if not isinstance(d, int | Domain):
        kind = f"{choice.name} is for declared values, got {type(d).__name__}"
        raise ParameterError(_ASK_OF_CELLS if isinstance(d, Cells) else kind)
    if choice.key not in keys_for(d):
        choice.make(d, epsilon)  # type: ignore[arg-type]  # refuses it
    return Error.of(*_probabilities(choice, d, check_epsilon("epsilon", epsilon)), d if isinstance(d, int) else d.size)


def keys_for(values: Any) -> list[str]:
    """The names of all mechanisms for such values: where some are none of them, not every mechanism can say so."""
    none = getattr(values, "unmatched", "") == "none"
    return list(KINDS.get(type(values)) or (key for key in CHOICES if CHOICES[key].none >= none))


def _probabilities(choice: Choice, values: Domain | int, epsilon: float) -> tuple[float, float]:
    """Of so many codes: "none" is one more (projective geometry tells it apart)."""
    return choice.probabilities(values if isinstance(values, int) else values.listed, epsilon)


def _values(values: Any) -> int | Domain | Interval | Cells | Prefixes:
    if isinstance(values, Interval | Cells | Prefixes):
        return values
    if isinstance(values, Domain) or (isinstance(values, Iterable) and not isinstance(values, str)):
        return Domain.of(values)
    return check_integer("values", values, 2, 2**31 - 1)


def check_group(group: float) -> float:
    """Return ``group``, a share of the people that is not 0."""
    share = float(check_probability("group", group))
    if not share:
        raise ParameterError("group must be a share of the people in (0, 1], got 0")
    return share
