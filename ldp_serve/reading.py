"""A message as reports of the plan, made anew: what is kept has no byte that only its sender knows of."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldp_core import InputError, Limits, ParameterError, PlanError, PrivacyPlan, ReportError
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_core.engine import PlanTold, check_made_by, plain, read_batch

KINDS: dict[str, pa.DataType] = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": pa.timestamp("us", "UTC"),
}
"""What a kept column may hold. In JSON dates and times are text in ISO 8601, times with their offset from UTC."""

_UNLEAP = r"(?!(\d\d)?([02468][1235679]|[13579][01345789])(00)?-02-29)"  # (of a century its first two digits count)
_DAY = rf"(?!0000){_UNLEAP}\d{{4}}-(?!02-3|(0[469]|11)-31)(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME = r"([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?)?(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)"
_PATTERNS = {
    "text": '^(null|")',
    "integer": r"^(null|-?[1-8]?\d{1,18})$",
    "number": r"^(null|-?([1-8]?\d{1,15}|\d+\.\d+)(e[+-]?\d+)?)$",
    "boolean": "^(null|true|false)$",
    "date": f'^(null|"{_DAY}")$',
    "time": f'^(null|"{_DAY}[T ]{_TIME}")$',
}
"""Of JSON of a value, for clients: what is refused on the device costs no other report of the message."""

_NUMERIC = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
_DATED = pa.types.is_temporal, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
_TAKES = {pa.int64(): _NUMERIC, pa.float64(): _NUMERIC, pa.bool_(): (pa.types.is_boolean,)}
_TAKES |= dict.fromkeys((KINDS["date"], KINDS["time"]), _DATED)  # Arrow would cast more, as 2 to true and 0x10 to 16

KEYED = (
    "the noise of these reports is keyed, so that those of one person hang together, and intervals of independent "
    "reports would be too narrow: ldp serve --repeats N takes them, N being the most reports of one person"
)


class Reader:
    """Reads messages as reports of one schema, with the plan in it and who made each column.

    Args:
        plan: of the reports.
        kept: kept column to a name of `KINDS`; the others are text.
        limits: for one message.
        keyed: whether noise may be keyed: all reports then say so, so that estimates of them ask for ``repeats``.

    Raises:
        PlanError: the plan has no form for clients (`PrivacyPlan.compile`), or keeps no such column.
        ParameterError: no such kind.

    >>> from ldp_core import RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}, keep=["day"])
    >>> Reader(plan, {"day": "date"}).ndjson(b'{"crashed": true, "day": "2026-11-24"}').num_rows
    1
    """

    def __init__(
        self, plan: PrivacyPlan, kept: Mapping[str, str] | None = None, limits: Limits = DEFAULT, *, keyed: bool = False
    ) -> None:
        self.plan, self.limits, self.keyed, self.compiled = plan, limits, keyed, plan.compile()
        kinds = dict.fromkeys(plan.keep, "text") | dict(kept or {})
        if unknown := sorted(kinds.keys() - set(plan.keep)):
            raise PlanError(f"the plan does not keep the columns {unknown}; it keeps {list(plan.keep)}")
        if wrong := sorted(set(kinds.values()) - KINDS.keys()):
            raise ParameterError(f"kept columns are of the kinds {', '.join(KINDS)}; got {wrong}")
        self.compiled |= {"patterns": {name: _PATTERNS[kind] for name, kind in kinds.items()}}
        plan.check_readable()
        types = {name: m.reports.arrow_type(packed=True) for name, m in plan.columns.items()}
        # Of a dictionary Polars could not tell that it holds reports.
        types = {name: kind.value_type if pa.types.is_dictionary(kind) else kind for name, kind in types.items()}
        types |= {name: KINDS[kind] for name, kind in kinds.items()}
        self.schema: pa.Schema = plan.with_proof(pa.schema(types), seeded=False, keyed=keyed)

    def ndjson(self, message: bytes) -> pa.RecordBatch:
        """The reports in lines of JSON; an `LdpError` if they are none of the plan, or over the limits."""
        return self._anew(self.plan.read_reports(message, limits=self.limits))

    def arrow(self, message: bytes) -> pa.RecordBatch:
        """The reports in an Arrow stream of one batch, whose schema says who made each column; raises as `ndjson`."""
        batch = read_batch(message, self.limits)
        made_with = PlanTold.of(batch.schema)
        if made_with is None or not made_with.tells(self.plan):
            raise PlanError("the schema's metadata must have the plan that is counted here, and have none or another")
        self.plan.check_reports(batch.schema)
        if missing := sorted(set(self.schema.names) - set(batch.schema.names)):
            raise ReportError(f"the batch lacks the columns {missing}")
        made = {name: check_made_by(batch.schema.field(name), m) for name, m in self.plan.columns.items()}
        if not self.keyed and any(one is not None and one.keyed for one in made.values()):
            raise ReportError(KEYED)
        return self._anew(batch)

    def _anew(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same in our schema: nothing is left under nulls, in padding, in a dictionary's entries of no report."""
        if not batch.num_rows:
            raise InputError("there are no reports in the message")
        arrays = []
        for name, m in self.plan.columns.items():
            native = m.reports.from_arrow(plain(batch.column(name)), column=name)
            arrays.append(m.reports.to_arrow(native, packed=True).cast(self.schema.field(name).type))
        arrays += [self._kept(plain(batch.column(name)), name) for name in self.plan.keep]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _kept(self, array: pa.Array, name: str) -> pa.Array:
        kind, values = self.schema.field(name).type, None
        number = kind == KINDS["number"]
        given = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        if kind == pa.string() or any(is_of(given) for is_of in (pa.types.is_null, *_TAKES[kind])):
            with suppress(pa.ArrowException, OverflowError, ValueError, TypeError):  # what they say quotes the value
                made = array.cast(kind).take(pa.array(np.arange(len(array))))  # a copy of what is not null
                made.validate(full=True)
                pc.min_max(made).as_py()  # of dates and times: in Python's years
                # (Where one is infinite all sums are, and everybody's data useless.)
                values = None if number and pc.any(pc.invert(pc.is_finite(made))).as_py() else made
        if values is None:
            word = next(word for word, one in KINDS.items() if one == kind)
            must = f"{'finite ' * number}{word}s (ldp serve --kept {name}={word})"
            raise ReportError(f"column {name!r}: kept values must be {must}")
        most = self.limits.label_length
        if kind == pa.string() and (pc.max(pc.utf8_length(values)).as_py() or 0) > most:
            raise ReportError(f"column {name!r}: a kept text has more than label_length={most} characters")
        return values
