"""Weights as a column, and what is estimated from sums of them, in every context of Polars."""

import math
import warnings
from inspect import signature
from itertools import product

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    DtypeError,
    Hybrid,
    InputError,
    LdpWarning,
    MechanismMismatchError,
    ParameterError,
    Piecewise,
    RandomizedResponse,
    ReportError,
    Secret,
    UnaryEncoding,
    ratio,
    total,
    weighted_mean,
    weighted_quantiles,
)

from ..cases import case

OS = UnaryEncoding(["ios", "android", "web"], epsilon=2.0)
CRASHED = RandomizedResponse(epsilon=2.0)
TIME = Hybrid((0, 60), epsilon=2.0)
N = 3000


@pytest.fixture(scope="module")
def reports():
    rng = np.random.default_rng(5)
    raw = pl.DataFrame(
        {
            "os": rng.choice(["ios", "android", "web"], N),
            "crashed": rng.random(N) < 0.2,
            "time": rng.uniform(0, 60, N),
            "minutes": rng.exponential(10, N),
            "week": np.arange(N) % 3,
        }
    )
    return raw.with_columns(
        pl.col("os").ldp.perturb(OS, seed=7),
        pl.col("crashed").ldp.perturb(CRASHED, seed=8),
        pl.col("time").ldp.perturb(TIME, seed=9),
    )


def test_weights_are_those_of_the_core(reports):
    made = reports.select(
        os=pl.col("os").ldp.weight("web"), crashed=pl.col("crashed").ldp.weight(True), time=pl.col("time").ldp.weight()
    )
    for name, mechanism, value in [("os", OS, "web"), ("crashed", CRASHED, True), ("time", TIME, None)]:
        expected = mechanism.weights(reports[name], value)
        np.testing.assert_array_equal(made[name].to_numpy(), expected)


def test_ratios_are_those_of_the_core_in_every_context(reports):
    w, y = pl.col("os").ldp.weight("ios"), pl.col("minutes")
    asked = (w * y).ldp.ratio(w, confidence=0.9).alias("mean")
    eager = reports.group_by("week").agg(asked).sort("week")
    lazy = reports.lazy().group_by("week").agg(asked).sort("week").collect(engine="streaming")
    np.testing.assert_allclose(*(made.unnest("mean").to_numpy() for made in (eager, lazy)), rtol=1e-12)
    over = reports.select("week", asked.over("week")).unique().sort("week")
    np.testing.assert_allclose(*(made.unnest("mean").to_numpy() for made in (eager, over)), rtol=1e-12)
    for week, found in enumerate(eager["mean"].to_list()):
        group = reports.filter(pl.col("week") == week)
        weights = OS.weights(group["os"], "ios")
        expected = ratio(weights * group["minutes"].to_numpy(), weights, confidence=0.9).to_arrow().to_pylist()[0]
        assert found == pytest.approx(expected, rel=1e-9)
    some = reports.head(20)
    found = some.select(t=(w * pl.col("time").ldp.weight()).ldp.ratio(w, of=TIME)).item()
    weights = OS.weights(some["os"], "ios")
    assert found["high"] == ratio(weights * TIME.weights(some["time"]), weights, of=TIME).high
    with pytest.raises(ParameterError, match="mechanism for numbers"):
        w.ldp.ratio(w, of=OS)


def test_totals_and_quantiles(reports):
    w = pl.col("os").ldp.weight("ios")
    found = reports.select((w * pl.col("minutes")).ldp.total(w)).to_series().struct.unnest().row(0, named=True)
    products = OS.weights(reports["os"], "ios") * reports["minutes"].to_numpy()
    error = products.std(ddof=1) * N**0.5
    half = 1.960755 * error  # Student's quantile of 2,999 degrees of freedom
    low, high = products.sum() - half, products.sum() + half
    expected = {"total": products.sum(), "standard_error": error, "low": low, "high": high, "n": N}
    assert found == pytest.approx(expected)
    rows = reports.group_by("week").agg(pl.col("minutes").ldp.weighted_quantiles([0.5, 0.9], w)).sort("week")
    group = reports.filter(pl.col("week") == 1)
    expected = weighted_quantiles(group["minutes"], OS.weights(group["os"], "ios"), [0.5, 0.9]).to_arrow().to_pylist()
    assert rows["minutes"].to_list()[1] == expected


