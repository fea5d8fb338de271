"""A simulated fleet: what its reports hold, what is true of them, and its account of what it sends."""

import threading
from concurrent.futures import Future

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub: pip install 'ldp-telemetry[gcp]'")

from ldp_beam.io import decode
from ldp_core import Domain, PrivacyPlan, PrivSet, RandomizedResponse, UnaryEncoding
from tests.bed import fleet as fleet_module
from tests.bed.fleet import BAD_ROWS, EVENT_TIME, Devices, Faults, Fleet, Pace, Sent

SECRET = "s3cr3t-value"
SECOND = 1_000_000
START = 1_800_000_000 * SECOND
LABELS = ["ios", "android", "web"]


def plan(epsilon: float, keep: tuple[str, ...] = ()) -> PrivacyPlan:
    return PrivacyPlan(
        {
            "os": RandomizedResponse(Domain(LABELS, unmatched="other"), epsilon=epsilon),
            "app": UnaryEncoding(Domain(LABELS, unmatched="other"), epsilon=epsilon),
            "size": RandomizedResponse(Domain(range(3), unmatched="other"), epsilon=epsilon),
            "dark": RandomizedResponse(epsilon=epsilon),
        },
        keep=keep,
    )


SURE = plan(120.0)  # reports the truth, but with probability below 1e-15 (OUE: each true bit with probability 1/2)


def devices(made_with: PrivacyPlan, n: int = 1000, seed: int = 1) -> Devices:
    return Devices(made_with, devices=n, window=SECOND, seed=seed)


def test_reports_hold_no_value_that_only_the_device_knows(monkeypatch):
    monkeypatch.setattr(fleet_module, "UNDECLARED", SECRET)
    made = devices(plan(1.0))
    assert SECRET in made._values["os"].to_pylist()  # some device has it
    assert made.report(1000, START, START).sent.records == 1000
    assert made.truth.of(START, "os")[3] > 0
    for _ in range(20):
        data = made.report(1000, START, START).message.data
        batch = decode(data)  # compressed: look into the bytes of the decoded columns as well
        columns = [b.to_pybytes() for c in batch.columns for b in c.buffers() if b is not None]
        dictionaries = [c.dictionary.to_pylist() for c in batch.columns if pa.types.is_dictionary(c.type)]
        assert not any(SECRET.encode() in text for text in [data, *columns, batch.schema.serialize().to_pybytes()])
        assert not any(SECRET in values for values in dictionaries)
        assert batch.schema.names == ["os", "app", "size", "dark", EVENT_TIME]


def test_devices_of_sets_hold_one_item_each():
    """`ldp live` refused plans of sets, in the words of the core."""
    m = PrivSet(LABELS, epsilon=60.0, most=2)
    made = devices(PrivacyPlan({"boxes": m}))
    reports = decode(made.report(1000, START, START).message.data)["boxes"]
    np.testing.assert_allclose(m.estimate(m.tally(reports)).counts, made.truth.of(START, "boxes"), atol=300)


def test_the_truth_is_what_was_sent_in_time_and_usable():
    made = devices(SURE, n=70)
    batches = [
        made.report(50, START, START + 3 * SECOND),  # over windows
        made.report(50, START, START, bad=7),  # over the last device
        made.report(50, START + SECOND, START + SECOND, late=True),
        made.report(3, START, START, bad=BAD_ROWS),  # fewer than would be bad
        made.malformed(START),
    ]
    counted: dict[int, dict[str, np.ndarray]] = {}
    for k, batch in enumerate(batches[:-1]):
        reports = decode(batch.message.data)
        times = reports.column(EVENT_TIME).cast(pa.int64()).to_pylist()
        assert sum(t is None for t in times) == batch.sent.bad == [0, 7, 0, 3][k]
        for column in ("os", "size", "dark"):
            domain = SURE[column].domain
            for time, code in zip(times, domain.lookup(reports.column(column)).tolist(), strict=True):
                if time is not None and not batch.sent.late:
                    zeros = np.zeros(domain.size, int)
                    counted.setdefault(time, {}).setdefault(column, zeros)[code] += 1
    assert set(counted) == {START + k * SECOND for k in range(4)}
    for window, columns in counted.items():
        for column, counts in columns.items():
            np.testing.assert_array_equal(made.truth.of(window, column), counts)
        assert made.truth.of(window, "app").sum() == columns["os"].sum()
    assert [b.sent.late for b in batches] == [0, 0, 50, 0, 0]
    assert [b.sent.total for b in batches] == [50, 50, 50, 3, 1]
    assert made.truth.last == START + 3 * SECOND
    made.truth.forget(before=START + SECOND)
    assert made.truth.of(START, "os").sum() == 0
    assert made.truth.of(START + SECOND, "os").sum() > 0


class Post:
    """Takes messages at once, and tells when there are ``enough``."""

    def __init__(self, enough: int) -> None:
        self.messages: list = []
        self.enough = enough
        self.there = threading.Event()

    def __call__(self, message) -> Future:
        future: Future = Future()
        future.set_result("id")
        self.messages.append(message)
        if len(self.messages) >= self.enough:
            self.there.set()
        return future


@pytest.mark.parametrize("closed", [None, START])
def test_a_fleet_accounts_for_what_it_sends(closed):
    post, rows = Post(60), 2000
    fleet = Fleet(
        devices(SURE), post, pace=Pace(None, rows), ahead=5.0, faults=Faults(late=0.1, malformed=0.1, bad=0.2)
    )
    if closed is not None:
        fleet.window_closed(closed)
        fleet.window_closed(closed - SECOND)
    fleet.start()
    assert post.there.wait(60)
    sent = fleet.stop()
    assert not fleet.is_running
    assert fleet.error is None
    readable = [decode(m.data) for m in post.messages if m.data != fleet_module.MALFORMED]
    assert sent.messages == len(post.messages) >= 60
    assert sent.malformed == len(post.messages) - len(readable) >= 5
    assert sent.records == sum(b.num_rows for b in readable) == rows * len(readable)
    assert sent.bad == sum(b.column(EVENT_TIME).null_count for b in readable) > 0
    of_closed = [b for b in readable if b.column(EVENT_TIME).cast(pa.int64()).to_pylist()[-1] == START]
    assert sent.late == sum(b.num_rows for b in of_closed)
    assert (sent.late > 0) == (closed is not None)  # before a window has closed nothing can be late


def test_a_fleet_stops_on_an_error_and_does_not_wait_for_what_never_comes():
    broken: Future = Future()
    broken.set_exception(OSError("gone"))
    fleet = Fleet(devices(SURE), lambda message: broken, pace=Pace(100_000.0))
    fleet.start()
    fleet._thread.join(60)
    assert isinstance(fleet.error, OSError)
    assert fleet.sent == Sent()
    stuck = Fleet(devices(SURE), lambda message: Future(), pace=Pace(1e6))
    stuck.start()
    assert stuck.stop(give_up=lambda: True) == Sent()
    assert stuck.error is None
