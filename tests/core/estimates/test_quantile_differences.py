"""Differences of quantiles between two tallies: a level that holds, and what is refused."""

import numpy as np
import pytest
from scipy import stats

from ldp_core import (
    HierarchicalHistogram,
    LongitudinalUnaryEncoding,
    ParameterError,
    QuantilesEstimate,
    RandomizedResponse,
    SquareWave,
    Tally,
    UnaryEncoding,
    WholeNumbers,
    compare_quantiles,
)

from ...cases import case
from ..examples import counters_of_runs, noise_for


def tallies(m, shares, n, rng):
    """Of 60 runs, each of n people of a population."""
    counters = counters_of_runs(m, rng.choice(len(shares), (60, n), p=shares))
    return [Tally(n, one, m.fingerprint) for one in counters]


@pytest.mark.slow
def test_intervals_hold_with_and_without_a_difference():
    """In 60 runs fewer than 87 % with a probability below 0.01, if 95 % hold. The seed is fixed."""
    m, rng = UnaryEncoding(range(32), epsilon=2.0), np.random.default_rng(8)
    f = np.diff(stats.beta(2, 5).cdf(np.arange(33) / 32))
    for shift in (0, 4):
        g, held, changed = np.roll(f, shift), 0, 0
        for before, after in zip(tallies(m, f, 6000, rng), tallies(m, g, 4000, rng), strict=True):
            found = compare_quantiles(m, before, after, [0.5, 0.8])
            held += (found.low <= shift) & (shift <= found.high)
            changed += found.low[0] > 0
        with case(shift):
            assert (held / 60 >= 0.87).all()
            assert changed > 45 if shift else changed < 6


def test_both_medians_may_jump_the_other_way_at_once():
    """Of 51 ones and 49 threes the median may be 3 among many, and of 49 ones and 51 twos 1: errors of 0.2 z each."""
    m = RandomizedResponse(range(4), epsilon=50.0)  # hardly any noise
    one, two = (m.tally(m.perturb(values)) for values in ([1] * 51 + [3] * 49, [1] * 49 + [2] * 51))
    for confidence in (0.8, 0.95):
        found, back = (compare_quantiles(m, *sides, confidence=confidence) for sides in ((one, two), (two, one)))
        assert (found.low[0], found.differences[0], back.differences[0], back.high[0]) == (-2, 1, -1, 2)


def test_numbers_declared_in_another_order_have_no_differences():
    """Of hours over midnight 23 and 0 are one apart: of two tallies alike the difference was 23, and 0 not in it."""
    hours = HierarchicalHistogram([20, 21, 22, 23, 0, 1, 2, 3], epsilon=1.0)
    one, two = (hours.simulate(people := [40, 40, 80, 240, 240, 80, 40, 40], seed=seed) for seed in (1, 2))
    with pytest.raises(ParameterError, match="numbers that go up"):
        compare_quantiles(hours, one, two)
    text = HierarchicalHistogram([f"{hour} h" for hour in hours.domain.labels], epsilon=1.0)  # in the domain's order
    assert QuantilesEstimate([0.5]).result(text, text.simulate(people, seed=1)).quantiles[0] in ("23 h", "0 h")


def test_one_median_may_jump_while_the_other_moves():
    """Of 51 zeros and 49 times 63 the median may be 63, an error of 0.2 z, beside nearly all of that of the other."""
    m = RandomizedResponse(range(64), epsilon=50.0)  # hardly any noise
    jumps, moves = (m.tally(m.perturb(values)) for values in ([0] * 51 + [63] * 49, [*range(64)] * 4))
    for confidence in (0.8, 0.95, 0.99):
        nearly = 2 * stats.norm.cdf(np.cos(np.pi / 12) * stats.norm.ppf((1 + confidence) / 2)) - 1
        of_moves = QuantilesEstimate([0.5], nearly, "many").result(m, moves)
        found, back = (compare_quantiles(m, *s, confidence=confidence) for s in ((jumps, moves), (moves, jumps)))
        assert found.low[0] == of_moves.low[0] - 63 == -back.high[0]


def test_of_few_people_whose_shares_are_beyond_0_and_1_no_difference_is_excluded():
    """One standard error is more than 1, so that both quantiles may be any value within half of them."""
    m = RandomizedResponse(range(3), epsilon=0.3)
    sides = [m.tally(values) for values in (np.repeat([0, 1, 2], [4, 6, 7]), np.repeat([0, 1, 2], [3, 3, 2]))]
    found = compare_quantiles(m, *sides, [0.05, 0.95], confidence=0.99)
    assert (found.low.tolist(), found.high.tolist()) == ([-2, -2], [2, 2])


