"""Columns of every dtype, nulls and values outside the domain: what is taken, what is refused, what is never said."""

import datetime as dt
import decimal
import io
import logging
import pickle
import traceback
from itertools import pairwise, product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_polars
from ldp_core import (
    Domain,
    DomainError,
    DtypeError,
    Interval,
    LdpError,
    OneBitMean,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    Tally,
    UnaryEncoding,
)
from ldp_polars.columns import report_dtype, to_arrow
from ldp_polars.tallying import tally_dtype

from ..cases import case
from .helpers import histogram_dtype

LABELS = ["ios", "android", "web"]
KEY = Secret.from_seed(1)
INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128]


def exact(domain):
    """A mechanism that hardly ever lies: its reports show which values it saw."""
    return RandomizedResponse(domain, epsilon=100.0)


def reports(values, mechanism, **options):
    df = values.alias("x").to_frame()
    out = df.select(ldp_polars.perturb("x", mechanism, **options, typed=False))["x"]
    lazy = df.lazy().select(ldp_polars.perturb("x", mechanism, **options, typed=False)).collect(engine="streaming")["x"]
    assert lazy.dtype == out.dtype
    assert len(lazy) == len(out) == len(values)
    assert out.null_count() == lazy.null_count() == 0
    return out


TEXT_DTYPES = {
    "String": pl.String,
    "Categorical": pl.Categorical,
    "Categorical named": pl.Categorical(pl.Categories("test.ldp")),
    "Enum same": pl.Enum(LABELS),
    "Enum other order": pl.Enum(LABELS[::-1]),
    "Enum superset": pl.Enum(["zz", "web", "yy", "ios", "android"]),
    "Enum prefix superset": pl.Enum([*LABELS, "zz"]),
}


def test_text():
    """Categoricals share their categories process-wide: the codes of these columns are not 0, 1, 2."""
    pl.Series([f"noise{i}" for i in range(300)], dtype=pl.Categorical)
    values, other = ["web", "ios", "android", "android", "web"] * 3, Domain(LABELS, unmatched="other")
    for name, dtype in TEXT_DTYPES.items():
        with case(name):
            series = pl.Series(values, dtype=dtype)
            out = reports(series, exact(LABELS))
            assert out.to_list() == values
            assert out.dtype == pl.Enum(LABELS)
            assert reports(series[4:9], exact(LABELS)).to_list() == values[4:9]
            out = reports(pl.Series([*values, None, "ios", None], dtype=dtype), exact(other))
            assert out.to_list() == [*values, "other", "ios", "other"]
            assert out.dtype == pl.Enum(other.values)
    for categories in (["web"], ["android", "ios"], ["ios", "android"], ["ios"], ["zz"], []):
        with case("an Enum of fewer categories", categories):
            out = reports(pl.Series([*categories, None, *categories], dtype=pl.Enum(categories)), exact(other))
            assert out.to_list() == [v if v in LABELS else "other" for v in [*categories, None, *categories]]
    assert reports(pl.Series(["web", "zz"], dtype=pl.Categorical), exact(other)).to_list() == ["web", "other"]
    labels = ["", "é", "🦊", "a" * 100, "日本"]
    for dtype in (pl.String, pl.Categorical, pl.Enum(labels)):
        assert reports(pl.Series(labels, dtype=dtype), exact(labels)).to_list() == labels


def test_integers_of_every_width():
    for labels in ([1, 2, 3], [3, 7, 2], [0, 100, 5]):
        for dtype in INTEGERS:
            with case(labels, dtype):
                out = reports(pl.Series(labels * 3, dtype=dtype), exact(labels))
                assert out.dtype == pl.Int64
                assert out.to_list() == labels * 3
                ends = pl.select(dtype.min().alias("a"), dtype.max().alias("b")).row(0)
                values = [labels[0], None, *ends, labels[-1], 99]
                out = reports(pl.Series(values, dtype=dtype), exact(Domain(labels, unmatched="other")))
                assert out.to_list() == [str(v) if v in labels else "other" for v in values]


