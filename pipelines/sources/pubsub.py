"""Pub/Sub: messages are pulled in batches, and acknowledged when the stream says that a batch is safe.

A message that is not acknowledged comes again: after a crash, or when a batch takes longer than its lease. Events are
idempotent, so that does no harm. Messages have no order, and no place that could be named.
"""

import difflib
import re
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import InputError, InvalidSettingError
from pipelines.events import EventSettings
from pipelines.sources.pubsub_reader import PubSubReader, client_library, open_client
from pipelines.sources.unbounded import refuse_readers

_CHECK_S = 10.0
_URL = re.compile(r"pubsub://([^/@]+)/([^/@]+)")


@dataclass(frozen=True)
class PubSubSource:
    """A subscription of label events; PUBSUB_EMULATOR_HOST is honoured.

    Attributes:
        project: of Google Cloud.
        subscription: its name in the project.
        events: what the messages look like.
        readers: how many readers pull; the service shares messages out among them.
    """

    project: str
    subscription: str
    events: EventSettings = field(default_factory=EventSettings)
    readers: int = 1

    def __post_init__(self) -> None:
        refuse_readers(self.readers)

    @property
    def n_readers(self) -> int:
        """How many readers pull."""
        return self.readers

    @property
    def name(self) -> str:
        """What the service calls the subscription."""
        return f"projects/{self.project}/subscriptions/{self.subscription}"

    def reader(self, number: int) -> PubSubReader:
        """Reader `number`; all do the same."""
        return PubSubReader(self)

    def check(self) -> None:
        """Raises `InputError` when the service does not answer within ten seconds or has no such subscription."""
        errors = client_library().errors
        client = open_client()
        try:
            client.get_subscription(subscription=self.name, timeout=_CHECK_S, retry=None)
        except errors.PermissionDenied:
            return  # one may pull without being allowed to look
        except errors.NotFound as error:
            raise InputError(self._no_such_subscription(client)) from error
        except (errors.GoogleAPICallError, errors.RetryError) as error:
            host = client.transport.host
            raise InputError(f"Pub/Sub at {host} does not answer: {_message_of(error)}. Check the network.") from error
        finally:
            client.close()

    def _no_such_subscription(self, client: Any) -> str:
        errors = client_library().errors
        sentence = f"Pub/Sub at {client.transport.host} has no subscription {self.subscription!r} in {self.project!r}"
        try:
            found = client.list_subscriptions(project=f"projects/{self.project}", timeout=_CHECK_S, retry=None)
            names = [one.name.rsplit("/", 1)[-1] for one in found]
        except (errors.GoogleAPICallError, errors.RetryError):
            names = []
        near = difflib.get_close_matches(self.subscription, names, 3, 0.6)
        return f"{sentence}; did you mean {' or '.join(map(repr, near))}?" if near else f"{sentence}. Create it."


def _message_of(error: Any) -> str:
    return " ".join(str(error.message).split()).rstrip(".")


def pubsub_source_of(url: str, events: EventSettings | None = None, *, readers: int = 1) -> PubSubSource:
    """The source of a URL such as pubsub://PROJECT/SUBSCRIPTION.

    >>> pubsub_source_of("pubsub://my-project/labels").name
    'projects/my-project/subscriptions/labels'
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise InvalidSettingError(f"{url!r} is no Pub/Sub URL; write pubsub://PROJECT/SUBSCRIPTION.")
    return PubSubSource(found[1], found[2], events or EventSettings(), readers)
