"""The telemetry job: files of events to private reports, and these to histograms and means, by one command.

``python -m ldp_beam.telemetry --help`` says how, and ``ldp run`` is the same command.
"""

from ldp_beam.telemetry.command import live, main, run
from ldp_beam.telemetry.options import FileOptions, LiveOptions

__all__ = ["FileOptions", "LiveOptions", "live", "main", "run"]
