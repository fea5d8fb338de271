"""What every mechanism is: values go in, private reports come out, and tallies of reports add up.

values -> `inputs` -> codes -> `perturb` -> reports -> `tally` -> `Tally`, and from there what the mechanism can
estimate: counts (`FrequencyOracle`), counts of candidates (`Sketch`), means and distributions
(`Numeric`). What it does is in `ldp_core.randomizer`, a job in a file; here is how it is named, written and read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, ClassVar

from typing_extensions import override

from ldp_core.errors import ParameterError, no_warning_of_epsilon, warn_large
from ldp_core.inputs import inputs_from_dict
from ldp_core.limits import check_nesting
from ldp_core.parameters import restored
from ldp_core.randomizer.crafted import Crafted
from ldp_core.randomizer.expected_error import ExpectedError
from ldp_core.randomizer.made_by import check_same, maker_of
from ldp_core.randomizer.simulating import Simulating
from ldp_core.randomizer.spending import Spending


class Mechanism(Spending, Simulating, Crafted):
    """A frozen, hashable, picklable description of a local randomizer; holds no state and no randomness.

    Subclasses say how codes become reports and how reports are counted; everything else is here.
    """

    _registry: ClassVar[dict[str, type[Mechanism]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            Mechanism._registry[cls.name] = cls

    @override
    def _declare(self, **values: Any) -> None:
        super()._declare(**values)
        warn_large(max((getattr(self, name) for name in values if name.startswith("epsilon")), default=0))

    @override
    def _check_maker(self, reports: Any, column: str) -> None:
        made_by = maker_of(reports)
        if made_by is not None:
            check_same(made_by, self, column, "their dtype")

    def explain(self, n: int) -> ExpectedError:
        """What to expect of ``n`` reports, for `PrivacyPlan.explain`; here nothing is known."""
        return ExpectedError()

    @staticmethod
    @no_warning_of_epsilon()
    def from_dict(data: Mapping[str, Any]) -> Mechanism:
        """Inverse of `to_dict`.

        Raises:
            ParameterError: an unknown mechanism, a missing or an unknown parameter; or one that nests too deep.
            DomainError: see `Domain`.
        """
        if not isinstance(data, Mapping):
            raise ParameterError(f"a mechanism is a table, got {type(data).__name__}")
        check_nesting(data, "a mechanism", ParameterError)
        rest = dict(data)
        name = rest.pop("mechanism", None)
        cls = _named(name)
        if cls is None:
            got = repr(name) if "mechanism" in data else "none"
            raise ParameterError(f"mechanism must be one of {sorted(Mechanism._registry)}, got {got}")
        if cls.usual_domain is not None:
            rest.setdefault("domain", list(cls.usual_domain))
        if "domain" not in rest:
            raise ParameterError(f"{name} needs a domain")
        try:
            domain = inputs_from_dict({k: rest.pop(k) for k in ("domain", "unmatched") if k in rest})
            return cls.from_parameters(domain, rest)
        except TypeError as error:  # an argument is missing or unknown
            message = str(error).partition(".__init__() ")[2] or str(error)
        takes = [field.name for field in fields(cls) if field.name != "domain"] if is_dataclass(cls) else ["parameters"]
        raise ParameterError(f"{name}: {message}; it takes domain (and unmatched), {', '.join(takes)}")

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """The class by its name, as in a plan: every worker has imported it."""
        of_class, (kind, values) = super().__reduce__()
        named = Mechanism._registry.get(getattr(kind, "name", "")) is kind
        return (_restored_by_name, (kind.name, values)) if named else (of_class, (kind, values))


def _restored_by_name(name: str, values: dict[str, Any]) -> Mechanism:
    kind = _named(name)
    if kind is None:
        raise ParameterError(f"there is no mechanism {name!r} here: import the module that defines it")
    return restored(kind, values)


def _named(name: object) -> type[Mechanism] | None:
    """The class of this name. Those of this package are above this file: so far only those that were used are there."""
    if not isinstance(name, str) or name not in Mechanism._registry:
        for module in ("ldp_core.mechanisms.catalog", "ldp_core.plans.sampled", "ldp_core.plans.fake"):
            import_module(module)
    return Mechanism._registry.get(name) if isinstance(name, str) else None


def not_a_mechanism(given: object, more: str = "") -> str:
    """What came in the place of a mechanism, and how to get one; for errors.

    >>> not_a_mechanism(1.0)
    'float; a mechanism is made of labels and epsilon, as RandomizedResponse(["yes", "no"], epsilon=1.0)'
    """
    if isinstance(given, type) and issubclass(given, Mechanism):
        return f"the class {given.__name__}; make one of it, {given.__name__}(..., epsilon=1.0)"
    if isinstance(getattr(given, "columns", None), Mapping):  # a plan
        return f"{type(given).__name__}; {more}the mechanism of one column is plan[name]"
    made = 'a mechanism is made of labels and epsilon, as RandomizedResponse(["yes", "no"], epsilon=1.0)'
    return f"{type(given).__name__}; {made}"
