"""Frequency oracles: how many records hold each declared value."""
