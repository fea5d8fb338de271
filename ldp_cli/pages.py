"""Pages for people: a report of estimates, and the planner."""

from __future__ import annotations

import os
import re
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ldp_cli import files
from ldp_cli.options import Confidence, Overwrite, count, said
from ldp_cli.printing import note, say
from ldp_cli.values import integer, named
from ldp_core import InputError, Limits, ParameterError, PrivacyPlan
from ldp_core.engine import check_integer, check_open, import_extra, replacing, seconds
from ldp_report import planner_page, read_results, report_page

Show = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]


def report(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="The folder of `ldp estimate --output` or of `ldp run`.")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    plan: Annotated[Path | None, typer.Option(help="The plan, if the folder does not say it.")] = None,
    overwrite: Overwrite = False,
    show: Show = False,
) -> None:
    """Make a page of estimates: one file for a browser, which needs no network."""
    _check(output, overwrite=overwrite)
    made = None if plan is None else PrivacyPlan.from_toml(plan)
    found = read_results(results, plan=made)
    if found.plan is None:
        note("the results do not say which plan made them: --plan PLAN adds what it costs a person", style="yellow")
    _write(output, report_page(found), show)


def planner(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")] = Path(
        "planner.html"
    ),
    overwrite: Overwrite = False,
    show: Show = False,
) -> None:
    """Make the planner: a page that finds epsilon, mechanism and plan; it needs no network."""
    page = planner_page()
    there = output.is_file() and output.read_bytes() == page.encode()  # the same, from before
    _check(output, overwrite=overwrite or there)
    _write(output, page, show)


def serve(
    *,
    plan: Annotated[Path, typer.Option(help="A plan: a TOML file.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="The folder for the reports, as Parquet.")
    ] = None,
    to: Annotated[
        str | None, said("QUEUE", "Instead of --output: kafka://HOST:PORT/TOPIC, or pubsub://PROJECT/TOPIC.")
    ] = None,
    queue_options: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="Options of Kafka's client, as lines of KEY=VALUE."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on. The default is for this machine only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, count("The port to listen on. 0 takes a free one.", integer)] = 8000,
    host_name: Annotated[
        list[str] | None, said("NAME", "Also answer requests for this name, as a proxy sends them.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="LDP_SERVE_TOKEN", help="A sender of reports must have this token.", show_envvar=True),
    ] = None,
    read_token: Annotated[
        str | None,
        typer.Option(
            envvar="LDP_SERVE_READ_TOKEN", help="A reader of the page must have this token.", show_envvar=True
        ),
    ] = None,
    origin: Annotated[
        list[str] | None, said("ORIGIN", "Pages of this origin may send reports, as https://example.org.")
    ] = None,
    kept: Annotated[list[str] | None, said("NAME=KIND", "What a kept column has: day=date. Without it, text.")] = None,
    most_bytes: Annotated[int, count("The largest message, in bytes.")] = 1 << 20,
    rate: Annotated[float, typer.Option(min=0.001, help="How many messages a second one address may send.")] = 100.0,
    every: Annotated[str, said("LENGTH", "How often a new Parquet file begins.")] = "10m",
    confidence: Confidence = 0.95,
    repeats: Annotated[int | None, count("The most reports of one person. Then the noise may be keyed, too.")] = None,
) -> None:
    """Take reports over HTTP, keep them as Parquet or hand them to a queue, and show estimates on a page."""
    check_open("confidence", confidence), check_integer("port", port, 0, 65535)
    period = seconds(every, name="--every")
    import_extra("starlette", "serve"), import_extra("uvicorn", "serve")
    import ldp_serve  # noqa: PLC0415 (only here)

    if strange := [one for one in origin or () if not re.fullmatch(r"\*|null|[a-z][^:/A-Z]*://[^/A-Z]+", one)]:
        raise ParameterError(f"--origin is as a browser shows it, in lower case and without a path; got {strange}")
    if strange := [one for one in host_name or () if not re.fullmatch(r"[^:/\s]+|\[[^]/]+\]", one)]:
        raise ParameterError(
            f"--host-name is a name alone, as reports.example.org, without https:// and port; got {strange}"
        )
    for name, given in (("LDP_SERVE_TOKEN", token), ("LDP_SERVE_READ_TOKEN", read_token)):
        one = os.environ.get(name) if given is None else given  # (Click takes an empty variable for none)
        if one is not None and (not one or one != one.strip() or not one.isprintable()):
            raise ParameterError(
                "a token is not empty, and has no line end and no space around it: see --token, --read-token, and "
                f"the variable {name}"
            )
    pairs = dict(named(pair, example="day=date") for pair in kept or [])
    if len(pairs) < len(kept or ()):
        raise ParameterError("--kept has a column twice")
    limits = Limits(rows=1 << 16, bytes=16 * most_bytes, plan_bytes=max(most_bytes, 1 << 16))
    reader = ldp_serve.Reader(PrivacyPlan.from_toml(plan), pairs, limits, keyed=repeats is not None)
    options = ldp_serve.Options(
        token=token,
        read_token=read_token,
        origins=tuple(origin or ()),
        hosts=(*ldp_serve.LOOPBACK, *map(str.lower, [f"[{host}]" if ":" in host else host, *(host_name or ())])),
        most_bytes=most_bytes,
        rate=rate,
        every=max(period, 1.0),
        confidence=confidence,
        repeats=repeats,
    )
    sink: ldp_serve.Sink
    if to is not None and output is None:
        sink = ldp_serve.Queue(to, reader.plan, {} if queue_options is None else _pairs(queue_options))
    elif output is not None and to is None and queue_options is None:
        sink = ldp_serve.Store(output, reader.plan, reader.schema)
    else:
        raise ParameterError("say where reports go: --output FOLDER, or --to QUEUE, perhaps with --queue-options")
    app = ldp_serve.make_app(reader, sink, options)
    if host not in ldp_serve.LOOPBACK:
        note("others can reach this address, without TLS: see docs/serve.md, and --read-token", style="yellow")
    ldp_serve.run(app, host=host, port=port, started=say)


def _pairs(path: Path) -> dict[str, str]:
    """What a file of properties says; an error quotes none of its lines, which hold passwords."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    if not all(mark for _, mark, _ in pairs):
        raise InputError(f"{str(path)!r} has lines that are no KEY=VALUE")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _check(output: Path, *, overwrite: bool) -> None:
    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"this is a page: FILE must end in .html, got {output.name!r}")
    files.refuse_existing(output, overwrite=overwrite)


def _write(output: Path, page: str, show: bool) -> None:
    with replacing(output) as beside:
        beside.write_text(page, encoding="utf-8")
    say(str(output))
    if show and not webbrowser.open(output.resolve().as_uri()):
        note(f"there is no browser to open {output} in", style="yellow")
