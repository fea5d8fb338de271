"""What is chosen when the plan is made: domains that a dtype declares; and that such plans travel by plain pickle."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from polars import selectors as cs

import ldp_polars
from ldp_core import Domain, DtypeError, ParameterError, RandomizedResponse, Secret, UnaryEncoding

N = 300
LABELS = ["x", "y", "z"]
FRAME = pl.DataFrame(
    {
        "e": pl.Series([LABELS[i % 3] for i in range(N)], dtype=pl.Enum(LABELS)),
        "f": pl.Series([LABELS[i % 2] for i in range(N)], dtype=pl.Enum(LABELS)),
        "b": [i % 2 == 0 for i in range(N)],
        "i": list(range(N)),
        "day": [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(N - 1)] + [None],
    }
)


def test_an_enum_declares_its_domain(run):
    """Categories that do not occur are values too."""
    declared = run(FRAME, lambda f: f.select(pl.col("e", "b").ldp.randomized_response(epsilon=1.0, seed=1)))
    for name, domain in (("e", LABELS), ("b", [False, True])):
        said = FRAME.select(pl.col(name).ldp.randomized_response(domain=domain, epsilon=1.0, seed=1))
        assert declared.select(name).equals(said)
    bits = run(FRAME, lambda f: f.select(pl.col("e").ldp.unary_encode(epsilon=1.0, variant="symmetric", seed=1)))
    m = UnaryEncoding(LABELS, epsilon=1.0, variant="symmetric")
    assert bits.equals(FRAME.select(pl.col("e").ldp.unary_encode(m, seed=1)))


def test_unmatched_goes_with_a_declared_domain():
    with_null = FRAME.with_columns(pl.when(pl.col("i") > 3).then("e").alias("e"))
    m = UnaryEncoding(Domain(LABELS, unmatched="other"), epsilon=1.0)
    expected = with_null.select(pl.col("e").ldp.unary_encode(m, seed=1))
    for domain in (None, LABELS):
        got = with_null.select(pl.col("e").ldp.unary_encode(domain=domain, epsilon=1.0, unmatched="other", seed=1))
        assert got.equals(expected)
    answers = with_null.select(pl.col("e").ldp.randomized_response(epsilon=1.0, unmatched="other"))
    assert answers.schema["e"] == pl.Enum([*LABELS, "other"])
    with pytest.raises(ParameterError, match="not both"):
        pl.col("e").ldp.unary_encode(domain=Domain(LABELS), epsilon=1.0, unmatched="other")
    with pytest.raises(ParameterError, match="not both"):
        pl.col("e").ldp.unary_encode(m, unmatched="other")


def test_dates_and_numbers_in_declared_bins(run, unlikely):
    labels = ["old", "new"]
    breaks = [dt.date(2026, 3, 1)]
    binned = pl.col("day").bin_intervals(breaks, labels=labels)
    got = run(FRAME, lambda f: f.select(binned.ldp.unary_encode(epsilon=50.0, unmatched="other")))
    m = UnaryEncoding(Domain(labels, unmatched="other"), epsilon=50.0, variant="optimized")
    support = m.tally(got["day"].to_arrow()).counters
    assert not unlikely(support, [59, N - 60, 1], 0.5)  # OUE keeps a 1 with probability 1/2, and sets none at 50
    ages = pl.DataFrame({"age": [3, 17, 18, 40, 65, 88] * 1000})
    answers = ages.select(
        pl.col("age").bin_intervals([18, 65], labels=["child", "adult", "old"]).ldp.randomized_response(epsilon=50.0)
    )
    assert answers["age"].value_counts(sort=True)["count"].to_list() == [2000] * 3


@pytest.mark.filterwarnings("ignore:`cut` is deprecated")
def test_cut_is_binning_too():
    cut = pl.col("i").cut([100, 200], labels=["low", "middle", "high"])
    answers = FRAME.select(cut.ldp.randomized_response(epsilon=60.0))
    assert answers["i"].value_counts(sort=True).sort("i")["count"].to_list() == [101, 100, 99]


def test_bins_of_one_records_value_are_refused():
    for select in (pl.Expr.first, pl.Expr.drop_nulls, lambda e: e.filter(pl.col("b"))):
        with pytest.raises(ParameterError, match="one value a row"):
            select(pl.col("i")).bin_intervals([18], labels=["a", "b"]).ldp.unary_encode(epsilon=1.0)
    named = FRAME.rename({"i": 'i").bin_intervals()'})
    with pytest.raises(ParameterError, match="one value a row"):
        pl.col(named.columns[3]).first().ldp.unary_encode(epsilon=1.0)


def test_columns_of_a_selector_have_noise_of_their_own(unlikely):
    same = FRAME.with_columns(f="e")
    reports = same.select(cs.by_dtype(pl.Enum).as_expr().ldp.randomized_response(epsilon=0.1))
    agree = (reports["e"] == reports["f"]).sum()
    m = RandomizedResponse(LABELS, epsilon=0.1)
    assert not unlikely(agree, N, m.p**2 + 2 * m.q**2)


def test_a_dtype_that_declares_nothing():
    for build in (pl.col("i").ldp.unary_encode, pl.col("i").ldp.randomized_response):
        lazy = FRAME.lazy().select(build(epsilon=1.0))
        with pytest.raises(DtypeError, match="column 'i': pass domain="):
            lazy.collect_schema()
    for bad in (0, -1, float("nan")):
        with pytest.raises(ParameterError, match="epsilon"):
            pl.col("i").ldp.unary_encode(epsilon=bad)
    with pytest.raises(ParameterError, match="one value a row"):
        pl.col("e").first().ldp.unary_encode(epsilon=1.0)


def test_large_domains():
    """A report of 100,000 bits is 12.5 KB; an answer is a number. Both come back as they should."""
    n, d = 400, 100_000
    frame = pl.DataFrame({"x": np.arange(n) * (d // n)})
    m = UnaryEncoding(range(d), epsilon=2.0)
    reports = frame.lazy().select(pl.col("x").ldp.unary_encode(m, packed=True)).collect()
    assert reports.schema["x"] == pl.Array(pl.UInt64, -(-d // 64))
    support = np.array(reports.select(pl.col("x").ldp.tally(m)).item()["counters"])
    held = np.zeros(d, bool)
    held[frame["x"].to_numpy()] = True
    total = int(support.sum())
    mean, variance = n * (m.p + (d - 1) * m.q), n * (m.p * (1 - m.p) + (d - 1) * m.q * (1 - m.q))
    assert abs(total - mean) < 7 * variance**0.5
    own = int(support[held].sum())
    mean = n * (m.p + (n - 1) * m.q)
    assert abs(own - mean) < 7 * (n * (m.p * (1 - m.p) + (n - 1) * m.q * (1 - m.q))) ** 0.5
    rr = RandomizedResponse(range(d), epsilon=30.0)
    answers = frame.select(pl.col("x").ldp.randomized_response(rr))
    assert answers.equals(frame)
    histogram = answers.select(pl.col("x").ldp.histogram(rr)).explode("x").unnest("x")
    assert histogram.height == d
    assert round(histogram["count"].sum()) == n


CHILD = """
import pickle, sys
sys.modules["cloudpickle"] = None  # as where it is not installed
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        plan = pickle.load(file)
    plan.collect().write_parquet(name + ".out")
