"""Ratios of sums of weights as a Beam CombineFn: means in a private group, shares of those who answered."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import reduce
from typing import Any

import apache_beam as beam
import numpy as np
from typing_extensions import override

from ldp_core import InputError, Numeric, Ratio
from ldp_core.engine import F64, added_sums, check_integer, check_open, ratio_of, ratio_sums


class RatioCombineFn(beam.CombineFn):
    """Pairs of numbers to the sum of the first over the sum of the second, with Fieller's interval: `ldp_core.ratio`.

    Inputs are pairs of numbers, a record each, or pairs of arrays, many records each: products of weights, as
    `Mechanism.weights` makes them, and public numbers. The sums are floats, so that the last digits of the answer
    depend on how a runner splits and merges.

    Args:
        of: the mechanism of private numbers, see `ldp_core.ratio`.
        confidence: of the interval, in (0, 1).
        repeats: the most records of one person, see `ldp_core.ratio`. Weights do not say whether noise is keyed.

    Errors while the pipeline runs: `InputError` for numbers that are not finite.

    Raises:
        ParameterError: confidence outside (0, 1), or repeats below 1; ``of`` without means.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(["ios", "android"], epsilon=50.0)
    >>> batch = np.array(["ios", "ios", "android"] * 100), np.array([30.0, 20.0, 5.0] * 100)  # reports, minutes
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     weighed = p | beam.Create([batch]) | beam.Map(lambda b: (w := m.weights(b[0], "ios"), w * b[1]))
    ...     pairs = weighed | beam.Map(lambda pair: (pair[1], pair[0]))
    ...     mean = pairs | beam.CombineGlobally(RatioCombineFn()).without_defaults()
    ...     _ = mean | beam.Map(lambda found: print(round(found.ratio, 6), found.n))
    25.0 300
    """

    def __init__(self, *, of: Numeric | None = None, confidence: float = 0.95, repeats: int = 1) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._how = check_open("confidence", confidence), check_integer("repeats", repeats, 1), of
        self.extract_output(self.create_accumulator())  # what is refused is refused now

    @override
    def create_accumulator(self) -> F64:
        return ratio_sums([], [])

    @override
    def add_input(self, accumulator: F64, element: Any) -> F64:
        return self.add_inputs(accumulator, (element,))

    @override
    def add_inputs(self, accumulator: F64, elements: Iterable[Any]) -> F64:
        pairs = [element if isinstance(element, tuple) and len(element) == 2 else None for element in elements]
        like = False
        with suppress(ValueError):  # (lists of lists of several lengths)
            like = all(pair is not None and np.shape(pair[0]) == np.shape(pair[1]) for pair in pairs)
        if not like:
            raise InputError("expected pairs of numbers, or pairs of columns of as many finite numbers each")
        if not pairs:
            return accumulator
        above, below = zip(*pairs, strict=True)
        return added_sums(accumulator, ratio_sums(np.hstack(above), np.hstack(below)))

    @override
    def merge_accumulators(self, accumulators: Iterable[F64]) -> F64:
        return reduce(added_sums, accumulators, self.create_accumulator())

    @override
    def extract_output(self, accumulator: F64) -> Ratio:
        return ratio_of(accumulator, *self._how)

    def infer_output_type(self, input_type: Any) -> Any:
        """`Ratio`: Beam asks for it, though its base class does not have it."""
        return Ratio
