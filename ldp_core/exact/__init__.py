"""Exact arithmetic and fast arrays: probabilities, sampling, bits, hashes, Arrow columns."""
