"""What a user types: parameters are checked while the expression is built, documentation is where one looks for it."""

from __future__ import annotations

import inspect
import math
import pydoc
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from polars import selectors as cs

import ldp_polars
from ldp_core import Domain, DomainError, LdpError, ParameterError, RandomizedResponse, UnaryEncoding
from ldp_polars import namespace

LABELS = ["ios", "android"]
RR, UE = RandomizedResponse(LABELS, epsilon=1.0), UnaryEncoding(LABELS, epsilon=1.0)
X = pl.col("x")
BAD_EPSILON = [0, 0.0, -1, -1e-300, math.nan, math.inf, -math.inf, "1", None, True, 1j, [1.0], 1e-30]


@pytest.mark.parametrize("epsilon", BAD_EPSILON, ids=repr)
def test_epsilon(epsilon):
    for build in (
        lambda: X.ldp.randomized_response(epsilon=epsilon),
        lambda: X.ldp.randomized_response(domain=LABELS, epsilon=epsilon),
        lambda: X.ldp.unary_encode(domain=LABELS, epsilon=epsilon),
        lambda: X.ldp.unary_encode(domain=LABELS, epsilon=epsilon, variant="symmetric"),
        lambda: ldp_polars.unary_encode("x", domain=LABELS, epsilon=epsilon),
    ):
        with pytest.raises(ParameterError, match="epsilon"):
            build()


@pytest.mark.parametrize(
    "domain",
    [[], ["a"], ["a", "a"], ["a", 1], [True, 1], [1.0, 2.0], ["a", None], "ab", b"ab", [2**64, 1], [["a"], ["b"]]],
    ids=repr,
)
def test_domain(domain):
    for build in (
        lambda: X.ldp.randomized_response(domain=domain, epsilon=1.0),
        lambda: X.ldp.unary_encode(domain=domain, epsilon=1.0),
    ):
        with pytest.raises(DomainError):
            build()


def test_missing_parameters():
    for build in (
        X.ldp.randomized_response,
        lambda: X.ldp.randomized_response(domain=LABELS),
        X.ldp.unary_encode,
        lambda: X.ldp.unary_encode(domain=LABELS),
    ):
        with pytest.raises(ParameterError, match="mechanism"):
            build()
    with pytest.raises(DomainError, match="none"):
        X.ldp.randomized_response(domain=Domain(LABELS, unmatched="none"), epsilon=1.0)
    with pytest.raises(ParameterError, match="variant"):
        X.ldp.unary_encode(domain=LABELS, epsilon=1.0, variant="best")


@pytest.mark.parametrize(
    "extra", [{"epsilon": 1.0}, {"domain": LABELS}, {"domain": Domain(LABELS)}, {"domain": LABELS, "epsilon": 1.0}]
)
def test_a_mechanism_and_its_parameters(extra):
    with pytest.raises(ParameterError, match="not both"):
        X.ldp.randomized_response(RR, **extra)
    with pytest.raises(ParameterError, match="not both"):
        X.ldp.unary_encode(UE, **extra)
    with pytest.raises(ParameterError, match="not both"):
        X.ldp.unary_encode(UE, variant="symmetric")


def test_wrong_mechanism():
    for build in (
        lambda: X.ldp.randomized_response(UE),
        lambda: X.ldp.unary_encode(RR),
        lambda: X.ldp.unary_encode(LABELS, epsilon=1.0),
        lambda: X.ldp.randomized_response(1.0),
    ):
        with pytest.raises(ParameterError, match="expected a"):
            build()


@pytest.mark.parametrize("name", ["perturb", "tally", "merge", "estimate", "histogram"])
@pytest.mark.parametrize("wrong", [None, 1.0, "oue", LABELS, Domain(LABELS), UnaryEncoding, RR.to_dict()], ids=str)
def test_what_is_no_mechanism(name, wrong):
    if wrong is None and name in ("tally", "histogram"):  # there None is for typed reports
        wrong = False
    with pytest.raises(ParameterError, match="expected a mechanism"):
        getattr(X.ldp, name)(wrong)


@pytest.mark.parametrize("name", ["perturb", "tally", "merge", "estimate", "histogram"])
@pytest.mark.parametrize("wrong", [None, 1, pl.Series([True]), ["x"], np.array([1])], ids=str)
def test_what_is_no_expression(name, wrong):
    with pytest.raises(ParameterError, match="expected an expression"):
        getattr(ldp_polars, name)(wrong, RR)


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, 95, math.nan, math.inf, True, False])
@pytest.mark.parametrize("name", ["estimate", "histogram"])
def test_confidence(name, confidence):
    with pytest.raises(ParameterError, match=r"\(0, 1\)"):
        getattr(X.ldp, name)(RR, confidence=confidence)


def test_all_errors_are_ours_and_of_the_usual_kind():
    with pytest.raises(LdpError):
        X.ldp.unary_encode(domain=LABELS, epsilon=-1)
    with pytest.raises(ValueError, match="epsilon"):
        X.ldp.unary_encode(domain=LABELS, epsilon=-1)


# ---- sugar and documentation

