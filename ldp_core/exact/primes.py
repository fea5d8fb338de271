"""Prime numbers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=16)
def primes_to(limit: int) -> tuple[int, ...]:
    """The primes up to ``limit``.

    >>> primes_to(10)
    (2, 3, 5, 7)
    """
    is_prime = np.ones(limit + 1, bool)
    is_prime[:2] = False
    for k in range(2, int(limit**0.5) + 1):
        is_prime[k * k :: k] &= not is_prime[k]
    return tuple(np.flatnonzero(is_prime).tolist())
