"""A sensitive survey: have you had an affair?

6,366 women answered this to a magazine in 1974 (see fair.csv). Here each of them answers in private: noise is added
to the answer before it leaves her. Nobody can know for sure what one woman said. The shares come back, with error bars.

    pip install '.[polars]' && python examples/survey.py
"""

from pathlib import Path

import polars as pl

import ldp_polars  # noqa: F401 (gives columns and frames the methods .ldp)
from ldp_core import PrivacyPlan, RandomizedResponse

# The women, one row each. In a real survey nobody ever holds this table.
counted = pl.read_csv(Path(__file__).with_name("fair.csv"), comment_prefix="#")
women = counted.select(pl.col("marriage", "affair").repeat_by("women").explode())

# Two questions. What one woman reveals, at most, is the sum of both: epsilon 2.
plan = PrivacyPlan(
    {"affair": RandomizedResponse(epsilon=1.0), "marriage": RandomizedResponse(range(1, 6), epsilon=1.0)}
)
print("What each woman is promised:")
print(plan.explain(len(women)))

# This is all that leaves her.
reports = women.ldp.perturb(plan)
said_yes = reports["affair"].ext.storage().sum()
print(f"\n{said_yes:,} of {len(women):,} reports say yes. Many of these are noise, and nobody can tell which.")

# And this is what everybody may know.
for column, estimates in reports.ldp.estimates(plan).items():
    truth = women[column].value_counts(name="women")
    print(f"\n{column}: the truth is at the end of each line (95 % of the intervals hold it)")
    for row in estimates.join(truth, left_on="value", right_on=column, maintain_order="left").iter_rows(named=True):
        low, share, high = (f"{row[name]:6.1%}" for name in ("frequency_low", "frequency", "frequency_high"))
        print(f"  {row['value']!s:>5}  {share}  ({low} to {high})   {row['women'] / row['n']:6.1%}")
