"""From tallies to results with error bars."""
