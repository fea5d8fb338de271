"""Pages for people: a report of estimates, the same while a job runs, and a planner. They need neither Polars nor Beam.

A page is one file: it loads nothing, asks no network, and runs no script but its own.

>>> from ldp_core import PrivacyPlan, RandomizedResponse
>>> from ldp_report import Results, report_page
>>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
>>> row = {"value": "true", "count": 12.0, "low": 3.0, "high": 21.0, "n": 100}
>>> page = report_page(Results({"crashed": [row]}, plan=plan, confidence=0.95))
>>> "<!doctype html>" in page
True
"""

from ldp_core.engine import RESULTS, about
from ldp_report.page import planner_page, report_page
from ldp_report.results import Results, read_results
from ldp_report.serving import LivePage

__all__ = ["RESULTS", "LivePage", "Results", "about", "planner_page", "read_results", "report_page"]
