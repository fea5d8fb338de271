"""The piecewise mechanism."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_core import Piecewise
from ldp_core.inputs.interval import STEPS

from ....cases import each
from .helpers import SIDE, exact_variance


@each("epsilon", [0.1, 5.3, 5.5, 8.0, 10.0])
def test_piecewise_cells_are_fine_enough_everywhere(epsilon):
    m, h = Piecewise(SIDE, epsilon=epsilon), np.exp(epsilon / 2)
    for t in (0.0, 0.37, 1.0):
        paper = t**2 / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)
        assert float(exact_variance(m, round((t + 1) / 2 * STEPS))) == pytest.approx(paper, rel=0.01)


def test_reports_of_equal_symbols_are_not_certain():
    m = Piecewise(SIDE, epsilon=1.0)
    counts = np.zeros(m.symbols, np.int64)
    counts[100] = 25
    mean, error, _, _ = m.means(np.array(25), counts)
    assert error == pytest.approx(np.sqrt(m.variance(25, float(mean))))
