"""What the plain values of Beam YAML stand for, as arguments of this package's transforms."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows
from apache_beam.utils.timestamp import Duration

from ldp_beam.time.windows import WindowLike
from ldp_core import Mechanism, ParameterError, PlanError, PrivacyPlan, Secret
from ldp_core.windows import seconds


def read_plan(plan: Any) -> PrivacyPlan:
    """A plan from a path or a mapping.

    Raises:
        PlanError: it cannot be read, or is none.
    """
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


def read_mechanism(column: str, mechanism: Any, plan: Any) -> Mechanism:
    """The mechanism of a column: from a mapping, or of the plan."""
    if (mechanism is None) == (plan is None):
        raise ParameterError("give either a mechanism or a plan")
    if plan is not None:
        return read_plan(plan)[column]
    if not isinstance(mechanism, Mapping):
        raise ParameterError(f"mechanism is a mapping, got {type(mechanism).__name__}")
    return Mechanism.from_dict(mechanism)


def read_key(key: Any) -> Callable[[], Secret] | None:
    """A function that gets the secret on the worker."""
    if key is None:
        return None
    if not isinstance(key, Mapping) or len(key) != 1 or not isinstance(next(iter(key.values())), str):
        raise ParameterError("key is one of {env: NAME}, {file: PATH}, {function: package.module.name}")
    ((source, where),) = key.items()
    if source == "env":
        return partial(Secret.from_env, where)
    if source == "file":
        return partial(Secret.from_file, where)
    if source != "function":
        raise ParameterError(f"key is one of env, file and function, got {source!r}")
    module, _, name = where.rpartition(".")
    function = None
    with suppress(ImportError, AttributeError, ValueError):
        function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise ParameterError(f"key: there is no function {where!r} to import")
    return typing.cast(Callable[[], Secret], function)


def read_window(window: Any) -> WindowLike:
    """Windows by ``{type: ...}``; a length as it is."""
    if not isinstance(window, Mapping):
        return typing.cast(WindowLike, window)
    lengths = {name: _length(value, name) for name, value in window.items() if name != "type"}
    types: dict[str, tuple[type, set[str]]] = {
        "fixed": (FixedWindows, {"size"}),
        "sliding": (SlidingWindows, {"size", "period"}),
        "sessions": (Sessions, {"gap"}),
        "global": (GlobalWindows, set()),
    }
    if not isinstance(window.get("type"), str) or window["type"] not in types:
        raise ParameterError(f"the type of window must be one of {sorted(types)}, got {window.get('type')!r}")
    make, needed = types[window["type"]]
    if set(lengths) != needed:
        raise ParameterError(f"a window of type {window['type']} has {sorted(needed)}, got {sorted(lengths)}")
    return typing.cast(WindowLike, make(*(lengths[name] for name in ("size", "period", "gap") if name in needed)))


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


def read_names(names: Any) -> list[str]:
    """Names of columns."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ParameterError("names of columns are a list of texts")
    return list(names)


def read_by(by: Any) -> tuple[str, ...]:
    """Names of columns."""
    if not isinstance(by, (str, list, tuple)):
        raise ParameterError(f"by is a list of columns, got {type(by).__name__}")
    return (by,) if isinstance(by, str) else tuple(by)


def read_accumulation_mode(mode: Any) -> Any:
    """Beam's ``AccumulationMode``."""
    modes = {"accumulating": AccumulationMode.ACCUMULATING, "discarding": AccumulationMode.DISCARDING}
    if not isinstance(mode, str) or mode not in modes:
        raise ParameterError(f"accumulation_mode must be one of {sorted(modes)}, got {mode!r}")
    return modes[mode]


def read_fill(fill: Any) -> tuple[Any, Any] | None:
    """Start and end."""
    if fill is None:
        return None
    if not isinstance(fill, (list, tuple)) or len(fill) != 2:
        raise ParameterError("fill is [start, end]")
    return _time(fill[0]), None if fill[1] is None else _time(fill[1])


def _time(time: Any) -> Any:
    if not isinstance(time, str):
        return time
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        raise ParameterError(
            f"fill is seconds, or text in ISO 8601 like '2026-01-01T00:00:00Z', got {time!r}"
        ) from None


def read_fill_keys(keys: Any) -> list[tuple[str, ...]] | None:
    """Keys as tuples."""
    if keys is None:
        return None
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, (list, tuple)) for key in keys):
        raise ParameterError("fill_keys is a list of lists of texts, one for each name in by")
    return [tuple(key) for key in keys]


def read_output(error_handling: Any) -> str | None:
    """Name of the output of dead letters."""
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
