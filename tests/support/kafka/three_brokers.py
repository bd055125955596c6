"""Three brokers in three racks: those of the local estate, without its control plane."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionMetadata,
    ResourceType,
)

from backend.estate.class_archive import ensure_class_archive
from backend.estate.document import ClusterSpec
from backend.estate.ports import free_ports
from backend.estate.processes import ProcessSpec
from backend.estate.programs.broker import STARTED, Broker, BrokerPorts
from backend.estate.programs.jars import ensure_jars
from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.logs.listed_offsets import listed_offsets
from backend.parent_exit import exit_with_parent
from backend.settings import settings
from tests.eventually import eventually
from tests.support.kafka.topics import DEADLINE_SECONDS

NODES = (1, 2, 3)
RACKS = ("az1", "az2", "az3")
_ASK_AGAIN_SECONDS = 10.0
"""Timeout of one request to leaders before it is repeated, so that one that hangs does not take all the time."""
_SPEC = ClusterSpec(
    name="replicas",
    brokers=3,
    zone=RACKS[0],
    zones=RACKS,
    topic_format="",
    group_format="",
    subject_format="",
    sasl=None,
    acls=False,
    via_proxy=False,
)


@dataclass(frozen=True)
class Site:
    """The place where a zone's processes run: this machine's loopback interface, or elsewhere.

    `within` is the context in which processes are started and connections opened.
    """

    host: str = "127.0.0.1"
    within: Callable[[], AbstractContextManager[None]] = nullcontext


HERE = Site()


def begin(spec: ProcessSpec) -> subprocess.Popen[bytes]:
    """Start a process of an estate's plan, which ends with this one; its output is appended to its log."""
    with Path(spec.log).open("ab") as output:
        return subprocess.Popen(
            spec.argv,
            cwd=spec.directory,
            env={**os.environ, **spec.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=exit_with_parent,
        )


class Brokers:
    """A cluster whose brokers can be killed and restarted one by one."""

    def __init__(self, folder: Path, sites: Mapping[str, Site] | None = None) -> None:
        """Set up the brokers; `sites` by zone, if brokers are not to run here."""
        jars = ensure_jars(settings().cache.absolute(), print)
        archive = ensure_class_archive(jars, print)
        drawn = free_ports(9)
        self.sites = sites or dict.fromkeys(RACKS, HERE)
        self.ports = tuple(
            BrokerPorts(client=client, advertised=client, internal=internal, controller=controller, host=site.host)
            for client, internal, controller, site in zip(
                drawn[:3], drawn[3:6], drawn[6:], self.sites.values(), strict=True
            )
        )
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._specs = {}
        for node in NODES:
            broker = Broker(cluster=_SPEC, node=node, ports=self.ports, folder=folder / str(node), password="")
            log = folder / f"{node}.log"
            self._specs[node] = broker.process(jars=jars, archive=archive, log=log, after=[])
        self.servers = ",".join(f"{each.host}:{each.client}" for each in self.ports)
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        """A client independent of the code under test."""

    def start(self, *nodes: int) -> None:
        """Start the brokers that are not running, and wait until they are ready."""
        starting = []
        for node in nodes:
            if node not in self._running:
                spec = self._specs[node]
                log = Path(spec.log)
                seen = log.stat().st_size if log.exists() else 0
                with self.sites[RACKS[node - 1]].within():
                    self._running[node] = begin(spec)
                starting.append((node, log, seen))
        for node, log, seen in starting:
            eventually(lambda log=log, seen=seen: STARTED.encode() in log.read_bytes()[seen:], f"{node} starts")

    def kill(self, *nodes: int) -> None:
        """Kill brokers with SIGKILL."""
        for node in nodes:
            if process := self._running.pop(node, None):
                process.kill()
                process.wait()

    def pid(self, node: int) -> int:
        """Return the process id of a running broker."""
        return self._running[node].pid

    def stop(self, *nodes: int) -> None:
        """Stop brokers in an orderly way, so that their logs are intact when they return."""
        for node in nodes:
            if process := self._running.pop(node, None):
                process.terminate()
                process.wait()

    def create(self, topic: str, replicas: list[list[int]], **config: str) -> None:
        """Create a topic with its replicas on these brokers, and wait until all are in sync and led.

        A broker that becomes the leader of a partition may not know it yet, and drops what it is sent.
        """
        wanted = NewTopic(
            topic,
            len(replicas),
            replica_assignment=replicas,
            config={key.replace("_", "."): value for key, value in config.items()},
        )
        try:
            self.admin.create_topics([wanted])[topic].result(DEADLINE_SECONDS)
        except KafkaException as error:
            # A broker whose controller answers too late sends the request again; nobody else creates this topic.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        eventually(lambda: self._is_whole(topic, replicas), f"{topic} is there")
        eventually(lambda: self._is_led(topic, len(replicas)), f"{topic} is led")

    def change(self, what: str, topic: str) -> None:
        """Make a change that may occur between a plan and its application, and wait until all brokers see it.

        The topic is `deleted`, `grown` by a partition, `moved` (one partition's order), or broker 3 is `away`.
        """
        if what == "deleted":
            self.admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)
            eventually(lambda: topic not in self.admin.list_topics(timeout=10).topics, "it is gone")
        elif what == "grown":
            (grown,) = self.admin.create_partitions([NewPartitions(topic, 4)]).values()
            grown.result(DEADLINE_SECONDS)
            eventually(lambda: len(self._partitions(topic)) == 4, "it has grown")
        elif what == "moved":
            with ReplicaAdmin("other", self.servers, {}) as admin:
                assert admin.alter({(topic, 0): [2, 1]}) == {}
            eventually(lambda: self._partitions(topic)[0].replicas == [2, 1], "it has another order")
        else:
            self.kill(3)
            eventually(lambda: 3 not in self.admin.list_topics(timeout=10).brokers, "it is told to be gone")

    def _partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        return self.admin.list_topics(topic, DEADLINE_SECONDS).topics[topic].partitions

    def _is_whole(self, topic: str, replicas: list[list[int]]) -> bool:
        found = self._partitions(topic)
        return len(found) == len(replicas) and all(
            sorted(found[at].isrs) == sorted(brokers) and found[at].leader in brokers
            for at, brokers in enumerate(replicas)
        )

    def _is_led(self, topic: str, partitions: int) -> bool:
        """Tell whether each partition's leader answers as leader."""
        wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        (told,) = listed_offsets(self.admin, [wanted], _ASK_AGAIN_SECONDS)
        return all(isinstance(each, int) for each in told.values())

    def own_config(self, kind: ResourceType, name: str) -> dict[str, str]:
        """Return the throttles that were set for this topic or broker itself."""
        source = (
            ConfigSource.DYNAMIC_TOPIC_CONFIG if kind is ResourceType.TOPIC else ConfigSource.DYNAMIC_BROKER_CONFIG
        )
        (future,) = self.admin.describe_configs([ConfigResource(kind, name)]).values()
        return {
            key: entry.value
            for key, entry in future.result(DEADLINE_SECONDS).items()
            if "throttled" in key and ConfigSource(entry.source) is source
        }

    def end(self) -> None:
        """Kill all brokers."""
        self.kill(*NODES)


def all_rates(brokers: Brokers) -> dict[int, dict[str, str]]:
    """Return the throttle rates that were set for each broker."""
    return {node: brokers.own_config(ResourceType.BROKER, str(node)) for node in NODES}


def operator_sets(brokers: Brokers, kind: ResourceType, name: str, config: Mapping[str, str]) -> None:
    """Set configuration of a broker or a topic as the cluster's operator."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    (answer,) = brokers.admin.incremental_alter_configs([resource]).values()
    answer.result(DEADLINE_SECONDS)
    eventually(lambda: config.items() <= brokers.own_config(kind, name).items(), "it is set")
