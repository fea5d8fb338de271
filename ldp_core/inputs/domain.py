"""The declared, ordered set of values that a mechanism can report."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from ldp_core.arrays.arrow import ARROW_TYPES, as_arrow, column_of, filled_indices, null_count
from ldp_core.arrays.types import Codes
from ldp_core.errors import DomainError, DtypeError, LdpWarning, ParameterError, ReportError
from ldp_core.inputs.base import Inputs
from ldp_core.parameters import Declared, shown
from ldp_core.tables import text_of

Label: TypeAlias = bool | int | str
Unmatched: TypeAlias = Literal["error", "other", "none"]

OTHER = "other"
_TOO_FEW = 'a domain needs at least two values, as ["yes", "no"], got one'
_KINDS: dict[type, Any] = {bool: "bool", int: "int", str: "str"}


class Domain(Declared, Inputs):
    """Ordered, distinct, declared labels, and what to do with values that are not among them.

    Args:
        labels: strings, integers (64-bit) or Booleans, all of one kind. Never learned from the data:
            a domain that depends on who is in the data reveals who is in the data.
        unmatched: what becomes of a value outside the labels, nulls included.
            ``"error"``: an error that counts them. ``"other"``: one more bucket, perturbed and
            estimated like every value. ``"none"``: no value at all, for bit vectors: the all-zero
            vector, then perturbed; such records still count in n. Take one of these two wherever a value may be
            missing: an error, or a dead letter, says without noise that it was.

    Raises:
        DomainError: empty, duplicate, mixed or unsupported labels.

    A mechanism needs two values at least. One label, with ``unmatched="error"``, is a question that a sketch answers:
    see `Sketch.over`.

    >>> d = Domain(["ios", "android"], unmatched="other")
    >>> d.values
    ('ios', 'android', 'other')
    >>> d.encode(["android", None, "symbian"]).tolist()
    [1, 2, 2]
    """

    labels: tuple[Label, ...]
    unmatched: Unmatched
    kind: Literal["bool", "int", "str", "date"]

    remedy: ClassVar[str] = 'declare them, or take unmatched="other", one more answer (of bits and hashes "none", too)'
    """What to do about values that are refused."""

    def __init__(self, labels: Iterable[Label], *, unmatched: Unmatched = "error") -> None:
        if isinstance(labels, (str, bytes, Set)) or not isinstance(labels, Iterable):
            raise DomainError(
                f'a domain is an ordered list of labels, as ["yes", "no"], got {type(labels).__name__}; whole numbers '
                "are range(18, 91), an Interval is for mechanisms for numbers, Cells are for HierarchicalHistogram"
            )
        if isinstance(labels, tuple) and len(labels) == 2 and {*map(type, labels)} <= {int, float}:
            low, high = labels
            raise DomainError(
                f"({low}, {high}) may be an interval or two labels: write Interval({low}, {high}) for the numbers "
                f"between (of a mechanism for numbers), range({low}, {high} + 1) for the whole numbers as labels, "
                f"[{low}, {high}] for the two labels"
            )
        if _is_data(labels):
            warnings.warn(
                "a domain made of a column of data: its order may change, and it tells which values there are. Declare "
                "the labels; if they are declared elsewhere, pass them as a list",
                LdpWarning,
                stacklevel=2,
            )
        if isinstance(labels, range) and (labels.stop - labels.start) // labels.step >= 2**31:  # too many to list
            raise DomainError("a domain may have at most 2**31 - 1 labels")
        column = column_of(labels)
        listed = column.to_pylist() if isinstance(column, pa.Array) else labels
        items = tuple(listed)
        of_range = isinstance(labels, range) and len(items) > 2  # all is known of it by its ends
        if not of_range and any(issubclass(kind, np.generic) for kind in set(map(type, items))):
            items = tuple(item.item() if isinstance(item, np.generic) else item for item in items)
        kind = _kind((items[0], items[-1]) if of_range else items)
        if unmatched not in ("error", "other", "none"):
            raise DomainError(f'unmatched must be "error", "other" or "none", got {shown(unmatched)}')
        if unmatched == "other" and OTHER in items:
            raise DomainError('unmatched="other" adds the bucket "other": leave it out of the labels')
        if unmatched == "none" and len(items) < 2:
            raise DomainError(_TOO_FEW)
        if len(items) >= 2**31:
            raise DomainError("a domain may have at most 2**31 - 1 labels")
        self._declare(labels=items, unmatched=unmatched, kind=kind)

    @classmethod
    def of(cls, domain: Domain | Iterable[Label], unmatched: Unmatched = "error") -> Domain:
        """A mechanism's domain: ``domain`` itself, or a plain list of labels as one.

        Raises:
            DomainError: fewer than two values, of which a report could be any; or see `Domain`.
            ParameterError: a `Domain`, and ``unmatched``.
        """
        if isinstance(domain, Domain) and unmatched != "error":
            raise ParameterError("the domain has its own, as Dates(..., unmatched=): leave out unmatched= here")
        made = domain if isinstance(domain, Domain) else cls(domain, unmatched=unmatched)
        if made.size < 2:
            raise DomainError(_TOO_FEW)
        return made

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Many labels are compressed: Beam sends a mechanism a dozen times, in a code that is slow and long."""
        if len(self.labels) < _MANY:
            return super().__reduce__()
        text = json.dumps(self.labels).encode()
        packed = pa.Codec("zstd").compress(text, asbytes=True)
        return _unpacked, (packed, len(text), self.unmatched, self.kind)

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
        return self.unmatched_code + (self.unmatched == "other")

    @property
    def listed(self) -> int:
        """``d``, and one more if values may be none of these."""
        return self.size + (self.unmatched == "none")

    @property
    def summary(self) -> str:
        """A few characters for a table: d."""
        return str(self.size)

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
        return ARROW_TYPES[self.kind]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The values as text: ``false`` and ``true`` for Booleans."""
        if self.kind == "str":
            return self.values  # type: ignore[return-value]
        return tuple(map(text_of, self.values))

    @cached_property
    def arrow_values(self) -> pa.Array:
        """The values as an Arrow array of `arrow_type`."""
        return pa.array(self.texts if self.arrow_type == pa.string() else self.values, self.arrow_type)

    @property
    @override
    def ends(self) -> tuple[pa.Array, pa.Array]:
        """The labels twice, in the order in which they are declared; ``other`` has no place in it."""
        labels = self._labels_as(ARROW_TYPES[self.kind])
        return labels, labels

    @override
    def between(self, low: Label | None, high: Label | None) -> tuple[int, int]:
        first = 0 if low is None else self._code_of_end("low", low)
        last = len(self.labels) if high is None else self._code_of_end("high", high) + 1
        if not first < last:
            raise ParameterError(
                f"a range goes from low to high in the domain's order, got {shown(low)} to {shown(high)}: swap them"
            )
        return first, last

    def _code_of_end(self, name: str, value: Any) -> int:
        with suppress(DomainError, DtypeError, TypeError):
            known, key = self._codes_of_ends, (type(value), value)
            code = known[key] if key in known else int(self.encode([value])[0])
            if code < len(self.labels):
                known[key] = code
                return code
        raise ParameterError(
            f"{name} of a range must be one of the {len(self.labels):,} values from {shown(self.labels[0])} to "
            f"{shown(self.labels[-1])}, or left out (None) for no end, got {shown(value)}"
        )

    def _is_encoded(self, array: pa.Array) -> bool:
        """Whether an array has codes in it: indices, none null, into a dictionary of the labels in order."""
        if not isinstance(array, pa.DictionaryArray) or array.indices.null_count or self.kind != "str":
            return False
        dictionary = array.dictionary
        return bool(dictionary.equals(self._labels_as(dictionary.type)))

    def _labels_as(self, kind: pa.DataType) -> pa.Array:
        """The labels as an Arrow array of ``kind``: any text type for text."""
        made: dict[pa.DataType, pa.Array] = self._typed_labels
        if kind not in made:
            made[kind] = pa.array(self.labels, ARROW_TYPES[self.kind]).cast(kind)
        return made[kind]

    @cached_property
    def _typed_labels(self) -> dict[pa.DataType, pa.Array]:
        return {}

    @cached_property
    def _codes_of_ends(self) -> dict[tuple[type, Any], int]:
        """Of 100,000 ranges many have the same ends, and `encode` takes its time for each."""
        return {}

    @cached_property
    def code_dtype(self) -> np.dtype[Any]:
        """The narrowest unsigned dtype that holds every code, `unmatched_code` included."""
        return np.min_scalar_type(self.unmatched_code)

    @cached_property
    def declared(self) -> Domain:
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
        """Codes (positions in the labels) of ``values``, nulls as unmatched, as unsigned integers of `code_dtype`.

        Raises:
            DomainError: ``unmatched="error"`` and some values are null or not labels.
            DtypeError: the values are of another kind than the labels.
        """
        array = as_arrow(values, self.kind, column=column)
        codes = self._positions(array, column)
        if self.unmatched in ("error", "clip") and not self._is_encoded(array):
            unmatched = int(np.count_nonzero(codes == self.unmatched_code))
            if unmatched:
                raise DomainError(
                    f"column {column!r}: {unmatched} of {len(codes)} values are not in the domain of {self.size} "
                    f"declared values ({null_count(array)} of them null); {self.remedy}"
                )
        return codes

    @override
    def outside(self, values: Any, *, column: str = "values") -> npt.NDArray[np.bool_]:
        codes = self._positions(as_arrow(values, self.kind, column=column), column)
        return codes == self.unmatched_code

    def decode(self, codes: Codes) -> pa.Array:
        """Values of ``codes`` as an Arrow array: Boolean, int64, or dictionary-encoded text."""
        if self.declared.kind == "str":
            return pa.DictionaryArray.from_arrays(pa.array(codes), self.declared.arrow_values, safe=False)
        if self._first is not None:
            return pa.array(np.add(codes, self._first, dtype=np.int64))
        if self.kind == "bool" and self.labels == (False, True):
            bits = pa.py_buffer(np.packbits(codes, bitorder="little"))
            return pa.Array.from_buffers(pa.bool_(), len(codes), [None, bits])
        return self.arrow_values.take(pa.array(codes))

    @property
    def report_type(self) -> pa.DataType:
        """Arrow type of what `decode` returns."""
        if self.declared.kind == "str":
            return pa.dictionary(pa.from_numpy_dtype(self.code_dtype), pa.string())
        return self.arrow_type

    @property
    def meanings(self) -> list[Any]:
        """What each label stands for, to tell whether it is the same in another domain."""
        return list(zip(*(side.to_pylist() for side in self.ends), strict=True))

    def as_report(self, value: Any) -> Any:
        """A value as reports have it: as text beside ``other``."""
        value = value.item() if isinstance(value, np.generic) else value
        return text_of(value) if self.kind != self.declared.kind else value

    def lookup(self, reports: Any, *, column: str = "reports") -> Codes:
        """Codes of values that `decode` made, ``other`` included; anything else is an error.

        Raises:
            ReportError: they are of another type, or some are null or not in this domain, whatever `unmatched` says.
        """
        declared = self.declared
        codes = None
        with suppress(DtypeError):
            codes = declared._positions(as_arrow(reports, declared.kind, column=column), column)
        if codes is None:
            nulls = ', in pandas column.astype("Int64") where some are null' if declared.kind == "int" else ""
            raise ReportError(
                f"column {column!r}: reports must be of type {self.report_type}, or plain {declared.kind}{nulls}"
            )
        wrong = int(np.count_nonzero(codes == declared.unmatched_code))
        if wrong:
            raise ReportError(
                f"column {column!r}: {wrong} of {len(codes)} reports are null or none of the {self.size} values "
                "that this mechanism reports: leave out nulls, which are no reports"
            )
        return codes

    def _positions(self, array: pa.Array, column: str) -> Codes:
        """Codes of an array of the right kind, `unmatched_code` for what is not a label."""
        missing = self.unmatched_code
        if pa.types.is_dictionary(array.type):
            indices = filled_indices(array, len(array.dictionary), column=column)
            if self._is_encoded(array):
                return indices.astype(self.code_dtype, copy=False)  # the dictionary is the domain: a Polars Enum
            of_entry = self._positions(array.dictionary, column)
            return np.take(np.append(of_entry, self.code_dtype.type(missing)), indices)
        if self._first is not None and not array.null_count:
            offset = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            if self._first:
                offset = offset - self._first
            if array.type == pa.uint64():  # from 2**63 on the cast has wrapped, perhaps onto a label
                offset = np.where(array.to_numpy() >> np.uint64(63), -1, offset)
            inside: npt.NDArray[np.uint64] = offset.view(np.uint64)  # (a negative offset is a huge one)
            if len(inside) and inside.max() > missing:
                inside = np.minimum(inside, np.uint64(missing))
            return inside.astype(self.code_dtype)
        if self.kind == "bool" and self.labels == (False, True) and not array.null_count:
            truth: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
            return truth.view(np.uint8)
        if self.kind == "int":
            array = uint64_as_int64(array) if array.type == pa.uint64() else array.cast(pa.int64())
        found = pc.fill_null(pc.index_in(array, value_set=self._labels_as(array.type)), missing)
        positions: npt.NDArray[np.int32] = found.to_numpy()
        return positions.astype(self.code_dtype)

    @override
    def compiled(self) -> dict[str, Any]:
        return {"kind": self.kind, "labels": list(map(text_of, self.labels)), "unmatched": self.unmatched}

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form; ``unmatched`` only where it is not ``"error"``."""
        policy = {} if self.unmatched == "error" else {"unmatched": self.unmatched}
        return {"domain": list(self.labels), **policy}


