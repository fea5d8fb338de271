"""What is true of every mechanism there is: one of each, from the registry that plans and reports are read with."""

import copy
import hashlib
import inspect
import json
import math
import pickle
import re

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    DBitFlip,
    Domain,
    DomainError,
    FrequencyOracle,
    HadamardCountMeanSketch,
    HeavyHitters,
    Keyed,
    Keystream,
    LdpError,
    Mechanism,
    MechanismMismatchError,
    Numeric,
    ParameterError,
    Piecewise,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    ReportError,
    Secret,
    Tally,
)
from ldp_core.mechanisms.oracles import summation_histogram_encoding
from ldp_core.plans.pairs import SampledPair
from ldp_core.plans.provenance import describe, described
from ldp_core.reports import Word

from ...cases import each
from ..checks import exact_exp
from ..examples import ALONE, DRAWN, EVERY, VIEWS, keyed, noise_for, some_values
from .oracles.helpers import PURE


def test_one_of_each():
    kinds = {kind for kind in Mechanism._registry.values() if kind.__module__.startswith("ldp_core")}
    assert {type(m) for m in EVERY.values()} == kinds - {SampledPair}  # (tests/core/plans/test_answered.py has it)
    assert len({m.fingerprint for m in EVERY.values()}) == len(EVERY) - len(VIEWS)  # (candidates have their sketch's)


@each("name", EVERY)
def test_as_a_value(name):
    m = EVERY[name]
    plan = PrivacyPlan(dict.fromkeys("abc", m) if name in DRAWN else {"a": m}, keep=["t"])
    for again in (
        pickle.loads(pickle.dumps(m)),
        copy.deepcopy(m),
        Mechanism.from_dict(m.to_dict()),
        Mechanism.from_dict(json.loads(json.dumps(m.to_dict()))),
        PrivacyPlan.from_toml(plan.to_toml())["a"],
        PrivacyPlan.from_dict(json.loads(plan.to_json()))["a"],
        described(describe(m, seeded=False))[0],
    ):
        assert again == m
        assert type(again) is type(m)
        assert (hash(again), repr(again), again.fingerprint) == (hash(m), repr(m), m.fingerprint)
        assert again.worst_ratio() == m.worst_ratio()
    assert plan == PrivacyPlan.from_toml(plan.to_toml())
    assert m.inputs.summary in repr(plan)
    for attribute in ("epsilon", "anything"):
        with pytest.raises(AttributeError):
            setattr(m, attribute, 1)
    with pytest.raises(AttributeError):
        del m.epsilon


@each("name", EVERY)
def test_epsilon_is_never_exceeded(name):
    m = EVERY[name]
    assert m.worst_ratio() <= exact_exp(m.epsilon)
    assert m.worst_ratio() > exact_exp(0.75 * m.epsilon)  # and is not wasted


@each("epsilon", [1e-300, 1e-30, 1e-9, 1e-4, 0.01, 0.3, 3.0, 8.0, 15.0, 40.0, 300.0, 1e308])
@each("name", [name for name, m in EVERY.items() if "epsilon" in m.to_dict()])
def test_any_epsilon_is_kept_or_refused(name, epsilon):
    data = EVERY[name].to_dict()
    for fixed in ("field", "theta", "k", "levels"):  # chosen for the epsilon of before
        data.pop(fixed, None)
    try:
        m = Mechanism.from_dict({**data, "epsilon": epsilon})
    except LdpError:
        assert not 0.01 <= epsilon <= 15
        return
    assert m.worst_ratio() <= exact_exp(min(epsilon, 1e4))


# ---- reports and tallies


@each("name", ALONE)
def test_no_reports(name):
    m = ALONE[name]
    reports = m.perturb(some_values(m, 0), randomness=noise_for(m, 0))
    assert (len(reports), reports.type) == (0, m.reports.arrow_type())
    assert m.tally(reports) == m.empty_tally()
    assert (m.empty_tally().n, m.empty_tally().counters.shape) == (0, (m.counters,))
    if isinstance(m, FrequencyOracle):
        nothing = m.estimate(m.empty_tally())
        assert (nothing.n, nothing.counts.tolist()) == (0, [0] * m.domain.size)
        assert nothing.low.tolist() == nothing.high.tolist() == [0] * m.domain.size
        assert np.isnan(nothing.frequencies).all()


