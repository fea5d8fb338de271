"""However a runner splits and merges, the tally is the same; and tallies of other mechanisms are refused."""

import itertools
import pickle
import struct

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import ldp_beam
from ldp_beam.estimates.combine import AccumulatorCoder
from ldp_core import (
    Histogram,
    InputError,
    LdpError,
    MechanismMismatchError,
    ParameterError,
    Piecewise,
    RandomizedResponse,
    ReportError,
    Tally,
    UnaryEncoding,
    pool,
    ratio,
)

from ...cases import each
from ..helpers import run
from ..streams import LOCAL, stream

RR = RandomizedResponse(["a", "b", "c"], epsilon=1.0)
BITS = UnaryEncoding(["a", "b", "c"], epsilon=1.0)


def every_way_gives(fn, inputs, expected):
    """Every split of ``inputs`` into runs, merged in every order, through the coder or not, extracts ``expected``."""
    coder = fn.get_accumulator_coder()
    for cuts in itertools.product([False, True], repeat=len(inputs) - 1):
        runs, start = [], 0
        for i, cut in enumerate((*cuts, True), start=1):
            if cut:
                runs.append(inputs[start:i])
                start = i
        for order in itertools.permutations(range(len(runs))):
            one_by_one = []
            for r in order:
                accumulator = fn.create_accumulator()
                for element in runs[r]:
                    accumulator = fn.add_input(accumulator, element)
                one_by_one.append(accumulator)
            at_once = [coder.decode(coder.encode(fn.add_inputs(fn.create_accumulator(), runs[r]))) for r in order]
            for accumulators in (one_by_one, at_once):
                others = [coder.encode(a) for a in accumulators[1:]]
                merged = fn.merge_accumulators(iter(accumulators))
                assert [coder.encode(a) for a in accumulators[1:]] == others, "changed another than the first"
                assert fn.extract_output(fn.compact(merged)) == expected


def test_every_split_and_merge_gives_the_same_tally():
    reports = ["a", "c", "c", pa.array(["b", "c"]), Tally(10, np.array([1, 2, 7]), RR.fingerprint)]
    fn = ldp_beam.TallyCombineFn(RR)
    every_way_gives(fn, reports, Tally(15, np.array([2, 3, 10]), RR.fingerprint))


def test_every_form_of_a_report():
    bits = np.array([[1, 0, 1], [0, 0, 1]], bool)
    words = [[0b101], [0b100]]
    forms = [
        list(bits),
        bits.tolist(),
        bits.astype(int).tolist(),
        [tuple(row) for row in bits.tolist()],
        words,
        list(np.array(words, np.uint64)),
        [pa.FixedSizeListArray.from_arrays(pa.array(bits.reshape(-1)), 3)],
        [pa.chunked_array([BITS.reports.to_arrow(np.array([[5], [4]], np.uint8), packed=True)])],
    ]
    fn = ldp_beam.TallyCombineFn(BITS)
    for inputs in forms:
        total = fn.extract_output(fn.add_inputs(fn.create_accumulator(), inputs))
        assert total == Tally(2, np.array([1, 0, 2]), BITS.fingerprint), inputs


@each("report", [None, "z", 5, 1.5, True, [True, False, True], b"z", {"a": 1}, pa.array([1, 2]), pa.array(["a", None])])
def test_what_is_no_report_is_refused(report):
    fn = ldp_beam.HistogramCombineFn(RR)
    with pytest.raises(LdpError):
        fn.add_input(fn.create_accumulator(), report)


@each("report", [[True, False], [[True]], [2, 0, 1], [None, True, True], [16], ["x"], [1, 2]])
def test_what_is_no_bit_vector_is_refused(report):
    fn = ldp_beam.HistogramCombineFn(BITS)
    with pytest.raises(ReportError):
        fn.add_input(fn.create_accumulator(), report)


def test_another_mechanisms_tally_is_refused():
    other = RandomizedResponse(["a", "b", "c"], epsilon=2.0)
    fn = ldp_beam.HistogramCombineFn(RR)
    with pytest.raises(MechanismMismatchError):
        fn.add_input(fn.create_accumulator(), other.tally(["a"]))
    others = ldp_beam.HistogramCombineFn(other).create_accumulator()
    with pytest.raises(MechanismMismatchError):
        fn.merge_accumulators([fn.create_accumulator(), others])


