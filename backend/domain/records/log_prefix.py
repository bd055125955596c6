"""A prefix of one partition's log on one cluster: whose records are in it, how far of each origin.

Whoever walks through a log in its order (a distributor, a reader that builds an index) needs the same judgement of
where a record was born: its header alone does not tell, since stream processors pass headers on.
"""

from __future__ import annotations

from collections.abc import Callable

from backend.domain.records.births import Births, incarnation_at
from backend.domain.records.origin import Origin, Vector

Hole = tuple[int, int, int]
"""(origin's cluster number, incarnation, offset) of a record that was set aside: it comes later, if at all."""

_NOTHING = (-1, -1)


class UnknownOrigin(Exception):
    """A record came from a cluster that its reader does not know yet: what the reader knows is older than it."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"a record came from cluster number {number}, which its reader does not know yet; it looks again"
        )


def never_foreign(number: int) -> bool:
    """Takes every number for a cluster of ours, whose records must not be taken for born here."""
    return False


class LogPrefix:
    """Where each record of a log was born, asked in the log's order; `seen` is the vector of those asked about."""

    __slots__ = ("births", "foreign", "holes", "known_origins", "number", "partition", "seen", "stream_id")

    def __init__(
        self,
        number: int,
        *,
        stream: bytes,
        partition: int,
        births: Births,
        seen: Vector,
        known_origins: frozenset[int],
        holes: frozenset[Hole] = frozenset(),
        foreign: Callable[[int], bool] = never_foreign,
    ) -> None:
        """Of the cluster with this number. `known_origins` are the numbers of all clusters that are, or ever were,
        leaves of the tree; `foreign` is asked about others: whether one is no cluster of the tree right now."""
        self.number = number
        self.stream_id = stream
        self.partition = partition
        self.births = births
        self.seen = dict(seen)
        self.known_origins = known_origins
        self.holes = holes
        self.foreign = foreign

    def born(self, offset: int, found: Origin | None) -> Origin:
        """Where the next record was born, which has this origin in its headers. Raises UnknownOrigin.

        It was born here, whatever its headers say, if its origin names another stream or partition, this
        cluster, a cluster that is none of ours, or an offset not above the highest seen of that origin, unless
        that record was set aside and is replayed.
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
        incarnation = incarnation_at(self.births, offset)
        self.seen[self.number] = (incarnation, offset)
        return Origin(self.number, self.stream_id, self.partition, offset, incarnation)

    def _is_foreign(self, number: int) -> bool:
        if number in self.known_origins:
            return False
        if self.foreign(number):
            return True
        raise UnknownOrigin(number)
