"""The source of a stream, from the text a user gives."""

import re
from typing import TYPE_CHECKING

from pipelines.addresses import FILE_SCHEMES, meant
from pipelines.errors import InvalidSettingError
from pipelines.sources.unbounded import Source

if TYPE_CHECKING:
    from pipelines.streaming.settings import StreamSettings

_FORMS = {"kafka": "kafka://HOST:PORT/TOPIC", "pubsub": "pubsub://PROJECT/SUBSCRIPTION"}


def source_of(settings: "StreamSettings") -> Source:
    """The source that the settings name; raises `InvalidSettingError` when they name none."""
    text = settings.source
    begins = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    scheme = begins[1].lower() if begins else "file"
    if not text.strip():
        raise InvalidSettingError(f"--source is empty; give {', '.join(_FORMS.values())} or a folder.")
    if scheme == "kafka":
        from pipelines.sources.kafka import kafka_source_of

        return kafka_source_of(
            text,
            settings.events,
            group=settings.group,
            start=settings.start_from,
            readers=settings.readers,
            properties=settings.properties,
        )
    if scheme == "pubsub":
        from pipelines.sources.pubsub import pubsub_source_of

        return pubsub_source_of(text, settings.events, readers=settings.readers)
    if scheme in FILE_SCHEMES:
        from pipelines.sources.folder import FolderSource

        return FolderSource(text.removeprefix("file://"), settings.events, settings.readers)
    hint = meant(scheme, _FORMS, "Give kafka://, pubsub:// or a folder.")
    raise InvalidSettingError(f"--source begins with {scheme}://, which is not known. {hint}")
