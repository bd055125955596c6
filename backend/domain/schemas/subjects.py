"""Subjects: the translation of a subject's name from one cluster to another.

A subject that follows a topic is the stream's name by the cluster's subject format, then `-` and a suffix: `key`
or `value`, or a record's name (Confluent's TopicNameStrategy and TopicRecordNameStrategy). Formats leave parts
out, so the way back is a look-up among the deployed streams, never parsing: the longest name that is a prefix of
the subject counts. A suffix without `-` leaves only one such name, and no two streams share a name on a cluster
(`formats.py`).

A subject that begins with no stream's name is by record name (RecordNameStrategy) or foreign, and has the same
name on every cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backend.domain.names.formats import technical_name
from backend.domain.names.names import StreamName

_SEPARATOR = "-"


class Subjects:
    """The streams that the subjects of one cluster follow."""

    def __init__(self, subject_format: str, streams: Iterable[StreamName]) -> None:
        self._streams = {technical_name(subject_format, stream): stream for stream in streams}

    def stream_of(self, subject: str) -> StreamName | None:
        """Return the deployed stream of a subject; None for a subject by record name or a foreign one."""
        found = self.parts(subject)
        return None if found is None else found[0]

    def parts(self, subject: str) -> tuple[StreamName, str] | None:
        """Return the stream, and the rest of the subject after its name, including the separator."""
        name = _longest(subject, self._streams)
        return None if name is None else (self._streams[name], subject[len(name) :])


class Translation:
    """Translation of subjects from one cluster's subject format to another's."""

    def __init__(
        self, source_format: str, target_format: str, streams: Iterable[StreamName], *, record_names: bool = True
    ) -> None:
        """Build the translation. `record_names`: whether the target gets subjects that follow no stream."""
        deployed = tuple(streams)
        self._record_names = record_names
        self._source = Subjects(source_format, deployed)
        self._target = Subjects(target_format, deployed)
        self._targets = {stream: technical_name(target_format, stream) for stream in deployed}

    def translate(self, subject: str) -> str:
        """Return the subject's name on the target."""
        found = self._source.parts(subject)
        return subject if found is None else self._targets[found[0]] + found[1]

    def follows_topic(self, subject: str) -> bool:
        """Tell whether the subject is a deployed stream's; any other subject passes unchanged."""
        return self._source.parts(subject) is not None

    def fits(self, subject: str) -> bool:
        """Tell whether the subject follows the same stream on the target.

        Its name there may begin with another stream's name.
        """
        return self._target.stream_of(self.translate(subject)) == self._source.stream_of(subject)

    def carries(self, subject: str) -> bool:
        """Tell whether the target is to have the subject."""
        return self._record_names or self.follows_topic(subject)


class SubjectOwners:
    """Owners of the subjects of one cluster: streams that are there, and streams that were there."""

    def __init__(
        self,
        present: Mapping[str, StreamName],
        former: Mapping[str, StreamName],
        elsewhere: Mapping[str, StreamName] | None = None,
    ) -> None:
        """Index the names of streams by the cluster's subject format, present and former.

        A present stream takes precedence over a former one: a name that is given again belongs to the new stream.
        `elsewhere`: names on other clusters.
        """
        self._present, self._former, self._elsewhere = present, former, elsewhere or {}

    def stream_of(self, subject: str) -> StreamName | None:
        """Return the stream that a subject follows; None for a subject by record name or a foreign one."""
        return _first(subject, (self._present, self._former))

    def kept_for(self, subject: str) -> StreamName | None:
        """Return the stream that a subject would follow on another cluster, where it has the same name.

        For subjects that follow no stream here. None for one that is by record name everywhere.
        """
        return _first(subject, (self._elsewhere,))


def _first(subject: str, known: Iterable[Mapping[str, StreamName]]) -> StreamName | None:
    for names in known:
        found = _longest(subject, names)
        if found is not None:
            return names[found]
    return None


def _longest(subject: str, names: Mapping[str, StreamName]) -> str | None:
    """Return the longest of the names that is a prefix of the subject and leaves a rest."""
    end = subject.rfind(_SEPARATOR)
    while end > 0:
        if subject[:end] in names:
            return subject[:end]
        end = subject.rfind(_SEPARATOR, 0, end)
    return None
