"""Reports become a tally, and tallies add up; both may come from strangers, and are checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.arrow import CONVERSION_ERRORS, array_of, column_of, plain
from ldp_core.arrays.types import I64, Bools
from ldp_core.errors import MechanismMismatchError, ReportError
from ldp_core.exact.transforms import count_numbers
from ldp_core.reports import Native, Number, ReportFormat, Word
from ldp_core.tally import MOST, Counts, Tally


class Tallier(ABC):
    """From reports to tallies, and what tallies there can be: every mechanism, and what a question counts with.

    See `Question.tallier`. Integers that add up are all that a subclass counts, so that its tallies merge in any order.
    """

    name: ClassVar[str]
    """What errors call it."""

    @property
    @abstractmethod
    def counters(self) -> int:
        """Number of counters in a tally."""

    @property
    @abstractmethod
    def reports(self) -> ReportFormat:
        """What reports look like."""

    @abstractmethod
    def count_reports(self, reports: Native, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        """int64[n_groups, counters]: in each group, how many reports each counter counts.

        In a frequency oracle there is one counter per value: the number of reports that support it.
        """

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """16 hexadecimal digits that tell its tallies from others."""

    @property
    def described(self) -> str:
        """What errors say of it where another one was expected."""
        return f"{self.name} (fingerprint {self.fingerprint})"

    def _check_maker(self, reports: Any, column: str) -> None:  # noqa: B027 (only mechanisms are made by one)
        """Raise `MechanismMismatchError` if a column says that another mechanism made its reports."""

    def by_column(self, column: str) -> dict[str, Tallier]:
        """What reads the reports of each column that they are in, by name: of one column itself.

        Args:
            column: what the column is called, if it is one.
        """
        return {column: self}

    def joined(self, parts: Sequence[Native]) -> Native:
        """Reports in the working layout, of those of each column in `by_column`."""
        [reports] = parts
        return reports

    def empty_tally(self) -> Tally:
        """The tally of no reports."""
        return Tally(0, np.zeros(self.counters, np.int64), self.fingerprint)

    def tally(self, reports: Any, *, column: str = "reports") -> Tally:
        """Count reports: of a frequency oracle, those that support each value.

        Args:
            reports: what `perturb` returned, in either layout.
            column: what to call the reports in an error message.

        Raises:
            MechanismMismatchError: a Series of Polars whose dtype says that another mechanism made the reports.
            ReportError: nulls, or not reports of this mechanism's shape.
        """
        native = self._checked(reports, column)
        one_group = np.broadcast_to(np.int64(0), len(native))  # zeros that nobody has to write
        return Tally(len(native), self.count_reports(native, one_group, 1)[0], self.fingerprint)

    def tally_parts(self, reports: Any, sizes: I64, *, column: str = "reports") -> I64:
        """int64[k, counters]: the counters of `tally` of k parts of so many reports each, which follow each other."""
        array, out = self._reports_as_arrow(reports, column), np.empty((len(sizes), self.counters), np.int64)
        ends, first = np.cumsum(sizes), 0
        while first < len(sizes):
            start = ends[first] - sizes[first]
            few = int(np.searchsorted(ends, start + _ROWS, "right")), first + _CELLS // self.counters
            last = max(min(few), first + 1)
            some = array.slice(start, ends[last - 1] - start)
            if last == first + 1:
                out[first] = self.tally(some, column=column).counters
            else:
                of = np.repeat(np.arange(last - first), sizes[first:last])
                out[first:last] = self.count_reports(self._checked(some, column), of, last - first)
            first = last
        return out

    def _checked(self, reports: Any, column: str) -> Native:
        """What `perturb` returned, in the working layout."""
        return self.reports.from_arrow(self._reports_as_arrow(reports, column), column=column)

    def _reports_as_arrow(self, reports: Any, column: str = "reports") -> pa.Array:
        self._check_maker(reports, column)
        given, reports = reports, column_of(reports)
        if isinstance(reports, pa.Array):
            made = plain(reports)
            return made if isinstance(given, (pa.Array, pa.ChunkedArray)) else _of_one_length(made)
        array: pa.Array | None = None
        with suppress(*CONVERSION_ERRORS):
            rows = np.asarray(reports)
            if rows.ndim == 2:
                array = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
            else:
                array = _of_one_length(array_of(reports))
        if array is None:
            raise ReportError(
                f"column {column!r}: reports must be of type {self.reports.arrow_type()}, or a numpy array of it"
            )
        return array

    def check_tally(self, tally: Counts) -> None:
        """Raise `MechanismMismatchError` unless a tally is of this mechanism, or `ReportError` if it cannot be."""
        if not hasattr(tally, "fingerprint"):
            raise ReportError(
                f"expected a tally, as {self.name}'s tally(reports) gives, got {type(tally).__name__}"
                + "; Tally.from_dict makes one of a row of a column of tallies" * isinstance(tally, dict)
            )
        if tally.fingerprint != self.fingerprint:
            raise MechanismMismatchError(
                f"the tally, with fingerprint {tally.fingerprint}, is not of {self.described}: "
                "estimate with the mechanism that made the reports"
            )
        if tally.counters.shape != (self.counters,):
            raise MechanismMismatchError(
                f"the tally has {tally.counters.size} counts, this mechanism's have {self.counters}"
            )
        if not 0 <= tally.n <= self.most_reports or not self.is_possible(np.array(tally.n), tally.counters):
            raise ReportError(
                f"the tally's counts cannot be those of {tally.n} reports of this mechanism: "
                "it is damaged or forged, leave it out"
            )

    def check_counts(self, n: I64, counters: I64, *, column: str = "tallies") -> None:
        """`check_tally` of k tallies, each by itself, of int64[k] and int64[k, counters]; raise `ReportError`."""
        known = (n >= 0) & (n <= self.most_reports)
        wrong = len(n) - int(np.count_nonzero(known & self.is_possible(n, counters)))
        if wrong:
            raise ReportError(
                f"column {column!r}: {wrong} of {len(n)} tallies have counts that no n reports of this mechanism "
                "have: they are damaged or forged, leave them out"
            )

    def check_total(self, n: int) -> None:
        """Raise `ReportError` if these are more than `most_reports`, what all tallies together may have."""
        if n > self.most_reports:
            raise ReportError(
                f"tallies of this mechanism can be added up to at most {self.most_reports} reports, and these have {n}"
            )

    def merge(self, tallies: Iterable[Tally]) -> Tally:
        """The sum of tallies, each of which is checked by itself: one forged tally cannot hide behind the others.

        Use it, and not ``+``, for tallies that come from outside. Without tallies it is the empty one.

        Raises:
            MechanismMismatchError: a tally is another mechanism's.
            ReportError: a tally's counters cannot be those of its n reports; all together are more than `most_reports`.

        >>> from ldp_core import RandomizedResponse
        >>> m = RandomizedResponse(epsilon=1.0)
        >>> m.merge([m.tally([True, False, True]), m.tally([True])]).n
        4
        """
        total = self.empty_tally()
        for tally in tallies:
            self.check_tally(tally)
            self.check_total(total.n + tally.n)
            total += tally
        return total

    @property
    def most_reports(self) -> int:
        """The most reports that a tally can hold, so that no sum of its counters is beyond 64 bits: 2^63 / counters."""
        return MOST // self.counters

    def is_possible(self, n: I64, counters: I64) -> Bools:
        """bool[...]: whether int64[..., counters] can be the counters of n reports; here, whether each is in [0, n].

        A mechanism knows more where it is so: for example that each report counts once. ``n``, int64[...], is in [0,
        `most_reports`], so that n times the number of counters is no overflow.
        """
        least, most = np.minimum.reduce(counters, axis=-1), np.maximum.reduce(counters, axis=-1)
        return (least >= 0) & (most <= n)

    def bounded_sums(self, n: Any, counters: npt.NDArray[np.int64], counts: Any) -> Sequence[Any]:
        """Sums of which it is known what reports can add up to, see `ldp_core.estimates.plausibility`; here, none.

        Of ``n`` reports, broadcast against ``counters``, int64[..., counters], and the estimated ``counts`` of a
        histogram.
        """
        return ()


_ROWS, _CELLS = 1 << 16, 1 << 20  # of small parts that are counted in one call, and their counters


class NumberedCounters(Tallier):
    """Each report is the number of the counter that counts it."""

    @property
    @override
    def reports(self) -> Number:
        return Word(self.counters)

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        return count_numbers(reports, groups, n_groups, self.counters)

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Each report counts once."""
        return super().is_possible(n, counters) & (counters.sum(axis=-1) == n)


def _of_one_length(rows: pa.Array) -> pa.Array:
    """Lists of one length as Arrow has vectors; anything else as it is.

    (pandas keeps a vector as an object.)
    """
    if not (pa.types.is_list(rows.type) or pa.types.is_large_list(rows.type)) or rows.null_count or not len(rows):
        return rows
    size, items = len(rows[0]), rows.flatten()
    lengths = rows.value_lengths().to_numpy(zero_copy_only=False)
    return pa.FixedSizeListArray.from_arrays(items, size) if size and (lengths == size).all() else rows
