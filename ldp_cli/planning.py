"""Before there are data: plans, which mechanism, how many people, what you would see."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer

import ldp_core as core
from ldp_cli import files, options, printing
from ldp_cli.values import SYNTAX, declared, margins_of, named, population_of, shares_of, values_of
from ldp_core.engine import RECOMMENDED_KINDS as KINDS
from ldp_core.engine import (
    Inputs,
    outlook_of,
    plan_contents,
    refuse_private_folders,
    replacing,
    seed_warning,
    truth_of,
)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan: a TOML file.")]
Group = Annotated[float, options.ratio("The share of people who are in the group that you ask about.")]


def new(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to write. Without it, the plan is printed.")
    ] = None,
    *,
    column: Annotated[
        list[str], typer.Option("--column", "-c", metavar="NAME=VALUES", help=f"A column and its values: {SYNTAX}.")
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="What one record spends, over all columns.")],
    keep: Annotated[
        list[str] | None, options.said("NAME", "This column passes unchanged: it is NOT PROTECTED.")
    ] = None,
    other: Annotated[
        list[str] | None,
        options.said(
            "NAME",
            "In this column, nulls and values that are not declared are one more answer; numbers outside move to "
            "the nearer end, and their nulls stay refused.",
        ),
    ] = None,
    way: Annotated[
        Literal["split", "sampled", "fake", "pairs"],
        typer.Option(
            help="What a record answers. split: every column, each with a part of epsilon. sampled: one drawn column. "
            "fake: one drawn column, and the others at random. pairs: one drawn pair of columns, for tables."
        ),
    ] = "split",
    clients: Annotated[
        bool,
        typer.Option(
            "--clients", help="Take only mechanisms that browsers have, as ldp serve needs. With --way split."
        ),
    ] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a plan: what one record reveals."""
    if clients and way != "split":
        raise core.ParameterError(f"--clients goes with --way split, got {way}: browsers report every column")
    columns: dict[str, Any] = {}
    others = set(other or ())
    for pair in column:
        name, text = named(pair, example="os=ios,android")
        if name in columns:
            raise core.ParameterError(f"column {name!r} is there twice")
        columns[name] = declared(text, other=name in others)
    unknown = sorted(others - columns.keys())
    if unknown:
        raise core.ParameterError(f"--other names columns {unknown}, which are not in the plan")
    try:
        made = getattr(core.PrivacyPlan, way)(columns, epsilon=epsilon, keep=keep or ())
        if clients:
            made = core.PrivacyPlan({name: _for_clients(m) for name, m in made.columns.items()}, keep=made.keep)
            made.compile()
    except core.PlanError as error:
        raise core.ParameterError(str(error)) from None
    if file is None:
        printing.say(made.to_toml())
        return
    files.refuse_existing(file, overwrite=overwrite)
    with replacing(file) as beside:
        beside.write_text(made.to_toml(), encoding="utf-8")
    printing.show(
        _plan_cells(made), title=str(file), notes=[f"next: ldp plan explain {quote(str(file))} --people 10000"]
    )


def _for_clients(m: core.Mechanism) -> core.Mechanism:
    """The mechanism, or the best one for its declared values that has a compiled form."""
    others = core.recommend(m.inputs, m.epsilon, 10_000) if isinstance(m.inputs, core.Domain) else ()
    for made in (m, *(row.mechanism() for row in others)):
        with suppress(core.ParameterError):
            made.compiled()
            return made
    return m


