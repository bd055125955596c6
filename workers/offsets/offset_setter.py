"""Set the offsets that are due on one cluster: read committed offsets, decide, choose the offsets, set them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

from backend.domain.offsets import commit_metadata
from backend.domain.offsets.commit_metadata import CommitMark
from backend.domain.offsets.commit_rules import Action, CommittedOffset, decide
from backend.domain.offsets.offset_map import NO_TIMESTAMP, GroupPartition, Progress
from backend.eventlog.held_lock import HeldLock
from backend.kafka.groups.group_offsets import GroupOffsets, Refused, Setting
from backend.kafka.logs.log_ends import Place
from workers.offsets.applied import Applied, State
from workers.offsets.directory import Directory
from workers.offsets.offset_choice import Chooser, OffsetRequest, Resumption

_UNTRANSLATED = "the group's own commit on this cluster is not translated yet; the newer of the two will be used"
_NOT_ASKED = "the topic could not be queried, or the group is far behind and waits for others"
_NO_ANSWER = "the cluster did not answer"
_MEMBERS = "the group has active members on this cluster and is left alone"
_CHANGED = "another offset was committed or set in the meantime"

_Key = tuple[str, Place]
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class DueOffset:
    """A group's offset of one partition to check."""

    group_partition: GroupPartition
    group: str
    """Technical name of the group on the cluster."""
    topic: str
    newest: tuple[str, Progress]
    """The group's latest progress, with the cluster where it was made."""
    flags: int
    """Copy flags of the map record."""
    own: Progress | None
    """Progress made on this cluster."""
    exact: bool
    before: Applied | None
    """Result of the last attempt."""
    renew: bool
    """Tells whether the offset is to be set again before the cluster expires it."""
    in_other_topic: bool
    """Tells whether the group's own progress was made in a topic that has been re-created since."""
    incarnation: int | None
    """Incarnation of the log's newest records."""

    @property
    def key(self) -> _Key:
        """Return (group, partition of the topic)."""
        return self.group, (self.topic, self.group_partition.partition)

    @property
    def metadata(self) -> str:
        """Return the metadata to write with the offset."""
        cluster, progress = self.newest
        timestamp = NO_TIMESTAMP if progress.timestamp_ms is None else progress.timestamp_ms
        return commit_metadata.encode(
            CommitMark(
                flags=self.flags,
                timestamp_ms=timestamp,
                committed_at_ms=progress.committed_at_ms,
                generation=progress.generation,
                cluster=cluster,
            )
        )

    def unfinished(self, state: State, reason: str) -> Applied:
        """Return the row with this state and reason; the offset that was set before stays."""
        row, done = self._row(state, reason), self.before
        if done is None:
            return row
        return replace(
            row,
            offset=done.offset,
            mode=done.mode,
            re_read_bound=done.re_read_bound,
            settled=done.settled,
            applied_at_ms=done.applied_at_ms,
            incarnation=done.incarnation,
            set_for_ms=done.set_for_ms,
        )

    def _row(self, state: State, reason: str | None) -> Applied:
        cluster, progress = self.newest
        return Applied(
            technical_group=self.group,
            state=state,
            reason=reason,
            origin_cluster=cluster,
            generation=progress.generation,
            committed_at_ms=progress.committed_at_ms,
            progress_digest=progress.digest,
        )

    def as_before(self) -> Applied | None:
        """Return the previous result, which still holds."""
        return self.before and replace(self.before, incarnation=self.incarnation)

    def applied(self, offset: int, resumption: Resumption, applied_at_ms: int) -> Applied:
        """Return the row after the offset was set."""
        return replace(
            self._row(State.APPLIED, None),
            offset=offset,
            mode=resumption.mode,
            re_read_bound=resumption.chosen.re_read_bound,
            settled=resumption.chosen.settled,
            applied_at_ms=applied_at_ms,
            incarnation=self.incarnation,
            set_for_ms=self.newest[1].committed_at_ms,
        )


