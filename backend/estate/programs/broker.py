"""One Kafka broker of the local estate, in KRaft mode: its settings file and its command line.

Brokers of the estate file are combined nodes: each is also a controller of its cluster's quorum. The quorum is
static, so a broker that is added later is a broker only, and follows it.
Listeners: CLIENT (advertised to clients; behind the proxy if the estate says so), INTERNAL (between brokers, never
through the proxy, so that cutting the proxy cuts off clients only), CONTROLLER.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from backend.estate.document import ClusterSpec
from backend.estate.processes import ProcessSpec, Ready, write_private
from backend.estate.programs.heap import LEAST_MB
from backend.estate.programs.jars import JVM_OPTIONS, TOOL_HEAP, classpath, java

CONTROL_PLANE_USER = "treeline"
STARTED = "Kafka Server started"


@dataclass(frozen=True, kw_only=True)
class BrokerPorts:
    """Ports of one broker on its host; `advertised` is the proxy's, or the same as `client`.

    `controller` is None for a broker that is no controller.
    """

    client: int
    advertised: int
    internal: int
    controller: int | None
    host: str = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class AddedBroker:
    """A broker beyond those of the estate file, added while the estate ran; `zone` is its rack."""

    cluster: str
    node: int
    zone: str
    ports: BrokerPorts

    @property
    def process(self) -> str:
        """Return its name among the estate's processes."""
        return process_name(self.cluster, self.node)


def process_name(cluster: str, node: int) -> str:
    """Return the name of a broker among the estate's processes."""
    return f"kafka:{cluster}:{node}"


