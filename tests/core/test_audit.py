"""Regression tests of an audit: each failed once, and says what was wrong."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    CountMeanSketch,
    DBitFlip,
    DomainError,
    FakeDataColumn,
    HadamardCountMeanSketch,
    HadamardResponse,
    InputError,
    Interval,
    Keyed,
    Keystream,
    LdpError,
    LongitudinalUnaryEncoding,
    OneBitMean,
    OpenDomain,
    ParameterError,
    Piecewise,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    ReportError,
    SampledColumn,
    Secret,
    StochasticRounding,
    SummationHistogramEncoding,
    Tally,
    UnaryEncoding,
)
from ldp_core.mechanism import Mechanism
from ldp_core.plans.provenance import described

LABELS = ["a", "b", "c"]


def keyed(n: int, seed: int = 1) -> Keyed:
    return Keyed(Secret.from_seed(seed), np.arange(n), column="x")


# ---- what is perturbed


def test_text_under_a_null_is_not_perturbed():
    """A masked column keeps its texts under the nulls, and `Prefixes` read them."""
    whole = pa.array(["ab", "ba"])
    masked = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x01"), *whole.buffers()[1:]])
    assert masked.to_pylist() == ["ab", None]
    cut = Prefixes("ab", 2, unmatched="cut")
    for array in (masked, pa.DictionaryArray.from_arrays(pa.array([0, 1]), masked)):
        assert cut.decode(cut.encode(array)) == ("ab", "")
        with pytest.raises(DomainError, match="1 of 2"):
            Prefixes("ab", 2).encode(array)


@pytest.mark.parametrize("index", [-1, 2])
def test_indices_out_of_a_dictionary_do_not_wrap(index):
    """-1 was the last entry, and 2 an IndexError."""
    broken = pa.DictionaryArray.from_arrays(pa.array([0, index], pa.int8()), pa.array(["a", "b"]), safe=False)
    with pytest.raises(DomainError, match="1 of 2 values are out of"):
        OpenDomain("str").encode(broken)
    with pytest.raises(InputError, match="1 of 2 ids are out of"):
        Keyed(Secret.generate(), broken, column="x")


@pytest.mark.parametrize(
    "mechanism",
    [
        Rappor(bits=16, hashes=2, cohorts=4, f=0.5, p=0.3, q=0.6),
        LongitudinalUnaryEncoding(LABELS, epsilon_infinity=2.0, epsilon_1=1.0),
    ],
)
def test_a_keystream_is_no_memory(mechanism):
    """A memoised mechanism took fresh noise if it was handed over as such, and drew each permanent answer anew."""
    with pytest.raises(ParameterError, match="remembers"):
        mechanism.perturb(["a"], randomness=Keystream())


def test_integers_of_other_clients_do_not_wrap():
    """-1 became a filter of 64 ones, 1.7 became 1."""
    m = Rappor(bits=64, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75)
    for cohorts, filters in [
        ([0], np.array([-1])),
        (np.array([0.5]), [1]),
        ([0], [1.7]),
        ([0], [2**64]),
        ([True], [1]),
    ]:
        with pytest.raises(ReportError, match="unsigned integers"):
            m.from_integers(cohorts, filters)
    assert m.from_integers([0, 7], [1, 2**64 - 1]).tolist() == [[0, 1], [7, 2**64 - 1]]
    assert m.from_integers([], []).shape == (0, 2)


@pytest.mark.parametrize("prior", [None, (1.0, 1.0, 1.0)])
@pytest.mark.parametrize("d", [3, 300])
def test_fakes_do_not_widen_reports(d, prior):
    """A wider type of fakes made another Arrow type than `report_type` says: dictionaries of other indices."""
    m = FakeDataColumn(
        RandomizedResponse([f"v{i}" for i in range(d)], epsilon=1.0), columns=2, prior=prior and [1.0] * d
    )
    plan = PrivacyPlan({"x": m, "y": m})
    reports = plan.perturb_columns({name: pa.array(["v0", "v2"]) for name in plan}, None, packed=True)
    assert reports["x"].type == m.report_type()


# ---- estimates


def test_fakes_are_of_reports_that_support_a_value_or_do_not():
    """SHE's sums have neither the variance of a count (of 1000 records 750 was said, 33000 is true) nor its range."""
    with pytest.raises(ParameterError, match="summation_histogram_encoding"):
        FakeDataColumn(SummationHistogramEncoding(LABELS, epsilon=1.0), columns=2)


