"""Google Cloud Pub/Sub in this process: the part of its gRPC API that publishers and ``ReadFromPubSub`` speak.

For a pipeline on a laptop and for tests: clients find it through ``PUBSUB_EMULATOR_HOST``, as they find Google's own
emulator. Delivery is at least once: a message that is not acknowledged within its subscription's deadline, or that
is given back (a deadline of 0), is delivered again. A subscription's backlog is bounded, and publishers wait.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ldp_core import InputError, ParameterError
from ldp_core.extras import import_extra

EMULATOR_HOST = "PUBSUB_EMULATOR_HOST"
MAX_MESSAGE_BYTES = 4_000_000
"""Of one message. The real service takes 10 MB, but through ``PUBSUB_EMULATOR_HOST`` Google's clients have gRPC's limit
of 4 MiB a response, so that a larger message could be published and never pulled."""

_WORKERS = 16
_MAX_WAITING = _WORKERS // 2  # publishers that wait for room; the other threads remain for subscribers


class RpcError(Exception):
    """What a call answers instead of a response: a gRPC status code by name, and a sentence."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details


@dataclass
class _Subscription:
    topic: str
    ack_deadline: float
    queue: deque[Any] = field(default_factory=deque)
    outstanding: dict[str, tuple[Any, float]] = field(default_factory=dict)

    @property
    def backlog(self) -> int:
        """Messages that are not acknowledged."""
        return len(self.queue) + len(self.outstanding)

    def give_back(self, ack_id: str) -> None:
        """Queue an outstanding message again, before the others: it is older."""
        message, _ = self.outstanding.pop(ack_id)
        self.queue.appendleft(message)

    def expire(self, now: float) -> None:
        """Give back what is past its deadline."""
        for ack_id in [a for a, (_, deadline) in self.outstanding.items() if deadline <= now]:
            self.give_back(ack_id)