@each(
    ("n", "counters"), [(1, [-3, 0, 0]), (3, [1, 1, 0]), (2, [3, 0, 0]), (2**62, [2**62, 0, 0]), (2**62, [2**62] * 3)]
)
def test_one_forged_tally_does_not_hide_behind_the_others(n, counters):
    """They were added unseen, also from an accumulator's bytes; four of 2^62 were 0 reports in 64 bits."""
    fn = ldp_beam.TallyCombineFn(RR)
    honest, forged = RR.tally(["a"] * 5 + ["b"] * 5), Tally(n, np.array(counters), RR.fingerprint)
    with pytest.raises(ReportError):
        fn.add_inputs(fn.create_accumulator(), [honest, forged, honest])
    decoded = [fn.get_accumulator_coder().decode(tally.to_bytes()) for tally in (honest, forged, honest)]
    for i in range(3):
        with pytest.raises(ReportError):
            fn.merge_accumulators(decoded[i:] + decoded[:i])


def test_sums_of_possible_tallies_stay_in_64_bits():
    fn, half = ldp_beam.TallyCombineFn(RR), RR.most_reports // 2
    tally = Tally(half, np.array([half, 0, 0]), RR.fingerprint)
    accumulator = fn.add_inputs(fn.create_accumulator(), [tally, tally])
    assert fn.extract_output(accumulator).counters.tolist() == [2 * half, 0, 0]
    with pytest.raises(ReportError, match="at most 3074457345618258602 reports"):
        fn.add_input(accumulator, tally)


def test_nothing_at_all():
    fn = ldp_beam.HistogramCombineFn(RR)
    empty = fn.extract_output(fn.merge_accumulators([]))
    assert isinstance(empty, Histogram)
    assert empty.n == 0
    assert empty.counts.tolist() == [0, 0, 0]


@each("options", [{"confidence": 0}, {"confidence": 1}, {"confidence": "x"}])
def test_bad_options(options):
    with pytest.raises(ParameterError):
        ldp_beam.HistogramCombineFn(RR, **options)
    with pytest.raises(ParameterError):
        ldp_beam.HistogramCombineFn("randomized_response")


def test_accumulator_bytes_made_by_hand():
    fn = ldp_beam.HistogramCombineFn(RR)
    accumulator = fn.add_inputs(fn.create_accumulator(), ["a"] * 300 + ["c"])
    golden = struct.pack("<BB16sqI", 1, 2, RR.fingerprint.encode(), 301, 3) + struct.pack("<HHH", 300, 0, 1)
    coder = fn.get_accumulator_coder()
    assert coder.encode(accumulator) == golden == coder.encode(coder.decode(golden))
    assert coder.is_deterministic()
    assert coder == AccumulatorCoder()
    assert pickle.loads(pickle.dumps(coder)) == coder
    with pytest.raises(ReportError, match="version 1"):
        coder.decode(b"\x02" + golden[1:])


def test_global_and_per_key():
    keyed = [("x", "a"), ("x", "a"), ("y", "c")]
    fn = ldp_beam.TallyCombineFn(RR)
    [total] = run(beam.Values() | beam.CombineGlobally(fn).without_defaults(), keyed)
    assert total == Tally(3, np.array([2, 0, 1]), RR.fingerprint)
    by_key = dict(run(beam.CombinePerKey(fn), keyed))
    assert by_key == {"x": RR.tally(["a", "a"]), "y": RR.tally(["c"])}


def test_ratios_of_pairs_and_of_batches():
    rng = np.random.default_rng(1)
    above, below = rng.normal(3, 1, 1000), rng.normal(1, 1, 1000)
    expected = ratio(above, below, confidence=0.9)
    pairs = list(zip(above[:500].tolist(), below[:500].tolist(), strict=True))
    inputs = [*pairs, (above[500:], below[500:])]
    combine = beam.CombinePerKey(ldp_beam.RatioCombineFn(confidence=0.9))
    [(key, made)] = run(combine, [("web", pair) for pair in inputs])
    assert (key, made.n) == ("web", 1000)
    np.testing.assert_allclose(made.to_polars().row(0), expected.to_polars().row(0), rtol=1e-9)
    rare = (below := RR.weights(RR.perturb(["a", "b"] * 500), "a")) * (np.arange(1000) == 7)  # the score's interval
    parts = [(rare[:500], below[:500]), (rare[500:], below[500:])]
    [(_, made)] = run(combine, [("web", part) for part in parts])
    expected = ratio(rare, below, confidence=0.9)
    np.testing.assert_allclose([made.low, made.high], [expected.low, expected.high], rtol=1e-9)
    age = Piecewise((0, 1), epsilon=6.0)
    above = below * np.full(1000, 0.9)  # of 20 the noise is not seen
    [made] = run(beam.CombineGlobally(ldp_beam.RatioCombineFn(of=age)).without_defaults(), [(above[:20], below[:20])])
    expected = ratio(above[:20], below[:20], of=age)
    np.testing.assert_allclose([made.low, made.high], [expected.low, expected.high], rtol=1e-9)
    for bad in ((1.0, float("nan")), (above, below[:3]), ([1, [2]], [1, 2])):
        fn = ldp_beam.RatioCombineFn()
        with pytest.raises(InputError, match="as many finite numbers"):
            fn.add_input(fn.create_accumulator(), bad)


