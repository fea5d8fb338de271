"""``python -m benchmarks.adult --file FILE``: tables of six columns of Adult, from reports of one pair of columns each.

FILE is ``data/adult.csv`` of github.com/ryan112358/private-pgm: 48,842 people of the UCI data set, as codes. Errors are
mean absolute differences of shares from those of the people, in points. The first table is over all tables of two and
of three columns, the second of occupation by sex by income as one column: its intervals, and the fit of the pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import combinations

import numpy as np
import polars as pl

import ldp_polars  # noqa: F401
from benchmarks.simulation import Table, print_tables
from ldp_core import PrivacyPlan, SubsetSelection, fit_tables

COLUMNS = ["sex", "income>50K", "race", "marital-status", "relationship", "occupation"]
TRIPLE = ("occupation", "sex", "income>50K")
PAIRS = list(combinations(COLUMNS, 2))


def tables_of_pairs(people: pl.DataFrame, values: dict[str, list[int]], epsilon: float) -> list[pl.DataFrame]:
    """A table of each pair of columns; each person reports one random pair."""
    joint = {f"{a}|{b}": [f"{x}|{y}" for x in values[a] for y in values[b]] for a, b in PAIRS}
    plan = PrivacyPlan.sampled(joint, epsilon=epsilon)
    pairs = people.select(pl.concat_str(a, b, separator="|").alias(f"{a}|{b}") for a, b in PAIRS)
    found = pairs.ldp.perturb(plan).ldp.histograms(plan)
    made = []
    for a, b in PAIRS:
        rows = found.filter(column_name=f"{a}|{b}").drop("column_name")
        both = pl.col("value").str.split("|")
        made.append(rows.select(both.list[0].cast(int).alias(a), both.list[1].cast(int).alias(b), pl.exclude("value")))
    return made


def one_column(people: pl.DataFrame, values: dict[str, list[int]], epsilon: float) -> pl.DataFrame:
    """The histogram of `TRIPLE` as one column, with the true counts."""
    joint = [f"{x}|{y}|{z}" for x in values[TRIPLE[0]] for y in values[TRIPLE[1]] for z in values[TRIPLE[2]]]
    plan = PrivacyPlan({"triple": SubsetSelection(joint, epsilon=epsilon)})
    triples = people.select(pl.concat_str(TRIPLE, separator="|").alias("triple"))
    found = triples.ldp.perturb(plan).ldp.histograms(plan)
    return found.with_columns(true=shares(people, TRIPLE, values) * len(people))


def shares(people: pl.DataFrame, names: Iterable[str], values: dict[str, list[int]]) -> np.ndarray:
    """Of each combination of values, in order."""
    shape = [len(values[name]) for name in names]
    codes = np.ravel_multi_index([people[name].to_numpy() for name in names], shape)
    return np.bincount(codes, minlength=int(np.prod(shape))) / len(people)


def product(alone: list[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply.outer, alone).reshape(-1)


def errors(given: dict[tuple[str, ...], np.ndarray], true: dict[tuple[str, ...], np.ndarray]) -> float:
    return 100 * float(np.mean([np.abs(given[names] - true[names]).mean() for names in true]))


WAYS = ("pairs", "fitted", "independent columns", "sampling of the people")


def tables(runs: int, file: str) -> Table:
    """Of all tables of two and of three columns; and the rows of the second table, below."""
    people = pl.read_csv(file).select(COLUMNS)
    values: dict[str, list[int]] = {name: list(range(int(people[name].max()) + 1)) for name in COLUMNS}  # type: ignore[arg-type]
    triples: list[tuple[str, ...]] = []
    yield "epsilon", "columns", *WAYS
    for epsilon in (1.0, 2.0, 4.0):
        found: dict[tuple[int, str], list[float]] = {}
        of_triple, held = [], []
        for run in range(runs):
            pairs = dict(zip(PAIRS, tables_of_pairs(people, values, epsilon), strict=True))
            fitted, one = fit_tables(pairs.values()), one_column(people, values, epsilon)
            held.append(one.select(pl.col("true").is_between("low", "high").mean()).item())
            true_shares = one["true"].to_numpy() / len(people)
            both = one["frequency"].to_numpy(), fitted.table(*TRIPLE)["frequency"].to_numpy()
            of_triple.append([100 * np.abs(table - true_shares).mean() for table in both])
            alone = {name: fitted.table(name)["frequency"].to_numpy() for name in COLUMNS}
            again = people.sample(fraction=1, with_replacement=True, seed=run)
            for size in (2, 3):
                of = list(combinations(COLUMNS, size))
                true = {names: shares(people, names, values) for names in of}
                made = {"fitted": {names: fitted.table(*names)["frequency"].to_numpy() for names in of}}
                made["independent columns"] = {names: product([alone[name] for name in names]) for names in of}
                made["sampling of the people"] = {names: shares(again, names, values) for names in of}
                if size == 2:
                    made["pairs"] = {names: pairs[names]["frequency"].to_numpy() for names in of}
                for way, given in made.items():
                    found.setdefault((size, way), []).append(errors(given, true))
        for size in (2, 3):
            cells = (f"{np.mean(found[size, way]):.3f}" if (size, way) in found else "" for way in WAYS)
            yield f"{epsilon:g}", str(size), *cells
        triples.append((f"{epsilon:g}", *(f"{x:.3f}" for x in (np.mean(held), *np.mean(of_triple, axis=0)))))
    yield "epsilon", "intervals that hold", "one column", "fitted from pairs"
    yield from triples


if __name__ == "__main__":
    print_tables([tables], 10, __doc__, file=str)
