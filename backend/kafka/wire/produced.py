"""What a broker says to a Produce request, where the client waits for no answer."""

from __future__ import annotations

from kafka.protocol.producer import ProduceResponse

from backend.kafka.wire.encoding import Buffer, MessageMalformed


def produce_has_failed(version: int, answer: Buffer) -> bool:
    """Whether a partition was refused; of an answer without its size in front. Raises MessageMalformed."""
    try:
        told = ProduceResponse[version].decode(bytes(answer), header=True)
    except Exception as error:  # noqa: BLE001 - kafka-python has no exception of its own for it
        raise MessageMalformed(f"no answer to Produce of version {version}: {error!r}") from None
    return any(part.error_code for topic in told.responses for part in topic.partition_responses)
