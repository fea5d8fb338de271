"""Run a pipeline on a named local runner and look at what came out."""

import weakref
from collections import defaultdict
from functools import partial
from itertools import count
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from ldp_beam.perturb import Perturb, _PerturbDoFn
from ldp_core import RandomizedResponse, UnaryEncoding
from ldp_core.plans.provenance import maker, typed

from . import cheap_pipelines  # noqa: F401 (changes Beam when it is imported)

# with probability above 1 - 1e-15 these report the truth: expected values are then exact
SURE = RandomizedResponse(["a", "b", "c"], epsilon=80.0)
SURE_BOOL = RandomizedResponse(epsilon=80.0)
SURE_BITS = UnaryEncoding(["a", "b", "c"], epsilon=120.0, variant="symmetric")

_seen: dict[int, list[Any]] = defaultdict(list)
_number = count()


def _put(
    number: int, element: Any, timestamp: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
) -> Any:
    _seen[number].append((element, timestamp, window))
    return element


class Collector:
    """A sink that lives in this process, which local in-memory runners do too. What it has seen goes with it."""

    def __init__(self) -> None:
        self.number = next(_number)
        weakref.finalize(self, _seen.pop, self.number, None)

    def __rrshift__(self, label: str) -> Any:
        return label >> self.sink()

    def sink(self) -> Any:
        return beam.Map(partial(_put, self.number))

    @property
    def stamped(self) -> list[Any]:
        return _seen[self.number]

    @property
    def windowed(self) -> list[WindowedValue]:
        return [WindowedValue(element, at, (window,)) for element, at, window in self.stamped]

    @property
    def elements(self) -> list[Any]:
        return [element for element, _, _ in self.stamped]


_given: dict[int, list[Any]] = {}


def _take(number: int, _: Any) -> list[Any]:
    return _given[number]


def given(elements: Any) -> Any:
    """A source of these elements, as ``Create`` is one, which pickles and compresses them: most of a test's time."""
    number = next(_number)
    _given[number] = list(elements)
    kind = beam.Create(_given[number]).infer_output_type(None)
    return beam.Create([0], reshuffle=False) | "Take" >> beam.FlatMap(partial(_take, number)).with_output_types(kind)


def assumed(data: Any, mechanisms: Any) -> Any:
    """Arrow columns of these names as reports of these mechanisms, on the test's word; all else as it is."""
    if isinstance(data, TimestampedValue):
        return TimestampedValue(assumed(data.value, mechanisms), data.timestamp)
    if not isinstance(data, (pa.RecordBatch, pa.Table)):
        return data
    fields = [
        typed(one, mechanisms[one.name]) if one.name in mechanisms and maker(one) is None else one
        for one in data.schema
    ]
    return type(data).from_arrays(data.columns, schema=pa.schema(fields, data.schema.metadata))


def word_for(estimate: Any) -> Any:
    """The mechanisms of the reports that a transform takes; none, if it takes values."""
    return {} if estimate.spends is not None else dict(estimate._mechanism.by_column(estimate._column))


def on_my_word(estimate: Any) -> Any:
    """The transform, of reports that were made elsewhere: nothing but the test says so."""
    word = word_for(estimate)
    return beam.Map(partial(assumed, mechanisms=word)) | estimate if word else estimate


def run(transform: Any, source: Any = None, *, runner: str = "FnApiRunner", flags: tuple[str, ...] = ()) -> Any:
    """Outputs of ``transform`` over elements (or a source transform); a pair of lists where it has dead letters.

    Without a source it is one itself.
    """
    out, _ = run_with_result(transform, source, runner=runner, flags=flags)
    parts = [collector.elements for collector in out]
    return parts[0] if len(parts) == 1 else tuple(parts)


def run_with_result(
    transform: Any, source: Any = None, *, runner: str = "FnApiRunner", flags: tuple[str, ...] = ()
) -> Any:
    p = beam.Pipeline(runner, options=PipelineOptions(list(flags)))
    if source is not None:
        p = p | "Source" >> (source if isinstance(source, beam.PTransform) else given(source))
    outputs = p | "UnderTest" >> transform
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    collectors = [Collector() for _ in outputs]
    for i, (pcoll, collector) in enumerate(zip(outputs, collectors, strict=True)):
        _ = pcoll | f"Collect{i}" >> collector
    result = p.pipeline.run() if isinstance(p, beam.PCollection) else p.run()
    result.wait_until_finish()
    return collectors, result


def drive(fn: Any, elements: Any, windows: WindowFn | None = None) -> tuple[list[Any], list[Any]]:
    """Without a pipeline: what a DoFn makes of one bundle, and its dead letters, each at its time and in its windows.

    Elements are at the beginning of time, where they are not `TimestampedValue`; and in global windows, or these.
    """
    fn.start_bundle()
    made: list[Any] = []
    for element in elements:
        at, value = MIN_TIMESTAMP, element
        if isinstance(element, TimestampedValue):
            at, value = element.timestamp, element.value
        for window in (windows or GlobalWindows()).assign(WindowFn.AssignContext(at, value)):
            made += fn.process(value, at, window)
    return parted([*made, *fn.finish_bundle()])


def parted(made: list[Any]) -> tuple[list[Any], list[Any]]:
    """The outputs of a DoFn, and its dead letters."""
    dead = [one.value for one in made if isinstance(one, beam.pvalue.TaggedOutput)]
    return [one for one in made if not isinstance(one, beam.pvalue.TaggedOutput)], dead


def perturbed(transform: Perturb, elements: Any, windows: WindowFn | None = None) -> tuple[list[Any], list[Any]]:
    """Without a pipeline: the reports of one bundle, and its dead letters."""
    fn = _PerturbDoFn(transform._plan, transform._packed, transform._key, transform._dead_letter_tag)
    good, dead = drive(fn, elements, windows)
    return values(good), values(dead)


def values(windowed: Any) -> list[Any]:
    """Without their times and windows."""
    return [one.value for one in windowed]


def stamped(elements: Any) -> Any:
    """A source of elements with timestamps: pairs of (element, seconds)."""
    return given(elements) | "Stamp" >> beam.MapTuple(TimestampedValue).with_output_types(Any)


def counters(result: Any) -> dict[str, int]:
    found = result.metrics().query(MetricsFilter().with_namespace("ldp"))
    totals: dict[str, int] = defaultdict(int)
    for c in found["counters"]:
        totals[c.key.metric.name] += c.committed or 0  # several steps may have it
    totals.pop("odd_times", None)  # nearly all times in these tests are of 1970
    return {name: total for name, total in totals.items() if total}


def name(value: Any) -> str | None:
    """A test's id for a WindowFn."""
    lengths = [getattr(value, a) for a in ("size", "period", "offset", "gap_size") if hasattr(value, a)]
    return "-".join([type(value).__name__, *(f"{length.micros / 1e6:g}" for length in lengths)]) if lengths else None


def table(rows: Any) -> dict[Any, dict[str, Any]]:
    """(start, end, key text) -> value -> row; in seconds."""
    out: dict[Any, dict[str, Any]] = defaultdict(dict)
    for row in rows:
        place = (row.window_start.micros / 1e6, row.window_end.micros / 1e6, *row.key.values())
        assert row.value not in out[place], "two rows of one window, key and value"
        out[place][row.value] = row
    return dict(out)


def debiased(support: Any, n: int, p: float, q: float) -> Any:
    """Wang et al. 2017, Equation 1."""
    return (np.asarray(support, float) - n * q) / (p - q)
