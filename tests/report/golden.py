"""What `ldp_core` plans, with which the planner's JavaScript is compared: ``python -m tests.report.golden``."""

import json
from pathlib import Path

from ldp_core import best_guess, recommend, required_epsilon, shuffled_epsilon, total_epsilon

FILE = Path(__file__).with_name("planner.json")
SIZES = (2, 3, 16, 128, 10_000)
EPSILONS = (0.05, 0.5, 1.0, 2.0, 3.5, 5.0, 8.0)


def golden():
    """Cases of each function: arguments and results."""
    tables = [
        {"arguments": [d, epsilon, n, f], "rows": [_row(r) for r in recommend(d, epsilon, n, frequency=f)]}
        for d in SIZES
        for epsilon in EPSILONS
        for n, f in ((10_000, 1 / d), (1_000_000, 0.01))
    ]
    guesses = [{"arguments": [e, d], "is": best_guess(e, values=d)} for d in SIZES for e in EPSILONS]
    shuffles = [
        {"arguments": [e, n, delta], "is": shuffled_epsilon(e, n, delta, method="closed form")}
        for e in EPSILONS
        for n, delta in ((1_000, 1e-5), (100_000, 1e-7), (10**7, 1e-9))
    ]
    totals = [
        {"arguments": [e, k, days], "is": total_epsilon(e, reports=k, windows=days)}
        for e in EPSILONS
        for k, days in ((1, 1), (3, 30), (24, 365))
    ]
    return {"recommend": tables, "bestGuess": guesses, "shuffledEpsilon": shuffles, "totalEpsilon": totals}


def golden_needs():
    """The same of what takes seconds: a search among thousands of epsilons."""
    return {
        "requiredEpsilon": [
            {
                "arguments": [margin, n, d, 2 * margin],
                "rows": [
                    {"key": row.mechanism, "epsilon": row.epsilon}
                    for row in required_epsilon(None, margin, n, domain=d, frequency=2 * margin)
                ],
            }
            for margin, n, d in (
                (0.02, 10_000, 2),
                (0.01, 100_000, 16),
                (0.001, 10**7, 128),
                (0.05, 5_000, 1000),
                (0.5, 119, 100),
            )
        ]
    }


def _row(r):
    return {
        "key": r.key,
        "standardError": r.standard_error,
        "margin": r.margin,
        "bytes": r.bytes_per_report,
        "operations": r.server_operations,
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps({**golden(), **golden_needs()}, separators=(",", ":")) + "\n", encoding="utf-8")
