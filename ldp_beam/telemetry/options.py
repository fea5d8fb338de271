"""What can be asked of the telemetry job: each option is declared here, and nowhere else. It needs no Beam.

From these declarations follow the parser of ``python -m ldp_beam.telemetry`` and the options of ``ldp run`` and
``ldp live``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ldp_core import ParameterError

TimeUnit = Literal["s", "ms", "us", "ns"]
_T = TypeVar("_T")


def _option(default: _T, text: str, *, metavar: str | None = None, flag: str | None = None) -> _T:
    """A field that is an option, with the line that its help has."""
    about = {"help": text, "metavar": metavar, "flag": flag}
    return dataclasses.field(default=default, metadata=about)


_LENGTH = (
    'The length of the windows, as "30d", "1w", "1h", "15m", "5s". They begin at multiples of it since 1970-01-01 in '
    'UTC, a Thursday: those of 7d on Thursdays, those of 1w on Mondays, those of "1w+6d" 6 days later, on Sundays.'
)


@dataclass(frozen=True, kw_only=True)
class _Estimates:
    plan: str | None = _option(None, "The privacy plan, a TOML file.", metavar="FILE")
    confidence: float = _option(0.95, "The confidence of the intervals.", metavar="SHARE")
    simultaneous: bool = _option(False, "The intervals of all values of a column hold together.")


@dataclass(frozen=True, kw_only=True)
class FileOptions(_Estimates):
    """Perturb events at ingestion; print and write unbiased estimates, with error bars."""

    demo: bool = _option(False, "Run on 336,776 real flights, and compare with the truth.")
    input: tuple[str, ...] = _option(
        (), "The files of events: .parquet, .csv or .ndjson. Patterns are allowed.", metavar="PATTERN"
    )
    event_time: str | None = _option(None, "The column that has the time of the event.", metavar="COLUMN")
    time_unit: TimeUnit = _option("s", "The unit of event times that are numbers, counted since 1970-01-01 in UTC.")
    window: str = _option("1d", _LENGTH, metavar="LENGTH")
    output: str | None = _option(
        None,
        "The folder for estimates (.parquet, .ndjson), dead letters (.ndjson) and the plan (results.json).",
        metavar="DIR",
    )
    overwrite: bool = _option(False, "Delete the results of an earlier run in --output.")
    max_dead: float = _option(
        0.1, "End with exit code 1 if more than this share of the records, 0 to 1, cannot be used.", metavar="SHARE"
    )
    by: tuple[str, ...] = _option((), "Split the estimates by this column, which is not protected.", metavar="COLUMN")
    reports: bool = _option(False, "Write the private reports too, as Parquet.")
    secret_file: str | None = _option(
        None, "With --id: the noise is keyed by the hexadecimal digits in this file.", metavar="FILE"
    )
    secret_env: str | None = _option(None, "The same, by the digits in this environment variable.", metavar="NAME")
    id: str | None = _option(
        None, "The column that says whose record it is. It is passed on only if the plan keeps it.", metavar="COLUMN"
    )
    record: str | None = _option(
        None, "A replay draws the same noise again. This column has an id of each record.", metavar="COLUMN"
    )
    by_place: bool = _option(False, "The same, by the place of each record in its file.")
    ask: tuple[str, ...] = _option(
        (), "What to ask of a column: age=mean, age=distribution:buckets=10.", metavar="NAME=QUESTION"
    )
    repeats: int | None = _option(
        None, "The most records of one person in a window. Keyed noise needs it.", metavar="K"
    )
    heavy_hitters: int = _option(20, "Find so many values of heavy hitters in each window.", metavar="K")
    top: int = _option(4, "Print so many values of a column.", metavar="N")
    beam: tuple[str, ...] = ()  # words of Beam's own

    def __post_init__(self) -> None:
        self._check_words()
        for name in ("heavy_hitters", "top"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{_flag(name)} must be at least 1, got {getattr(self, name)}")
        if self.demo:
            others = [f for f in dataclasses.fields(self) if f.name not in _OF_DEMO]
            given = [_flag(f.name) for f in others if getattr(self, f.name) != f.default]
            if given:
                raise ParameterError(f"--demo has its own events, windows and questions: it does not take {given}")
            return
        needed = {"--plan": self.plan, "--input": self.input, "--event-time": self.event_time, "--output": self.output}
        missing = [flag for flag, value in needed.items() if not value]
        if missing:
            raise ParameterError(f"the following options are required without --demo: {', '.join(missing)}")
        for one, other in (("secret_file", "secret_env"), ("record", "by_place")):
            if getattr(self, one) and getattr(self, other):
                raise ParameterError(f"{_flag(one)} is not allowed with {_flag(other)}: they say the same twice")

    def _check_words(self) -> None:
        """Refuse a secret, and what looks like a misspelt option: Beam ignores what it does not have."""
        ours, live = ([declared.flag for declared in declarations(kind)] for kind in (FileOptions, LiveOptions))
        before = ""
        for word in self.beam:
            name = word.partition("=")[0]
            if name in ("--secret", "--key"):
                raise ParameterError("a secret on the command line is known to all: use --secret-file or --secret-env")
            if name in live:
                raise ParameterError(f"{name} is for --live")
            near = get_close_matches(name, ours, 1, 0.8) if name.startswith("--") else []
            if near:
                raise ParameterError(f"there is no option {name}: did you mean {near[0]}?")
            if not name.startswith("-") and not (before.startswith("--") and "=" not in before):
                raise ParameterError(
                    "there is a word that no option takes: quote patterns, give --by and --input again"
                )
            before = word


_OF_DEMO = ("demo", "plan", "output", "overwrite", "max_dead", "reports", "top", "beam")
"""The options that the demonstration takes."""


@dataclass(frozen=True, kw_only=True)
class LiveOptions(_Estimates):
    """Stream reports of simulated devices, and show each window as it closes, until Ctrl-C."""

    window: str = _option("5s", _LENGTH, metavar="LENGTH")
    engine: Literal["local", "flink"] = _option(
        "local",
        "What runs it. local: Pub/Sub and Beam's local runner, in this process; it needs ldp-telemetry[gcp]. flink: "
        "Kafka and Flink, started and stopped with it; it needs ldp-telemetry[kafka], Java, and Maven the first time.",
    )
    duration: str | None = _option(
        None, 'How long it runs, as "60s", "10m". Without it there is no end.', metavar="LENGTH", flag="--for"
    )
    rate: str = _option("20000", 'How many reports come in a second, or "max" for all that it takes.', metavar="N")
    devices: int = _option(100_000, "How many devices report.", metavar="N")
    page: bool = _option(False, "Show the windows on a page too, for browsers on this machine only.")
    port: int = _option(0, "The port of the page. 0 takes a free one.", metavar="PORT")
    epsilon: float | None = _option(
        None,
        "The epsilon of one report, without --plan: half for each of two columns. It is 2 if you do not say it.",
        metavar="E",
    )

    def __post_init__(self) -> None:
        if self.plan and self.epsilon is not None:
            raise ParameterError("give --epsilon or --plan: a plan has its own epsilons")
        if self.port and not self.page:
            raise ParameterError("--port is of a page: give --page too")


@dataclass(frozen=True)
class Declared:
    """An option: its field, what is written on the line, and its type, of which there may be many."""

    name: str
    flag: str
    kind: Any
    many: bool
    default: Any
    help: str
    metavar: str | None


def declarations(options: type[Any]) -> Iterator[Declared]:
    """The options of `FileOptions` or `LiveOptions`, in the order of their help."""
    types = get_type_hints(options)
    for field in dataclasses.fields(options):
        if field.metadata:
            kind, many = types[field.name], False
            if get_origin(kind) is tuple:
                kind, many = get_args(kind)[0], True
            elif get_origin(kind) is not Literal and get_args(kind):  # or None
                kind = get_args(kind)[0]
            flag = field.metadata["flag"] or _flag(field.name)
            about = field.metadata["help"], field.metadata["metavar"]
            yield Declared(field.name, flag, kind, many, field.default, *about)


def made(options: type[_T], given: Mapping[str, Any], beam: Sequence[str] = ()) -> _T:
    """The options of these fields, and the words that are for Beam."""
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return options(**fields, **({"beam": tuple(beam)} if beam else {}))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
