"""Rows of estimates, to what a page shows."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from statistics import median_low
from typing import Any

import numpy as np

import ldp_core as core
from ldp_core import engine
from ldp_core.engine import is_cut_chart as is_cut

LATE = "late"  # the reason of a dead letter whose window had closed


_ENDS = ("window_start", "window_end")
OF_ROWS = {*_ENDS, "column_name", "confidence", "standard_error", "low", "high", "n", "pane_index", "pane_timing"}
OF_ROWS |= {"epsilon", "fingerprint", "frequency", "frequency_standard_error", "frequency_low", "frequency_high"}
OF_ROWS |= {"partial", "", "Unnamed: 0", "__index_level_0__"}  # (the index that pandas writes)
"""Columns of an estimate, beside those of its view; any other one is a group's, and ``key`` may be of several."""
WHOM = "population of the intervals"  # in rows of files whose metadata say it
_OF_TABLES = {"rate", "rate_standard_error", "rate_low", "rate_high", "value"}
_KINDS = ("mean", "points", "distribution")
_MANY = (1, 10, 100)

Row = Mapping[str, Any]


@dataclass
class Results:
    """Estimates of some columns, and what became of the other records.

    Args:
        columns: by name the rows of its estimate, mappings with the columns that the estimates of Polars or Beam have;
            or a frame of Polars, as of ``reports.ldp.estimates(plan)``.
            ``window_start`` and ``window_end`` are times, dates, or text in ISO 8601. (Of Beam's rows
            `ldp_beam.io.estimate_dict` makes such mappings.)
        letters: dead letters: mappings of ``column_name``, ``reason``, ``count``. None: nobody has counted them.
        plan: what the reports were made with.
        confidence: of the intervals, where the rows do not say it.
        name: what the page is called.
        counted: the reports that were counted; None: as many as the rows say.
        covered: dates or times of the first and of the last record, which tell what windows are filled in part.
        population: whom the intervals of counts are about: None, those who reported; "many", or the number of people of
            whom these are a sample; where columns differ, a mapping of those that are a sample.
        repeats: the most reports of one person in a window, where somebody said it. Then no window is compared with
            another, as under a plan that remembers answers: nobody said who is in both.
        live: whether people look again and again while windows close: what has changed must hold at all looks.
        accumulating: whether each pane of a window has all its records so far, as Beam's do by default. Else windows of
            several panes are not compared.
        total: whether all reports are counted together as they come, and in no window; and letters are messages.
        per_column: whether a record that is lost is a letter of each column, as where each has a pipeline of its own.
        doubts: why estimates are implausible, in sentences.

    >>> row = {"value": "ios", "count": 12.0, "low": 3.0, "high": 21.0, "n": 100}
    >>> Results({"os": [row]}).to_json()["counted"]
    100
    """

    columns: dict[str, list[Row]] = field(default_factory=dict)
    letters: list[Row] | None = None
    plan: core.PrivacyPlan | None = None
    confidence: float | None = None
    name: str = ""
    counted: int | None = None
    covered: tuple[Any, Any] | None = None
    population: str | int | Mapping[str, str | int] | None = None
    per_column: bool = False
    live: bool = False
    accumulating: bool = False
    repeats: int | None = None
    total: bool = False
    doubts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        frames = {name: rows.to_dicts() for name, rows in self.columns.items() if hasattr(rows, "to_dicts")}
        self.columns = {**self.columns, **frames} if frames else self.columns
        for rows in self.columns.values():
            check_rows(rows)

    def to_json(self) -> dict[str, Any]:
        """All that a page shows, as JSON's types; nothing in it is a float that JSON does not have.

        >>> row = {"value": True, "count": 12.0, "low": 3.0, "high": 21.0, "n": 100}
        >>> found = Results({"crashed": [row]}).to_json()
        >>> found["columns"][0]["groups"]
        [{'window': None, 'key': '', 'n': 100, 'rows': [['true', 12.0, 3.0, 21.0]]}]
        """
        found = {window_of(row) for rows in self.columns.values() for row in rows}
        windows = sorted(window for window in found if window is not None)
        place: dict[Any, int | None] = {None: None, **{window: k for k, window in enumerate(windows)}}
        columns = [self._column(name, rows, place) for name, rows in self.columns.items()]
        self._say_of_searches(columns)
        sizes = [[group["n"] or 0 for group in column["groups"]] for column in columns]
        of_each = [_counted_once(column["groups"], windows, live=self.live) for column in columns]
        summed = None if None in of_each else max((n for n in of_each if n is not None), default=0)
        each = median_low([n for column in sizes for n in column] or [0])
        counted = summed if self.counted is None or summed is None else self.counted
        letters = None if self.letters is None else _letters(self.letters)
        return _visible(
            {
                "name": self.name,
                "total": self.total,
                "windows": _labels(windows),
                "span": "".join(_labels([(windows[0][0], max(end for _, end, _ in windows), 0)] if windows else [])),
                "partial": None
                if self.covered is None
                else [is_cut(start, end, self.covered) for start, end, _ in windows],
                "columns": columns,
                "counted": counted,
                "doubts": self.doubts,
                "letters": letters,
                "late": None if letters is None else self._lost(letters, late=True),
                "dead": None if letters is None else self._lost(letters, late=False),
                "plan": None if self.plan is None else _in_words(self.plan, each),
            }
        )

    def _say_of_searches(self, columns: Sequence[dict[str, Any]]) -> None:
        """For columns in which values are searched for: how often anything on the page is what nobody has.

        A search that found nothing has no rows. So of each such column there is one of each group on the page.
        """
        groups = {(group["window"], group["key"]) for column in columns for group in column["groups"]}
        searched = [column for column in columns if column["searches"] is not None]
        sure = math.prod((column["confidence"] or 0.0) ** len(groups) for column in searched)
        many = len(groups) * len(searched)
        for column in searched:
            one = 1 - (column["confidence"] or 0.0)
            if many > 1 and one < 1:
                column["searches"] = (
                    f"One search shows a value that nobody has with a probability of {one:.2g} at most, and any of the "
                    f"{many} on this page with {1 - sure:.2g}."
                )

    def _lost(self, letters: Iterable[Row], *, late: bool) -> int:
        """How many records were late, or could not be used."""
        by: Counter[str] = Counter()
        for letter in letters:
            if letter["late"] == late:
                by[letter["column"]] += letter["count"]
        whole = by.pop("", 0)
        return whole + (max(by.values(), default=0) if self.per_column else by.total())

    def _column(self, name: str, rows: Sequence[Row], place: Mapping[Any, int | None]) -> dict[str, Any]:
        view = (engine.view_of(rows[0], name) if rows else None) or core.HistogramEstimate.view
        groups: dict[tuple[int | None, str], list[Row]] = {}
        for row in rows:
            groups.setdefault((place[window_of(row)], key_of(row, view)), []).append(row)
        mechanism = None if self.plan is None else self.plan.columns.get(name)
        confidence = next((c for row in rows if (c := number_in(row.get("confidence"))) is not None), self.confidence)
        whom = self.population.get(name) if isinstance(self.population, Mapping) else self.population
        whom = next((row[WHOM] for row in rows if WHOM in row), whom)
        changed = (
            None
            if self.plan is None or self.plan.seed is not None or self.plan.memoized or self.repeats is not None
            else _changed(
                groups, view, mechanism, place, accumulating=self.accumulating, anytime=self.live, population=whom
            )
        )
        spent = next((e for row in rows if (e := number_in(row.get("epsilon"))) is not None), None)
        ends = (row.get(end) for row in rows for end in (view.estimate, "low", "high"))
        unit, number = _unit([x for x in ends if not (x is None or isinstance(x, (int, float)))], mechanism)
        return {
            "name": name,
            "unit": unit,
            "alone": (view.counts or view.alone) and whom is None and not isinstance(mechanism, core.Numeric),
            "changed": changed,
            "searches": "" if mechanism is not None and _searched(mechanism) else None,
            "kind": "table" if view.rate else _KINDS[len(view.labels)] if not view.counts else "histogram",
            "labels": view.labels,
            "what": view.estimate,
            "shares": view.shares,
            "mechanism": "" if mechanism is None else mechanism.title,
            "epsilon": spent if mechanism is None else mechanism.epsilon,
            "confidence": confidence,
            "groups": [
                {
                    "window": window,
                    **({"untimed": True} if window is None and any(_ENDS[0] in row for row in group) else {}),
                    "key": key,
                    "n": next((n for row in group if (n := whole_in(row.get("n"))) is not None), None),
                    "rows": [_cells(view, row, number) for row in group],
                }
                for (window, key), group in sorted(
                    groups.items(), key=lambda item: (-1 if item[0][0] is None else item[0][0], item[0][1])
                )
            ],
        }


