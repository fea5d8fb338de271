"""What a mechanism's own model reads in a report that names a hash function: whether it speaks for an input.

Such a report is a number among so many that no two are equal. Whether its function takes an input to its bucket is one
bit, and all that the report tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.arrays.arrow import CONVERSION_ERRORS
from ldp_core.arrays.types import U64
from ldp_core.auditing.columns import Part
from ldp_core.errors import ReportError
from ldp_core.exact.projective import PointsAndZero
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters
from ldp_core.mechanisms.oracles.local_hashing import BUCKET_SHIFT, FUNCTION, HashedWord
from ldp_core.mechanisms.sketches.count_mean_sketch import HadamardCountMeanSketch
from ldp_core.reports import Nullable

Reading: TypeAlias = Callable[[Any], list[Part]]
"""Of reports, or a tuple of them: for some of them, a column for each of the inputs."""


def reading(mechanisms: Sequence[Mechanism], inputs: Sequence[tuple[Any, ...]]) -> Reading:
    """For each report of mechanisms, one for each position of an input: whether it speaks for each of the inputs."""
    codes = []
    for position, m in enumerate(mechanisms):
        distinct = list(dict.fromkeys(row[position] for row in inputs))
        reads = isinstance(_format(m), HashedWord) or isinstance(m, (HeavyHitters, HadamardCountMeanSketch))
        codes.append(m.inputs.encode(pa.array(distinct)) if reads else np.zeros(0, np.uint8))

    def read(reports: Any) -> list[Part]:
        parts = reports if isinstance(reports, tuple) else (reports,)
        return [
            [_supported(m, part, code) for code in of]
            for m, part, of in zip(mechanisms, parts, codes, strict=True)
            if len(of)
        ]

    return read


def _format(m: Mechanism) -> Any:
    """Of the reports, without their nulls."""
    return m.reports.inner if isinstance(m.reports, Nullable) else m.reports


def _supported(m: Mechanism, reports: Any, code: Any) -> npt.NDArray[np.uint8]:
    """1 or 0, or 2 where there is no answer."""
    try:
        array = reports if isinstance(reports, (pa.Array, pa.ChunkedArray)) else pa.array(reports)
        words = array.fill_null(0).cast(pa.uint64()).to_numpy()
        answered = array.is_valid().to_numpy(zero_copy_only=False)
    except CONVERSION_ERRORS:
        raise ReportError(f"reports of {m.name} are unsigned integers, one each, or null") from None
    answered &= words < np.uint64(_format(m).limit)  # what else is no report of this mechanism
    words = np.where(answered, words, np.uint64(0))
    if isinstance(m, HeavyHitters):
        supported = _by_search(m, words, code)
    elif isinstance(m, HadamardCountMeanSketch):
        supported = m.supports(words, code)
    else:  # whether the function takes the code to the bucket
        supported = _format(m).family.hash(words & FUNCTION, np.full(len(words), code)) == words >> BUCKET_SHIFT
    return np.where(answered, supported, np.uint8(2)).astype(np.uint8)


def _by_search(m: HeavyHitters, words: U64, code: Any) -> npt.NDArray[np.bool_]:
    """A report is a level, a row and a point: whether the point is orthogonal to the prefix's bucket in this row."""
    rows, point = (part.astype(np.intp) for part in np.divmod(words, np.uint64(m.points.size)))
    prefixes = m.domain.prefix(np.full(len(words), code), np.array(m.levels)[rows // m.rows])
    return _orthogonal(m.points)[point, m.hashes.at(rows, prefixes)]


@lru_cache(maxsize=1)
def _orthogonal(points: PointsAndZero) -> npt.NDArray[np.bool_]:
    """bool[points, buckets]."""
    table = np.empty((points.size, points.buckets), bool)
    for start in range(0, points.size, _STEP):
        counts = np.eye(min(_STEP, points.size - start), points.size, start, dtype=np.int64)
        table[start : start + _STEP] = points.supporters(counts) > 0
    return table


_STEP = 256
