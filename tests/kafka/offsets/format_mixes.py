"""Mixes of different formats per cluster: streams, groups and schemas taken all the way through them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import assume
from hypothesis import strategies as st

from backend.domain.base.errors import DomainError
from backend.domain.names.formats import ClusterFormats, check_deployment
from backend.domain.names.names import ApplicationName, StreamName
from backend.domain.offsets.application_groups import ClusterGroups, check_joining
from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.estate.groups import Groups, numbered, of_stream
from tests.support.kafka.topics import topics
from tests.support.schemas.registries import Registries
from tests.support.schemas.written_log import avro

Formats = Mapping[str, str]
"""topic_format, group_format, subject_format -> the format."""
KINDS = {"topic_format": "topic", "group_format": "group", "subject_format": "topic"}
SCOPE = ("tenant", "instance", "environment")
GROUP = "g.A-1"
RECORDS, READ = 5, 2


@dataclass(frozen=True)
class Mix:
    """A drawn example: each cluster's formats, streams valid under all of them, and the producing clusters."""

    formats: Mapping[str, Formats]
    streams: tuple[StreamName, ...]
    origin: str


@st.composite
def formats(draw: st.DrawFn, part: str) -> str:
    """Draw any order of any parts, with anything that Kafka allows around and between them, or nothing."""
    parts = draw(st.permutations([*draw(st.sets(st.sampled_from(SCOPE))), part]))
    between = st.sampled_from(("-", ".", "_", "--", "-x-", ""))
    text = draw(st.sampled_from(("", "dc1.", "K_", "-")))
    for number, each in enumerate(parts):
        text += f"{draw(between) if number else ''}{{{each}}}"
    return text + draw(st.sampled_from(("", ".v1", "_", "-prod")))


@st.composite
def mixes(draw: st.DrawFn, clusters: tuple[str, ...]) -> Mix:
    """Draw formats by which no two of the streams, and no two groups, collide on any cluster."""
    # Names that contain separators, so that cutting names apart instead of looking them up fails.
    names = st.sampled_from(("a", "b", "a-b", "b_a", "a.x", "prod"))
    streams = draw(st.sets(st.builds(StreamName, names, names, names, names), min_size=2, max_size=3))
    drawn = {cluster: {kind: draw(formats(part)) for kind, part in KINDS.items()} for cluster in clusters}
    assume(all(_all_can_be_had(streams, each) for each in drawn.values()))
    assume(len({tuple(each.items()) for each in drawn.values()}) == len(clusters))
    return Mix(drawn, tuple(sorted(streams)), draw(st.sampled_from(clusters)))


def _all_can_be_had(streams: set[StreamName], of: Formats) -> bool:
    groups = [(application, GROUP) for application in {_application(stream) for stream in streams}]
    try:
        check_deployment(streams, ClusterFormats("c", of["topic_format"], of["subject_format"]), "")
        check_joining(groups, ClusterGroups("c", of["group_format"]), "")
    except DomainError:
        return False
    return True


def _application(stream: StreamName) -> ApplicationName:
    return ApplicationName(stream.tenant, stream.instance, stream.environment, "reader")


def rendered(text: str, stream: StreamName, name: str) -> str:
    """Render a name with a format by plain replacement, as a reference."""
    words = {"tenant": stream.tenant, "instance": stream.instance, "environment": stream.environment}
    for part, word in {**words, "topic": name, "group": name}.items():
        text = text.replace(f"{{{part}}}", word)
    return text


