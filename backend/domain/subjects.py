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


class Subjects:
    """Which streams the subjects of one cluster follow."""

    def __init__(self, subject_format: str, streams: Iterable[StreamName]) -> None:
        self._streams = {technical_name(subject_format, stream): stream for stream in streams}

    def stream_of(self, subject: str) -> StreamName | None:
        """The deployed stream whose subject it is; None for one by record name, and for a stranger's."""
        found = self.parts(subject)
        return None if found is None else found[0]

    def parts(self, subject: str) -> tuple[StreamName, str] | None:
        """The stream and what stands behind its name, with the separator."""
        end = subject.rfind(_SEPARATOR)
        while end > 0:
            stream = self._streams.get(subject[:end])
            if stream is not None:
                return stream, subject[end:]
            end = subject.rfind(_SEPARATOR, 0, end)
        return None


class Translation:
    """From one cluster's subject format into another's."""

    def __init__(self, source_format: str, target_format: str, streams: Iterable[StreamName]) -> None:
        deployed = tuple(streams)
        self._source = Subjects(source_format, deployed)
        self._targets = {stream: technical_name(target_format, stream) for stream in deployed}

    def translate(self, subject: str) -> str:
        """The subject on the target."""
        found = self._source.parts(subject)
        return subject if found is None else self._targets[found[0]] + found[1]

    def follows_topic(self, subject: str) -> bool:
        """Whether it is a deployed stream's; what is not passes through unchanged."""
        return self._source.parts(subject) is not None
