"""The files that there are when a job starts, as batches: for Beam YAML."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.fileio import MatchFiles
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from typing_extensions import override

from ldp_beam.elements.records import RecordsTransform
from ldp_beam.io._files import ReadFileDoFn
from ldp_core import InputError


class ReadFiles(RecordsTransform):
    """Files that match a pattern -> ``pyarrow.RecordBatch``; one worker reads a file.

    With `with_exception_handling`: ``(batches, dead_letters)``, as `WatchFolder` has them.

    Args:
        pattern: a glob, on any file system that Beam knows.
        form: ``csv``, ``ndjson`` or ``parquet``, whatever the files are called. Text may be compressed, as
            ``.gz``, ``.bz2`` or ``.zst``.
        schema: see `WatchFolder`.

    Raises:
        InputError: there are no such files.
    """

    def __init__(self, pattern: str, form: str, schema: pa.Schema | None) -> None:
        super().__init__()
        there = False
        with suppress(BeamIOError, OSError, ValueError):
            there = bool(FileSystems.match([pattern], limits=[1])[0].metadata_list)
        if not there:
            raise InputError(f"there are no files to read at {pattern!r}")
        self._pattern, self._form, self._schema = pattern, form, schema

    @override
    def expand(self, pbegin: Any) -> Any:
        paths = (
            pbegin
            | "Match" >> MatchFiles(self._pattern)
            | "Path" >> beam.Map(lambda file: file.path).with_output_types(str)
            | "Spread" >> beam.Reshuffle()
        )
        fn = ReadFileDoFn(self._schema, self._dead_letter_tag, form=self._form)
        return self._batches(paths, "Read", fn)
