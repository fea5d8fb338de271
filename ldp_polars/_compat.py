"""What is used of Polars that it does not promise to keep; seen in 2.1. Nothing else in the package uses any.

They are ``polars._plr.pipe_with_dtype``, ``Expr._from_pyexpr`` and ``Expr._pyexpr``, in `at_plan_time`; how this and
a product are printed, in `multiplied`; and what is appended to the message of an error, `EXPRESSION`.
`tests/polars/test_compat.py` says so when one of them moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import polars as pl

from ldp_core import LdpError

EXPRESSION = "\n\nThis error occurred in the following expression:"
"""Polars makes an error of a Python function anew, as ``type(error)(message)``, and appends the whole expression."""

PLAN = "\n\nResolved plan until failure:"
"""The same of one that is called as the plan is made: the plan so far, with the names of its files."""

CONTEXT = "\n\nThis error occurred with the following context stack:"
"""What follows the plan, and is appended again where that is left out already."""

LdpError.endings = (EXPRESSION, PLAN, CONTEXT)  # they have all that a query is made of, the labels of a domain too

Choice = Callable[[pl.Expr, Any], pl.Expr]  # from an expression and its dtype to the expression that takes its place


class _Chosen:
    """What Polars calls back; unlike the closure that ``Expr.pipe_with_dtype`` makes, it pickles by reference."""

    def __init__(self, choose: Choice) -> None:
        self._choose = choose

    def __call__(self, inputs: tuple[list[Any], list[Any]]) -> Any:
        (expr,), (dtype,) = inputs
        return self._choose(pl.Expr._from_pyexpr(expr), dtype)._pyexpr


def at_plan_time(expr: pl.Expr, choose: Choice) -> pl.Expr:
    """``expr.pipe_with_dtype(choose)`` that serializes without cloudpickle, if ``choose`` is a module's function.

    The public method wraps its function in a closure. Where Polars moves what is under it, the public one is used.
    """
    try:
        from polars._plr import pipe_with_dtype  # noqa: PLC0415 (private: it may go)

        return pl.Expr._from_pyexpr(pipe_with_dtype([expr._pyexpr], _Chosen(choose)))
    except (ImportError, AttributeError):
        return expr.pipe_with_dtype(choose)


def multiplied(expr: pl.Expr) -> set[frozenset[str]]:
    """The pairs of columns of which a product in ``expr`` has what was chosen `at_plan_time`, as weights are."""
    pairs = set[frozenset[str]]()
    for text, inputs in _nodes(expr):
        if len(inputs) == 2 and text == f"[({inputs[1]}) * ({inputs[0]})]":
            pairs |= {frozenset(pair) for pair in product(*map(chosen, inputs))}
    return pairs


def chosen(expr: pl.Expr) -> set[str]:
    """The columns of which something in ``expr`` was chosen `at_plan_time`."""
    made = (inputs[0] for text, inputs in _nodes(expr) if len(inputs) == 1 and text == f"{inputs[0]}{_CHOICE}")
    return {name for values in made for name in values.meta.root_names()}


_CHOICE = ".pipe_with_dtype()"


def _nodes(expr: pl.Expr) -> Iterator[tuple[str, list[pl.Expr]]]:
    """The parts of an expression in which something was chosen, as they are printed, and what each is made of."""
    left = [expr]
    while left:
        node = left.pop()
        if _CHOICE in (text := str(node)):
            left += (inputs := node.meta.pop())
            yield text, inputs