class PubSub:
    """Topics and subscriptions; a method for each call of the API. Thread-safe, and knows nothing of the network.

    Args:
        capacity: messages in a subscription's backlog, above which publishers wait.
        publish_wait: seconds after which a waiting publisher is told RESOURCE_EXHAUSTED, on which clients retry.
        pull_wait: seconds that a pull waits for a first message before it returns none.
        clock: of the ack deadlines, in seconds.

    Raises:
        MissingExtraError: the package ``google-cloud-pubsub`` is absent.
        ParameterError: no capacity.
    """

    def __init__(
        self,
        *,
        capacity: int = 8,
        publish_wait: float = 5.0,
        pull_wait: float = 0.05,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if capacity < 1:
            raise ParameterError(f"capacity must be at least 1 message, got {capacity!r}")
        self.types = google_types()
        self._capacity = capacity
        self._publish_wait = publish_wait
        self._pull_wait = pull_wait
        self._clock = clock
        self._changed = threading.Condition()
        self._topics: set[str] = set()
        self._subscriptions: dict[str, _Subscription] = {}
        self._ids = itertools.count(1)
        self._waiting = 0
        self._pulls = 0

    def backlog(self, subscription: str) -> int:
        """Messages that the subscription has not acknowledged."""
        with self._changed:
            return self._subscription(subscription).backlog

    def wait_for_pulls(self, pulls: int, timeout: float) -> bool:
        """Wait until subscribers have asked so many times in all; False if they did not within ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._pulls >= pulls, timeout)

    def create_topic(self, request: Any) -> Any:
        """``CreateTopic``."""
        with self._changed:
            if request.name in self._topics:
                raise RpcError("ALREADY_EXISTS", "the topic exists")
            self._topics.add(request.name)
        return request

    def create_subscription(self, request: Any) -> Any:
        """``CreateSubscription``; an ack deadline of 0 stands for 10 seconds."""
        with self._changed:
            if request.name in self._subscriptions:
                raise RpcError("ALREADY_EXISTS", "the subscription exists")
            self._check_topic(request.topic)
            request.ack_deadline_seconds = request.ack_deadline_seconds or 10
            self._subscriptions[request.name] = _Subscription(request.topic, request.ack_deadline_seconds)
        return request

    def delete_subscription(self, request: Any) -> Any:
        """``DeleteSubscription``, with its backlog."""
        with self._changed:
            self._subscription(request.subscription)
            del self._subscriptions[request.subscription]
            self._changed.notify_all()
        return self.types["Empty"]()

    def publish(self, request: Any, is_wanted: Callable[[], bool] = lambda: True) -> Any:
        """``Publish``: to all subscriptions of the topic; waits until each has room."""
        if not request.messages:
            raise RpcError("INVALID_ARGUMENT", "there are no messages")
        for message in request.messages:
            if not (message.data or message.attributes):
                raise RpcError("INVALID_ARGUMENT", "a message needs data or attributes")
            if message.ByteSize() > MAX_MESSAGE_BYTES:
                raise RpcError("INVALID_ARGUMENT", f"a message may have at most {MAX_MESSAGE_BYTES:,} bytes")
        with self._changed:
            self._check_topic(request.topic)
            self._wait_for_room(request.topic)
            if not is_wanted():
                raise RpcError("CANCELLED", "the caller has gone")
            response = self.types["PublishResponse"]()
            for message in request.messages:
                message.message_id = str(next(self._ids))
                message.publish_time.GetCurrentTime()
                response.message_ids.append(message.message_id)
                self._accept(request.topic, message)
            self._changed.notify_all()
        return response

    def _accept(self, topic: str, message: Any) -> None:
        for subscription in self._of_topic(topic):
            subscription.queue.append(message)

    def _wait_for_room(self, topic: str) -> None:
        if self._has_room(topic):
            return
        self._waiting += 1
        try:
            room = self._waiting <= _MAX_WAITING and self._changed.wait_for(
                lambda: self._has_room(topic), self._publish_wait
            )
        finally:
            self._waiting -= 1
        if not room:
            raise RpcError("RESOURCE_EXHAUSTED", "a subscription's backlog is full: try again later")

    def _has_room(self, topic: str) -> bool:
        return all(subscription.backlog < self._capacity for subscription in self._of_topic(topic))

    def pull(self, request: Any) -> Any:
        """``Pull``: at most ``max_messages`` and `MAX_MESSAGE_BYTES`; none if none arrives within ``pull_wait``."""
        if request.max_messages < 1:
            raise RpcError("INVALID_ARGUMENT", "max_messages must be at least 1")
        response = self.types["PullResponse"]()
        with self._changed:
            subscription = self._subscription(request.subscription)
            self._pulls += 1
            self._changed.notify_all()
            subscription.expire(self._clock())
            if not subscription.queue:
                self._changed.wait_for(lambda: bool(subscription.queue), self._pull_wait)
            deadline = self._clock() + subscription.ack_deadline
            size = 0
            while subscription.queue and len(response.received_messages) < request.max_messages:
                size += subscription.queue[0].ByteSize()
                if size > MAX_MESSAGE_BYTES and response.received_messages:
                    break
                message = subscription.queue.popleft()
                ack_id = f"{message.message_id}-{next(self._ids)}"
                subscription.outstanding[ack_id] = message, deadline
                response.received_messages.add(ack_id=ack_id, message=message)
        return response

    def acknowledge(self, request: Any) -> Any:
        """``Acknowledge``; ids past their deadline are ignored, and their messages come again."""
        with self._changed:
            subscription = self._subscription(request.subscription)
            subscription.expire(self._clock())
            for ack_id in request.ack_ids:
                subscription.outstanding.pop(ack_id, None)
            self._changed.notify_all()
        return self.types["Empty"]()

    def modify_ack_deadline(self, request: Any) -> Any:
        """``ModifyAckDeadline``: so many seconds from now; 0 gives the message back at once."""
        with self._changed:
            subscription = self._subscription(request.subscription)
            now = self._clock()
            subscription.expire(now)
            for ack_id in request.ack_ids:
                if ack_id not in subscription.outstanding:
                    continue
                if request.ack_deadline_seconds == 0:
                    subscription.give_back(ack_id)
                else:
                    message, _ = subscription.outstanding[ack_id]
                    subscription.outstanding[ack_id] = message, now + request.ack_deadline_seconds
            self._changed.notify_all()
        return self.types["Empty"]()

    def _of_topic(self, topic: str) -> list[_Subscription]:
        return [s for s in self._subscriptions.values() if s.topic == topic]

    def _check_topic(self, name: str) -> None:
        if name not in self._topics:
            raise RpcError("NOT_FOUND", "there is no such topic")

    def _subscription(self, name: str) -> _Subscription:
        if name not in self._subscriptions:
            raise RpcError("NOT_FOUND", "there is no such subscription")
        return self._subscriptions[name]


class PubSubServer:
    """Serves a `PubSub` on a free port of this machine for a ``with`` block; clients find it by environment."""

    def __init__(self, service: PubSub) -> None:
        self.service = service
        self.address = ""

    def __enter__(self) -> PubSubServer:
        grpc: Any = import_extra("grpc", "gcp")
        unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        # a second server on the port would get a share of the messages
        options = [*unlimited, ("grpc.so_reuseport", 0)]
        self._threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="pubsub")
        self._server = grpc.server(self._threads, options=options)
        for name, methods in _api(self.service).items():
            handlers = {method: _handler(grpc, call, kind) for method, (call, kind) in methods.items()}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        try:
            port = self._server.add_insecure_port("127.0.0.1:0")
        except RuntimeError:
            raise InputError("cannot open a port on 127.0.0.1 for the local Pub/Sub server") from None
        self._server.start()
        self.address = f"127.0.0.1:{port}"
        self._before = os.environ.get(EMULATOR_HOST)
        os.environ[EMULATOR_HOST] = self.address
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._before is None:
            os.environ.pop(EMULATOR_HOST, None)
        else:
            os.environ[EMULATOR_HOST] = self._before
        self._server.stop(grace=1.0).wait()
        self._threads.shutdown()


def google_types() -> dict[str, Any]:
    """The API's plain protobuf classes by name."""
    types: Any = import_extra("google.pubsub_v1.types", "gcp")
    empty: Any = import_extra("google.protobuf.empty_pb2", "gcp")
    names = (
        "Topic", "Subscription", "PublishRequest", "PublishResponse", "PullRequest", "PullResponse",
        "AcknowledgeRequest", "ModifyAckDeadlineRequest", "DeleteSubscriptionRequest",
    )  # fmt: skip
    # without the wrappers of proto-plus, which copy
    return {"Empty": empty.Empty, **{name: getattr(types, name).pb() for name in names}}


def _api(service: PubSub) -> dict[str, dict[str, tuple[Callable[..., Any], Any]]]:
    """Service -> method -> what answers it, and the class of its request."""
    types = service.types
    return {
        "google.pubsub.v1.Publisher": {
            "CreateTopic": (service.create_topic, types["Topic"]),
            "Publish": (service.publish, types["PublishRequest"]),
        },
        "google.pubsub.v1.Subscriber": {
            "CreateSubscription": (service.create_subscription, types["Subscription"]),
            "DeleteSubscription": (service.delete_subscription, types["DeleteSubscriptionRequest"]),
            "Pull": (service.pull, types["PullRequest"]),
            "Acknowledge": (service.acknowledge, types["AcknowledgeRequest"]),
            "ModifyAckDeadline": (service.modify_ack_deadline, types["ModifyAckDeadlineRequest"]),
        },
    }


def _handler(grpc: Any, call: Callable[..., Any], kind: Any) -> Any:
    takes_context = call.__name__ == "publish"

    def answer(request: Any, context: Any) -> Any:
        try:
            return call(request, context.is_active) if takes_context else call(request)
        except RpcError as error:
            context.abort(grpc.StatusCode[error.code], error.details)

    return grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=kind.FromString, response_serializer=lambda message: message.SerializeToString()
    )
