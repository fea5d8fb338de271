"""Sampling of columns (SMP): a record answers one column of D with the whole epsilon, and says nothing of the others.

T. T. Nguyen et al., "Collecting and Analyzing Data from Smart Device Users with Local Differential Privacy",
arXiv:1606.05053, 2016; N. Wang et al., ICDE 2019; "SMP" in H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao,
"Random Sampling Plus Fake Data", CIKM 2021. Why a record spends epsilon: `ldp_core.plans.drawn`.

Of n records m answer this column; S[v] of these reports support v. Given m, those who answer are a uniform sample
of m without replacement, so that with f = c / n, c being the true count among all n records,

    estimate[v] = n / m * (S[v] - m q) / (p - q)                                             (unbiased)
    variance[v] = n / m * ((c p (1 - p) + (n - c) q (1 - q)) / (p - q)^2 + c (1 - f) (n - m) / (n - 1))

The last term is the sampling of people, with the correction for a finite population (W. G. Cochran, "Sampling
Techniques", 1977, equation 2.9). It does not vanish for a large epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.errors import ParameterError, ReportError
from ldp_core.estimates.options import Estimation, check_confidence
from ldp_core.exact.arrays import F64, I64, Codes
from ldp_core.mechanism import Native
from ldp_core.noise.base import Randomness
from ldp_core.plans.drawn import DrawnColumn, Mask
from ldp_core.tally import Tally


@dataclass(frozen=True, init=False)
class SampledColumn(DrawnColumn):
    """One of D columns, of which each record answers one and leaves the others null.

    A null here is no value that slipped through: which column is answered is drawn without a look at the record, and
    a null tells no more than that the draw fell on another column. (A *value* that is null is refused or becomes
    a label, as ever: see `Domain`.) Under a null the report's buffer holds zeros.

    Reports are those of the inner mechanism, and nulls; in place of a list (bit vectors) there is a list of nulls,
    because pyarrow, as released, does not read a null fixed-size list from Parquet (apache/arrow#35692, seen in
    version 25.0.1). Tallies count the answers first: ``1 + inner.counters`` counters. p and q are those of an answer.

    >>> from ldp_core import UnaryEncoding
    >>> m = SampledColumn(UnaryEncoding(["ios", "android"], epsilon=2.0), columns=4)
    >>> m.epsilon, m.counters
    (2.0, 3)
    """

    name: ClassVar[str] = "sampled_column"
    nullable: ClassVar[bool] = True

    # ---- reports: a row of (answered, report), where a report that is none is zeros

    def perturb_drawn(self, codes: Codes, drawn: Mask, randomness: Randomness) -> Native:
        """See `DrawnColumn`."""
        if randomness.by_value:  # each record's noise is its own: perturb all, show those who answer
            answers = self.inner.perturb_codes(codes, randomness.bind(self.fingerprint, codes))[_where(drawn)]
        else:
            some = codes[_where(drawn)]
            answers = self.inner.perturb_codes(some, randomness.bind(self.fingerprint, some))
        return _rows(drawn, answers)

    def tally(self, reports: Any, *, column: str = "reports") -> Tally:
        """See `Mechanism`; by a shorter way than that of the rows, which a single tally does not need."""
        array = self._reports_as_arrow(reports, column)
        answers = self._answers(array, _answered(array, column), column)
        counts = self.inner.count_reports(answers, np.broadcast_to(np.int64(0), len(answers)), 1)[0]
        return Tally(len(array), np.concatenate([[len(answers)], counts]), self.fingerprint)

    def _answers(self, reports: pa.Array, answered: Mask, column: str) -> Native:
        """The reports that are ``answered``, in the inner mechanism's working layout."""
        there = reports if answered.all() else _taken(reports, _where(answered))
        return self.inner.from_arrow(there, column=column)

    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """How many reports are answers; then what the inner mechanism counts of these."""
        at = _where(reports["answered"])
        answers, of_answer = reports["report"][at], groups[at]
        counts = np.empty((n_groups, self.counters), np.int64)
        counts[:, 0] = np.bincount(of_answer, minlength=n_groups)
        counts[:, 1:] = self.inner.count_reports(answers, of_answer, n_groups)
        return counts

    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """See `Mechanism`: null, or a list of nulls, where there is no answer."""
        shown = self.inner.to_arrow(np.ascontiguousarray(reports["report"]), packed=packed)
        return _with_nulls(shown, reports["answered"])

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`; nulls and lists of nulls are no answers.

        Raises:
            ReportError: another type or width than this mechanism's reports have, or an answer that holds a null.
        """
        answered = _answered(reports, column)
        return _rows(answered, self._answers(reports, answered, column))

    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """Objects: None where there is no answer."""
        out = np.empty(len(reports), object)
        out[:] = self.to_arrow(reports, packed=packed).to_pylist()
        return out

    # ---- estimates

    @property
    def counters(self) -> int:
        """One for the number of answers, and the inner mechanism's."""
        return 1 + self.inner.counters

    def is_possible(self, n: int, counts: I64) -> bool:
        """Whether there are at most n answers, and the inner mechanism's counters can be of as many."""
        answers = int(counts[0])
        return 0 <= answers <= n and self.inner.is_possible(answers, counts[1:])

    def expected_parts(self) -> tuple[list[Any], list[Any]]:
        """Of an answer: the inner mechanism's."""
        return self.inner.expected_parts()

    def variance(self, n: float, count: Any = 0.0) -> Any:
        """Variance of an estimated count, given ``n`` records of which one in D answers; see `FrequencyOracle`."""
        people = count * (1 - count / max(n, 1)) * _unsampled(n, n / self.columns)
        return self.columns * (self.inner.variance(n, count) + people)

    @cached_property
    def _rates(self) -> tuple[F64, F64, F64]:
        """As of `FrequencyOracle`, for one answer in D; the term in c^2, which makes the variance less, left out."""
        q, a, b = self.inner._rates
        return q, self.columns * a, self.columns * (b + 1) - 1

    def accuracy(self, n: int, beta: float = 0.05) -> float:
        """As of `FrequencyOracle`, for as many answers as one record in D gives: ``floor(n / D)``.

        (Hoeffding's inequality holds for samples without replacement too: his section 6.)
        """
        answers = n // self.columns
        if answers < 1:
            raise ParameterError(f"n must be at least {self.columns}, the number of columns, got {n}")
        return self.inner.accuracy(answers, beta)

    def estimates(self, n: Any, support: I64, how: Estimation) -> tuple[F64, F64, F64, F64]:
        """See `FrequencyOracle`: nan where there are records and no answer, which no method makes consistent."""
        nobody = (support[..., :1] == 0) & (np.asarray(n) > 0)
        some = support.copy()
        some[..., :1] += nobody  # as if one had answered
        counts, errors, low, high = super().estimates(n, some, how)
        return tuple(np.where(nobody, np.nan, array) for array in (counts, errors, low, high))  # type: ignore[return-value]

    def debias(
        self, n: Any, support: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """See `FrequencyOracle`, for the variance above: the interval's ends are the roots of a quadratic in c again.

        All four are nan where there are records and no answer.
        """
        check_confidence(confidence)
        n = np.asarray(n, float)
        answers = support[..., :1].astype(float)
        none = answers == 0
        answers = np.where(none, 1, answers)
        b = self.inner._rates[2]
        scale = n / answers
        of_answers, of_noise, *_ = self.inner.debias(answers, support[..., 1:], confidence=confidence)
        counts: F64 = scale * of_answers
        people = _unsampled(n, answers)
        # variance = a + b c + e c^2. In a pure protocol a is n times a constant; where an error depends on more than
        # the count (collisions of a sketch, values of one block, a regression) the inner mechanism knows how much.
        a = scale**2 * (of_noise**2 - b * np.clip(of_answers, 0, answers))
        b, e = scale * (b + people), -people / answers
        inside = np.clip(counts, 0, n)
        errors: F64 = np.sqrt(np.maximum(a + (b + e * inside) * inside, 0))
        z = -NormalDist().inv_cdf((1 - confidence) / (2 * self.domain.size if simultaneous else 2))
        shrink = 1 - z**2 * e
        middle = counts + z**2 * b / 2
        half = np.sqrt(np.maximum(middle**2 - shrink * (counts**2 - z**2 * a), 0))
        out = counts, errors, (middle - half) / shrink, (middle + half) / shrink
        empty = np.where(n == 0, 0.0, np.nan)  # without records there is nothing to be uncertain about
        made = [np.where(none, empty, array) for array in out]
        return made[0], made[1], made[2], made[3]


def _unsampled(n: Any, answers: Any) -> Any:
    """(n - m) / (n - 1), the correction for a finite population."""
    return np.maximum(n - answers, 0) / np.maximum(np.asarray(n) - 1, 1)


def _rows(answered: Mask, answers: Native) -> Native:
    """Rows of (answered, report), zeros where there is no answer."""
    rows = np.zeros(len(answered), [("answered", bool), ("report", answers.dtype, answers.shape[1:])])
    rows["answered"] = answered
    rows["report"][_where(answered)] = answers
    return rows


def _where(mask: Mask) -> I64:
    """Positions, with which to index is several times as fast as with the mask itself."""
    return np.flatnonzero(mask)


def _answered(reports: pa.Array, column: str) -> Mask:
    """Which reports are answers."""
    there = _valid(reports)
    if not pa.types.is_fixed_size_list(reports.type) or not (items := reports.flatten()).null_count:
        return there
    size = reports.type.list_size
    first = _valid(items)[::size]
    if items.null_count != size * np.count_nonzero(~first):
        raise ReportError(f"column {column!r}: a list is an answer, or all its items are null; some lists hold both")
    answered = there.copy()
    answered[_where(there)] = first
    return answered


def _taken(array: pa.Array, at: I64) -> pa.Array:
    """The elements ``at`` these positions, none of which is null; several times as fast as `filter` or `drop_null`."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(_taken(array.indices, at), array.dictionary, safe=False)
    if pa.types.is_integer(kind):
        values = np.frombuffer(array.buffers()[1], kind.to_pandas_dtype())[array.offset :]
        return pa.array(values.take(at), kind)
    return array.take(pa.array(at))


def _valid(array: pa.Array) -> Mask:
    """Which elements are not null; ten times as fast as `is_valid`."""
    validity = array.buffers()[0]
    if validity is None or not array.null_count:
        return np.ones(len(array), bool)
    bits = np.frombuffer(validity, np.uint8)
    return np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :].view(bool)


def _with_nulls(array: pa.Array, valid: Mask) -> pa.Array:
    """A new array, without nulls and offset, with nulls, or lists of nulls, where it is not ``valid``."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(_with_nulls(array.indices, valid), array.dictionary, safe=False)
    if pa.types.is_fixed_size_list(kind):
        items = _with_nulls(array.values, np.repeat(valid, kind.list_size))
        return pa.Array.from_buffers(kind, len(array), [None], children=[items])
    validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(array), [validity, array.buffers()[1]])