def _counted_once(
    groups: Iterable[dict[str, Any]], windows: Sequence[tuple[datetime, datetime, int]], *, live: bool
) -> int | None:
    """How many records there are in groups, in order of time; each once where windows overlap, as sliding ones do.

    None if it is not known: the panes of a window may be of all records so far or of the new ones; not all records are
    in windows that lie end to end; or a live page had windows that overlap, and that are gone.
    """
    counted, last, apart = 0, dict[str, tuple[datetime, datetime]](), 0  # (in microseconds)
    for group in groups:
        if group["window"] is not None:
            start, end, _ = windows[group["window"]]
            before = last.get(group["key"])
            if before == (start, end):
                return None
            if before is not None and start < before[1]:
                if live:
                    return None
                apart = math.gcd(apart, (start - before[0]) // timedelta.resolution)
                continue
            last[group["key"]] = start, end
        counted += group["n"] or 0
    lengths = {(end - start) // timedelta.resolution for start, end in last.values()}
    return None if apart and any(length % apart for length in lengths) else counted


def _changed(
    groups: Mapping[tuple[int | None, str], list[Row]],
    view: engine.View,
    mechanism: core.Mechanism | None,
    place: Mapping[Any, int | None],
    *,
    accumulating: bool,
    **how: Any,
) -> str | None:
    """What the last window has otherwise than the one before, in words; None where there are not two to compare."""
    windows = sorted({window[:2] for window in place if window is not None})
    last = windows[-1] if windows else None
    before = next((window for window in reversed(windows) if last is not None and window[1] <= last[0]), None)
    if mechanism is None or last is None or before is None or len(view.labels) > 1:
        return None
    panes: dict[Any, list[Row]] = {}  # of each window and group the last one
    for window, number in sorted(item for item in place.items() if item[0] and item[0][:2] in (before, last)):
        if window[2] and not accumulating:
            return None  # it may have new records alone
        panes |= {(window[:2], key): rows for (of, key), rows in groups.items() if of == number}
    places = {text: k for k, text in enumerate(getattr(mechanism.inputs, "texts", ()))}
    if isinstance(mechanism.inputs, core.Dates):  # times of UTC as Beam's files have them, in Parquet and in NDJSON
        places |= {t: k for text, k in places.items() for t in (f"{text}+00:00", f"{text.replace(' ', 'T')}Z")}
    if bool(places) != bool(view.labels) or (places and not view.counts):  # (a curve, a median: no shares of values)
        return None
    found: list[tuple[str, float, float]] = []
    p_values: list[float] = []
    for key in dict.fromkeys(key for _, key in groups):
        sides = [_numbers(panes.get((window, key), ()), view) for window in (before, last)]
        words = [word for word in sides[0] if word in sides[1] and (word in places or not places)]  # (no ranges)
        if words:
            n, estimates, errors = np.array([[side[word] for word in words] for side in sides]).transpose(2, 0, 1)
            at = [places[word] for word in words] if places else None
            p = engine.p_values_of(mechanism, n[:, 0].astype(np.int64), estimates, errors, values=at, **how)
            if p is None:
                return None
            named = [_aside(", ".join(filter(None, (key, word)))) for word in words]
            found += zip(named, *estimates.tolist(), strict=True)
            p_values += p.tolist()
    if not found:
        return None
    order = np.argsort(adjusted := engine.holm(np.array(p_values)), kind="stable").tolist()
    scale, unit = (100, " %") if view.labels else (1, "")
    said = [
        f"{name} {' to '.join(_apart(scale * one, scale * two))}{unit}".strip()
        for name, one, two in (found[i] for i in order if adjusted[i] < _LEVEL)
    ]
    more = f" and {len(said) - _TOLD} more" if len(said) > _TOLD else ""
    what = f"changed: {'; '.join(said[:_TOLD])}{more}" if said else "nothing has changed beyond chance"
    looks = ", at all looks together" if how["anytime"] else ""
    return f"Last window against the one before: {what} (5 %, of all together{looks}; for other people or fresh noise)."


_LEVEL, _TOLD = 0.05, 5


def _apart(*numbers: float) -> list[str]:
    """Two numbers with three digits, and with those that both begin with.

    >>> _apart(0.123456, 0.2), _apart(51999.97, 52029.91)
    (['0.123', '0.2'], ['52000', '52029.9'])
    """
    alike = max(map(abs, numbers)) / max(abs(numbers[1] - numbers[0]), 1e-300)
    return [f"{number:.{3 + math.floor(math.log10(max(alike, 1)))}g}" for number in numbers]


def _aside(words: str) -> str:
    """Words that do not turn around the numbers beside them, if they are written from right to left."""
    words = engine.visible(words)
    return words if words.isascii() else f"\u2068{words}\u2069"


def _visible(data: Any) -> Any:
    """Data in which no name, label or group, which may be a stranger's, turns the writing beside it around."""
    if isinstance(data, dict):  # (what has changed says so itself)
        return {key: one if key == "changed" else _visible(one) for key, one in data.items()}
    if isinstance(data, list):
        return [_visible(one) for one in data]
    return engine.visible_lines(data) if isinstance(data, str) else data


def _numbers(rows: Iterable[Row], view: engine.View) -> dict[str, tuple[float, float, float]]:
    """By value n, the share or mean, and its standard error; of rows that say them."""
    found = {}
    for row in rows:
        n, one, error = (number_in(row.get(name)) for name in ("n", view.estimate, "standard_error"))
        if n and one is not None and error is not None:
            by = n if view.labels else 1.0
            found[word_of(row.get(view.labels[0])) if view.labels else ""] = n, one / by, error / by
    return found


def _searched(mechanism: core.Mechanism) -> bool:
    """Whether values are searched for, and the most frequent shown."""
    with suppress(core.ParameterError):  # there is no estimate of it
        return core.usual_question(mechanism).view.ranked
    return False


# ---- rows


def _unit(
    said: Sequence[Any], mechanism: core.Mechanism | None
) -> tuple[str | list[str], Callable[[Any], float | None]]:
    """What the numbers of a column are, whose estimates are no numbers: days since 1970, or places of words in a list.

    And how to make one: of dates, times, and texts, as files have all of them, or labels.
    """
    texts = list(dict.fromkeys(map(word_of, said)))
    with suppress(ValueError, OverflowError):
        days = {text: (engine.utc(datetime.fromisoformat(text)) - _EPOCH) / timedelta(days=1) for text in texts}
        if days and all(_IS_DATE.match(text) for text in texts):
            kind = "time" if any(len(text) > 10 for text in texts) else "date"
            return kind, lambda x: days.get(word_of(x), number_in(x))
    inputs = None if mechanism is None else mechanism.inputs
    if inputs is not None and inputs.kind in ("int", "float"):
        with suppress(ValueError):  # `ldp_beam.text_row` makes text of numbers, for one table with words
            numbers = {text: float(text) for text in texts}
            return "", lambda x: number_in(numbers.get(word_of(x), x))
    words = list(inputs.texts) if isinstance(inputs, core.Domain) else []
    words += [text for text in texts if text not in words]
    places = {word: float(k) for k, word in enumerate(words)}
    return (words, lambda x: places.get(word_of(x), number_in(x))) if texts else ("", number_in)


_EPOCH, _IS_DATE = datetime(1970, 1, 1, tzinfo=UTC), re.compile(r"\d{4}-\d\d-\d\d")


def _cells(view: engine.View, row: Row, number: Callable[[Any], float | None]) -> list[Any]:
    """What the row is about, the estimate, the ends of its interval; of a table also the rate and its ends."""
    rates = [f"{view.rate}{end}" for end in ("", "_low", "_high")] if view.rate else []
    numbers = [number(row.get(name)) for name in (view.estimate, "low", "high", *rates)]
    labels = [row.get(label) for label in view.labels]
    if rates:
        return [[word_of(label) for label in labels], *numbers]
    return [word_of(labels[0] if labels else None) if len(labels) < 2 else [number_in(one) for one in labels], *numbers]


def number_in(x: Any) -> float | None:
    """A finite number, or None."""
    return float(x) if isinstance(x, (int, float)) and math.isfinite(x) else None


def whole_in(x: Any) -> int | None:
    """A number without its digits after the point, or None."""
    number = number_in(x)
    return None if number is None else int(number)


def whom_in(said: Any) -> Any:
    """The population of intervals, as `about` writes it; None for all else."""
    return said if said == "many" else whole_in(said)


def word_of(value: Any) -> str:
    """A value as it is shown; nothing for null."""
    return "" if value is None else engine.text_of(value)


def groups_in(names: Iterable[str], view: engine.View) -> list[str]:
    """Those of the columns of estimates that tell groups apart, but ``key``."""
    own = OF_ROWS | {WHOM, "key", view.estimate, *view.labels} | (_OF_TABLES if view.rate else set())
    return [name for name in names if name not in own]


def key_of(row: Row, view: engine.View) -> str:
    """The group of a row, as it is shown."""
    key = row.get("key")
    if isinstance(key, Mapping):
        pairs = list(key.items())
    elif isinstance(key, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in key):
        pairs = list(key)  # as Arrow has maps
    else:  # a group's column of this name
        pairs = [] if key is None else [("key", key)]
    pairs += [(name, row[name]) for name in groups_in(row, view)]
    return ", ".join(f"{name} is null" if value is None else f"{name} = {word_of(value)}" for name, value in pairs)


def window_of(row: Row) -> tuple[datetime, datetime, int] | None:
    """Start, end and pane of a row's window, in UTC; None where it has none.

    >>> window_of({"window_start": "1970-01-01", "window_end": "1970-01-02"})[1].day
    2
    """
    start, end = (_time(row.get(name)) for name in _ENDS)
    return None if start is None or end is None else (start, end, whole_in(row.get("pane_index")) or 0)


def check_rows(rows: Iterable[Row]) -> None:
    """Raise `InputError` if these are other rows, or have windows that nothing here reads, as Beam's own are."""
    for row in rows:
        if not isinstance(row, Mapping):
            came = type(row).__name__
        elif times := [row[end] for end in _ENDS if not isinstance(row.get(end), str | date | None)]:
            came = f"one whose window ends with a {type(times[0]).__name__}"
        else:
            continue
        raise core.InputError(
            "rows of estimates are dictionaries whose windows are times, dates or text in ISO 8601, as "
            f"ldp_beam.io.estimate_dict makes of Beam's rows; got {came}"
        )


def _time(value: Any) -> datetime | None:
    try:
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
        return engine.utc(value) if isinstance(value, date) and value.year > 0 else None  # (a NaT is a date)
    except (ValueError, OverflowError):  # the first day of all in a zone where it began before
        return None


def ends_in(covered: Any) -> tuple[Any, Any] | None:
    """Times of the first and of the last record, as `about` writes them; None for all else."""
    try:
        kinds = [date if len(text) == len("2024-01-01") else datetime for text in covered]
        first, last = (kind.fromisoformat(text) for kind, text in zip(kinds, covered, strict=True))
        engine.utc(first), engine.utc(last)
    except (TypeError, ValueError, OverflowError):  # (as in `_time`)
        return None
    return first, last


def _labels(windows: Sequence[tuple[datetime, datetime, int]]) -> list[str]:
    """Each window in words, no longer than it takes to tell them apart."""
    ends = [end for window in windows for end in window[:2]]
    days = all(end.time() == time() for end in ends)
    few = "minutes" if all(end.second == 0 for end in ends) else "seconds"
    seconds = few if all(end.microsecond == 0 for end in ends) else "milliseconds"
    panes = any(pane for _, _, pane in windows)
    labels = []
    for start, end, pane in windows:
        if days:
            label = f"{start:%Y-%m-%d} to {end:%Y-%m-%d}"
        else:
            first, last = (one.replace(tzinfo=None).isoformat(" ", seconds) for one in (start, end))
            label = f"{first} to {last[11:] if start.date() == end.date() else last}"
        labels.append(label + (f", pane {pane}" if panes else ""))
    return labels


def _letters(letters: Iterable[Row]) -> list[dict[str, Any]]:
    counts: Counter[tuple[str, str]] = Counter()
    for letter in letters:
        counts[str(letter.get("column_name") or ""), str(letter.get("reason") or "")] += int(letter.get("count") or 0)
    return [
        {"column": column, "reason": reason, "count": count, "late": reason == LATE}
        for (column, reason), count in counts.most_common()
    ]


# ---- the plan in words


def _in_words(plan: core.PrivacyPlan, n: int) -> dict[str, Any]:
    """What a plan does with n reports, what a record and a person spend."""
    columns, n = [], max(n, 1)
    for name, m in plan.columns.items():
        outlook = m.explain(n)
        columns.append(
            {
                "name": name,
                "mechanism": m.title,
                "values": m.inputs.summary,
                "epsilon": m.epsilon,
                "margin": outlook.margin,
                "advice": outlook.advice or "",
            }
        )
    fresh: list[tuple[str, bool, int | None]] = [("fresh noise, any values", False, None)]
    cases = [*(() if plan.memoized else fresh), ("noise keyed by person, values that never change", True, 0)]
    return {
        "columns": columns,
        "n": n,
        "keep": list(plan.keep),
        "epsilon": plan.epsilon,
        "fingerprint": plan.fingerprint,
        "seeded": plan.seed is not None,
        "record": "" if plan.seed is not None else engine.promise("one record", engine.float_above(plan.exact_epsilon)),
        "reports": list(_MANY),
        "people": [
            [what, *(number_in(plan.epsilon_of(k, changes=changes, keyed=keyed)) for k in _MANY)]
            for what, keyed, changes in cases
        ],
        "text": plan.explain(n, records=_MANY),
    }
