"""Dates and times cut into cells of the calendar: a domain, of which every mechanism for labels can report."""

from __future__ import annotations

import datetime as dt
import re
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from ldp_core.arrays.arrow import PYTHON_TYPES, as_arrow, as_micros, filled_indices, is_text
from ldp_core.arrays.types import I64, Bools, Codes
from ldp_core.errors import DomainError, DtypeError, LdpError, ParameterError
from ldp_core.inputs.cells import MOST_CELLS
from ldp_core.inputs.domain import Domain, Label
from ldp_core.parameters import shown
from ldp_core.windows import Window

_DAY = 86400 * 10**6
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NONE = np.iinfo(np.int64).min
"""In the place of a null, in microseconds; numpy calls the same number NaT."""
_ELSEWHERE = _NONE + 1
"""In the place of a text that names a zone: it is no null, and clients do not know the time."""
_PYTHON = (-719162 * _DAY, 2932897 * _DAY)
"""The years 1 to 9999, of which Python has dates."""
_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")


class Dates(Domain):
    """Days or times from ``low`` on and before ``high``, cut into cells of one length, which begin at ``low``.

    Each cell is one value, which its first day or its beginning stands for. Estimates have dates or datetimes, reports
    of values the same as text. All cells are of UTC. A time without a zone is one of UTC, and so is a day. A domain of
    times converts datetimes of other zones to UTC; a domain of days refuses them, as the day there may be another one:
    convert the column to dates before. Of text both read what clients read (docs/wire.md, section 2), which is a day or
    a time with its seconds.

    Args:
        low, high: two dates, or two datetimes; or as text in ISO 8601. Declared, never learned from the data.
        every: the length, as ``"1d"``, ``"1w"``, ``"1mo"``, ``"1q"``, ``"1y"`` or of times ``"6h"``; or a timedelta.
            ``high`` is so many whole cells after ``low``. Cells of months begin with a month.
        unmatched: what becomes of values outside: ``"error"``, ``"other"`` and ``"none"`` as of `Domain`; ``"clip"``
            takes them for the first or the last cell.
        missing: the date that a null counts as, also one that numpy calls NaT, and a text that is no date (but not one
            with a zone, which is as ``unmatched`` says). None: all are as ``unmatched`` says, an error under
            ``"clip"``.

    Raises:
        DomainError: ends that are no dates, or not whole cells apart; fewer than 2 cells, or more than 65,536; a
            ``missing`` that is outside.
        ParameterError: a length that does not exist.

    >>> born = Dates("2024-01-01", "2025-01-01", every="1mo")
    >>> born.size, born.encode(["2024-01-31", "2024-02-29", "2024-12-31"]).tolist()
    (12, [0, 1, 11])
    >>> born.arrow_values[1].as_py()
    datetime.date(2024, 2, 1)
    """

    days: bool
    """Whether values are days, else times."""
    low: int
    """Where the first cell begins, in microseconds since 1970."""
    high: int
    cells: int
    """How many there are: a few bytes declare 65,536, and they are made when they are needed."""
    every: str
    missing: int | None
    unmatched: Any

    remedy: ClassVar[str] = (
        'declare a longer time, or take unmatched="clip" or "other"; for nulls missing=, a date, or "other"; in words '
        "dates are 2024-01-31 or 2024-01-31T18:00:00, of UTC: of words with another zone make datetimes before"
    )

    def __init__(
        self,
        low: dt.date | str,
        high: dt.date | str,
        every: str | dt.timedelta = "1d",
        unmatched: Literal["error", "clip", "other", "none"] = "error",
        missing: dt.date | str | None = None,
    ) -> None:
        (first, days), (last, also) = _moment("low", low), _moment("high", high)
        if (isinstance(every, str) and "+" in every) or not isinstance(every, (str, dt.timedelta)):
            raise ParameterError(f'every must be one length, as "1mo", "7d" or "6h", got {shown(every)}')
        if unmatched not in ("error", "clip", "other", "none"):
            raise DomainError(f'unmatched must be "error", "clip", "other" or "none", got {shown(unmatched)}')
        if days != also:
            raise DomainError("low and high of dates must be two dates, or two datetimes")
        window = Window.of(every)
        counts_as = None if missing is None else _moment("missing", missing)[0]
        self._declare(days=days, unmatched=unmatched, kind="date", every=_name(window))
        self._declare(low=first, high=last, missing=counts_as, cells=_count(first, last, window, _DAY if days else 1))
        if counts_as is not None and not first <= counts_as < last:
            raise DomainError(f"missing must be a date in {self.summary}")

    @cached_property
    def edges(self) -> I64:
        """Of the cells, int64[d + 1], in microseconds since 1970."""
        steps, low = np.arange(self.cells + 1), np.array(self.low, "datetime64[us]")
        if months := Window.of(self.every).months:
            low, step = low.astype("datetime64[M]"), months
        else:
            step = (self.high - self.low) // self.cells
        return (low + steps * step).astype("datetime64[us]").astype(np.int64)

    @cached_property
    def labels(self) -> tuple[Label, ...]:  # type: ignore[override]
        """The beginnings of the cells as text."""
        return tuple(map(str, self._times.tolist()))

    @property
    @override
    def unmatched_code(self) -> int:
        return self.cells

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Dates, **self.to_dict()["domain"], unmatched=self.unmatched), ()

    @override
    def _key(self) -> tuple[Any, ...]:
        return self.days, self.low, self.high, self.every, self.unmatched, self.missing

    @override
    def __repr__(self) -> str:
        made = self.to_dict()
        return f"Dates({', '.join(f'{k}={v!r}' for k, v in {**made.pop('domain'), **made}.items())})"

    def _as(self, micros: Any) -> npt.NDArray[Any]:
        """Days or times, as numpy has them."""
        return np.asarray(micros, "datetime64[us]").astype("datetime64[D]" if self.days else "datetime64[us]")

    def _text(self, micros: Any) -> str:
        return str(self._as(micros).item())

    @property
    def _times(self) -> npt.NDArray[Any]:
        """The beginnings of the cells."""
        return self._as(self.edges[:-1])

    @property
    @override
    def summary(self) -> str:
        return f"{self._text(self.low)} to {self._text(self.high)} by {self.every}"

    @property
    @override
    def takes_nulls(self) -> bool:
        return self.missing is not None or self.unmatched in ("other", "none")

    @property
    @override
    def arrow_type(self) -> pa.DataType:
        """date32, or timestamp in microseconds without a zone: of UTC; or text, with ``other``."""
        return self.arrow_values.type

    @cached_property
    @override
    def arrow_values(self) -> pa.Array:
        return pa.array(self.texts if self.unmatched == "other" else self._times)

    @cached_property
    @override
    def declared(self) -> Domain:
        """The cells as text, as reports have them."""
        return Domain(self.texts)

    @property
    @override
    def ends(self) -> tuple[pa.Array, pa.Array]:
        """The first and the last day of each cell; of times its beginning and its end."""
        return pa.array(self._times), pa.array(self._as(self.edges[1:] - _DAY * self.days))

    @override
    def between(self, low: Any, high: Any) -> tuple[int, int]:
        """A date is a whole day, which belongs to the range; a datetime is the edge of a cell."""
        found = [0, len(self.edges) - 1]
        for side, (name, value) in enumerate((("low", low), ("high", high))):
            if value is not None:
                micros, day = _moment(name, value, ParameterError)
                shift = _DAY * (day and name == "high")
                ends = self.edges[side : side - 1 or None]  # no range begins at the last one
                found[side] = side + (at := int(np.searchsorted(ends, micros + shift).clip(0, len(ends) - 1)))
                if ends[at] != micros + shift:
                    near = ends[max(at, 1) - 1 :][:2] - shift * self.days
                    raise ParameterError(
                        f"{name} of a range must be an edge of the cells, which are not cut: the nearest are "
                        f"{' and '.join(map(self._text, near))}; or left out (None) for no end"
                    )
        if not found[0] < found[1]:
            raise ParameterError("a range of dates goes from low to a later high: take a later high, or an earlier low")
        return found[0], found[1]

    @property
    @override
    def meanings(self) -> list[Any]:
        """A day is no month that begins with it, and not itself with all later ones, or with nulls."""
        begins, ends = (side.to_pylist() for side in self.ends)
        if self.unmatched == "clip":
            begins[0] = ends[-1] = None
        cells: list[Any] = list(zip(begins, ends, strict=True))
        if self.missing is not None:
            cells[self.encode([None])[0]] += ("nulls",)
        return cells

    @override
    def as_report(self, value: Any) -> Any:
        with suppress(DomainError):
            micros, day = _moment("value", value)
            if micros % _DAY == 0 if self.days else not day:
                return self._text(micros)
        return super().as_report(value)

    @override
    def outside(self, values: Any, *, column: str = "values") -> Bools:
        micros = self._moments(as_arrow(values, self.kind, column=column), column)
        inside: Bools = (micros >= self.low) & (micros < self.high)
        return ~inside

    @override
    def refuses(self, values: Any, *, column: str = "values") -> Bools:
        return super().outside(values, column=column) & (self.unmatched in ("error", "clip"))

    @override
    def _positions(self, array: pa.Array, column: str) -> Codes:
        micros = self._moments(array, column)
        if self.missing is not None:
            micros[micros == _NONE] = self.missing
        if self.unmatched == "clip":
            micros = np.where(micros <= _ELSEWHERE, _NONE, micros.clip(self.low, self.high - 1))
        codes = np.searchsorted(self.edges, micros, side="right") - 1
        return np.where(codes < 0, self.unmatched_code, codes).astype(self.code_dtype)

    def _moments(self, array: pa.Array, column: str) -> I64:
        """Microseconds since 1970; errors as of `encode`."""
        if pa.types.is_dictionary(array.type):
            at = filled_indices(array, len(array.dictionary), column=column)
            return np.append(self._moments(array.dictionary, column), _NONE).take(at)
        zone = array.type.tz if pa.types.is_timestamp(array.type) else None
        if self.days and zone not in (None, *_UTC):
            raise DtypeError(
                f"column {column!r}: days are of UTC, but the values' zone is {zone}, where the day may be another one:"
                " convert the column to dates, as .dt.date() of Polars does"
            )
        return moments(array)

    @override
    def compiled(self) -> dict[str, Any]:
        if (self.edges % 10**6).any():
            raise ParameterError("dates of clients are cut at whole seconds: declare cells that begin with a second")
        ends = self.to_dict()["domain"]
        return {**super().compiled(), "end": ends["high"], **{key: ends[key] for key in ("missing",) if key in ends}}

    @override
    def to_dict(self) -> dict[str, Any]:
        ends = {"low": self._text(self.low), "high": self._text(self.high), "every": self.every}
        missing = {} if self.missing is None else {"missing": self._text(self.missing)}
        return {"domain": {**ends, **missing}, **({} if self.unmatched == "error" else {"unmatched": self.unmatched})}