def test_totals_of_numbers_below_0_take_the_weights(reports):
    w, y = pl.col("os").ldp.weight("ios"), pl.col("minutes") - pl.col("minutes").median()
    some = reports.head(40).with_columns(gap=pl.when(pl.col("week") > 0).then(y))
    for of, rows in ((y, some), (pl.col("gap"), some.filter(pl.col("gap").is_not_null()))):
        found = some.select(t=(w * of).ldp.total(w, confidence=0.9)).unnest("t").row(0, named=True)
        given, weights = rows.select(of).to_series().to_numpy(), OS.weights(rows["os"], "ios")
        expected = total(given * weights, weights, confidence=0.9)
        assert found == expected.to_arrow().to_pylist()[0]
        assert found["high"] != total(given * weights, given * weights, confidence=0.9).high
    with pytest.raises(DtypeError, match=r"take \.ldp\.weight"):
        reports.select(pl.col("minutes").ldp.total("os"))
    with pytest.raises(ParameterError, match=r"say the weights, too, as \(w \* y\)\.ldp\.total\(w\)"):
        some.select((w * y).ldp.total())


def test_typed_reports_of_numbers_have_known_noise(reports):
    time, minutes = pl.col("time").ldp, pl.col("minutes")
    found = reports.select(total=time.total(), mean=time.weighted_mean(weights=minutes, confidence=0.9))
    expected = weighted_mean((TIME, reports["time"]), weights=reports["minutes"], confidence=0.9)
    assert found["mean"].item()["low"] == pytest.approx(expected.low)
    assert found["total"].item()["low"] == pytest.approx(total((TIME, reports["time"])).low)
    alike = {name: time.weighted_mean(weights=w) for name, w in {"lit": pl.lit(2.0), "none": None}.items()}
    groups = reports.group_by("week").agg(**alike)  # ("got (20,) and (1,)")
    assert groups["lit"].struct.field("low").to_list() == pytest.approx(groups["none"].struct.field("low").to_list())
    keyed = pl.DataFrame({"x": [1.0] * 30}).with_row_index("id")
    keyed = keyed.select(pl.col("x").ldp.perturb(TIME, key=Secret.generate(), id="id"))
    for asked in (pl.col("x").ldp.total, pl.col("x").ldp.weighted_mean):
        with pytest.raises(ParameterError, match="repeats=1"):
            keyed.select(asked())
        assert keyed.select(asked(repeats=1)).height == 1
    with pytest.raises(DtypeError, match=r"take \.ldp\.weight\(value\)"):
        reports.select(pl.col("os").ldp.total())


def test_weights_in_a_branch_of_when_then_have_a_remedy_that_works(reports, run):
    """It said that reports are null, and to leave these out, where none is: Polars nulls the other branch's rows."""
    chosen, words = pl.when(pl.col("week") == 1), r"null.* in when/then, .* by with_columns"
    timings = pl.DataFrame({"value": ["high", "low"] * 50, "randomizedTriggerRate": 0.5, "week": [0, 1] * 50})
    for frame, w in [
        (reports, pl.col("os").ldp.weight("ios")),
        (reports, pl.col("crashed").ldp.weight(True)),
        (reports, pl.col("time").ldp.weight()),
        (timings, ldp_polars.navigation_timing()),
    ]:
        with case(str(w)), pytest.raises((ReportError, InputError), match=words):
            frame.lazy().select(chosen.then(w)).collect(engine="streaming")
        column = run(frame.with_columns(w=w), lambda f: f.select(chosen.then("w")))
        assert column["w"].null_count() == frame.filter(pl.col("week") != 1).height


