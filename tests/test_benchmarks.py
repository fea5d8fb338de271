"""The suites of the benchmarks follow the code that they measure: names, at least. They run by hand."""

from __future__ import annotations

import importlib
from pathlib import Path

from .cases import each

SUITES = ["columns", "heavy_hitters", "kernels", "lines", "live", "memory", "numbers", "oracles", "peers", "streams"]


@each("suite", SUITES)
def test_a_suite_can_be_imported(suite, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    assert callable(importlib.import_module(f"benchmarks.{suite}").rows)
    assert sorted(importlib.import_module("benchmarks.__main__").SUITES) == SUITES