def check(
    plan: PlanFile,
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="The records that it is for: Parquet, CSV or NDJSON.")
    ] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """Check a plan, and whether it fits data: counts what is not declared, and shows no value."""
    made = core.PrivacyPlan.from_toml(plan)
    if data is None:
        if as_json:
            printing.say_json({"epsilon": made.epsilon, "fingerprint": made.fingerprint, **made.to_dict()})
        else:
            printing.show(_plan_cells(made), title=f"{plan}: a plan", notes=seed_warning(made))
        return
    records, refused, outside, wrong = _fit(made, data)
    bad = any(refused.values()) or bool(wrong)
    if as_json:
        columns = {
            name: {"refused": refused[name], "not declared": outside[name], "error": wrong.get(name)}
            for name in made.columns
        }
        found = {"epsilon": made.epsilon, "records": records, "fits": not bad, "columns": columns}
        printing.say_json(found, printing.seed_words(made))
    else:
        rows = []
        for name, cells in zip([*made.columns, *made.keep, ""], _plan_cells(made), strict=True):
            planned = name in made.columns
            cells["not declared"] = f"{outside[name]:,}" if planned else ""
            cells["would be refused"] = wrong.get(name) or f"{refused[name]:,}" if planned else ""
            rows.append(cells)
        verdicts = ["the plan does not fit" if bad else "the plan fits"]
        for name, m in made.columns.items():
            if refused[name]:
                remedies = {inputs.remedy for inputs in made.sources(name).values()}
                verdicts.append(f"{name}: {'; '.join(sorted(remedies))}")
            if taken := outside[name] - refused[name]:
                counted = f"{name}: {taken:,} of {records:,} values ({printing.percent(taken / records)})"
                verdicts.append(f"{counted} {_taken(m.inputs)}")
        printing.show(rows, title=f"{plan} for {records:,} records of {data}", notes=[*seed_warning(made), *verdicts])
    if bad:
        raise typer.Exit(1)


_TAKEN = {
    "other": '"other"',
    "none": "none of them",
    "clip": "the nearer end, or what missing says",
    "cut": "what they begin with",
    "error": "what missing says",
}
"""What becomes of values that are not declared and not refused, by ``unmatched``."""


def _taken(inputs: Inputs) -> str:
    """Why values are not declared and yet not refused, and what becomes of them; a list may be cut, too."""
    if getattr(inputs, "on_more", "error") == "error":
        return f"are not declared, and become {_TAKEN[inputs.unmatched]}"
    others = ', or others, which become "other"' * (inputs.unmatched == "other")
    return f"have more items than the plan takes, of which the first ones stay{others}"


def _fit(plan: core.PrivacyPlan, data: str) -> tuple[int, dict[str, int], dict[str, int], dict[str, str]]:
    """Number of records; by column how many of them are refused and not declared, and what is wrong with its type."""
    records, refused, outside = 0, dict.fromkeys(plan.columns, 0), dict.fromkeys(plan.columns, 0)
    wrong: dict[str, str] = {}
    refuse_private_folders(files.files_of(data), plan.inputs)
    with printing.working("checking the records"):
        for batch in files.batches(data, plan, plan.keep):
            records += batch.num_rows
            for name, source, inputs in ((c, *one) for c in plan.columns for one in plan.sources(c).items()):
                try:
                    refused[name] += int(inputs.refuses(batch.column(source), column=source).sum())
                    outside[name] += int(inputs.outside(batch.column(source), column=source).sum())
                except core.DtypeError as error:
                    wrong[name] = str(error)
    return records, refused, outside, wrong


def compile_plan(plan: PlanFile) -> None:
    """Print the plan as JSON for clients in other languages: integers in place of probabilities (docs/wire.md)."""
    printing.say_json(core.PrivacyPlan.from_toml(plan).compile())


