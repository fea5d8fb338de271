"""Checks of whole reports, each shown to fail on a fault of the kind that it is there to find."""

import numpy as np

from ldp_core import RandomizedResponse, UnaryEncoding
from ldp_core.exact import sampling
from ldp_core.exact.sampling import uniform_below

from ....cases import each
from ...checks import by_numpy, check_marginals, check_rows_independent, fails
from .helpers import table_of


def reports(m, n=400_000):
    codes = np.arange(n) % m.domain.size
    return codes, m.perturb(codes)


@each("fault", [lambda p, q: (q, p), lambda p, q: (p, q + q // 10)])
def test_p_and_q_swapped_and_q_off_by_a_tenth(monkeypatch, fault):
    m = UnaryEncoding(list(range(8)), epsilon=1.0)
    table = table_of(m)
    check_marginals(*reports(m), table)
    monkeypatch.setitem(m.__dict__, "thresholds", fault(*m.thresholds))
    fails(check_marginals, *reports(m), table)


def test_the_true_bit_in_the_wrong_place(monkeypatch):
    m = UnaryEncoding(list(range(9)), epsilon=1.0)
    table = table_of(m)
    real = sampling.overwrite_bit
    by_numpy(monkeypatch)
    monkeypatch.setattr(sampling, "overwrite_bit", lambda rows, at, bit: real(rows, at ^ 1, bit))
    fails(check_marginals, *reports(m), table)


def test_grr_that_never_draws_the_true_value_again(monkeypatch):
    """The other way to write GRR, with the probabilities of this one: the usual slip."""
    m = RandomizedResponse(list(range(8)), epsilon=1.0)
    table = table_of(m)

    def others(d, n, randomness):
        return (np.arange(n) + 1 + uniform_below(d - 1, n, randomness)) % d

    by_numpy(monkeypatch)
    monkeypatch.setattr(sampling, "uniform_below", others)
    codes, drawn = reports(m, 200_000)
    fails(check_marginals, codes, drawn[:, None] == np.arange(8), table)


def test_noise_shared_between_rows(monkeypatch):
    m = UnaryEncoding(list(range(8)), epsilon=1.0)
    real = sampling.bernoulli_bits

    def shared(threshold, n_bytes, randomness):
        return np.repeat(real(threshold, -(-n_bytes // 2), randomness), 2)[:n_bytes]

    by_numpy(monkeypatch)
    monkeypatch.setattr(sampling, "bernoulli_bits", shared)
    rows = m.perturb(np.zeros(200_000, np.int64))
    fails(check_rows_independent, rows, table_of(m)[0])
