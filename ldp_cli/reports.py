"""Files of reports, by Polars: records to reports, reports to estimates."""

from __future__ import annotations

import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import pyarrow.parquet as pq
import typer

import ldp_core as core
from ldp_cli import files
from ldp_cli.groups import ByPrivate
from ldp_cli.printing import (
    Json,
    Overwrite,
    Plot,
    Theme,
    cells_of,
    check_picture,
    largest,
    note,
    number,
    out,
    percent,
    save,
    say_json,
    show,
    word,
    working,
)
from ldp_cli.values import labels, lines, named, population_of, share
from ldp_core.engine import (
    DrawnColumn,
    Window,
    asked_of,
    check_open,
    margins,
    pair_of,
    questions_and_margins,
    seed_warning,
)
from ldp_core.engine import is_cut_chart as is_cut
from ldp_report import RESULTS, about

if TYPE_CHECKING:
    import polars as pl

Source = Annotated[str, typer.Argument(metavar="REPORTS", help="The reports: a file, a folder, or a pattern.")]
By = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Split the estimates by this kept column.")]
Length = Annotated[str | None, typer.Option(metavar="LENGTH", help="The length of windows of event time: 7d, 1h, 15m.")]
EventTime = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="With --window: the kept column that has the time.")
]
Columns = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Take only this column.")]
Repeats = Annotated[
    int | None, typer.Option(min=1, help="The most reports of one person in a group or window. Keyed noise needs it.")
]
Confidence = Annotated[float, typer.Option(parser=share, metavar="SHARE", help="The confidence of the intervals.")]


