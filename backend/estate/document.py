"""The estate file: clusters, one tree, tenants.

`read_estate(path)` returns an `Estate` or raises `EstateInvalid` with every wrong place of the file
(`clusters.cluster-4.topic_format: ...`), before anything is started. Source: the contract's "Estate file".
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from backend.estate.document_rules import broken_rules, dotted
from backend.estate.document_sections import ClusterSection, EstateFile, TenantSection
from backend.yaml_files import YamlInvalid, load_yaml


class EstateInvalid(ValueError):
    """The estate file is invalid; `places` holds (place, what is wrong there)."""

    def __init__(self, path: Path, places: list[tuple[str, str]]) -> None:
        self.path = path
        self.places = places
        lines = [f"{path}: {place}: {detail}" if place else f"{path}: {detail}" for place, detail in places]
        super().__init__("\n".join(lines))


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """One Kafka cluster of the estate; `zones` has one entry per broker (its rack)."""

    name: str
    brokers: int
    zone: str
    zones: tuple[str, ...]
    topic_format: str
    group_format: str
    subject_format: str
    sasl: str | None
    acls: bool
    via_proxy: bool
    replica_lag_time_max_ms: int = 30_000
    """Milliseconds that a follower may be behind and stay in sync; Kafka's own default."""
    heap_mb: int | None = None
    """Maximum heap of each broker; None: by the machine's memory and what is declared (`heap.py`)."""


@dataclass(frozen=True, kw_only=True)
class Estate:
    """A whole estate; clusters in the file's order, which is the order of their numbers.

    `document` is the file's content: written as JSON it is read as the same estate again.
    """

    name: str
    primary: str
    clusters: tuple[ClusterSpec, ...]
    tree: dict[str, Any]
    tenants: dict[str, TenantSection]
    digest: str
    document: dict[str, Any]
    zones: bool = False
    """True if the zone router runs, with a node in each zone."""

    def cluster(self, name: str) -> ClusterSpec | None:
        """Return the cluster of this name, if the estate has one."""
        return next((cluster for cluster in self.clusters if cluster.name == name), None)


def read_estate(path: Path) -> Estate:
    """Parse and check the file; raises EstateInvalid."""
    try:
        text = path.read_text()
    except OSError as error:
        raise EstateInvalid(path, [("", f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise EstateInvalid(path, [("", "is not UTF-8 text")]) from error
    try:
        document = load_yaml(text, keys_are_text=True)
    except YamlInvalid as error:
        raise EstateInvalid(path, [(error.place, error.detail)]) from error
    if not isinstance(document, dict):
        raise EstateInvalid(path, [("", "is not a mapping with name, primary, clusters and tree")])
    try:
        parsed = EstateFile.model_validate(document)
    except ValidationError as error:
        raise EstateInvalid(path, [_place(dict(found)) for found in error.errors()]) from error
    if places := broken_rules(parsed):
        raise EstateInvalid(path, places)
    return Estate(
        name=parsed.name,
        primary=parsed.primary,
        clusters=tuple(_cluster(name, section) for name, section in parsed.clusters.items()),
        tree=parsed.tree,
        tenants=parsed.tenants,
        digest=hashlib.sha256(json.dumps(document).encode()).hexdigest(),
        document=document,
        zones=parsed.zones,
    )


def _cluster(name: str, section: ClusterSection) -> ClusterSpec:
    zones = tuple(section.zones or [section.zone or "az1"] * section.brokers)
    return ClusterSpec(
        name=name,
        brokers=section.brokers,
        zone=section.zone or zones[0],
        zones=zones,
        topic_format=section.topic_format,
        group_format=section.group_format,
        subject_format=section.subject_format,
        sasl=section.security.sasl if section.security else None,
        acls=section.security.acls if section.security else False,
        via_proxy=section.listeners_via_proxy,
        replica_lag_time_max_ms=section.replica_lag_time_max_ms,
        heap_mb=section.heap_mb,
    )


def _place(error: dict[str, Any]) -> tuple[str, str]:
    details = {"extra_forbidden": "is not an option here", "missing": "is missing"}
    given = error["input"]
    detail = details.get(error["type"]) or f"{error['msg'][0].lower()}{error['msg'][1:]}, not {given!r}"
    return dotted("/".join(str(part) for part in error["loc"])), detail
