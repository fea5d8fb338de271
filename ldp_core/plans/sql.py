"""A histogram or a table in SQL: for those who have the reports in a database, and nothing of this package.

The query is that of `FrequencyOracle.debias`, with the mechanism's numbers written into it: how many of n reports
support a value, (support - n q) / (p - q), its standard error, and the score interval, null of few reports.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Literal, TypeAlias, get_args

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.estimates.base import check_repeats, z_score
from ldp_core.estimates.clusters import OR_PERSON, unsaid_repeats
from ldp_core.estimates.joint import Joint
from ldp_core.estimates.tails import enough_reports
from ldp_core.inputs.domain import Label
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.parameters import check_open, taken_names
from ldp_core.plans.drawn import DrawnColumn
from ldp_core.plans.pairs import SampledPair
from ldp_core.reports.bits import Bits
from ldp_core.reports.numbers import Value

Dialect: TypeAlias = Literal["duckdb", "bigquery"]


def histogram_sql(
    mechanism: Mechanism,
    column: str,
    table: str,
    *,
    dialect: Dialect,
    packed: bool,
    by: Sequence[str],
    confidence: float,
    repeats: int | None,
) -> str:
    """`PrivacyPlan.sql` of one column."""
    say = _Writer(dialect, packed, by)
    m = _checked(mechanism, column, repeats)
    q, a, b = (float(np.max(rate)) for rate in m.rates[:3])
    estimates = f"""\
  SELECT {say.groups}n, position, {say.at(say.labels(m), "position")} AS value,
    ({say.at("supports", "position")} - n * {q!r}) / {m.rates.difference!r} AS estimate
  FROM counted CROSS JOIN {say.positions(m, "position")}"""  # noqa: S608 (as in `_query`)
    counts = {"supports": [f"{say.count}({test})" for test in say.supports(m, column)]}
    people, noise = say.people({column: m}), _of_persons(f"n * {a!r}", b, m.step, min(a, a + b), repeats or 1)
    return _query(say, table, people, confidence, counts, estimates, noise, {"value": "value"}, ["position"])


def table_sql(
    columns: Mapping[str, Mechanism],
    names: tuple[str, str],
    table: str,
    *,
    dialect: Dialect,
    packed: bool,
    by: Sequence[str],
    confidence: float,
    repeats: int | None,
) -> str:
    """`PrivacyPlan.sql` of two columns: counts of pairs, as `ldp_core.estimates.joint` has them."""
    _refuse_pairs(columns)
    pair = Joint(columns, names)
    if len(names) > 2:
        raise ParameterError(f"SQL has tables of two columns, got {list(names)}: .ldp.table has those of more")
    say = _Writer(dialect, packed, by, pair.names)
    one, two = (_checked(m, name, repeats) for m, name in zip(pair.mechanisms, pair.names, strict=True))
    (p1, v0, d1), (p2, w0, d2) = (
        (float(np.max(q)), float(np.max(a)), diff) for q, a, _, diff in (one.rates, two.rates)
    )
    v1, w1 = (1 + float(np.max(m.rates[1] + m.rates[2])) for m in (one, two))
    first, second = (say.supports(m, name) for m, name in zip((one, two), pair.names, strict=True))
    counts = {
        "firsts": [f"{say.count}({test})" for test in first],
        "seconds": [f"{say.count}({test})" for test in second],
        "pairs": [f"{say.count}({test} AND {other})" for test in first for other in second],
    }
    f, g = say.at("firsts", "i"), say.at("seconds", "j")
    both = say.at("pairs", f"(i - 1) * {two.domain.size} + j")
    estimates = f"""\
  SELECT {say.groups}n, i, j, {say.at(say.labels(one), "i")} AS first_value,
    {say.at(say.labels(two), "j")} AS second_value,
    ({both} - {p2!r} * {f} - {p1!r} * {g} + n * {p1 * p2!r}) / {d1 * d2!r} AS estimate,
    least(greatest(({f} - n * {p1!r}) / {d1!r}, 0), n) * {(v1 - v0) * w0!r}
      + least(greatest(({g} - n * {p2!r}) / {d2!r}, 0), n) * {v0 * (w1 - w0)!r} + n * {v0 * w0!r} AS noise
  FROM counted CROSS JOIN {say.positions(one, "i")} CROSS JOIN {say.positions(two, "j")}"""  # noqa: S608
    values = dict(zip(("first_value", "second_value"), pair.names, strict=True))
    b, step, least = (v1 - v0) * (w1 - w0) - 1, one.step * two.step, min(min(v0, v1) * w0, v0 * w1, v1 * w1 - 1)
    noise = _of_persons("noise", b, step, least, repeats or 1)
    people = say.people({name: columns[name] for name in pair.names})
    return _query(say, table, people, confidence, counts, estimates, noise, values, ["i", "j"])


_OWN = ["n", "supports", "firsts", "seconds", "pairs", "position", "i", "j", "estimate", "noise", "middle", "half"]
_OWN += ["value", "first_value", "second_value", "count", "standard_error", "low", "high", "frequency"]


class _Writer:
    """Words of a dialect."""

    def __init__(self, dialect: Dialect, packed: bool, by: Sequence[str], names: Sequence[str] = ()) -> None:
        if dialect not in get_args(Dialect):
            raise ParameterError(f"dialect must be one of {list(get_args(Dialect))}, got {dialect!r}")
        if taken := [name for name in (*by, *names) if name.lower() in _OWN]:  # (names in SQL have no case)
            raise ParameterError(taken_names("the query", taken))
        self.dialect, self.packed = dialect, packed
        self.count = "count_if" if dialect == "duckdb" else "countif"
        self.groups = "".join(f"{self.name(key)}, " for key in by)

    def people(self, columns: Mapping[str, Mechanism]) -> str:
        """How many reports there are; the query fails if one is null, or a value that is none of the mechanism."""
        bad = []
        for name, m in ((self.name(name), m) for name, m in columns.items()):
            bad.append(f"{name} IS NULL")
            if isinstance(m.reports, Value):
                labels = map(self.literal, m.reports.domain.declared.labels)
                bad.append(f"{name} NOT IN ({', '.join(labels)})")
        refused = "error('a report is null, or none of the plan')"
        return f"CASE WHEN {self.count}({' OR '.join(bad)}) > 0 THEN {refused} ELSE count(*) END AS n"

    def name(self, name: str) -> str:
        """A column's name."""
        if self.dialect == "duckdb":
            return '"' + name.replace('"', '""') + '"'
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def literal(self, label: Label | dt.date) -> str:
        """A label, or a date."""
        if isinstance(label, dt.date):
            return f"{'TIMESTAMP' if isinstance(label, dt.datetime) else 'DATE'} '{label}'"
        if isinstance(label, str):
            quoted = "'" + label.replace("'", "''") + "'"
            return quoted if self.dialect == "duckdb" else json.dumps(label, ensure_ascii=False)
        return str(label).upper()

    def labels(self, m: FrequencyOracle) -> str:
        """The values of a domain, as an array."""
        return f"[{', '.join(map(self.literal, m.domain.arrow_values.to_pylist()))}]"

    def at(self, array: str, position: str) -> str:
        """An entry of an array, counted from 1."""
        return f"{array}[{position}]" if self.dialect == "duckdb" else f"{array}[ORDINAL({position})]"

    def positions(self, m: FrequencyOracle, name: str) -> str:
        """A table of the positions of a domain's values, in a column of this name."""
        if self.dialect == "duckdb":
            return f"unnest(range(1, {m.domain.size + 1})) AS t{'' if name == 'position' else f'_{name}'}({name})"
        return f"UNNEST(GENERATE_ARRAY(1, {m.domain.size})) AS {name}"

    def supports(self, m: FrequencyOracle, column: str) -> list[str]:
        """For each value: whether a report supports it."""
        name = self.name(column)
        if isinstance(m.reports, Value):
            return [f"{name} = {self.literal(label)}" for label in m.domain.declared.labels]
        if not self.packed:
            return [self.at(name, str(k + 1)) for k in range(m.domain.size)]
        return [f"({self.at(name, str(k // 64 + 1))} >> {k % 64}) & 1 = 1" for k in range(m.domain.size)]