_MANY = 1 << 12  # labels


def _unpacked(packed: bytes, size: int, unmatched: Unmatched, kind: Literal["bool", "int", "str"]) -> Domain:
    labels = json.loads(pa.Codec("zstd").decompress(packed, size, asbytes=True))
    return Domain._made(labels=tuple(labels), unmatched=unmatched, kind=kind)


def _is_data(labels: object) -> bool:
    """Whether these are a column's values: a Series of Polars or pandas, an array of Arrow, or numpy's of objects."""
    if isinstance(labels, np.ndarray):
        return bool(labels.dtype.kind == "O")  # as ``unique`` of pandas makes them; others are written by hand, too
    return hasattr(labels, "__array__")


def _kind(labels: tuple[Any, ...]) -> Literal["bool", "int", "str"]:
    """What the labels are; a `DomainError` if they cannot be a domain's."""
    if not labels:
        raise DomainError('a domain needs at least two values, as ["yes", "no"], got none')
    types = set(map(type, labels))
    if len(types) > 1 or not types <= _KINDS.keys():
        raise DomainError(
            f"domain labels must be all str, all int or all bool, got {sorted(t.__name__ for t in types)}; for nulls "
            'take unmatched="other", for floats a mechanism for numbers, or bins; YAML takes no (but "no") for False'
        )
    kind: Literal["bool", "int", "str"] = _KINDS[types.pop()]
    if repeated := len(labels) - len(set(labels)):
        raise DomainError(f"domain labels must be distinct, {repeated} are repeated")
    if kind == "int" and not (min(labels) >= -(2**63) and max(labels) < 2**63):
        raise DomainError("integer labels must fit in 64 bits")
    if kind == "str" and not _is_plain("".join(labels)):
        raise DomainError("text labels must be valid Unicode without NUL characters")
    return kind


def _is_plain(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def uint64_as_int64(array: pa.Array) -> pa.Array:
    """Unsigned integers, those without an int64 as nulls."""
    fits = pc.less(array, pa.scalar(2**63, pa.uint64()))
    return pc.if_else(fits, array, pa.scalar(None, pa.uint64())).cast(pa.int64())
