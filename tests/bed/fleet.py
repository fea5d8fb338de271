"""A simulated fleet of devices that report about themselves, each value perturbed before it leaves its device.

A real device calls ``plan.perturb`` on its own record. Here one call perturbs the records of many devices, each
record with noise of its own, and a batch of reports is one message. What the devices really hold is known here, and
only here: `Truth` keeps the counts to show beside the estimates.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_beam.io import encode
from ldp_core import Domain, Mechanism, ParameterError, PlanError, PrivacyPlan
from ldp_core.inputs.sets import Sets

EVENT_TIME = "event_time"
TIMESTAMP_ATTRIBUTE = "oldest_ms"
"""Attribute of a message: its oldest event time in milliseconds, before which the watermark must not move."""

MAX_ROWS = 250_000
"""Records in a message at most."""
BAD_ROWS = 10
"""Records without event time in a message that has some."""
MALFORMED = b"not an Arrow stream"
UNDECLARED = "undeclared"
"""What a device holds that holds none of the declared texts, where the domain has a bucket for it."""

_MESSAGES_PER_SECOND = 10
_MESSAGE_BYTES = 3_000_000  # about, at most: the server takes 4 MB
_IN_FLIGHT = 4
_LONGEST_SPAN = 500_000  # microseconds that the records of one message cover at most

_TIME = pa.timestamp("us", "UTC")

I64: TypeAlias = npt.NDArray[np.int64]


class Message(NamedTuple):
    """What goes over the network."""

    data: bytes
    attributes: Mapping[str, str]


Send: TypeAlias = Callable[[Message], Future[Any]]
"""Sends a message; its future's ``result()`` raises what went wrong."""


@dataclass(frozen=True)
class Faults:
    """Shares of all messages, each in [0, 1]: what a collector has to live with.

    Attributes:
        late: all records of the message are of a window that has closed.
        malformed: the message is not a batch.
        bad: `BAD_ROWS` records of the message have no event time.

    Raises:
        ParameterError: a share outside [0, 1].
    """

    late: float = 0.0
    malformed: float = 0.0
    bad: float = 0.0

    def __post_init__(self) -> None:
        for name in ("late", "malformed", "bad"):
            if not 0 <= getattr(self, name) <= 1:
                raise ParameterError(f"{name} is a share of the messages in [0, 1], got {getattr(self, name)!r}")


@dataclass(frozen=True)
class Sent:
    """What the fleet has sent: records in readable messages, and messages that are none."""

    messages: int = 0
    records: int = 0
    late: int = 0
    bad: int = 0
    malformed: int = 0

    @property
    def total(self) -> int:
        """Records, and malformed messages as one each: nobody can tell how many records such a message held."""
        return self.records + self.malformed


class Truth:
    """True counts per window and column, of the records that are on time and usable. Thread-safe."""

    def __init__(self, plan: PrivacyPlan) -> None:
        self._sizes = {name: mechanism.domain.size for name, mechanism in plan.oracles.items()}
        self._counts: dict[int, dict[str, I64]] = {}
        self._lock = threading.Lock()

    def add(self, window: int, codes: Mapping[str, npt.NDArray[Any]]) -> None:
        """Count values, given as positions in their domains, in the window that starts at ``window`` microseconds."""
        with self._lock:
            counts = self._counts.setdefault(
                window, {name: np.zeros(size, np.int64) for name, size in self._sizes.items()}
            )
            for name, values in codes.items():
                counts[name] += np.bincount(values, minlength=self._sizes[name])

    def of(self, window: int, column: str) -> I64:
        """True counts in a window, int64[d]; zeros if it has no records."""
        with self._lock:
            counts = self._counts.get(window)
            return np.zeros(self._sizes[column], np.int64) if counts is None else counts[column].copy()

    def forget(self, before: int) -> None:
        """Drop windows that start before so many microseconds."""
        with self._lock:
            self._counts = {window: counts for window, counts in self._counts.items() if window >= before}

    @property
    def last(self) -> int | None:
        """Start of the last window, microseconds."""
        with self._lock:
            return max(self._counts, default=None)


@dataclass(frozen=True)
class _Batch:
    message: Message
    sent: Sent


