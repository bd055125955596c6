"""Connection to a broker on behalf of one client."""

from __future__ import annotations

from typing import Protocol

from backend.kafka.wire.encoding import MessageMalformed
from workers.zone_router.connections import Connection
from workers.zone_router.frames import Frame, FrameRefused, Frames
from workers.zone_router.traffic import UNKNOWN

_MOST_ANSWER_BYTES = 2**31 - 1
BROKER_FULL = "broker full"
"""Reason to pause reading from the client."""


class _Client(Protocol):
    def answered(self, frame: Frame) -> None: ...
    def broker_gone(self) -> None: ...
    def end(self, why: str, detail: str) -> None: ...
    def pause(self, why: str) -> None: ...
    def resume(self, why: str) -> None: ...


class BrokerConnection(Connection):
    """The broker's side."""

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self._client = client
        self._frames = Frames(_MOST_ANSWER_BYTES)
        self.zone = UNKNOWN

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._client.answered(frame)
        except (FrameRefused, MessageMalformed) as error:
            self._client.end("broker-garbage", str(error))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.broker_gone()

    def pause_writing(self) -> None:
        self._client.pause(BROKER_FULL)

    def resume_writing(self) -> None:
        self._client.resume(BROKER_FULL)
