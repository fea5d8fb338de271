"""A raw value is in no error (its whole chain), log line, metric, dead letter or pickle."""

import logging
import traceback

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

import ldp_beam
from ldp_beam.perturb import _PerturbDoFn
from ldp_core import LdpError, PrivacyPlan, RandomizedResponse, UnaryEncoding

from .helpers import SURE, SURE_BITS, Collector

SECRET = "xyzzy-7041776"
NUMBER = 704177604177
TRACES = (SECRET, str(NUMBER), f"{NUMBER:,}", "7041776")

PLAN = PrivacyPlan({"v": SURE, "i": RandomizedResponse([1, 2], epsilon=1.0)}, keep=["t"])
BITS = UnaryEncoding(["a", "b", "c"], epsilon=1.0)
GOOD = {"v": "a", "i": 1, "t": 5}
HIDDEN_VALUES = [
    {**GOOD, "v": SECRET},
    {**GOOD, "v": NUMBER},
    {**GOOD, "v": {SECRET: SECRET}},
    {**GOOD, "i": NUMBER},
    {**GOOD, "i": float(NUMBER)},
    {**GOOD, "i": SECRET},
    {**GOOD, "i": NUMBER * 10**30},
    {**GOOD, "t": SECRET},
    {**GOOD, "t": NUMBER * 10**30},
]


def batches():
    yield pa.table({**{k: [x] for k, x in GOOD.items()}, "v": [SECRET]})
    yield pa.table({**{k: [x] for k, x in GOOD.items()}, "v": [NUMBER]})
    yield pa.table({**{k: [x] for k, x in GOOD.items()}, "v": pa.array([SECRET]).dictionary_encode()})
    yield pa.table({**{k: [x] for k, x in GOOD.items()}, "v": pa.array([SECRET], pa.string_view())})
    yield pa.table({**{k: [x] for k, x in GOOD.items()}, "i": [NUMBER]})
    yield pa.table({**{k: [x] for k, x in GOOD.items()}, "i": pa.array([NUMBER], pa.uint64())})
    yield pa.table({**{k: [x] for k, x in GOOD.items()}, "t": [SECRET]})


TRANSFORMS = {
    "Perturb": ldp_beam.Perturb(PLAN),
    "PrivateHistogram of text": ldp_beam.PrivateHistogram("v", SURE, window=10, event_time="t"),
    "PrivateHistogram of integers": ldp_beam.PrivateHistogram("i", PLAN["i"], window=10, event_time="t"),
    "Histogram of text": ldp_beam.Histogram("v", SURE, window=10, event_time="t"),
    "Histogram of integers": ldp_beam.Histogram("i", PLAN["i"], window=10, event_time="t"),
    "Histogram of bits": ldp_beam.Histogram("v", BITS, window=10, event_time="t"),
}


def everything_about(error):
    """Messages, reprs and arguments of an exception, its causes and contexts, and the local variables' names only."""
    seen = []
    while error is not None:
        seen += [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
        seen += getattr(error, "__notes__", [])
        error = error.__cause__ or error.__context__
    return "\n".join(seen)


def assert_clean(text):
    assert not any(trace in text for trace in TRACES)


ELEMENTS = [*HIDDEN_VALUES, *batches()]


@pytest.fixture
def logged(caplog):
    """All that was logged, Beam's own record of an exception included, without Beam's dumps of whole pipelines."""
    caplog.set_level(logging.INFO)
    return lambda: "\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records)


@pytest.mark.parametrize("element", ELEMENTS, ids=range(len(ELEMENTS)))
@pytest.mark.parametrize("kind", list(TRANSFORMS))
def test_errors_and_logs(element, kind, logged):
    sink = Collector()
    p = beam.Pipeline("FnApiRunner")
    _ = p | beam.Create([element], reshuffle=False) | TRANSFORMS[kind] | sink.sink()
    stopped = None
    try:
        p.run().wait_until_finish()
    except LdpError as error:
        stopped = error
    assert_clean(everything_about(stopped))
    assert_clean(logged())
    if kind != "Perturb":  # which passes kept columns on
        assert_clean(str(sink.elements))


@pytest.mark.parametrize("kind", list(TRANSFORMS))
def test_dead_letters_metrics_and_logs(kind, logged):
    sink, dead = Collector(), Collector()
    p = beam.Pipeline("FnApiRunner")
    good, bad = p | beam.Create(ELEMENTS, reshuffle=False) | TRANSFORMS[kind].with_exception_handling()
    _ = good | "Good" >> sink.sink()
    _ = bad | "Dead" >> dead.sink()
    result = p.run()
    result.wait_until_finish()
    assert dead.elements
    assert_clean(str(dead.stamped))
    assert_clean(str(result.metrics().query()))
    assert_clean(logged())


@pytest.mark.parametrize("kind", list(TRANSFORMS))
def test_pickles_carry_configuration_only(kind):
    fn = TRANSFORMS[kind]
    fn = fn._partial_tallies() if kind != "Perturb" else _PerturbDoFn(PLAN, True, None, None)
    before = cloudpickle.dumps(fn)
    fn.start_bundle()
    list(fn.process({**GOOD, "v": SECRET}, Timestamp(0), GlobalWindow()))  # now it is in the lot
    after = cloudpickle.dumps(fn)
    assert SECRET.encode() not in after
    assert len(after) == len(before)


@pytest.mark.parametrize("mechanism", [SURE, SURE_BITS])
@pytest.mark.parametrize("element", [SECRET, [SECRET], NUMBER, [NUMBER] * 3, {SECRET: 1, "b": 2, "c": 3}, SECRET[:3]])
def test_the_combiner(mechanism, element):
    fn = ldp_beam.HistogramCombineFn(mechanism)
    with pytest.raises(LdpError) as caught:
        fn.add_input(fn.create_accumulator(), element)
    assert_clean(everything_about(caught.value))
