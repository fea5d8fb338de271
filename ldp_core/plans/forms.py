"""A plan as a dictionary, as JSON, in the metadata of files, and as TOML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self

from ldp_core.errors import LdpError, PlanError, warn_large
from ldp_core.limits import DEFAULT, Limits, check_nesting, read_json, read_toml
from ldp_core.mechanism import Mechanism
from ldp_core.plans.contents import PlanContents
from ldp_core.plans.metadata import from_text, to_text

METADATA_KEY = "ldp.plan"
"""Key of the plan's JSON in the metadata of an Arrow schema or a Parquet file."""


_COMPACT = (",", ":")
_COLUMNS = 256
"""A mechanism costs far more time than the few bytes that it takes in a compressed plan."""


class PlanForms(PlanContents):
    """What is written, and read back."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), dict(self.columns), self.keep, self.seed)

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
    def from_json(cls, text: str | bytes, *, limits: Limits = DEFAULT) -> Self:
        """Inverse of `to_json`.

        Args:
            text: JSON, from anybody.
            limits: for its length, and that of the lists and texts in it.

        Raises:
            PlanError: no JSON, over the limits, or not a plan.

        >>> from ldp_core import PrivacyPlan, RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
        >>> PrivacyPlan.from_json(plan.to_json()) == plan
        True
        """
        if not isinstance(text, (str, bytes)):
            raise PlanError(f"a plan in JSON is text, got {type(text).__name__}")
        return cls.from_dict(read_json(text, "the plan", PlanError, limits))

    @classmethod
    def from_metadata(cls, metadata: Mapping[bytes, bytes] | None, *, limits: Limits = DEFAULT) -> Self:
        """The plan in the metadata of an Arrow schema or Parquet file that reports were written with.

        Raises:
            PlanError: there is none; or see `from_json`.
        """
        text = (metadata or {}).get(METADATA_KEY.encode())
        if text is None:
            raise PlanError(f"the metadata have no {METADATA_KEY!r}: these are not reports made with a plan")
        data = from_text(text, "the plan", PlanError, limits)
        columns = data.get("columns") if isinstance(data, Mapping) else None
        if isinstance(columns, Mapping) and len(columns) > _COLUMNS and not text.startswith(b'{"keep"'):
            raise PlanError(f"a compressed plan has at most {_COLUMNS:,} columns, got {len(columns):,}")
        return cls.from_dict(data)

    @cached_property
    def metadata(self) -> dict[str, str]:
        """What files and messages of its reports have in their metadata; `from_metadata` reads it."""
        many = len(self.columns) > _COLUMNS  # (which nobody would read compressed)
        return {METADATA_KEY: self.to_json() if many else to_text(self.to_dict(), separators=_COMPACT)}

    def check_readable(self) -> None:
        """Raise `PlanError` if the plan is beyond this process's limits: files of it could not be read back."""
        from_text(self.metadata[METADATA_KEY], "the plan", PlanError)

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
        made = cls.from_dict(read_toml(text, "the plan", PlanError, limits))
        warn_large(max(m.epsilon for m in made.columns.values()))
        return made

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the plan."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]


def _restored(
    kind: type[PlanForms], columns: dict[str, Mechanism], keep: tuple[str, ...], seed: int | None
) -> PlanForms:
    return kind(columns, keep=keep, seed=seed)


def _toml(value: Any) -> str:
    """A TOML literal; a JSON string is a TOML basic string but for DEL, which TOML wants escaped."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
