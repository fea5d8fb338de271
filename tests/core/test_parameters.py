"""Declared parameters: checked, converted, worded and frozen in one place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

from ldp_core import ParameterError
from ldp_core.parameters import (
    Declared,
    check_choice,
    check_epsilon,
    check_integer,
    check_open,
    check_probability,
    converted,
    parameter,
)

from ..cases import each


@dataclass(frozen=True, init=False)
class Example(Declared):
    items: tuple[int, ...] = converted(tuple)
    k: int = parameter(check_integer, low=1, high=lambda self: len(self.items))
    way: str | None = parameter(check_choice, default=None, among=("long", "short"))

    def __init__(self, items, *, k, way="long"):
        self._declare(items=items, k=k, way=way)

    @classmethod
    def wayless(cls, items):
        return cls._made(items=items, k=1)


def test_fields_keep_what_their_checks_return_and_nothing_is_set_afterwards():
    made = Example([3, 4], k=np.int64(2))
    assert made == Example((3, 4), k=2)
    assert type(made.k) is int
    assert made._parameters() == {"items": (3, 4), "k": 2, "way": "long"}
    assert Example.wayless([3]).way is None
    with pytest.raises(ParameterError, match=r"^k must be an integer in \[1, 2\], got 3$"):
        Example([3, 4], k=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.k = 2


@each(
    ("check", "value", "bounds", "message"),
    [
        (check_epsilon, 0, {}, "x must be in (0, inf), got 0.0"),
        (check_epsilon, float("nan"), {}, "x must be in (0, inf), got nan"),
        (check_epsilon, True, {}, "x must be a number in (0, inf), got bool"),
        (check_epsilon, [1.0, 2.0], {}, "x must be a number in (0, inf), got list"),
        (check_epsilon, 2.0, {"below": ("y", 1.0)}, "x must be in (0, y = 1.0), got 2.0"),
        (check_integer, 1.0, {"low": 1}, "x must be an integer, at least 1, got 1.0"),
        (check_integer, True, {"low": 1}, "x must be an integer, at least 1, got True"),
        (check_open, 1, {}, "x must be in (0, 1), got 1.0"),
        (check_probability, 0.4, {"least": 0.5}, "x must be a probability in [0.5, 1], got 0.4"),
        (check_choice, "c", {"among": ("a", "b")}, 'x must be "a" or "b", got \'c\''),
        (check_choice, ["a"], {"among": ("a", "b")}, 'x must be "a" or "b", got list'),
    ],
)
def test_refusals_are_worded_alike(check, value, bounds, message):
    with pytest.raises(ParameterError) as error:
        check("x", value, **bounds)
    assert str(error.value) == message
