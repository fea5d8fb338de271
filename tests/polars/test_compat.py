"""What is chosen when the plan is made; and plans travel by plain pickle to where only Polars is imported."""

import io
import pickle
import sys

import polars as pl
import pytest

import ldp_polars
from ldp_core import Domain, DomainError, ParameterError, PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding
from ldp_polars import _compat

from .helpers import FRAME, XYZ, child

MECHANISM = UnaryEncoding(XYZ, epsilon=1.0)


@pytest.fixture
def lazy(tmp_path):
    FRAME.write_parquet(tmp_path / "in.parquet")
    return pl.scan_parquet(tmp_path / "in.parquet")


@pytest.fixture
def no_cloudpickle(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)


def queries(lazy, **noise):
    """One for each way to say what is perturbed."""
    e, typed = pl.col("e").ldp, pl.col("e").ldp.unary_encode(epsilon=1.0, typed=True, **noise)
    drawn = PrivacyPlan.sampled({"e": XYZ, "b": [False, True]}, epsilon=1.0)
    return {
        "mechanism": lazy.select(e.unary_encode(MECHANISM, **noise)),
        "declared": lazy.select(e.unary_encode(epsilon=1.0, **noise)),
        "boolean": lazy.select(pl.col("b").ldp.randomized_response(epsilon=1.0, **noise, typed=False)),
        "typed": lazy.select(typed),
        "estimates": lazy.select(typed).select(
            e.histogram(repeats=1), tally=e.tally(), again=e.tally().ldp.histogram(MECHANISM)
        ),
        "weights": lazy.select("i", typed).select(
            (w := e.weight("x", repeats=1) * pl.col("i")).ldp.total(w),
            mean=(e.weight("y", repeats=1) * 2).ldp.ratio("i"),
        ),
        "plan": lazy.ldp.perturb(PrivacyPlan({"e": MECHANISM}, keep=["i"]), packed=True, **noise),
        "drawn": lazy.ldp.perturb(drawn, **noise, typed=False),
    }


CHILD = """
import pickle
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        pickle.load(file).collect().write_parquet(name + ".out")
"""


def collected(queries, folder):
    """What a fresh interpreter makes of queries: unpickling finds ldp_polars by name."""
    for name, query in queries.items():
        (folder / name).write_bytes(pickle.dumps(query))
    child(CHILD, *(folder / name for name in queries))
    return {name: pl.read_parquet(folder / f"{name}.out") for name in queries}


def test_queries_travel_without_cloudpickle(lazy, no_cloudpickle, tmp_path):
    keyed = queries(lazy, key=Secret(bytes(32)).shared(), id="i")
    mine = queries(lazy, seed=1, row_id="i") | {f"{name}, keyed": query for name, query in keyed.items()}
    theirs = collected(mine, tmp_path)
    for name, query in mine.items():
        assert theirs[name].equals(query.collect()), name


@pytest.mark.fresh(false_alarms=1e-12)  # that 300 answers, each with a chance of 0.61, are equal; words of bits: less
def test_copies_of_a_query_draw_anew(lazy, tmp_path):
    mine = queries(lazy)
    both = collected(mine | {f"{name} again": query for name, query in mine.items()}, tmp_path)
    for name, query in mine.items():
        assert both[name].schema == query.collect_schema()
        assert not both[name].equals(both[f"{name} again"]), name


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_every_expression_serializes_without_cloudpickle(no_cloudpickle):
    text = RandomizedResponse(Domain(["a"], unmatched="other"), epsilon=1.0)
    bits = UnaryEncoding(Domain(["a", "b"], unmatched="none"), epsilon=1.0)
    frame = pl.LazyFrame(schema={"x": pl.String})
    for m in (text, bits):
        for e in (
            ldp_polars.perturb("x", m, typed=False),
            ldp_polars.tally("x", m, assume_reports=True),
            ldp_polars.merge("x", m),
            ldp_polars.histogram("x", m, assume_reports=True),
        ):
            for copy in (pickle.loads(pickle.dumps(e)), pl.Expr.deserialize(io.BytesIO(e.meta.serialize()))):
                assert frame.select(copy).collect_schema() == frame.select(e).collect_schema()


