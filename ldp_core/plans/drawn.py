"""Columns of which each record answers one, drawn at random, with the whole epsilon.

Let record x have the columns x[1], ..., x[D]. One column j is drawn, uniformly and without a look at x. It is answered
by its mechanism; whatever is said of the other columns does not depend on x either. So, for any report y of the
whole record,

    Pr[y | x] = sum over j of 1 / D * Pr[answer y[j] | x[j]] * (a factor without x)

and if each column's mechanism is epsilon-LDP, each term changes by a factor of exp(epsilon) at most from one
record to another, and so does the sum: the record spends epsilon, however many of its columns differ.

**Several reports of one person.** With fresh noise each record draws anew, and k of them spend k epsilon. With keyed
noise the draw is the person's own, so that the sum is over the one j of all of the person's reports, and each term has
what the reports of column j spend together: all of them spend what those of the worst column do.

One draw decides for all columns of a record. Were each column drawn by itself, several could be answered, and each
answer would spend epsilon: so a column does not perturb alone, `DrawnColumns` does. What is said of the columns that
are not drawn, subclasses of `DrawnColumn` know: nothing (`ldp_core.plans.sampled`) or a fake
(`ldp_core.plans.fake`).
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import Bools, Codes
from ldp_core.errors import ParameterError
from ldp_core.exact.composition import Spent
from ldp_core.mechanism import Mechanism, Wrapping, of_inner
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.noise.base import Noise, Randomness
from ldp_core.noise.fresh import Keystream
from ldp_core.noise.keyed import Keyed
from ldp_core.parameters import check_integer, parameter
from ldp_core.reports import Native


def check_oracle(name: str, value: FrequencyOracle) -> FrequencyOracle:
    """Return ``value``, or raise `ParameterError` unless it is a frequency oracle, and no column that is drawn."""
    if not isinstance(value, FrequencyOracle) or isinstance(value, DrawnColumn):
        raise ParameterError(f"this column is answered by a frequency oracle, got {type(value).__name__}")
    return value


@dataclass(frozen=True, init=False)
class DrawnColumn(Wrapping):
    """One of ``columns`` columns of which a record answers one.

    Args:
        inner: the mechanism that answers. Its epsilon is what a record spends over all these columns together.
        columns: how many there are, D >= 2.

    Raises:
        ParameterError: fewer than two columns, or a mechanism that does not do.
    """

    inner: Any = parameter(check_oracle)
    columns: int = parameter(check_integer, low=2, high=(1 << 16) - 1)

    def __init__(self, inner: Any, *, columns: int) -> None:
        self._declare(inner=inner, columns=columns)

    @abstractmethod
    def perturb_drawn(self, codes: Codes, drawn: Bools, randomness: Randomness) -> Native:
        """Reports of n records, of which those that are ``drawn`` answer this column."""

    # ---- what is the inner mechanism's

    domain = of_inner("domain")
    inputs = of_inner("inputs")

    def codes(self, values: Mapping[str, Any], name: str) -> Codes:
        """The codes of n records, given the values of its sources."""
        return self.inputs.encode(values[name], column=name)

    @property
    def title(self) -> str:
        """The inner mechanism's, and that it is one column of several."""
        return f"{self.inner.title} (1 of {self.columns})"

    @override
    def code_of(self, value: Any) -> NoReturn:
        """Raise `ParameterError`: weights of columns of which a record answers one are not independent."""
        raise ParameterError(
            f"a record answers one of {self.columns} columns, so that weights of its reports would be wrong, of which "
            "private groups, ranges of listed values and means by person are made: collect by PrivacyPlan.split (ldp "
            "plan new); means of people who report again take repeats= in place of person="
        )

    # ---- alone it does not perturb

    def check_noise(self, *, keyed: bool) -> NoReturn:
        """Raise `ParameterError`: there is no noise under which one column may be perturbed without the others."""
        raise ParameterError(
            f"a record answers one of {self.columns} columns, and one draw decides which: perturb the whole record "
            "with the plan (PrivacyPlan.perturb, .ldp.perturb(plan), ldp_beam.Perturb(plan)), not one column"
        )

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> NoReturn:
        """Raise `ParameterError`; see `check_noise`."""
        self.check_noise(keyed=False)

    # ---- as a value

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form: the inner mechanism's under ``answer``, but for its domain."""
        answer = self.inner.to_dict()
        declared: dict[str, Any] = {k: answer.pop(k) for k in ("domain", "unmatched") if k in answer}
        return {"mechanism": self.name, **self.parameters(), "answer": answer, **declared}

    @override
    def parameters(self) -> dict[str, Any]:
        """Without the inner mechanism."""
        return {"columns": self.columns}

    @classmethod
    @override
    def from_parameters(cls, domain: Any, parameters: Mapping[str, Any]) -> DrawnColumn:
        rest = dict(parameters)
        answer = rest.pop("answer", None)
        if not isinstance(answer, Mapping):
            raise ParameterError(f'{cls.name} needs "answer", the mechanism that answers')
        return cls(Mechanism.from_dict({**answer, **domain.to_dict()}), **rest)


