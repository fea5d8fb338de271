"""What may be perturbed: values go in, unsigned integer codes come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldp_core.errors import DomainError
from ldp_core.inputs.base import Inputs
from ldp_core.inputs.cells import Cells
from ldp_core.inputs.dates import Dates
from ldp_core.inputs.domain import Domain
from ldp_core.inputs.interval import Interval, WholeNumbers
from ldp_core.inputs.open_domain import OpenDomain


def inputs_from_dict(data: Mapping[str, Any]) -> Inputs:
    """Inverse of `Inputs.to_dict`."""
    declared, unmatched = data["domain"], data.get("unmatched", "error")
    if isinstance(declared, Mapping) and "unmatched" in declared:
        raise DomainError("unmatched stands beside the domain, not in its table")
    if isinstance(declared, Mapping) and ("edges" in declared or "count" in declared):
        return Cells.declared(**declared, unmatched=unmatched)
    if isinstance(declared, Mapping) and "every" in declared:
        return Dates(**declared, unmatched=unmatched)
    if isinstance(declared, Mapping) and "first" in declared:
        return WholeNumbers(**declared, unmatched=unmatched)
    if isinstance(declared, Mapping) and "low" in declared:
        return Interval(**declared, unmatched=unmatched)
    if isinstance(declared, Mapping):
        if other := sorted(declared.keys() - {"kind"}):
            raise DomainError(f'a domain is a list of labels, as ["yes", "no"]; a table has no {other}')
        return OpenDomain(**declared, unmatched=unmatched)
    return Domain(declared, unmatched=unmatched)
