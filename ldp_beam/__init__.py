"""Beam transforms for local differential privacy."""
