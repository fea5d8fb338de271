"""What is taken from Polars though no page of its documentation promises it; seen in Polars 2.1."""

from __future__ import annotations

from ldp_core import LdpError

EXPRESSION = "\n\nThis error occurred in the following expression:"
"""Polars makes an error of a Python function anew, as ``type(error)(message)``, and appends the whole expression."""

LdpError.endings = (EXPRESSION,)  # it has all that the expression is made of, the labels of a domain too
