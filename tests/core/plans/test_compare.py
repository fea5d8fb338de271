"""Which way of sharing is best."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from ldp_core.plans.compare import compare

from .helpers import AB


def test_the_comparison_agrees_with_the_reports():
    columns, n, runs = {"x": range(4), "y": range(12), "z": [False, True]}, 500, 400
    found = {}
    for sharing in compare(columns, 1.0, n):
        rng = np.random.default_rng(2)
        values = {name: rng.permutation(np.arange(n * runs) % len(domain)) for name, domain in columns.items()}
        codes = {**values, "z": values["z"].astype(bool)}
        reports = sharing.plan.seeded(3).perturb(pa.record_batch(codes), id=np.arange(n * runs))
        groups = np.repeat(np.arange(runs), n)
        errors = {}
        for name, m in sharing.plan.columns.items():
            counts = m.debias(n, m.count_reports(m.reports.from_arrow(reports[name]), groups, runs))[0]
            d = len(columns[name])
            true = np.bincount(groups * d + values[name], minlength=runs * d).reshape(runs, d)
            errors[name] = math.sqrt(((counts - true) ** 2).mean()) / n
            assert sharing.standard_errors[name] == pytest.approx(errors[name], rel=0.1)
        found[sharing.way] = math.sqrt(sum(e**2 for e in errors.values()) / 3)
    assert list(found) == sorted(found, key=found.get)
    assert next(iter(found)) == "sampled"


def test_a_large_epsilon_is_better_split():
    assert [s.way for s in compare({"x": AB, "y": AB}, 5.0, 1000)] == ["split", "sampled", "fake"]
