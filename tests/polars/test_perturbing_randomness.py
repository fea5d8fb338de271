"""Noise is fresh: for each row, column, morsel, thread, run and process."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import UnaryEncoding

BITS = UnaryEncoding(range(64), epsilon=0.1, variant="symmetric")  # 64 fair coins a report: two draws never agree
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
