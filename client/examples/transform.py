"""Transforms one stream into another exactly once: `python transform.py orders invoices billing`."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from settings import here, words
from treeline_client import SwitchingConsumer, SwitchingProducer

log = logging.getLogger("example")


def main(source: str, target: str, group: str) -> None:
    """Transform until interrupted."""
    conf = here(
        group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, isolation_level="read_committed"
    )
    with SwitchingConsumer(conf) as consumer, SwitchingProducer(here(transactional_id=f"{group}-1")) as producer:
        producer.init_transactions()
        consumer.subscribe([source])
        while True:
            messages = [message for message in consumer.consume(500, 1.0) if message.error() is None]
            if messages:
                transform(consumer, producer, messages, target)


def transform(
    consumer: SwitchingConsumer, producer: SwitchingProducer, messages: list[Message], target: str
) -> None:
    """Transform messages in one transaction; after a switch in between, they are read again on the new cluster."""
    read_in = consumer.generation()
    if not begin(consumer, producer):
        return
    try:
        for message in messages:
            producer.produce(target, (message.value() or b"").upper(), key=message.key())
            producer.poll(0)
        producer.send_offsets_to_transaction(positions(messages), consumer.consumer_group_metadata())
        producer.commit_transaction()
        return
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        log.info("%s", error)
    producer.abort_transaction()
    go_back(consumer, messages, read_in)


def begin(consumer: SwitchingConsumer, producer: SwitchingProducer) -> bool:
    """Begin a transaction; return False if the consumer was moved meanwhile and its messages are read again.

    While the producer is held, the consumer must be able to close, because the switch waits for it.
    """
    while True:
        try:
            producer.begin_transaction(0.2)
            return True
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise
        if not consumer.follow():
            return False


def positions(messages: list[Message]) -> list[TopicPartition]:
    """Return the offset after the last message of each partition."""
    after = {(str(m.topic()), m.partition() or 0): (m.offset() or 0) + 1 for m in messages}
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in after.items()]


def go_back(consumer: SwitchingConsumer, messages: list[Message], read_in: int) -> None:
    """Seek back to these messages, unless the consumer was moved: then the group resumes by itself."""
    if consumer.generation() != read_in:
        return
    first: dict[tuple[str, int], int] = {}
    for message in messages:
        first.setdefault((str(message.topic()), message.partition() or 0), message.offset() or 0)
    for (topic, partition), offset in first.items():
        consumer.seek(TopicPartition(topic, partition, offset))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(*words(__doc__, 3))