class Devices:
    """What the devices hold, and the messages they make. Not thread-safe.

    Each device holds one value a column, drawn once with share proportional to 1 / rank in the declared domain. They
    report in turn, round after round.

    Args:
        plan: what a record reveals. Of ``keep``, only the event time, `EVENT_TIME`: kept, it is sent as it is;
            otherwise cut to the start of its window on the device.
        devices: how many there are.
        window: length of the windows in microseconds.
        seed: of the values, not of the noise, which is fresh from the operating system whatever the seed.

    Attributes:
        truth: what they have sent in time.
        max_rows: records that fit into a message.

    Raises:
        PlanError: the plan keeps another column.
        ParameterError: there are no devices.
    """

    def __init__(self, plan: PrivacyPlan, *, devices: int, window: int, seed: int | None = None) -> None:
        others = sorted(set(plan.keep) - {EVENT_TIME})
        if others or EVENT_TIME in plan.columns:
            raise PlanError(
                f"the simulated devices hold the plan's columns and {EVENT_TIME!r}, which may be kept; "
                f"the plan keeps {others or 'it perturbed'}"
            )
        if devices < 1:
            raise ParameterError(f"there must be at least 1 device, got {devices!r}")
        self.truth = Truth(plan)
        self._plan = PrivacyPlan(plan.columns, keep=[EVENT_TIME])
        self._exact_times = EVENT_TIME in plan.keep
        self._window = window
        self._devices = devices
        self._next = 0
        rng = np.random.default_rng(seed)
        self._codes = {name: _zipf(rng, m.domain, devices) for name, m in plan.oracles.items()}
        self._values = {name: _labels(m) for name, m in plan.oracles.items()}
        bytes_a_row = self._reports(np.arange(1024), pa.nulls(1024, _TIME)).nbytes / 1024
        self.max_rows = min(int(_MESSAGE_BYTES / bytes_a_row), MAX_ROWS)

    def report(self, n: int, since: int, until: int, *, bad: int = 0, late: bool = False) -> _Batch:
        """Reports of the next ``n`` devices."""
        bad = min(bad, n)
        who = np.arange(self._next, self._next + n)
        self._next = (self._next + n) % self._devices
        times = np.linspace(since, until, n).astype(np.int64)
        windows = times - times % self._window
        if not late:
            codes = {name: column.take(who, mode="wrap") for name, column in self._codes.items()}
            starts = np.arange(windows[0], windows[-1] + 1, self._window)
            ends = np.searchsorted(windows, starts, side="right").tolist()
            for window, first, last in zip(starts.tolist(), [0, *ends], ends, strict=False):
                usable = slice(max(first, bad), last)
                self.truth.add(window, {name: column[usable] for name, column in codes.items()})
        sent_times = times if self._exact_times else windows
        without = np.arange(n) < bad if bad else None
        reports = self._reports(who, pa.array(sent_times, _TIME, mask=without))
        message = Message(encode(reports, compression="lz4"), {TIMESTAMP_ATTRIBUTE: str(int(sent_times.min()) // 1000)})
        return _Batch(message, Sent(1, n, late=n if late else 0, bad=bad))

    def _reports(self, who: I64, times: pa.Array) -> pa.RecordBatch:
        """What happens on the devices: from here on there is no true value."""
        columns = self._codes.items()
        events = {name: self._values[name].take(pa.array(codes.take(who, mode="wrap"))) for name, codes in columns}
        # bits as bits: packed, they would fill whole words
        return self._plan.perturb(pa.record_batch({**events, EVENT_TIME: times}), packed=False)

    def malformed(self, now: int) -> _Batch:
        """A message that no collector can read."""
        oldest = now - now % self._window
        return _Batch(Message(MALFORMED, {TIMESTAMP_ATTRIBUTE: str(oldest // 1000)}), Sent(1, malformed=1))


@dataclass(frozen=True)
class Pace:
    """Reports a second, None for as fast as they are taken; and how many of them make a message."""

    rate: float | None
    max_rows: int = MAX_ROWS
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 < self.rate < 1e9:
            raise ParameterError(f"rate must be between 0 and 1e9 reports a second, got {self.rate!r}")
        usual = self.max_rows if self.rate is None else max(int(self.rate / _MESSAGES_PER_SECOND), 1)
        object.__setattr__(self, "rows", min(usual, self.max_rows))

    @property
    def interval(self) -> float:
        """Seconds from one message to the next."""
        return 0.0 if self.rate is None else self.rows / self.rate


class Fleet:
    """Lets `Devices` report on a thread of its own until `stop`.

    Args:
        devices: that report.
        send: takes each message; at most 4 are on their way.
        pace: reports a second.
        ahead: seconds by which the devices' clocks are ahead of this machine's. Beam's local runner takes the time of
            its last pull for the watermark, whatever is still queued; so this is how long a message may be on its way.
        faults: what goes wrong.

    What goes wrong on the thread ends it, and is then `error`.
    """

    def __init__(
        self, devices: Devices, send: Send, *, pace: Pace, ahead: float = 2.0, faults: Faults | None = None
    ) -> None:
        self._devices = devices
        self._send = send
        self._pace = pace
        self._ahead = round(ahead * 1e6)
        self._faults = faults or Faults()
        self._stop = threading.Event()
        self._given_up = threading.Event()
        self._closed: int | None = None
        self._owed = dict.fromkeys(("late", "malformed", "bad"), 0.0)
        self._on_their_way: list[tuple[Any, Sent]] = []
        self._sent = Sent()
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    @property
    def sent(self) -> Sent:
        """What has been sent and taken so far."""
        return self._sent

    @property
    def is_running(self) -> bool:
        """False before `start`, after `stop`, and after an error."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self, give_up: Callable[[], bool] = lambda: False) -> Sent:
        """End, wait until all messages have been taken or it is time to give up, and tell what was taken."""
        self._stop.set()
        while self._thread.is_alive():
            self._thread.join(0.1)
            if give_up():
                self._given_up.set()
        return self._sent

    def window_closed(self, start: int) -> None:
        """Tell that the window that starts at ``start`` microseconds has closed: late messages are of such windows."""
        self._closed = start if self._closed is None else max(self._closed, start)

    def _run(self) -> None:
        try:
            self._report()
        except Exception as error:
            self.error = error

    def _report(self) -> None:
        begin = time.monotonic()
        due = 0.0
        before = self._now()
        while not self._stop.wait(max(begin + due - time.monotonic(), 0.0)):
            due = max(due, time.monotonic() - begin - 1.0) + self._pace.interval  # what is missed is not made up for
            now = self._now()
            self._hand_over(self._batch(max(before, now - _LONGEST_SPAN), now))
            before = now
        while self._on_their_way:
            self._await_oldest()

    def _batch(self, since: int, now: int) -> _Batch:
        if self._is_due("malformed"):
            return self._devices.malformed(now)
        if self._closed is not None and self._is_due("late"):
            return self._devices.report(self._pace.rows, self._closed, self._closed, late=True)
        bad = BAD_ROWS if self._is_due("bad") else 0
        return self._devices.report(self._pace.rows, since, now, bad=bad)

    def _is_due(self, fault: str) -> bool:
        """True for that share of the calls, evenly."""
        self._owed[fault] += getattr(self._faults, fault)
        if self._owed[fault] < 1:
            return False
        self._owed[fault] -= 1
        return True

    def _hand_over(self, batch: _Batch) -> None:
        if len(self._on_their_way) == _IN_FLIGHT:
            self._await_oldest()
        self._on_their_way.append((self._send(batch.message), batch.sent))

    def _await_oldest(self) -> None:
        future, sent = self._on_their_way.pop(0)
        while not wait([future], timeout=0.1).done:
            if self._given_up.is_set():
                return
        future.result()
        total = self._sent
        self._sent = replace(
            total, **{name: getattr(total, name) + getattr(sent, name) for name in total.__dataclass_fields__}
        )

    def _now(self) -> int:
        return time.time_ns() // 1000 + self._ahead


def _zipf(rng: np.random.Generator, domain: Domain, n: int) -> npt.NDArray[np.uint32]:
    shares = 1 / np.arange(1, domain.size + 1)
    return rng.choice(domain.size, n, p=shares / shares.sum()).astype(np.uint32)


def _labels(mechanism: Mechanism) -> pa.Array:
    """Values by code, for `take`; of sets those of one item."""
    domain = mechanism.domain
    is_text = domain.kind == "str"
    other = [UNDECLARED if is_text else None] * (domain.size - len(domain.labels))
    labels = pa.array([*domain.labels, *other])
    if isinstance(mechanism.inputs, Sets):
        return pa.ListArray.from_arrays(np.arange(len(labels) + 1, dtype=np.int32), labels)
    return labels.dictionary_encode() if is_text else labels  # which is taken faster
