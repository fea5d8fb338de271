"""Mechanisms for ordered values: shares of ranges, and what follows from them."""
