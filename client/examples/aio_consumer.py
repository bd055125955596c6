"""Reads a stream until it is interrupted: `python aio_consumer.py orders billing`."""

from __future__ import annotations

import asyncio
import logging

from settings import here, words
from treeline_client import AsyncSwitchingConsumer

log = logging.getLogger("example")


async def main(topic: str, group: str) -> None:
    """Read with automatic commits."""
    async with AsyncSwitchingConsumer(here(group_id=group, auto_offset_reset="earliest")) as consumer:
        await consumer.subscribe([topic])
        while True:
            for message in await consumer.consume(100, 1.0):
                if message.error() is None:
                    log.info("%s: %r", message.topic(), message.value())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(*words(__doc__, 2)))
