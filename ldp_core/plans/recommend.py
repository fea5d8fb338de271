"""Which mechanism, how many reports, what epsilon: planning before any data exist, from closed forms.

Most of it follows from the two probabilities of a pure protocol (Wang, Blocki, Li, Jha, USENIX Security 2017): with
n reports, a value of true frequency f is estimated with variance (ibid., Theorem 2)

    variance = (f p (1 - p) + (1 - f) q (1 - q)) / (n (p - q)^2)        + f (1 - f) / n

the second term where f is the share of a population of which the n people are a random sample. The probability of a
larger error than a margin is bounded as `ldp_core.estimates.tails` bounds it, which is nearly normal for many people.
Of numbers the error is the mean's, in their own unit, see `Numeric.variance`; of heavy hitters it is
`HeavyHitters.reports_to_find`. What can be recommended is a table, `ldp_core.mechanisms.catalog`.

Of a question (a range, a median, a curve) the error is what the question itself says of the tally that people who are
spread evenly over the values have on average: `Question.expected_error`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.accounting.binomials import normal_tail
from ldp_core.arrays.types import F64
from ldp_core.errors import ParameterError, no_warning_of_epsilon
from ldp_core.estimates.base import Population, Question, check_population, sampled_part
from ldp_core.estimates.mean import MeanEstimate, off_of
from ldp_core.estimates.registry import Ask, question_of
from ldp_core.estimates.tails import few_at, least_beyond, least_that, scores_of_few, two_point_score
from ldp_core.exact.probability import check_resolved
from ldp_core.inputs.base import Inputs
from ldp_core.inputs.cells import MOST_CELLS, Cells
from ldp_core.inputs.dates import Dates
from ldp_core.inputs.domain import Domain, Label
from ldp_core.inputs.interval import Interval, WholeNumbers
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.catalog import CHOICES, Choice, choice_named
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters, chance_of_none
from ldp_core.mechanisms.numbers.base import Numeric
from ldp_core.mechanisms.numbers.means import Hybrid, NOutput, OneBitMean, Piecewise
from ldp_core.mechanisms.numbers.square_wave import SquareWave
from ldp_core.mechanisms.numbers.stochastic_rounding import StochasticRounding
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.mechanisms.ranges.hierarchical import HierarchicalHistogram
from ldp_core.mechanisms.sketches.base import Sketch
from ldp_core.parameters import check_epsilon, check_integer, check_probability, shown
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
        margin: with a probability of 95 % the error is less; of heavy hitters, the share that is found.
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
        size = self.domain if isinstance(self.domain, int) else self.domain.listed
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
    return f"{100 * share:.4g} %"


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
        f = _check_frequency(frequency, domain if isinstance(domain, int) else domain.size)

        def errors(error: Error) -> tuple[float, float]:
            each = error.repeated(repeats)
            margin = each.margin(reports, 0.05, ANY if frequency is None else (f, f), whom)
            return math.sqrt(each.n_variance(f) / reports), margin

        made = [_recommendation(choice, domain, e, people, f, errors) for choice in CHOICES.values()]
    else:
        _refuse_frequency(frequency)
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
        smooth = any(row.name == SquareWave.name and question.name != "mean" for row in fitting)
        note = f"Asked: {question.name} {whom_of(population, 'these people')}. std.error and within: of the answer, "
        note += f"{spread(frequency)}.{cells}"
        note += of_each(repeats)
        return Table(_ranked(fitting), note=f"{note} {_SMOOTH}" if smooth else note)
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
    said = ask.to_dict() if isinstance(ask, Question) else ask
    question = question_of(said, confidence=1 - beta, population=None if population is None else "many")
    return question, inputs, _ASKED.get(type(inputs), ())


def make(key: Any, inputs: Inputs, epsilon: float) -> Mechanism:
    """The mechanism of a name, or of a class; or itself."""
    if isinstance(key, Mechanism):
        return key
    name = getattr(key, "name", None) if isinstance(key, type) else key
    if isinstance(name, str) and name in _NUMBERS:
        made: Mechanism = _NUMBERS[name](inputs, epsilon=epsilon)
        return made
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
        alone, both = (np.square(error_of_answer(one, m, n, frequency)) for one in ways)
        kept = (1 + (repeats - 1) * m.common_noise(keyed=False)) / repeats
        error, half = np.sqrt(kept * alone + np.maximum(both - alone, 0)).tolist()
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
    if repeats > 1 and isinstance(question, MeanEstimate):
        raise ParameterError("of a mean leave out ask=: what repeats changes is known of the mechanism, and not of it")
    if isinstance(inputs, Domain) and isinstance(question, MeanEstimate):
        ends = f"{min(inputs.values)}, {max(inputs.values)}" if inputs.kind == "int" else "0, 60"
        raise ParameterError(f"a mean is of numbers between two ends, as Interval({ends}), got declared values")
    found, refused = 0, ParameterError(f"no question is asked of {type(inputs).__name__} in advance")
    for key in kinds:
        try:
            m = make(key, inputs, epsilon)
            replace(question, repeats=repeats).check(m)
            yield key, m, error_of_answer(question, m, people, f, repeats)
            found += 1
        except ParameterError as why:
            refused = why
    if not found:
        raise refused


def spread(frequency: float | None) -> str:
    """Of which people the errors of answers are."""
    if frequency is None:
        return "if people are spread evenly over the values"
    return f"if {100 * frequency:.4g} % of the people have each value near it"


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
    p, q = choice.probabilities(d, epsilon)
    error = errors(Error.of(p, q, d))
    most = choice.supported(d, epsilon)  # (q is at most 1/2: to support moves a count more than not to)
    costs = choice.report_bytes(d, epsilon), choice.server_operations(d, epsilon)
    lies = Influence((1 - q) / (p - q), (most * (1 - q) + (d - most) * q) / (p - q))
    return Recommendation(choice.name, choice.variant, domain, epsilon, n, f, *error, *costs, lies)


def _of_mechanism(
    key: str, m: Mechanism, domain: Any, epsilon: float, n: int, error: float, margin: float
) -> Recommendation:
    name, _, variant = key.partition(":")
    if key in CHOICES:
        choice, d = CHOICES[key], m.inputs.listed or 0
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


# ---- what is known of an error


Shares: TypeAlias = tuple[float, float]
"""The least and the greatest share that the value may have that is asked about."""
ANY: Shares = (0.0, 1.0)


class Error(NamedTuple):
    """What is known of the error of an estimate."""

    n_variance: Callable[[float], float]
    """n times its variance, of noise alone, from the true frequency."""
    together: int
    """How many estimates there are: d."""
    ends: tuple[float, float] | None = None
    """The least and the greatest that a report adds to an estimated count; None: its error is taken for normal."""
    finds: Callable[[float, float, float], bool] | None = None
    """Of heavy hitters, whether so many reports find a value of such a share, but for beta."""
    length: float = 0.0
    """Of the interval of numbers, of whose mean it is the error; 0 of a frequency."""
    step: float = 0.0
    """Half of what the values of two reports of numbers differ by at most: rare ones are so far off."""
    common: float = 0.0
    """The part of the noise that all reports of a person share."""
    tails: Callable[[F64, Any], F64] | None = None
    """Those of the noise, which are taken to be those of the error: `FrequencyOracle.tails`."""
    off: float = 0.0
    """By how much the expectation of a mean may be off, `off_of`."""
    collided: tuple[F64, F64] | None = None
    """Of a sketch, `Sketch.collided`: all people with other values are taken to have one, which is the worst."""
    apart: int = 1
    """How many reports of a person have noise of their own: each moves the person's mean so many times less."""

    def repeated(self, reports: int) -> Error:
        """That of people who send so many reports each: the mean of a person's reports, of a value that stays."""
        if self.finds and reports > 1:
            raise ParameterError("heavy hitters are found from one report of each person: leave out repeats")
        part = (1 + (reports - 1) * self.common) / reports
        apart = 1 if self.common else reports
        return self._replace(n_variance=lambda f: part * self.n_variance(f), apart=apart)

    @classmethod
    def of(cls, p: float, q: float, d: int) -> Error:
        """That of a pure protocol."""
        check_resolved(0, lambda: (p, q), " * values")
        ends = (-q / (p - q), (1 - q) / (p - q))
        return cls(lambda f: (f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2, d, ends)

    def share(self, frequency: float | None) -> float:
        """The frequency, checked; by default that of one value in d."""
        if self.length:
            _refuse_frequency(frequency)
        return _check_frequency(frequency, self.together)

    def variance(self, f: float, sampled: float, collided: float = 0.0) -> float:
        """``n`` times the variance of what is asked about; ``sampled`` as `sampled_part` has it.

        With the collisions among so many reports.
        """
        # Of numbers: at most, where half of the people are at each end, or of reports where half are.
        made = self.n_variance(f) + sampled * (self.length**2 / 4 if self.length else f * (1 - f))
        if self.collided is not None:
            moves, chances = self.collided
            made += collided * (1 - f) ** 2 * float(chances @ moves**2)
        return min(made, self.step**2) if self.step else made

    def worst(self, shares: Shares, sampled: float, n: float) -> float:
        """The share of the greatest variance, a polynomial of degree 2, or the greatest of some for each value."""
        at0, middle, at1 = (self.variance(f, sampled, n) for f in (0.0, 0.5, 1.0))
        bend = 2 * (at0 + at1 - 2 * middle)
        least, most = shares
        top = min(max(-(at1 - at0 - bend) / (2 * bend), least), most) if bend < 0 else least
        return max(least, most, top, key=lambda f: self.variance(f, sampled, n))

    def _score(self, shares: Shares, n: float, population: Population) -> tuple[float, Callable[[Any], F64]]:
        """The variance, and from margins, one number or float64[2], how improbable an error beyond is, on either side.

        Of the share with the greatest variance.
        """
        sampled = part_of(population, n)
        f = self.worst(shares, sampled, n)
        variance = self.variance(f, sampled)
        score = self._score_of_reports(f, n, variance, sampled)
        if self.collided is None:
            return variance, score
        moves, chances = self.collided
        moved = (1 - f) * moves[:, None] * [1, -1]

        def of_all(margin: Any) -> F64:
            left = margin - moved
            tails = chances @ normal_tail(np.copysign(score(np.abs(left)), left))
            return np.array([-NormalDist().inv_cdf(min(max(tail, 1e-300), 0.5)) for tail in tails])

        return variance, of_all

    def _score_of_reports(self, f: float, n: float, variance: float, sampled: float) -> Callable[[Any], F64]:
        """That of all but collisions, from margins, float64[..., 2] or one number."""
        errors, k = math.sqrt(n / max(variance, 1e-300)), self.apart
        n, variance, drawn = n * k, variance * k, k * (sampled > 0)  # (who is in the sample is k reports alike)
        if (tails := self.tails) is not None:
            return lambda margin: tails(np.broadcast_to(margin, 2) * errors, n)
        if self.ends is None:

            def of_coins(margin: Any) -> F64:
                z = margin * np.full(2, errors)
                step = max(self.step, drawn * self.length / 2)
                some = n * variance < self._few(z, variance / k) * step**2
                return scores_of_few(z, some, n, 1 / errors, step / n) if some.any() else z

            return of_coins
        least, greatest = self.ends
        # Of these people, those who have the value add 1 on average, and the others 0.
        below, above = (f, f) if sampled == 1 and k == 1 else (0.0, 1.0)
        reach, reports = np.maximum([greatest - below, above - least], drawn * (k > 1)), np.full(2, n)
        return lambda margin: two_point_score(reports * margin, reports, reports * variance, reach)

    def _few(self, z: Any, variance: float) -> Any:
        """How many coins are few: of bits of which half are 1 more, as their sums are on a lattice."""
        bits = variance > (1 - 1e-9) * self.step**2
        return np.maximum(few_at(z), _FEW_BITS * bits)

    def suffices(self, reports: float, margin: float, beta: float, shares: Shares, population: Population) -> bool:
        """Whether so many reports keep the margin."""
        if self.finds is not None:
            return self.finds(reports, margin, beta)
        score = self._score(shares, reports, population)[1]
        return margin > self.off and bool(score(margin - self.off).min() >= _z(beta))

    def reports(self, margin: float, beta: float, shares: Shares, population: Population) -> float:
        """How many reports a margin takes: the least that `suffices`."""
        if margin <= self.off:
            return math.inf
        variance = self._score(shares, 1.0, population)[0]
        normal, known = (_z(beta) / (margin - self.off)) ** 2 * variance, self.finds or self.ends
        many = normal > _UNTOLD if known else normal * variance >= self._few(_z(beta), variance) * self.step**2
        if many and not self.finds and self.collided is None and not isinstance(population, int):
            return normal
        return least_that(lambda n: self.suffices(n, margin, beta, shares, population), max(normal, 1e-3))

    def margin(self, reports: float, beta: float, shares: Shares, population: Population) -> float:
        """The inverse of `reports`."""
        if self.finds is not None:
            low, high = 0.0, 1.0
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (low, middle) if self.finds(reports, middle, beta) else (middle, high)
            return high
        variance, score = self._score(shares, reports, population)
        normal = _z(beta) * math.sqrt(variance / reports)
        return self.off + float(least_beyond(_z(beta), score, np.full(2, max(normal, 1e-12))).max())


_FEW_BITS = 36  # (of 43 and more a margin is missed in 6.6 % or less)
_UNTOLD = 1e18  # people: a normal sum takes fewer by less than one in 10^8, and doubles do not tell larger tails


def _z(beta: float) -> float:
    """What a normal variable exceeds on either side with a probability of beta."""
    return -NormalDist().inv_cdf(beta / 2)


def part_of(population: Population, n: float) -> float:
    """`sampled_part`; 0 if more are asked for than there are."""
    return float(sampled_part(population, min(n, population) if isinstance(population, int) else n))


def of_group(population: Population, group: float) -> Population:
    """That of a group, which is such a share of it."""
    return max(round(population * group), 1) if isinstance(population, int) else population


def whom_of(population: Population, people: str) -> str:
    """Whose share or mean it is, in words."""
    if population is None:
        return f"of {people}"
    size = f" of {population:,}" if isinstance(population, int) else ""
    return f"of a population{size} that {people} are a random sample of"


def error_of(m: Mechanism) -> Error:
    """The error of a mechanism, which knows it best."""
    n = _MANY
    if isinstance(m, FrequencyOracle):
        moves = m.extremes() if math.isfinite(m.parts[1]) else []
        ends = (min(float(x.min()) for x in moves), max(float(x.max()) for x in moves)) if moves else None
        common = m.common_noise(keyed=m.memoized)
        moved = m.collided() if m.collided else None
        return Error(
            lambda f: float(m.variance(n, n * f)) / n, m.domain.size, ends, common=common, tails=m.tails, collided=moved
        )
    if isinstance(m, Numeric):
        length, (low, high) = m.domain.high - m.domain.low, m.value_bounds()
        return Error(lambda _: m.variance(1), 1, length=length, step=length * (high - low) / 2, off=off_of(m))
    if isinstance(m, HeavyHitters):
        levels = len(m.levels)
        one = Error.of(m.p, chance_of_none(m), 2)
        return Error(
            lambda f: levels * one.n_variance(f) + (levels - 1) * f * (1 - f), m.least_candidates, finds=m.finds
        )
    if isinstance(m, Sketch):
        p, q = (float(x) for x in m.support_probabilities())
        return Error.of(p, q, 1)._replace(together=_FEW, collided=m.collided())
    raise ParameterError(f"the error of {m.name} is not known before there are reports")


_ASK_OF_CELLS = 'of cells say what is asked: ask="median", or another question'
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
    d = d if isinstance(d, int) else d.size
    return Error.of(*choice.probabilities(d, check_epsilon("epsilon", epsilon)), d)


def _values(values: Any) -> int | Domain | Interval | Cells | Prefixes:
    if isinstance(values, Interval | Cells | Prefixes):
        return values
    if isinstance(values, Domain) or (isinstance(values, Iterable) and not isinstance(values, str)):
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