def test_without_the_private_function_the_public_one_serves(monkeypatch):
    from polars import _plr

    monkeypatch.delattr(_plr, "pipe_with_dtype")
    called = []
    public = pl.Expr.pipe_with_dtype

    def spy(self, function):
        called.append(function)
        monkeypatch.undo()
        return public(self, function)

    monkeypatch.setattr(pl.Expr, "pipe_with_dtype", spy)
    chosen = _compat.at_plan_time(pl.col("e"), lambda expr, dtype: expr.cast(pl.String) + str(len(dtype.categories)))
    assert len(called) == 1
    assert FRAME.select(chosen)["e"][0] == "x3"


def test_what_is_used_of_polars_is_there():
    from polars._plr import pipe_with_dtype

    expr = pl.Expr._from_pyexpr(pl.col("e")._pyexpr)
    assert expr.meta.eq(pl.col("e"))
    made = pl.Expr._from_pyexpr(pipe_with_dtype([expr._pyexpr], lambda inputs: inputs[0][0]))
    assert FRAME.select(made).equals(FRAME.select("e"))


# ---- our errors through Polars: it makes them anew, and what it appends to their messages is left out


M = UnaryEncoding(["ios", "android", "secret label"], epsilon=1.0)
SYMBIAN = pl.DataFrame({"os": ["ios", "symbian"]})


def failing(error_class):
    def fail(column):
        raise error_class("our words")

    return SYMBIAN.group_by(1).agg(pl.col("os").map_batches(fail, return_dtype=pl.String))


def test_a_message_is_ours_alone():
    with pytest.raises(DomainError, match=r"^column 'os': \d of \d values [^\n]*$") as caught:
        SYMBIAN.group_by(1).agg(pl.col("os").ldp.perturb(M))
    assert "secret label" not in str(caught.value)
    with pytest.raises(DomainError) as caught:
        failing(DomainError)
    assert str(caught.value) == "our words"
    keyed = SYMBIAN.head(1).with_columns(i=1).ldp.perturb(PrivacyPlan({"os": M}), key=Secret(bytes(32)), id="i")
    with pytest.raises(ParameterError, match=r"^column 'os': [^\n]* say repeats=1 [^\n]*$"):
        keyed.lazy().select(ldp_polars.weight("os", "ios", M).ldp.total()).collect()


def test_polars_appends_what_it_did():
    """Another class shows it: if this fails, Polars has other words now, or none."""
    with pytest.raises(ValueError, match="our words") as caught:
        failing(ValueError)
    assert str(caught.value).startswith(f"our words{_compat.EXPRESSION}")
    assert 'col("os")' in str(caught.value)

    def refuse(expr, dtype):
        raise ValueError("our words")

    with pytest.raises(ValueError, match="our words") as caught:
        SYMBIAN.lazy().select(_compat.at_plan_time(pl.col("os"), refuse)).collect()
    assert str(caught.value).startswith(f"our words{_compat.PLAN}")
    assert _compat.CONTEXT in str(caught.value)


def test_the_factors_of_products_are_found():
    """Of the weights of two columns as they are printed: Polars has no other way to tell."""
    a, b, y = pl.col("a").ldp.weight(True), pl.col("b").ldp.weight(True), pl.col("y")
    both = {frozenset("ab")}
    assert _compat.multiplied(a * b) == _compat.multiplied((1 - a).alias("t").mul(2 - b)) == both
    assert _compat.multiplied(((a * 2 * y) * b).filter(y > 1).sort()) == both
    assert _compat.multiplied(pl.when(y > 1).then((a + y) * b).otherwise(0)) == both
    assert _compat.multiplied(sum((y * i for i in range(1500)), a * b)) == both  # (a recursion of Python ends before)
    assert not any(map(_compat.multiplied, (a - b, a * y, a * pl.col("b").is_not_null())))
