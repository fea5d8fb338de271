"""The commands, their examples, and what an error looks like."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from ldp_cli import estimating, jobs, pages, planning, reports
from ldp_cli.printing import note, say
from ldp_core import LdpError, LdpWarning, ParameterError
from ldp_core.engine import OR_PERSON, visible

_BEFORE, _FILES, _RUNS = "Before there are data", "Files of reports", "What runs"


class _Group(TyperGroup):
    """Commands whose errors of ours are one line; the exit code is 2 where a value on the line cannot be, else 1."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: name != "plan")  # groups come last otherwise

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Whole first sentences, below the names of kinds: Click cuts sentences, and knows no kinds."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            about = command.short_help or command.help.partition("\n\n")[0].replace("\n", " ")
            kind = command.rich_help_panel
            rows.setdefault(kind if isinstance(kind, str) else "Commands", []).append((name, about))
        for kind, commands in rows.items():
            with formatter.section(kind):
                formatter.write_dl(commands)

    def _words(self, ctx: Any, text: str) -> str:
        """Arguments of Python that a text says, as options of the command that was called; what is quoted stays."""
        text = re.sub(r"\bInterval\(([-\d.e+]+), ([-\d.e+]+)\)", r"\1:\2", text)
        command: Any = self.get_command(ctx, ctx.invoked_subcommand or "")
        there = {} if command is None else {option.name: option for option in command.params}
        text = text if "person" in there else text.replace(OR_PERSON, "")

        def said(found: re.Match[str]) -> str:
            name, value = found["name"] or found["checked"], found["value"]
            option = there.get(_CALLED.get(name, name))
            if option is None:
                return "none" if found[0] == "None" else found[0]
            if value in ("True", "False"):
                return str([*option.opts, *option.secondary_opts][-(value == "False")])
            how = option.opts[0] if option.param_type_name == "option" else option.metavar or option.name.upper()
            return f"{how} {value or ''}".rstrip()

        argument = r"(?<![\w'\"(=-])(?P<name>[a-z_]+)=(?P<value>[\w'\"]\S*\b['\"]?)?(?=[\s,;:.]|$)"
        checked = r"(?:^|(?<=^each of ))(?P<checked>[a-z_]+)(?= must be )|\bNone\b"
        return re.sub(rf"(?<!\w)(?P<quote>['\"]).*?(?P=quote)(?!\w)|{argument}|{checked}", said, text)

    @override
    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("default", LdpWarning)  # each text once: groups may be many
            warnings.showwarning = lambda message, *_: note(
                f"warning: {self._words(ctx, str(message))}", style="yellow"
            )
            try:
                return super().invoke(ctx)
            except LdpError as error:
                note(f"error: {self._words(ctx, str(error))}", style="red")
                raise typer.Exit(2 if isinstance(error, ParameterError) else 1) from None
            except typer.BadParameter as error:  # (which may name labels of a stranger's file)
                error.message = visible(error.message)
                raise
            except BrokenPipeError:
                raise  # (which Click knows)
            except OSError as error:
                about = f" {error.filename!r}" if error.filename else ""
                note(f"error: cannot use the file{about}: {error.strerror or type(error).__name__}", style="red")
                raise typer.Exit(1) from None


_CALLED = dict.fromkeys(("quantiles", "probabilities"), "quantile")
_CALLED |= {"other": "after", "n": "people", "bytes_per_report": "most_bytes"}
"""What arguments of Python are called where they are options."""


def _examples(*lines: str) -> str:
    """For the end of a help: each on a line of its own, which is not wrapped."""
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # (boxes cut words where a terminal is narrow, and take [gcp] for a style)
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=_examples(
        "ldp plan new plan.toml -c os=ios,android,web -c crashed=false,true -e 2",
        "ldp perturb people.parquet reports.parquet --plan plan.toml",
        "ldp estimate reports.parquet",
    )
    + "\n\nThe exit code is 0 if the command succeeded, 1 if it failed, 2 if its line is wrong.",
)
plans = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Write, check and explain plans: what one record reveals.",
)
app.add_typer(plans, name="plan", rich_help_panel=_BEFORE)


def _version(asked: bool) -> None:
    if asked:
        say(version_of("ldp-telemetry"))
        raise typer.Exit


