"""Groups as applications see them: their commits, their offsets, and the record that they read next."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.domain.offsets.offset_map import GroupPartition
from backend.settings import Settings
from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.kafka.topics import DEADLINE_SECONDS, configure, produce, read_all

MAP_TOPIC = Settings().offsets_topic
RETAIL = "/tenants/acme/instances/retail/environments"


def numbered(count: int, first: int = 0) -> list[str]:
    """Return values that sort in their numeric order."""
    return [f"r{number:04}" for number in range(first, first + count)]


@dataclass
class Groups:
    """A group on one stream, on all clusters."""

    rest: RestClient
    servers: Mapping[str, str]
    topics: Mapping[str, str]
    place: tuple[str, str, str, str]
    formats: Mapping[str, str]
    """Group formats by cluster."""
    group: str = field(default_factory=lambda: f"g{secrets.token_hex(4)}")
    _whole: dict[str, list[Message]] = field(default_factory=dict)
    """Logs that have everything that was produced."""
    _admins: dict[str, AdminClient] = field(default_factory=dict)

    @property
    def stream(self) -> str:
        return "/".join(self.place)

    def delete(self) -> None:
        """Delete the stream with its topics."""
        self.rest("DELETE", f"{path_of(self.place)}?confirm={self.stream}")

    def name(self, cluster: str) -> str:
        """Return the group's name on a cluster."""
        tenant, instance, environment, _ = self.place
        words = {"tenant": tenant, "instance": instance, "environment": environment, "group": self.group}
        return self.formats[cluster].format(**words)

    def another(self, name: str | None = None) -> Groups:
        """Return another group that reads the same stream."""
        return replace(self, group=name or f"g{secrets.token_hex(4)}")

    def forget(self) -> None:
        """Forget the logs, which are different ones now."""
        self._whole.clear()

    def produce(self, cluster: str, values: list[str], partition: int = 0, **more: Any) -> None:
        self._whole.clear()
        records = [{"value": value.encode(), "partition": partition, **more} for value in values]
        produce(self.servers[cluster], self.topics[cluster], records)

    def wait_for(self, count: int, *clusters: str) -> None:
        """Wait until each cluster has `count` records."""
        for cluster in clusters or self.servers:

            def whole(cluster: str = cluster) -> list[Message] | None:
                found = read_all(self.servers[cluster], self.topics[cluster])
                return found if len(found) >= count else None

            self._whole[cluster] = eventually(whole, f"{count} records are on {cluster}", 0.3)

    def messages(self, cluster: str, partition: int = 0) -> list[Message]:
        """Return all records."""
        found = self._whole.get(cluster) or read_all(self.servers[cluster], self.topics[cluster])
        return [message for message in found if message.partition() == partition]

    def log(self, cluster: str, partition: int = 0) -> list[tuple[int, str]]:
        """Return (offset, value) of all records."""
        return [(m.offset(), (m.value() or b"").decode()) for m in self.messages(cluster, partition)]

    def offset_of(self, cluster: str, value: str, partition: int = 0) -> int:
        return next(offset for offset, found in self.log(cluster, partition) if found == value)

    def configure(self, cluster: str, config: Mapping[str, str]) -> None:
        """Set some of the topic's configuration on a cluster."""
        configure(self.servers[cluster], self.topics[cluster], config)

    def pause(self, cluster: str, wanted: bool, level: int | None = None) -> None:
        """Pause or resume the distributors that read a cluster (at a level); wait until all are paused."""

        def mine() -> list[dict[str, Any]]:
            rows = self.rest.ok("GET", "/trees/main/distributors")
            return [row for row in rows if row["cluster"] == cluster and level in (None, row["level"])]

        for row in mine():
            self.rest.ok("PATCH", f"/trees/main/distributors/{cluster}/{row['level']}", {"paused": wanted})

        def all_paused() -> bool:
            # As long as there is a lag, some tasks have not seen the pause.
            return all(row["state"] == "paused" and row["lag_records"] is not None for row in mine())

        if wanted:
            eventually(all_paused, f"{cluster} is paused")

    def consumer(self, cluster: str, **config: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.servers[cluster],
                "group.id": self.name(cluster),
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **config,
            }
        )

    def commit(self, cluster: str, offset: int, partition: int = 0, metadata: str = "") -> None:
        """Commit as a consumer without members does."""
        consumer = self.consumer(cluster)
        at = TopicPartition(self.topics[cluster], partition, offset, metadata)
        consumer.commit(offsets=[at], asynchronous=False)
        consumer.close()

    def go_on_at(self, cluster: str, value: str) -> int:
        """Commit before this record, and wait until that is applied on all other clusters; return the offset."""
        at = self.offset_of(cluster, value)
        self.commit(cluster, at)
        self.until_applied(cluster, at)
        return at

    def delete_group(self, cluster: str) -> None:
        """Delete the group on a cluster, as an operator does."""
        (gone,) = self._admin(cluster).delete_consumer_groups([self.name(cluster)]).values()
        gone.result(DEADLINE_SECONDS)

    def _admin(self, cluster: str) -> AdminClient:
        if cluster not in self._admins:
            self._admins[cluster] = AdminClient({"bootstrap.servers": self.servers[cluster]})
        return self._admins[cluster]

    def stands(self, cluster: str, partition: int = 0) -> tuple[int, str]:
        """Return (offset, metadata) of the group; -1001 if there is none."""
        wanted = ConsumerGroupTopicPartitions(
            self.name(cluster), [TopicPartition(self.topics[cluster], partition)]
        )
        (answer,) = self._admin(cluster).list_consumer_group_offsets([wanted]).values()
        (found,) = answer.result(DEADLINE_SECONDS).topic_partitions
        return found.offset, found.metadata or ""

    def next_value(self, cluster: str, partition: int = 0) -> str | None:
        """Return the first record that the group reads when it continues there; None at the end."""
        offset, _ = self.stands(cluster, partition)
        return next((value for at, value in self.log(cluster, partition) if at >= offset >= 0), None)

    def shown(self, cluster: str, partition: int = 0) -> dict[str, Any] | None:
        """Return the group's commit on a cluster, as GET /offsets shows it."""
        items = self.rest.ok("GET", f"/offsets?cluster={cluster}&group={quote(self.group, safe='')}")["items"]
        wanted = dict(zip(("tenant", "instance", "environment", "stream"), self.place, strict=True))
        wanted["partition"] = partition
        return next((item for item in items if wanted.items() <= item.items()), None)

    def applied(self, origin: str, cluster: str, partition: int = 0) -> dict[str, Any] | None:
        """Return what a cluster did about the commit made on `origin`."""
        item = self.shown(origin, partition)
        rows = item["elsewhere"] if item else []
        return next((row for row in rows if row["cluster"] == cluster), None)

    def until_applied(
        self, origin: str, offset: int, partition: int = 0, state: str = "applied", *clusters: str
    ) -> dict[str, dict[str, Any]]:
        """Wait until this commit was processed on all or the given other clusters; return results by cluster."""
        others = clusters or tuple(each for each in self.servers if each != origin)

        def look() -> dict[str, dict[str, Any]] | None:
            item = self.shown(origin, partition)
            if item is None or item["committed_offset"] != offset:
                return None
            rows = {row["cluster"]: row for row in item["elsewhere"]}
            good = [
                rows[each]
                for each in others
                if each in rows and rows[each]["state"] == state and (state != "applied" or rows[each]["settled"])
            ]
            return {row["cluster"]: row for row in good} if len(good) == len(others) else None

        try:
            return eventually(look, f"offset {offset} of {origin} is {state} on {others}", 0.2)
        except BaseException:
            print(self.shown(origin, partition))  # noqa: T201 - what the failure's report shows
            raise


