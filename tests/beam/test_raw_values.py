"""A raw value is in no error (its whole chain), log line, metric, dead letter or pickle."""

import logging

import pyarrow as pa
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

import ldp_beam
from ldp_beam.perturb import _PerturbDoFn
from ldp_core import LdpError, PrivacyPlan, RandomizedResponse, UnaryEncoding

from .helpers import SURE, SURE_BITS, drive, run, run_with_result
from .raw_values import NUMBER, SECRET, assert_clean, everything_about

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


ELEMENTS = [*HIDDEN_VALUES, *batches()]


@pytest.fixture
def logged(caplog):
    """All that was logged, Beam's own record of an exception included, without Beam's dumps of whole pipelines."""
    caplog.set_level(logging.INFO)
    return lambda: "\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records)


def step(kind):
    """The DoFn that has the raw values."""
    transform = TRANSFORMS[kind]
    return _PerturbDoFn(PLAN, True, None, None) if kind == "Perturb" else transform._partial_tallies()


def test_errors():
    for kind in TRANSFORMS:
        for element in ELEMENTS:
            try:
                out, _ = drive(step(kind), [element])
            except LdpError as error:
                assert_clean(everything_about(error))
            else:
                assert_clean("" if kind == "Perturb" else str(out))  # `Perturb` passes kept columns on


def test_errors_and_logs_of_a_pipeline(logged):
    for kind in ("Perturb", "PrivateHistogram of text", "Histogram of text"):
        for element in (ELEMENTS[0], ELEMENTS[len(HIDDEN_VALUES)]):
            with pytest.raises(LdpError) as caught:
                run(TRANSFORMS[kind], [element])
            assert_clean(everything_about(caught.value))
            assert_clean(logged())


def test_dead_letters_metrics_and_logs(logged):
    for transform in TRANSFORMS.values():
        (_, dead), result = run_with_result(transform.with_exception_handling(), ELEMENTS)
        assert dead.elements
        assert_clean(str(dead.stamped))
        assert_clean(str(result.metrics().query()))
        assert_clean(logged())


def test_pickles_carry_configuration_only():
    for kind in TRANSFORMS:
        fn = step(kind)
        before = cloudpickle.dumps(fn)
        fn.start_bundle()
        list(fn.process({**GOOD, "v": SECRET}, Timestamp(0), GlobalWindow()))  # now it waits
        after = cloudpickle.dumps(fn)
        assert SECRET.encode() not in after
        assert len(after) == len(before)


def test_the_combiner():
    for element in (SECRET, [SECRET], NUMBER, [NUMBER] * 3, {SECRET: 1, "b": 2, "c": 3}, SECRET[:3]):
        for mechanism in (SURE, SURE_BITS):
            fn = ldp_beam.HistogramCombineFn(mechanism)
            with pytest.raises(LdpError) as caught:
                fn.add_input(fn.create_accumulator(), element)
            assert_clean(everything_about(caught.value))
