"""What a pipeline has done before a step: known when it is built, for single records too, which carry no plan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pipeline import PipelineVisitor
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, DefaultTrigger
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn
from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from ldp_beam._compat import filters, keeps, maps
from ldp_beam.elements.ids import NoiseKey
from ldp_beam.elements.rows import check_fields, fields_of
from ldp_beam.time.triggers import has_one_end
from ldp_core import Mechanism, MechanismMismatchError, ParameterError, PlanError, PrivacyPlan
from ldp_core.engine import (
    PLAN_WAYS,
    History,
    PlanTold,
    Spent,
    check_same,
    refuse_own,
    refuse_private_folders,
    refuse_reports_in,
)


class EndsValues:
    """A transform whose elements are other data than what goes in: what was done before it says nothing of them.

    Attributes:
        made: the plan of the reports that come out; None if these are no reports.
        said_keyed: columns of reports that were stored, and say that their noise is keyed, by whatever id.
    """

    made: PrivacyPlan | None = None
    said_keyed: Collection[str] = ()


class ReadsValues:
    """A source of records, which says what comes.

    Attributes:
        raw: columns whose values nothing has perturbed.
        schema: of all columns.
        paths: of the files, if it is known which.
    """

    raw: Collection[str]
    schema: pa.Schema
    paths: Collection[str] = ()


def check_plan(plan: Any) -> PrivacyPlan:
    """Raise `PlanError` if this is no plan."""
    if not isinstance(plan, PrivacyPlan):
        raise PlanError(f"plan must be a PrivacyPlan, got {type(plan).__name__}: {PLAN_WAYS}")
    return plan


def check_column(column: Any) -> str:
    """Raise `ParameterError` if this is no name."""
    if not isinstance(column, str):
        raise ParameterError(f"column must be the name of a column, got {type(column).__name__}")
    return column


def steps_before(pcolls: Iterable[Any], *, until: type | None = None) -> Iterator[Any]:
    """The applied transforms that collections come from; of composite ones each that a step is a part of.

    With ``until`` by main inputs, and up to one of that type; without it by side inputs of records, too.
    """
    seen: set[int] = set()
    ahead = [one.producer for one in pcolls if isinstance(one, PCollection)]
    while ahead:
        step = ahead.pop()
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        inputs = step.inputs if until is not None else [*step.inputs, *_records_beside(step)]
        before = [one.producer for one in inputs if isinstance(one, PCollection)]
        for whole in _wholes(step):
            if until is not None and isinstance(whole.transform, until):
                before = []
            yield whole
        ahead += before


def _records_beside(step: Any) -> list[Any]:
    """The side inputs of a step that are records as they were, and no answers or reports."""
    beside = {side.pvalue: steps_before([side.pvalue], until=EndsValues) for side in step.side_inputs}
    return [one for one, steps in beside.items() if not any(isinstance(s.transform, EndsValues) for s in steps)]


def _wholes(step: Any) -> Iterator[Any]:
    """A step, and the transforms that it is a part of."""
    while step is not None:
        yield step
        step = step.parent


def refuse_missing(pcoll: PCollection[Any], columns: Collection[str | None]) -> None:
    """Raise `PlanError` if rows by their type, or records by their source, lack one of these columns."""
    check_fields(fields_of(pcoll.element_type), columns)
    for one in _as_they_are([pcoll], chosen=True):
        for source in (whole.transform for whole in _wholes(one.producer)):
            names = source.schema.names if isinstance(source, ReadsValues) else columns
            if missing := [name for name in columns if name is not None and name not in names]:
                raise PlanError(
                    f"{type(source).__name__} does not read the columns {missing}, but {names}: name them in its "
                    "also= or columns="
                )


def refuse_other_reports(pcoll: PCollection[Any], column: str, mechanism: Mechanism) -> None:
    """Raise if the pipeline perturbs this column with another mechanism than this one, or not in all ways to here."""
    here = _as_they_are([pcoll], chosen=True)
    for source in (whole.transform for one in here for whole in _wholes(one.producer)):
        if isinstance(source, ReadsValues) and column in source.raw:
            raise MechanismMismatchError(
                f"column {column!r}: {type(source).__name__} reads values, which would count as reports: perturb them "
                "by Perturb, or in one step with the estimate, as PrivateHistogram or Estimate(..., private=True); if "
                "these are reports that were made elsewhere, beam.Map(plan.assume_reports) takes your word"
            )
    for step in _plans_before(pcoll):
        check_reports_of(step.transform.made, column, mechanism, "the Perturb before this step")
        if column in step.transform.made.columns and here & _as_they_are(step.inputs, chosen=True):
            raise MechanismMismatchError(
                f"column {column!r}: beam.Flatten joins reports with the records that they were made of, whose values "
                "would count as reports: leave these out"
            )


def refuse_sorted(pcoll: PCollection[Any], private: Collection[str]) -> None:
    """Raise if records are read in the order of folders that are named after values of these columns."""
    for source in (step.transform for step in steps_before([pcoll])):
        if isinstance(source, ReadsValues):
            refuse_private_folders(source.paths, private)


def refuse_perturbed(
    pcoll: PCollection[Any], columns: Iterable[str], refuse: Callable[[set[str], str], None] = refuse_reports_in
) -> None:
    """Raise if the pipeline has perturbed one of these columns before, which are values or (`refuse_keys_in`) keys."""
    for step in _plans_before(pcoll):
        refuse(step.transform.made.columns.keys() & set(columns), "the Perturb before this step")


def refuse_unsaid(pcoll: PCollection[Any], columns: Iterable[str], unsaid: Callable[[str], ParameterError]) -> None:
    """Raise what ``unsaid`` makes of a column of which stored reports say that their noise is keyed."""
    for step in steps_before([pcoll], until=EndsValues):
        for name in columns if isinstance(step.transform, EndsValues) else ():
            if name in step.transform.said_keyed:
                raise unsaid(name)


def check_reports_of(plan: PrivacyPlan | PlanTold | None, column: str, mechanism: Mechanism, who: str) -> None:
    """Raise if ``plan``, which made the data, did not make reports of this column with this mechanism.

    A plan without the column says nothing: the column may have had another name.
    """
    if plan is None:
        return
    if column in plan.keep:
        raise MechanismMismatchError(f"column {column!r} is kept as it is, says {who}: it holds no reports")
    if column in plan.columns:
        check_same(plan.columns[column], mechanism, column, who)


def _plans_before(pcoll: PCollection[Any]) -> list[Any]:
    steps = steps_before([pcoll], until=EndsValues)
    return [step for step in steps if isinstance(step.transform, EndsValues) and step.transform.made is not None]


def _as_they_are(pcolls: Iterable[Any], *, chosen: bool = False) -> set[Any]:
    """The collections whose records come here and nothing was done to them; or those ``chosen`` from them, too."""
    found: set[Any] = set()
    ahead = [one for one in pcolls if isinstance(one, PCollection)]
    while ahead:
        one = ahead.pop()
        step: Any = one.producer
        wholes = [] if one in found else [whole.transform for whole in _wholes(step)]
        found.add(one)
        kept = any(keeps(whole) or isinstance(whole, LetsThrough) for whole in wholes)
        kept = kept or (chosen and any(isinstance(whole, beam.Partition) or filters(whole) for whole in wholes))
        if kept and not any(isinstance(whole, EndsValues) for whole in wholes):
            ahead += [before for before in step.inputs if isinstance(before, PCollection)]
    return found


class DrawsNoise:
    """A transform that perturbs.

    Attributes:
        spends: what knows what its reports spend; None if they spend nothing, or their noise protects nothing anyway.
        whose: the column of the ids that keyed noise is of; None if the noise is not keyed.
        values: the columns that it perturbs, and what perturbs each.
    """

    spends: PrivacyPlan | Mechanism | None
    whose: str | None
    values: Mapping[str, Mechanism]

    @property
    def keyed(self) -> bool:
        """Whether the noise is keyed."""
        return self.whose is not None


class LetsThrough:
    """A transform that lets some records of each id through, and changes none but for a column that it drops.

    Attributes:
        limited: the column of the ids.
        dated: that of the event times, if there is one.
    """

    limited: str
    dated: str | None = None


class LimitsPersons(LetsThrough):
    """A transform that lets through some records of each person."""


class Bound(NamedTuple):
    """At most so many records of each person in every period.

    Attributes:
        records: that pass; None: any number.
        windows: the periods; None: the windows of the elements.
        event_time: by which records are in them.
        rolling: microseconds: any stretch of time so long is a period. None: these windows are.
    """

    records: int | None
    windows: WindowFn | None
    event_time: Any
    rolling: int | None = None

    def within(self, windows: WindowFn | None, event_time: Any) -> int | None:
        """The most records of a person in one of these windows, which may have parts of several periods.

        None if there is no bound, or none is known.

        >>> from apache_beam.transforms.window import FixedWindows
        >>> day, week = Bound(2, FixedWindows(24), "time"), FixedWindows(7 * 24)
        >>> day.within(FixedWindows(24), "time"), day.within(FixedWindows(12), "time"), day.within(week, "time")
        (2, 2, 14)
        >>> day.within(FixedWindows(24, offset=1), "time"), day.within(week, "other") is None
        (4, True)
        """
        if self.records is None or (self.rolling is None and isinstance(self.windows, GlobalWindows)):
            return self.records
        if self.windows is None or windows is None:
            return self.records if self.windows == windows else None
        parts = _parts(self.windows, self.rolling, windows) if self.event_time == event_time else None
        return None if parts is None else self.records * parts


def _parts(periods: WindowFn, rolling: int | None, windows: WindowFn) -> int | None:
    """Of how many periods, or stretches of so many microseconds, a window has a part, at most; None: not known."""
    if rolling is None and periods == windows:
        return 1
    if not isinstance(windows, (FixedWindows, SlidingWindows)):
        return None
    size = windows.size.micros
    if rolling is not None:
        return -(-size // rolling)
    if not isinstance(periods, FixedWindows):
        return None
    period = periods.size.micros
    step = math.gcd((windows.size if isinstance(windows, FixedWindows) else windows.period).micros, period)
    latest = period - step + (windows.offset.micros - periods.offset.micros) % step  # of a window in a period
    return (latest + size - 1) // period + 1


class BoundsPersons(LimitsPersons):
    """A transform that lets through so many records of each person and period."""

    bound: Bound


def persons_before(pcoll: PCollection[Any], whose: str | None = None) -> tuple[list[BoundsPersons], bool]:
    """The steps that bound the records of persons, the nearest first, and whether noise before is keyed, not seeded.

    A bound of one id says nothing of noise that the records of another id share: it must be of the column whose ids the
    keyed noise behind it is of, here (``whose``) too. Between it and here only steps of this library may be: of others
    nobody knows whether they repeat records or join them. Keyed noise stays keyed through them.
    """
    ids, bounds = {whose} - {None}, list[BoundsPersons]()
    step = pcoll.producer
    while step is not None:
        transforms = [whole.transform for whole in _wholes(step)]
        before = [one for one in step.inputs if isinstance(one, PCollection)]
        ids |= _keyed_by(transforms)
        bounds += [one for one in transforms if isinstance(one, BoundsPersons) and ids <= {one.limited}]
        ours = any(type(one).__module__.partition(".")[0] == __name__.partition(".")[0] for one in transforms)
        step = before[0].producer if ours and len(before) == 1 else None
    ids |= _keyed_by(one.transform for one in steps_before([pcoll], until=EndsValues))
    return bounds, bool(ids - {whose})


def _keyed_by(transforms: Iterable[Any]) -> set[str]:
    """The columns of the ids that keyed noise is of, which is not seeded."""
    return {one.whose for one in transforms if isinstance(one, DrawsNoise) and one.whose is not None and one.spends}


class BudgetsNoise(BoundsPersons):
    """A transform that lets through what a budget pays for.

    Attributes:
        keyed: whether it charges for keyed noise.
        admits: what is known of the records of a person that pass.
        spent: what it charges for them, all together.
    """

    keyed: bool
    admits: History
    spent: Spent


def refuse_late_limit(pcoll: PCollection[Any], name: str, *, stored: bool) -> None:
    """Raise if the records that are to be limited have been perturbed."""
    for step in steps_before([pcoll], until=EndsValues):
        one = step.transform
        if isinstance(one, EndsValues) and one.made is not None and (stored or isinstance(one, DrawsNoise)):
            raise ParameterError(
                f"{name} after {type(one).__name__} protects nothing: what these reports spend they have spent. Put it "
                "before what perturbs, with the id still there"
            )


def refuse_unbudgeted(pcoll: PCollection[Any], *, key: NoiseKey | None, spends: PrivacyPlan | Mechanism) -> None:
    """Raise if a ledger before this step charges less for what it lets through, or for another kind of noise.

    Keyed noise of other ids than the ledger's is drawn anew within one person. Noise of records (``record=``) by the
    ledger's ids is not: it is that of a person, which is not charged for as keyed.

    Mechanisms with permanent answers whose single reports spend the same may differ in what many spend. All steps
    behind a ledger that perturb spend together, also those of other branches that were added before this one. (Branches
    that share no record are added up all the same: the graph does not tell.)
    """
    ledgers = [step for step in steps_before([pcoll]) if isinstance(step.transform, BudgetsNoise)]
    if not ledgers:
        return
    others = [
        (step.transform.spends, set(map(id, steps_before(step.inputs))))
        for step in _Steps(pcoll).found  # (those that were refused have no outputs)
        if isinstance(step.transform, DrawsNoise) and step.transform.spends is not None and step.outputs
    ]
    whose, record = (None, None) if key is None else (key.id, key.record)
    for step in ledgers:
        ledger = step.transform
        if record == ledger.limited and ledger.admits.reports != 1:
            raise ParameterError(
                f"record={record!r} is whose budget the ledger before this step counts, and not what tells a person's "
                "records apart: they would share their noise, and show that a value changed. Give the id of each record"
            )
        if whose is not None and not ledger.keyed:
            raise ParameterError(
                "the ledger before this step charges for fresh noise, and with keyed noise reports also show that a "
                'value changed: give the ledger the plan, keyed=True, and changes=0 or change_times="public" if that '
                "is true"
            )
        if ledger.keyed and whose is None:
            raise ParameterError(
                f"the ledger before this step charges for keyed noise of {ledger.limited!r}, under which reports of "
                f"one value are one: perturb with key= and id={ledger.limited!r}, or leave out keyed=True"
            )
        if ledger.keyed and whose != ledger.limited:
            raise ParameterError(
                f"the ledger before this step has a budget for each {ledger.limited!r}, and keyed noise is of each "
                f"{whose!r}, so that a person's reports have noise of their own: give both one id="
            )
        together = [spends, *(other for other, before in others if id(step) in before)]
        spent = sum((one.spent_by(ledger.admits) for one in together), Fraction(0))
        if spent > ledger.spent:
            alone, admitted = len(together) == 1, ledger.admits.reports
            raise ParameterError(
                f"the ledger before this step charges {float(ledger.spent):g} for "
                f"{'any number of' if admitted is None else admitted} records of a person, and "
                f"{'here they spend' if alone else f'the {len(together)} steps behind it that perturb spend'} "
                f"{float(spent):g}: give the ledger the plan that perturbs"
                f"{'' if alone else ', with all their columns; or perturb once, and use the reports several times'}"
            )


class _Steps(PipelineVisitor):
    """The applied transforms of a pipeline: each behind those that its inputs come from, and before its parts."""

    def __init__(self, pcoll: PCollection[Any]) -> None:
        self.found: dict[Any, None] = {}
        pcoll.pipeline.visit(self)

    @override
    def visit_transform(self, transform_node: Any) -> None:
        self.found.setdefault(transform_node)

    enter_composite_transform = visit_transform


def refuse_overlapping(pcoll: PCollection[Any], *, own: bool = False) -> None:
    """Raise if records were in several windows or panes, each of which has a record of its own.

    With ``own`` they may be in several windows now.
    """
    steps = [*steps_before([pcoll], until=EndsValues)]
    before = [out.windowing.windowfn for step in steps for out in step.outputs.values() if isinstance(out, PCollection)]
    allowed = pcoll.windowing.windowfn if own else None
    if any(_overlap(windows) for windows in (pcoll.windowing.windowfn, *before) if windows != allowed):
        raise ParameterError(
            "the input is, or was, in windows that overlap, as sliding ones do: a record in k of them is k records, "
            "which count and spend k times. Leave out beam.WindowInto, and give window= to what estimates"
        )
    if any(isinstance(step.transform, beam.GroupByKey) and _repeats(step.inputs[0].windowing) for step in steps):
        raise ParameterError(
            "a step before groups records in panes that accumulate: each pane has those of the panes before once more, "
            "which count and spend again. Say accumulation_mode=AccumulationMode.DISCARDING in beam.WindowInto, or "
            "leave it out, and give window= and trigger= to what estimates"
        )


def _repeats(windowing: Any) -> bool:
    """Whether a later pane has what one before had."""
    trigger = windowing.triggerfn
    once = has_one_end(trigger) and not trigger.early
    once |= isinstance(trigger, DefaultTrigger) and not windowing.allowed_lateness
    return windowing.accumulation_mode == AccumulationMode.ACCUMULATING and not once


def _overlap(windows: WindowFn) -> bool:
    if isinstance(windows, SlidingWindows):
        return True
    if type(windows) in (FixedWindows, GlobalWindows, Sessions):
        return False
    with suppress(Exception):  # (one of other people, which may look at the element, or know ends of months)
        return any(len([*windows.assign(WindowFn.AssignContext(Timestamp(at)))]) > 1 for at in _TIMES)
    return False


_TIMES = (*range(0, 7 * 86_400, 3600), *range(1_700_000_000, 1_810_000_000, 22_027))
"""Full hours, and three years and a half at all times of the day: no minute of each day is missed."""


def refuse_copies(pcoll: PCollection[Any], columns: Collection[str], *, spends: bool, by: Iterable[str] = ()) -> None:
    """Raise if `beam.Flatten` joins records twice, or their columns; or, if noise is drawn here, branches of limits.

    Also if a limit before takes one of these columns for the id of a person or record.

    Of the outputs of one step, as of `beam.Partition`, a record is in one. (Whether other steps repeat records, or
    branches share none, as those of two filters, the graph does not tell: only limits of privacy assume the worse. What
    was made of reports has the people of other reports of the same records once more, if all of one of both come here;
    keys may tell them apart.)
    """
    steps = _steps_to(pcoll)
    if spends:
        _refuse_joined_limits(pcoll, steps)
    _refuse_own_limits(steps, columns)
    same = Counter([pcoll])  # how often a record comes from there as it is
    changed, each = set[Any](), set[Any]()  # from there by steps that may change it; by beam.Map alone, so each does
    again, wholly, twice = set[Any](), set[Any](), False  # and was perturbed before these; of these each; or of both
    for step in steps:
        one, outputs = step.transform, step.outputs.values()
        if _joins(step):
            continue
        copies = max((same[output] for output in outputs), default=0)
        is_changed, is_each = (not way.isdisjoint(outputs) for way in (changed, each))
        inputs = [before for before in step.inputs if isinstance(before, PCollection)]  # (no record is in a PBegin)
        made = one.made if isinstance(one, EndsValues) else None
        has = made is not None and not {*made.columns, *made.keep}.isdisjoint(columns)  # (for each record one)
        for before in inputs if keeps(one) or has else ():
            same[before] += copies
        if has and is_changed and not copies:
            records = _as_they_are(inputs)
            twice = twice or not records.isdisjoint(again if is_each else wholly)
            again |= records
            wholly |= records if is_each else set()
        changes = isinstance(one, beam.ParDo) and not any(isinstance(w.transform, EndsValues) for w in _wholes(step))
        for way, does in ((changed, changes), (each, changes and maps(step))):
            if (does and copies) or ((does or keeps(one)) and not way.isdisjoint(outputs)):
                way |= {*inputs}
    if not by and (twice or any(same[before] for before in again)):
        raise ParameterError(
            "beam.Flatten joins reports, or what a step has made of them, with what one has made of other reports of "
            "the same records: people would count, and spend, twice. Leave one of both out, or tell them apart by a "
            "column in by="
        )
    if (most := max(same.values())) > 1:
        raise ParameterError(
            f"each record comes here {most} times, as beam.Flatten joins a collection with itself, or several reports "
            "of each: people would count, and spend, so often. Give beam.Flatten each collection once"
        )


def _steps_to(pcoll: PCollection[Any]) -> list[Any]:
    """The applied transforms that a collection comes from: each before those of its inputs, and behind its parts."""
    found: dict[Any, list[Any]] = {pcoll.producer: []}  # and the steps that are before each
    ahead: list[Any] = [pcoll.producer]
    while ahead:
        step = ahead.pop()
        for later in (step.parent, *(one.producer for one in step.inputs if isinstance(one, PCollection))):
            if later is not None:
                ahead += [] if later in found else [later]
                found.setdefault(later, []).append(step)
    return [*TopologicalSorter(found).static_order()]


def _joins(step: Any) -> bool:
    """Whether a step is in beam.CoGroupByKey, which has a beam.Flatten and joins records side by side."""
    return any(isinstance(whole.transform, beam.CoGroupByKey) for whole in _wholes(step))


def _refuse_own_limits(steps: list[Any], columns: Collection[str]) -> None:
    """Raise if a limit takes one of these columns for the id of a person or record, or for the time."""
    for limit in (step.transform for step in steps if isinstance(step.transform, LetsThrough)):
        refuse_own(limit.limited, columns, "person" if isinstance(limit, LimitsPersons) else "record")
        if limit.dated in columns:
            raise ParameterError(
                f"{type(limit).__name__} takes {limit.dated!r}, which is perturbed, for its event_time: how many "
                "records it lets through tells its values exactly. Give a public time"
            )


def _refuse_joined_limits(pcoll: PCollection[Any], steps: list[Any]) -> None:
    """Raise if `beam.Flatten` joins what a limit lets through with more of the same records."""
    ways, free = Counter([pcoll]), Counter([pcoll])  # how often a record comes from there, and how often by no limit
    given = set[Any]()  # to the last limits before here
    for step in steps:
        outputs = step.outputs.values()
        times, around = (max((c[output] for output in outputs), default=0) for c in (ways, free))
        if isinstance(step.transform, LimitsPersons):
            name, records = type(step.transform).__name__, _as_they_are(step.inputs)
            if times > 1:
                raise ParameterError(
                    f"what {name} lets through comes here by {times} ways, which beam.Flatten joins: a person may "
                    f"spend {times} times what {name} allows. Put it behind beam.Flatten, or divide records by "
                    "beam.Partition"
                )
            if around and not given.isdisjoint(records):
                raise ParameterError(
                    "beam.Flatten joins what two limits of persons let through of the same records: a person may spend "
                    "what both allow. Put one limit behind beam.Flatten, or divide records by beam.Partition"
                )
            given |= records if around else set()
        limited = any(isinstance(whole.transform, LimitsPersons) for whole in _wholes(step))
        inputs = [before for before in step.inputs if isinstance(before, PCollection)]
        for before in () if step.is_composite() else inputs[: 1 if _joins(step) else None]:
            ways[before] += times
            free[before] += 0 if limited else around
    if any(times > free[before] > 0 for before, times in ways.items()):
        raise ParameterError(
            "beam.Flatten joins what a limit of persons lets through with the records that it was given: a person may "
            "spend more than the limit allows. Put the limit behind beam.Flatten, or divide records by beam.Partition"
        )
