"""What streams must give, on every engine: one list. `test_streams` runs it; docs/deploy.md has the deviations."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
)
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows

import ldp_beam
from ldp_beam import AfterTallies
from ldp_beam.elements.faults import LATE as TOO_LATE
from ldp_beam.elements.faults import NULL
from ldp_beam.persons.transforms import BoundContributions, Deduplicate
from ldp_core import PrivacyPlan

from ..helpers import SURE_BOOL, on_my_word
from ..streams import LATE_AND_LATER, batch, counted, late_of, ns, true_panes


@dataclass(frozen=True)
class Case:
    """A stream, what is done with it, and what must come of it.

    Attributes:
        id: of the test.
        steps, form: of the stream; see `streams.stream`.
        transform: what is done with it.
        look: what is compared, made of the outputs (a list, or a pair of lists where there are dead letters).
        expected: what Beam's model gives.
        deviations: engine -> what it gives, and in which way that is something else.
    """

    id: str
    steps: list[Any]
    transform: Any
    look: Callable[..., Any]
    expected: Any
    form: str = "batches"
    deviations: Mapping[str, tuple[Any, str]] = field(default_factory=dict)

    @property
    def stream(self) -> str:
        """Cases of the same stream can share it."""
        return f"{self.form} {self.steps}"


# ---- panes: each with its timing (Early, On time, Late) and its n. A trigger that counts elements counts partial
# tallies: one a batch.

ACC, DISC = AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING
EARLY, LATE = AfterWatermark(early=AfterCount(1)), AfterWatermark(late=AfterCount(1))
BOTH = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
EACH, PAIRS = Repeatedly(AfterCount(1)), Repeatedly(AfterTallies(2))

CLOSING = "the window has one more pane, of nothing new, when the allowed lateness is over"
ON_TIME = "a trigger that only counts has an ON_TIME pane too, of nothing new"
WAITING = "late records wait until the allowed lateness is over, and come in one pane"
THRICE = "a late record fires three times, as EARLY, ON_TIME and LATE, where a trigger counts elements"
NOT_EMPTY = "no ON_TIME pane that would be empty"
WAITED = "reports wait for a checkpoint and hold the watermark back: a late one comes with those before it, in time"

# Trigger, allowed lateness, mode; panes; deviations
PANES: list[tuple[Any, int, Any, str, dict[str, tuple[str, str]]]] = [
    (None, 0, ACC, "O3", {}),
    (None, 0, DISC, "O3", {}),
    (None, 20, ACC, "O3 L4", {"flink": ("O3 L4 L4", CLOSING)}),
    (None, 20, DISC, "O3 L1", {"flink": ("O3 L1 L0", CLOSING)}),
    (DefaultTrigger(), 20, ACC, "O3 L4", {"flink": ("O3 L4 L4", CLOSING)}),
    (AfterWatermark(), 0, ACC, "O3", {}),
    (AfterWatermark(), 0, DISC, "O3", {}),
    (EARLY, 0, ACC, "E2 E3 O3", {}),
    (EARLY, 0, DISC, "E2 E1 O0", {"prism": ("E2 E1", NOT_EMPTY)}),
    (LATE, 0, ACC, "O3", {}),
    (LATE, 20, ACC, "O3 L4", {"flink": ("O3 L4 L4", CLOSING)}),
    (LATE, 20, DISC, "O3 L1", {"flink": ("O3 L1 L0", CLOSING)}),
    (BOTH, 0, ACC, "E2 E3 O3", {}),
    (BOTH, 20, ACC, "E2 E3 O3 L4", {"flink": ("E2 E3 O3 L4 L4", CLOSING), "prism": ("E2 E3 O3 E4 O4 L4", THRICE)}),
    (BOTH, 20, DISC, "E2 E1 O0 L1", {"flink": ("E2 E1 O0 L1 L0", CLOSING), "prism": ("E2 E1 L1", NOT_EMPTY)}),
    (EACH, 0, ACC, "E2 E3", {"flink": ("E2 E3 O3", ON_TIME), "prism": ("E2 E3 O3", ON_TIME)}),
    (EACH, 20, ACC, "E2 E3 L4", {"flink": ("E2 E3 L4 L4", CLOSING), "prism": ("E2 E3 O3 E4 O4 L4", THRICE)}),
    (EACH, 20, DISC, "E2 E1 L1", {"flink": ("E2 E1 L1 L0", CLOSING)}),
    (PAIRS, 0, ACC, "E3", {"flink": ("E3 O3", ON_TIME), "prism": ("E3 O3", ON_TIME)}),
    (PAIRS, 0, DISC, "E3", {"flink": ("E3 O0", ON_TIME)}),
]


def window_options(trigger, lateness, mode):
    return {
        "window": 10,
        "event_time": "t",
        "trigger": trigger,
        "allowed_lateness": lateness,
        "accumulation_mode": mode,
    }


def panes(rows):
    """The panes of window [0, 10), as above."""
    true = true_panes(rows)
    whole = [row.pane_index for row in true] == list(range(len(true)))
    first = [row.pane_is_first for row in true] == [True] + [False] * (len(true) - 1)
    right = [round(row.count, 9) for row in true] == [row.n for row in true]
    there = {(row.window_start.micros, row.window_end.micros) for row in rows} == {(0, 10**7)}
    if not (whole and first and right and there):
        raise ValueError(f"panes that do not fit together: {true}")
    return " ".join(f"{row.pane_timing[0]}{row.n}" for row in true)


def _names(trigger, lateness, mode):
    names = {"EARLY": EARLY, "LATE": LATE, "BOTH": BOTH, "EACH": EACH, "PAIRS": PAIRS}
    known = next((name for name, value in names.items() if value is trigger), type(trigger).__name__)
    return f"{known}-{lateness}-{'accumulating' if mode == ACC else 'discarding'}"


def pane_cases():
    for trigger, lateness, mode, expected, deviations in PANES:
        histogram = on_my_word(ldp_beam.Histogram("v", SURE_BOOL, **window_options(trigger, lateness, mode)))
        name = f"panes-{_names(trigger, lateness, mode)}"
        yield Case(name, LATE_AND_LATER, histogram, panes, expected, deviations=deviations)
    for kind in (ldp_beam.Histogram, ldp_beam.PrivateHistogram):
        for mode, expected, closed in ((ACC, "O3 L4", "O3 L4 L4"), (DISC, "O3 L1", "O3 L1 L0")):
            histogram = kind("v", SURE_BOOL, **window_options(None, 20, mode))
            name = f"panes-of-single-records-{kind.__name__}-{_names(None, 20, mode)}"
            deviations = {"flink": (closed, CLOSING)}
            yield Case(name, LATE_AND_LATER, histogram, panes, expected, "single records", deviations)
    default = on_my_word(ldp_beam.Histogram("v", SURE_BOOL, **window_options(None, 20, None)))
    yield Case(
        "a-pane-for-each-late-batch",
        [0, [1], 12, [2], 13, [3], 14],
        default,
        panes,
        "O1 L2 L3",
        deviations={"flink": ("O1 L2 L3 L3", CLOSING), "prism": ("O1 L3", WAITING)},
    )
    yield Case(
        "no-late-pane-without-late-records",
        [0, [1], 50],
        default,
        panes,
        "O1",
        deviations={"prism": ("O1 L1", CLOSING)},
    )


# ---- windows


def timed(rows):
    return [(row.window_start.micros // 10**6, row.n, row.pane_timing) for row in true_panes(rows)]


def window_cases():
    for window, expected in [
        (SlidingWindows(20, 10), {(-10, 10): 2, (0, 20): 4, (10, 30): 2}),
        (Sessions(5), {(1, 9): 2, (13, 20): 2}),
    ]:
        histogram = on_my_word(ldp_beam.Histogram("v", SURE_BOOL, window=window, event_time="t"))
        yield Case(f"windows-{type(window).__name__}", [0, [1, 4, 15], 12, [13]], histogram, ns, expected)
    yield Case(
        "sessions-that-touch",
        [0, [1, 6]],
        on_my_word(ldp_beam.Histogram("v", SURE_BOOL, window=Sessions(5), event_time="t")),
        ns,
        {(1, 6): 1, (6, 11): 1},
        deviations={"prism": ({(1, 11): 2}, "sessions of events exactly a gap apart become one")},
    )
    # the batch's timestamp is not late, but one of its records is older than the watermark: lateness decides
    late = [(0, 1, "LATE"), (10, 1, "ON_TIME")]
    for lateness, expected, deviations in [
        (0, [(10, 1, "ON_TIME")], {}),
        (30, late, {"flink": ([late[0], *late], CLOSING), "prism": ([late[0], *late, (10, 1, "LATE")], CLOSING)}),
    ]:
        histogram = on_my_word(ldp_beam.Histogram("v", SURE_BOOL, **window_options(None, lateness, None)))
        name = f"late-record-in-an-early-batch-{lateness}"
        yield Case(name, [15, [16, 3]], histogram, timed, expected, deviations=deviations)
    windows = beam.WindowInto(FixedWindows(10), trigger=LATE, accumulation_mode=ACC, allowed_lateness=60)
    yield Case(
        "late-reports-survive-being-stabilized",
        [0, [1], 20, [2]],
        windows | ldp_beam.Perturb(PrivacyPlan({"v": SURE_BOOL})) | ldp_beam.Histogram("v", SURE_BOOL),
        timed,
        [(0, 1, "ON_TIME"), (0, 2, "LATE")],
        "single records",
        {"flink": ([(0, 2, "ON_TIME")], WAITED)},
    )


# ---- empty windows

NOW = int(time.time()) // 10 * 10


def until_now(rows):
    """n of the windows that have ended by now: how many come after them is not said."""
    return {start - NOW: n for (start, end), n in ns(rows).items() if end <= NOW}


def first_panes(rows):
    """(start, n) of every pane 0."""
    return [(row.window_start.micros // 10**6, row.n) for row in true_panes(rows) if not row.pane_index]


def second_window(rows):
    """(index, timing, n) of the first two panes of the window of 10 to 20."""
    panes = [row for row in true_panes(rows) if row.window_start == 10]
    return [(row.pane_index, row.pane_timing, row.n) for row in panes[:2]]


def fill_cases():
    for kind in (ldp_beam.Histogram, ldp_beam.PrivateHistogram):
        yield Case(
            f"fill-{kind.__name__}",
            [0, [1], 35, [36]],
            on_my_word(kind("v", SURE_BOOL, window=10, event_time="t", fill=(0, 50))),
            ns,
            {(0, 10): 1, (10, 20): 0, (20, 30): 0, (30, 40): 1, (40, 50): 0},
        )
    for mode in ("accumulating", "discarding"):
        yield Case(
            f"fill-where-end-and-lateness-pass-at-once-{mode}",
            [0, [1], 35, [36], 39, [43]],
            on_my_word(
                ldp_beam.Histogram(
                    "v", SURE_BOOL, window=10, event_time="t", fill=(0, 60), allowed_lateness=5, accumulation_mode=mode
                )
            ),
            first_panes,
            [(0, 1), (10, 0), (20, 0), (30, 1), (40, 1), (50, 0)],  # was twice on Flink, the second time with n = 0
        )
    late_after = ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", fill=(0, 40), allowed_lateness=25)
    yield Case(
        "fill-and-then-late",
        [0, [1], 25, [13], 42],
        on_my_word(late_after),
        second_window,
        [(0, "ON_TIME", 0), (1, "LATE", 1)],
        deviations={"prism": ([(0, "ON_TIME", 1), (1, "LATE", 1)], "the late record is in an ON_TIME pane, too")},
    )
    yield Case(
        "endless-fill-jumped-over",
        [NOW - 63, [NOW - 55], NOW - 2],
        on_my_word(ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", fill=(NOW - 100, None))),
        until_now,
        {start: int(start == -60) for start in range(-100, 0, 10)},  # the first were missing
    )
    for window, size in ((10, 10), (SlidingWindows(20, 10), 20)):
        times = [NOW - 95, NOW - 42]
        yield Case(
            f"endless-fill-{size}",
            [NOW - 100, times[:1], NOW - 50, times[1:], NOW - 5],
            on_my_word(ldp_beam.Histogram("v", SURE_BOOL, window=window, event_time="t", fill=(NOW - 100, None))),
            until_now,
            {
                start: sum(start <= t - NOW < start + size for t in times)
                for start in range(-100 - (size - 10), 10 - size, 10)
            },
        )


# ---- records that come too late


def histogram(kind=ldp_beam.Histogram, window=10, **options):
    return on_my_word(kind("v", SURE_BOOL, window=window, event_time="t", **options).with_exception_handling())


def balance(good, dead):
    """Start of window -> n, and how many records were late for a window."""
    return counted(good), late_of(dead)


def balance_of_discarded(good, dead):
    got = defaultdict(int)
    for row in true_panes(good):
        got[row.window_start.micros // 10**6] += row.n
    return {start: n for start, n in got.items() if n}, late_of(dead)


REPLACED = "with allowed lateness a pane may have late records only, and replaces the right one"
UNCOUNTED = "the first late batch of a window that no other record opened is not always counted as late"
# Case: start of a window -> its n on Prism instead, how many more are late, and why
ARRIVALS_ON_PRISM: dict[str, tuple[dict[int, int], int, str]] = {
    "arrivals-FixedWindows-10-0-60-accumulating": ({90: 1}, 0, REPLACED),
    "arrivals-SlidingWindows-20-0-0-accumulating": ({}, -1, UNCOUNTED),
    "arrivals-SlidingWindows-20-0-60-accumulating": ({40: 1}, 0, REPLACED),
    "arrivals-SlidingWindows-15-2-7-accumulating": ({92: 1, 102: 1}, -1, REPLACED),
    "arrivals-late-for-some": ({12: 1, 17: 1}, 0, REPLACED),
}

# Allowed lateness, what is counted, and how many are late. At watermark 16 the record of 13 is in time; the record of
# 4 is 6 s past the end of its window, the record of 3 was 2 s past it.
LATENESSES = [(0, {0: 2, 10: 1, 20: 1}, 2), (5, {0: 3, 10: 1, 20: 1}, 1), (40, {0: 4, 10: 1, 20: 1}, 0)]


def late_cases():
    for lateness, expected, late in LATENESSES:
        for form in ("batches", "single records"):
            for kind in (ldp_beam.Histogram, ldp_beam.PrivateHistogram):
                yield Case(
                    f"too-late-{form.replace(' ', '-')}-{kind.__name__}-{lateness}",
                    [0, [1, 2], 12, [3], 16, [4, 13], 21, [25], 45],
                    histogram(kind, allowed_lateness=lateness),
                    balance,
                    (expected, late),
                    form,
                )
    yield Case("only-late-records-would-open-it", [0, [1], 100, [55, 56], [57]], histogram(), balance, ({0: 1}, 3))
    sessions = histogram(window=Sessions(5))
    yield Case("late-for-sessions-is-not-counted", [0, [1, 2], 50, [3], 60], sessions, balance, ({1: 2}, 0))
    yield Case(
        "late-at-the-very-end-of-the-window",
        [0, [1], 10, [2]],
        histogram(),
        balance,
        ({0: 1}, 1),
        deviations={"local": (({0: 2}, 0), "a record that comes when the watermark is at the window's end is in time")},
    )
    nulls = pa.record_batch({"v": pa.array([True, None]), "t": pa.array([3.0, 31.0]), "c": ["de", "de"]})
    yield Case(
        "late-by-key-with-other-faults-and-triggers",
        [0, (batch([1, 2], "fr"), batch([1, 2], "it")), 30, (nulls, batch([4], "it"))],
        histogram(by="c", trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1))),
        by_key,
        ({"fr": 2, "it": 2}, {("t", TOO_LATE): 2, ("v", NULL): 1}),
    )
    windows = [FixedWindows(10), FixedWindows(10, offset=3), SlidingWindows(20, 10), SlidingWindows(15, 5, 2)]
    for i, window in enumerate(windows):
        for j, lateness in enumerate((0, 7, 60)):
            yield random_arrivals(window, lateness, (ACC, DISC)[(i + j) % 2])
    steps = [0, [21, 22, 31], 35.5, [21], 38.5, [22], 40.5, [23]]
    yield arrivals("arrivals-late-for-some", steps, SlidingWindows(15, 5, 2), 7)


def by_key(good, dead):
    total = defaultdict(int)
    for letter in dead:
        total[letter[:2]] += letter.count
    return {row.key["c"]: row.n for row in true_panes(good)}, dict(total)


def random_arrivals(window, lateness, mode):
    """Watermarks are never at the end of a window to the instant, where engines differ (see above)."""
    rng = random.Random(f"{lateness} {type(window).__name__} {window.offset} {mode}")
    watermark, steps = 100, [100.5]
    for _ in range(30):
        if rng.random() < 0.4:
            watermark += rng.randrange(1, 12)
            steps.append(watermark + 0.5)
        else:
            steps.append([max(0, watermark + rng.randrange(-70, 20)) for _ in range(rng.randrange(1, 5))])
    size = window.size.micros // 10**6
    name = f"arrivals-{type(window).__name__}-{size}-{window.offset.micros // 10**6}-{lateness}"
    return arrivals(f"{name}-{'accumulating' if mode == ACC else 'discarding'}", steps, window, lateness, mode)


def arrivals(name, steps, window, lateness, mode=ACC):
    """Against the definition: a record misses windows whose end is more than L behind the watermark."""
    watermark, expected, late = 0, defaultdict(int), 0
    size = window.size.micros // 10**6
    period = window.period.micros // 10**6 if isinstance(window, SlidingWindows) else size
    offset = window.offset.micros // 10**6
    for step in steps:
        if not isinstance(step, list):
            watermark = step
            continue
        for t in step:
            start = t - (t - offset) % period
            while start > t - size:
                if watermark > start + size + lateness:
                    late += 1
                else:
                    expected[start] += 1
                start -= period
    made = histogram(window=window, allowed_lateness=lateness, accumulation_mode=mode)
    look = balance if mode == ACC else balance_of_discarded
    deviations = {}
    if name in ARRIVALS_ON_PRISM:
        counts, more, reason = ARRIVALS_ON_PRISM[name]
        deviations["prism"] = ((expected | counts, late + more), reason)
    return Case(name, steps, made, look, (dict(expected), late), deviations=deviations)


# ---- persons


def state_cases():
    visits = [{"id": f"x{i}", "v": "a", "t": float(i)} for i in (1, 2, 3)]
    yield Case(
        "duplicates",
        [0, visits, visits, visits],
        Deduplicate("id", within="1h", event_time="t"),
        lambda once: sorted(record["t"] for record in once),
        [1, 2, 3],
    )
    people = [{"user": i % 3, "n": i, "t": float(i)} for i in range(30)]
    yield Case(
        "contributions",
        [0, people[:20], 14, people[20:]],
        BoundContributions("user", 2, window=15, event_time="t"),
        lambda kept: sorted((record["n"] % 3, int(record["t"] // 15)) for record in kept),
        sorted((user, window) for user in range(3) for window in range(2) for _ in range(2)),
    )
    windows = beam.WindowInto(FixedWindows(10), allowed_lateness=30)
    limits = {
        "": BoundContributions("c", 4, window=10, event_time="t", allowed_lateness=30).with_exception_handling(),
        "-for-windows-of-the-input": windows | BoundContributions("c", 4).with_exception_handling(),
    }
    for name, limit in limits.items():
        yield Case(
            f"contributions-too-late{name}",
            [0, [1, 2], [3, 4], 12, [5], 100, [6, 7]],
            limit,
            passed_dropped_late,
            ([1, 2, 3, 4], {"over the limit": 1, TOO_LATE: 2}),
            form="records",
            deviations={
                "local": (([1, 2, 3, 4], {"over the limit": 3}), "a step with state gets late records, too"),
                "prism": (([1, 2, 3, 4, 5, 6, 7], {}), "a state goes at the window's end; late records pass"),
            },
        )


def passed_dropped_late(good, dead):
    reasons = defaultdict(int)
    for letter in dead:
        reasons[letter.reason] += letter.count
    return sorted(record["t"] for record in good), dict(reasons)


CASES = [*pane_cases(), *window_cases(), *fill_cases(), *late_cases(), *state_cases()]
