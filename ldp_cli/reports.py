"""Files of reports, by Polars: records to reports, reports to estimates."""

from __future__ import annotations

import math
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from ldp_cli import files
from ldp_cli.printing import note, number, out, percent, save, say_json, show, working
from ldp_cli.values import labels, lines, named
from ldp_core import (
    DistributionEstimate,
    HeavyHitters,
    HeavyHittersEstimate,
    HistogramEstimate,
    InputError,
    MeanEstimate,
    Mechanism,
    ParameterError,
    PlanError,
    PrivacyPlan,
    Secret,
    Sketch,
    estimates_metadata,
)
from ldp_core.charts.drawing import FIELDS

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
        str | None, typer.Option(metavar="COLUMN", help="With a secret: whose record it is. It is not passed on.")
    ] = None,
    secret_file: Annotated[Path | None, typer.Option(help="Keyed noise, by the hexadecimal digits in it.")] = None,
    secret_env: Annotated[str | None, typer.Option(help="The same, in this environment variable.")] = None,
    packed: Annotated[bool, typer.Option(help="Bit vectors as 64-bit words: smaller, and faster to count.")] = True,
    overwrite: Overwrite = False,
) -> None:
    """Perturb records: one private report each, as a plan says."""
    ldp_polars = files.our_polars()
    made = PrivacyPlan.from_toml(plan)
    if target.suffix.lower() != ".parquet":
        raise InputError(
            f"reports are written as Parquet, with their plan: OUT must end in .parquet, got {target.name!r}"
        )
    files.refuse_existing(target, overwrite=overwrite)
    noise: dict[str, Any] = {}
    if secret_file is not None or secret_env is not None:
        if (secret_file is not None and secret_env is not None) or id is None:
            raise typer.BadParameter("keyed noise takes --secret-file or --secret-env, and --id")
        noise = {"key": Secret.from_file(secret_file) if secret_file else Secret.from_env(str(secret_env)), "id": id}
    elif id is not None:
        raise typer.BadParameter("--id is for keyed noise: give --secret-file or --secret-env too")
    else:
        made.check_noise(keyed=False)
    records = files.scan(source, made)
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")  # complete, or not there
    try:
        with working("perturbing", writes=beside), files.polars_work("perturb"):
            reports = ldp_polars.perturb_frame(records, made, packed=packed, **noise)
            ldp_polars.sink_parquet(reports, beside, made)
            os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
    n = _rows(target)
    out().print(f"{n:,} reports in {target}; a record spends epsilon {made.epsilon:.4g}", markup=False)
    out().print(f"next: ldp estimate {target}", markup=False)


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
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    top: Annotated[int, typer.Option(help="At most so many values: printed, drawn, found.")] = 20,
    plan: Annotated[Path | None, typer.Option(help="Where the files have none: the plan that made them.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write all numbers there: a file for each column.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="With --output: CSV in place of Parquet.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw it: .html, .svg or .png; needs --column if there are more.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: all numbers.")] = False,
) -> None:
    """Estimate from reports: histograms, means and more, with error bars."""
    ldp_polars = files.our_polars()
    reports = files.scan(source)
    made = PrivacyPlan.from_toml(plan) if plan is not None else _plan_of(ldp_polars, source)
    wanted = _wanted(made, column, candidates)
    ask = {name: _ask(m, confidence, top) for name, m in wanted.items()}
    asked = PrivacyPlan(wanted, keep=made.keep, seed=made.seed)
    with working("counting the reports"), files.polars_work("estimate"):
        found = ldp_polars.estimates(
            reports, asked, by=by or (), window=window, event_time=event_time, confidence=confidence, ask=ask
        )
        frames = {name: frame.collect() for name, frame in found.items()}
    if output is not None:
        _write(frames, output, {n: (ask[n], m) for n, m in wanted.items()}, csv=csv, overwrite=overwrite)
    if plot is not None:
        _draw(frames, plot, by=by or [], windows=window is not None, top=top, confidence=confidence)
    if as_json:
        say_json({name: frame.to_dicts() for name, frame in frames.items()})
        return
    keys = [*(by or []), *([FIELDS["window"]] if window is not None else [])]
    for k, (name, frame) in enumerate(frames.items()):
        if k:
            out().print()
        _show(name, wanted[name], frame, keys, top, confidence)


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


def _ask(m: Mechanism, confidence: float, top: int) -> Any:
    """What to ask: the most that the mechanism offers."""
    if isinstance(m, HeavyHitters):
        return HeavyHittersEstimate(top, confidence)
    for question in (DistributionEstimate(confidence), MeanEstimate(confidence), HistogramEstimate(confidence)):
        try:
            question.check(m)
        except ParameterError:
            continue
        return question
    raise PlanError(f"{m.title} has no estimate")


def _show(name: str, m: Mechanism, frame: pl.DataFrame, keys: list[str], top: int, confidence: float) -> None:
    records = frame.to_dicts()
    of_group: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        of_group.setdefault(tuple(record[key] for key in keys), []).append(record)
    n = sum(group[0][FIELDS["n"]] for group in of_group.values())
    title = f"{name}: {n:,} reports, {m.title}, epsilon {m.epsilon:g}"
    ranked = FIELDS["count"] in frame.columns
    rows, hidden = [], 0
    for key, group in of_group.items():
        shown = sorted(group, key=lambda r: -_or_less(r[FIELDS["count"]])) if ranked and len(group) > top else group
        hidden += max(len(group) - top, 0) if ranked else 0
        for record in shown[:top] if ranked else shown:
            head = {name: _word(value) for name, value in zip(keys, key, strict=True)}
            rows.append({**head, **_cells(record, confidence)})
    notes = [f"... {hidden:,} more values; --top shows more, --json and --output all"] if hidden else []
    show(rows, title=title, notes=notes if rows else ["nothing was found"])


def _or_less(x: float | None) -> float:
    return -math.inf if x is None or math.isnan(x) else x


def _cells(record: dict[str, Any], confidence: float) -> dict[str, str]:
    """One row of an estimate, for people."""
    low, high = (record[FIELDS[end]] for end in ("low", "high"))
    start = f"{100 * confidence:g}% from"
    if FIELDS["value"] in record:
        n = record[FIELDS["n"]]
        count = record[FIELDS["count"]]
        return {
            "value": _word(record[FIELDS["value"]]),
            "estimate": number(count, 0),
            "share": percent(count / n if n and count is not None else None),
            start: number(low, 0),
            "to": number(high, 0),
        }
    if FIELDS["mean"] in record:
        ends = {start: number(low, 3), "to": number(high, 3), "reports": f"{record[FIELDS['n']]:,}"}
        return {"mean": number(record[FIELDS["mean"]], 3), **ends}
    edges = {end: f"{record[FIELDS[end]]:g}" for end in ("left", "right")}
    return {**edges, "share": percent(record[FIELDS["share"]]), start: percent(low), "to": percent(high)}


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _write(frames: dict[str, pl.DataFrame], folder: Path, asked: dict[str, Any], *, csv: bool, overwrite: bool) -> None:
    kind = "csv" if csv else "parquet"
    paths = {name: folder / f"{quote(name, safe=' ')}.{kind}" for name in frames}
    for path in paths.values():
        files.refuse_existing(path, overwrite=overwrite)
    with files.polars_work("estimate"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, frame in frames.items():
            if csv:
                frame.write_csv(paths[name])
            else:
                frame.write_parquet(paths[name], metadata=estimates_metadata({name: asked[name]}))
    note(f"written: {', '.join(str(path) for path in paths.values())}")


def _draw(
    frames: dict[str, pl.DataFrame], path: Path, *, by: list[str], windows: bool, top: int, confidence: float
) -> None:
    if len(frames) > 1:
        raise typer.BadParameter(f"--plot draws one column: say which of {list(frames)}, --column NAME")
    import ldp_plots as plots  # noqa: PLC0415 (only here)

    [(name, frame)] = frames.items()
    rows = [{FIELDS["column"]: name, FIELDS["confidence"]: confidence, **record} for record in frame.to_dicts()]
    if windows:
        chart = plots.windows(rows, by=by, top=min(top, _LINES))
    elif FIELDS["count"] in frame.columns:
        chart = plots.histogram(rows, by=by, top=top)
    elif FIELDS["mean"] in frame.columns:
        chart = plots.mean(rows, by=by)
    else:
        chart = plots.distribution(rows, by=by)
    save(chart, path)


_LINES = 6
