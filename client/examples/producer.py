"""Sends a numbered record each millisecond until it is interrupted: `python producer.py orders`."""

from __future__ import annotations

import itertools
import logging
import time

from confluent_kafka import KafkaError, Message
from settings import here, words
from treeline_client import OutcomeUnknown, SwitchingProducer

log = logging.getLogger("example")


def delivered(error: KafkaError | None, message: Message) -> None:
    """Log a failed delivery; called from `poll()` for each record, with its logical topic."""
    if isinstance(error, OutcomeUnknown):
        log.warning("%r may have been delivered: %s", message.value(), error)
    elif error is not None:
        log.error("%r was not delivered: %s", message.value(), error)


def main(topic: str) -> None:
    """Send until interrupted."""
    with SwitchingProducer(here(linger_ms="5")) as producer:
        try:
            for number in itertools.count():
                try:
                    producer.produce(topic, str(number), key=str(number % 10), on_delivery=delivered)
                except BufferError:  # a long move: wait for space in the queue
                    producer.poll(0.1)
                producer.poll(0)
                time.sleep(0.001)
        except KeyboardInterrupt:
            log.info("%s", producer.metrics())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(*words(__doc__, 1))
