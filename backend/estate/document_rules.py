"""Rules of the domain that an estate file must satisfy beyond types, checked before anything is started.

The control plane would refuse the same later, when brokers run already and half of the estate is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from backend.domain.base.errors import DomainError
from backend.domain.names.formats import ClusterFormats, check_deployment, check_format
from backend.domain.names.names import LONGEST_NAME, LONGEST_STREAM, StreamName, check_name
from backend.domain.topics.stream_settings import StreamSettings, check_settings
from backend.domain.tree import tree_shape
from backend.domain.tree.tree import clusters_of
from backend.estate.document_sections import ZONE_NAME, ClusterSection, EstateFile

Place = tuple[str, str]


def broken_rules(file: EstateFile) -> list[Place]:
    """Return (place, what is wrong there) for every broken rule."""
    found: list[Place] = []
    for name, section in file.clusters.items():
        found += _cluster(name, section)
    if file.primary not in file.clusters:
        found.append(("primary", f"{file.primary!r} is not one of the clusters {', '.join(file.clusters)}"))
    elif file.primary not in clusters_of(file.tree):
        found.append(("primary", f"{file.primary!r} is not a leaf of the tree; only a leaf can be the primary"))
    found += _asked("tree", lambda: tree_shape.parse(file.tree, set(file.clusters)))
    for name in file.tenants:
        found += _tenant(file, name)
    # Invalid names would only be reported again for each cluster.
    return found or _shared_technical_names(file)


def dotted(pointer: str) -> str:
    """Convert `tree/children/0/level` to `tree.children[0].level`."""
    parts = [f"[{part}]" if part.isdigit() else f".{part}" for part in pointer.split("/")]
    return "".join(parts).removeprefix(".")


def _asked(place: str, check: Callable[[], object]) -> list[Place]:
    """Run one check of the domain and return its errors, each below `place`."""
    try:
        check()
    except DomainError as error:
        return [(dotted(place + wrong.pointer), wrong.detail) for wrong in error.errors] or [(place, error.detail)]
    return []


def _cluster(name: str, section: ClusterSection) -> list[Place]:
    place = f"clusters.{name}"
    found = _asked(place, lambda: check_name(name, "cluster", pointer=""))
    for zone in section.zones or ([section.zone] if section.zone else []):
        if not ZONE_NAME.fullmatch(zone):
            found.append((f"{place}.zones", f"{zone!r} is not a name of up to 100 letters, digits and . _ -"))
    if section.zones is not None and len(section.zones) != section.brokers:
        count = f"names {len(section.zones)} zones for {section.brokers} brokers; list one zone per broker"
        found.append((f"{place}.zones", count))
    formats = (
        ("/topic_format", section.topic_format, "topic"),
        ("/group_format", section.group_format, "group"),
        ("/subject_format", section.subject_format, "topic"),
    )
    for pointer, text, part in formats:
        found += _asked(place, lambda text=text, part=part, at=pointer: check_format(text, part, at))  # type: ignore[misc]
    return found


def _tenant(file: EstateFile, tenant: str) -> Iterator[Place]:
    def named(name: str, what: str, place: str, longest: int = LONGEST_NAME) -> list[Place]:
        return _asked(place, lambda: check_name(name, what, pointer="", longest=longest))

    place = f"tenants.{tenant}"
    yield from named(tenant, "tenant", place)
    for instance, instance_section in file.tenants[tenant].instances.items():
        at_instance = f"{place}.instances.{instance}"
        yield from named(instance, "instance", at_instance)
        for environment, section in instance_section.environments.items():
            at_environment = f"{at_instance}.environments.{environment}"
            yield from named(environment, "environment", at_environment)
            for stream, options in section.streams.items():
                at_stream = f"{at_environment}.streams.{stream}"
                yield from named(stream, "stream", at_stream, LONGEST_STREAM)
                settings = StreamSettings(**options.model_dump(exclude_none=True))
                yield from _asked(at_stream, lambda s=settings: check_settings(s))  # type: ignore[misc]


def _shared_technical_names(file: EstateFile) -> list[Place]:
    streams = [
        StreamName(tenant, instance, environment, stream)
        for tenant, tenant_section in file.tenants.items()
        for instance, instance_section in tenant_section.instances.items()
        for environment, section in instance_section.environments.items()
        for stream in section.streams
    ]
    found: list[Place] = []
    for name, section in file.clusters.items():
        formats = ClusterFormats(name, section.topic_format, section.subject_format)
        found += _asked(
            f"clusters.{name}",
            lambda f=formats: check_deployment(streams, f, "/topic_format"),  # type: ignore[misc]
        )
    return found
