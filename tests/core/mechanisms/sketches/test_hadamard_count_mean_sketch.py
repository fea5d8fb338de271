"""The transform of the Hadamard sketch; all else is asked of both sketches in `test_count_mean_sketch`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from ldp_core.exact.transforms import walsh_hadamard


@pytest.mark.parametrize(("k", "m"), [(1, 2), (3, 64), (40, 16)])
def test_the_transform_is_the_product_with_the_matrix(k, m):
    counts = np.random.default_rng(k).integers(0, 1000, (k, m))
    np.testing.assert_array_equal(walsh_hadamard(counts), counts @ linalg.hadamard(m))