def _query(
    say: _Writer,
    table: str,
    people: str,
    confidence: float,
    counts: dict[str, list[str]],
    estimates: str,
    noise: tuple[str, float, float, float],
    values: dict[str, str],
    order: Sequence[str],
) -> str:
    """Counts, estimates with the variance ``noise[0] + noise[1] * estimate``, and score intervals, null of few."""
    z = z_score(check_open("confidence", confidence))
    of_nobody, b, step, least = noise
    shift = z * b / 2
    grouped = f"\n  GROUP BY {say.groups[:-2]}" if say.groups else ""
    arrays = "".join(
        ",\n    ".join([f", [\n    {tests[0]}", *tests[1:]]) + f"\n  ] AS {name}" for name, tests in counts.items()
    )
    shown = ", ".join(name if name == column else f"{name} AS {say.name(column)}" for name, column in values.items())
    return f"""\
WITH counted AS (
  SELECT {say.groups}{people}{arrays}
  FROM {table}{grouped}
), estimates AS (
{estimates}
), intervals AS (
  SELECT *, sqrt({of_nobody} + {b!r} * least(greatest(estimate, 0), n)) AS standard_error,
    estimate + {z * shift!r} AS middle,
    CASE WHEN n >= {enough_reports(z, step, least)} THEN {z!r} END
      * sqrt(greatest({of_nobody} + {b!r} * estimate + {shift**2!r}, 0)) AS half
  FROM estimates
  WHERE n > 0
)
SELECT {say.groups}{shown}, estimate AS count, standard_error, middle - half AS low, middle + half AS high,
  estimate / n AS frequency, n
FROM intervals
ORDER BY {say.groups}{", ".join(order)}
"""  # noqa: S608 (names and labels are quoted, and the table is the caller's own SQL)


