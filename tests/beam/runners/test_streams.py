"""The streaming suite: the same cases on Beam's local streaming runner, on Prism and on Flink.

Where an engine does something else than Beam's model says, that is an expected failure, which names it; a newer one
that does better is noticed. docs/deploy.md has the table of them.

Prism comes as a Go binary: ``go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0``. It is looked for at
``LDP_PRISM``, then where Go installs, then on the PATH.
"""

from __future__ import annotations

import pytest

import ldp_beam

from ..helpers import SURE_BOOL, run
from ..streams import batch, true_panes
from .engines import ENGINES, NO_PRISM, PRISM, PRISM_BINARY
from .stream_cases import CASES

MARKS = {
    "local": [],
    "prism": [pytest.mark.prism, pytest.mark.skipif(PRISM_BINARY is None, reason=NO_PRISM)],
    "flink": [pytest.mark.flink],
}


DEFAULT_ARRIVALS = {"arrivals-FixedWindows-10-0-7-discarding", "arrivals-SlidingWindows-15-2-7-accumulating"}


def on(engine, case):
    marks = [*MARKS[engine], pytest.mark.xdist_group(f"streams on {engine}")]
    if engine == "local" and case.id.startswith("arrivals-") and case.id not in DEFAULT_ARRIVALS:
        marks.append(pytest.mark.slow)
    if engine in case.deviations:
        reason = f"{engine}: {case.deviations[engine][1]}"
        marks.append(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))
    return pytest.param(engine, case, marks=marks, id=f"{engine}-{case.id}")


@pytest.fixture(scope="module")
def engines(request):
    made = {}
    return lambda name: made.get(name) or made.setdefault(name, ENGINES[name](request))


@pytest.mark.parametrize(("engine", "case"), [on(engine, case) for engine in ENGINES for case in CASES])
def test_stream(engines, engine, case):
    found = case.look(*engines(engine).outputs(case, CASES))
    known = case.deviations.get(engine)
    if known is not None and found not in (known[0], case.expected):
        raise RuntimeError(f"another deviation than {known[0]}: {found}")
    assert found == case.expected


@pytest.mark.parametrize("engine", [pytest.param(engine, marks=MARKS[engine]) for engine in ENGINES])
def test_the_only_pane_of_bounded_input_is_on_time(engine, request):
    options = {"local": {}, "prism": PRISM}
    if engine == "flink":
        flags = request.getfixturevalue("flink_cluster").pipeline_flags("LOOPBACK", parallelism=1)
        options["flink"] = {"runner": None, "flags": tuple(flags)}
    histogram = ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", fill=(0, 30))
    rows = true_panes(run(histogram, [batch([1, 11, 12])], **options[engine]))
    assert [(row.n, row.pane_timing, row.pane_index) for row in rows] == [(n, "ON_TIME", 0) for n in (1, 2, 0)]
