"""What everything random is made of: AES in each of OpenSSL's modes that give the same bits."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Row, compare
from ldp_core.exact import aes


def rows(scale: float) -> Iterator[Row]:
    key, n, times = os.urandom(32), 1 << 20, max(int(64 * scale), 1)
    out, blocks = np.empty(n + aes.SPARE, np.uint8), np.random.default_rng(0).integers(0, 1 << 60, n // 8)
    for label, modes, given in (
        ("keystream, 1 MiB a call: GCM", ("gcm", "ctr"), memoryview(bytes(n))),
        ("single blocks of AES, 1 MiB a call: XTS", ("xts", "ecb"), blocks.view(np.uint8).data),
    ):
        makers = next(m for m in aes.MODES.values() if modes[0] in m)
        ours, theirs = (makers[mode](key, 0) for mode in modes)
        yield compare(
            label,
            modes[1].upper(),
            lambda: [ours.update_into(given, out) for _ in range(times)],
            lambda: [theirs.update_into(given, out) for _ in range(times)],
            n=n * times,
            unit="ns/byte",
        )