def explain(
    plan: PlanFile,
    *,
    people: Annotated[int | None, options.people("How many records there will be.")] = None,
    data: Annotated[str | None, typer.Option(help="In place of --people: the records, which are counted.")] = None,
    id: Annotated[  # noqa: A002 (its name everywhere)
        str | None, typer.Option(help="With --data: the column that says whose record it is.")
    ] = None,
    records: Annotated[
        list[int] | None,
        options.count("Say what K records of one person spend together.", options.integer, metavar="K"),
    ] = None,
    total: Annotated[
        float | None, typer.Option(help="What all records of a person spend, if you know it. Says what that reveals.")
    ] = None,
    keyed: Annotated[bool, typer.Option("--keyed", help="The noise is keyed by a secret and the person.")] = False,
    repeats: Annotated[
        float, typer.Option(min=1, help="With --people: how many of the records each person has, of values that stay.")
    ] = 1,
    delta: Annotated[float | None, typer.Option(help="Say also what shuffled records reveal, with this delta.")] = None,
    as_json: options.Json = False,
) -> None:
    """Say what a plan costs a person, and the error to expect."""
    made = core.PrivacyPlan.from_toml(plan)
    if (people is None) == (data is None) or (id is not None and data is None):
        raise typer.BadParameter("give --people N, or --data FILE and perhaps --id COLUMN")
    if data is not None and id is not None:
        if as_json or records or repeats != 1:
            raise typer.BadParameter("--id counts the records of each person: leave out --records, --repeats, --json")
        ldp_polars = files.our_polars()
        with printing.working("counting the records"), files.polars_work("explain"):
            frame = files.having(files.scan(data, made, id), [*made.inputs, id], data)
            text = ldp_polars.explain(frame, made, id=id, keyed=keyed, total=total, delta=delta)
        printing.say(text)
        return
    n = people if people is not None else sum(batch.num_rows for batch in files.batches(str(data), made))
    reports = sorted({1, *records}) if records else [1, 10, 100]
    if total is None and records and max(records) > 1:
        spent = made.epsilon_of(max(records), changes=None, keyed=keyed)
        total = spent if math.isfinite(spent) else None
    said = made.explain(n, records=reports, keyed=keyed, total=total, delta=delta, repeats=repeats)
    if not as_json:
        printing.say(said)
        return
    columns = {}
    for name, m in made.columns.items():
        outlook, _ = outlook_of(m, n, repeats, keyed=keyed or made.memoized)
        columns[name] = {
            "mechanism": m.title,
            "epsilon": m.epsilon,
            "standard_error": outlook.error,
            "unit": outlook.unit,
            "standard_error_share": outlook.share,
            "advice": outlook.advice,
        }
    many = {str(k): made.epsilon_of(k, changes=None, keyed=keyed) for k in reports}
    found = {"records": n, "epsilon": made.epsilon, "epsilon_of_records": many, "columns": columns}
    printing.say_json(found, printing.seed_words(made))


Repeats = Annotated[int, options.count("How many reports each person sends, with fresh noise.")]
Question = Annotated[
    str | None, options.said("QUESTION", "What you will ask: median, cdf, mean, range:low=30,high=45.")
]


