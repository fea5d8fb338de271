"""Values become private reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ldp_core.arrays.arrow import column_of
from ldp_core.arrays.types import Codes
from ldp_core.compute.threads import in_threads
from ldp_core.errors import ParameterError
from ldp_core.noise.base import Noise, Randomness
from ldp_core.noise.fresh import Keystream
from ldp_core.randomizer.declared import DeclaredMechanism
from ldp_core.randomizer.made_by import maker_of, refuse_reports_in
from ldp_core.reports import Native


class Perturbing(DeclaredMechanism):
    """From values to reports, a block of records at a time."""

    def perturb(
        self, values: Any, *, randomness: Randomness | None = None, packed: bool = False, column: str = "values"
    ) -> Any:
        """Turn each value into one private report.

        Args:
            values: length-n Arrow array, numpy array, Series of Polars or pandas, or Python sequence, of the domain's
                kind.
            randomness: default fresh noise, a keystream under a key from the operating system; or `Keyed`
                noise, which `memoized` mechanisms need. Reports drawn from a known key are not private.
            packed: bit vectors as 64-bit words rather than as a list of Booleans.
            column: what to call the values in an error message.

        Returns:
            n reports: an Arrow array of ``reports.arrow_type()`` for Arrow input, else a numpy array.

        Raises:
            DomainError, DtypeError: see `Domain.encode`.
            MechanismMismatchError: a Series of Polars that holds reports already.
            ParameterError: no keyed noise, and the mechanism is memoized.
        """
        self.check_noise(keyed=randomness is not None and randomness.by_value)
        source = Keystream() if randomness is None else randomness
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            return self.perturb_arrow(column_of(values), source, packed=packed, column=column)
        if maker_of(values) is not None:
            refuse_reports_in([column], "their dtype")
        return self.reports.to_numpy(self.draw(values, source, column), packed=packed)

    def perturb_arrow(self, values: pa.Array, randomness: Randomness, *, packed: bool, column: str) -> pa.Array:
        """`perturb` from Arrow to Arrow; a mechanism may know a shorter way for some types."""
        return self.reports.to_arrow(self.draw(values, randomness, column), packed=packed)

    def draw(self, values: Any, randomness: Randomness, column: str) -> Native:
        """`perturb` to the working layout, which `count_reports` takes."""
        codes = self.inputs.encode(values, column=column)
        return self.perturb_codes(codes, randomness.bind(self.digest, codes))

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """One report for each code, in the working layout: `perturb_block`, a block at a time."""
        n, step = len(codes), self.block_size
        if 0 < n <= step:  # no copy, if it is of the right type
            return np.ascontiguousarray(self.perturb_block(codes, noise.rows(0, n)), self.reports.empty(0).dtype)
        reports = self.reports.empty(n)

        def fill(noise: Noise, start: int) -> None:
            stop = min(start + step, n)
            reports[start:stop] = self.perturb_block(codes[start:stop], noise.rows(start, stop))

        in_threads(fill, range(0, n, step), noise, noise.another if isinstance(noise, self.parallel) else None)
        return reports

    def check_noise(self, *, keyed: bool) -> None:
        """Raise `ParameterError` if the mechanism is memoized and the noise is not keyed."""
        if self.memoized and not keyed:
            raise ParameterError(
                f"{self.name} remembers its permanent answers by keyed noise: give the secret and whose value each is "
                "(key= and id=; randomness=Keyed(...) in ldp_core)"
            )
