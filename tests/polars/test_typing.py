"""What a type checker sees of the typed functions: every signature, and mistakes in their use."""

from __future__ import annotations

from pathlib import Path

from mypy import api

USE = """
import polars as pl
import ldp_polars
from ldp_core import PrivacyPlan, Secret, UnaryEncoding

m = UnaryEncoding(["a", "b"], epsilon=1.0)
right: pl.Expr = ldp_polars.unary_encode("x", m, packed=True, key=Secret.generate(), id=pl.col("user"))
eager: pl.DataFrame = ldp_polars.perturb_frame(pl.DataFrame({"x": ["a"]}), PrivacyPlan({"x": m}), typed=True)
lazy: pl.LazyFrame = ldp_polars.histograms(eager.lazy(), PrivacyPlan({"x": m}), by="g")
ldp_polars.unary_encode("x", m, sed=3)  # wrong: no such argument
ldp_polars.unary_encode("x", m, variant="best")  # wrong: no such variant
ldp_polars.histogram(3, m)  # wrong: not an expression
ldp_polars.perturb("x", "os")  # wrong: not a mechanism
"""


def test_mypy_sees_the_signatures(tmp_path):
    source = tmp_path / "use.py"
    source.write_text(USE)
    root = Path(__file__).parents[2]
    said, problems, _ = api.run(
        ["--strict", "--config-file", str(root / "pyproject.toml"), "--cache-dir", str(tmp_path), str(source)]
    )
    assert not problems
    wrong = [number for number, line in enumerate(USE.splitlines(), 1) if "# wrong" in line]
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert [int(line.split(":")[1]) for line in errors] == wrong, said
