"""The telemetry job: event files -> private reports -> estimates per window, as one Beam graph."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import FixedWindows

import ldp_beam
from ldp_beam import DeadLetter
from ldp_beam._compat import write_parquet
from ldp_beam.elements.batches import event_times
from ldp_beam.elements.rows import row_type
from ldp_beam.io import EstimateBatches, ReadEvents, WriteReports, estimate_line, estimate_schema
from ldp_beam.time.times import TimeUnit
from ldp_beam.time.windows import window_fn
from ldp_core import InputError, ParameterError, PlanError, PrivacyPlan, Question, Secret, engine, estimates_metadata
from ldp_core.engine import HISTOGRAM_ENTRY as ENTRY

HISTOGRAMS = "histograms"
REPORTS = "reports/part"
PLACE = "(place in its file)"  # a column that no file has: which file a record is in, and where there
WINDOW_START = "window_start"  # column of stored reports
_OF_WORDS = "_of_words"
_KEYED = "--secret-file FILE or --secret-env NAME, and --id COLUMN"


@dataclass(frozen=True)
class TelemetryJob:
    """What to read, how to protect it, and where the results go. Checked when made, before anything runs.

    Args:
        window: length of the fixed windows, in seconds or as text like ``"30d"``.
        key: a function that gets the secret of keyed noise on the worker; what travels is the function. With ``id``.
        id: the column that says whose record it is; of a seeded plan, which tells the records apart, without ``key``.
        heavy_hitters: the most values to find in a window of a column of heavy hitters.
        record: the column that tells the records apart, or `PLACE`: a report is then the same after every replay.

    Raises:
        InputError, PlanError, ParameterError, DtypeError: something of this does not fit together.
    """

    plan: PrivacyPlan
    inputs: tuple[str, ...]
    event_time: str
    window: float | str
    output: str
    by: tuple[str, ...] = ()
    reports: bool = False
    confidence: float = 0.95
    simultaneous: bool = False
    key: Callable[[], Secret] | None = None
    id: str | None = None
    heavy_hitters: int = 20
    time_unit: TimeUnit = "s"
    record: str | None = None
    ask: Mapping[str, engine.Ask] = field(default_factory=dict)
    repeats: int | None = None
    questions: Mapping[str, Question[Any]] = field(init=False)
    asked: Mapping[str, Any] = field(init=False)
    """What each question is asked of: the columns of reports, and those that pairs hold."""
    read: ReadEvents = field(init=False)

    def __post_init__(self) -> None:
        if self.event_time in self._private:
            raise PlanError(f"the plan perturbs {self.event_time!r}: it cannot be the event time, which windows need")
        engine.refuse_keys_in({*self.by} & self._private, "the plan")
        options = {"simultaneous": self.simultaneous, "k": self.heavy_hitters, "repeats": self.repeats}
        questions = engine.questions_and_margins(self.plan.columns, self.ask, self.confidence, **options)
        object.__setattr__(self, "questions", questions)
        object.__setattr__(self, "asked", {**self.plan.columns, **engine.margins(self.plan.columns)})
        for name in questions:
            self._estimate(name)  # refuses what does not go together
        for names in self.files.values():
            self._row_of(names)
        self._check_noise()
        _ = self.window_micros
        if Path(self.output).is_file():
            raise InputError(f"the output must be a directory, and {self.output!r} is a file")
        if {*"*?["} & {*self.output}:  # (of many folders --overwrite would delete)
            raise InputError(f"the output {self.output!r} would be a pattern of names: take a folder without * ? [")
        place = self.record if self.record == PLACE else None
        ids = [name for name in (self.id, self.record) if name is not None and name != PLACE]
        read = ReadEvents(
            self.inputs,
            self.plan,
            event_time=self.event_time,
            time_unit=self.time_unit,
            also=[*self.by, *ids],
            position=place,
        )
        for name, inputs in self.plan.inputs.items():
            engine.as_arrow(read.schema.empty_table()[name], inputs.kind, column=name)
        for name in ids:
            engine.check_id_type(read.schema.field(name).type)
        object.__setattr__(self, "read", read)

    def _check_noise(self) -> None:
        """Raise `PlanError` unless secret and id column are given where they are needed, and nowhere else."""
        if self.plan.seed is not None:
            if self.key is not None or self.id is None:
                raise PlanError("a seeded plan takes --id COLUMN, which tells the records apart, and no secret")
        elif (self.key is None) != (self.id is None) and (self.record is None or self.id is not None):
            raise PlanError(f"keyed noise takes both, a secret and whose record it is: {_KEYED}")
        for name in (self.id, self.record):
            if name is not None and name in (*self._private, self.event_time, *self.by):
                raise PlanError(f"the id column {name!r} cannot be perturbed, nor be the event time nor one of --by")
        try:
            self.plan.check_noise(keyed=self.id is not None)
        except ParameterError:
            raise PlanError(f"the plan remembers permanent answers, which takes keyed noise: give {_KEYED}") from None
        self._perturb()  # refuses what does not go together

    @property
    def _private(self) -> set[str]:
        """Columns of records that the plan perturbs, and columns of its reports."""
        return {*self.plan.inputs, *self.plan.columns}

    @property
    def window_micros(self) -> int:
        """Length of a window in microseconds."""
        return int(self._windows.size.micros)

    @property
    def _windows(self) -> FixedWindows:
        fixed = window_fn(self.window)
        if not isinstance(fixed, FixedWindows):
            raise ParameterError('window must be the length of fixed windows, like "30d" or 3600')
        return fixed

    @property
    def working_plan(self) -> PrivacyPlan:
        """The plan, keeping what windows and keys need as long as the reports are in memory."""
        keep = list(dict.fromkeys((*self.plan.keep, self.event_time, *self.by)))
        return PrivacyPlan(self.plan.columns, keep=keep, seed=self.plan.seed)

    @property
    def stored_plan(self) -> PrivacyPlan:
        """The plan of the reports on disk, which keep the event time cut to its window if they do not keep it whole."""
        keep = self.plan.keep if self.event_time in self.plan.keep else (*self.plan.keep, WINDOW_START)
        return PrivacyPlan(self.plan.columns, keep=keep, seed=self.plan.seed)

    def build(self, pipeline: beam.Pipeline) -> None:
        """Add the job's steps to ``pipeline``."""
        events, unreadable = pipeline | "Read" >> self.read.with_exception_handling()
        reports, invalid = events | "Perturb" >> self._perturb().with_exception_handling()
        for file, names in self.files.items():
            answers = [reports | f"Estimate {name}" >> self._estimate(name) for name in names]
            kind = self._row_of(names)
            if any(rows.element_type is not kind for rows in answers):
                answers = [
                    rows | f"Values of {name} as text" >> beam.Map(ldp_beam.text_row, kind).with_output_types(kind)
                    for name, rows in zip(names, answers, strict=True)
                ]
            self._write(file, names, answers | f"All {file}" >> beam.Flatten())
        self._write_dead_letters((unreadable, invalid) | "All dead letters" >> beam.Flatten())
        if self.reports:
            _ = (
                reports
                | "Coarsen" >> beam.Map(coarsen, self).with_output_types(pa.Table)
                | "Write reports"
                >> WriteReports(
                    f"{self.output}/{REPORTS}",
                    self.stored_plan,
                    self.read.schema.append(pa.field(WINDOW_START, pa.timestamp("us", "UTC"))),
                    packed=True,
                )
            )

    def _perturb(self) -> ldp_beam.Perturb:
        key = None if self.key is None else partial(logged, self.key)
        return ldp_beam.Perturb(
            self.working_plan, packed=True, stabilize=self.reports, key=key, id=self.id, record=self.record
        )

    def claim_output(self, *, overwrite: bool) -> None:
        """Make sure that there are no results in the output yet."""
        files = {HISTOGRAMS, *(_file_of(name) + of for name in engine.question_names() for of in ("", _OF_WORDS))}
        outputs = (*(f"{file}.*" for file in files), f"{engine.DEAD_LETTERS}.*", f"{REPORTS}*", engine.RESULTS)
        matches = FileSystems.match([f"{self.output}/{name}" for name in outputs])
        there = [file.path for match in matches for file in match.metadata_list]
        if there and not overwrite:
            raise InputError(
                f"the output {self.output!r} has {len(there)} files of an earlier run: take another one, or --overwrite"
            )
        if there:
            FileSystems.delete(there)

    @property
    def files(self) -> dict[str, list[str]]:
        """Files of answers, and the columns in each: all that have the columns of a histogram share one.

        Medians that are dates or words are not beside numbers, which would become text.
        """
        found: dict[str, list[str]] = {}
        for name, question in self.questions.items():
            schema = question.schema(self.asked[name])
            file = HISTOGRAMS if schema.names == list(ENTRY) else _file_of(question.name)
            of = _OF_WORDS if "low" in schema.names and not pa.types.is_floating(schema.field("low").type) else ""
            found.setdefault(file + of, []).append(name)
        return found

    def _row_of(self, names: Sequence[str]) -> Any:
        """The type of the rows of a table of these columns: values are text where they are of several types."""
        first, *others = (self.questions[name].schema(self.asked[name]) for name in names)
        if any(other.names != first.names for other in others):
            raise ParameterError(f"answers on columns {list(names)} have different fields, which one table cannot have")
        same = [all(other.field(at).type == one.type for other in others) for at, one in enumerate(first)]
        return row_type(
            pa.schema([one if is_so else one.with_type(pa.string()) for one, is_so in zip(first, same, strict=True)])
        )

    def _estimate(self, name: str) -> beam.PTransform[Any, Any]:
        return ldp_beam.Estimate(
            name, self.asked[name], self.questions[name], window=self.window, event_time=self.event_time, by=self.by
        )

    def _write(self, file: str, names: Sequence[str], rows: beam.PCollection[Any]) -> None:
        path = f"{self.output}/{file}"
        one_file: dict[str, Any] = {"num_shards": 1, "shard_name_template": ""}
        about = estimates_metadata({name: (self.questions[name], self.asked[name]) for name in names})
        schema = estimate_schema(rows.element_type).with_metadata(about)
        tables = rows | f"Batches of {file}" >> EstimateBatches() | f"Tables of {file}" >> beam.Map(_table)
        as_parquet: Any = write_parquet(schema, {"file_path_prefix": path, "file_name_suffix": ".parquet", **one_file})
        _ = tables | f"Write {file} as Parquet" >> as_parquet
        lines = rows | f"{file} to JSON" >> beam.Map(estimate_line)
        as_text: Any = beam.io.WriteToText(path, file_name_suffix=".ndjson", **one_file)
        _ = lines | f"Write {file} as NDJSON" >> as_text

    def _write_dead_letters(self, letters: beam.PCollection[DeadLetter]) -> None:
        _ = (
            letters
            | "By reason"
            >> beam.Map(lambda letter: (letter[:2], letter.count)).with_output_types(tuple[tuple[str, str], int])
            | "Count" >> beam.CombinePerKey(sum)
            | "Letters to JSON"
            >> beam.MapTuple(lambda of, count: json.dumps({"column_name": of[0], "reason": of[1], "count": count}))
            | "Write dead letters"
            >> beam.io.WriteToText(
                f"{self.output}/{engine.DEAD_LETTERS}", file_name_suffix=".ndjson", num_shards=1, shard_name_template=""
            )
        )


