"""Report a main's progress to proxies: everything at first, then changes.

Source: the zone router's document, "Read": GetPartitionSnapshot. Proxies use long polling: a poll is answered when
something has changed, or after some seconds as a sign of life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from workers.zone_router.formats.route_messages import Snapshot, State
from workers.zone_router.formats.wal import Partition

_QUIET_SECONDS = 5.0
"""Seconds after which a poll is answered although nothing has changed."""


class Snapshots:
    """Progress of one main."""

    def __init__(self) -> None:
        self._states: dict[Partition, State] = {}
        self._sessions: set[Session] = set()
        self._reached = (0, 0, 0, 0)
        self.is_known = False
        """True once the main has recovered its state; polls are not answered before."""

    def reached(self, wal_first: int, wal_end: int, first_block: int, end_block: int) -> None:
        """Set the range of existing objects; those of the WAL before `wal_first` are in blocks."""
        moved = (wal_first, first_block, end_block) != (self._reached[0], *self._reached[2:])
        self._reached = (wal_first, wal_end, first_block, end_block)
        moved |= not self.is_known
        self.is_known = True
        if moved:
            for session in self._sessions:
                session.touched(None)

    def update(self, state: State) -> None:
        if self._states.get(state.partition) != state:
            self._states[state.partition] = state
            for session in self._sessions:
                session.touched(state.partition)

    def left(self, partition: Partition) -> None:
        if self._states.pop(partition, None):
            for session in self._sessions:
                session.touched(partition)

    def session(self, send: Callable[[Snapshot], None]) -> Session:
        """Open the session of one proxy's connection."""
        found = Session(self, send, list(self._states))
        self._sessions.add(found)
        return found

    def ended(self, session: Session) -> None:
        self._sessions.discard(session)

    def since(self, touched: set[Partition], named: set[Partition]) -> Snapshot:
        """Return the state of these partitions, with topic names only where they were not sent before."""
        states = [self._states[each] for each in touched if each in self._states]
        return Snapshot(
            *self._reached,
            states=[each if each.partition not in named else each._replace(topic="") for each in states],
            left=[each for each in touched if each not in self._states],
        )


class Session:
    """Progress that one proxy has received."""

    def __init__(self, snapshots: Snapshots, send: Callable[[Snapshot], None], touched: list[Partition]) -> None:
        self._snapshots, self._send = snapshots, send
        self._touched = set(touched)
        self._named: set[Partition] = set()
        self._is_polled = self._is_moved = False
        self._is_first = True
        self._sending: asyncio.Handle | None = None
        self._late: asyncio.Handle | None = None

    def poll(self) -> None:
        """Answer once something has changed, or after some seconds; answer the first poll at once."""
        self._is_polled = True
        if self._touched or self._is_moved or self._is_first:
            self._soon()
        elif self._late is None:
            self._late = asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._soon)

    def touched(self, partition: Partition | None) -> None:
        if partition is None:
            self._is_moved = True
        else:
            self._touched.add(partition)
        if self._is_polled:
            self._soon()

    def _soon(self) -> None:
        if self._sending is None:
            # Deferred, to include all changes of this iteration of the loop.
            self._sending = asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        self._sending = None
        if self._late:
            self._late.cancel()
            self._late = None
        if not self._is_polled or not self._snapshots.is_known:
            return
        snapshot = self._snapshots.since(self._touched, self._named)
        self._named |= {each.partition for each in snapshot.states}
        self._named -= set(snapshot.left)
        self._touched.clear()
        self._is_polled = self._is_moved = self._is_first = False
        self._send(snapshot)

    def close(self) -> None:
        self._snapshots.ended(self)
        for handle in (self._sending, self._late):
            if handle:
                handle.cancel()
