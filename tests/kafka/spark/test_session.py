"""The session of a process that runs for months."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.kafka.spark.stopped_calls import drop_stopped_call

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


class Stopped(BaseException):
    """The end of a test by its time limit."""


def test_a_call_that_was_stopped_leaves_no_answer_for_the_next(spark: SparkSession, monkeypatch) -> None:
    assert spark.range(3).count() == 3

    def stop(command: str) -> str:
        connection.socket.sendall(command.encode())
        raise Stopped

    connection = SparkContext._gateway._gateway_client.get_thread_connection()
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(connection, "send_command", stop)
        _ = SparkContext._jvm.java
    drop_stopped_call()
    assert spark.range(3).count() == 3


@pytest.mark.nightly
def test_a_jvm_that_was_killed_is_started_again(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
