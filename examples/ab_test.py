"""An A/B comparison: does the new page sell more?

Two groups of 100,000 visitors each. Who is in which group is no secret. Whether somebody bought is one: each visitor
reports it in private. The difference of the two shares has an error bar, because variances add up.

    pip install '.[polars]' && python examples/ab_test.py
"""

from math import sqrt

import numpy as np
import polars as pl

import ldp_polars  # noqa: F401 (gives columns and frames the methods .ldp)
from ldp_core import PrivacyPlan, RandomizedResponse

# Visitors. The truth, which nobody knows: of those who see the old page 10 % buy, of the others 12 %.
EACH = 100_000
rng = np.random.default_rng(0)
visitors = pl.DataFrame(
    {
        "page": ["old"] * EACH + ["new"] * EACH,
        "bought": np.concatenate([rng.random(EACH) < 0.10, rng.random(EACH) < 0.12]),
    }
)

plan = PrivacyPlan({"bought": RandomizedResponse(epsilon=2.0)}, keep=["page"])
reports = visitors.ldp.perturb(plan)
estimates = reports.ldp.estimates(plan, by="page")["bought"].filter(value=True)

# Two errors add up in each group. The noise of the reports: the estimate's own standard error. And chance: these
# visitors are a sample of all who will come, and a share f of n people has the variance f (1 - f) / n.
print("page   bought  standard error: of noise, of chance, of both")
shares, variances = {}, {}
for row in estimates.sort("page", descending=True).iter_rows(named=True):
    page, share, noise = row["page"], row["frequency"], row["frequency_standard_error"]
    chance = sqrt(min(max(share, 0), 1) * (1 - min(max(share, 0), 1)) / row["n"])
    shares[page], variances[page] = share, noise**2 + chance**2
    print(f"{page:5}  {share:6.2%}                  {noise:8.2%} {chance:10.2%} {sqrt(variances[page]):8.2%}")

# The groups are different people with noise of their own, so the variance of the difference is the sum.
difference = shares["new"] - shares["old"]
error = sqrt(variances["new"] + variances["old"])
low, high = difference - 1.96 * error, difference + 1.96 * error
print(f"\nThe new page sells {100 * difference:.2f} points more; 95 % interval {100 * low:.2f} to {100 * high:.2f}.")
print("That is more than chance and noise." if low > 0 else "That may be chance or noise: ask more people.")

without = sqrt(sum(share * (1 - share) / EACH for share in (0.10, 0.12)))
print(f"Without privacy the error would be {100 * without:.2f} points, not {100 * error:.2f}.")
print(f"With privacy, the same error takes {(error / without) ** 2:.1f} times as many visitors.")
