"""A histogram in SQL: for those who have the reports in a database, and nothing of this package.

The query is that of `FrequencyOracle.debias`, with the mechanism's numbers written into it: how many of n reports
support a value, (support - n q) / (p - q), its standard error, and the score interval.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.inputs.domain import Label
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.parameters import check_open
from ldp_core.plans.drawn import DrawnColumn
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
) -> str:
    """`PrivacyPlan.sql` of one column."""
    if dialect not in get_args(Dialect):
        raise ParameterError(f"dialect must be one of {list(get_args(Dialect))}, got {dialect!r}")
    z = z_score(check_open("confidence", confidence))
    m = _checked(mechanism, column)
    q, a, b = (float(np.max(rate)) for rate in m.rates[:3])
    shift = z * b / 2
    name = _name(column, dialect)
    count = "count_if" if dialect == "duckdb" else "countif"
    supports = ",\n    ".join(f"{count}({test})" for test in _supports(m, name, dialect, packed))
    labels = ", ".join(_literal(label, dialect) for label in m.domain.arrow_values.to_pylist())
    values = "{0}[position]" if dialect == "duckdb" else "{0}[ORDINAL(position)]"
    positions = (
        f"unnest(range(1, {m.domain.size + 1})) AS t(position)"
        if dialect == "duckdb"
        else f"UNNEST(GENERATE_ARRAY(1, {m.domain.size})) AS position"
    )
    groups = "".join(f"{_name(key, dialect)}, " for key in by)
    grouped = f"\n  GROUP BY {groups[:-2]}" if by else ""
    inside = f"{b!r} * estimate + {shift**2!r}"
    return f"""\
WITH counted AS (
  SELECT {groups}count(*) AS n, [
    {supports}
  ] AS supports
  FROM {table}{grouped}
), estimates AS (
  SELECT {groups}n, position, {values.format(f"[{labels}]")} AS value,
    ({values.format("supports")} - n * {q!r}) / {m.rates.difference!r} AS estimate
  FROM counted CROSS JOIN {positions}
), intervals AS (
  SELECT *, sqrt(n * {a!r} + {b!r} * least(greatest(estimate, 0), n)) AS standard_error,
    estimate + {z * shift!r} AS middle,
    {z!r} * sqrt(greatest(n * {a!r} + {inside}, 0)) AS half
  FROM estimates
  WHERE n > 0
)
SELECT {groups}value, estimate AS count, standard_error, middle - half AS low, middle + half AS high,
  estimate / n AS frequency, n
FROM intervals
ORDER BY {groups}position
"""  # noqa: S608 (names and labels are quoted, and the table is the caller's own SQL)


def _checked(mechanism: Mechanism, column: str) -> FrequencyOracle:
    """A mechanism whose support a database can count, with one p and one q."""
    takes = "SQL can count the reports of randomized response and of bit vectors (unary encoding, subset selection)"
    if not isinstance(mechanism, FrequencyOracle) or isinstance(mechanism, DrawnColumn):
        raise ParameterError(f"{takes}; column {column!r} has {mechanism.title}: tally it in Python")
    bits = isinstance(mechanism.reports, Bits) and mechanism.reports.d == mechanism.domain.size
    if not (bits or isinstance(mechanism.reports, Value)):
        raise ParameterError(f"{takes}; column {column!r} has {mechanism.title}: tally it in Python")
    if any(len(np.unique(rate)) > 1 for rate in mechanism.rates[:3]):
        raise ParameterError(f"column {column!r} has p and q of its own for each value: estimate it in Python")
    return mechanism


def _supports(m: FrequencyOracle, name: str, dialect: Dialect, packed: bool) -> list[str]:
    """For each value: whether a report supports it."""
    if isinstance(m.reports, Value):
        return [f"{name} = {_literal(label, dialect)}" for label in m.domain.arrow_values.to_pylist()]
    entry = "{0}[{1}]" if dialect == "duckdb" else "{0}[ORDINAL({1})]"
    if not packed:
        return [entry.format(name, k + 1) for k in range(m.domain.size)]
    return [f"({entry.format(name, k // 64 + 1)} >> {k % 64}) & 1 = 1" for k in range(m.domain.size)]


def _name(name: str, dialect: Dialect) -> str:
    """A column's name."""
    if dialect == "duckdb":
        return '"' + name.replace('"', '""') + '"'
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _literal(label: Label, dialect: Dialect) -> str:
    """A label."""
    if isinstance(label, str):
        return json.dumps(label, ensure_ascii=False) if dialect == "bigquery" else "'" + label.replace("'", "''") + "'"
    return str(label).upper()