def _moment(name: str, value: Any, error: type[LdpError] = DomainError) -> tuple[int, bool]:
    """A declared date in microseconds since 1970, and whether it is a day; or ``error``."""
    text = str(value) if type(value) in PYTHON_TYPES["date"] else ""
    if re.fullmatch(_ISO, text, re.ASCII):
        with suppress(ValueError):
            time = dt.datetime.fromisoformat(text)
            micros = ((time if time.tzinfo else time.replace(tzinfo=dt.UTC)) - _EPOCH) // dt.timedelta(microseconds=1)
            if _PYTHON[0] <= micros < _PYTHON[1]:
                return micros, len(text) == len("2024-01-01")
    raise error(f"{name} must be a date or a datetime, or one as text, as 2024-01-31 or 2024-01-31T18:00:00")


def _count(first: int, last: int, window: Window, step: int) -> int:
    """How many cells there are from one microsecond to another one; they and the cells are so many whole steps."""
    size = rest = 0
    if window.months:
        edges = np.array([first, last], "datetime64[us]")
        months = edges.astype("datetime64[M]")
        if (months == edges).all():
            size, rest = divmod(int(np.diff(months.astype(np.int64))[0]), window.months)
    elif window.micros % step == 0:
        size, rest = divmod(last - first, window.micros)
    if size < 1 or rest:
        raise DomainError(
            "high of dates is where the last cell ends, a whole number of cells after low; cells of months begin with "
            "a month, and those of days have whole days"
        )
    if not 2 <= size <= MOST_CELLS:
        raise DomainError(f"dates are cut into 2 to {MOST_CELLS} cells, got {size}")
    return size