def test_integers_at_the_ends_of_64_bits():
    for labels in ([-(2**63), 0, 2**63 - 1], [2**63 - 3, 2**63 - 2, 2**63 - 1], [-(2**63), 1 - 2**63]):
        m, values = exact(Domain(labels, unmatched="other")), [*labels, -1, 1, None, 2**62]
        expected = [str(v) if v in labels else "other" for v in values]
        with case(labels):
            assert reports(pl.Series(values, dtype=pl.Int64), m).to_list() == expected
            assert reports(pl.Series(values[:-2], dtype=pl.Int64), m).to_list() == expected[:-2]
            wrapped = [(v + 2**64) % 2**64 for v in labels if v < 0] + [2**64 - 1]
            assert set(reports(pl.Series(wrapped, dtype=pl.UInt64), m)) == {"other"}
            wrapped = [v + 2**64 for v in labels] + [v - 2**64 for v in labels]
            assert set(reports(pl.Series(wrapped, dtype=pl.Int128), m)) == {"other"}


def test_booleans():
    values = [True, False, False, True] * 5
    for order in ((False, True), (True, False)):
        assert reports(pl.Series(values), exact(order)).to_list() == values
        assert reports(pl.Series(values)[3:14], exact(order)).to_list() == values[3:14]
        with_null = pl.Series([*values, None])
        expected = [*(str(v).lower() for v in values), "other"]
        assert reports(with_null, exact(Domain(order, unmatched="other"))).to_list() == expected


def test_bit_vectors_show_the_value():
    """SUE at epsilon 200: one-hot rows, all zero for what is not in the domain under "none"."""
    for dtype in (pl.String, pl.Categorical, pl.Enum([*LABELS, "zz"])):
        series = pl.Series(["web", None, "ios", "zz"], dtype=dtype)
        none = UnaryEncoding(Domain(LABELS, unmatched="none"), epsilon=200.0, variant="symmetric")
        assert reports(series, none).to_list() == [[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]]
        assert reports(series, none, packed=True).to_list() == [[4], [0], [1], [0]]
        other = UnaryEncoding(Domain(LABELS, unmatched="other"), epsilon=200.0, variant="symmetric")
        assert reports(series, other, packed=True).to_list() == [[4], [8], [1], [8]]


def test_a_column_without_a_dtype():
    for n in (0, 1, 5):
        null = pl.Series("x", [None] * n, dtype=pl.Null)
        for kind in (LABELS, [1, 2], [True, False]):
            with case(n, kind):
                assert reports(null, exact(Domain(kind, unmatched="other"))).to_list() == ["other"] * n
                none = UnaryEncoding(Domain(kind, unmatched="none"), epsilon=200.0, variant="symmetric")
                assert reports(null, none).to_list() == [[False] * len(kind)] * n
            if n:
                with case(kind), pytest.raises(DomainError, match=rf"'x': {n} of {n} .*\({n} of them null\)"):
                    null.to_frame().select(ldp_polars.perturb("x", exact(kind), typed=False))


# ---- refused, and how


WRONG = {
    "Float64": pl.Series([1.5]),
    "Float32": pl.Series([1.5], dtype=pl.Float32),
    "Date": pl.Series([dt.date(2020, 1, 1)]),
    "Datetime": pl.Series([dt.datetime(2020, 1, 1)]),
    "Datetime tz": pl.Series([dt.datetime(2020, 1, 1)]).dt.replace_time_zone("UTC"),
    "Duration": pl.Series([dt.timedelta(1)]),
    "Time": pl.Series([dt.time(1)]),
    "List": pl.Series([["ios"]]),
    "Array": pl.Series([["ios"]], dtype=pl.Array(pl.String, 1)),
    "Struct": pl.Series([{"a": "ios"}]),
    "Binary": pl.Series([b"ios"]),
    "Object": pl.Series([object()], dtype=pl.Object),
    "Decimal": pl.Series([decimal.Decimal("1.50")]),
}


def test_wrong_dtypes_are_refused_by_name(run, engine):
    for name, labels, unmatched in product(WRONG, (LABELS, [1, 2], [True, False]), ("error", "other", "none")):
        if name == "Object" and engine.startswith("sink"):  # no file holds objects
            continue
        noise = ldp_polars.perturb("a", UnaryEncoding(Domain(labels, unmatched=unmatched), epsilon=1.0), typed=False)
        with case(name, labels, unmatched), pytest.raises(DtypeError, match="column 'a'") as info:
            run(WRONG[name].alias("a").to_frame(), lambda f, noise=noise: f.select(noise))
        assert isinstance(info.value, TypeError)


