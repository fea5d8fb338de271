"""A privacy plan: which columns are perturbed by what, which pass unchanged; all others are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ldp_core.arrays.arrow import table_of
from ldp_core.errors import DtypeError, ParameterError, PlanError, warn_large
from ldp_core.limits import DEFAULT, Limits
from ldp_core.noise.keyed import Keyed
from ldp_core.noise.secret import Secret
from ldp_core.plans.contents import PLAN_WAYS
from ldp_core.plans.drawn import DrawnColumn
from ldp_core.plans.forms import METADATA_KEY, PlanForms, PlanTold
from ldp_core.plans.provenance import is_report
from ldp_core.randomizer.declared import refuse_keys_in, refuse_reports_in
from ldp_core.tables import aligned, html

if TYPE_CHECKING:  # imported when they are used
    from ldp_core.estimates.registry import Ask
    from ldp_core.plans.sharing import Column
    from ldp_core.plans.simulation import Data, Simulation
    from ldp_core.plans.sql import Dialect

__all__ = ["METADATA_KEY", "PLAN_WAYS", "PrivacyPlan", "plan_of", "refuse_keys", "refuse_reports"]


class PrivacyPlan(PlanForms):
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

    >>> from ldp_core import RandomizedResponse
    >>> plan = PrivacyPlan(
    ...     {"os": RandomizedResponse(["ios", "android"], epsilon=2), "crashed": RandomizedResponse(epsilon=1)},
    ...     keep=["event_time"],
    ... )
    >>> plan.epsilon
    3.0
    >>> PrivacyPlan.from_dict(plan.to_dict()) == plan
    True
    """

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
            columns: name to domain (a `Domain`, a list of labels, an `Interval` of numbers, or `Prefixes` of text; the
                mechanism is then the best of `ldp_core.recommend`) or to a mechanism, which keeps its epsilon and
                leaves the rest to the others.
            epsilon: what a record spends; the parts are rounded down.
            weights: in what proportion the columns share; default 1 each.
            keep, seed: see `PrivacyPlan`.

        Raises:
            PlanError: the given mechanisms leave nothing; weights that are none; or a bad column.

        >>> PrivacyPlan.split({"os": ["ios", "android"], "crashed": [False, True]}, epsilon=2.0, weights={"os": 3})
        column          mechanism            values  epsilon
        os              randomized_response  2       1.5
        crashed         randomized_response  2       0.5
        total a record                               2
        """
        from ldp_core.plans import sharing

        made = cls(sharing.split(columns, epsilon, weights), keep=keep, seed=seed)
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
            keep, seed: see `PrivacyPlan`.

        Raises:
            PlanError: fewer than two columns, or a bad one.

        >>> PrivacyPlan.sampled({"os": ["ios", "android"], "level": range(40), "crashed": [False, True]}, epsilon=2.0)
        column          mechanism                     values  epsilon
        os              randomized_response (1 of 3)  2       2
        level           subset_selection (1 of 3)     40      2
        crashed         randomized_response (1 of 3)  2       2
        total a record                                        2
        """
        from ldp_core.plans import sharing

        return cls._drawn(sharing.sampled(columns, epsilon), epsilon, keep, seed)

    @classmethod
    def pairs(
        cls, columns: Mapping[str, Column], *, epsilon: float, keep: Iterable[str] = (), seed: int | None = None
    ) -> PrivacyPlan:
        """Each record answers one pair of columns, drawn at random, with all of ``epsilon``: for tables of two columns.

        The reports have a column for each pair, null but for the one that is answered. ``frame.ldp.table`` has the
        table of two columns, with much smaller errors than of reports of a split: see `ldp_core.plans.pairs`.

        Args:
            columns: name to values, two columns or more. The mechanism of a pair is the best frequency oracle for d1 d2
                values.
            epsilon: what a record spends; see `ldp_core.plans.drawn` for the proof.
            keep, seed: see `PrivacyPlan`.

        Raises:
            PlanError: fewer than two columns, a bad one, or names of which two pairs have one name together.

        >>> PrivacyPlan.pairs({"os": ["ios", "web"], "level": range(9), "crashed": [False, True]}, epsilon=2.0)
        column          mechanism                     values  epsilon
        os_level        subset_selection (1 of 3)     18      2
        os_crashed      randomized_response (1 of 3)  4       2
        level_crashed   subset_selection (1 of 3)     18      2
        total a record                                        2
        """
        from ldp_core.plans import sharing

        return cls._drawn(sharing.pairs(columns, epsilon), epsilon, keep, seed)

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
            keep, seed: see `PrivacyPlan`.

        Raises:
            PlanError: fewer than two columns, a bad one, or a prior that is none.

        >>> PrivacyPlan.fake({"os": ["ios", "android"], "level": range(40)}, epsilon=2.0, priors={"os": [0.3, 0.7]})
        column          mechanism                     values  epsilon
        os              randomized_response (1 of 2)  2       2
        level           unary_encoding (1 of 2)       40      2
        total a record                                        2
        """
        from ldp_core.plans import sharing

        return cls._drawn(sharing.fake(columns, epsilon, priors), epsilon, keep, seed)

    @classmethod
    def _drawn(cls, columns: Mapping[str, Any], epsilon: float, keep: Iterable[str], seed: int | None) -> PrivacyPlan:
        made = cls(columns, keep=keep, seed=seed)
        warn_large(epsilon)
        return made

    def seeded(self, seed: int | None) -> PrivacyPlan:
        """The plan with a seed, whose reports are repeatable and **not private**; or with None, without one.

        One seed is for one frame: rows at the same place of two frames have the same noise, so that intervals of both
        together are too narrow. Seed each frame by itself, or give ``row_id=`` that tells the rows of all apart.

        >>> from ldp_core import RandomizedResponse
        >>> print(repr(PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}).seeded(7)).splitlines()[-1])
        seeded with 7: repeatable, and therefore NOT private
        """
        return PrivacyPlan(self.columns, keep=self.keep, seed=seed)

    def perturb(
        self,
        batch: Any,
        *,
        packed: bool = False,
        key: Secret | None = None,
        id: Any = None,  # noqa: A002 (its name everywhere)
        records: Any = None,
    ) -> Any:
        """One report per record: planned columns perturbed, `keep` passed on, all else dropped.

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
            ParameterError: ``id`` or ``records`` without ``key``, of a plan that is not seeded.

        Warns:
            LdpWarning: the plan is seeded, so that its noise protects nobody.
        """
        batch = table_of(batch)
        if not isinstance(batch, (pa.Table, pa.RecordBatch)):
            raise PlanError(
                f"records to perturb are an Arrow batch or table, or a frame, got {type(batch).__name__}; of a "
                "LazyFrame take .ldp.perturb(plan)"
            )
        refuse_reports(batch.schema, self.inputs)
        schema = self.schema(batch.schema, packed=packed)
        if self.seed is not None:
            if key is not None or id is None:
                raise PlanError("a seeded plan takes id=, which tells the records apart, and no key")
            from ldp_core.plans.explanation import warn_of_seed

            warn_of_seed(self)
            key = Secret.from_seed(self.seed)
        elif key is None and (id is not None or records is not None):
            raise ParameterError("id= and records= tell whose noise is keyed: give key=, a Secret, too")
        if key is not None and isinstance(id, str | None):
            came = f"one a record, got {type(id).__name__}: give the column, id=batch['user']"
            raise DtypeError(f"ids must be integers, text or binary, {came}")
        seeded = key is not None and key.seeded
        schema = self.with_proof(schema, seeded=seeded, keyed=key is not None and not seeded)
        keyed = None if key is None else Keyed(key, id, column="", records=records)
        reports = self.perturb_columns({name: batch.column(name) for name in self.inputs}, keyed, packed=packed)
        kept = (batch.column(name) for name in self.keep)
        return type(batch).from_arrays([*reports.values(), *kept], schema=schema)

    def perturb_columns(self, values: Mapping[str, Any], keyed: Keyed | None, *, packed: bool) -> dict[str, Any]:
        """`perturb` of the values of each planned column: an Arrow array each, or what `Mechanism.perturb` gives."""
        reports: dict[str, Any] = dict.fromkeys(self.columns)
        for name, m in self.columns.items():
            if not isinstance(m, DrawnColumn):
                randomness = None if keyed is None else keyed.named(name)
                reports[name] = m.perturb(values[name], randomness=randomness, packed=packed, column=name)
        if self.drawn:
            names = [name for name, _ in self.drawn.columns]
            reports |= zip(names, self.drawn.perturb(values, keyed, packed=packed), strict=True)
        return reports

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
        from ldp_core.plans.explanation import shuffled

        return shuffled(self.columns, self.exact_epsilon, n, delta, rows=rows)

    def explain(
        self,
        n: int,
        *,
        records: Iterable[int] = (1, 10, 100),
        keyed: bool = False,
        total: float | None = None,
        delta: float | None = None,
        repeats: float = 1.0,
    ) -> str:
        """What each column spends, and the error to expect of its estimates from ``n`` records, in words and numbers.

        The margin is half of a 95 % interval, of the noise alone: of a value of any share, of a mean wherever it is,
        which is where the noise is greatest; of a tree it is of the first half of its values, as a line says. If the
        standard error of a value that one record in d holds, d being the number of values, exceeds that share, the
        column tells more noise than signal, and the text says what would help. Then, what several records of one person
        spend together, see `epsilon_of`; and what an attacker learns, in the worst case, whatever they knew before.

        Args:
            n: number of records, an integer.
            records: of one person: numbers for which to say what they spend together.
            keyed: whether the noise is keyed, for what several reports of one person spend.
            total: what all reports of a person spend, to say that too: of fresh noise `ldp_core.total_epsilon`.
            delta: to say too what the histograms reveal if the reports are shuffled, see `shuffled`; not of several
                reports of a person that share their noise.
            repeats: of m_g records of person g, sum m_g^2 / sum m_g: how many a person has, as a record meets it. Keyed
                and permanent noise is the same in all of them, so that the margin is that of fewer reports: the
                variance is V (1 + (repeats - 1) c) / n, with the part c of the noise that is common (L. Kish, "Survey
                Sampling", 1965, Section 5.4), if values do not change.

        >>> from ldp_core import UnaryEncoding
        >>> plan = PrivacyPlan({"os": UnaryEncoding(["ios", "android"], epsilon=1.0)})
        >>> print(plan.explain(10_000))
        column          mechanism       epsilon  margin, 95 %
        os              unary_encoding  1        ± 4.24 % of the records
        total a record                  1
        <BLANKLINE>
        records of one person  1  10  100  any number
        epsilon together       1  10  100    no bound
        <BLANKLINE>
        one record (epsilon 1): odds between two values change at most 2.72-fold; of 2
          equally likely values the right one is guessed at most 73.2 % of the time
          (50 % without)
        """
        from ldp_core.plans.explanation import explanation

        return explanation(self, n, records=records, keyed=keyed, total=total, delta=delta, repeats=repeats)

    def simulate(
        self,
        data: Data,
        *,
        n: int | None = None,
        seed: int | np.random.Generator | None = None,
        confidence: float = 0.95,
        ask: Mapping[str, Ask] | None = None,
        repeats: int = 1,
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
            ask: by column, what to ask other than the usual (`usual_question`). A sketch is asked about the 100 most
                frequent values of the data.
            repeats: how many reports each person sends, of a value that stays and with fresh noise; intervals are by
                that bound, see `HistogramEstimate`.

        Raises:
            PlanError: a column is missing.
            MechanismMismatchError: the table says that a planned column holds reports.
            ParameterError: shares without n; numbers that are none; repeats above 1 of a mechanism that remembers, or
                of a question that takes none.
            DomainError, DtypeError: see `Domain.encode`.

        >>> from ldp_core import Hybrid, RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0), "minutes": Hybrid((0, 60), epsilon=1.0)})
        >>> plan.simulate({"crashed": {True: 0.1, False: 0.9}, "minutes": [5, 10, 60]}, n=30_000, seed=1)
        crashed: Histogram of 30,000 reports, 95% intervals (per value)
        value     count  std.error       low      high  frequency      low     high
        false  27,012.1      166.2  26,686.4  27,337.8    90.04 %  88.95 %  91.13 %
        true    2,987.9      166.2   2,662.2   3,313.6     9.96 %   8.87 %  11.05 %
        <BLANKLINE>
        minutes: Mean of 30,000 reports: 25.1472, standard error 0.387, 95% interval 24.3894 to 25.905
        """
        from ldp_core.plans.simulation import simulate

        data = table_of(data)
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            refuse_reports(data.schema, self.inputs)
        return simulate(self, data, n, seed, confidence, ask, repeats)

    def sql(
        self,
        column: str | tuple[str, str],
        table: str,
        *,
        dialect: Dialect = "duckdb",
        packed: bool = False,
        by: Sequence[str] = (),
        confidence: float = 0.95,
        repeats: int | None = None,
    ) -> str:
        """A query that makes a histogram of a column of reports, or a table of two, in a database: it needs no Python.

        Of randomized response and of mechanisms whose reports are a bit per value. Columns of the answer: those of
        ``by``, then value, count, standard_error, low, high, frequency, n; as `HistogramEstimate` has them, but
        low and high are null in groups of few reports. Of two columns the values are under the columns' names, as in
        ``frame.ldp.table``; rates with intervals need Python.

        Args:
            column: one that the plan perturbs, or two.
            table: what stands after FROM, as it stands there: ``reports``, ``read_parquet('reports.parquet')``.
            dialect: ``"duckdb"`` or ``"bigquery"``. (The tests run the first and parse the second.)
            packed: whether bits are in 64-bit words, as ``perturb(..., packed=True)`` has them: files of
                ``ldp perturb`` and of ``ldp run --reports`` do. The query does not look at the file. If this is
                wrong, the database complains of types, such as that of ``count_if``.
            by: columns that tell groups apart, each of which gets a histogram.
            confidence, repeats: see `HistogramEstimate`. Where noise is keyed say ``repeats``: the query does not ask.

        Raises:
            PlanError: the plan does not perturb this column.
            ParameterError: reports that SQL cannot count, or that remember, and no ``repeats``; another dialect; a
                confidence outside (0, 1); columns with
                names of the query's own, as ``n``, or that only case tells apart. (The query itself fails where a
                report is null.)

        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
        >>> [line.strip() for line in plan.sql("crashed", "reports").splitlines()[2:4]]
        ['count_if("crashed" = FALSE),', 'count_if("crashed" = TRUE)']
        """
        from ldp_core.plans.sql import histogram_sql, refuse_like_named, table_sql

        asked, by = ([one] if isinstance(one, str) else one for one in (column, by))
        if not all(isinstance(one, Iterable) and all(isinstance(name, str) for name in one) for one in (asked, by)):
            raise ParameterError("column and by are names of columns, which are text")
        refuse_keys_in({name for name in self.columns if name.lower() in map(str.lower, by)}, "the plan")
        refuse_like_named({*asked, *by}, {*self, *by})
        of: Any = {"dialect": dialect, "packed": packed, "by": by, "confidence": confidence, "repeats": repeats}
        if not isinstance(column, str):
            return table_sql(self.columns, column, table, **of)
        return histogram_sql(self[column], column, table, **of)

    def compile(self) -> dict[str, Any]:
        """The plan for clients in other languages: all probabilities as integers, in a mapping that JSON can hold.

        docs/wire.md says what it holds, how reports are drawn with it, and what they are in JSON; a browser's client
        is in clients/js. `read_reports` reads what clients send.

        Raises:
            PlanError: the plan has a seed, or a column has a mechanism that clients do not have.

        >>> from ldp_core import PrivacyPlan, RandomizedResponse
        >>> PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}).compile()["columns"]["crashed"]["yes"]
        '13485650502877570762'
        """
        from ldp_core.plans.compiled import compiled

        return compiled(self)

    def read_reports(self, text: str | bytes, *, keyed: bool = False, limits: Limits = DEFAULT) -> pa.RecordBatch:
        r"""Reports in NDJSON, a line each, as clients send them: an Arrow batch with the plan in its metadata.

        Args:
            text: of docs/wire.md, from anybody.
            keyed: whether their media type says ``noise=keyed``: the reports then say so too.
            limits: for the number of lines, and what is in one.

        Raises:
            ReportError: a line is no object of the plan's columns, or holds what no report can be.
            LimitError: there are more lines than the limit.

        >>> from ldp_core import PrivacyPlan, RandomizedResponse
        >>> plan = PrivacyPlan({"os": RandomizedResponse(["ios", "android"], epsilon=1.0)})
        >>> plan.read_reports('{"os": "ios"}\n{"os": "android"}\n')["os"].to_pylist()
        ['ios', 'android']
        """
        from ldp_core.plans.compiled import read_reports

        return read_reports(self, text, limits, keyed)

    def __repr__(self) -> str:
        from ldp_core.plans.explanation import contents, seed_warning

        return "\n".join(aligned(contents(self)) + seed_warning(self))

    def _repr_html_(self) -> str:
        from ldp_core.plans.explanation import contents, seed_warning

        return html(contents(self), numbers=[3], notes=seed_warning(self))


def plan_of(schema: pa.Schema) -> PrivacyPlan | None:
    """The plan in a schema's metadata, if there is one; raise `PlanError` if what is there is not a plan."""
    told = PlanTold.of(schema)
    return None if told is None else PrivacyPlan(told, keep=told.keep, seed=told.seed)


def refuse_reports(schema: pa.Schema, columns: Iterable[str]) -> None:
    """Raise `MechanismMismatchError` if the data's plan, or a column's type, says that ``columns`` hold reports."""
    for found, who in _reports_among(schema, columns):
        refuse_reports_in(found, who)


def refuse_keys(schema: pa.Schema, keys: Iterable[str]) -> None:
    """Raise `MechanismMismatchError` if a column to group by has reports: a group of equal ones has all values."""
    for found, who in _reports_among(schema, keys):
        refuse_keys_in(found, who)


def _reports_among(schema: pa.Schema, columns: Iterable[str]) -> list[tuple[set[str], str]]:
    """Which of the columns hold reports, and who says so."""
    plan, names = PlanTold.of(schema), set(columns)
    typed = {field.name for field in schema if field.name in names and is_report(field)}
    return [(plan.keys() & names if plan else set(), "the plan in the data's metadata"), (typed, "their type")]
