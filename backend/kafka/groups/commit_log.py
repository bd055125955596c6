"""Following `__consumer_offsets` of one cluster: what groups commit, as it comes.

Our own groups' positions are most of that topic while records flow; they are told by the first bytes of their keys
and cost no more than that.
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
"""Of a key: after its version and the length of the group's name."""
_REQUEST_SECONDS = 5.0


class NoCommitsYet(KafkaCallFailed):
    """No group has ever asked for its coordinator there, so the topic was not made yet."""


@dataclass
class Commits:
    """What was committed since it was asked for last; the latest of each group and partition."""

    made: dict[OffsetKey, OffsetValue | None] = field(default_factory=dict)
    """None: the offset expired or was deleted."""
    found_at: dict[OffsetKey, tuple[int, int]] = field(default_factory=dict)
    """(partition of the topic, offset) of the latest."""
    set_again: set[OffsetKey] = field(default_factory=set)
    """Where an offset of ours is the latest: one that was gone before is there again."""
    positions: dict[int, int] = field(default_factory=dict)
    """Partition of the topic -> where reading goes on."""
    unreadable: int = 0


class CommitLog:
    """Reads on from given positions; used by one thread. Raises KafkaCallFailed, at first NoCommitsYet."""

    def __init__(self, config: Mapping[str, Any], positions: Mapping[int, int]) -> None:
        """A partition without a position is read from its beginning."""
        places = partitions(config, group_log.INTERNAL_TOPIC, _REQUEST_SECONDS)
        if not places:
            # Brokers make it when the first group asks for its coordinator.
            raise NoCommitsYet(f"there is no {group_log.INTERNAL_TOPIC} yet: no group has ever committed there")
        self._log = TopicFollower(config, places, positions)
        self._found = Commits()

    @property
    def caught_up(self) -> bool:
        """Whether every partition's end was reached once."""
        return self._log.caught_up

    def read(self, wait_seconds: float) -> None:
        """Wait for one record, then take what else is there."""
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
            # The group has an offset again; what it had committed itself before stays what it was.
            if self._found.made.get(whose, said) is None:
                del self._found.made[whose], self._found.found_at[whose]
            self._found.set_again.add(whose)
            return
        self._found.made[whose] = said
        self._found.found_at[whose] = place
        self._found.set_again.discard(whose)

    def take(self) -> Commits:
        """What came since the last call."""
        found, self._found = self._found, Commits()
        return found

    def close(self) -> None:
        """Give the connections back."""
        self._log.close()