@dataclass(frozen=True)
class DrawnColumns:
    """All the columns of which a record answers one, by name.

    Raises:
        ParameterError: there are not as many as each of them says.
    """

    columns: tuple[tuple[str, DrawnColumn], ...]

    def __post_init__(self) -> None:
        wrong = [name for name, column in self.columns if column.columns != len(self.columns)]
        if wrong:
            raise ParameterError(
                f"columns {wrong} are each one of another number of columns than the {len(self.columns)} that are "
                "drawn from here: the draw is from all of them, and reports are estimated with all of them there"
            )

    @property
    def sources(self) -> dict[str, Any]:
        """What the columns of records may hold that these are made from, by name."""
        return {source: inputs for name, m in self.columns for source, inputs in m.sources(name).items()}

    def draw(self, n: int, keyed: Keyed | None, tag: str | None = None) -> npt.NDArray[Any]:
        """The position of the column that each of n records answers, uniform; under keyed noise a person's own.

        It depends on no value, and on nothing but the person and the columns' names, in whatever order: a person who
        reports again answers the same column again, also where an epsilon has changed.
        """
        names = [name for name, _ in self.columns]
        order: npt.NDArray[Any] = np.array(sorted(range(len(names)), key=names.__getitem__), np.uint16)
        source = Keystream() if keyed is None else keyed.named(json.dumps(sorted(names)), tag)
        noise = source.bind("the drawn column", np.zeros(n, np.uint8)).of_persons()
        return order.take(noise.uniform_below(len(names), n, 0))

    def perturb(
        self, values: Mapping[str, Any], keyed: Keyed | None, *, packed: bool, tag: str | None = None
    ) -> list[pa.Array]:
        """Reports of each column. All values are checked, also those that are not drawn."""
        for _, column in self.columns:
            column.inner.check_noise(keyed=keyed is not None)
        codes = [column.codes(values, name) for name, column in self.columns]
        drawn = self.draw(len(codes[0]), keyed, tag)
        reports = []
        for position, (name, column) in enumerate(self.columns):
            source = Keystream() if keyed is None else keyed.named(name, tag)
            native = column.perturb_drawn(codes[position], drawn == position, source)
            reports.append(column.reports.to_arrow(native, packed=packed))
        return reports


def composed(columns: Iterable[Mechanism], spent: Callable[[Mechanism], Spent]) -> Spent:
    """What the columns of a record spend together: the sum; of those of which it answers one, the largest counts."""
    mechanisms = list(columns)
    drawn = (spent(m) for m in mechanisms if isinstance(m, DrawnColumn))
    alone = (spent(m) for m in mechanisms if not isinstance(m, DrawnColumn))
    return sum(alone, max(drawn, default=Fraction(0)))