@each("name", ALONE)
def test_reports_travel_and_tallies_merge(name):
    m, n = ALONE[name], 3000
    reports = m.perturb(some_values(m, n), randomness=noise_for(m, n))
    assert reports.type == m.reports.arrow_type()
    native, whole = m.reports.from_arrow(reports), m.tally(reports)
    packed = m.reports.to_arrow(native, packed=True)
    assert packed.type == m.reports.arrow_type(packed=True)
    assert m.reports.to_arrow(m.reports.from_arrow(packed)).equals(reports)
    assert m.tally(reports[:1234]) + m.tally(packed[1234:]) == whole
    assert (
        whole
        == m.tally(pa.chunked_array([reports[:7], reports[7:]]))
        == m.tally(m.reports.to_numpy(native, packed=True))
    )
    for again in (
        Tally.from_bytes(whole.to_bytes()),
        Tally.from_dict(json.loads(json.dumps(whole.to_dict()))),
        pickle.loads(pickle.dumps(whole)),
    ):
        assert again == whole


@each("name", ALONE)
@pytest.mark.slow
def test_counts_of_groups_are_sums_of_those_of_the_reports(monkeypatch, name):
    """Of one group and of many, in one block and in several. What one report counts is in tests of all outcomes."""
    m = ALONE[name]
    n = max(60, min(120, 100_000 // m.counters))
    reports = m.reports.from_arrow(m.perturb(some_values(m, n), randomness=noise_for(m, n)))
    alone = m.count_reports(reports, np.arange(n), n)
    for n_groups in (1, 3, min(40, n)):
        groups = np.random.default_rng(2).integers(0, max(n_groups - 1, 1), n)  # (the last of several is empty)
        expected = np.eye(n_groups)[:, groups] @ alone
        np.testing.assert_array_equal(m.count_reports(reports, groups, n_groups), expected)
        with monkeypatch.context() as patch:
            if type(m.reports) is Word:
                patch.setattr("ldp_core.exact.transforms._CELLS", 2 * m.reports.limit)
            patch.setattr(summation_histogram_encoding, "_ROWS", 37)
            np.testing.assert_array_equal(m.count_reports(reports, groups, n_groups), expected)
            order = np.argsort(groups, kind="stable")
            np.testing.assert_array_equal(m.count_reports(reports[order], groups[order], n_groups), expected)
    assert not m.count_reports(reports[:0], groups[:0], n_groups).any()
    sizes = np.array([0, 1, 30, 0, 7, n - 40, 2])
    for rows in (1 << 16, 29):  # parts in one call, and some of them by themselves
        monkeypatch.setattr("ldp_core.randomizer.tallying._ROWS", rows)
        parts = m.tally_parts(m.reports.to_arrow(reports), sizes)
        np.testing.assert_array_equal(parts, np.eye(7)[:, np.repeat(np.arange(7), sizes)] @ alone)


@each("name", [name for name, m in ALONE.items() if isinstance(m, FrequencyOracle)])
def test_estimates_of_several_tallies_are_those_of_each(name):
    m, n, k = ALONE[name], 3000, 3
    reports = m.reports.from_arrow(m.perturb(some_values(m, n), randomness=noise_for(m, n)))
    counters = m.count_reports(reports, np.arange(n) % k, k)
    together = m.debias(np.full((k, 1), n // k), counters)
    for g in range(k):
        alone = m.estimate(Tally(n // k, counters[g], m.fingerprint))
        for one, of_all in zip(("counts", "standard_errors", "low", "high"), together, strict=True):
            np.testing.assert_allclose(getattr(alone, one), np.broadcast_to(of_all, (k, m.domain.size))[g], rtol=1e-9)


@each("name", ALONE)
@pytest.mark.slow
def test_keyed_reports_are_a_function_of_person_and_value(name):
    """In whatever batches, longer than any block; under a seed, with which a second round is drawn again too."""
    m, n = ALONE[name], 70_000
    ids, values = np.arange(n), some_values(m, n)

    def reports(rows, seed=1, column="x"):
        return m.perturb(values.take(rows), randomness=Keyed(Secret.from_seed(seed), ids[rows], column=column))

    whole, order = reports(ids), np.random.default_rng(1).permutation(n)
    again = pa.concat_arrays([reports(order[:300]), reports(order[300:])])
    assert again.equals(whole.take(pa.array(order)))
    for other in (reports(ids[:1000], seed=2), reports(ids[:1000], column="y")):
        assert not other.equals(whole[:1000])


@each("name", ALONE)
def test_what_is_no_report(name):
    m = ALONE[name]
    for reports in (
        pa.nulls(2, m.reports.arrow_type()),
        pa.nulls(2),
        pa.array(["x"]),
        pa.array([0.5]),
        pa.array([[0.5]]),
        pa.array([{"a": 1}]),
    ):
        with pytest.raises(ReportError, match="column 'os'"):
            m.tally(reports, column="os")
    if type(m.reports) is Word:  # a number, of which there are so many
        with pytest.raises(ReportError, match="1 of 2 reports"):
            m.tally(np.array([m.reports.limit - 1, m.reports.limit], np.uint64))
    with pytest.raises(MechanismMismatchError):
        m.check_tally(Tally(0, np.zeros(m.counters + 1, np.int64), m.fingerprint))
    with pytest.raises(MechanismMismatchError):
        m.check_tally(Tally(0, np.zeros(m.counters, np.int64), "0" * 16))


# ---- one language: names, reprs, outlooks, errors


@each("name", EVERY)
def test_arguments_go_by_name_and_repr_has_them(name):
    m = EVERY[name]
    first, *rest = inspect.signature(type(m)).parameters.values()
    assert first.name in ("domain", "kind", "candidates", "inner")
    assert all(p.kind is p.KEYWORD_ONLY for p in rest) or [p.name for p in rest] == ["sketch"]
    assert re.fullmatch(rf"{type(m).__name__}\((domain|inner)=.*\)", repr(m))
    assert [p.name for p in rest if f"{p.name}=" not in repr(m) and p.name != "unmatched"] == []  # it is the domain's


@each("name", EVERY)
def test_unmatched_may_be_given_beside_a_list_of_labels(name):
    m = EVERY[name]
    parameters = inspect.signature(type(m)).parameters
    if "domain" not in parameters or not isinstance(m.domain, Domain):
        return
    assert "unmatched" in parameters
    made = type(m)(list(m.domain.labels), unmatched="other", **m.parameters())
    assert made == Mechanism.from_dict({**m.to_dict(), "domain": list(m.domain.labels), "unmatched": "other"})
    assert made.domain == Domain(m.domain.labels, unmatched="other")
    with pytest.raises(ParameterError, match="leave out unmatched= here"):
        type(m)(made.domain, unmatched="other", **m.parameters())


def test_randomized_response_in_a_table_is_of_yes_and_no():
    assert Mechanism.from_dict({"mechanism": "randomized_response", "epsilon": 1.0}) == RandomizedResponse(epsilon=1.0)
    coins = Mechanism.from_dict({"mechanism": "randomized_response", "truth": 0.5, "yes": 0.5})
    assert coins == RandomizedResponse.from_coins()
    with pytest.raises(ParameterError, match="needs a domain"):
        Mechanism.from_dict({"mechanism": "unary_encoding", "epsilon": 1.0})


@each(
    ("name", "parameter"),
    [
        (name, parameter)
        for name, m in EVERY.items()
        for parameter, value in m.parameters().items()
        if isinstance(value, (int, float, str)) and parameter not in ("alphabet", "outside", "oracle")
    ],
)
def test_a_bad_parameter_is_named_and_what_is_permitted_said(name, parameter):
    data = EVERY[name].to_dict()
    bad = ["nothing", -1, [1]]
    if not isinstance(data[parameter], str):
        bad += [True, np.True_, math.nan, math.inf, "1", b"1", 1j, {}]
    if parameter.startswith("epsilon"):
        bad += [0, None, -0.0, -1e-300, False, -math.inf, np.array([1.0]), np.array([1.0, 2.0])]
    for value in bad:
        with pytest.raises(LdpError, match=rf'^{parameter} must be .*([\[(]\d.*[\])]|".*"|at least \d)'):
            Mechanism.from_dict({**data, parameter: value})


FIELDS = [0, 1, 4, 9, 2.0, 32_771, 2**31 - 1]
BEYOND = [
    ("SS", "k", [0, 5, 1.0]),
    ("THE", "theta", [0.49, 1.01]),
    ("BHR", "blocks", [0, 41, 2.0]),
    ("HPGR", "blocks", [0, 41, 2.0]),
    ("PGR", "field", FIELDS),
    ("HPGR", "field", FIELDS),
    ("SHE", "unit", [0, 65, 1.0]),
    *((name, "hashes", [0, 2.0, 1 << 30]) for name in ("CMS", "HCMS")),
    *((name, "width", [1, 3, 100, 1 << 17, 64.0]) for name in ("CMS", "HCMS")),
    ("CMS", "salt", [1 << 64]),
    ("RAPPOR", "bits", [1, 65_537, 16.0]),
    ("RAPPOR", "hashes", [0, 17]),
    ("RAPPOR", "cohorts", [0, 65_537]),
    ("RAPPOR", "f", [1.0, -0.1]),
    ("RAPPOR", "p", [0.75, 0.8]),
    ("RAPPOR", "q", [1.1]),
    ("L-GRR", "epsilon_1", [2.0, 3.0, 1e-25]),
    ("dBitFlipPM", "bits", [0, 41]),
    ("LOLOHA, linear", "g", [1, 2.5, 1 << 16]),
    ("square wave", "buckets", [0, 1, 2.0, 10**6]),
    ("stochastic rounding", "buckets", [0, 1, 2.0, 10**6]),
    ("heavy hitters", "levels", [(), (2,), (2, 2, 4), (4, 2), (0, 4), (2.0, 4)]),
    ("heavy hitters", "rows", [0, 257]),
    ("PrivSet", "most", [0, 6, 2.0]),
    ("PrivSet", "k", [0, 6, 1.0]),
    ("heavy hitters", "width", [63, 1 << 15]),
    ("sampled", "columns", [1, 1 << 16]),
]


@each(("name", "parameter", "values"), BEYOND)
def test_what_is_just_beyond_the_permitted_is_refused(name, parameter, values):
    data = EVERY[name].to_dict()
    for value in values:
        with pytest.raises(ParameterError):
            Mechanism.from_dict({**data, parameter: value})


@each("name", EVERY)
def test_what_to_expect_is_in_numbers_and_their_unit(name):
    """Shares fall as 1 / sqrt(n); a margin is shown to three digits, however small it is."""
    few, many = (EVERY[name].explain(n) for n in (100, 10_000))
    if name in ("RAPPOR", "heavy hitters"):  # it depends on the values
        assert (few.unit, few.margin, few.advice) == (many.unit, many.margin, many.advice) == ("", "", None)
        return
    assert few.share / 10 == pytest.approx(many.share, rel=1e-3)
    margins = [float(re.fullmatch(r"± ([\d.]+) (\(mean\)|% of the records)", made.margin)[1]) for made in (few, many)]
    if name == "square wave":  # as far as a number may be from the middle of its bucket
        domain = EVERY[name].domain
        margins = [margin - (domain.high - domain.low) / (2 * EVERY[name].buckets) for margin in margins]
    assert margins[0] / 10 == pytest.approx(margins[1], rel=0.01)
    unit = many.error if many.unit == "mean" else 100 * many.share
    assert margins[1] == pytest.approx(1.959964 * unit, rel=0.005)
    said = "the margin is of the first half" if name.startswith("hierarchical") else "take more than"
    assert many.advice is None or said in many.advice


@each("name", EVERY)
def test_nulls_are_refused_and_counted(name):
    """Under ``unmatched="error"``; a drawn column takes no column by itself."""
    m = EVERY[name]
    keyed = Keyed(Secret.from_seed(1), [1, 2, 3], column="os")
    kinds = {"bool": pa.bool_(), "str": pa.string(), "list of int": pa.list_(pa.int64()), "date": pa.date32()}
    kind = kinds.get(m.inputs.kind, pa.int64())
    refused, about = (ParameterError, "whole record") if name in DRAWN else (DomainError, "3 of 3")
    with pytest.raises(refused, match=about) as raised:
        m.perturb(pa.nulls(3, kind), randomness=keyed, column="os")
    assert refused is ParameterError or "column 'os'" in str(raised.value)


@each("name", EVERY)
def test_intervals_and_bounds_refuse_the_same(name):
    m = EVERY[name]
    calls = []
    if isinstance(m, FrequencyOracle):
        calls += [("confidence", lambda value: m.estimate(m.empty_tally(), confidence=value))]
        calls += [("beta", lambda value: m.accuracy(100, value))]
    if isinstance(m, Numeric):
        calls += [("confidence", lambda value: m.mean(m.empty_tally(), confidence=value))]
    if isinstance(m, HeavyHitters):
        calls += [("confidence", lambda value: m.find(m.empty_tally(), 3, confidence=value))]
    if isinstance(m, FrequencyOracle):
        for n in (0, -1):
            with pytest.raises(ParameterError, match="n must be"):
                m.accuracy(n, 0.1)
    for parameter, call in calls:
        call(0.9)
        for value in (0, 1, -0.5, 95, math.nan, True, *(() if name == "RAPPOR over candidates" else ("0.95", None))):
            with pytest.raises(ParameterError, match=rf"^{parameter} must be .*in \(0, 1\), got "):
                call(value)


# Stored reports, tallies and keyed noise depend on these: a change needs a migration.
FINGERPRINTS = {
    "binary RR": "951ad3d2ae57bb27",
    "k-ary RR": "05377503e28bff15",
    "k-ary RR, dates": "e89480e5ac3eaedf",
    "OUE": "a2a7913154220484",
    "SUE wide": "067dcde6c288eed4",
    "SS": "af43881bd4ad15d4",
    "SS wide": "cee68ffa5b35a5d5",
    "THE": "6f9b5a3c593e7633",
    "OLH": "1f2466386f6f229c",
    "BLH": "84d6c9b11d0f745d",
    "FLH": "e67549e0add2df36",
    "HR": "c088339a4c51f70a",
    "BHR": "4f4650b357bcd39e",
    "BHR, a value a block": "07653775907d441f",
    "SHE": "782869b4ae68854e",
    "PGR": "b0bef756cccc5740",
    "CMS": "e6a79f8138266a2b",
    "CMS over candidates": "e6a79f8138266a2b",
    "HCMS": "28c33d6bf869b6da",
    "HCMS over candidates": "28c33d6bf869b6da",
    "L-GRR": "f9c0761ece708ee6",
    "L-OSUE": "e457ccb7ffd01c1f",
    "L-SUE wide": "346e24b90935c616",
    "dBitFlipPM": "53134aeac37db176",
    "LOLOHA": "748e67410da8f2b3",
    "LOLOHA, linear": "4de39a0fc8d77d7b",
    "HPGR": "533cbe1eb2186e8a",
    "RAPPOR": "47e4ef2360b3e708",
    "RAPPOR over candidates": "47e4ef2360b3e708",
    "one bit": "db8dfde7980b343f",
    "N outputs": "d5056e349915439f",
    "piecewise": "8deb0483d873eeef",
    "hybrid": "a90f4f8787cc769f",
    "square wave": "df28dd7c325727d3",
    "stochastic rounding": "14d1acf293d40109",
    "heavy hitters": "446e9fcc640fb489",
    "hierarchical": "5f51ee8b3113291c",
    "hierarchical, cells": "876b37beea5b165d",
    "PrivSet": "2127f54f80f5e14d",
    "PrivSet wide": "2ded8232ddaa21c9",
    "sampled": "ab72b209e936c7e9",
    "sampled number": "893b4956dadf0ab8",
    "fake": "2f1c331eef85dea4",
}


@each("name", EVERY)
def test_fingerprints_of_this_release(name):
    assert EVERY[name].fingerprint == FINGERPRINTS[name]


# Under the key of seed 1, by persons 0 to 1999: how a mechanism takes its noise apart is in no other number.
KEYED = {
    "binary RR": "13bbf5c932f0cab1",
    "k-ary RR": "d0c154c2992b92de",
    "k-ary RR, dates": "c3df94ff23d0df6f",
    "OUE": "b7593d33ad277b68",
    "SUE wide": "7a36a8162837bd71",
    "SS": "133bb243a08c40ad",
    "SS wide": "592c7305fd6a7727",
    "THE": "fd3fc75796ea9c93",
    "OLH": "cafe6fd176a6054e",
    "BLH": "caa7203ac4acc885",
    "FLH": "36e920336f0a7e32",
    "HR": "f1cc45c3c0a39fd0",
    "BHR": "8f7e2c82af9b2e2b",
    "BHR, a value a block": "9e17bac41d8aea86",
    "SHE": "ab797b6605c7652d",
    "PGR": "20733dec68fc97b8",
    "HPGR": "e8a86507d631fe12",
    "CMS": "888a088a7870bbc6",
    "HCMS": "50064831908df7c3",
    "RAPPOR": "fddee85d9d3a2069",
    "heavy hitters": "c11cdff1a41070e2",
    "hierarchical": "588cfc8f15580b30",
    "hierarchical, cells": "1f4fba558dde142e",
    "hybrid": "7d3751b6061ba583",
    "piecewise": "50eea24f05778d08",
    "one bit": "6238f6e1696c8987",
    "N outputs": "a5b12c5f6211981d",
    "square wave": "7817da643ff05450",
    "stochastic rounding": "5478024e06a3fd68",
    "L-GRR": "ccf1a4dfe55959f5",
    "L-OSUE": "9d921363e16a393e",
    "L-SUE wide": "7475e60c06d3f45f",
    "LOLOHA": "ebdd61e5aeaf56aa",
    "LOLOHA, linear": "67a91b4df62613a5",
    "dBitFlipPM": "9295694b98afb19a",
    "PrivSet": "82ab680d6cdc2373",
    "PrivSet wide": "1fbc75cfca441a88",
    "THE d=64": "b189a7e154d704b3",
    "THE d=130 other": "86e809929b764055",
    "SS d=16 k=15": "a354ca335a043dcb",
    "SS d=64": "a9a5bf39ca8e3007",
    "SS d=130 other": "1edb7155389d95c3",
    "OLH d=16 none": "b8d968e40b708261",
    "OLH d=40 other": "6c69f9f9ec76dfd0",
    "FLH d=16 none": "21d295c66441a20d",
    "FLH d=40 other": "f8369baa45f01466",
    "HR d=16 none": "4c198951324e50ff",
    "HR d=40 other": "13e576645ce7e154",
    "PGR d=30 none": "c03e7a500538b3a5",
    "PGR d=12 other": "62eb550384c0d308",
}


@each("name", KEYED)
def test_keyed_reports_of_this_release(name):
    """What each block of noise says is in `tests/core/noise`; that it is used as it should be, in tests of outcomes."""
    m = {**ALONE, **PURE}[name]
    reports = m.reports.from_arrow(m.perturb(some_values(m, 2000), randomness=keyed(2000)))
    assert hashlib.blake2b(reports.tobytes(), digest_size=8).hexdigest() == KEYED[name]


@each("name", [name for name, m in ALONE.items() if m.memoized])
def test_memoized_mechanisms_take_keyed_noise_only(name):
    """They took fresh noise if it was handed over as such, and drew each permanent answer anew."""
    m = ALONE[name]
    with pytest.raises(ParameterError, match="keyed noise"):
        m.perturb(some_values(m, 2))
    with pytest.raises(ParameterError, match="remembers"):
        m.perturb(some_values(m, 2), randomness=Keystream())


@each(
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
    with pytest.raises(ReportError, match="cannot be those of 4611686018427387904 reports"):
        mechanism.check_tally(Tally(1 << 62, support, mechanism.fingerprint))
