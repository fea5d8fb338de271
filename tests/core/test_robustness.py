"""Hostile and unlucky input: it is refused with one of this project's errors, or it works; nothing in between."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    Domain,
    DomainError,
    LdpError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Tally,
    UnaryEncoding,
)

from .checks import exact_ln
from .test_secrets import WORD, assert_silent, everything_said

AB = ["a", "b"]


# ---- privacy


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (3, 6), (9, 17), (7, 8)])
def test_a_slice_of_booleans_carries_nothing_of_its_neighbours(start, stop):
    """At epsilon 44 noise is negligible: what lies in the buffer beside the slice is what the neighbours said."""
    m = RandomizedResponse(epsilon=44)
    hidden = []
    for neighbours in (False, True):
        values = np.full(24, neighbours)
        values[start:stop] = True
        report = m.perturb(pa.array(values)[start:stop])
        assert report.to_pylist() == [True] * (stop - start)
        bits = np.unpackbits(np.frombuffer(report.buffers()[1], np.uint8), bitorder="little")
        hidden.append([*bits[: report.offset], *bits[report.offset + len(report) :]])
    assert hidden[0] == hidden[1]


SURROGATE = WORD + "\ud800"


@pytest.mark.parametrize(
    "values", [[SURROGATE], np.array([SURROGATE], object), np.array([SURROGATE])], ids=["list", "object", "U"]
)
def test_text_that_is_not_unicode_is_refused_silently(values):
    for m in (RandomizedResponse(AB, epsilon=1), UnaryEncoding(Domain(AB, unmatched="other"), epsilon=1)):
        with pytest.raises(Exception) as caught:  # noqa: PT011 (whatever it is, it must be silent)
            m.perturb(values)
        assert_silent(everything_said(caught.value).encode(errors="replace").decode())
        assert isinstance(caught.value, LdpError)


@pytest.mark.parametrize("reports", [[1, WORD, None], np.array([1, WORD, None], object)], ids=["list", "object"])
@pytest.mark.parametrize("m", [RandomizedResponse([1, 2], epsilon=1), UnaryEncoding([1, 2], epsilon=1)])
def test_raw_objects_given_as_reports_are_refused_silently(m, reports):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        m.tally(reports)
    assert_silent(everything_said(caught.value))
    assert isinstance(caught.value, LdpError)


def test_a_dictionary_index_out_of_bounds_does_not_leave_in_clear():
    """Arrow does not check indices that come from a file or from another library."""
    m = RandomizedResponse(["a", "b", "c"], epsilon=40)
    array = pa.DictionaryArray.from_arrays(pa.array([200, 1], pa.uint8()), pa.array(["a", "b", "c"]), safe=False)
    with pytest.raises(DomainError):
        m.domain.encode(array)


# ---- silent mistakes


@pytest.mark.parametrize("label", ["a\0", "a\0b", "\0"])
def test_labels_with_nul_are_refused(label):
    """numpy drops NULs at the end of text and Arrow cuts numpy's text at them: two labels could become one."""
    with pytest.raises(DomainError):
        Domain(["a", label])


def test_numpy_text_with_a_nul_inside_is_not_taken_for_another_label():
    domain = Domain(["a", "x"], unmatched="other")
    assert domain.encode(["a\0b"]).tolist() == [2]
    assert domain.encode(np.array(["a\0b"])).tolist() == [2]


@pytest.mark.parametrize("counters", [[5], [5, 1, 1], [[5, 1]]])
def test_a_tally_of_another_width_cannot_be_estimated(support):
    m = RandomizedResponse(AB, epsilon=1)
    with pytest.raises(LdpError):
        m.estimate(Tally(10, np.array(support), m.fingerprint))


