"""The copiers under comparison: each is started for one source topic and copies it until it is stopped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from backend.estate.programs.jars import classpath, ensure_jars, java
from backend.settings import settings

STOP_SECONDS = 30
MIRROR_POM = Path(__file__).with_name("pom.xml")
MIRROR_JVM = ["-Xms256m", "-Xmx2g", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


@dataclass(frozen=True)
class Job:
    """One topic to copy; `label` is part of names, so that runs do not collide."""

    label: str
    servers: Mapping[str, str]
    source_topic: str
    target_topic: str
    partitions: int
    folder: Path


class Copier:
    """Processes that copy and do nothing else, so that all their CPU time counts."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes
        self._seen = [psutil.Process(process.pid) for process in processes]

    def cpu_seconds(self) -> float:
        """Return the user and system time so far."""
        times = [process.cpu_times() for process in self._seen]
        return sum(row.user + row.system for row in times)

    def memory_bytes(self) -> int:
        """Return the resident memory now."""
        return sum(process.memory_info().rss for process in self._seen)

    def check(self) -> None:
        if any(process.poll() is not None for process in self._processes):
            raise SystemExit("a copier has ended by itself; see its log")

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass(frozen=True)
class MirrorMaker:
    """MirrorMaker 2 as a separate process, one task per partition, with defaults except for the options here."""

    name: str
    exactly_once: bool

    def target_topic(self, source_topic: str, label: str) -> str:
        return f"{label}.{source_topic}"

    def options(self, job: Job) -> dict[str, object]:
        """Return the configuration; the source's alias is the job's label, the target's is `copy`."""
        alias = job.label
        options: dict[str, object] = {
            "clusters": f"{alias}, copy",
            f"{alias}.bootstrap.servers": job.servers["source"],
            "copy.bootstrap.servers": job.servers["target"],
            f"{alias}->copy.enabled": "true",
            f"{alias}->copy.topics": job.source_topic,
            f"copy->{alias}.enabled": "false",
            f"{alias}->copy.emit.heartbeats.enabled": "false",
            f"{alias}->copy.emit.checkpoints.enabled": "false",
            f"copy->{alias}.emit.heartbeats.enabled": "false",
            f"{alias}->copy.sync.topic.configs.enabled": "false",
            f"{alias}->copy.sync.topic.acls.enabled": "false",
            "tasks.max": job.partitions,
            "replication.factor": 1,
            "offset-syncs.topic.replication.factor": 1,
            "offset.storage.replication.factor": 1,
            "status.storage.replication.factor": 1,
            "config.storage.replication.factor": 1,
        }
        if self.exactly_once:
            options["dedicated.mode.enable.internal.rest"] = "true"
            options["listeners"] = "http://127.0.0.1:0"
            options["copy.exactly.once.source.support"] = "enabled"
            options[f"{alias}.consumer.isolation.level"] = "read_committed"
        return options

    def start(self, job: Job) -> Copier:
        jars = ensure_jars(settings().cache, print, pom=MIRROR_POM, name="connect-mirror")
        path = job.folder / f"{job.label}.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in self.options(job).items()))
        with (job.folder / f"{job.label}.log").open("wb") as log:
            return Copier(
                [
                    subprocess.Popen(
                        [java(), *MIRROR_JVM, "org.apache.kafka.connect.mirror.MirrorMaker", str(path)],
                        env={**os.environ, "CLASSPATH": classpath(jars)},
                        stdout=log,
                        stderr=log,
                        text=True,
                    )
                ]
            )


@dataclass(frozen=True)
class Treeline:
    """Distributor threads of Treeline in worker processes, see treeline_worker.py."""

    name: str
    workers: int
    variables: Mapping[str, str]
    wrapper: tuple[str, ...] = ()

    def target_topic(self, source_topic: str, label: str) -> str:
        return f"{label}-{source_topic}"

    def start(self, job: Job) -> Copier:
        units = range(settings().partition_buckets)
        processes = []
        for worker in range(self.workers):
            task = {
                "servers": dict(job.servers),
                "source_topic": job.source_topic,
                "target_topic": job.target_topic,
                "partitions": job.partitions,
                "units": [unit for unit in units if unit % self.workers == worker],
            }
            with (job.folder / f"{job.label}-{worker}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [*self.wrapper, sys.executable, str(Path(__file__).with_name("treeline_worker.py")),
                         json.dumps(task)],
                        env={**os.environ, **self.variables},
                        stdout=log,
                        stderr=log,
                        text=True,
                    )
                )  # fmt: skip
        return Copier(processes)


def profiler(folder: Path, label: str) -> tuple[str, ...]:
    """Return a command prefix that records a profile, if `perf` is installed."""
    perf = shutil.which("perf")
    return (perf, "record", "-g", "-F", "499", "-o", str(folder / f"{label}.perf")) if perf else ()
