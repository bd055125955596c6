"""Set the offsets that are due on one cluster: read committed offsets, decide, choose the offsets, set them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

from backend.domain.offsets import commit_metadata
from backend.domain.offsets.commit_metadata import CommitMark
from backend.domain.offsets.committing import Action, Standing, decide
from backend.domain.offsets.offset_map import NO_TIMESTAMP, Follower, Progress
from backend.eventlog.held_lock import HeldLock
from backend.kafka.groups.group_offsets import GroupOffsets, Refused, Setting
from backend.kafka.logs.log_ends import Place
from workers.offsets.applied import Applied, State
from workers.offsets.choosing import Chooser, Goal, Going
from workers.offsets.directory import Directory

_UNTRANSLATED = "the group's own commit on this cluster is not translated yet; the newer of the two will be used"
_NOT_ASKED = "the topic could not be queried, or the group is far behind and waits for others"
_NO_ANSWER = "the cluster did not answer"
_MEMBERS = "the group has active members on this cluster and is left alone"
_CHANGED = "another offset was committed or set in the meantime"

_Key = tuple[str, Place]
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Work:
    """A group's offset of one partition to check."""

    follower: Follower
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
        return self.group, (self.topic, self.follower.partition)

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

    def applied(self, offset: int, going: Going, applied_at_ms: int) -> Applied:
        """Return the row after the offset was set."""
        return replace(
            self._row(State.APPLIED, None),
            offset=offset,
            mode=going.mode,
            re_read_bound=going.chosen.re_read_bound,
            settled=going.chosen.settled,
            applied_at_ms=applied_at_ms,
            incarnation=self.incarnation,
            set_for_ms=self.newest[1].committed_at_ms,
        )


class Carrier:
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

    def carry_out(self, works: Sequence[Work], read: Callable[[], Directory]) -> dict[Follower, Applied | None]:
        """Process the work; return the results, None for nothing left to do. Raises KafkaCallFailed, LockLost."""
        standing = self._offsets.standing(_by_group(dict.fromkeys(work.key for work in works)))
        found: dict[Follower, Applied | None] = {}
        actions: dict[Action, list[Work]] = {action: [] for action in Action}
        for work in works:
            if work.key in standing:
                stands, moved = standing[work.key], work.in_other_topic
                action = decide(self._here, work.newest, work.own, stands, in_other_topic=moved)
                actions[action].append(work)
            else:
                found[work.follower] = work.unfinished(State.FAILED, _NO_ANSWER)
        for work in actions[Action.NOTHING]:
            # Own progress: it has replaced ours. Otherwise the committed offset is later than everything known.
            found[work.follower] = None if work.newest[0] == self._here else work.as_before()
        for work in actions[Action.WAIT]:
            found[work.follower] = work.unfinished(State.WAITING, _UNTRANSLATED)
        found |= self._put_back(actions[Action.PUT_BACK], standing)
        return found | self._apply(actions[Action.APPLY], standing, read)

    def _put_back(
        self, works: Sequence[Work], standing: Mapping[_Key, Standing]
    ) -> dict[Follower, Applied | None]:
        answers = self._set(
            {work.key: Setting(offset=work.newest[1].offset, metadata=work.metadata) for work in works}, standing
        )
        return {work.follower: _refusal(work, answers[work.key]) for work in works}

    def _apply(
        self, works: Sequence[Work], standing: Mapping[_Key, Standing], read: Callable[[], Directory]
    ) -> dict[Follower, Applied | None]:
        goals = [
            Goal(follower=work.follower, topic=work.topic, progress=work.newest[1], exact=work.exact)
            for work in works
        ]
        going = self._chooser.choose(goals, read) if goals else {}
        offsets = {
            work.follower: _never_back(work, standing[work.key], going[work.follower])
            for work in works
            if work.follower in going
        }
        settings = {
            work.key: Setting(offset=offsets[work.follower], metadata=work.metadata)
            for work in works
            if work.follower in offsets and not self._stands(work, standing[work.key], offsets[work.follower])
        }
        answers, now = self._set(settings, standing), int(time.time() * 1000)
        found: dict[Follower, Applied | None] = {}
        for work in works:
            if work.follower not in going:
                found[work.follower] = work.unfinished(State.WAITING, _NOT_ASKED)
                continue
            since = now
            if work.key not in settings and work.before is not None:
                since = work.before.applied_at_ms or now
            refused = _refusal(work, answers.get(work.key))
            done = work.applied(offsets[work.follower], going[work.follower], since)
            found[work.follower] = refused or done
        return found

    def _stands(self, work: Work, standing: Standing, offset: int) -> bool:
        return not work.renew and standing.offset == offset and _is_of(standing, work)

    def _set(
        self, settings: Mapping[_Key, Setting], standing: Mapping[_Key, Standing]
    ) -> dict[_Key, Refused | None]:
        """Set the offsets that did not change meanwhile: choosing takes time in which a switch may happen."""
        if not settings:
            return {}
        with self._lock() as lock:
            now = self._offsets.standing(_by_group(dict.fromkeys(settings)))
            same = {key: each for key, each in settings.items() if now.get(key) == standing[key]}
            lock.check()  # the cluster may have taken long to answer
            answers = self._offsets.set(_by_group(same)) if same else {}
        unasked = {key: Refused(reason=_NO_ANSWER if key in same else _CHANGED) for key in settings}
        return {key: answers.get(key, unasked[key]) for key in settings}


def _is_of(standing: Standing, work: Work) -> bool:
    cluster, progress = work.newest
    return standing.mark is not None and standing.mark.is_of(cluster, progress.order)


def _never_back(work: Work, standing: Standing, going: Going) -> int:
    """Return the offset to set: for the same progress never below the committed offset.

    Exceptions: the committed offset lies beyond the end, or in a log that was truncated or re-created since.
    """
    same_log = work.before is not None and work.before.incarnation == work.incarnation
    if standing.offset is not None and same_log and _is_of(standing, work):
        return max(going.chosen.offset, min(standing.offset, going.end))
    return going.chosen.offset


def _refusal(work: Work, refused: Refused | None) -> Applied | None:
    if refused is None:
        return None
    if refused.has_members:
        return work.unfinished(State.HAS_MEMBERS, _MEMBERS)
    if refused.reason == _CHANGED:
        return work.unfinished(State.WAITING, _CHANGED)
    return work.unfinished(State.FAILED, refused.reason)


def _by_group(wanted: Mapping[_Key, Value]) -> dict[str, dict[Place, Value]]:
    found: dict[str, dict[Place, Value]] = {}
    for (group, place), value in wanted.items():
        found.setdefault(group, {})[place] = value
    return found
