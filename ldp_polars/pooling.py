"""Several plans, one population: what files of reports, or frames, of different plans say together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from polars import selectors as cs

from ldp_core import FrequencyOracle, Numeric, ParameterError, PlanError, PrivacyPlan
from ldp_core.engine import check_open, common_values, files_of, pooled_rows, warn_user
from ldp_polars.columns import check_repeats_said, is_seeded, of_one_seed
from ldp_polars.copies import any_copies
from ldp_polars.frames import check_same_keys, groups_of, named, unused
from ldp_polars.planned import checked_plan, read_plan
from ldp_polars.tallying import counts_with_nulls, tally_for

_TWICE = "the same reports are there twice: people count once, so give each file or frame once"
_ANSWER = ("value", "estimate", "standard_error", "low", "high", "q", "p_value", "n")
_Source = tuple[pl.DataFrame | pl.LazyFrame, PrivacyPlan]


def pool(
    reports: Iterable[str | Path | tuple[pl.DataFrame | pl.LazyFrame, PrivacyPlan]],
    *,
    columns: Sequence[str] | None = None,
    by: str | Iterable[str] = (),
    window: str | timedelta | None = None,
    event_time: str | None = None,
    confidence: float = 0.95,
    repeats: int | None = None,
    assume_reports: bool = False,
) -> pl.DataFrame:
    """What reports of several plans say together of one population; see `ldp_core.pool`.

    Args:
        reports: two or more: Parquet files (or patterns, or folders) of reports, which say their plan themselves; or
            pairs of a frame, eager or lazy, and the plan that made it. They are of other people each.
        columns: which to pool. Default: all frequency oracles and numbers that all plans have; a warning names others.
        by, window, event_time, assume_reports: see `histograms`. In groups of which one plan has no reports the others
            tell alone.
        confidence: of each interval, in (0, 1).
        repeats: the most reports of one person in a group; keyed noise asks for it, see `histogram`, and so do plans of
            one seed.

    Returns:
        Columns ``column_name``, the ``by`` columns, ``window_start`` and ``window_end`` (where asked for), ``value``,
        and those of `ldp_core.Pooled`; numbers have one row, without a value. ``value`` is text if the columns' values
        are of several types.

    Raises:
        PlanError: see `histograms` and `read_plan`; the plans have no such column in common; the ``by`` columns, or the
            times, are not of one dtype in all frames.
        ParameterError, MechanismMismatchError: fewer than two; the same reports twice (a file in two of the folders
            and patterns, a copy of a file or frame, or a part of it; scattered rows of it are recognized where reports
            have many values, see docs/compare.md); keyed noise or one seed, and no ``repeats``; see `ldp_core.pool`.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> plans = [PrivacyPlan({"crashed": RandomizedResponse(epsilon=e)}) for e in (40.0, 50.0)]
    >>> records = [pl.DataFrame({"crashed": [True, False] * n}) for n in (10, 30)]
    >>> made = [(frame.ldp.perturb(plan), plan) for frame, plan in zip(records, plans)]
    >>> ldp_polars.pool(made).select("column_name", "value", pl.col("estimate").round(6), "n").rows()
    [('crashed', False, 0.5, 80), ('crashed', True, 0.5, 80)]
    """
    check_open("confidence", confidence)
    given = list(reports) if isinstance(reports, Iterable) and not isinstance(reports, (str, pl.DataFrame)) else []
    sources = [_source(one) for one in given]
    if len(sources) < 2:
        raise ParameterError("pool takes a list of two files or more, or of pairs of a frame and its plan")
    _refuse_same(given)
    plans = [plan for _, plan in sources]
    of_all = {name: [plan.columns.get(name) for plan in plans] for name in plans[0].columns}
    names = [name for name, made in of_all.items() if all(isinstance(m, (FrequencyOracle, Numeric)) for m in made)]
    if unknown := sorted({*(columns or ())} - {*names}):
        raise PlanError(
            f"not all plans have shares or a mean of {unknown}; in common they have {names}. Where a column has one "
            "mechanism in all plans, pl.concat of this column puts the reports together"
        )
    left = dict.fromkeys(name for plan in plans for name in plan.columns if name not in names)
    names = [name for name in names if columns is None or name in columns]
    if not names:
        raise PlanError("the plans have no column in common that has shares or a mean")
    if left and columns is None:
        warn_user(f"{', '.join(left)}: left out, as not all plans have shares or a mean of it")
    mechanisms = {name: [plan[name] for plan in plans] for name in names}
    _check_noise(sources, names, repeats)
    types = {common_values(made)[0].type for made in mechanisms.values()}
    taken = {"column_name", "entry", *_ANSWER}
    grouped = [groups_of(frame, plan, by, window, event_time, taken, assume_reports, names) for frame, plan in sources]
    if any_copies(sources):
        raise ParameterError(_TWICE)
    check_same_keys(grouped)
    keys = named(grouped[0].names)
    own = unused([*grouped[0].names, *_ANSWER])
    place, entries = own, [f"{own}{k}" for k in range(len(plans))]
    tables = []
    queries = [
        g.aggregated(tally_for(cs.by_name(name), m, m, repeats, grouped=bool(g.keys)))
        for name, made in mechanisms.items()
        for g, m in zip(grouped, made, strict=True)
    ]
    tallies = iter(pl.collect_all(queries))  # together: what a lazy frame perturbs is drawn once for all columns
    for name, made in mechanisms.items():
        found = [next(tallies).rename({"entry": entry}) for entry in entries]
        sides = pl.concat(found, how="diagonal" if keys else "horizontal")
        if keys:
            sides = sides.group_by(keys, maintain_order=True).agg(pl.col(one).drop_nulls().first() for one in entries)
        counted = [counts_with_nulls(sides[entry], m) for entry, m in zip(entries, made, strict=True)]
        n, counters = np.stack([people for people, _ in counted], axis=1), [sums for _, sums in counted]
        if not n.any():
            raise ParameterError("there are no reports to pool")
        values, numbers = pooled_rows(made, n, counters, confidence, repeats)
        pairs = [array.reshape(-1) for array in np.indices((len(sides), len(values)))]
        answer = {place: pl.Series(pairs[0], dtype=pl.UInt32), "value": pl.Series(values.take(pa.array(pairs[1])))}
        answer |= dict(zip(_ANSWER[1:], [*numbers.reshape(6, -1), n.sum(axis=1)[pairs[0]]], strict=True))
        value = pl.col("value") if len(types) == 1 else pl.col("value").cast(pl.String)
        head = pl.lit(name).alias("column_name")
        joined = sides.with_row_index(place).join(pl.DataFrame(answer), on=place, maintain_order="left_right")
        tables.append(joined.select(head, *keys, value, *_ANSWER[1:]))
    order = {name: k for k, name in enumerate(names)}
    return pl.concat(tables).sort(pl.col("column_name").replace_strict(order), *keys, maintain_order=True)


def _refuse_same(given: Iterable[Any]) -> None:
    """Raise `ParameterError` if a file, by whatever name, or a frame is there twice."""
    each = [
        {Path(file).resolve() for file in files_of(one)} if isinstance(one, (str, Path)) else {id(one[0])}
        for one in given
        if not (isinstance(one, tuple) and isinstance(one[0], pl.DataFrame) and one[0].is_empty())
    ]
    if any(one & other for one, other in combinations(each, 2)):
        raise ParameterError(_TWICE)


def _source(one: Any) -> _Source:
    """Reports and their plan."""
    if isinstance(one, (str, Path)):
        return pl.scan_parquet(files_of(one), glob=False), read_plan(one)  # (as `ldp estimate` reads a folder)
    if not (isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], (pl.DataFrame, pl.LazyFrame))):
        raise ParameterError(f"pool takes files, or pairs of a frame and its plan, got {type(one).__name__}")
    return one[0], checked_plan(one[1])


def _check_noise(sources: Sequence[_Source], names: Sequence[str], repeats: int | None) -> None:
    """Raise `ParameterError` if noise is keyed, or of one seed in two sources, and nobody says ``repeats``."""
    seeded: list[Any] = []
    for name, (frame, plan) in product(names, sources):
        dtype = frame.collect_schema().get(name)
        check_repeats_said(name, dtype, plan[name], repeats)
        if plan.seed is not None or is_seeded(dtype):
            seeded.append((plan.seed, name, plan[name]))
    if repeats is None and len(set(seeded)) < len(seeded):  # (noise of other mechanisms is independent)
        own = "give each frame a plan with a seed of its own, plan.seeded(k), or say repeats="
        raise of_one_seed(f"{own}, how many frames there are (1 if row_id=, or one frame, told all rows apart)")
