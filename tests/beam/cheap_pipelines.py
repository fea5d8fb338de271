"""Beam's local runners at a quarter of the price: what they work out again and again is worked out once.

A pipeline of a few elements costs 50 ms and more. Most of that are argument parsers (a hundred for each pipeline,
of the same flags), types of all elements, signatures, sources and states of methods, functions compressed, and
walks through all modules of Python, for each value that a cache measures and each function that YAML makes. They
depend on their arguments only. YAML also imports Vertex AI, which is 1,000 modules. Each bundle has two more threads,
one that builds its steps and one that measures how long they take. Nothing else is changed: the tests run what Beam
builds and runs.
"""

from __future__ import annotations

import argparse
import bz2
import copy
import inspect
import sys
import tempfile
import threading
from functools import cache, lru_cache, partial
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import apache_beam as beam
import objsize.traverse
from apache_beam.internal import cloudpickle_pickler
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import Row
from apache_beam.runners.worker import bundle_processor, sdk_worker, statesampler
from apache_beam.transforms import core, ptransform, userstate
from apache_beam.typehints import decorators


def remembered(function: Any) -> Any:
    """The function, called once for each argument, if the argument allows for weak references."""
    known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def call(argument: Any) -> Any:
        try:
            found = known.get(argument)
        except TypeError:  # not hashable, or no weak references
            return function(argument)
        return known.setdefault(argument, function(argument)) if found is None else found

    return call


_view_as = PipelineOptions.view_as
_parsed: dict[Any, dict[str, Any]] = {}


def own(options: dict[str, Any]) -> dict[str, Any]:
    """A copy, also of the lists: Beam appends to some."""
    return {name: copy.copy(x) if type(x) in (list, dict) else x for name, x in options.items()}


def view_as(self: Any, cls: Any) -> Any:
    """As Beam's, with one parser for each set of flags and class of options."""
    if self._flags is None:  # Beam parses the command line then
        return _view_as(self, cls)
    key = (tuple(self._flags), cls)
    if key not in _parsed:
        _parsed[key] = vars(_view_as(PipelineOptions(list(self._flags)), cls)._visible_options)
    options = own(_parsed[key])
    for name, value in options.items():
        self._all_options.setdefault(name, value)
    view = cls.__new__(cls)
    vars(view).update(
        _flags=self._flags, _visible_options=argparse.Namespace(**options), _all_options=self._all_options
    )
    return view


_get_all_options = PipelineOptions.get_all_options


def get_all_options(self: Any, **how: Any) -> dict[str, Any]:
    """As Beam's, which a pipeline asks for what it should warn of, with one parser for each set of flags."""
    if self._flags is None or how != {"retain_unknown_options": True, "display_warnings": True}:
        return _get_all_options(self, **how)
    key = (tuple(self._flags), len(PipelineOptions.__subclasses__()))
    if key not in _parsed:
        _parsed[key] = _get_all_options(PipelineOptions(list(self._flags)), **how)
    return own(_parsed[key]) | self._all_options


def visible(self: Any) -> list[str]:
    """As Beam's, which takes `dir` for it, for each option that is looked at."""
    return sorted(vars(self._visible_options))


beams_signature = core.get_signature
_signature = remembered(beams_signature)
_signature_of_bound = remembered(lambda function: beams_signature(MethodType(function, object())))


def get_signature(function: Any) -> Any:
    """As Beam's; a bound method's depends on its function only."""
    return _signature_of_bound(function.__func__) if isinstance(function, MethodType) else _signature(function)


_by_reference = cloudpickle._should_pickle_by_reference
_whether = remembered(lambda _: {})


def should_pickle_by_reference(obj: Any, name: str | None = None, config: Any = cloudpickle.DEFAULT_CONFIG) -> bool:
    """As Beam's: of a function or class it is always the same."""
    if name is not None or not isinstance(obj, FunctionType | type):
        return _by_reference(obj, name, config)
    known = _whether(obj)
    if id(config) not in known:
        known[id(config)] = config, _by_reference(obj, name, config)
    return known[id(config)][1]


_specs = remembered(userstate.get_dofn_specs)
_specs_of_kind: dict[type, Any] = {}


