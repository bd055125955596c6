"""The job as spark-submit runs it, on the log of the source document: 24 records gone, the group at offset 35."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.estate.ports import free_ports
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, produce

T0 = 1_700_000_000_000


@contextmanager
def local_master(folder):
    yield None


@contextmanager
def cluster_master(folder):
    """Start a standalone Spark cluster of one master and one worker; yields the master's address."""
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    master_port, worker_port = free_ports(2)
    address = f"spark://127.0.0.1:{master_port}"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_MASTER_OPTS"] = "-Dspark.master.rest.enabled=false"  # its port is a fixed one
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    parts = [
        ["org.apache.spark.deploy.master.Master", *common, "--port", str(master_port)],
        [
            "org.apache.spark.deploy.worker.Worker", *common, "--port", str(worker_port), "--cores", "2",
            "--memory", "1g", "--work-dir", str(folder / "work"), address,
        ],
    ]  # fmt: skip
    with (folder / "cluster.log").open("wb") as log, ExitStack() as running:
        for part in parts:
            process = subprocess.Popen([spark_class, *part], env=environment, stdout=log, stderr=log)
            running.callback(process.wait)
            running.callback(process.terminate)
        registered = lambda: b"Successfully registered with master" in (folder / "cluster.log").read_bytes()  # noqa: E731
        eventually(registered, "the worker has found its master", 0.2)
        yield address


@pytest.mark.parametrize(
    "master", [local_master, pytest.param(cluster_master, marks=pytest.mark.nightly)], ids=["local", "cluster"]
)
@pytest.mark.nightly
def test_a_group_in_a_log_whose_beginning_is_gone(estate, tmp_path, master):
    servers, mark = estate.bootstrap_servers("cluster-1"), uuid.uuid4().hex[:8]
    topic = f"job.{mark}"
    create_topic(servers, topic, retention_ms="-1")
    # One record's time is far before its neighbours': an offset by time alone would skip it, or re-read a lot.
    times = [T0 + n * 1000 for n in range(50)]
    times[40] = T0 + 20_500
    produce(servers, topic, [{"value": b"%d" % n, "timestamp": at} for n, at in enumerate(times)])
    admin = AdminClient({"bootstrap.servers": servers})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 24)]).values()
    deleted.result(DEADLINE_SECONDS)
    for group, offset in ((f"app-{mark}", 35), (f"first-{mark}", 24), (f"done-{mark}", 50)):
        consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        consumer.close()
    request = {
        "clusters": [{"cluster": "cluster-1", "bootstrap_servers": servers, "properties": {}}],
        "logs": [
            {
                "log": 0,
                "cluster": "cluster-1",
                "topic": topic,
                "partition": 0,
                "range": {"log": 0, "topic": topic, "partition": 0, "first": 24, "end": 50},
                "born": {
                    "number": 1,
                    "stream": "acme/retail/prod/job",
                    "births": [[0, 1]],
                    "seen": [],
                    "known_origins": [1],
                    "holes": [],
                },
            }
        ],
    }
    asked = tmp_path / "request.json"
    asked.write_text(json.dumps(request))
    submit = Path(sys.executable).with_name("spark-submit")
    job = PROJECT_ROOT / "spark" / "jobs" / "offset_timestamps.py"
    with master(tmp_path) as address:
        ran = subprocess.run(
            [submit, *(["--master", address] if address else []), job, asked, tmp_path / "out"],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
    if address:
        assert b"Launching executor" in (tmp_path / "cluster.log").read_bytes(), "it ran somewhere else"
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout) == {"groups": 3, "segments": 2}
    rows = {
        row["group"].partition("-")[0]: row
        for part in (tmp_path / "out" / "groups").glob("*.json")
        for row in map(json.loads, part.read_text().splitlines())
    }
    found = {
        name: (row["offset"], row.get("last_timestamp_ms"), row.get("safe_timestamp_ms"))
        for name, row in rows.items()
    }
    assert found == {
        "app": (35, T0 + 34_000, T0 + 20_500),
        "first": (24, None, T0 + 20_500),
        "done": (50, T0 + 49_000, None),
    }
    reached = {name: [each["reached"] for each in row.get("vector", [])] for name, row in rows.items()}
    assert reached == {"app": [34], "first": [], "done": [49]}
