"""Tallies of panes to rows of answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming, WindowedValue
from typing_extensions import override

import ldp_core as core
from ldp_beam.elements.rows import UNKNOWN, row_type
from ldp_beam.estimates.combine import Doubts


def refuse_nulls(question: core.Question[Any], answer: pa.Table, where: str = "") -> None:
    """Raise if columns have nulls that a row of Beam cannot have: of floats they are nan."""
    columns = zip(answer.column_names, answer.columns, strict=True)
    if empty := [name for name, c in columns if c.null_count and not (pa.types.is_floating(c.type) or name in UNKNOWN)]:
        raise core.ParameterError(f"the question {question.name} has nulls in {empty}, a row of Beam none{where}")


_CELLS = 1 << 18  # counters of panes that wait for the end of a bundle, at most


class RowsOf(beam.DoFn):
    """(key, tally) of a pane to rows; of persons there are their sums, too."""

    def __init__(
        self,
        column: str,
        by: tuple[str, ...],
        mechanism: core.Mechanism,
        question: core.Question[Any],
        *,
        bounded: bool,
        filled: bool,
    ) -> None:
        self._bounded = bounded
        self._filled = filled
        self._column = column
        self._by = by
        self._mechanism = mechanism
        self._question = question
        self._doubts = Doubts()
        self._waiting: list[Any] = []
        self._cells = 0

    @override
    def setup(self) -> None:
        schema = self._question.schema(self._mechanism)
        self._row = row_type(schema)
        self._names = [name for name in self._row._fields if name in schema.names and name != "n"]
        self._tallier = self._question.tallier(self._mechanism)
        self._tail = (self._question.confidence, self._mechanism.epsilon, self._mechanism.fingerprint)

    @override
    def start_bundle(self) -> None:
        self._waiting, self._cells = [], 0

    @override
    def process(
        self,
        element: Any,
        at: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterable[Any]:
        """What comes in a bundle is answered together: one pane takes milliseconds, and a thousand take ten."""
        key, tally, *sums = element  # (sums only of persons)
        counted = self._counted(tally, window, pane)
        if counted is None:
            return ()
        ends, n, counts, same = counted
        head = (
            *ends,
            pane.index,
            PaneInfoTiming.to_string(self._timing(pane)),
            pane.is_first,
            pane.is_last,
            self._column,
            dict(zip(self._by, key, strict=True)),
        )
        self._waiting.append(((at, (window,), pane), head, n, (*counts, *sums), same))
        self._cells += counts[1].size
        return self._answered() if self._cells >= _CELLS else ()

    @override
    def finish_bundle(self) -> Iterable[Any]:
        return self._answered()

    def _counted(self, tally: Any, window: Any, pane: Any) -> tuple[Any, int, tuple[Any, Any], dict[str, Any]] | None:
        """Of a pane the ends of its window, n, the counts as `Question.rows` takes them, and what each row has alike.

        None if it has no rows.
        """
        if not (tally.n or pane.index or self._filled):
            # Nobody opened this window. Flink says so of one whose end and allowed lateness the watermark passes at
            # once: it forgets it, and closes it again.
            return None
        self._tallier.check_tally(tally)
        whole = isinstance(window, GlobalWindow)
        ends = (MIN_TIMESTAMP, MAX_TIMESTAMP) if whole else (window.start, window.end)
        return ends, tally.n, (np.array([tally.n]), tally.counters[np.newaxis]), {}

    def _answered(self) -> Iterable[Any]:
        """The rows of the panes that wait, each where its pane was."""
        waiting, self._waiting, self._cells = self._waiting, [], 0
        if not waiting:
            return []
        with self._doubts.about(f"column {self._column!r}"):
            table, lengths = self._rows(*zip(*(counts for _, _, _, counts, _ in waiting), strict=True))
        told = [name for name in self._names if name not in waiting[0][-1]]
        refuse_nulls(self._question, table.select(told))
        columns, first, out = {name: _python(table[name]) for name in told}, 0, []
        for (place, head, n, _, same), length in zip(waiting, lengths, strict=True):
            end = first + int(length)
            of_pane = [columns[name][first:end] if name in columns else [same[name]] * length for name in self._names]
            rows = (self._row._make((*head, *answer, n, *self._tail)) for answer in zip(*of_pane, strict=True))
            out += [WindowedValue(row, *place) for row in rows]
            first = end
        return out

    def _rows(self, n: Any, counters: Any, sums: Any = ()) -> tuple[pa.Table, Any]:
        """The rows of several panes, and how many each has."""
        if not sums:
            return self._question.rows(self._mechanism, np.concatenate(n), np.concatenate(counters))
        tables = [
            self._of_persons(*each) for each in zip(np.concatenate(n), np.concatenate(counters), sums, strict=True)
        ]
        return pa.concat_tables(tables), list(map(len, tables))

    def _of_persons(self, n: Any, counters: Any, sums: Any) -> pa.Table:
        """The rows of a pane whose persons are told apart."""
        tally = core.Tally(int(n), counters, self._tallier.fingerprint)
        found = self._question.of_sums(self._mechanism, tally, sums)
        return found.to_arrow().cast(self._question.schema(self._mechanism))

    def _timing(self, pane: Any) -> Any:
        """The pane's; of bounded input the only pane, which Flink leaves UNKNOWN, comes when all is there: ON_TIME."""
        only = self._bounded and pane.is_first and pane.is_last
        return PaneInfoTiming.ON_TIME if only and pane.timing == PaneInfoTiming.UNKNOWN else pane.timing


def _python(column: pa.ChunkedArray) -> list[Any]:
    """Values as a row of Beam has them, dates as text; numbers by way of numpy, which is much faster."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.string())
    if pa.types.is_timestamp(column.type):
        return [None if v is None else Timestamp(micros=v) for v in column.cast(pa.int64()).to_pylist()]
    return list(column.to_numpy().tolist() if pa.types.is_floating(column.type) else column.to_pylist())
