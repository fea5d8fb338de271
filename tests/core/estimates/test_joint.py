"""Tables of several columns: closed forms, every pair of mechanisms, and what is refused."""

import datetime as dt
import functools
import itertools
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import ldp_plots
from ldp_core import (
    BlockHadamardResponse,
    Domain,
    HeavyHitters,
    Hybrid,
    Joint,
    LocalHashing,
    MechanismMismatchError,
    ParameterError,
    Prefixes,
    PrivacyPlan,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    ReportError,
    SubsetSelection,
    SummationHistogramEncoding,
    TableEstimate,
    Tally,
    UnaryEncoding,
    ratio,
    usual_question,
)
from ldp_core.engine import view_of
from ldp_core.estimates import joint
from ldp_core.mechanisms.oracles.hadamard_response import HadamardResponse
from ldp_core.plans.answered import joint_of

from ...cases import case, each

WIDE, NARROW = Domain(["a", "b", "c", "d"]), Domain([0, 1, 2])
PURE = {
    "randomized response": RandomizedResponse(WIDE, epsilon=1.0),
    "unequal coins": RandomizedResponse.from_coins(truth=0.3, yes=0.7),
    "unary": UnaryEncoding(Domain(WIDE.labels, unmatched="none"), epsilon=1.0),
    "wide unary": UnaryEncoding(range(70), epsilon=1.0, variant="symmetric"),
    "subset": SubsetSelection(NARROW, epsilon=1.0),
    "hashing": LocalHashing(WIDE, epsilon=1.0),
    "hadamard": HadamardResponse(WIDE, epsilon=1.0),
    "geometry": ProjectiveGeometryResponse(WIDE, epsilon=1.0),
}


