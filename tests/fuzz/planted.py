"""Faults for the search to find: without them nobody knows that it can."""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_core import InputError
from ldp_core.arrays import ipc

from . import run
from .entry_points import quiet
from .mutations import SECRET


def _every_hundredth(happen: Callable[[], Any]) -> Callable[[Any], Callable[[Any], None]]:
    def planted(take: Callable[[Any], Any]) -> Callable[[Any], None]:
        count = 0

        def also(case: Any) -> None:
            nonlocal count
            count += 1
            if count % 100 == 0:
                happen()
            take(case)

        return also

    return planted


def _raise(error: BaseException) -> None:
    raise error


def _work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def _without_sizes(take: Any) -> Any:
    ipc._over = lambda buffer, limits: None
    return take


def _without_net(take: Any) -> Any:
    ipc._FAULTS = (pa.ArrowException,)
    return take


FAULTS: dict[str, Callable[[Any], Any]] = {
    "another exception": _every_hundredth(lambda: {}["a"]),
    "a message that shows a value": _every_hundredth(lambda: quiet(lambda: _raise(InputError(f"got {SECRET}")))),
    "much memory": _every_hundredth(lambda: np.ones(run.MEMORY // 8)),
    "memory that stays": _every_hundredth(lambda: _KEPT.append(np.ones(run.GROWTH // 16))),
    "much time": _every_hundredth(lambda: _work(2 * run.EACH)),
    "the end of the process": _every_hundredth(os.abort),
    "sizes that nobody compares": _without_sizes,
    "errors of numpy and Python that nobody catches": _without_net,
}
_KEPT: list[Any] = []
