"""The keystream: AES in counter mode, never shared and never copied."""

import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from ldp_core import Keystream, RandomizedResponse, UnaryEncoding

from ...cases import each


def test_keystream_is_aes_256_ctr():
    key = bytes(range(32))
    n = 3 * (1 << 18) + 5
    expected = Cipher(algorithms.AES(key), modes.CTR((2).to_bytes(16, "big"))).encryptor().update(bytes(n))
    assert Keystream(key).bytes(n).tobytes() == expected


@given(st.lists(st.integers(0, 600_000), max_size=5))
def test_keystream_does_not_depend_on_the_sizes_of_the_requests(sizes):
    one, pieces = Keystream(bytes(32)), Keystream(bytes(32))
    assert one.bytes(sum(sizes)).tobytes() == b"".join(pieces.bytes(n).tobytes() for n in sizes)


def test_keystream_refuses_to_be_copied():
    with pytest.raises(TypeError, match="must not be pickled"):
        pickle.dumps(Keystream())


def _first_bytes(_: int) -> bytes:
    return Keystream().bytes(16).tobytes()


def _first_reports(_: int) -> bytes:
    m = UnaryEncoding(list(range(64)), epsilon=1)
    return m.perturb(np.zeros(16, np.int64), packed=True).tobytes()


@pytest.mark.fresh(false_alarms=1e-30)  # that two of 184 draws of 128 bits or more are equal
@each("draw", [_first_bytes, _first_reports])
def test_calls_threads_and_forks_never_share_a_stream(draw):
    seen = [draw(0) for _ in range(20)]
    lock = threading.Lock()

    def work():
        mine = [draw(0) for _ in range(20)]
        with lock:
            seen.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen += _in_forks(draw)
    assert len(set(seen)) == len(seen) == 20 + 160 + 4


def _in_forks(draw) -> list[bytes]:
    """The bytes that each of four forks of this process draws."""
    pipes = [multiprocessing.Pipe(duplex=False) for _ in range(4)]
    children = []
    for _, end in pipes:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                end.send_bytes(draw(0))
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    drawn = [start.recv_bytes() if start.poll(30) else b"" for start, _ in pipes]
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    assert all(drawn)
    return drawn


def test_the_same_key_gives_the_same_reports():
    m = RandomizedResponse(list(range(10)), epsilon=1)
    values = np.arange(1000) % 10
    a, b, c = (m.perturb(values, randomness=Keystream(bytes([k]) * 32)) for k in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()