def on_a_stream(
    rest: RestClient,
    servers: Mapping[str, str],
    mode: str,
    partitions: int = 1,
    margin_seconds: int = 60,
    **settings: object,
) -> Groups:
    """Create a group on a stream of its own, in a margin or an exact environment of acme/retail."""
    environment, name = f"{mode}-{margin_seconds}", f"o{secrets.token_hex(4)}"
    rest("POST", RETAIL, {"name": environment, "offset_mode": mode, "margin_seconds": margin_seconds})
    path = f"{RETAIL}/{environment}/streams"
    rest.ok("POST", path, {"name": name, "partitions": partitions, **settings})
    eventually(lambda: set(rest.ok("GET", f"{path}/{name}")["applied"].values()) == {"applied"}, "applied", 0.2)
    return of_stream(rest, servers, ("acme", "retail", environment, name))


def of_stream(rest: RestClient, servers: Mapping[str, str], place: tuple[str, str, str, str]) -> Groups:
    """Return a group on an existing stream."""
    topics = rest.ok("GET", path_of(place))["technical_names"]
    formats = {each: rest.ok("GET", f"/clusters/{each}")["group_format"] for each in servers}
    return Groups(rest, servers, topics, place, formats)


def path_of(place: tuple[str, str, str, str]) -> str:
    """Return the stream's path in the API."""
    tenant, instance, environment, stream = place
    return f"/tenants/{tenant}/instances/{instance}/environments/{environment}/streams/{stream}"


def group_partition(groups: Groups, **other: object) -> GroupPartition:
    """Return the group on partition 0."""
    names = zip(("tenant", "instance", "environment", "stream"), groups.place, strict=True)
    return GroupPartition(**{**dict(names), "partition": 0, "group": groups.group, **other})  # type: ignore[arg-type]


Made = Callable[..., Groups]