def get_dofn_specs(dofn: Any) -> Any:
    """As Beam's; they are of a DoFn's methods, which its class has, unless it has some of its own or another DoFn's."""
    if any(isinstance(value, MethodType | core.DoFn) for value in vars(dofn).values()):
        return _specs(dofn)
    if type(dofn) not in _specs_of_kind:
        _specs_of_kind[type(dofn)] = _specs(dofn)
    return _specs_of_kind[type(dofn)]


_body, _bodies = core._get_function_body_without_inners, cache(core._get_function_body_without_inners)
_whichmodule = cloudpickle._whichmodule


def _get_function_body_without_inners(function: Any) -> Any:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return _body(function) if code is None else _bodies(code)


def whichmodule(function: Any, name: str | None) -> Any:
    """As Beam's; no module has what `exec` made."""
    made = getattr(getattr(function, "__code__", None), "co_filename", None) == "<string>"
    return None if made and function.__module__ is None else _whichmodule(function, name)


@lru_cache(1000)
def compress(data: bytes, compresslevel: int) -> bytes:
    """In blocks of 100 kB, and not of ``compresslevel`` times as much: to set one up takes longest."""
    return bz2.compress(data, compresslevel=1)


def shape(value: Any) -> Any:
    """What the type depends on that Beam infers from a value."""
    kind = type(value)
    if kind in (list, set, frozenset):
        return kind, frozenset(map(shape, value))
    if kind is dict:
        return kind, frozenset(map(shape, value)), frozenset(map(shape, value.values()))
    if kind is tuple:
        return kind, *map(shape, value)
    return (kind, *((name, shape(x)) for name, x in value.as_dict().items())) if kind is Row else kind


_infer_output_type = core.Create.infer_output_type


def infer_output_type(self: Any, _: Any) -> Any:
    """As Beam's, from the first element of each shape, and not from all of them."""
    first: dict[Any, Any] = {}
    for value in self.values:
        first.setdefault(shape(value), value)
    return _infer_output_type(SimpleNamespace(values=tuple(first.values())), None)


class Here:
    """In place of an executor of one thread: the caller's."""

    def __init__(self, **_: Any) -> None:
        pass

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Any, *arguments: Any) -> Any:
        found = function(*arguments)
        return SimpleNamespace(result=lambda **_: found)


def start(self: Any) -> None:
    """As Beam's, without the thread that measures."""
    self.tracked_thread, self.started = threading.current_thread(), True
    statesampler.set_current_tracker(self)


def stop(self: Any) -> None:
    statesampler.set_current_tracker(None)
    self.finished = True


bundle_processor.concurrent = SimpleNamespace(
    futures=SimpleNamespace(ThreadPoolExecutor=Here, TimeoutError=TimeoutError)
)
statesampler.StateSampler.start, statesampler.StateSampler.stop = start, stop
sdk_worker.BundleProcessorCache._schedule_periodic_shutdown = lambda self: None  # a thread of each pipeline, in vain
PipelineOptions.get_all_options, PipelineOptions._visible_option_list = get_all_options, visible
cloudpickle._should_pickle_by_reference = should_pickle_by_reference
PipelineOptions.view_as = view_as
core.Create.infer_output_type = infer_output_type
core.get_signature = decorators.get_signature = ptransform.get_signature = get_signature
core._get_function_body_without_inners = _get_function_body_without_inners
userstate.get_dofn_specs = get_dofn_specs
objsize.traverse._iter_modules_globals = tuple  # (no value in a cache refers to one)
cloudpickle._whichmodule = whichmodule
cloudpickle_pickler.bz2 = SimpleNamespace(compress=compress, decompress=lru_cache(1000)(bz2.decompress))
temporary = tempfile.TemporaryDirectory(prefix="beam-pipelines")  # a pipeline that never runs leaves its own folder
beam.pipeline.tempfile = SimpleNamespace(mkdtemp=partial(tempfile.mkdtemp, dir=temporary.name))
for name in ("ml.transforms.embeddings.vertex_ai", "transforms.enrichment_handlers.vertex_ai_feature_store"):
    sys.modules[f"apache_beam.{name}"] = None  # type: ignore[assignment]
