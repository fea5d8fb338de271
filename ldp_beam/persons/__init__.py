"""Limits per person: contributions, duplicates, budgets."""
