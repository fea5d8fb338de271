"""Intervals of numbers."""

from __future__ import annotations

import pytest

from ldp_core import DomainError, Interval

from ...cases import each


@each("ends", [(2**53, 2**53 + 1), (0, 10**400), (-(10**400), 0)])
def test_ends_of_intervals_are_floats(ends):
    """ZeroDivisionError for ends that are one float, OverflowError for those that are none."""
    with pytest.raises(DomainError, match="interval"):
        Interval(*ends)