def test_rows_with_nulls_are_left_out(reports):
    w, y = pl.col("os").ldp.weight("ios"), pl.when(pl.col("week") > 0).then("minutes")
    some = reports.filter(pl.col("week") > 0)
    for asked in ((w * y).ldp.ratio(w), y.ldp.weighted_quantiles([0.5], w), (w * y).ldp.total(w)):
        assert reports.select(r=asked)["r"].to_list() == some.select(r=asked)["r"].to_list()


def test_no_rows():
    empty = pl.DataFrame({"w": pl.Series([], dtype=pl.Float64)})
    found = empty.select(pl.col("w").ldp.ratio("w")).to_series().struct.unnest().row(0, named=True)
    assert (found["low"], found["high"], found["n"]) == (-np.inf, np.inf, 0)
    assert empty.select(pl.col("w").ldp.total()).unnest("w").row(0) == (0, math.inf, -math.inf, math.inf, 0)


def test_columns_that_are_none_of_numbers(reports):
    for column, words in [("os", r"take \.ldp\.weight"), ("text", "expected numbers, got String"), ("day", "got Date")]:
        frame = reports.with_columns(text=pl.lit("a"), day=pl.lit(1).cast(pl.Date))
        for asked in (pl.col(column).ldp.total(), pl.col(column).ldp.ratio("minutes")):
            with case(column), pytest.raises(DtypeError, match=words):
                frame.select(asked)
    with pytest.raises(ParameterError, match="must be a list"):
        pl.col("minutes").ldp.weighted_quantiles(0.5, "minutes")


def test_what_is_refused(reports):
    typed = pl.col("os")
    with pytest.raises(ParameterError, match="one of the domain's 3, got 'ipad'"):
        reports.select(typed.ldp.weight("ipad"))
    with pytest.raises(MechanismMismatchError):
        reports.select(typed.ldp.weight("ios", UnaryEncoding(["ios", "android", "web"], epsilon=1.0)))
    with pytest.raises(ParameterError, match="confidence"):
        typed.ldp.ratio("week", confidence=2)
    nan = pl.DataFrame({"w": [1.0, float("nan")]})
    for asked in (pl.col("w").ldp.ratio("w"), pl.col("w").ldp.total(), pl.col("w").ldp.weighted_quantiles([0.5], "w")):
        with case(str(asked)), pytest.raises(InputError, match="finite"):
            nan.select(asked)


def test_how_often_people_are_there_may_be_left_unsaid():
    """Two of five took 1 in place of None, which they did not declare."""
    for name in ("ratio", "total", "weighted_mean", "weighted_quantiles", "linear_fit"):
        assert signature(getattr(ldp_polars, name)).parameters["repeats"].default is None, name


def test_what_browsers_report():
    """The coins are Chromium's: a fair one with the probability ``rate``, here another one in each record."""
    rng = np.random.default_rng(3)
    n = 200_000
    rate, low = rng.choice([0.3, 0.4994798], n), rng.random(n) < 0.1
    duration = np.where(low, rng.exponential(300, n), rng.exponential(100, n))
    value = np.where(rng.random(n) < rate, rng.random(n) < 0.5, low)
    frame = pl.DataFrame({"value": np.where(value, "low", "high"), "randomizedTriggerRate": rate, "duration": duration})
    w = ldp_polars.navigation_timing()
    found = frame.select(share=w.mean(), mean=((1 - w) * pl.col("duration")).ldp.ratio(1 - w)).row(0, named=True)
    assert abs(found["share"] - 0.1) < 5 / n**0.5
    assert found["mean"]["low"] < 100 < found["mean"]["high"]
    for value, rate in [("medium", 0.5), ("low", 1.0), ("low", 49.9), ("high", None), (None, 0.5)]:
        odd = pl.DataFrame({"value": [value], "randomizedTriggerRate": [rate]})
        with case(value, rate), pytest.raises(InputError, match='expected "high" or "low"'):
            odd.select(w)


