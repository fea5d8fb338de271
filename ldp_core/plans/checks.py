"""What data a plan fits, and whether data are reports that the plan has made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from ldp_core.errors import PlanError
from ldp_core.mechanism import Mechanism
from ldp_core.plans.forms import PlanForms
from ldp_core.plans.provenance import maker, typed, warn_assumed
from ldp_core.randomizer.made_by import check_same


class PlanChecks(PlanForms):
    """Checks of data by their schema alone."""

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

        >>> from ldp_core import PrivacyPlan, RandomizedResponse
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
        >>> from ldp_core import PrivacyPlan, RandomizedResponse
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
