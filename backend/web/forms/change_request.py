"""A viewer's requests to change, carry out or try something: the changes are those of the REST API."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from fastapi import Request
from sqlalchemy import Connection

from backend.changes.change import Change
from backend.dispatch import Answer, Directed, IdempotencyKey, Outcome
from backend.domain.access.access import Caller
from backend.eventlog.recorded import Metadata, RecordedEvent
from backend.web.frame.services import ConsoleServices

A = TypeVar("A")


@dataclass(frozen=True)
class ChangeRequest:
    """One request for a change; all methods raise the domain's errors."""

    services: ConsoleServices
    request: Request
    viewer: Caller
    causation: str | None = None
    """Cause of the request, if it was not the viewer alone."""

    @property
    def metadata(self) -> Metadata:
        """Return the metadata for the request's events."""
        return Metadata(self.viewer.name, self.request.state.request_id, self.causation)

    def carry_out(self, change: Change[Any, Any]) -> None:
        """Carry out the change."""
        self._execute(change, lambda connection, outcome: None)

    def carry_out_once(self, change: Change[Any, Any], once: str, given: Mapping[str, str]) -> bool:
        """Carry out the change unless the same form was sent before; return whether it was new.

        `once`: identifies the page of the form; `given`: the fields that were sent.
        """
        first: list[Outcome] = []

        def answer(_: Connection, outcome: Outcome) -> Answer:
            first.append(outcome)
            return Answer(303, None)

        self._execute(change, answer, once=self._key(once, given))
        return bool(first)

    def begin_once(
        self,
        change: Change[Any, Any],
        once: str,
        given: Mapping[str, str],
        operation: Callable[[RecordedEvent], str | None],
    ) -> str | None:
        """Carry out the change once for each `once`, as above, and return the operation that it starts, if any.

        `operation`: its id, from the first event.
        """

        def answer(_: Connection, outcome: Outcome) -> Answer:
            return Answer(303, {"operation": operation(outcome.events[0]) if outcome.events else None})

        found: Answer = self._execute(change, answer, once=self._key(once, given))
        begun: str | None = found.body["operation"]
        return begun

    def was_carried_out(self, once: str, given: Mapping[str, str]) -> bool:
        """Return whether the same form was sent before, for forms that do more than a command."""
        return self.services.dispatcher.recall(self.viewer.name, self._key(once, given)) is not None

    def begun_before(self, once: str, given: Mapping[str, str]) -> str | None:
        """Return the operation that the same form started, if it was sent before; see `begin_once`."""
        first = self.services.dispatcher.recall(self.viewer.name, self._key(once, given))
        begun: str | None = None if first is None or first.body is None else first.body["operation"]
        return begun

    def _key(self, once: str, given: Mapping[str, str]) -> IdempotencyKey:
        sent = json.dumps([self.request.url.path, sorted(given.items())])
        return IdempotencyKey(f"page {once}", hashlib.sha256(sent.encode()).hexdigest())

    def dry_run(self, change: Change[Any, Any], look: Callable[[Connection, Outcome], A]) -> A:
        """Return the result of `look` with the change applied, and roll it back."""
        return self._execute(change, look, dry_run=True)

    def dry_run_together(
        self,
        build: Callable[[Connection], Sequence[Directed]],
        look: Callable[[Connection, list[RecordedEvent]], A],
    ) -> A:
        """Try several commands of one request, as `dry_run` does."""
        return self.services.dispatcher.execute_together(
            build, metadata=self.metadata, time=datetime.now(UTC), dry_run=True, answer=look
        )

    def carry_out_together_once(
        self, build: Callable[[Connection], Sequence[Directed]], once: str, given: Mapping[str, str]
    ) -> None:
        """Carry out several commands, all or none, once for each `once` as above."""
        self.services.dispatcher.execute_together(
            build,
            metadata=self.metadata,
            time=datetime.now(UTC),
            idempotency=self._key(once, given),
            answer=lambda connection, recorded: Answer(303, None),
        )

    def _execute(
        self,
        change: Change[Any, Any],
        answer: Callable[[Connection, Outcome], A],
        *,
        dry_run: bool = False,
        once: IdempotencyKey | None = None,
    ) -> A:
        return self.services.dispatcher.execute(
            change.decider,
            change.stream,
            change.build,
            metadata=self.metadata,
            time=datetime.now(UTC),
            dry_run=dry_run,
            idempotency=once,
            answer=change.answering(answer),
        )
