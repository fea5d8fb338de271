"""Pictures for planning show the closed forms of the papers."""

from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist

import pytest

import ldp_plots
from ldp_core import Hybrid, Interval, ParameterError, required_n

from ..cases import case
from .test_estimates import data

Z = NormalDist().inv_cdf(0.975)


def oue(epsilon: float, n: int, d: int) -> float:
    """Standard error of a share 1 / d: Wang et al. (2017), Theorem 2, p = 1/2 and q = 1 / (e^epsilon + 1)."""
    q, f = 1 / (math.exp(epsilon) + 1), 1 / d
    return math.sqrt((f / 4 + (1 - f) * q * (1 - q)) / n) / (0.5 - q)


def test_errors_are_those_of_the_paper():
    wide = {"epsilons": [0.5, 4.0], "people": [1000, 50_000]}
    for against in ("epsilon", "people"):
        drawn = data(ldp_plots.error("unary_encoding", domain=16, **wide, against=against))
        with case(against):
            assert set(product(*wide.values())) <= {(row["epsilon"], row["people"]) for row in drawn}
            for row in drawn:
                assert row["margin"] == pytest.approx(Z * oue(row["epsilon"], row["people"], 16))
            assert len({row[against] for row in drawn}) > 30


def test_means_are_in_their_unit():
    chart = ldp_plots.error(
        Hybrid, domain=(0, 60), epsilons=[1.0], people=[required_n(Hybrid, 0.5, domain=Interval(0, 60), epsilon=1.0).n]
    )
    assert data(chart)[0]["margin"] == pytest.approx(0.5, rel=1e-4)
    assert "mean" in str(chart.to_dict())


def test_all_mechanisms():
    drawn = data(ldp_plots.mechanisms(16, 10_000, epsilons=[0.5, 2.0]))
    names = {row["mechanism"] for row in drawn}
    assert {"OUE", "randomized response", "CMS", "RAPPOR", "LOLOHA", "subset selection"} <= names
    assert len(drawn) == 2 * len(names)
    for epsilon in ("0.5", "2"):
        rows = {row["mechanism"]: row for row in drawn if row["epsilon"] == epsilon}
        assert rows["OUE"]["error"] == pytest.approx(oue(float(epsilon), 10_000, 16))
        best = min(row["error"] for row in rows.values())
        for row in rows.values():
            assert row["times"] == pytest.approx(row["error"] / best)
            assert float(row["shown"].rstrip("%")) == pytest.approx(100 * row["error"], rel=0.06)


def test_all_mechanisms_of_numbers():
    drawn = data(ldp_plots.mechanisms((0, 60), 10_000, epsilons=[1.0]))
    assert {"hybrid", "piecewise", "one bit mean"} <= {row["mechanism"] for row in drawn}


def test_bad_arguments_are_refused():
    for wrong in ({"epsilons": []}, {"epsilons": [-1]}, {"people": [0]}, {"against": "d"}):
        with case(wrong), pytest.raises(ParameterError):
            ldp_plots.error("unary_encoding", domain=16, **wrong)
    with pytest.raises(ParameterError):
        ldp_plots.error("no_such", domain=16)
    for domain, n, options in ((1, 100, {}), (4, 0, {}), (4, 100, {"epsilons": []})):
        with case(domain, n, options), pytest.raises(ParameterError):
            ldp_plots.mechanisms(domain, n, **options)
