"""Values to private reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection, Row
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

import ldp_core
from ldp_beam.elements.batches import AnyBatch, Batch, RowBatch, find_lacking
from ldp_beam.elements.coders import AnyReports
from ldp_beam.elements.faults import NO_COLUMN, Faults, check_values
from ldp_beam.elements.ids import KeyLike, NoiseKey, is_repeatable, noise_key
from ldp_beam.elements.records import NAMESPACE, FlushedAtOnce, RecordsDoFn, RecordsTransform
from ldp_beam.elements.rows import fields_of, python_type
from ldp_beam.graph.replay import ReplaySafe
from ldp_beam.graph.upstream import (
    DrawsNoise,
    EndsValues,
    check_column,
    check_plan,
    refuse_copies,
    refuse_missing,
    refuse_overlapping,
    refuse_perturbed,
    refuse_unbudgeted,
)
from ldp_core import Domain, PlanError, PrivacyPlan, Secret
from ldp_core.engine import Label, Unmatched, refuse_reports
from ldp_core.engine import UnaryEncodingVariant as Variant


class Perturb(RecordsTransform, EndsValues, DrawsNoise):
    """One private report per record: planned columns perturbed, the plan's ``keep`` passed on, all else dropped.

    Elements may be ``pyarrow.RecordBatch`` or ``pyarrow.Table`` (then a report batch comes out, the plan
    in its schema's metadata: the fast way), dictionaries (dictionaries come out), or ``beam.Row`` or
    NamedTuples (``beam.Row`` comes out, with a schema if that of what goes in is known). Timestamps and windows stay as
    they are.

    Args:
        plan: which columns leave, and how.
        packed: bit vectors as 64-bit words (``FixedSizeList<uint64>``; in single records a list of int, signed, as a
            Beam schema or a database has them) rather than as Booleans (``FixedSizeList<bool>``; a list of bool), which
            is the default as in Polars: what to store when they are long.
        stabilize: end with ``beam.Reshuffle``, and on Flink wait for the checkpoint that has the reports. A runner may
            repeat a stage, and draws new noise: without it a sink in the same stage sees several reports of one record,
            which spends epsilon several times. Leave it out only if all that follows before the next shuffle is an
            aggregation, or with ``record``, or ``key`` and ``id``. What holds on which runner: ``docs/guarantees.md``.
        key: for keyed noise, with ``id`` or ``record``: a `Secret`, which then travels with the job, or a function that
            gets it on the worker, as ``partial(Secret.from_env, "NAME")``. A report is then a function of secret,
            mechanism, column name, id and value: the same after every replay, on every runner, and in Polars.
        id: with ``key``: the column that says whose record it is; it is not passed on unless the plan keeps it. With
            a seeded plan, the column that tells the records apart.
        record: instead of ``id``: the column that tells the records apart, as the ``position=`` of `ReadKafka` and
            `WatchFolder`, or an id of each record's own; it is not passed on unless the plan keeps it. A replay draws
            the same report, and another record has noise of its own, so that reports spend what they do under fresh
            noise. No two records may have one ``record`` under one secret: see ``docs/guarantees.md``. Without ``key``
            a secret is made here, and travels with the job. With mechanisms that remember it goes with ``id``, and
            makes their second round repeatable.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `DomainError`, `DtypeError`,
    `PlanError`; see `PrivacyPlan.perturb`. They name column and count, never a value.

    Raises:
        PlanError: ``plan`` is not a plan, or a seeded one without ``id``, or with a key or a record; or the schema of
            the input lacks a column of it.
        ParameterError: the input is, or was, in windows that overlap, or `beam.Flatten` joins it with itself, so that
            a record would be perturbed several times; or it is in windows by the element; or comes through a limit
            (`PrivacyLedger`, `BoundContributions`) by several ways, or through a ledger that charges for fresh noise,
            and this is keyed, or the other way round, or by other ids, or less than what all that is perturbed behind
            it spends.
        MechanismMismatchError: a `Perturb` before this step has perturbed one of the columns.

    >>> import apache_beam as beam
    >>> from ldp_core import RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=50.0)}, keep=["os"])
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     reports = p | beam.Create([{"crashed": True, "os": "ios", "user": "ann"}]) | Perturb(plan)
    ...     _ = reports | beam.Map(print)
    {'crashed': True, 'os': 'ios'}
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        *,
        packed: bool = False,
        stabilize: bool = True,
        key: KeyLike | None = None,
        id: str | None = None,  # noqa: A002 (as in Polars)
        record: str | None = None,
    ) -> None:
        super().__init__()
        check_plan(plan)
        if plan.seed is not None:
            if key is not None or id is None or record is not None:
                raise PlanError("a seeded plan takes id=, which tells the records apart, and no key or record")
            key = Secret.from_seed(plan.seed)
        self._key = noise_key(key, id, record, perturbed=plan.inputs, remembers=plan.memoized)
        self.whose = None if self._key is None else self._key.id
        self._repeatable = is_repeatable(self._key, remembers=plan.memoized)
        plan.check_noise(keyed=self.keyed)
        self._plan = self.made = plan
        self.values = dict(plan.columns)
        self.spends = plan if plan.seed is None else None
        self._packed = packed
        self._stabilize = stabilize

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        refuse_overlapping(pcoll)
        refuse_copies(pcoll, self._plan.inputs, spends=self.spends is not None)
        refuse_perturbed(pcoll, self._plan.inputs)
        if self._key is not None:
            refuse_missing(pcoll, (self._key.id, self._key.record))
        if self.spends is not None:
            refuse_unbudgeted(pcoll, key=self._key, spends=self.spends)
        fn = _PerturbDoFn(self._plan, self._packed, self._key, self._dead_letter_tag)
        arrow, fields = pcoll.element_type in (pa.RecordBatch, pa.Table), fields_of(pcoll.element_type)
        row = None if fields is None else row_of_reports(self._plan, fields, packed=self._packed)
        reports, dead_letters = self._outputs(pcoll, "Perturb", fn, AnyReports)
        if self._stabilize:
            reports |= "Stabilize" >> ReplaySafe(keep_windows=True, repeatable=self._repeatable)
        reports |= "Flushed" >> FlushedAtOnce()  # (Flink hands on a Reshuffle's bytes: its own type must stay as it is)
        reports.element_type = row or (pa.RecordBatch if arrow else Any)  # the type hint inside was for the coder
        return reports if dead_letters is None else (reports, dead_letters)

    @override
    def display_data(self) -> dict[str, Any]:
        """What the record spends, for the runner's user interface."""
        return {"epsilon": self._plan.epsilon, "plan": self._plan.fingerprint}


