"""Declared parameters: a frozen dataclass says once how each field is checked, and every refusal is worded here.

    @dataclass(frozen=True, init=False)
    class Example(Declared):
        domain: Domain = converted(Domain.of)
        k: int = parameter(check_integer, low=1, high=lambda self: self.domain.size)

        def __init__(self, domain: Domain | Iterable[Label], *, k: int = 1) -> None:
            self._declare(domain=domain, k=k)

The constructor is written out, because its signature is what type checkers, editors and `help` show. Each ``check_...``
raises `ParameterError` for what it does not return.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import MISSING, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from ldp_core.errors import ParameterError

T = TypeVar("T")


class Declared:
    """Base of value objects. `_declare` is the only way to set a field."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable")

    def _declare(self, **values: Any) -> None:
        """Set fields, in this order: each checked and converted as its declaration says."""
        declarations: dict[str, Any] = getattr(self, "__dataclass_fields__", {})
        for name, value in values.items():
            declared = declarations.get(name)
            if value is None and declared is not None and isinstance(declared.default, cached_property):
                continue  # who asks for it finds it
            metadata = {} if declared is None else declared.metadata
            check = metadata.get("check")
            if check is not None:
                bounds = {key: b(self) if callable(b) else b for key, b in metadata["bounds"].items()}
                value = check(name, value, **bounds)  # noqa: PLW2901 (it is what the field keeps)
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Fields as they are: a pickle is a program's own, so that what has been checked once is not checked again."""
        kind = type(self)
        return restored, (kind, {k: v for k, v in vars(self).items() if not _is_cached(kind, k)})

    @classmethod
    def _made(cls, **values: Any) -> Self:
        """An object with these fields, for constructors other than ``__init__``."""
        self = cls.__new__(cls)
        self._declare(**values)
        return self

    def _parameters(self) -> dict[str, Any]:
        """The declared parameters by name, in the order in which the constructor takes them."""
        ordered = sorted(fields(self), key=lambda f: f.kw_only is True)  # type: ignore[arg-type]
        return {f.name: getattr(self, f.name) for f in ordered if "check" in f.metadata}


def _is_cached(kind: type, name: str) -> bool:
    """Whether an attribute is found from the fields, and is none of them."""
    declared = getattr(kind, "__dataclass_fields__", {})
    return name not in declared and isinstance(getattr(kind, name, None), cached_property)


def restored(kind: type[T], values: dict[str, Any]) -> T:
    """Inverse of `Declared.__reduce__`."""
    made = kind.__new__(kind)
    made.__dict__.update(values)
    return made


def parameter(check: Callable[..., Any] | None = None, *, default: Any = MISSING, **bounds: Any) -> Any:
    """A field that keeps ``check(name, value, **bounds)``; a bound may be a function of the object so far.

    ``default`` is what objects have that another constructor has made without it. If it is a ``cached_property``, an
    object that is given None finds it when it is asked for.
    """
    return field(default=default, metadata={"check": check, "bounds": bounds})


def converted(convert: Callable[[Any], Any]) -> Any:
    """A field that keeps ``convert(value)``, which words its own errors."""
    return field(metadata={"check": lambda _, value: convert(value), "bounds": {}})


def derived(default: Any = MISSING) -> Any:
    """A field that is no parameter: the constructor finds it from the others, or who asks for it, as of `parameter`."""
    return field(default=default)


def shown(value: object) -> str:
    """A parameter in an error: a number, a word or None as it is; of anything else the type, as it may be data."""
    known = isinstance(value, (int, float, str, np.generic, Fraction, type(None)))
    return repr(value) if known else type(value).__name__


def _number(name: str, value: Any, interval: str) -> float:
    """``value`` as a float, if it is one number."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, (bool, np.bool_, str, bytes)) and np.ndim(value) == 0:
            return float(value)
    raise ParameterError(f"{name} must be a number in {interval}, got {type(value).__name__}")


def check_epsilon(name: str, value: float, below: tuple[str, float] | None = None) -> float:
    """Return ``value`` as a float, finite and above 0, and less than ``below``, another parameter and its value."""
    number = _number(name, value, "(0, inf)")
    if not (math.isfinite(number) and number > 0):
        raise ParameterError(f"{name} must be in (0, inf), got {number!r}")
    if below is not None and not number < below[1]:
        raise ParameterError(f"{name} must be in (0, {below[0]} = {below[1]!r}), got {number!r}")
    return number


_BITS = 1000  # of an integer, so that a float has room for it and for what it is multiplied by


def check_integer(name: str, value: int, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int in [low, high], where no ``high`` is the end of floats, nearly."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if whole and int(value).bit_length() > _BITS:
        raise ParameterError(f"{name} must be an integer below 2^{_BITS}, got one of {int(value).bit_length()} bits")
    if not whole or value < low or (high is not None and value > high):
        permitted = f", at least {low}" if high is None else f" in [{low}, {high}]"
        raise ParameterError(f"{name} must be an integer{permitted}, got {shown(value)}")
    return int(value)


def check_flag(name: str, value: bool) -> bool:
    """Return ``value``, true or false; a text is neither."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} must be true or false, got {shown(value)}")
    return bool(value)


def check_open(name: str, value: float) -> float:
    """Return ``value``, in (0, 1), as a float."""
    number = _number(name, value, "(0, 1)")
    if not 0 < number < 1:
        raise ParameterError(f"{name} must be in (0, 1), got {number!r}")
    return number


def taken_names(what: str, taken: Iterable[str]) -> str:
    """What an error says of names that an answer has itself: of kept columns, or of those that were perturbed."""
    return f"{what} has columns {[*taken]} of its own: rename those of the reports, and in the plan"


def check_probability(name: str, value: float, least: float = 0) -> Fraction:
    """Return ``value``, in [least, 1], as an exact fraction."""
    number = _number(name, value, f"[{least}, 1]")
    if not least <= number <= 1:
        raise ParameterError(f"{name} must be a probability in [{least}, 1], got {number!r}")
    return Fraction(number)


def check_share(name: str, value: float, least: float = 0) -> float:
    """`check_probability`, as a float."""
    return float(check_probability(name, value, least))


def check_choice(name: str, value: T, among: Iterable[T]) -> T:
    """Return ``value``, one of ``among``."""
    allowed = tuple(among)
    if isinstance(value, str) and value in allowed:
        return value
    *rest, last = (f'"{one}"' for one in allowed)
    raise ParameterError(f"{name} must be {', '.join(rest)}{' or ' * bool(rest)}{last}, got {shown(value)}")
