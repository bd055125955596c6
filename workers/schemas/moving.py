"""A move of the primary, carried out by the thread of the target that becomes the primary.

    lock of the old primary's writer -> the new one catches up to the end -> the event -> the lock is released

Writers on the old primary wait for the lock, and are then sent to the new one. A lost primary is not read; the new
one takes in what other targets have of it, and skips ids that it may have assigned unseen.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import structlog
from sqlalchemy import Connection, Engine

from backend import deciders
from backend.domain.tree.primary_move import SKIPPED_IDS, RecordPrimaryMoved
from backend.eventlog.held_lock import HeldLock
from backend.queries.schemas.schemas import WantedSchemas, wanted_schemas
from backend.queries.tree.trees import MAIN
from backend.registry.distribution import Difference, compare
from backend.registry.mirror import Mirror
from backend.registry.records import Noop, Record, SchemaVersion
from backend.registry.writing import writing_schemas
from workers import context
from workers.schemas.following import MOST_AT_ONCE, Follower, NotThere, translation_between

log = structlog.get_logger("schemas")

ACTOR = "worker:schemas"


def move(engine: Engine, mirrors: Mapping[str, Mirror], follower: Follower, wanted: WantedSchemas) -> None:
    """Make the follower's target the primary; on KafkaCallFailed or DomainError it is tried again."""
    new, old, order = follower.target, wanted.primary, wanted.move
    if order is None or order.cluster != new:
        return
    # Most is copied before writers have to wait. Not to the very end: while others register schemas, there may
    # always be more.
    if not order.take_over:
        _follow(mirrors, follower, old)
    with writing_schemas(engine, old) as lock:
        now = wanted_schemas(lock.connection)
        if now is None or (now.primary, now.move) != (old, order):
            return
        skipped = 0
        if order.take_over:
            skipped = SKIPPED_IDS
            _take_over(lock, engine, mirrors, follower, now)
        else:
            _follow_to_end(mirrors, follower, old, lock)

        def build(_: Connection) -> RecordPrimaryMoved:
            # Read when nothing is waited for any more: nobody writes on the old primary while this is saved.
            lock.check()
            return RecordPrimaryMoved(cluster=new, previous=old, skipped_ids=skipped)

        context.dispatch(deciders.TREE, f"tree-{MAIN}", build, ACTOR, f"primary-{uuid.uuid4().hex[:12]}")
    log.info("primary moved", cluster=new, previous=old, skipped_ids=skipped)


def _follow_to_end(mirrors: Mapping[str, Mirror], follower: Follower, old: str, *held: HeldLock) -> None:
    found = _follow(mirrors, follower, old, *held)
    if found.records:
        raise NotThere(f"{follower.target} has not all schemas of {old} yet")


def _follow(mirrors: Mapping[str, Mirror], follower: Follower, old: str, *held: HeldLock) -> Difference:
    """Write what is missing, except for a large rest, and return what was missing."""
    found = follower.follow(old, held)
    if mirrors[old].reason is not None:
        raise NotThere(
            f"{old}, still the primary, is unreachable ({mirrors[old].reason}); take over if it is lost"
        )
    if found is None or len(found.records) > MOST_AT_ONCE:
        raise NotThere(f"{follower.target} has not all schemas of {old} yet")
    return found


def _take_over(
    held: HeldLock,
    engine: Engine,
    mirrors: Mapping[str, Mirror],
    follower: Follower,
    wanted: WantedSchemas,
) -> None:
    new = follower.target
    with writing_schemas(engine, new) as lock:
        follower.read_to_end(new)
        for other in sorted(wanted.leaves.keys() - {new}):
            if mirrors[other].ready:
                records = lacking(follower, wanted, other)
                if records:
                    follower.append(records, lock, held)
        highest = max(mirrors[name].catalog.highest_id for name in wanted.leaves)
        follower.append([Noop(highest_id=highest + SKIPPED_IDS)], lock, held)


def lacking(follower: Follower, wanted: WantedSchemas, other: str) -> list[Record]:
    """Return what another cluster has of the lost primary, and the new one lacks."""
    translation = translation_between(wanted, other, follower.target)
    with follower.catalogs(other) as (source, target):
        ids = {source.subjects[subject][number].id for subject, number in source.copied}
        if other == wanted.primary:
            ids = set(source.contents)
        return [
            record
            for record in compare(source, target, translation, follower.room).records
            if isinstance(record, SchemaVersion)
            and record.id in ids
            and target.version((record.subject, record.version)) is None
        ]
