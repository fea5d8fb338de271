"""Heavy-hitter words: what do people type most, when nobody can list the words?

500,000 people each type one word, drawn from the text of this project's license. Each reports it in private. The search
finds the frequent words without a list of candidates, by their first letters. It does not find rare words.

    pip install '.[polars]' && python examples/words.py
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

import ldp_polars  # noqa: F401 (gives columns and frames the methods .ldp)
from ldp_core import HeavyHitters, Prefixes

PEOPLE = 500_000

# What people type: words with the frequencies of a real text.
text = (Path(__file__).parents[1] / "LICENSE").read_text(encoding="utf-8")
frequencies = Counter(re.findall("[a-z]+", text.lower()))
weights = np.array([*frequencies.values()]) / frequencies.total()
typed = pl.DataFrame({"word": np.random.default_rng(0).choice([*frequencies], PEOPLE, p=weights)})

# Declared beforehand, without looking at the data: the letters, and that only the first six count.
mechanism = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 6, unmatched="cut"), epsilon=4.0)
reports = typed.with_columns(pl.col("word").ldp.perturb(mechanism))

found = mechanism.find(mechanism.tally(reports["word"]), k=20)
print(f"{PEOPLE:,} people typed {len(frequencies)} different words.")
for share in (0.05, 0.01, 0.002):
    print(f"To find a word of {share:.1%} takes about {mechanism.reports_to_find(share):9,.0f} people.")

truth = dict(typed.group_by(pl.col("word").str.slice(0, 6)).len().iter_rows())
print("\nword     people  (95 % interval)       truth")
for word, count, low, high in zip(found.values, found.counts, found.low, found.high, strict=True):
    print(f"{word:7} {count:7,.0f}  ({low:7,.0f} to {high:7,.0f})  {truth.get(word, 0):7,}")
missed = [word for word, _ in sorted(truth.items(), key=lambda pair: -pair[1])[:20] if word not in found.values]
print("\nOf the 20 most frequent, not found:", ", ".join(missed) or "none")
