"""Audits the fresh noise of clients/js, which must have been built: `python -m benchmarks.client_audit --in chromium`.

The black box is node, or a page in Chromium, with the same code. For each mechanism there is a lower bound of epsilon.
If the client is right, it is above the mechanism's epsilon with probability 1e-6; `ldp_core.audit` says more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa

import ldp_core as ldp
from tests.report import chromium

CLIENT = Path(__file__).parents[1] / "clients" / "js"
MECHANISMS = [
    ldp.RandomizedResponse(["a", "b"], epsilon=1.0),
    ldp.RandomizedResponse(["a", "b", "c"], epsilon=1.0),
    ldp.UnaryEncoding(["a", "b", "c"], epsilon=1.0),
    ldp.SubsetSelection(["a", "b", "c", "d", "e"], epsilon=1.0),
    ldp.LocalHashing(["a", "b", "c"], epsilon=1.0, variant="fast"),
    ldp.HadamardResponse(["a", "b", "c"], epsilon=1.0),
    ldp.OneBitMean((0, 1), epsilon=1.0),
    ldp.NOutput((0, 1), epsilon=1.0),
    ldp.SquareWave((0, 1), epsilon=1.0, buckets=8),
    ldp.HierarchicalHistogram(range(4), epsilon=1.0),
    ldp.PrivSet(["a", "b", "c"], epsilon=1.0, most=2),
]
LISTS = [["a", "b"], []]
STEP = 50_000  # values in one call of a page

Box = Callable[[dict[str, Any], list[Any]], list[Any]]  # a compiled plan and values to reports


def in_node(plan: dict[str, Any], values: list[Any]) -> list[Any]:
    """The box in a process of node."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        command = ["node", str(CLIENT / "test" / "box.mjs"), file.name]
        made = subprocess.run(command, input=json.dumps(values), stdout=subprocess.PIPE, check=True, text=True)
        return json.loads(made.stdout)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def in_chromium() -> Iterator[Box]:
    """The box in a page, while the ``with`` block runs."""
    handler = partial(_Quiet, directory=str(CLIENT))
    found = chromium.found()
    assert found, "no Chromium: LDP_BROWSER names one"
    with (
        tempfile.TemporaryDirectory() as profile,
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as site,
        chromium.Browser(found, profile) as browser,
    ):
        threading.Thread(target=site.serve_forever, daemon=True).start()
        page = browser.page(f"http://127.0.0.1:{site.server_address[1]}/package.json")
        page.run("import('/test/box.mjs').then((module) => void (window.box = module.box))")

        def box(plan: dict[str, Any], values: list[Any]) -> list[Any]:
            parts = (json.dumps(values[at : at + STEP]) for at in range(0, len(values), STEP))
            return [report for part in parts for report in page.run(f"box({json.dumps(plan)}, {part})")]

        yield box
        site.shutdown()


def inputs_of(m: ldp.Mechanism) -> list[Any]:
    if isinstance(m, ldp.PrivSet):
        return [*range(len(LISTS))]
    return [m.inputs.labels[0], m.inputs.labels[-1]] if hasattr(m.inputs, "labels") else [0.0, 1.0]


def main(trials: int, box: Box) -> None:
    for m in MECHANISMS:
        plan, lists = ldp.PrivacyPlan({"x": m}).compile(), isinstance(m, ldp.PrivSet)

        def perturb(values: pa.Array, m: ldp.Mechanism = m, plan: Any = plan, lists: bool = lists) -> pa.Array:
            made = m.reports.from_json(box(plan, [LISTS[v] if lists else v for v in values.to_pylist()]))
            return made.flatten() if lists else made  # (a word each)

        claim: Any = m.epsilon if lists else m  # `audit` takes no lists, so that a number stands for each
        found = ldp.audit(claim, perturb, inputs=inputs_of(m), trials=trials, name=m.name)
        print(f"{m.name:25} epsilon {m.epsilon:.3f}  at least {found.lower_bound:.4f}  {found.verdict}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trials", nargs="?", type=float, default=1e6, help="reports of each of two values")
    parser.add_argument("--in", dest="where", choices=("node", "chromium"), default="node")
    given = parser.parse_args()
    if given.where == "node":
        main(int(given.trials), in_node)
    else:
        with in_chromium() as box:
            main(int(given.trials), box)
