"""A plan as a dictionary, as JSON, in metadata, in a file beside estimates, as TOML; and the data that it fits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from ldp_core.arrays.arrow import is_text
from ldp_core.arrays.types import of_floats, type_words
from ldp_core.errors import LdpError, PlanError, warn_large
from ldp_core.limits import DEFAULT, Limits, check_nesting, over, read_json, read_toml
from ldp_core.mechanism import Mechanism
from ldp_core.plans.contents import PlanContents
from ldp_core.plans.metadata import PLAIN, checked_counters, from_text, to_text
from ldp_core.plans.provenance import Made, is_report, maker, not_proved, typed, warn_assumed
from ldp_core.randomizer.declared import check_same
from ldp_core.tables import visible

METADATA_KEY = "ldp.plan"
"""Key of the plan's JSON in the metadata of an Arrow schema or a Parquet file."""


RESULTS = "results.json"
"""The file beside estimates that says which plan they are of: its text is that of `about`."""
DEAD_LETTERS = "dead_letters"
"""How a file of dead letters is called; it is there where they were counted, be there none."""
_COMPACT = (",", ":")


class PlanTold(Mapping[str, Mechanism]):
    """A plan as `PlanForms.to_dict` tells it, by column: a mechanism is made when it is asked for.

    A message needs the names of all columns and the mechanism of one; and a few bytes may declare a mechanism that
    takes milliseconds to make. ``limits`` are for the number of columns, and of cells declared by their number; None
    for a caller's own.
    """

    def __init__(self, data: Any, limits: Limits | None = None) -> None:
        if not isinstance(data, Mapping):
            raise PlanError(f"a plan is a table, got {type(data).__name__}")
        columns = data.get("columns")
        if data.keys() - {"keep", "seed", "columns"} or not isinstance(columns, Mapping):
            raise PlanError(f'a plan has a table "columns", a list "keep" and perhaps a "seed", got {sorted(data)}')
        if limits is not None and len(columns) > limits.columns:
            raise PlanError(over("the plan", len(columns), "columns", "columns", limits))
        if limits is not None and (cells := _counted(columns)) > limits.labels:
            raise PlanError(over("the plan", cells, "cells in all columns", "labels", limits))
        self.keep, self.seed = data.get("keep", ()), data.get("seed")
        if not isinstance(self.keep, (list, tuple)):
            raise PlanError(f"keep is a list of column names, got {type(self.keep).__name__}")
        self._columns: Mapping[str, Any] = columns
        self._limits = limits
        self._made: dict[str, Mechanism] = {}

    @classmethod
    def read(cls, text: str | bytes, limits: Limits = DEFAULT) -> Self:
        """Of metadata."""
        return cls(from_text(text, "the plan", PlanError, limits), limits)

    @staticmethod
    def of(schema: pa.Schema) -> PlanTold | None:
        """The one in a schema's metadata, if there is one; raise `PlanError` if what is there is not a plan."""
        text = (schema.metadata or {}).get(METADATA_KEY.encode())
        if text is None:
            return None
        short = len(text) <= PLAIN and text.startswith(b'{"keep"')  # (of a compressed one nobody knows before)
        return _short_plan(text) if short else _long_plan(text)

    def tells(self, plan: PlanContents) -> bool:
        """Whether it is this plan. Of another one no more mechanisms are made than are equal, and one."""
        told, meant = (list(self), tuple(self.keep), self.seed), (list(plan.columns), plan.keep, plan.seed)
        return told == meant and all(self[name] == m for name, m in plan.columns.items())

    @property
    def columns(self) -> Mapping[str, Mechanism]:
        """Itself: a plan's mechanisms by column."""
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, name: str) -> Mechanism:
        if name not in self._made:
            spec = self._columns[name]
            if not isinstance(spec, Mapping):
                raise PlanError(f"column {name!r}: a mechanism is a table, got {type(spec).__name__}")
            try:
                made = Mechanism.from_checked(spec)
                self._made[name] = made if self._limits is None else checked_counters(made, self._limits)
            except LdpError as error:
                raise PlanError(f"column {name!r}: {error}") from None
        return self._made[name]


_short_plan, _long_plan = lru_cache(maxsize=16)(PlanTold.read), lru_cache(maxsize=2)(PlanTold.read)
"""The same plan is in every batch of a stream. Of long ones few are kept: they take memory, and may be a stranger's."""


def _counted(table: Mapping[str, Any]) -> int:
    """The cells of all tables within this one that have a ``count``: a few bytes declare 65,536, which take 2 MB."""
    inner = sum(_counted(value) for value in table.values() if isinstance(value, Mapping))
    count = table.get("count", 0)
    return inner + (max(count, 0) if isinstance(count, int) else 0)