def drawn(pair: Joint, n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    values = {
        name: np.array(m.domain.labels)[rng.integers(0, len(m.domain.labels), n)]
        for name, m in zip(pair.names, pair.mechanisms, strict=True)
    }
    return {name: m.perturb(values[name]) for name, m in zip(pair.names, pair.mechanisms, strict=True)}


def test_every_pair_of_pure_mechanisms():
    """Counts are those of supports, also in groups; counts of a column by itself are its own tally's."""
    n = 500
    groups = np.arange(n) % 3
    sides = {}
    for (name, m), side in itertools.product(PURE.items(), "xy"):
        made = drawn(Joint({side: m, "other": m}), n)[side]
        sides[name, side] = made, np.stack([m.weights(made, v) > 0 for v in m.domain.values], axis=1).astype(int)
    for (one, m1), (two, m2) in itertools.combinations_with_replacement(PURE.items(), 2):
        with case(one, two):
            pair = Joint({"x": m1, "y": m2})
            reports = {"x": sides[one, "x"][0], "y": sides[two, "y"][0]}
            supports = [sides[one, "x"][1], sides[two, "y"][1]]
            tally = pair.tally(reports)
            both, first, second = pair.split(tally.counters)
            np.testing.assert_array_equal(both, supports[0].T @ supports[1])
            np.testing.assert_array_equal(first, m1.tally(reports["x"]).counters)
            np.testing.assert_array_equal(second, m2.tally(reports["y"]).counters)
            parts = pair.count_reports(pair._checked(reports, "x"), groups, 3)
            assert pair.merge(Tally(int((groups == g).sum()), parts[g], pair.fingerprint) for g in range(3)) == tally
            np.testing.assert_array_equal(pair.split(parts[1])[0], supports[0][1::3].T @ supports[1][1::3])


def test_counts_are_those_of_the_inverse_channels():
    """The Kronecker product of the inverses of each column's channel, with a row for all records."""
    n = 3000
    for names in (
        ("randomized response", "subset"),
        ("unary", "unequal coins"),
        ("hashing", "geometry"),
        ("unary", "subset", "unequal coins"),
        ("geometry", "unequal coins", "randomized response", "subset"),
    ):
        made = Joint({f"c{k}": PURE[name] for k, name in enumerate(names)})
        reports = drawn(made, n)
        table = made.estimate(made.tally(reports))
        rows = [supported(m, reports[name]) for name, m in made.makers.items()]
        seen = functools.reduce(lambda one, two: np.einsum("n...,nb->n...b", one, two), rows).sum(axis=0)
        inverse = functools.reduce(np.kron, [np.linalg.inv(channel(m)) for m in made.mechanisms])
        expected = (inverse @ seen.ravel()).reshape(seen.shape)
        with case(*names):
            np.testing.assert_allclose(table.with_margins, expected, rtol=0, atol=1e-9 * n)
            np.testing.assert_array_equal(table.counts, table.margin(*made.names))
            np.testing.assert_allclose(table.margin("c1"), expected[-1, :-1][..., *[-1] * (len(names) - 2)], atol=1e-6)
    with pytest.raises(ParameterError, match=r"some of the columns .* got \['c9'\]"):
        table.margin("c9")


def supported(mechanism, reports):
    """[reports, values and all]: 1 where a report supports a value."""
    each = [mechanism.weights(reports, v) > 0 for v in mechanism.domain.values]
    return np.stack([*each, np.ones(len(reports))], axis=1)


def channel(mechanism):
    """[supports of a value or all, records with a value or all]."""
    (*p,), (*q,) = mechanism.support_probabilities()
    d = mechanism.domain.size
    p, q = (np.array((some * d)[:d], float) for some in (p, q))
    out = np.eye(d + 1)
    out[:d, :d], out[:d, d] = np.diag(p - q), q
    return out


def test_means_and_variances_over_all_reports():
    """Of one record of each pair of values: the estimate is on average its indicator, with the variance as told."""
    response, bits = RandomizedResponse(["a", "b"], epsilon=1.0), UnaryEncoding(["x", "y"], epsilon=2.0)
    pair = Joint({"first": response, "second": bits})
    answers = list(itertools.product(["a", "b"], itertools.product([False, True], repeat=2)))
    found = np.array([pair.estimate(pair.tally({"first": [a], "second": np.array([b])})).counts for a, b in answers])
    for i, j in itertools.product((0, 1), repeat=2):
        of_response = np.array([response.p if answer == "ab"[i] else response.q for answer, _ in answers])
        rates = [bits.p if v == j else bits.q for v in (0, 1)]
        of_bits = np.array(
            [np.prod([r if bit else 1 - r for r, bit in zip(rates, b, strict=True)]) for _, b in answers]
        )
        chance = of_response * of_bits
        true = np.zeros((2, 2))
        true[i, j] = 1
        np.testing.assert_allclose(np.einsum("r,rab->ab", chance, found), true, atol=1e-9)
        whole = np.pad(true, (0, 1))
        whole[:-1, -1], whole[-1, :-1], whole[-1, -1] = true.sum(axis=1), true.sum(axis=0), 1
        empty, each = joint._noise([joint._moments(m) for m in pair.mechanisms], whole)
        np.testing.assert_allclose(np.einsum("r,rab->ab", chance, (found - true) ** 2), empty + each * true, rtol=1e-9)


def test_without_noise_it_is_the_table_itself():
    """Pearson's test, rates, and margins; intervals of no width."""
    pair = Joint({"x": RandomizedResponse(["a", "b", "c"], epsilon=50.0), "y": RandomizedResponse(epsilon=50.0)})
    true = np.array([[30, 10], [25, 25], [5, 5]])
    x, y = (np.repeat(codes.ravel(), true.ravel()) for codes in np.indices(true.shape))
    table = pair.estimate(pair.tally({"x": np.array(["a", "b", "c"])[x], "y": y.astype(bool)}))
    for found in (table.counts, table.low, table.high):
        np.testing.assert_allclose(found, true, atol=1e-6)
    for found in (table.rates, table.rate_low, table.rate_high):
        np.testing.assert_allclose(found, true / true.sum(axis=1, keepdims=True), atol=1e-4)
    expected = true.sum(axis=1, keepdims=True) * true.sum(axis=0) / true.sum()
    assert table.statistic == pytest.approx(((true - expected) ** 2 / expected).sum())
    assert table.degrees_of_freedom == 2
    assert table.p_value == pytest.approx(np.exp(-table.statistic / 2))
    assert "independent? chi-square 6.25, 2 degrees of freedom, p = 0.0439" in repr(table)
    rows = table.to_arrow()
    assert rows.schema == TableEstimate().schema(pair).with_metadata(rows.schema.metadata)
    assert rows.select(["x", "y", "n"]).slice(1, 2).to_pylist() == [
        {"x": "a", "y": True, "n": 100},
        {"x": "b", "y": False, "n": 100},
    ]
    assert pickle.loads(pickle.dumps(table)) == table


def test_the_picture_has_every_interval():
    """A map of rates; the same of a frame, of rows of any order of columns before the values, and of a file."""
    names = ("truth.x", "value")  # names that a chart has, or that mean something in Vega
    pair = Joint({names[0]: RandomizedResponse(["a", "b"], epsilon=50.0), names[1]: RandomizedResponse(epsilon=50.0)})
    few = {names[0]: ["a"] * 40, names[1]: [True] * 10 + [False] * 30}
    table = pair.estimate(pair.tally(few))
    assert (table.view.labels, table.view.rate) == (names, "rate")
    assert view_of(["group", *table.to_arrow().column_names]) == table.view
    assert view_of(["count", "rate", "n"]) is None
    drawn = [table.plot(truth={"a, true": 10, "b, true": 5}), ldp_plots.estimate(table.to_polars(), confidence=0.95)]
    for chart, held in zip(drawn, (["1 of 2 intervals"], []), strict=True):
        made = chart.to_dict()
        cells = {(c["first"], c["second"]): c for c in next(iter(made["datasets"].values()))}
        assert cells["a", "true"]["text"] == "25.0%\n±0.0"
        assert [cells["a", "true"][end] for end in ("low", "high")] == pytest.approx([10, 10])
        assert (cells["b", "true"]["text"], cells["b", "true"]["rate_low"]) == ("?", None)  # nobody has b
        tooltip = made["layer"][0]["encoding"]["tooltip"]
        assert [one.get("title", one["field"]) for one in tooltip[:4]] == [*names, "rate", "rate_low"]
        assert all(any(words in line for line in made["title"]["subtitle"]) for words in held)
    three = Joint({c: RandomizedResponse(epsilon=50.0) for c in "xyz"})
    cube = three.estimate(three.tally(dict.fromkeys("xyz", [True] * 9 + [False])))
    row = {"column_name": "x, y, z", "k": "group"}
    for chart in (cube.plot(), ldp_plots.estimate([{**row, **r} for r in cube.to_arrow().to_pylist()])):  # bars
        bars = {one["value"]: one["count"] for one in next(iter(chart.to_dict()["datasets"].values()))}
        assert len(bars) == 8
        assert bars["true, true, true"] == pytest.approx(9)
    maps = ldp_plots.estimate(cube.to_polars(), by="x").to_json()
    assert all(title in maps for title in ("x false", "x true", "of those with each y, the share with each value of z"))
    windows = table.to_polars().with_columns(window_start=dt.date(2024, 1, 1))
    assert "a, false" in ldp_plots.windows(windows).to_json()


def test_of_a_population():
    """Counts have B.2's variance, sums of squares of products of weights; rates are `ratio` of the products."""
    pair = Joint({"x": PURE["randomized response"], "y": PURE["subset"]})
    reports, n = drawn(pair, 2000), 2000
    table = pair.estimate(pair.tally(reports), population="many")
    finite = [pair.estimate(pair.tally(reports), population=population) for population in (None, 2000, 4000)]
    assert finite[0].high.tolist() == finite[1].high.tolist()
    assert (finite[1].high < finite[2].high).all()
    assert (finite[2].high < table.high).all()
    assert "about a population" in repr(table)
    for a, v in enumerate(WIDE.values):
        w = pair.mechanisms[0].weights(reports["x"], v)
        for b, u in enumerate(NARROW.values):
            product = w * pair.mechanisms[1].weights(reports["y"], u)
            assert table.counts[a, b] == pytest.approx(product.sum())
            if 0 < table.counts[a, b] < n:
                assert table.standard_errors[a, b] == pytest.approx(np.sqrt(n) * product.std())
            expected = ratio(product, w)
            found = [x[a, b] for x in (table.rates, table.rate_standard_errors, table.rate_low, table.rate_high)]
            assert found == pytest.approx([expected.ratio, expected.standard_error, expected.low, expected.high])


def test_of_a_population_as_many_have_a_cell_as_the_rare_value_that_it_is_of():
    """Nobody of 40 has it: Wilson's interval of 0 of 40, though a report of the last column says + or - 1 of all."""
    for values in (2, 3):
        names = [f"c{k}" for k in range(values - 1)]
        columns = {name: RandomizedResponse(epsilon=50.0) for name in names}
        pair = Joint({**columns, "last": HadamardResponse([False, True], epsilon=50.0)})
        tally = pair.tally({name: pair.makers[name].perturb([False] * 40) for name in pair.names})
        table, these = pair.estimate(tally, population="many"), pair.estimate(tally)
        with case(values):
            np.testing.assert_allclose(table.high[..., 1, :], 40 / (1 + 40 / stats.norm.ppf(0.975) ** 2), rtol=1e-3)
            np.testing.assert_allclose(these.high[..., 1, :], 0, atol=1e-3)


def test_three_columns_in_groups():
    """Counts of each margin are those of supports, in one group and in several; and tallies of all ranks add up."""
    made = Joint({"x": PURE["unary"], "y": PURE["hashing"], "z": PURE["subset"]})
    reports, groups = drawn(made, 400), np.arange(400) % 3
    rows = [supported(m, reports[name]).astype(int) for name, m in made.makers.items()]
    parts = made.count_reports(made._checked(reports, "x"), groups, 3)
    whole = made.tally(reports)
    for group in range(3):
        expected = np.einsum("na,nb,nc->abc", *(row[groups == group] for row in rows))
        np.testing.assert_array_equal(made.with_margins(np.int64(expected[-1, -1, -1]), parts[group]), expected)
    assert made.merge(Tally(n, part, made.fingerprint) for n, part in zip((134, 133, 133), parts, strict=True)) == whole
    assert [part.shape for part in made.split(whole.counters)] == [(4, 4, 3), (4, 4), (4, 3), (4, 3), (4,), (4,), (3,)]
    table = made.estimate(whole)
    shown = table.consistent("base-cut")  # (some of x have none of the values)
    assert shown.min() >= 0
    assert len(table.to_arrow()) == 48
    assert table.view.labels == made.names == tuple(table.to_arrow().column_names[:3])
    for at, change in ((0, 400), (0, -int(whole.counters[0]) - 1), (50, 401), (-1, -401)):
        counters = whole.counters.copy()
        counters[at] += change
        with case(at, change), pytest.raises(ReportError, match="damaged or forged"):
            made.estimate(Tally(400, counters, made.fingerprint))


def test_three_columns_of_a_population():
    """Counts, rates and their errors are those of products of weights."""
    made, n = Joint({"x": PURE["randomized response"], "y": PURE["subset"], "z": PURE["unequal coins"]}), 20_000
    reports = drawn(made, n)
    table = made.estimate(made.tally(reports), population="many")
    for cell in ((0, 0, 1), (3, 2, 0), (1, 1, 1), (2, 0, 0)):
        each = list(zip(made.makers.items(), cell, strict=True))
        w1, w2, w3 = (m.weights(reports[name], m.domain.values[code]) for (name, m), code in each)
        below, above = w1 * w2, w1 * w2 * w3
        sums = [np.sum(one) for one in (above, below, w1 * w3, w2 * w3, w1, w2, w3)]
        assert table.counts[cell] == pytest.approx(sums[0])
        assert table.margin("x", "z")[cell[::2]] == pytest.approx(sums[2])
        if min(sums) > 0 and max(sums) < n:
            assert table.standard_errors[cell] == pytest.approx(np.sqrt(n) * above.std())
        expected = ratio(above, below)
        found = [x[cell] for x in (table.rates, table.rate_standard_errors)]
        assert found == pytest.approx([expected.ratio, expected.standard_error])
        c, s = (np.prod([w.min() + w.max() for w in some]) for some in ((w1, w2), (w3,)))
        of_score = c * s * sums[0], c * (s * sums[1] / 2 + sums[0]), 2 * c * sums[1]
        squares = [above @ above, above @ below, below @ below]
        ends = [fieller(sums[0], sums[1], np.subtract(squares, less)) for less in ((0, 0, 0), of_score)]
        assert table.rate_low[cell] == pytest.approx(min(ends)[0])
        assert table.rate_high[cell] == pytest.approx(max(high for _, high in ends))


def fieller(u, w, squares):
    """Ends of all m with (u - m w)^2 <= z^2 (a - 2 b m + c m^2)."""
    a, b, c = np.array([u * u, u * w, w * w]) - 1.959964**2 * np.asarray(squares)
    return np.sort(np.roots([c, -2 * b, a])).tolist() if c > 0 else (-np.inf, np.inf)


def test_three_columns_without_noise():
    """The table itself, and Pearson's test of mutual independence (`scipy.stats.chi2_contingency`)."""
    true = np.array([[[30, 10], [25, 25]], [[5, 5], [40, 20]], [[8, 2], [20, 30]]])
    made = Joint({c: RandomizedResponse(range(d), epsilon=50.0) for c, d in zip("xyz", true.shape, strict=True)})
    codes = [np.repeat(of.ravel(), true.ravel()) for of in np.indices(true.shape)]
    table = made.estimate(made.tally(dict(zip("xyz", codes, strict=True))))
    for found in (table.counts, table.low, table.high, table.consistent()):
        np.testing.assert_allclose(found, true, atol=1e-6)
    for found in (table.rates, table.rate_low, table.rate_high):
        np.testing.assert_allclose(found, true / true.sum(axis=2, keepdims=True), atol=1e-4)
    _, _, degrees, expected = stats.chi2_contingency(true)
    assert table.degrees_of_freedom == degrees == 7
    # Of two columns at a time and of all three together: the parts are uncorrelated, and add up.
    apart = (true - expected) / np.sqrt(expected)
    assert table.statistic == pytest.approx((apart**2).sum())
    assert math.isnan(table.cramers_v)
    assert "Table of x and y and z of 220 reports" in repr(table)


@each("dependent", [False, True])
def test_intervals_of_three_columns_hold(dependent):
    """24 cells of 2,000 people in 400 runs: counts and rates, and how often the test of independence rejects.

    In 20 seeds means over the cells were 0.946 to 0.962, the worst cells 0.900 to 0.953, and the level 0.030 to 0.060:
    no seed was outside of the first and the last bound, one in 20 below that of cells. This seed stays the same.
    """
    made = Joint({c: RandomizedResponse(range(d), epsilon=2.0) for c, d in zip("xyz", (4, 3, 2), strict=True)})
    shares = functools.reduce(np.multiply.outer, (1 / np.arange(1, d + 1) for d in made.shape))
    shares *= 1 + 0.4 * dependent * (-1.0) ** np.indices(shares.shape).sum(axis=0)
    shares /= shares.sum()
    channels = [(m.p - m.q) * np.eye(m.domain.size) + m.q for m in made.mechanisms]
    n, runs = 2000, 400
    reports = np.random.default_rng(5).multinomial(n, np.einsum("abc,ax,by,cz->xyz", shares, *channels).ravel(), runs)
    others = [tuple({1, 2, 3} - {axis + 1 for axis in axes}) for axes in made.margins]
    parts = [reports.reshape(runs, 4, 3, 2).sum(axis=axes).reshape(runs, -1) for axes in others]
    counters, asked, of = np.concatenate(parts, axis=1), TableEstimate(population="many"), np.full(runs, n)
    (_, _, low, high, _, _, rate_low, rate_high), counts = made.arrays(asked, of, counters)
    rates = shares / shares.sum(axis=2, keepdims=True)
    for true, least, most in ((n * shares, low, high), (rates, rate_low, rate_high)):
        held = ((least <= true) & (true <= most)).mean(axis=0)
        assert 0.94 <= held.mean() <= 0.97
        assert held.min() >= 0.91
    rejected = (made.association(asked, of, counters, counts).p_value < 0.05).mean()
    assert rejected > 0.9 if dependent else 0.02 < rejected < 0.08


def test_what_takes_too_many_people_or_cells_is_refused():
    many = {c: UnaryEncoding(range(4), epsilon=0.1) for c in "abc"}
    with pytest.raises(ParameterError, match=r"'c'\] would take 6\.\de\+11 reports, more than there are people"):
        Joint(many)
    assert Joint(many, "ab").shape == (4, 4)
    large = {c: RandomizedResponse(range(5000), epsilon=9.0) for c in "ab"}
    with pytest.raises(ParameterError, match="25,010,000 cells with its margins, more than 16,777,216"):
        Joint(large)


def test_display_where_some_have_no_value():
    """Half of the people have no value: they are in no cell, and the others' cells add up to them."""
    some = UnaryEncoding(Domain(["a", "b"], unmatched="none"), epsilon=60.0, variant="symmetric")  # hardly any noise
    x = some.perturb(["a"] * 24 + ["b"] * 16 + [None] * 40)
    made = {"x": some, "y": RandomizedResponse(epsilon=60.0), "z": some}
    reports = {"x": x, "y": np.array([True, False, False, False] * 20), "z": x[::-1]}
    for names, true in ("xy", [[18, 6], [12, 4]]), ("yx", [[18, 12], [6, 4]]), ("xz", [[0, 0], [0, 0]]):
        joint = Joint(made, names)
        for method in ("base-pos", "base-cut", "norm-cut"):
            with case(names, method):
                shown = joint.estimate(joint.tally(reports)).consistent(method)
                np.testing.assert_allclose(shown, true, atol=0.5)


def test_display():
    pair = Joint({"x": PURE["subset"], "y": PURE["hashing"]})
    table = pair.estimate(pair.tally(drawn(pair, 400)))
    shown = table.consistent()
    assert shown.min() >= 0
    assert shown.sum() == pytest.approx(400)
    assert "the noise exceeds the count of a typical cell" in repr(table)
    assert f"more than {joint.reports_for(pair):,} reports" in repr(table)
    plan = PrivacyPlan.pairs({"x": ["a", "b"], "y": [0, 1]}, epsilon=9.0)
    answered = joint_of(plan.columns, ["y", "x"])
    reports = plan.perturb(pa.table({"x": ["a"] * 9 + ["b"], "y": [0] * 10}))
    assert answered.estimate(answered.tally(reports)).consistent().sum() == pytest.approx(10)
    enough = pair.estimate(pair.tally(drawn(pair, 40_000)))
    assert "the noise exceeds" not in repr(enough)


def test_no_reports():
    pair = Joint({"x": PURE["unary"], "y": PURE["subset"]})
    tally = pair.tally({"x": np.zeros((0, 4), bool), "y": np.zeros((0, 3), bool)})
    assert tally == pair.empty_tally()
    table = pair.estimate(tally)
    assert not np.any([table.counts, table.standard_errors, table.low, table.high])
    assert np.isnan(table.rates).all()
    assert np.isinf([table.rate_low, table.rate_high]).all()
    assert (table.degrees_of_freedom, np.isnan(table.p_value)) == (0, True)


def test_forged_and_other_tallies():
    pair = Joint({"x": PURE["subset"], "y": PURE["hashing"]})
    tally = pair.tally(drawn(pair, 100))
    for at, change in ((0, 200), (0, -tally.counters[0] - 1), (12, 101), (-1, -101)):
        counters = tally.counters.copy()
        counters[at] += change
        with case(at, change), pytest.raises(ReportError, match="damaged or forged"):
            pair.estimate(Tally(100, counters, pair.fingerprint))
    other = Joint({"y": PURE["hashing"], "x": PURE["subset"]})
    with pytest.raises(MechanismMismatchError):
        other.estimate(tally)


def test_what_is_refused():
    one, two = PURE["subset"], PURE["hashing"]
    sampled = PrivacyPlan.sampled({"x": [1, 2], "y": [3, 4]}, epsilon=1.0)
    bad = [
        ({"x": one}, "two or more columns"),
        ({"x": one, "count": two}, r"columns \['count'\] of its own"),
        ({"x": one, "y": "no mechanism"}, "'y': expected a mechanism"),
        ({"x": one, "y": Hybrid((0, 1), epsilon=1.0)}, r"'y': .*hybrid.*\.ldp\.weight"),
        ({"x": one, "y": BlockHadamardResponse(range(9), epsilon=1.0)}, r"'y': .*squares of the weights"),
        ({"x": one, "y": SummationHistogramEncoding(range(9), epsilon=1.0)}, r"'y': .*squares of the weights"),
        ({"x": one, "y": HeavyHitters(Prefixes("ab", 3), epsilon=1.0)}, "'y': .* heavy_hitters have no weights"),
        (sampled.columns, "a record answers one of 2 columns"),
        (PrivacyPlan.fake({"x": [1, 2], "y": [3, 4]}, epsilon=1.0).columns, "a record answers one of 2 columns"),
    ]
    for columns, message in bad:
        with case(message), pytest.raises(ParameterError, match=message):
            Joint(columns)
    for names in (("x", "x"), ("x", "z"), ("x",), ("x", 1)):
        with case(names), pytest.raises(ParameterError, match=r"two or more columns|private columns"):
            Joint({"x": one, "y": two}, names)
    pair = Joint({"x": one, "y": two})
    reports = drawn(pair, 10)
    for wrong, message in (
        ({"x": reports["x"]}, "mapping with"),
        ({"x": reports["x"], "y": reports["y"][:5]}, "10 and 5 reports"),
        ({"x": reports["y"], "y": reports["x"]}, "column 'x'"),
        (7, "mapping with"),
        (pa.array([{"x": 1}]), "structs of"),
        ({"x": reports["x"], "y": pa.array([*reports["y"][:9].tolist(), None], pa.uint64())}, "null"),
    ):
        with case(message), pytest.raises(ReportError, match=message):
            pair.tally(wrong)
    for asked in (one, usual_question(one)):
        with pytest.raises(ParameterError, match=r"ldp_core\.Joint"):
            TableEstimate().check(asked)
    for confidence in (0.0, 1.0, "x"):
        with pytest.raises(ParameterError, match="confidence"):
            TableEstimate(confidence)


def test_rates_of_rare_values_hold_for_these_people():
    """One in 1,000 of 100 people of 500: 45 % would hold if sums of squares alone said how sure they are."""
    pair = Joint({name: RandomizedResponse(epsilon=5.0) for name in ("group", "event")})
    m, rng, runs = pair.mechanisms[0], np.random.default_rng(3), 400
    inside, outside = (np.outer((1 - x, x), (m.p, 1 - m.p)).ravel() for x in (m.p, 1 - m.p))  # nobody has the event
    cells = (rng.multinomial(100, inside, runs) + rng.multinomial(400, outside, runs)).reshape(runs, 2, 2)
    counters = np.concatenate([cells.reshape(runs, 4), cells.sum(axis=2), cells.sum(axis=1)], axis=1)
    rows, _ = TableEstimate().rows(pair, np.full(runs, 500), counters)
    low, high = (rows[name].to_numpy().reshape(runs, 2, 2)[:, 1, 1] for name in ("rate_low", "rate_high"))
    assert ((low <= 0) & (high >= 0)).mean() >= 0.92
