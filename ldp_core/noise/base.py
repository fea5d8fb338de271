"""What a mechanism asks of its noise: `Noise` for the records of one call, `Randomness` to bind it to them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import U8, Codes, select


class Noise(Protocol):
    """Independent exact random decisions for n records, in order.

    Draws for different purposes in one mechanism have different ``lane`` numbers, below 16.
    """

    def rows(self, start: int, stop: int) -> Noise:
        """The noise of some of the records."""

    def at(self, some: npt.NDArray[np.int64]) -> Noise:
        """The noise of the records at these positions."""

    def another(self) -> Noise | None:
        """Noise that another thread may draw for other records of these at the same time, if there is."""
        return None

    def bernoulli(self, threshold: int, n: int, lane: int) -> npt.NDArray[np.uint8]:
        """``n`` packed bits (little-endian), one per record, each 1 with probability ``threshold / 2**64``."""

    def words(self, n: int, lane: int) -> npt.NDArray[np.uint64]:
        """``n`` uniform 64-bit words, one per record: for decisions of which each has a threshold of its own."""

    def head_rows(self, n: int, width: int, lane: int) -> npt.NDArray[np.uint16]:
        """uint16[n, width]: the leading 16 bits of words, in an array that the next call may overwrite."""

    def tails(self, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], lane: int) -> npt.NDArray[np.uint64]:
        """The other 48 bits of the words at these rows and columns: where the leading ones decide nothing."""

    def one_hot_rows(self, p: int, q: int, position: npt.NDArray[Any], width: int, lane: int) -> npt.NDArray[np.uint8]:
        """uint8[n, width]: ``8 * width`` packed bits per record, each 1 with probability ``q / 2**64``.

        The one at ``position`` (unsigned integers), if the row has it, is 1 with probability ``p / 2**64`` instead.
        """

    def uniform_below(self, d: int, n: int, lane: int) -> npt.NDArray[Any]:
        """``n`` unsigned integers, one per record, uniform over ``range(d)``."""

    def kept_or_drawn(self, keep: int, codes: npt.NDArray[Any], d: int, lane: int) -> npt.NDArray[Any]:
        """Each of the codes, one per record, with probability ``keep / 2**64``; else one uniform over ``range(d)``.

        From this lane, which is even, and the next one.
        """

    def uniform_again(self, d: int, rows: npt.NDArray[np.int64], step: int, lane: int) -> npt.NDArray[Any]:
        """Integers uniform over ``range(d)``, one for each of the records at ``rows``; others for each ``step``.

        For mechanisms that draw until they are done: ``step`` is below 2**16. A lane is either for this or for the
        others.
        """

    def of_persons(self) -> Noise:
        """Noise that does not depend on the values: for what a person draws once and for all.

        (From lanes of its own: it shares those of the first value.)
        """

    def with_codes(self, codes: npt.NDArray[Any]) -> Noise:
        """Noise that depends on these codes, unsigned integers, one per record, instead of the values.

        For mechanisms whose permanent answer is to something coarser than the value.
        """

    def instantaneous(self) -> Noise:
        """Noise for a second round on the same records that is fresh at each call, whatever the first round's is.

        (Of a seeded run it is seeded too: a run is repeated as a whole. With the ``records`` of `Keyed` it is theirs.)
        """


class Randomness(Protocol):
    """Where the noise of one call of ``perturb`` comes from."""

    by_value: bool
    """Whether the noise depends on the values, so that a mechanism must know their codes before it draws."""

    def bind(self, digest: str, codes: npt.NDArray[Any]) -> Noise:
        """The noise of a mechanism for n records with these codes.

        Args:
            digest: the mechanism's, `Mechanism.digest`.
            codes: what tells the values apart: [n], unsigned integers; or uint64[n, 2] where that takes 128 bits.
        """


def coins(noise: Noise, threshold: int, n: int, lane: int) -> U8:
    """``n`` bytes 0 or 1, one per record, each 1 with probability ``threshold / 2**64``."""
    return np.unpackbits(noise.bernoulli(threshold, n, lane), count=n, bitorder="little")


def kept_or_drawn(noise: Noise, keep: int, codes: Codes, d: int, lane: int) -> Codes:
    """`Noise.kept_or_drawn` by the other methods."""
    n = len(codes)
    return select(coins(noise, keep, n, lane), codes, noise.uniform_below(d, n, lane + 1))
