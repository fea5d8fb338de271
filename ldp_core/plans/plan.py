"""A privacy plan: which columns are perturbed by what, which pass unchanged; all others are dropped."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_core.arrays.arrow import table_of
from ldp_core.errors import LdpError, MechanismMismatchError, ParameterError, PlanError, warn_large
from ldp_core.estimates.registry import Ask
from ldp_core.exact.composition import ChangeTimes, History, Spent
from ldp_core.exact.probability import float_above
from ldp_core.limits import DEFAULT, Limits, check_nesting, read_json, read_toml
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.noise.keyed import Keyed
from ldp_core.noise.secret import Secret
from ldp_core.parameters import Declared, check_integer
from ldp_core.plans import sharing as several_columns
from ldp_core.plans.drawn import DrawnColumn, DrawnColumns, composed
from ldp_core.plans.fake import FakeDataColumn
from ldp_core.plans.metadata import PLAIN, from_text, to_text
from ldp_core.plans.promises import promises, shuffled
from ldp_core.plans.provenance import check_same, is_report, maker, typed, warn_assumed
from ldp_core.plans.registry import entry
from ldp_core.plans.sharing import Column
from ldp_core.plans.simulation import Data, Simulation, simulate
from ldp_core.plans.sql import Dialect, histogram_sql
from ldp_core.tables import aligned, folded, html

METADATA_KEY = "ldp.plan"
"""Key of the plan's JSON in the metadata of an Arrow schema or a Parquet file."""
_COMPACT = (",", ":")
PLAN_WAYS = "PrivacyPlan({name: mechanism}) makes a plan, PrivacyPlan.from_toml(path) reads one"
"""Where plans come from, for who passes something else."""


