"""A value from the data never appears in an error, a log line, a warning, a repr or a pickle."""

import io
import logging
import pickle
import re
import traceback

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import Domain, DtypeError, Keyed, LdpError, PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding
from ldp_core.estimates.clusters import codes_of

from ..cases import each
from .examples import AB

WORD = "".join(["hunter", "two", "marked"])  # put together here, so that no source line in a traceback holds it
NUMBER = 918_273_000 * 1000 + 645_546
BIG = NUMBER * 10**12
MARKS = (WORD, str(NUMBER), str(BIG), repr(WORD.encode("utf-32-le"))[2:-1])


class Opaque:
    def __repr__(self) -> str:
        return WORD

    def __str__(self) -> str:
        return WORD


NUMBER_TYPES = [pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(38, 0), pa.timestamp("us"), pa.duration("us")]
SECRETS = {
    "str": [WORD],
    "str and null": [WORD, None],
    "str and label": ["a", WORD],
    "int": [NUMBER],
    "big int": [BIG],
    "negative big int": [-BIG, 1],
    "float": [float(NUMBER)],
    "bytes": [WORD.encode()],
    "mixed": [WORD, 1],
    "mixed the other way": [1, WORD, True],
    "nested": [[WORD], WORD],
    "dict": [{WORD: 1}],
    "tuple": [(WORD, NUMBER)],
    "opaque": [Opaque()],
    "opaque and label": ["a", Opaque()],
    "numpy U": np.array([WORD]),
    "numpy S": np.array([WORD.encode()]),
    "numpy object": np.array([WORD, 1, None], object),
    "numpy object of opaque": np.array([Opaque(), None], object),
    "numpy int": np.array([NUMBER]),
    "numpy uint": np.array([NUMBER + 2**63], np.uint64),
    "numpy float": np.array([float(NUMBER)]),
    "numpy datetime": np.array([NUMBER], "datetime64[us]"),
    "numpy structured": np.array([(NUMBER,)], [("a", "i8")]),
    "numpy scalar": [np.int64(NUMBER)],
    "arrow dictionary": pa.array([WORD, "a"]).dictionary_encode(),
    "arrow large": pa.array([WORD], pa.large_string()),
    "arrow view": pa.array([WORD], pa.string_view()),
    "arrow binary": pa.array([WORD.encode()], pa.binary()),
    "arrow struct": pa.array([{"a": WORD}]),
    "arrow struct of keys": pa.array([{WORD: 1}]),
    "arrow list of keys": pa.array([[{WORD: 1}]]),
    "arrow list": pa.array([[WORD]]),
    "arrow fixed list": pa.array([[WORD, WORD]], pa.list_(pa.string(), 2)),
    "arrow map": pa.array([[(WORD, 1)]], pa.map_(pa.string(), pa.int64())),
    "arrow run ends": pa.RunEndEncodedArray.from_arrays([1], pa.array([WORD])),
    "arrow chunks": pa.chunked_array([["a"], [WORD]]),
    "arrow bad utf-8": pa.array([WORD.encode() + b"\xff"], pa.binary()).view(pa.string()),
    **{f"arrow {t}": pa.array([NUMBER], pa.int64()).cast(t, safe=False) for t in [*NUMBER_TYPES, pa.string()]},
}
DOMAINS = {
    "str": Domain(["a", "b"]),
    "int": Domain([1, 5]),
    "consecutive": Domain([1, 2]),
    "bool": Domain([False, True]),
    "other": Domain(["a", "b"], unmatched="other"),
    "int other": Domain([1, 5], unmatched="other"),
}
MECHANISMS = {
    f"{domain} {make.__name__}": make(DOMAINS[domain], epsilon=1)
    for domain in DOMAINS
    for make in ((RandomizedResponse, UnaryEncoding) if domain in ("str", "other") else (RandomizedResponse,))
}


def everything_said(error: BaseException, seen: set[int] | None = None) -> str:
    """All that a log, a debugger without locals or an error tracker could show of an exception."""
    seen = set() if seen is None else seen
    if id(error) in seen:
        return ""
    seen.add(id(error))
    said = [str(error), repr(error), repr(error.args), repr(vars(error)), *getattr(error, "__notes__", [])]
    said += [repr(getattr(error, name)) for name in ("object", "reason", "doc", "name", "obj") if hasattr(error, name)]
    said += traceback.format_exception(error)
    for more in (error.__cause__, error.__context__):
        if more is not None:
            said.append(everything_said(more, seen))
    return "\n".join(said)


def assert_silent(text: str) -> None:
    squeezed = re.sub(r"[,_]", "", text)
    for mark in MARKS:
        assert mark not in text
        assert mark not in squeezed


