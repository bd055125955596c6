"""The job as spark-submit runs it, on the log of the source document: 24 records gone, the group at offset 35."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.settings import PROJECT_ROOT
from tests.kafka import DEADLINE_SECONDS, create_topic, produce

T0 = 1_700_000_000_000


def test_a_group_in_a_log_whose_beginning_is_gone(estate, tmp_path):
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
    ran = subprocess.run(
        [submit, job, asked, tmp_path / "out"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
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