# ---- several mechanisms


def test_every_split_and_merge_pools_the_same():
    few = RandomizedResponse(["c", "a"], epsilon=2.0)
    tally = few.simulate([6, 3], seed=1)
    inputs = [(0, "a"), (1, "a"), (0, pa.array(["b", "c"])), (1, tally)]
    fn = ldp_beam.PoolCombineFn([RR, few])
    expected = pool([(RR, RR.tally(["a", "b", "c"])), (few, few.tally(["a"]) + tally)])
    every_way_gives(fn, inputs, expected)
    assert expected.values.to_pylist() == ["a", "c"]


@pytest.mark.filterwarnings("ignore:implausible:UserWarning")
@pytest.mark.filterwarnings("ignore:the groups are not of one population:UserWarning")
def test_people_who_report_again_have_wider_intervals():
    inputs = [(0, "a"), (1, [1, 0, 0]), (0, "b")] * 50
    once, again = (
        run(beam.CombineGlobally(ldp_beam.PoolCombineFn([RR, BITS], repeats=k)).without_defaults(), inputs)[0]
        for k in (1, 4)
    )
    assert again.standard_errors.tolist() == pytest.approx((2 * once.standard_errors).tolist())
    with pytest.raises(ParameterError, match="repeats"):
        ldp_beam.PoolCombineFn([RR, BITS], repeats=0)


def test_a_key_that_one_mechanism_alone_has_is_estimated():
    fn = ldp_beam.PoolCombineFn([RR, BITS], confidence=0.9)
    found = dict(run(beam.CombinePerKey(fn), [("x", (0, "a")), ("x", (1, [1, 0, 0])), ("y", (0, "b"))]))
    assert {key: (one.groups, one.n, one.confidence) for key, one in found.items()} == {
        "x": (2, 2, 0.9),
        "y": (1, 1, 0.9),
    }
    assert found["y"].p_values.tolist() == [1, 1, 1]


def test_what_pooling_refuses():
    for mechanisms, error in (
        ([RR], ParameterError),
        (RR, ParameterError),
        ([RR, 5], ParameterError),
        ([RR, RandomizedResponse([1, 2], epsilon=1.0)], MechanismMismatchError),
        ([RR, RandomizedResponse(["x", "y"], epsilon=1.0)], ParameterError),
    ):
        with pytest.raises(error):
            ldp_beam.PoolCombineFn(mechanisms)
    fn = ldp_beam.PoolCombineFn([RR, BITS])
    for element in ("a", (2, "a"), (True, "a"), ("0", "a"), (0, "a", 1)):
        with pytest.raises(InputError, match="pairs of a mechanism's place, 0 to 1"):
            fn.add_input(fn.create_accumulator(), element)


def test_a_pane_without_anything_new_of_several_mechanisms():
    """In discarding mode the pane at the window's end may be one: merging nothing ended the job, `StopIteration`."""
    panes = AfterWatermark(early=AfterCount(1))
    windows = beam.WindowInto(FixedWindows(10), trigger=panes, accumulation_mode=AccumulationMode.DISCARDING)
    pooling = windows | beam.CombinePerKey(ldp_beam.PoolCombineFn([RR, BITS]))
    reports = beam.Map(lambda record: TimestampedValue(("x", (0, "a")), record["t"]))
    found = [one for _, one in run(reports | pooling, stream([0, [1], [2], 12], "records"), **LOCAL)]
    assert sorted((one.n, one.groups) for one in found) == [(0, 0), (1, 1), (1, 1)]
    [empty] = (one for one in found if not one.n)
    assert np.isnan([empty.estimates, empty.standard_errors]).all()
    assert np.isinf([empty.low, empty.high]).all()
