"""Tables of two columns: closed forms, every pair of mechanisms, and what is refused."""

from __future__ import annotations

import datetime as dt
import itertools
import pickle

import numpy as np
import pyarrow as pa
import pytest

import ldp_plots
from ldp_core import (
    BlockHadamardResponse,
    Domain,
    Hybrid,
    LocalHashing,
    MechanismMismatchError,
    Pair,
    ParameterError,
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

from ...cases import case

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


def drawn(pair: Pair, n: int, seed: int = 0):
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
        made = drawn(Pair({side: m, "other": m}), n)[side]
        sides[name, side] = made, np.stack([m.weights(made, v) > 0 for v in m.domain.values], axis=1).astype(int)
    for (one, m1), (two, m2) in itertools.combinations_with_replacement(PURE.items(), 2):
        with case(one, two):
            pair = Pair({"x": m1, "y": m2})
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
    for names in (("randomized response", "subset"), ("unary", "unequal coins"), ("hashing", "geometry")):
        m1, m2 = (PURE[name] for name in names)
        pair = Pair({"x": m1, "y": m2})
        tally = pair.tally(drawn(pair, n))
        both, first, second = pair.split(tally.counters)
        table = pair.estimate(tally)
        inverse = np.kron(*(np.linalg.inv(channel(m)) for m in (m1, m2)))
        seen = np.block([[both, first[:, None]], [second[None], np.array([[n]])]])
        expected = (inverse @ seen.ravel()).reshape(seen.shape)
        with case(*names):
            np.testing.assert_allclose(table.counts, expected[:-1, :-1], rtol=0, atol=1e-9 * n)
            for margin, whole in zip(
                (table.margin, table.other_margin), (expected[:-1, -1], expected[-1, :-1]), strict=True
            ):
                np.testing.assert_allclose(margin, whole, rtol=0, atol=1e-9 * n)


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
    pair = Pair({"first": response, "second": bits})
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
        one, two = (joint._moments(m) for m in pair.mechanisms)
        empty, each = joint._noise(one, two, 1.0, true.sum(axis=1), true.sum(axis=0))
        np.testing.assert_allclose(np.einsum("r,rab->ab", chance, (found - true) ** 2), empty + each * true, rtol=1e-9)


def test_without_noise_it_is_the_table_itself():
    """Pearson's test, rates, and margins; intervals of no width."""
    pair = Pair({"x": RandomizedResponse(["a", "b", "c"], epsilon=50.0), "y": RandomizedResponse(epsilon=50.0)})
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
    pair = Pair({names[0]: RandomizedResponse(["a", "b"], epsilon=50.0), names[1]: RandomizedResponse(epsilon=50.0)})
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
    windows = table.to_polars().with_columns(window_start=dt.date(2024, 1, 1))
    assert "a, false" in ldp_plots.windows(windows).to_json()


def test_of_a_population():
    """Counts have B.2's variance, sums of squares of products of weights; rates are `ratio` of the products."""
    pair = Pair({"x": PURE["randomized response"], "y": PURE["subset"]})
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


def test_display():
    pair = Pair({"x": PURE["subset"], "y": PURE["hashing"]})
    table = pair.estimate(pair.tally(drawn(pair, 400)))
    shown = table.consistent()
    assert shown.min() >= 0
    assert shown.sum() == pytest.approx(400)
    assert "the noise exceeds the count of a typical pair" in repr(table)
    assert f"more than {joint.reports_for(pair):,} reports" in repr(table)
    enough = pair.estimate(pair.tally(drawn(pair, 40_000)))
    assert "the noise exceeds" not in repr(enough)


def test_no_reports():
    pair = Pair({"x": PURE["unary"], "y": PURE["subset"]})
    tally = pair.tally({"x": np.zeros((0, 4), bool), "y": np.zeros((0, 3), bool)})
    assert tally == pair.empty_tally()
    table = pair.estimate(tally)
    assert not np.any([table.counts, table.standard_errors, table.low, table.high])
    assert np.isnan(table.rates).all()
    assert np.isinf([table.rate_low, table.rate_high]).all()
    assert (table.degrees_of_freedom, np.isnan(table.p_value)) == (0, True)


def test_forged_and_other_tallies():
    pair = Pair({"x": PURE["subset"], "y": PURE["hashing"]})
    tally = pair.tally(drawn(pair, 100))
    for at, change in ((0, 200), (0, -tally.counters[0] - 1), (12, 101), (-1, -101)):
        counters = tally.counters.copy()
        counters[at] += change
        with case(at, change), pytest.raises(ReportError, match="damaged or forged"):
            pair.estimate(Tally(100, counters, pair.fingerprint))
    other = Pair({"y": PURE["hashing"], "x": PURE["subset"]})
    with pytest.raises(MechanismMismatchError):
        other.estimate(tally)


def test_what_is_refused():
    one, two = PURE["subset"], PURE["hashing"]
    sampled = PrivacyPlan.sampled({"x": [1, 2], "y": [3, 4]}, epsilon=1.0)
    bad = [
        ({"x": one}, "two columns"),
        ({"x": one, "y": two, "z": one}, "two columns"),
        ({"x": one, "count": two}, r"columns \['count'\] of its own"),
        ({"x": one, "y": "no mechanism"}, "'y': expected a mechanism"),
        ({"x": one, "y": Hybrid((0, 1), epsilon=1.0)}, r"'y': .*hybrid.*\.ldp\.weight"),
        ({"x": one, "y": BlockHadamardResponse(range(9), epsilon=1.0)}, r"'y': .*squares of the weights"),
        ({"x": one, "y": SummationHistogramEncoding(range(9), epsilon=1.0)}, r"'y': .*squares of the weights"),
        (sampled.columns, "a record answers one of 2 columns"),
        (PrivacyPlan.fake({"x": [1, 2], "y": [3, 4]}, epsilon=1.0).columns, "a record answers one of 2 columns"),
    ]
    for columns, message in bad:
        with case(message), pytest.raises(ParameterError, match=message):
            Pair(columns)
    for names in (("x", "x"), ("x", "z"), ("x",), ("x", 1)):
        with case(names), pytest.raises(ParameterError, match=r"two (private )?columns"):
            Pair({"x": one, "y": two}, names)
    pair = Pair({"x": one, "y": two})
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
        with pytest.raises(ParameterError, match=r"ldp_core\.Pair"):
            TableEstimate().check(asked)
    for confidence in (0.0, 1.0, "x"):
        with pytest.raises(ParameterError, match="confidence"):
            TableEstimate(confidence)


def test_rates_of_rare_values_hold_for_these_people():
    """One in 1,000 of 100 people of 500: 45 % would hold if sums of squares alone said how sure they are."""
    pair = Pair({name: RandomizedResponse(epsilon=5.0) for name in ("group", "event")})
    m, rng, runs = pair.mechanisms[0], np.random.default_rng(3), 400
    inside, outside = (np.outer((1 - x, x), (m.p, 1 - m.p)).ravel() for x in (m.p, 1 - m.p))  # nobody has the event
    cells = (rng.multinomial(100, inside, runs) + rng.multinomial(400, outside, runs)).reshape(runs, 2, 2)
    counters = np.concatenate([cells.reshape(runs, 4), cells.sum(axis=2), cells.sum(axis=1)], axis=1)
    rows, _ = TableEstimate().rows(pair, np.full(runs, 500), counters)
    low, high = (rows[name].to_numpy().reshape(runs, 2, 2)[:, 1, 1] for name in ("rate_low", "rate_high"))
    assert ((low <= 0) & (high >= 0)).mean() >= 0.92
