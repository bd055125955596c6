"""A real Kafka whose brokers may be killed and paused at will: three brokers, and a controller of its own.

The controller is a separate process that no schedule touches. So the metadata survives whatever happens to the
brokers, even if all of them are down at once, and its log is the complete history of leaders and ISRs.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.metadata import MetadataRequest

from backend.estate.class_archive import ensure_kafka
from backend.estate.document import ClusterSpec
from backend.estate.plan import Kafka
from backend.estate.ports import free_ports
from backend.estate.programs.broker import STARTED, AddedBroker, Broker, BrokerPorts
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.protocol_client import ProtocolClient
from tests.eventually import eventually
from tests.support.kafka.three_brokers import begin
from tests.support.kafka.topics import DEADLINE_SECONDS

NODES = (1, 2, 3)
CONTROLLER = 100
MIN_IN_SYNC = 2
SESSION_MS = 3_000
LAG_MS = 2_000
_ASK_SECONDS = 10.0
_SPEC = ClusterSpec(
    name="drill", brokers=3, zone="az1", zones=("az1",), topic_format="", group_format="", subject_format="",
    sasl=None, acls=False, via_proxy=False, replica_lag_time_max_ms=LAG_MS,
)  # fmt: skip

TIMES: dict[str, object] = {
    # Short, so that a drill of ten seconds has room for everything that follows from a fault.
    "broker.session.timeout.ms": SESSION_MS,
    "broker.heartbeat.interval.ms": 500,
    "replica.fetch.wait.max.ms": 100,
    "replica.fetch.backoff.ms": 200,
    # Every five minutes it would move leaders without any fault.
    "auto.leader.rebalance.enable": "false",
}


@dataclass(frozen=True, kw_only=True)
class _Node(Broker):
    """The estate's broker as a node that is no controller, or (CONTROLLER) a controller that is no broker.

    Its settings are the estate's, followed by the differences: of two lines with the same key the later one
    counts.
    """

    controller_port: int

    def properties(self) -> str:
        settings = TIMES | {"controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{self.controller_port}"}
        if self.node == CONTROLLER:
            listener = f"CONTROLLER://127.0.0.1:{self.controller_port}"
            settings |= {"process.roles": "controller", "listeners": listener, "advertised.listeners": listener}
        return super().properties() + "".join(f"{key}={value}\n" for key, value in settings.items())


class Cluster:
    """Broker-only nodes 1, 2 and 3, and controller 100. All processes end with this one.

    The kernel counts the thread that starts a process as its parent: call `start`, `restart` and `repair` in the
    main thread, or the brokers would end with another thread.
    """

    def __init__(self, folder: Path) -> None:
        self.kafka: Kafka = ensure_kafka(print)
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: set[int] = set()
        self._log_from: dict[int, int] = {}  # where the log of the present process begins
        self._folder = folder
        controller, *drawn = free_ports(1 + 2 * len(NODES))
        ports = {CONTROLLER: _ports(controller, controller)}
        ports |= {node: _ports(*drawn[2 * at : 2 * at + 2]) for at, node in enumerate(NODES)}
        self._specs = {
            node: _Node(
                cluster=_SPEC,
                node=node,
                ports=(),
                folder=folder / str(node),
                password="",
                added=AddedBroker(cluster=_SPEC.name, node=node, zone=_SPEC.zone, ports=own),
                controller_port=controller,
            ).process(jars=self.kafka.jars, archive=self.kafka.archive, log=folder / f"{node}.log", after=[])
            for node, own in ports.items()
        }
        self.servers = ",".join(f"127.0.0.1:{ports[node].client}" for node in NODES)
        self.metadata_log = folder / str(CONTROLLER) / "data" / "__cluster_metadata-0"
        """The controller's folder with the log of all its decisions."""

    def start(self) -> None:
        """Start all nodes, and wait until they run."""
        for node in self._specs:
            self._begin(node)
        self._wait_started()

    def kill(self, node: int) -> None:
        """Kill a node with SIGKILL, also one that is paused."""
        process = self._running.pop(node)
        process.kill()
        process.wait()
        self._paused.discard(node)

    def pause(self, node: int) -> None:
        """Pause a node with SIGSTOP: it accepts connections and answers nothing."""
        process = self._running[node]
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # on a busy machine its threads run on for a while
        self._paused.add(node)

    def resume(self, node: int) -> None:
        """Resume a paused node in its old state."""
        self._paused.remove(node)
        self._running[node].send_signal(signal.SIGCONT)

    def restart(self, node: int) -> None:
        """Start a node that was killed; do not wait, as the next fault may be due before it runs."""
        assert node not in self._running, f"{node} runs"
        self._begin(node)

    def repair(self) -> None:
        """Bring all brokers back, and wait until they run."""
        for node in list(self._paused):
            self.resume(node)
        for node in NODES:
            if node not in self._running:
                self._begin(node)
        self._wait_started()

    def create(self, topic: str) -> None:
        """Create a topic of one partition on all brokers, led by broker 1, all of them in sync."""
        wanted = NewTopic(
            topic,
            num_partitions=1,
            replica_assignment=[list(NODES)],
            config={"min.insync.replicas": str(MIN_IN_SYNC), "retention.ms": "-1"},
        )
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        admin.create_topics([wanted])[topic].result(DEADLINE_SECONDS)
        self.wait_in_sync(topic)

    def wait_in_sync(self, topic: str) -> None:
        """Wait until every broker reports the same leader with all brokers in sync.

        A single broker's report is not enough: it may be from before the fault.
        """
        with closing(ProtocolClient(self.servers, {}, _ASK_SECONDS)) as client:
            eventually(lambda: _is_whole(client, topic), f"all brokers are in sync for {topic}")

    def segments(self, topic: str) -> Path:
        """The folder in which one of the brokers keeps the topic's only partition."""
        return self._folder / str(NODES[0]) / "data" / f"{topic}-0"

    def end(self) -> None:
        """Kill all nodes."""
        for node in list(self._running):
            self.kill(node)

    def _begin(self, node: int) -> None:
        spec = self._specs[node]
        log = Path(spec.log)
        self._log_from[node] = log.stat().st_size if log.exists() else 0
        self._running[node] = begin(spec)

    def _wait_started(self) -> None:
        for node in self._running:
            eventually(lambda node=node: self._is_started(node), f"{node} starts")

    def _is_started(self, node: int) -> bool:
        said = Path(self._specs[node].log).read_bytes()[self._log_from[node] :]
        assert self._running[node].poll() is None, said[-3000:].decode(errors="replace")
        return STARTED.encode() in said


def _ports(client: int, internal: int) -> BrokerPorts:
    return BrokerPorts(client=client, advertised=client, internal=internal, controller=None)


def _is_whole(client: ProtocolClient, topic: str) -> bool:
    question = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    try:
        answers = client.send_each(dict.fromkeys(NODES, question))
    except KafkaCallFailed:
        return False
    told = set()
    for answer in answers.values():
        if isinstance(answer, KafkaCallFailed) or not answer.topics[0].partitions:
            return False
        (partition,) = answer.topics[0].partitions
        told.add((partition.leader_id, partition.leader_epoch, frozenset(partition.isr_nodes)))
    return len(told) == 1 and told.pop()[2] == set(NODES)