def test_kinds_do_not_mix():
    kinds = {"str": (LABELS, ["1"]), "int": ([1, 2], [1]), "bool": ([True, False], [True])}
    for declared, found, unmatched in product(kinds, kinds, ("error", "other")):
        if declared != found:
            noise = ldp_polars.perturb("x", exact(Domain(kinds[declared][0], unmatched=unmatched)), typed=False)
            with case(declared, found, unmatched), pytest.raises(DtypeError, match="column 'x'"):
                pl.DataFrame({"x": kinds[found][1]}).select(noise)


def test_unmatched_values_are_counted():
    for dtype in (pl.String, pl.Categorical, pl.Enum([*LABELS, "zz", "yy"])):
        df = pl.Series("os", ["ios", "zz", None, "yy", "web"], dtype=dtype).to_frame()
        for mechanism in (exact(LABELS), UnaryEncoding(LABELS, epsilon=1.0)):
            counted = r"column 'os': 3 of 5 values are not in .*\(1 of them null\)"
            with case(dtype, mechanism), pytest.raises(DomainError, match=counted):
                df.select(ldp_polars.perturb("os", mechanism, typed=False))


SECRET_TEXT, SECRET_INT = "s3cr3t-value", 8_675_309_123

SECRETS = [
    (pl.Series(["ios", SECRET_TEXT]), LABELS),
    (pl.Series(["ios", SECRET_TEXT], dtype=pl.Categorical), LABELS),
    (pl.Series(["ios", SECRET_TEXT], dtype=pl.Enum(["ios", SECRET_TEXT])), LABELS),
    (pl.Series([SECRET_TEXT]), [1, 2]),
    (pl.Series([[SECRET_TEXT]]), LABELS),
    (pl.Series([{"a": SECRET_TEXT}]), LABELS),
    (pl.Series([{SECRET_TEXT: "a"}]), LABELS),
    (pl.Series([SECRET_TEXT], dtype=pl.Object), LABELS),
    (pl.Series([SECRET_TEXT.encode()]), LABELS),
    (pl.Series([1, SECRET_INT]), [1, 2]),
    (pl.Series([1, SECRET_INT]), [5, 1, 2]),
    (pl.Series([1, SECRET_INT], dtype=pl.UInt64), [5, 1, 2]),
    (pl.Series([1, SECRET_INT * 10**12], dtype=pl.Int128), [1, 2]),
    (pl.Series([float(SECRET_INT)]), [1, 2]),
    (pl.Series([decimal.Decimal(SECRET_INT)]), [1, 2]),
    (pl.Series([SECRET_INT]), LABELS),
]


def test_a_value_is_never_quoted(run, engine, caplog, capfd):
    """Not in the message, the chain, the traceback, the log, or what is printed."""
    caplog.set_level(logging.DEBUG)
    for (values, labels), kind in product(SECRETS, ("perturb", "tally")):
        if values.dtype == pl.Object and engine.startswith("sink"):  # no file holds objects
            continue
        expr = getattr(ldp_polars, kind)("x", exact(labels))
        with case(values.dtype, labels, kind), pytest.raises(Exception) as info:  # noqa: PT011 (every kind of error)
            run(values.alias("x").to_frame(), lambda f, expr=expr: f.select(expr))
        error, said = info.value, []
        while error is not None:
            said += [str(error), repr(error), *map(str, error.args), *map(str, getattr(error, "__notes__", []))]
            said += traceback.format_exception(error, chain=False)
            error = error.__cause__ or error.__context__
        captured = capfd.readouterr()
        said += [caplog.text, captured.out, captured.err]
        for text in said:
            with case(values.dtype, labels, kind):
                assert SECRET_TEXT not in text
                assert str(SECRET_INT)[:6] not in text


