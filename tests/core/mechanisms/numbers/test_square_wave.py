"""The square wave."""

import numpy as np
import pytest

from ldp_core import ParameterError, SquareWave, WholeNumbers

from ....cases import each
from .helpers import SIDE

# epsilon; b, p, q, as vvv214/LDP_Protocols sw.py has them
SQUARE_WAVE = [
    (0.5, 0.35815542461116684, 0.7559484588634582, 0.4585059174632018),
    (1.0, 0.25608293750147265, 1.1363051215897186, 0.4180232931306735),
    (2.0, 0.1293370667457663, 2.53801040671566, 0.34348235725033444),
    (4.0, 0.030427703824353614, 12.630880147922284, 0.23134263963622595),
]


@each(("epsilon", "b", "p", "q"), SQUARE_WAVE)
def test_square_wave_parameters(epsilon, b, p, q):
    m = SquareWave((0, 1), epsilon=epsilon, buckets=2048)
    assert m.b == pytest.approx(b, rel=1e-12)
    high, low = (float(x) * m.buckets for x in m.cell_probabilities)  # of cells, as densities
    assert (high, low) == (pytest.approx(p, rel=0.005), pytest.approx(q, rel=0.005))
    assert m.cells == (2048 + 2 * int(b * 2048), 2 * int(b * 2048) + 1)
    small = SquareWave((0, 1), epsilon=epsilon, buckets=50)
    (cells, w), e = small.cells, np.exp(epsilon)
    assert float(small.cell_probabilities[0]) == pytest.approx(e / (w * e + cells - w), rel=1e-12)


def test_bad_distributions():
    m = SquareWave(SIDE, epsilon=1.0, buckets=10)
    for options in ({"method": "mle"}, {"buckets": 11}, {"buckets": 0}, {"confidence": 1}):
        with pytest.raises(ParameterError):
            m.distribution(m.empty_tally(), **options)


def test_more_whole_numbers_than_buckets():
    """The error was of buckets, which nobody had given, and said nothing to do."""
    with pytest.raises(
        ParameterError, match=r"5001 whole numbers .*: give buckets=, a divisor of 5001 .*, or an Interval"
    ):
        SquareWave(WholeNumbers(0, 5000), epsilon=1.0)
    assert SquareWave(WholeNumbers(0, 5000), epsilon=1.0, buckets=1667).buckets == 1667
    assert SquareWave(WholeNumbers(1, 2048), epsilon=1.0).buckets == 2048


def test_a_number_on_an_edge_is_in_the_bucket_that_begins_there():
    for low, high, buckets in (
        (0, 100, 10),
        (0, 1, 10),
        (0, 60, 12),
        (0, 10, 100),
        (0, 120, 120),
        (0, 121, 121),
        (0, 100, 64),
    ):
        m = SquareWave((low, high), epsilon=50.0, buckets=buckets)  # so large that there is no noise
        found = m.distribution(m.tally(m.perturb(np.repeat(np.arange(buckets) * (high - low) / buckets + low, 100))))
        assert found.cumulative[-buckets:] == pytest.approx(np.arange(1, buckets + 1) / buckets, abs=0.01)
