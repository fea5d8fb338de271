"""Runs cases of one entry point in a process of its own: ``python -m tests.fuzz.run NAME FIRST LAST [PLANTED]``.

Case i follows from the entry point's name and i alone. The process may have 3 GiB. A case may cost a second of the
processor a megabyte, and a quarter of one besides; after ten seconds it is ended. The last line is JSON: how many
cases, how many faults, and the first of each kind. A process that died is a fault too.
"""

import importlib
import json
import random
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import Any

from tests.memory import forget_peak, peak

MEMORY = 3 << 30
GROWTH = 1 << 30
"""By how much a process may grow while its cases run."""
SECONDS = 10
"""Of the processor, in one case: a machine that is busy or sleeps is no fault."""
EACH, PER_BYTE = 0.25, 1e-6
"""Of the processor, what a case may cost, and what each of its bytes may cost besides."""
WARM = 8
"""Cases that are taken once before, as the first ones import what they need."""


class Slow(BaseException):
    """A case has taken too long."""


def main(name: str, first: int, last: int, planted: str | None = None) -> dict[str, Any]:
    """Run the cases."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    points = importlib.import_module("tests.fuzz.entry_points")
    point = points.ENTRY_POINTS[name]
    take = point.take
    if planted:
        take = importlib.import_module("tests.fuzz.planted").FAULTS[planted](take)
    signal.signal(signal.SIGPROF, _too_slow)
    found: dict[str, Any] = {}
    faults = 0
    forget_peak()
    before = peak() << 10
    warming = [(number, False) for number in range(first, min(first + WARM, last))]
    for number, counts in [*warming, *((number, True) for number in range(first, last))]:
        if number % 64 == 0:
            sys.stdout.write(f"{number}\n")  # where it was, should it die
            sys.stdout.flush()
        case = point.case(random.Random(f"{name} {number}"))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        start = time.process_time()
        try:
            with suppress(points.LdpError):  # what has not been asked of a second time may be refused
                take(case)
            cost, size = time.process_time() - start, size_of(case)
            if counts and cost > EACH + PER_BYTE * size:
                raise Slow(f"{cost:.2f} s for {size} bytes")
        except BaseException as error:
            faults += 1
            kind = _kind(error)
            found.setdefault(kind, {"case": number, "times": 0})["times"] += 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    points.folder().cleanup()
    grown = (peak() << 10) - before
    if grown > GROWTH:
        faults += 1
        found["memory"] = {"case": None, "grown": grown}
    return {"cases": last - first, "faults": faults, "found": found, "grown": grown}


def size_of(case: Any) -> int:
    """Bytes of what comes in."""
    if isinstance(case, (bytes, str)):
        return len(case)
    if isinstance(case, (list, tuple)):
        return sum(map(size_of, case))
    if isinstance(case, dict):
        return sum(size_of(key) + size_of(value) for key, value in case.items())
    return getattr(case, "nbytes", 8)


def _too_slow(*_: Any) -> None:
    raise Slow


def _kind(error: BaseException) -> str:
    """The type and where it came from: one fault is found many times."""
    chain = error if error.__cause__ is None else error.__cause__
    places = traceback.extract_tb(chain.__traceback__)
    place = [*places[-1:], *(f for f in places if "/ldp_" in f.filename or "/pipelines/" in f.filename)][-1]
    where = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
    return f"{type(error).__name__} {type(chain).__name__} in {where}: {str(chain)[:200]}"[:300]


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])) + "\n")
    sys.stdout.flush()
