"""Subjects: what a schema's subject of one cluster is called on another.

A subject that follows a topic is the stream's name by the cluster's subject format, then `-` and a suffix: `key`
or `value`, or a record's name (Confluent's TopicNameStrategy and TopicRecordNameStrategy). Formats leave parts
out, so the way back is a look-up among the streams that are deployed, never parsing: the longest name that a
subject begins with is meant. A suffix without `-` leaves one name only, and no two streams share a name on a
cluster (`formats.py`).

A subject that begins with no stream's name is one by record name, or a stranger's, and is called the same
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from backend.domain.formats import technical_name
from backend.domain.names import StreamName

_SEPARATOR = "-"


class Translation:
    """From one cluster's subject format into another's."""

    def __init__(self, source_format: str, target_format: str, streams: Iterable[StreamName]) -> None:
        self._names = {
            technical_name(source_format, stream): technical_name(target_format, stream) for stream in streams
        }

    def translate(self, subject: str) -> str:
        """The subject on the target."""
        name = self._name(subject)
        return subject if name is None else self._names[name] + subject[len(name) :]

    def follows_topic(self, subject: str) -> bool:
        """Whether it is a deployed stream's; what is not passes through unchanged."""
        return self._name(subject) is not None

    def _name(self, subject: str) -> str | None:
        end = subject.rfind(_SEPARATOR)
        while end > 0:
            if subject[:end] in self._names:
                return subject[:end]
            end = subject.rfind(_SEPARATOR, 0, end)
        return None
