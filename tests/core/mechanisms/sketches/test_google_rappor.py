"""What the client of Google's RAPPOR reports."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_core import ParameterError, Rappor
from ldp_core.exact import bloom
from ldp_core.mechanisms.sketches import google_rappor

from ....cases import each
from .helpers import CHROME


@each("filtered", [-1, 1 << 16])
def test_google_permanent_takes_filters_of_its_bits(filtered):
    with pytest.raises(ParameterError):
        google_rappor.google_permanent(filtered, b"secret", bits=16, f=0.5)
    with pytest.raises(ParameterError):
        google_rappor.google_permanent(1, b"secret", bits=33, f=0.5)


def test_known_answer_of_googles_client():
    """acceptance.json, "known_answer": the encoder test of client/python/rappor_test.py."""
    where = bloom.md5_positions([b"abc"], [0], 16, 2)
    filtered = int(bloom.filters(where, 2).view("<u2")[0, 0])
    assert filtered == 8256
    assert google_rappor.google_permanent(filtered, b"secret", bits=16, f=0.5) == (50360, 56237, 57576)
    cycle = [0.0, 0.6, 0.0]
    below = {t: sum((cycle[i % 3] < t) << i for i in range(16)) for t in (0.5, 0.75)}
    assert google_rappor.google_instantaneous(57576, below[0.5], below[0.75]) == 64493
    m = Rappor(bits=16, hashes=2, cohorts=8, **CHROME, hashing="md5")
    tally = m.tally(np.array([[0, 64493]], np.uint64))
    counts = tally.counters.reshape(8, 17)
    assert counts[0].tolist() == [1, *(64493 >> i & 1 for i in range(16))]
    assert not counts[1:].any()
