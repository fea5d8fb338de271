"""Encoding of every kind of input, against a dict."""

import pickle
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ldp_core import (
    Candidates,
    Cells,
    Domain,
    DomainError,
    DtypeError,
    HierarchicalHistogram,
    Hybrid,
    Interval,
    LdpError,
    Mechanism,
    OneBitMean,
    RandomizedResponse,
    SquareWave,
    UnaryEncoding,
    required_n,
)

from ...cases import each
from ..examples import AB, ORACLES

# Text that Arrow can hold.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
int64s = st.one_of(
    st.integers(-3, 12), st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 2**63 - 1, 0, 2**32])
)
label_lists = {
    "str": st.lists(texts.filter(lambda s: s != "other" and "\0" not in s), min_size=2, max_size=12, unique=True),
    "int": st.one_of(
        st.lists(int64s, min_size=2, max_size=12, unique=True),
        st.builds(
            lambda first, n: list(range(first, first + n)), st.integers(-(2**63), 2**63 - 13), st.integers(2, 12)
        ),
    ),
    "bool": st.sampled_from([[False, True], [True, False]]),
}
strangers = {"str": texts, "int": int64s, "bool": st.booleans()}
ARROW = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_()}


@st.composite
def cases(draw, kinds=("str", "int", "bool")):
    """A domain, values some of which are nulls or strangers, and their codes by dict lookup."""
    kind = draw(st.sampled_from(kinds))
    labels = draw(label_lists[kind])
    unmatched = draw(st.sampled_from(["error", "other", "none"]))
    domain = Domain(labels, unmatched=unmatched)
    inside = st.sampled_from(labels)
    value = inside if unmatched == "error" else st.one_of(inside, strangers[kind], st.none())
    values = draw(st.lists(value, max_size=30))
    lookup = {label: code for code, label in enumerate(labels)}
    return domain, values, [lookup.get(v, len(labels)) for v in values]


def dictionaries(values, kind):
    """The values as dictionary arrays: nulls in the indices, nulls in the dictionary, unused and repeated entries."""
    plain = pa.array(values, ARROW[kind])
    encoded = plain.dictionary_encode()
    yield encoded
    yield plain.dictionary_encode("encode")
    entries = [*reversed(list(dict.fromkeys(values))), None, *values]
    at = {v: i for i, v in enumerate(entries)}
    yield pa.DictionaryArray.from_arrays(pa.array([at[v] for v in values], pa.int32()), pa.array(entries, ARROW[kind]))
    if len(entries) < 200:
        small = pa.array([None if v is None else at[v] for v in values], pa.uint8())
        yield pa.DictionaryArray.from_arrays(small, pa.array(entries, ARROW[kind]))


