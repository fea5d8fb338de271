"""Tallies of parts add up to the tally of the whole, keep who made them, and survive storage."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import ldp_polars
from ldp_core import (
    Domain,
    LdpError,
    LdpWarning,
    MechanismMismatchError,
    RandomizedResponse,
    ReportError,
    UnaryEncoding,
)
from ldp_polars.tallying import tally_dtype

from ..cases import case
from .helpers import some

LABELS = ["ios", "android", "web"]
MECHANISMS = {
    "rr bool": RandomizedResponse(epsilon=1.0),
    "rr str other": RandomizedResponse(Domain(LABELS, unmatched="other"), epsilon=1.0),
    "rr int": RandomizedResponse([5, 6, 7], epsilon=1.0),
    "oue": UnaryEncoding(LABELS, epsilon=1.0),
    "oue 70": UnaryEncoding(Domain(range(70), unmatched="none"), epsilon=1.0),
}
N = 500


@pytest.fixture(params=some(MECHANISMS, "rr str other", "oue 70"))
def mechanism(request):
    return MECHANISMS[request.param]


def reports(mechanism, n=N, **options):
    rng = np.random.default_rng(5)
    labels = list(mechanism.domain.labels)
    df = pl.DataFrame(
        {
            "x": [labels[i] for i in rng.integers(0, len(labels), n)],
            "g": rng.integers(0, 4, n),
            "h": rng.integers(0, 3, n),
            "i": np.arange(n),
        }
    )
    return df.with_columns(r=ldp_polars.perturb("x", mechanism, **options)).drop("x")


def test_merge_of_parts_is_the_tally_of_all(mechanism, run):
    df = reports(mechanism)
    whole = df.select(pl.col("r").ldp.tally(mechanism)).item()
    tally, merge = pl.col("r").ldp.tally(mechanism), pl.col("r").ldp.merge(mechanism)
    for transform in (
        lambda f: f.group_by("g").agg(tally).select(merge),
        lambda f: f.group_by("g", "h").agg(tally).group_by("g").agg(merge).select(merge),
        lambda f: f.group_by_dynamic("i", every="7i").agg(tally).select(merge),
        lambda f: f.select(tally, "g").unique("g").head(1).select(merge),
        lambda f: pl.concat([f.filter(pl.col("g") < 2).select(tally), f.filter(pl.col("g") >= 2).select(tally)]).select(
            merge
        ),
        lambda f: f.select(tally.ldp.merge(mechanism)),
    ):
        assert run(df, transform).to_series().to_list()[0] == whole


OTHERS = {
    "epsilon": lambda m: type(m)(m.domain, epsilon=1.5),
    "unmatched": lambda m: UnaryEncoding(Domain(m.domain.labels), epsilon=1.0),
    "order": lambda m: type(m)(Domain(m.domain.labels[::-1], unmatched=m.domain.unmatched), epsilon=1.0),
    "size": lambda m: UnaryEncoding([f"v{i}" for i in range(99)], epsilon=1.0),
}


def asks(mechanism):
    """Of tallies."""
    return [ldp_polars.merge("r", mechanism), ldp_polars.histogram("r", mechanism)]


def test_tallies_of_another_mechanism_are_refused(mechanism, run):
    tallies = reports(mechanism).group_by("g").agg(pl.col("r").ldp.tally(mechanism))
    for name, make in OTHERS.items():
        another = make(mechanism)
        if another.fingerprint == mechanism.fingerprint:  # one that cannot vary in this
            continue
        for ask in asks(another):
            with case(name), pytest.raises(MechanismMismatchError, match="column 'r'"):
                run(tallies, lambda f, ask=ask: f.select(ask))


def test_one_foreign_tally_among_many_is_refused(run):
    m, other = UnaryEncoding(LABELS, epsilon=1.0), UnaryEncoding(LABELS, epsilon=1.1)
    tallies = reports(m).group_by("g").agg(pl.col("r").ldp.tally(m))
    foreign = reports(other).select(pl.lit(9).cast(pl.Int64).alias("g"), pl.col("r").ldp.tally(other))
    for ask in asks(m):
        with pytest.raises(MechanismMismatchError, match=r"1 of \d tallies"):
            run(pl.concat([tallies, foreign]), lambda f, ask=ask: f.select(ask))


def test_what_is_no_tally_or_has_holes_is_refused():
    m = UnaryEncoding(LABELS, epsilon=1.0)
    row = reports(m).select(pl.col("r").ldp.tally(m)).item()
    for hole in ({"n": None}, {"counters": None}, {"fingerprint": None}, {"counters": [1, None, 2]}):
        tallies = pl.DataFrame({"r": pl.Series([row, row | hole], dtype=tally_dtype(m))})
        for ask in asks(m):
            with case(hole), pytest.raises(MechanismMismatchError, match="column 'r'"):
                tallies.select(ask)
    for values in ([1], ["a"], [True], [{"n": 1}]):
        frame = pl.DataFrame({"r": values})
        with pytest.raises(MechanismMismatchError, match="column 'r': tallies of this mechanism are"):
            frame.select(ldp_polars.merge("r", m))
        with pytest.raises(ReportError, match="column 'r'"), pytest.warns(LdpWarning, match="nothing proves"):
            frame.select(ldp_polars.histogram("r", m, assume_reports=True))


def test_tallies_that_another_program_wrote_are_cast(tmp_path):
    """Tallies of NDJSON, DuckDB or pandas, which have lists, were refused without a remedy."""
    m = UnaryEncoding(LABELS, epsilon=1.0)
    tallies = reports(m).group_by("g").agg(pl.col("r").ldp.tally(m)).sort("g")
    tallies.write_ndjson(tmp_path / "t.ndjson")
    read = pl.read_ndjson(tmp_path / "t.ndjson")
    with pytest.raises(MechanismMismatchError, match="cast those that another program wrote to that dtype"):
        read.select(pl.col("r").ldp.merge(m))
    assert_frame_equal(read.with_columns(pl.col("r").cast(tally_dtype(m))), tallies)


def test_null_and_missing_tallies(mechanism, run):
    """A window without data (a left join): merge passes over it, histogram gives null."""
    tallies = reports(mechanism).group_by("g").agg(pl.col("r").ldp.tally(mechanism)).sort("g")
    holes = pl.DataFrame({"g": [9, 0, 8, 3, 1, 7, 2]}).join(tallies, on="g", how="left", maintain_order="left")
    assert holes["r"].null_count() == 3
    merged = run(holes, lambda f: f.select(pl.col("r").ldp.merge(mechanism))).item()
    assert merged == tallies.select(pl.col("r").ldp.merge(mechanism)).item()
    out = run(holes, lambda f: f.with_columns(pl.col("r").ldp.histogram(mechanism)))
    whole = dict(tallies.with_columns(pl.col("r").ldp.histogram(mechanism)).iter_rows())
    assert out.rows() == [(g, whole.get(g)) for g in holes["g"]]
    only = holes.filter(pl.col("r").is_null())
    assert run(only, lambda f: f.select(pl.col("r").ldp.histogram(mechanism)))["r"].to_list() == [None] * 3
    empty = {"n": 0, "counters": [0] * mechanism.domain.size, "fingerprint": mechanism.fingerprint}
    assert run(only, lambda f: f.select(pl.col("r").ldp.merge(mechanism))).item() == empty


def test_huge_counts_do_not_wrap():
    m = UnaryEncoding(LABELS, epsilon=1.0)
    row = {"n": 2**60, "counters": [2**59, 2**60, 0], "fingerprint": m.fingerprint}
    df = pl.DataFrame({"r": pl.Series([row, row], dtype=tally_dtype(m))})
    merged = df.select(pl.col("r").ldp.merge(m)).item()
    assert (merged["n"], merged["counters"]) == (2**61, [2**60, 2**61, 0])
    with pytest.raises(ReportError, match="at most 3074457345618258602 reports"):
        pl.concat([df, df]).select(pl.col("r").ldp.merge(m))


@pytest.mark.parametrize(
    ("n", "counters"),
    [(-1, [0, 0, 0]), (0, [-1, -2, 0]), (1, [-1, -2, 0]), (5, [6, 0, 0]), (2**62, [2**62] * 3), (2**63 - 1, [0] * 3)],
)
def test_one_forged_tally_does_not_hide_behind_the_others(n, counters):
    """With n = 1 and counts below 0 it took others' counts away; n = -1 took a report away."""
    m = UnaryEncoding(LABELS, epsilon=1.0)
    honest = {"n": 10, "counters": [7, 6, 3], "fingerprint": m.fingerprint}
    row = {"n": n, "counters": counters, "fingerprint": m.fingerprint}
    df = pl.DataFrame({"r": pl.Series([honest, row, honest, None], dtype=tally_dtype(m))})
    for expr in (pl.col("r").ldp.merge(m), pl.col("r").ldp.histogram(m)):
        with pytest.raises(ReportError, match="column 'r': 1 of 3 tallies"):
            df.select(expr)