class OffsetSetter:
    """Offset setter of one cluster; used by one thread."""

    def __init__(
        self,
        cluster: str,
        offsets: GroupOffsets,
        chooser: Chooser,
        lock: Callable[[], AbstractContextManager[HeldLock]],
    ) -> None:
        """`lock` excludes others from setting offsets on the cluster while it is entered and its check passes."""
        self._here, self._offsets, self._chooser, self._lock = cluster, offsets, chooser, lock

    def set_due(
        self, due_offsets: Sequence[DueOffset], read: Callable[[], Directory]
    ) -> dict[GroupPartition, Applied | None]:
        """Process the work; return the results, None for nothing left to do. Raises KafkaCallFailed, LockLost."""
        committed = self._offsets.committed(_by_group(dict.fromkeys(due.key for due in due_offsets)))
        found: dict[GroupPartition, Applied | None] = {}
        actions: dict[Action, list[DueOffset]] = {action: [] for action in Action}
        for due in due_offsets:
            if due.key in committed:
                stands, moved = committed[due.key], due.in_other_topic
                action = decide(self._here, due.newest, due.own, stands, in_other_topic=moved)
                actions[action].append(due)
            else:
                found[due.group_partition] = due.unfinished(State.FAILED, _NO_ANSWER)
        for due in actions[Action.NOTHING]:
            # Own progress: it has replaced ours. Otherwise the committed offset is later than everything known.
            found[due.group_partition] = None if due.newest[0] == self._here else due.as_before()
        for due in actions[Action.WAIT]:
            found[due.group_partition] = due.unfinished(State.WAITING, _UNTRANSLATED)
        found |= self._put_back(actions[Action.PUT_BACK], committed)
        return found | self._apply(actions[Action.APPLY], committed, read)

    def _put_back(
        self, due_offsets: Sequence[DueOffset], committed: Mapping[_Key, CommittedOffset]
    ) -> dict[GroupPartition, Applied | None]:
        answers = self._set(
            {due.key: Setting(offset=due.newest[1].offset, metadata=due.metadata) for due in due_offsets},
            committed,
        )
        return {due.group_partition: _refusal(due, answers[due.key]) for due in due_offsets}

    def _apply(
        self,
        due_offsets: Sequence[DueOffset],
        committed: Mapping[_Key, CommittedOffset],
        read: Callable[[], Directory],
    ) -> dict[GroupPartition, Applied | None]:
        requests = [
            OffsetRequest(
                group_partition=due.group_partition, topic=due.topic, progress=due.newest[1], exact=due.exact
            )
            for due in due_offsets
        ]
        resumptions = self._chooser.choose(requests, read) if requests else {}
        offsets = {
            due.group_partition: _never_back(due, committed[due.key], resumptions[due.group_partition])
            for due in due_offsets
            if due.group_partition in resumptions
        }
        settings = {
            due.key: Setting(offset=offsets[due.group_partition], metadata=due.metadata)
            for due in due_offsets
            if due.group_partition in offsets
            and not self._stands(due, committed[due.key], offsets[due.group_partition])
        }
        answers, now = self._set(settings, committed), int(time.time() * 1000)
        found: dict[GroupPartition, Applied | None] = {}
        for due in due_offsets:
            if due.group_partition not in resumptions:
                found[due.group_partition] = due.unfinished(State.WAITING, _NOT_ASKED)
                continue
            since = now
            if due.key not in settings and due.before is not None:
                since = due.before.applied_at_ms or now
            refused = _refusal(due, answers.get(due.key))
            done = due.applied(offsets[due.group_partition], resumptions[due.group_partition], since)
            found[due.group_partition] = refused or done
        return found

    def _stands(self, due: DueOffset, committed: CommittedOffset, offset: int) -> bool:
        return not due.renew and committed.offset == offset and _is_of(committed, due)

    def _set(
        self, settings: Mapping[_Key, Setting], committed: Mapping[_Key, CommittedOffset]
    ) -> dict[_Key, Refused | None]:
        """Set the offsets that did not change meanwhile: choosing takes time in which a switch may happen."""
        if not settings:
            return {}
        with self._lock() as lock:
            now = self._offsets.committed(_by_group(dict.fromkeys(settings)))
            same = {key: each for key, each in settings.items() if now.get(key) == committed[key]}
            lock.check()  # the cluster may have taken long to answer
            answers = self._offsets.set(_by_group(same)) if same else {}
        unasked = {key: Refused(reason=_NO_ANSWER if key in same else _CHANGED) for key in settings}
        return {key: answers.get(key, unasked[key]) for key in settings}


def _is_of(committed: CommittedOffset, due: DueOffset) -> bool:
    cluster, progress = due.newest
    return committed.mark is not None and committed.mark.is_of(cluster, progress.order)


def _never_back(due: DueOffset, committed: CommittedOffset, resumption: Resumption) -> int:
    """Return the offset to set: for the same progress never below the committed offset.

    Exceptions: the committed offset lies beyond the end, or in a log that was truncated or re-created since.
    """
    same_log = due.before is not None and due.before.incarnation == due.incarnation
    if committed.offset is not None and same_log and _is_of(committed, due):
        return max(resumption.chosen.offset, min(committed.offset, resumption.end))
    return resumption.chosen.offset


def _refusal(due: DueOffset, refused: Refused | None) -> Applied | None:
    if refused is None:
        return None
    if refused.has_members:
        return due.unfinished(State.HAS_MEMBERS, _MEMBERS)
    if refused.reason == _CHANGED:
        return due.unfinished(State.WAITING, _CHANGED)
    return due.unfinished(State.FAILED, refused.reason)


def _by_group(wanted: Mapping[_Key, Value]) -> dict[str, dict[Place, Value]]:
    found: dict[str, dict[Place, Value]] = {}
    for (group, place), value in wanted.items():
        found.setdefault(group, {})[place] = value
    return found
