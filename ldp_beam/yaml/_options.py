"""What the plain values of Beam YAML stand for, as arguments of this package's transforms."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows
from apache_beam.utils.timestamp import Duration

from ldp_core import Mechanism, ParameterError, PlanError, PrivacyPlan, Secret
from ldp_core.engine import seconds

Config = Mapping[str, Any]


def read_plan(plan: Any) -> PrivacyPlan | None:
    """A plan from a path or a mapping.

    Raises:
        PlanError: it cannot be read, or is none.
    """
    if plan is None:
        return None
    if isinstance(plan, Mapping):
        return PrivacyPlan.from_dict(plan)
    if not isinstance(plan, str):
        raise PlanError(f"plan is a path or a mapping, got {type(plan).__name__}")
    text = None
    try:
        with FileSystems.open(plan) as file:
            text = file.read().decode("utf-8")
    except (BeamIOError, OSError, ValueError) as error:
        reason = type(error).__name__
    if text is None:
        raise PlanError(f"cannot read the plan {plan!r}: {reason}")
    return PrivacyPlan.from_toml(text + "\n")


def _read_mechanism(mechanism: Any) -> Mechanism | None:
    if mechanism is not None and not isinstance(mechanism, Mapping):
        raise ParameterError(f"mechanism is a mapping, got {type(mechanism).__name__}")
    return None if mechanism is None else Mechanism.from_dict(mechanism)


def _read_key(key: Any) -> Callable[[], Secret] | None:
    """A function that gets the secret on the worker."""
    if key is None:
        return None
    if not isinstance(key, Mapping) or len(key) != 1 or not isinstance(next(iter(key.values())), str):
        raise ParameterError("key is one of {env: NAME}, {file: PATH}, {function: package.module.name}")
    ((source, where),) = key.items()
    if source in ("env", "file"):
        return partial(Secret.from_env if source == "env" else Secret.from_file, where)
    if source != "function":
        raise ParameterError(f"key is one of env, file and function, got {source!r}")
    module, _, name = where.rpartition(".")
    function: Any = None
    with suppress(ImportError, AttributeError, ValueError):
        function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise ParameterError(f"key: there is no function {where!r} to import")
    return function  # type: ignore[no-any-return]


_WINDOWS: dict[str, tuple[type, tuple[str, ...]]] = {
    "fixed": (FixedWindows, ("size",)),
    "sliding": (SlidingWindows, ("size", "period")),
    "sessions": (Sessions, ("gap",)),
    "global": (GlobalWindows, ()),
}


def _read_window(window: Any) -> Any:
    """Windows by ``{type: ...}``; a length as it is."""
    if not isinstance(window, Mapping):
        return window
    kind = window.get("type")
    if not isinstance(kind, str) or kind not in _WINDOWS:
        raise ParameterError(f"the type of window must be one of {sorted(_WINDOWS)}, got {kind!r}")
    make, needed = _WINDOWS[kind]
    if window.keys() - {"type"} != set(needed):
        raise ParameterError(f"a window of type {kind} has {sorted(needed)}, got {sorted(window.keys() - {'type'})}")
    return make(*(_length(window[name], name) for name in needed))


def _length(value: Any, name: str) -> Duration:
    length = seconds(value, name=name)
    if not length:
        raise ParameterError(f"{name} of a window must be longer than 0 seconds")
    return Duration(micros=round(length * 1e6))


_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def read_columns(columns: Any, required: Any = ()) -> pa.Schema:
    """A schema from ``{NAME: TYPE}``; columns that are required are not nullable."""
    if not isinstance(columns, Mapping) or not columns:
        raise ParameterError("columns is {NAME: TYPE, ...}, one at least")
    wrong = [name for name, kind in columns.items() if not isinstance(name, str) or str(kind) not in _TYPES]
    if wrong:
        raise ParameterError(f"columns {wrong}: the name is text, and the type one of {sorted(_TYPES)}")
    needed = read_names(required)
    if set(needed) - set(columns):
        raise ParameterError(f"required names columns {sorted(set(needed) - set(columns))} that are not in columns")
    return pa.schema([pa.field(name, _TYPES[kind], name not in needed) for name, kind in columns.items()])


def read_names(names: Any) -> tuple[str, ...]:
    """Names of columns."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ParameterError("names of columns are a list of texts")
    return tuple(names)


