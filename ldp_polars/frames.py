"""Whole frames: perturb by a plan, estimate every column, explain what a plan costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import polars as pl
from polars import selectors as cs

from ldp_core import (
    HistogramEstimate,
    InputError,
    Mechanism,
    ParameterError,
    PlanError,
    PrivacyPlan,
    Question,
    ReportError,
    engine,
)
from ldp_core.engine import ESTIMATES_OFFERED as OFFERS
from ldp_core.engine import HISTOGRAM_ENTRY as ENTRY
from ldp_polars.columns import (
    Report,
    as_expr,
    check_proved,
    check_repeats_said,
    from_physical,
    holds_reports,
    in_query,
    refuse_reports,
    to_arrow,
    unnamed,
    untyped,
)
from ldp_polars.estimating import aggregate, answers
from ldp_polars.noise import NoiseOptions, ids_to_arrow, refuse_own_id
from ldp_polars.perturbing import perturb_column, perturb_drawn, row_index
from ldp_polars.planned import check_reports, checked_plan, plan_of, schema_of
from ldp_polars.tallying import tally_dtype, tally_series, warn_of_copies
from ldp_polars.windows import WINDOW_END, WINDOW_START, check_window, window_end, window_start

if TYPE_CHECKING:
    from ldp_core.engine import Consistency, Population

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)


def perturb_frame(
    frame: Frame, plan: PrivacyPlan, *, packed: bool = False, typed: bool = True, **noise: Unpack[NoiseOptions]
) -> Frame:
    """Planned columns perturbed, the plan's ``keep`` passed on, all else dropped.

    Args:
        frame: eager or lazy; of a lazy one only the schema is resolved here. Its rows stay in their order: if that
            follows a private value, it tells it.
        plan: mechanisms by column.
        packed, typed: see `perturb`. `sink_parquet` asks for typed reports.
        noise: see `perturb`; a tag is added to the columns' names. A seeded plan brings its ``seed``; give
            ``plan.seeded(1)`` rather than ``seed=1`` where the reports are stored, and the plan with them.

    Raises:
        PlanError: at once: the frame lacks a planned column, ``plan`` is not a plan, or has another seed.
        MechanismMismatchError: at once: a planned column holds typed reports already.

    Warns:
        LdpWarning: at once: the plan is seeded, so that its noise protects nobody.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}, keep=["day"])
    >>> ldp_polars.perturb_frame(pl.DataFrame({"day": [1], "crashed": [True], "user": ["u1"]}), plan).columns
    ['crashed', 'day']
    """
    schema = schema_of(frame)
    checked_plan(plan).check_records(schema.names())
    refuse_reports({name: schema[name] for name in plan.inputs})
    if (ids := noise.get("id")) is not None:
        refuse_own_id(ids, plan.inputs)
    # by_name, because pl.col reads "*" and "^...$" as patterns, which match columns that the plan does not name.
    if plan.seed is not None:
        if noise.get("seed", plan.seed) != plan.seed or noise.get("key") is not None:
            raise PlanError(f"the plan is seeded with {plan.seed}: pass no other seed and no key")
        noise["seed"] = plan.seed
        engine.warn_of_seed(plan)
    index = row_index()
    if _is_column(noise.get("id")) and _is_column(noise.get("row_id")):  # ids by position would find the row numbers
        counted = unused(schema.names())
        frame, index = frame.with_row_index(counted), pl.col(counted)
    reports = [
        perturb_column(cs.by_name(name), mechanism, packed=packed, typed=typed, noise=noise, column=name, index=index)
        for name, mechanism in plan.columns.items()
        if not isinstance(mechanism, engine.DrawnColumn)
    ]
    kept = [cs.by_name(name) for name in plan.keep]
    if plan.drawn is None:
        return frame.select(*reports, *kept)
    # The struct column is there before it is unnested: two fields of one expression would be of two draws.
    structs = unused(plan)
    fields = {name: f"{structs}{position}" for position, (name, _) in enumerate(plan.drawn.columns)}
    drawn = perturb_drawn(plan.drawn, tuple(fields.values()), index=index, packed=packed, typed=typed, **noise)
    marks = {"seeded": noise.get("seed") is not None, "keyed": noise.get("key") is not None}
    columns = [
        from_physical(pl.col(fields[name]), m, packed=packed, typed=typed, **marks).alias(name)
        if isinstance(m, engine.DrawnColumn)
        else cs.by_name(name)
        for name, m in plan.columns.items()
    ]
    return frame.select(drawn.alias(structs), *reports, *kept).unnest(structs).select(*columns, *kept)


def _is_column(ids: pl.Expr | str | None) -> bool:
    """Whether ids are one column by its name, or none."""
    if ids is None:
        return True
    expr = as_expr(ids)
    name = expr.meta.output_name(raise_if_undetermined=False)
    return name is not None and not expr.meta.has_multiple_outputs() and expr.meta == pl.col(name)


def unused(names: Iterable[str]) -> str:
    """A word that none of ``names`` begins with."""
    taken = tuple(names)
    words = (f"reports_{number}_" for number in range(len(taken) + 1))
    return next(word for word in words if not any(name.startswith(word) for name in taken))


def histograms(
    reports: Frame,
    plan: PrivacyPlan | None = None,
    *,
    by: str | Iterable[str] = (),
    window: str | timedelta | None = None,
    event_time: str | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    consistency: Consistency | None = None,
    population: Population = None,
    repeats: int | None = None,
    person: str | None = None,
    assume_reports: bool = False,
) -> Frame:
    """Estimate all columns of a frame of reports that have a histogram: one tidy frame.

    Numbers, `HierarchicalHistogram`, sketches and heavy hitters are left out (`estimates` has them all). Of a plan of
    pairs there is also one of each column that the pairs hold; ``person`` does not go with them. Of a sketch there is
    one if ``plan`` has the sketch with candidates, ``sketch.over([...])``, in its place.

    Args:
        reports: made by ``plan``, eager or lazy.
        plan: the plan that made them. Not needed for typed reports.
        by: columns to estimate by.
        window: length of windows of ``event_time``: ``"1w"``, ``"1h"``, ``"1mo"``, or a timedelta. Windows of weeks
            begin on Mondays, those of ``"7d"`` on Thursdays, as 1970-01-01 was one; ``"1w+6d"`` begin 6 days later. The
            first and the last may be partial: compare their ``n``. Each ends when the next begins, also where a clock
            changes; see `window_start`.
        event_time: a Datetime or Date column; needed with ``window``.
        confidence, simultaneous, consistency, population, repeats: see `histogram`.
        person: the column that says whose report it is, see `estimate`. With windows the reports of one person in one
            window are taken together.
        assume_reports: see `estimate`.

    Returns:
        Columns ``column_name``, the ``by`` columns, ``window_start`` and ``window_end`` (where asked for), and the
        fields that `histogram` has; sorted, by column in the plan's order, and the values as their domain has them.
        ``value`` is of the values' own type if all these columns have the same; otherwise it is text, ``false`` and
        ``true`` for Booleans. `estimates` has a frame for each column, whose values are always of their own type.

    Raises:
        PlanError: at once: the frame lacks a column, or a column's dtype is not that of the plan's reports; or none of
            the columns has a histogram; or a ``by`` column has the name of a column of the result.
        ReportError: when run: a row of a sampled plan has no answer, or several, as after a left join.
        DtypeError: nothing says that a column holds reports.
        ParameterError: ``window`` without ``event_time``, or the other way round.
        MechanismMismatchError: a ``by`` column holds reports.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}, keep=["os"])
    >>> df = pl.DataFrame({"os": ["ios", "ios", "web"], "crashed": [True, False, True]})
    >>> df.ldp.perturb(plan).ldp.histograms(by="os").select("column_name", "os", "value", "n").rows()
    [('crashed', 'ios', False, 2), ('crashed', 'ios', True, 2), ('crashed', 'web', False, 1), \
('crashed', 'web', True, 1)]
    """
    plan = plan_of(reports, plan)
    if not plan.oracles:
        trees = "; .ldp.estimates(plan) has the histogram of a HierarchicalHistogram"
        raise PlanError(f"none of the columns {list(plan.columns)} has a histogram: {OFFERS}{trees}")
    taken = {"column_name", "entry", *ENTRY}
    groups = groups_of(reports, plan, by, window, event_time, taken, assume_reports, plan.oracles)
    ask = HistogramEstimate(confidence, simultaneous, consistency, population, repeats=repeats)
    of: dict[str, Any] = {**plan.oracles, **_margins(plan, person, reports)}
    asked = engine.questions_and_margins(plan.oracles, dict.fromkeys(of, ask))
    value = pl.col("value") if len({m.domain.arrow_type for m in of.values()}) == 1 else pl.col("value").cast(pl.String)
    each = {name: groups.entries(name, of[name], how, person) for name, how in asked.items()}
    tidy = pl.concat(
        table.with_columns(value, pl.lit(name).alias("column_name")) for name, table in each.items()
    ).select("column_name", *named(groups.names), *ENTRY)
    return tidy if isinstance(reports, pl.LazyFrame) else tidy.collect()


def estimates(
    reports: Frame,
    plan: PrivacyPlan | None = None,
    *,
    by: str | Iterable[str] = (),
    window: str | timedelta | None = None,
    event_time: str | None = None,
    confidence: float = 0.95,
    ask: Mapping[str, engine.Ask] | None = None,
    population: Population = None,
    repeats: int | None = None,
    person: str | None = None,
    assume_reports: bool = False,
) -> dict[str, Frame]:
    """Estimate every column of a frame of reports, each in a table of its own.

    Args:
        reports, plan, by, window, event_time, confidence, person, assume_reports: see `histograms`.
        ask: by column, what to ask other than the usual (`ldp_core.usual_question`): a `ldp_core.Question`, or what
            stands for one (`ldp_core.question_of`).
        population, repeats: see `histogram`; unless ``ask`` says it. Some questions take no more than ``repeats=1``.

    Returns:
        By column of the plan (and, of pairs, by each column that they hold):
        the ``by`` columns, ``window_start`` and ``window_end`` (where asked for), and the
        fields of the estimate, as `histogram`, `mean`, `distribution` and `heavy_hitters` have them, with values of
        their own type. A group in which no heavy hitter was found has no row. Of a lazy frame each is a query: if that
        perturbs, `polars.collect_all` runs them together, of one draw of the column that a record answers.

    Raises:
        PlanError, DtypeError: see `histograms`; or a column has no estimate, as a sketch without candidates.
        ParameterError: an estimate that the mechanism does not offer.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import Hybrid, PrivacyPlan, RandomizedResponse
    >>> plan = PrivacyPlan({"level": RandomizedResponse([1, 2, 10], epsilon=1.0), "age": Hybrid((0, 120), epsilon=1.0)})
    >>> found = pl.DataFrame({"level": [1, 2], "age": [40, 60]}).ldp.perturb(plan).ldp.estimates()
    >>> found["level"]["value"].to_list(), found["age"].columns
    ([1, 2, 10], ['mean', 'standard_error', 'low', 'high', 'n'])
    """
    plan = plan_of(reports, plan)
    of: dict[str, Any] = {**plan.columns, **_margins(plan, person, reports)}
    asked = engine.questions_and_margins(plan.columns, ask, confidence, population=population, repeats=repeats)
    names: set[str] = {field for name, how in asked.items() for field in how.schema(of[name]).names}
    together = () if isinstance(reports, pl.LazyFrame) else asked
    groups = groups_of(reports, plan, by, window, event_time, {"entry", *names}, assume_reports, together)
    made: dict[str, Any] = {}
    for name, how in asked.items():
        table = groups.entries(name, of[name], how, person)
        made[name] = table if isinstance(reports, pl.LazyFrame) else table.collect()
    return made


def _margins(plan: PrivacyPlan, person: str | None, reports: pl.DataFrame | pl.LazyFrame) -> dict[str, Any]:
    """What columns are tallied from that pairs of the plan hold; refuses persons with them, or ids without column."""
    found: dict[str, Any] = engine.margins(plan.columns)
    if person is not None and not (isinstance(person, str) and person in reports.collect_schema()):
        there = reports.collect_schema().names()
        raise PlanError(f"person={person!r}: expected a column that the plan keeps; the reports have {there}")
    if found and person is not None:
        raise ParameterError(engine.NO_PERSONS)
    return found


def named(columns: Iterable[str]) -> list[pl.Expr]:
    """Columns of these names, which for Polars may be patterns."""
    return [cs.by_name(name) for name in columns]


@dataclass(frozen=True)
class Groups:
    """Reports, with the start of the window of each, and the columns to group by, of which that start is the last."""

    reports: pl.LazyFrame
    keys: tuple[str, ...]
    window: str | timedelta | None

    @cached_property
    def schema(self) -> pl.Schema:
        """Of the reports."""
        return self.reports.collect_schema()

    @property
    def names(self) -> tuple[str, ...]:
        """What tells the groups apart in a table."""
        return self.keys if self.window is None else (*self.keys, WINDOW_END)

    def aggregated(self, entry: pl.Expr) -> pl.LazyFrame:
        """What an aggregation gives, ``entry``, by the keys and sorted by them: a row a group."""
        entry, lazy, keys = entry.alias("entry"), self.reports, named(self.keys)
        grouped = lazy.group_by(keys).agg(entry).sort(keys) if keys else lazy.select(entry)
        if self.window is not None:
            end = window_end(pl.col(WINDOW_START), self.schema[WINDOW_START], self.window).alias(WINDOW_END)
            grouped = grouped.select(*keys, end, "entry")
        return grouped

    def entries(self, name: str, mechanism: Any, how: Question[Any], person: str | None = None) -> pl.LazyFrame:
        """The estimate of a column, by the keys and sorted by them: a row an entry."""
        if not isinstance(mechanism, Mechanism):
            return self.of_several(mechanism, how)
        whose = None if person is None else cs.by_name(person)
        if whose is None:
            check_repeats_said(name, self.schema[name], mechanism, how.repeats)
        grouped = self.aggregated(aggregate(cs.by_name(name), mechanism, how, whose, grouped=bool(self.keys)))
        if not how.single:
            grouped = grouped.explode("entry", empty_as_null=False)
        return grouped.unnest("entry")

    def of_several(self, tallier: Any, how: Question[Any]) -> pl.LazyFrame:
        """The estimate of what is tallied from several columns, as `entries`."""
        tally = pl.map_batches(
            named(tallier.by_column("")),
            in_query(_tallied, tallier=tallier, repeats=how.repeats),
            return_dtype=tally_dtype(tallier),
            returns_scalar=True,
        )
        return self.aggregated(answers(tally, tallier, how)).explode("entry", empty_as_null=False).unnest("entry")


def _tallied(inputs: Sequence[pl.Series], return_dtype: object = None, *, tallier: Any, repeats: Any) -> pl.Series:
    """Polars calls it back: columns of reports -> one tally."""
    arrays = {}
    for (name, mechanism), reports in zip(tallier.by_column("").items(), inputs, strict=True):
        arrays[name] = to_arrow(untyped(reports, mechanism))
        warn_of_copies(reports, arrays[name], mechanism, repeats)
    tally = tallier.tally(arrays)
    return tally_series(inputs[0].name, [tally.n], tally.counters, tally.fingerprint)


def groups_of(
    reports: pl.DataFrame | pl.LazyFrame,
    plan: PrivacyPlan | Mapping[str, Mechanism],
    by: str | Iterable[str],
    window: str | timedelta | None,
    event_time: str | None,
    taken: set[str],
    assume_reports: bool,
    together: Iterable[str] = (),
) -> Groups:
    """Reports of a plan, or of some columns, and the columns to group by, of which none is ``taken``.

    Of columns of which a record answers one each checks that it did; of those that are always asked ``together`` one.
    """
    if (window is None) != (event_time is None):
        raise ParameterError('window= and event_time= go together: window="7d", event_time="time"')
    columns = check_reports(reports, plan, *([pl.String] if assume_reports else []))
    keys: list[str] = list(by) if isinstance(by, Iterable) and not isinstance(by, (str, pl.Expr)) else [by]
    for argument, name in [*(("by", key) for key in keys), ("event_time", event_time)]:
        if not isinstance(name, str) and (argument == "by" or name is not None):
            raise ParameterError(
                f"{argument}= takes names of columns, got {type(name).__name__}: make the column before, and let the "
                f'plan keep it: frame.with_columns(day=pl.col("time").dt.date()), keep=["day"], {argument}="day"'
            )
    if twice := sorted({name for name in keys if keys.count(name) > 1}):
        raise ParameterError(f"by= has the columns {twice} twice")
    dtypes = reports.collect_schema()
    missing = [name for name in (*keys, event_time) if name is not None and name not in dtypes]
    if missing:
        raise PlanError(
            f"the reports do not have the columns {missing}, by which to estimate; they have {dtypes.names()}: "
            "a plan passes on what its keep names"
        )
    if objects := [name for name in keys if isinstance(dtypes[name], pl.Object)]:
        raise PlanError(
            f"by= columns {objects} are of Python objects, which Polars does not group: make text of them before, as "
            "column.map_elements(str, return_dtype=pl.String)"
        )
    ours = {WINDOW_START, WINDOW_END} if window is not None else set()
    if both := sorted((taken | ours) & {*keys} | ours & {WINDOW_START} & columns.keys()):
        raise PlanError(engine.taken_names("the result", both))
    engine.refuse_keys_in({*keys} & columns.keys(), "the plan")
    engine.refuse_private(columns, (*keys, event_time))
    engine.refuse_keys_in({name for name in keys if holds_reports(dtypes[name])}, "their dtype")
    check_proved({name: dtypes[name] for name in columns}, assume_reports=assume_reports)
    lazy = reports.lazy()
    if isinstance(plan, PrivacyPlan) and plan.drawn is not None:
        drawn = [name for name, m in plan.drawn.columns if m.reports.nullable]
        lazy = _answered_once(lazy, drawn, dtypes, [name for name in together if name in drawn][:1] or drawn)
        lazy = lazy.cache()  # if it perturbs, each column would be of a draw of its own, and each draw spends epsilon
    if window is not None and event_time is not None:
        check_window(dtypes[event_time], window, event_time)
        lazy = lazy.with_columns(window_start(cs.by_name(event_time), window).alias(WINDOW_START))
        keys.append(WINDOW_START)
    return Groups(lazy, tuple(keys), window)


def check_same_keys(sides: Sequence[Groups]) -> None:
    """Raise `PlanError` unless the columns to group by have the same dtypes on all sides, as equal groups need."""
    schemas = [side.schema for side in sides]
    for key in sides[0].keys:
        kinds = [schema[key] for schema in schemas]
        if any(kind != kinds[0] for kind in kinds):
            got = [kind if isinstance(kind, pl.Datetime) else kind.base_type() for kind in kinds]  # an Enum has values
            raise PlanError(
                f"{'event_time=' if key == WINDOW_START else f'column {key!r}'}: groups must be of one dtype in all "
                f"frames, got {', '.join(map(str, got))}: cast them, and convert times to one time zone, before"
            )


def _answered_once(lazy: pl.LazyFrame, names: list[str], dtypes: Mapping[str, Any], where: list[str]) -> pl.LazyFrame:
    """The frame; where a column of ``where`` is read, each row must answer one of ``names``."""
    there = []
    for name, column in zip(names, named(names), strict=True):
        typed = isinstance(dtype := dtypes[name], Report)
        plain, kind = (column.ext.storage(), dtype.ext_storage()) if typed else (column, dtype)
        there.append((plain.arr.first() if isinstance(kind, pl.Array) else plain).is_not_null())  # a list of nulls
    return lazy.with_columns(
        pl.map_batches([column, pl.sum_horizontal(there)], _once, return_dtype=dtypes[name], is_elementwise=True)
        for name, column in zip(where, named(where), strict=True)
    )


def _once(inputs: Sequence[pl.Series], return_dtype: object = None) -> pl.Series:
    """Polars calls it back: (reports, of how many columns a row has an answer) -> the reports."""
    reports, answers = inputs
    if wrong := len(answers) - int((unnamed(answers) == 1).sum()):
        raise ReportError(
            f"column {reports.name!r}: in a batch {wrong} of {len(answers)} rows have no answer, or several, in the "
            "columns of which a record answers one: they are no reports of this plan, as the rows that a left join adds"
        )
    return reports


def explain(
    frame: pl.DataFrame | pl.LazyFrame,
    plan: PrivacyPlan,
    *,
    id: pl.Expr | str | None = None,  # noqa: A002 (as of keyed noise)
    keyed: bool = False,
    total: float | None = None,
    delta: float | None = None,
) -> str:
    """What a plan costs and gives for as many records as there are; see `PrivacyPlan.explain`.

    Args:
        frame: of records or reports; a lazy one is run, to count its rows.
        plan: mechanisms by column.
        id: whose record it is, to say what a person spends with as many records as there are of one: of the person in
            the middle (the median) and of the one with the most, whose are then ``total``.
        keyed: whether the noise is keyed, for what several reports of one person spend; with ``id`` the margin is that
            of reports whose noise is common to all of a person.
        total, delta: see `PrivacyPlan.explain`.

    Raises:
        InputError, DtypeError: null ids, or ids of another type than keyed noise takes.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    >>> print(pl.DataFrame({"crashed": [True] * 100}).ldp.explain(plan).splitlines()[1])
    crashed         randomized_response  1        ± 18.8 % of the records
    """
    how: dict[str, Any] = {"keyed": keyed, "total": total, "delta": delta}
    if id is None:
        n = frame.height if isinstance(frame, pl.DataFrame) else int(frame.select(pl.len()).collect().item())
        return checked_plan(plan).explain(n, **how)
    counted = frame.lazy().group_by(as_expr(id).alias("id")).len().collect()
    engine.check_id_type(ids_to_arrow(counted["id"].head(0)).type)
    if nobody := counted.filter(pl.col("id").is_null())["len"].sum():
        raise InputError(f"{nobody:,} of {counted['len'].sum():,} ids are null: whose records are they?")
    each = counted["len"]
    if not len(each):
        return checked_plan(plan).explain(0, **how)
    middle, most = (math.ceil(each.quantile(q, "higher") or 0) for q in (0.5, 1.0))
    spent = checked_plan(plan).epsilon_of(most, changes=None, keyed=keyed)
    if total is None and most > 1 and math.isfinite(spent):
        how["total"] = spent
    numbers = each.to_numpy().astype(float)
    how["repeats"] = float(numbers @ numbers / numbers.sum())
    text = plan.explain(int(each.sum()), records=sorted({1, middle, most}), **how)
    if len(each) == 1:
        return f"1 person, {most:,} record{'s' * (most > 1)}\n\n{text}"
    some = f"half of them with at most {middle:,} of the records, nobody with more than {most:,}"
    return f"{len(each):,} people, {some if most > 1 else 'one record each'}\n\n{text}"


def simulate(
    frame: pl.DataFrame | pl.LazyFrame,
    plan: PrivacyPlan,
    *,
    n: int | None = None,
    seed: int | None = None,
    confidence: float = 0.95,
    ask: Mapping[str, engine.Ask] | None = None,
    repeats: int = 1,
) -> engine.Simulation:
    """What the estimates of a plan would look like for these data, without making reports; see `PrivacyPlan.simulate`.

    Args:
        frame: records; a lazy one is run.
        plan: mechanisms by column.
        n: people, with the shares of the data; default: as many as there are records.
        seed: for the same again.
        confidence, ask: see `estimates`.
        repeats: see `PrivacyPlan.simulate`.

    Raises:
        PlanError: a planned column is missing.
        MechanismMismatchError: a planned column holds reports.
        DomainError, DtypeError: see `Domain.encode`.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    >>> seen = pl.DataFrame({"crashed": [True, False, False, False]}).ldp.simulate(plan, n=1_000_000, seed=1)
    >>> seen["crashed"].to_polars().select("value", pl.col("frequency").round(3)).rows()
    [(False, 0.75), (True, 0.25)]
    """
    plan, generator, lazy = checked_plan(plan), engine.generator_of(seed), frame.lazy()
    schema = lazy.collect_schema()
    if missing := [name for name in plan.inputs if name not in schema]:
        raise PlanError(f"the plan names columns that the frame does not have: {missing}")
    refuse_reports({name: schema[name] for name in plan.inputs})
    people = {}
    for name in plan.columns:
        own = list(plan.sources(name))
        counted = lazy.group_by(named(own), maintain_order=True).agg(pl.len().alias("people" + name)).collect()
        *values, numbers = counted.get_columns()
        weights = numbers.cast(pl.Int64).to_numpy()
        arrays = {x: to_arrow(one, plan.inputs[x].kind) for x, one in zip(own, values, strict=True)}
        people[name] = plan.values_of(name, arrays), weights if n is None else engine.apportioned(name, weights, n)
    return engine.simulated(plan.columns, people, generator, confidence, ask, repeats)
