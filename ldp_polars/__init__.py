"""Polars expressions for local differential privacy."""
