"""A transform of this package as one of Beam YAML: names, types and descriptions of its options are those of Python.

Beam YAML reads names and types from ``__init__`` and descriptions from ``__doc__``: both are made from the constructor
and the docstring of the transform that is adapted. What differs is in `READINGS`: how a plain value is read.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import apache_beam as beam
import numpy as np
import pyarrow as pa
from typing_extensions import override

import ldp_beam
import ldp_core
from ldp_beam.elements.records import FlushedAtOnce, RecordsTransform
from ldp_beam.elements.rows import fields_of
from ldp_beam.yaml._readings import READINGS
from ldp_core import DtypeError, Mechanism, ParameterError, PlanError
from ldp_core.engine import PYTHON_TYPES

Fields = Mapping[str, Any]
_GOOD = "good"


class LdpTransform(beam.PTransform[Any, Any]):
    """Applies a transform of this package; its dead letters, if asked for, are an output of the name asked for.

    A subclass names the transform that it adapts, and which of its options have another name.
    """

    makes: ClassVar[type[beam.PTransform[Any, Any]]]
    names: ClassVar[dict[str, str]]
    more: ClassVar[tuple[str, ...]] = ("error_handling",)
    """Options that there are in YAML only, or that need not be given there; each is in `READINGS`."""

    def __init_subclass__(cls, makes: type[beam.PTransform[Any, Any]] | None = None, **names: str) -> None:
        """Make signature and docstring.

        Args:
            makes: the transform that is adapted; None for a base of others.
            names: of options in Python, the names that they have here.
        """
        super().__init_subclass__()
        if makes is None:
            return
        cls.makes, cls.names = makes, names
        options = {names.get(name, name): option for name, option in _parameters(makes).items()}
        options |= {name: Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Any) for name in cls.more}
        signature = inspect.Signature([option.replace(name=name) for name, option in options.items()])

        def init(self: LdpTransform, **given: Any) -> None:
            self._make(signature.bind(**given).arguments)

        vars(init)["__signature__"] = signature
        cls.__init__ = init  # type: ignore[assignment,method-assign]
        texts = {names.get(name, name): text for name, text in _described(makes).items()}
        texts |= {name: reading.text for name, reading in READINGS.items() if reading.text}
        lines = [f"    {name}: {texts[name]}" for name in options]
        cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), "", "Args:", *lines])

    def _make(self, given: dict[str, Any]) -> None:
        """Read the options that are given, and make the transform."""
        super().__init__()
        declared = inspect.signature(type(self).__init__).parameters
        self.read = {name: _read(name, value, declared[name].annotation) for name, value in given.items()}
        arguments = self.arguments(dict(self.read))
        self._errors = arguments.pop("error_handling", None)
        python = {ours: theirs for theirs, ours in self.names.items()}
        self._transform = self.makes(**{python.get(name, name): value for name, value in arguments.items()})
        if self._errors is not None:
            assert isinstance(self._transform, RecordsTransform)  # noqa: S101 (others do not have the option)
            self._transform = self._transform.with_exception_handling(_GOOD, self._errors)

    def arguments(self, read: dict[str, Any]) -> dict[str, Any]:
        """The options as arguments of what is made; and ``error_handling``."""
        return read

    def perturbs(self) -> Mapping[str, Mechanism]:
        """The columns of values, and what they must fit."""
        return {}

    def type_of_rows(self, pcoll: Any, fields: Fields | None) -> Any:
        """The type of rows that come out, if the transform itself does not say it."""
        return None

    @override
    def expand(self, pcoll: Any) -> Any:
        are_batches = pcoll.element_type in (pa.RecordBatch, pa.Table)
        fields = None if are_batches else fields_of(pcoll.element_type)
        if fields is not None:
            columns = [self.read.get(name) for name in ("column", "first", "second", "id", "record", "event_time")]
            _check_columns([*columns, *self.read.get("by", ())], self.perturbs(), fields)
        row = None if are_batches else self.type_of_rows(pcoll, fields)
        out = pcoll | "Ldp" >> self._transform
        good, *dead_letters = out if isinstance(out, tuple) else (out,)
        if row is not None:
            good |= "Rows" >> FlushedAtOnce()
            good.element_type = row
        return {_GOOD: good, self._errors: dead_letters[0]} if dead_letters else good


def _read(name: str, value: Any, declared: Any) -> Any:
    """An option as Python has it."""
    if declared is bool and not isinstance(value, bool):
        raise ParameterError(f"{name} must be true or false, got {value!r}")
    if Sequence[str] in (declared, *get_args(declared)) and value is not None:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)) or not all(isinstance(one, str) for one in names):
            raise ParameterError(f"{name} is a list of texts, got {value!r}")
        return tuple(names)
    return READINGS[name].read(value) if name in READINGS and value is not None else value


_SCALARS = (bool, int, float, str, bytes, np.generic)


def _check_columns(names: Sequence[str | None], perturbed: Mapping[str, Mechanism], fields: Fields) -> None:
    """Refuse rows that lack a column, or have values of another type; types that do not tell pass."""
    missing = [name for name in [*names, *perturbed] if name is not None and name not in fields]
    if missing:
        raise PlanError(f"there are no columns {missing}; the rows have {sorted(fields)}")
    for name, mechanism in perturbed.items():
        kinds = [kind for kind in (get_args(fields[name]) or (fields[name],)) if kind is not type(None)]
        kind, expected = kinds[0], mechanism.inputs.kind
        is_scalar = len(kinds) == 1 and isinstance(kind, type) and issubclass(kind, _SCALARS)
        if is_scalar and kind not in PYTHON_TYPES[expected]:
            raise DtypeError(f"column {name!r}: {mechanism.name} needs {expected} values, not {kind.__name__}")


def _parameters(makes: type) -> dict[str, Parameter]:
    """Options of a transform: of its constructor, and those that this hands on to the constructor of the base class."""
    found: dict[str, Parameter] = {}
    handed: set[str] | None = None
    for cls in makes.__mro__:
        if "__init__" not in vars(cls) or handed == set():
            continue
        init: Any = vars(cls)["__init__"]
        hints, more = get_type_hints(init), set()
        for name, parameter in inspect.signature(init).parameters.items():
            if parameter.kind is Parameter.VAR_KEYWORD:
                more = set(get_type_hints(get_args(hints[name])[0]))
            elif name != "self" and (handed is None or name in handed):
                option = parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=_plain(hints[name]))
                found.setdefault(name, option)
        handed = more
    return found


def _plain(declared: Any) -> Any:
    """A type as Beam's schemas know it; any, where they do not."""
    origin, of = get_origin(declared), get_args(declared)
    if origin is Literal:
        return str
    if origin is Iterable:
        return Sequence[_plain(of[0])]  # type: ignore[misc]
    if origin in (Union, UnionType):
        kinds = [_plain(kind) for kind in of]
        return Any if Any in kinds else Union[tuple(kinds)]  # noqa: UP007 (of any number)
    return declared if declared in (bool, int, float, str, type(None)) else Any


_ARGS = re.compile(r"\nArgs:\n((?:    .*\n?|\n(?=    ))+)")
_ENTRY = re.compile(r"^    ([\w, ]+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_SEE = re.compile(r"see `(?:ldp_core\.)?(\w+)`")


def _described(cls: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of each argument."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        section = _ARGS.search(inspect.cleandoc(vars(base).get("__doc__") or ""))
        for names, text in _ENTRY.findall(section[1]) if section else ():
            other = _SEE.match(text)
            others = _described(getattr(ldp_beam, other[1], getattr(ldp_core, other[1], object))) if other else {}
            for name in names.split(", "):
                found.setdefault(name, others.get(name, text))
    return found