@pytest.mark.parametrize(
    ("n", "counters", "fingerprint"),
    [
        (-1, [1], "a" * 16),
        (1, [0.5], "a" * 16),
        (1.5, [1], "a" * 16),
        (1, [1], "abc"),
        (1, [1], "é" * 16),
        (1, [[1]], "a" * 16),
    ],
    ids=repr,
)
def test_tallies_that_cannot_be(n, support, fingerprint):
    with pytest.raises(LdpError):
        Tally(n, np.array(support), fingerprint)


@pytest.mark.parametrize("counters", [[-1, 0], [0, 11]])
def test_counts_that_n_reports_cannot_have(support):
    """A tally does not know what its counters count; its mechanism does."""
    m = RandomizedResponse(AB, epsilon=1)
    tally = Tally(10, np.array(support), m.fingerprint)
    assert Tally.from_bytes(tally.to_bytes()) == tally
    with pytest.raises(LdpError, match="cannot be those of 10 reports"):
        m.estimate(tally)


def test_the_columns_of_a_plan_cannot_be_changed():
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1)})
    with pytest.raises(TypeError):
        plan.columns["y"] = RandomizedResponse(epsilon=9)


@pytest.mark.parametrize("make", [set, frozenset])
def test_a_domain_is_ordered(make):
    with pytest.raises(DomainError):
        Domain(make(["a", "b", "c"]))


@pytest.mark.parametrize("values", ["ab", b"ab"])
def test_one_text_is_not_a_column(values):
    with pytest.raises(LdpError):
        Domain(AB if isinstance(values, str) else [97, 98]).encode(values)


def test_an_epsilon_that_is_accepted_can_be_estimated_with():
    m = RandomizedResponse(epsilon=1e-17)
    assert np.isfinite(m.estimate(m.tally([True] * 10)).counts).all()
    assert np.isfinite(m.accuracy(10))
    assert np.isfinite(m.variance(10))


@pytest.mark.parametrize(("epsilon", "d"), [(1e-6, 2), (1e-6, 16), (1e-4, 16)])
def test_variance_at_a_small_epsilon(epsilon, d):
    m = RandomizedResponse(range(d), epsilon=epsilon)
    p, q = (Fraction(x[0]) for x in m.expected_parts())
    assert m.variance(1) == pytest.approx(float(q * (1 - q) / (p - q) ** 2), rel=1e-12)


def test_standard_errors_of_unequal_coins():
    """The two estimates add up to n, so they have one standard error; `variance` is the last value's."""
    m = RandomizedResponse.from_coins(truth=0.5, yes=0.25)
    h = m.estimate(Tally(1000, np.array([600, 400]), m.fingerprint))
    np.testing.assert_allclose(h.standard_errors, np.sqrt(m.variance(1000, h.counts[1])))


@pytest.mark.parametrize("d", [256, 65_536])
def test_reports_have_the_type_that_is_promised(d):
    m = RandomizedResponse([f"v{k}" for k in range(d)], epsilon=1)
    assert m.perturb(pa.array(["v1"])).type == m.report_type()


# ---- errors of the wrong kind


@pytest.mark.parametrize(
    "reports",
    [[True, None], pa.array([True, None]), [1, 2], pa.array(["x"]), pa.nulls(2)],
    ids=["null", "Arrow null", "integers", "text", "nulls"],
)
def test_bad_reports_of_randomized_response(reports):
    with pytest.raises(ReportError):
        RandomizedResponse(epsilon=1).tally(reports)


def test_bytes_of_a_tally_with_another_alphabet():
    with pytest.raises(ReportError):
        Tally.from_bytes(b"\x01\x01" + b"\xff" * 16 + bytes(12))


