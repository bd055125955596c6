"""Invariants that are checked after every step, on the replicas that the step changed.

Violations: a committed record that a leader lacks; a follower whose log differs below its HW; a record that
readers see although not all in the ISR have had it; a record committed twice, or out of its producer's order;
different records committed by two leaders at one offset; a HW that falls. (Acknowledgements are checked where they
are given, in `answers`; AR = ISR + CUR in `isr`.)

Readers see records below the HW of a broker that considers itself leader, at once. A record is committed when a
reader may see it, and all in sync "have applied it to their log" (ADS, "Replication").
"""

from __future__ import annotations

from backend.replication_lab.model.history import History, Invariant
from backend.replication_lab.model.isr import ids
from backend.replication_lab.model.messages import named
from backend.replication_lab.model.state import UNCUT, Broker, Fetcher, Role
from backend.replication_lab.model.world import World


def after_step(world: World) -> None:
    """Check what the step changed, and clear the list of changes."""
    dirty = world.dirty
    if world.store.deleted or not is_promised(world):
        dirty.clear()
        return
    history = world.history
    while dirty and history.violated is None:
        broker = world.brokers[dirty.pop()]
        _note_applied(world, broker)
        if broker.alive and broker.partition.epoch >= history.unclean_epoch:
            if broker.role >= Role.BECOMING:
                _check_leader(world, broker)
            elif _follows(world, broker):
                _check_follower(world, broker)
        if broker.fell_from:
            _check_fall(history, broker)
    dirty.clear()


def is_promised(world: World) -> bool:
    """Tell whether committed records must stay: always with the fixes.

    By the documents not with asynchronous acknowledgement, after which "there is no guarantee that a commit
    message can survive any broker failure".
    """
    return world.configuration.acks_all or world.rules.has_epochs


def _check_fall(history: History, broker: Broker) -> None:
    """Check that the HW fell only with records that were lost as expected."""
    fell_from, broker.fell_from = broker.fell_from, 0
    if not any(broker.hw <= at < fell_from for at, _ in history.expected_losses):
        history.violate(Invariant.HW_FELL, f"the HW of broker {broker.id} fell from {fell_from} to {broker.hw}")


def _note_applied(world: World, broker: Broker) -> None:
    """Note which brokers have had records that are not committed yet."""
    history, log = world.history, broker.log
    end, committed = len(log), len(history.committed)
    if broker.cut_to != UNCUT:
        history.noted[broker.id] = min(history.noted.get(broker.id, 0), broker.cut_to)
        history.checked[broker.id] = min(history.checked.get(broker.id, 0), broker.cut_to)
        broker.cut_to = UNCUT
    noted = history.noted.get(broker.id, 0)
    if noted >= end:
        return
    for offset in range(max(noted, committed), end):
        record = log[offset]
        found = history.applied.get(offset, ())
        for at, (known, brokers) in enumerate(found):
            if known == record:
                if broker.id not in brokers:
                    history.applied[offset] = (*found[:at], (known, brokers | {broker.id}), *found[at + 1 :])
                break
        else:
            history.applied[offset] = (*found, (record, frozenset((broker.id,))))
    history.noted[broker.id] = end


def _agrees_to(world: World, broker: Broker, end: int) -> int:
    """Return the offset up to which a log agrees with the committed records, examined up to `end`."""
    history = world.history
    at = history.checked.get(broker.id, 0)
    end = min(end, len(broker.log), len(history.committed))
    log, committed = broker.log, history.committed
    while at < end and log[at] == committed[at]:
        at += 1
    history.checked[broker.id] = at
    return at


def _check_leader(world: World, broker: Broker) -> None:
    history = world.history
    is_current = world.store.leader == broker.id
    if is_current:
        agrees = _agrees_to(world, broker, len(history.committed))
        if agrees < len(history.committed):
            _report_missing(world, broker, agrees)
            if history.violated is not None:
                return
        elif broker.role is Role.LEADER:
            history.lost_promise = 0  # the leader has all committed records: they are promised again
    if broker.role is not Role.LEADER:
        return
    exposed = min(broker.hw, len(broker.log))
    agrees = _agrees_to(world, broker, exposed)
    if agrees < min(exposed, len(history.committed)):
        history.violate(
            Invariant.TWO_LEADERS,
            f"at offset {agrees}, {named(history.committed[agrees])} was committed, and broker {broker.id}, which "
            f"considers itself leader, commits {named(broker.log[agrees])}",
        )
        return
    if exposed > len(history.committed):
        _commit(world, broker, exposed)
        if history.violated is None:
            _check_others(world, broker, is_current)


