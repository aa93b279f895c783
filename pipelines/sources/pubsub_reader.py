"""Pulling from Pub/Sub: batches are numbered, kept until they are confirmed, and then acknowledged."""

import json
import logging
import secrets
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.blocks import UNORDERED
from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.records import Origin
from pipelines.sources.messages import parse_messages
from pipelines.sources.unbounded import CAUGHT_UP, NOT_KNOWN, Polled

if TYPE_CHECKING:
    from pipelines.sources.pubsub import PubSubSource

LEASE_S = 60
_PULL_MESSAGES = 1000
_ACK_IDS = 1000
_CALL_S = 10.0
_MORE_S = 1.0
_LEAST_S = 0.5  # a message that is on its way to a pull that was given up is held back until its lease ends
_log = logging.getLogger(__name__)


def client_library() -> Any:
    """The Pub/Sub client and its errors, a library that only streams from Pub/Sub need."""
    try:
        import google.cloud.pubsub_v1 as pubsub_v1
        from google.api_core import exceptions
        from google.auth.exceptions import GoogleAuthError
    except ImportError as error:
        raise InvalidSettingError("Pub/Sub needs a client: pip install 'crowdbeam[pubsub]'.") from error
    return SimpleNamespace(client=pubsub_v1.SubscriberClient, errors=exceptions, auth_error=GoogleAuthError)


def open_client() -> Any:
    """A client; raises `InputError` when there are no credentials."""
    library = client_library()
    try:
        return library.client()
    except library.auth_error as error:
        why = " ".join(str(error).split()).rstrip(".")
        advice = "Set GOOGLE_APPLICATION_CREDENTIALS, or PUBSUB_EMULATOR_HOST for an emulator."
        raise InputError(f"Pub/Sub cannot be used: {why}. {advice}") from error


