"""PrivSet: its formulas by enumeration of all reports, its sampler draw by draw and as a whole; lists of all kinds."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from ldp_core import Dates, Domain, DomainError, DtypeError, ParameterError, PrivacyPlan, PrivSet, SubsetSelection
from ldp_core.inputs.sets import Sets

from ....cases import case, each
from ...checks import FALSE_ALARM
from ...enumeration import check_ratio
from ...examples import keyed

SMALL = [
    PrivSet(range(d), epsilon=epsilon, most=most, k=k)
    for d, most, k, epsilon in [(2, 1, 1, 1), (2, 2, 2, 1), (3, 2, 1, 0.5), (4, 2, 3, 2), (4, 3, 2, 1), (5, 3, 4, 4)]
]


def padded_sets(m):
    """Of each list of items, the places of items and pads."""
    d = m.domain.size
    lists = [items for size in range(m.most + 1) for items in itertools.combinations(range(d), size)]
    return lists, [{*items, *range(d, d + m.most - len(items))} for items in lists]


def tables_of(m):
    """The probability of each report under each list, by the definition."""
    reports = [frozenset(report) for report in itertools.combinations(range(m.inputs.places), m.k)]
    hit = comb(m.inputs.places, m.k) - comb(m.domain.size, m.k)
    t = Fraction(m._meets, 2**64)
    chances = (1 - t) / (len(reports) - hit), t / hit
    return [{report: chances[not report.isdisjoint(own)] for report in reports} for own in padded_sets(m)[1]]


@each("m", SMALL)
def test_probabilities_and_privacy_over_all_reports_and_all_lists(m):
    """Lists of different lengths, the empty one too, have the same reports; and each ratio is within epsilon."""
    tables = tables_of(m)
    check_ratio(m, tables)
    (p, *_), (q, *_) = m.support_probabilities()
    for items, table in zip(padded_sets(m)[0], tables, strict=True):
        assert sum(table.values()) == 1
        for v in range(m.domain.size):
            assert sum(chance for report, chance in table.items() if v in report) == (p if v in items else q)
    for k in range(1, (m.inputs.places + 1) // 2 + 1):
        assert m.variance(1) <= PrivSet(m.domain, epsilon=m.epsilon, most=m.most, k=k).variance(1) or m.k != k


class Outcomes:
    """Noise that gives each outcome of some draws to another record."""

    def __init__(self, sizes):
        self.sizes, self.drawn = sizes, np.indices(sizes).reshape(len(sizes), -1)

    def uniform_again(self, d, rows, step, lane):
        assert d == self.sizes[step]
        return self.drawn[step]


@each("m", SMALL)
def test_the_first_item_that_is_met_has_its_exact_probability(m):
    """Rank r is kept in proportion to C(places - 1 - r, k - 1), the reports of which it is the first."""
    places, most = m.inputs.places, m.most
    noise = Outcomes([most, *(places - 1 - i for i in range(most - 1 if m.k > 1 else 0))])
    rank, keep = m._candidate(np.arange(noise.drawn.shape[1]), noise, 0)
    counts = np.bincount(rank[keep], minlength=most).tolist()
    ways = [comb(places - 1 - r, m.k - 1) for r in range(most)]
    assert [count * ways[0] for count in counts] == [counts[0] * way for way in ways]


@each("m", [*SMALL, PrivSet(range(12), epsilon=1.0, most=2, k=5)])
@pytest.mark.slow
def test_reports_have_their_distribution(m):
    """A chi-square test of each list, over all reports; fresh and keyed."""
    lists, n = padded_sets(m)[0], 20_000
    tables = tables_of(m)
    for number in {0, len(lists) // 2, len(lists) - 1}:
        for noise in (None, keyed(n)):
            reports = m.perturb([lists[number]] * n, randomness=noise)
            assert (reports.sum(axis=1) == m.k).all()
            codes = reports @ (1 << np.arange(m.inputs.places))
            expected = np.array([float(chance) * n for chance in tables[number].values()])
            found = [np.count_nonzero(codes == sum(1 << v for v in report)) for report in tables[number]]
            with case(lists[number], noise):
                assert stats.chi2.sf(((found - expected) ** 2 / expected).sum(), len(expected) - 1) > FALSE_ALARM


def test_variance_against_one_item_by_subset_selection():
    """The four cases of the paper's comparison: exact formulas, and what one item drawn of m costs."""
    cases = ((20, 3, 1, 8.51, 29.5), (50, 5, 1, 16.4, 87.9), (50, 5, 2, 2.11, 16.5), (100, 10, 1, 33.2, 360))
    for d, most, epsilon, ours, sampled in cases:
        assert float(f"{PrivSet(range(d), epsilon=epsilon, most=most).variance(1):.3g}") <= ours
        one = SubsetSelection(range(d + most), epsilon=epsilon).variance(1) * most**2
        assert one == pytest.approx(sampled, rel=0.01)
    for d in (2, 3, 16):  # of one item it is subset selection with one value more: none
        one = PrivSet(range(d), epsilon=1.0, most=1)
        other = SubsetSelection(range(d + 1), epsilon=1.0, k=one.k)
        assert (one.k, one.p, one.q) == (other.k, pytest.approx(other.p), pytest.approx(other.q))


# ---- lists


