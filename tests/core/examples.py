"""One or more of every mechanism, for the tests that ask the same of all of them: the catalog's, and their views.

`ORACLES` are the frequency oracles; RAPPOR's candidates, a regression, have tests of their own.
"""

import numpy as np
import pyarrow as pa

from ldp_core import (
    Cells,
    Domain,
    FakeDataColumn,
    FrequencyOracle,
    Interval,
    Keyed,
    Mechanism,
    NOutput,
    PrivSet,
    RandomizedResponse,
    SampledColumn,
    SampledNumber,
    Secret,
    Sketch,
    UnaryEncoding,
)
from ldp_core.mechanisms import catalog

REGISTERED: dict[str, Mechanism] = catalog.examples()
VIEWS: dict[str, FrequencyOracle] = {
    f"{name} over candidates": m.over(["a", "b", "c"] if m.inputs.kind == "str" else range(40))
    for name, m in REGISTERED.items()
    if isinstance(m, Sketch)
}
DRAWN: dict[str, Mechanism] = {
    "sampled": SampledColumn(UnaryEncoding(range(5), epsilon=1.0), columns=3),
    "sampled number": SampledNumber(NOutput((0, 10), epsilon=3.0), columns=3),
    "fake": FakeDataColumn(RandomizedResponse(range(5), epsilon=1.0), columns=3),
}
ORACLES: dict[str, FrequencyOracle] = {
    name: m
    for name, m in {**REGISTERED, **VIEWS}.items()
    if isinstance(m, FrequencyOracle) and m.name != "rappor_candidates"
}
EVERY: dict[str, Mechanism] = {**REGISTERED, **VIEWS, **DRAWN}


ALONE = {**REGISTERED, **VIEWS}
"""Those that perturb a column by itself."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
AB, LABELS = ["a", "b"], ["a", "b", "c"]


def some_values(m: Mechanism, n: int) -> pa.Array:
    """``n`` values that a mechanism takes: of a domain all in turn."""
    inputs = m.inputs
    if isinstance(inputs, (Interval, Cells)):
        return pa.array(np.random.default_rng(0).uniform(inputs.low, inputs.high, n))
    if isinstance(m, PrivSet):  # none, one, two, ... items, the first ones of each list twice
        items = np.resize(m.domain.labels, 3 * m.domain.size).tolist()
        lists = [items[k : k + k % (m.most + 1)] + items[k : k + k % 2] for k in range(m.domain.size)]
        return pa.array(lists, pa.list_(pa.array(items).type)).take(pa.array(np.arange(n) % len(lists)))
    labels = list(inputs.labels) if isinstance(inputs, Domain) else [1, 7, 2] if inputs.kind == "int" else LABELS
    return pa.array(labels).take(pa.array(np.arange(n) % len(labels)))


def keyed(n: int, seed: int = 1) -> Keyed:
    """The noise of n persons under a key that is the same in every run."""
    return Keyed(Secret.from_seed(seed), np.arange(n), column="x")


def noise_for(m: Mechanism, n: int) -> Keyed | None:
    """Keyed noise where a mechanism takes no other."""
    return Keyed(Secret.generate(), np.arange(n), column="x") if m.memoized else None


def counters_of_runs(m: Mechanism, values: np.ndarray) -> np.ndarray:
    """int64[runs, counters]: tallies of [runs, n] values, of which all reports are drawn at once."""
    runs, of_run, values = len(values), np.repeat(np.arange(len(values)), values.shape[1]), values.reshape(-1)
    if isinstance(m, SampledColumn):  # how many answer, and what they answer
        there = np.random.default_rng(1).random(len(values)) < 1 / m.columns
        of_run, values, m = of_run[there], values[there], m.inner
        return np.column_stack([np.bincount(of_run, minlength=runs), _counted(m, values, of_run, runs)])
    return _counted(m, values, of_run, runs)


def _counted(m: Mechanism, values: np.ndarray, of_run: np.ndarray, runs: int) -> np.ndarray:
    return m.count_reports(m.reports.from_arrow(m.perturb(pa.array(values))), of_run, runs)


def people_of(m: Mechanism) -> dict:
    """Four values that a mechanism takes, of unequal numbers of people; None is one where it may be."""
    given = some_values(m, 4).to_pylist()
    values = list(dict.fromkeys(tuple(value) if isinstance(value, list) else value for value in given))
    if m.inputs.unmatched == "none":
        values[-1] = None
    return dict(zip(values, (70, 20, 8, 2), strict=False))
