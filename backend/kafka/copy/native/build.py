"""Build the native record loop where `built` looks for it, and verify in a separate process that it fits.

`python -m backend.kafka.copy.native.build`; a step of the installation, and of the first `treeline up` of a wheel.
Without a compiler, or if anything does not fit, it reports that in one line and exits with 0: Treeline then copies
by the loop in Python.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from backend.kafka.base.confluent_version import LAYOUT_KNOWN_OF
from backend.kafka.copy.native.built import SOURCES, built

# Runs in a separate process, since a wrong layout crashes. Clients without a cluster report their names.
_SELF_TEST = """
import logging
from confluent_kafka import Consumer, Producer
from backend.kafka.copy.native import module
quiet = {"bootstrap.servers": "127.0.0.1:9", "logger": logging.getLogger("build"), "log_level": 0}
found = module()
producer = Producer({**quiet, "client.id": "built-producer"})
consumer = Consumer({**quiet, "client.id": "built-consumer", "group.id": "built"})
assert found.client_name(producer) == ("built-producer#producer-1", 0)
assert found.client_name(consumer) == ("built-consumer#consumer-2", 1)
loop = found.Loop(consumer, producer)
assert loop.read(10, 1000, 10) == 0 and loop.take(False) == 0
loop.close()
consumer.close()
assert found.client_name(consumer) is None
"""


class BuildFailed(Exception):
    """The native loop could not be built or does not fit; the text says why."""

    def sentence(self) -> str:
        """Return the message for an operator."""
        return f"records will be copied by the loop in Python: {self}"


def build() -> None:
    """Compile and test. Raises BuildFailed, and then leaves no build behind."""
    target = built()
    target.unlink(missing_ok=True)
    installed = metadata.version("confluent-kafka")
    if installed != LAYOUT_KNOWN_OF:
        raise BuildFailed(f"it is written for confluent-kafka {LAYOUT_KNOWN_OF}, not {installed}")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        raise BuildFailed(f"there is no C compiler ({compiler[0]}; Debian: apt-get install gcc)")
    include = sysconfig.get_paths()["include"]
    if not Path(include, "Python.h").exists():
        raise BuildFailed(f"{include}/Python.h is missing (Debian: apt-get install python3-dev)")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    command = [
        *compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-cast-function-type",
        "-shared", "-fPIC", "-fvisibility=hidden", f'-DCONFLUENT_KAFKA_VERSION="{LAYOUT_KNOWN_OF}"',
        f"-I{include}", *map(str, sorted(SOURCES.glob("*.c"))), "-o", str(unfinished), "-ldl",
    ]  # fmt: skip
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode != 0:
        raise BuildFailed(f"the compiler refuses it: {compiled.stderr.strip().splitlines()[-1:]}")
    unfinished.replace(target)
    tried = subprocess.run([sys.executable, "-P", "-c", _SELF_TEST], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        target.unlink()
        last = tried.stderr.strip().splitlines()[-1:] or [f"it ended with {tried.returncode}"]
        raise BuildFailed(f"it does not fit the confluent-kafka installed: {last[0]}")


def main() -> None:
    """Build, or say in one line why the loop in Python will be used."""
    try:
        build()
    except BuildFailed as failure:
        sys.stderr.write(f"{failure.sentence()}\n")


if __name__ == "__main__":
    main()
