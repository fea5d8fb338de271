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
from typing_extensions import override

import ldp_beam
import ldp_core
from ldp_beam.elements.records import RecordsTransform
from ldp_beam.elements.rows import check_fields, fields_of
from ldp_beam.estimates.transforms import Histogram
from ldp_beam.graph.upstream import DrawsNoise
from ldp_beam.yaml._readings import READINGS
from ldp_core import DtypeError, Mechanism, ParameterError
from ldp_core.engine import PYTHON_TYPES

Fields = Mapping[str, Any]
_GOOD = "good"


class LdpTransform(beam.PTransform[Any, Any]):
    """Applies a transform of this package; its dead letters, if asked for, are an output of the name asked for."""

    makes: ClassVar[type[beam.PTransform[Any, Any]]]
    python: ClassVar[dict[str, str]]  # the names in Python of options that have another one here
    options: ClassVar[inspect.Signature]
    _yaml_requires_inputs: ClassVar[bool]

    def __init__(self, **given: Any) -> None:
        super().__init__()
        declared, given = self.options.parameters, self.options.bind(**given).arguments
        self.read = {name: _read(name, value, declared[name].annotation) for name, value in given.items()}
        arguments = dict(self.read)
        self._errors = arguments.pop("error_handling", None)
        plan = None
        if "mechanism" in declared:  # which may be that of the column in a plan
            plan = arguments.pop("plan", None)
            if (arguments.get("mechanism") is None) == (plan is None):
                raise ParameterError("give either a mechanism or a plan")
            if plan is not None:
                arguments["mechanism"] = plan if self.makes is Histogram else plan[arguments["column"]]
        make: Any = self.makes
        self._transform = make(**{self.python.get(name, name): one for name, one in arguments.items()})
        if plan is not None:
            self._transform.check_public(plan.columns)
        if self._errors is not None:
            self._transform = self._transform.with_exception_handling(_GOOD, self._errors)

    @override
    def expand(self, pcoll: Any) -> Any:
        fields = fields_of(pcoll.element_type)
        if fields is not None:
            check_fields(fields, map(self.read.get, ("id", "person", "record", "event_time")))
            _check_types(self._transform.values if isinstance(self._transform, DrawsNoise) else {}, fields)
        out = pcoll | "Ldp" >> self._transform
        good, *dead_letters = out if isinstance(out, tuple) else (out,)
        return {_GOOD: good, self._errors: dead_letters[0]} if dead_letters else good


def adapted(makes: type[beam.PTransform[Any, Any]], **names: str) -> type[LdpTransform]:
    """The class for Beam YAML; ``names`` are those here of options that have another one in Python."""
    options = {names.get(name, name): option for name, option in _parameters(makes).items()}
    ours = ["mechanism", "plan"] if "mechanism" in options else []
    ours += ["error_handling"] if issubclass(makes, RecordsTransform) else []
    options |= {name: Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Any) for name in ours}
    signature = inspect.Signature([option.replace(name=name) for name, option in options.items()])
    texts = {names.get(name, name): text for name, text in _described(makes).items()}
    texts |= {name: reading.text for name, reading in READINGS.items()}

    def init(self: LdpTransform, **given: Any) -> None:
        LdpTransform.__init__(self, **given)

    vars(init)["__signature__"] = signature
    lines = [inspect.cleandoc(makes.__doc__ or "").partition("\n\n")[0], "", "Args:"]
    about = {
        "__module__": __package__,
        "__doc__": "\n".join([*lines, *(f"    {name}: {texts[name]}" for name in options)]),
        "__init__": init,
        "makes": makes,
        "python": {ours: theirs for theirs, ours in names.items()},
        "options": signature,
        "_yaml_requires_inputs": not makes.__name__.startswith("Read"),
    }
    return type(f"Ldp{makes.__name__}", (LdpTransform,), about)


def _read(name: str, value: Any, declared: Any) -> Any:
    """An option as Python has it."""
    if declared is bool and not isinstance(value, bool):
        raise ParameterError(f"{name} must be true or false, got {value!r}")
    if Sequence[str] in (declared, *get_args(declared)) and not (value is None and type(None) in get_args(declared)):
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)) or not all(isinstance(one, str) for one in names):
            raise ParameterError(f"{name} is a list of texts, got {value!r}")
        return tuple(names)
    return READINGS[name].read(value) if name in READINGS and value is not None else value


_SCALARS = (bool, int, float, str, bytes, np.generic)


def _check_types(perturbed: Mapping[str, Mechanism], fields: Fields) -> None:
    """Refuse rows that have values of another type; types that do not tell pass."""
    for name, mechanism in perturbed.items():
        if name not in fields:  # (said by the transform; and of pairs it is no column of the rows)
            continue
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
    if origin in (Iterable, Sequence):
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
