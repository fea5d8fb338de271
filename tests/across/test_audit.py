"""Every mechanism through both engines, audited: a million reports of each input contradict no claim.

Each audit takes a false alarm of 1e-9. The bound must also be near what is claimed, or the audit would have seen
nothing: `SEEN` says how near. The table of all of them is printed at the end.
"""

from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_core import Domain, DomainError, FrequencyOracle, ParameterError, PrivacyPlan, Secret, audit
from ldp_core.auditing.inputs import inputs_of
from ldp_core.mechanisms.sketches.base import Candidates

from ..beam.helpers import run
from ..core.examples import REGISTERED

FALSE_ALARM = 1e-9
pytestmark = [pytest.mark.audit, pytest.mark.fresh(false_alarms=FALSE_ALARM)]
TRIALS = 1_000_000

SEEN = {"dBitFlipPM": 0.7}
"""Which share of the exact epsilon is seen, of those whose worst reports are rare; of all others 0.9."""
SEEN_IN_FOUR = {"dBitFlipPM": 0.5}
"""Which share of epsilon is seen in four reports, of all others all of it.

Of dBitFlipPM the event is sometimes a poor one: in 367 runs between 0.6 and 0.85, in 14 of these below 0.7.
"""


def of_polars(m, keyed, *rounds):
    """A lazy query: each round is a column, of the same persons."""
    frame = pl.DataFrame({f"round {k}": pl.from_arrow(values) for k, values in enumerate(rounds)})
    noise = {"key": Secret.generate(), "id": "id", "tag": "x"} if keyed else {}
    # One column at a time, so that the tag names the noise: of several it would be added to their names.
    query = frame.lazy().with_row_index("id").select(pl.col(name).ldp.perturb(m, **noise) for name in frame.columns)
    return tuple(column.to_arrow() for column in query.collect())


def of_beam(m, keyed, *rounds):
    """A pipeline for each round, of the same persons."""
    noise = {"key": Secret.generate().shared(), "id": "id"} if keyed else {}
    reports = []
    for values in rounds:
        batch = pa.record_batch({"x": values, "id": np.arange(len(values))})
        [made] = run(ldp_beam.Perturb(PrivacyPlan({"x": m}), **noise), [batch])
        reports.append(made.column("x"))
    return tuple(reports)


def plan_of_polars(plan, keyed, *columns):
    frame = pl.DataFrame(dict(zip(plan.columns, map(pl.from_arrow, columns), strict=True))).with_row_index("id")
    noise = {"key": Secret.generate(), "id": "id"} if keyed else {}
    return tuple(column.to_arrow() for column in frame.lazy().ldp.perturb(plan, **noise).collect())


def plan_of_beam(plan, keyed, *columns):
    batch = pa.record_batch({**dict(zip(plan.columns, columns, strict=True)), "id": np.arange(len(columns[0]))})
    noise = {"key": Secret.generate().shared(), "id": "id"} if keyed else {}
    [made] = run(ldp_beam.Perturb(plan, **noise), [batch])
    return tuple(made.columns)


WAYS = {"Polars": of_polars, "Beam": of_beam}
PLAN_WAYS = {"Polars": plan_of_polars, "Beam": plan_of_beam}


def with_unmatched(m, *policies):
    """The mechanism over its labels with the first of these policies that it takes; itself if it has no labels."""
    if not isinstance(m, FrequencyOracle) or isinstance(m, Candidates):
        return m
    for policy in policies:
        try:
            return type(m).from_parameters(Domain(m.domain.labels, unmatched=policy), m.parameters())
        except (DomainError, ParameterError):
            continue
    raise AssertionError(policies)


def check(found, record_property, name, way, seen=None):
    record_property("audit", {"row": name, "way": way, **found.to_dict()})
    assert not found.broken, found
    assert found.trials == TRIALS
    if seen is not None:
        assert seen < found.lower_bound, found


@pytest.mark.parametrize("engine", WAYS)
@pytest.mark.parametrize(
    ("name", "keyed"),
    [(name, keyed) for name, m in REGISTERED.items() for keyed in ([True] if m.memoized else [False, True])],
)
def test_a_mechanism(name, keyed, engine, record_property):
    """Under fresh and keyed noise; null and values outside are ``none``, where there is such a thing, and ``other``."""
    first = (engine == "Polars") == keyed
    m = with_unmatched(REGISTERED[name], *(("none", "other") if first else ("other", "none")))
    found = audit(m, partial(WAYS[engine], m, keyed), trials=TRIALS, false_alarm=FALSE_ALARM, keyed=keyed)
    assert (None in inputs_of(m)) == isinstance(m, FrequencyOracle)
    check(found, record_property, name, f"{engine}, {'keyed' if keyed else 'fresh'}", SEEN.get(name, 0.9) * found.exact)


@pytest.mark.parametrize("engine", WAYS)
@pytest.mark.parametrize("name", [name for name, m in REGISTERED.items() if m.memoized])
def test_reports_of_an_unchanged_value(name, engine, record_property):
    """Four of them, against what four spend."""
    m = REGISTERED[name]
    box = partial(WAYS[engine], m, True)
    found = audit(m, box, inputs=[(v,) * 4 for v in inputs_of(m)[:3]], trials=TRIALS, false_alarm=FALSE_ALARM)
    assert found.claimed == m.epsilon_of(4)
    check(found, record_property, f"{name}, 4 reports", f"{engine}, keyed", SEEN_IN_FOUR.get(name, 1) * m.epsilon)


@pytest.mark.parametrize("engine", WAYS)
def test_reports_of_a_value_that_changes(engine, record_property):
    """Two reports, against the bound for values that change at a time that is secret."""
    m = REGISTERED["L-GRR"]
    histories = [(0, 0), (0, 1), (1, 0), (1, 1)]
    box = partial(WAYS[engine], m, True)
    found = audit(m, box, inputs=histories, trials=TRIALS, false_alarm=FALSE_ALARM)
    assert found.claimed == m.epsilon_of(2, changes=1)
    check(found, record_property, "L-GRR, a value that changes", f"{engine}, keyed")


@pytest.mark.parametrize("engine", WAYS)
def test_keyed_reports_of_an_unchanged_value(engine, record_property):
    """Three of them are one, and spend what one spends."""
    m = REGISTERED["OUE"]
    box = partial(WAYS[engine], m, True)
    found = audit(m, box, inputs=[(v,) * 3 for v in range(3)], keyed=True, trials=TRIALS, false_alarm=FALSE_ALARM)
    assert found.claimed == m.epsilon
    check(found, record_property, "OUE, 3 reports", f"{engine}, keyed", 0.9 * m.epsilon)


COLUMNS = {"os": Domain(["ios", "android"], unmatched="other"), "hour": Domain(range(5), unmatched="other")}


@pytest.mark.parametrize("keyed", [False, True], ids=["fresh", "keyed"])
@pytest.mark.parametrize("engine", WAYS)
@pytest.mark.parametrize("name", ["split", "sampled", "fake"])
def test_a_whole_record(name, engine, keyed, record_property):
    plan = getattr(PrivacyPlan, name)(COLUMNS, epsilon=2.0)
    box = partial(PLAN_WAYS[engine], plan, keyed)
    found = audit(plan, box, keyed=keyed, trials=TRIALS, false_alarm=FALSE_ALARM)
    way = f"{engine}, {'keyed' if keyed else 'fresh'}"
    check(found, record_property, f"two columns, {name}", way, 0.9 * plan.epsilon)
