"""RAPPOR's regression: its solvers against scipy's, selection, and corrections."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from ldp_core.mechanisms.sketches._regression import nonnegative, significant

from ....cases import each


@each("seed", range(5))
def test_nonnegative_least_squares_is_scipys(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(60, 20)), rng.normal(size=60)
    np.testing.assert_allclose(nonnegative(a.T @ a, a.T @ b), optimize.nnls(a, b)[0], atol=1e-9)


@each("seed", range(5))
def test_lasso_satisfies_its_optimality_conditions_and_is_found_by_scipy(seed):
    rng = np.random.default_rng(seed)
    a, b, penalty = rng.normal(size=(60, 15)), rng.normal(size=60), rng.uniform(1, 10, 15)
    gram, target = a.T @ a, a.T @ b
    x = nonnegative(gram, target, penalty)
    gradient = gram @ x - target + penalty
    assert (x >= 0).all()
    assert gradient.min() > -1e-8
    np.testing.assert_allclose(gradient[x > 0], 0, atol=1e-8)
    found = optimize.minimize(
        lambda v: v @ gram @ v / 2 - v @ (target - penalty),
        np.ones(15),
        jac=lambda v: gram @ v - target + penalty,
        bounds=[(0, None)] * 15,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    ).x
    np.testing.assert_allclose(x, found, atol=1e-5)


@each("correction", ["bonferroni", "fdr"])
def test_corrections_by_hand(correction):
    p = np.array([0.2, 0.001, 0.012, 0.9, 0.02])
    expected = {"bonferroni": [0.001], "fdr": [0.001, 0.012, 0.02]}[correction]
    assert sorted(p[significant(p, 0.05, correction)]) == expected
    assert not significant(np.ones(3), 0.05, correction).any()
