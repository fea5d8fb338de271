"""What is used of Beam that it does not promise to keep; seen in 2.77. `tests/beam/test_compat.py` says when it moves.

They are what `StableInputParDo` calls, the classes of runners that the functions below it know, and the sink of
`write_parquet`. Nothing else in the package uses any.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filebasedsink import DEFAULT_SHARD_NAME_TEMPLATE, DEFAULT_WINDOW_SHARD_NAME_TEMPLATE
from apache_beam.io.filesystem import CompressedFile
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.parquetio import WriteToParquetBatched, _ParquetSink
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.portability import common_urns
from apache_beam.pvalue import PCollection
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner, SwitchingDirectRunner
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.transforms.core import _MultiParDo
from typing_extensions import override

from ldp_core import InputError


class StableInputParDo(beam.ParDo):
    """A ParDo that gets elements only when the runner would bring the same ones again: it *requires stable input*.

    Beam's model has this, and its Python SDK no way to say it. Flink's runner (seen in 2.70.0,
    ``ExecutableStageDoFnOperator``) then keeps what comes into the whole stage of fused steps until the next checkpoint
    is complete, up to ``--checkpointing_interval`` later. So all that a step of this stage, or one after it, tells the
    world is made of checkpointed elements. It goes first in a stage, after a shuffle, where `knows_stable_input`.
    """

    @override
    def to_runner_api_parameter(self, context: Any, **extra: Any) -> Any:  # type: ignore[override]
        urn, payload = super().to_runner_api_parameter(context, **extra)
        context.add_requirement(common_urns.requirements.REQUIRES_STABLE_INPUT.urn)
        payload.requires_stable_input = True
        return urn, payload


def knows_stable_input(pcoll: PCollection[Any]) -> bool:
    """Whether the runner is Flink's, which knows it, or streams behind a job service of which nothing else is known.

    Elsewhere it is not needed, or refused: Dataflow's Reshuffle is durable, the local runners have no checkpoints, and
    in batch nobody knows it.
    """
    runner, options = pcoll.pipeline.runner, pcoll.pipeline.options
    return isinstance(runner, FlinkRunner) or (
        type(runner) is PortableRunner and (not pcoll.is_bounded or bool(options.view_as(StandardOptions).streaming))
    )


def drops_late_state(pcoll: PCollection[Any]) -> bool:
    """Whether a step with state gets no records of windows that are over, as in Beam's model.

    The local streaming runner hands them on, and keeps the state.
    """
    return not isinstance(pcoll.pipeline.runner, (BundleBasedDirectRunner, SwitchingDirectRunner))


def lacks_clock(pcoll: PCollection[Any]) -> bool:
    """Whether triggers that wait for so many seconds end the job: local runners have no clock for what is bounded.

    But the streaming one has.
    """
    runner, options = pcoll.pipeline.runner, pcoll.pipeline.options
    streams = isinstance(runner, BundleBasedDirectRunner) and options.view_as(StandardOptions).streaming
    local = isinstance(runner, (FnApiRunner, SwitchingDirectRunner, BundleBasedDirectRunner))
    return pcoll.is_bounded and local and not streams


def forgets_at_the_end(pcoll: PCollection[Any]) -> bool:
    """Whether state goes with the end of its window, and not after the allowed lateness, and late records come anew."""
    return isinstance(pcoll.pipeline.runner, PrismRunner) and not pcoll.is_bounded


def sees_one_watermark(pcoll: PCollection[Any]) -> bool:
    """Whether steps side by side always take the same record for late: the runner is one process.

    (Prism fires three times for a late record where a trigger counts elements.)
    """
    return isinstance(pcoll.pipeline.runner, (BundleBasedDirectRunner, SwitchingDirectRunner, PrismRunner))


def maps(step: Any) -> bool:
    """Whether an applied transform is ``beam.Map`` or ``MapTuple``, of one output: one element of each."""
    one, whole = step.transform, step.parent and step.parent.transform
    named = isinstance(one, beam.ParDo) and one.label.startswith(("Map(", "MapTuple("))  # (also where users name it)
    return named and not isinstance(whole, _MultiParDo)


def keeps(transform: Any) -> bool:
    """Whether a transform hands on its records as they are: Beam YAML has a Map that does, before each Flatten."""
    unifies = isinstance(transform, beam.ParDo) and transform.label.startswith("Map(_unify_element_with_schema")
    return unifies or isinstance(transform, (beam.Flatten, beam.WindowInto, beam.Reshuffle))


def filters(transform: Any) -> bool:
    """Whether a transform is ``beam.Filter``."""
    return isinstance(transform, beam.ParDo) and transform.label.startswith("Filter(")


class _MarkedSink(_ParquetSink):
    """Beam's, whose files say of their columns what the last table with other metadata than the file's said.

    Where a disk is full, no half file stays: when Python forgets its writer it would get an end, and pass for whole.
    """

    @override
    def open(self, temp_path: str) -> pq.ParquetWriter:
        writer = super().open(temp_path)  # type: ignore[no-untyped-call]
        # (Beam would end the last file that was opened, where several windows have one each.)
        writer.path, writer.file_handle, self._file_handle = temp_path, self._file_handle, None
        return writer

    @override
    def write_record(self, writer: pq.ParquetWriter, table: pa.Table) -> None:
        with self._whole_or_nothing(writer):
            super().write_record(writer, table)
            if not table.schema.equals(writer.schema, check_metadata=True):  # (where Arrow has its schema in Parquet)
                writer.add_key_value_metadata({"ARROW:schema": b64encode(table.schema.serialize()).decode()})

    @override
    def close(self, writer: pq.ParquetWriter) -> None:
        with self._whole_or_nothing(writer):
            super().close(writer)  # type: ignore[no-untyped-call]

    def write_window(self, tables: Iterable[pa.Table], shard: int, window: Any) -> str:
        """The name of a file of these tables. A bundle that is made again puts its own in the place of the first one's.

        (Beam's own steps in a stream have side inputs, which Flink's checkpoints fail with. And where they are made
        again they may first delete the file that they then move.)
        """
        folder = self.initialize_write()
        writer = self.open_writer(folder, "0")
        for table in filter(len, tables):  # (each is a row group)
            writer.write(table)
        path, name = writer.close(), self._get_final_name(shard, max(1, self.num_shards), window)
        try:
            FileSystems.rename([path], [name])
        except OSError:  # (HDFS puts none in the place of another)
            if not FileSystems.exists(name):
                raise
            FileSystems.delete([name])
            FileSystems.rename([path], [name])
        with suppress(OSError):
            FileSystems.delete([folder])
        return str(name)

    @contextmanager
    def _whole_or_nothing(self, writer: pq.ParquetWriter) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            writer.is_open = False
            with suppress(Exception):  # (any file system's)
                FileSystems.delete([writer.path])
            raise unwritable(FileSystems.split(FileSystems.split(writer.path)[0])[0], error) from error


def unwritable(folder: str, error: Exception) -> InputError:
    """To raise where nothing can be written."""
    return InputError(f"cannot write into the folder {folder!r}: {getattr(error, 'strerror', None) or error}")


def to_the_end(stream: Any) -> Any:
    """The file, to be read from its begin: if it is compressed and was cut, its end is an `EOFError`.

    Beam (2.77) takes what there is for all, and decompresses 16 MiB at once: to 16 GiB, of zeros.
    """
    return _Compressed(stream) if isinstance(stream, CompressedFile) else stream


class _Compressed:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        stream._read_size = 1 << 12

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        if not data and not self._stream._decompressor.eof:
            raise EOFError
        return data


def write_parquet(schema: pa.Schema, options: dict[str, Any]) -> WriteToParquetBatched:
    """``WriteToParquetBatched`` of tables of which some may have other metadata in their fields than ``schema``."""
    write = WriteToParquetBatched(schema=schema, **options)
    write._sink.__class__ = _MarkedSink
    return write


def sink_of_windows(schema: pa.Schema, options: dict[str, Any]) -> _MarkedSink:
    """The sink of `write_parquet`, with a name of its own for each window where none is given, as Beam has it."""
    template = options.get("shard_name_template")
    if template in (None, DEFAULT_SHARD_NAME_TEMPLATE):
        template = DEFAULT_WINDOW_SHARD_NAME_TEMPLATE
    return write_parquet(schema, {**options, "shard_name_template": template})._sink