def perturb(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="The records: a file (.parquet, .csv, .ndjson), a folder, or a pattern.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file of reports, .parquet. The plan is written in it.")
    ],
    *,
    plan: Annotated[Path, typer.Option(help="A plan: a TOML file.")],
    id: Annotated[  # noqa: A002 (its name everywhere)
        str | None, typer.Option(metavar="COLUMN", help="The column that says whose record it is. It is not passed on.")
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="With --id: take K records of each person, and drop the others."),
    ] = None,
    per: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[=LENGTH]", help="With --records: take K in each of these, as country, or time=1d."
        ),
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(help="With --id: the noise and the choice are keyed by the hexadecimal digits in this file."),
    ] = None,
    secret_env: Annotated[
        str | None, typer.Option(help="The same, by the digits in this environment variable.")
    ] = None,
    packed: Annotated[
        bool, typer.Option(help="Write bit vectors as 64-bit words, which are smaller and faster to count.")
    ] = True,
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
        raise core.ParameterError(
            f"reports are written as Parquet, with their plan: OUT must end in .parquet, got {target.name!r}"
        )
    made = core.PrivacyPlan.from_toml(plan)
    files.refuse_existing(target, overwrite=overwrite)
    noise = _noise(secret_file, secret_env, id)
    made.check_noise(keyed=bool(noise))
    whose = [*([id] if id is not None else []), *periods]
    scanned = files.having(files.scan(source, made), [*made.inputs, *made.keep, *whose], source)
    scanned = scanned.select(list(dict.fromkeys([*made.inputs, *made.keep, *whose])))
    # A folder of its own: a thread of Polars may make the file again after a failure, and in no folder it cannot.
    folder = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    beside = folder / target.name  # complete, or not there
    try:
        folder.mkdir()
    except OSError as error:
        raise core.InputError(f"cannot write {str(target)!r}: {error.strerror}") from None
    read = [0]
    try:
        with files.polars_work("perturb"), working("perturbing", total=files.size_of(source)) as done:
            going = files.counted(scanned, read, done)
            if records is not None:
                each = [_in(name, length) for name, length in periods.items()]
                going = ldp_polars.bound(going, id=id, records=records, per=each, key=noise.get("key"))
            reports = ldp_polars.perturb_frame(going, made, packed=packed, **noise)
            ldp_polars.sink_parquet(reports, beside, made)
            os.replace(beside, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    n = int(pq.read_metadata(target).num_rows)
    dropped = f"; {sum(read) - n:,} of {sum(read):,} records were dropped" if records is not None else ""
    out().print(f"{n:,} reports in {target}{dropped}", markup=False)
    if made.seed is not None:
        note("; ".join(seed_warning(made)))
    elif id is None:
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
    return {
        "key": core.Secret.from_file(secret_file) if secret_file else core.Secret.from_env(str(secret_env)),
        "id": id,
    }


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
    plan: core.PrivacyPlan,
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


def _spent(plan: core.PrivacyPlan, records: int, *, keyed: bool) -> str:
    """What so many records of one person spend, in words."""
    still, moving = (plan.epsilon_of(records, changes=changes, keyed=keyed) for changes in (0, None))
    least, most = (f"epsilon {x:.4g}" if math.isfinite(x) else "without bound" for x in (still, moving))
    return f"{least} together" if least == most else f"{least} together if the values never change, {most} if they do"


def estimate(
    source: Source,
    *,
    by: By = None,
    window: Length = None,
    event_time: EventTime = None,
    column: Columns = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="The file of values to look for in a sketch, one a line."),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=QUESTION", help="What to ask of a column: age=mean, age=distribution:buckets=10."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="FIRST,SECOND", help="Count the pairs of values of two columns, and their rates."),
    ] = None,
    by_private: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Make groups by the values of a private column, for the next four."),
    ] = None,
    of: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Say the mean and total of a kept number, or a private one.")
    ] = None,
    quantile: Annotated[
        list[float] | None, typer.Option(metavar="SHARE", help="Say this quantile of it, as 0.5.")
    ] = None,
    among: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUE", help="Take only these values. Without --of: say their shares among these."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that says for how many people a record stands.")
    ] = None,
    confidence: Confidence = 0.95,
    repeats: Repeats = None,
    population: Annotated[
        str | None,
        typer.Option(metavar="N", help="The intervals are about many people, or about N, of whom these are a sample."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Print, draw and find at most this many values.")] = 20,
    plan: Annotated[Path | None, typer.Option(help="The plan that made the files, if they do not have it.")] = None,
    assume_reports: Annotated[
        bool, typer.Option("--assume-reports", help="With --plan: columns are reports, even if they do not say so.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write all numbers to this folder, a file for each column.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="With --output: write CSV in place of Parquet.")] = False,
    plot: Plot = None,
    value: Annotated[list[str] | None, typer.Option(metavar="VALUE", help="With --plot: draw only this value.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="START", help="With --plot: draw only the window that begins then.")
    ] = None,
    theme: Theme = "light",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Estimate from reports: histograms, means and more, with error bars.

    The error bars of counts are of the noise alone. They say how close an estimate is to the truth of these records,
    not how well these records stand for others: that error of sampling comes on top, with --population many. Those
    of means and distributions are of both together. Whether windows, groups or files differ, ldp compare says.
    """
    ldp_polars = files.our_polars()
    check_picture(plot)
    _check_window(window, event_time)
    if (value or at) and (plot is None or (at and window is None)):
        raise typer.BadParameter("--value and --at say what --plot draws; and --at which window of --window")
    reports = files.scan(source)
    made = _plan_of(ldp_polars, source, plan)
    how = (confidence, population_of(population), repeats)
    own = plan is None or assume_reports  # (a file that has its plan has that plan's reports)
    if by_private is not None:
        if any([table, column, candidates, ask, population, output, plot]):
            raise typer.BadParameter("--by-private is asked alone: with --by, --window, --repeats and --json at most")
        private = ByPrivate(made, by_private, of, quantile or [], among or [], weights, confidence, repeats)
        _by_private(private, reports, by, window, event_time, as_json=as_json, assume_reports=own)
        return
    if of or quantile or among or weights:
        raise typer.BadParameter("--of, --quantile, --among and --weights are of groups: --by-private COLUMN")
    if table is not None:
        wanted, questions, answer = _asked_of_pair(made, table, [column, candidates, ask], *how)
    else:
        wanted = _wanted(made, column, candidates)
        asked = _with_drawn(made, wanted)
        questions = _questions(asked.columns, ask or (), confidence, top, *how[1:])
        answer = partial(ldp_polars.estimates, plan=asked, ask=questions)
    with working("counting the reports"), files.polars_work("estimate"):
        groups: dict[str, Any] = {"by": by or (), "window": window, "event_time": event_time}
        found = answer(reports, **groups, assume_reports=own)
        frames = {name: frame.collect() for name, frame in found.items() if name in wanted}
        covered = None if event_time is None else _ends(reports, event_time)
    answers = _Answers(made, wanted, questions, frames, by or [], covered, confidence, top, repeats)
    if output is not None:
        written = answers.write(output, csv=csv, overwrite=overwrite)
    if plot is not None:
        answers.chosen(value or [], at).draw(plot, theme)
    if as_json:
        say_json(answers.json())
    elif output is not None:
        show(written, title=f"written to {output}", notes=[answers.words()])
    else:
        _show(answers, frames, max(_SCREEN // len(frames), 10) if window or by else None)


def _by_private(
    asked: ByPrivate,
    reports: pl.LazyFrame,
    by: list[str] | None,
    window: str | None,
    event_time: str | None,
    *,
    as_json: bool,
    assume_reports: bool,
) -> None:
    """Print what is asked by the values of a private column."""
    places = {name: _in(name, None) for name in by or ()}
    if event_time is not None:
        places["window_start"] = _in(event_time, window)
    with working("weighing the reports"), files.polars_work("estimate"):
        found = asked.rows(reports, places, assume_reports=assume_reports)
    if as_json:
        say_json(found)
    else:
        _show_rows(found, list(places), asked.cells, asked.words(), [asked.plan])


def _show(answers: _Answers, names: Iterable[str], most: int | None) -> None:
    """Print the answers, each at most so many rows."""
    for k, name in enumerate(names):
        if k:
            out().print()
        answers.show(name, most)
    out().print()
    show([], notes=[answers.words()])


def _check_window(window: str | None, event_time: str | None) -> None:
    """Raise unless both are given, or none, and there are such windows."""
    if (window is None) != (event_time is None):
        raise typer.BadParameter("--window and --event-time go together: --window 7d --event-time day")
    if window is not None:
        Window.of(window)


def _asked_of_pair(
    plan: core.PrivacyPlan, table: str, others: list[Any], confidence: float, population: Any, repeats: int | None
) -> tuple[dict[str, Any], dict[str, core.Question[Any]], Callable[..., dict[str, pl.LazyFrame]]]:
    """The two columns and what is asked of them, under one name; and what asks it of reports."""
    if any(others):
        raise typer.BadParameter(
            "--table says which columns, and what is asked: leave out --column, --candidates, --ask"
        )
    pair = pair_of(plan.columns, table.split(","))
    how: dict[str, Any] = {"confidence": confidence, "population": population, "repeats": repeats}
    asked = core.TableEstimate(**how)
    answer = partial(_told_apart, names=pair.names, plan=plan)
    return {table: pair}, {table: asked}, lambda reports, **groups: {table: answer(reports, **groups, **how)}


def _told_apart(reports: pl.LazyFrame, names: Sequence[str], **asked: Any) -> pl.LazyFrame:
    """Rows of a table with a column ``value`` of both values, by which they are shown and drawn."""
    import polars as pl  # noqa: PLC0415 (only here)
    from polars import selectors  # noqa: PLC0415

    both = [selectors.by_name(name).cast(pl.String) for name in names]
    rows: pl.LazyFrame = files.our_polars().table(reports, *names, **asked)
    return rows.with_columns(pl.concat_str(both, separator=", ").alias("value"))


def compare(
    source: Annotated[str, typer.Argument(metavar="BEFORE", help="The reports: a file, a folder, or a pattern.")],
    after: Annotated[
        str | None, typer.Argument(metavar="AFTER", help="The reports of other people, in the same forms.")
    ] = None,
    *,
    by: By = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help="With --by: compare the groups with this one. Without it, with the first."),
    ] = None,
    window: Length = None,
    event_time: EventTime = None,
    column: Columns = None,
    quantile: Annotated[
        list[float] | None,
        typer.Option(metavar="SHARE", help="Compare this quantile of numbers, as 0.5, in place of shares."),
    ] = None,
    confidence: Confidence = 0.95,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="The intervals of all values hold together.")
    ] = False,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="The intervals hold together however often you look.")
    ] = False,
    same_people: Annotated[
        bool | None,
        typer.Option(
            "--same-people/--other-people", help="Say whether people may be on both sides, or the noise is keyed."
        ),
    ] = None,
    repeats: Repeats = None,
    as_json: Json = False,
) -> None:
    """Say what differs between two files, groups or windows: intervals, p-values, a test of all values together.

    The differences are those of populations: noise and sampling are in their error bars. People of one side are not on
    the other, and each has one report with fresh noise, unless --same-people and --repeats say otherwise.
    """
    ldp_polars = files.our_polars()
    made = ldp_polars.read_plan(source)
    files.refuse_same([source, *([] if after is None else [after])])
    if after is not None and ldp_polars.read_plan(after) != made:
        raise core.PlanError(f"{source!r} and {after!r} have different plans: only reports of one plan are compared")
    unknown = sorted({*(column or ())} - made.columns.keys())
    if unknown:
        raise core.PlanError(f"the reports have no columns {unknown}; they have {list(made.columns)}")
    wanted = {name: m for name, m in made.columns.items() if not column or name in column}
    asked = _with_drawn(made, wanted)
    how: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous, "anytime": anytime}
    how |= {"same_people": same_people, "repeats": repeats, "quantiles": quantile or None}
    groups = {"by": by or (), "window": window, "event_time": event_time}
    with working("counting the reports"), files.polars_work("compare"):
        other, before = None if after is None else files.scan(after), files.scan(source)
        groups["baseline"] = _baseline(baseline, before.collect_schema().get((by or [""])[0]))
        made_of = ldp_polars.compare(before, asked, other=other, **groups, **how, assume_reports=True)
        found = [row for row in made_of.collect().to_dicts() if row["column_name"] in wanted]
    if as_json:
        say_json(found)
        return
    keys = [*(by or ()), *(["window_start"] if window else []), *([] if after else ["compared_with"])]
    titles = {name: f"{name}: {m.title}, epsilon {m.epsilon:g}" for name, m in made.columns.items()}
    words = f"intervals: {100 * confidence:g} %{', at all looks' if anytime else ''}"
    tests = "; p: adjusted for all values (Holm); p of all: of one test of all values of a column together"
    _show_rows(found, keys, _compared, words + ("" if quantile else tests), [made], titles)


def _baseline(text: str | None, dtype: Any) -> Any:
    """What a group is called, as its column has it."""
    if text is None or dtype is None:
        return text
    if dtype.is_integer() and text.lstrip("-").isdecimal():
        return int(text)
    return {"true": True, "false": False}.get(text, text) if str(dtype) == "Boolean" else text


def pool(
    sources: Annotated[
        list[str], typer.Argument(metavar="REPORTS", help="Two files of reports or more, each of other people.")
    ],
    *,
    by: By = None,
    window: Length = None,
    event_time: EventTime = None,
    column: Columns = None,
    confidence: Confidence = 0.95,
    repeats: Repeats = None,
    as_json: Json = False,
) -> None:
    """Estimate from reports of several plans together: one population that reports in several ways.

    Each file says its own plan, and counts as much as its reports are worth. The error bars are of noise and sampling
    together. With a small "p of Q" the files are of different populations: then add up what ldp estimate says of each.
    """
    check_open("--confidence", confidence)
    _check_window(window, event_time)
    ldp_polars = files.our_polars()
    plans = [ldp_polars.read_plan(source) for source in sources]
    files.refuse_same(sources)
    groups = {"by": by or (), "window": window, "event_time": event_time}
    with working("counting the reports"), files.polars_work("pool"):
        asked = {"columns": column, "confidence": confidence, "repeats": repeats, "assume_reports": True}
        found = ldp_polars.pool(sources, **groups, **asked).to_dicts()
    if as_json:
        say_json(found)
        return
    words = f"intervals: {100 * confidence:g} %, of a population; p of Q: whether all files are of one"
    _show_rows(found, [*(by or ()), *(["window_start"] if window else [])], _pooled, words, plans)


def _show_rows(
    found: list[dict[str, Any]],
    keys: list[str],
    cells: Callable[[dict[str, Any], Callable[[Any], str]], dict[str, str]],
    words: str,
    plans: Sequence[core.PrivacyPlan],
    titles: Mapping[str, str] | None = None,
) -> None:
    """A table for each column, of rows with ``cells`` after the keys and the value; below what they mean."""
    for k, name in enumerate(dict.fromkeys(row["column_name"] for row in found)):
        if k:
            out().print()
        shown = []
        for row in (row for row in found if row["column_name"] == name):
            numbers = row.get("value") is None
            head = {key.replace("_", " "): word(row[key]) for key in (*keys, *([] if numbers else ["value"]))}
            shown.append({**head, **cells(row, partial(number, digits=3) if numbers else percent)})
        show(shown, title=(titles or {}).get(name, name))
    seeded = ["; ".join(seed_warning(plan)) for plan in plans if plan.seed is not None]
    show([], notes=[words, *dict.fromkeys(seeded)])


def _compared(row: dict[str, Any], text: Callable[[Any], str]) -> dict[str, str]:
    cells = {"quantile": percent(row["probability"])} if "probability" in row else {}
    cells |= {name: text(row[name]) for name in ("before", "after", "difference")}
    cells |= {"from": text(row["low"]), "to": text(row["high"])}
    if "p_adjusted" not in row:
        return cells
    of_all = row["p_value_of_all"]
    return cells | {"p": f"{row['p_adjusted']:.2g}", "p of all": "" if of_all is None else f"{of_all:.2g}"}


def _pooled(row: dict[str, Any], text: Callable[[Any], str]) -> dict[str, str]:
    cells = {"estimate": text(row["estimate"]), "from": text(row["low"]), "to": text(row["high"])}
    return {**cells, "reports": f"{row['n']:,}", "p of Q": f"{row['p_value']:.2g}"}


def _questions(
    columns: Mapping[str, Any], ask: Sequence[str], confidence: float, top: int, population: Any, repeats: int | None
) -> dict[str, core.Question[Any]]:
    """What is asked of each column."""
    options = {"k": top, "population": population, "repeats": repeats}
    questions = questions_and_margins(columns, asked_of(ask), confidence, **options)
    if any(question.confidence != confidence for question in questions.values()):
        raise typer.BadParameter("--confidence says of which confidence all intervals are: leave it out of --ask")
    return questions


def _some(frame: pl.DataFrame, column: str, texts: list[str], option: str) -> pl.DataFrame:
    """The rows with one of these texts; of a time, its beginning is enough, as of ``2026-01-05``."""
    if column not in frame.columns:
        raise typer.BadParameter(f"{option}: these estimates have no {column}")
    there = [str(one) for one in frame[column].to_list()]
    if column == "window_start":
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
class _Answers:
    """What a command has found out, by column."""

    plan: core.PrivacyPlan
    mechanisms: dict[str, core.Mechanism]
    questions: dict[str, core.Question[Any]]
    frames: dict[str, pl.DataFrame]
    by: list[str]
    covered: tuple[Any, Any] | None
    """Of windows, the times of the first and of the last record."""
    confidence: float
    top: int
    """So many values are shown."""
    repeats: int | None = None

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
        """What the numbers mean."""
        more = "" if len(self.plan.columns) == 1 else f" over its {len(self.plan.columns)} columns"
        looks = {name: self.questions[name].view for name in self.frames}
        of_noise = [(look.counts or look.alone) and self._whom(name) is None for name, look in looks.items()]
        alone = "of the noise alone: sampling error comes on top"
        both = "of noise and sampling together"
        of = f"{alone} (means, distributions: {both})" if any(of_noise) and not all(of_noise) else alone
        of = of if any(of_noise) else both
        spent = f"A record spent epsilon {self.plan.epsilon:.4g}{more}."
        spent = " ".join(f"The plan is {said}." for said in seed_warning(self.plan)) or spent
        return f"{100 * self.confidence:g} % intervals {of}. {spent}"

    def _whom(self, name: str) -> str | int | None:
        """The population that the intervals of a column are about; None: these people."""
        return self.questions[name].population

    def _of_all(self) -> str | int | None:
        """The population of all columns of counts, if it is the same."""
        whom = {self._whom(name) for name in self.frames if self.questions[name].view.counts}
        return whom.pop() if len(whom) == 1 else None

    def json(self) -> dict[str, Any]:
        """All numbers, and what they mean."""
        columns = {name: {**self._about(name), "estimates": f.to_dicts()} for name, f in self.frames.items()}
        return {"epsilon": self.plan.epsilon, "columns": columns}

    def _about(self, name: str) -> dict[str, Any]:
        """What the numbers of a column mean."""
        m = self.mechanisms[name]
        found: dict[str, Any] = {"mechanism": m.title, "epsilon": m.epsilon, "confidence": self.confidence}
        found |= {} if self._whom(name) is None else {"population": self._whom(name)}
        if self.covered is not None:
            windows = self.frames[name].unique(["window_start"]).sort("window_start").to_dicts()
            found["partial_windows"] = [str(row["window_start"]) for row in windows if self._is_cut(row)]
        return found

    def show(self, name: str, most: int | None) -> None:
        """The table of a column, of at most so many rows."""
        m, look = self.mechanisms[name], self.questions[name].view
        keys = [*self.by, *(["window_start"] if self.covered is not None else [])]
        of_group: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for record in self.frames[name].to_dicts():
            of_group.setdefault(tuple(record[key] for key in keys), []).append(record)
        n = sum(group[0]["n"] for group in of_group.values())
        rows: list[dict[str, str]] = []
        hidden, cut = 0, False
        for key, group in of_group.items():
            shown = group
            if look.counts and len(group) > self.top:
                shown = largest(group, look, self.top)
                hidden += len(group) - self.top
            for record in shown:
                head = {name: word(value) for name, value in zip(keys, key, strict=True)}
                if self._is_cut(record) and (most is None or len(rows) < most):
                    head["window_start"] += " *"
                    cut = True
                rows.append({**head, **cells_of(record, look, self.confidence), **_rate_of(record)})
        notes = ["* the records fill this window only in part"] if cut else []
        if hidden:
            notes.append(f"... {hidden:,} more values; --top shows more, --json and --output all")
        if most is not None and len(rows) > most:
            notes.append(f"... {len(rows) - most:,} more rows; --output FOLDER writes all")
            rows = rows[:most]
        title = f"{name}: {n:,} reports, {m.title}, epsilon {m.epsilon:g}"
        show(rows, title=title, notes=notes if rows else ["nothing was found"])

    def write(self, folder: Path, *, csv: bool, overwrite: bool) -> list[dict[str, str]]:
        """Write a file for each column, and what is said of all; what is in them, as a table."""
        kind = "csv" if csv else "parquet"
        paths = {name: folder / f"{quote(name, safe=' ')}.{kind}" for name in self.frames}
        beside, said = folder / RESULTS, about(self.plan, self.confidence, self.covered, self._of_all(), self.repeats)
        same = beside.is_file() and beside.read_bytes() == said.encode()  # other columns of the same reports
        for path in (*paths.values(), *(() if same else (beside,))):
            files.refuse_existing(path, overwrite=overwrite)
        written = []
        with files.polars_work("estimate"):
            folder.mkdir(parents=True, exist_ok=True)
            for name, frame in self.frames.items():
                table = self._with_partial(frame)
                if csv:
                    table.write_csv(paths[name])
                else:
                    asked = {name: (self.questions[name], self.mechanisms[name])}
                    table.write_parquet(paths[name], metadata=core.estimates_metadata(asked))
                row = {"column": name, "file": paths[name].name, "rows": f"{frame.height:,}"}
                if self.covered is not None:
                    cut = len(self._about(name)["partial_windows"])
                    row |= {"windows": f"{frame['window_start'].n_unique():,}", "filled in part": f"{cut:,}"}
                written.append(row)
            beside.write_text(said, encoding="utf-8")
        return written

    def chosen(self, values: list[str], at: str | None) -> _Answers:
        """Of all only these values, and only the window that begins then."""
        frames, found = self.frames, self
        if values:
            frames = {name: _some(frame, "value", values, "--value") for name, frame in frames.items()}
        if at is not None:
            frames = {name: _some(frame, "window_start", [at], "--at") for name, frame in frames.items()}
            found = replace(self, covered=None)
        return replace(found, frames=frames)

    def draw(self, path: Path, theme: Any) -> None:
        """The picture of one column."""
        if len(self.frames) > 1:
            raise typer.BadParameter(f"--plot draws one column: say which of {list(self.frames)}, --column NAME")
        import ldp_plots as plots  # noqa: PLC0415 (only here)

        [(name, frame)] = self.frames.items()
        same = {"column_name": name, "confidence": self.confidence, "population": self._whom(name)}
        rows = [{**same, **record} for record in frame.to_dicts()]
        if self.covered is not None:
            top = min(self.top, _LINES)
            chart = plots.windows(rows, by=self.by, top=top, covered=self.covered, theme=theme)
        else:
            chart = plots.estimate(rows, by=self.by, top=self.top, theme=theme)
        save(chart, path)


_LINES = 6


def _rate_of(record: dict[str, Any]) -> dict[str, str]:
    """Of a row of a table: the rate of the second value given the first."""
    if "rate" not in record:
        return {}
    rate, low, high = (record[name] for name in ("rate", "rate_low", "rate_high"))
    return {"rate": percent(rate), "rate from": percent(low), "rate to": percent(high)}


def _plan_of(ldp_polars: Any, source: str, plan: Path | None) -> core.PrivacyPlan:
    """The plan that the files say, or the given one where they say none: what a record spent is what they say."""
    try:
        found: core.PrivacyPlan = ldp_polars.read_plan(source)
    except (core.PlanError, core.InputError) as error:
        if plan is not None:
            return core.PrivacyPlan.from_toml(plan)
        raise type(error)(f"{error}; --plan names the plan that made them") from None
    if plan is not None and core.PrivacyPlan.from_toml(plan) != found:
        raise core.PlanError(f"{source!r} has a plan of its own, which is not {str(plan)!r}: leave out --plan")
    return found


def _with_drawn(plan: core.PrivacyPlan, wanted: Mapping[str, Any]) -> core.PrivacyPlan:
    """The plan of some columns: of those of which a record answers one there are all or none."""
    columns = {c: wanted.get(c, m) for c, m in plan.columns.items() if c in wanted or isinstance(m, DrawnColumn)}
    return core.PrivacyPlan(columns, keep=plan.keep, seed=plan.seed)


def _wanted(plan: core.PrivacyPlan, column: list[str] | None, candidates: list[str] | None) -> dict[str, Any]:
    """The columns to estimate, and those that pairs hold; a sketch with its candidates, or left out with a note."""
    listed = dict(named(pair, example="word=words.txt") for pair in candidates or ())
    there: dict[str, Any] = {**plan.columns, **margins(plan.columns)}
    unknown = sorted({*(column or ()), *listed} - there.keys())
    if unknown:
        raise core.PlanError(f"the reports have no columns {unknown}; they have {list(there)}")
    wanted: dict[str, Any] = {}
    for name, m in there.items():
        if column and name not in column:
            continue
        if isinstance(m, core.Sketch):
            if name not in listed:
                note(
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