@pytest.mark.parametrize(
    "read",
    [
        lambda path: PrivacyPlan.from_toml('[columns.a]\nmechanism = "unary_encoding"\nepsilon = 1\ndomain = 5\n'),
        lambda path: PrivacyPlan.from_toml(
            'keep = 5\n[columns.a]\nmechanism = "unary_encoding"\nepsilon = 1\ndomain = [1, 2]\n'
        ),
        lambda path: PrivacyPlan.from_toml(
            'keep = [5]\n[columns.a]\nmechanism = "unary_encoding"\nepsilon = 1\ndomain = [1, 2]\n'
        ),
        lambda path: PrivacyPlan.from_toml(path.write_bytes(b"\xff\xfe = 1\n") and path),
        lambda path: PrivacyPlan.from_toml("a\0b"),
        lambda path: PrivacyPlan.from_metadata({b"ldp.plan": b"{"}),
        lambda path: PrivacyPlan.from_metadata({b"ldp.plan": b"[]"}),
    ],
    ids=["domain = 5", "keep = 5", "keep = [5]", "not UTF-8", "NUL in path", "not JSON", "JSON of a list"],
)
def test_files_that_are_no_plan(tmp_path, read):
    with pytest.raises(PlanError):
        read(tmp_path / "plan.toml")


@pytest.mark.parametrize(
    "epsilon", [np.True_, 10**400, np.array([1.0]), np.array([1.0, 2.0])], ids=["bool", "huge", "1-d", "two"]
)
def test_epsilons_of_unusual_types(epsilon):
    with pytest.raises(ParameterError):
        RandomizedResponse(epsilon=epsilon)


def test_integers_beyond_64_bits_are_unmatched_like_any_other():
    domain = Domain([1, 5], unmatched="other")
    assert domain.encode([2**63, 1]).tolist() == [2, 0]
    assert domain.encode([2**70, 1]).tolist() == [2, 0]


SMALL = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None]))


@pytest.mark.parametrize(
    "chunks",
    [
        [SMALL, pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["b", None]))],
        [
            pa.DictionaryArray.from_arrays(
                pa.array(np.arange(100), pa.int8()), pa.array([f"{c}{k}" for k in range(100)])
            )
            for c in "xy"
        ],
    ],
    ids=["null in the dictionary", "too many entries for the index"],
)
def test_chunks_with_dictionaries_of_their_own(chunks):
    codes = Domain(AB, unmatched="other").encode(pa.chunked_array(chunks))
    assert len(codes) == sum(map(len, chunks))


def test_nulls_in_a_dictionary_are_counted():
    with pytest.raises(DomainError, match=r"1 of 2 .*\(1 of them null\)"):
        Domain(AB).encode(SMALL)


@pytest.mark.parametrize(
    "values",
    [np.array([[1, 5]]), np.array(1), 1, None],
    ids=["2-d", "0-d", "1", "None"],
)
def test_arrays_that_are_no_column(values):
    with pytest.raises(LdpError, match="'c'"):
        Domain([1, 5]).encode(values, column="c")


def test_big_endian_numbers():
    assert Domain([1, 5]).encode(np.array([5, 1, 5], ">i4")).tolist() == [1, 0, 1]


def test_a_label_that_is_not_unicode_is_refused():
    with pytest.raises(DomainError):
        Domain(["\ud800", "b"])


@pytest.mark.parametrize("again", [lambda h: pickle.loads(pickle.dumps(h)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_histogram_stays_read_only(again):
    m = RandomizedResponse(epsilon=1)
    assert not again(m.estimate(m.empty_tally())).counts.flags.writeable


@pytest.mark.parametrize(
    "value", [Domain(AB), PrivacyPlan({"x": RandomizedResponse(epsilon=1)})], ids=["Domain", "PrivacyPlan"]
)
def test_nothing_can_be_deleted(value):
    name = "labels" if isinstance(value, Domain) else "keep"
    with pytest.raises(AttributeError):
        delattr(copy.copy(value), name)


@pytest.mark.parametrize(
    ("make", "about"),
    [
        (lambda: RandomizedResponse.from_coins(truth=1e-30, yes=0.5), "64-bit"),
        (lambda: UnaryEncoding.from_probabilities(AB, p=1e-323, q=5e-324), "p and q"),
    ],
)
def test_messages_about_probabilities_too_fine_for_64_bits(make, about):
    with pytest.raises(ParameterError, match=about):
        make()