class PlanForms(PlanContents):
    """What is written and read back, and checks of data."""

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), dict(self.columns), keep=self.keep, seed=self.seed), ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        seed = {} if self.seed is None else {"seed": self.seed}
        return {"keep": list(self.keep), **seed, "columns": {name: m.to_dict() for name, m in self.columns.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`.

        Raises:
            PlanError: no table, keys are missing or unknown, or a column's mechanism is not valid.
        """
        check_nesting(data, "a plan", PlanError)
        return cls._of(PlanTold(data))

    @classmethod
    def _of(cls, told: PlanTold) -> Self:
        return cls(told, keep=told.keep, seed=told.seed)

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps(self.to_dict(), separators=_COMPACT)

    @classmethod
    def from_json(cls, text: str | bytes, *, limits: Limits = DEFAULT) -> Self:
        """Inverse of `to_json`, of a text from anybody.

        Raises:
            PlanError: no JSON, over the limits, or not a plan.

        """
        if not isinstance(text, (str, bytes)):
            raise PlanError(f"a plan in JSON is text, got {type(text).__name__}")
        return cls._of(PlanTold(read_json(text, "the plan", PlanError, limits), limits))

    @classmethod
    def from_metadata(cls, metadata: Mapping[bytes, bytes] | None, *, limits: Limits = DEFAULT) -> Self:
        """The plan in the metadata of an Arrow schema or Parquet file that reports were written with.

        Raises:
            PlanError: there is none; or see `from_json`.
        """
        text = (metadata or {}).get(METADATA_KEY.encode())
        if text is None:
            raise PlanError(
                f"the metadata have no {METADATA_KEY!r}: these are not reports made with a plan, or another program "
                "has written them again: in Polars .ldp.sink_parquet(file, plan, assume_reports=True) gives it back"
            )
        return cls._of(PlanTold.read(text, limits))

    @cached_property
    def metadata(self) -> dict[str, str]:
        """What files and messages of its reports have in their metadata; `from_metadata` reads it."""
        return {METADATA_KEY: to_text(self.to_dict(), separators=_COMPACT)}

    def check_readable(self) -> None:
        """Raise `PlanError` if the plan is beyond this process's limits: files of it could not be read back."""
        PlanTold.read(self.metadata[METADATA_KEY])

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
    def from_toml(cls, source: str | PathLike[str], *, limits: Limits = DEFAULT) -> Self:
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
        made = cls._of(PlanTold(read_toml(text, "the plan", PlanError, limits), limits))
        warn_large(max(m.epsilon for m in made.columns.values()))
        return made

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the plan."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    # ---- what data it fits, and whether data are reports that it has made: by their schema alone

    def check_columns(self, available: Iterable[str]) -> None:
        """Raise `PlanError` if a planned column is not among ``available``."""
        _check_there(self, available)

    def check_records(self, available: Iterable[str]) -> None:
        """Raise `PlanError` if a column of records that the plan needs is not among ``available``."""
        _check_there((*self.inputs, *self.keep), available)

    def schema(self, source: pa.Schema, *, packed: bool = False) -> pa.Schema:
        """Names and types of the reports made from data of schema ``source``.

        It says nothing of how they were made: the reports themselves do, see `check_reports`. So data that were never
        perturbed do not pass for reports when they are written with this schema.
        """
        self.check_records(source.names)
        fields = [
            pa.field(name, m.reports.arrow_type(packed=packed), nullable=m.reports.nullable)
            for name, m in self.columns.items()
        ]
        return pa.schema([*fields, *(source.field(name) for name in self.keep)])

    def with_proof(self, schema: pa.Schema, *, seeded: bool, keyed: bool = False) -> pa.Schema:
        """``schema`` with the plan in its metadata, and in each planned column's who made the reports.

        For those who have made or checked the reports themselves: others take `assume_reports`.
        """
        fields = [
            typed(field, self.columns[field.name], seeded=seeded, keyed=keyed) if field.name in self.columns else field
            for field in schema
        ]
        return pa.schema(fields, metadata=self.metadata)

    def check_reports(self, schema: pa.Schema) -> None:
        """Raise unless data of this schema are, by what it says of each column, reports that this plan has made.

        What perturbs says so, and it stays with the data when they are sliced, filtered, concatenated, written and
        read, in Arrow, Polars and Parquet. A column that is put in its place under the same name does not say so. A
        writer asks before it writes the plan.

        It guards against mistakes, and is not a signature: a schema or dtype of reports says the same of whatever it is
        given to (``pa.Table.cast``, ``from_pydict(..., schema=)``, ``pl.DataFrame(..., schema=)``, a Polars ``cast`` to
        it). In Arrow it is metadata of a field, which ``pa.concat_tables`` takes from the first table for the rows of
        all: do not concatenate reports with raw data, or with reports of another mechanism, there.

        Raises:
            PlanError: a planned column holds no reports, for all that is known, or seeded ones although the plan is
                not seeded; or another column holds some, or is one that the plan neither perturbs nor keeps.
            MechanismMismatchError: a column's reports were made by another mechanism.

        >>> from ldp_core import PrivacyPlan, RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
        >>> plan.check_reports(plan.perturb(pa.record_batch({"crashed": [True, False]})).schema)
        """
        self.check_made(schema.names, {field.name: maker(field) for field in schema})

    def check_made(self, names: Sequence[str], makers: Mapping[str, Made | None]) -> None:
        """`check_reports` of columns of which it is known who made them, and with what noise, or None."""
        uncounted = [name for name in names if name not in self.columns and makers.get(name) is not None]
        if uncounted:
            raise PlanError(
                f"columns {uncounted} hold reports, whose epsilon is not in that of the plan: drop them, or take a "
                "plan that has their mechanisms among its columns"
            )
        self._check_no_others(names)
        unproved = [name for name in self.columns if name in makers and makers[name] is None]
        if unproved:
            raise PlanError(not_proved(unproved))
        for name, mechanism in self.columns.items():
            made = makers.get(name)
            if made is not None:
                check_same(made.mechanism, mechanism, name)
                if made.seeded and self.seed is None:
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
            data: the plan's columns and no others, each of the type of the plan's reports; text as any text of Arrow.

        What a column says itself stays: that its noise is keyed, and that another mechanism made it, which is refused.

        Raises:
            PlanError: a column is missing, is not the plan's, or of another type; or see `check_reports`.
            MechanismMismatchError: see `check_reports`.
        """
        self.check_columns(data.schema.names)
        for name, m in self.columns.items():
            fits = [m.reports.arrow_type(packed=packed) for packed in (False, True)]
            got = data.schema.field(name).type
            text = pa.types.is_dictionary(fits[0]) and is_text(got.value_type if pa.types.is_dictionary(got) else got)
            if not (text or got in fits):  # (other programs have other dictionaries)
                raise PlanError(
                    f"column {name!r}: reports made by this plan are {' or '.join(dict.fromkeys(map(str, fits)))}, got "
                    f"{type_words(got)}: no reports. Lists and integers of another program are cast to that before"
                    f"{of_floats(got)}"
                )
        proved = self.with_proof(data.schema, seeded=self.seed is not None)
        assumed = [field.name for field in data.schema if field.name in self.columns and not is_report(field)]
        fields = [new if new.name in assumed else old for old, new in zip(data.schema, proved, strict=True)]
        self.check_reports(schema := pa.schema(fields, metadata=self.metadata))
        if assumed:
            warn_assumed(assumed)
        return data.cast(schema)


def _check_there(names: Iterable[str], available: Iterable[str]) -> None:
    there = set(available)
    if missing := [name for name in names if name not in there]:
        raise PlanError(f"the plan names columns that the data do not have: {missing}; the data have {sorted(there)}")


def about(
    plan: PlanForms,
    confidence: float | None = None,
    covered: tuple[Any, Any] | None = None,
    population: str | int | Mapping[str, str | int | None] | None = None,
    repeats: int | None = None,
    counted: int | None = None,
) -> str:
    """What the file `RESULTS` has, as JSON: the plan, and of the estimates beside it what all have in common.

    ``covered``: times of the first and of the last record, which tell what windows are filled in part. ``population``:
    whom the intervals are about, if it is said, or of each column. ``repeats``: how often a person reports, if it is
    said. ``counted``: the reports, also those of groups in which nothing was found.

    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> sorted(json.loads(about(PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}), 0.95)))
    ['confidence', 'plan']
    """
    ends = {} if covered is None or None in covered else {"covered": [time.isoformat() for time in covered]}
    if isinstance(population, Mapping):
        [*whom] = {*population.values()}
        population = whom[0] if len(whom) == 1 else {n: one for n, one in population.items() if one is not None} or None
    said = {"population": population, "repeats": repeats, "counted": counted}
    said = {name: value for name, value in said.items() if value is not None}
    return json.dumps({"plan": plan.to_dict(), "confidence": confidence, **ends, **said}, indent=1) + "\n"


def _toml(value: Any) -> str:
    """A TOML literal; a JSON string is a TOML basic string but for DEL, which TOML wants escaped, as others here."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return visible(json.dumps(value, ensure_ascii=False))
    return json.dumps(value)
