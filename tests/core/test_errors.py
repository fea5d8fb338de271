"""Errors are made from one string, are pickled, and are kinds of the standard ones."""

from __future__ import annotations

import pickle

import pytest

import ldp_core
from ldp_core import LdpError

ERRORS = [e for e in vars(ldp_core).values() if isinstance(e, type) and issubclass(e, LdpError)]


def test_there_are_errors():
    assert len(ERRORS) >= 8


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.__name__)
def test_errors_can_be_made_from_one_string_and_pickled(error):
    made = error("column 'x': no")
    assert str(made) == "column 'x': no"
    assert str(pickle.loads(pickle.dumps(made))) == str(made)
    assert type(made)(str(made)).args == made.args
    if error is not LdpError:
        assert issubclass(error, (ValueError, TypeError))