# ---- what is no report


BAD = {
    "null": lambda s: pl.concat([s, pl.Series(s.name, [None], dtype=s.dtype)]),
    "string": lambda s: pl.Series(s.name, ["zz"] * len(s)),
    "float": lambda s: pl.Series(s.name, [0.5] * len(s)),
    "list": lambda s: pl.Series(s.name, [[True]] * len(s)),
    "array": lambda s: pl.Series(s.name, [[True, False]] * len(s), dtype=pl.Array(pl.Boolean, 2)),
    "array of bytes": lambda s: pl.Series(s.name, [[1] * 3] * len(s), dtype=pl.Array(pl.UInt8, 3)),
    "inner null": lambda s: pl.Series(s.name, [[True, None, False]] * len(s), dtype=pl.Array(pl.Boolean, 3)),
    "padding": lambda s: pl.Series(s.name, [[2**63, 2**63]] * len(s), dtype=pl.Array(pl.UInt64, 2)),
    "padding 1": lambda s: pl.Series(s.name, [[8]] * len(s), dtype=pl.Array(pl.UInt64, 1)),
}


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_what_is_no_report_is_refused(mechanism, run):
    good = reports(mechanism, typed=False)["r"]
    for name, spoil in BAD.items():
        bad = spoil(good).alias("the reports").to_frame()
        for ask in (ldp_polars.tally, ldp_polars.histogram):
            expr = ask("the reports", mechanism, assume_reports=True)
            with case(name), pytest.raises(LdpError, match="column 'the reports'") as info:
                run(bad, lambda f, expr=expr: f.select(expr))
            assert type(info.value) is ReportError or not isinstance(mechanism, UnaryEncoding)


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_reports_of_another_layout_or_text_type(mechanism):
    """Packed or not, Enum, String or Categorical, from Arrow or not: the same tally."""
    df = reports(mechanism, packed=True, typed=False)
    tally = pl.col("r").ldp.tally(mechanism, assume_reports=True)
    expected = df.select(tally).item()
    columns = [df["r"], df["r"].slice(0), pl.concat([df["r"][:7], df["r"][7:]], rechunk=False)]
    if df["r"].dtype == pl.Enum:
        columns += [df["r"].cast(pl.String), df["r"].cast(pl.Categorical)]
        columns += [df["r"].cast(pl.String).cast(pl.Enum([*mechanism.domain.texts[::-1], "zz"]))]
    if isinstance(df["r"].dtype, pl.Array):
        flat = pa.array(mechanism.reports.to_numpy(mechanism.reports.from_arrow(df["r"].to_arrow())).reshape(-1))
        columns.append(pl.Series("r", pa.FixedSizeListArray.from_arrays(flat, mechanism.domain.size)))
        assert columns[-1].dtype == pl.Array(pl.Boolean, mechanism.domain.size)
    for column in columns:
        assert column.to_frame().select(tally).item() == expected
