"""Mechanisms, tallies and histograms as values: frozen, hashable, picklable, JSON-able, identified by a fingerprint."""

import importlib
import itertools
import sys
import textwrap
import threading
from decimal import Decimal

import pyarrow as pa
import pytest

from ldp_core import (
    CountMeanSketch,
    Domain,
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
    ThresholdHistogramEncoding,
    UnaryEncoding,
)

from ..cases import each
from .checks import exact_ln
from .examples import AB, LABELS

ABC = ["a", "b", "c"]
MECHANISMS: list[Mechanism] = [
    *(RandomizedResponse(epsilon=epsilon) for epsilon in (1, 1.0000000000000002)),
    *(
        RandomizedResponse(domain, epsilon=1)
        for domain in ([True, False], [0, 1], ["0", "1"], ABC, ["b", "a", "c"], ["a", "b"], ["a", "b", "other"])
    ),
    RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1),
    *(RandomizedResponse.from_coins(**coins) for coins in ({}, {"truth": 0.25}, {"yes": 0.25}, {"domain": [0, 1]})),
    *(
        UnaryEncoding(domain, epsilon=1)
        for domain in (ABC, ["c", "b", "a"], [1, 2, 3], ["1", "2", "3"], ["\u00e9", "e\u0301", 'q"\n'])
    ),
    *(UnaryEncoding(Domain(ABC, unmatched=unmatched), epsilon=1) for unmatched in ("other", "none")),
    UnaryEncoding(ABC, epsilon=2),
    UnaryEncoding(ABC, epsilon=1, variant="symmetric"),
    *(UnaryEncoding.from_probabilities(ABC, p=0.75, q=q) for q in (0.25, 0.26)),
    *(SubsetSelection(ABC, epsilon=1, **k) for k in ({}, {"k": 2})),
    SubsetSelection(Domain(ABC, unmatched="other"), epsilon=1),
    *(LocalHashing(ABC, epsilon=1, variant=variant) for variant in ("optimal", "binary", "fast")),
    LocalHashing(Domain(ABC, unmatched="none"), epsilon=1, variant="fast"),
    *(HadamardResponse(domain, epsilon=1) for domain in (ABC, Domain(ABC, unmatched="none"))),
    *(ThresholdHistogramEncoding(ABC, epsilon=1, **theta) for theta in ({}, {"theta": 0.75})),
]


def test_all_differ():
    assert len(set(MECHANISMS)) == len(MECHANISMS)
    assert len({m.fingerprint for m in MECHANISMS}) == len(MECHANISMS)
    assert all(len(m.fingerprint) == 16 and int(m.fingerprint, 16) >= 0 for m in MECHANISMS)


def test_mixing_mechanisms_is_an_error():
    for m, other in itertools.pairwise([*MECHANISMS, MECHANISMS[0]]):
        with pytest.raises(MechanismMismatchError):
            m.empty_tally() + other.empty_tally()
        with pytest.raises(MechanismMismatchError):
            m.estimate(other.empty_tally())


@each(
    "data",
    [
        *(None, "none", ["a"], 1),
        {},
        {"mechanism": None},
        {"mechanism": "olh", "domain": [1, 2], "epsilon": 1},
        {"mechanism": ["unary_encoding"], "domain": [1, 2], "epsilon": 1},
        {"mechanism": "unary_encoding", "epsilon": 1},
        {"mechanism": "unary_encoding", "domain": [1, 2]},
        {"mechanism": "unary_encoding", "domain": [1, 2], "epsilon": 1, "seed": 1},
        {"mechanism": "unary_encoding", "domain": [1, 2], "p": 0.5},
        {"mechanism": "unary_encoding", "domain": [1, 2], "p": 0.5, "q": 0.25, "epsilon": 1},
        {"mechanism": "unary_encoding", "domain": [1], "epsilon": 1},
        {"mechanism": "unary_encoding", "domain": [1, 2], "unmatched": "drop", "epsilon": 1},
        {"mechanism": "randomized_response", "domain": [1, 2, 3], "truth": 0.5, "yes": 0.5},
        {"mechanism": "randomized_response", "domain": [1, 2], "truth": 0.5, "yes": 0.5, "epsilon": 1},
        {"mechanism": "randomized_response", "domain": [1, 2], "truth": 0.5, "no": 0.5},
        {"mechanism": "randomized_response", "domain": [1, 2], "unmatched": "none", "epsilon": 1},
        {"mechanism": "subset_selection", "domain": [1, 2], "unmatched": "none", "epsilon": 1},
        {"mechanism": "subset_selection", "domain": [1, 2]},
        {"mechanism": "local_hashing", "domain": [1, 2], "epsilon": 1, "g": 3},
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
    told = r"'(unmached'\]: it takes domain|epsilon'; it takes domain \(and unmatched\)), epsilon, variant"
    for data in ({"epsilon": 1.0, "unmached": "other"}, {"variant": "symmetric"}):
        with pytest.raises(ParameterError, match=told):
            Mechanism.from_dict({"mechanism": "unary_encoding", "domain": ["a", "b"], **data})


def test_a_class_that_another_thread_is_importing_is_waited_for(tmp_path, monkeypatch):
    """It is registered before its module is done: half a module cannot perturb."""
    module = """
        import sys
        from ldp_core import RandomizedResponse

        class Half(RandomizedResponse):
            name = "half_imported"

        sys.registered.set()
        assert sys.looked_up.wait(0.2) is False  # nobody has it before this module is done
        DONE = True
    """
    (tmp_path / "half_imported_mechanism.py").write_text(textwrap.dedent(module))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "registered", threading.Event(), raising=False)
    monkeypatch.setattr(sys, "looked_up", threading.Event(), raising=False)
    importing = threading.Thread(target=importlib.import_module, args=["half_imported_mechanism"])
    importing.start()
    try:
        assert sys.registered.wait(10)
        made = Mechanism.from_dict({"mechanism": "half_imported", "epsilon": 1.0})
        sys.looked_up.set()
        assert sys.modules["half_imported_mechanism"].DONE
        assert type(made).__name__ == "Half"
    finally:
        importing.join()
        Mechanism._registry.pop("half_imported", None)
