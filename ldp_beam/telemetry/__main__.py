"""``python -m ldp_beam.telemetry``."""

import sys

from ldp_beam.telemetry import main

if __name__ == "__main__":
    sys.exit(main())