def test_a_sampled_sketch_has_the_errors_of_its_collisions():
    """They were left out: with 8 functions, and one value that nearly all hold, errors were far too small."""
    values, z = pa.array([0] * 5000), []
    for salt in range(40):
        m = SampledColumn(CountMeanSketch("int", epsilon=3.0, hashes=8, width=16, salt=salt).over([1, 2]), columns=2)
        plan = PrivacyPlan({"x": m, "y": m})
        batch = pa.record_batch({"x": values, "y": values})
        reports = plan.perturb(batch, key=Secret.from_seed(salt), ids=np.arange(5000))
        histogram = m.estimate(m.tally(reports.column("x")))
        z += (histogram.counts / histogram.standard_errors).tolist()
    assert 0.5 < np.std(z) < 2  # (it was 6.1)


def test_sampled_columns_know_the_parts_of_their_reports():
    """Estimates of SHE were refused as impossible, and ``mle`` was not."""
    m = SampledColumn(SummationHistogramEncoding(LABELS, epsilon=1.0), columns=2)
    tally = Tally(20, np.array([10, 12, -9, 3]), m.fingerprint)
    assert m.estimate(tally, consistency="norm-sub").counts.sum() == pytest.approx(20)
    with pytest.raises(ParameterError, match="mle is for"):
        m.estimate(tally, consistency="mle")


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    "mechanism",
    [
        DBitFlip(range(10), epsilon_infinity=1.0, bits=3),
        Rappor("int", bits=16, hashes=2, cohorts=4, f=0.5, p=0.4, q=0.6).over([0, 1, 2, 3]),
    ],
)
def test_few_reports_can_be_made_consistent(mechanism, n):
    """The estimates of few reports were refused: "cannot come from n reports of this mechanism"."""
    for seed in range(20):
        tally = mechanism.tally(mechanism.perturb(np.zeros(n, int), randomness=keyed(n, seed)))
        assert (mechanism.estimate(tally, consistency="base-pos").counts >= 0).all()


def test_a_probability_of_one_is_no_division_by_zero():
    """Where p rounds to 1 the variance of a count of n does to 0, and all values got n / d."""
    m = HadamardResponse(range(3), epsilon=50.0)
    tally = Tally(1000, np.array([1000, 484, 484]), m.fingerprint)
    assert m.estimate(tally, consistency="mle-apx").counts.tolist() == pytest.approx([1000, 0, 0])


def test_variances_end_where_floats_do():
    assert OneBitMean((0, 1e200), epsilon=1.0).variance(10) == math.inf  # was an OverflowError


@pytest.mark.parametrize(
    ("mechanism", "counters"),
    [
        (Piecewise((0, 1), epsilon=1.0), [0, 1, 2, 3]),
        (HadamardCountMeanSketch(epsilon=1.0, hashes=4, width=4), [0, 1, 2, 3]),
        (Rappor(bits=2, hashes=1, cohorts=4, f=0.5, p=0.4, q=0.6), [0, 3, 6, 9]),
        (DBitFlip(range(4), epsilon_infinity=1.0, bits=2), [0, 1, 2, 3]),
    ],
)
def test_counters_that_add_up_beyond_64_bits_are_impossible(mechanism, counters):
    """Four times 2**62 is 0 in 64 bits."""
    support = np.zeros(mechanism.counters, np.int64)
    support[counters] = 1 << 62
    with pytest.raises(ReportError, match="cannot be those of 0 reports"):
        mechanism.check_tally(Tally(0, support, mechanism.fingerprint))


