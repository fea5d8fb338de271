"""Noise is fresh for each row, and the ways in which Polars draws noise twice, or on the wrong thing."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import numpy as np
import polars as pl
import pytest
from polars import selectors as cs

import ldp_polars
from ldp_core import Domain, LdpError, ParameterError, PrivacyPlan, RandomizedResponse, UnaryEncoding

from ..cases import case

N = 64_000
BITS = UnaryEncoding(range(64), epsilon=0.1, variant="symmetric")  # 64 fair coins: two draws never agree
LAZY_ENGINES = ("in-memory", "streaming")
plain_reports = partial(ldp_polars.perturb, typed=False)


# ---- predicates pushed into a scan


@pytest.fixture
def scans(tmp_path):
    """Scans of values "x", of the label of a group: by what Polars could evaluate a filter for many rows at once."""
    colors, group = np.random.default_rng(1).integers(0, 16, N), np.repeat(np.arange(8), N // 8)
    frame = pl.DataFrame({"x": group % 4, "g": group})
    pl.DataFrame({"x": [f"v{i}" for i in range(16)]})[colors].write_parquet(tmp_path / "a", row_group_size=N // 8)
    frame.write_parquet(tmp_path / "b", row_group_size=N // 8)
    for part in range(4):
        (tmp_path / f"hive/x={part}").mkdir(parents=True)
        pl.DataFrame({"y": range(N // 4)}).write_parquet(tmp_path / f"hive/x={part}/0.parquet")
    for source in ("csv", "ipc", "ndjson"):
        getattr(frame, f"write_{source}")(tmp_path / source)
    return {
        "a dictionary of Parquet": (pl.scan_parquet(tmp_path / "a"), "x"),
        "statistics of row groups": (pl.scan_parquet(tmp_path / "b"), "g"),
        "hive partitions": (pl.scan_parquet(tmp_path / "hive", hive_partitioning=True), "x"),
        "csv": (pl.scan_csv(tmp_path / "csv"), "g"),
        "ipc": (pl.scan_ipc(tmp_path / "ipc"), "g"),
        "ndjson": (pl.scan_ndjson(tmp_path / "ndjson"), "g"),
        "in memory": (frame.lazy(), "g"),
    }


@pytest.mark.parametrize("lazy_engine", LAZY_ENGINES)
def test_a_filter_on_reports_is_evaluated_on_each_of_them(lazy_engine, scans, unlikely, draws):
    """Rows that are kept of each group, against the exact binomial."""
    for source, (scan, by) in scans.items():
        domain = [f"v{i}" for i in range(16)] if source.startswith("a dict") else range(4)
        mechanism = RandomizedResponse(domain, epsilon=2.0 if source.startswith("a dict") else 1.0)
        target = mechanism.domain.values[0]
        groups = scan.collect().group_by(by).agg(n=pl.len(), true=(pl.col("x") == target).first())
        draws.clear()
        kept = scan.filter(plain_reports("x", mechanism) == target).collect(engine=lazy_engine)
        both = groups.join(kept.group_by(by).agg(kept=pl.len()), on=by, how="left").fill_null(0)
        p = np.where(both["true"], mechanism.p, mechanism.q)
        with case(source):
            assert not unlikely(both["kept"].to_numpy(), both["n"].to_numpy(), p)
            assert sum(draws) == N


@pytest.mark.parametrize("lazy_engine", LAZY_ENGINES)
@pytest.mark.parametrize("column", ["x", "y"])
def test_a_plan_draws_for_each_record(column, lazy_engine, tmp_path, draws):
    """Of a column of a Parquet dictionary, and of hive partitions, before a filter on the reports."""
    for part in range(4):
        (tmp_path / f"x={part}").mkdir()
        pl.DataFrame({"y": np.arange(500) % 4}).write_parquet(tmp_path / f"x={part}" / "0.parquet")
    plan = PrivacyPlan({column: RandomizedResponse(range(4), epsilon=1.0)})
    reports = pl.scan_parquet(tmp_path, hive_partitioning=True).ldp.perturb(plan, typed=False)
    for query, rows in ((reports, range(2000, 2001)), (reports.filter(pl.col(column) == 1), range(1, 2000))):
        draws.clear()
        assert query.collect(engine=lazy_engine).height in rows
        assert sum(draws) == 2000


def test_a_plan_needs_no_more_memory_for_more_rows(tmp_path):
    """A multiplexer keeps what one of its readers has not read; an expression of its own needs one."""
    pl.DataFrame({"x": [True, False], "y": [1, 2]}).write_parquet(tmp_path / "t.parquet")
    frame, m = pl.scan_parquet(tmp_path / "t.parquet"), RandomizedResponse(epsilon=1.0)

    def nodes(query):
        return query.show_graph(engine="streaming", plan_stage="physical", raw_output=True, show=False)

    assert "multiplexer" not in nodes(frame.ldp.perturb(PrivacyPlan({"x": m}, keep=["y"])))
    assert "multiplexer" in nodes(frame.select("y", pl.col("x").ldp.perturb(m)))


@pytest.mark.parametrize("lazy_engine", LAZY_ENGINES)
def test_grouping_by_a_hive_partition_tallies_each_record_once(lazy_engine, tmp_path, draws):
    """The optimizer makes one copy of the plan a partition, each of which draws for all rows and keeps its own."""
    for part in range(4):
        (tmp_path / f"h={part}").mkdir()
        pl.DataFrame({"x": np.arange(1000) % 64}).write_parquet(tmp_path / f"h={part}" / "0.parquet")
    scan = pl.scan_parquet(tmp_path, hive_partitioning=True)
    noise = ldp_polars.perturb("x", BITS, packed=True)
    out = scan.with_columns(r=noise).group_by("h").agg("r", ldp_polars.tally("r", BITS).alias("t"))
    out = out.collect(engine=lazy_engine)
    assert [t["n"] for t in out["t"]] == [1000] * 4
    assert out.explode("r")["r"].ext.storage().arr.first().n_unique() == 4000
    assert sum(draws) in (4000, 16000)


# ---- literals, and values of another length than the frame


def test_a_literal_gets_a_draw_for_each_row(run, unlikely):
    mechanism = RandomizedResponse(["a", "b", "c"], epsilon=1.0)
    out = run(pl.DataFrame({"i": range(2000)}), lambda f: f.with_columns(z=plain_reports(pl.lit("a"), mechanism)))
    assert not unlikely((out["z"] == "a").sum(), 2000, mechanism.p)


LITERALS = {
    "plain": pl.lit("a"),
    "alias": pl.lit("a").alias("z"),
    "cast": pl.lit("a").cast(pl.Enum(["b", "a"])),
    "series": pl.lit(pl.Series(["a"])),
    "null": pl.lit(None),
}


def test_literals_take_the_height_of_the_frame(run):
    mechanism = RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1.0)
    for name, height in product(LITERALS, (0, 1, 50)):
        noise = LITERALS[name].ldp.perturb(mechanism, typed=False)
        with case(name, height):
            out = run(pl.DataFrame({"i": range(height)}), lambda f, noise=noise: f.with_columns(z=noise))
            assert out.height == height
            assert out["z"].null_count() == 0


FRAME = pl.DataFrame({"x": ["b", "a", None, "a", "b", "b"], "y": [0, 1, 1, 0, 1, 0], "g": [0, 0, 0, 1, 1, 1]})
X = pl.col("x")

UNFIT = {
    "filter": X.filter(pl.col("y") == 1),
    "filter to one": X.filter(pl.int_range(pl.len()) == 1),
    "filter to none": X.filter(pl.lit(value=False)),
    "drop_nulls": X.drop_nulls(),
    "first": X.first(),
    "max": X.max(),
    "head": X.head(2),
    "unique": X.unique(),
    "sample": X.sample(2),
    "gather": X.gather([0, 0]),
    "explode": pl.col("x").implode().explode().head(3),
    "alias": X.max().alias("z"),
}

UNCLEAR = {  # what Polars cannot classify; streaming would broadcast it
    "selector, first": pl.col("x", "w").first(),
    "selector, filter": cs.by_index(0).filter(pl.col("w") == "a"),
    "scalar function": X.map_batches(lambda s: s[0], return_dtype=pl.String, returns_scalar=True),
    "function": X.map_batches(lambda s: s, return_dtype=pl.String, is_elementwise=True),
    "several fields": X.struct.field("a", "b"),  # PanicException of Polars 2.1
}


def test_values_of_another_length_are_refused_before_anything_runs(draws):
    for name, unfit in (UNFIT | UNCLEAR).items():
        with case(name), pytest.raises(ParameterError, match="one value a row"):
            unfit.ldp.perturb(RandomizedResponse(["a", "b"], epsilon=1.0), typed=False)
    assert draws == []


def test_what_only_running_would_show_is_refused():
    """Operations on selectors, Python functions."""
    df = FRAME.with_columns(x=pl.col("x").eq_missing("a"), w=pl.col("x").eq_missing("b"))
    mechanism = RandomizedResponse(Domain([False, True]), epsilon=1.0)
    unfits = (
        pl.col("x", "w").filter(pl.col("y") == 1),
        pl.col("x", "w").head(2),
        X.map_batches(lambda s: s.head(1), return_dtype=pl.Boolean),
    )
    contexts = (
        lambda e: df.select(e()),
        lambda e: df.with_columns(e().name.suffix("_r")),
        lambda e: df.group_by("g").agg(e().name.suffix("_r")),
        lambda e: df.select(e().over("g")),
    )
    for (i, unfit), (j, context) in product(enumerate(unfits), enumerate(contexts)):
        with case(i, j), pytest.raises(ParameterError, match="one value a row"):
            context(partial(plain_reports, unfit, mechanism))


def test_lists_get_a_report_an_element_and_their_scalars_are_refused(run):
    df = pl.DataFrame({"x": [["a", "b"], ["b"], [], None]})
    mechanism = RandomizedResponse(["a", "b"], epsilon=100.0)
    out = run(df, lambda f: f.select(pl.col("x").list.eval(pl.element().ldp.perturb(mechanism, typed=False))))
    assert out["x"].to_list() == df["x"].to_list()
    with pytest.raises(ParameterError, match="one value a row"):
        run(df, lambda f: f.select(pl.col("x").list.eval(pl.element().first().ldp.perturb(mechanism, typed=False))))


FIT = [
    X.fill_null("a"),
    X.shift(1),
    X.reverse(),
    X.sort(),
    X.first().over("g"),
    X.str.slice(0, 1),
    X.replace({"a": "b"}),
    X.cast(pl.Categorical),
    pl.when(pl.col("y") == 1).then(X).otherwise(pl.lit("a")),
    pl.coalesce(X, pl.lit("a")),
    pl.concat_str(X, pl.lit("")),
    pl.struct("x").struct.field("x"),
    pl.nth(0),
    pl.col("^x$"),
    cs.by_name("x"),
]


def test_expressions_with_one_value_a_row_are_taken(run):
    mechanism = RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=100.0)
    for fit in FIT:
        both = fit.alias("true"), fit.ldp.perturb(mechanism, typed=False).alias("report")
        with case(fit):
            out = run(FRAME, lambda f, both=both: f.select(both)).select(pl.all().cast(pl.String).fill_null("other"))
            assert out["report"].to_list() == out["true"].to_list()


@pytest.mark.parametrize("lazy_engine", LAZY_ENGINES)
def test_wrong_number_of_reports_is_an_error(lazy_engine, monkeypatch):
    class Short(RandomizedResponse):
        def perturb(self, values, **options):
            return super().perturb(values, **options)[:2]

    df = pl.DataFrame({"x": [True] * 6})
    # Polars itself accepts it: the guard is ours
    naked = pl.map_batches(
        ["x"], lambda s, return_dtype=None: s[0].head(2), return_dtype=pl.Boolean, is_elementwise=True
    )
    assert df.lazy().select(naked).collect(engine="in-memory").height == 2
    with pytest.raises(LdpError, match="2 reports for 6 records" if lazy_engine == "in-memory" else "2 reports for"):
        df.lazy().select(ldp_polars.perturb("x", Short(epsilon=1.0), typed=False)).collect(engine=lazy_engine)


# ---- drawn twice


def test_chained_encode_and_histogram_draws_once_a_record(run, engine, draws):
    df = pl.DataFrame({"x": np.arange(1000) % 64, "g": np.arange(1000) % 3})
    chained = pl.col("x").ldp.perturb(BITS).ldp.histogram(BITS)
    for transform in (
        lambda f: f.select(chained),
        lambda f: f.group_by("g").agg(chained),
        lambda f: f.select(chained.over("g")),
    ):
        draws.clear()
        run(df, transform)
        assert sum(draws) == 1000
        if engine in ("eager", "in-memory"):
            assert len(draws) == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")  # of groups in which nobody answers a pair
def test_all_estimates_of_one_query_are_of_one_draw_of_the_column_that_a_record_answers(run):
    """Polars 2.1 perturbs anew for each column that is estimated, if nothing says that it must not."""
    people = pl.int_range(200, eager=True)
    df = pl.DataFrame({"x": people % 2, "y": people % 3, "z": people % 2, "person": people})
    for make in (PrivacyPlan.sampled, PrivacyPlan.pairs):
        plan = make({"x": range(2), "y": range(3), "z": range(2)}, epsilon=60.0, keep=["person"])
        found = run(df, lambda f, plan=plan: f.ldp.perturb(plan).ldp.histograms(plan, by="person"))
        # there is no noise, and what a person did not answer is nan
        answered = found.filter(pl.col("column_name").is_in(list(plan.columns)), pl.col("count").is_between(0.9, 1.1))
        with case(make):
            assert answered["person"].sort().to_list() == people.to_list()


# ---- one draw serves several


def test_both_branches_of_when_then_are_perturbed(run, unlikely):
    df = pl.DataFrame({"x": [True] * 20_000, "c": [True, False] * 10_000})
    mechanism = RandomizedResponse(epsilon=1.0)
    other = ~ldp_polars.perturb("x", mechanism, typed=False)
    noise = ldp_polars.perturb("x", mechanism, typed=False)
    out = run(df, lambda f: f.select("c", r=pl.when("c").then(noise).otherwise(other)))
    yes = [out.filter(c)["r"].sum() for c in (pl.col("c"), ~pl.col("c"))]
    assert not unlikely(yes, 10_000, [mechanism.p, 1 - mechanism.p])


def test_rows_of_the_other_branch_are_not_taken_for_nulls(run):
    """Lazy engines hand a branch of when/then its rows, and null in place of the others (polars 2.1, streaming)."""
    words = RandomizedResponse(["a", "b", "c"], epsilon=100.0)
    bits = UnaryEncoding(["a", "b", "c"], epsilon=200.0, variant="symmetric")
    df = pl.DataFrame({"x": ["a", "b", "c"] * 4, "c": [True, False, None] * 4})
    for m, packed, report in ((words, False, "a"), (bits, False, [True, False, False]), (bits, True, [1])):
        noise = ldp_polars.perturb("x", m, packed=packed, typed=False)
        with case(m, packed):
            out = run(df, lambda f, noise=noise: f.select(r=pl.when("c").then(noise)))
            assert out["r"].to_list() == [report, None, None] * 4


# ---- noise is fresh: for each row, column, morsel, thread, run and process

WORD = ldp_polars.perturb("x", BITS, packed=True, typed=False).arr.first()
DF = pl.DataFrame({"x": np.arange(4000) % 64})


def test_each_collect_row_column_group_and_window_draws_anew(run):
    noise = ldp_polars.perturb(pl.col("x", "y", "z"), BITS, packed=True, typed=False).arr.first()
    df = DF.with_columns(y="x", z="x", g=pl.int_range(pl.len()) // 100, i=pl.int_range(pl.len()))
    lazy = DF.lazy().select(WORD)
    first, second = (run(lazy, lambda f: f)["x"] for _ in range(2))
    assert (first == second).sum() == 0
    assert run(df, lambda f: f.select(noise)).unpivot()["value"].n_unique() == 12_000
    for transform in (
        lambda f: f.group_by("g").agg(WORD).explode("x"),
        lambda f: f.group_by_dynamic("i", every="100i").agg(WORD).explode("x"),
        lambda f: f.select(WORD.over("g")),
        lambda f: f.select(WORD),
    ):
        out = run(df, transform)["x"]
        assert (len(out), out.n_unique()) == (4000, 4000)


def test_threads_and_morsels_draw_independently(draws):
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: DF.select(WORD), range(16)))
    assert pl.concat(parts)["x"].n_unique() == 16 * 4000
    for size in (999, 100_000):
        draws.clear()
        with pl.Config(streaming_chunk_size=size):
            out = DF.lazy().select(WORD).collect(engine="streaming")
        assert sum(draws) == len(out) == out["x"].n_unique() == 4000
        assert size > 999 or len(draws) >= 4


# ---- in other processes, whose noise is the system's


PROCESSES = """
import multiprocessing, pickle
import numpy as np
def work(data):
    import polars as pl
    frame = pl.DataFrame({"x": np.arange(300) % 64})
    return frame.select(pickle.loads(data))["x"].to_list()
def main(method):
    import ldp_polars
    from ldp_core import UnaryEncoding
    bits = UnaryEncoding(range(64), epsilon=0.1, variant="symmetric")
    bits.perturb([1, 2, 3])  # whatever state there might be, is there before the fork
    data = pickle.dumps(ldp_polars.perturb("x", bits, packed=True, typed=False).arr.first())
    with multiprocessing.get_context(method).Pool(2) as pool:
        parts = pool.map(work, [data] * 4, chunksize=1)
    print(len({word for part in parts for word in part}))
"""


@pytest.mark.fresh(false_alarms=1e-12)  # two of 1200 words
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_draw_independently(method, tmp_path):
    script = tmp_path / "workers.py"
    script.write_text(f"{PROCESSES}\nif __name__ == '__main__':\n    main({method!r})\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1200\n"
