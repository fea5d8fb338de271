"""The declared, ordered set of values that a mechanism can report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ldp_core.errors import DomainError, DtypeError

Label: TypeAlias = bool | int | str
Unmatched: TypeAlias = Literal["error", "other", "none"]
Codes: TypeAlias = npt.NDArray[Any]
"""Positions in a domain's labels, of an unsigned integer dtype."""

OTHER = "other"
_KINDS = {bool: "bool", int: "int", str: "str"}
_ARROW_TYPES = {"bool": pa.bool_(), "int": pa.int64(), "str": pa.string()}


class Domain:
    """Ordered, distinct, declared labels, and what to do with values that are not among them.

    Args:
        labels: strings, integers (64-bit) or Booleans, all of one kind. Never learned from the data:
            a domain that depends on who is in the data reveals who is in the data.
        unmatched: what becomes of a value outside the labels, nulls included.
            ``"error"``: an error that counts them. ``"other"``: one more bucket, perturbed and
            estimated like every value. ``"none"``: no value at all, for bit vectors: the all-zero
            vector, then perturbed; such records still count in n.

    Raises:
        DomainError: empty, duplicate, mixed or unsupported labels; fewer than two values.

    >>> d = Domain(["ios", "android"], unmatched="other")
    >>> d.values
    ('ios', 'android', 'other')
    >>> d.encode(["android", None, "symbian"]).tolist()
    [1, 2, 2]
    """

    labels: tuple[Label, ...]
    unmatched: Unmatched
    kind: Literal["bool", "int", "str"]

    def __init__(self, labels: Iterable[Label], *, unmatched: Unmatched = "error") -> None:
        if isinstance(labels, (str, bytes)):
            raise DomainError("a domain is a list of labels, got one string")
        items = tuple(item.item() if isinstance(item, np.generic) else item for item in labels)
        if not items:
            raise DomainError("a domain needs at least two values, got none")
        types = {type(item) for item in items}
        if len(types) > 1 or not types <= _KINDS.keys():
            raise DomainError("domain labels must be all str, all int or all bool; null is not a label")
        kind: Any = _KINDS[types.pop()]
        if unmatched not in ("error", "other", "none"):
            raise DomainError(f'unmatched must be "error", "other" or "none", got {unmatched!r}')
        if len(set(items)) < len(items):
            raise DomainError(f"domain labels must be distinct, {len(items) - len(set(items))} are repeated")
        if kind == "int" and not all(-(2**63) <= int(item) < 2**63 for item in items):
            raise DomainError("integer labels must fit in 64 bits")
        if unmatched == "other" and OTHER in items:
            raise DomainError('unmatched="other" adds the bucket "other": leave it out of the labels')
        if len(items) + (unmatched == "other") < 2:
            raise DomainError("a domain needs at least two values, got one")
        if len(items) >= 2**31:
            raise DomainError("a domain may have at most 2**31 - 1 labels")
        object.__setattr__(self, "labels", items)
        object.__setattr__(self, "unmatched", unmatched)
        object.__setattr__(self, "kind", kind)

    @classmethod
    def of(cls, domain: Domain | Iterable[Label]) -> Domain:
        """``domain`` itself, or a plain list of labels as a domain with ``unmatched="error"``."""
        return domain if isinstance(domain, Domain) else cls(domain)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Domain is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.labels, self.unmatched)

    def _key(self) -> tuple[Any, ...]:
        return self.kind, self.labels, self.unmatched

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Domain) and self._key() == other._key())

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._key())

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Label]:
        return iter(self.values)

    def __repr__(self) -> str:
        shown = ", ".join(repr(label) for label in self.labels[:8])
        more = f", ... {len(self.labels)} labels" if len(self.labels) > 8 else ""
        policy = "" if self.unmatched == "error" else f", unmatched={self.unmatched!r}"
        return f"Domain([{shown}{more}]{policy})"

    @property
    def size(self) -> int:
        """d, the number of values that are estimated: the labels, and ``other`` where there is one."""
        return len(self.labels) + (self.unmatched == "other")

    @property
    def values(self) -> tuple[Label, ...]:
        """The labels, then ``"other"`` where there is such a bucket."""
        return (*self.labels, OTHER) if self.unmatched == "other" else self.labels

    @property
    def unmatched_code(self) -> int:
        """The code of a value outside the labels: that of ``other``, or one past the end for ``none``."""
        return len(self.labels)

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of a column of these values: their own, or text where ``other`` joins non-text labels."""
        if self.unmatched == "other":
            return pa.string()
        return _ARROW_TYPES[self.kind]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The values as text: ``false`` and ``true`` for Booleans."""
        return tuple(str(v).lower() if isinstance(v, bool) else str(v) for v in self.values)

    @cached_property
    def arrow_values(self) -> pa.Array:
        """The values as an Arrow array of `arrow_type`."""
        return pa.array(self.texts if self.arrow_type == pa.string() else self.values, self.arrow_type)

    @cached_property
    def _arrow_labels(self) -> pa.Array:
        return pa.array(self.labels, _ARROW_TYPES[self.kind])

    @cached_property
    def code_dtype(self) -> np.dtype[Any]:
        """The narrowest unsigned dtype that holds every code, `unmatched_code` included."""
        return np.min_scalar_type(len(self.labels))

    @cached_property
    def _declared(self) -> Domain:
        """All the values, ``other`` included, as a domain that admits nothing else."""
        return self if self.unmatched == "error" else Domain(self.arrow_values.to_pylist())

    @cached_property
    def _first(self) -> int | None:
        """The first label, where the labels are consecutive integers."""
        if self.kind != "int":
            return None
        first = int(self.labels[0])
        return first if self.labels == tuple(range(first, first + len(self.labels))) else None

    def encode(self, values: Any, *, column: str = "values") -> Codes:
        """Codes (positions in the labels) of ``values``, as unsigned integers of `code_dtype`.

        Args:
            values: Arrow array, numpy array or Python sequence; nulls allowed, treated as unmatched.
            column: what to call the values in an error message.

        Raises:
            DomainError: ``unmatched="error"`` and some values are null or not labels.
            DtypeError: the values are of another kind than the labels.
        """
        array = self.as_arrow(values, column=column)
        return self.check_codes(self._positions(array, self._arrow_labels), array.null_count, column=column)

    def decode(self, codes: Codes) -> pa.Array:
        """Values of ``codes`` as an Arrow array: Boolean, int64, or dictionary-encoded text."""
        if self.arrow_type == pa.string():
            return pa.DictionaryArray.from_arrays(pa.array(codes), self.arrow_values, safe=False)
        if self._first is not None:
            return pa.array(np.add(codes, self._first, dtype=np.int64))
        if self.kind == "bool" and self.labels == (False, True):
            bits = pa.py_buffer(np.packbits(codes, bitorder="little"))
            return pa.Array.from_buffers(pa.bool_(), len(codes), [None, bits])
        return self.arrow_values.take(pa.array(codes))

    @property
    def report_type(self) -> pa.DataType:
        """Arrow type of what `decode` returns."""
        if self.arrow_type == pa.string():
            return pa.dictionary(pa.from_numpy_dtype(np.min_scalar_type(self.size - 1)), pa.string())
        return self.arrow_type

    def lookup(self, reports: Any, *, column: str = "reports") -> Codes:
        """Codes of values that were decoded before, ``other`` included; anything else is an error.

        Raises:
            DomainError: some are null or not in this domain, whatever `unmatched` says.
            DtypeError: they are of another type.
        """
        return self._declared.encode(reports, column=column)

    def check_codes(self, codes: Codes, nulls: int, *, column: str) -> Codes:
        """Return ``codes``; an error if any is `unmatched_code` and the policy is ``"error"``."""
        if self.unmatched == "error":
            unmatched = int(np.count_nonzero(codes == self.unmatched_code))
            if unmatched:
                raise DomainError(
                    f"column {column!r}: {unmatched} of {len(codes)} values are not in the domain of {self.size} "
                    f'declared values ({nulls} of them null); declare them, or use unmatched="other" or "none"'
                )
        return codes

    def as_arrow(self, values: Any, *, column: str) -> pa.Array:
        """``values`` as an Arrow array of a type that this domain can look up."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if not isinstance(values, pa.Array):
            values = self._from_python(values, column)
        kind = values.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_null(kind):
            return pa.nulls(len(values), _ARROW_TYPES[self.kind])
        matches = {"bool": pa.types.is_boolean, "int": pa.types.is_integer, "str": _is_text}[self.kind]
        if not matches(kind):
            raise DtypeError(f"column {column!r}: a domain of {self.kind} labels cannot encode values of type {kind}")
        return values

    def _from_python(self, values: Any, column: str) -> pa.Array:
        numpy_kind = {"bool": "b", "int": "iu", "str": "U"}[self.kind]
        if isinstance(values, np.ndarray) and values.dtype.kind in numpy_kind:
            return pa.array(values)
        converted = None
        if not isinstance(values, np.ndarray) or values.dtype.kind == "O":
            items = list(values)
            if {type(v) for v in items} - {type(None)} <= _PYTHON_TYPES[self.kind]:
                with suppress(pa.ArrowException, OverflowError):  # they quote the value: not to travel with our error
                    converted = pa.array(items, _ARROW_TYPES[self.kind])
        if converted is None:
            raise DtypeError(f"column {column!r}: a domain of {self.kind} labels needs {self.kind} values")
        return converted

    def _positions(self, array: pa.Array, labels: pa.Array) -> Codes:
        missing = self.unmatched_code
        if pa.types.is_dictionary(array.type):
            of_entry = self._positions(array.dictionary, labels)
            indices = array.indices
            if not indices.null_count and np.array_equal(of_entry, np.arange(len(of_entry))):
                codes: Codes = indices.to_numpy()  # the dictionary is the domain, as in a Polars Enum
                return codes.astype(self.code_dtype, copy=False)
            of_entry = np.append(of_entry, self.code_dtype.type(missing))
            entry = pc.fill_null(indices.cast(pa.int64()), len(of_entry) - 1)
            looked_up: Codes = np.take(of_entry, entry.to_numpy())
            return looked_up
        if self._first is not None and not array.null_count:
            offset = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False) - self._first
            if array.type == pa.uint64():  # wrapped values above 2**63 land outside the labels, or are undone below
                offset = np.where(array.to_numpy() >> np.uint64(63), -1, offset)
            return np.where((offset < 0) | (offset >= missing), missing, offset).astype(self.code_dtype)
        if self.kind == "bool" and self.labels == (False, True) and not array.null_count:
            bits: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
            return bits.view(np.uint8)
        if _is_text(array.type) and not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            array = array.cast(pa.large_string())
        if self.kind == "int" and array.type != pa.int64():
            array = array.cast(pa.int64(), safe=False) if array.type != pa.uint64() else _uint64_as_int64(array)
        found = pc.fill_null(pc.index_in(array, value_set=labels.cast(array.type)), missing)
        positions: npt.NDArray[np.int32] = found.to_numpy()
        return positions.astype(self.code_dtype)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form; ``unmatched`` only where it is not ``"error"``."""
        policy = {} if self.unmatched == "error" else {"unmatched": self.unmatched}
        return {"domain": list(self.labels), **policy}


_PYTHON_TYPES: dict[str, set[type]] = {
    "bool": {bool, np.bool_},
    "int": {int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64},
    "str": {str, np.str_},
}


def _rebuild(labels: tuple[Label, ...], unmatched: Unmatched) -> Domain:
    return Domain(labels, unmatched=unmatched)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _uint64_as_int64(array: pa.Array) -> pa.Array:
    fits = pc.less(array, pa.scalar(2**63, pa.uint64()))
    return pc.if_else(fits, array, pa.scalar(None, pa.uint64())).cast(pa.int64())
