"""Values become private reports; of many people at once a tally without reports, for planning and tests."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.arrays.arrow import column_of, is_of_pandas
from ldp_core.arrays.types import I64, Codes
from ldp_core.compute.threads import in_threads
from ldp_core.errors import ParameterError
from ldp_core.noise.base import Noise, Randomness
from ldp_core.noise.fresh import Keystream
from ldp_core.noise.keyed import Keyed
from ldp_core.noise.secret import Secret
from ldp_core.randomizer.declared import DeclaredMechanism, maker_of, refuse_reports_in
from ldp_core.reports import Native
from ldp_core.simulated_counts import Generator, generator_of
from ldp_core.tally import MOST, Tally


class Perturbing(DeclaredMechanism):
    """From values to reports, a block of records at a time; and what the tally of many people might be."""

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

    # ---- of many people at once

    def simulate(self, counts: Mapping[Any, int] | npt.ArrayLike, *, seed: int | Generator | None = None) -> Tally:
        """The tally that the reports of so many people might have, drawn without making the reports.

        It has the distribution that the tally of their reports has: each person reports once, with noise of its own (a
        mechanism says where its counters are right each by itself, but not all together). **A simulation, not a
        release**: numpy's generator, which is no cryptographic one, and probabilities as floats.

        Args:
            counts: how many people have each value: a mapping from values to numbers (None for a null; values that are
                not declared are treated as ``unmatched`` says), or a Series of pandas with the values as index; or,
                where values are declared, int64[d], in their order (with ``unmatched="none"`` int64[d + 1]: the last
                one of people without a value).
            seed: for the same tally again; default: the operating system's randomness.

        Raises:
            ParameterError: numbers of people that are none; no mapping where values are not declared.
            DomainError, DtypeError: see `Domain.encode`.

        >>> from ldp_core import RandomizedResponse
        >>> m = RandomizedResponse(["ios", "android"], epsilon=1.0)
        >>> m.estimate(m.simulate({"ios": 600_000_000, "android": 400_000_000}, seed=1)).frequencies.round(3).tolist()
        [0.6, 0.4]
        """
        generator = generator_of(seed)
        if is_of_pandas(counts) and hasattr(counts, "items"):  # a Series: in the order of `value_counts`, not of codes
            counts = dict(counts.items())
        people = check_people(list(counts.values()) if isinstance(counts, Mapping) else counts)
        listed = self.inputs.listed
        self.check_total(sum(people.tolist()))
        if isinstance(counts, Mapping):
            return self.simulate_values(list(counts), people, generator)
        if listed is None:
            raise ParameterError(
                f"counts for {self.name} must map values to numbers of people: its values are not listed"
            )
        if len(people) != listed:
            raise ParameterError(f"counts must be {listed} numbers of people, one a code, got {len(people)}")
        counters = self.simulate_counters(np.arange(listed), people, generator)
        return Tally(int(people.sum()), counters, self.fingerprint)

    def simulate_values(self, values: Any, people: I64, generator: Generator, column: str = "values") -> Tally:
        """`simulate`, of values as `perturb` takes them, and how many people have each."""
        codes = self.inputs.encode(values, column=column) if len(people) else np.zeros(0, np.uint64)
        return Tally(int(people.sum()), self.simulate_counters(codes, people, generator), self.fingerprint)

    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """The counters that the reports of so many people might have; not private.

        Here the reports are made, a block of people at a time: right for every mechanism, and as slow as that is. One
        that knows how its counters are distributed draws them; see `ldp_core.simulated_counts`. ``codes`` are as
        `inputs` encodes values, not necessarily distinct; ``people``, int64, say how many have each.
        """
        secret = Secret.from_seed(int.from_bytes(generator.bytes(16)))
        counters = np.zeros(self.counters, np.int64)
        ends = np.cumsum(people)
        for start in range(0, int(ends[-1]) if len(ends) else 0, _PEOPLE):
            ids = np.arange(start, min(start + _PEOPLE, int(ends[-1])))
            of = codes[np.searchsorted(ends, ids, side="right")]
            noise = Keyed(secret, ids, column="simulation").bind(self.digest, of)  # (memoized mechanisms take no other)
            counters += self.count_reports(self.perturb_codes(of, noise), np.zeros(len(ids), np.int64), 1)[0]
        return counters


_PEOPLE = 1 << 16  # whose reports are made at a time


def check_people(counts: npt.ArrayLike) -> I64:
    """Numbers of people as int64[k]; `ParameterError` unless they are a row of integers, at least 0."""
    array = np.zeros(1, object)
    with suppress(ValueError):  # lists of several lengths
        array = np.asarray(column_of(counts))
    kinds = "iu" if array.size else "iuf"  # (an empty list is of floats)
    if array.ndim != 1 or array.dtype.kind not in kinds or array.min(initial=0) < 0:
        raise ParameterError(f"counts must be whole numbers of people, at least 0, got an array of {array.dtype}")
    if array.max(initial=0) > MOST:
        raise ParameterError("counts of people must be below 2**63")
    return array.astype(np.int64)
