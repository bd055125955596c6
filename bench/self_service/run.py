"""Self-service of tenants, until every cluster is done: `treeline apply -f` of many streams on the default estate.

The peer does by hand what the file asks for: a program with Kafka's own admin client that creates the same topics,
one after the other on one cluster after the other, as scripts of operators do. Both are on the same clusters, in
turn, with other names.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from local_estates import ESTATES, Estate, estate

LIMIT_SECONDS = 60.0
PARTITIONS = 4


def declared(streams: int) -> dict[str, object]:
    """A file of one tenant's streams."""
    found = {f"stream-{number:04}": {"partitions": PARTITIONS} for number in range(streams)}
    return {"tenants": {"bench": {"instances": {"load": {"environments": {"prod": {"streams": found}}}}}}}


def apply(running: Estate, streams: int) -> tuple[float, int]:
    """Return the seconds until all clusters have all topics, and the lines of progress.

    Ends the run if it fails.
    """
    file = running.home.parent / "streams.yaml"
    file.write_text(yaml.safe_dump(declared(streams)))
    began = time.monotonic()
    run = running.treeline("apply", "-f", str(file), "--wait", "300", "-o", "json")
    took = time.monotonic() - began
    print(f"applied in {took:.1f} s", file=sys.stderr)
    if run.returncode:
        sys.exit(f"treeline apply: {run.stderr}{run.stdout[-2000:]}")
    clusters = running.status()["clusters"]
    for name, row in clusters.items():
        topics = AdminClient({"bootstrap.servers": row["bootstrap_servers"]}).list_topics(timeout=10).topics
        found = sum("stream-" in topic for topic in topics)
        if found != streams:
            sys.exit(f"{name} has {found} topics of {streams}, though apply said that it has all")
    return took, len(run.stderr.splitlines())


def by_hand(running: Estate, streams: int) -> float:
    """Return the seconds that the peer takes."""
    clusters = running.status()["clusters"]
    began = time.monotonic()
    for row in clusters.values():
        admin = AdminClient({"bootstrap.servers": row["bootstrap_servers"]})
        for number in range(streams):
            topic = NewTopic(f"by-hand-{number:04}", PARTITIONS, 1)
            admin.create_topics([topic])[topic.topic].result(30)
    took = time.monotonic() - began
    for row in clusters.values():
        admin = AdminClient({"bootstrap.servers": row["bootstrap_servers"]})
        deleted = admin.delete_topics([f"by-hand-{number:04}" for number in range(streams)])
        for future in deleted.values():
            future.result(60)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=500)
    streams = parser.parse_args().streams
    with estate(ESTATES / "unbalanced.yaml") as running:
        running.up("--no-verify")
        # First, while the clusters hold nothing yet: to the peer's advantage.
        peer = by_hand(running, streams)
        ours, lines = apply(running, streams)
        again = apply(running, streams)[0]
    print(f"\n| {streams} streams with {PARTITIONS} partitions, five clusters | seconds |")
    print("|---|---:|")
    print(f"| `treeline apply -f … --wait`, all topics on all clusters ({lines} lines of progress) | {ours:.1f} |")
    print(f"| the same file again | {again:.1f} |")
    print(f"| peer: Kafka's admin client, one topic after the other | {peer:.1f} |")
    if ours > LIMIT_SECONDS:
        sys.exit(f"over the limit of {LIMIT_SECONDS:g} s")


if __name__ == "__main__":
    main()
