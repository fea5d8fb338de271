"""The most frequent of values that nobody listed."""
