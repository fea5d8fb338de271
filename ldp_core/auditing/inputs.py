"""Which inputs are compared, if nobody says so: those among which the worst pairs are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.inputs.dates import Dates
from ldp_core.inputs.domain import Domain
from ldp_core.inputs.interval import Bounded
from ldp_core.inputs.open_domain import OpenDomain
from ldp_core.inputs.prefixes import Prefixes
from ldp_core.inputs.sets import Sets
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.sketches.rappor import Rappor

_SEARCHED = 200  # texts among which filters that differ in many bits are looked for


def inputs_of(m: Mechanism) -> list[Any]:
    """A few values; where the inputs permit it, one that is outside of the domain or interval, and a null.

    Of a domain the first, the second, one in the middle and the last: neighbors and strangers for mechanisms that work
    in blocks. Of an interval its ends, the worst pair of every mechanism for numbers, and its middle. Of an open domain
    some; of RAPPOR those whose filters differ in the most bits. Of sets the empty one, and some that have few items in
    common or none, which are the worst pair.
    """
    inputs = m.inputs
    if isinstance(inputs, Domain):
        return labels_of(inputs)
    if isinstance(inputs, Bounded):
        low, high = inputs.low, inputs.high
        middle = low + (high - low) / 2
        beyond = [] if inputs.unmatched == "error" else [high + (high - low), low - (high - low)]
        return [low, high, middle, *beyond, *([None] if inputs.takes_nulls else [])]
    if isinstance(inputs, OpenDomain):
        return _far_apart(m) if isinstance(m, Rappor) else ([1, 2, 1 << 40] if inputs.kind == "int" else ["a", "b", ""])
    if isinstance(inputs, Prefixes):
        if inputs.alphabet is None:
            return [0, 1, (1 << inputs.length) - 1]
        ends = [inputs.alphabet[0] * inputs.length, inputs.alphabet[-1] * inputs.length, ""]
        return ends if inputs.unmatched == "error" else [*ends, inputs.alphabet[-1] * (inputs.length + 1), None]
    if isinstance(inputs, Sets):
        labels, most = inputs.domain.labels, inputs.most
        others = [] if inputs.unmatched == "error" else [tuple(_outside(inputs.domain)), None]
        return list(dict.fromkeys([(), labels[:1], labels[:most], labels[-most:], *others]))
    raise ParameterError(f"give inputs: nothing is known of the worst ones of {type(inputs).__name__}")


def labels_of(domain: Domain) -> list[Any]:
    """`inputs_of` of a domain."""
    labels = domain.labels
    values: list[Any] = [labels[k] for k in sorted({0, min(1, len(labels) - 1), len(labels) // 2, len(labels) - 1})]
    beyond = [] if domain.unmatched == "error" else _outside(domain)
    return [*values, *beyond, *([None] if domain.takes_nulls else [])]


def _outside(domain: Domain) -> list[Any]:
    """A value that is none of the labels, if there is one."""
    if domain.kind == "int":
        return [next(k for k in range(-1, -len(domain.labels) - 2, -1) if k not in domain.labels)]
    if domain.kind == "str":
        return [max(map(str, domain.labels), key=len) + "?"]
    if isinstance(domain, Dates):
        end = np.datetime64(int(domain.edges[-1]), "us").astype("datetime64[D]" if domain.days else "datetime64[us]")
        return [str(end.item())]
    return []


def _far_apart(m: Rappor) -> list[Any]:
    """Three values, of which each two have filters that differ in many bits, over all cohorts."""
    values: list[Any] = list(range(_SEARCHED)) if m.inputs.kind == "int" else [f"value {k}" for k in range(_SEARCHED)]
    bits = np.zeros((m.cohorts, len(values), m.bits), bool)
    at = m.positions(m.inputs.encode(values), values)
    np.put_along_axis(bits, at, values=True, axis=2)
    flat = bits.transpose(1, 0, 2).reshape(len(values), -1).astype(np.float32)
    ones = flat.sum(axis=1)
    apart = ones[:, None] + ones - 2 * flat @ flat.T
    first, second = np.unravel_index(np.argmax(apart), apart.shape)
    third = np.argmax(np.minimum(apart[first], apart[second]))
    return [values[int(k)] for k in (first, second, third)]