def _commit(world: World, broker: Broker, end: int) -> None:
    """Commit the records that readers now see, if all in the ISR have had them."""
    history, isr = world.history, broker.partition.isr
    for offset in range(len(history.committed), end):
        record = broker.log[offset]
        had = next((brokers for known, brokers in history.applied.get(offset, ()) if known == record), frozenset())
        missing = isr - had
        if missing:
            history.violate(
                Invariant.UNCOMMITTED_READ,
                f"readers see {named(record)} at offset {offset} of broker {broker.id}, but of the ISR {ids(isr)} "
                f"{ids(missing)} never had it",
            )
            return
        identity = (record.producer, record.number)
        if identity in history.identities:
            first = next(
                at for at, other in enumerate(history.committed) if (other.producer, other.number) == identity
            )
            history.violate(
                Invariant.WRITTEN_TWICE,
                f"{named(record)} is committed at offset {first} and again at offset {offset}",
            )
            return
        gaps = not world.configuration.acks_all  # an acknowledged record may never be committed
        if (why := history.out_of_order(record, gaps=gaps)) is not None:
            history.violate(Invariant.OUT_OF_ORDER, f"{named(record)} is committed at offset {offset} {why}")
            return
        history.add(record)
        history.applied.pop(offset, None)
    history.checked[broker.id] = max(history.checked.get(broker.id, 0), end)


def _check_others(world: World, committer: Broker, is_current: bool) -> None:
    """Check that the leader, if it is another broker, has the new committed records, and that followers agree."""
    history = world.history
    leader = world.leader()
    if not is_current and leader is not None:
        agrees = _agrees_to(world, leader, len(history.committed))
        if agrees < len(history.committed):
            history.violate(
                Invariant.TWO_LEADERS,
                f"broker {committer.id} considers itself leader and commits "
                f"{named(history.committed[agrees])} at offset {agrees}; "
                f"broker {leader.id}, which is the leader, does not have it",
            )
            return
    for broker in world.brokers.values():
        is_bound = broker.alive and broker.partition.epoch >= history.unclean_epoch
        if is_bound and _follows(world, broker):
            _check_follower(world, broker)


def _follows(world: World, broker: Broker) -> bool:
    """Tell whether a follower has truncated its log for its leader.

    A follower that has not been notified of the next leader yet may have records that were lost as expected.
    """
    return (
        broker.role is Role.FOLLOWER
        and (broker.fetcher is Fetcher.READY or broker.fetcher is Fetcher.WAITS)
        and not (world.history.expected_losses and "leader_change" in broker.notices)
    )


def _check_follower(world: World, broker: Broker) -> None:
    history = world.history
    end = min(broker.hw, len(broker.log), len(history.committed))
    agrees = _agrees_to(world, broker, end)
    if agrees < end:
        history.violate(
            Invariant.LOGS_DIFFER,
            f"at offset {agrees}, below its HW {broker.hw}, broker {broker.id} has {named(broker.log[agrees])}; "
            f"committed there is {named(history.committed[agrees])}",
        )


def _report_missing(world: World, leader: Broker, agrees: int) -> None:
    """Report a leader that lacks committed records, unless no in-sync replica was alive meanwhile."""
    history = world.history
    lost = tuple((at, history.committed[at]) for at in range(agrees, len(history.committed)))
    if len(history.committed) > history.lost_promise:
        names = ", ".join(f"{named(record)} (offset {offset})" for offset, record in lost)
        history.violate(
            Invariant.COMMITTED_LOST,
            f"broker {leader.id} leads, and its log, which ends at {len(leader.log)}, lacks committed {names}",
        )
        return
    history.expected_losses += lost
    history.forget_from(agrees)
    history.lost_promise = agrees
    for id_, broker in world.brokers.items():
        history.noted[id_] = min(history.noted.get(id_, 0), agrees)
        history.checked[id_] = min(history.checked.get(id_, 0), agrees)
        _note_applied(world, broker)
