"""A node's link to the control plane: it sends reports, and receives epochs and the list of unreachable nodes.

Without the control plane a node continues with what it received last; it never stops because of it.
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
_LOGGED_BYTES = 500
"""Most bytes of a refusal that are logged; the problem document states the reason."""
_MOST_EPOCH = 2**53
_PATH = "/api/v1/route-epochs/reports"

_LOG = structlog.get_logger(__name__)


class ResponseInvalid(ValueError):
    """The control plane sent an invalid response."""


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Epochs and unreachable nodes, as received from the control plane."""

    current: int
    """Epoch under which proxies write."""
    fenced: int
    """Epoch up to which mains refuse data."""
    committed: int
    """Epoch up to which all data is in block objects."""
    dead: frozenset[str]
    """Nodes that no longer report."""


class Control:
    """Reporting loop of one node."""

    def __init__(
        self,
        url: str,
        token: str | None,
        report: Callable[[], Mapping[str, Any]],
        on_epochs: Callable[[Epochs], None],
    ) -> None:
        """Set up the loop.

        `token` is a reference to a secret; `report` returns the report to send; `on_epochs` receives each
        response.
        """
        self._url, self._token = url + _PATH, token
        self._report, self._on_epochs = report, on_epochs
        self._first = asyncio.Event()
        self._why: str | None = None

    async def run(self) -> None:
        """Report every two seconds until cancelled."""
        # HTTP proxies of the environment are for external addresses.
        async with httpx2.AsyncClient(trust_env=False, timeout=_ANSWER_SECONDS) as client:
            while True:
                began = asyncio.get_running_loop().time()
                try:
                    async with asyncio.timeout(_ANSWER_SECONDS):
                        self._on_epochs(await self._post(client))
                except Exception as error:  # noqa: BLE001 - whatever fails here, clients are still served
                    self._mark_unreachable(str(error) or f"no answer within {_ANSWER_SECONDS:g} s")
                else:
                    self._mark_reachable()
                spent = asyncio.get_running_loop().time() - began
                await asyncio.sleep(max(0.0, _EVERY_SECONDS - spent))

    async def first_answer(self, seconds: float) -> bool:
        """Wait for the first response; return whether it came within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._first.wait()
        except TimeoutError:
            return False
        return True

    async def _post(self, client: httpx2.AsyncClient) -> Epochs:
        headers = {"Authorization": f"Bearer {resolve(self._token)}"} if self._token else {}
        async with client.stream("POST", self._url, json=dict(self._report()), headers=headers) as answer:
            body = bytearray()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > _MOST_ANSWER_BYTES:
                    raise ResponseInvalid(f"the response is longer than {_MOST_ANSWER_BYTES} bytes")
        if answer.status_code != 200:
            raise ResponseInvalid(
                f"the control plane returned {answer.status_code}: {bytes(body[:_LOGGED_BYTES])!r}"
            )
        return read_epochs(bytes(body))

    def _mark_reachable(self) -> None:
        self._first.set()
        if self._why is not None:
            self._why = None
            _LOG.info("zone_router.control_heard")

    def _mark_unreachable(self, why: str) -> None:
        if why != self._why:
            self._why = why
            _LOG.warning("zone_router.control_not_heard", url=self._url, why=why)


def read_epochs(body: bytes) -> Epochs:
    """Parse the response to a report. Raises ResponseInvalid for anything else."""
    try:
        received = json.loads(body)
    except (ValueError, RecursionError):
        raise ResponseInvalid("the response is not JSON") from None
    if not isinstance(received, dict):
        raise ResponseInvalid("the response is not a JSON object")
    numbers: list[Any] = [received.get(name) for name in ("current", "fenced", "committed")]
    dead = received.get("dead")
    if any(type(each) is not int or not 0 <= each <= _MOST_EPOCH for each in numbers):
        raise ResponseInvalid(f"the epochs are invalid: {numbers!r:.100}")
    current, fenced, committed = numbers
    if not committed <= fenced <= current or (fenced == current and current):
        raise ResponseInvalid(f"the epochs contradict each other: {numbers}")
    if not isinstance(dead, list) or not all(isinstance(each, str) for each in dead):
        raise ResponseInvalid("the unreachable nodes are not a list of names")
    return Epochs(current=current, fenced=fenced, committed=committed, dead=frozenset(dead))
