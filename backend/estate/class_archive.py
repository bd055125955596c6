"""Class archive (AppCDS) of a started broker, stored beside the jars.

With it a broker starts in a quarter of the CPU time and shares its classes' pages with the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from backend.estate.home import exclusive_lock
from backend.estate.plan import Kafka
from backend.estate.ports import free_ports
from backend.estate.programs.broker import STARTED, training_properties
from backend.estate.programs.jars import JVM_OPTIONS, TOOL_HEAP, classpath, ensure_jars, java, java_version
from backend.settings import settings

TRAINING_SECONDS = 60.0


def ensure_kafka(progress: Callable[[str], None]) -> Kafka:
    """Return the jars and the class archive with which every broker is started. Raises JavaMissing."""
    jars = ensure_jars(settings().cache.absolute(), progress)
    return Kafka(jars=jars, archive=ensure_class_archive(jars, progress))


def ensure_class_archive(jars: Path, progress: Callable[[str], None]) -> Path | None:
    """Return this Java's class archive, made by one training run of a broker; None if that fails.

    An estate runs without it as well, only slower: a Java that cannot archive is no reason to stop.
    """
    archive = jars / f"broker-java-{java_version()}.jsa"
    if archive.exists():
        return archive
    # Wait for another process that is building it: that takes less time than starting all brokers without it.
    with exclusive_lock(jars / "training.lock"):
        if not archive.exists():
            progress("preparing the brokers' class archive (once)")
            with tempfile.TemporaryDirectory(prefix="treeline-training-") as folder:
                _train(jars, archive, Path(folder))
    return archive if archive.exists() else None


def _train(jars: Path, archive: Path, folder: Path) -> None:
    properties = folder / "server.properties"
    properties.write_text(training_properties(folder / "data", *free_ports(2)))
    environment = {**os.environ, "CLASSPATH": classpath(jars)}
    launcher = [java(), *JVM_OPTIONS, TOOL_HEAP]
    format_argv = [*launcher, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ",
                   "-c", str(properties)]  # fmt: skip
    unfinished = archive.with_suffix(".unfinished")
    subprocess.run(format_argv, env=environment, capture_output=True, check=False)
    broker = subprocess.Popen(
        [*launcher, f"-XX:ArchiveClassesAtExit={unfinished}", "kafka.Kafka", str(properties)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        # The archive of a broker that failed halfway would be kept for ever, and be worth little.
        started = any(STARTED in line for line in broker.stdout or ())
        broker.send_signal(signal.SIGTERM)
        broker.communicate(timeout=TRAINING_SECONDS)
    finally:
        broker.kill()
        broker.wait()
    if started and unfinished.exists():
        unfinished.rename(archive)
