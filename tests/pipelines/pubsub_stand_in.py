"""A stand-in of the Pub/Sub Subscriber service on loopback, to which the real client talks; its clock is the test's."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import grpc
from google.protobuf import empty_pb2
from google.pubsub_v1 import types

SERVICE = "google.pubsub.v1.Subscriber"
START = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)


class PubSubStandIn:
    """Subscriptions with messages; a message is out on lease from a pull until its deadline."""

    DEADLINE_S = 10

    def __init__(self, *names):
        self.messages = {name: {} for name in names}
        self.leases = {}
        self.fail_with = {}
        self.answers_at_once = False
        self.calls = []
        self._now = START
        self._changed = threading.Condition()
        self._numbers = iter(range(1 << 30))

    def __enter__(self):
        # Daemon threads would outlive the test; the pool ends with the server.
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, self._handlers())])
        self.host = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def __exit__(self, *_):
        with self._changed:
            self._changed.notify_all()
        self._server.stop(0).wait()

    def publish(self, name, *values):
        """Messages, published now."""
        with self._changed:
            for value in values:
                number = str(next(self._numbers))
                message = types.PubsubMessage(data=value, message_id=number, publish_time=self._now)
                self.messages[name][number] = message
            self._changed.notify_all()

    def advance(self, seconds):
        """Time goes by."""
        with self._changed:
            self._now += timedelta(seconds=seconds)
            self._changed.notify_all()

    def waiting(self, name):
        """Data of the messages that are not acknowledged."""
        return [message.data for message in self.messages[name].values()]

    def _handlers(self):
        methods = {
            "GetSubscription": (self._get, types.GetSubscriptionRequest, types.Subscription),
            "ListSubscriptions": (self._list, types.ListSubscriptionsRequest, types.ListSubscriptionsResponse),
            "Pull": (self._pull, types.PullRequest, types.PullResponse),
            "Acknowledge": (self._acknowledge, types.AcknowledgeRequest, None),
            "ModifyAckDeadline": (self._modify, types.ModifyAckDeadlineRequest, None),
        }
        return {name: self._handler(name, *parts) for name, parts in methods.items()}

    def _handler(self, name, answer, request, response):
        def call(given, context):
            self.calls.append(name)
            if name in self.fail_with:
                context.abort(self.fail_with[name], f"{name} fails")
            known = getattr(given, "subscription", "").rsplit("/", 1)[-1]
            if known and known not in self.messages:
                context.abort(grpc.StatusCode.NOT_FOUND, "Resource not found")
            return answer(given, context)

        serialize = response.serialize if response else empty_pb2.Empty.SerializeToString
        return grpc.unary_unary_rpc_method_handler(call, request.deserialize, serialize)

    def _get(self, request, context):
        return types.Subscription(name=request.subscription)

    def _list(self, request, context):
        names = [types.Subscription(name=f"{request.project}/subscriptions/{name}") for name in self.messages]
        return types.ListSubscriptionsResponse(subscriptions=names)

    def _pull(self, request, context):
        name = request.subscription.rsplit("/", 1)[-1]
        with self._changed:
            while context.is_active():
                free = [one for one in self.messages[name] if self.leases.get(one, START) <= self._now]
                if free or self.answers_at_once:
                    break
                self._changed.wait(0.05)
            chosen = free[: request.max_messages]
            self.leases.update(dict.fromkeys(chosen, self._now + timedelta(seconds=self.DEADLINE_S)))
            found = [types.ReceivedMessage(ack_id=f"{name}/{one}", message=self.messages[name][one]) for one in chosen]
            return types.PullResponse(received_messages=found)

    def _acknowledge(self, request, context):
        with self._changed:
            for ack_id in request.ack_ids:
                name, number = ack_id.split("/")
                self.messages[name].pop(number, None)
        return empty_pb2.Empty()

    def _modify(self, request, context):
        with self._changed:
            for ack_id in request.ack_ids:
                self.leases[ack_id.split("/")[1]] = self._now + timedelta(seconds=request.ack_deadline_seconds)
            self._changed.notify_all()
        return empty_pb2.Empty()
