"""What the plain values of Beam YAML stand for, as arguments of this package's transforms."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from functools import partial
from typing import Any, NamedTuple

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.trigger import AfterCount, AfterProcessingTime, AfterWatermark, TriggerFn
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows
from apache_beam.utils.timestamp import Duration, Timestamp

from ldp_core import Mechanism, ParameterError, PlanError, PrivacyPlan, Secret
from ldp_core.engine import Window, seconds


def _plan(plan: Any) -> PrivacyPlan:
    if isinstance(plan, Mapping):
        return PrivacyPlan.from_dict(plan)
    if not isinstance(plan, str):
        raise PlanError(f"plan is a path or a mapping, got {type(plan).__name__}")
    try:
        with FileSystems.open(plan) as file:
            text = file.read().decode("utf-8")
    except (BeamIOError, OSError, ValueError) as error:
        raise PlanError(f"cannot read the plan {plan!r}: {type(error).__name__}") from None
    return PrivacyPlan.from_toml(text + "\n")


def _key(key: Any) -> Callable[[], Secret]:
    source, where = next(iter(key.items())) if isinstance(key, Mapping) and len(key) == 1 else (None, None)
    if source not in ("env", "file", "function") or not isinstance(where, str):
        raise ParameterError("key is one of {env: NAME}, {file: PATH}, {function: package.module.name}")
    if source != "function":
        return partial(Secret.from_env if source == "env" else Secret.from_file, where)
    module, _, name = where.rpartition(".")
    function: Any = None
    with suppress(ImportError, AttributeError, ValueError, TypeError):
        function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise ParameterError(f"key: there is no function {where!r} to import")
    return function


_WINDOWS: dict[Any, tuple[type, set[str]]] = {
    "fixed": (FixedWindows, {"size"}),
    "sliding": (SlidingWindows, {"size", "period"}),
    "sessions": (Sessions, {"gap"}),
    "global": (GlobalWindows, set()),
}


def _window(window: Any) -> Any:
    """Windows by ``{type: ...}``; a length as it is."""
    if not isinstance(window, Mapping):
        return window
    kind = str(window.get("type"))
    if kind not in _WINDOWS:
        raise ParameterError(f"the type of window must be one of {sorted(_WINDOWS)}, got {kind}")
    make, needed = _WINDOWS[kind]
    if (given := window.keys() - {"type"}) != needed:
        raise ParameterError(f"a window of type {kind} has {sorted(needed)}, got {sorted(map(str, given))}")
    if kind == "fixed" and window["size"] is not None:
        return window["size"]
    lengths = {name: Duration(micros=round(seconds(window[name], name=name) * 1e6)) for name in needed}
    if not all(length.micros for length in lengths.values()):
        raise ParameterError(f"{sorted(needed)} of a window must be longer than 0 seconds")
    begin = {"offset": Timestamp(micros=Window.of(window["period"]).offset)} if kind == "sliding" else {}
    return make(**{"gap_size" if name == "gap" else name: length for name, length in lengths.items()}, **begin)


def _trigger(trigger: Any) -> TriggerFn:
    """Panes before a window ends, and after."""
    if not isinstance(trigger, Mapping) or not trigger or trigger.keys() - {"early", "late"}:
        raise ParameterError("trigger is {early: ..., late: ...} or one of both, each a length as 1m, or the word each")
    found = {
        name: AfterCount(1) if after == "each" else AfterProcessingTime(_whole_seconds(after, name))
        for name, after in trigger.items()
    }
    return AfterWatermark(**{"late": AfterCount(1), **found})


def _whole_seconds(length: Any, name: str) -> int:
    """All that Beam's trigger can wait."""
    found = seconds(length, name=name)
    if found < 1 or found % 1:
        raise ParameterError(f"{name} of a trigger is a whole number of seconds, or the word each, got {length!r}")
    return int(found)


def _fill(fill: Any) -> Any:
    """Times as they are: Beam writes options as JSON, which has none."""
    if isinstance(fill, (list, tuple)) and any(isinstance(time, date) for time in fill):
        raise ParameterError("the times of fill are in quotes: ['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z']")
    return fill


def _output(error_handling: Any) -> str:
    name = error_handling.get("output") if isinstance(error_handling, Mapping) and len(error_handling) == 1 else None
    if not isinstance(name, str) or not name:
        raise ParameterError("error_handling is {output: NAME}, the name of the output with the dead letters")
    return name


class Reading(NamedTuple):
    """How an option is described, and from how it is written in YAML to the argument in Python."""

    text: str
    read: Callable[[Any], Any] = lambda value: value


_LENGTH = Reading(
    "the length of fixed windows, as ``1h`` or in seconds; or ``{type: fixed, size: ...}``, ``{type: sliding, "
    "size: ..., period: ...}``, ``{type: sessions, gap: ...}`` or ``{type: global}``. None: the windows that the rows "
    "are in.",
    _window,
)
READINGS = {
    "mechanism": Reading(
        "that made the reports, or is to: ``{mechanism: unary_encoding, epsilon: 1.0, domain: [...]}``.",
        Mechanism.from_dict,
    ),
    "plan": Reading(
        "the path of a plan in TOML, on any file system that Beam knows; or the plan itself, as "
        "``{keep: [...], columns: {NAME: {mechanism: ..., epsilon: ..., domain: [...]}}}``.",
        _plan,
    ),
    "ask": Reading(
        "the name of a question, as ``mean``; or the name and its options, ``{question: NAME, OPTION: VALUE, ...}``. "
        "Default: what tells the most about the mechanism's reports."
    ),
    "key": Reading(
        "where the worker gets the secret, of keyed noise or to hash ids with: ``{env: NAME}``, ``{file: PATH}``, or "
        "``{function: package.module.name}``, which returns a `Secret`. Never the secret itself.",
        _key,
    ),
    "window": _LENGTH,
    "within": _LENGTH,
    "trigger": Reading(
        "when a window has rows besides those of its end: ``{early: 1m}`` a minute after the first new records, until "
        "it ends; ``{late: 1m}`` a minute after late ones; ``each`` in place of a length: with each batch. By default "
        "none before its end, and then with each late batch.",
        _trigger,
    ),
    "fill": Reading(
        "two times in quotes, ``['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z']``, or in seconds since the epoch: "
        "windows that begin between them have rows even if no report is in them. In a stream the second may be null.",
        _fill,
    ),
    "error_handling": Reading("``{output: NAME}``: unusable rows are counted there as `DeadLetter` rows.", _output),
}