def test_each_side_is_its_quantile_and_reaches_add_up():
    m = UnaryEncoding(range(20), epsilon=3.0)
    before, after = m.simulate([100] * 20, seed=1), m.simulate([50] * 10 + [150] * 10, seed=2)
    found = compare_quantiles(m, before, after, confidence=0.9)
    one, two = (QuantilesEstimate([0.5], 0.9, "many").result(m, side) for side in (before, after))
    d = two.quantiles - one.quantiles
    np.testing.assert_allclose(found.differences, d)
    np.testing.assert_allclose(found.low, d - np.hypot(two.quantiles - two.low, one.high - one.quantiles))
    np.testing.assert_allclose(found.high, d + np.hypot(two.high - two.quantiles, one.quantiles - one.low))
    assert found.n == 4000
    assert found.to_arrow().column_names[:4] == ["probability", "before", "after", "difference"]
    wave = SquareWave((0, 1), epsilon=2.0)
    sides = (wave.tally(wave.perturb(np.full(400, x))) for x in (0.2, 0.8))
    assert compare_quantiles(wave, *sides).differences[0] > 0.2


def test_of_a_fitted_distribution_both_sides_may_be_off():
    """A heap is blurred, here to its left and there to its right: 9 % of 300 intervals held, and 98 % do.

    Seeds are fixed. If 95 % hold, 18 of 20 do with a probability of 0.92.
    """
    wave, held = SquareWave(WholeNumbers(0, 40), epsilon=3.0), 0
    below = np.concatenate([np.full(20, 240), [5200], np.zeros(20, int)])  # the median of both is the heap
    for seed in range(20):
        sides = (
            wave.simulate(dict(enumerate(people)), seed=2 * seed + k) for k, people in enumerate([below, below[::-1]])
        )
        found = compare_quantiles(wave, *sides)
        held += found.low[0] <= 0 <= found.high[0]
    assert held >= 18


def test_of_the_same_people_the_reaches_add_up_and_all_together_are_wider():
    m = UnaryEncoding(range(20), epsilon=3.0)
    sides = m.simulate([100] * 20, seed=1), m.simulate([50] * 10 + [150] * 10, seed=2)
    one, two = (QuantilesEstimate([0.5], 0.9, None).result(m, side) for side in sides)
    found = compare_quantiles(m, *sides, confidence=0.9, same_people=True, population=None)
    np.testing.assert_allclose([found.low, found.high], [two.low - one.high, two.high - one.low])
    together = compare_quantiles(m, *sides, [0.25, 0.5], confidence=0.9, simultaneous=True)
    alone = compare_quantiles(m, *sides, [0.25, 0.5], confidence=0.95)
    np.testing.assert_array_equal([together.low, together.high], [alone.low, alone.high])
    own = LongitudinalUnaryEncoding(range(4), epsilon_infinity=2.0, epsilon_1=1.0)
    mine = [own.tally(own.perturb([1, 2, 3], randomness=noise_for(own, 3))) for _ in range(2)]
    assert compare_quantiles(own, *mine, same_people=False).n == 6


def test_what_is_refused():
    m, labels = UnaryEncoding(range(4), epsilon=1.0), RandomizedResponse(["a", "b"], epsilon=1.0)
    own = LongitudinalUnaryEncoding(range(4), epsilon_infinity=2.0, epsilon_1=1.0)
    side, other = (m.simulate([5] * 4, seed=seed) for seed in (1, 2))
    for mechanism, sides, words in [
        (m, (side, side), "compared with itself"),
        (m, (side, m.tally(m.perturb([]))), "has no reports"),
        (labels, [labels.simulate([3, 3], seed=seed) for seed in (1, 2)], "are none"),
        (own, [own.tally(own.perturb([1, 2], randomness=noise_for(own, 2))) for _ in range(2)], "person's own"),
    ]:
        with case(words), pytest.raises(ParameterError, match=words):
            compare_quantiles(mechanism, *sides)
    for wrong in ([2.0], None):
        with pytest.raises(ParameterError, match="probabilities"):
            compare_quantiles(m, side, other, wrong)
    assert len(compare_quantiles(m, side, other, 0.5).low) == 1
    with pytest.raises(ParameterError, match="probabilities"):
        compare_quantiles(m, side, other, [])