def _read_accumulation_mode(mode: Any) -> Any:
    modes = {"accumulating": AccumulationMode.ACCUMULATING, "discarding": AccumulationMode.DISCARDING}
    if not isinstance(mode, str) or mode not in modes:
        raise ParameterError(f"accumulation_mode must be one of {sorted(modes)}, got {mode!r}")
    return modes[mode]


def _read_fill(fill: Any) -> tuple[Any, Any] | None:
    if fill is None:
        return None
    if not isinstance(fill, (list, tuple)) or len(fill) != 2:
        raise ParameterError("fill is [start, end]")
    return _time(fill[0]), _time(fill[1])


def _time(time: Any) -> Any:
    if not isinstance(time, str):
        return time
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        raise ParameterError(
            f"fill is seconds, or text in ISO 8601 like '2026-01-01T00:00:00Z', got {time!r}"
        ) from None


def _read_fill_keys(keys: Any) -> list[tuple[str, ...]] | None:
    if keys is None:
        return None
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, (list, tuple)) for key in keys):
        raise ParameterError("fill_keys is a list of lists of texts, one for each name in by")
    return [tuple(key) for key in keys]


def _read_output(error_handling: Any) -> str | None:
    if error_handling is None:
        return None
    if not isinstance(error_handling, Mapping) or set(error_handling) != {"output"}:
        raise ParameterError("error_handling is {output: NAME}, the name of the output with the dead letters")
    return str(error_handling["output"])


def read_flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ParameterError(f"{name} must be true or false, got {value!r}")
    return value


class Reading(NamedTuple):
    """How an option is written in YAML.

    Attributes:
        declared: its type there.
        read: from this to the argument in Python.
        text: how it is described, if not as in Python.
    """

    declared: Any
    read: Callable[[Any], Any]
    text: str = ""


READINGS = {
    "mechanism": Reading(
        Config | None,
        _read_mechanism,
        "that made the reports, or is to: ``{mechanism: unary_encoding, epsilon: 1.0, domain: [...]}``.",
    ),
    "plan": Reading(
        str | Config,
        read_plan,
        "the path of a plan in TOML, on any file system that Beam knows; or the plan itself, as "
        "``{keep: [...], columns: {NAME: {mechanism: ..., epsilon: ..., domain: [...]}}}``.",
    ),
    "question": Reading(
        str | Config | None,
        lambda question: question,
        "the name of a question, as ``mean``; or the name and its options, ``{question: NAME, OPTION: VALUE, ...}``. "
        "Default: what tells the most about the mechanism's reports.",
    ),
    "key": Reading(
        Config | None,
        _read_key,
        "where the worker gets the secret, of keyed noise or to hash ids with: ``{env: NAME}``, ``{file: PATH}``, or "
        "``{function: package.module.name}``, which returns a `Secret`. Never the secret itself.",
    ),
    "window": Reading(
        str | float | Config | None,
        _read_window,
        "the length of fixed windows, as ``1h`` or in seconds; or ``{type: fixed, size: ...}``, ``{type: sliding, "
        "size: ..., period: ...}``, ``{type: sessions, gap: ...}`` or ``{type: global}``. None: the windows that the "
        "rows are in.",
    ),
    "within": Reading(str | float | Config, _read_window),
    "by": Reading(Sequence[str], lambda by: (by,) if isinstance(by, str) else read_names(by)),
    "accumulation_mode": Reading(str, _read_accumulation_mode, "``accumulating`` or ``discarding``."),
    "fill": Reading(
        Sequence[Any] | None,
        _read_fill,
        "``[start, end]``, in seconds or as quoted text in ISO 8601 with a zone, for rows of empty windows; the end "
        "may be null.",
    ),
    "fill_keys": Reading(Sequence[Sequence[str]] | None, _read_fill_keys),
    "budget": Reading(float | str, lambda budget: budget),
    "error_handling": Reading(Config | None, _read_output),
}
