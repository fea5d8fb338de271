"""Comparisons of frames, groups and windows: tallies in pairs, and all pairs answered at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from polars import selectors as cs

from ldp_core import Mechanism, ParameterError, PlanError, PrivacyPlan
from ldp_core.engine import (
    Compare,
    ComparePersons,
    CompareQuantiles,
    Population,
    check_id_type,
    quantiles_of_persons,
    refuse_keys_in,
    type_words,
    warn_user,
)
from ldp_polars.columns import (
    Report,
    answers_of,
    check_repeats_said,
    dtype_of,
    is_seeded,
    of_one_seed,
    to_arrow,
    untyped,
)
from ldp_polars.copies import any_copies, are_copies, digest_of
from ldp_polars.frames import Frame, Groups, check_same_keys, groups_of, named
from ldp_polars.noise import ids_to_arrow
from ldp_polars.planned import checked_plan
from ldp_polars.tallying import counts_with_nulls, tally_for

_WITH = "compared_with"
_ITSELF = (
    "other= and this side have the same reports: a side is not compared with itself, or with a part of it; take the "
    "others, which a filter gives"
)


def compare(
    reports: Frame,
    plan: PrivacyPlan,
    *,
    other: pl.DataFrame | pl.LazyFrame | None = None,
    by: str | Iterable[str] = (),
    baseline: Any = None,
    window: str | None = None,
    event_time: str | None = None,
    quantiles: Sequence[float] | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    anytime: bool | int | None = None,
    same_people: bool | None = None,
    population: Population = "many",
    repeats: int | None = None,
    person: str | None = None,
    assume_reports: bool = False,
) -> Frame:
    """Whether, and by how much, shares and means differ between two frames, between groups, or from window to window.

    With ``other`` these reports are before and the others after, each group (and window) against the same one. Else
    with ``window`` each window is compared with the one before, in each group. Else with ``by``, one column, each group
    is compared with one of them.

    Args:
        reports, plan, assume_reports: see `histograms`.
        other: more reports of the plan, of other people. With a seeded plan say ``same_people``.
        by: columns of groups.
        baseline: the group that others are compared with; default: the first in order.
        window, event_time: see `histograms`. A window without reports is left out: the next one is compared with the
            last that has some. Reports without a time have rows of their own, without a window, compared with nothing.
        quantiles: compare these quantiles of the columns of ordered numbers, as [0.5, 0.9], in place of shares and
            means; see `ldp_core.compare_quantiles`.
        confidence, simultaneous, anytime, same_people, population: see `ldp_core.compare`.
        repeats: the most reports of one person on a side. Keyed noise, and that of mechanisms that remember, asks for
            it, as `histogram` does.
        person: in place of ``same_people`` and ``repeats`` the column that says whose report it is, with the same ids
            on both sides; see `ldp_core.compare_persons`. All reports are then held in memory.

    Returns:
        Columns ``column_name``, the ``by`` columns, ``window_start`` and ``window_end`` (where asked for),
        ``compared_with`` (the start of the window before, or the baseline), ``value`` and the columns that
        `ldp_core.Comparison` has; numbers have one row, without a value. ``value`` is of the values' own type if all
        these columns have the same; otherwise it is text. With ``quantiles`` a row is a quantile, with the columns of
        `ldp_core.QuantileDifferences.to_arrow`. Where a side has no reports, which may be with ``other``, the estimates
        are null and the intervals unbounded.

    Raises:
        PlanError: see `histograms`; or no column has shares or a mean, or quantiles of numbers; or the ``by`` columns,
            or the times, are not of one dtype in both frames.
        ParameterError: nothing to compare with, or the same reports again, or a part of them, see `pool`; a baseline
            without one ``by`` column, or of another type; what `ldp_core.compare` refuses. When run: there are no
            reports of the baseline, or two lazy frames have the same ones.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=50.0)}, keep=["os"])
    >>> df = pl.DataFrame({"os": ["ios", "web"] * 50, "crashed": [True, False, False, False] * 25})
    >>> found = df.ldp.perturb(plan).ldp.compare(plan, by="os")
    >>> found.select("os", "compared_with", "value", pl.col("difference").round(2)).rows()
    [('web', 'ios', False, 0.5), ('web', 'ios', True, -0.5)]
    """
    how: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous, "anytime": anytime}
    how |= {"same_people": same_people, "population": population, "repeats": repeats}
    asked = _asked(how, quantiles, person)
    columns = {n: m for n, m in checked_plan(plan).columns.items() if asked.compares(m)}
    what = "shares or a mean" if quantiles is None else "quantiles of numbers"
    if not columns:
        raise PlanError(f"none of the columns {list(plan.columns)} has {what} to compare")
    if left := [name for name in plan.columns if name not in columns]:
        warn_user(f"{', '.join(left)}: left out, without {what} to compare")
    for mechanism in columns.values():
        asked.check(mechanism)
    key, *others = asked.schema(mechanism).names
    taken = {"column_name", "entry", "before", "after", _WITH, key, *others}
    how = {"window": window, "event_time": event_time, "taken": taken, "assume_reports": assume_reports}
    mine: Groups = groups_of(reports, plan, by, **how, together=columns)
    theirs: Groups | None = None if other is None else groups_of(other, plan, by, **how, together=columns)
    if theirs is not None:
        check_same_keys([mine, theirs])
        _refuse_itself(reports, other, plan)
    _check_people([reports] if other is None else [reports, other], plan.seed, columns, asked, person)
    if theirs is None and not mine.keys:
        raise ParameterError("compare with what? give other=, more reports; by=, groups; or window= and event_time=")
    if baseline is not None and (theirs is not None or window is not None):
        raise ParameterError(
            "baseline= is one of the groups of by=, without other= and window=: to compare two groups in each window "
            "filter one of them, and give the other one as other="
        )
    if theirs is None and window is None and len(mine.keys) > 1:
        raise ParameterError(f"groups are compared by one column, got {list(mine.keys)}: filter by the others")
    if baseline is not None:
        baseline = _of_dtype(baseline, reports.collect_schema()[mine.keys[-1]])
    types = {asked.schema(mechanism).field(key).type for mechanism in columns.values()}
    value = pl.col(key) if len(types) == 1 else pl.col(key).cast(pl.String)
    tables: list[pl.LazyFrame] = []
    answer = _answered if person is None else _answered_by_person
    for name, mechanism in columns.items():
        pairs = _pairs(mine, theirs, partial(_aggregated, name, mechanism, person, repeats), baseline)
        pairs = _not_of_itself(pairs, reports, None if tables else other, plan)  # one column checks for all
        row = dtype_of(pa.struct(list(asked.schema(mechanism))))
        answered = partial(answer, mechanism=mechanism, asked=asked, required=theirs is None and window is None)
        entry = pl.map_batches(["before", "after"], answered, return_dtype=pl.List(row), is_elementwise=True)
        made = pairs.with_columns(entry.alias("entry")).drop("before", "after").explode("entry").unnest("entry")
        tables.append(made.with_columns(value, pl.lit(name).alias("column_name")))
    names = [*named(mine.names), *([pl.col(_WITH)] if theirs is None else [])]
    tidy = pl.concat(tables).select("column_name", *names, key, *others)
    return tidy if isinstance(reports, pl.LazyFrame) else tidy.collect()


def _asked(how: Mapping[str, Any], quantiles: Sequence[float] | None, person: str | None) -> Compare:
    """What is asked of each pair."""
    if quantiles is None:
        return Compare(**how) if person is None else ComparePersons(**how)
    if person is not None:
        raise quantiles_of_persons()
    return CompareQuantiles(**how, probabilities=quantiles)


def _check_people(
    sides: Sequence[Any], seed: int | None, columns: Mapping[str, Mechanism], asked: Compare, person: str | None
) -> None:
    """Raise if a side has noise of persons, and neither ids nor words say which of them are where how often.

    Two sides of one seed have the same noise in the same rows.
    """
    schemas = [side.collect_schema() for side in sides]
    seeded = seed is not None or any(all(is_seeded(of.get(name)) for of in schemas) for name in columns)
    if len(sides) > 1 and seeded and asked.same_people is None:
        apart = "row_id=, a seed of its own for each frame, or one frame for both sides"
        shared = "intervals of anytime= allow for no shared noise; say" if asked.anytime else "say same_people=True, or"
        raise of_one_seed(f"{shared} same_people=False if {apart}, told all rows apart")
    if person is not None:
        ids = [dtypes.get(person) if isinstance(person, str) else None for dtypes in schemas]
        if None in ids or len({*ids}) > 1:
            raise PlanError(
                f"person={person!r} must be a column of one dtype on both sides, got {[*map(type_words, ids)]}"
            )
        refuse_keys_in([person] if isinstance(ids[0], Report) else [], "their dtype")
        check_id_type(ids_to_arrow(pl.Series(person, [], ids[0])).type)
        return
    for dtypes in schemas:
        for name, mechanism in columns.items():
            asked.check_people(mechanism, keyed=isinstance(dtypes[name], Report) and dtypes[name].keyed)
            check_repeats_said(name, dtypes[name], mechanism, asked.repeats)


def _of_dtype(baseline: Any, dtype: pl.DataType) -> pl.Expr:
    """A group as the by column has it; a `ParameterError` for what no group can be."""
    with suppress(pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        if isinstance(baseline, bool) == (dtype == pl.Boolean):
            return pl.lit(pl.Series([baseline], dtype=dtype).first(), dtype)
    raise ParameterError(
        f"baseline= must be one of the values of the by column, {dtype}; this {type(baseline).__name__} is none"
    )


def _aggregated(name: str, mechanism: Mechanism, person: str | None, repeats: Any, side: Groups) -> pl.LazyFrame:
    """Keys of groups, and in ``entry`` the tally of each, or its reports with the ids of their persons."""
    if person is None:
        return side.aggregated(tally_for(cs.by_name(name), mechanism, mechanism, repeats, grouped=bool(side.keys)))
    dtypes: Mapping[str, Any] = side.schema
    dtype = dtypes[name].ext_storage() if isinstance(dtypes[name], Report) else dtypes[name]
    whole = pl.List(pl.Struct({"report": dtype, "person": dtypes[person]}))
    both, kept = [cs.by_name(name), cs.by_name(person)], partial(_kept, mechanism=mechanism)
    return side.aggregated(pl.map_batches(both, kept, return_dtype=whole, returns_scalar=True))


def _kept(inputs: Sequence[pl.Series], return_dtype: Any = None, *, mechanism: Mechanism) -> pl.Series:
    """Polars calls it back: reports and whose they are -> one list of both."""
    reports, persons = inputs
    fields = [untyped(reports, mechanism).alias("report"), persons.alias("person")]
    return pl.DataFrame(fields).to_struct(reports.name).implode()


def _pairs(
    mine: Groups, theirs: Groups | None, aggregated: Callable[[Groups], pl.LazyFrame], baseline: Any
) -> pl.LazyFrame:
    """Keys of groups, and tallies ``before`` and ``after``; null where there is none."""
    tallies = aggregated(mine)
    if theirs is not None:
        first, second = tallies.rename({"entry": "before"}), aggregated(theirs).rename({"entry": "after"})
        if not mine.keys:
            return pl.concat([first, second], how="horizontal")
        return first.join(second, on=mine.names, how="full", coalesce=True, nulls_equal=True).sort(named(mine.keys))
    key = cs.by_name(mine.keys[-1])
    before = [key.alias(_WITH), pl.col("entry").alias("before")]
    if mine.window is not None:
        rest = named(mine.keys[:-1])
        before = [column.shift(1).over(rest) if rest else column.shift(1) for column in before]
        pairs = tallies.with_columns(before).filter(pl.col(_WITH).is_not_null() | key.is_null())
    else:
        before = [(column if baseline is None else column.filter(key == baseline)).first() for column in before]
        pairs = tallies.with_columns(before).filter(key.ne_missing(pl.col(_WITH)))
    return pairs.rename({"entry": "after"})


def _answered(
    inputs: Sequence[pl.Series], return_dtype: Any = None, *, mechanism: Mechanism, asked: Compare, required: bool
) -> pl.Series:
    """Polars calls it back: tallies before and after -> lists of rows, pair by pair but all at once."""
    _check_baseline(inputs[0], required)
    sides = [counts_with_nulls(side, mechanism) for side in inputs]
    n, counters = (np.stack(arrays, axis=1) for arrays in zip(*sides, strict=True))
    table, lengths = asked.rows(mechanism, n, counters)
    return answers_of(inputs[0].name, table, lengths, return_dtype)


def _answered_by_person(
    inputs: Sequence[pl.Series], return_dtype: Any = None, *, mechanism: Any, asked: Any, required: bool
) -> pl.Series:
    """`_answered` of reports and persons."""
    _check_baseline(inputs[0], required)
    schema = asked.schema(mechanism)
    tables = [schema.empty_table()]
    for given in zip(*inputs, strict=True):
        pair = [one if one is not None and len(one) else None for one in given]
        there = [one for one in pair if one is not None]
        reports = [to_arrow(one.struct.field("report").alias("reports")) for one in there]
        if len(there) == len(pair):
            found = asked.of_persons(mechanism, reports, [ids_to_arrow(one.struct.field("person")) for one in there])
            tables.append(found.to_arrow().cast(schema))
        else:  # (of a side there is nothing, of which persons could be told apart)
            some = iter(map(mechanism.tally, reports))
            tallies = [mechanism.empty_tally() if one is None else next(some) for one in pair]
            counters = np.array([[one.counters for one in tallies]])
            tables.append(asked.rows(mechanism, np.array([[one.n for one in tallies]]), counters)[0])
    return answers_of(inputs[0].name, pa.concat_tables(tables), [len(table) for table in tables[1:]], return_dtype)


def _check_baseline(before: pl.Series, required: bool) -> None:
    if required and before.null_count():
        raise ParameterError("there are no reports of the baseline: it is one of the values of the by column")


def _refuse_itself(reports: Any, other: Any, plan: PrivacyPlan) -> None:
    """Raise `ParameterError` if eager reports are on both sides; of lazy ones `_not_of_itself` does, when they run."""
    if other is reports or (isinstance(reports, pl.DataFrame) and any_copies([(reports, plan), (other, plan)])):
        raise ParameterError(_ITSELF)


def _not_of_itself(pairs: pl.LazyFrame, reports: Any, other: Any, plan: PrivacyPlan) -> pl.LazyFrame:
    """The pairs; when run a `ParameterError` if two lazy frames have the same reports."""
    if other is None or not isinstance(reports, pl.LazyFrame):
        return pairs
    mine, theirs = (digest_of(side, plan).select(pl.all().alias(name)) for name, side in (("a", reports), ("b", other)))
    checked = pl.map_batches(["a", "b"], partial(_checked, plan=plan), return_dtype=pl.Boolean).alias("entry")
    same = mine.join(theirs, how="cross").select(checked)
    return pairs.join(same, how="cross", maintain_order="left").filter("entry").drop("entry")


def _checked(inputs: Sequence[pl.Series], return_dtype: Any = None, *, plan: PrivacyPlan) -> pl.Series:
    """Polars calls it back: digests of both sides -> true, or a `ParameterError`."""
    for mine, theirs in zip(*inputs, strict=True):
        if are_copies(mine, theirs, plan):
            raise ParameterError(_ITSELF)
    return pl.Series([True] * len(inputs[0]), dtype=pl.Boolean)
