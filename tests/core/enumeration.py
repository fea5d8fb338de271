"""Exact probabilities of reports, from the code that perturbs: it is run on every outcome of its random decisions.

`Every` gives each outcome to another record, in one run; `Branching` makes one run an outcome, for code whose next
decision depends on the last one.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ldp_core import FrequencyOracle
from ldp_core.exact.sampling import ONE
from ldp_core.noise.base import kept_or_drawn

from .checks import exact_ln

Table = dict[Any, Fraction]
"""The probability of each report."""


class Every:
    """Noise for as many records as there are combinations of decisions, of which each record takes another one.

    Args:
        draw: reports of codes under noise, such as a mechanism's ``perturb_codes``.
        code: of all records.
        dtype: of the codes.
        seen: bits of a row that can be seen; all others are 1.
        given: what a decision comes to that is not enumerated, by its lane.

    A lane is a number, or "persons 2" and "instantaneous 0" for those of other noise.
    """

    def __init__(
        self,
        draw: Callable[..., Any],
        code: int = 0,
        *,
        dtype: Any = np.uint8,
        seen: int = 0,
        given: Mapping[Any, int] | None = None,
    ) -> None:
        self.seen, self.given, self.n = seen, dict(given or {}), 1
        self.outcomes: dict[Any, Any] = {}  # of each lane, int[n]
        self._cases: dict[Any, tuple[Any, Any]] = {}  # of each lane: int[n], and the chances of the cases
        self._sizes: dict[Any, int] = {}
        draw(np.array([code], dtype), _Lanes(self, ""))  # which decisions are there?
        sizes = {lane: size for lane, size in self._sizes.items() if lane not in self.given}
        self.n = math.prod(sizes.values())
        indices = np.indices(list(sizes.values())).reshape(len(sizes), self.n)
        self.outcomes, self._sizes = dict(zip(sizes, indices, strict=True)), {}
        self.reports = np.asarray(draw(np.full(self.n, code, dtype), _Lanes(self, "")))

    def decide(self, lane: Any, size: int, chances: Any, n: int, places: Any = 0) -> Any:
        """int[n], below ``size``; the chances are those of each outcome, one after the other for each place."""
        assert n == self.n
        assert lane not in self._sizes, "two decisions in one lane"
        outcome = self.outcomes.get(lane, np.full(n, self.given.get(lane, 0)))
        self._sizes[lane], self._cases[lane] = size, (outcome + size * places, chances)
        return outcome

    def _weights(self) -> tuple[Any, int]:
        """The probability of each record: integers, and the number that they are parts of."""
        weights, whole = np.ones(self.n, object), 1
        for lane in self.outcomes:
            case, chances = self._cases[lane]
            if isinstance(chances, Fraction):
                whole *= chances.denominator
            else:
                parts = math.lcm(*(chance.denominator for chance in chances))
                weights *= np.array([int(chance * parts) for chance in chances], object)[case]
                whole *= parts
        return weights, whole

    def mean(self, values: Any) -> Fraction:
        """Of values, one a record; of Booleans, the probability that they are true."""
        weights, whole = self._weights()
        return Fraction((weights * np.asarray(values, object)).sum()) / whole

    @property
    def table(self) -> Table:
        """The probability of each report, a number or a tuple of numbers."""
        weights, whole = self._weights()
        table: dict[Any, int] = defaultdict(int)
        for report, weight in zip(self.reports.tolist(), weights.tolist(), strict=True):
            table[tuple(report) if isinstance(report, list) else report] += weight
        assert sum(table.values()) == whole
        return {report: Fraction(weight, whole) for report, weight in table.items()}


class _Lanes:
    """`Noise`, of which the decisions are those of `Every`."""

    def __init__(self, every: Every, prefix: str) -> None:
        self.every, self.prefix = every, prefix

    def _decide(self, lane: int, size: int, chances: Any, n: int, places: Any = 0) -> Any:
        return self.every.decide(f"{self.prefix}{lane}" if self.prefix else lane, size, chances, n, places)

    def rows(self, start: int, stop: int) -> _Lanes:
        assert (start, stop) == (0, self.every.n), "one block"
        return self

    def of_persons(self) -> _Lanes:
        return _Lanes(self.every, "persons ")

    def instantaneous(self) -> _Lanes:
        return _Lanes(self.every, "instantaneous ")

    def bernoulli(self, threshold: int, n: int, lane: int) -> Any:
        one = Fraction(threshold, ONE)
        return np.packbits(self._decide(lane, 2, [1 - one, one], n).astype(bool), bitorder="little")

    def uniform_below(self, d: int, n: int, lane: int) -> Any:
        return self._decide(lane, d, Fraction(1, d), n).astype(np.uint32)

    def kept_or_drawn(self, keep: int, codes: Any, d: int, lane: int) -> Any:
        return kept_or_drawn(self, keep, codes, d, lane)

    def one_hot_rows(self, p: int, q: int, position: Any, width: int, lane: int) -> Any:
        seen = self.every.seen
        assert width == 1, "rows of a byte"
        places, which = np.unique(position, return_inverse=True)
        chances = []
        for place in places.tolist():
            ones = [Fraction(p if v == place else q, ONE) for v in range(seen)]
            chances += [
                math.prod(one if row >> v & 1 else 1 - one for v, one in enumerate(ones)) for row in range(1 << seen)
            ]
        rows = self._decide(lane, 1 << seen, chances, len(position), which)
        return (rows | 0xFF << seen & 0xFF).astype(np.uint8)[:, None]


class Branching:
    """Runs a function once for each combination of the random decisions that it asks for, with its probability.

    It is `Noise` for one record, and takes the place of the functions of `ldp_core.exact.sampling`.

    Args:
        seen: bits of a byte of decisions that can be seen, or how many by their threshold (else 1); all others are
            copies of the first one.
        ends: where the intervals end in which a word does not matter.
    """

    def __init__(self, seen: int | Mapping[int, int] = 1, ends: tuple[int, ...] = ()) -> None:
        self._seen, self._ends = seen, [0, *ends, ONE]
        self._choices: list[int] = []  # what each decision comes to in this run
        self._sizes: list[int] = []
        self._probability = Fraction(1)

    def table(self, draw: Callable[[], Any]) -> Table:
        """The probability of each thing that ``draw`` returns."""
        table: Table = defaultdict(Fraction)
        while True:
            self._sizes, self._probability = [], Fraction(1)
            drawn = draw()
            table[drawn] += self._probability
            while self._choices and self._choices[-1] == self._sizes[-1] - 1:
                self._choices.pop()
                self._sizes.pop()
            if not self._choices:
                assert sum(table.values()) == 1
                return dict(table)
            self._choices[-1] += 1

    def decide(self, probabilities: list[Fraction]) -> int:
        at = len(self._sizes)
        self._sizes.append(len(probabilities))
        if at == len(self._choices):
            self._choices.append(0)
        self._probability *= probabilities[self._choices[at]]
        return self._choices[at]

    def bit(self, threshold: int) -> int:
        one = Fraction(threshold, ONE)
        return self.decide([1 - one, one])

    # ---- in place of functions that sample

    def bernoulli_bits(self, threshold: int, n_bytes: int, _source: object) -> Any:
        assert n_bytes <= 1
        seen = self._seen if isinstance(self._seen, int) else self._seen.get(threshold, 1)
        bits = [self.bit(threshold) for _ in range(seen * n_bytes)]
        return np.packbits(np.array(bits + bits[:1] * (8 * n_bytes - len(bits)), np.uint8), bitorder="little")

    def uniform_below(self, d: int, n: int, _lane: object) -> Any:
        assert n <= 1
        return np.array([self.decide([Fraction(1, d)] * d) for _ in range(n)], np.uint8 if d <= 256 else np.uint32)

    def words(self, n: int, lane: int = 0) -> Any:
        shares = [Fraction(b - a, ONE) for a, b in itertools.pairwise(self._ends)]
        return np.array([self._ends[self.decide(shares)] for _ in range(n)], np.uint64)

    # ---- as noise

    def bernoulli(self, threshold: int, n: int, lane: int) -> Any:
        return np.array([self.bit(threshold)], np.uint8)

    def uniform_again(self, d: int, rows: Any, step: int, lane: int) -> Any:
        return self.uniform_below(d, 1, lane)

    def kept_or_drawn(self, keep: int, codes: Any, d: int, lane: int) -> Any:
        return kept_or_drawn(self, keep, codes, d, lane)

    def one_hot_rows(self, p: int, q: int, position: Any, width: int, lane: int) -> Any:
        row = [self.bit(p if v == position[0] else q) for v in range(self._seen)]
        return np.packbits(np.array(row + [0] * (8 * width - self._seen), np.uint8), bitorder="little")[None]

    def rows(self, start: int, stop: int) -> Branching:
        return self

    def with_codes(self, codes: Any) -> Branching:
        return self

    def of_persons(self) -> Branching:
        return self

    def instantaneous(self) -> Branching:
        return self


# ---- what is asked of the tables


def n_codes(m: FrequencyOracle) -> range:
    """All codes that may be perturbed, that of no value too."""
    return range(m.domain.size + (m.domain.unmatched == "none"))


def worst_ratio(tables: list[Table]) -> Fraction:
    """The largest ratio of the probabilities of one report, over pairs of inputs."""
    assert all(table.keys() == tables[0].keys() for table in tables), "a report that some input cannot give"
    return max(max(chances) / min(chances) for chances in ([table[o] for table in tables] for o in tables[0]))


def check_ratio(m: Any, tables: list[Table]) -> None:
    """The largest ratio is the one that the mechanism states, and within its epsilon; so are its two levels."""
    assert worst_ratio(tables) == m.worst_ratio()
    assert exact_ln(m.worst_ratio()) <= Decimal(m.epsilon)
    if m.two_levels:
        check_levels(m, tables)


def check_levels(m: Any, tables: list[Table]) -> None:
    """Each report has one of two probabilities; how far apart two values are, and how probable the greater one is."""
    least, most = ({report: pick(table[report] for table in tables) for report in tables[0]} for pick in (min, max))
    stated: dict[Fraction, Fraction] = dict(m.two_levels)
    for a, b in itertools.permutations(tables, 2):
        assert {chance / least[report] for report, chance in a.items()} <= {1, m.worst_ratio()}
        greater = sum(chance for report, chance in a.items() if chance > least[report])
        constant = sum(chance for report, chance in a.items() if least[report] == most[report])  # of either level
        if a != b:  # of one code for several values
            assert greater <= stated.get(sum(max(a[report] - b[report], 0) for report in a), 0) <= greater + constant


def check_oracle(m: FrequencyOracle, *, seen: int = 0, reports: int | None = None) -> list[Table]:
    """Of each code, each value is supported with probability p or q exactly; every ratio is within epsilon.

    Args:
        m: the mechanism.
        seen: see `Every`.
        reports: how many there are.
    """
    p, q = m.support_probabilities()
    tables = []
    for code in n_codes(m):
        every = Every(m.perturb_codes, code, dtype=m.domain.code_dtype, seen=seen)
        supported = m.count_reports(every.reports, np.arange(every.n), every.n).astype(bool)
        for v in range(m.domain.size):
            assert every.mean(supported[:, v]) == (p[v] if v == code else q[v])
        tables.append(every.table)
    assert reports in (None, len(tables[0]))
    check_ratio(m, tables)
    return tables
