"""Noise is fresh: for each row, column, morsel, thread, run and process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import RandomizedResponse, UnaryEncoding
from ldp_core.noise.fresh import Keystream
from ldp_core.randomizer import perturbing as core_perturbing
from ldp_polars import perturbing

from .helpers import child

BITS = UnaryEncoding(range(64), epsilon=0.1, variant="symmetric")  # 64 fair coins a report: two draws never agree


WORD = ldp_polars.perturb("x", BITS, packed=True, typed=False).arr.first()


DF = pl.DataFrame({"x": np.arange(4000) % 64})


faults = pytest.mark.parametrize("fault", [False, True], ids=["sound", "planted fault"])


@pytest.fixture
def plant(monkeypatch):
    """Make every call of perturb start the same keystream, as a generator kept in the mechanism would in its copies."""

    def planted():
        monkeypatch.setattr(core_perturbing, "Keystream", lambda: Keystream(bytes(32)))

    return planted


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


def test_a_keystream_that_calls_share_is_seen(run, plant):
    """The checks have power; and so is a draw that rows share."""
    shared = run(DF.with_columns(g=np.arange(4000) // 2), lambda f: f.select(WORD.first().over("g")))
    assert shared["x"].n_unique() < 4000
    plant()
    lazy = DF.lazy().select(WORD)
    first, second = (run(lazy, lambda f: f)["x"] for _ in range(2))
    assert (first == second).sum() > 0
    noise = ldp_polars.perturb(pl.col("x", "y", "z"), BITS, packed=True, typed=False).arr.first()
    out = run(DF.with_columns(y="x", z="x"), lambda f: f.select(noise))
    assert out.unpivot()["value"].n_unique() < 12_000
    groups = [run(DF.head(100), lambda f: f.select(WORD)) for _ in range(2)]
    assert pl.concat(groups)["x"].n_unique() <= 100


@faults
def test_threads_and_morsels_draw_independently(fault, draws, plant):
    if fault:
        plant()
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: DF.select(WORD), range(16)))
    assert (pl.concat(parts)["x"].n_unique() < 16 * 4000) is fault
    for size in (999, 100_000):
        draws.clear()
        with pl.Config(streaming_chunk_size=size):
            out = DF.lazy().select(WORD).collect(engine="streaming")
        assert sum(draws) == len(out) == 4000
        assert size > 999 or len(draws) >= 4
        assert (out["x"].n_unique() < 4000) is (fault and len(draws) > 1)


# ---- in other processes, whose noise is the system's


MORSELS = """
import polars as pl, numpy as np, ldp_polars
from ldp_core import Keystream, UnaryEncoding
from ldp_core.randomizer import perturbing as core
from ldp_polars import columns, perturbing
if sys.argv[1] == "True":
    core.Keystream = lambda: Keystream(bytes(32))
calls, original = [], perturbing.Perturb.__call__
def spy(self, inputs, return_dtype=None):
    calls.append(len(inputs[1]))
    return original(self, inputs, return_dtype)
perturbing.Perturb.__call__ = spy
m = UnaryEncoding(range(64), epsilon=0.1, variant="symmetric")
word = ldp_polars.perturb("x", m, packed=True, typed=False).arr.first()
df = pl.DataFrame({"x": np.arange(20_000) % 64})
out = df.lazy().select(word).collect(engine="streaming")
print(len(calls), sum(calls), out.height, out["x"].n_unique())
"""


@pytest.mark.fresh(false_alarms=1e-10)  # two of 20,000 words of 64 bits are equal
@faults
@pytest.mark.parametrize("size", [1, 999, 100_000])
@pytest.mark.parametrize("threads", [1, 4])
def test_morsels_never_share_noise(fault, size, threads):
    if size == 1:
        code = MORSELS.replace("20_000", "2_000")
        n = 2000
    else:
        code, n = MORSELS, 20_000
    printed = child(code, fault, POLARS_IDEAL_MORSEL_SIZE=str(size), POLARS_MAX_THREADS=str(threads))
    calls, drawn, height, distinct = map(int, printed.split())
    assert drawn == height == n
    if size < 1000:
        assert calls >= n // size
    assert (distinct < n) is (fault and calls > 1)


RUN_PLAN = """
import polars as pl, pickle, io
kind, path = sys.argv[1:]
data = open(path, "rb").read()
if kind == "pickled expression":
    out = pl.DataFrame({"x": [i % 64 for i in range(500)]}).select(pickle.loads(data))
elif kind == "serialized expression":
    out = pl.DataFrame({"x": [i % 64 for i in range(500)]}).select(pl.Expr.deserialize(io.BytesIO(data)))
elif kind == "pickled plan":
    out = pickle.loads(data).collect()
else:
    out = pl.LazyFrame.deserialize(io.BytesIO(data)).collect()
print(*out["x"].to_list())
"""


def stored(kind, lazy):
    if kind == "pickled expression":
        return pickle.dumps(WORD)
    if kind == "serialized expression":
        return WORD.meta.serialize()
    return pickle.dumps(lazy) if kind == "pickled plan" else lazy.serialize()


@pytest.mark.fresh(false_alarms=1e-12)  # two of 1000 words
@pytest.mark.parametrize("kind", ["pickled expression", "serialized expression", "pickled plan", "serialized plan"])
def test_one_plan_in_two_processes_draws_twice_without_cloudpickle(kind, tmp_path):
    """In fresh interpreters that import only Polars: unpickling finds ldp_polars by name."""
    DF.head(500).write_parquet(tmp_path / "x.parquet")
    lazy = pl.scan_parquet(tmp_path / "x.parquet").select(WORD)
    (tmp_path / "plan").write_bytes(stored(kind, lazy))
    words = [child(RUN_PLAN, kind, tmp_path / "plan").split() for _ in range(2)]
    assert [len(w) for w in words] == [500, 500]
    assert len({*words[0], *words[1]}) == 1000


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


def test_no_state_in_the_callable():
    """Only the mechanism and two flags: nothing that a fork or a pickle could duplicate."""
    udf = perturbing.Perturb(RandomizedResponse(epsilon=1.0), packed=False, constant=False)
    assert set(vars(udf)) == {"mechanism", "packed", "constant", "noise"}
    assert udf.noise is None
    before = pickle.dumps(udf)
    udf([pl.Series([True] * 10), pl.Series(range(10))], return_dtype=pl.Boolean())
    assert pickle.dumps(udf) == before
    assert pickle.loads(before) == udf
