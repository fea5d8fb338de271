"""Deployable jobs."""
