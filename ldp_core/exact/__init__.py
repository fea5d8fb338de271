"""Exact arithmetic: probabilities, composition, sampling, bits, hashes, transforms."""
