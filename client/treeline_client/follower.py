"""Thread that follows discovery for one client: it polls, and gives the client orders by `client_state`."""

from __future__ import annotations

import logging
import random
import secrets
import threading
import time
from collections.abc import Callable
from typing import Protocol

from treeline_client import client_state as rules
from treeline_client.answers import Answer
from treeline_client.client_state import ClientState, Move, Order, Phase, Resume, Stay
from treeline_client.configuration import Configuration
from treeline_client.discovery import Cache, Discovery
from treeline_client.errors import DiscoveryRefused, DiscoveryUnavailable
from treeline_client.metrics import Counters

log = logging.getLogger("treeline_client")

_LONGEST_WAIT_MS = 10_000
_PACE_S = 0.25
"""Interval between requests while the client settles, moves or waits, since it has work besides long polls."""
_EARLY_S = 1.0
"""Interval between requests that are answered early without news, or that wait for the application."""
_FIRST_BACKOFF_S = 0.1
_UNREGISTER_S = 2.0
_JOIN_S = 10.0


class Follows(Protocol):
    """A client that follows discovery. Its methods are called from the follower's thread only."""

    def carry_out(self, order: Order) -> None:
        """Begin an order; must not wait long."""

    def work(self) -> bool:
        """Continue the order for at most a tenth of a second; return whether there is more to do."""

    def is_settled(self) -> bool:
        """Return whether nothing is in flight, nor will be before the next order."""

    def still_in(self) -> int | None:
        """Return the earlier generation on whose cluster the client still reads or writes; else None."""


