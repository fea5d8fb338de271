"""Audits the fresh noise of clients/js, which must have been built: `python -m benchmarks.client_audit`.

The black box is node. For each mechanism there is a lower bound of epsilon. If the client is right, it is above the
mechanism's epsilon with probability 1e-6; `ldp_core.audit` says more.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.simulation import Table, print_tables
from ldp_core import (
    HadamardResponse,
    HierarchicalHistogram,
    LocalHashing,
    Mechanism,
    OneBitMean,
    PrivacyPlan,
    RandomizedResponse,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
    audit,
)

BOX = Path(__file__).parents[1] / "clients" / "js" / "test" / "box.mjs"
MECHANISMS = [
    RandomizedResponse(["a", "b"], epsilon=1.0),
    RandomizedResponse(["a", "b", "c"], epsilon=1.0),
    UnaryEncoding(["a", "b", "c"], epsilon=1.0),
    SubsetSelection(["a", "b", "c", "d", "e"], epsilon=1.0),
    LocalHashing(["a", "b", "c"], epsilon=1.0, variant="fast"),
    HadamardResponse(["a", "b", "c"], epsilon=1.0),
    OneBitMean((0, 1), epsilon=1.0),
    SquareWave((0, 1), epsilon=1.0, buckets=8),
    HierarchicalHistogram(range(4), epsilon=1.0),
]


def audits(trials: int) -> Table:
    yield "mechanism", "epsilon", "at least", ""
    for m in MECHANISMS:
        inputs: list[Any] = [m.inputs.labels[0], m.inputs.labels[-1]] if hasattr(m.inputs, "labels") else [0.0, 1.0]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(PrivacyPlan({"x": m}).compile(), file)
            file.flush()

            def perturb(values: pa.Array, m: Mechanism = m, path: str = file.name) -> pa.Array:
                text = json.dumps(values.to_pylist())
                made = subprocess.run(["node", BOX, path], input=text, stdout=subprocess.PIPE, check=True, text=True)
                return m.reports.from_json(json.loads(made.stdout))

            found = audit(m, perturb, inputs=inputs, trials=trials, name=m.name)
        yield m.name, f"{m.epsilon:.3f}", f"{found.lower_bound:.4f}", found.verdict


if __name__ == "__main__":
    print_tables([audits], 1_000_000, __doc__)