def test_a_dtype_is_named_without_categories_and_fields():
    """An Enum of a column's own values has them all, a Struct the keys of records in JSON."""
    plan, x = PrivacyPlan({"x": exact(LABELS)}), pl.col("x").ldp
    tried = {
        "tally": lambda f: f.select(x.tally()),
        "histogram": lambda f: f.select(x.histogram()),
        "merge": lambda f: f.select(x.merge(plan["x"])),
        "window": lambda f: f.select(ldp_polars.window_start(pl.col("x"), "1d")),
        "plan": lambda f: f.ldp.histograms(plan, assume_reports=True),
        "declared": lambda f: f.select(x.randomized_response(epsilon=1.0)),
        "id": lambda f: f.select(pl.lit("ios").ldp.perturb(plan["x"], key=KEY, id="x", tag="x")),
    }
    for values in (pl.Series([SECRET_TEXT], dtype=pl.Enum([SECRET_TEXT, "web"])), pl.Series([{SECRET_TEXT: 1}])):
        for name, function in tried.items():
            if values.dtype == pl.Enum and name in ("declared", "id"):  # which it may be
                continue
            with case(values.dtype, name), pytest.raises(LdpError) as info:
                function(values.alias("x").to_frame())
            assert SECRET_TEXT not in str(info.value)
            assert str(values.dtype.base_type()).lower() in str(info.value).lower()


def test_plans_hold_no_values():
    """Expressions, and plans over a file, hold the declared domain and nothing from the data."""
    df = pl.DataFrame({"x": ["ios", SECRET_TEXT]})
    expr = ldp_polars.perturb("x", RandomizedResponse(Domain(LABELS, unmatched="other"), epsilon=1.0), typed=False)
    df.select(expr)
    for stored in (pickle.dumps(expr), expr.meta.serialize(), str(expr).encode(), repr(expr).encode()):
        assert SECRET_TEXT.encode() not in stored
        assert b"s3cr3t" not in stored
    buffer = io.BytesIO()
    df.lazy().select(expr).sink_parquet(buffer)
    assert SECRET_TEXT.encode() not in buffer.getvalue()
    # the check has power: the frame's own bytes do hold it
    buffer = io.BytesIO()
    df.write_parquet(buffer)
    assert SECRET_TEXT.encode() in buffer.getvalue()


def test_numbers_of_any_dtype():
    m = OneBitMean((0.0, 10.0), epsilon=80.0)
    for dtype in (pl.Float32, pl.Int8, pl.UInt64, pl.Decimal(10, 2), pl.Int128):
        with case(dtype):
            assert reports(pl.Series([0, 10, 10]).cast(dtype), m).to_list() == [False, True, True]
    clip = Interval(0.0, 10.0, unmatched="clip", missing=0.0)
    for dtype, far in ((pl.Int128, 2**100), (pl.UInt128, 2**127)):  # beyond 64 bits it is a number, too, and no null
        column = pl.Series("x", [far, None], dtype=dtype)
        assert reports(column, OneBitMean(clip, epsilon=80.0)).to_list() == [True, False]
        drawn = PrivacyPlan.sampled({"x": OneBitMean(clip, epsilon=80.0), "y": [0, 1]}, epsilon=80.0)
        frame = pl.DataFrame({"x": [column[0], None] * 20, "y": [1] * 40}, schema_overrides={"x": dtype})
        both = [f.with_row_index("id").ldp.perturb(drawn, key=KEY, id="id") for f in (frame, frame.cast({"x": float}))]
        assert both[0].equals(both[1])
        with pytest.raises(DomainError, match=r"2 of 2 values .*\(1 of them null"):
            OneBitMean((0.0, 10.0), epsilon=80.0).perturb(to_arrow(column, "float"))


# ---- whatever the domain, the dtype, the chunks and the nulls: one report a row, none of them null, and n counts them


fewer = settings(max_examples=60)


@st.composite
def domains(draw):
    kind = draw(st.sampled_from(["str", "int", "range", "bool", "large"]))
    unmatched = draw(st.sampled_from(["error", "other", "none"]))
    if kind == "bool":
        labels = draw(st.sampled_from([[False, True], [True, False]]))
    elif kind == "large":
        labels = [f"v{i}" for i in range(draw(st.integers(2, 5000)))]
    elif kind == "range":
        first = draw(st.integers(-(2**31), 2**31))
        labels = list(range(first, first + draw(st.integers(2, 400))))
    else:
        clean = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
        text = clean.filter(lambda t: t != "other")
        items = text if kind == "str" else st.integers(-(2**63), 2**63 - 1)
        labels = draw(st.lists(items, min_size=2, max_size=20, unique=True))
    return Domain(labels, unmatched=unmatched)