class PubSubReader:
    """One that pulls.

    A position is the number of the last batch, and a mark of the reader that numbered it. A reader that is given
    another position than its last one has been set back: what it pulled since is given back to the service, and it
    counts anew, so that no late word on the old batches is taken for one on the new.
    """

    def __init__(self, source: "PubSubSource") -> None:
        self._source = source
        self._errors = client_library().errors
        self._client = open_client()
        self._lock = threading.Lock()
        self._mark, self._last = "", 0
        self._batches: dict[int, list[str]] = {}
        self._leased: dict[int, float] = {}
        self._away = ""

    def poll(self, position: bytes, max_events: int, timeout_s: float) -> Polled:
        """What the service has; nothing when it is away."""
        self._stand_at(position)
        self._renew()
        received = self._pull(max_events, timeout_s)
        if not received:
            watermark_us = NOT_KNOWN if self._away else CAUGHT_UP
            return Polled((), _packed(self._mark, self._last), watermark_us=watermark_us, away=self._away)
        with self._lock:
            self._last += 1
            self._batches[self._last] = [one.ack_id for one in received]
        self._lease([self._last])
        arrived = [
            one.message.publish_time.seconds * 1_000_000 + one.message.publish_time.nanos // 1000 for one in received
        ]
        origin = Origin(UNORDERED, f"pubsub://{self._source.project}/{self._source.subscription}")
        parsed = parse_messages(
            [one.message.data for one in received],
            np.arange(len(received)),
            np.array(arrived, np.int64),
            origin,
            self._source.events,
        )
        more = len(received) >= min(max_events, _PULL_MESSAGES)
        times = None if parsed.block is None else parsed.block.time
        return Polled(
            () if parsed.block is None else (parsed.block,),
            _packed(self._mark, self._last),
            () if parsed.rejects is None else (parsed.rejects,),
            parsed.counts,
            more,
            watermark_us=CAUGHT_UP if not more else int(max(arrived) if times is None else times.max()),
        )

    def confirm(self, position: bytes) -> None:
        """Acknowledges the batches up to `position`; what fails is tried again with the next."""
        mark, last = _unpacked(position)
        with self._lock:
            safe = [number for number in self._batches if mark == self._mark and number <= last]
            ids = [one for number in safe for one in self._batches[number]]
        try:
            for at in range(0, len(ids), _ACK_IDS):
                some = ids[at : at + _ACK_IDS]
                self._client.acknowledge(subscription=self._source.name, ack_ids=some, timeout=_CALL_S, retry=None)
        except (self._errors.GoogleAPICallError, self._errors.RetryError, ValueError) as error:
            _log.debug("messages not acknowledged yet: %s", error)
            return
        with self._lock:
            for number in safe:
                self._batches.pop(number, None)
                self._leased.pop(number, None)

    def close(self) -> None:
        """Lets go of the connection; what was not acknowledged comes again when its lease ends."""
        self._client.close()

    def _stand_at(self, position: bytes) -> None:
        mark, last = _unpacked(position)
        if self._mark and (mark, last) == (self._mark, self._last):
            return
        with self._lock:
            safe = {number for number in self._batches if mark == self._mark and number <= last}
            kept = [one for number in safe for one in self._batches[number]]
            stale = [one for number, ids in self._batches.items() if number not in safe for one in ids]
            self._mark, self._last = secrets.token_hex(4), 0
            self._batches, self._leased = ({0: kept} if kept else {}), {}
        self._set_deadline(stale, 0)

    def _pull(self, max_events: int, timeout_s: float) -> list[Any]:
        """The messages of one request, and of more while they come in full."""
        received: list[Any] = []
        wait_s = timeout_s
        while len(received) < max_events:
            wanted = min(max_events - len(received), _PULL_MESSAGES)
            found = self._request(wanted, wait_s)
            received += found
            wait_s = min(timeout_s, _MORE_S)
            if len(found) < wanted:
                break
        return received

    def _request(self, wanted: int, wait_s: float) -> list[Any]:
        errors = self._errors
        try:
            response = self._client.pull(
                subscription=self._source.name, max_messages=wanted, timeout=max(wait_s, _LEAST_S), retry=None
            )
        except errors.DeadlineExceeded:  # how the service says that nothing waits
            self._away = ""
            return []
        except (errors.NotFound, errors.Forbidden, errors.Unauthorized, errors.BadRequest) as error:
            raise RunError(f"Pub/Sub no longer gives {self._source.name}: {error.message}") from error
        except (errors.GoogleAPICallError, errors.RetryError) as error:
            sentence = f"Pub/Sub at {self._client.transport.host} is away: {error.message}"
            if not self._away:
                _log.warning("%s; waiting for it", sentence)
            self._away = sentence
            return []
        self._away = ""
        return list(type(response).pb(response).received_messages)

    def _renew(self) -> None:
        """Lengthens the leases of batches that wait to be confirmed."""
        due = time.monotonic() - LEASE_S / 2
        with self._lock:
            numbers = [number for number in self._batches if self._leased.get(number, due) <= due]
        self._lease(numbers)

    def _lease(self, numbers: list[int]) -> None:
        with self._lock:
            ids = [one for number in numbers for one in self._batches.get(number, ())]
            self._leased.update(dict.fromkeys(numbers, time.monotonic()))
        self._set_deadline(ids, LEASE_S)

    def _set_deadline(self, ids: list[str], seconds: int) -> None:
        try:
            for at in range(0, len(ids), _ACK_IDS):
                some = ids[at : at + _ACK_IDS]
                self._client.modify_ack_deadline(
                    subscription=self._source.name,
                    ack_ids=some,
                    ack_deadline_seconds=seconds,
                    timeout=_CALL_S,
                    retry=None,
                )
        except (self._errors.GoogleAPICallError, self._errors.RetryError) as error:
            _log.debug("lease not changed: %s", error)


def _packed(mark: str, last: int) -> bytes:
    return json.dumps({"reader": mark, "batch": last}).encode()


def _unpacked(position: bytes) -> tuple[str, int]:
    told = json.loads(position or b"{}")
    return str(told.get("reader", "")), int(told.get("batch", 0))
