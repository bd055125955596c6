"""Figures of a stream as pages show them: by cluster, by partition, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request

from backend.cluster_requests.stream_figures import ClusterFigures, FiguresPlace, FiguresReader
from backend.domain.access.access import Action, Caller, may
from backend.domain.topics.stream_figures import PartitionFigures, TopicFigures, findings
from backend.web.words.figures import NOTHING, compact, counted, sized, span

PARTITIONS_A_PAGE = 50
MOST_ROWS = 1_000
"""Rows of the table of partitions on one page, over all clusters."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Sentence on a cluster without figures."""

    cluster: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class ClusterLine:
    """Figures of one cluster in words."""

    cluster: str
    records: int | None
    size: str
    disk: str
    rate: str
    rate_over: str
    """Time over which the rate is the mean; empty: there is no rate yet."""
    newest_ms: int | None
    partitions: int
    in_sync: int
    replicas: int


@dataclass(frozen=True, kw_only=True)
class PartitionLine:
    """A partition on one cluster; None in `row`: the topic has no such partition there."""

    cluster: str
    row: PartitionFigures | None
    size: str


@dataclass(frozen=True, kw_only=True)
class PartitionView:
    """A partition on all clusters that answered."""

    number: int
    lines: Sequence[PartitionLine]
    findings: Sequence[str]
    is_bad: bool
    """True if it cannot be written, or lacks replicas, somewhere."""


@dataclass(frozen=True, kw_only=True)
class FiguresView:
    """Figures of a stream for one viewer."""

    found: Sequence[ClusterFigures]
    sees_brokers: bool
    """True if the viewer may read ids of brokers and the clusters' own words."""
    main: str | None
    """Cluster that the environment's clients use; None: none."""

    @property
    def known(self) -> list[tuple[str, TopicFigures]]:
        """Return the clusters that answered."""
        return [(each.cluster, each.figures) for each in self.found if each.figures is not None]

    @property
    def is_rated(self) -> bool:
        """Return whether some cluster has a rate, which takes two observations."""
        return any(each.rate is not None for each in self.found)

    @property
    def problems(self) -> list[Problem]:
        """Return a sentence for each cluster without figures, and for those without sizes."""
        said = []
        for each in self.found:
            if each.problem:
                why = f": {each.detail}" if each.detail and self.sees_brokers else ""
                said.append(Problem(cluster=each.cluster, sentence=f"{each.problem}{why}."))
            elif each.figures is not None and each.figures.unsized:
                why = f": {each.figures.unsized}" if self.sees_brokers else ""
                said.append(Problem(cluster=each.cluster, sentence=f"Sizes on {each.cluster} are unknown{why}."))
        return said

    @property
    def lines(self) -> list[ClusterLine]:
        """Return a line for each cluster that answered."""
        return [_line(each, each.figures) for each in self.found if each.figures is not None]

    @property
    def first(self) -> ClusterLine | None:
        """Return the line of the cluster that clients use, or else of the first that answered."""
        lines = self.lines
        return next((each for each in lines if each.cluster == self.main), lines[0] if lines else None)

    @property
    def disk(self) -> str:
        """Return the bytes of all replicas on all clusters that report them."""
        known = [figures.disk_bytes for _, figures in self.known if figures.disk_bytes is not None]
        return sized(sum(known)) if known else NOTHING

    @property
    def trouble(self) -> str:
        """Return how many partitions are not in sync; empty if all are."""
        behind = sum(len(figures.partitions) - figures.in_sync for _, figures in self.known)
        return f"{counted(behind, 'partition')} not in sync" if behind else ""

    def partitions(self, first: int, cluster: str = "") -> list[PartitionView]:
        """Return a page of partitions, from number `first` on, of all clusters or of one."""
        known = {
            name: {each.partition: each for each in figures.partitions}
            for name, figures in self.known
            if cluster in ("", name)
        }
        last = min(first + self.a_page(cluster), self.total)
        return [_partition(number, known) for number in range(first, last)]

    def a_page(self, cluster: str = "") -> int:
        """Return the number of partitions on one page, which has a limited number of rows."""
        clusters = 1 if cluster else len(self.known)
        return max(1, min(PARTITIONS_A_PAGE, MOST_ROWS // max(1, clusters)))

    @property
    def total(self) -> int:
        """Return the number of partitions of the topic that has the most."""
        return max((len(figures.partitions) for _, figures in self.known), default=0)


def read_view(
    request: Request,
    caller: Caller,
    stream: str,
    places: Sequence[FiguresPlace],
    main: str | None,
) -> FiguresView:
    """Read the figures from the brokers, for a few seconds at most, and build the view. Raises MessagesBusy."""
    reader: FiguresReader = request.app.state.figures
    sees_brokers = may(caller, Action.READ_ESTATE)
    return FiguresView(found=reader.read(caller.name, stream, places), sees_brokers=sees_brokers, main=main)


def _line(found: ClusterFigures, figures: TopicFigures) -> ClusterLine:
    rate = found.rate
    return ClusterLine(
        cluster=found.cluster,
        records=figures.records,
        size=sized(figures.size_bytes),
        disk=sized(figures.disk_bytes),
        rate=NOTHING if rate is None else f"{compact(rate.records_per_second)}/s",
        rate_over="" if rate is None else span(1000 * rate.over_seconds),
        newest_ms=figures.newest_ms,
        partitions=len(figures.partitions),
        in_sync=figures.in_sync,
        replicas=figures.replication_factor,
    )


def _partition(number: int, known: Mapping[str, Mapping[int, PartitionFigures]]) -> PartitionView:
    rows = {name: partitions.get(number) for name, partitions in known.items()}
    lines = [
        PartitionLine(
            cluster=name,
            row=row,
            size=NOTHING if row is None else sized(row.size_bytes),
        )
        for name, row in rows.items()
    ]
    is_bad = any(row is None or not row.is_in_sync for row in rows.values())
    return PartitionView(number=number, lines=lines, findings=findings(number, rows), is_bad=is_bad)
