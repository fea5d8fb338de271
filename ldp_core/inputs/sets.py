"""Sets of declared items: lists of them, of which each person has one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from ldp_core.arrays.arrow import as_arrow
from ldp_core.arrays.types import I64, Bools, Codes
from ldp_core.errors import DomainError
from ldp_core.inputs.base import Inputs
from ldp_core.inputs.domain import Domain
from ldp_core.parameters import check_choice, check_integer

OnMore: TypeAlias = Literal["error", "first"]

MOST_ITEMS = 256  # of one set
MOST_PLACES = 1 << 16
"""Of items and pads together: each has a number of 16 bits."""
_ITEM = 16  # bits


@dataclass(frozen=True)
class Sets(Inputs):
    """Lists of up to ``most`` different items of a domain, padded to sets of just so many.

    Their order says nothing, and an item that is listed twice is there once. A list of s items is padded with the first
    ``most - s`` of as many *pads*: places after the d items. So a pad, too, says something: the pad at place d + j that
    at most ``most - 1 - j`` items are listed.

    Args:
        domain: the items. Another item, or a null in a list, is refused or is the item "other". So is a null in the
            place of a list: no answer is not the answer of no items.
        most: the most items of a person, 1 to 256.
        on_more: what becomes of lists with more of them: ``"error"``, an error that counts them; or ``"first"``: the
            first ``most`` different ones are kept, in the order of the list.

    Raises:
        DomainError, ParameterError: more than 65,536 items and pads, or dates; parameters that do not exist.

    >>> sets = Sets(Domain(["mail", "maps", "news"]), 2)
    >>> sets.items(sets.encode([["news", "mail", "news"], ["maps"], []])).tolist()
    [[0, 2], [1, 3], [3, 4]]
    """

    domain: Domain
    most: int
    on_more: OnMore = "error"
    remedy: ClassVar[str] = (
        'declare these items, or take unmatched="other", one more item; for longer lists a larger "most", or '
        'on_more="first", which keeps the first ones'
    )

    def __post_init__(self) -> None:
        check_integer("most", self.most, 1, min(self.domain.size, MOST_ITEMS))
        check_choice("on_more", self.on_more, get_args(OnMore))
        if self.domain.kind == "date":
            raise DomainError("there are no sets of dates: declare the cells' names as labels, and send lists of these")
        if self.places > MOST_PLACES:
            raise DomainError(f"there may be {MOST_PLACES - self.most} items in sets of {self.most}, declare fewer")

    @property
    def places(self) -> int:
        """Items and pads."""
        return self.domain.size + self.most

    @property
    @override
    def kind(self) -> str:  # type: ignore[override]
        return f"list of {self.domain.kind}"

    @property
    @override
    def unmatched(self) -> str:  # type: ignore[override]
        return self.domain.unmatched

    @property
    @override
    def summary(self) -> str:
        return f"{self.most} of {self.domain.size}"

    @override
    def to_dict(self) -> dict[str, Any]:
        """The items; how many of them is a parameter of the mechanism."""
        return self.domain.to_dict()

    @override
    def compiled(self) -> dict[str, Any]:
        return {**self.domain.compiled(), "most": self.most, "on_more": self.on_more}

    def items(self, codes: Codes) -> Codes:
        """uint16[n, most], the places of the items and pads of each set, in order, of codes."""
        return codes.view(np.uint16).reshape(len(codes), -1)[:, : self.most]

    @override
    def encode(self, values: Any, *, column: str = "values") -> Codes:
        """Codes of lists, uint64[n, ceil(most / 4)]: places of 16 bits, in order.

        Raises:
            DomainError: items that are not declared, nulls, or too many items, where these are refused.
            DtypeError: no lists, or of another kind than the items.
        """
        n, listed, unknown = self._listed(values, column)
        kept = _different(listed)
        more = (counts := np.bincount(kept >> _ITEM, minlength=n)) > self.most
        if self.unmatched == "error" and unknown.any():
            raise DomainError(
                f"column {column!r}: {np.count_nonzero(unknown)} of {n} lists are null or have items that are not "
                f'among the {self.domain.size} declared ones; declare them, or take unmatched="other", one more item'
            )
        if more.any():
            if self.on_more == "error":
                raise DomainError(
                    f"column {column!r}: {np.count_nonzero(more)} of {n} lists have more than {self.most} different "
                    'items; declare a larger "most", or take on_more="first", which keeps the first ones'
                )
            kept = np.concatenate([kept[~more[kept >> _ITEM]], self._first(listed[more[listed >> _ITEM]])])
            kept.sort()
            counts = np.minimum(counts, self.most)
        ranks, rows = np.arange(self.most), kept >> _ITEM
        out = np.zeros((n, -(-self.most // 4) * 4), np.uint16)
        out[:, : self.most] = self.domain.size + np.maximum(ranks - counts[:, None], 0)
        out[rows, np.arange(len(kept)) - (np.cumsum(counts) - counts)[rows]] = kept & (MOST_PLACES - 1)
        return out.view(np.uint64)

    def _first(self, listed: I64) -> I64:
        """Of rows and items in the order of the lists, the first ``most`` different items of each row."""
        different, at = np.unique(listed, return_index=True)
        in_order = different[np.lexsort((at, different >> _ITEM))]
        rows = in_order >> _ITEM
        rank: I64 = np.arange(len(rows)) - np.searchsorted(rows, rows)
        return in_order[rank < self.most]

    @override
    def counted(self, values: Any) -> list[list[Any]]:
        labels = self.domain.arrow_values.to_pylist()
        return [[labels[k] for k in row if k < len(labels)] for row in self.items(self.encode(values)).tolist()]

    @override
    def outside(self, values: Any, *, column: str = "values") -> Bools:
        return self._odd(values, column, unknown=True, more=True)

    @override
    def refuses(self, values: Any, *, column: str = "values") -> Bools:
        return self._odd(values, column, unknown=self.unmatched == "error", more=self.on_more == "error")

    def _odd(self, values: Any, column: str, *, unknown: bool, more: bool) -> Bools:
        """Which lists are null or have other items, if ``unknown`` counts, or too many items, if ``more`` does."""
        n, listed, others = self._listed(values, column)
        return others & unknown | (np.bincount(_different(listed) >> _ITEM, minlength=n) > self.most) & more

    @cached_property
    def _known(self) -> Domain:
        """Items, of which others have a code and are not refused."""
        return self.domain if self.unmatched == "other" else Domain(list(self.domain.labels), unmatched="none")

    def _listed(self, values: Any, column: str) -> tuple[int, I64, Bools]:
        """How many lists; each of their items as row 2^16 + item, in their order; which are null or have other items.

        A null in the place of a list has the item of those that are not declared.
        """
        array = as_arrow(values, self.kind, column=column)
        if pa.types.is_dictionary(array.type):  # (a kind of list of which Arrow knows no lengths)
            array = array.dictionary.take(array.indices)
        n, null = len(array), array.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_type))
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        codes = self._known.encode(array.flatten(), column=column).astype(np.int64)
        rows = np.repeat(np.arange(n), lengths)
        unknown = null.copy()
        unknown[rows[codes == self._known.unmatched_code]] = True
        no_list = np.flatnonzero(null) << _ITEM | self._known.unmatched_code
        return n, np.concatenate([rows << _ITEM | codes, no_list]), unknown


def _different(numbers: I64) -> I64:
    """Each number once, in order; `numpy.unique` hashes integers, which takes four times as long."""
    ordered = np.sort(numbers)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]]