class Whole:
    """All steps of some streams' way through an estate."""

    def __init__(self, rest: RestClient, servers: Mapping[str, str], registries: Registries) -> None:
        self._rest = rest
        self._servers = servers
        self._registries = registries
        rows = rest.ok("GET", "/clusters")["items"]
        self._formats = {row["name"]: {kind: row[kind] for kind in KINDS} for row in rows}

    def holds(self, streams: tuple[StreamName, ...], origin: str) -> None:
        """Check that records, commits and schemas of one cluster are on the others under their names."""
        try:
            self._declare(streams)
            ids = [self._register(stream) for stream in streams]
            groups = [self._read(stream, origin) for stream in streams]
            for each in groups:
                self._went_on(each, origin)
            for stream, schema_id in zip(streams, ids, strict=True):
                self._is_readable(stream, schema_id)
        finally:
            self._clear(streams)

    def _declare(self, streams: tuple[StreamName, ...]) -> None:
        for stream in streams:
            tenant, instance, environment = (stream.tenant, stream.instance, stream.environment)
            # Streams of an earlier mix stay.
            self._rest("POST", "/tenants", {"name": tenant})
            self._rest("POST", f"/tenants/{tenant}/instances", {"name": instance})
            path = f"/tenants/{tenant}/instances/{instance}/environments"
            self._rest("POST", path, {"name": environment, "offset_mode": "exact", "margin_seconds": 0})
            # The topics of an earlier mix must be gone first.
            until_allowed(self._rest, "POST", f"{_place(stream)}/streams", {"name": stream.stream})
        for stream in streams:
            path = f"{_place(stream)}/applications"
            consumes = [str(each) for each in streams if _application(each) == _application(stream)]
            if consumes[0] == str(stream):
                body = {"name": "reader", "groups": [GROUP], "consumes": consumes}
                found = self._rest.ok("POST", path, body)["technical_groups"]
                assert found == {
                    cluster: [self._name(cluster, "group_format", stream, GROUP)] for cluster in found
                }
                assert found.keys() == self._servers.keys()

    def _name(self, cluster: str, kind: str, stream: StreamName, name: str) -> str:
        return rendered(self._formats[cluster][kind], stream, name)

    def _subject(self, cluster: str, stream: StreamName) -> str:
        return f"{self._name(cluster, 'subject_format', stream, stream.stream)}-value"

    def _register(self, stream: StreamName) -> int:
        return self._registries.register(self._subject(self._registries.primary, stream), _schema(stream))

    def _read(self, stream: StreamName, origin: str) -> Groups:
        """Produce on the origin, and commit there when the records are on all clusters."""
        place = (stream.tenant, stream.instance, stream.environment, stream.stream)
        groups = of_stream(self._rest, self._servers, place).another(GROUP)
        expected = {
            cluster: self._name(cluster, "topic_format", stream, stream.stream) for cluster in self._servers
        }
        assert groups.topics == expected
        for cluster, topic in expected.items():
            eventually(lambda c=cluster, t=topic: t in topics(self._servers[c]), f"{topic} is on {cluster}")
            assert groups.name(cluster) == self._name(cluster, "group_format", stream, GROUP)
        groups.produce(origin, _values(stream))
        groups.wait_for(RECORDS)
        groups.commit(origin, READ)
        return groups

    def _went_on(self, groups: Groups, origin: str) -> None:
        groups.until_applied(origin, READ)
        values = _values(StreamName(*groups.place))
        for cluster in self._servers:
            assert [value for _, value in groups.log(cluster)] == values
            assert groups.next_value(cluster) == values[READ]

    def _is_readable(self, stream: StreamName, schema_id: int) -> None:
        for cluster in self._servers:
            there = self._registries.wait_for_id(cluster, self._subject(cluster, stream), schema_id)
            assert there.schema.schema_str == _schema(stream)
            assert self._registries.client(cluster).get_schema(schema_id).schema_str == _schema(stream)

    def _clear(self, streams: tuple[StreamName, ...]) -> None:
        """Delete the streams, so that the formats can be changed again."""
        registry = self._registries.addresses[self._registries.primary]
        for stream in streams:
            for permanent in ("false", "true"):
                subject = self._subject(self._registries.primary, stream)
                registry("DELETE", f"/subjects/{subject}?permanent={permanent}")
            self._rest("DELETE", f"{_place(stream)}/applications/reader")
            self._rest("DELETE", f"{_place(stream)}/streams/{stream.stream}?confirm={stream}")


def set_formats(rest: RestClient, formats: Mapping[str, Formats]) -> None:
    """Set the formats, once no name depends on the earlier ones."""
    for cluster, of in formats.items():
        until_allowed(rest, "PATCH", f"/clusters/{cluster}", dict(of))


def until_allowed(rest: RestClient, method: str, path: str, body: Mapping[str, str]) -> None:
    """Retry until the present state no longer forbids the request."""

    def done() -> bool:
        answer = rest(method, path, dict(body))
        assert answer.status_code in (200, 201, 409), f"{path}: {answer.text}"
        return answer.is_success

    eventually(done, f"{method} {path}", 0.2)


def _place(stream: StreamName) -> str:
    return f"/tenants/{stream.tenant}/instances/{stream.instance}/environments/{stream.environment}"


def _values(stream: StreamName) -> list[str]:
    return [f"{stream} {value}" for value in numbered(RECORDS)]


def _schema(stream: StreamName) -> str:
    # Each has a schema of its own, so that no two have the same id.
    letters = "".join(each if each.isalnum() else f"x{ord(each)}" for each in str(stream))
    return avro("a", name=f"R{letters}")
