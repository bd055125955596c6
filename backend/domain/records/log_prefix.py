"""A prefix of one partition's log on one cluster: the origins of its records, and how far it goes for each.

Every reader that walks a log in order (a distributor, an index builder) needs the same judgement of where a record
was produced: its header alone does not tell, since stream processors pass headers on.
"""

from __future__ import annotations

from collections.abc import Callable

from backend.domain.records.incarnations import Incarnations, incarnation_at
from backend.domain.records.origin import Origin, Vector

Hole = tuple[int, int, int]
"""(Origin's cluster number, incarnation, offset) of a dead-lettered record: it arrives later, if at all."""

_NOTHING = (-1, -1)


class UnknownOrigin(Exception):
    """A record came from a cluster that the reader does not know yet: its configuration is out of date."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"a record came from cluster number {number}, which its reader does not know yet; it looks again"
        )


def never_foreign(number: int) -> bool:
    """Treat every number as one of our clusters, whose records must not be mistaken for records produced here."""
    return False


class LogPrefix:
    """Origins of a log's records, resolved in log order; `seen` is the vector of the records resolved so far."""

    __slots__ = ("foreign", "holes", "incarnations", "known_origins", "number", "partition", "seen", "stream_id")

    def __init__(
        self,
        number: int,
        *,
        stream: bytes,
        partition: int,
        incarnations: Incarnations,
        seen: Vector,
        known_origins: frozenset[int],
        holes: frozenset[Hole] = frozenset(),
        foreign: Callable[[int], bool] = never_foreign,
    ) -> None:
        """Start a prefix of the cluster with this number.

        `known_origins` are the numbers of all clusters that are, or ever were, leaves of the tree; `foreign`
        returns whether any other number belongs to no cluster of the tree right now.
        """
        self.number = number
        self.stream_id = stream
        self.partition = partition
        self.incarnations = incarnations
        self.seen = dict(seen)
        self.known_origins = known_origins
        self.holes = holes
        self.foreign = foreign

    def origin_of(self, offset: int, found: Origin | None) -> Origin:
        """Return where the next record was produced, given the origin in its headers. Raises UnknownOrigin.

        It was produced here, whatever its headers say, if its origin names another stream or partition, this
        cluster, a cluster that is not ours, or an offset not above the highest seen of that origin, unless that
        record was dead-lettered and is being replayed.
        """
        if (
            found is not None
            and found.stream_id == self.stream_id
            and found.partition == self.partition
            and found.cluster != self.number
            and not self._is_foreign(found.cluster)
        ):
            reached = (found.incarnation, found.offset)
            if reached > self.seen.get(found.cluster, _NOTHING):
                self.seen[found.cluster] = reached
                return found
            if (found.cluster, *reached) in self.holes:
                return found
        incarnation = incarnation_at(self.incarnations, offset)
        self.seen[self.number] = (incarnation, offset)
        return Origin(self.number, self.stream_id, self.partition, offset, incarnation)

    def _is_foreign(self, number: int) -> bool:
        if number in self.known_origins:
            return False
        if self.foreign(number):
            return True
        raise UnknownOrigin(number)
