"""Pictures of estimates and of plans, as Altair charts: of results of the core, of frames, and of Beam's rows.

Results of the core draw themselves, too: ``histogram.plot()``. Everything here needs the extra ``plot``.
"""

from ldp_core.engine import themed
from ldp_plots.estimates import estimate, windows
from ldp_plots.planning import error, mechanisms

__all__ = ["error", "estimate", "mechanisms", "themed", "windows"]
