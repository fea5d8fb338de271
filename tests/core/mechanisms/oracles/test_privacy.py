"""The LDP inequality itself: every input, every output, in rational arithmetic; and an audit from samples.

The exact distributions do not come from formulas: the code that perturbs is run on every possible outcome of its
random decisions, each with its exact probability.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import Domain, RandomizedResponse, ThresholdHistogramEncoding, UnaryEncoding
from ldp_core.exact import sampling
from ldp_core.exact.sampling import ONE

from ...checks import empirical_epsilon, exact_ln

Distribution = dict[Hashable, Fraction]
BIT_VECTORS = (UnaryEncoding, ThresholdHistogramEncoding)


class Branching:
    """Runs a function once for each combination of the random decisions that it asks for.

    Of the eight decisions in a byte, those that can be seen in a report of one row are tried both ways; the
    padding is as bad as can be, copies of the first one.
    """

    def __init__(self, m) -> None:
        self.choices: list[int] = []  # what each decision comes to in this run
        self.sizes: list[int] = []
        self.probability = Fraction(1)
        self.seen = {m.thresholds[1]: m.domain.size} if isinstance(m, BIT_VECTORS) else {}

    def decide(self, probabilities: list[Fraction]) -> int:
        at = len(self.sizes)
        self.sizes.append(len(probabilities))
        if at == len(self.choices):
            self.choices.append(0)
        self.probability *= probabilities[self.choices[at]]
        return self.choices[at]

    def bernoulli_bits(self, threshold: int, n_bytes: int, _randomness: object) -> np.ndarray:
        assert n_bytes == 1
        one, seen = Fraction(threshold, ONE), self.seen.get(threshold, 1)
        bits = [self.decide([1 - one, one]) for _ in range(seen)]
        return np.packbits(np.array(bits + bits[:1] * (8 - seen), np.uint8), bitorder="little")

    def uniform_below(self, d: int, n: int, _randomness: object) -> np.ndarray:
        assert n == 1
        return np.array([self.decide([Fraction(1, d)] * d)], np.uint8)

    def next_run(self) -> bool:
        while self.choices and self.choices[-1] == self.sizes[-1] - 1:
            self.choices.pop()
            self.sizes.pop()
        if not self.choices:
            return False
        self.choices[-1] += 1
        self.sizes, self.probability = [], Fraction(1)
        return True


def exact_distribution(monkeypatch, m, value, layout) -> Distribution:
    """Probability of each report of ``value``."""
    branching = Branching(m)
    monkeypatch.setattr(sampling, "bernoulli_bits", branching.bernoulli_bits)
    monkeypatch.setattr(sampling, "uniform_below", branching.uniform_below)
    result: Distribution = defaultdict(Fraction)
    while True:
        output = run_once(m, value, layout)
        result[output] += branching.probability
        if not branching.next_run():
            assert sum(result.values()) == 1
            return dict(result)


def inputs_of(m) -> list[object]:
    """Every label, and a null and an unknown value where the domain takes them."""
    labels = list(m.domain.labels)
    if m.domain.unmatched == "error":
        return labels
    return [*labels, None, "unknown" if m.domain.kind == "str" else 99]


def run_once(m, value, layout):
    if layout == "arrow":
        kind = {"bool": pa.bool_(), "int": pa.int64(), "str": pa.string()}[m.domain.kind]
        return str(m.perturb(pa.array([value], kind)).to_pylist()[0])
    if layout == "packed":
        return tuple(m.perturb([value], packed=True)[0].tolist())
    return str(m.perturb([value])[0].tolist())


COINS = [(0.5, 0.5), (0.25, 0.5), (0.5, 0.25), (0.5, 0.75), (0.2, 0.5), (0.99, 0.9), (0.01, 0.3)]
LETTERS = ("a", "b", "c", "d")
MECHANISMS = {
    **{f"warner {e}": RandomizedResponse(epsilon=e) for e in (1e-6, 0.5, 1, 3, 20, 50)},
    **{f"grr d={d} {e}": RandomizedResponse(LETTERS[:d], epsilon=e) for d in (2, 3, 4) for e in (1e-6, 1, 5, 50)},
    **{f"grr other {k}": RandomizedResponse(Domain(LETTERS[:k], unmatched="other"), epsilon=1.5) for k in (1, 2, 3)},
    **{f"coins {t}, {y}": RandomizedResponse.from_coins(truth=t, yes=y) for t, y in COINS},
    **{f"coins of text {t}, {y}": RandomizedResponse.from_coins(["no", "yes"], truth=t, yes=y) for t, y in COINS},
    "coins with other": RandomizedResponse.from_coins(Domain(["no"], unmatched="other"), truth=0.4, yes=0.3),
    **{
        f"{v} d={d} {u} {e}": UnaryEncoding(Domain(range(d), unmatched=u), epsilon=e, variant=v)
        for v in ("optimized", "symmetric")
        for d, u, e in [(2, "error", 1e-6), (2, "none", 1), (3, "none", 50), (3, "other", 1), (4, "error", 3)]
    },
    **{
        f"p={p} q={q} {u}": UnaryEncoding.from_probabilities(Domain([0, 1, 2], unmatched=u), p=p, q=q)
        for p, q in [(0.75, 0.25), (0.9, 0.01), (0.02, 0.01), (0.999, 0.99)]
        for u in ("error", "none")
    },
    **{
        f"THE d={d} {u} {e}": ThresholdHistogramEncoding(Domain(range(d), unmatched=u), epsilon=e)
        for d, u, e in [(2, "error", 1e-6), (3, "none", 50), (3, "other", 1), (4, "error", 3)]
    },
}


def layouts_of(m) -> list[str]:
    return ["numpy", "arrow", "packed"] if isinstance(m, BIT_VECTORS) else ["numpy", "arrow"]


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_ratio_of_every_output_is_within_epsilon(monkeypatch, name):
    m = MECHANISMS[name]
    for layout in layouts_of(m):
        tables = [exact_distribution(monkeypatch, m, value, layout) for value in inputs_of(m)]
        outputs = set().union(*tables)
        assert all(set(table) == outputs for table in tables), "an output that some input cannot give"
        if isinstance(m, BIT_VECTORS):
            assert len(outputs) == 2**m.domain.size
        else:
            assert len(outputs) == m.domain.size
        worst = max(a[o] / b[o] for a, b in itertools.permutations(tables, 2) for o in outputs)
        assert worst == m.worst_ratio()
        assert exact_ln(worst) <= Decimal(m.epsilon)


@pytest.mark.parametrize("name", MECHANISMS)
def test_expected_parts_are_those_of_the_reports(monkeypatch, name):
    """Pr[report supports v] over the same enumeration: p where v is the value, q elsewhere, q everywhere for none."""
    m = MECHANISMS[name]
    p, q = m.expected_parts()
    labels = m.domain.values
    for value in inputs_of(m):
        table = exact_distribution(monkeypatch, m, value, "numpy")
        if isinstance(m, BIT_VECTORS):
            rows = {output: [bit.strip() == "True" for bit in output.strip("[]").split(",")] for output in table}
        else:
            rows = {output: [output == str(label) for label in labels] for output in table}
        for v, label in enumerate(labels):
            probability = sum((weight for output, weight in table.items() if rows[output][v]), Fraction(0))
            in_labels = value is not None and value in m.domain.labels
            true = label == value if in_labels else (label == "other" and m.domain.unmatched == "other")
            assert probability == (p[v] if true else q[v])


# ---- audit


def output_numbers(m, value, n) -> np.ndarray:
    reports = m.perturb(pa.array([value] * n))
    native = m.reports.from_arrow(reports)
    return native[:, 0].astype(np.int64) if isinstance(m, BIT_VECTORS) else native.astype(np.int64)


AUDITED = {
    "warner": RandomizedResponse(epsilon=1.0),
    "grr d=3": RandomizedResponse(["a", "b", "c"], epsilon=1.0),
    "grr d=4": RandomizedResponse([3, 1, 4, 2], epsilon=0.5),
    "coins": RandomizedResponse.from_coins(truth=0.4, yes=0.25),
    "optimized d=3": UnaryEncoding(["a", "b", "c"], epsilon=1.0),
    "symmetric d=3": UnaryEncoding(["a", "b", "c"], epsilon=1.0, variant="symmetric"),
    "p=0.75 q=0.25 d=2": UnaryEncoding.from_probabilities([1, 2], p=0.75, q=0.25),
}
TRIALS = 1_000_000


@pytest.mark.fresh(false_alarms=2e-8)  # above; below, epsilon less 10 % is more than 20 standard errors away
@pytest.mark.parametrize("name", AUDITED)
def test_the_audited_epsilon_is_close_to_the_promise_and_not_above(name):
    m = AUDITED[name]
    audited = empirical_epsilon([output_numbers(m, value, TRIALS) for value in m.domain.labels])
    assert 0.9 * m.epsilon <= audited <= m.epsilon


@pytest.mark.parametrize("name", ["optimized d=3", "symmetric d=3"])
def test_the_audit_finds_half_of_the_noise_missing(monkeypatch, name):
    m = AUDITED[name]
    p, q = m.thresholds
    monkeypatch.setitem(m.__dict__, "thresholds", (p, q // 2))
    assert empirical_epsilon([output_numbers(m, v, TRIALS) for v in m.domain.labels]) > 1.2 * m.epsilon


def test_the_audit_finds_a_tenth_of_the_noise_missing_in_randomized_response(monkeypatch):
    m = AUDITED["warner"]
    p1, p0 = m._yes
    monkeypatch.setitem(m.__dict__, "_yes", (p1 + p0 // 10, p0 - p0 // 10))
    assert empirical_epsilon([output_numbers(m, v, TRIALS) for v in m.domain.labels]) > 1.05 * m.epsilon


def test_the_audit_finds_a_value_that_passes_through():
    """Noise for all values but one: an output that no other input gives."""
    m = AUDITED["grr d=3"]
    samples = [output_numbers(m, value, TRIALS) for value in m.domain.labels]
    samples[2] = np.full(TRIALS, 2)
    assert empirical_epsilon(samples) > m.epsilon
