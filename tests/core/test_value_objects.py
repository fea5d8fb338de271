"""Mechanisms, tallies and histograms as values: frozen, hashable, picklable, JSON-able, identified by a fingerprint."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldp_core
from ldp_core import (
    Domain,
    Histogram,
    LdpError,
    Mechanism,
    MechanismMismatchError,
    ParameterError,
    RandomizedResponse,
    ReportError,
    Tally,
    UnaryEncoding,
)
from ldp_core.mechanisms.oracles.hadamard_response import HadamardResponse
from ldp_core.mechanisms.oracles.local_hashing import LocalHashing
from ldp_core.mechanisms.oracles.subset_selection import SubsetSelection
from ldp_core.mechanisms.oracles.threshold_histogram_encoding import ThresholdHistogramEncoding

MAKE = """
from ldp_core import Domain, RandomizedResponse, UnaryEncoding
from ldp_core.mechanisms.oracles.hadamard_response import HadamardResponse
from ldp_core.mechanisms.oracles.threshold_histogram_encoding import ThresholdHistogramEncoding
from ldp_core.mechanisms.oracles.local_hashing import LocalHashing
from ldp_core.mechanisms.oracles.subset_selection import SubsetSelection
AB = ["a", "b", "c"]
MECHANISMS = [
    RandomizedResponse(epsilon=1),
    RandomizedResponse(epsilon=1.0000000000000002),
    RandomizedResponse([True, False], epsilon=1),
    RandomizedResponse([0, 1], epsilon=1),
    RandomizedResponse(["0", "1"], epsilon=1),
    RandomizedResponse(AB, epsilon=1),
    RandomizedResponse(["b", "a", "c"], epsilon=1),
    RandomizedResponse(["a", "b"], epsilon=1),
    RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1),
    RandomizedResponse(["a", "b", "other"], epsilon=1),
    RandomizedResponse.from_coins(),
    RandomizedResponse.from_coins(truth=0.25),
    RandomizedResponse.from_coins(yes=0.25),
    RandomizedResponse.from_coins([0, 1]),
    UnaryEncoding(AB, epsilon=1),
    UnaryEncoding(AB, epsilon=2),
    UnaryEncoding(AB, epsilon=1, variant="symmetric"),
    UnaryEncoding(["c", "b", "a"], epsilon=1),
    UnaryEncoding(Domain(AB, unmatched="other"), epsilon=1),
    UnaryEncoding(Domain(AB, unmatched="none"), epsilon=1),
    UnaryEncoding([1, 2, 3], epsilon=1),
    UnaryEncoding(["1", "2", "3"], epsilon=1),
    UnaryEncoding.from_probabilities(AB, p=0.75, q=0.25),
    UnaryEncoding.from_probabilities(AB, p=0.75, q=0.26),
    UnaryEncoding(["\\u00e9", "e\\u0301", 'q"\\n'], epsilon=1),
    SubsetSelection(AB, epsilon=1),
    SubsetSelection(AB, epsilon=1, k=2),
    SubsetSelection(Domain(AB, unmatched="other"), epsilon=1),
    LocalHashing(AB, epsilon=1),
    LocalHashing(AB, epsilon=1, variant="binary"),
    LocalHashing(AB, epsilon=1, variant="fast"),
    LocalHashing(Domain(AB, unmatched="none"), epsilon=1, variant="fast"),
    HadamardResponse(AB, epsilon=1),
    HadamardResponse(Domain(AB, unmatched="none"), epsilon=1),
    ThresholdHistogramEncoding(AB, epsilon=1),
    ThresholdHistogramEncoding(AB, epsilon=1, theta=0.75),
]
"""
_made: dict = {}
exec(MAKE, _made)
MECHANISMS: list[Mechanism] = _made["MECHANISMS"]


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: m.fingerprint)
def test_round_trips(m):
    m.perturb(pa.array([m.domain.labels[0]] * 10))  # fills whatever is cached
    for again in (
        pickle.loads(pickle.dumps(m)),
        copy.copy(m),
        copy.deepcopy(m),
        Mechanism.from_dict(m.to_dict()),
        Mechanism.from_dict(json.loads(json.dumps(m.to_dict()))),
    ):
        assert again == m
        assert type(again) is type(m)
        assert hash(again) == hash(m)
        assert again.fingerprint == m.fingerprint
        assert again.epsilon == m.epsilon
        assert again.expected_parts() == m.expected_parts()
        assert again.domain.values == m.domain.values
        assert repr(again) == repr(m)


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: m.fingerprint)
def test_frozen(m):
    for name in ("epsilon", "domain", "anything"):
        with pytest.raises(AttributeError):
            setattr(m, name, 1)
    with pytest.raises(AttributeError):
        del m.epsilon


def test_all_differ():
    assert len(set(MECHANISMS)) == len(MECHANISMS)
    assert len({m.fingerprint for m in MECHANISMS}) == len(MECHANISMS)
    assert all(len(m.fingerprint) == 16 and int(m.fingerprint, 16) >= 0 for m in MECHANISMS)


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_fingerprints_are_the_same_in_another_process(hash_seed):
    script = MAKE + "print(*[m.fingerprint for m in MECHANISMS])"
    out = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
    )
    assert out.stdout.split() == [m.fingerprint for m in MECHANISMS]


def test_fingerprints_of_this_release():
    """Stored reports and tallies name these: a change needs a migration."""
    assert RandomizedResponse(epsilon=1).fingerprint == "951ad3d2ae57bb27"
    assert UnaryEncoding(["a", "b"], epsilon=1).fingerprint == "d035ffd42a044067"
    assert SubsetSelection(["a", "b"], epsilon=1).fingerprint == "072f7c268b192934"
    assert LocalHashing(["a", "b"], epsilon=1).fingerprint == "5d0dcb94725a00f7"
    assert HadamardResponse(["a", "b"], epsilon=1).fingerprint == "fb6e599ce2994e47"
    assert ThresholdHistogramEncoding(["a", "b"], epsilon=1).fingerprint == "c5e520731cbe1391"


def test_mixing_mechanisms_is_an_error():
    for m in MECHANISMS:
        for other in MECHANISMS:
            if m is other:
                continue
            with pytest.raises(MechanismMismatchError):
                m.empty_tally() + other.empty_tally()
            with pytest.raises(MechanismMismatchError):
                m.estimate(other.empty_tally())
            with pytest.raises(MechanismMismatchError):
                Tally.merge([m.empty_tally(), m.empty_tally(), other.empty_tally()])


def test_a_pickle_holds_no_randomness():
    for m in MECHANISMS:
        before = pickle.dumps(m)
        values = pa.array([m.domain.labels[0]] * 100)
        a = m.perturb(values, packed=True)
        assert pickle.dumps(m) == before
        twin = pickle.loads(before)
        if isinstance(m, UnaryEncoding):
            assert twin.perturb(values).to_pylist() != m.perturb(values).to_pylist()  # 300 or more bits
        assert len(a) == 100


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"mechanism": None},
        {"mechanism": "olh", "domain": [1, 2], "epsilon": 1},
        {"mechanism": ["unary_encoding"], "domain": [1, 2], "epsilon": 1},
        {"mechanism": "unary_encoding", "epsilon": 1},
        {"mechanism": "unary_encoding", "domain": [1, 2]},
        {"mechanism": "unary_encoding", "domain": [1, 2], "epsilon": 0},
        {"mechanism": "unary_encoding", "domain": [1, 2], "epsilon": 1, "variant": "fast"},
        {"mechanism": "unary_encoding", "domain": [1, 2], "epsilon": 1, "seed": 1},
        {"mechanism": "unary_encoding", "domain": [1, 2], "p": 0.5},
        {"mechanism": "unary_encoding", "domain": [1, 2], "p": 0.5, "q": 0.25, "epsilon": 1},
        {"mechanism": "unary_encoding", "domain": [1], "epsilon": 1},
        {"mechanism": "unary_encoding", "domain": [1, 2], "unmatched": "drop", "epsilon": 1},
        {"mechanism": "randomized_response", "domain": [1, 2, 3], "truth": 0.5, "yes": 0.5},
        {"mechanism": "randomized_response", "domain": [1, 2], "truth": 0.5, "yes": 0.5, "epsilon": 1},
        {"mechanism": "randomized_response", "domain": [1, 2], "truth": 0.5, "no": 0.5},
        {"mechanism": "randomized_response", "domain": [1, 2], "unmatched": "none", "epsilon": 1},
        {"mechanism": "subset_selection", "domain": [1, 2], "epsilon": 1, "k": 2},
        {"mechanism": "subset_selection", "domain": [1, 2], "unmatched": "none", "epsilon": 1},
        {"mechanism": "subset_selection", "domain": [1, 2]},
        {"mechanism": "local_hashing", "domain": [1, 2], "epsilon": 1, "variant": "best"},
        {"mechanism": "local_hashing", "domain": [1, 2], "epsilon": 1, "g": 3},
        {"mechanism": "hadamard_response", "domain": [1, 2], "epsilon": -1},
        {"mechanism": "threshold_histogram_encoding", "domain": [1, 2], "epsilon": 1, "theta": 2},
    ],
    ids=str,
)
def test_dicts_that_are_no_mechanism(data):
    with pytest.raises(LdpError):
        Mechanism.from_dict(data)


# ---- tallies


counts = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**62)), min_size=1, max_size=20)
fingerprints = st.text("0123456789abcdef", min_size=16, max_size=16)


@given(counts, st.integers(0, 2**61), fingerprints)
def test_tally_round_trips(support, more, fingerprint):
    n = max(support) + more
    tally = Tally(n, np.array(support), fingerprint)
    for again in (
        Tally.from_bytes(tally.to_bytes()),
        Tally.from_dict(json.loads(json.dumps(tally.to_dict()))),
        pickle.loads(pickle.dumps(tally)),
        copy.deepcopy(tally),
    ):
        assert again == tally
        assert hash(again) == hash(tally)
        assert again.counters.dtype == np.int64
        assert not again.counters.flags.writeable
    assert tally != Tally(n + 1, np.array(support), fingerprint)


@pytest.mark.parametrize("top", [0, 255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**63 - 1])
def test_tally_bytes_at_the_edges_of_widths(top):
    tally = Tally(max(top, 1), np.array([top, 0, 1]), "0" * 16)
    assert Tally.from_bytes(tally.to_bytes()) == tally


def test_tallies_add_in_any_order_and_grouping():
    m = UnaryEncoding(range(10), epsilon=1)
    reports = m.perturb(pa.array(np.arange(1000) % 10))
    whole = m.tally(reports)
    rng = np.random.default_rng(0)
    for _ in range(20):
        cuts = np.sort(rng.integers(0, 1001, 5))
        parts = [m.tally(reports[a:b]) for a, b in zip([0, *cuts], [*cuts, 1000], strict=True)]
        rng.shuffle(parts)
        assert Tally.merge(parts) == whole
        assert parts[0] + (parts[1] + parts[2]) + Tally.merge(parts[3:]) == whole
    assert m.empty_tally() + whole == whole
    with pytest.raises(TypeError):
        whole + 1


@given(st.binary(max_size=60))
def test_bytes_that_are_no_tally(data):
    good = RandomizedResponse(epsilon=1).empty_tally().to_bytes()
    for bad in (data, good[:-1], good + b"\0", b"\x02" + good[1:], good[:1] + b"\x03" + good[2:]):
        with pytest.raises(ReportError):
            Tally.from_bytes(bad)


def test_a_tally_does_not_share_its_counts():
    support = np.array([1, 2])
    tally = Tally(3, support, "a" * 16)
    support[0] = 99
    assert tally.counters.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        tally.counters[0] = 5
    with pytest.raises(AttributeError):
        tally.n = 4


# ---- histograms


def test_histogram():
    m = UnaryEncoding(Domain([10, 20], unmatched="other"), epsilon=2)
    h = m.estimate(Tally(1000, np.array([400, 300, 120]), m.fingerprint))
    assert h.values == (10, 20, "other")
    assert len(h) == 3
    np.testing.assert_array_equal(h.frequencies, h.counts / 1000)
    table = h.to_arrow()
    assert table.column_names == ["value", "count", "frequency", "standard_error", "low", "high"]
    assert table["value"].to_pylist() == ["10", "20", "other"]
    assert table["count"].to_pylist() == h.counts.tolist()
    assert h == m.estimate(Tally(1000, np.array([400, 300, 120]), m.fingerprint))
    assert hash(h) == hash(pickle.loads(pickle.dumps(h)))
    assert h != m.estimate(Tally(1000, np.array([400, 300, 121]), m.fingerprint))
    assert "1,000 reports, 95% intervals" in repr(h)
    assert isinstance(h, Histogram)
    with pytest.raises(ValueError, match="read-only"):
        h.counts[0] = 1
    wide = UnaryEncoding(range(50), epsilon=2)
    assert "30 more values" in repr(wide.estimate(wide.empty_tally()))


def test_histogram_to_polars():
    pl = pytest.importorskip("polars")
    for m in (
        UnaryEncoding([10, 20], epsilon=2),
        RandomizedResponse(epsilon=1),
        RandomizedResponse(["a", "b"], epsilon=1),
    ):
        frame = m.estimate(m.empty_tally()).to_polars()
        assert isinstance(frame, pl.DataFrame)
        assert frame["value"].to_list() == list(m.domain.labels)


@pytest.mark.parametrize("confidence", [0, 1, -1, 1.5, float("nan"), 95, True])
def test_confidence_is_inside_the_unit_interval(confidence):
    m = RandomizedResponse(epsilon=1)
    with pytest.raises(ParameterError):
        m.estimate(m.empty_tally(), confidence=confidence)


# ---- errors


ERRORS = [e for e in vars(ldp_core).values() if isinstance(e, type) and issubclass(e, LdpError)]


def test_there_are_errors():
    assert len(ERRORS) >= 8


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.__name__)
def test_errors_can_be_made_from_one_string_and_pickled(error):
    made = error("column 'x': no")
    assert str(made) == "column 'x': no"
    assert str(pickle.loads(pickle.dumps(made))) == str(made)
    assert type(made)(str(made)).args == made.args
    if error is not LdpError:
        assert issubclass(error, (ValueError, TypeError))
