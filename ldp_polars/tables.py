"""Tables of private columns: reports of all of them become one tally a group, and tallies answers, as everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import polars as pl

from ldp_core import Joint, Mechanism, ParameterError, PlanError, PrivacyPlan, TableEstimate
from ldp_core.engine import Population, joint_of
from ldp_polars.columns import check_repeats_said, of_one_noise
from ldp_polars.frames import Frame, groups_of
from ldp_polars.planned import checked_plan, makers_of


def table(
    reports: Frame,
    *columns: str,
    plan: PrivacyPlan | Mapping[str, Mechanism] | None = None,
    by: str | Iterable[str] = (),
    window: str | timedelta | None = None,
    event_time: str | None = None,
    confidence: float = 0.95,
    population: Population = None,
    repeats: int | None = None,
    assume_reports: bool = False,
) -> Frame:
    """How many records have each combination of values of private columns, and the rate of the last given the others.

    The reports are those of a plan, of each column by itself: nothing had to be planned for the table. Its noise is the
    product of that of its columns, so that it takes many more people than a histogram (docs/tables.md).

    Args:
        reports: eager or lazy.
        columns: of reports, two or more. The rate is that of the last column's value among those who have the values
            of the others.
        plan: the plan that made them, or their mechanisms by column. Not needed for typed reports, but of keyed ones of
            one mechanism: these may be of one column at two times, which share noise and have no table.
        by, window, event_time, confidence, population, assume_reports: see `histograms`.
        repeats: the most reports of one person in a group; keyed noise asks for it, see `histogram`.

    Returns:
        A row for each cell: the ``by`` columns, ``window_start`` and ``window_end`` (where asked for), the values under
        their columns' names, and the other columns of `ldp_core.Table`: those of `histogram`, and ``rate``,
        ``rate_standard_error``, ``rate_low`` and ``rate_high``. Where too few have the others' values, the rate's
        interval is unbounded: -inf to inf.

    Raises:
        ParameterError: at once: keyed noise, and no ``repeats``, or no ``plan`` where it is needed; fewer than two
            columns, or reports that have no table, or one that takes too many people, see `ldp_core.Joint`.
        PlanError, DtypeError, MechanismMismatchError: see `histograms`.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> version, crashed = RandomizedResponse(["1", "2"], epsilon=50.0), RandomizedResponse(epsilon=50.0)
    >>> people = pl.DataFrame({"version": ["1", "1", "2"], "crashed": [True, False, True]})
    >>> reports = people.ldp.perturb(PrivacyPlan({"version": version, "crashed": crashed}))  # hardly any noise
    >>> reports.ldp.table("version", "crashed").filter(crashed=True).select("version", pl.col("rate").round(3)).rows()
    [('1', 0.5), ('2', 1.0)]
    """
    schema = reports.collect_schema()
    if plan is None and (same := of_one_noise((name, schema[name]) for name in schema if name in columns)):
        raise ParameterError(
            f"columns {same[0]} have keyed noise of one mechanism. Reports of one column at two times share noise, and "
            "their table is wrong: perturb each time with a tag= of its own, which spends epsilon again. Of columns "
            "with names or tags of their own give plan=, a plan or their mechanisms by column"
        )
    if plan is None:
        plan = makers_of(reports)
        with suppress(PlanError):  # (of some columns of a draw nothing tells which rows answer another one)
            plan = PrivacyPlan(plan)
    made: Mapping[str, Any] = plan if isinstance(plan, Mapping) else checked_plan(plan).columns
    joint: Joint = joint_of(made, columns)
    asked: TableEstimate = TableEstimate(confidence, population, repeats=repeats)
    used = {name: made[name] for name in joint.by_column("")}
    whole = plan if isinstance(plan, PrivacyPlan) else used
    dtypes = {name: schema.get(name) for name in used}
    for name, mechanism in used.items():
        check_repeats_said(name, dtypes[name], mechanism, repeats)
    taken = {"entry", *asked.schema(joint).names}
    groups = groups_of(reports, whole, by, window, event_time, taken, assume_reports)
    tidy = groups.of_several(joint, asked)
    return tidy if isinstance(reports, pl.LazyFrame) else tidy.collect()
