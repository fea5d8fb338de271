"""Whether one frame has reports of another one: its copy, a part of it, or some of its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from ldp_core import PrivacyPlan
from ldp_core.engine import U64, enough_to_differ
from ldp_polars.columns import Report
from ldp_polars.frames import named, unused

_SAMPLE = 1 << 16  # hashes, the least ones: what two frames have in common is in both samples
_HASHES = pl.List(pl.UInt64)
_DIGEST = pl.Struct({"n": pl.Int64, "all": pl.UInt64, "neighbors": _HASHES, "rows": _HASHES})


def any_copies(sources: Sequence[tuple[pl.DataFrame | pl.LazyFrame, PrivacyPlan]]) -> bool:
    """Whether two of these frames of reports, each with its plan, have the same ones; lazy frames are run."""
    plans = [plan for _, plan in sources]
    several = [(plan, digest_of(frame, plan)) for frame, plan in sources if plans.count(plan) > 1]
    digests = zip((plan for plan, _ in several), pl.collect_all([digest for _, digest in several]), strict=True)
    return any(
        plan == other and are_copies(one.item(), another.item(), plan)
        for (plan, one), (other, another) in combinations(list(digests), 2)
    )


def digest_of(reports: pl.DataFrame | pl.LazyFrame, plan: PrivacyPlan) -> pl.LazyFrame:
    """One row and column, of what copies have in common: the number of reports, and a hash of them and their order.

    Of fresh noise also the least hashes of so many neighbors that are hardly ever drawn twice (A. Broder, "On the
    Resemblance and Containment of Documents", 1997), and of single rows. Other noise may be the same in other reports.
    """
    schema = reports.collect_schema()
    plain, fresh = [], plan.seed is None
    for name, column in zip(plan.columns, named(plan.columns), strict=True):
        dtype = schema[name]
        typed = column.ext.storage() if isinstance(dtype, Report) else column
        fresh = fresh and isinstance(dtype, Report) and not (dtype.keyed or dtype.seeded)
        plain.append(typed.cast(pl.String) if isinstance(dtype, (pl.Enum, pl.Categorical)) else typed)
    together = 2 * enough_to_differ(plan) if fresh else 0  # (each is compared with each)
    row = pl.struct(plain).hash().alias(unused(schema))
    digest = partial(_digest, together=together)
    return reports.lazy().select(pl.map_batches([row], digest, return_dtype=_DIGEST, returns_scalar=True))


def _digest(inputs: Sequence[pl.Series], return_dtype: object = None, *, together: int) -> pl.Series:
    """Polars calls it back: hashes of rows -> their digest; with the hash of so many neighbors, or somewhat more."""
    rows = inputs[0].to_numpy()
    ordered = rows * np.arange(1, 2 * len(rows), 2, dtype=np.uint64)
    neighbors, width, factor = rows, 1, _ODD
    while width < together <= len(rows) and len(neighbors):
        neighbors, width, factor = neighbors[:-width] * factor + neighbors[width:], 2 * width, factor * factor
    least = [_least(neighbors if width > 1 else rows[:0]), _least(rows if together else rows[:0])]
    return pl.Series([(len(rows), int(ordered.sum()), *least)], dtype=_DIGEST, strict=False)


def _least(hashes: U64) -> U64:
    return hashes if len(hashes) <= _SAMPLE else np.partition(hashes, _SAMPLE)[:_SAMPLE]


_ODD = np.array([0x9E3779B97F4A7C15], np.uint64)  # (an array, which wraps without a warning)


def are_copies(digest: Mapping[str, Any], other: Mapping[str, Any], plan: PrivacyPlan) -> bool:
    """Whether two digests are of frames that have the same reports, as those of hardly any two that were drawn do."""
    small, large = sorted((digest, other), key=lambda one: one["n"])
    if small["n"] < enough_to_differ(plan):
        return False
    if (small["n"], small["all"]) == (large["n"], large["all"]) or {*small["neighbors"]} & {*large["neighbors"]}:
        return True
    some, there = small["rows"], large["rows"]
    ends = [max(rows) for rows in (some, there) if len(rows) == _SAMPLE]
    some, there = ([row for row in rows if row <= min(ends, default=row)] for rows in (some, there))
    # Of a value of the larger frame a new report is none of its n, of which u are there once, with a probability of
    # about u / n (I. Good, "The Population Frequencies of Species", 1953); of any other value with exp(-epsilon) of it.
    once = sum(times == 1 for times in Counter(there).values())
    others = len(some) * once * math.exp(-plan.epsilon) / max(len(there), 1)
    return others >= 30 and {*there}.issuperset(some)