PUBLIC = {name: f for name in ldp_polars.__all__ if inspect.isfunction(f := getattr(ldp_polars, name))}
ON_FRAMES = {name: PUBLIC[name] for name in ("perturb_frame", "histograms", "explain", "sink_parquet")}
ELSEWHERE = {"read_plan"}  # of a file
ON_EXPRESSIONS = {name: f for name, f in PUBLIC.items() if name not in ON_FRAMES.keys() | ELSEWHERE}
NAMESPACES = [
    (pl.col("x").ldp, ON_EXPRESSIONS),
    *((frame.ldp, {"perturb" if n == "perturb_frame" else n: f for n, f in ON_FRAMES.items()})
      for frame in (pl.DataFrame(), pl.LazyFrame())),
]  # fmt: skip
METHODS = [(getattr(on, name), function) for on, functions in NAMESPACES for name, function in functions.items()]


def test_every_public_function_is_a_method_and_the_other_way_round():
    for on, functions in NAMESPACES:
        assert {name for name in dir(on) if not name.startswith("_")} == set(functions)
    assert set(ldp_polars.__all__) == {*PUBLIC, "NoiseOptions", "Report"}


@pytest.mark.parametrize(("method", "function"), METHODS, ids=lambda f: f.__qualname__)
def test_methods_are_the_functions_without_their_first_argument(method, function):
    first, *others = inspect.signature(function).parameters.values()
    assert list(inspect.signature(method).parameters.values()) == others
    assert first.name in ("expr", "frame", "reports")
    assert inspect.getdoc(method) == inspect.getdoc(function)
    for parameter in (first, *others):
        assert parameter.name in function.__doc__


@pytest.mark.parametrize(("method", "function"), METHODS, ids=lambda f: f.__qualname__)
def test_help_shows_the_signature(method, function):
    shown = pydoc.render_doc(method, renderer=pydoc.plaintext)
    assert f"{function.__name__}{inspect.signature(method)}" in shown
    assert function.__doc__.splitlines()[0] in shown


def test_namespaces_list_their_methods():
    shown = pydoc.render_doc(namespace.LdpExpr, renderer=pydoc.plaintext)
    for name, function in ON_EXPRESSIONS.items():
        assert f"{name}{inspect.signature(function)}" in shown


def test_help_is_complete():
    text = inspect.getdoc(X.ldp.unary_encode)
    for word in ("domain", "epsilon", "variant", "packed", "optimized", "symmetric", "Array(UInt64", ">>>"):
        assert word in text


def test_namespaces_are_everywhere():
    for expr in (X, pl.all(), cs.all(), X.str.to_lowercase(), pl.lit("a")):
        assert isinstance(expr.ldp.perturb(RR), pl.Expr)
    assert isinstance(pl.when("c").then("x").otherwise("x").ldp.perturb(RR), pl.Expr)


def test_sugar_and_functions_give_the_same():
    df = pl.DataFrame({"x": ["ios", "android"] * 50, "b": [True, False] * 50})
    for expr, dtype in (
        (X.ldp.randomized_response(RR), pl.Enum(LABELS)),
        (X.ldp.randomized_response(domain=LABELS, epsilon=1.0), pl.Enum(LABELS)),
        (pl.col("b").ldp.randomized_response(epsilon=1.0).alias("x"), pl.Boolean),
        (ldp_polars.randomized_response("b", epsilon=1.0).alias("x"), pl.Boolean),
        (X.ldp.unary_encode(UE), pl.Array(pl.Boolean, 2)),
        (X.ldp.unary_encode(UE, packed=True), pl.Array(pl.UInt64, 1)),
        (X.ldp.perturb(UE), pl.Array(pl.Boolean, 2)),
        (X.ldp.perturb(UE, packed=True), pl.Array(pl.UInt64, 1)),
        (ldp_polars.perturb("x", UE, packed=True), pl.Array(pl.UInt64, 1)),
        (ldp_polars.unary_encode("x", domain=Domain(LABELS, unmatched="none"), epsilon=1), pl.Array(pl.Boolean, 2)),
        (X.ldp.unary_encode(domain=(v for v in LABELS), epsilon=np.float64(1)), pl.Array(pl.Boolean, 2)),
    ):
        assert df.select(expr).schema["x"] == dtype


def test_variant_is_used(unlikely):
    n = 20_000
    df = pl.DataFrame({"x": ["ios"] * n})
    for variant in ("optimized", "symmetric"):
        m = UnaryEncoding(LABELS, epsilon=1.0, variant=variant)
        bits = np.array(df.select(X.ldp.unary_encode(domain=LABELS, epsilon=1.0, variant=variant))["x"].to_list())
        assert not unlikely(bits.sum(axis=0), n, [m.p, m.q])


def test_names_are_kept_and_can_be_changed():
    df = pl.DataFrame({"x": LABELS, "y": LABELS})
    m = UE
    assert df.select(pl.col("x", "y").ldp.perturb(m).name.suffix("_r")).columns == ["x_r", "y_r"]
    out = df.select(pl.all().ldp.perturb(m)).select(pl.all().ldp.histogram(m))
    assert out.columns == ["x", "y"]
    for expr in (X.ldp.perturb(RR), X.ldp.tally(RR), X.ldp.merge(RR), X.ldp.estimate(RR), X.ldp.histogram(RR)):
        assert expr.meta.output_name() == "x"
        assert expr.meta.root_names() == ["x"]


def test_importing_registers_quietly():
    code = "import warnings; warnings.simplefilter('error'); import ldp_polars, polars as pl; pl.col('x').ldp"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_core_does_not_import_polars():
    code = "import ldp_core, sys; assert 'polars' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
