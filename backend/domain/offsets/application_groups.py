"""What the groups of applications are called on clusters, and that no two applications share one there.

Who shares a group with another takes partitions away from it, so a technical group belongs to one application. The
formats may leave out parts, so groups of different environments can meet as streams can (`formats.py`).
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
    """The format of one cluster that makes technical groups."""

    cluster: str
    group_format: str

    def technical(self, name: ApplicationName, group: str) -> str:
        """What a group of an application is called there."""
        return technical_group(self.group_format, name, group)


def check_groups(
    name: ApplicationName,
    groups: Mapping[str, str],
    clusters: Iterable[ClusterGroups],
    taken: Mapping[tuple[str, str], ApplicationName],
) -> None:
    """Raise unless each group (-> its place in the request) is legal everywhere and nobody else's anywhere.

    `taken`: (cluster, technical group) -> the application that has it. Raises NameInvalid, TechnicalNameTaken.
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
                # Who declares an application may be of the one tenant, and must not hear what another one has.
                shown = str(other) if other.tenant == name.tenant else "an application of another tenant"
                raise _taken(name, shown, technical, of.cluster, pointer)


def check_joining(groups: Iterable[tuple[ApplicationName, str]], of: ClusterGroups, pointer: str) -> None:
    """Raise unless all (application, group) are legal on a cluster that is to have them, and nobody else's.

    `pointer` is the place in the request that would do it. Raises TechnicalNameTaken, FormatInvalid.
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
