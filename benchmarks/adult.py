"""``python -m benchmarks.adult FILE``: tables of six columns of Adult, from reports of one pair of columns each.

FILE is ``data/adult.csv`` of github.com/ryan112358/private-pgm: 48,842 people of the UCI data set, as codes. Errors are
mean absolute differences of shares from those of the people, in points. The first table is over all tables of two and
of three columns, the second of occupation by sex by income as one column: its intervals, and the fit of the pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import combinations

import numpy as np
import polars as pl

import ldp_polars  # noqa: F401
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


def error(given: dict[tuple[str, ...], np.ndarray], true: dict[tuple[str, ...], np.ndarray]) -> float:
    return 100 * float(np.mean([np.abs(given[names] - true[names]).mean() for names in true]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adult", description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--runs", type=int, default=10)
    args = parser.parse_args()
    people = pl.read_csv(args.file).select(COLUMNS)
    values = {name: list(range(int(people[name].max()) + 1)) for name in COLUMNS}  # type: ignore[arg-type]
    triples: list[str] = []
    ways = ["pairs", "fitted", "independent columns", "sampling of the people"]
    print(f"| epsilon | columns | {' | '.join(ways)} |\n| --- | --- |{' ---: |' * len(ways)}")
    for epsilon in (1.0, 2.0, 4.0):
        errors: dict[tuple[int, str], list[float]] = {}
        of_triple, held = [], []
        for run in range(args.runs):
            pairs = dict(zip(PAIRS, tables_of_pairs(people, values, epsilon), strict=True))
            fitted = fit_tables(pairs.values())
            one = one_column(people, values, epsilon)
            held.append(one.select(pl.col("true").is_between("low", "high").mean()).item())
            true_shares = one["true"].to_numpy() / len(people)
            given = one["frequency"].to_numpy(), fitted.table(*TRIPLE)["frequency"].to_numpy()
            of_triple.append([100 * np.abs(table - true_shares).mean() for table in given])
            alone = {name: fitted.table(name)["frequency"].to_numpy() for name in COLUMNS}
            again = people.sample(fraction=1, with_replacement=True, seed=run)
            for size in (2, 3):
                of = list(combinations(COLUMNS, size))
                true = {names: shares(people, names, values) for names in of}
                found = {"fitted": {names: fitted.table(*names)["frequency"].to_numpy() for names in of}}
                found["independent columns"] = {names: product([alone[name] for name in names]) for names in of}
                found["sampling of the people"] = {names: shares(again, names, values) for names in of}
                if size == 2:
                    found["pairs"] = {names: pairs[names]["frequency"].to_numpy() for names in of}
                for way, given in found.items():
                    errors.setdefault((size, way), []).append(error(given, true))
        for size in (2, 3):
            cells = [f"{np.mean(errors[size, way]):.3f}" if (size, way) in errors else "" for way in ways]
            print(f"| {epsilon:g} | {size} | {' | '.join(cells)} |", flush=True)
        direct, of_pairs = np.mean(of_triple, axis=0)
        triples.append(f"| {epsilon:g} | {np.mean(held):.3f} | {direct:.3f} | {of_pairs:.3f} |")
    print("\n| epsilon | intervals that hold | one column | fitted from pairs |\n| --- |", " ---: |" * 3, sep="")
    print("\n".join(triples))


def product(alone: list[np.ndarray]) -> np.ndarray:
    out = alone[0]
    for shares_of_one in alone[1:]:
        out = np.multiply.outer(out, shares_of_one)
    return out.reshape(-1)


if __name__ == "__main__":
    main()
