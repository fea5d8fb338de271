"""The namespaces: each function is a method, with its signature and documentation, for readers and type checkers."""

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from mypy import api
from polars import selectors as cs

import ldp_polars
from ldp_core import RandomizedResponse
from ldp_polars import namespace

from ..cases import case

LABELS = ["ios", "android"]
RR = RandomizedResponse(LABELS, epsilon=1.0)
X = pl.col("x")
PUBLIC = {name: f for name in ldp_polars.__all__ if inspect.isfunction(f := getattr(ldp_polars, name))}

ELSEWHERE = {"navigation_timing", "pool", "read_plan", "window_start"}  # of files, of times
FIRST = {name: next(iter(inspect.signature(f).parameters)) for name, f in PUBLIC.items() if name not in ELSEWHERE}
ON_EXPRESSIONS = {name: PUBLIC[name] for name, first in FIRST.items() if first == "expr"}
ON_FRAMES = {name: PUBLIC[name] for name, first in FIRST.items() if first in ("frame", "reports")}
NAMESPACES = [
    (pl.col("x").ldp, ON_EXPRESSIONS),
    *((frame.ldp, {"perturb" if n == "perturb_frame" else n: f for n, f in ON_FRAMES.items()})
      for frame in (pl.DataFrame(), pl.LazyFrame())),
]  # fmt: skip


def test_every_public_function_is_a_method_and_the_other_way_round():
    for on, functions in NAMESPACES:
        assert {name for name in dir(on) if not name.startswith("_")} == set(functions)
    assert set(ldp_polars.__all__) == {*PUBLIC, "NoiseOptions", "Report"}


def flat(shown):
    """Without white space and bars: from Python 3.13 on a long signature has a line per argument."""
    return "".join(str(shown).replace("|", "").split()).replace(",)", ")")


def test_methods_are_the_functions_without_their_first_argument_and_help_shows_them():
    for on, functions in NAMESPACES:
        for name, function in functions.items():
            method = getattr(on, name)
            first, *others = inspect.signature(function).parameters.values()
            with case(type(on).__name__, name):
                assert list(inspect.signature(method).parameters.values()) == others
                assert first.name in ("expr", "frame", "reports")
                assert inspect.getdoc(method) == inspect.getdoc(function)
                assert [p.name for p in (first, *others) if p.name not in function.__doc__] == []
                shown = pydoc.render_doc(method, renderer=pydoc.plaintext)
                assert f"{function.__name__}{flat(inspect.signature(method))}" in flat(shown)
                assert function.__doc__.splitlines()[0] in shown
    shown = pydoc.render_doc(namespace.LdpExpr, renderer=pydoc.plaintext)
    assert [
        n for n, function in ON_EXPRESSIONS.items() if f"{n}{flat(inspect.signature(function))}" not in flat(shown)
    ] == []


def test_namespaces_are_everywhere():
    for expr in (X, pl.all(), cs.all(), X.str.to_lowercase(), pl.lit("a")):
        assert isinstance(expr.ldp.perturb(RR), pl.Expr)
    assert isinstance(pl.when("c").then("x").otherwise("x").ldp.perturb(RR), pl.Expr)


def test_importing_registers_quietly_and_the_core_knows_no_polars():
    code = """
import warnings; warnings.simplefilter("error")
import ldp_core, sys; assert "polars" not in sys.modules
import ldp_polars, polars as pl; pl.col("x").ldp
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


USE = """
import polars as pl
import ldp_polars
from ldp_core import HeavyHitters, PrivacyPlan, Secret, SquareWave, UnaryEncoding
from ldp_polars.namespace import LdpDataFrame, LdpExpr, LdpLazyFrame

m = UnaryEncoding(["a", "b"], epsilon=1.0)
wave = SquareWave((0, 1), epsilon=1.0)
plan = PrivacyPlan({"x": m})
right: pl.Expr = ldp_polars.unary_encode("x", m, packed=True, key=Secret.generate(), id=pl.col("user"))
eager: pl.DataFrame = ldp_polars.perturb_frame(pl.DataFrame({"x": ["a"]}), plan, typed=True)
lazy: pl.LazyFrame = ldp_polars.histograms(eager.lazy(), plan, by="g")
ldp_polars.unary_encode("x", m, sed=3)  # wrong: no such argument
ldp_polars.unary_encode("x", m, variant="best")  # wrong: no such variant
ldp_polars.histogram(3, m)  # wrong: not an expression
ldp_polars.perturb("x", "os")  # wrong: not a mechanism
ldp_polars.heavy_hitters("x", m, k=3)  # wrong: not a mechanism with heavy hitters

column, frame, query = LdpExpr(pl.col("x")), LdpDataFrame(pl.DataFrame()), LdpLazyFrame(pl.LazyFrame())
right = column.unary_encode(m, packed=True, key=Secret.generate(), id=pl.col("user"))
right = column.distribution(wave, buckets=3, method="em")
right = column.heavy_hitters(k=3)
eager = frame.perturb(plan, typed=True)
lazy = query.histograms(plan, by="g")
text: str = query.explain(plan)
column.unary_encode(m, sed=3)  # wrong: no such argument
column.unary_encode(m, variant="best")  # wrong: no such variant
column.histogram(confidence="high")  # wrong: not a number
column.perturb("os")  # wrong: not a mechanism
column.distribution(wave, method="best")  # wrong: no such method
column.estimate(m)  # wrong: no question
column.unary_decode(m)  # wrong: no such function
right = ldp_polars.ldp("x").unary_encode(m, packed=True)
right = ldp_polars.ldp(pl.col("x")).heavy_hitters(k=3)
eager = ldp_polars.ldp(eager).perturb(plan)
lazy = ldp_polars.ldp(lazy).histograms(plan, by="g")
lazy = frame.perturb(plan)  # wrong: a DataFrame
lazy = ldp_polars.ldp(eager).perturb(plan)  # wrong: a DataFrame
pl.col("x").ldp.perturb(m)  # wrong: which no type checker sees
ldp_polars.ldp(3)  # wrong: not a column
query.perturb(m)  # wrong: not a plan
query.histograms(plan, bye="g")  # wrong: no such argument
"""


@pytest.mark.slow
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