def test_lists_of_all_types_have_the_codes_of_their_sets():
    sets = Sets(Domain(["mail", "maps", "news", "chat", "tv"], unmatched="other"), 3)
    lists = [["tv", "mail", "tv"], [], None, ["maps"], ["x", "news", "y"], ["mail", None]]
    expected = [[0, 4, 6], [6, 7, 8], [5, 6, 7], [1, 6, 7], [2, 5, 6], [0, 5, 6]]
    column = pa.array(lists)
    enum = pl.Series(lists, dtype=pl.List(pl.Enum(["tv", "mail", "maps", "news", "x", "y"])))
    masked = pa.ListArray.from_arrays(pa.array([0, 1, 3]), pa.array(["mail", "x", "tv"]), mask=pa.array([False, True]))
    assert sets.items(sets.encode(masked)).tolist() == [[0, 6, 7], [5, 6, 7]]
    forms = (
        lists,
        [None if items is None else tuple(items) for items in lists],
        column,
        column.cast(pa.large_list(pa.large_string())),
        pa.chunked_array([column[:2], column[2:]]),
        pa.concat_arrays([column, column])[6:],
        pa.array(lists, pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 3, 4, 5]), column),
        pl.Series(lists),
        pl.Series(lists, dtype=pl.List(pl.Categorical)),
        enum,
    )
    for form in forms:
        with case(getattr(form, "type", type(form))):
            assert sets.items(sets.encode(form)).tolist() == expected
            assert sets.outside(form).tolist() == [False, False, True, False, True, True]
            assert not sets.refuses(form).any()
    fixed = pa.array([[3, 1], [2, 2], None], pa.list_(pa.int16(), 2))
    numbers = Sets(Domain([1, 2, 3], unmatched="other"), 2)
    assert numbers.items(numbers.encode(fixed)).tolist() == [[0, 2], [1, 4], [3, 4]]
    empty = numbers.encode(pa.array([[], []]))  # a column of lists of nothing has no type of items
    assert numbers.items(empty).tolist() == [[4, 5], [4, 5]]


def test_what_is_too_long_or_unknown_or_null():
    domain, lists = Domain(["mail", "maps", "news"]), [["news", "maps", "news", "mail"], ["mail"] * 9, None, ["x"]]
    sets = Sets(domain, 2)
    assert sets.refuses(lists).tolist() == [True, False, True, True]
    with pytest.raises(DomainError, match="column 'apps': 2 of 4 lists are null or have items"):
        sets.encode(lists, column="apps")
    with pytest.raises(DomainError, match="column 'apps': 1 of 2 lists have more than 2"):
        sets.encode(lists[:2], column="apps")
    first = Sets(Domain(domain.labels, unmatched="other"), 2, "first")
    assert first.items(first.encode(lists)).tolist() == [[1, 2], [0, 4], [3, 4], [3, 4]]
    assert first.outside(lists).tolist() == [True, False, True, True]
    for wrong in (["mail", "maps"], [["mail", 1]], [[["mail"]]], pa.array([[1, 2]]), [{"mail"}], "mail", np.eye(3)):
        with case(wrong), pytest.raises(DtypeError, match="column 'apps'"):
            sets.encode(wrong, column="apps")
    for bad in ({"most": 0}, {"most": 4}, {"most": 2, "on_more": "last"}, {"most": 2, "k": 4}):
        with case(bad), pytest.raises(ParameterError):
            PrivSet(domain, epsilon=1.0, **bad)
    with pytest.raises(DomainError, match='no "none"'):
        PrivSet(Domain(["a", "b"], unmatched="none"), epsilon=1.0, most=1)
    with pytest.raises(DomainError, match="no sets of dates"):
        PrivSet(Dates("2024-01-01", "2024-01-05"), epsilon=1.0, most=2)
    with pytest.raises(DomainError, match="declare fewer"):
        PrivSet(range(1 << 16), epsilon=1.0, most=2)


def test_a_null_is_not_the_empty_list_and_order_and_repeats_say_nothing():
    m = PrivSet(Domain(["mail", "maps", "news"], unmatched="other"), epsilon=1.0, most=2)

    def reports(items):
        return m.perturb([items] * 3000, randomness=keyed(3000))

    assert (reports(["mail", "news"]) == reports(["news", "mail", "news"])).all()
    assert (reports(None) == reports(["x"])).all()
    assert (reports(None) != reports([])).any()


def test_a_plan_keeps_it():
    m = PrivSet(["mail", "maps", "news"], epsilon=1.0, most=2, on_more="first", unmatched="other")
    plan = PrivacyPlan({"apps": m}, keep=["day"])
    frame = pl.DataFrame({"apps": [["mail"], ["mail", "maps"], [], None] * 2_000})
    shares = plan.simulate(frame, seed=1)["apps"]
    assert (np.abs(shares.counts - [4_000, 2_000, 0, 2_000]) < 5 * shares.standard_errors).all()
    plot = plan.simulate(frame.filter(pl.col("apps").is_not_null()), seed=1).plot().to_dict()
    assert "of 4 intervals hold the truth" in str(plot)  # (nobody has news, or others)
    sampled = PrivacyPlan.sampled({"apps": m, "crashed": [False, True]}, epsilon=1.0)["apps"]
    assert (sampled.most, sampled.exhaustive) == (2, False)


def test_what_needs_one_value_a_person_is_refused():
    m = PrivSet(range(5), epsilon=1.0, most=2)
    tally = m.tally(m.perturb([[1, 2], []] * 500))
    with pytest.raises(ParameterError, match="how the estimated shares"):
        m.range_counts(np.array([tally.n]), tally.counters[None], np.array([0]), np.array([2]))
    for method in ("norm-sub", "norm-cut"):
        with pytest.raises(ParameterError, match="some records have several: use one of base-pos, base-cut"):
            m.estimate(tally, consistency=method)
    assert m.estimate(tally, consistency="base-pos").counts.min() >= 0
