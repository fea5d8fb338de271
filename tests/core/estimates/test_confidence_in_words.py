"""The confidence of intervals in the text of a result, as it was asked for."""

from ldp_core import HistogramEstimate, MeanEstimate, Piecewise, UnaryEncoding, pool, total


def test_results_say_the_confidence_that_was_asked_for() -> None:
    numbers, levels = Piecewise((0, 1), epsilon=1.0), UnaryEncoding(range(4), epsilon=1.0)
    some, few = (numbers.tally(numbers.perturb([x] * 20)) for x in (0.5, 0.6))
    of_levels = levels.simulate([9, 9, 9, 9], seed=1)
    for confidence, said in ((0.5, "50%"), (0.95, "95%"), (0.975, "97.5%"), (0.999, "99.9%"), (0.57, "57%")):
        results = (
            MeanEstimate(confidence=confidence).result(numbers, some),
            HistogramEstimate(confidence=confidence).result(levels, of_levels),
            pool([(numbers, some), (numbers, few)], confidence=confidence),
            total([1.5, -0.5] * 50, confidence=confidence),
        )
        assert all(f" {said} interval" in repr(result) for result in results)
