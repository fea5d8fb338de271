"""What the tests of a mechanism through Polars and Beam share: events, the way through each engine, one check.

By default they run for one mechanism of each report format; `slow` are all the others, which differ in nothing that
Polars or Beam could see.

Estimates are checked against the true counts; whatever is counted of the same reports must be equal everywhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_core import LdpWarning, Mechanism, Tally

from ..beam.helpers import on_my_word, run
from ..beam.streams import All
from ..cases import case


def some(mechanisms: Iterable[str], *default: str) -> list[Any]:
    """Parameters: these names, of which all but the ``default`` ones are slow."""
    return [name if name in default else pytest.param(name, marks=pytest.mark.slow) for name in mechanisms]


def events(m: Mechanism, n: int) -> pl.DataFrame:
    """Values, skewed, nulls where the domain takes them; their codes; a key of three groups; ids."""
    labels = [*m.domain.labels, *([None] if m.domain.unmatched != "error" else [])]
    weights = 0.6 ** np.minimum(np.arange(len(labels)), 6)
    codes = np.random.default_rng(3).choice(len(labels), n, p=weights / weights.sum())
    values = pl.Series("x", labels).gather(codes)
    return pl.DataFrame({"x": values, "code": codes, "k": np.arange(n) % 3, "id": np.arange(n)})


def events_of_sets(m: Any, n: int) -> pl.DataFrame:
    """Lists of items, some of which are there twice, nulls where the domain takes them; and the codes in each."""
    rng, other = np.random.default_rng(3), m.domain.unmatched == "other"
    labels = [*m.domain.labels, *(["unknown"] if other else [])]
    weights = 0.5 ** np.minimum(np.arange(len(labels)), 5)
    rows = [rng.choice(len(labels), rng.integers(0, m.most + 1), p=weights / weights.sum()) for _ in range(n)]
    lists: list[Any] = [[labels[k] for k in row] for row in rows]
    codes = [sorted({*row.tolist()}) for row in rows]
    if other:
        lists[::50], codes[::50] = [None] * len(lists[::50]), [[len(labels) - 1]] * len(codes[::50])
    return pl.DataFrame({"x": lists, "code": codes, "k": np.arange(n) % 3, "id": np.arange(n)})


def true_counts(m: Mechanism, codes: Any) -> np.ndarray:
    """Of each value of the domain, of codes or lists of them; what is "none" is counted nowhere."""
    codes = np.asarray(codes)
    if codes.dtype == object:
        codes = np.concatenate([np.asarray(some, int) for some in codes])
    return np.bincount(codes, minlength=m.domain.size)[: m.domain.size]


def check_counts(counts: Any, errors: Any, true: Any) -> None:
    """Estimates are as near to the truth as their errors say: 6 to 7 of them, a false alarm in 10^8 runs."""
    sigmas = np.abs(np.asarray(counts) - true) / np.asarray(errors)
    assert len(sigmas) == len(true)
    assert sigmas.max() < stats.norm.isf(1e-9 / len(sigmas)), f"{sigmas.max():.1f} standard errors"


# ---- Polars


def histogram(reports: pl.DataFrame, m: Mechanism | None) -> pl.DataFrame:
    text = reports.schema["x"] == pl.Categorical  # of Beam's text Polars drops who made it
    return reports.select(pl.col("x").ldp.histogram(m, repeats=1, assume_reports=text)).explode("x").unnest("x")


def check_groups_merge(reports: pl.DataFrame, m: Mechanism) -> pl.DataFrame:
    """The tallies of the groups; merged, they are the tally of all."""
    grouped = reports.group_by("k", maintain_order=True).agg(pl.col("x").ldp.tally(m))
    merged = grouped.select(pl.col("x").ldp.merge(m)).item()
    assert merged == reports.select(pl.col("x").ldp.tally(m)).item()
    return grouped


# ---- Beam


def by_key(rows: Any) -> dict[str, list[Any]]:
    """Rows of a histogram by the text of their only key, in their order."""
    found = defaultdict(list)
    for row in rows:
        [key] = row.key.values()
        found[key].append(row)
    return dict(found)


class _Files(beam.PTransform[Any, Any]):
    """What is in these Parquet files, whose columns may be of different layouts."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__()
        self.paths = paths

    def expand(self, root: Any) -> Any:
        return [root | path >> beam.io.ReadFromParquetBatched(path) for path in self.paths] | beam.Flatten()


def check_beam_reads(paths: list[str], columns: Mapping[str, Mechanism]) -> None:
    """Beam's histograms of the reports in files are those of the core."""
    histograms = [ldp_beam.Histogram(name, m, repeats=1 if m.memoized else None) for name, m in columns.items()]
    tables = [pq.read_table(path) for path in paths]
    for (name, m), rows in zip(columns.items(), run(All(histograms), _Files(paths)), strict=True):
        expected = m.estimate(m.merge([m.tally(table[name]) for table in tables]))
        with case(name):
            assert [row.value for row in rows] == m.domain.arrow_values.to_pylist()
            np.testing.assert_allclose([row.count for row in rows], expected.counts, atol=1e-6)


def check_polars_reads(batches: list[pa.RecordBatch], m: Mechanism, n: int) -> pl.DataFrame:
    """Reports "x" that Beam made of n rows have one tally in Polars and in the core; the reports."""
    table = pa.Table.from_batches(batches)
    reports = pl.from_arrow(table)
    text = reports.schema["x"] == pl.Categorical
    with pytest.warns(LdpWarning, match="nothing proves") if text else nullcontext():
        tally = reports.select(pl.col("x").ldp.tally(m, assume_reports=text)).item()
    assert tally["counters"] == m.tally(table["x"]).counters.tolist()
    assert tally["n"] == n
    return reports


def check_combined(m: Mechanism, reports: Any, inputs: list[Any]) -> None:
    """The CombineFn makes one tally of parts of the reports, whatever they are, and a tally survives its bytes."""
    combine = ldp_beam.TallyCombineFn(m)
    tally = combine.extract_output(combine.add_inputs(combine.create_accumulator(), inputs))
    assert tally == m.tally(reports) == Tally.from_bytes(tally.to_bytes())


def check_dead_letter(transform: Any, reports: pa.Array) -> None:
    """Of the reports "x" one is none: it is counted, and the others are tallied."""
    good, bad = run(on_my_word(transform.with_exception_handling()), [pa.record_batch({"x": reports})])
    assert {row.n for row in good} == {len(reports) - 1}
    [letter] = bad
    assert (letter.column_name, letter.count) == ("x", 1)
    assert letter.reason
