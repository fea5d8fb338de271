"""`ldp_beam.telemetry`, as it is called in a checkout: ``python -m pipelines.telemetry``."""

import sys

from ldp_beam.telemetry import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main(called="python -m pipelines.telemetry"))
