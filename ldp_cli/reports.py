"""Files of reports, by Polars: made of records, compared, and pooled."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.parquet as pq
import typer

import ldp_core as core
from ldp_cli import files, options, printing
from ldp_core.engine import (
    Window,
    check_open,
    epsilon_above,
    in_percent,
    refuse_own,
    refuse_private_folders,
    replacing,
    seed_warning,
    visible,
)

if TYPE_CHECKING:
    import polars as pl


def perturb(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN", help="The records: a file (.parquet, .csv, .ndjson), a folder of Parquet, or a pattern."
        ),
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file of reports, .parquet. The plan is written in it.")
    ],
    *,
    plan: Annotated[Path, typer.Option(help="A plan: a TOML file.")],
    id: Annotated[  # noqa: A002 (its name everywhere)
        str | None, options.said("COLUMN", "The column that says whose record it is. It is passed on only if kept.")
    ] = None,
    records: Annotated[
        int | None, options.count("With --id: take K records of each person, and drop the others.", metavar="K")
    ] = None,
    per: Annotated[
        list[str] | None,
        options.said("COLUMN[=LENGTH]", "With --records: take K in each of these, as country, or time=1d."),
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
    overwrite: options.Overwrite = False,
) -> None:
    """Perturb records: one private report each, as a plan says.

    Kept times of NDJSON stay text, of which there are no windows: Parquet has times, and those of CSV are read as such
    where the year comes first. Kept 007 and versions as 1.9 and 1.10 stay text.
    """
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
    refuse_own(id, made.inputs)
    if private := sorted(periods.keys() & made.inputs):
        raise core.PlanError(f"--per takes public columns, and {private} are perturbed: leave them out")
    refuse_private_folders(files.files_of(source), made.inputs)
    whose = [*([id] if id is not None else []), *periods]
    scanned = files.having(files.scan(source, made, id, periods), [*made.inputs, *made.keep, *whose], source)
    scanned = scanned.select(map(files.in_periods, dict.fromkeys([*made.inputs, *made.keep, *whose])))
    read = [0]
    working = printing.working("perturbing", total=partial(files.size_of, source))
    with replacing(target) as beside, files.polars_work("perturb", scanned), working as done:
        going = files.counted(scanned, read, done)
        if records is not None:
            each = [files.in_periods(name, length) for name, length in periods.items()]
            going = ldp_polars.bound(going, id=id, records=records, per=each, key=noise.get("key"))
        reports = ldp_polars.perturb_frame(going, made, packed=packed, **noise)
        ldp_polars.sink_parquet(reports, beside, made)
    n = int(pq.read_metadata(target).num_rows)
    dropped = f"; {sum(read) - n:,} of {sum(read):,} records were dropped" if records is not None else ""
    printing.out().print(visible(f"{n:,} reports in {target}{dropped}"), markup=False)
    if made.seed is not None:
        printing.note("; ".join(seed_warning(made)))
    elif id is None:
        printing.note(
            f"epsilon {epsilon_above(made.epsilon)} is per record. If a person has several records, they add up: "
            f"ldp plan explain {quote(str(plan))} -n {n} --records 10 says to what; "
            "--id COLUMN --records 1 takes one of each person"
        )
    else:
        printing.note(_of_a_person(scanned, id, records, periods, made, keyed=bool(noise)))
    most = records if records is not None and not periods else "K, the most reports of one person in a window"
    again = f" --repeats {most}" if noise else ""
    printing.out().print(visible(f"next: ldp estimate {quote(str(target))}{again}"), markup=False)


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
        with printing.working("counting the records of each person"), files.polars_work("perturb"):
            most = int(
                scanned.group_by(files.in_periods(whose).alias("id")).len().select("len").max().collect().item() or 0
            )
        spent = _spent(plan, most, keyed=keyed)
        if most <= 1:
            return f"each person has one record, which spends epsilon {epsilon_above(plan.epsilon)}"
        return f"one person has {most:,} records, which spend {spent}: --records K takes K of each person"
    span = " and ".join(name if length is None else f"{length} of {name}" for name, length in periods.items())
    anew = "a person spends that in each of these anew"
    if keyed:  # over periods too reports share noise, or permanent answers: what they spend is no sum over periods
        anew = f"two of these spend {_spent(plan, 2 * most, keyed=True)}"
    among, anew = (f" in each {span}", f"; {anew}") if span else ("", "")
    if most == 1:
        return f"one record of each person{among}, which spends epsilon {epsilon_above(plan.epsilon)}{anew}"
    note = f"at most {most:,} records of each person{among}, which spend {_spent(plan, most, keyed=keyed)}{anew}"
    who = "Means, comparisons and what is about a population"
    return f"{note}. {who} take --repeats {most}{among}: else errors are too small"


def _spent(plan: core.PrivacyPlan, records: int, *, keyed: bool) -> str:
    """What so many records of one person spend, in words."""
    still, moving = (plan.epsilon_of(records, changes=changes, keyed=keyed) for changes in (0, None))
    least, most = (f"epsilon {epsilon_above(x)}" if math.isfinite(x) else "without bound" for x in (still, moving))
    return f"{least} together" if least == most else f"{least} together if the values never change, {most} if they do"


def compare(
    source: Annotated[str, typer.Argument(metavar="BEFORE", help="The reports: a file, a folder, or a pattern.")],
    after: Annotated[
        str | None, typer.Argument(metavar="AFTER", help="The reports of other people, in the same forms.")
    ] = None,
    *,
    by: options.By = None,
    baseline: Annotated[
        str | None, options.said("VALUE", "With --by: compare the groups with this one. Without it, with the first.")
    ] = None,
    window: options.Length = None,
    event_time: options.EventTime = None,
    column: options.Columns = None,
    quantile: Annotated[
        list[float] | None, options.ratio("Compare this quantile of numbers, as 0.5, in place of shares.")
    ] = None,
    confidence: options.Confidence = 0.95,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="The intervals of all values hold together.")
    ] = False,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="The intervals hold together however often you look.")
    ] = False,
    same_people: Annotated[
        bool | None,
        typer.Option(
            "--same-people/--other-people", help="Say whether people may be on both sides. Keyed noise needs it."
        ),
    ] = None,
    repeats: options.Repeats = None,
    person: options.Person = None,
    as_json: options.Json = False,
) -> None:
    """Say what differs between two files, groups or windows: intervals, p-values, a test of all values together.

    The differences are those of populations: noise and sampling are in their error bars. People of one side are not on
    the other, and each has one report with fresh noise, unless --person, or --same-people and --repeats, say otherwise.
    """
    ldp_polars = files.our_polars()
    made = ldp_polars.read_plan(source)
    sources = [source, *([] if after is None else [after])]
    files.refuse_same(sources, repeats=repeats, person=person)
    files.check_columns(column or (), made.columns)
    wanted = {name: m for name, m in made.columns.items() if not column or name in column}
    asked = files.plan_of_columns(made, wanted, {*(by or ()), event_time, person})
    if after is not None:
        theirs, which = ldp_polars.read_plan(after), f"{source!r} and {after!r} have different plans"
        if unlike := [name for name, m in asked.columns.items() if theirs.columns.get(name) != m]:
            raise core.PlanError(f"{which}, of the columns {unlike}: --column takes those that are the same in both")
        if theirs.seed != made.seed:
            raise core.PlanError(f"{which}: of another seed, or of none; perturb both sides by one plan")
    how: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous, "anytime": anytime}
    how |= {"same_people": same_people, "repeats": repeats, "person": person, "quantiles": quantile or None}
    groups = {"by": by or (), "window": window, "event_time": event_time}
    with printing.working("counting the reports"), files.polars_work("compare"):
        each = [files.having(files.scan(side), [person, *asked, event_time], side) for side in sources]
        before, *others = (files.on_calendar(one, event_time, side) for one, side in zip(each, sources, strict=True))
        other = others[0] if others else None
        groups["baseline"] = _baseline(baseline, before.collect_schema().get((by or [""])[0]))
        made_of = ldp_polars.compare(before, asked, other=other, **groups, **how, assume_reports=True)
        found = [row for row in made_of.collect().to_dicts() if row["column_name"] in wanted]
    keys = [*(by or ()), *(["window_start"] if window else []), *([] if after else ["compared_with"])]
    seeded = printing.seed_words(made, before, *others)
    if as_json:
        printing.say_json(printing.told_apart(found, keys), seeded)
        return
    titles = {name: f"{name}: {m.title}, epsilon {m.epsilon:g}" for name, m in made.columns.items()}
    words = f"intervals: {in_percent(confidence)} %{', at all looks' if anytime else ''}"
    tests = "; p: adjusted for all values (Holm); p of all: of one test of all values of a column together"
    printing.show_by_column(found, keys, _compared, words + ("" if quantile else tests), seeded, titles)


def _baseline(text: str | None, dtype: Any) -> Any:
    """What a group is called, as its column has it."""
    if text is not None and dtype is not None and (dtype.is_numeric() or dtype.is_temporal()):
        import polars as pl  # noqa: PLC0415 (only here)

        with suppress(pl.exceptions.PolarsError):
            return pl.Series([text]).cast(dtype).item()
    return {"true": True, "false": False}.get((text or "").lower(), text) if str(dtype) == "Boolean" else text


def _compared(row: dict[str, Any], text: Callable[[Any], str]) -> dict[str, str]:
    cells = {"quantile": printing.percent(row["probability"])} if "probability" in row else {}
    cells |= {name: text(row[name]) for name in ("before", "after", "difference")}
    cells |= {"from": text(row["low"]), "to": text(row["high"])}
    if "p_adjusted" not in row:
        return cells
    of_all = row["p_value_of_all"]
    return cells | {"p": f"{row['p_adjusted']:.2g}", "p of all": "" if of_all is None else f"{of_all:.2g}"}


def pool(
    sources: Annotated[
        list[str], typer.Argument(metavar="REPORTS", help="Two files of reports or more, each of other people.")
    ],
    *,
    by: options.By = None,
    window: options.Length = None,
    event_time: options.EventTime = None,
    column: options.Columns = None,
    confidence: options.Confidence = 0.95,
    repeats: options.Repeats = None,
    as_json: options.Json = False,
) -> None:
    """Estimate from reports of several plans together: one population that reports in several ways.

    Each file says its own plan, and counts as much as its reports are worth. The error bars are of noise and sampling
    together. With a small "p of Q" the files are of different populations: then add up what ldp estimate says of each.
    """
    check_open("--confidence", confidence)
    options.check_window(window, event_time)
    if len(sources) < 2:
        raise typer.BadParameter("give two files, folders or patterns of reports, or more")
    ldp_polars = files.our_polars()
    plans = [ldp_polars.read_plan(source) for source in sources]
    each = [files.having(files.scan(one), [*plan, event_time], one) for one, plan in zip(sources, plans, strict=True)]
    files.refuse_same(sources, repeats=repeats)
    groups = {"by": by or (), "window": window, "event_time": event_time}
    with printing.working("counting the reports"), files.polars_work("pool"):
        asked = {"columns": column, "confidence": confidence, "repeats": repeats, "assume_reports": True}
        timed = [files.on_calendar(one, event_time, source) for one, source in zip(each, sources, strict=True)]
        found = ldp_polars.pool(list(zip(timed, plans, strict=True)), **groups, **asked).to_dicts()
    seeded = list(dict.fromkeys(said for one in zip(plans, each, strict=True) for said in printing.seed_words(*one)))
    if as_json:
        printing.say_json(printing.told_apart(found, by or ()), seeded)
        return
    words = f"intervals: {in_percent(confidence)} %, of a population; p of Q: whether all files are of one"
    printing.show_by_column(found, [*(by or ()), *(["window_start"] if window else [])], _pooled, words, seeded)


def _pooled(row: dict[str, Any], text: Callable[[Any], str]) -> dict[str, str]:
    cells = {"estimate": text(row["estimate"]), "from": text(row["low"]), "to": text(row["high"])}
    return {**cells, "reports": f"{row['n']:,}", "p of Q": f"{row['p_value']:.2g}"}
