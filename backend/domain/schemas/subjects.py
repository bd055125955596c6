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

from backend.domain.names.formats import technical_name
from backend.domain.names.names import StreamName

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
        name = _longest(subject, self._streams)
        return None if name is None else (self._streams[name], subject[len(name) :])


class Translation:
    """From one cluster's subject format into another's."""

    def __init__(
        self, source_format: str, target_format: str, streams: Iterable[StreamName], *, record_names: bool = True
    ) -> None:
        """`record_names`: whether subjects of no stream are wanted on the target."""
        deployed = tuple(streams)
        self._record_names = record_names
        self._source = Subjects(source_format, deployed)
        self._target = Subjects(target_format, deployed)
        self._targets = {stream: technical_name(target_format, stream) for stream in deployed}

    def translate(self, subject: str) -> str:
        """The subject on the target."""
        found = self._source.parts(subject)
        return subject if found is None else self._targets[found[0]] + found[1]

    def follows_topic(self, subject: str) -> bool:
        """Whether it is a deployed stream's; what is not passes through unchanged."""
        return self._source.parts(subject) is not None

    def fits(self, subject: str) -> bool:
        """Whether it follows the same on the target: its name there may begin with another stream's."""
        return self._target.stream_of(self.translate(subject)) == self._source.stream_of(subject)

    def carries(self, subject: str) -> bool:
        """Whether the target is to have the subject."""
        return self._record_names or self.follows_topic(subject)


class SubjectOwners:
    """Whose the subjects of one cluster are: those of the streams there, and of streams that were there."""

    def __init__(
        self,
        present: Mapping[str, StreamName],
        former: Mapping[str, StreamName],
        elsewhere: Mapping[str, StreamName] | None = None,
    ) -> None:
        """Names of streams by the cluster's subject format, now and in former times. A stream that is there goes
        before one that was: a name that is given again is the new one's. `elsewhere`: names on other clusters."""
        self._present, self._former, self._elsewhere = present, former, elsewhere or {}

    def stream_of(self, subject: str) -> StreamName | None:
        """The stream that a subject follows; None for one by record name, or a stranger's."""
        return _first(subject, (self._present, self._former))

    def kept_for(self, subject: str) -> StreamName | None:
        """Of a subject that follows no stream here: the stream that it would follow on another cluster, where it
        has the same name. None for one that is by record name everywhere."""
        return _first(subject, (self._elsewhere,))


def _first(subject: str, known: Iterable[Mapping[str, StreamName]]) -> StreamName | None:
    for names in known:
        found = _longest(subject, names)
        if found is not None:
            return names[found]
    return None


def _longest(subject: str, names: Mapping[str, StreamName]) -> str | None:
    """The longest of the names that the subject begins with, and behind which something stands."""
    end = subject.rfind(_SEPARATOR)
    while end > 0:
        if subject[:end] in names:
            return subject[:end]
        end = subject.rfind(_SEPARATOR, 0, end)
    return None
