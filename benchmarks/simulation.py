"""What the simulations share. Each is a module of tables, which `python -m benchmarks.NAME` prints in Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from benchmarks.timing import seconds
from ldp_core.engine import F64, I64

Table = Iterable[Sequence[str]]
EPSILONS, SIZES = (0.5, 1.0, 2.0), (500, 20_000, 1_000_000)


def print_tables(tables: Sequence[Callable[..., Table]], runs: int, about: str | None, **options: Any) -> None:
    """The command of a module: each table has a heading and rows, of so many runs and of the ``options``, by keyword.

    An option that is a tuple takes several numbers, one that is a type must be given.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=lambda text: int(float(text)), default=runs)
    named = {table.__name__: table for table in tables}
    parser.add_argument("--only", nargs="+", choices=named, default=list(named))
    for name, default in options.items():
        how: dict[str, Any] = {"nargs": "+"} if isinstance(default, tuple) else {}
        how["type"] = default if isinstance(default, type) else type(default[0] if how else default or "")
        parser.add_argument(f"--{name}", default=default, required=isinstance(default, type), **how)
    given = vars(parser.parse_args())
    asked, runs = given.pop("only"), given.pop("runs")
    for name in asked:
        print()
        for k, row in enumerate(named[name](runs, **given)):
            print(f"| {' | '.join(row)} |" + (f"\n|{' --- |' * len(row)}" if k == 0 else ""), flush=True)


def cases(populations: Iterable[Any] = ("",), epsilons: Sequence[float] = EPSILONS) -> Iterator[tuple[Any, ...]]:
    return product(populations, epsilons, SIZES)


def zipf(d: int) -> F64:
    shares = 1 / np.arange(1, d + 1)
    return shares / shares.sum()


def simulated(m: Any, values: Sequence[Any], people: I64, runs: int, seed: int) -> I64:
    """int64[runs, counters]: tallies of reports of so many people with each value."""
    generator = np.random.default_rng(seed)
    return np.array([m.simulate_values(values, people, generator).counters for _ in range(runs)])


def ends(question: Any, m: Any, n: int, counters: I64) -> tuple[Any, Any]:
    """Ends of the intervals of a question's answers, [runs, entries]."""
    table, _ = question.rows(m, np.full(len(counters), n), counters)
    low, high = (np.array(table[name]).reshape(len(counters), -1) for name in ("low", "high"))
    return low, high


def percent(*shares: float) -> list[str]:
    return [f"{100 * share:.1f} %" for share in shares]


def best(call: Callable[[], object], times: int = 5) -> float:
    """Seconds of the fastest run."""
    return min(seconds(call) for _ in range(times))
