"""The decision of an edge for each record of a partition: skip it, or copy it with which headers.

A record is copied iff the edge lies on the current route of its origin and the target does not have the record
yet (docs/distribution.md, "The rule"). Flags alone would lose and duplicate records when targets change. While
nothing changes, the result equals the rule of copy flags, flag for flag.

This is the reference implementation: tests hold the native record loop to the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from backend.domain.records import copy_flags, origin
from backend.domain.records.incarnations import Incarnations, incarnation_at
from backend.domain.records.log_prefix import Hole, LogPrefix, never_foreign
from backend.domain.records.marks import Mark, encode_metadata
from backend.domain.records.origin import Origin, Vector

Header = tuple[str, bytes | None]
_NOTHING = (-1, -1)


@dataclass(frozen=True, kw_only=True)
class EdgeRule:
    """The rule of one edge, the same for all partitions of all streams."""

    source_number: int
    level: int
    known_origins: frozenset[int]
    """Numbers of all clusters that are, or ever were, leaves of the tree."""
    flags_header: str = "copy-flags"
    origin_header: str = "copy-origin"
    write_origin: bool = True


class PartitionEdge(LogPrefix):
    """Copy decisions of one edge on one partition, in log order, with the vectors that they need and update.

    `seen` covers the source's log prefix, `covered` what the target has from all edges. After an aborted
    transaction the object is stale and must be rebuilt from the target's position.
    """

    __slots__ = ("covered", "routes", "rule", "target_incarnation", "unreadable_flags")

    def __init__(
        self,
        rule: EdgeRule,
        *,
        stream: bytes,
        partition: int,
        incarnations: Incarnations,
        routes: Mapping[int, int],
        seen: Vector,
        covered: Vector,
        target_incarnation: int = 0,
        holes: frozenset[Hole] = frozenset(),
        foreign: Callable[[int], bool] = never_foreign,
    ) -> None:
        """Start at the position that `seen` and `covered` describe.

        `routes`: origin's cluster number -> flags on the copy, for the origins whose route has this edge.
        `foreign` reads the event log, not a plan.
        """
        super().__init__(
            rule.source_number,
            stream=stream,
            partition=partition,
            incarnations=incarnations,
            seen=seen,
            known_origins=rule.known_origins,
            holes=holes,
            foreign=foreign,
        )
        self.rule = rule
        self.routes = routes
        self.covered = dict(covered)
        self.target_incarnation = target_incarnation
        self.unreadable_flags = 0

    def copy(self, offset: int, headers: Sequence[Header] | None) -> list[Header] | None:
        """Return the headers of the copy, or None if this edge skips the record. Raises UnknownOrigin.

        Other headers keep their order; ours come last, flags then origin.
        """
        rule = self.rule
        others: list[Header] = []
        flag_values: list[bytes | None] = []
        origin_values: list[bytes | None] = []
        for header in headers or ():
            if header[0] == rule.flags_header:
                flag_values.append(header[1])
            elif header[0] == rule.origin_header:
                origin_values.append(header[1])
            else:
                others.append(header)
        flags, readable = copy_flags.decode(flag_values)
        self.unreadable_flags += not readable
        if not rule.write_origin:
            if copy_flags.skips(flags, rule.level):
                return None
            others.append((rule.flags_header, copy_flags.encode(flags | copy_flags.flag(rule.level))))
            return others
        found = origin.decode(origin_values)
        if found is None and flags:
            # Copied before origins were written: only the flags can decide.
            if copy_flags.skips(flags, rule.level):
                return None
            others.append((rule.flags_header, copy_flags.encode(flags | copy_flags.flag(rule.level))))
            return others
        record_origin = self.origin_of(offset, found)
        new_flags = self._flags(record_origin)
        if new_flags is None:
            return None
        others.append((rule.flags_header, copy_flags.encode(new_flags)))
        others.append((rule.origin_header, origin.encode(record_origin)))
        return others

    def would_copy(self, offset: int, headers: Sequence[Header] | None) -> bool:
        """Return whether `copy` would make a copy, without changing state. Raises UnknownOrigin."""
        seen, covered, unreadable = dict(self.seen), dict(self.covered), self.unreadable_flags
        try:
            return self.copy(offset, headers) is not None
        finally:
            self.seen, self.covered, self.unreadable_flags = seen, covered, unreadable

    def _flags(self, record_origin: Origin) -> int | None:
        """Return the flags of the copy; None if the edge is off the route, or the target has the record."""
        flags = self.routes.get(record_origin.cluster)
        reached = (record_origin.incarnation, record_origin.offset)
        if flags is None or reached <= self.covered.get(record_origin.cluster, _NOTHING):
            return None
        self.covered[record_origin.cluster] = reached
        return flags

    def mark(self, position: int) -> Mark:
        """Return the mark of `position`, which must be that of the record after the last decided one."""
        return Mark(incarnation_at(self.incarnations, position), self.target_incarnation, self.seen, self.covered)

    def metadata(self, position: int) -> str:
        """Return `mark` encoded as offset metadata."""
        return encode_metadata(self.mark(position))
