"""Technical names of applications' groups on each cluster; no two applications share a group on a cluster.

A consumer that joins another application's group takes partitions away from it, so a technical group belongs to
one application. Formats may leave out parts, so groups of different environments can collide as streams can
(`formats.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.domain.base.errors import FieldError, FormatInvalid, NameInvalid, TechnicalNameTaken
from backend.domain.names.formats import group_problem
from backend.domain.names.names import ApplicationName, check_group_name
from backend.domain.offsets.group_directory import technical_group


@dataclass(frozen=True)
class ClusterGroups:
    """A cluster with the format that makes technical groups on it."""

    cluster: str
    group_format: str

    def technical(self, name: ApplicationName, group: str) -> str:
        """Return the technical name of an application's group on this cluster."""
        return technical_group(self.group_format, name, group)


def check_groups(
    name: ApplicationName,
    groups: Mapping[str, str],
    clusters: Iterable[ClusterGroups],
    taken: Mapping[tuple[str, str], ApplicationName],
) -> None:
    """Raise unless each group (-> JSON pointer into the request) is legal and free on every cluster.

    `taken` maps (cluster, technical group) to the application that has it. Raises NameInvalid, TechnicalNameTaken.
    """
    for group, pointer in groups.items():
        check_group_name(group, pointer)
    for of in clusters:
        for group, pointer in groups.items():
            technical = of.technical(name, group)
            problem = group_problem(technical)
            if problem:
                detail = f"{group} of {name} would be group {technical[:300]!r} on {of.cluster}: {problem}"
                raise NameInvalid(detail, (FieldError(pointer, detail),))
            other = taken.get((of.cluster, technical))
            if other is not None and other != name:
                # A caller may belong to one tenant only, and must not learn what another tenant has.
                shown = str(other) if other.tenant == name.tenant else "an application of another tenant"
                raise _taken(name, shown, technical, of.cluster, pointer)


def check_joining(groups: Iterable[tuple[ApplicationName, str]], of: ClusterGroups, pointer: str) -> None:
    """Raise unless all (application, group) pairs are legal and distinct on a cluster that is about to get them.

    `pointer` is the JSON pointer to the field of the request that adds the cluster or changes its format. Raises
    TechnicalNameTaken, FormatInvalid.
    """
    seen: dict[str, ApplicationName] = {}
    for name, group in groups:
        technical = of.technical(name, group)
        problem = group_problem(technical)
        if problem:
            detail = f"{group} of {name} would be group {technical[:300]!r} on {of.cluster}: {problem}"
            raise FormatInvalid(detail, (FieldError(pointer, detail),))
        other = seen.setdefault(technical, name)
        if other != name:
            raise _taken(name, str(other), technical, of.cluster, pointer)


def _taken(name: ApplicationName, other: str, group: str, cluster: str, pointer: str) -> TechnicalNameTaken:
    detail = f"{name} and {other} would both have group {group!r} on {cluster}"
    return TechnicalNameTaken(detail, (FieldError(pointer, detail),))
