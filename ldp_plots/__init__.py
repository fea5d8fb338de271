"""Pictures of estimates, as Altair charts: of results of the core, of frames, and of Beam's rows.

Results of the core draw themselves, too: ``histogram.plot()``. Everything here needs the extra ``plot``.
"""

from ldp_core.engine import themed
from ldp_plots.estimates import estimate, windows

__all__ = ["estimate", "themed", "windows"]
