"""Reader of `__consumer_offsets` of one cluster: it reads groups' commits as they arrive.

While records flow, most of that topic are positions of Treeline's own groups; they are recognized by the first
bytes of their keys and skipped without parsing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.domain.distribution.assignment import OWN_GROUPS
from backend.domain.offsets import commit_metadata, group_log
from backend.domain.offsets.group_log import OffsetKey, OffsetValue
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.logs.following import TopicFollower
from backend.kafka.logs.log_ends import partitions

_OWN = OWN_GROUPS.encode()
_GROUP_AT = 4
"""Index in a key of the group's name: after the version and the name's length."""
_REQUEST_SECONDS = 5.0


class NoCommitsYet(KafkaCallFailed):
    """The topic does not exist yet: no group has ever requested its coordinator on the cluster."""


@dataclass
class Commits:
    """Commits read since the last `take`; the latest of each group and partition."""

    made: dict[OffsetKey, OffsetValue | None] = field(default_factory=dict)
    """None: the offset expired or was deleted."""
    found_at: dict[OffsetKey, tuple[int, int]] = field(default_factory=dict)
    """(partition of `__consumer_offsets`, offset) of the latest commit."""
    set_again: set[OffsetKey] = field(default_factory=set)
    """Keys whose latest record is an offset set by Treeline: an offset that was deleted exists again."""
    positions: dict[int, int] = field(default_factory=dict)
    """Partition of `__consumer_offsets` -> offset at which reading resumes."""
    unreadable: int = 0


class CommitLog:
    """Reader from given positions, for one thread. Raises KafkaCallFailed; NoCommitsYet before any commit."""

    def __init__(self, config: Mapping[str, Any], positions: Mapping[int, int]) -> None:
        """Open the log; a partition without a position is read from its beginning."""
        places = partitions(config, group_log.INTERNAL_TOPIC, _REQUEST_SECONDS)
        if not places:
            # Brokers create it when the first group requests its coordinator.
            raise NoCommitsYet(f"{group_log.INTERNAL_TOPIC} does not exist yet: no group has committed")
        self._log = TopicFollower(config, places, positions)
        self._found = Commits()

    @property
    def caught_up(self) -> bool:
        """Tell whether every partition's end was reached once."""
        return self._log.caught_up

    def read(self, wait_seconds: float) -> None:
        """Wait for one record, then take all that are available."""
        for message in self._log.read(wait_seconds):
            number, offset = message.partition(), message.offset()
            assert number is not None and offset is not None
            self._found.positions[number] = offset + 1
            self._take(message.key(), message.value(), (number, offset))

    def _take(self, key: bytes | None, value: bytes | None, place: tuple[int, int]) -> None:
        if key is None or key.startswith(_OWN, _GROUP_AT):
            return
        try:
            record = group_log.offset_record(key, value)
        except group_log.Unreadable:
            self._found.unreadable += 1
            return
        if record is None:
            return
        whose, said = record
        if said is not None and commit_metadata.is_ours(said.metadata):
            # The group has an offset again; its own earlier commit stays as it was.
            if self._found.made.get(whose, said) is None:
                del self._found.made[whose], self._found.found_at[whose]
            self._found.set_again.add(whose)
            return
        self._found.made[whose] = said
        self._found.found_at[whose] = place
        self._found.set_again.discard(whose)

    def take(self) -> Commits:
        """Return what was read since the last call."""
        found, self._found = self._found, Commits()
        return found

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
