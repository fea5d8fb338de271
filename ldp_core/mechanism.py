"""What every mechanism is: values go in, private reports come out, and tallies of reports add up.

values -> `inputs` -> codes -> `perturb` -> reports -> `tally` -> `Tally`, and from there what the mechanism can
estimate: counts (`FrequencyOracle`), counts of candidates (`Sketch`), means and distributions
(`Numeric`). What it does is in `ldp_core.randomizer`, a job in a file; here is how it is named, written and read.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ldp_core.arrays.types import F64
from ldp_core.errors import ParameterError, no_warning_of_epsilon, warn_large
from ldp_core.inputs import inputs_from_dict
from ldp_core.limits import check_nesting
from ldp_core.parameters import restored
from ldp_core.randomizer.aggregating import Aggregating
from ldp_core.randomizer.crafted import Crafted
from ldp_core.randomizer.declared import check_same, maker_of
from ldp_core.randomizer.perturbing import Perturbing
from ldp_core.randomizer.spending import Spending
from ldp_core.reports import Native


class ExpectedError(NamedTuple):
    """What to expect of an estimate.

    Attributes:
        error: its standard error, in ``unit``; NaN if nothing is known.
        unit: ``"records"``, of a count, or ``"mean"``, in the numbers' own unit.
        share: the same of all records, or of the length of the interval.
        advice: what to do about it, if it is large.
        off: by how much its expectation may be off, too, in ``unit``.
    """

    error: float = math.nan
    unit: str = ""
    share: float = math.nan
    advice: str | None = None
    off: float = 0.0

    @property
    def margin(self) -> str:
        """Half of a 95 % interval, in words."""
        if math.isnan(self.error):
            return ""
        if math.isinf(self.error):
            return "no bound"
        z = NormalDist().inv_cdf(0.975)
        return (
            f"± {z * self.error + self.off:.3g} (mean)"
            if self.unit == "mean"
            else f"± {100 * z * self.share:.3g} % of the records"
        )


class Mechanism(Spending, Perturbing, Crafted, Aggregating):
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

    def compiled(self) -> dict[str, Any]:
        """How a client draws a report: ``draw`` and the numbers of it, as in docs/wire.md, thresholds as decimal text.

        Raises:
            ParameterError: clients do not have the mechanism.
        """
        raise ParameterError(
            f"{self.name} is not among the mechanisms of clients (docs/wire.md): take randomized response, unary "
            "encoding, subset selection, local hashing, Hadamard response, PrivSet, a tree; NOutput for a mean"
        )

    def common_noise(self, *, keyed: bool, share: float | None = None) -> float:
        """What part of the variance of its noise all reports of a person about one value have in common.

        That depends on the share of people who have the value that is asked about (None: one in d).
        Of fresh noise nothing, of keyed noise all of it: the reports are then equal.
        """
        return float(keyed or self.memoized)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Mechanism:
        """Inverse of `to_dict`.

        Raises:
            ParameterError: an unknown mechanism, a missing or an unknown parameter; or one that nests too deep.
            DomainError: see `Domain`.
        """
        if not isinstance(data, Mapping):
            raise ParameterError(f"a mechanism is a table, got {type(data).__name__}")
        check_nesting(data, "a mechanism", ParameterError)
        return Mechanism.from_checked(data)

    @staticmethod
    @no_warning_of_epsilon()
    def from_checked(data: Mapping[str, Any]) -> Mechanism:
        """`from_dict` of a table of which `check_nesting` has been asked."""
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

    def weights(self, reports: Any, value: Any = None, *, column: str = "reports") -> F64:
        """One unbiased weight per report, float64[n]: of expectation 1 if the record has the value, else 0.

        The sum of the weights is the estimated count. Of numbers it is the report's value, in their own unit, whose
        expectation is the number (of `SquareWave` the middle of its bucket). See `ldp_core.ratio` and
        `ldp_core.weighted_quantiles` for what else follows from weights. Negative ones are normal: leave them.
        Weights of two columns may be multiplied, but not those of one keyed column at two times, which share the noise.

        Args:
            reports: what `perturb` returned, in either layout.
            value: one of the domain's; of numbers None.
            column: what to call the reports in an error message.

        Raises:
            MechanismMismatchError: a Series of Polars whose dtype says that another mechanism made the reports.
            ParameterError: the value is none of the domain's, or the mechanism's reports have no weights, as those of a
                sketch, whose values collide.
            ReportError: nulls, or not reports of this mechanism's shape.

        >>> from ldp_core import RandomizedResponse
        >>> RandomizedResponse(["ios", "android"], epsilon=1.0).weights(["ios", "android"], "ios").round(3).tolist()
        [1.582, -0.582]
        """
        return self.weights_of_code(reports, self.code_of(value), column=column)

    def weights_of_code(self, reports: Any, code: int, *, column: str = "reports") -> F64:
        """`weights` of what `code_of` makes of the value."""
        return self.weights_of(self._checked(reports, column), code)

    def code_of(self, value: Any) -> int:
        """What `weights_of` is given for a value; raise `ParameterError` if reports have no weight of it."""
        raise ParameterError(
            f"reports of {self.name} have no weights: frequency oracles have some for each value, and mechanisms for "
            "numbers the report's value"
        )

    def weights_of(self, reports: Native, code: int) -> F64:
        """`weights` of reports in the working layout."""
        raise NotImplementedError


def of_inner(name: str, inner: str = "inner") -> Any:
    """A property, or a method, that is the inner mechanism's, or that of another attribute."""
    return property(lambda wrapping: getattr(getattr(wrapping, inner), name), doc="The inner mechanism's.")


class Wrapping(Mechanism):
    """A mechanism whose reports and tallies are another's, which spend what the other's do."""

    inner: Mechanism
    """The other one."""

    epsilon = of_inner("epsilon")
    memoized = of_inner("memoized")
    worst_ratio = of_inner("worst_ratio")
    reports = of_inner("reports")
    counters = of_inner("counters")
    most_ones = of_inner("most_ones")
    count_reports = of_inner("count_reports")
    most_reports = of_inner("most_reports")
    spent_by = of_inner("spent_by")
    is_possible = of_inner("is_possible")


def _restored_by_name(name: str, values: dict[str, Any]) -> Mechanism:
    kind = _named(name)
    if kind is None:
        raise ParameterError(f"there is no mechanism {name!r} here: import the module that defines it")
    return restored(kind, values)


def _named(name: object) -> type[Mechanism] | None:
    """The class of this name. Those of this package are above this file: so far only those that were used are there."""
    if not isinstance(name, str) or name not in Mechanism._registry:
        for module in ("mechanisms.catalog", "plans.sampled", "plans.fake", "plans.pairs"):
            import_module(f"ldp_core.{module}")
    kind = Mechanism._registry.get(name) if isinstance(name, str) else None
    if kind is not None and kind.__module__ in sys.modules:
        import_module(kind.__module__)  # registered before its module is done: another thread may be at it
    return kind


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
