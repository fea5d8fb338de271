"""Blocks of work on several cores."""

import threading
import time
from collections import Counter

import numpy as np
import pytest

from ldp_core import Keystream, ParameterError, UnaryEncoding
from ldp_core.compute import threads
from ldp_core.compute.threads import FEW, in_threads

from ...cases import each


@pytest.fixture
def cores(monkeypatch):
    """Say how many cores there are."""

    def say(number):
        monkeypatch.setenv("LDP_THREADS", str(number))
        threads._cores.cache_clear()

    yield say
    threads._cores.cache_clear()


def run(blocks, work=lambda: time.sleep(0.001)):
    """How often each block was done, by how many threads; each has a state of its own."""
    done, states = Counter(), {}

    def one(state, block):
        states.setdefault(threading.get_ident(), set()).add(state)
        work()
        done[block] += 1

    numbers = iter(range(1, 100))
    in_threads(one, range(blocks), 0, lambda: next(numbers))
    assert all(len(own) == 1 for own in states.values())
    assert len(set.union(*states.values())) == len(states)
    return done, len(states)


@each(("number", "blocks", "used"), [(1, 99, 1), (2, 99, 2), (4, 99, 4), (4, FEW - 1, 1), (4, FEW, 2)])
def test_each_block_is_done_once(cores, number, blocks, used):
    cores(number)
    assert run(blocks) == (Counter(range(blocks)), used)


def test_without_another_state_there_is_one_thread(cores):
    cores(4)
    for another in (None, lambda: None):
        seen = set()
        in_threads(lambda state, block, seen=seen: seen.add(threading.get_ident()), range(99), 0, another)
        assert seen == {threading.get_ident()}
    assert run(99)[1] == 4  # and nothing is taken
    assert Keystream(bytes(32)).another() is None  # a given key has one keystream


def test_calls_share_the_cores(cores):
    """What one call has taken another has not; when the first ends, all are free again."""
    cores(3)
    inner = []
    done, used = run(30, lambda: inner.append(run(20)[1]))
    assert (len(done), used) == (30, 3)
    assert set(inner) == {1}
    assert run(99)[1] == 3


def test_an_error_ends_the_call_and_frees_the_cores(cores):
    cores(3)
    done = []

    def work(state, block):
        if block == 5:
            raise ValueError("five")
        time.sleep(0.001)
        done.append(block)

    with pytest.raises(ValueError, match="five"):
        in_threads(work, range(10_000), 0, lambda: 0)
    assert len(done) < 9_000
    assert run(99)[1] == 3


@each("given", ["0", "-1", "two", "1.5", ""])
def test_what_is_no_number_of_cores_is_refused(cores, given):
    cores(given)
    with pytest.raises(ParameterError, match="LDP_THREADS"):
        run(99)


@pytest.mark.fresh(false_alarms=2.1e-9)  # 6 standard deviations
def test_threads_draw_of_keystreams_of_their_own(cores, monkeypatch):
    """Each thread has one, under a key of its own; all blocks are filled, with noise that does not repeat."""
    cores(4)
    drawn, draw = set(), UnaryEncoding.perturb_block

    def slowly(self, codes, noise):
        drawn.add((threading.get_ident(), id(noise)))
        time.sleep(0.002)
        return draw(self, codes, noise)

    monkeypatch.setattr(UnaryEncoding, "perturb_block", slowly)
    monkeypatch.setattr(UnaryEncoding, "chunk", 1 << 13)
    m = UnaryEncoding(range(128), epsilon=1.0)
    codes = np.arange(40_000, dtype=np.uint8) % 128
    reports = m.perturb_codes(codes, Keystream())
    assert len(drawn) == len({thread for thread, _ in drawn}) == len({noise for _, noise in drawn}) == 4
    own = np.unpackbits(reports, axis=1, bitorder="little")[np.arange(len(codes)), codes]
    assert abs(own.mean() - m.p) < 6 * (0.25 / len(codes)) ** 0.5
    assert len(np.unique(reports, axis=0)) == len(codes)  # two are alike once in 10^19
