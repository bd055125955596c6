"""Kafka clusters of one broker each, between which clients are moved, and which tests may kill."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from backend.estate.class_archive import ensure_class_archive
from backend.estate.document import ClusterSpec
from backend.estate.ports import free_ports
from backend.estate.programs.broker import STARTED, Broker, BrokerPorts
from backend.estate.programs.jars import ensure_jars
from backend.parent_exit import exit_with_parent
from backend.settings import settings

START_SECONDS = 180.0


@dataclass
class Cluster:
    """One broker as a process of this test run, which ends with the run."""

    name: str
    servers: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes]

    def pause(self) -> None:
        """Suspend the broker: it accepts connections and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)  # on a busy machine its threads continue for a while

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        self.process = _start(self.command, self.environment, self.log)
        wait_started(self)


def boot(name: str, folder: Path) -> Cluster:
    """Start a cluster; `wait_started` waits for it."""
    jars = ensure_jars(settings().cache.absolute(), print)
    archive = ensure_class_archive(jars, print)
    client, internal, controller = free_ports(3)
    spec = ClusterSpec(
        name=name, brokers=1, zone="az1", zones=("az1",), topic_format="", group_format="", subject_format="",
        sasl=None, acls=False, via_proxy=False,
    )  # fmt: skip
    ports = BrokerPorts(client=client, advertised=client, internal=internal, controller=controller)
    log = folder / "broker.log"
    broker = Broker(cluster=spec, node=1, ports=(ports,), folder=folder / "broker", password="")
    plan = broker.process(jars=jars, archive=archive, log=log, after=[])
    environment = {**os.environ, **plan.environment}
    process = _start(list(plan.argv), environment, log)
    return Cluster(name, f"127.0.0.1:{client}", list(plan.argv), environment, log, process)


def wait_started(cluster: Cluster) -> None:
    deadline = time.monotonic() + START_SECONDS
    while STARTED not in cluster.log.read_text():
        assert cluster.process.poll() is None, cluster.log.read_text()[-3000:]
        assert time.monotonic() < deadline, "the broker does not start"
        time.sleep(0.1)


def _start(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    log.unlink(missing_ok=True)
    with log.open("wb") as output:
        # The broker ends with this process, however that ends, so that none is left behind.
        return subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=exit_with_parent,
        )
