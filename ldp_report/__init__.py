"""Pages for people: a report of estimates, the same while a job runs, and a planner. They need neither Polars nor Beam.

A page is one file: it loads nothing, asks no network, and runs no script but its own.
"""

from ldp_core.engine import RESULTS, about
from ldp_report.page import planner_page, report_page
from ldp_report.reading import read_results
from ldp_report.results import OF_ROWS, Results
from ldp_report.serving import LivePage

__all__ = ["OF_ROWS", "RESULTS", "LivePage", "Results", "about", "planner_page", "read_results", "report_page"]