def row_of_reports(plan: PrivacyPlan, fields: Mapping[str, Any], *, packed: bool) -> Any:
    """The type of a plan's single reports."""
    plan.check_records(fields)
    made = []
    for name, mechanism in plan.columns.items():
        form = mechanism.reports
        kind = python_type(form.arrow_type(packed=packed))
        made.append((name, kind | None if form.nullable else kind))
    return RowTypeConstraint.from_fields([*made, *((name, fields[name]) for name in plan.keep)])


class PerturbOptions(TypedDict, total=False):
    """Keyword arguments of `RandomizedResponse` and `UnaryEncode`; see `Perturb`."""

    packed: bool
    stabilize: bool
    key: KeyLike | None
    id: str | None
    record: str | None


class RandomizedResponse(Perturb):
    """`Perturb` for one column by randomized response.

    Args:
        column: to perturb.
        epsilon: what one report spends.
        domain: the declared values; default the Booleans.
        unmatched: what becomes of other values, nulls included: see `ldp_core.Domain`.
        keep: columns that pass through unchanged and unprotected.
        packed, stabilize, key, id, record: see `Perturb`.

    Raises:
        ParameterError: bad parameters.

    >>> import apache_beam as beam
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     events = p | beam.Create([{"crashed": False}])
    ...     _ = events | RandomizedResponse("crashed", epsilon=50.0) | beam.Map(print)
    {'crashed': False}
    """

    def __init__(
        self,
        column: str,
        *,
        epsilon: float,
        domain: Domain | Iterable[Label] = (False, True),
        unmatched: Unmatched = "error",
        keep: Iterable[str] = (),
        **options: Unpack[PerturbOptions],
    ) -> None:
        made = ldp_core.RandomizedResponse(Domain.of(domain, unmatched), epsilon=epsilon)
        super().__init__(PrivacyPlan({check_column(column): made}, keep=keep), **options)