@st.composite
def mechanisms(draw):
    domain = draw(domains())
    epsilon = draw(st.floats(0.01, 20))
    kinds = ["optimized", "symmetric"] + ["rr"] * (domain.unmatched != "none")
    kind = draw(st.sampled_from(kinds))
    if kind == "rr":
        return RandomizedResponse(domain, epsilon=epsilon)
    return UnaryEncoding(domain, epsilon=epsilon, variant=kind)


@st.composite
def columns(draw, domain):
    """A column of values of the domain (and, where it allows them, nulls and strangers), in chunks."""
    labels = list(domain.labels[:50]) + list(domain.labels[-2:])
    allowed = st.sampled_from(labels)
    dtypes = {"bool": [pl.Boolean], "int": [pl.Int64, pl.Int128], "str": [pl.String, pl.Categorical]}[domain.kind]
    if domain.kind == "str":
        dtypes += [pl.Enum(domain.labels), pl.Enum(domain.labels[::-1])]
    if domain.kind == "int" and max(labels) < 2**31 and min(labels) >= 0:
        dtypes += [pl.Int32, pl.UInt32, pl.UInt64]
    dtype = draw(st.sampled_from(dtypes))
    if domain.unmatched != "error":
        allowed = allowed | st.none()
    chunks = draw(st.lists(st.lists(allowed, max_size=30), min_size=1, max_size=4))
    series = pl.concat([pl.Series("x", chunk, dtype=dtype) for chunk in chunks], rechunk=False)
    start = draw(st.integers(0, len(series)))
    return series[start:] if draw(st.booleans()) else series


def reports_of(data, series, mechanism, **options):
    """The reports of a column, made by one of the engines."""
    noise = ldp_polars.perturb("x", mechanism, **options, typed=False)
    engine = data.draw(st.sampled_from(["eager", "in-memory", "streaming"]))
    df = series.to_frame()
    return df.select(noise) if engine == "eager" else df.lazy().select(noise).collect(engine=engine)


@fewer
@given(st.data())
@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_one_report_a_row_and_parts_add_up(data):
    mechanism = data.draw(mechanisms())
    series = data.draw(columns(mechanism.domain))
    packed = data.draw(st.booleans())
    n = len(series)
    out = reports_of(data, series, mechanism, packed=packed)
    assert out.shape == (n, 1)
    assert out.schema["x"] == report_dtype(mechanism, packed=packed)
    assert out["x"].null_count() == 0
    counted = ldp_polars.tally("x", mechanism, assume_reports=True)
    result = out.select(t=counted, h=ldp_polars.histogram("x", mechanism, assume_reports=True))
    assert result.schema == {"t": tally_dtype(mechanism), "h": histogram_dtype(mechanism)}
    tally = Tally.from_dict(result["t"][0])
    assert tally.n == n
    assert tally == mechanism.tally(out["x"].to_arrow())
    assert tally.counters.min() >= 0
    assert tally.counters.max() <= n
    assert len(result["h"][0]) == mechanism.domain.size
    if isinstance(mechanism, RandomizedResponse):
        assert tally.counters.sum() == n
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=3)))
    pieces = [out[a:b] for a, b in pairwise([0, *cuts, n])]
    parts = pl.concat([piece.select(counted) for piece in pieces])
    assert Tally.from_dict(parts.select(ldp_polars.merge("x", mechanism)).item()) == tally
    chunked = pl.concat(pieces, rechunk=False).select(counted)
    assert Tally.from_dict(chunked.item()) == tally


@fewer
@given(st.data())
def test_without_noise_reports_are_the_values(data):
    domain = data.draw(domains().filter(lambda d: d.unmatched != "none"))
    series = data.draw(columns(domain))
    out = reports_of(data, series, RandomizedResponse(domain, epsilon=100.0))["x"]
    values = list(series)
    if out.dtype == pl.Enum and domain.kind != "str":
        values = [v if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    assert out.to_list() == ["other" if v is None else v for v in values]
