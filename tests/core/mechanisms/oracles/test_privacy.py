"""The LDP inequality itself: every input, every output, in rational arithmetic; and an audit from samples.

The exact distributions do not come from formulas: the code that perturbs is run on every possible outcome of its
random decisions, each with its exact probability.
"""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import Domain, RandomizedResponse, ThresholdHistogramEncoding, UnaryEncoding
from ldp_core.exact import sampling

from ....cases import each
from ...checks import by_numpy, empirical_epsilon
from ...enumeration import Branching, Table, check_ratio

BIT_VECTORS = (UnaryEncoding, ThresholdHistogramEncoding)


def exact_table(monkeypatch, m, value, layout) -> Table:
    """Probability of each report of ``value``."""
    noise = Branching({m.thresholds[1]: m.domain.size} if isinstance(m, BIT_VECTORS) else 1)
    by_numpy(monkeypatch)
    monkeypatch.setattr(sampling, "bernoulli_bits", noise.bernoulli_bits)
    monkeypatch.setattr(sampling, "uniform_below", noise.uniform_below)
    return noise.table(lambda: run_once(m, value, layout))


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
    **{f"warner {e}": RandomizedResponse(epsilon=e) for e in (1e-6, 1, 50)},
    **{f"grr d={d} {e}": RandomizedResponse(LETTERS[:d], epsilon=e) for d in (2, 3, 4) for e in (1e-6, 1, 50)},
    **{f"grr other {k}": RandomizedResponse(Domain(LETTERS[:k], unmatched="other"), epsilon=1.5) for k in (1, 2, 3)},
    **{f"coins {t}, {y}": RandomizedResponse.from_coins(truth=t, yes=y) for t, y in COINS},
    **{f"coins of text {t}, {y}": RandomizedResponse.from_coins(["no", "yes"], truth=t, yes=y) for t, y in COINS[1:3]},
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
    "THE": ThresholdHistogramEncoding(Domain(range(3), unmatched="other"), epsilon=1.0),
}


def layouts_of(m) -> list[str]:
    return ["numpy", "arrow", "packed"] if isinstance(m, BIT_VECTORS) else ["numpy", "arrow"]


@each("name", MECHANISMS)
def test_every_report_of_every_value(monkeypatch, name):
    """Every ratio is within epsilon; a report supports v with p if v is the value, with q otherwise and of none."""
    m = MECHANISMS[name]
    for layout in layouts_of(m):
        tables = [exact_table(monkeypatch, m, value, layout) for value in inputs_of(m)]
        assert len(tables[0]) == (2**m.domain.size if isinstance(m, BIT_VECTORS) else m.domain.size)
        check_ratio(m, tables)
        if layout == "numpy":
            check_support(m, tables)


def check_support(m, tables) -> None:
    p, q = m.support_probabilities()
    for value, table in zip(inputs_of(m), tables, strict=True):
        for v, label in enumerate(m.domain.values):
            if isinstance(m, BIT_VECTORS):
                supporting = [output.strip("[]").split(",")[v].strip() == "True" for output in table]
            else:
                supporting = [output == str(label) for output in table]
            listed = value is not None and value in m.domain.labels
            true = label == value if listed else (label == "other" and m.domain.unmatched == "other")
            assert sum(itertools.compress(table.values(), supporting)) == (p[v] if true else q[v])


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


@each("name", ["optimized d=3", "symmetric d=3"])
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