class UnaryEncode(Perturb):
    """`Perturb` for one column by unary encoding.

    Args:
        column: to perturb.
        epsilon, domain, unmatched, keep: as of `RandomizedResponse`.
        variant: ``"optimized"`` (OUE) or ``"symmetric"`` (SUE).
        packed, stabilize, key, id, record: see `Perturb`.

    Raises:
        ParameterError: bad parameters.

    >>> import apache_beam as beam
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     events = p | beam.Create([{"os": "ios"}])
    ...     reports = events | UnaryEncode("os", domain=["ios", "android"], epsilon=1.0)
    ...     _ = reports | beam.Map(lambda report: print(len(report["os"])))
    2
    """

    def __init__(
        self,
        column: str,
        *,
        epsilon: float,
        domain: Domain | Iterable[Label],
        variant: Variant = "optimized",
        unmatched: Unmatched = "error",
        keep: Iterable[str] = (),
        **options: Unpack[PerturbOptions],
    ) -> None:
        made = ldp_core.UnaryEncoding(Domain.of(domain, unmatched), epsilon=epsilon, variant=variant)
        super().__init__(PrivacyPlan({check_column(column): made}, keep=keep), **options)


def _single(reports: Any) -> list[Any]:
    """Reports as Python values; None where a sampled column has no answer, and not a list of None.

    Words are signed: Beam's schemas, JSON schemas and databases have no other integers of 64 bits.
    """
    if isinstance(reports, np.ndarray):
        reports = reports.view(np.int64) if reports.dtype == np.uint64 else reports
    elif pa.types.is_fixed_size_list(reports.type) and pa.types.is_uint64(reports.type.value_type):
        reports = reports.view(pa.list_(pa.int64(), reports.type.list_size))
    values: list[Any] = reports.tolist()
    return [None if isinstance(v, list) and v and v[0] is None else v for v in values]


class _PerturbDoFn(RecordsDoFn):
    """Draws the reports. Holds no randomness: every call of ``perturb`` takes a fresh key from the OS."""

    def __init__(self, plan: PrivacyPlan, packed: bool, key: NoiseKey | None, dead_letter_tag: str | None) -> None:
        super().__init__(dead_letter_tag)
        self._plan = plan
        self._packed = packed
        self._key = key
        self._perturbed = Metrics.counter(NAMESPACE, "perturbed")

    @override
    def work(self, part: AnyBatch) -> list[WindowedValue]:
        reports = self._of_rows(part) if isinstance(part, RowBatch) else [self._of_batch(part)]
        self._perturbed.inc(len(part))
        return reports

    def _of_batch(self, batch: Batch) -> WindowedValue:
        self.check_schema(batch.schema)
        self._plan.check_records(batch.schema.names)
        ids, records = (None, None) if self._key is None else self._key.columns(batch)
        key = None if self._key is None or self._plan.seed is not None else self._key.secret
        values = batch.select((*self._plan.inputs, *self._plan.keep))
        reports = self._plan.perturb(values, packed=self._packed, key=key, id=ids, records=records)
        if key is not None and self._key is not None and not self._key.keyed:  # (of records, and not of persons)
            schema = self._plan.with_proof(reports.schema, seeded=key.seeded)
            reports = type(reports).from_arrays(reports.columns, schema=schema)
        return WindowedValue(reports, batch.timestamp, (batch.window,))

    def _of_rows(self, batch: RowBatch) -> list[WindowedValue]:
        keyed = None if self._key is None else self._key.randomness(batch, "")  # the ids are hashed once
        values = {
            name: batch.column(name) if inputs.takes_nulls else batch.required(name)
            for name, inputs in self._plan.inputs.items()
        }
        reports = self._plan.perturb_columns(values, keyed, packed=self._packed)
        columns = [_single(made) for made in reports.values()]
        columns += [batch.column(name) for name in self._plan.keep]
        names = tuple(self._plan)
        made = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        return [
            WindowedValue(one if isinstance(of.element, Mapping) else Row(**one), of.timestamp, (of.window,))
            for of, one in zip(batch.records, made, strict=True)
        ]

    @override
    def check_schema(self, schema: pa.Schema) -> None:
        refuse_reports(schema, self._plan.inputs)

    @override
    def find_faults(self, part: AnyBatch, faults: Faults) -> None:
        if self._key is not None:
            self._key.find_faults(part, faults)
        for name, inputs in self._plan.inputs.items():
            if not inputs.takes_nulls:
                find_lacking(part, name, faults)
            check_values(part.column(name), inputs, name, faults)
        for name in self._plan.keep:
            if part.column(name) is None:
                faults.add(name, NO_COLUMN)
        if self._key is not None:
            self._key.find_shared(part, faults)
