"""The table of mechanisms to choose from, against the mechanisms themselves and other people's numbers."""

import math

import numpy as np
from hypothesis import given

from ldp_core import Domain
from ldp_core.mechanisms.catalog import CHOICES

from ...cases import each
from ..plans.helpers import NAMES, close, epsilons, mechanism, names, precision, sizes


@given(names, sizes, epsilons)
def test_closed_forms_are_the_mechanisms(name, d, epsilon):
    m = mechanism(name, d, epsilon)
    assert CHOICES[name].probabilities(d, epsilon) == close((m.p, m.q), rel=precision(name))


@each("name", sorted(NAMES.values()))
@each("d", [2, 8, 100, 255, 256, 300, 70_000])
def test_bytes_are_those_of_a_column_of_reports(name, d):
    n = 1000 if d > 1000 else 10_000
    m = CHOICES[name].make(Domain([f"v{k}" for k in range(d)]), 1.0)
    reports = m.perturb(m.domain.decode(np.zeros(n, m.domain.code_dtype)))
    column = reports.indices if hasattr(reports, "indices") else reports.flatten()
    assert math.ceil(column.nbytes / n) == CHOICES[name].report_bytes(d, 1.0)
