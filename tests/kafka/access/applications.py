"""Applications of the tests: declared by REST, and tried by Kafka's own console tools."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.eventually import eventually
from tests.kafka.access.conftest import SCRAM, SECURED, Login
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import RunningEstate
from tests.support.kafka import kafka_tools

LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'
REFUSED = "AuthorizationException"
NOT_LET_IN = "SaslAuthenticationException"


@dataclass(frozen=True)
class Application:
    """One application, as its owner and its clients see it."""

    rest: RestClient
    estate: RunningEstate
    place: str
    """The environment's path, such as acme/retail/prod."""
    name: str

    @property
    def principal(self) -> str:
        return f"{self.place}/{self.name}"

    @property
    def path(self) -> str:
        return f"{environment(self.place)}/applications/{self.name}"

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = self.rest.ok("GET", self.path)
        return found

    def change(self, **fields: Any) -> None:
        self.rest.ok("PATCH", self.path, fields)

    def issue(self) -> Login:
        """Issue a new password."""
        given = self.rest.ok("POST", f"{self.path}/credentials")
        return Login(self.estate, given["username"], given["password"])

    def applied(self, *clusters: str) -> dict[str, Any]:
        """Wait until it is applied on these clusters, or on all; return the application as shown."""

        def look() -> dict[str, Any] | None:
            found = self.shown()
            states = {found["applied"][cluster] for cluster in clusters or found["applied"]}
            return found if states == {"applied"} else None

        return eventually(look, f"{self.principal} applied", 0.2)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The data of its events of one name, the oldest first."""
        found: list[dict[str, Any]] = []
        after = 0
        while items := self.rest.ok("GET", f"/events?after={after}&limit=1000")["items"]:
            after = items[-1]["position"]
            found += [
                e["data"] for e in items if e["name"] == kind and e["stream"] == f"application-{self.principal}"
            ]
        return found

    def drifted(self, found: str, cluster: str) -> None:
        """Wait until the log tells of this drift."""

        def told() -> bool:
            return any(e["cluster"] == cluster and found in e["found"] for e in self.events("ApplicationDrifted"))

        eventually(told, f"the log tells of {found}", 0.3)


def environment(place: str) -> str:
    """Return the API's path of an environment such as acme/retail/prod."""
    tenant, instance, name = place.split("/")
    return f"/tenants/{tenant}/instances/{instance}/environments/{name}"


def declare(rest: RestClient, estate: RunningEstate, place: str, **fields: Any) -> Application:
    """An application of a new name."""
    name = f"a{uuid.uuid4().hex[:8]}"
    rest.ok("POST", f"{environment(place)}/applications", {"name": name, **fields})
    return Application(rest, estate, place, name)


class ConsoleTools:
    """Kafka's console tools as some user of a cluster; answers are all that a tool wrote."""

    def __init__(self, login: Login, cluster: str, folder: Path) -> None:
        self._config = folder / f"{uuid.uuid4().hex}.properties"
        self._config.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={SCRAM}\n"
            f"sasl.jaas.config={LOGIN.format(login.username, login.password)}\n"
            "enable.auto.commit=false\nauto.offset.reset=earliest\n"
        )
        self._servers = ["--bootstrap-server", login.estate.bootstrap_servers(cluster)]

    def produce(self, topic: str, line: str) -> str:
        words = [*self._servers, "--topic", topic, "--producer.config", str(self._config), "--sync"]
        return _said(kafka_tools.run(kafka_tools.PRODUCER, *words, stdin=f"{line}\n"))

    def consume(self, topic: str, group: str, seconds: int = 10, *more: str) -> str:
        """Consume from the beginning until nothing arrives for so long; return the output."""
        words = [*self._servers, "--topic", topic, "--group", group, "--consumer.config", str(self._config), *more]
        return _said(kafka_tools.run(kafka_tools.CONSUMER, *words, "--timeout-ms", f"{seconds}000"))

    def consume_one(self, topic: str, group: str) -> str:
        """The first record that it reads, however long that takes on a busy machine."""
        return self.consume(topic, group, 100, "--max-messages", "1")

    def try_to_consume(self, topic: str, group: str) -> str:
        """Return the output of a consumer that is refused; it ends at once, late only on a busy machine."""
        return self.consume(topic, group, 60)

    def acls(self, principal: str) -> set[str]:
        """Entries of a principal, as `kafka-acls --list` tells them."""
        words = ["--command-config", str(self._config), "--list", "--principal", f"User:{principal}"]
        said = _said(kafka_tools.run(kafka_tools.ACLS, *self._servers, *words))
        found: set[str] = set()
        resource = ""
        for line in said.splitlines():
            if line.startswith("Current ACLs for resource"):
                fields = dict(
                    f.split("=", 1) for f in line.split("ResourcePattern(", 1)[1].split(")")[0].split(", ")
                )
                star = "*" if fields["patternType"] == "PREFIXED" else ""
                resource = f"{fields['resourceType'].lower().replace('_', '-')} {fields['name']}{star}"
            elif f"principal=User:{principal}," in line:
                found.add(f"{resource}: {line.split('operation=')[1].split(',')[0].lower()}")
        return found

    def configs(self, user: str) -> str:
        """Return the output of `kafka-configs --describe` for a user."""
        words = [
            "--command-config",
            str(self._config),
            "--describe",
            "--entity-type",
            "users",
            "--entity-name",
            user,
        ]
        return _said(kafka_tools.run(kafka_tools.CONFIGS, *self._servers, *words))


def _said(done: Any) -> str:
    return str(done.stdout + done.stderr)


def everywhere(look: Callable[[str], bool], what: str) -> None:
    """Wait until it is so on both secured clusters."""
    for cluster in SECURED:
        eventually(lambda c=cluster: look(c), f"{what} on {cluster}", 0.3)
