"""The options of the transforms for Beam YAML, in groups, each described once.

A group is a function: its parameters are options, with the types that Beam YAML shows, its docstring says what they
are, and it turns plain values into the arguments of this package's transforms. A transform names its groups;
`signature` and `description` are what Beam YAML reads of them.
"""

# Beam YAML describes a transform's arguments from their annotations, which therefore must be no strings:
# no ``from __future__ import annotations`` here.

import importlib
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows
from apache_beam.utils.timestamp import Duration

from ldp_beam.elements.windows import WindowLike, seconds
from ldp_core import Mechanism, ParameterError, PlanError, PrivacyPlan, Secret
from ldp_core.parameters import check_open

Config = Mapping[str, Any]
Group = Callable[..., dict[str, Any]]


# ---- groups


def perturbing(*, plan: str | Config, packed: bool = True, stabilize: bool = True) -> dict[str, Any]:
    """What is perturbed, and how.

    plan: the path of a plan in TOML, on any file system that Beam knows; or the plan itself, as
        ``{keep: [...], columns: {NAME: {mechanism: ..., epsilon: ..., domain: [...]}}}``.
    packed: bit vectors as words rather than as Booleans.
    stabilize: see `Perturb`.
    """
    _flags(packed=packed, stabilize=stabilize)
    return {"plan": read_plan(plan), "packed": packed, "stabilize": stabilize}


def column_and_mechanism(
    *, column: str, mechanism: Config | None = None, plan: str | Config | None = None
) -> dict[str, Any]:
    """What is estimated.

    column: of the reports, as `LdpPerturb` makes them; of a transform that perturbs, of the raw values.
    mechanism: that made them, or is to: ``{mechanism: unary_encoding, epsilon: 1.0, domain: [...]}``.
    plan: or the plan, as for `LdpPerturb`, that has the column's mechanism.
    """
    if (mechanism is None) == (plan is None):
        raise ParameterError("give either a mechanism or a plan")
    if plan is not None:
        return {"column": column, "mechanism": read_plan(plan)[column]}
    if not isinstance(mechanism, Mapping):
        raise ParameterError(f"mechanism is a mapping, got {type(mechanism).__name__}")
    return {"column": column, "mechanism": Mechanism.from_dict(mechanism)}