def forms(values, kind):
    """The same values in every form that is taken."""
    plain = pa.array(values, ARROW[kind])
    yield values
    yield tuple(values)
    yield iter(values)
    yield np.array([*values, None], object)[:-1]
    yield plain
    yield pa.chunked_array([plain[: len(plain) // 2], plain[len(plain) // 2 :]])
    yield pa.chunked_array([], ARROW[kind]) if not values else pa.chunked_array([plain])
    padded = pa.concat_arrays([plain[:3], plain, plain[:2]])
    yield padded[min(3, len(plain)) :][: len(plain)]
    if kind != "bool":
        for form in dictionaries(values, kind):
            yield form
            padded = pa.concat_arrays([form[:1], form])
            yield padded[min(1, len(form)) :]
    if kind == "str":
        yield plain.cast(pa.large_string())
        yield plain.cast(pa.string_view())
        yield (
            plain.cast(pa.string_view())[len(plain) // 2 :]
            if len(plain) < 2
            else pa.chunked_array([plain.cast(pa.string_view())[:1], plain.cast(pa.string_view())[1:]])
        )
        yield pa.DictionaryArray.from_arrays(
            plain.dictionary_encode().indices, plain.dictionary_encode().dictionary.cast(pa.large_string())
        )
    if None not in values:
        if kind == "str":
            if not any("\0" in v for v in values):  # see test_robustness.py
                yield np.array(values, str)
        elif values:
            array = np.array(values)
            assume(array.dtype.kind in "biu")
            yield array
            yield np.repeat(array, 2)[::2]
            yield list(array)


@given(cases())
def test_every_form_encodes_like_a_dict(case):
    domain, values, expected = case
    for form in forms(values, domain.kind):
        codes = domain.encode(form)
        assert codes.dtype == domain.code_dtype or domain.kind == "bool"
        assert codes.tolist() == expected, type(form)


def test_every_width_of_float():
    """Arrow does not have numpy's long doubles: there was an error of Arrow's."""
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        for order in "<>":
            numbers = np.array([0, 2.5, 10], np.dtype(kind).newbyteorder(order))
            assert Interval(0, 10).encode(numbers).tolist() == [0, 1 << 22, 1 << 24]


@each("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
@each("labels", [(3, 4, 5), (5, 3, -100), (-2, -1, 0, 1), (-(2**63), 2**63 - 1), (0, 100)])
def test_every_width_of_integer(dtype, labels):
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    values = [low, low + 1, 0, 1, 3, 4, 5, 100, high - 1, high, *(v for v in labels if low <= v <= high)]
    values += [v + 2**64 for v in labels if low <= v + 2**64 <= high]  # those that would wrap around onto a label
    for unmatched in ("other", "none"):
        domain = Domain(list(labels), unmatched=unmatched)
        expected = [labels.index(v) if v in labels else len(labels) for v in values]
        array = pa.array(values, dtype)
        assert domain.encode(array).tolist() == expected
        assert domain.encode(np.array(values, dtype)).tolist() == expected
        assert domain.encode(np.array(values, np.dtype(dtype).newbyteorder(">"))).tolist() == expected
        assert domain.encode([*values, 2**63, 2**70]).tolist() == [*expected, *[len(labels)] * 2]
        assert domain.encode(array[2:]).tolist() == expected[2:]
        assert domain.encode(array.dictionary_encode()).tolist() == expected
        assert domain.encode(pa.array([*values, None], dtype)).tolist() == [*expected, len(labels)]


@each("d", [255, 256, 65_535, 65_536])
@each("unmatched", ["error", "other", "none"])
def test_sizes_around_the_edges_of_code_types(d, unmatched):
    labels = [f"v{k}" for k in range(d)]
    domain = Domain(labels, unmatched=unmatched)
    values = [labels[0], labels[-1], labels[d // 2]] + ([None, "?"] if unmatched != "error" else [])
    expected = [0, d - 1, d // 2] + ([d, d] if unmatched != "error" else [])
    assert domain.encode(values).tolist() == expected
    assert domain.encode(pa.array(values).dictionary_encode()).tolist() == expected
    if unmatched != "none":
        m = RandomizedResponse(domain, epsilon=30.0)
        reports = m.perturb(pa.array(values))
        reports.validate(full=True)
        assert reports.to_pylist()[:3] == [labels[0], labels[-1], labels[d // 2]]  # false alarm: 3 d e^-30 < 1e-7
        assert m.tally(reports).counters.sum() == len(values)
        assert m.tally(m.perturb(values)).n == len(values)
    if d <= 65_536:
        m = UnaryEncoding(domain, epsilon=1)
        tally = m.tally(m.perturb(values * 3, packed=True))
        assert (tally.n, len(tally.counters)) == (3 * len(values), domain.size)


@given(cases())
def test_decoding_is_the_inverse(case):
    domain, _, codes = case
    if domain.unmatched == "none":
        return
    codes = np.array(codes, domain.code_dtype)
    decoded = domain.decode(codes)
    decoded.validate(full=True)
    values = list(domain.values)
    if domain.unmatched == "other":
        values = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    assert decoded.to_pylist() == [values[c] for c in codes]
    assert domain.lookup(decoded).tolist() == codes.tolist()
    assert domain.lookup(decoded.to_pylist()).tolist() == codes.tolist()


# ---- what a domain refuses to be


@each(
    "labels",
    [
        [],
        ["a", "a"],
        [1, 2, 1],
        [True, True],
        ["a", 1],
        [1, True],
        [False, 0],
        [None, "a"],
        [1, None],
        [1.0, 2.0],
        [b"a", b"b"],
        "ab",
        b"ab",
        [["a"], ["b"]],
        [2**63, 1],
        [-(2**63) - 1, 1],
        [float("nan"), 1.0],
        [(), ()],
        {"a", "b", "c"},  # without an order
        frozenset({"a", "b", "c"}),
        ["\ud800", "b"],  # no Unicode
        # numpy drops NULs at the end of text and Arrow cuts numpy's text at them: two labels could become one
        *(["a", text] for text in ("a\0", "a\0b", "\0")),
    ],
)
@each("unmatched", ["error", "none"])
def test_ill_formed_labels(labels, unmatched):
    with pytest.raises(DomainError):
        Domain(labels, unmatched=unmatched)
    with pytest.raises(DomainError):
        UnaryEncoding(labels, epsilon=1)


@each("label", ["a", 1, True])
def test_one_label_is_a_question_and_no_mechanisms_domain(label):
    assert Domain([label]).values == (label,)
    with pytest.raises(DomainError, match="two values"):
        Domain([label], unmatched="none")
    for domain in ([label], Domain([label]), []):
        with pytest.raises(DomainError, match="two values"):
            UnaryEncoding(domain, epsilon=1.0)
    for mechanism in ORACLES.values():
        if not isinstance(mechanism, Candidates):
            with pytest.raises(DomainError, match="two values"):
                Mechanism.from_dict({**mechanism.to_dict(), "domain": [label]})


def test_ill_formed_policies():
    for unmatched in ("Other", None, True, "", ["other"]):
        with pytest.raises(DomainError, match="unmatched must be"):
            Domain(["a", "b"], unmatched=unmatched)
    with pytest.raises(DomainError, match="leave it out"):
        Domain(["a", "other"], unmatched="other")
    with pytest.raises(DomainError, match=r'no "none".* take unmatched="other".*among those who answered'):
        RandomizedResponse(Domain(["a", "b"], unmatched="none"), epsilon=1)
    with pytest.raises(DomainError, match="two values"):
        RandomizedResponse.from_coins(["a", "b", "c"])
    assert Domain(["a"], unmatched="other").size == 2
    assert Domain(["a", "other"]).size == 2


def test_labels_of_numpy():
    """Without a false alarm that they are data."""
    assert Domain(np.array(["a", "b"])) == Domain(["a", "b"])
    assert Domain(np.arange(3)) == Domain(range(3))
    assert Domain(np.array([False, True])) == Domain((False, True))
    assert Domain([0, 1]) != Domain([False, True])
    assert hash(Domain(["a", "b"])) == hash(Domain(("a", "b")))


def test_a_domain_is_immutable_and_picklable():
    domain = Domain(["a", "b"], unmatched="other")
    with pytest.raises(AttributeError):
        domain.labels = ("c",)
    domain.encode(["a"])
    assert pickle.loads(pickle.dumps(domain)) == domain
    assert list(domain) == ["a", "b", "other"]
    assert len(domain) == 3


# ---- data that do not fit


def test_unmatched_values_are_counted_and_the_column_is_named():
    domain = Domain(["a", "b"])
    values = ["a", "?", None, "b", None]
    with_null = pa.array(values).dictionary_encode("encode")
    for form in (values, np.array(values, object), pa.array(values), pa.array(values).dictionary_encode(), with_null):
        with pytest.raises(DomainError) as caught:
            domain.encode(form, column="browser")
        assert re.search(r"'browser': 3 of 5 values .* 2 declared values \(2 of them null\)", str(caught.value))
        assert domain.outside(form).tolist() == Domain(["a", "b"], unmatched="none").outside(form).tolist()
        assert domain.outside(form).tolist() == [False, True, True, False, True]


LABELS = {"str": ["a", "b"], "int": [1, 2], "bool": [False, True]}
TIMES = [pa.timestamp("us"), pa.duration("s")]
TYPES = {
    "str": [pa.int64(), pa.bool_(), pa.float64(), pa.binary(), pa.date32(), pa.dictionary(pa.int8(), pa.int64())],
    "int": [pa.string(), pa.bool_(), pa.float64(), pa.float16(), *TIMES, pa.decimal128(5, 2)],
    "bool": [pa.string(), pa.int8(), pa.uint8(), pa.float32()],
}


@each(("kind", "other"), [(kind, other) for kind, others in TYPES.items() for other in others])
@each("unmatched", ["error", "other", "none"])
def test_another_arrow_type(kind, other, unmatched):
    with pytest.raises(DtypeError, match=f"'c': a domain of {kind} labels cannot encode values of type"):
        Domain(LABELS[kind], unmatched=unmatched).encode(pa.nulls(2, other), column="c")


MIXED, WITH_NAN = np.array(["a", 1.5], object), np.array([1, None, float("nan")], object)
DATES = np.array(["2020-01-01"], "datetime64[D]")
VALUES = {
    "str": [[1, 2], ["a", 1], [b"a"], np.array([1, 2]), np.array([b"a"]), MIXED],
    "int": [[1.0, 2.0], [True, False], [1, True], ["1"], np.array([1.0, 2.0]), np.array([True]), DATES, WITH_NAN],
    "bool": [[0, 1], ["true"], np.array([0, 1]), [None, "x"]],
}


@each(("kind", "values"), [(kind, values) for kind, others in VALUES.items() for values in others])
def test_another_python_type(kind, values):
    with pytest.raises(DtypeError, match=f"'c': a domain of {kind} labels needs {kind} values"):
        Domain(LABELS[kind], unmatched="other").encode(values, column="c")


@each("labels", LABELS.values())
def test_only_nulls(labels):
    nothing = pa.nulls(2, pa.dictionary(pa.int8(), pa.null()))
    for nulls in ([None, None], pa.nulls(2), np.array([None, None]), nothing):
        assert Domain(labels, unmatched="other").encode(nulls).tolist() == [2, 2]
        with pytest.raises(DomainError, match="2 of 2"):
            Domain(labels).encode(nulls)


def test_a_dictionary_index_out_of_bounds_does_not_leave_in_clear():
    """Arrow does not check indices that come from a file or from another library."""
    m = RandomizedResponse(["a", "b", "c"], epsilon=40)
    array = pa.DictionaryArray.from_arrays(pa.array([200, 1], pa.uint8()), pa.array(["a", "b", "c"]), safe=False)
    with pytest.raises(DomainError):
        m.domain.encode(array)


def test_numpy_text_with_a_nul_inside_is_not_taken_for_another_label():
    domain = Domain(["a", "x"], unmatched="other")
    assert domain.encode(["a\0b"]).tolist() == [2]
    assert domain.encode(np.array(["a\0b"])).tolist() == [2]


def dictionary_of(entries):
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(len(entries)), pa.int8()), pa.array(entries))


@each("chunks", [[["a", None], ["b", None]], [[f"{c}{k}" for k in range(100)] for c in "xy"]])
def test_chunks_with_dictionaries_of_their_own(chunks):
    """With nulls in the dictionary; with more entries, together, than an index of theirs can name."""
    codes = Domain(AB, unmatched="other").encode(pa.chunked_array([dictionary_of(entries) for entries in chunks]))
    expected = [AB.index(entry) if entry in AB else 2 for entries in chunks for entry in entries]
    assert codes.tolist() == expected


@each("values", [np.array([[1, 5]]), np.array(1), 1, None, "ab", b"ab"])
def test_what_is_no_column(values):
    with pytest.raises(LdpError, match="'c'"):
        Domain(AB if isinstance(values, str) else [1, 5, 97, 98]).encode(values, column="c")


# ---- intervals of numbers


def test_what_nulls_count_as_is_declared():
    """Nulls of numbers were refused whatever was declared."""
    values = [None, float("nan"), 2.0, 11.0, -1.0]
    declared = {unmatched: Interval(0, 10, unmatched, missing=4) for unmatched in ("error", "clip")}
    assert declared["clip"].encode(values).tolist() == Interval(0, 10).encode([4, 4, 2, 10, 0]).tolist()
    assert declared["clip"].refuses(values).tolist() == [False] * 5
    assert declared["error"].refuses(values).tolist() == [False, False, False, True, True]
    for interval in (*declared.values(), Interval(0, 10)):
        assert interval.outside(values).tolist() == [True, True, False, True, True]
        assert Mechanism.from_dict(Hybrid(interval, epsilon=1.0).to_dict()).inputs == interval
    with pytest.raises(DomainError, match="for nulls missing="):
        Interval(0, 10, "clip").encode(values)
    for missing in (11, float("nan"), "4", True):
        with pytest.raises(DomainError, match="missing must be a number in"):
            Interval(0, 10, missing=missing)


@each("ends", [(2**53, 2**53 + 1), (0, 10**400), (-(10**400), 0)])
def test_ends_of_intervals_are_floats(ends):
    """ZeroDivisionError for ends that are one float, OverflowError for those that are none."""
    with pytest.raises(DomainError, match="interval"):
        Interval(*ends)


def test_a_pair_of_numbers_is_an_interval_or_two_labels():
    for asked in (lambda: Domain((0, 60)), lambda: required_n(None, 0.05, domain=(0.0, 60), epsilon=1.0)):
        with pytest.raises(DomainError, match=r"Interval\(0(\.0)?, 60\).*\[0(\.0)?, 60\]"):
            asked()
    assert Domain([0, 60]).labels == (0, 60)
    assert Domain(("no", "yes")).size == Domain((False, True)).size == 2


def test_half_of_a_surrogate_pair_is_no_text_and_is_called_so():
    """It was "needs str values, got str"; clients in JavaScript refuse it too, whatever becomes of other values."""
    for unmatched in ("error", "other", "none"):
        m = UnaryEncoding(Domain(["a", "b"], unmatched=unmatched), epsilon=1.0)
        for values in (["\ud800"], ["a", "b\udc00"]):
            with pytest.raises(DtypeError, match="got str with half of a surrogate pair"):
                m.perturb(values)
    with pytest.raises(DtypeError, match=r"got int$"):
        m.perturb([1])


def test_numbers_are_of_all_types_of_numpy():
    """Those of one byte were refused, and single records with them dead letters in Beam."""
    mechanism = OneBitMean((0, 10), epsilon=80.0)
    for code in np.typecodes["AllInteger"] + "efd":
        assert mechanism.perturb([np.dtype(code).type(10), 0]).tolist() == [True, False]


def test_zero_has_one_sign():
    """Equal mechanisms had two fingerprints."""
    made = [
        (Interval(zero, 1.0), Interval(-1.0, zero, missing=zero), Cells([-1.0, zero, 1.0], missing=zero))
        for zero in (0.0, -0.0)
    ]
    for one, other in zip(*made, strict=True):
        assert one == other
        assert repr(one) == repr(other)
    named = [(SquareWave(m[0], epsilon=1.0), HierarchicalHistogram(m[2], epsilon=1.0)) for m in made]
    assert len({tuple(m.fingerprint for m in both) for both in named}) == 1
