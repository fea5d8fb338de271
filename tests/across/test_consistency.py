"""The keyword ``consistency``: the same counts in the core, in Polars, in Beam and in Beam YAML."""

from itertools import product

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (which registers .ldp)
from ldp_beam.yaml import LdpHistogram
from ldp_core import Domain, Keyed, ParameterError, PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding
from ldp_core.estimates.consistency import METHODS

from ..beam.helpers import assumed, run
from ..beam.streams import All
from ..cases import case

LABELS = ["a", "b", "c", "d", "e"]
M = UnaryEncoding(LABELS, epsilon=0.5)
NONE = UnaryEncoding(Domain(LABELS, unmatched="none"), epsilon=0.5)
K_ARY = RandomizedResponse(LABELS, epsilon=0.5)
N, SEED = 500, 3


def reports(m) -> pa.Array:
    """The same ones every time, of which the least estimate is below 0, so that every method changes something."""
    codes = np.minimum(np.random.default_rng(1).geometric(0.7, N) - 1, 4)
    noise = Keyed(Secret.from_seed(SEED), np.arange(N), column="x")
    made = m.perturb(pa.array(LABELS).take(pa.array(codes)), packed=True, randomness=noise)
    assert m.estimate(m.tally(made)).counts.min() < -50
    return made


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_polars():
    """Counts are made consistent; intervals and errors remain those of the unbiased estimate."""
    for m, method in product((M, K_ARY), METHODS):
        column = reports(m)
        expected, unbiased = (m.estimate(m.tally(column), consistency=how) for how in (method, None))
        series = pl.Series("x", column.cast(pa.string()) if m is K_ARY else column)
        ask = pl.col("x").ldp.histogram(m, consistency=method, assume_reports=True)
        found = pl.DataFrame(series).select(ask).explode("x").unnest("x")
        with case(m.name, method):
            assert not np.array_equal(expected.counts, unbiased.counts)
            assert found["count"].to_list() == expected.counts.tolist()
            for name, same in (("standard_error", "standard_errors"), ("low", "low"), ("high", "high")):
                assert found[name].to_list() == getattr(unbiased, same).tolist()
    plan = PrivacyPlan({"x": M})
    typed = pl.DataFrame({"x": LABELS * 40}).ldp.perturb(plan)
    tidy = typed.ldp.histograms(plan, consistency="norm-sub")
    assert tidy["count"].min() >= 0
    assert tidy["count"].sum() == pytest.approx(200)


def test_beam():
    column = reports(M)
    expected = M.estimate(M.tally(column), consistency="norm-sub").counts.tolist()
    combine = ldp_beam.HistogramCombineFn(M, consistency="norm-sub")
    made = combine.extract_output(combine.add_input(combine.create_accumulator(), column))
    assert (made.counts.tolist(), made.biased) == (expected, True)
    python = ldp_beam.Histogram("x", M, consistency="norm-sub")
    yaml = LdpHistogram(column="x", mechanism=M.to_dict(), consistency="norm-sub")
    for rows in run(All([python, yaml]), [assumed(pa.record_batch({"x": column}), {"x": M})]):
        assert [row.count for row in rows] == expected
        assert [row.low for row in rows] == M.estimate(M.tally(column)).low.tolist()
    private = run(ldp_beam.PrivateHistogram("x", M, consistency="norm-sub"), [pa.record_batch({"x": LABELS * 40})])
    assert min(row.count for row in private) >= 0
    assert sum(row.count for row in private) == pytest.approx(200)


MAKERS = {
    "core": lambda m, how: m.estimate(m.empty_tally(), consistency=how),
    "Polars histogram": lambda m, how: pl.col("x").ldp.histogram(m, consistency=how),
    "Beam": lambda m, how: ldp_beam.Histogram("x", m, consistency=how),
    "Beam in one step": lambda m, how: ldp_beam.PrivateHistogram("x", m, consistency=how),
    "Beam combine": lambda m, how: ldp_beam.HistogramCombineFn(m, consistency=how),
    "YAML": lambda m, how: LdpHistogram(column="x", mechanism=m.to_dict(), consistency=how),
}


def test_methods_that_there_are_not_or_that_a_domain_does_not_allow_are_refused_before_anything_runs():
    for name, maker in MAKERS.items():
        for method in ("norm_sub", "", "best"):
            with case(name, method), pytest.raises(ParameterError, match="norm-sub"):
                maker(M, method)
        maker(NONE, "base-cut")
        with case(name), pytest.raises(ParameterError, match="base-cut"):
            maker(NONE, "norm-sub")
