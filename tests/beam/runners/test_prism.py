"""Bounded input on Prism, Beam's portable local runner in Go: what holds there.

For streams, and where Prism comes from, see `test_streams`.
"""

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows

import ldp_beam

from ...across import keyed
from ..helpers import SURE, Collector, name, on_my_word, run, table
from .engines import NO_PRISM, PRISM, PRISM_BINARY

pytestmark = [pytest.mark.prism, pytest.mark.skipif(PRISM_BINARY is None, reason=NO_PRISM)]

KINDS = [ldp_beam.Histogram, ldp_beam.PrivateHistogram]
WINDOWS = [FixedWindows(10), FixedWindows(10, offset=3), SlidingWindows(20, 10), SlidingWindows(15, 5, 2), Sessions(2)]


def events(low, high, n=2000, parts=4, decimals=6):
    rng = np.random.default_rng(0)
    return [
        pa.record_batch(
            {
                "v": rng.choice(["a", "b", "c"], n),
                "t": np.round(rng.uniform(low, high, n), decimals),
                "c": rng.choice(["fr", "it"], n),
            }
        )
        for _ in range(parts)
    ]


def histograms(rows):
    return {
        place: {value: (row.n, round(row.count, 6)) for value, row in values.items()}
        for place, values in table(rows).items()
    }


def pipeline():
    return beam.Pipeline(PRISM["runner"], options=PipelineOptions(list(PRISM["flags"])))


# ---- bounded input


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", [(), ("c",)], ids=["all", "by"])
@pytest.mark.parametrize("window", WINDOWS, ids=name)
def test_windows_of_batches_are_those_of_the_local_runner(window, by, kind):
    elements = events(100, 300)
    if isinstance(window, Sessions):  # whole milliseconds, and no two events exactly a gap apart: see below
        elements = [
            pa.record_batch({"v": ["a", "b"], "t": [t, t + 0.5], "c": ["fr", "it"]})
            for t in (100.0, 101.25, 110.5, 111)
        ]
    transform = on_my_word(kind("v", SURE, window=window, event_time="t", by=by))
    expected = histograms(run(transform, elements))
    assert len(expected) > 1
    assert histograms(run(transform, elements, **PRISM)) == expected


@pytest.mark.parametrize("elements", keyed.ELEMENTS)
def test_keyed_reports_are_those_of_polars_bit_for_bit(elements):
    with pipeline() as p:
        perturb = ldp_beam.Perturb(keyed.PLAN, key=keyed.SECRET, id="user")
        reports = p | beam.Create(keyed.ELEMENTS[elements](), reshuffle=False) | perturb
        collector = Collector()
        _ = reports | beam.FlatMap(keyed.rows_of) | "Collect" >> collector
    assert sorted(map(_tuples, collector.elements)) == sorted(keyed.polars_reports())


def _tuples(row):
    return tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row)
