"""The session of a process that runs for months."""

from __future__ import annotations

import subprocess
import sys

import pytest

KILLED = """
import os, signal, sys
from pathlib import Path
from pyspark import SparkContext
from spark import micro_batch
from spark.session import session

def asked():
    found = session("local[2]", Path(sys.argv[1]), 600, few_rows=True)
    return micro_batch.run(found, [], [], [(0, 5)]).answers

before = asked()
jvm = SparkContext._gateway.proc
os.kill(jvm.pid, signal.SIGKILL)
jvm.wait()
try:
    asked()
except Exception as error:
    sys.exit(f"not had again: {error!r}")
assert asked() == before
"""


@pytest.mark.nightly
def test_a_jvm_that_was_killed_is_started_again(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
