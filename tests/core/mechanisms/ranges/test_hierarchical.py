"""Hierarchical histograms against dense linear algebra, their blocks one by one, and coverage by simulation."""

import math

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    Cells,
    Domain,
    DomainError,
    HierarchicalHistogram,
    HistogramEstimate,
    Interval,
    Keyed,
    LdpError,
    Mechanism,
    ParameterError,
    PrivacyPlan,
    RangeEstimate,
    Secret,
    SubsetSelection,
)
from ldp_core.mechanisms.ranges._levels import best_level, field_of

from ....cases import case, each
from ...examples import counters_of_runs, noise_for

close = pytest.approx


def all_ranges(d: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.triu_indices(d + 1)
    return low, high


@each("epsilon", [0.1, 1.0, 2.0, 5.0])
def test_blocks_are_a_design_with_the_probabilities_of_subset_selection(epsilon):
    for bits in (1, 2, 3, 5):
        level = best_level(bits, epsilon)
        blocks = level.supporters(np.eye(level.cells, dtype=np.int64))
        assert set(np.unique(blocks)) <= {0, 1}
        assert (blocks.sum(axis=1) == level.support).all()
        together = blocks.T @ blocks
        assert len(set(np.diag(together).tolist())) == 1
        assert len(set(together[~np.eye(level.nodes, dtype=bool)].tolist())) == 1
        p, q = level.pair
        subsets = SubsetSelection(range(level.nodes), epsilon=epsilon, k=level.support)
        assert (float(p), float(q)) == (close(subsets.p), close(subsets.q))
        # what a report of one level is, exactly: p is shared by the blocks that hold the node
        holding = int(together[0, 0])
        inside, outside = p / holding, (1 - p) / (level.cells - holding)
        assert level.worst_ratio() == inside / outside


def test_every_field_has_all_elements_and_a_basis():
    for bits in range(2, 17):
        field, order = field_of(bits), (1 << bits) - 1
        assert sorted(field.powers[:order].tolist()) == list(range(1, order + 1))
        assert sorted(field.logarithms.tolist()) == [*range(order), 2 * order]


@each("d", [4, 8])
def test_reports_are_as_frequent_as_their_probabilities(d):
    m, n = HierarchicalHistogram(range(d), epsilon=1.5), 200_000
    for value in (0, d - 1):
        noise = Keyed(Secret.from_seed(3), np.arange(n), column="x")
        found = np.bincount(m.perturb(np.full(n, value), randomness=noise).astype(np.int64), minlength=m.reports.limit)
        first = 0
        for level, share in zip(m.levels, m.shares, strict=True):
            node = value >> len(m.levels) - level.bits
            holds = level.supporters(np.eye(level.cells, dtype=np.int64))[:, node]
            p, holding = float(level.pair[0]), holds.sum()
            chances = np.where(holds, p / holding, (1 - p) / (level.cells - holding)) * share / 1024
            z = (found[first : first + level.cells] - n * chances) / np.sqrt(np.maximum(n * chances, 1))
            assert np.abs(z).max() < 5
            first += level.cells


def dense(m: HierarchicalHistogram, counters: np.ndarray) -> tuple[np.ndarray, list]:
    """Shares of the leaves by (A.3)-like normal equations with the total known; and how each level enters."""
    leaves, first = m.leaves, 0
    gram, right, parts = np.zeros((leaves, leaves)), np.zeros(leaves), []
    for level in m.levels:
        sums, (p, q), v = counters[first : first + level.nodes], map(float, level.pair), level.variances[2]
        n = sums.sum() / level.support
        first += level.nodes
        if n:
            above = np.kron(np.eye(level.nodes), np.ones((1, leaves // level.nodes)))
            gram += n / v * above.T @ above
            right += n / v * above.T @ ((sums / n - q) / (p - q))
            parts.append((level, n, n / v * above))
    inverse = np.linalg.inv(gram)
    one = inverse.sum(axis=1)
    shares = inverse @ right
    onto = (np.eye(leaves) - np.outer(one, np.ones(leaves)) / one.sum()) @ inverse
    return shares + one * (1 - shares.sum()) / one.sum(), [(level, n, onto @ w.T) for level, n, w in parts]


@each(("d", "epsilon"), [(8, 1.0), (13, 2.0), (32, 0.5), (64, 1.0)])
def test_estimates_and_variances_are_those_of_dense_least_squares(d, epsilon):
    m, rng = HierarchicalHistogram(range(d), epsilon=epsilon), np.random.default_rng(1)
    tally = m.simulate(rng.multinomial(5000, rng.dirichlet(np.full(d, 0.3))), seed=2)
    low, high = all_ranges(d)
    counts, variances = m.range_counts(np.array([tally.n]), tally.counters[None], low, high)
    shares, parts = dense(m, tally.counters)
    before = np.append(0, np.cumsum(shares))
    before[d] = 1  # nobody is beyond the last value
    np.testing.assert_allclose(counts[0], tally.n * (before[high] - before[low]), rtol=0, atol=1e-9 * tally.n)
    # of even people in all leaves: sums of squares of the dense weights, each level by subset selection's variances
    asked = np.array([[a <= leaf < b for leaf in range(m.leaves)] for a, b in zip(low, high, strict=True)], float)
    reports = np.zeros((len(m.levels), 1))
    expected, even = np.zeros(len(low)), np.full(m.leaves, 1 / m.leaves)
    for level, n, onto in parts:
        reports[level.bits - 1] = n
        weights = asked @ onto
        weights -= weights.mean(axis=1, keepdims=True)
        subsets = SubsetSelection(range(level.nodes), epsilon=epsilon, k=level.support)
        noise = subsets.sum_variance(weights).mean(axis=1) / float(level.pair[0] - level.pair[1]) ** 2
        expected += (noise + (weights**2).mean(axis=1)) / n
    masses = [np.add.reduceat(even, np.arange(0, m.leaves, m.leaves >> j))[None] for j in range(len(m.levels) + 1)]
    found, _ = m._variances(reports, lambda level, nodes: masses[level][:, nodes], low, high)
    np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-12)
    assert np.isfinite(variances).all()


BARS = {64: (18.07, 12.48), 256: (33.67, 21.41)}
"""n Var at epsilon 1, of ranges and of prefixes, of people who are spread evenly: from the exact formulas."""


@each("d", BARS)
def test_average_variance_of_a_workload(d):
    low, high = all_ranges(d)
    inside = low < high
    ranges = HierarchicalHistogram(range(d), epsilon=1.0).range_variances(low[inside], high[inside])
    prefixes = HierarchicalHistogram(range(d), epsilon=1.0, workload="prefixes").range_variances(
        np.zeros(d - 1, np.int64), np.arange(1, d)
    )
    assert (ranges.mean(), prefixes.mean()) == (close(BARS[d][0], rel=3e-3), close(BARS[d][1], rel=4e-3))
    worse = HierarchicalHistogram(range(d), epsilon=1.0, shares=[0] * (d.bit_length() - 2) + [1024])
    assert worse.range_variances(low[inside], high[inside]).mean() > 1.5 * ranges.mean()


@each("epsilon", [0.5, 2.0])
@pytest.mark.slow
def test_intervals_hold(epsilon):
    d, rng = 64, np.random.default_rng(int(8 * epsilon))
    m = HierarchicalHistogram(range(d), epsilon=epsilon)
    low, high = np.array([0, 0, 5, 21, 30, 40]), np.array([1, 40, 21, 22, 64, 47])
    spike, curve = np.full(d, 0.7 / d), np.diff(np.linspace(0, 1, d + 1) ** 4)
    spike[21] += 0.3
    end = np.eye(d)[0]
    for name, shares, n in (("spike", spike, 400), ("curve", curve, 20_000), ("one end", end, 2000)):
        with case(name):
            people = rng.multinomial(n, shares, 100)
            counters = counters_of_runs(m, np.array([np.repeat(np.arange(d), row) for row in people]))
            counts, variances = m.range_counts(np.full(len(people), n), counters, low, high)
            before = np.cumsum(np.pad(people, ((0, 0), (1, 0))), axis=1)
            z = (counts - (before[:, high] - before[:, low])) / np.sqrt(variances)
            assert 0.91 < (np.abs(z) < 1.96).mean() < 0.985
            assert np.abs(z.mean(axis=0)).max() < 0.4


def test_few_reports_are_counted_as_many_are():
    """Of few none is counted by cells, of which there are millions: one report of 65,000 values took 0.6 s."""
    for epsilon in (0.5, 3.0, 8.0):
        m = HierarchicalHistogram(range(300), epsilon=epsilon)
        few = m.perturb(np.arange(40) * 7, randomness=noise_for(m, 40))
        times = sum(level.cells for level in m.levels) // 32  # so many that cells are counted
        groups = np.arange(40) % 3
        counted = m.count_reports(few, groups, 3)
        many = m.count_reports(np.tile(few, times), np.tile(groups, times), 3)
        with case(epsilon):
            np.testing.assert_array_equal(many, times * counted)
            np.testing.assert_array_equal(m.tally(few).counters, counted.sum(axis=0))


def test_levels_without_reports_leave_estimates_to_the_others_or_none():
    m = HierarchicalHistogram(range(16), epsilon=2.0)
    low, high = np.array([0, 0, 0, 3, 0]), np.array([8, 4, 1, 3, 16])
    tally = m.tally(np.repeat(np.array([0, 1], np.uint64), [60, 40]))  # of the level of two nodes
    counts, variances = m.range_counts(np.array([100]), tally.counters[None], low, high)
    assert np.isinf(variances[0]).tolist() == [False, True, True, False, False]
    assert np.isfinite(counts).all()
    assert (counts[0, 4], variances[0, 4]) == (close(100), 0)
    nothing = m.range_counts(np.array([0]), m.empty_tally().counters[None], low, high)
    assert [array.tolist() for array in nothing] == [[[0.0] * 5]] * 2


def test_a_tiny_epsilon_has_errors_that_grow_as_estimates_do():
    """As 1 / epsilon, from where q is nearly p; standard errors were at most 1,000 times n."""
    intervals = []
    for epsilon in (1e-3, 1e-5, 1e-9):
        m = HierarchicalHistogram(range(8), epsilon=epsilon)
        counters = counters_of_runs(m, np.tile(np.repeat(np.arange(8), 100), (40, 1)))
        table, _ = HistogramEstimate().rows(m, np.full(40, 800), counters)
        counts, errors, low, high = (table[name].to_numpy() for name in ("count", "standard_error", "low", "high"))
        intervals.append(errors.mean() * epsilon)
        assert 0.9 < ((counts - 100) / errors).std() < 1.1
        assert np.mean((low <= 100) & (high >= 100)) > 0.92
        one = RangeEstimate(0, 0, population="many").result(m, m.tally(np.repeat(np.array([0], np.uint64), 50)))
        assert one.low[0] <= 0  # (of levels without reports nothing is known, however far off the others are)
        assert one.high[0] >= 50
    np.testing.assert_allclose(intervals, intervals[0], rtol=0.02)


def test_a_histogram_of_the_values_adds_up_to_the_reports():
    m = HierarchicalHistogram(Domain(["low", "middle", "high"], unmatched="other"), epsilon=2.0)
    tally = m.simulate({"low": 500, "high": 300, None: 200}, seed=1)
    found = m.estimate(tally)
    assert found.values == ("low", "middle", "high", "other")
    assert found.counts.sum() == close(1000)
    assert (np.abs(found.counts - [500, 0, 300, 200]) < 5 * found.standard_errors).all()
    assert m.estimate(tally, consistency="norm-sub").counts.min() >= 0
    wide = m.estimate(tally, simultaneous=True)
    assert (wide.high - wide.low > found.high - found.low).all()


def test_a_person_has_one_level_and_a_node_one_report():
    m, n = HierarchicalHistogram(range(16), epsilon=1.0, shares=[0, 512, 0, 512]), 2000
    first, second, third = (
        m.perturb(np.full(n, value), randomness=Keyed(Secret.from_seed(5), np.arange(n), column="x"))
        for value in (0, 1, 15)
    )
    level = np.searchsorted(np.cumsum([level.cells for level in m.levels]), first, side="right")
    assert set(level.tolist()) == {1, 3}
    assert (first == second)[level == 1].all()  # 0 and 1 are in one node of four
    assert not (first == second)[level == 3].all()
    again = np.searchsorted(np.cumsum([level.cells for level in m.levels]), third, side="right")
    assert (again == level).all()
    # So two reports that differ at the level of four nodes are of (0, 15), never of (0, 1), though both have changed.
    assert (first != third)[level == 1].any()


def test_no_epsilon_bounds_keyed_reports_of_values_that_may_share_a_node():
    change = {"changes": 1, "change_times": "public", "keyed": True}
    m = HierarchicalHistogram(range(16), epsilon=1.0)
    assert m.epsilon_of(2, **change) == m.epsilon_of(2, **{**change, "change_times": "secret"}) == math.inf
    assert m.epsilon_of(9, keyed=True) == m.epsilon_of(1, **change) == 1.0
    assert m.epsilon_of(2, changes=1) == 2.0
    for apart in (
        HierarchicalHistogram(range(2), epsilon=1.0),
        HierarchicalHistogram(range(4), epsilon=1.0, shares=[0, 1024]),
    ):
        assert apart.epsilon_of(9, **change) == 2.0  # each value has a node of its own


def test_plans_keep_the_shares():
    cells = Cells.declared(low=1, high=1000, count=6, scale="log", unmatched="clip", missing=1)
    m = HierarchicalHistogram(cells, epsilon=1.0, workload="prefixes")
    plan = PrivacyPlan({"ms": m, "age": HierarchicalHistogram(range(100), epsilon=0.5)})
    assert PrivacyPlan.from_toml(plan.to_toml()) == plan
    assert m.to_dict()["shares"] == m.shares
    declared = {"low": 1, "high": 1000, "count": 6, "scale": "log", "missing": 1}
    short = {"mechanism": "hierarchical_histogram", "epsilon": 1.0, "workload": "prefixes", "domain": declared}
    assert Mechanism.from_dict({**short, "unmatched": "clip"}) == m


@each(
    ("arguments", "error", "says"),
    [
        ({"domain": range(1 << 17)}, DomainError, "at most 65536 values"),
        ({"domain": Domain(["a", "b"], unmatched="none")}, DomainError, r"no .none.*curve: \.ldp\.cdf"),
        ({"shares": [1024]}, ParameterError, "3 whole numbers that add up to 1024"),
        ({"shares": [512, 512, 0]}, ParameterError, "the last above 0"),
        ({"shares": "all"}, ParameterError, "got str"),
        ({"workload": "points"}, ParameterError, "workload must be"),
        ({"domain": Cells([0, 1, 2]), "unmatched": "other"}, ParameterError, "not both"),
    ],
)
def test_what_does_not_exist_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        HierarchicalHistogram(**{"domain": range(8), "epsilon": 1.0, **arguments})


def test_numbers_are_in_their_cells():
    cells = Cells([0, 1, 10, 100])
    assert cells.encode(pa.array([0, 0.5, 1, 9.99, 10, 100])).tolist() == [0, 0, 1, 1, 2, 2]
    assert Cells.declared(low=0, high=10, count=4) == Cells((0, 2.5, 5, 7.5, 10))
    assert Cells([0, 1, 2], "clip", missing=0.5).encode([-5, None, math.nan, math.inf]).tolist() == [0, 0, 0, 1]
    assert cells.outside([-1, None, 5, math.nan, 101]).tolist() == [True, True, False, True, True]
    for values in ([101.0], [None], [math.nan], [-0.1]):
        with pytest.raises(DomainError, match="1 of 1 values are not numbers in"):
            cells.encode(values)
    assert not isinstance(cells, Interval)


@each(
    "edges",
    [[0, 1], [0, 2, 1], [0, 0, 1], [0, math.nan, 1], [0, 1, math.inf], "abc", [0, "a", 1], [False, True, 2], None],
)
def test_edges_that_are_none_are_refused(edges):
    with pytest.raises(DomainError, match=r"^edges of cells must be|^cells have 3 to"):
        Cells(edges)


@each(
    "declared",
    [
        {},
        {"low": 0},
        {"edges": [0, 1, 2], "low": 0},
        {"low": 0, "high": 1, "count": 1},
        {"low": 0, "high": 9, "count": 3, "scale": "log"},
        {"low": 0, "high": 9, "count": 3, "scale": "cubic"},
        {"low": 9, "high": 0, "count": 3},
    ],
)
def test_cells_are_declared_in_one_of_two_ways(declared):
    with pytest.raises(LdpError):
        Cells.declared(**declared)
