"""Blocks of work on several cores, for work that runs without Python's lock most of the time.

A call uses its own thread, and one more for each core that no other call of this process has taken. They
end with the call: nothing is left that a fork could lose. The environment variable ``LDP_THREADS`` says how many cores
to use; with 1 no thread is ever started.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from threading import Semaphore, Thread
from typing import TypeVar

from ldp_core.errors import ParameterError

FEW = 8
"""With fewer blocks there is one thread: blocks take about half a millisecond, and a thread a tenth to start."""

_S = TypeVar("_S")


def in_threads(
    work: Callable[[_S, int], None], blocks: Iterable[int], state: _S, another: Callable[[], _S | None] | None
) -> None:
    """Call ``work(state, block)`` for each block, in any order, several at a time; what it raises is raised here.

    ``state`` is what calls of one thread share. ``another`` makes one for one more thread, or None; without it there is
    one thread.
    """
    left, failed = deque(blocks), list[BaseException]()

    def run(mine: _S) -> None:
        try:
            while left and not failed:
                work(mine, left.popleft())
        except BaseException as error:
            failed.append(error)

    cores, states = _cores(os.getpid()), list[_S]()
    while another and len(left) >= FEW // 2 * (len(states) + 2) and cores.acquire(blocking=False):
        made = another()
        if made is None:
            cores.release()
            break
        states.append(made)
    threads = [Thread(target=run, args=(made,), name="ldp", daemon=True) for made in states]
    try:
        for thread in threads:
            thread.start()
        run(state)
    finally:
        for thread in threads:
            thread.join()
            cores.release()
    if failed:
        raise failed[0]


@cache
def _cores(process: int) -> Semaphore:
    """The cores that calls of this process may take beside their own: after a fork all are free."""
    return Semaphore(_number() - 1)


def _number() -> int:
    given = os.environ.get("LDP_THREADS")
    if given is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not (given.isdecimal() and int(given)):
        raise ParameterError(f"LDP_THREADS must be a whole number from 1 on, got {given!r}")
    return int(given)