@dataclass(frozen=True, kw_only=True)
class Broker:
    """One broker of one cluster; `password` is the control plane's if the cluster uses SASL."""

    cluster: ClusterSpec
    node: int  # from 1
    ports: tuple[BrokerPorts, ...]  # of the cluster's brokers in the estate file, which are its controllers
    folder: Path
    password: str
    heap_mb: int = LEAST_MB
    added: AddedBroker | None = None  # this broker, if it is not in the estate file

    @property
    def name(self) -> str:
        return process_name(self.cluster.name, self.node)

    def process(self, *, jars: Path, archive: Path | None, log: Path, after: list[str]) -> ProcessSpec:
        """Write the settings and return the command line; the storage is formatted at the first start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        write_private(properties, self.properties())
        formatting = self.folder / "format.arguments"
        write_private(formatting, self._format_arguments(properties))
        shared = [f"-XX:SharedArchiveFile={archive}"] if archive else []
        launcher = " ".join(quote(word) for word in [java(), *JVM_OPTIONS, *shared])
        # The arguments of the formatting hold a password, so they go by file, which the launcher reads.
        script = (
            f"[ -f {quote(str(self.folder / 'data' / 'meta.properties'))} ]"
            f" || {launcher} {TOOL_HEAP} @{quote(str(formatting))} || exit 1;"
            f" exec {launcher} -Xmx{self.heap_mb}m kafka.Kafka {quote(str(properties))}"
        )
        return ProcessSpec(
            name=self.name,
            argv=["/bin/sh", "-c", script],
            environment={"CLASSPATH": classpath(jars), "MALLOC_ARENA_MAX": "2"},
            directory=str(self.folder),
            log=str(log),
            ready=Ready(kind="log_line", text=STARTED),
            after=after,
            stop_seconds=10.0,
            group=1,
            if_out_of_memory=f"heap {self.heap_mb} MB; raise `heap_mb` of {self.cluster.name} in the estate file",
        )

    def properties(self) -> str:
        """Return the text of server.properties."""
        cluster = self.cluster
        mine = self.added.ports if self.added else self.ports[self.node - 1]
        zone = self.added.zone if self.added else cluster.zones[self.node - 1]
        secured = cluster.sasl is not None
        internal_copies = min(3, cluster.brokers)
        voters = [f"{n}@{ports.host}:{ports.controller}" for n, ports in enumerate(self.ports, start=1)]
        listeners = [f"CLIENT://{mine.host}:{mine.client}", f"INTERNAL://{mine.host}:{mine.internal}"]
        if mine.controller is not None:
            listeners.append(f"CONTROLLER://{mine.host}:{mine.controller}")
        settings = {
            "node.id": self.node,
            "controller.quorum.voters": ",".join(voters),
            "listeners": ",".join(listeners),
            "advertised.listeners": f"CLIENT://{mine.host}:{mine.advertised},INTERNAL://{mine.host}:{mine.internal}",
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                f"{listener}:{'SASL_PLAINTEXT' if secured else 'PLAINTEXT'}"
                for listener in ("CLIENT", "INTERNAL", "CONTROLLER")
            ),
            "log.dirs": self.folder / "data",
            "broker.rack": zone,
            "offsets.topic.replication.factor": internal_copies,
            "transaction.state.log.replication.factor": internal_copies,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": internal_copies,
            "share.coordinator.state.topic.min.isr": 1,
            "replica.lag.time.max.ms": cluster.replica_lag_time_max_ms,
            **COMMON,
            # By default a controller writes an empty record twice a second, a fifth of what an idle broker takes.
            # With several controllers, it tells them sooner that the record before it is committed.
            **({"metadata.max.idle.interval.ms": 5000} if cluster.brokers == 1 else {}),
            **({} if self.added is None else {"process.roles": "broker"}),
            **(self._security() if secured else {}),
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _security(self) -> dict[str, object]:
        """Return the settings of SCRAM for clients and between brokers, and of PLAIN for controllers.

        Controllers cannot use SCRAM: its users live in the metadata that the controllers must first agree on.
        """
        scram, plain = (
            "org.apache.kafka.common.security.scram.ScramLoginModule",
            ("org.apache.kafka.common.security.plain.PlainLoginModule"),
        )
        login = f'required username="{CONTROL_PLANE_USER}" password="{self.password}"'
        mechanism = self.cluster.sasl or ""
        settings: dict[str, object] = {
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.inter.broker.protocol": mechanism,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f"{plain} {login} "
            f'user_{CONTROL_PLANE_USER}="{self.password}";',
        }
        for listener in ("client", "internal"):
            settings[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = f"{scram} {login};"
        if self.cluster.acls:
            settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            settings["super.users"] = f"User:{CONTROL_PLANE_USER}"
            settings["allow.everyone.if.no.acl.found"] = "false"
        return settings

    def _format_arguments(self, properties: Path) -> str:
        words = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "--cluster-id",
                 kafka_cluster_id(self.folder.parent), "--config", str(properties)]  # fmt: skip
        # The control plane's user reaches an added broker with the cluster's metadata.
        if self.cluster.sasl and self.added is None:
            user = f"name={CONTROL_PLANE_USER},password={self.password}"
            words += ["--add-scram", f"{self.cluster.sasl}=[{user}]"]
        return "".join(f'"{word}"\n' for word in words)


COMMON: dict[str, object] = {
    "process.roles": "broker,controller",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 1,
    # A laptop that sleeps over the holidays must not lose the positions of groups and distributors.
    "offsets.retention.minutes": 60 * 24 * 90,
    "transactional.id.expiration.ms": 2**31 - 1,  # 24 days, the maximum
    # A killed broker can come back only when its old session has expired; the default is 9 s.
    "broker.session.timeout.ms": 5000,
    "broker.heartbeat.interval.ms": 1000,
    # The default of 128 MiB is more than this heap can spare.
    "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "num.recovery.threads.per.data.dir": 1,
    "controlled.shutdown.max.retries": 1,
}


def kafka_cluster_id(folder: Path) -> str:
    """Return the cluster's id, drawn once and stored beside its data."""
    path = folder / "kafka-cluster-id"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        drawn = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        # The first character of a word must not look like an option to the formatting tool.
        write_private(path, drawn if not drawn.startswith("-") else "A" + drawn[1:])
    return path.read_text().strip()


def training_properties(data: Path, client: int, controller: int) -> str:
    """Return the settings of a throwaway broker, whose classes go into the archive."""
    settings = {
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"CLIENT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "offsets.topic.replication.factor": 1,
        **COMMON,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
