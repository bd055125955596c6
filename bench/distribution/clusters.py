"""Two single-broker clusters of the benchmark's own, and what is read of them from outside."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from records import LARGEST_BYTES

from backend.estate.broker import STARTED, Broker, BrokerPorts
from backend.estate.document import ClusterSpec
from backend.estate.jars import classpath, ensure_jars, java
from backend.estate.ports import free_ports
from backend.settings import settings

START_SECONDS = 90
# As a broker runs in production, but for the size: the estate's brokers save memory by a simpler compiler.
BROKER_JVM = ["-Xms512m", "-Xmx512m", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
              "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info"]  # fmt: skip


@contextmanager
def two_clusters(folder: Path) -> Iterator[dict[str, str]]:
    """Boot `source` and `target`; gives their bootstrap servers."""
    free = iter(free_ports(6))
    jars = ensure_jars(settings().cache, print)
    running: list[tuple[subprocess.Popen[bytes], Path]] = []
    servers: dict[str, str] = {}
    try:
        for name in ("source", "target"):
            given = BrokerPorts(client=next(free), advertised=0, internal=next(free), controller=next(free))
            given = BrokerPorts(
                client=given.client, advertised=given.client, internal=given.internal, controller=given.controller
            )
            running.append((_start(name, given, folder / name, jars), folder / f"{name}.log"))
            servers[name] = f"127.0.0.1:{given.client}"
        for process, log in running:
            _wait(lambda log=log: STARTED in log.read_text(), process, log)
        yield servers
    finally:
        for process, _ in running:
            process.terminate()
        for process, _ in running:
            process.wait()


def _start(name: str, given: BrokerPorts, folder: Path, jars: Path) -> subprocess.Popen[bytes]:
    cluster = ClusterSpec(
        name=name, brokers=1, zone="az1", zones=("az1",), topic_format="", group_format="", subject_format="",
        sasl=None, acls=False, via_proxy=False,
    )  # fmt: skip
    broker = Broker(cluster=cluster, node=1, ports=(given,), folder=folder / "broker", password="")
    broker.folder.mkdir(parents=True)
    properties = broker.folder / "server.properties"
    properties.write_text(broker.properties())
    arguments = broker.folder / "format.arguments"
    arguments.write_text(broker._format_arguments(properties))
    environment = {**os.environ, "CLASSPATH": classpath(jars)}
    with (folder.parent / f"{name}.log").open("wb") as log:
        subprocess.run([java(), f"@{arguments}"], env=environment, stdout=log, stderr=log, check=True)
        return subprocess.Popen(
            [java(), *BROKER_JVM, "kafka.Kafka", str(properties)], env=environment, stdout=log, stderr=log
        )


def _wait(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"a broker does not start, see {log}: {log.read_text()[-2000:]}")
        time.sleep(0.1)


class Topic:
    """A topic of one cluster."""

    def __init__(self, servers: str, name: str, partitions: int) -> None:
        self.servers, self.name = servers, name
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._ends = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)}

    def create(self) -> None:
        admin = self._admin
        topic = NewTopic(self.name, len(self._ends), 1, config={"max.message.bytes": str(LARGEST_BYTES)})
        admin.create_topics([topic])[self.name].result(15)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(15)

    def committed_ends(self) -> int:
        """Sum of the ends that a read_committed reader sees; 0 while the topic is not there."""
        answers = self._admin.list_offsets(self._ends, isolation_level=IsolationLevel.READ_COMMITTED)
        try:
            return sum(answer.result(15).offset for answer in answers.values())
        except Exception:  # noqa: BLE001 - MirrorMaker makes the topic when it is ready
            return 0
