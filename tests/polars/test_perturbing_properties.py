"""Whatever the domain, the dtype, the chunks and the nulls: one report a row, none of them null, and n counts them."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_polars
from ldp_core import Domain, RandomizedResponse, Tally, UnaryEncoding
from ldp_polars.columns import report_dtype
from ldp_polars.tallying import tally_dtype

from .helpers import histogram_dtype

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
def test_one_report_a_row_and_parts_add_up(data):
    mechanism = data.draw(mechanisms())
    series = data.draw(columns(mechanism.domain))
    packed = data.draw(st.booleans())
    n = len(series)
    out = reports_of(data, series, mechanism, packed=packed)
    assert out.shape == (n, 1)
    assert out.schema["x"] == report_dtype(mechanism, packed=packed)
    assert out["x"].null_count() == 0
    result = out.select(t=ldp_polars.tally("x", mechanism), h=ldp_polars.histogram("x", mechanism))
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
    parts = pl.concat([piece.select(ldp_polars.tally("x", mechanism)) for piece in pieces])
    assert Tally.from_dict(parts.select(ldp_polars.merge("x", mechanism)).item()) == tally
    chunked = pl.concat(pieces, rechunk=False).select(ldp_polars.tally("x", mechanism))
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
