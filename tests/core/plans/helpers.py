"""Plans over several columns with the exact distribution of their reports; kinds of mechanisms to recommend."""

from __future__ import annotations

import itertools
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from ldp_core import Domain, FakeDataColumn, Keystream, PrivacyPlan, RandomizedResponse, UnaryEncoding
from ldp_core.exact import sampling
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms import catalogue
from ldp_core.mechanisms.catalogue import CHOICES
from ldp_core.plans import recommend as module

NAMES = {
    "GRR": "randomized response",
    "OUE": "unary encoding, optimized",
    "SUE": "unary encoding, symmetric",
}
close = pytest.approx
names = st.sampled_from(sorted(CHOICES))
sizes = st.integers(2, 400)
epsilons = st.floats(0.01, 10)


def only(monkeypatch, *some):
    """Only these rows of the table, until the test ends."""
    table = {name: CHOICES[name] for name in some}
    for user in (catalogue, module):
        monkeypatch.setattr(user, "CHOICES", table)


def exactly(value):
    return close(value, rel=1e-10, abs=0)


def precision(name):
    """Closed forms of others may leave out what is small: two hashes collide with not quite probability 1 / g."""
    return 1e-9 if name in NAMES.values() else 1e-6


def mechanism(name, d, epsilon):
    return CHOICES[name].make(Domain(range(d)), epsilon)


# ---- planted faults


def fails(test, *arguments):
    with pytest.raises((AssertionError, ExceptionGroup)):
        test(*arguments)


AB, ABC = ["a", "b"], ["a", "b", "c"]


# ---- the joint distribution of all reports of a record, exactly


class Branching:
    """Runs a function once for each combination of the random decisions that it asks for, with its probability.

    What is seen of a byte of decisions: ``bits[threshold]`` of them, else one. A word for a fake value is one of
    each interval between ``ends``.
    """

    def __init__(self, bits: dict[int, int], ends: tuple[int, ...]) -> None:
        self.bits, self.ends = bits, [0, *ends, ONE]
        self.choices: list[int] = []
        self.sizes: list[int] = []
        self.probability = Fraction(1)

    def decide(self, probabilities: list[Fraction]) -> int:
        at = len(self.sizes)
        self.sizes.append(len(probabilities))
        if at == len(self.choices):
            self.choices.append(0)
        self.probability *= probabilities[self.choices[at]]
        return self.choices[at]

    def bernoulli_bits(self, threshold, n_bytes, _source):
        assert n_bytes in (0, 1)
        one = Fraction(threshold, ONE)
        seen = [self.decide([1 - one, one]) for _ in range(self.bits.get(threshold, 1) * n_bytes)]
        return np.packbits(np.array(seen + seen[:1] * (8 * n_bytes - len(seen)), np.uint8), bitorder="little")

    def uniform_below(self, d, n, _source):
        assert n in (0, 1)
        return np.array([self.decide([Fraction(1, d)] * d) for _ in range(n)], np.uint8)

    def words(self, _stream, n, _lane):
        shares = [Fraction(b - a, ONE) for a, b in itertools.pairwise(self.ends)]
        return np.array([self.ends[self.decide(shares)] for _ in range(n)], np.uint64)

    def next_run(self) -> bool:
        while self.choices and self.choices[-1] == self.sizes[-1] - 1:
            self.choices.pop()
            self.sizes.pop()
        if not self.choices:
            return False
        self.choices[-1] += 1
        self.sizes, self.probability = [], Fraction(1)
        return True