class Follower:
    """Follows discovery for one client, from its first answer until it unregisters."""

    def __init__(self, configuration: Configuration, role: str) -> None:
        """Get the first answer from the control plane, or else from the cache.

        Raises DiscoveryRefused, or DiscoveryUnavailable if there is no answer and none is cached.
        """
        base = str(configuration.kafka["client.id"])
        self.client_id = f"{base}-{secrets.token_hex(4)}"
        self.counters = Counters()
        self._discovery = Discovery(configuration, self.client_id, role)
        self._cache = Cache(configuration)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._client: Follows
        answer, fresh = self._first(configuration.start_timeout_s)
        self._state = rules.begin(role, answer, fresh, time.monotonic())
        self._failures = 0
        self._ask_at = 0.0
        self._is_on_its_way = False  # as last reported

    @property
    def state(self) -> ClientState:
        """Return the client's state; an immutable value, replaced by the thread."""
        return self._state

    def start(self, client: Follows) -> None:
        """Start to follow for this client."""
        self._client = client
        self._thread = threading.Thread(target=self._run, name=f"treeline {self.client_id}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread, because something changed in the client."""
        self._wake.set()

    def stop(self) -> None:
        """Stop the thread and unregister from discovery."""
        self._stop.set()
        self._wake.set()
        self._discovery.interrupt()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
            if self._thread.is_alive():
                return  # the connection belongs to the thread
        self._discovery.unregister(_UNREGISTER_S)

    def _first(self, within_s: float) -> tuple[Answer, bool]:
        end = time.monotonic() + within_s
        cached = self._cache.read()
        pause = _FIRST_BACKOFF_S
        while True:
            self.counters.polls += 1
            try:
                answer, body = self._discovery.ask(None, "active", 0)
            except DiscoveryUnavailable as error:
                self.counters.poll_failures += 1
                if cached is not None:
                    log.warning("%s; starting with the cached answer: %s", error, _shown(cached))
                    return cached, False
                if time.monotonic() + pause > end:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
            else:
                self._cache.keep(answer, body)
                return answer, True

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._turn()
            except Exception:
                # Retry whatever failed: a client that does not follow could not be moved.
                log.exception("following discovery failed; trying again")
                self._stop.wait(1.0)

    def _turn(self) -> None:
        self._wake.clear()
        busy = self._client.work()
        now = time.monotonic()
        before = self._state
        if before.phase in (Phase.SETTLING, Phase.WAITING) and self._client.is_settled():
            self._state = rules.settled(before, now)
            if self._state.phase is Phase.HELD:
                self._ask_at = now  # report it at once: the switch waits for it
        if self._is_on_its_way and self._client.still_in() is None:
            self._is_on_its_way = False
            self._ask_at = now  # report this at once, too
        self._decide(lambda state: rules.elapsed(state, now))
        if now >= self._ask_at and rules.may_promise(self._state, now):
            self._ask(busy)
        elif not busy:
            due = [at for at in (self._ask_at, rules.next_change(self._state)) if at is not None and at > now]
            self._wake.wait(min(min(due, default=now) - now, 1.0) if due else _PACE_S)

    def _ask(self, busy: bool) -> None:
        asked = self._state
        still_in = self._client.still_in()
        self._is_on_its_way = still_in is not None
        patient = not busy and still_in is None and asked.phase in (Phase.ACTIVE, Phase.HELD)
        wait_ms = min(asked.answer.ttl_ms // 2, _LONGEST_WAIT_MS) if patient else 0
        self.counters.polls += 1
        began = time.monotonic()
        try:
            answer, body = self._discovery.ask(asked.answer.generation, asked.reported, wait_ms, still_in)
        except DiscoveryRefused as error:
            self._failed(str(error), True)
            return
        except DiscoveryUnavailable as error:
            self._failed(error.detail, error.may_have_arrived)
            return
        now = time.monotonic()
        if self._failures:
            log.info("discovery is available again")
        self._failures = 0
        if answer.generation >= (asked.target or asked.answer).generation:
            self._cache.keep(answer, body)
        else:
            log.warning(
                "ignored an answer: %s; this client knows generation %d", _shown(answer), asked.answer.generation
            )
        order = self._decide(lambda state: rules.heard(state, answer, now))
        # After an early answer without news (from a server that does not wait), pause before the next request.
        early = now - began < min(wait_ms / 2000, _PACE_S)
        if isinstance(order, Resume | Stay):
            self._ask_at = now  # the reported hold still counts, so report its end at once
        elif still_in is not None and order is None and not busy:
            self._ask_at = now + _EARLY_S  # it reports at once when the application has got there
        elif order is not None or not patient:
            # Carry out the order first, and report as soon as that is done.
            self._ask_at = now + _PACE_S
        else:
            self._ask_at = now + (_EARLY_S if early else 0.0)

    def _failed(self, detail: str, may_have_arrived: bool) -> None:
        if self._stop.is_set():
            return
        now = time.monotonic()
        self.counters.poll_failures += 1
        if not self._failures:
            log.warning("discovery: %s; continuing with the last answer", detail)
        self._state = rules.missed(self._state, may_have_arrived, now)
        longest = self._state.answer.ttl_ms / 1000
        backoff = min(_FIRST_BACKOFF_S * 2 ** min(self._failures, 16), longest)
        self._failures += 1
        self._ask_at = now + backoff * random.uniform(0.5, 1.0)  # jitter, since many clients fail at the same time

    def _decide(self, rule: Callable[[ClientState], tuple[ClientState, Order | None]]) -> Order | None:
        before = self._state
        self._state, order = rule(before)
        if order is not None:
            self._count(before, order)
            self._client.carry_out(order)
        return order

    def _count(self, before: ClientState, order: Order) -> None:
        if isinstance(order, Move | Stay) and order.answer.destination == before.answer.destination:
            self.counters.aborts += 1
            log.info("a switch was aborted; continuing on %s", _shown(order.answer))
        elif isinstance(order, Move):
            self.counters.switches += 1
            log.info("moved from %s to %s (%s)", _shown(before.answer), _shown(order.answer), order.way.value)
        elif isinstance(order, Resume):
            self.counters.aborts += not order.ran_out
            self.counters.promises_run_out += order.ran_out
            if order.ran_out:
                log.warning("discovery did not answer during the hold; continuing on %s", _shown(before.answer))
            else:
                log.info("the hold ended without a move; continuing on %s", _shown(before.answer))
        else:
            log.info("holding on %s (%s)", _shown(before.answer), type(order).__name__.lower())


def _shown(answer: Answer) -> str:
    return f"{answer.cluster} in generation {answer.generation}"
