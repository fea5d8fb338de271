"""Plans over several columns with the exact distribution of their reports; kinds of mechanisms to recommend."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from ldp_core import Domain, FakeDataColumn, Keystream, PrivacyPlan, RandomizedResponse, UnaryEncoding
from ldp_core.exact import sampling
from ldp_core.mechanisms.catalog import CHOICES

from ..checks import by_numpy
from ..enumeration import Branching, Table, worst_ratio

NAMES = {"GRR": "randomized_response", "OUE": "unary_encoding", "SUE": "unary_encoding:symmetric"}
close = pytest.approx
names = st.sampled_from(sorted(CHOICES))
sizes = st.integers(2, 400)
epsilons = st.floats(0.01, 10)


def exactly(value):
    return close(value, rel=1e-10, abs=0)


def precision(name):
    """Closed forms of others may leave out what is small: two hashes collide with not quite probability 1 / g."""
    return 1e-9 if name in NAMES.values() else 1e-6


def mechanism(name, d, epsilon):
    return CHOICES[name].make(Domain(range(d)), epsilon)


AB, ABC = ["a", "b"], ["a", "b", "c"]


# ---- the joint distribution of all reports of a record, exactly


def exact_table(plan, record) -> Table:
    """Probability of each tuple of reports of one record."""
    inner = [m.inner if hasattr(m, "inner") else m for m in plan.columns.values()]
    ends = [tuple(map(int, m._ends)) for m in plan.columns.values() if getattr(m, "prior", None)]
    noise = Branching({m.thresholds[1]: m.domain.size for m in inner if isinstance(m, UnaryEncoding)}, *ends[:1])
    values = {name: pa.array([value]) for name, value in zip(plan.columns, record, strict=True)}

    def reports() -> tuple[str, ...]:
        made = plan.perturb_columns(values, None, packed=False)
        return tuple(str(made[name].to_pylist()[0]) for name in plan.columns)

    with pytest.MonkeyPatch.context() as patch:
        by_numpy(patch)
        patch.setattr(sampling, "bernoulli_bits", noise.bernoulli_bits)
        patch.setattr(sampling, "uniform_below", noise.uniform_below)
        patch.setattr(Keystream, "words", lambda _stream, n, lane=0: noise.words(n, lane))
        return noise.table(reports)


@cache
def table_of(name, record) -> Table:
    """That of one of `PLANS`."""
    return exact_table(PLANS[name], record)


def records_of(plan) -> list[tuple]:
    return list(itertools.product(*(m.domain.labels for m in plan.columns.values())))


def tables_of(plan) -> dict[tuple, Table]:
    return {record: exact_table(plan, record) for record in records_of(plan)}


def worst_of(tables, *, differing=None) -> Fraction:
    """The largest ratio over all reports, and all pairs of records, or those that differ in so many columns."""
    if differing is None:
        return worst_ratio(list(tables.values()))
    return max(
        worst_ratio([tables[one], tables[other]])
        for one, other in itertools.combinations(tables, 2)
        if differing == sum(a != b for a, b in zip(one, other, strict=True))
    )


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