def test_a_line_of_columns_with_nulls_is_refused():
    """Each column lost its own nulls: as many in other rows, and x was fitted to the y of the row beside it."""
    x = [float(k * k % 17) for k in range(100)]
    some = pl.DataFrame({"x": [None, *x[1:]], "y": [*x[:-1], None]})
    with pytest.raises(InputError, match="column 'x' has nulls"):
        some.select(ldp_polars.linear_fit("x", "y"))
    reports = some.drop_nulls().with_columns(pl.col("x").ldp.perturb(Piecewise((0, 16), epsilon=50.0)))
    slope = reports.select(ldp_polars.linear_fit("x", "y")).explode("x").unnest("x").row(2, named=True)
    assert slope["estimate"] == pytest.approx(1, abs=0.01)


def test_quantiles_by_weights_take_no_weights():
    """The noise of a private number counted as that of the people: 0 of 1,000 intervals of a median held."""
    frame = pl.DataFrame({"g": ["a", "b"] * 50, "wage": 30.0, "y": 1.0}).with_columns(
        pl.col("g").ldp.perturb(RandomizedResponse(["a", "b"], epsilon=2.0)),
        pl.col("wage").ldp.perturb(Piecewise((0, 100), epsilon=2.0)),
    )
    w, wage = pl.col("g").ldp.weight("a"), pl.col("wage").ldp.weight()
    for numbers in (wage, w * pl.col("y"), w):
        with pytest.raises(ParameterError, match=r"of a public number; this one is made of columns \['(g|wage)'\]"):
            frame.select(numbers.ldp.weighted_quantiles([0.5], w))


def test_each_line_of_few_reports_is_told_of():
    """Polars' own line calls, so that the second query of a notebook was not warned."""
    few = pl.DataFrame({"u": np.append(-0.1, np.arange(1.0, 13.0))})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        few.select(pl.col("u").ldp.total("u"))
        few.lazy().select(pl.col("u").ldp.total("u")).collect()
    assert [one.filename for one in told] == [__file__] * 2


def test_a_line_of_one_keyed_column_at_two_times_warns():
    """An unchanged number has one report: a covariance of 146 came out as 1,468, and its interval never held."""
    m, users = Piecewise((0, 100), epsilon=2.0), np.arange(2000)
    noise = {"key": Secret.generate(), "id": "user"}
    numbers = 10.0 + users % 50
    times = [pl.DataFrame({"user": users, "x": x}) for x in (numbers, np.where(users < 600, 70.0, numbers))]
    first, second = (people.select(pl.col("x").ldp.perturb(m, **noise)) for people in times)
    with pytest.warns(LdpWarning, match=r"\['x', 'y'\] have keyed noise of one mechanism.*tag= of its own"):
        first.with_columns(y=second["x"]).select(pl.col("x").ldp.linear_fit("y", repeats=1))
    fresh = [people.select(pl.col("x").ldp.perturb(m)) for people in times]
    with warnings.catch_warnings():
        warnings.simplefilter("error", LdpWarning)
        fresh[0].with_columns(y=fresh[1]["x"]).select(pl.col("x").ldp.linear_fit("y"))


def test_a_line_takes_no_weights(reports):
    """Their noise stayed in: of y = 2 x + N(0, 1), x 30 % True, epsilon 1, the slope was 0.37, in 0 % of intervals."""
    w, y = pl.col("crashed").ldp.weight(True), pl.col("minutes")
    for line in (lambda: w.ldp.linear_fit(y), lambda: y.ldp.linear_fit(2 * w + 1)):
        with pytest.raises(ParameterError, match=r"made of columns \['crashed'\], as weights are"):
            reports.select(line())
    saved = reports.select("minutes", w=w)  # what a weight that was computed before is of, nothing tells
    with pytest.raises(ParameterError, match=r"two public columns .* take pl.corr and pl.cov"):
        saved.select(pl.col("w").ldp.linear_fit("minutes"))