"""


def test_plans_travel_without_cloudpickle_and_draw_anew(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    mechanism = UnaryEncoding(LABELS, epsilon=1.0)
    path = tmp_path / "in.parquet"
    FRAME.write_parquet(path)
    lazy = pl.scan_parquet(path)
    plans = {
        "fresh": lazy.select(pl.col("e").ldp.unary_encode(mechanism)),
        "declared": lazy.select(pl.col("e").ldp.unary_encode(epsilon=1.0)),
        "boolean": lazy.select(pl.col("b").ldp.randomized_response(epsilon=1.0)),
        "typed": lazy.select(pl.col("e").ldp.unary_encode(epsilon=1.0, typed=True)),
        "histogram": lazy.select(pl.col("e").ldp.unary_encode(epsilon=1.0, typed=True)).select(
            pl.col("e").ldp.histogram(), tally=pl.col("e").ldp.tally()
        ),
        "keyed": lazy.select(pl.col("e").ldp.unary_encode(epsilon=1.0, key=Secret(bytes(32)).shared(), id="i")),
    }
    with pytest.raises(pl.exceptions.ComputeError, match="serialization failed"):  # not by accident
        pickle.dumps(lazy.select(pl.col("e").ldp.unary_encode(epsilon=1.0, key=Secret(bytes(32)), id="i")))
    names = []
    for name, plan in plans.items():
        for copy in ("one", "two"):
            file = tmp_path / f"{name}.{copy}"
            file.write_bytes(pickle.dumps(plan))
            names.append(str(file))
    subprocess.run([sys.executable, "-c", CHILD, *names], check=True)
    for name, plan in plans.items():
        one, two = (pl.read_parquet(tmp_path / f"{name}.{copy}.out") for copy in ("one", "two"))
        assert one.schema == plan.collect_schema()
        assert one.equals(two) == (name == "keyed"), name
    assert pl.read_parquet(tmp_path / "keyed.one.out").equals(plans["keyed"].collect())


def test_without_the_private_function_the_public_one_serves(monkeypatch):
    from polars import _plr

    from ldp_polars import planned

    monkeypatch.delattr(_plr, "pipe_with_dtype")
    called = []
    public = pl.Expr.pipe_with_dtype

    def spy(self, function):
        called.append(function)
        monkeypatch.undo()
        return public(self, function)

    monkeypatch.setattr(pl.Expr, "pipe_with_dtype", spy)
    chosen = planned.at_plan_time(pl.col("e"), lambda expr, dtype: expr.cast(pl.String) + str(len(dtype.categories)))
    assert len(called) == 1
    assert FRAME.select(chosen)["e"][0] == "x3"
    assert ldp_polars.planned is planned
