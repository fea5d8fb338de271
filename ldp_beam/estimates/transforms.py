"""From reports, or values, to answers per window and key.

`Estimate` does it for every question; `Histogram` and `PrivateHistogram` are short names for a common one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import PCollection
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode, TriggerFn
from typing_extensions import override

import ldp_core as core
from ldp_beam._compat import StableInputParDo, knows_stable_input, lacks_clock
from ldp_beam.elements.ids import KeyLike, is_repeatable, noise_key
from ldp_beam.elements.records import FlushedAtOnce, RecordsTransform
from ldp_beam.elements.rows import check_fields, fields_of, row_type
from ldp_beam.estimates._empty import Fill, WithEmptyTallies
from ldp_beam.estimates._partials import (
    Key,
    KeyedTally,
    PartialTallies,
    PerturbAndTally,
    TallyReports,
    public_columns,
)
from ldp_beam.estimates._persons import PersonsCombineFn, SumPersons, person_of, refuse_panes
from ldp_beam.estimates.combine import TallyCombineFn
from ldp_beam.estimates.rows import RowsOf, refuse_nulls
from ldp_beam.graph.late import in_time
from ldp_beam.graph.upstream import (
    DrawsNoise,
    EndsValues,
    check_column,
    check_plan,
    persons_before,
    refuse_copies,
    refuse_other_reports,
    refuse_overlapping,
    refuse_perturbed,
    refuse_unbudgeted,
    refuse_unsaid,
)
from ldp_beam.time.times import EventTime, TimeUnit
from ldp_beam.time.triggers import check_trigger, check_windowing, has_one_end, reads_clock
from ldp_beam.time.windows import WindowLike, window_fn
from ldp_core import engine


class StreamOptions(TypedDict, total=False):
    """Keyword arguments of every transform that answers by window and key; see `Estimate`."""

    event_time: str | None
    time_unit: TimeUnit
    by: Iterable[str]
    trigger: TriggerFn | None
    allowed_lateness: float | str


class EstimateOptions(StreamOptions, total=False):
    """Keyword arguments of every transform that estimates; see `Estimate`."""

    window: WindowLike
    accumulation_mode: Any
    fill: Fill | None
    fill_keys: Iterable[Key] | None
    person: str | None


class PrivateOptions(EstimateOptions, total=False):
    """Keyword arguments of those that perturb, too; see `Estimate`."""

    key: KeyLike | None
    id: str | None
    record: str | None
    stabilize: bool


class Estimate(RecordsTransform, EndsValues, DrawsNoise):
    """Answer a question about a column, from reports or from values: rows per window, key and pane.

    The rows are NamedTuples with a Beam schema: of a histogram one `HistogramRow` per value, of a mean one `MeanRow`,
    of a distribution one `DistributionRow` per bucket, of heavy hitters one `HistogramRow` per value found, the most
    frequent first; of any question the columns of `Question.schema` between those that all rows have. Values of a
    domain of integers are in `IntegerHistogramRow`, of Booleans in `BooleanHistogramRow`; rows of columns of different
    types go through `text_row` before they go into one table. A number that the reports do not tell is nan, a word,
    date or time is None. Intervals are about the people who reported, unless the question has a ``population``; see
    `ldp_core.Histogram`.

    Elements may be ``pyarrow.RecordBatch`` or ``pyarrow.Table`` (the fast way), dictionaries, ``beam.Row`` or
    NamedTuples, with the report column in either layout. What flows between workers are tallies; the answer is made
    once per pane and key.

    Args:
        column: of the reports, or of the values.
        mechanism: that made the reports, or is to. Another one is refused if a `Perturb` before this step made them, or
            if a batch's metadata say so; single records that were stored in between do not tell. A batch that does not
            say that it holds reports is refused, unless ``beam.Map(plan.assume_reports)`` gives your word.
        question: a `ldp_core.Question`, or what stands for one (`ldp_core.question_of`). Default: what tells the most
            (`ldp_core.usual_question`).
        confidence: of the intervals, where the question does not say it.
        private: whether the column holds values, each perturbed once and tallied at once: the fast way when nobody
            stores the reports, which never leave memory.
        key, id, record: with ``private``; see `Perturb`.
        stabilize: with ``private``: on Flink hold rows back until they are in a checkpoint, unless a repeated bundle
            makes the same ones again (``record``, or ``key`` and ``id``). Without it a restart may tell a pane twice,
            with two noises of the same records, which then spend epsilon twice.
        window: fixed windows by length, in seconds or like ``"1h"``; or a Beam ``FixedWindows``, ``SlidingWindows`` (a
            record is in at most 20,000), ``Sessions`` (per key) or ``GlobalWindows``. None: the windows that the
            elements are in, with their panes; ``event_time`` is not read then. Windows of ``"1w"`` begin on Mondays, of
            ``"7d"`` on Thursdays (as 1970-01-01 was one), of ``"1w+6d"`` 6 days after Monday; all in UTC.
        event_time: column of the records' times: Arrow timestamps (without zone: UTC), dates, or integers or floats
            since the epoch; in single records also datetime or Beam Timestamp. None: the elements' timestamps. Times
            before 1990 or after 2100 are counted in the metric ``odd_times``, and said once a worker in its log.
        time_unit: of numbers in ``event_time``: ``"s"`` (default), ``"ms"``, ``"us"`` or ``"ns"``.
        by: columns to tally by, which every record has; null counts as the text ``null``. Equal values have one text,
            of whatever type and unit: ``1`` is also that of 1.0, and times with a zone are in UTC, with ``Z``.
        trigger: see ``beam.WindowInto``; by default one pane when the watermark passes the window's end and, within
            ``allowed_lateness``, one for each late batch. An ``AfterCount`` of more than one is refused: it would count
            partial tallies, see `AfterTallies`.
        accumulation_mode: ``"accumulating"`` (default): each pane estimates from all reports so far, and replaces
            the pane before, but not if a session has grown since: it is another window. ``"discarding"``: each pane
            has only the new ones. Or Beam's ``AccumulationMode``.
        allowed_lateness: seconds, or text like ``"10m"``; see ``beam.WindowInto``.
        fill: a pair (start, end) of times: windows that begin in this stretch have rows even if no report is in them,
            with ``n`` 0 (of `HeavyHitters` no rows). ``end`` None, in a stream: as its watermark goes on, and up to now
            when it ends. A time is a datetime or text in ISO 8601, with a zone, a Beam Timestamp, or seconds since the
            epoch. There are at most 20,000 windows.
        fill_keys: with ``by`` and ``fill``: the keys that have such rows.
        person: the column that says whose record it is, where people report again: integers, text or binary, hashed
            before they leave the worker. Errors and intervals of histograms and means are then those of independent
            people; see `ldp_core.Question.of_persons`. What a person sent is summed first, in each window and key, and
            then all persons; so each window has one pane, without ``trigger`` and ``allowed_lateness``, and none are
            sessions. Where that does not fit, the question has ``repeats=``.

    Records of one batch may be older than its timestamp: give batches that of their oldest record, or allow lateness.
    What a stream drops from fixed and sliding windows, or the input's fixed ones, is counted, by the counter ``late``,
    and reported as dead letters with the reason ``late`` (in sliding windows a record counts for each that it missed);
    from sessions not, nor what comes more than a week, or 10,000 windows if less, after its window (but an hour).

    Errors while the pipeline runs, unless `with_exception_handling` is used: `ReportError` or `DtypeError` (not
    reports of this mechanism), `DomainError` or `DtypeError` (not values of its domain), `PlanError` (no such column),
    `InputError` (no event time), `MechanismMismatchError` (the batch says that another mechanism made its reports; or,
    with ``private``, that the column holds reports already), `ParameterError` (the batch says that its noise is keyed).

    Raises:
        ParameterError: bad arguments, or a question that the mechanism cannot answer; keyed noise, also by what batches
            say while the pipeline runs, and neither ``person`` nor the question's ``repeats`` nor a limit before
            (`BoundContributions`, `PrivacyLedger`) that bounds it; `beam.Flatten` joins the input with itself; or the
            input is, or was, in windows that overlap, and is not asked in these windows as they are: pass them as
            ``window``; or a stream has none.
        PlanError: the schema of the input lacks a column.
        MechanismMismatchError: the pipeline perturbs the column with another mechanism, or leaves it as it is, or joins
            reports with the records that they were made of; or, with ``private``, it has perturbed the column already.

    >>> from ldp_core import MeanEstimate, OneBitMean
    >>> mechanism = OneBitMean((0, 10), epsilon=80.0)  # so large that a report says whether the number was 0 or 10
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     events = p | beam.Create([{"seconds": seconds} for seconds in (0, 10, 10, 0)])
    ...     rows = events | Estimate("seconds", mechanism, MeanEstimate(confidence=0.9), private=True)
    ...     _ = rows | beam.Map(lambda r: print(round(r.mean, 6), r.n, r.confidence))
    5.0 4 0.9
    """

    def __init__(
        self,
        column: str,
        mechanism: Any,
        question: engine.Ask | None = None,
        *,
        confidence: float = 0.95,
        private: bool = False,
        key: KeyLike | None = None,
        id: str | None = None,  # noqa: A002 (as in Polars)
        record: str | None = None,
        stabilize: bool = True,
        window: WindowLike = None,
        event_time: str | None = None,
        time_unit: TimeUnit = "s",
        by: Iterable[str] = (),
        trigger: TriggerFn | None = None,
        accumulation_mode: Any = None,
        allowed_lateness: float | str = 0,
        fill: Fill | None = None,
        fill_keys: Iterable[Key] | None = None,
        person: str | None = None,
    ) -> None:
        super().__init__()
        check_column(column)
        engine.check_open("confidence", confidence)
        asked = self._asked(question, mechanism, confidence)
        asked.check(mechanism)
        self._person = person_of(person, asked, mechanism)
        row_type(asked.schema(mechanism))  # which says now whether it fits into rows
        self._tallier = asked.tallier(mechanism)
        by = (by,) if isinstance(by, str) or not isinstance(by, Iterable) else tuple(by)
        of_columns = dict(mechanism.by_column(column))
        self._names = tuple(of_columns)
        _check_names(self._names, event_time, (*by, *([] if person is None else [person])))
        windows = window_fn(window)
        lateness = engine.seconds(allowed_lateness, name="allowed_lateness")
        if windows is None and (trigger is not None or accumulation_mode is not None or lateness):
            raise core.ParameterError("trigger, accumulation_mode and allowed_lateness need a window")
        if trigger is not None and not isinstance(trigger, TriggerFn):
            raise core.ParameterError(f"trigger must be a Beam trigger, got {type(trigger).__name__}")
        if trigger is not None:
            check_trigger(trigger, lateness)
        modes = {"accumulating": AccumulationMode.ACCUMULATING, "discarding": AccumulationMode.DISCARDING}
        if isinstance(accumulation_mode, bool) or accumulation_mode not in (None, *modes, *modes.values()):
            raise core.ParameterError(f"accumulation_mode must be one of {list(modes)}, got {accumulation_mode!r}")
        self._fill = None
        if fill is not None:
            empty = self._tallier.empty_tally()
            answer = asked.rows(mechanism, np.zeros(1, np.int64), empty.counters[np.newaxis])[0]
            refuse_nulls(asked, answer, " where there is no record: leave out fill=")
            nothing: Any = (empty,) if person is None else PersonsCombineFn(mechanism, asked).apply([])  # type: ignore[no-untyped-call]
            self._fill = WithEmptyTallies(windows, lateness, fill, _keys(fill_keys, by), nothing)
        elif fill_keys is not None:
            raise core.ParameterError("fill_keys= says which keys fill= fills: pass both")
        if not private and (key is not None or id is not None or record is not None):
            raise core.ParameterError("key=, id= and record= are for private=True: reports have their noise already")
        self._key = noise_key(key, id, record, perturbed=of_columns, remembers=mechanism.memoized)
        self.whose = None if self._key is None else self._key.id
        self._waits = private and stabilize and not is_repeatable(self._key, remembers=mechanism.memoized)
        if private:
            mechanism.check_noise(keyed=self.keyed)
        self._column = column
        self._mechanism = mechanism
        self._question = asked
        self.spends, self.values = (mechanism, of_columns) if private else (None, {})
        self._time = EventTime(event_time, time_unit)
        self._by = by
        self._windows = windows
        self._trigger = trigger
        self._accumulation_mode = modes.get(accumulation_mode or "accumulating", accumulation_mode)
        self._lateness = lateness

    @property
    def _public(self) -> tuple[str, ...]:
        """See `public_columns`."""
        return public_columns(self._by, self._windows, self._time, self._person)

    @property
    def _ids(self) -> tuple[str | None, ...]:
        """The columns that name keyed noise."""
        return () if self._key is None else (self._key.id, self._key.record)

    def check_public(self, columns: Mapping[str, core.Mechanism]) -> None:
        """Raise unless what is public is none of the columns of this plan, of values or of reports."""
        reports = self.spends is None
        engine.refuse_keys_in({*self._public} & columns.keys() if reports else (), "the plan")
        engine.refuse_private(columns, (*self._public, *self._ids), perturbed=reports)

    def _asked(self, question: Any, mechanism: core.Mechanism, confidence: float) -> Any:
        """The question; another class may ask of several tallies, with one that has the same methods."""
        if question is None:
            return core.usual_question(mechanism, confidence)
        return core.question_of(question, confidence=confidence)

    def _summed(self, partials: PCollection[Any]) -> PCollection[Any]:
        """What the question is asked of, by key: tallies."""
        total = TallyCombineFn(self._mechanism, self._question)
        summed: PCollection[Any] = partials | "Sum" >> beam.CombinePerKey(total).with_output_types(KeyedTally)
        if self._person is not None:
            summed |= "Persons" >> SumPersons(self._mechanism, self._question)
        # (What fills windows belongs to one pipeline.)
        return summed if self._fill is None else summed | "Empty windows" >> copy.copy(self._fill)

    def _rows_of(self, **how: Any) -> RowsOf:
        return RowsOf(self._column, self._by, self._mechanism, self._question, **how)

    def _partial_tallies(self) -> PartialTallies:
        options: dict[str, Any] = {"windows": self._windows, "event_time": self._time, "by": self._by}
        options |= {"dead_letter_tag": self._dead_letter_tag, "person": self._person}
        if self.spends is not None:
            return PerturbAndTally(self._column, self._mechanism, self._tallier, key=self._key, **options)
        return TallyReports(self._column, self._mechanism, self._tallier, unsaid=self._unsaid, **options)

    def _repeats(self, pcoll: PCollection[Any], windows: Any = None) -> int | None:
        """How often a person may be in a window, where it matters, nothing else was said, and a step before bounds it.

        Of the people themselves who reported (no ``population``) fresh noise is independent. Intervals of numbers
        contain their spread: these are about a population in any case.
        """
        if not self._asks_repeats:
            return None
        bounds, keyed = persons_before(pcoll, self.whose)
        keyed = keyed or self.keyed or self._mechanism.memoized
        most: dict[str, int] = {}  # records of each id, of which any may be that of a person
        of_many = self._question.population is not None or isinstance(self._mechanism, core.Numeric)
        limits = bounds if keyed or of_many else []
        for one in limits:
            records = one.bound.within(windows or self._windows, self._time)
            if records is not None:
                most[one.limited] = min(records, most.get(one.limited, records))
        if most:
            return max(most.values())
        if keyed:
            raise engine.unsaid_repeats(self._column)
        if limits:
            engine.warn_user(
                f"column {self._column!r}: the limit before does not say how many reports of a person are in these "
                "windows, and errors take each for that of another: say repeats=, the most of one person in a window"
            )
        return None

    @property
    def _unsaid(self) -> Callable[[str], core.ParameterError] | None:
        """What to raise if batches say that noise is keyed, given the column."""
        return engine.unsaid_repeats if self._asks_repeats else None

    @property
    def _asks_repeats(self) -> bool:
        """Whether nobody says how many reports a person has."""
        return self._person is None and self._question.repeats is None

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        if self._person is not None:
            refuse_panes(self._windows, self._trigger, self._lateness, pcoll.windowing)
        refuse_overlapping(pcoll, own=self.spends is None and self._windows is None)
        if self._windows is None:
            check_windowing(pcoll)
        if self.spends is not None:
            refuse_perturbed(pcoll, self._names)
            refuse_unbudgeted(pcoll, key=self._key, spends=self.spends)
        else:
            for name, mechanism in self._mechanism.by_column(self._column).items():
                refuse_other_reports(pcoll, name, mechanism)
            if self._unsaid is not None:
                refuse_unsaid(pcoll, self._names, self._unsaid)
        check_fields(fields_of(pcoll.element_type), (*self._names, *self._public, *self._ids))
        refuse_copies(pcoll, self._names, spends=self.spends is not None, by=self._by)
        refuse_perturbed(pcoll, self._public, engine.refuse_keys_in)
        repeats = self._repeats(pcoll)
        if repeats is not None:
            bounded = copy.copy(self)
            try:
                bounded._question = replace(self._question, repeats=repeats)
                bounded._question.check(self._mechanism)
            except core.ParameterError as error:
                raise core.ParameterError(
                    f"{error}. The limit before lets up to {repeats:,} reports of a person into a window; if nobody "
                    "has more than one, or the answer is about the reports and not about people, say repeats=1"
                ) from None
            return bounded.expand(pcoll)
        windowing = None
        if lacks_clock(pcoll) and reads_clock(self._trigger or pcoll.windowing.triggerfn):
            windowing = Windowing(pcoll.windowing.windowfn)  # with one pane: all is there before a second is over
        tallied = self._partial_tallies()
        partials, dead_letters = self._outputs(pcoll, "PartialTallies", tallied, KeyedTally, windowing=windowing)
        column = self._names[0] if self._windows is None else self._time.column or self._names[0]
        into = None
        if self._windows is not None:
            into = beam.WindowInto(
                self._windows,
                trigger=self._trigger if windowing is None else None,
                accumulation_mode=self._accumulation_mode,
                allowed_lateness=self._lateness,
            )
        once = self._person is not None or has_one_end(self._trigger or pcoll.windowing.triggerfn)
        partials, dead_letters = in_time(partials, into, column, pcoll, dead_letters, once=once)
        tallies = self._summed(partials)
        rows_of = self._rows_of(bounded=tallies.is_bounded, filled=self._fill is not None)
        pardo: Any = StableInputParDo if self._waits and knows_stable_input(pcoll) else beam.ParDo
        row = row_type(self._question.schema(self._mechanism))
        rows = tallies | "Estimate" >> pardo(rows_of).with_output_types(row) | "Flushed" >> FlushedAtOnce()
        return rows if dead_letters is None else (rows, dead_letters)

    @override
    def display_data(self) -> dict[str, Any]:
        return {"column": self._column, "mechanism": self._mechanism.name, "epsilon": self._mechanism.epsilon}


def _check_names(columns: tuple[str, ...], event_time: str | None, by: tuple[str, ...]) -> None:
    names = [*columns, *by, *([] if event_time is None else [event_time])]
    if not all(isinstance(name, str) for name in names):
        raise core.ParameterError("column, event_time and by must be names of columns")
    if len(set(by)) < len(by) or {*columns} & {*by, event_time}:
        which = ", ".join(columns)
        raise core.ParameterError(f"column {which!r} cannot be event time or key too, and keys must be distinct: {by}")


def _keys(keys: Iterable[Key] | None, by: tuple[str, ...]) -> tuple[Key, ...]:
    """The keys to fill, one text for each name in ``by``."""
    if keys is None and by:
        raise core.ParameterError(
            f"fill= with by={by} needs fill_keys=, tuples of {len(by)} texts: they are not known before"
        )
    out = [()] if keys is None else list(keys) if isinstance(keys, Iterable) else [keys]
    for key in out:
        if not (isinstance(key, (tuple, list)) and len(key) == len(by) and all(isinstance(k, str) for k in key)):
            raise core.ParameterError(f"fill_keys= are tuples of {len(by)} texts, one for each name in by={by}")
    return tuple(map(tuple, out))


class Histogram(Estimate):
    """Estimate how many records hold each value, from reports: `Estimate` with a `HistogramEstimate`.

    Args:
        column: of the reports; or one that pairs of the plan hold, see `ldp_core.PrivacyPlan.pairs`.
        mechanism: that made them, or the plan.
        confidence, simultaneous, consistency, repeats: see `HistogramEstimate`. Counts made consistent are biased: do
            not add those of panes or windows up.

    The other arguments, elements, rows, late records and errors are those of `Estimate`.

    >>> from ldp_core import RandomizedResponse
    >>> mechanism = RandomizedResponse(epsilon=50.0)
    >>> reports = [{"crashed": i < 2, "time": 60.0 * i} for i in range(6)]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | Histogram("crashed", mechanism, window="3m", event_time="time")
    ...     _ = rows | beam.Map(lambda r: print(r.window_start, r.value, round(r.count), r.n))
    Timestamp(0) False 1 3
    Timestamp(0) True 2 3
    Timestamp(180) False 3 3
    Timestamp(180) True 0 3
    """

    def __init__(
        self,
        column: str,
        mechanism: core.FrequencyOracle | core.PrivacyPlan | Mapping[str, core.Mechanism],
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: engine.Consistency | None = None,
        repeats: int | None = None,
        **options: Unpack[EstimateOptions],
    ) -> None:
        question = core.HistogramEstimate(confidence, simultaneous, consistency, repeats=repeats)
        check_column(column)
        columns: Mapping[str, Any] = {column: mechanism}
        if isinstance(mechanism, core.PrivacyPlan | Mapping):
            columns = mechanism if isinstance(mechanism, Mapping) else mechanism.columns
        of = {**columns, **(alone := engine.margins(columns))}
        if column not in of:
            raise core.ParameterError(f"the plan has no reports of column {column!r}, but of {sorted(of)}")
        super().__init__(
            column, of[column], engine.MarginEstimate.of(question) if column in alone else question, **options
        )
        self.check_public(columns)


class PrivateHistogram(Estimate):
    """`Histogram` of raw values, each perturbed and tallied at once: `Estimate` with ``private=True``.

    Args:
        column: of the values.
        mechanism: that is to make the reports.
        confidence, simultaneous, consistency, repeats: see `HistogramEstimate`.

    >>> import pyarrow as pa
    >>> from ldp_core import RandomizedResponse
    >>> mechanism = RandomizedResponse(["ios", "android"], epsilon=1.0)
    >>> batch = pa.record_batch({"os": ["ios", "android", "ios"], "country": ["fr", "fr", "it"]})
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create([batch]) | PrivateHistogram("os", mechanism, by=["country"])
    ...     _ = rows | beam.Map(lambda r: print(r.key, r.value, r.n))
    {'country': 'fr'} ios 2
    {'country': 'fr'} android 2
    {'country': 'it'} ios 1
    {'country': 'it'} android 1
    """

    def __init__(
        self,
        column: str,
        mechanism: core.FrequencyOracle,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: engine.Consistency | None = None,
        repeats: int | None = None,
        **options: Unpack[PrivateOptions],
    ) -> None:
        question = core.HistogramEstimate(confidence, simultaneous, consistency, repeats=repeats)
        super().__init__(column, mechanism, question, private=True, **options)


class Table(Estimate):
    """How many records have each combination of values of columns: `Estimate` with a `ldp_core.TableEstimate`.

    Rows have the values under their columns' names, then what `ldp_core.Table` has: the counts, and the rate of the
    last value among those who have the others. ``column_name`` is all names. The reports need no other plan.

    Args:
        columns: two or more columns of reports.
        plan: that made them, or the mechanisms by column.
        confidence, population, repeats: see `ldp_core.TableEstimate`.

    The other arguments, elements, late records and errors are those of `Estimate`.

    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> one = RandomizedResponse(epsilon=50.0)  # so large that there is no noise
    >>> reports = [{"old": i % 2 == 0, "crashed": i % 4 == 0} for i in range(8)]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | Table(["old", "crashed"], {"old": one, "crashed": one})
    ...     _ = rows | beam.Map(lambda r: print(r.old, r.crashed, abs(round(r.count)), abs(round(r.rate, 2)), r.n))
    False False 4 1.0 8
    False True 0 0.0 8
    True False 2 0.5 8
    True True 2 0.5 8
    """

    def __init__(
        self,
        columns: Sequence[str],
        plan: core.PrivacyPlan | Mapping[str, core.Mechanism],
        *,
        confidence: float = 0.95,
        population: engine.Population = None,
        repeats: int | None = None,
        **options: Unpack[PrivateOptions],
    ) -> None:
        make = core.Joint if self._of_values else engine.joint_of
        of_plan = plan if isinstance(plan, Mapping) else check_plan(plan).columns
        joint = make(of_plan, columns)
        question = core.TableEstimate(confidence, population, repeats=repeats)
        super().__init__(", ".join(joint.names), joint, question, private=self._of_values, **options)
        self.check_public(of_plan)

    _of_values = False


class PrivateTable(Table):
    """`Table` of raw values, each perturbed and tallied at once.

    >>> import pyarrow as pa
    >>> from ldp_core import RandomizedResponse
    >>> one = RandomizedResponse(epsilon=1.0)
    >>> batch = pa.record_batch({"old": [True, False, True], "crashed": [True, False, False]})
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create([batch]) | PrivateTable(["old", "crashed"], {"old": one, "crashed": one})
    ...     _ = rows | beam.Map(lambda r: print(r.column_name, r.old, r.crashed, r.n))
    old, crashed False False 3
    old, crashed False True 3
    old, crashed True False 3
    old, crashed True True 3
    """

    _of_values = True
