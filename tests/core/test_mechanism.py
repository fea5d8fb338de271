"""Mechanisms, tallies and histograms as values: frozen, hashable, picklable, JSON-able, identified by a fingerprint."""

from __future__ import annotations

import pickle
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest

from ldp_core import (
    CountMeanSketch,
    FakeDataColumn,
    HadamardCountMeanSketch,
    HadamardResponse,
    Hybrid,
    LdpError,
    LocalHashing,
    Mechanism,
    MechanismMismatchError,
    OneBitMean,
    ParameterError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    StochasticRounding,
    SubsetSelection,
    SummationHistogramEncoding,
    Tally,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)

from ..cases import each
from .checks import exact_ln
from .examples import AB, LABELS

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


def test_all_differ():
    assert len(set(MECHANISMS)) == len(MECHANISMS)
    assert len({m.fingerprint for m in MECHANISMS}) == len(MECHANISMS)
    assert all(len(m.fingerprint) == 16 and int(m.fingerprint, 16) >= 0 for m in MECHANISMS)


@each("hash_seed", ["0", "1"])
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


@each(
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
)
def test_dicts_that_are_no_mechanism(data):
    with pytest.raises(LdpError):
        Mechanism.from_dict(data)


HOSTILE = [None, 0, 10**400, "x", [], ["a"], [{}], {"low": 0}, {"kind": "str", "x": 1}, {"low": 0, "high": 1, "x": 2}]


@each(
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


@each("data", [None, "none", ["a"], 1])
def test_a_mechanism_is_a_table(data):
    with pytest.raises(ParameterError, match="a mechanism is a table"):
        Mechanism.from_dict(data)


@each(
    "make",
    [
        lambda: RandomizedResponse(epsilon=0.001, coins=(0.99, 0.5)),
        lambda: UnaryEncoding(AB, epsilon=0.001, probabilities=(0.99, 0.01)),
        lambda: UnaryEncoding(AB, epsilon=0.001, probabilities=(1.0, 0.0)),
        lambda: PrivacyPlan.from_toml(
            '[columns.a]\nmechanism = "unary_encoding"\ndomain = [1, 2]\nepsilon = 0.1\nprobabilities = [0.99, 0.01]\n'
        )["a"],
        lambda: PrivacyPlan.from_toml(
            '[columns.a]\nmechanism = "randomized_response"\ndomain = [1, 2]\nepsilon = 0.001\ncoins = [0.99, 0.5]\n'
        )["a"],
    ],
)
def test_no_way_to_claim_less_than_is_spent(make):
    try:
        m = make()
    except (LdpError, TypeError):
        return
    assert exact_ln(m.worst_ratio()) <= Decimal(m.epsilon)


@each(
    "m",
    [
        UnaryEncoding(["ios", "web"], epsilon=1.0),
        HadamardCountMeanSketch("str", epsilon=1.0),
        Hybrid((0, 9), epsilon=1.0),
        SummationHistogramEncoding(["ios", "web"], epsilon=1.0),
    ],
)
def test_values_in_place_of_reports_are_told_to_be_perturbed_first(m):
    with pytest.raises(ReportError, match="if these are values, perturb them first"):
        m.tally(pa.array(["ios", "web"]))


def test_parameters_that_are_unknown_or_missing_are_told_with_those_that_there_are():
    told = r"'(unmached|epsilon)'; it takes domain \(and unmatched\), epsilon, variant"
    for data in ({"epsilon": 1.0, "unmached": "other"}, {"variant": "symmetric"}):
        with pytest.raises(ParameterError, match=told):
            Mechanism.from_dict({"mechanism": "unary_encoding", "domain": ["a", "b"], **data})
