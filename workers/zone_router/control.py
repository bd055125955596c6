"""A node's word with the control plane: it reports how far it is, and hears of epochs and of nodes that are dead.

Without the control plane a node goes on with what it has heard last; it never ends because of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
import structlog

from backend.kafka.base.references import resolve

_EVERY_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
_MOST_ANSWER_BYTES = 1 << 20
_TOLD_BYTES = 500
"""Of an answer that refuses a report: a problem document says why."""
_MOST_EPOCH = 2**53
_PATH = "/api/v1/route-epochs/reports"

_LOG = structlog.get_logger(__name__)


class AnswerRefused(ValueError):
    """The control plane's answer is none."""


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """What the control plane tells."""

    current: int
    """Proxies write under it."""
    fenced: int
    """Mains refuse what comes under it or an older one."""
    committed: int
    """What came under it and older ones is in block objects."""
    dead: frozenset[str]
    """Nodes that do not report any more."""


class Control:
    """One node's."""

    def __init__(
        self,
        url: str,
        token: str | None,
        report: Callable[[], Mapping[str, Any]],
        on_epochs: Callable[[Epochs], None],
    ) -> None:
        """`token`: a reference; `report` is asked before each request, `on_epochs` is told each answer."""
        self._url, self._token = url + _PATH, token
        self._report, self._on_epochs = report, on_epochs
        self._first = asyncio.Event()
        self._why: str | None = None

    async def run(self) -> None:
        """Report every two seconds until it is cancelled."""
        # The environment's proxies are for the world outside.
        async with httpx2.AsyncClient(trust_env=False, timeout=_ANSWER_SECONDS) as client:
            while True:
                began = asyncio.get_running_loop().time()
                try:
                    async with asyncio.timeout(_ANSWER_SECONDS):
                        self._on_epochs(await self._ask(client))
                except Exception as error:  # noqa: BLE001 - whatever comes from there, clients are served on
                    self._not_heard(str(error) or f"no answer within {_ANSWER_SECONDS:g} s")
                else:
                    self._heard()
                spent = asyncio.get_running_loop().time() - began
                await asyncio.sleep(max(0.0, _EVERY_SECONDS - spent))

    async def first_answer(self, seconds: float) -> bool:
        """Whether there is one within so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._first.wait()
        except TimeoutError:
            return False
        return True

    async def _ask(self, client: httpx2.AsyncClient) -> Epochs:
        headers = {"Authorization": f"Bearer {resolve(self._token)}"} if self._token else {}
        async with client.stream("POST", self._url, json=dict(self._report()), headers=headers) as answer:
            body = bytearray()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > _MOST_ANSWER_BYTES:
                    raise AnswerRefused(f"its answer is longer than {_MOST_ANSWER_BYTES} bytes")
        if answer.status_code != 200:
            raise AnswerRefused(f"it answers {answer.status_code}: {bytes(body[:_TOLD_BYTES])!r}")
        return read_epochs(bytes(body))

    def _heard(self) -> None:
        self._first.set()
        if self._why is not None:
            self._why = None
            _LOG.info("zone_router.control_heard")

    def _not_heard(self, why: str) -> None:
        if why != self._why:
            self._why = why
            _LOG.warning("zone_router.control_not_heard", url=self._url, why=why)


def read_epochs(body: bytes) -> Epochs:
    """Raises AnswerRefused for anything but an answer to a report."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise AnswerRefused("its answer is no JSON") from None
    if not isinstance(told, dict):
        raise AnswerRefused("its answer is no object")
    numbers: list[Any] = [told.get(name) for name in ("current", "fenced", "committed")]
    dead = told.get("dead")
    if any(type(each) is not int or not 0 <= each <= _MOST_EPOCH for each in numbers):
        raise AnswerRefused(f"its epochs are none: {numbers!r:.100}")
    current, fenced, committed = numbers
    if not committed <= fenced <= current or (fenced == current and current):
        raise AnswerRefused(f"its epochs contradict each other: {numbers}")
    if not isinstance(dead, list) or not all(isinstance(each, str) for each in dead):
        raise AnswerRefused("its dead nodes are no list of names")
    return Epochs(current=current, fenced=fenced, committed=committed, dead=frozenset(dead))
