"""Our errors through Polars: it makes them anew, and what it appends to their messages is left out."""

from __future__ import annotations

import polars as pl
import pytest

from ldp_core import DomainError, UnaryEncoding
from ldp_polars import _compat

M = UnaryEncoding(["ios", "android", "secret label"], epsilon=1.0)
FRAME = pl.DataFrame({"os": ["ios", "symbian"]})


def failing(error_class):
    def fail(column):
        raise error_class("our words")

    return FRAME.group_by(1).agg(pl.col("os").map_batches(fail, return_dtype=pl.String))


def test_a_message_is_ours_alone():
    with pytest.raises(DomainError, match=r"^column 'os': \d of \d values [^\n]*$") as caught:
        FRAME.group_by(1).agg(pl.col("os").ldp.perturb(M))
    assert "secret label" not in str(caught.value)
    with pytest.raises(DomainError) as caught:
        failing(DomainError)
    assert str(caught.value) == "our words"


def test_polars_appends_what_it_did():
    """Another class shows it: if this fails, Polars has other words now, or none."""
    with pytest.raises(ValueError, match="our words") as caught:
        failing(ValueError)
    assert str(caught.value).startswith(f"our words{_compat.EXPRESSION}")
    assert 'col("os")' in str(caught.value)