def _name(window: Window) -> str:
    """The one way to write a length, so that the same cells have the same fingerprint."""
    if window.months:
        return f"{window.months}mo"
    units = {"d": _DAY, "h": 3600 * 10**6, "m": 60 * 10**6, "s": 10**6}
    for unit, micros in units.items():
        if window.micros % micros == 0:
            return f"{window.micros // micros}{unit}"
    return f"{window.micros / 1000}ms"


def moments(array: pa.Array) -> I64:
    """Dates, timestamps or texts of docs/wire.md as microseconds since 1970 in UTC, int64[n]; what is none as `_NONE`.

    A text that names a zone is `_ELSEWHERE`.
    """
    if is_text(array.type):
        return _parsed(array)
    return as_micros(array.to_numpy(zero_copy_only=False)).view(np.int64)


_ISO = r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d:?\d\d)?)?"  # of what is declared
_VALUE = (
    r"^(?P<y>\d{4})-(?P<mo>\d\d)-(?P<d>\d\d)"
    r"(?:[T ](?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d{1,9}))?Z?)?$"
)
_ZONE = ":.*[+-]"


def _parsed(array: pa.Array) -> I64:
    found = pc.extract_regex(array, _VALUE)
    good = found.is_valid().to_numpy(zero_copy_only=False)
    zone = pc.fill_null(pc.match_substring_regex(array, _ZONE), False).to_numpy(zero_copy_only=False)

    def number(name: str) -> I64:
        text = pc.fill_null(pc.struct_field(found, name).cast(pa.string()), "")
        text = pc.utf8_slice_codeunits(pc.utf8_rpad(text, 6, "0"), 0, 6) if name == "f" else text
        return pc.binary_join_element_wise("0", text, "").cast(pa.int64()).to_numpy(zero_copy_only=False)

    month, day, hour, minute, second = map(number, ("mo", "d", "h", "mi", "s"))
    begins = ((number("y") - 1970) * 12 + month - 1).astype("datetime64[M]")
    length = ((begins + 1).astype("datetime64[D]") - begins.astype("datetime64[D]")).astype(np.int64)
    good &= (month >= 1) & (month <= 12) & (day >= 1) & (day <= length) & (hour < 24) & (minute < 60) & (second < 60)
    since = begins.astype("datetime64[us]").astype(np.int64) + (day - 1) * _DAY
    micros = since + ((hour * 60 + minute) * 60 + second) * 10**6 + number("f")
    return np.where(good, micros, np.where(zone, _ELSEWHERE, _NONE))
