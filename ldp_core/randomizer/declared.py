"""What a mechanism declares: a name, parameters, what it takes, and how a report is drawn and counted."""

from __future__ import annotations

import hashlib
import inspect
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, ClassVar, Self

from typing_extensions import override

from ldp_core.accounting.shuffling import Levels
from ldp_core.arrays.types import Codes
from ldp_core.errors import MechanismMismatchError, ParameterError
from ldp_core.inputs.base import Inputs
from ldp_core.noise.base import Noise
from ldp_core.parameters import Declared
from ldp_core.randomizer.tallying import Tallier
from ldp_core.reports import Native
from ldp_core.tables import html


@cache
def _arguments(kind: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(kind.__init__).parameters)[1:]


class DeclaredMechanism(Declared, Tallier):
    """What a subclass supplies, and what it is as text."""

    name: ClassVar[str]
    """What `to_dict` calls the mechanism."""

    memoized: ClassVar[bool] = False
    """Whether part of the noise must stay the same for a person: such a mechanism takes keyed noise only."""

    epsilon: float
    """What one report spends."""

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Refuse arguments that there are not, as ``eps=``."""
        takes = _arguments(cls)
        if unknown := sorted(named.keys() - set(takes)):
            of_domain = "unmatched" not in takes and not {"unmatched", "missing"}.isdisjoint(unknown)
            where = ", and the domain says what others count as: Interval(..., unmatched=, missing=)" * of_domain
            raise ParameterError(f"{cls.__name__} has no arguments {unknown}: it takes {', '.join(takes)}{where}")
        return super().__new__(cls)

    @property
    def title(self) -> str:
        """What tables call it."""
        return self.name

    domain: Any
    """The inputs, in nearly all mechanisms."""
    usual_domain: ClassVar[tuple[Any, ...] | None] = None
    """The labels of a mechanism that needs none, as ``from_dict`` and TOML."""

    @property
    def inputs(self) -> Inputs:
        """What values may be perturbed: a `Domain`, an `Interval`, an `OpenDomain`, `Prefixes`."""
        return self.domain

    def sources(self, name: str) -> dict[str, Any]:
        """What the columns of records may hold that this column, called ``name``, is made from: its own."""
        return {name: self.inputs}

    @abstractmethod
    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of one report under two inputs; epsilon is its logarithm."""

    @property
    def independent_bits(self) -> tuple[float, float] | None:
        """(p, q), if a report is a bit a value, drawn apart: 1 with probability p for the value, else q."""
        return None

    @property
    def alike(self) -> float:
        """At most the probability that reports of two records are equal, whatever their values; 1 if not known."""
        return 1.0

    @property
    def two_levels(self) -> Sequence[Levels]:
        """Of a mechanism of two levels, what there is between two values: of each kind of pairs one.

        Two levels: a report is equally likely under any two values, or `worst_ratio` times as likely under one of them.
        Empty where that is not so, or not known; see `ldp_core.accounting.shuffling` for what follows from it.
        """
        return ()

    chunk: ClassVar[int] = 1 << 16
    """How many elements of reports are made at a time, so that the intermediate arrays stay in a cache."""

    parallel: ClassVar[tuple[type[Noise], ...]] = ()
    """Noise of which several threads draw blocks: faster where nearly all of the work needs no lock of Python's."""

    @property
    def block_size(self) -> int:
        """How many records are perturbed at a time."""
        return max(self.chunk // self.reports.width, 1)

    @abstractmethod
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        """Draw one report for each code, of a block of records.

        ``inputs.unmatched_code`` may occur where the inputs allow it.
        """

    # ---- as text

    other_constructor: ClassVar[tuple[str, str, tuple[str, ...]] | None] = None
    """Of a mechanism that may be made in another way: that class method, the field with its arguments, their names."""

    def parameters(self) -> dict[str, Any]:
        """JSON-able constructor arguments other than the inputs: the declared parameters."""
        if self.other_constructor is not None:
            _, field, names = self.other_constructor
            if (given := getattr(self, field)) is not None:
                return dict(zip(names, given, strict=True))
        return {name: value for name, value in self._parameters().items() if name != "domain"}

    @classmethod
    def from_parameters(cls, domain: Any, parameters: Mapping[str, Any]) -> Self:
        """Inverse of `parameters`; ``domain`` are the inputs."""
        make: Any = cls  # nearly every mechanism takes its inputs, and then its parameters by name
        if cls.other_constructor is not None and not parameters.keys().isdisjoint(cls.other_constructor[2]):
            make = getattr(cls, cls.other_constructor[0])
        return make(domain, **parameters)

    def _repr_html_(self) -> str:
        """Parameters, and what reports are."""
        shown = {"values": self.inputs.summary, "epsilon": self.epsilon, **self.parameters()}
        rows = [(key, _cell(value)) for key, value in shown.items()]
        return html(
            [(self.title, ""), *rows, ("reports", str(self.reports.arrow_type())), ("fingerprint", self.fingerprint)]
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {"mechanism": self.name, **self.parameters(), **self.inputs.to_dict()}

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits, SHA-256 of mechanism, parameters and domain: what keyed noise depends on."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 digits of `digest`: they tell mechanisms apart that nobody has made in order to be alike."""
        return self.digest[:16]

    @property
    @override
    def described(self) -> str:
        return f"{self.title} (epsilon {self.epsilon:.4g}, fingerprint {self.fingerprint})"


def _cell(value: Any) -> str:
    """A parameter as people read it; of a mechanism in a mechanism what `to_dict` says, but for its inputs."""
    if isinstance(value, Mapping):
        own = (f"{key} {_cell(part)}" for key, part in value.items() if key not in ("mechanism", "domain", "unmatched"))
        return ", ".join([str(value.get("mechanism", "")), *own])
    return f"{value:.6g}" if isinstance(value, float) else f"{value}"


# ---- whose reports these are


def maker_of(column: Any) -> DeclaredMechanism | None:
    """The mechanism of a Series of typed reports, which its dtype has (`ldp_polars.Report`); None of other columns."""
    made = getattr(getattr(column, "dtype", None), "mechanism", None)
    return made if isinstance(made, DeclaredMechanism) else None


def refuse_reports_in(columns: Iterable[str], who: str) -> None:
    """Raise `MechanismMismatchError` if there are columns of which ``who`` says that they hold reports already."""
    if again := sorted(columns):
        raise MechanismMismatchError(f"columns {again} hold reports already, says {who}; do not perturb them again")


def refuse_keys_in(columns: Iterable[str], who: str) -> None:
    """Raise `MechanismMismatchError` if there are columns to group by of which ``who`` says that they hold reports."""
    if private := sorted(columns):
        raise MechanismMismatchError(
            f"columns {private} hold reports, says {who}: records of all values are in each group of equal reports, so "
            "what is estimated in the groups is wrong. A table of both columns says it (frame.ldp.table, "
            "ldp_beam.Table, ldp estimate --table), weights what else is asked of private groups (docs/weights.md). To "
            "group by the reports all the same, copy them as plain values to a column of another name"
        )


def check_same(made_by: DeclaredMechanism, mechanism: DeclaredMechanism, column: str, who: str = "their type") -> None:
    """Raise `MechanismMismatchError` unless the two mechanisms are the same."""
    if made_by.fingerprint != mechanism.fingerprint:
        raise MechanismMismatchError(
            f"column {column!r}: the reports were made by the mechanism {made_by.described}, says {who}, not by "
            f"{mechanism.described}: estimate with the mechanism that made them"
        )
