"""Auditing: lower bounds of epsilon, with confidence, of whatever makes reports. ``python -m ldp_core.auditing``."""
