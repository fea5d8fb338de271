"""``ldp estimate``: from files of reports to tables, files and pictures of estimates."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

import ldp_core as core
from ldp_cli import files, options, printing
from ldp_cli.groups import ByPrivate
from ldp_cli.values import labels, lines, named, population_of
from ldp_core.engine import (
    asked_of,
    epsilon_above,
    in_percent,
    joint_of,
    margins,
    questions_and_margins,
    refuse_keys_in,
    replacing,
    text_of,
)
from ldp_core.engine import is_cut_chart as is_cut
from ldp_report import OF_ROWS, RESULTS, about

if TYPE_CHECKING:
    import polars as pl


def estimate(
    source: options.Source,
    *,
    by: options.By = None,
    window: options.Length = None,
    event_time: options.EventTime = None,
    column: options.Columns = None,
    candidates: Annotated[
        list[str] | None, options.said("NAME=FILE", "The file of values to look for in a sketch, one a line.")
    ] = None,
    ask: Annotated[
        list[str] | None,
        options.said("NAME=QUESTION", "What to ask of a column: age=mean, age=distribution:buckets=10."),
    ] = None,
    table: Annotated[
        str | None, options.said("FIRST,SECOND,...", "Count the combinations of values of columns, and rates.")
    ] = None,
    by_private: Annotated[
        str | None, options.said("COLUMN", "Make groups by the values of a private column, for the next five.")
    ] = None,
    of: Annotated[
        str | None, options.said("NUMBER", "Say the mean and total of a kept number, or a private one.")
    ] = None,
    quantile: Annotated[list[float] | None, options.ratio("Say this quantile of it, as 0.5.")] = None,
    among: Annotated[
        list[str] | None, options.said("VALUE", "Take only these values. Without --of: say their shares among these.")
    ] = None,
    weights: Annotated[
        str | None, options.said("COLUMN", "The column that says for how many people a record stands.")
    ] = None,
    share: Annotated[
        str | None,
        options.said("NAME=VALUE:SHARE,...", "The known share of each value of a kept column in the population."),
    ] = None,
    confidence: options.Confidence = 0.95,
    repeats: options.Repeats = None,
    person: options.Person = None,
    population: Annotated[
        str | None, options.said("N", "The intervals are about many people, or about N, of whom these are a sample.")
    ] = None,
    top: Annotated[int, options.count("Print, draw and find at most this many values.")] = 20,
    plan: Annotated[Path | None, typer.Option(help="The plan that made the files, if they do not have it.")] = None,
    assume_reports: Annotated[
        bool, typer.Option("--assume-reports", help="With --plan: columns are reports, even if they do not say so.")
    ] = False,
    output: Annotated[
        Path | None, options.said("FOLDER", "Write all numbers to this folder, a file for each column.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="With --output: write CSV in place of Parquet.")] = False,
    plot: options.Plot = None,
    value: Annotated[list[str] | None, options.said("VALUE", "With --plot: draw only this value.")] = None,
    at: Annotated[str | None, options.said("START", "With --plot: draw only the window that begins then.")] = None,
    theme: options.Theme = "light",
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Estimate from reports: histograms, means and more, with error bars.

    The error bars of counts are of the noise alone. They say how close an estimate is to the truth of these records,
    not how well these records stand for others: that error of sampling comes on top, with --population many. Those
    of means and distributions are of both together. Whether windows, groups or files differ, ldp compare says.
    """
    ldp_polars = files.our_polars()
    files.check_picture(plot, overwrite=overwrite)
    options.check_window(window, event_time)
    _check_files(output, plot, csv=csv, drawn=bool(value or at), unwindowed=at is not None and window is None)
    _check_reports(unplanned=assume_reports and plan is None, twice=person is not None and repeats is not None)
    alone = [] if output or by_private or table else column or []  # (all else tells of whole plans)
    share_of = share.partition("=")[0] if share and by_private else None
    reports, made, several = _read(ldp_polars, source, plan, alone, [person, *(by or ()), event_time, share_of])
    files.refuse_same([source], made, repeats=repeats, person=person)
    reports = files.on_calendar(files.having(reports, [person, *(by or ()), event_time], source), event_time, source)
    printing.check_groups(by or (), {*(_OF_FILES if output or plot else ()), *(["value"] if table else [])})
    whom = "many" if (said := population_of(population)) is None and person is not None else said  # (a sample)
    how = (confidence, whom, repeats)
    reports = files.as_reports(reports, made) if assume_reports else reports
    own = plan is None or assume_reports  # (a file that has its plan has that plan's reports)
    if by_private is not None:
        if any([table, column, candidates, ask, population, person, output, plot]):
            raise typer.BadParameter(
                "--by-private is asked alone: with --by, --window, --repeats, --confidence and --json at most"
            )
        reports = files.having(reports, [of, weights, share_of], source)
        private = ByPrivate(made, by_private, of, quantile or [], among or [], weights, share, confidence, repeats)
        private.show(reports, by or (), window, event_time, as_json=as_json, assume_reports=own)
        return
    if of or quantile or among or weights or share:
        raise typer.BadParameter("--of, --quantile, --among, --weights and --share are of groups: --by-private COLUMN")
    if table is not None:
        wanted, questions, answer = _asked_of_table(made, table, [column, candidates, ask, person], *how)
        asked = made
    else:
        wanted = _wanted(made, column, candidates)
        asked = files.plan_of_columns(made, wanted, reports.collect_schema() if several else made.keep)
        questions = _questions(asked.columns, ask or (), confidence, top, *how[1:])
        answer = partial(ldp_polars.estimates, plan=asked, ask=questions, person=person)
    reports = files.having(reports, [*asked.columns, *asked.keep], source)
    with printing.working("counting the reports"), files.polars_work("estimate", reports if assume_reports else None):
        groups: dict[str, Any] = {"by": by or (), "window": window, "event_time": event_time}
        found = answer(reports, **groups, assume_reports=own)
        frames = {name: frame.collect() for name, frame in found.items() if name in wanted}
        counted, covered = _counted(reports, event_time)
    seeded = printing.seed_words(made, reports)
    answers = _Answers(
        made, wanted, questions, frames, by or [], counted, covered, confidence, top, seeded, repeats, several
    )
    if output is not None:
        written = answers.write(output, csv=csv, overwrite=overwrite)
    if plot is not None:
        answers.chosen(value or [], at).draw(plot, theme)
    if as_json:
        printing.say_json(answers.json(), seeded)
    elif output is not None:
        printing.show(written, title=f"written to {output}", notes=[answers.words()])
    else:
        answers.show_all(max(_SCREEN // len(frames), 10) if window or by else None)


def _check_reports(*, unplanned: bool, twice: bool) -> None:
    """Raise for options of reports that do not go together."""
    if unplanned:
        raise typer.BadParameter("--assume-reports says that columns are reports of --plan: give --plan FILE, too")
    if twice:
        raise typer.BadParameter("--person is in place of --repeats: leave out one of them")


def _check_files(output: Path | None, plot: Path | None, *, csv: bool, drawn: bool, unwindowed: bool) -> None:
    """Raise for options of files that are not asked for."""
    if unwindowed or (drawn and plot is None):
        raise typer.BadParameter("--value and --at say what --plot draws; and --at which window of --window")
    if csv and output is None:
        raise typer.BadParameter("--csv is how --output writes: give --output FOLDER, too")


_OF_FILES = {*OF_ROWS, "population"}  # of pages and pictures


def _asked_of_table(
    plan: core.PrivacyPlan, table: str, others: list[Any], confidence: float, population: Any, repeats: int | None
) -> tuple[dict[str, Any], dict[str, core.Question[Any]], Callable[..., dict[str, pl.LazyFrame]]]:
    """The columns and what is asked of them, under one name; and what asks it of reports."""
    if any(others):
        raise typer.BadParameter(
            "--table says which columns, and what is asked: leave out --column, --candidates, --ask and --person"
        )
    joint = joint_of(plan.columns, table.split(","))
    if "value" in joint.names:
        raise core.PlanError(
            "--table writes its cells as 'value', as a private column is called: in Python, take "
            'frame.ldp.table("value", ...)'
        )
    how: dict[str, Any] = {"confidence": confidence, "population": population, "repeats": repeats}
    asked = core.TableEstimate(**how)
    answer = partial(_told_apart, names=joint.names, plan=plan)
    return {table: joint}, {table: asked}, lambda reports, **groups: {table: answer(reports, **groups, **how)}


def _told_apart(reports: pl.LazyFrame, names: Sequence[str], **asked: Any) -> pl.LazyFrame:
    """Rows of a table with a column ``value`` of all values, by which they are shown and drawn."""
    import polars as pl  # noqa: PLC0415 (only here)
    from polars import selectors  # noqa: PLC0415

    values = [selectors.by_name(name).cast(pl.String) for name in names]
    rows: pl.LazyFrame = files.our_polars().table(reports, *names, **asked)
    return rows.with_columns(pl.concat_str(values, separator=", ").alias("value"))


def _questions(
    columns: Mapping[str, Any], ask: Sequence[str], confidence: float, top: int, population: Any, repeats: int | None
) -> dict[str, core.Question[Any]]:
    how = {"k": top, "population": population, "repeats": repeats}
    asked = asked_of(ask)
    for name, text in asked.items():
        try:
            core.question_of(text)
        except core.ParameterError as error:  # (a confidence that is none is not that of --confidence)
            raise core.ParameterError(f"--ask {name}: {error}") from None
    questions = questions_and_margins(columns, asked, confidence, **how)
    if any(question.confidence != confidence for question in questions.values()):
        raise typer.BadParameter("--confidence says of which confidence all intervals are: leave it out of --ask")
    return questions


def _some(frame: pl.DataFrame, column: str, texts: list[str], option: str) -> pl.DataFrame:
    """The rows with one of these texts; of a time, its beginning is enough, as of ``2026-01-05``."""
    if column not in frame.columns:
        raise typer.BadParameter(f"{option}: these estimates have no {column}")
    there = [text_of(one) for one in frame[column].to_list()]
    if str(frame[column].dtype) == "Boolean":
        texts = [text.lower() for text in texts]
    if column == "window_start":
        texts = [next((one for one in sorted(there) if one.startswith(text)), text) for text in texts]
    for text in set(texts) - set(there):
        raise typer.BadParameter(
            f"{option} {text}: it is not there; among others these are: {', '.join(sorted(set(there))[:5])}"
        )
    return frame.filter([one in texts for one in there])


_SCREEN = 40  # lines of tables that a screen has room for


def _counted(reports: pl.LazyFrame, event_time: str | None) -> tuple[int, tuple[Any, Any] | None]:
    """The number of records, also where a search finds nothing; of windows the times of the first and of the last.

    If all times are cut to days, or to hours, the last one means until its day's or hour's end, as a date does.
    """
    import polars as pl  # noqa: PLC0415 (only here)
    from polars import selectors  # noqa: PLC0415 (only here)

    if event_time is None:
        return reports.select(pl.len()).collect().item(), None
    time, steps = selectors.by_name(event_time), {}
    if isinstance(reports.collect_schema()[event_time], pl.Datetime):
        steps = {"1h": dt.timedelta(hours=1), "1d": dt.timedelta(days=1)}
    cut = [(time.dt.truncate(step) == time).all().alias(step) for step in steps]
    ends = time.min().alias("first"), time.max().alias("last")
    [[n, first, last, *whole]] = reports.select(pl.len(), *ends, *cut).collect().rows()
    if last is not None:
        last += max(compress(steps.values(), whole), default=dt.timedelta())
    return n, (first, last)


@dataclass(frozen=True)
class _Answers:
    """What a command has found out, by column."""

    plan: core.PrivacyPlan
    mechanisms: dict[str, core.Mechanism]
    questions: dict[str, core.Question[Any]]
    frames: dict[str, pl.DataFrame]
    by: list[str]
    counted: int  # reports
    covered: tuple[Any, Any] | None  # of windows, the times of the first and of the last record
    confidence: float
    top: int  # so many values are shown
    seeded: list[str]  # say the reports, or their plan
    repeats: int | None = None
    several: bool = False  # plans, of which this is the one whose records spend most

    def _is_cut(self, record: dict[str, Any]) -> bool:
        """Whether the records fill the window of a row only in part."""
        return self.covered is not None and is_cut(record["window_start"], record["window_end"], self.covered)

    def _with_partial(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame; of windows with a column ``partial``: whether the records fill the window only in part."""
        if self.covered is None:
            return frame
        import polars as pl  # noqa: PLC0415 (only here)

        return frame.with_columns(pl.Series("partial", [self._is_cut(row) for row in frame.to_dicts()], pl.Boolean))

    def words(self) -> str:
        n = len(self.plan.columns)
        more = " by the plans of all files" if self.several else "" if n == 1 else f" over its {n} columns"
        spent = f"A record spent {'at most ' * self.several}epsilon {epsilon_above(self.plan.epsilon)}{more}."
        looks = {name: self.questions[name].view for name in self.frames}
        of_noise = [
            (look.counts or look.alone) and not self._whom(name) and not isinstance(self.mechanisms[name], core.Numeric)
            for name, look in looks.items()
        ]
        alone = "of the noise alone: sampling error comes on top"
        both = "of noise and sampling together"
        others = [name for name, noise in zip(looks, of_noise, strict=True) if not noise]
        kinds = ", ".join(others) if any(map(self._whom, others)) else "means, distributions"
        of = f"{alone} ({kinds}: {both})" if others else alone
        of = of if any(of_noise) else both
        return f"{in_percent(self.confidence)} % intervals {of}. {' '.join(self.seeded) or spent}"

    def _whom(self, name: str) -> str | int | None:
        """The population that the intervals of a column are about; None: these people."""
        return self.questions[name].population

    def json(self) -> dict[str, Any]:
        columns = {
            name: {**self._about(name), "estimates": printing.told_apart(f.to_dicts(), self.by)}
            for name, f in self.frames.items()
        }
        return {"epsilon": self.plan.epsilon, "columns": columns}

    def _about(self, name: str) -> dict[str, Any]:
        m = self.mechanisms[name]
        found: dict[str, Any] = {"mechanism": m.title, "epsilon": m.epsilon, "confidence": self.confidence}
        found |= {} if self._whom(name) is None else {"population": self._whom(name)}
        if self.covered is not None:
            windows = self.frames[name].unique(["window_start"]).sort("window_start").to_dicts()
            found["partial_windows"] = [str(row["window_start"]) for row in windows if self._is_cut(row)]
        return found

    def show_all(self, most: int | None) -> None:
        """The tables, each of at most so many rows, and what they mean."""
        for name in self.frames:
            self.show_column(name, most)
            printing.out().print()
        printing.show([], notes=[self.words()])

    def show_column(self, name: str, most: int | None) -> None:
        """The table of a column, of at most so many rows."""
        m, look = self.mechanisms[name], self.questions[name].view
        keys = [*self.by, *(["window_start"] if self.covered is not None else [])]
        frame = self.frames[name]
        parts = frame.partition_by(keys, maintain_order=True) if keys else [frame]  # (Python has no nanoseconds)
        groups = [part.to_dicts() for part in parts if part.height]
        rows: list[dict[str, str]] = []
        hidden, cut, rates = 0, False, isinstance(self.questions[name], core.TableEstimate)
        for group in groups:
            top = group
            if look.counts and len(group) > self.top:
                top = printing.largest(group, look, self.top)
                hidden += len(group) - self.top
            for record in top:
                head = {key: printing.word(record[key], 15) for key in keys}
                if self._is_cut(record) and (most is None or len(rows) < most):
                    head["window_start"] += " *"
                    cut = True
                cells = printing.cells_of(record, look, self.confidence) | (_rate_of(record) if rates else {})
                rows.append(printing.beside(head, cells))
        notes = ["* the records fill this window only in part"] if cut else []
        if hidden:
            notes.append(f"... {hidden:,} more values; --top shows more, --json and --output all")
            if not (together := getattr(self.questions[name], "simultaneous", None)):
                held = f"; with --ask {name}=histogram:simultaneous=true they hold together" * (together is False)
                notes.append(f"the largest of many are often too high, so that fewer of these intervals hold{held}")
        if most is not None and len(rows) > most:
            notes.append(f"... {len(rows) - most:,} more rows; --output FOLDER writes all")
            rows = rows[:most]
        title = f"{name}: {self.counted:,} reports, {m.title}, epsilon {m.epsilon:g}"
        printing.show(rows, title=title, notes=notes if rows else ["nothing was found"])

    def write(self, folder: Path, *, csv: bool, overwrite: bool) -> list[dict[str, str]]:
        """Write a file for each column, and what is said of all; what is in them, as a table."""
        kind = "csv" if csv else "parquet"
        paths = {name: folder / f"{_file_name(name)}.{kind}" for name in self.frames}
        if long := [name for name, path in paths.items() if len(os.fsencode(path.name)) > _NAME_MAX]:
            raise core.InputError(
                f"names of files have at most {_NAME_MAX} bytes, and those of the columns {long} would have more: "
                "choose the other columns by --column, or take --json"
            )
        beside, whom = folder / RESULTS, {name: self._whom(name) for name in self.frames}
        said = about(self.plan, self.confidence, self.covered, whom, self.repeats, self.counted)
        same = beside.is_file() and beside.read_bytes() == said.encode()  # other columns of the same reports
        for path in (*paths.values(), *(() if same else (beside,))):
            files.refuse_existing(path, overwrite=overwrite)
        others = sorted({*folder.glob("*.parquet"), *folder.glob("*.csv")} - {*paths.values()})
        if beside.is_file() and not same and others:  # `ldp report` would take them for estimates of this plan
            names = [path.name for path in others]
            raise core.InputError(
                f"{str(folder)!r} has estimates of other reports, {names}: delete these files, or take another folder"
            )
        written = []
        folder.mkdir(parents=True, exist_ok=True)
        for name, frame in self.frames.items():
            with replacing(paths[name]) as whole, files.polars_work(f"cannot write {str(paths[name])!r}"):
                table = self._with_partial(frame)
                if csv:
                    _flat(table).write_csv(whole)
                else:
                    asked = {name: (self.questions[name], self.mechanisms[name])}
                    arrays = (cells for cells in table if cells.dtype.base_type().__name__ == "Array")
                    table = table.with_columns(cells.arr.to_list() for cells in arrays)  # (Arrow reads no null arrays)
                    table.write_parquet(whole, metadata=core.estimates_metadata(asked))
            row = {"column": name, "file": paths[name].name, "rows": f"{frame.height:,}"}
            if self.covered is not None:
                cut = len(self._about(name)["partial_windows"])
                row |= {"windows": f"{frame['window_start'].drop_nulls().n_unique():,}", "filled in part": f"{cut:,}"}
            written.append(row)
        with replacing(beside) as whole:
            whole.write_text(said, encoding="utf-8")
        return written

    def chosen(self, values: list[str], at: str | None) -> _Answers:
        """Of all only these values, and only the window that begins then."""
        frames, found = self.frames, self
        if len(frames) > 1:
            raise typer.BadParameter(f"--plot draws one column: say which of {list(frames)}, --column NAME")
        if values:
            frames = {name: _some(frame, "value", values, "--value") for name, frame in frames.items()}
        if at is not None:
            frames = {name: _some(frame, "window_start", [at], "--at") for name, frame in frames.items()}
            found = replace(self, covered=None)
        return replace(found, frames=frames)

    def draw(self, path: Path, theme: Any) -> None:
        import ldp_plots as plots  # noqa: PLC0415 (only here)

        [(name, frame)] = self.frames.items()
        same = {"column_name": name, "confidence": self.confidence, "population": self._whom(name)}
        rows = [{**same, **record} for record in frame.to_dicts()]
        if self.covered is not None:
            top = min(self.top, _LINES)
            chart = plots.windows(rows, by=self.by, top=top, covered=self.covered, theme=theme)
        else:
            chart = plots.estimate(rows, by=self.by, top=self.top, theme=theme)
        files.save(chart, path)


_NAME_MAX = 255  # of Linux, macOS and Windows


def _file_name(column: str) -> str:
    """A column's name, with only what file systems refuse quoted: %E6%97%A5 has nine bytes, the letter three."""
    return "".join(c if c.isprintable() and not c.isascii() else quote(c, safe=" ") for c in column)


def _flat(table: pl.DataFrame) -> pl.DataFrame:
    """The table, with the text of lists, records, bytes and durations, which CSV has not."""
    import polars as pl  # noqa: PLC0415 (only here)

    of = [cells for cells in table if cells.dtype.is_nested() or cells.dtype in (pl.Binary, pl.Duration)]
    texts = ([None if cell is None else printing.word(cell) for cell in cells.to_list()] for cells in of)
    return table.with_columns(pl.Series(cells.name, text, pl.String) for cells, text in zip(of, texts, strict=True))


_LINES = 6


def _rate_of(record: dict[str, Any]) -> dict[str, str]:
    """Of a row of a table: the rate of the last value given the others."""
    rate, low, high = (record[name] for name in ("rate", "rate_low", "rate_high"))
    text = partial(printing.percent, digits=printing.decimals({"low": low, "high": high}, 4))
    return {"rate": text(rate), "rate from": text(low), "rate to": text(high)}


def _read(
    ldp_polars: Any, source: str, plan: Path | None, columns: Sequence[str], others: Sequence[str | None]
) -> tuple[pl.LazyFrame, core.PrivacyPlan, bool]:
    """The reports, and the plan that the files say, or the given one where they say none: what a record spent.

    Of several plans in which these columns are alike the one whose records spend most; and whether there are several.
    """
    made: Any = None if plan is None else core.PrivacyPlan.from_toml(plan)
    given = made
    reports, several = files.scan(source, reports=given), False
    for file in files.files_of(source):
        found = given
        try:
            found = ldp_polars.read_plan(file)
        except (core.PlanError, core.InputError) as error:
            if given is None:
                corrupt = isinstance(error, core.InputError) and files.format_of(file) == "parquet"
                remedy = "" if corrupt else "; --plan names the plan that made them"
                raise type(error)(f"{error}{remedy}") from None
        if given is not None and found != given:
            raise core.PlanError(f"{file!r} has a plan of its own, which is not {str(plan)!r}: leave out --plan")
        if found != (made := made or found):
            if not columns or found.seed != made.seed or not files.are_alike(made, found, columns):
                raise core.PlanError(
                    f"the files of {source!r} have different plans: estimate them one by one, or ldp pool; --column, "
                    "without --output, --table and --by-private, takes those that are the same in all"
                )
            made, several = max(made, found, key=lambda one: one.epsilon), True
    refuse_keys_in({*others} & made.columns.keys(), "the plan")  # (of all columns: --column leaves some out)
    return files.together(source, [*columns, *others]) if several else reports, made, several


def _wanted(plan: core.PrivacyPlan, column: list[str] | None, candidates: list[str] | None) -> dict[str, Any]:
    """The columns to estimate, and those that pairs hold; a sketch with its candidates, or left out with a note."""
    listed = dict(named(pair, example="word=words.txt") for pair in candidates or ())
    there: dict[str, Any] = {**plan.columns, **margins(plan.columns)}
    files.check_columns([*(column or ()), *listed], there)
    wanted: dict[str, Any] = {}
    for name, m in there.items():
        if column and name not in column:
            continue
        if isinstance(m, core.Sketch):
            if name not in listed:
                printing.note(
                    f"{name}: left out, as a sketch answers about candidates: --candidates {name}=FILE", style="yellow"
                )
                continue
            words = lines(listed[name])
            wanted[name] = m.over(words if m.inputs.kind == "str" else labels(words))
        elif name in listed:
            raise core.ParameterError(f"--candidates are of sketches, and column {name!r} is {m.title}")
        else:
            wanted[name] = m
    if not wanted:
        raise core.PlanError("there is nothing left to estimate")
    return wanted
