"""The registries of an estate's clusters as stock clients see them, and strangers that write past them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from backend.registry.records import Record, encode
from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import produce
from tests.support.schemas.addresses import TOPIC, Address

TRY_AGAIN = (50001, 50002)


@dataclass(frozen=True)
class Registries:
    """Registries of one estate; the clusters' formats are read from it."""

    rest: RestClient
    addresses: dict[str, Address]
    formats: dict[str, str]
    servers: dict[str, str]

    @classmethod
    def of(cls, estate: RunningEstate) -> Registries:
        status = estate.status()
        rest = RestClient(status["control_plane"], status["admin_token"])
        rows = rest.ok("GET", "/clusters")["items"]
        return cls(
            rest=rest,
            addresses={name: Address(row["registry"]) for name, row in status["clusters"].items()},
            formats={row["name"]: row["subject_format"] for row in rows},
            servers={name: row["bootstrap_servers"] for name, row in status["clusters"].items()},
        )

    @property
    def primary(self) -> str:
        found: str = self.rest.ok("GET", "/trees/main")["primary_cluster"]
        return found

    @property
    def targets(self) -> list[str]:
        return sorted(self.addresses.keys() - {self.primary})

    def client(self, cluster: str) -> SchemaRegistryClient:
        return self.addresses[cluster].client()

    def subject(self, cluster: str, topic: str, suffix: str) -> str:
        """Return the name of a subject of acme/retail/prod on a cluster."""
        name = self.formats[cluster].format(tenant="acme", instance="retail", environment="prod", topic=topic)
        return f"{name}-{suffix}"

    def register(self, subject: str, text: str, references: list[Any] | None = None) -> int:
        """On the primary, as often as it says that it could not yet: a busy machine does not answer in time."""
        schema = Schema(text, "AVRO", references or [])

        def registered() -> int | None:
            try:
                found: int = self.client(self.primary).register_schema(subject, schema)
            except SchemaRegistryError as error:
                if error.error_code not in TRY_AGAIN:
                    raise
                return None
            return found

        return eventually(registered, f"{subject} is registered")

    def versions(self, cluster: str, subject: str, *, deleted: bool = False) -> list[int]:
        """Return a subject's versions; an empty list if there are none."""
        answer = self.addresses[cluster]("GET", f"/subjects/{subject}/versions?deleted={str(deleted).lower()}")
        found: list[int] = answer.json() if answer.is_success else []
        return found

    def wait_for_id(self, cluster: str, subject: str, schema_id: int) -> Any:
        """The latest version of a subject on a cluster, once it has this id."""

        def look() -> Any:
            try:
                found = self.client(cluster).get_latest_version(subject)
            except SchemaRegistryError:
                return None
            return found if found.schema_id == schema_id else None

        return eventually(look, f"{subject} has id {schema_id} on {cluster}")

    def everything(self, cluster: str) -> dict[tuple[str, int], int]:
        """(subject on the primary of cluster-1's format, version) -> id of all that a cluster has."""
        found = self.addresses[cluster].get("/schemas?deleted=true")
        return {(each["subject"], each["version"]): each["id"] for each in found}

    def strangers(self, cluster: str, *records: Record) -> None:
        """Write past the registry, as another one on the same topic would."""
        pairs = map(encode, records)
        produce(self.servers[cluster], TOPIC, [{"key": key, "value": value} for key, value in pairs])

    def conflicts(self, cluster: str, subject: str) -> list[tuple[str, str]]:
        """(name of the event, kind) of all events about a subject on a target, the oldest first."""
        found, after = [], 0
        while True:
            page = self.rest.ok("GET", f"/events?after={after}&limit=500")["items"]
            if not page:
                return found
            after = page[-1]["position"]
            found += [
                (row["name"], row["data"]["kind"])
                for row in page
                if row["stream"] == f"schemas-{cluster}" and row["data"]["subject"] == subject
            ]

    def target_state(self, cluster: str) -> dict[str, Any] | None:
        """Return the distributor's report of a target."""
        rows = self.rest.ok("GET", "/schemas/targets")["items"]
        return next((row for row in rows if row["cluster"] == cluster), None)
