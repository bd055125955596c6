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

from collections.abc import Iterable, Mapping

from backend.domain.formats import technical_name
from backend.domain.names import StreamName

_SEPARATOR = "-"


class Translation:
    """From one cluster's subject format into another's."""

    def __init__(
        self, source_format: str, target_format: str, streams: Iterable[StreamName], *, record_names: bool = True
    ) -> None:
        """`record_names`: whether subjects of no stream are wanted on the target."""
        self._record_names = record_names
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

    def carries(self, subject: str) -> bool:
        """Whether the target is to have the subject."""
        return self._record_names or self.follows_topic(subject)

    def _name(self, subject: str) -> str | None:
        return _longest(subject, self._names)


class SubjectOwners:
    """Whose the subjects of one cluster are: those of the streams there, and of streams that were there."""

    def __init__(self, present: Mapping[str, StreamName], former: Mapping[str, StreamName]) -> None:
        """Names of streams by the cluster's subject format, now and in former times. A stream that is there goes
        before one that was: a name that is given again is the new one's."""
        self._present, self._former = present, former

    def stream_of(self, subject: str) -> StreamName | None:
        """The stream that a subject follows; None for one by record name, or a stranger's."""
        for names in (self._present, self._former):
            found = _longest(subject, names)
            if found is not None:
                return names[found]
        return None


def _longest(subject: str, names: Mapping[str, object]) -> str | None:
    end = subject.rfind(_SEPARATOR)
    while end > 0:
        if subject[:end] in names:
            return subject[:end]
        end = subject.rfind(_SEPARATOR, 0, end)
    return None