class PrivacyPlan(Declared):
    """What one record reveals: a mechanism for each column that leaves perturbed, and the columns kept as they are.

    Args:
        columns: column name to mechanism.
        keep: columns that pass through **unchanged and unprotected**: event time, a group. A column that
            is in neither is dropped.
        seed: an integer makes every run with this plan repeatable. **Its reports are not private**: for tests
            and simulation, which the plan says wherever it travels. See `seeded`.

    Where a record answers one of several columns (`PrivacyPlan.sampled`, `PrivacyPlan.fake`), these columns spend their
    epsilon once; all others add up.

    Raises:
        PlanError: no columns, a column both perturbed and kept, or a seed that is not an integer; or columns of which
            a record answers one, and they are not all there.

    >>> from ldp_core import RandomizedResponse, UnaryEncoding
    >>> plan = PrivacyPlan(
    ...     {"os": UnaryEncoding(["ios", "android"], epsilon=2), "crashed": RandomizedResponse(epsilon=1)},
    ...     keep=["event_time"],
    ... )
    >>> plan.epsilon
    3.0
    >>> PrivacyPlan.from_dict(plan.to_dict()) == plan
    True
    """

    columns: Mapping[str, Mechanism]
    keep: tuple[str, ...]
    seed: int | None
    drawn: DrawnColumns | None
    """The columns of which a record answers one; None if there are none."""

    def __init__(
        self,
        columns: Mapping[str, Mechanism],
        *,
        keep: Iterable[str] = (),
        seed: int | None = None,
        epsilon: None = None,
    ) -> None:
        if epsilon is not None:
            raise PlanError(
                "each mechanism of a plan has its own epsilon: PrivacyPlan.split(columns, epsilon=) divides one"
            )
        if not isinstance(columns, Mapping):
            raise PlanError(f"a plan maps column names to mechanisms, got {type(columns).__name__}: {PLAN_WAYS}")
        if isinstance(keep, str) or not isinstance(keep, Iterable):
            raise PlanError(f"keep is a list of column names, got {type(keep).__name__}")
        columns, keep = dict(columns), tuple(keep)
        if not all(isinstance(name, str) for name in keep):
            raise PlanError("keep is a list of column names, and names are text")
        if not columns:
            raise PlanError("a plan needs at least one perturbed column")
        for name, mechanism in columns.items():
            _check_column(name, mechanism)
        both = sorted(columns.keys() & set(keep))
        if both or len(set(keep)) < len(keep):
            raise PlanError(f"columns {both or list(keep)} are named twice; a column is either perturbed or kept")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise PlanError(f"seed must be an integer or None, got {type(seed).__name__}")
        drawn = tuple((name, m) for name, m in columns.items() if isinstance(m, DrawnColumn))
        try:
            all_drawn = DrawnColumns(drawn) if drawn else None
        except ParameterError as error:
            raise PlanError(str(error)) from None
        items = tuple(columns.items())
        self._declare(columns=MappingProxyType(columns), keep=keep, seed=seed, drawn=all_drawn, _items=items)

    @classmethod
    def split(
        cls,
        columns: Mapping[str, Column],
        *,
        epsilon: float,
        weights: Mapping[str, float] | None = None,
        keep: Iterable[str] = (),
        seed: int | None = None,
    ) -> PrivacyPlan:
        """Every column is reported, each with a part of ``epsilon`` (SPL).

        Args:
            columns: name to domain (a `Domain` or a list of labels; the mechanism is then the best of
                `ldp_core.recommend`) or to a mechanism, which keeps its epsilon and leaves the rest to the others.
            epsilon: what a record spends; the parts are rounded down.
            weights: in what proportion the columns share; default 1 each.
            keep: see `PrivacyPlan`.
            seed: see `PrivacyPlan`.

        Raises:
            PlanError: the given mechanisms leave nothing; weights that are none; or a bad column.

        >>> PrivacyPlan.split({"os": ["ios", "android"], "crashed": [False, True]}, epsilon=2.0, weights={"os": 3})
        column          mechanism            values  epsilon
        os              randomized_response  2       1.5
        crashed         randomized_response  2       0.5
        total a record                               2
        """
        made = cls(several_columns.split(columns, epsilon, weights), keep=keep, seed=seed)
        warn_large(max(m.epsilon for m in made.columns.values()))
        return made

    @classmethod
    def sampled(
        cls, columns: Mapping[str, Column], *, epsilon: float, keep: Iterable[str] = (), seed: int | None = None
    ) -> PrivacyPlan:
        """Each record answers one column, drawn at random, with all of ``epsilon``; the others are null (SMP).

        Args:
            columns: see `split`; a mechanism's epsilon may be less than ``epsilon``, and not more.
            epsilon: what a record spends; see `ldp_core.plans.drawn` for the proof.
            keep: see `PrivacyPlan`.
            seed: see `PrivacyPlan`.

        Raises:
            PlanError: fewer than two columns, or a bad one.

        >>> PrivacyPlan.sampled({"os": ["ios", "android"], "level": range(40), "crashed": [False, True]}, epsilon=2.0)
        column          mechanism                     values  epsilon
        os              randomized_response (1 of 3)  2       2
        level           subset_selection (1 of 3)     40      2
        crashed         randomized_response (1 of 3)  2       2
        total a record                                        2
        """
        made = cls(several_columns.sampled(columns, epsilon), keep=keep, seed=seed)
        warn_large(epsilon)
        return made

    @classmethod
    def fake(
        cls,
        columns: Mapping[str, Column],
        *,
        epsilon: float,
        priors: Mapping[str, Iterable[float]] | None = None,
        keep: Iterable[str] = (),
        seed: int | None = None,
    ) -> PrivacyPlan:
        """Each record answers one column, drawn at random, and carries fake data in the others (RS+FD, RS+RFD).

        The reports do not tell which column was answered; the price is a larger error than `sampled` has. The
        columns answer with ``epsilon``, not with the larger one of the paper: see `ldp_core.plans.fake` for why.

        Args:
            columns: see `sampled`. Of domains the mechanism is randomized response or optimized unary encoding,
                whichever has the smaller error.
            epsilon: what a record spends.
            priors: name to a weight for each value: fake values are drawn in these proportions.
            keep: see `PrivacyPlan`.
            seed: see `PrivacyPlan`.

        Raises:
            PlanError: fewer than two columns, a bad one, or a prior that is none.

        >>> PrivacyPlan.fake({"os": ["ios", "android"], "level": range(40)}, epsilon=2.0, priors={"os": [0.3, 0.7]})
        column          mechanism                     values  epsilon
        os              randomized_response (1 of 2)  2       2
        level           unary_encoding (1 of 2)       40      2
        total a record                                        2
        """
        made = cls(several_columns.fake(columns, epsilon, priors), keep=keep, seed=seed)
        warn_large(epsilon)
        return made

    _items: tuple[tuple[str, Mechanism], ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (dict(self.columns), self.keep, self.seed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivacyPlan) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self._items, self.keep, self.seed

    def seeded(self, seed: int | None) -> PrivacyPlan:
        """The plan with a seed, whose reports are repeatable and **not private**; or with None, without one.

        >>> from ldp_core import RandomizedResponse
        >>> PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}).seeded(7)
        column          mechanism            values  epsilon
        crashed         randomized_response  2       1
        total a record                               1
        seeded with 7: repeatable, and therefore NOT private
        """
        return PrivacyPlan(self.columns, keep=self.keep, seed=seed)

    def __iter__(self) -> Iterator[str]:
        """Names of the columns of a report: the perturbed ones, then the kept ones."""
        return iter((*self.columns, *self.keep))

    def __getitem__(self, column: str) -> Mechanism:
        try:
            return self.columns[column]
        except KeyError:
            pass
        raise PlanError(f"the plan does not perturb column {column!r}; it perturbs {sorted(self.columns)}")

    def __repr__(self) -> str:
        return "\n".join(aligned(self._rows()) + self._seed_warning())

    def _repr_html_(self) -> str:
        return html(self._rows(), numbers=[3], notes=self._seed_warning())

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("column", "mechanism", "values", "epsilon")]
        rows += [(c, m.title, m.inputs.summary, _spends(m)) for c, m in self.columns.items()]
        rows += [(c, "kept as it is", "", "unprotected") for c in self.keep]
        rows += [("total a record", "", "", f"{self.epsilon:.4g}")]
        return rows

    def _seed_warning(self) -> list[str]:
        return [] if self.seed is None else [f"seeded with {self.seed}: repeatable, and therefore NOT private"]

    def shuffled(self, n: int, delta: float, *, rows: bool = True) -> float:
        """What one of n shuffled records spends: they are (this epsilon, ``delta``)-differentially private.

        It assumes that each of n people sends one record, ever, with fresh noise of its own, and that identities,
        order and arrival times are taken off before anybody sees the records. **Columns that are kept tell records
        apart**: a record hides only among those that have the same values in all of them, so let n be the least
        number of records that do. Who can tell whose record is whose learns what `epsilon` allows.

        Args:
            n: number of people, >= 1.
            delta: in (0, 1); well below 1 / n.
            rows: whether the shuffled records are seen; False if no more is seen than tallies or estimates of each
                column, which do not say what stood in one row.

        Returns:
            An upper bound, at most `epsilon`. With one column that of its mechanism, see `Mechanism.shuffled`. With
            several, that of any mechanism of this epsilon, see `ldp_core.shuffled_epsilon`; or, without rows, the sum
            over the columns, with equal parts of ``delta``, if that is less.

        Raises:
            ParameterError: n or delta outside its interval.
            PlanError: a seeded plan, which promises nothing.

        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"ill": RandomizedResponse(epsilon=1), "crashed": RandomizedResponse(epsilon=1)})
        >>> [round(plan.shuffled(100_000, 1e-6, rows=rows), 4) for rows in (True, False)]
        [0.045, 0.0263]
        """
        if self.seed is not None:
            raise PlanError("a seeded plan promises nothing, also when shuffled: use the plan without its seed")
        return shuffled(self.columns, self.exact_epsilon, n, delta, rows=rows)

    def explain(
        self,
        n: int,
        *,
        reports: Iterable[int] = (1, 10, 100),
        keyed: bool = False,
        total: float | None = None,
        delta: float | None = None,
    ) -> str:
        """What each column spends, and the error to expect of its estimates from ``n`` records, in words and numbers.

        The margin is half of a 95 % interval, of the noise alone: of a value that one record in d holds, d being the
        number of values, or of a mean where the noise is greatest. If the standard error exceeds that share, the column
        tells more noise than signal, and the text says what would help. Then, what several records of one person spend
        together, see `epsilon_of`; and what an attacker learns, in the worst case, whatever they knew before.

        Args:
            n: number of records, an integer.
            reports: of one person: numbers for which to say what they spend together.
            keyed: whether the noise is keyed, for what several reports of one person spend.
            total: what all reports of a person spend, to say that too: of fresh noise `ldp_core.total_epsilon`.
            delta: to say too what the histograms reveal if the reports are shuffled, see `shuffled`.

        >>> from ldp_core import UnaryEncoding
        >>> plan = PrivacyPlan({"os": UnaryEncoding(["ios", "android"], epsilon=1.0)})
        >>> print(plan.explain(10_000))
        column          mechanism       epsilon  margin, 95 %
        os              unary_encoding  1        ± 4.01 % of the records
        total a record                  1
        <BLANKLINE>
        records of one person  1  10  100  any number
        epsilon together       1  10  100    no bound
        <BLANKLINE>
        one record (epsilon 1): odds between two values change at most 2.72-fold; of 2
          equally likely values the right one is guessed at most 73.2 % of the time
          (50 % without)
        """
        if isinstance(table_of(n), (pa.Table, pa.RecordBatch)):
            raise ParameterError(
                "n is the number of reports, got a frame: plan.explain(len(frame)), or of Polars df.ldp.explain(plan)"
            )
        check_integer("n", n, low=0)
        rows = [("column", "mechanism", "epsilon", "margin, 95 %")]
        warnings = []
        for name, m in self.columns.items():
            outlook = m.explain(n)
            rows.append((name, m.title, _spends(m), outlook.margin))
            if outlook.advice is not None:
                warnings.append(f"{name}: {outlook.advice}")
        rows += [(name, "kept as it is", "unprotected", "") for name in self.keep]
        rows.append(("total a record", "", f"{self.epsilon:.4g}", ""))
        learnt = (
            [] if self.seed is not None else promises(self.columns, self.exact_epsilon, n, total=total, delta=delta)
        )
        parts = [
            aligned(rows) + folded(warnings),
            self._of_a_person(reports, keyed),
            folded(learnt) + self._seed_warning(),
        ]
        return "\n\n".join("\n".join(part) for part in parts if part)

    def simulate(
        self,
        data: Data,
        *,
        n: int | None = None,
        seed: int | np.random.Generator | None = None,
        confidence: float = 0.95,
        ask: Mapping[str, Ask] | None = None,
    ) -> Simulation:
        """What the estimates would look like for such data, without making reports: see `Mechanism.simulate`.

        Each column by itself: what the columns of one record have to do with each other does not show. **A simulation,
        not a release**: it sees the data, and promises nothing.

        Args:
            data: an Arrow table or batch; or a mapping from columns to their values, or to a mapping from values to
                numbers of people, or to shares. (Of a Polars frame: ``df.ldp.simulate(plan)``.)
            n: people; they have the shares of the data, as near as whole numbers can be. Default: as many as there are.
            seed: for the same again; default: the operating system's randomness.
            confidence: of the intervals.
            ask: by column, what to ask other than the usual (`usual_question`).

        Returns:
            A mapping from each column to the answer. A sketch is asked about the 100 most frequent values of the data.

        Raises:
            PlanError: a column is missing.
            ParameterError: shares without n; numbers that are none.
            DomainError, DtypeError: see `Domain.encode`.

        >>> from ldp_core import Hybrid, RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0), "minutes": Hybrid((0, 60), epsilon=1.0)})
        >>> plan.simulate({"crashed": {True: 0.1, False: 0.9}, "minutes": [5, 10, 60]}, n=30_000, seed=1)
        crashed: Histogram of 30,000 reports, 95% intervals (per value)
        value     count  std.error       low      high  frequency      low     high
        false  27,012.1      166.2  26,686.4  27,337.8    90.04 %  88.95 %  91.13 %
        true    2,987.9      166.2   2,662.2   3,313.6     9.96 %   8.87 %  11.05 %
        <BLANKLINE>
        minutes: Mean of 30,000 reports: 24.7668, standard error 0.387, 95% interval 24.0092 to 25.5244
        """
        return simulate(self.columns, data, n, seed, confidence, ask)

    def _of_a_person(self, reports: Iterable[int], keyed: bool) -> list[str]:
        """What several reports of one person spend, as lines."""
        counts = (*(check_integer("reports", k, low=1) for k in reports), None)
        head = ("records of one person", *("any number" if k is None else f"{k:,}" for k in counts))
        cases: list[tuple[str, int | None, ChangeTimes]] = [
            ("epsilon, if values never change", 0, "secret"),
            ("epsilon, if they change in secret", None, "secret"),
        ]
        if keyed or self.memoised:
            cases.append(("epsilon, if they change in public", None, "public"))
        rows = []
        for name, changes, times in cases:
            spent = [self.epsilon_of(k, changes=changes, change_times=times, keyed=keyed) for k in counts]
            rows.append((name, *("no bound" if math.isinf(s) else f"{s:.4g}" for s in spent)))
        if len({row[1:] for row in rows}) == 1:
            rows = [("epsilon together", *rows[0][1:])]
        fakes = [name for name, m in self.columns.items() if isinstance(m, FakeDataColumn)]
        shown = f"keyed noise: which of the columns {fakes} a person answers is seen once values change"
        table = aligned([head, *rows], numbers=range(1, len(head)))
        return table + (folded([shown]) if fakes and (keyed or self.memoised) else [])

    def check_oracles(self) -> None:
        """Raise `PlanError` unless a histogram can be made of every perturbed column."""
        others = sorted(self.columns.keys() - self.oracles.keys())
        if others:
            raise PlanError(
                f"columns {others} are not perturbed by a frequency oracle: there is no histogram of them "
                "(of numbers take the mean, of a sketch give candidates, sketch.over([...]))"
            )

    @property
    def oracles(self) -> dict[str, FrequencyOracle]:
        """The columns of which histograms can be made."""
        return {name: m for name, m in self.columns.items() if isinstance(m, FrequencyOracle)}

    @property
    def epsilon(self) -> float:
        """What one record spends over all its columns: the sum (sequential composition). See `epsilon_of` for several.

        Columns of which it answers one spend the largest epsilon among them, once.
        """
        return float_above(self.exact_epsilon)

    @property
    def exact_epsilon(self) -> Fraction:
        """`epsilon` before it is rounded to a float, for budgets."""
        return Fraction(composed(self.columns.values(), lambda m: Fraction(m.epsilon)))

    def epsilon_of(
        self,
        reports: int | None = 1,
        *,
        changes: int | None = 0,
        change_times: ChangeTimes = "secret",
        keyed: bool = False,
    ) -> float:
        """What several reports of one person spend over all columns: the sum of `Mechanism.epsilon_of`.

        Of columns of which a record answers one, the largest counts. With fresh noise each record draws its column anew
        and spends epsilon; with keyed noise a person answers the same column for ever, and its reports spend what they
        would alone (`ldp_core.plans.drawn`).

        Args:
            reports: how many; None for any number.
            changes: how often the value of *each* column changes at most; None for any number.
            change_times: see `Mechanism.epsilon_of`, for each column.
            keyed: whether the noise is keyed. A plan with a memoised mechanism takes keyed noise for all its columns,
                and is counted so.

        Returns:
            A number of nats, rounded up; infinite if there is no bound.

        Raises:
            ParameterError: negative numbers, or other words.

        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0), "won": RandomizedResponse(epsilon=0.5)})
        >>> plan.epsilon_of(3), plan.epsilon_of(3, keyed=True), plan.epsilon_of(3, changes=1, keyed=True)
        (4.5, 1.5, inf)
        """
        return float_above(self.spent_by(History.of(reports, changes, change_times, keyed)))

    def spent_by(self, history: History) -> Spent:
        """`epsilon_of` before it is rounded to a float, for budgets."""
        history = replace(history, keyed=history.keyed or self.memoised)
        return composed(self.columns.values(), lambda m: m.spent_by(history))

    @property
    def memoised(self) -> bool:
        """Whether a mechanism is memoised, so that the noise of all columns is keyed."""
        return any(m.memoised for m in self.columns.values())

    def check_noise(self, *, keyed: bool) -> None:
        """Raise `ParameterError` if a mechanism is memoised and the noise is not keyed."""
        for mechanism in self.columns.values():
            (mechanism.inner if isinstance(mechanism, DrawnColumn) else mechanism).check_noise(keyed=keyed)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the plan."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def check_columns(self, available: Iterable[str]) -> None:
        """Raise `PlanError` if a planned column is not among ``available``."""
        there = set(available)
        missing = [name for name in self if name not in there]
        if missing:
            raise PlanError(
                f"the plan names columns that the data do not have: {missing}; the data have {sorted(there)}"
            )

    def schema(self, source: pa.Schema, *, packed: bool = False) -> pa.Schema:
        """Names and types of the reports made from data of schema ``source``.

        It says nothing of how they were made: the reports themselves do, see `check_reports`. So data that were never
        perturbed do not pass for reports when they are written with this schema.
        """
        self.check_columns(source.names)
        fields = [
            pa.field(name, m.reports.arrow_type(packed=packed), nullable=m.reports.nullable)
            for name, m in self.columns.items()
        ]
        return pa.schema([*fields, *(source.field(name) for name in self.keep)])

    def with_proof(self, schema: pa.Schema, *, seeded: bool) -> pa.Schema:
        """``schema`` with the plan in its metadata, and in each planned column's who made the reports.

        For those who have made or checked the reports themselves: others take `assume_reports`.
        """
        fields = [
            typed(field, self.columns[field.name], seeded=seeded) if field.name in self.columns else field
            for field in schema
        ]
        return pa.schema(fields, metadata=self.metadata)

    @cached_property
    def metadata(self) -> dict[str, str]:
        """What files and messages of its reports have in their metadata; `from_metadata` reads it."""
        return {METADATA_KEY: to_text(self.to_dict(), separators=_COMPACT)}

    def check_readable(self) -> None:
        """Raise `PlanError` if the plan is beyond this process's limits: files of it could not be read back."""
        from_text(self.metadata[METADATA_KEY], "the plan", PlanError)

    def check_reports(self, schema: pa.Schema) -> None:
        """Raise unless data of this schema are, by what it says of each column, reports that this plan has made.

        A batch that `perturb` or ``ldp_beam.Perturb`` has made says so, and a frame that ``.ldp.perturb(plan)`` has;
        it stays with the data when they are sliced, filtered, concatenated, written and read, in Arrow, Polars and
        Parquet. A column that is put in its place under the same name does not say so. A writer asks before it writes
        the plan.

        It guards against mistakes, and is not a signature: a schema or dtype of reports says the same of whatever it is
        given to (``pa.Table.cast``, ``from_pydict(..., schema=)``, ``pl.DataFrame(..., schema=)``, a Polars ``cast`` to
        it). In Arrow it is metadata of a field, which ``pa.concat_tables(..., promote_options="default")`` takes from
        the first table for the rows of all: do not concatenate raw data and reports there.

        Raises:
            PlanError: a planned column holds no reports, for all that is known, or seeded ones although the plan is
                not seeded; or there is a column that the plan neither perturbs nor keeps.
            MechanismMismatchError: a column's reports were made by another mechanism.

        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
        >>> raw = pa.record_batch({"crashed": [True, False]})
        >>> plan.check_reports(plan.perturb(raw).schema)
        >>> plan.check_reports(raw.schema)
        Traceback (most recent call last):
            ...
        ldp_core.errors.PlanError: columns ['crashed']: nothing says that these are reports of the plan: perturb the \
data with the plan; for reports that were made elsewhere there is assume_reports
        """
        self.check_made(schema.names, {field.name: maker(field) for field in schema})

    def check_made(self, names: Sequence[str], makers: Mapping[str, tuple[Mechanism, bool] | None]) -> None:
        """`check_reports` of columns of which it is known who made them, and whether with a seed, or None."""
        self._check_no_others(names)
        unproved = [name for name in self.columns if name in makers and makers[name] is None]
        if unproved:
            raise PlanError(
                f"columns {unproved}: nothing says that these are reports of the plan: perturb the data with the plan; "
                "for reports that were made elsewhere there is assume_reports"
            )
        for name, mechanism in self.columns.items():
            made = makers.get(name)
            if made is not None:
                check_same(made[0], mechanism, name)
                if made[1] and self.seed is None:
                    raise PlanError(
                        f"column {name!r} holds seeded reports, which are not private: use plan.seeded(seed)"
                    )

    def _check_no_others(self, names: Sequence[str]) -> None:
        """Raise `PlanError` if there are columns that the plan does not name, or several of one name."""
        others = sorted(set(names) - set(self))
        if others:
            raise PlanError(
                f"columns {others} are neither perturbed nor kept by the plan, so they do not travel with it: drop "
                "them, or name them in the plan's keep"
            )
        if len(set(names)) < len(names):
            raise PlanError("there are several columns of one name")

    def assume_reports(self, data: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """``data`` as reports of this plan, **on your word alone**; with an `LdpWarning`.

        For reports that were made elsewhere, by this plan, and lost what said so: on devices in another language, in
        single records, in CSV. If they are raw values, they travel as reports from here on.

        Args:
            data: the plan's columns and no others, each of the type of the plan's reports; text may be plain text.

        Raises:
            PlanError: a column is missing, is not the plan's, or of another type.

        >>> import warnings
        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
        >>> with warnings.catch_warnings(action="ignore"):
        ...     reports = plan.assume_reports(pa.record_batch({"crashed": [True, False]}))
        >>> plan.check_reports(reports.schema)
        """
        self.check_columns(data.schema.names)
        self._check_no_others(data.schema.names)
        for name, m in self.columns.items():
            fits = [m.reports.arrow_type(packed=packed) for packed in (False, True)]
            fits += [pa.string(), pa.large_string()] if pa.types.is_dictionary(fits[0]) else []
            if (got := data.schema.field(name).type) not in fits:
                raise PlanError(f"column {name!r}: reports made by this plan are {fits[0]}, got {got}: no reports")
        warn_assumed(self.columns)
        return data.cast(self.with_proof(data.schema, seeded=self.seed is not None))

    def perturb(
        self,
        batch: Any,
        *,
        packed: bool = False,
        key: Secret | None = None,
        id: Any = None,  # noqa: A002 (its name everywhere)
        records: Any = None,
    ) -> Any:
        """One report a record: planned columns perturbed, `keep` passed on, all else dropped.

        Args:
            batch: the records: an Arrow batch or table, or a frame of Polars or pandas.
            packed: bit vectors as 64-bit words.
            key: for keyed noise, with ``id``; see `Keyed`. Each column's name is its noise's.
            id: whose record each is; with a seeded plan, and without ``key``, what tells the records apart.
            records: with ``key``: what tells the records apart, for mechanisms that remember; see `Keyed`.

        Returns:
            An Arrow batch for a batch, a table for everything else.

        Raises:
            PlanError: no records; a planned column is missing; the plan is seeded, and there is no id or another key.
            DomainError, DtypeError: see `Domain.encode`; the message names the column.
            MechanismMismatchError: the batch says that a planned column holds reports already.
        """
        batch = table_of(batch)
        if not isinstance(batch, (pa.Table, pa.RecordBatch)):
            raise PlanError(
                f"records to perturb are an Arrow batch or table, or a frame, got {type(batch).__name__}; of a "
                "LazyFrame take .ldp.perturb(plan)"
            )
        refuse_reports(batch.schema, self.columns)
        schema = self.schema(batch.schema, packed=packed)
        if self.seed is not None:
            if key is not None or id is None:
                raise PlanError("a seeded plan takes id=, which tells the records apart, and no key")
            key = Secret.from_seed(self.seed)
        schema = self.with_proof(schema, seeded=key is not None and key.seeded)
        keyed = None if key is None else Keyed(key, id, column="", records=records)
        reports = self.perturb_columns({name: batch.column(name) for name in self.columns}, keyed, packed=packed)
        kept = (batch.column(name) for name in self.keep)
        return type(batch).from_arrays([*reports.values(), *kept], schema=schema)

    def perturb_columns(self, values: Mapping[str, Any], keyed: Keyed | None, *, packed: bool) -> dict[str, Any]:
        """Reports of each planned column: an Arrow array, or for values in another form what `Mechanism.perturb` gives.

        Args:
            values: of each planned column, n each.
            keyed: keyed noise for the records, or None for fresh noise. Each column's name is its noise's.
            packed: bit vectors as 64-bit words.

        Raises:
            DomainError, DtypeError: see `Domain.encode`; the message names the column.
        """
        reports: dict[str, Any] = dict.fromkeys(self.columns)
        for name, m in self.columns.items():
            if not isinstance(m, DrawnColumn):
                randomness = None if keyed is None else keyed.named(name)
                reports[name] = m.perturb(values[name], randomness=randomness, packed=packed, column=name)
        if self.drawn:
            names = [name for name, _ in self.drawn.columns]
            reports |= zip(names, self.drawn.perturb([values[n] for n in names], keyed, packed=packed), strict=True)
        return reports

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        seed = {} if self.seed is None else {"seed": self.seed}
        return {"keep": list(self.keep), **seed, "columns": {name: m.to_dict() for name, m in self.columns.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PrivacyPlan:
        """Inverse of `to_dict`.

        Raises:
            PlanError: no table, keys are missing or unknown, or a column's mechanism is not valid.
        """
        if not isinstance(data, Mapping):
            raise PlanError(f"a plan is a table, got {type(data).__name__}")
        check_nesting(data, "a plan", PlanError)
        unknown = sorted(data.keys() - {"keep", "seed", "columns"})
        if unknown or not isinstance(data.get("columns"), Mapping):
            raise PlanError(f'a plan has a table "columns", a list "keep" and perhaps a "seed", got {sorted(data)}')
        columns = {}
        for name, spec in data["columns"].items():
            if not isinstance(spec, Mapping):
                raise PlanError(f"column {name!r}: a mechanism is a table, got {type(spec).__name__}")
            try:
                columns[name] = Mechanism.from_dict(spec)
            except LdpError as error:
                raise PlanError(f"column {name!r}: {error}") from None
        return cls(columns, keep=data.get("keep", ()), seed=data.get("seed"))

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps(self.to_dict(), separators=_COMPACT)

    @classmethod
    def from_json(cls, text: str | bytes, *, limits: Limits = DEFAULT) -> PrivacyPlan:
        """Inverse of `to_json`.

        Args:
            text: JSON, from anybody.
            limits: for its length, and that of the lists and texts in it.

        Raises:
            PlanError: no JSON, over the limits, or not a plan.

        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
        >>> PrivacyPlan.from_json(plan.to_json()) == plan
        True
        """
        if not isinstance(text, (str, bytes)):
            raise PlanError(f"a plan in JSON is text, got {type(text).__name__}")
        return cls.from_dict(read_json(text, "the plan", PlanError, limits))

    @classmethod
    def from_metadata(cls, metadata: Mapping[bytes, bytes] | None, *, limits: Limits = DEFAULT) -> PrivacyPlan:
        """The plan in the metadata of an Arrow schema or Parquet file that reports were written with.

        Raises:
            PlanError: there is none; or see `from_json`.
        """
        text = (metadata or {}).get(METADATA_KEY.encode())
        if text is None:
            raise PlanError(f"the metadata have no {METADATA_KEY!r}: these are not reports made with a plan")
        return cls.from_dict(from_text(text, "the plan", PlanError, limits))

    def sql(
        self,
        column: str,
        table: str,
        *,
        dialect: Dialect = "duckdb",
        packed: bool = False,
        by: Sequence[str] = (),
        confidence: float = 0.95,
    ) -> str:
        """A query that makes a histogram of a column of reports in a database which knows nothing of this package.

        Of randomized response and of mechanisms whose reports are a bit a value. Columns of the answer: those of
        ``by``, then value, count, standard_error, low, high, frequency, n; as `Mechanism.estimate` has them.

        Args:
            column: one that the plan perturbs.
            table: what stands after FROM, as it stands there: ``reports``, ``read_parquet('reports.parquet')``.
            dialect: ``"duckdb"`` or ``"bigquery"``. (The tests run the first and parse the second.)
            packed: whether bits are in 64-bit words, as ``perturb(..., packed=True)`` has them: files of
                ``ldp perturb`` and of ``ldp run --reports`` do. The query does not look at the file. If this is
                wrong, the database complains of types, such as that of ``count_if``.
            by: columns that tell groups apart, each of which gets a histogram.
            confidence: of the intervals.

        Raises:
            PlanError: the plan does not perturb this column.
            ParameterError: reports that SQL cannot count; another dialect; a confidence outside (0, 1).

        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
        >>> [line.strip() for line in plan.sql("crashed", "reports").splitlines()[2:4]]
        ['count_if("crashed" = FALSE),', 'count_if("crashed" = TRUE)']
        """
        return histogram_sql(self[column], column, table, dialect=dialect, packed=packed, by=by, confidence=confidence)

    def registry_entry(self) -> str:
        """An entry for the public registry of deployments of differential privacy, as YAML: what a plan knows of it.

        What only you can write (name, purpose, who is responsible) says so. The registry and its form:
        https://registry.opendp.org/deployments-registry.

        Raises:
            PlanError: the plan has a seed, so its reports are not private.

        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}, keep=["day"])
        >>> [line for line in plan.registry_entry().splitlines() if "epsilon" in line][1:]
        ['      epsilon: 1.0', '    mechanisms: "- crashed: randomized_response, epsilon 1"']
        """
        if self.seed is not None:
            raise PlanError("a plan with a seed is not private: take the plan without it")
        return entry(list(self.columns.items()), self.keep, self.epsilon)

    def to_toml(self) -> str:
        """The plan as TOML, which `from_toml` reads."""
        lines = [f"keep = {_toml(list(self.keep))}"]
        if self.seed is not None:
            lines.append(f"seed = {self.seed}  # repeatable, and therefore NOT private")
        for name, mechanism in self.columns.items():
            lines += ["", f"[columns.{_toml(name)}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in mechanism.to_dict().items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, source: str | PathLike[str], *, limits: Limits = DEFAULT) -> PrivacyPlan:
        """A plan from a TOML file, or from TOML text (a string with a line break or an ``=``).

        An epsilon above 20 warns, as it does in Python.

        Raises:
            PlanError: no such file, not TOML, over the limits, or not a plan.
        """
        if not isinstance(source, (str, PathLike)):
            raise PlanError(f"a plan in TOML is a path or text, got {type(source).__name__}")
        text = str(source)
        if isinstance(source, PathLike) or not ("\n" in text or "=" in text):
            try:
                text = Path(source).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "not a text file in UTF-8"
                raise PlanError(f"cannot read the plan {str(source)!r}: {reason}") from None
        made = cls.from_dict(read_toml(text, "the plan", PlanError, limits))
        warn_large(max(m.epsilon for m in made.columns.values()))
        return made


def _restored(columns: dict[str, Mechanism], keep: tuple[str, ...], seed: int | None) -> PrivacyPlan:
    return PrivacyPlan(columns, keep=keep, seed=seed)


def _spends(mechanism: Mechanism) -> str:
    """What a report spends; and all reports about one value together, where the mechanism remembers."""
    in_all = getattr(getattr(mechanism, "inner", mechanism), "epsilon_infinity", None)
    return f"{mechanism.epsilon:.4g}" + ("" if in_all is None else f" ({in_all:.4g} in all)")


def _toml(value: Any) -> str:
    """A TOML literal; a JSON string is a TOML basic string but for DEL, which TOML wants escaped."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def plan_of(schema: pa.Schema) -> PrivacyPlan | None:
    """The plan in a schema's metadata, if there is one.

    Raises:
        PlanError: what is there is not a plan.
    """
    text = (schema.metadata or {}).get(METADATA_KEY.encode())
    return None if text is None else (_short_plan if len(text) <= PLAIN else _long_plan)(text)


def _plan_in(text: bytes) -> PrivacyPlan:
    return PrivacyPlan.from_metadata({METADATA_KEY.encode(): text})


_short_plan, _long_plan = lru_cache(maxsize=16)(_plan_in), lru_cache(maxsize=2)(_plan_in)
"""The same plan is in every batch of a stream. Of long ones few are kept: they take memory, and may be a stranger's."""


def refuse_reports(schema: pa.Schema, columns: Iterable[str]) -> None:
    """Raise if the data's own plan, or a column's type, says that one of ``columns`` holds reports already.

    Raises:
        MechanismMismatchError: perturbing reports again makes estimates wrong.
    """
    plan, names = plan_of(schema), set(columns)
    planned = sorted(plan.columns.keys() & names) if plan else []
    typed = sorted(field.name for field in schema if field.name in names and is_report(field))
    for again, who in ((planned, "the plan in the data's metadata"), (typed, "their type")):
        if again:
            raise MechanismMismatchError(f"columns {again} hold reports already, says {who}; do not perturb them again")


def _check_column(name: object, mechanism: object) -> None:
    """Raise `PlanError` unless these are a column's name and its mechanism."""
    if not isinstance(name, str) or not isinstance(mechanism, Mechanism):
        got = f"a class, {mechanism.__name__}" if isinstance(mechanism, type) else type(mechanism).__name__
        raise PlanError(
            f"a plan maps column names to mechanisms, got {got} for {name!r}; "
            "PrivacyPlan.split(columns, epsilon=) makes mechanisms of lists of values"
        )
