"""AES: all modes give the same bits, those of NIST's counter mode and of single blocks, also across IVs."""

from time import process_time

import numpy as np
import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from ldp_core.errors import ParameterError
from ldp_core.exact import aes
from ldp_core.exact.aes import SEGMENT, SPARE, Segments, encrypt

from ...cases import each

KEY = bytes(range(32))
# NIST SP 800-38A, F.1.5: ECB-AES256.Encrypt
NIST_KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
NIST_BLOCKS = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
NIST_ENCRYPTED = "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870"
# "The Galois/Counter Mode of Operation" (D. McGrew, J. Viega), test case 14: one block of zeros, key and IV zero.
GCM_ENCRYPTED = "cea7403d4d606b6e074ec5d3baf39d18"


@pytest.fixture
def chosen(monkeypatch):
    """Force a mode by its environment variable."""

    def force(variable, mode):
        monkeypatch.setenv(variable, mode)
        aes._fastest.cache_clear()

    yield force
    aes._fastest.cache_clear()


def stream(n: int, segment: int = SEGMENT, sizes: list[int] | None = None, key: bytes = KEY) -> bytes:
    made, out = Segments(key, segment), b""
    for size in sizes or [n]:
        buffer = np.empty(size + SPARE, np.uint8)
        made.into(buffer, size)
        out += buffer[:size].tobytes()
    return out


def counter_blocks(first: int, n: int, segment: int) -> bytes:
    """Blocks ``first`` to ``first + n`` of the stream, each encrypted by itself."""
    per = segment // 16
    numbers = [divmod(k, per) for k in range(first, first + n)]
    blocks = b"".join(iv.to_bytes(12, "big") + (2 + k).to_bytes(4, "big") for iv, k in numbers)
    return Cipher(algorithms.AES(KEY), modes.ECB()).encryptor().update(blocks)


@each("mode", ["ctr", "gcm"])
def test_the_keystream_is_that_of_gcm(mode, chosen):
    chosen("LDP_KEYSTREAM", mode)
    assert stream(16, key=bytes(32)).hex() == GCM_ENCRYPTED
    assert stream(1000) == counter_blocks(0, 63, SEGMENT)[:1000]


@each("mode", ["ctr", "gcm"])
@given(st.lists(st.integers(0, 200), min_size=1, max_size=6), st.sampled_from([16, 32, 160]))
def test_the_next_segment_has_the_next_iv(mode, sizes, segment):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LDP_KEYSTREAM", mode)
        aes._fastest.cache_clear()
        assert stream(0, segment, sizes) == counter_blocks(0, 63 + sum(sizes) // 16, segment)[: sum(sizes)]
    aes._fastest.cache_clear()


@pytest.mark.slow  # 64 GiB twice
@each("mode", ["ctr", "gcm"])
def test_the_seam_where_it_really_is(mode, chosen):
    chosen("LDP_KEYSTREAM", mode)
    made, step = Segments(KEY), 1 << 24
    buffer = np.empty(step + 160 + SPARE, np.uint8)
    for _ in range(SEGMENT // step):
        made.into(buffer, step)
    at = SEGMENT % step
    made.into(buffer, at + 160)
    assert buffer[at - 160 : at + 160].tobytes() == counter_blocks((SEGMENT - 160) // 16, 20, SEGMENT)


@each("mode", ["ecb", "xts"])
def test_single_blocks_are_aes(mode, chosen, monkeypatch):
    chosen("LDP_BLOCKS", mode)
    blocks = np.frombuffer(bytes.fromhex(NIST_BLOCKS), np.uint64).reshape(-1, 2)
    assert encrypt(aes.aes(NIST_KEY), blocks).tobytes().hex() == NIST_ENCRYPTED
    zeros = np.zeros(((1 << 20) + 1, 2), np.uint64)  # more than XTS takes at a time
    assert (encrypt(aes.aes(NIST_KEY), zeros) == encrypt(aes.aes(NIST_KEY), zeros[:1])).all()
    monkeypatch.setattr(aes, "_BLOCKS", 7)
    many = np.random.default_rng(0).integers(0, 1 << 63, (100, 2)).astype(np.uint64)
    cipher = aes.aes(KEY)
    for n in (0, 1, 6, 7, 8, 13, 14, 100):
        expected = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor().update(many[:n].tobytes())
        assert encrypt(cipher, many[:n]).tobytes() == expected


def test_the_choice_is_made_once_and_at_once():
    aes._fastest.cache_clear()
    start = process_time()
    one, two = (aes._fastest(variable) for variable in aes.MODES)
    assert process_time() - start < 0.5  # about a millisecond
    assert one is aes._fastest("LDP_KEYSTREAM")
    assert two in (aes._ecb, aes._xts)


def test_a_mode_of_other_bits_or_none_is_not_taken(monkeypatch):
    def none(key, iv):
        raise UnsupportedAlgorithm("no such mode")

    for bad in (none, lambda key, iv: aes._gcm(b"\1" * 32, iv)):
        monkeypatch.setitem(aes.MODES["LDP_KEYSTREAM"], "gcm", bad)
        monkeypatch.setattr(aes, "perf_counter", iter(range(100, 0, -1)).__next__)  # faster than no time
        aes._fastest.cache_clear()
        assert aes._fastest("LDP_KEYSTREAM") is aes._ctr
    aes._fastest.cache_clear()


@each("variable", ["LDP_KEYSTREAM", "LDP_BLOCKS"])
def test_a_mode_that_does_not_exist(variable, chosen):
    chosen(variable, "cbc")
    with pytest.raises(ParameterError, match=f"{variable} must be .* or .*, got 'cbc'"):
        aes._fastest(variable)
