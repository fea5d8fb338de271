"""Mechanisms that the same person answers again and again."""
