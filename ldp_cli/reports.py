"""Files of reports, by Polars: records to reports, reports to estimates."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from ldp_cli import files
from ldp_cli.printing import (
    Plot,
    Theme,
    check_picture,
    note,
    number,
    out,
    percent,
    save,
    say_json,
    show,
    working,
)
from ldp_cli.values import labels, lines, named, share
from ldp_core import (
    HeavyHitters,
    HeavyHittersEstimate,
    Mechanism,
    ParameterError,
    PlanError,
    PrivacyPlan,
    Question,
    Secret,
    Sketch,
    estimates_metadata,
)
from ldp_core.engine import CHART_FIELDS as FIELDS
from ldp_core.engine import View, Window, drawing, questions_of, view_of
from ldp_core.engine import is_cut_chart as is_cut
from ldp_report import RESULTS, about

if TYPE_CHECKING:
    import polars as pl

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


def perturb(
    source: Annotated[str, typer.Argument(metavar="IN", help="Records: .parquet, .csv, .ndjson; a folder; a pattern.")],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file of reports, .parquet; the plan travels in it.")
    ],
    *,
    plan: Annotated[Path, typer.Option(help="A plan: a TOML file.")],
    id: Annotated[  # noqa: A002 (its name everywhere)
        str | None, typer.Option(metavar="COLUMN", help="Whose record it is. It is not passed on.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="With --id: take K records of each person, drop the others.")
    ] = None,
    per: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN[=LENGTH]", help="With --records: K in each of these: country, or time=1d."),
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option(help="With --id: keyed noise, and a keyed choice, by the hexadecimal digits in it.")
    ] = None,
    secret_env: Annotated[str | None, typer.Option(help="The same, in this environment variable.")] = None,
    packed: Annotated[bool, typer.Option(help="Bit vectors as 64-bit words: smaller, and faster to count.")] = True,
    overwrite: Overwrite = False,
) -> None:
    """Perturb records: one private report each, as a plan says."""
    ldp_polars = files.our_polars()
    periods = _periods(per or [])
    if id is None and (records is not None or secret_file is not None or secret_env is not None):
        raise typer.BadParameter("--records and secrets are of persons: give --id COLUMN, too")
    if records is None and periods:
        raise typer.BadParameter("--per says for each of what --records are: give --records K, too")
    if target.suffix.lower() != ".parquet":
        raise ParameterError(
            f"reports are written as Parquet, with their plan: OUT must end in .parquet, got {target.name!r}"
        )
    made = PrivacyPlan.from_toml(plan)
    files.refuse_existing(target, overwrite=overwrite)
    noise = _noise(secret_file, secret_env, id)
    made.check_noise(keyed=bool(noise))
    whose = [*([id] if id is not None else []), *periods]
    scanned = files.having(files.scan(source, made), [*made.columns, *made.keep, *whose], source)
    scanned = scanned.select(list(dict.fromkeys([*made.columns, *made.keep, *whose])))
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")  # complete, or not there
    read = [0]
    try:
        with files.polars_work("perturb"), working("perturbing", writes=beside, total=files.size_of(source)) as done:
            going = files.counted(scanned, read, done)
            if records is not None:
                each = [_in(name, length) for name, length in periods.items()]
                going = ldp_polars.bound(going, id=id, records=records, per=each, key=noise.get("key"))
            reports = ldp_polars.perturb_frame(going, made, packed=packed, **noise)
            ldp_polars.sink_parquet(reports, beside, made)
            os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
    n = _rows(target)
    dropped = f"; {sum(read) - n:,} of {sum(read):,} records were dropped" if records is not None else ""
    out().print(f"{n:,} reports in {target}{dropped}", markup=False)
    if id is None:
        note(
            f"epsilon {made.epsilon:.4g} is per record. If a person has several records, they add up: ldp plan explain "
            f"{plan} -n {n} --records 10 says to what; --id COLUMN --records 1 takes one of each person"
        )
    else:
        note(_of_a_person(scanned, id, records, periods, made, keyed=bool(noise)))
    out().print(f"next: ldp estimate {target}", markup=False)


def _noise(secret_file: Path | None, secret_env: str | None, id: str | None) -> dict[str, Any]:  # noqa: A002
    """Keyed, if there is a secret."""
    if secret_file is not None and secret_env is not None:
        raise typer.BadParameter("give --secret-file or --secret-env, not both")
    if secret_file is None and secret_env is None:
        return {}
    return {"key": Secret.from_file(secret_file) if secret_file else Secret.from_env(str(secret_env)), "id": id}


def _periods(per: list[str]) -> dict[str, str | None]:
    """Columns, and the lengths that their times are cut into."""
    found: dict[str, str | None] = {}
    for text in per:
        name, mark, length = text.partition("=")
        found[name] = length if mark else None
        if mark:
            Window.of(length)
    return found


def _in(name: str, length: str | None) -> Any:
    """The expression of a column; of times, the start of the period."""
    from polars import selectors  # noqa: PLC0415 (only here)

    column = selectors.by_name(name)  # (pl.col reads patterns)
    return column if length is None else files.our_polars().window_start(column, length)


def _of_a_person(
    scanned: pl.LazyFrame,
    whose: str,
    most: int | None,
    periods: dict[str, str | None],
    plan: PrivacyPlan,
    *,
    keyed: bool,
) -> str:
    """What a person spends: with so many records, or with as many as there are of one at most."""
    if most is None:
        with working("counting the records of each person"), files.polars_work("perturb"):
            most = int(scanned.group_by(whose).len().select("len").max().collect().item() or 0)
        spent = _spent(plan, most, keyed=keyed)
        if most <= 1:
            return f"each person has one record, which spends epsilon {plan.epsilon:.4g}"
        return f"one person has {most:,} records, which spend {spent}: --records K takes K of each person"
    span = " and ".join(name if length is None else f"{length} of {name}" for name, length in periods.items())
    among, anew = (f" in each {span}", "; a person spends that in each of these anew") if span else ("", "")
    if most == 1:
        return f"one record of each person{among}, which spends epsilon {plan.epsilon:.4g}{anew}"
    return f"at most {most:,} records of each person{among}, which spend {_spent(plan, most, keyed=keyed)}{anew}"


def _spent(plan: PrivacyPlan, records: int, *, keyed: bool) -> str:
    """What so many records of one person spend, in words."""
    still, moving = (plan.epsilon_of(records, changes=changes, keyed=keyed) for changes in (0, None))
    least, most = (f"epsilon {x:.4g}" if math.isfinite(x) else "without bound" for x in (still, moving))
    return f"{least} together" if least == most else f"{least} together if the values never change, {most} if they do"


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415 (only here)

    return int(pq.read_metadata(path).num_rows)


def estimate(
    source: Annotated[str, typer.Argument(metavar="REPORTS", help="A file of reports; a folder; a pattern.")],
    *,
    by: Annotated[list[str] | None, typer.Option("--by", metavar="COLUMN", help="Split by a kept column.")] = None,
    window: Annotated[str | None, typer.Option(metavar="LENGTH", help="Windows of event time: 7d, 1h, 15m.")] = None,
    event_time: Annotated[str | None, typer.Option(metavar="COLUMN", help="With --window: the kept time.")] = None,
    column: Annotated[list[str] | None, typer.Option("--column", metavar="NAME", help="Only this column.")] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option("--candidates", metavar="NAME=FILE", help="Of a sketch: the values to look for, one a line."),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="NAME=QUESTION", help="Of a column: age=mean, age=distribution:buckets=10."),
    ] = None,
    confidence: Annotated[float, typer.Option(parser=share, metavar="SHARE", help="Of the intervals.")] = 0.95,
    top: Annotated[int, typer.Option(min=1, help="At most so many values: printed, drawn, found.")] = 20,
    plan: Annotated[Path | None, typer.Option(help="Where the files have none: the plan that made them.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write all numbers there: a file for each column.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="With --output: CSV in place of Parquet.")] = False,
    plot: Plot = None,
    value: Annotated[list[str] | None, typer.Option(help="With --plot: draw only this value.")] = None,
    at: Annotated[str | None, typer.Option(metavar="START", help="With --plot: draw only the window of then.")] = None,
    theme: Theme = "light",
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: all numbers.")] = False,
) -> None:
    """Estimate from reports: histograms, means and more, with error bars.

    The error bars of counts are of the noise alone. They say how near an estimate is to the truth of these records, not
    how well these records stand for others: that error of sampling comes on top. Those of means and distributions are
    of both together.
    """
    ldp_polars = files.our_polars()
    check_picture(plot)
    if (window is None) != (event_time is None):
        raise typer.BadParameter("--window and --event-time go together: --window 7d --event-time day")
    if window is not None:
        Window.of(window)
    if (value or at) and (plot is None or (at and window is None)):
        raise typer.BadParameter("--value and --at say what --plot draws; and --at which window of --window")
    reports = files.scan(source)
    made = PrivacyPlan.from_toml(plan) if plan is not None else _plan_of(ldp_polars, source)
    wanted = _wanted(made, column, candidates)
    questions = _questions(wanted, ask or (), confidence, top)
    asked = PrivacyPlan(wanted, keep=made.keep, seed=made.seed)
    with working("counting the reports"), files.polars_work("estimate"):
        found = ldp_polars.estimates(reports, asked, by=by or (), window=window, event_time=event_time, ask=questions)
        frames = {name: frame.collect() for name, frame in found.items()}
        covered = None if event_time is None else _ends(reports, event_time)
    view = _View(wanted, by or [], covered, confidence, top)
    if output is not None:
        asked_of = {name: (questions[name], m) for name, m in wanted.items()}
        written = _write(frames, view, output, asked_of, about(made, confidence), csv=csv, overwrite=overwrite)
    if plot is not None:
        _draw(*_chosen(frames, view, value or [], at), plot, theme)
    if as_json:
        say_json(view.json(made, frames))
    elif output is not None:
        show(written, title=f"written to {output}", notes=[view.words(made, frames)])
    else:
        for k, (name, frame) in enumerate(frames.items()):
            if k:
                out().print()
            _show(name, frame, view, max(_SCREEN // len(frames), 10) if window or by else None)
        out().print()
        show([], notes=[view.words(made, frames)])


def _questions(
    wanted: dict[str, Mechanism], ask: Sequence[str], confidence: float, top: int
) -> dict[str, Question[Any]]:
    """What is asked of each column."""
    pairs = [named(pair, example="age=mean") for pair in ask]
    if len(dict(pairs)) < len(pairs):
        raise typer.BadParameter("--ask names a column twice")
    found = {name: HeavyHittersEstimate(top, confidence) for name, m in wanted.items() if isinstance(m, HeavyHitters)}
    questions = questions_of(wanted, {**found, **dict(pairs)}, confidence)
    if any(question.confidence != confidence for question in questions.values()):
        raise typer.BadParameter("--confidence says of which confidence all intervals are: leave it out of --ask")
    return questions


def _chosen(
    frames: dict[str, pl.DataFrame], view: _View, values: list[str], at: str | None
) -> tuple[dict[str, pl.DataFrame], _View]:
    """What is to be drawn: of all only these values, and only the window that begins then."""
    if values:
        frames = {name: _some(frame, "value", values, "--value") for name, frame in frames.items()}
    if at is not None:
        frames = {name: _some(frame, FIELDS["window"], [at], "--at") for name, frame in frames.items()}
        view = replace(view, covered=None)
    return frames, view


def _some(frame: pl.DataFrame, column: str, texts: list[str], option: str) -> pl.DataFrame:
    """The rows with one of these texts; of a time, its beginning is enough, as of ``2026-01-05``."""
    if column not in frame.columns:
        raise typer.BadParameter(f"{option}: these estimates have no {column}")
    there = [str(one) for one in frame[column].to_list()]
    if column == FIELDS["window"]:
        texts = [next((one for one in sorted(there) if one.startswith(text)), text) for text in texts]
    for text in set(texts) - set(there):
        raise typer.BadParameter(
            f"{option} {text}: it is not there; among others these are: {', '.join(sorted(set(there))[:5])}"
        )
    return frame.filter([one in texts for one in there])


_SCREEN = 40
"""Lines of tables that a screen has room for."""


def _ends(reports: pl.LazyFrame, event_time: str) -> tuple[Any, Any]:
    """Times of the first and of the last record."""
    from polars import selectors  # noqa: PLC0415 (only here)

    time = selectors.by_name(event_time)
    [ends] = reports.select(time.min().name.suffix(".first"), time.max().name.suffix(".last")).collect().rows()
    return ends[0], ends[1]


@dataclass(frozen=True)
class _View:
    """What is the same for all tables of a command.

    Attributes:
        mechanisms: by column.
        by: columns that tell groups apart.
        covered: of windows, the times of the first and of the last record.
        confidence: of the intervals.
        top: how many values are shown.
    """

    mechanisms: dict[str, Mechanism]
    by: list[str]
    covered: tuple[Any, Any] | None
    confidence: float
    top: int

    @property
    def keys(self) -> list[str]:
        """The columns that tell groups apart, windows too."""
        return [*self.by, *([FIELDS["window"]] if self.covered is not None else [])]

    def is_cut(self, record: dict[str, Any]) -> bool:
        """Whether the records fill the window of a row only in part."""
        return self.covered is not None and is_cut(record[FIELDS["window"]], record[FIELDS["end"]], self.covered)

    def words(self, plan: PrivacyPlan, frames: dict[str, pl.DataFrame]) -> str:
        """What the numbers mean."""
        more = "" if len(plan.columns) == 1 else f" over its {len(plan.columns)} columns"
        of_noise = [_look(frame).counts for frame in frames.values()]
        alone = "of the noise alone: sampling error comes on top"
        both = "of noise and sampling together"
        of = f"{alone} (means, distributions: {both})" if any(of_noise) and not all(of_noise) else alone
        of = of if any(of_noise) else both
        return f"{100 * self.confidence:g} % intervals {of}. A record spent epsilon {plan.epsilon:.4g}{more}."

    def json(self, plan: PrivacyPlan, frames: dict[str, pl.DataFrame]) -> dict[str, Any]:
        """All numbers, and what they mean."""
        columns = {name: {**self.about(name, frame), "estimates": frame.to_dicts()} for name, frame in frames.items()}
        return {"epsilon": plan.epsilon, "columns": columns}

    def about(self, name: str, frame: pl.DataFrame) -> dict[str, Any]:
        """What the numbers of a column mean."""
        m = self.mechanisms[name]
        found: dict[str, Any] = {"mechanism": m.title, "epsilon": m.epsilon, "confidence": self.confidence}
        if self.covered is not None:
            windows = frame.unique([FIELDS["window"]]).sort(FIELDS["window"]).to_dicts()
            found["partial_windows"] = [str(row[FIELDS["window"]]) for row in windows if self.is_cut(row)]
        return found


def _plan_of(ldp_polars: Any, source: str) -> PrivacyPlan:
    try:
        found: PrivacyPlan = ldp_polars.read_plan(source)
    except PlanError as error:
        raise PlanError(f"{error}; --plan names the plan that made them") from None
    return found


def _wanted(plan: PrivacyPlan, column: list[str] | None, candidates: list[str] | None) -> dict[str, Mechanism]:
    """The columns to estimate; a sketch with its candidates, or left out with a note."""
    listed = dict(named(pair, example="word=words.txt") for pair in candidates or ())
    unknown = sorted({*(column or ()), *listed} - plan.columns.keys())
    if unknown:
        raise PlanError(f"the reports have no columns {unknown}; they have {list(plan.columns)}")
    wanted: dict[str, Mechanism] = {}
    for name, m in plan.columns.items():
        if column and name not in column:
            continue
        if isinstance(m, Sketch):
            if name not in listed:
                note(
                    f"{name}: left out, as a sketch answers about candidates: --candidates {name}=FILE", style="yellow"
                )
                continue
            words = lines(listed[name])
            wanted[name] = m.over(words if m.inputs.kind == "str" else labels(words))
        elif name in listed:
            raise ParameterError(f"--candidates are of sketches, and column {name!r} is {m.title}")
        else:
            wanted[name] = m
    if not wanted:
        raise PlanError("there is nothing left to estimate")
    return wanted


def _show(name: str, frame: pl.DataFrame, view: _View, most: int | None) -> None:
    """The table of a column, of at most so many rows."""
    m, keys, top = view.mechanisms[name], view.keys, view.top
    of_group: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in frame.to_dicts():
        of_group.setdefault(tuple(record[key] for key in keys), []).append(record)
    n = sum(group[0][FIELDS["n"]] for group in of_group.values())
    title = f"{name}: {n:,} reports, {m.title}, epsilon {m.epsilon:g}"
    look = _look(frame)
    ranked = look.counts
    rows: list[dict[str, str]] = []
    hidden, cut = 0, False
    for key, group in of_group.items():
        shown = sorted(group, key=lambda r: -_or_less(r[look.estimate])) if ranked and len(group) > top else group
        hidden += max(len(group) - top, 0) if ranked else 0
        for record in shown[:top] if ranked else shown:
            head = {name: _word(value) for name, value in zip(keys, key, strict=True)}
            if view.is_cut(record) and (most is None or len(rows) < most):
                head[FIELDS["window"]] += " *"
                cut = True
            rows.append({**head, **_cells(record, look, view.confidence)})
    notes = ["* the records fill this window only in part"] if cut else []
    if hidden:
        notes.append(f"... {hidden:,} more values; --top shows more, --json and --output all")
    if most is not None and len(rows) > most:
        notes.append(f"... {len(rows) - most:,} more rows; --output FOLDER writes all")
        rows = rows[:most]
    show(rows, title=title, notes=notes if rows else ["nothing was found"])


def _or_less(x: float | None) -> float:
    return -math.inf if x is None or math.isnan(x) else x


def _look(frame: pl.DataFrame) -> View:
    """Which columns of an answer are shown."""
    found = view_of(frame.columns)
    assert found is not None, frame.columns  # noqa: S101 (each question has such columns)
    return found


def _cells(record: dict[str, Any], look: View, confidence: float) -> dict[str, str]:
    """One row of an estimate, for people."""
    as_text = percent if look.shares else partial(number, digits=0 if look.counts else 3)
    about = {label.replace("_", " "): _word(record[label]) for label in look.labels}
    found, n = record[look.estimate], record[FIELDS["n"]]
    about["estimate" if look.counts else "share" if look.shares else look.estimate] = as_text(found)
    if look.counts:
        about["share"] = percent(found / n if n and found is not None else None)
    about |= {f"{100 * confidence:g}% from": as_text(record[FIELDS["low"]]), "to": as_text(record[FIELDS["high"]])}
    return about if look.labels else {**about, "reports": f"{n:,}"}


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "" if value is None else drawing.text(value)


def _write(
    frames: dict[str, pl.DataFrame],
    view: _View,
    folder: Path,
    asked: dict[str, Any],
    said: str,
    *,
    csv: bool,
    overwrite: bool,
) -> list[dict[str, str]]:
    """Write a file for each column, and what is said of all; what is in them, as a table."""
    kind = "csv" if csv else "parquet"
    paths = {name: folder / f"{quote(name, safe=' ')}.{kind}" for name in frames}
    beside = folder / RESULTS
    same = beside.is_file() and beside.read_bytes() == said.encode()  # other columns of the same reports
    for path in (*paths.values(), *(() if same else (beside,))):
        files.refuse_existing(path, overwrite=overwrite)
    written = []
    with files.polars_work("estimate"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, frame in frames.items():
            if csv:
                frame.write_csv(paths[name])
            else:
                frame.write_parquet(paths[name], metadata=estimates_metadata({name: asked[name]}))
            row = {"column": name, "file": paths[name].name, "rows": f"{frame.height:,}"}
            if view.covered is not None:
                cut = len(view.about(name, frame)["partial_windows"])
                row |= {"windows": f"{frame[FIELDS['window']].n_unique():,}", "filled in part": f"{cut:,}"}
            written.append(row)
        beside.write_text(said, encoding="utf-8")
    return written


def _draw(frames: dict[str, pl.DataFrame], view: _View, path: Path, theme: Any) -> None:
    if len(frames) > 1:
        raise typer.BadParameter(f"--plot draws one column: say which of {list(frames)}, --column NAME")
    import ldp_plots as plots  # noqa: PLC0415 (only here)

    [(name, frame)] = frames.items()
    by, top = view.by, view.top
    about = {FIELDS["column"]: name, FIELDS["confidence"]: view.confidence}
    rows = [{**about, **record} for record in frame.to_dicts()]
    if view.covered is not None:
        chart = plots.windows(rows, by=by, top=min(top, _LINES), covered=view.covered, theme=theme)
    else:
        chart = plots.estimate(rows, by=by, top=top, theme=theme)
    save(chart, path)


_LINES = 6
