"""Several mechanisms, one population, as a Beam CombineFn: two versions of a device, or people who choose epsilon."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from ldp_beam.estimates.combine import TalliesCombineFn
from ldp_core import InputError, Mechanism, ParameterError, Pooled
from ldp_core.engine import check_open, check_repeats, common_values, pooled


class PoolCombineFn(TalliesCombineFn):
    """Reports of several mechanisms to what they say together of one population, as `ldp_core.pool` has it.

    Inputs are pairs: which mechanism, as its place in the list from 0, and what a `TallyCombineFn` of it takes: a
    report, an Arrow array of them, a `Tally`. As every CombineFn it is used in any windows, per key, and in live panes.
    A mechanism without reports is left out; where all are, the numbers are nan, and the intervals unbounded.

    Args:
        mechanisms: two or more; of reports of other people each.
        confidence: of each interval, in (0, 1).
        repeats: the most reports of one person of a mechanism. A CombineFn sees no pipeline, so that it cannot know
            whether noise is keyed.

    Errors while the pipeline runs: `InputError` for what is no such pair, and those of `TallyCombineFn`.

    Raises:
        ParameterError, MechanismMismatchError: what `ldp_core.pool` does not pool; confidence outside (0, 1).

    >>> import apache_beam as beam
    >>> from ldp_core import RandomizedResponse, UnaryEncoding
    >>> old, new = UnaryEncoding(["a", "b"], epsilon=1.0), RandomizedResponse(["a", "b", "c"], epsilon=3.0)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     first = p | "1" >> beam.Create(old.perturb(["a", "b"] * 50)) | "Old" >> beam.Map(lambda r: (0, r))
    ...     second = p | "2" >> beam.Create(new.perturb(["a", "c"] * 50)) | "New" >> beam.Map(lambda r: (1, r))
    ...     both = (first, second) | beam.Flatten() | beam.CombineGlobally(PoolCombineFn([old, new])).without_defaults()
    ...     _ = both | beam.Map(lambda found: print(found.values.to_pylist(), found.groups, found.n))
    ['a', 'b'] 2 200
    """

    def __init__(
        self, mechanisms: Sequence[Mechanism], *, confidence: float = 0.95, repeats: int | None = None
    ) -> None:
        self._mechanisms = list(mechanisms) if isinstance(mechanisms, (list, tuple)) else []
        self._how = check_open("confidence", confidence), check_repeats("repeats", repeats)
        if len(self._mechanisms) < 2:
            raise ParameterError(f"mechanisms= are two or more, got {len(self._mechanisms)}")
        super().__init__(self._mechanisms)
        common_values(self._mechanisms)  # (which says now what does not go together)

    @override
    def add_input(self, accumulator: Any, element: Any) -> Any:
        return self.add_inputs(accumulator, (element,))

    @override
    def add_inputs(self, accumulator: Any, elements: Iterable[Any]) -> Any:
        of: list[list[Any]] = [[] for _ in self._mechanisms]
        for element in elements:
            which = element[0] if isinstance(element, tuple) and len(element) == 2 else None
            if type(which) is not int or not 0 <= which < len(of):
                raise InputError(f"expected pairs of a mechanism's place, 0 to {len(of) - 1}, and its reports")
            of[which].append(element[1])
        return [c.add_inputs(one, some) for c, one, some in zip(self._combiners, accumulator, of, strict=True)]

    @override
    def extract_output(self, accumulator: Any) -> Pooled:
        tallies = super().extract_output(accumulator)  # type: ignore[no-untyped-call]
        return pooled(list(zip(self._mechanisms, tallies, strict=True)), *self._how)

    def infer_output_type(self, input_type: Any) -> Any:
        """`Pooled`: Beam asks for it, though its base class does not have it."""
        return Pooled