# ---- what others wrote


@pytest.mark.parametrize("ends", [(2**53, 2**53 + 1), (0, 10**400), (-(10**400), 0)])
def test_ends_of_intervals_are_floats(ends):
    """ZeroDivisionError for ends that are one float, OverflowError for those that are none."""
    with pytest.raises(DomainError, match="interval"):
        Interval(*ends)


HOSTILE = [None, 0, 10**400, "x", [], ["a"], [{}], {"low": 0}, {"kind": "str", "x": 1}, {"low": 0, "high": 1, "x": 2}]


@pytest.mark.parametrize(
    ("mechanism", "key"),
    [
        (UnaryEncoding(LABELS, epsilon=1.0), "domain"),
        (OneBitMean((0, 1), epsilon=1.0), "domain"),
        (CountMeanSketch(epsilon=1.0, hashes=4, width=4).over(LABELS), "sketch"),
        (StochasticRounding((0, 1), epsilon=1.0), "oracle"),
        (FakeDataColumn(RandomizedResponse(LABELS, epsilon=1.0), columns=2, prior=[1, 2, 3]), "prior"),
    ],
)
def test_hostile_parameters_raise_our_errors(mechanism, key):
    """TypeError, ValueError, KeyError, OverflowError came out."""
    for value in HOSTILE:
        table = mechanism.to_dict() | {key: value}
        if (mechanism.name, value) != ("fake_data_column", None):  # None is no prior
            with pytest.raises(LdpError):
                Mechanism.from_dict(table)
    without = mechanism.to_dict()
    del without["sketch" if key == "sketch" else "domain"]
    with pytest.raises(LdpError):
        Mechanism.from_dict(without)


@pytest.mark.parametrize("data", [None, "none", ["a"], 1])
def test_a_mechanism_is_a_table(data):
    with pytest.raises(ParameterError, match="a mechanism is a table"):
        Mechanism.from_dict(data)


@pytest.mark.parametrize("metadata", ["x", "[]", "1", "null"])
def test_metadata_of_typed_reports_are_a_table(metadata):
    with pytest.raises(ReportError, match=r"ldp\.report"):
        described(metadata)


@pytest.mark.parametrize(
    "changed",
    [
        {"counters": ["a"]},
        {"counters": [2**70]},
        {"counters": [2**63]},
        {"counters": [1.7]},
        {"counters": [[1], [1, 2]]},
        {"counters": None},
        {"fingerprint": 5},
        {"n": None},
        {"n": 2**63},
    ],
)
def test_hostile_tallies_raise_our_errors(changed):
    """Other errors came out, 1.7 was 1, and 2**63 from numpy's unsigned integers became negative."""
    good = {"n": 3, "counters": [1, 2], "fingerprint": "a" * 16}
    assert Tally.from_dict(good).to_dict() == good
    with pytest.raises(ReportError):
        Tally.from_dict(good | changed)
    for key in changed:
        with pytest.raises(ReportError):
            Tally.from_dict({k: v for k, v in good.items() if k != key})


def test_a_tally_that_no_machine_holds_is_refused():
    with pytest.raises(ParameterError, match="at most 16777216"):
        Rappor(bits=1 << 16, hashes=2, cohorts=1 << 16, f=0.5, p=0.5, q=0.75)


def test_candidates_have_no_other_parameters():
    data = CountMeanSketch(epsilon=1.0).over(["a", "b"]).to_dict()
    assert Mechanism.from_dict(data).fingerprint == CountMeanSketch(epsilon=1.0).fingerprint
    with pytest.raises(ParameterError, match="epsilon"):
        Mechanism.from_dict({**data, "epsilon": 2.0})
