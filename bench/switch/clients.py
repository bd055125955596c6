"""Applications of the bench: producers and consumers of `treeline_client`, which record what they observe.

    python clients.py producers URL TOKEN STREAM FOLDER
    python clients.py consumers URL TOKEN STREAM FOLDER FIRST COUNT
    python clients.py stock BOTH_SERVERS BOTH_TOPICS STREAM FOLDER FIRST COUNT

`stock` are plain Kafka consumers, which do not use discovery: they read on their cluster until the file
FOLDER/moved exists, and then on the other cluster.

They run until the file FOLDER/stop (producers) or FOLDER/end (consumers) exists; histories are JSON lines.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

from confluent_kafka import Consumer
from treeline_client import OutcomeUnknown, SwitchingConsumer, SwitchingProducer

PRODUCERS, RECORDS_PER_SECOND, KEYS = 4, 1_000, 25
_TICKS_PER_SECOND = 50
_BODY = "x" * 200


def main() -> None:
    role, url, token, stream, folder, *rest = sys.argv[1:]
    conf = {
        "treeline.url": url,
        "treeline.token": token,
        "treeline.tenant": "acme",
        "treeline.instance": "retail",
        "treeline.environment": "prod",
        "treeline.cache.directory": "",
    }
    place = Path(folder)
    if role == "producers":
        work = [threading.Thread(target=produce, args=(conf, stream, place, n)) for n in range(PRODUCERS)]
    elif role == "stock":
        first, count = int(rest[0]), int(rest[1])
        places = list(zip(url.split(","), token.split(","), strict=True))
        work = [
            threading.Thread(target=read_on, args=(places, stream, place, n)) for n in range(first, first + count)
        ]
    else:
        first, count = int(rest[0]), int(rest[1])
        work = [
            threading.Thread(target=consume, args=(conf, stream, place, n)) for n in range(first, first + count)
        ]
    for each in work:
        each.start()
    for each in work:
        each.join()


def produce(conf: dict[str, Any], stream: str, folder: Path, number: int) -> None:
    """Send numbered records at a fixed rate; record when each was sent and acknowledged, and where it is."""
    with (folder / f"producer-{number}.jsonl").open("w") as history:
        producer = SwitchingProducer({**conf, "client.id": f"producer-{number}", "linger.ms": 5})
        told = _Told(history)
        sent, began = 0, time.monotonic()
        while not (folder / "stop").exists():
            due = int((time.monotonic() - began) * RECORDS_PER_SECOND / PRODUCERS)
            for sequence in range(sent, due):
                key = f"{number}-{sequence % KEYS}"
                producer.produce(
                    stream,
                    key=key,
                    value=f"{number}:{sequence}:{_BODY}",
                    on_delivery=told.about(producer, number, sequence, key),
                )
            sent = max(sent, due)
            producer.poll(1 / _TICKS_PER_SECOND)
            told.where(producer)
        producer.flush(60)
        told.end(sent)
        producer.close()


class _Told:
    def __init__(self, history: TextIO) -> None:
        self._history = history
        self._stood: tuple[int, str] | None = None

    def _write(self, **row: Any) -> None:
        self._history.write(json.dumps(row) + "\n")

    def about(self, producer: SwitchingProducer, number: int, sequence: int, key: str) -> Any:
        """Return a delivery callback that records the outcome."""
        given = time.time()

        def told(error: Any, message: Any) -> None:
            self._write(
                id=f"{number}:{sequence}",
                key=key,
                given=given,
                told=time.time(),
                error=None if error is None else str(error),
                unknown=isinstance(error, OutcomeUnknown),
                partition=None if message is None else message.partition(),
            )

        return told

    def where(self, client: SwitchingProducer | SwitchingConsumer) -> None:
        """Record the client's cluster whenever it changes."""
        now = (client.generation(), client.cluster())
        if now != self._stood:
            self._stood = now
            self._write(generation=now[0], cluster=now[1], at=time.time())

    def end(self, sent: int) -> None:
        """Record how many records were sent."""
        self._write(sent=sent)


def consume(conf: dict[str, Any], stream: str, folder: Path, number: int) -> None:
    """Read all records of one group; record their order and generation."""
    with (folder / f"group-{number}.jsonl").open("w") as history:
        consumer = SwitchingConsumer(
            {
                **conf,
                "client.id": f"consumer-{number}",
                "group.id": f"{stream}-{number}",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1000,
            }
        )
        consumer.subscribe([stream])
        told = _Told(history)
        while not (folder / "end").exists():
            ids = []
            for message in consumer.consume(500, 0.2):
                value = message.value()
                if message.error() is None and value is not None:
                    ids.append(value.decode().rpartition(":")[0])
            told.where(consumer)
            if ids:
                history.write(json.dumps({"read": ids}) + "\n")
        consumer.close()


def read_on(places: list[tuple[str, str]], stream: str, folder: Path, number: int) -> None:
    """Read a topic of one cluster, then of the other, as plain consumers do; offsets are committed each second.

    `places`: (servers, topic); groups are named by the format that topics have there.
    """
    with (folder / f"stock-{number}.jsonl").open("w") as history:
        consumers = []
        for moved, (servers, topic) in enumerate(places):
            consumer = Consumer(
                {
                    "bootstrap.servers": servers,
                    "group.id": f"{topic.removesuffix(stream)}stock-{number}",
                    "auto.offset.reset": "earliest",
                    "auto.commit.interval.ms": 1000,
                }
            )
            consumers.append(consumer)
            consumer.subscribe([topic])
            while not (folder / ("end" if moved else "moved")).exists():
                ids = [
                    message.value().decode().rpartition(":")[0]
                    for message in consumer.consume(500, 0.2)
                    if message.error() is None
                ]
                if ids:
                    history.write(json.dumps({"read": ids}) + "\n")
        # Not earlier: this blocks if the cluster is down.
        for consumer in consumers:
            consumer.close()


if __name__ == "__main__":
    main()
