"""Reports that are one unsigned 64-bit word each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.errors import ReportError
from ldp_core.exact.arrays import I64, U64, Codes
from ldp_core.mechanism import Mechanism, Native, other_type
from ldp_core.noise.fresh import Noise


class Words(Mechanism):
    """A mechanism whose reports are ``uint64``, in Arrow, in numpy and in the working layout."""

    @abstractmethod
    def perturb_block(self, codes: Codes, noise: Noise) -> npt.NDArray[np.uint64]:
        """Codes to uint64[n], for so many records that the intermediate arrays stay in a cache."""

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """See `perturb_block`."""
        reports = np.empty(len(codes), np.uint64)
        for start in range(0, len(codes), _BLOCK):
            stop = min(start + _BLOCK, len(codes))
            reports[start:stop] = self.perturb_block(codes[start:stop], noise.rows(start, stop))
        return reports

    def report_type(self, *, packed: bool = False) -> pa.DataType:
        """``uint64``; ``packed`` changes nothing."""
        return pa.uint64()

    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """See `Mechanism`."""
        return pa.array(reports)

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`; which words are reports, a subclass says."""
        if reports.type != pa.uint64():
            raise other_type(column, pa.uint64(), reports.type)
        if reports.null_count:
            raise ReportError(f"column {column!r}: {reports.null_count} of {len(reports)} reports are null")
        words: npt.NDArray[np.uint64] = reports.to_numpy()
        return words

    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """See `Mechanism`."""
        return reports


_BLOCK = 1 << 16  # records


class CountedWords(Words):
    """Words that are the number of the counter that counts them."""

    def support_counts(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """See `Mechanism`: how often each report occurs."""
        cells = reports.view(np.int64)
        if n_groups > 1:
            cells = groups * self.counters + cells
        return np.bincount(cells, minlength=n_groups * self.counters).reshape(n_groups, self.counters)

    def is_possible(self, n: int, counts: I64) -> bool:
        """See `Mechanism`: each report counts once."""
        return super().is_possible(n, counts) and bool(counts.sum() == n)

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`."""
        return check_below(super().from_arrow(reports, column=column), self.counters, column)


def cell_counts(cells: I64, groups: I64, n_groups: int, k: int) -> Iterator[tuple[int, int, I64]]:
    """How often each of k numbers occurs, some groups at a time: (first, last, int64[last - first, k])."""
    step = max(_CELLS // k, 1)
    if n_groups > step and np.any(groups[1:] < groups[:-1]):
        order = np.argsort(groups, kind="stable")
        cells, groups = cells[order], groups[order]
    for first in range(0, n_groups, step):
        last = min(first + step, n_groups)
        some, of = cells, groups
        if n_groups > step:
            start, stop = np.searchsorted(groups, (first, last))
            some, of = cells[start:stop], groups[start:stop] - first
        at = some if last == first + 1 else of * k + some
        yield first, last, np.bincount(at, minlength=(last - first) * k).reshape(-1, k)


_CELLS = 1 << 20  # counts made at a time: 8 MiB


def check_below(words: U64, limit: int, column: str) -> U64:
    """Return ``words``; raise `ReportError` unless all are below ``limit``."""
    wrong = int(np.count_nonzero(words >= np.uint64(limit)))
    if wrong:
        raise ReportError(f"column {column!r}: {wrong} of {len(words)} reports are not below {limit}")
    return words