def _file_of(question: str) -> str:
    return question if question.endswith("s") else f"{question}s"


def logged(key: Callable[[], Secret]) -> Secret:
    """What ``key`` gets on the worker, whose log then has the fingerprint, by which to compare workers and runs."""
    secret = key()
    _log(secret.fingerprint)
    return secret


@cache
def _log(fingerprint: str) -> None:
    logging.getLogger(__name__).info("keyed noise by the secret with fingerprint %s", fingerprint)


def coarsen(reports: pa.RecordBatch | pa.Table, job: TelemetryJob) -> pa.Table:
    """What may be stored: the event time, where the plan does not keep it, cut to the start of its window."""
    table = pa.table(reports) if isinstance(reports, pa.Table) else pa.Table.from_batches([reports])
    table = table.select([*job.plan, *((job.event_time,) if job.event_time not in job.plan.keep else ())])
    if job.event_time not in job.plan.keep:
        micros, _ = event_times(table[job.event_time].combine_chunks(), job.event_time, job.time_unit)
        size, offset = job.window_micros, int(job._windows.offset.micros)
        start = pa.array((micros - offset) // size * size + offset).cast(pa.timestamp("us", "UTC"))
        table = table.set_column(table.schema.get_field_index(job.event_time), WINDOW_START, start)
    return table


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def read_lines(text: Iterator[str]) -> list[dict[str, Any]]:
    """JSON objects of the lines of a file that this job wrote."""
    return [json.loads(line) for line in text if line.strip()]
