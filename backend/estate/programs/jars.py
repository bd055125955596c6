"""Java, and Kafka's jars by Maven, in the cache that all estates share (TREELINE_CACHE)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from backend.estate.home import exclusive_lock

KAFKA_VERSION = "4.1.1"
POM = Path(__file__).with_name("pom.xml")
JAVA_MAJOR_LEAST = 17
HOW_TO_GET_JAVA = (
    f"install a JRE (Debian: apt-get install openjdk-{JAVA_MAJOR_LEAST}-jre-headless) or set JAVA_HOME"
)

JVM_OPTIONS = [
    "-Xms32m",
    # A broker that ran out of memory in one of its threads would live on and serve nothing. So it exits, is
    # restarted, and the estate's status says why.
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # Return heap that a burst needed; by default the JVM keeps it for ever.
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=30",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
]


TOOL_HEAP = "-Xmx256m"
"""Heap of Kafka's tools, which hold no data; a broker's own heap is computed (`heap.py`)."""


class JavaMissing(RuntimeError):
    """Java or Maven is not installed, or too old."""


def java() -> str:
    """Return the path of the Java launcher; raises JavaMissing with what to install."""
    home = os.environ.get("JAVA_HOME")
    found = (home and shutil.which(str(Path(home, "bin", "java")))) or shutil.which("java")
    if not found:
        raise JavaMissing(f"Kafka needs Java {JAVA_MAJOR_LEAST} or newer: {HOW_TO_GET_JAVA}.")
    return found


def java_version() -> str:
    """Return a version such as "17.0.15"; raises JavaMissing if it is too old for Kafka."""
    shown = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False).stderr
    quoted = re.search(r'"([0-9]+)([^"]*)"', shown)
    if quoted is None:
        raise JavaMissing(f"{java()} does not print its version: {_last_lines(shown)}")
    if int(quoted[1]) < JAVA_MAJOR_LEAST:  # Java 8 calls itself 1.8
        raise JavaMissing(
            f"Kafka needs Java {JAVA_MAJOR_LEAST} or newer, {java()} is {quoted[1]}{quoted[2]}: {HOW_TO_GET_JAVA}."
        )
    return quoted[1] + quoted[2]


def ensure_jars(cache: Path, progress: Callable[[str], None], *, pom: Path = POM, name: str = "kafka") -> Path:
    """Return the folder of Kafka's jars (or another pom's), downloaded at the first call; raises JavaMissing."""
    folder = cache / f"{name}-{KAFKA_VERSION}"
    if folder.is_dir():
        return folder
    java()  # before Maven, which needs Java as well and reports less about it
    cache.mkdir(parents=True, exist_ok=True)
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaMissing("Kafka's jars are downloaded by Maven: install it (Debian: apt-get install maven).")
    with exclusive_lock(cache / f"{name}.lock"):
        if not folder.is_dir():  # else another estate was quicker
            progress(f"downloading {name} {KAFKA_VERSION} with Maven")
            _download(maven, pom, folder)
    return folder


def _download(maven: str, pom: Path, folder: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    finished = subprocess.run(
        [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime",
         f"-DoutputDirectory={unfinished}"],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if finished.returncode != 0:
        shutil.rmtree(unfinished)
        raise JavaMissing(f"Maven could not download Kafka's jars: {_last_lines(finished.stdout)}")
    unfinished.chmod(0o755)
    unfinished.rename(folder)


def classpath(jars: Path) -> str:
    # In a fixed order: the class archive is only accepted for the very same class path.
    return os.pathsep.join(sorted(str(jar) for jar in jars.glob("*.jar")))


def _last_lines(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-4:]) or "no output"
