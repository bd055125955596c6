"""Sends a hundred records and waits until all are delivered: `python aio_producer.py orders`."""

from __future__ import annotations

import asyncio
import logging

from settings import here, words
from treeline_client import AsyncSwitchingProducer

log = logging.getLogger("example")


async def main(topic: str) -> None:
    """Send records, and log their offsets."""
    async with AsyncSwitchingProducer(here()) as producer:
        futures = [await producer.produce(topic, str(number), key=str(number % 10)) for number in range(100)]
        for message in await asyncio.gather(*futures):
            log.info("%s [%s] %s", message.topic(), message.partition(), message.offset())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(*words(__doc__, 1)))