@app.callback()
def ldp(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Local differential privacy: private reports in, debiased estimates with error bars out."""


def _add(kind: str | None, command: Callable[..., None], *examples: str, name: str = "", **options: Any) -> None:
    """A command of this kind; None: of plans."""
    how = {"epilog": _examples(*examples), "no_args_is_help": True, "rich_help_panel": kind, **options}
    (plans if kind is None else app).command(name or command.__name__, **how)(command)


_add(None, planning.new, "ldp plan new plan.toml -c os=ios,android,web -c minutes=0:60 -e 2 --keep day")
_add(None, planning.check, "ldp plan check plan.toml", "ldp plan check plan.toml people.parquet")
_add(None, planning.compile_plan, "ldp plan compile plan.toml > plan.json", name="compile")
_add(
    None,
    planning.explain,
    "ldp plan explain plan.toml --people 10000 --records 25",
    "ldp plan explain plan.toml --data people.parquet --id user",
)
_add(
    _BEFORE,
    planning.recommend,
    "ldp recommend ios,android,web --epsilon 1 --people 100000",
    "ldp recommend 0:60 --epsilon 1 --people 100000",
)
_add(
    _BEFORE,
    planning.size,
    "ldp size 16 --margin 1% --epsilon 1 --simultaneous",
    "ldp size 16 --margin 1% --people 50000",
    "ldp size --plan plan.toml --margin os=0.02 --margin minutes=0.5",
    "ldp size 16 --change 1% --base 5% --power 80% --epsilon 1",
)
_add(
    _BEFORE,
    planning.simulate,
    "ldp simulate plan.toml people.parquet",
    "ldp simulate plan.toml --share os=ios:0.6,android:0.4 --people 1000000",
)
app.command("planner", epilog=_examples("ldp planner --open"), rich_help_panel=_BEFORE)(pages.planner)
_add(
    _FILES,
    reports.perturb,
    "ldp perturb people.parquet reports.parquet --plan plan.toml",
    "ldp perturb people.csv out.parquet --plan plan.toml --id user --records 1",
)
_add(
    _FILES,
    estimating.estimate,
    "ldp estimate reports.parquet",
    "ldp estimate reports.parquet --window 7d --event-time day --output weekly",
    "ldp estimate reports.parquet --column os --plot os.svg",
)
_add(
    _FILES,
    reports.compare,
    "ldp compare before.parquet after.parquet",
    "ldp compare reports.parquet --window 7d --event-time day",
    "ldp compare reports.parquet --by country --baseline de --column os",
)
_add(
    _FILES,
    reports.pool,
    "ldp pool old.parquet new.parquet",
    "ldp pool old.parquet new.parquet --window 7d --event-time day --column os",
)
_add(_FILES, pages.report, "ldp report weekly -o weekly.html", "ldp report out --plan plan.toml --open")
_add(_RUNS, jobs.audit, "ldp audit plan.toml", "ldp audit plan.toml --column os --trials 1e7 --json")
_add(
    _RUNS,
    jobs.run,
    "ldp run --demo",
    "ldp run --plan plan.toml --input 'in/*.csv' --event-time time --output out",
    name="run",
    context_settings=jobs.PASSED_ON,
)
_add(
    _RUNS,
    pages.serve,
    "ldp serve --plan plan.toml --output reports",
    "ldp serve --plan plan.toml --output reports --origin https://example.org",
)
app.command(
    "live",
    rich_help_panel=_RUNS,
    epilog=_examples(
        "ldp live --for 60s", "ldp live --plan plan.toml --rate 1e6 --window 10s", "ldp live --engine flink --for 60s"
    ),
)(jobs.live)
app.command("flink", rich_help_panel=_RUNS, context_settings=jobs.PASSED_ON, add_help_option=False)(jobs.flink)

_NEEDS = {
    **dict.fromkeys(("perturb", "estimate", "compare", "pool"), "polars"),
    "audit": "scipy",
    "serve": "starlette",
    **dict.fromkeys(("run", "live"), "apache_beam"),
}
_EXTRAS = {"polars": "polars", "scipy": "audit", "starlette": "serve", "apache_beam": "beam"}


def _lacks(name: str) -> str:
    """What to install before a command runs here."""
    if name in ("live", "flink") and not (Path(__file__).parents[1] / "tests" / "bed").is_dir():
        return "only in a checkout of the source"
    module = _NEEDS.get(name)
    if module is None or find_spec(module) is not None:
        return ""
    return f"not installed: pip install 'ldp-telemetry[{_EXTRAS[module]}]'"


for _command in app.registered_commands:
    if _lack := _lacks(str(_command.name)):
        _about = str(getattr(_command.callback, "__doc__", "")).partition("\n")[0]
        _command.short_help = f"{_about} ({_lack})"
