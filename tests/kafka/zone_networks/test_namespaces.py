"""Namespaces leave nothing behind, and say what they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from backend.settings import PROJECT_ROOT
from tests.eventually import eventually

KILLED = """
import os, subprocess
from pathlib import Path
from backend.parent_exit import exit_with_parent
from tests.kafka.zone_networks.namespaces import Namespaces
namespaces = Namespaces(["az1"])
with namespaces.within("az1"):
    subprocess.Popen(["sleep", "600"], preexec_fn=exit_with_parent)
    print(os.readlink("/proc/thread-self/ns/net"), flush=True)
input()
"""
REFUSED = """
import os
from tests.kafka.zone_networks.namespaces import Namespaces
os.setresuid(65534, 65534, 65534)
Namespaces(["az1"])
"""


def test_nothing_is_left_of_a_run_that_was_killed():
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        cwd=PROJECT_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    namespace = process.stdout.readline().strip()
    assert _members(namespace), "somebody is there"
    process.kill()
    process.communicate()
    eventually(lambda: not _members(namespace), "nobody is there any more")


def _members(namespace: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += [process.name] if str((process / "ns/net").readlink()) == namespace else []
        except OSError:  # it has ended meanwhile
            continue
    return found


def test_who_may_not_make_them_is_told_what_is_missing():
    done = subprocess.run(
        [sys.executable, "-c", REFUSED], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert "a network namespace cannot be made (Operation not permitted): run as root" in done.stderr
