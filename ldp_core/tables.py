"""Rows of cells for people to read: as aligned text, and as HTML for notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl

WIDTH = 80
"""Columns of a terminal."""
RECORDS, SHARE = "records", "share of the records"
"""What estimates are numbers of, for a `View`."""


@dataclass(frozen=True)
class View:
    """Which columns of the rows of an answer people look at, in tables, pictures and reports.

    The ends of the interval are always the columns ``low`` and ``high``, and the number of reports is ``n``.

    Attributes:
        labels: the columns that say what a row is about: none (a single number), a value, or the ends of a bucket.
        unit: of the estimate, as an axis says it: `RECORDS`, `SHARE`, or of a number in words.
        ranked: whether the largest estimate comes first.
        curve: whether the rows are points of one curve, in order, and the intervals its band.
        alone: whether intervals are of noise alone if nothing is said; of counts they are.
        rate: of a table, the column with the rate of the last label among those who have the others; its interval is
            ``rate_low`` to ``rate_high``.
    """

    estimate: str
    labels: tuple[str, ...] = ()
    unit: str = RECORDS
    ranked: bool = False
    curve: bool = False
    alone: bool = False
    rate: str = ""

    @property
    def counts(self) -> bool:
        """Whether the estimate is a number of records, of which there are shares of ``n``."""
        return self.unit == RECORDS

    @property
    def shares(self) -> bool:
        """Whether the estimate is a share of the records."""
        return self.unit == SHARE

    def fits(self, columns: Collection[str]) -> bool:
        """Whether rows with these columns can be looked at so."""
        return {self.estimate, *self.labels, "low", "high"} <= set(columns)


def text_of(value: Any) -> str:
    """A value as people see it, and as text in a table of values of several types: ``false`` and ``true`` for Booleans.

    >>> text_of(True), text_of(7), text_of("ios")
    ('true', '7', 'ios')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF, 0xFFFE, 0xFFFF]
_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS}


def visible(text: str) -> str:
    """A text that moves no cursor, breaks no line and turns no writing around: control characters as in JSON.

    Names and labels may be a stranger's, and a terminal does what escape sequences in them say.
    """
    return text if text.isprintable() else text.translate(_ESCAPES)


def visible_lines(text: str) -> str:
    """`visible` of each line."""
    return "\n".join(map(visible, text.split("\n")))


def drawn_text_of(value: Any) -> str:
    """A value as it is drawn: what draws SVG ends the process at control characters."""
    return visible(text_of(value))


def aligned(rows: Sequence[Sequence[str]], *, numbers: Iterable[int] = ()) -> list[str]:
    """Rows of cells as lines; the columns ``numbers`` to the right.

    >>> aligned([("a", "n"), ("bcd", "10")], numbers=[1])
    ['a     n', 'bcd  10']
    """
    right = set(numbers)
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = (
        [c.rjust(w) if k in right else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    )
    return ["  ".join(row).rstrip() for row in cells]


def folded(sentences: Iterable[str], *, indent: str = "  ", width: int = WIDTH) -> list[str]:
    """Sentences as lines of at most so many characters; what goes on is indented."""
    # (a number and its percent sign stay together)
    lines = (
        wrap(visible(one).replace(" %", "\0%"), width, subsequent_indent=indent, break_on_hyphens=False)
        for one in sentences
    )
    return [line.replace("\0", " ") for sentence in lines for line in sentence]


def html(
    rows: Sequence[Sequence[str]], *, title: str = "", numbers: Iterable[int] = (), notes: Iterable[str] = ()
) -> str:
    """Rows of cells, the first of which are the heads, as an HTML table; everything in it escaped."""
    right = set(numbers)

    def line(row: Sequence[str], tag: str) -> str:
        style = (' style="text-align:right"' if k in right else "" for k in range(len(row)))
        cells = (f"<{tag}{s}>{escape(cell)}</{tag}>" for cell, s in zip(row, style, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    head, *body = rows
    caption = f'<caption style="text-align:left">{escape(title)}</caption>' if title else ""
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return (
        f"<table>{caption}<thead>{line(head, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in body)}</tbody>"
        f"</table>{below}"
    )


def preformatted(text: str) -> str:
    """Aligned text as HTML."""
    return f"<pre>{escape(text)}</pre>"


class Row(ABC):
    """Base of one answer of a `Table`: what it says, for programs and for people."""

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """The cells for programs, by name: numbers, text, None."""

    @abstractmethod
    def texts(self) -> dict[str, str]:
        """The cells for people, by head."""


T_co = TypeVar("T_co", bound=Row, covariant=True)


@dataclass(frozen=True)
class Table(Sequence[T_co], Generic[T_co]):
    """Answers in order, as a table: ``print`` and notebooks show it; `to_arrow` and `to_polars` give it to programs.

    Attributes:
        rows: one an answer; also by iteration and by index.
        title: what is shown above.
        note: a sentence or two, shown below.
    """

    rows: tuple[T_co, ...]
    title: str = ""
    note: str = ""

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.rows)

    def _cells(self) -> tuple[list[list[str]], list[int]]:
        """Heads and rows of cells; which columns are numbers."""
        shown = [row.texts() for row in self.rows]
        heads = list(shown[0]) if shown else []
        body = [list(row.values()) for row in shown]
        right = [k for k, column in enumerate(zip(*body, strict=True)) if all(c[:1] in _DIGITS for c in column)]
        return [heads, *body], right

    def __repr__(self) -> str:
        rows, right = self._cells()
        title = [self.title] if self.title else []
        return "\n".join(title + aligned(rows, numbers=right) + folded([self.note] if self.note else [], indent=""))

    def _repr_html_(self) -> str:
        rows, right = self._cells()
        return html(rows, title=self.title, numbers=right, notes=[self.note] if self.note else [])

    def to_arrow(self) -> pa.Table:
        """One row an answer."""
        return pa.Table.from_pylist([row.values() for row in self.rows])

    def to_polars(self) -> pl.DataFrame:
        """`to_arrow` as a Polars frame; needs Polars."""
        import polars as pl  # noqa: PLC0415 (optional: the core does not depend on it)

        return pl.DataFrame(self.to_arrow())


_DIGITS = ("", *"0123456789-<")


def in_percent(confidence: float) -> str:
    """A confidence with all its digits: 0.9999999 is not 100 %."""
    return f"{100 * confidence:.12g}"


def about_whom(population: str | int | None) -> str:
    """What is said beside intervals that are about more than these people."""
    if population is None:
        return ""
    return ", about a population" + (f" of {population:,}" if isinstance(population, int) else "")
