"""Compares the contents of every cluster with what was produced: sets and sequences, never counts.

Operations: for each send its outcome, `produced(cluster, sequence)` if its cluster acknowledged it, `unknown` if
the outcome is unknown (the record may be there or not), `refused` if it failed or its transaction was aborted;
then `arrived(...)` for each record read on a cluster, partition by partition in log order.

Anomalies looked for, on each cluster and for each origin:
- missing: acknowledged on its origin, not on this cluster;
- doubled: on this cluster more than once, its own origin included;
- out of order: behind a record of the same origin and partition that comes later in the order given;
- wrong flags: not the copy flags that the tree implies for this origin and cluster;
- altered: it differs from what was produced, as determined by the caller, who knows the records;
- invented: never produced, or its send had failed, or its transaction was aborted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from backend.domain.records import copy_flags

MOST_LISTED = 100


@dataclass(frozen=True, slots=True)
class Arrival:
    """One record as found on a cluster; `origin` and `sequence` come from its mark.

    `order` must rise within the cluster, origin and partition. `altered` describes what differs from the record
    that was produced, "" if nothing does.
    """

    origin: str
    sequence: int
    partition: int
    offset: int
    order: int
    flags: int
    altered: str = ""


@dataclass
class ClusterReport:
    """Findings on one cluster; the contract's shape, with more kinds of anomaly."""

    expected: int = 0
    distinct: int = 0
    missing: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    wrong_flags: int = 0
    altered: int = 0
    invented: int = 0
    flags: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool:
        wrong = (self.missing, self.duplicates, self.out_of_order, self.wrong_flags, self.altered, self.invented)
        return not any(wrong)


class Checker:
    """Checker of one run. `flags[origin][cluster]` are the copy flags that the tree implies.

    If the tree changed meanwhile, `former(origin, cluster)` are the flags that it implied before.
    """

    def __init__(
        self,
        flags: Mapping[str, Mapping[str, int]],
        former: Callable[[str, str], Collection[int]] = lambda origin, cluster: (),
    ) -> None:
        self._flags, self._former = flags, former
        self._produced: dict[str, set[int]] = {origin: set() for origin in flags}
        self._unknown: dict[str, set[int]] = {origin: set() for origin in flags}
        self._refused: dict[str, dict[int, str]] = {origin: {} for origin in flags}
        self._found: dict[str, dict[str, set[int]]] = {
            cluster: {origin: set() for origin in flags} for cluster in flags
        }
        self._last: dict[tuple[str, str, int], int] = {}
        self._reports = {cluster: ClusterReport() for cluster in flags}
        self.anomalies: list[str] = []
        """Descriptions of the first anomalies."""

    def produced(self, cluster: str, sequence: int) -> None:
        """Note that the cluster acknowledged the record."""
        self._produced[cluster].add(sequence)

    def unknown(self, cluster: str, sequence: int) -> None:
        """Note that it is unknown if the cluster has the record."""
        self._unknown[cluster].add(sequence)

    def refused(self, cluster: str, sequence: int, why: str) -> None:
        """Note that no cluster may have the record: `why` follows "is visible although"."""
        self._refused[cluster][sequence] = why

    def arrived(self, cluster: str, arrival: Arrival) -> None:
        """Note that the record was read on the cluster."""
        report, origin, sequence = self._reports[cluster], arrival.origin, arrival.sequence
        report.flags[copy_flags.text(arrival.flags)] += 1
        if origin not in self._flags or (
            sequence not in self._produced[origin] and sequence not in self._unknown[origin]
        ):
            report.invented += 1
            why = self._refused.get(origin, {}).get(sequence)
            self._tell(cluster, arrival, f"is visible although {why}" if why else "was never produced")
            return
        found = self._found[cluster][origin]
        if sequence in found:
            report.duplicates += 1
            self._tell(cluster, arrival, "is doubled")
            return
        found.add(sequence)
        if arrival.altered:
            report.altered += 1
            self._tell(cluster, arrival, f"has {arrival.altered}")
        wanted = self._flags[origin][cluster]
        if arrival.flags != wanted and arrival.flags not in self._former(origin, cluster):
            report.wrong_flags += 1
            flags = f"{copy_flags.text(arrival.flags)} instead of {copy_flags.text(wanted)}"
            self._tell(cluster, arrival, f"has flags {flags}")
        place = (cluster, origin, arrival.partition)
        if arrival.order < self._last.get(place, -1):
            report.out_of_order += 1
            self._tell(cluster, arrival, f"is number {arrival.order} and lies behind number {self._last[place]}")
        self._last[place] = max(arrival.order, self._last.get(place, -1))

    def complete(self, cluster: str) -> bool:
        """Return whether everything acknowledged has arrived on the cluster."""
        found = self._found[cluster]
        return all(produced <= found[origin] for origin, produced in self._produced.items())

    def arrivals(self, cluster: str) -> int:
        """Return the number of distinct records that arrived so far."""
        return sum(map(len, self._found[cluster].values()))

    def reports(self) -> dict[str, ClusterReport]:
        """Return the verdict, once every cluster has been read to its end."""
        for cluster, report in self._reports.items():
            report.expected = sum(map(len, self._produced.values()))
            report.distinct = self.arrivals(cluster)
            report.missing = 0
            for origin, produced in self._produced.items():
                lost = sorted(produced - self._found[cluster][origin])
                report.missing += len(lost)
                for sequence in lost[: MOST_LISTED - len(self.anomalies)]:
                    self.anomalies.append(f"{cluster}: record {sequence} of {origin} is missing")
        return self._reports

    def _tell(self, cluster: str, arrival: Arrival, what: str) -> None:
        if len(self.anomalies) < MOST_LISTED:
            where = f"partition {arrival.partition} offset {arrival.offset}"
            self.anomalies.append(f"{cluster}: record {arrival.sequence} of {arrival.origin} at {where} {what}")
