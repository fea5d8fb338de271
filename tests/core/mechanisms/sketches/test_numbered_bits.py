"""Counting reports that have a number and bits: in all the ways that there are."""

from __future__ import annotations

import numpy as np

from ldp_core import CountMeanSketch, HadamardCountMeanSketch
from ldp_core.mechanisms.sketches import _numbered_bits

from ....cases import each


@each("kind", [CountMeanSketch, HadamardCountMeanSketch])
def test_groups_are_tallied_as_they_are_alone(kind, monkeypatch):
    m = kind("int", epsilon=1.0, hashes=4, width=128)
    reports = m.perturb(np.arange(3000))
    groups = np.random.default_rng(0).integers(0, 5, 3000)
    grouped = m.count_reports(reports, groups, 6)
    monkeypatch.setattr(_numbered_bits, "_ROWS", 700)  # in blocks, some of which
    in_order = np.argsort(reports if reports.ndim == 1 else reports[:, 0])  # are all of one function
    np.testing.assert_array_equal(m.count_reports(reports[in_order], groups[in_order], 6), grouped)
    monkeypatch.setattr(_numbered_bits, "_LONG", 0)
    np.testing.assert_array_equal(m.count_reports(reports, groups, 6), grouped)
