"""Single-broker clusters of a benchmark's own, booted as the product boots its local estate's."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from backend.estate.document import ClusterSpec
from backend.estate.ports import free_ports
from backend.estate.programs.broker import STARTED, Broker, BrokerPorts
from backend.estate.programs.jars import classpath, ensure_jars, java
from backend.settings import settings

START_SECONDS = 90
# As a broker runs in production, except for the size: the estate's brokers save memory by a simpler compiler.
BROKER_JVM = ["-Xms512m", "-Xmx512m", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
              "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info"]  # fmt: skip


@contextmanager
def single_broker_clusters(folder: Path, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Boot clusters with these names, with logs and data below `folder`; yields their bootstrap servers.

    Ends the run (SystemExit) if one does not start.
    """
    free = iter(free_ports(3 * len(names)))
    jars = ensure_jars(settings().cache, print)
    running: list[tuple[subprocess.Popen[bytes], Path]] = []
    servers: dict[str, str] = {}
    try:
        for name in names:
            client = next(free)
            given = BrokerPorts(client=client, advertised=client, internal=next(free), controller=next(free))
            running.append((_start(name, given, folder / name, jars), folder / f"{name}.log"))
            servers[name] = f"127.0.0.1:{client}"
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
