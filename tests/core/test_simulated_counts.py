"""Draws for many people at once, against binomial tails and what must hold whatever is drawn."""

from __future__ import annotations

import numpy as np

from ldp_core import simulated_counts as simulation
from ldp_core.simulated_counts import inner_products, multinomials, spread, subset_sums

from ..cases import each
from .checks import check_binomial, fails


def generator():
    return np.random.default_rng(7)


@each("weights", [1, 2, 5, 64, np.array([1.0, 0.0, 3.0, 4.0, 1e-30])])
def test_each_choice_has_its_share(weights):
    people = np.array([0, 10, 10**9])
    counts = multinomials(people, weights, generator())
    shares = np.ones(weights) if isinstance(weights, int) else weights
    assert (counts.sum(axis=-1) == people).all()
    check_binomial(counts, people[:, None], shares / shares.sum())


def test_weights_of_each_row():
    counts = multinomials(np.array([[1000], [2000]]), np.array([[[0.0, 1, 0]], [[1, 0, 1]]]), generator())
    assert counts[0].tolist() == [[0, 1000, 0]]
    check_binomial(counts[1, 0], 2000, [0.5, 0, 0.5])


@each("people", [[3, 0, 10**6], [10**9, 5, 1]])
def test_spread_as_one_by_one(people):
    people, out = np.array(people), np.zeros(30, np.int64)
    spread(people, 10, lambda kind, choice: kind * 10 + choice, out, generator())
    check_binomial(out.reshape(3, 10), people[:, None], 0.1)


@each(("d", "size"), [(2, 1), (5, 0), (5, 2), (7, 6), (33, 20), (64, 1)])
def test_sets_of_others(d, size):
    people = np.arange(d) ** 3 % 11 * 10**5
    sums = subset_sums(size, people, generator())
    assert sums.sum() == size * people.sum()
    check_binomial(sums, people.sum() - people, size / (d - 1))


def test_more_people_than_numpy_draws_from_at_once(monkeypatch):
    monkeypatch.setattr(simulation, "_MOST_DRAWN", 10**6)
    test_sets_of_others(5, 2)


@each(("f", "m"), [(2, 1), (2, 6), (3, 3), (7, 2)])
def test_inner_products(f, m):
    k = f**m
    v, s = k - 1, f - 1  # all digits f - 1
    counts = np.zeros((k, f), np.int64)
    counts[v, s] = 10**6
    digits = np.arange(k)[:, None] // f ** np.arange(m) % f
    right = (s + digits.sum(axis=1) * (f - 1)) % f
    drawn = inner_products(counts, generator())
    check_binomial(drawn[np.arange(k), right], 10**6, 1 / k)
    assert drawn.sum() == drawn[np.arange(k), right].sum()
    zero = inner_products(counts, generator(), zero=True)
    check_binomial(zero[:, 0], 10**6, (right == 0) * f / k)
    assert not zero[:, 1:].any()


def test_a_share_that_is_off_is_seen(monkeypatch):
    binomial = np.random.default_rng(1).binomial
    monkeypatch.setattr(simulation, "multinomials", lambda n, k, _: binomial(n[..., None] // k, 0.999, (*n.shape, k)))
    fails(test_spread_as_one_by_one, [10**9, 5, 1])