def _of_persons(of_nobody: str, b: float, step: float, least: float, repeats: int) -> tuple[str, float, float, float]:
    """The noise of so many reports of each person, which may be alike: that many times the variance."""
    return of_nobody if repeats == 1 else f"{repeats} * ({of_nobody})", repeats * b, repeats * step, repeats * least


def refuse_like_named(asked: Set[str], there: Set[str]) -> None:
    """Raise `ParameterError` if a database may take one of the columns that are there for another one."""
    same = Counter(map(str.lower, there))
    if twice := sorted(name for name in asked if same[name.lower()] > 1):
        raise ParameterError(f"names in SQL have no case, so it may take others for the columns {twice}: rename them")


def _refuse_pairs(columns: Mapping[str, Mechanism]) -> None:
    """Raise `ParameterError` if reports of records answer one of several pairs."""
    if pairs := [name for name, m in columns.items() if isinstance(m, SampledPair)]:
        raise ParameterError(
            f"a record answers one of the pairs {pairs}, and SQL does not count those that do: take frame.ldp.table, "
            "ldp_beam.Table or ldp estimate --table"
        )


def _checked(mechanism: Mechanism, column: str, repeats: int | None) -> FrequencyOracle:
    """A mechanism whose support a database can count, with one p and one q."""
    _refuse_pairs({column: mechanism})
    takes = "SQL can count the reports of randomized response and of bit vectors (unary encoding, subset selection)"
    form, oracle = mechanism.reports, isinstance(mechanism, FrequencyOracle) and not isinstance(mechanism, DrawnColumn)
    bits = oracle and isinstance(form, Bits) and form.d == mechanism.domain.size
    if not isinstance(mechanism, FrequencyOracle) or not (bits or (oracle and isinstance(form, Value))):
        raise ParameterError(f"{takes}; column {column!r} has {mechanism.title}: tally it in Python")
    if any(len(np.unique(rate)) > 1 for rate in mechanism.rates[:3]):
        raise ParameterError(f"column {column!r} has p and q of its own for each value: estimate it in Python")
    if check_repeats("repeats", repeats) is None and mechanism.memoized:
        raise ParameterError(str(unsaid_repeats(column)).removesuffix(OR_PERSON))
    return mechanism
