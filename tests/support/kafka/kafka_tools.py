"""Kafka's own command line tools, which know nothing of Treeline."""

from __future__ import annotations

import subprocess
from pathlib import Path

from backend.estate.programs.jars import classpath, ensure_jars, java
from backend.parent_exit import exit_with_parent
from backend.settings import settings

POM = Path(__file__).with_name("kafka_tools.xml")
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


def folders() -> list[Path]:
    """Return the folders with the tools' files, downloaded if missing."""
    cache = settings().cache
    # The second has what the first lacks: the commands that came with the broker.
    return [ensure_jars(cache, print, pom=POM, name="tools"), ensure_jars(cache, print)]


def command(name: str, *words: str) -> list[str]:
    """Return the command line that runs a tool."""
    paths = ":".join(classpath(folder) for folder in folders())
    return [java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", paths, name, *words]


def run(name: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a tool and return the result, whatever its exit code."""
    return subprocess.run(
        command(name, *words),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        input=stdin,
        preexec_fn=exit_with_parent,
    )


def tool(name: str, *words: str) -> list[str]:
    """Return the lines that a tool writes; it must succeed."""
    done = run(name, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
