"""What is used of Polars that it does not promise to keep; seen in 2.1. Nothing else in the package uses any.

They are ``polars._plr.pipe_with_dtype``, ``Expr._from_pyexpr`` and ``Expr._pyexpr``, in `at_plan_time`; and what is
appended to the message of an error, `EXPRESSION`. `tests/polars/test_compat.py` says so when one of them moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from ldp_core import LdpError

EXPRESSION = "\n\nThis error occurred in the following expression:"
"""Polars makes an error of a Python function anew, as ``type(error)(message)``, and appends the whole expression."""

LdpError.endings = (EXPRESSION,)  # it has all that the expression is made of, the labels of a domain too

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
