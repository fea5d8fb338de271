"""What reports look like in Arrow, in numpy and in the working layout: one format a mechanism, as a value.

``Bits(d) | Word(limit) | Symbol(limit) | Flag() | Row(dtype, size) | Value(domain) | Nullable(inner)``
"""

from ldp_core.reports.base import Native, ReportFormat
from ldp_core.reports.bits import Bits
from ldp_core.reports.nullable import Nullable
from ldp_core.reports.numbers import Flag, Number, Row, Symbol, Value, Word

__all__ = ["Bits", "Flag", "Native", "Nullable", "Number", "ReportFormat", "Row", "Symbol", "Value", "Word"]
