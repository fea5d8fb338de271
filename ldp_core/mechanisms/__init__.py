"""The mechanisms, by family."""
