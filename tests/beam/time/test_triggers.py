"""A trigger that counts is told partial tallies: who means records is refused, and told what to do."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.trigger import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    OrFinally,
    Repeatedly,
    TriggerFn,
)

import ldp_beam
from ldp_beam import AfterTallies
from ldp_core import ParameterError

from ..helpers import SURE_BOOL

LATER = AfterProcessingTime(60)
AROUND = [
    Repeatedly,
    lambda count: AfterWatermark(early=count),
    lambda count: AfterWatermark(late=count),
    lambda count: Repeatedly(AfterAny(LATER, count)),
    lambda count: Repeatedly(AfterAll(count, LATER)),
    lambda count: Repeatedly(AfterEach(LATER, count)),
    lambda count: OrFinally(Repeatedly(LATER), count),
]


def test_counting_records_is_refused_with_the_reason():
    for kind in (ldp_beam.Histogram, ldp_beam.PrivateHistogram):
        for around in AROUND:
            with pytest.raises(
                ParameterError, match=r"AfterCount\(1000\) would not count records.*AfterTallies\(1000\)"
            ):
                kind("v", SURE_BOOL, window=10, trigger=around(AfterCount(1000)))
            for count in (AfterCount(1), AfterTallies(1000)):
                kind("v", SURE_BOOL, window=10, trigger=around(count))


def test_runners_know_it_as_a_count():
    trigger = Repeatedly(AfterTallies(3))
    known = TriggerFn.from_runner_api(trigger.to_runner_api(PipelineContext()), PipelineContext())
    assert known == Repeatedly(AfterCount(3))
    assert beam.WindowInto(beam.window.FixedWindows(1), trigger=trigger, accumulation_mode=1)


def test_a_count_is_a_number():
    for count in (0, True, 1.5, "2"):
        with pytest.raises(ParameterError, match="count must be"):
            AfterTallies(count)
