"""Reads a stream and commits by hand: `python consumer.py orders billing`."""

from __future__ import annotations

import logging

from settings import here, words
from treeline_client import StaleGeneration, SwitchingConsumer

log = logging.getLogger("example")


def main(topic: str, group: str) -> None:
    """Read until interrupted."""
    conf = here(group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
    with SwitchingConsumer(conf) as consumer:
        consumer.subscribe([topic])
        try:
            while True:
                messages = consumer.consume(500, 1.0)
                for message in messages:
                    if message.error() is not None:
                        log.error("%s", message.error())
                    else:
                        log.info("%s: %r", message.topic(), message.value())
                if not messages:
                    continue
                try:
                    consumer.commit(asynchronous=False)  # everything returned so far
                except StaleGeneration as stale:
                    log.info("%s", stale)  # clients were moved meanwhile; the group resumes by itself
        except KeyboardInterrupt:
            log.info("%s", consumer.metrics())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(*words(__doc__, 2))