def test_each_query_says_that_few_reports_carry_a_sum():
    """Threads of Polars have no line of the user: the second query of a process, of other data, was not told."""
    rng = np.random.default_rng(1)
    few = [{"w": rng.choice([1.5, -0.5], 300), "y": np.where(rng.random(300) < 0.02, 1000.0, 1.0)} for _ in range(2)]
    frames = [pl.DataFrame(one).with_columns(g=pl.int_range(300) % 3) for one in few]
    queries = {
        "group_by": lambda frame, ask: frame.group_by("g").agg(ask),
        "streaming": lambda frame, ask: frame.lazy().group_by("g").agg(ask).collect(engine="streaming"),
        "over": lambda frame, ask: frame.select(ask.over("g")),
    }
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default", LdpWarning)
        for i, ((where, query), frame) in enumerate(product(queries.items(), frames), 1):
            query(frame, (pl.col("w") * pl.col("y")).ldp.total("w"))
            assert len(shown) == i, where


def test_products_of_weights_of_one_keyed_mechanism_warn():
    """Of one column at two times a total was 531,411 for 75,970, and a rate 66 % for 30 % of 100,000 people, silently.

    No data tell: reports with noise of their own look alike where more people stay.
    """
    rng, n, key = np.random.default_rng(0), 1000, Secret.from_hex("11" * 32)
    raw = pl.DataFrame({"id": range(n), "a": rng.random(n) < 0.3, "b": rng.random(n) < 0.3, "y": rng.random(n)})
    people = raw.with_columns(pl.lit("ios").alias("os"), pl.col("id").mod(3).alias("g"))
    other = pl.col("os").ldp.perturb(OS, key=key, id="id")
    reports = people.with_columns(pl.col("a", "b").ldp.perturb(CRASHED, key=key, id="id"), other)
    a, b = (pl.col(name).ldp.weight(True, repeats=1) for name in "ab")
    ios, y = pl.col("os").ldp.weight("ios", repeats=1), pl.col("y")
    asked = {
        "total": (a * b * y).ldp.total(a * b),
        "of those who left": ((1 - b) * a * y).alias("left").ldp.total((1 - b) * a),
        "mean": (a * b * y).ldp.ratio(a * b),
        "rate": (a * b).ldp.ratio(a),
        "quantiles": y.ldp.weighted_quantiles([0.5], a * b),
        "survey": (a * b).ldp.weighted_mean(weights="y"),
        "some": (pl.col("a").filter(y > 0.5).ldp.weight(True, repeats=1) * b.filter(y > 0.5)).ldp.total(),
    }
    queries = {
        "select": lambda frame, ask: frame.select(ask),
        "group_by": lambda frame, ask: frame.group_by("g").agg(ask),
        "over": lambda frame, ask: frame.select(ask.over("g")),
        "streaming": lambda frame, ask: frame.lazy().group_by("g").agg(ask).collect(engine="streaming"),
    }
    for (what, ask), (where, query) in product(asked.items(), queries.items()):
        with case(what, where), pytest.warns(LdpWarning, match=r"\['a', 'b'\] have keyed noise.*tag= of its own"):
            assert query(reports, ask).columns[-1] == ask.meta.output_name()
    right = {
        "change": (a - b).ldp.total(),
        "growth": b.ldp.ratio(a),
        "of those who have an answer": (a * y * pl.col("b").is_not_null()).ldp.total(a),
        "of another mechanism": (a * ios).ldp.ratio(a),
    }
    nulls = reports.with_columns(pl.when(pl.col("id") < 900).then("b").alias("b"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", LdpWarning)
        for what, ask in right.items():
            with case(what):
                (nulls if "answer" in what else reports).select(ask)