def exact_distribution(monkeypatch, plan, record) -> dict[tuple, Fraction]:
    """Probability of each tuple of reports of one record."""
    inner = [m.inner if hasattr(m, "inner") else m for m in plan.columns.values()]
    bits = {m.thresholds[1]: m.domain.size for m in inner if isinstance(m, UnaryEncoding)}
    ends = [tuple(map(int, m._ends)) for m in plan.columns.values() if getattr(m, "prior", None)]
    branching = Branching(bits, ends[0] if ends else ())
    monkeypatch.setattr(sampling, "bernoulli_bits", branching.bernoulli_bits)
    monkeypatch.setattr(sampling, "uniform_below", branching.uniform_below)
    monkeypatch.setattr(Keystream, "words", lambda stream, n, lane=0: branching.words(stream, n, lane))
    batch = pa.record_batch({name: [value] for name, value in zip(plan.columns, record, strict=True)})
    result: dict[tuple, Fraction] = defaultdict(Fraction)
    while True:
        reports = plan.perturb(batch, packed=False).to_pylist()[0]
        result[tuple(map(str, reports.values()))] += branching.probability
        if not branching.next_run():
            monkeypatch.undo()
            assert sum(result.values()) == 1
            return dict(result)


def tables_of(monkeypatch, plan) -> dict[tuple, dict[tuple, Fraction]]:
    records = itertools.product(*(m.domain.labels for m in plan.columns.values()))
    return {record: exact_distribution(monkeypatch, plan, record) for record in records}


def worst_ratio(tables, *, differing=None) -> Fraction:
    """The largest ratio over all reports, and all pairs of records, or those that differ in so many columns."""
    worst = Fraction(0)
    for one, other in itertools.permutations(tables, 2):
        if differing is None or sum(a != b for a, b in zip(one, other, strict=True)) == differing:
            a, b = tables[one], tables[other]
            assert set(a) == set(b), "an output that some record cannot give"
            worst = max(worst, *(a[o] / b[o] for o in a))
    return worst


def grr(values, epsilon=1.0):
    return RandomizedResponse(values, epsilon=epsilon)


def oue(values, epsilon=1.0, variant="optimized"):
    return UnaryEncoding(values, epsilon=epsilon, variant=variant)


def fake_of(mechanisms, **options):
    """A fake-data plan whose columns are all faked alike."""
    return PrivacyPlan({n: FakeDataColumn(m, columns=len(mechanisms), **options) for n, m in mechanisms.items()})


PLANS = {
    "sampled GRR, GRR": PrivacyPlan.sampled({"x": grr(AB), "y": grr(ABC)}, epsilon=1),
    "sampled OUE, SUE": PrivacyPlan.sampled({"x": oue(AB, 0.5), "y": oue(AB, 0.5, "symmetric")}, epsilon=0.5),
    "sampled GRR, OUE": PrivacyPlan.sampled({"x": grr(ABC, 3.0), "y": oue(AB, 3.0)}, epsilon=3),
    "sampled 3 GRR": PrivacyPlan.sampled(dict.fromkeys("xyz", grr(AB)), epsilon=1),
    "fake GRR, GRR": fake_of({"x": grr(AB), "y": grr(AB)}),
    "fake GRR, GRR of other sizes": fake_of({"x": grr(AB, 2.0), "y": grr(list(range(3)), 2.0)}),
    "fake OUE of nothing": fake_of({"x": oue(AB), "y": oue(AB)}, fake="none"),
    "fake OUE of a value": fake_of({"x": oue(AB), "y": oue(AB)}, fake="uniform"),
    "fake GRR, OUE": PrivacyPlan.fake({"x": grr(ABC, 1.5), "y": oue(AB, 1.5)}, epsilon=1.5),
    "fake 3 GRR": PrivacyPlan.fake(dict.fromkeys("xyz", grr(AB, 0.7)), epsilon=0.7),
    "prior GRR": PrivacyPlan.fake({"x": grr(ABC), "y": grr(AB)}, epsilon=1, priors={"x": [0.7, 0, 0.1]}),
    "prior OUE": PrivacyPlan.fake({"x": oue(AB), "y": oue(AB)}, epsilon=1, priors={"y": [1, 5]}),
}


def answered(reports) -> list[bool]:
    """Which reports are neither null nor a list of nulls."""
    return [r is not None and not (isinstance(r, list) and r == [None] * len(r)) for r in reports.to_pylist()]