def recommend(
    values: Annotated[str, typer.Argument(help=f"How many values, or which: 16; {SYNTAX}.")],
    *,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Epsilon of one report.")],
    people: Annotated[int, options.people("How many people there are.")],
    repeats: Repeats = 1,
    ask: Question = None,
    group: Group = 1.0,
    most_bytes: Annotated[
        float | None, typer.Option("--bytes", help="Leave out mechanisms whose reports have more bytes.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Rank the mechanisms for such values, epsilon and people."""
    how: dict[str, Any] = {"ask": ask, "group": group, "repeats": repeats}
    found = core.recommend(values_of(values), epsilon, people, bytes_per_report=most_bytes, **how)
    if as_json:
        printing.say_json([row.values() for row in found])
    else:
        printing.show([row.texts() for row in found], notes=[found.note])


def size(
    values: Annotated[
        str | None, typer.Argument(metavar="VALUES", help=f"How many values, or which: 16; {SYNTAX}.")
    ] = None,
    *,
    margin: Annotated[
        list[str] | None,
        typer.Option(
            "--margin",
            "-m",
            metavar="[NAME=]M",
            help="Half of the 95 % interval that you want: of a share (0.01 or 1%), or of a mean, in its unit. "
            "With --plan, one for each column.",
        ),
    ] = None,
    change: Annotated[
        str | None,
        options.said("C", "In place of --margin: the change to be found, of a share (0.01 or 1%) or of a mean."),
    ] = None,
    base: Annotated[float | None, options.ratio("With --change: the share before.")] = None,
    power: Annotated[
        float | None, options.ratio("With --change: the probability of finding it; 0.8 if not said.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "-e", help="Epsilon of one report. Asks how many people are needed.")
    ] = None,
    people: Annotated[int | None, options.people("How many people there are. Asks which epsilon is needed.")] = None,
    plan: Annotated[Path | None, typer.Option(help="A plan. Asks how many people its columns need.")] = None,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="All shares together are this accurate, not only each by itself.")
    ] = False,
    frequency: Annotated[
        float | None, options.ratio("The true share of the value: 0.01 or 1%. Without it, any share.")
    ] = None,
    population: Annotated[
        str, options.said("N", "Whose share it is: of many people, or of N, of whom these are a sample, or none.")
    ] = "many",
    repeats: Repeats = 1,
    mechanism: Annotated[str | None, typer.Option(help="Ask only about the mechanism of this name.")] = None,
    ask: Question = None,
    group: Group = 1.0,
    as_json: options.Json = False,
) -> None:
    """Say how many people, or which epsilon, a margin of error needs; or a change, of people before and after."""
    how: dict[str, Any] = {"simultaneous": simultaneous, "frequency": frequency, "group": group}
    how |= {"population": population_of(population), "repeats": repeats}
    texts = _wanted(margin, change, plan)
    if change is None and (base is not None or power is not None):
        raise typer.BadParameter("--base and --power are of --change")
    how |= {"base": base} if power is None else {"base": base, "power": power}
    if plan is not None:
        if any(one is not None for one in (values, epsilon, people, mechanism, ask)):
            raise typer.BadParameter("--plan has its values and epsilons, and no --ask: give --margin only")
        made = core.PrivacyPlan.from_toml(plan)
        numbers = [name for name, m in made.columns.items() if isinstance(m, core.Numeric)]
        found = core.required_n(made, margins_of(texts, numbers=numbers), **how)
    elif values is not None and epsilon is not None and people is not None:
        raise typer.BadParameter("--epsilon says how many people, --people says which epsilon: leave out one of them")
    elif values is None or (epsilon is None) == (people is None):
        raise typer.BadParameter("give VALUES and --epsilon (how many people?) or --people (which epsilon?), or --plan")
    else:
        inputs = values_of(values)
        wanted, what = _one_number(texts, inputs, ask), "margin" if change is None else "change"
        if ask is not None:
            how["ask"] = ask
        elif not isinstance(inputs, core.Interval) and _WIDE <= wanted < math.inf:
            printing.note(f"{what} {wanted:g} is {100 * wanted:g} % of the people; {wanted:g} % is written {wanted:g}%")
        kind, how = _kind(inputs, mechanism, ask), {what: wanted, **how}
        if epsilon is not None:
            found = core.required_n(kind, domain=inputs, epsilon=epsilon, **how)
        else:
            found = core.required_epsilon(kind, n=int(people or 0), domain=inputs, **how)
    if as_json:
        printing.say_json({"question": found.note, "needs": [row.values() for row in found]})
    else:
        printing.show([row.texts() for row in found], title=found.title, notes=[found.note])


def _wanted(margin: list[str] | None, change: str | None, plan: Path | None) -> list[str]:
    if bool(margin) == (change is not None):
        raise typer.BadParameter("give --margin, or --change and, of a share, --base")
    if change is not None and plan is not None:
        raise typer.BadParameter("--change is of one column: give VALUES and --epsilon")
    return margin or [str(change)]


def _one_number(texts: list[str], inputs: Any, ask: str | None) -> float:
    shares = ask is not None and (view := core.question_of(ask).view) and (view.counts or view.shares)
    wanted = margins_of(
        texts, numbers=() if shares or (ask is None and not isinstance(inputs, core.Interval)) else [""]
    )
    if not isinstance(wanted, float):
        raise core.ParameterError("margins by column are a plan's: give one number")
    return wanted


_WIDE = 0.1  # larger margins of a share are rarely meant


def _kind(inputs: Any, name: str | None, ask: str | None) -> str | None:
    """The name of a mechanism for such inputs, or None for all."""
    kinds = None if ask else KINDS.get(type(inputs))
    if kinds is not None and name is not None and name not in kinds:
        raise core.ParameterError(f"of such values --mechanism is one of {list(kinds)}, got {name!r}")
    return name


def simulate(
    plan: PlanFile,
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="The records: Parquet, CSV or NDJSON.")] = None,
    *,
    shares: Annotated[
        list[str] | None,
        typer.Option(
            "--share",
            metavar="NAME=VALUE:SHARE,...",
            help="In place of DATA: the share of each value, for each column.",
        ),
    ] = None,
    people: Annotated[int | None, options.people("How many people have these shares.")] = None,
    repeats: Repeats = 1,
    seed: Annotated[
        int | None, options.count("An integer, with which you get the same result again.", options.integer)
    ] = None,
    confidence: options.Confidence = 0.95,
    top: Annotated[int, options.count("Show at most this many values of a column.")] = 20,
    plot: options.Plot = None,
    theme: options.Theme = "light",
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Show what you would see: estimates beside the truth, without making reports."""
    files.check_picture(plot, overwrite=overwrite)
    made = core.PrivacyPlan.from_toml(plan)
    if (data is None) == (not shares):
        raise typer.BadParameter("give DATA, or --share for each column")
    asked: Any
    if data is not None:
        records = list(files.at_most(files.batches(data, made), data))
        if not records:
            raise core.InputError(f"{data!r} has no records: nothing is to be seen")
        asked = pa.Table.from_batches(records)
    else:
        asked = {
            name: shares_of(what, made.inputs[name].kind if name in made.inputs else "")
            for name, what in (named(pair, example="os=ios:0.6,android:0.4") for pair in shares or ())
        }
        if missing := sorted(made.inputs.keys() - asked):
            raise typer.BadParameter(f"--share is there for each column, or DATA: of {missing} it is not")
    with printing.working("simulating"):
        found = made.simulate(asked, n=people, seed=seed, confidence=confidence, repeats=repeats)
    if plot is not None:
        files.save(found.plot(top=top, theme=theme), plot)
    if as_json:
        beside: dict[str, Any] = {}
        for name, result in found.items():
            people_of = truth_of(found.people[name])
            rows = result.to_arrow().to_pylist()
            values = not people_of.keys().isdisjoint(row.get("value") for row in rows)  # and not ranges, or sets
            beside[name] = [{**row, "people": people_of.get(row["value"], 0)} if values else row for row in rows]
        printing.say_json(beside)
        return
    for k, (name, result) in enumerate(found.items()):
        if k:
            printing.out().print()
        _show_beside(name, made[name], result, truth_of(found.people[name]), found.tallies[name].n, top)


def _show_beside(name: str, m: core.Mechanism, result: core.Result, people: dict[Any, int], n: int, top: int) -> None:
    """The table of an estimate of n records, beside the truth where it is a number for each row."""
    look, records = result.view, result.to_arrow().to_pylist()
    of_top = printing.largest(records, look, top) if look.counts else records
    values = look.counts and not people.keys().isdisjoint(record["value"] for record in records)
    rows = []
    for record in of_top:
        cells = printing.cells_of({"n": result.n, **record}, look, result.confidence)
        about = {label: cells.pop(label) for label in look.labels if label in cells}
        if values:
            about["truth"] = f"{people.get(record['value'], 0):,}"
        elif look.estimate == "mean":
            about["truth"] = printing.number(
                sum(float(x) * k for x, k in people.items()) / max(n, 1), printing.decimals(record, 3)
            )
        rows.append(about | cells)
    more = len(records) - len(of_top)
    title = f"{name}: {n:,} records, {m.title}, epsilon {m.epsilon:g}"
    printing.show(rows, title=title, notes=[f"... {more:,} more values; --top shows more"] if more else [])


def _plan_cells(plan: core.PrivacyPlan) -> list[dict[str, str]]:
    """The plan as a table: a row a column, and one for the whole record."""
    heads, *rows = plan_contents(plan)
    return [dict(zip(heads, row, strict=True)) for row in rows]