def windows_and_keys(
    *,
    window: str | float | Config | None = None,
    event_time: str | None = None,
    by: Sequence[str] = (),
    allowed_lateness: str | float = 0,
    accumulation_mode: str = "accumulating",
    fill: Sequence[Any] | None = None,
    fill_keys: Sequence[Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Of what there is an estimate each.

    window: the length of fixed windows, as ``1h`` or in seconds; or ``{type: fixed, size: ...}``,
        ``{type: sliding, size: ..., period: ...}``, ``{type: sessions, gap: ...}`` or ``{type: global}``. None: the
        windows that the rows are in.
    event_time: column of the rows' times: times, or seconds since the epoch. None: the rows' timestamps.
    by: columns to tally by.
    allowed_lateness: as ``10m`` or in seconds.
    accumulation_mode: ``accumulating`` or ``discarding``.
    fill: ``[start, end]``, in seconds or as quoted text in ISO 8601 with a zone, for rows of empty windows; the end
        may be null.
    fill_keys: with ``fill`` and ``by``: which keys to fill.
    """
    modes = {"accumulating": AccumulationMode.ACCUMULATING, "discarding": AccumulationMode.DISCARDING}
    if not isinstance(accumulation_mode, str) or accumulation_mode not in modes:
        raise ParameterError(f"accumulation_mode must be one of {sorted(modes)}, got {accumulation_mode!r}")
    if not isinstance(by, (str, list, tuple)):
        raise ParameterError(f"by is a list of columns, got {type(by).__name__}")
    return {
        "window": _window(window),
        "event_time": event_time,
        "by": by,
        "allowed_lateness": allowed_lateness,
        "accumulation_mode": None if window is None else modes[accumulation_mode],
        "fill": _fill(fill),
        "fill_keys": _fill_keys(fill_keys),
    }


def intervals(*, confidence: float = 0.95) -> dict[str, Any]:
    """How sure the estimates are.

    confidence: of the intervals.
    """
    return {"confidence": check_open("confidence", confidence)}


def all_values(*, simultaneous: bool = False, consistency: str | None = None) -> dict[str, Any]:
    """What holds for the values of a histogram together.

    simultaneous: whether the intervals hold for all values together.
    consistency: make counts consistent by this method, as ``norm-sub``; biased, and off by default.
    """
    _flags(simultaneous=simultaneous)
    return {"simultaneous": simultaneous, "consistency": consistency}


def search(*, k: int, threshold: float | None = None) -> dict[str, Any]:
    """What counts as a heavy hitter.

    k: the most values to return.
    threshold: the least estimated count of what is returned. Default: so much that, with ``confidence``, no value is
        that nobody has.
    """
    return {"k": k, "threshold": threshold}


def square_wave(*, buckets: int | None = None, method: str | None = None) -> dict[str, Any]:
    """How the distribution of a ``square_wave`` is estimated.

    buckets: of the result; by default as many as the mechanism has.
    method: ``ems``, which smooths and is the default, or ``em``.
    """
    return {"buckets": buckets, "method": method}


def keyed(*, secret: Config | None = None, id: str | None = None) -> dict[str, Any]:  # noqa: A002 (as in Perturb)
    """Noise that stays the same.

    secret: for keyed noise, with ``id``: where the worker gets the secret: ``{env: NAME}``, ``{file: PATH}``, or
        ``{function: package.module.name}``, which returns a `Secret`. Never the secret itself.
    id: the column that says whose row it is.
    """
    return {"key": _secret(secret), "id": id}


def persons(
    *,
    id: str,  # noqa: A002 (as in Perturb)
    event_time: str | None = None,
    drop_id: bool = True,
    shards: int = 16,
    secret: Config | None = None,
    allowed_lateness: str | float = 0,
) -> dict[str, Any]:
    """Whose rows are counted, and how.

    id: the column that says whose row it is; of `LdpDeduplicate`, which row.
    event_time: column of the rows' times: times, or seconds since the epoch. None: the rows' timestamps.
    drop_id: whether the id goes no further. Keep it for keyed noise or a further limit.
    shards: number of pieces that the ids of a window are spread over, and so of workers that can share them.
    secret: to hash ids with, as ``{env: NAME}``, ``{file: PATH}`` or ``{function: package.module.name}``.
    allowed_lateness: as ``10m`` or in seconds: how long a window's counts are kept after its end.
    """
    _flags(drop_id=drop_id)
    return {
        "id": id,
        "event_time": event_time,
        "drop_id": drop_id,
        "shards": shards,
        "key": _secret(secret),
        "allowed_lateness": allowed_lateness,
    }


def contributions(*, per_window: int, window: str | float | Config | None = None) -> dict[str, Any]:
    """How many rows of a person pass.

    per_window: at least 1.
    window: the length of fixed windows, as ``1d`` or in seconds, or ``{type: global}``, for ever. None: the windows
        that the rows are in.
    """
    return {"per_window": per_window, "window": _window(window)}


def duplicates(*, within: str | float | Config) -> dict[str, Any]:
    """What is a duplicate.

    within: rows of one id in one such window are; as ``window`` of `LdpBoundContributions`.
    """
    return {"within": _window(within)}


def budget(*, plan: str | Config, budget: float | str, per: str | float | None = None) -> dict[str, Any]:
    """What a person may spend.

    plan: that perturbs the rows; see `LdpPerturb`.
    budget: total epsilon of a person and period, exactly: a number, or text as ``3/10``.
    per: length of the period, as ``30d`` or in seconds. None: for ever.
    """
    return {"plan_or_epsilon": read_plan(plan), "budget": budget, "per": per}


def dead_letters(*, error_handling: Config | None = None) -> dict[str, Any]:
    """What becomes of unusable rows.

    error_handling: ``{output: NAME}``: unusable rows are counted there as `DeadLetter` rows.
    """
    if error_handling is None:
        return {"errors": None}
    if not isinstance(error_handling, Mapping) or set(error_handling) != {"output"}:
        raise ParameterError("error_handling is {output: NAME}, the name of the output with the dead letters")
    return {"errors": str(error_handling["output"])}


# ---- what is done with groups


def signature(groups: Sequence[Group]) -> inspect.Signature:
    """All options of the groups, required ones first.

    >>> signature([intervals, search])
    <Signature (*, k: int, confidence: float = 0.95, threshold: float | None = None)>
    """
    options = [option for group in groups for option in inspect.signature(group).parameters.values()]
    return inspect.Signature(sorted(options, key=lambda option: option.default is not option.empty))


def description(groups: Sequence[Group]) -> str:
    """The section ``Args:`` of a docstring, from those of the groups."""
    sections = (inspect.cleandoc(group.__doc__ or "").partition("\n\n")[2] for group in groups)
    return "Args:\n" + "\n".join(f"    {line}" for section in sections for line in section.splitlines())


def arguments(groups: Sequence[Group], given: Config) -> dict[str, Any]:
    """What the groups make of the options given.

    Raises:
        ParameterError: an option is unknown, missing or bad.
    """
    known = signature(groups).parameters
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise ParameterError(f"there are no options {unknown}; there are {sorted(known)}")
    missing = [name for name, option in known.items() if option.default is option.empty and name not in given]
    if missing:
        raise ParameterError(f"options {missing} are missing")
    made: dict[str, Any] = {}
    for group in groups:
        made |= group(**{name: given[name] for name in inspect.signature(group).parameters if name in given})
    return made


# ---- values


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


def _secret(secret: Any) -> Callable[[], Secret] | None:
    if secret is None:
        return None
    if not isinstance(secret, Mapping) or len(secret) != 1 or not isinstance(next(iter(secret.values())), str):
        raise ParameterError("secret is one of {env: NAME}, {file: PATH}, {function: package.module.name}")
    ((kind, where),) = secret.items()
    if kind == "env":
        return partial(Secret.from_env, where)
    if kind == "file":
        return partial(Secret.from_file, where)
    if kind != "function":
        raise ParameterError(f"secret is one of env, file and function, got {kind!r}")
    module, _, name = where.rpartition(".")
    function = None
    with suppress(ImportError, AttributeError, ValueError):
        function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise ParameterError(f"secret: there is no function {where!r} to import")
    return typing.cast(Callable[[], Secret], function)


def _window(window: Any) -> WindowLike:
    if not isinstance(window, Mapping):
        return typing.cast(WindowLike, window)
    lengths = {name: _length(value, name) for name, value in window.items() if name != "type"}
    kinds: dict[str, tuple[type, set[str]]] = {
        "fixed": (FixedWindows, {"size"}),
        "sliding": (SlidingWindows, {"size", "period"}),
        "sessions": (Sessions, {"gap"}),
        "global": (GlobalWindows, set()),
    }
    if not isinstance(window.get("type"), str) or window["type"] not in kinds:
        raise ParameterError(f"the type of window must be one of {sorted(kinds)}, got {window.get('type')!r}")
    kind, needed = kinds[window["type"]]
    if set(lengths) != needed:
        raise ParameterError(f"a window of type {window['type']} has {sorted(needed)}, got {sorted(lengths)}")
    return typing.cast(WindowLike, kind(*(lengths[name] for name in ("size", "period", "gap") if name in needed)))


def _length(value: Any, name: str) -> Duration:
    length = seconds(value, name=name)
    if not length:
        raise ParameterError(f"{name} of a window must be longer than 0 seconds")
    return Duration(micros=round(length * 1e6))


def _fill(fill: Any) -> tuple[Any, Any] | None:
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


def _fill_keys(keys: Any) -> list[tuple[str, ...]] | None:
    if keys is None:
        return None
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, (list, tuple)) for key in keys):
        raise ParameterError("fill_keys is a list of lists of texts, one for each name in by")
    return [tuple(key) for key in keys]


def _flags(**flags: Any) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ParameterError(f"{name} must be true or false, got {value!r}")
