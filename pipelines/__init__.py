"""Deployable jobs."""

import logging


def _is_news(record: logging.LogRecord) -> bool:
    """False for what Beam says at every import without its ``gcp`` extra, which the local jobs do not need."""
    return not record.getMessage().startswith("apitools not found")


logging.getLogger().addFilter(_is_news)
