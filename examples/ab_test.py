"""An A/B comparison: does the new page sell more?

Two groups of 100,000 visitors each. Who is in which group is no secret. Whether somebody bought is one: each visitor
reports it in private. The difference of the two shares has an error bar.

    pip install '.[polars]' && python examples/ab_test.py
"""

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
[row] = reports.ldp.compare(plan, by="page", baseline="old").filter(value=True).to_dicts()

# The error bar has the noise of the reports, and chance: these visitors are a sample of all who will come.
print(f"Of those who saw the old page {row['before']:.2%} bought, of the others {row['after']:.2%}.")
difference, low, high = (100 * row[name] for name in ("difference", "low", "high"))
print(f"The new page sells {difference:.2f} points more; 95 % interval {low:.2f} to {high:.2f}.")
print("That is more than chance and noise." if low > 0 else "That may be chance or noise: ask more people.")

without = sum(share * (1 - share) / EACH for share in (0.10, 0.12)) ** 0.5
error = row["standard_error"]
print(f"Without privacy the error would be {100 * without:.2f} points, not {100 * error:.2f}.")
print(f"With privacy, the same error takes {(error / without) ** 2:.1f} times as many visitors.")
