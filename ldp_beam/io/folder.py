"""A watched folder: files that appear in it, as batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.watch import PollFn, PollResult, Watch, after_total_of, never
from apache_beam.pvalue import PBegin
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from typing_extensions import override

from ldp_beam.elements.records import RecordsTransform
from ldp_beam.io._files import ReadFileDoFn, file_format, file_sizes, real_path
from ldp_beam.io._positions import check_position
from ldp_core import Limits, ParameterError
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_core.engine import seconds


class WatchFolder(RecordsTransform):
    """Parquet, NDJSON and CSV files that match a pattern, now and later -> ``pyarrow.RecordBatch``; each file once.

    A file must be complete when it gets its name: write it under another one and rename it. Names that begin with a
    dot or an underscore, and those that do not end like a data file (``.parquet``, ``.ndjson``,
    ``.jsonl``, ``.json``, ``.csv``; text also compressed, ``.gz``, ``.bz2``, ``.zst``), are never matched. A file
    is known by its path: it is not read again when it changes. The runner remembers a hash of each path.

    A batch's timestamp, and the watermark, are the time of the poll that found its file, less ``max_delay``.

    With `with_exception_handling`: ``(batches, dead_letters)``; a line, or a whole file, that cannot be read is
    counted as `DeadLetter`, with a reason of `ldp_beam.elements.faults`.

    Args:
        pattern: a glob, on any file system that Beam knows.
        poll_interval: between two looks, in seconds or as text like ``"10s"``.
        stop_after: seconds, or text like ``"1h"``: look no longer than that (once at least); None: never end.
        max_delay: how much older than the moment its file is found a record may be; older ones may be late.
        schema: of text files: the columns, nullable ones may be missing in NDJSON; of Parquet files the columns to
            read, or None for all. Times in CSV have a zone if the schema's type has one. Of CSV, only
            an empty field without quotes is null: NA, null and a quoted empty field are text.
        limits: for the row groups of Parquet files and the lines of text files.
        position: put where each record comes from into a column of this name, for ``Perturb(..., record=)``: a hash of
            the file's path, size and time, with the record's row there (of NDJSON the line, of CSV the row among those
            that have as many fields as the header). A column of this name in a file is replaced.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `InputError`.

    Raises:
        ParameterError: no pattern, times out of range, or a pattern for text files without ``schema``.

    >>> WatchFolder("in/*.ndjson")
    Traceback (most recent call last):
        ...
    ldp_core.errors.ParameterError: files of ndjson need schema=, a pyarrow.Schema: types are declared, not guessed
    """

    def __init__(
        self,
        pattern: str,
        *,
        poll_interval: float | str = 10.0,
        stop_after: float | str | None = None,
        max_delay: float | str = 60.0,
        schema: pa.Schema | None = None,
        limits: Limits = DEFAULT,
        position: str | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(pattern, str) or not pattern:
            raise ParameterError(f"pattern must be text, got {type(pattern).__name__}")
        if schema is not None and not isinstance(schema, pa.Schema):
            raise ParameterError(f"schema must be a pyarrow.Schema, got {type(schema).__name__}")
        form = file_format(pattern)
        if schema is None and form not in (None, "parquet"):
            raise ParameterError(f"files of {form} need schema=, a pyarrow.Schema: types are declared, not guessed")
        self._pattern = pattern
        self._interval = seconds(poll_interval, name="poll_interval")
        if not self._interval:
            raise ParameterError("poll_interval must be longer than 0 seconds")
        self._stop_after = None if stop_after is None else seconds(stop_after, name="stop_after")
        self._max_delay = seconds(max_delay, name="max_delay")
        check_position(position, schema)
        self._schema = schema
        self._limits = limits
        self._position = position

    @override
    def expand(self, pbegin: PBegin) -> Any:
        watch = Watch(
            Poll(self._interval, self._max_delay),
            poll_interval=self._interval,
            termination=never() if self._stop_after is None else after_total_of(self._stop_after),
        )
        paths = (
            pbegin
            | "Pattern" >> beam.Create([self._pattern])
            | "Watch" >> watch
            | "Path" >> beam.Values().with_output_types(str)
            | "Spread" >> beam.Reshuffle()
        )
        fn = ReadFileDoFn(self._schema, self._dead_letter_tag, self._limits, self._position)
        return self._batches(paths, "Read", fn)


class Poll(PollFn):
    """One look: the paths of the complete files.

    Waits until ``interval`` seconds have gone since the last look by itself, because Beam's local runner
    calls again at once; on runners that wait it does not.
    """

    def __init__(self, interval: float, max_delay: float) -> None:
        self._interval = interval
        self._max_delay = max_delay
        self._last = -interval
        self._when = MIN_TIMESTAMP

    def __call__(self, element: str) -> PollResult[str]:
        """Find the files of a pattern."""
        time.sleep(max(0.0, self._last + self._interval - time.monotonic()))
        self._last = time.monotonic()
        # (Before looking: a file that comes now is found later. And no time is before the watermark: clocks are set.)
        when = self._when = max(self._when, Timestamp.now() - self._max_delay)
        return PollResult.incomplete(list(_complete_files(element)), timestamp=when).with_watermark(when)

    @override
    def default_output_coder(self) -> beam.coders.Coder:
        return beam.coders.StrUtf8Coder()


def _complete_files(pattern: str) -> Iterator[str]:
    """Paths of the files that match ``pattern`` and have a finished file's name."""
    for path in file_sizes(pattern):
        name = FileSystems.split(path)[1]
        if name and not name.startswith((".", "_")) and file_format(name):
            real = real_path(path)
            yield real if file_format(real) else path  # (a link, also one that moves on, is the file that it leads to)
