"""A transform of this package as one of Beam YAML: names, types and descriptions of its options are those of Python.

Beam YAML reads names and types from ``__init__`` and descriptions from ``__doc__``: both are made from the constructor
and the docstring of the transform that is adapted. What differs is in `READINGS`: how a plain value is read.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from inspect import Parameter
from typing import Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import apache_beam as beam
from typing_extensions import override

import ldp_beam
import ldp_core
from ldp_beam.elements.records import RecordsTransform
from ldp_beam.yaml import _rows
from ldp_beam.yaml._options import READINGS, read_flag

Config: TypeAlias = Mapping[str, Any]

_GOOD = "good"
_LEFT_OUT = ("self", "trigger")


class LdpTransform(beam.PTransform[Any, Any]):
    """Applies a transform of this package; its dead letters, if asked for, are an output of the name asked for.

    A subclass names the transform that it adapts, and which of its options have another name. Options of its own, or of
    another type than in Python, it declares as annotations.

    Args:
        error_handling: ``{output: NAME}``: unusable rows are counted there as `DeadLetter` rows.
    """

    makes: ClassVar[type[RecordsTransform]]
    names: ClassVar[dict[str, str]]

    error_handling: Config | None = None

    def __init_subclass__(cls, makes: type[RecordsTransform] | None = None, **names: str) -> None:
        """Make signature and docstring.

        Args:
            makes: the transform that is adapted; None for a base of others.
            names: of options in Python, the names that they have here; or an empty text for what there is not.
        """
        super().__init_subclass__()
        if makes is None:
            return
        cls.makes, cls.names = makes, names
        options = {names.get(name, name): option for name, option in _parameters(makes).items()}
        options = {name: option for name, option in options.items() if name} | _declared(cls)
        signature = inspect.Signature([option.replace(name=name) for name, option in options.items()])

        def init(self: LdpTransform, **given: Any) -> None:
            self._make(signature.bind(**given).arguments)

        vars(init)["__signature__"] = signature
        cls.__init__ = init  # type: ignore[assignment,method-assign]
        texts = _described(makes) | {name: reading.text for name, reading in READINGS.items() if reading.text}
        texts = {names.get(name, name): text for name, text in texts.items()} | _described(cls)
        lines = [f"    {name}: {texts[name]}" for name in options]
        cls.__doc__ = "\n".join([_ARGS.sub("", inspect.cleandoc(cls.__doc__ or "")), "", "Args:", *lines])

    def _make(self, given: dict[str, Any]) -> None:
        """Read the options that are given, and make the transform."""
        super().__init__()
        self.read = {name: self._read(name, value) for name, value in given.items()}
        arguments = self.arguments(dict(self.read))
        self._errors = arguments.pop("error_handling", None)
        python = {ours: theirs for theirs, ours in self.names.items()}
        self._transform = self.makes(**{python.get(name, name): value for name, value in arguments.items()})
        if self._errors is not None:
            self._transform = self._transform.with_exception_handling(_GOOD, self._errors)

    def _read(self, name: str, value: Any) -> Any:
        if inspect.signature(type(self).__init__).parameters[name].annotation is bool:
            return read_flag(name, value)
        return READINGS[name].read(value) if name in READINGS else value

    def arguments(self, read: dict[str, Any]) -> dict[str, Any]:
        """The options as arguments of what is made; and ``error_handling``."""
        return read

    def check(self, fields: _rows.Fields) -> None:
        """Refuse rows whose columns are not what is needed."""

    def finished(self, out: Any, pcoll: Any) -> Any:
        """What came out of the transform, as the elements that are to come out here."""
        return out

    @override
    def expand(self, pcoll: Any) -> Any:
        fields = _rows.fields_of(pcoll)
        if fields is not None:
            columns = [self.read.get(name) for name in ("column", "id", "record", "event_time")]
            _rows.check_there([*columns, *self.read.get("by", ())], fields)
            self.check(fields)
        out = pcoll | "Ldp" >> self._transform
        if self._errors is None:
            return self.finished(out, pcoll)
        good, dead_letters = out
        return {_GOOD: self.finished(good, pcoll), self._errors: dead_letters}


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
            elif name not in _LEFT_OUT and (handed is None or name in handed):
                declared = READINGS[name].declared if name in READINGS else _plain(hints[name])
                found.setdefault(
                    name, Parameter(name, Parameter.KEYWORD_ONLY, default=parameter.default, annotation=declared)
                )
        handed = more
    return found


def _plain(declared: Any) -> Any:
    """A type as Beam's schemas know it: words are text."""
    if get_origin(declared) is Literal:
        return str
    if get_origin(declared) is Union or type(declared).__name__ == "UnionType":
        return Union[tuple(map(_plain, get_args(declared)))]  # noqa: UP007 (of any number)
    return declared


def _declared(cls: type) -> dict[str, Parameter]:
    """Options that a class and its bases declare as annotations."""
    hints = {name: kind for name, kind in get_type_hints(cls).items() if get_origin(kind) is not ClassVar}
    ours = {name for base in cls.__mro__ if issubclass(base, LdpTransform) for name in inspect.get_annotations(base)}
    return {
        name: Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(cls, name, Parameter.empty), annotation=kind)
        for name, kind in hints.items()
        if name in ours
    }


_ARGS = re.compile(r"\nArgs:\n((?:    .*\n?|\n(?=    ))+)")
_ENTRY = re.compile(r"^    ([\w, ]+): (.*(?:\n {8}.*)*)", re.MULTILINE)


_SEE = re.compile(r"see `(\w+)`")


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