@pytest.fixture
def heard(caplog, capfd, recwarn):
    """Call a function; its error may be of this project only, and nothing may be heard of the secret."""

    def call(function):
        with caplog.at_level(logging.DEBUG):
            try:
                result = function()
            except Exception as error:
                raised, result = error, None
            else:
                raised = None
        if raised is not None:
            assert_silent(everything_said(raised))
            assert isinstance(raised, LdpError), everything_said(raised)
            assert isinstance(raised, (ValueError, TypeError))
            assert type(raised)("again").args == ("again",)
            assert raised.__context__ is None
            assert "'browser'" in str(raised)
        captured = capfd.readouterr()
        assert_silent(caplog.text + captured.out + captured.err + "".join(str(w.message) for w in recwarn))
        return result

    return call


@each("secret", SECRETS)
@each("name", MECHANISMS)
@pytest.mark.slow
def test_values_are_not_quoted(heard, name, secret):
    """Nor raw values where reports are expected."""
    m, values = MECHANISMS[name], SECRETS[secret]
    heard(lambda: m.perturb(values, column="browser"))
    heard(lambda: m.domain.encode(values, column="browser"))
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        heard(lambda: m.tally(values, column="browser"))
    else:
        heard(lambda: m.perturb(iter(list(values)), column="browser"))
        heard(lambda: m.perturb(tuple(values), column="browser"))
    if isinstance(values, pa.Array):
        batch = pa.record_batch({"browser": values, "dropped": pa.array([WORD] * len(values))})
        report = heard(lambda: PrivacyPlan({"browser": m}).perturb(batch))
        if report is not None:
            assert_silent(repr(report) + str(report.schema.metadata) + str(report.to_pylist()))


def test_ids_are_not_quoted():
    """Keys of dictionaries become names of fields."""
    hidden = [{WORD: 1}], [[{WORD: 1}]], [WORD, 1], [WORD + "\ud800"], pa.array([{WORD: 1}]), pa.array([[{WORD: 1}]])
    for ids in hidden:
        for function in (
            lambda ids: Keyed(Secret(bytes(32)), ids, column="browser"),
            lambda ids: codes_of(ids, len(ids)),
        ):
            with pytest.raises(DtypeError) as caught:
                function(ids)
            assert_silent(everything_said(caught.value))


def test_mechanisms_hold_nothing_of_the_data():
    values = pa.array(["a", WORD, None])
    for m in (RandomizedResponse(DOMAINS["other"], epsilon=1), UnaryEncoding(DOMAINS["other"], epsilon=1)):
        fresh = pickle.dumps(m)
        tally = m.tally(m.perturb(values))
        assert pickle.dumps(m) == fresh
        said = repr(m) + repr(vars(m)) + repr(vars(m.domain)) + repr(tally) + repr(m.estimate(tally))
        assert_silent(said + pickle.dumps(tally).decode("latin-1"))


def test_the_scan_finds_a_secret_wherever_it_is():
    """The check itself, on errors as Python and Arrow raise them."""

    def chained():
        try:
            pa.array([WORD, 1], pa.int64())
        except pa.ArrowException:
            raise ValueError("cannot encode") from None

    def quoting():
        int(WORD)

    def noted():
        error = ValueError("no")
        error.add_note(WORD)
        raise error

    for fault in (chained, quoting, noted, (WORD + "\ud800").encode, lambda: {}[WORD]):
        try:
            fault()
        except Exception as error:
            said = everything_said(error)
        with pytest.raises(AssertionError):
            assert_silent(said)
    log = io.StringIO(f"value {NUMBER:,}")
    with pytest.raises(AssertionError):
        assert_silent(log.read())


SURROGATE = WORD + "\ud800"


@each("values", [[SURROGATE], np.array([SURROGATE], object), np.array([SURROGATE])])
def test_text_that_is_not_unicode_and_objects_given_as_reports_are_refused_silently(values):
    ways = [RandomizedResponse(AB, epsilon=1).perturb, UnaryEncoding(Domain(AB, unmatched="other"), epsilon=1).perturb]
    reports = [[1, WORD, None], np.array([1, WORD, None], object)]
    calls = [(way, values) for way in ways]
    calls += [(kind([1, 2], epsilon=1).tally, one) for kind in (RandomizedResponse, UnaryEncoding) for one in reports]
    for call, given in calls:
        with pytest.raises(Exception) as caught:  # noqa: PT011 (whatever it is, it must be silent)
            call(given)
        assert_silent(everything_said(caught.value).encode(errors="replace").decode())
        assert isinstance(caught.value, LdpError)
