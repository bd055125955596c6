"""Inputs of handlers besides the body: position to read at, pagination, and the terms of a write."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar, get_args, get_origin

from fastapi import Depends, Header, HTTPException, Query, Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, field_validator
from sqlalchemy import Connection

from backend.api.frame.access import SAFE_METHODS, Asking
from backend.api.frame.services import Services
from backend.changes.change import Change
from backend.dispatch import Answer, Decider, Directed, IdempotencyKey, Outcome
from backend.domain.access.access import Action, may
from backend.domain.base.errors import NotFound, StaleVersion, ValueInvalid
from backend.domain.names.names import is_name
from backend.eventlog.recorded import Metadata
from backend.queries.base import events

S = TypeVar("S")
C = TypeVar("C")
R = TypeVar("R")

MOST_ITEMS = 1000
USUAL_ITEMS = 500
_LAST_POSITION = 2**63 - 2
"""Highest position that the database can store, with room for the next one."""
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")


class Body(BaseModel):
    """Base of every request body: unknown fields are refused, and "4" is not accepted as 4."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*")
    @classmethod
    def _can_be_stored(cls, value: Any) -> Any:
        # Not every JSON string is valid text: the database rejects NUL, and half a surrogate pair is no character.
        texts = value if isinstance(value, list) else [value]
        if isinstance(value, dict):
            texts = [*value, *value.values()]
        for text in texts:
            if isinstance(text, str) and _NO_TEXT.search(text):
                raise ValueError("contains NUL or half of a surrogate pair, which are not valid in text")
        return value


async def get_services(request: Request) -> Services:
    """Return the process's services."""
    services: Services = request.app.state.services
    return services


SharedServices = Annotated[Services, Depends(get_services)]


async def plausible_names(request: Request) -> None:
    """Answer 404 for a path with an impossible name, before it reaches the database."""
    for name, value in request.path_params.items():
        if isinstance(value, str) and not is_name(value):
            raise NotFound(f"there is no {name} {value[:60]!r}")


async def known_parameters(request: Request) -> None:
    """Refuse unknown or repeated query parameters: a mistyped `dry_run` must not turn into a write."""
    fields = get_flat_params(request.scope["route"].dependant)
    queries = [field for field in fields if isinstance(field.field_info, params.Query)]
    taken = {field.alias for field in queries}
    unknown = sorted(set(request.query_params) - taken)
    if unknown:
        listed = ", ".join(sorted(taken)) or "none"
        raise ValueInvalid(f"unknown query parameter {unknown[0][:60]!r}; this route takes {listed}")
    given = [name for name, _ in request.query_params.multi_items()]
    for field in queries:
        if given.count(field.alias) > 1 and not _takes_many(field.field_info.annotation):
            raise ValueInvalid(f"{field.alias} is given {given.count(field.alias)} times, and is taken once")


async def plausible_body(request: Request) -> None:
    """Refuse a body that is not JSON even if the route takes none: its sender expects something else."""
    if request.scope["route"].body_field is not None or request.method in SAFE_METHODS:
        return
    body = await request.body()
    if not body:
        return
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        place = {"type": "json_invalid", "loc": ("body", error.pos), "ctx": {"error": error.msg}}
        raise RequestValidationError([place]) from error
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "there was an error parsing the body") from error


def _takes_many(annotation: Any) -> bool:
    return list in (get_origin(annotation), *map(get_origin, get_args(annotation)))


# --- reading


def _reading(services: SharedServices) -> Iterator[Connection]:
    with services.reading() as connection:
        yield connection


Reading = Annotated[Connection, Depends(_reading)]


def _at(
    connection: Reading,
    caller: Asking,
    at: Annotated[int | None, Query(ge=0, description="Read as of this position of the event log.")] = None,
) -> int | None:
    if at is not None and not may(caller, Action.READ_ESTATE):
        # A position beyond the head counts as now: a tenant must not learn how much others do.
        return min(at, _LAST_POSITION)
    if at is not None:
        head = events.head(connection).position
        if at > head:
            raise ValueInvalid(f"position {at} lies in the future; the event log's head is {head}")
    return at


At = Annotated[int | None, Depends(_at)]


@dataclass(frozen=True)
class Page:
    """One page of a list: up to `limit` items whose key is above `after`."""

    limit: int
    after: Any


def _page(
    limit: Annotated[
        int, Query(ge=1, le=MOST_ITEMS, description="Maximum number of items in the answer.")
    ] = USUAL_ITEMS,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the previous answer.")] = None,
) -> Page:
    return Page(limit, None if cursor is None else _read_cursor(cursor))


Paging = Annotated[Page, Depends(_page)]


def listed(
    rows: Sequence[R], page: Page, key: Callable[[R], str | int], shown: Callable[[R], dict[str, Any]]
) -> dict[str, Any]:
    """Return a list's answer: one page of `rows`, which are in the order of `key`."""
    if page.after is not None:
        if rows and type(page.after) is not type(key(rows[0])):
            raise ValueInvalid("this cursor belongs to another list")
        rows = [row for row in rows if key(row) > page.after]
    more = len(rows) > page.limit
    rows = rows[: page.limit]
    next_cursor = _write_cursor(key(rows[-1])) if more else None
    return {"items": [shown(row) for row in rows], "next_cursor": next_cursor}


def _write_cursor(key: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _read_cursor(cursor: str) -> str | int:
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (binascii.Error, ValueError, RecursionError):
        key = None
    if type(key) not in (str, int) or (isinstance(key, str) and _NO_TEXT.search(key)):
        raise ValueInvalid("this cursor is not valid")
    found: str | int = key
    return found


# --- writing


@dataclass(frozen=True)
class Write:
    """Terms of one write: caller, time, dry run or not, If-Match and Idempotency-Key."""

    services: Services
    metadata: Metadata
    time: datetime
    dry_run: bool
    if_match: str | None
    idempotency: IdempotencyKey | None

    def match(self, version: int | None) -> None:
        """Raise StaleVersion unless If-Match allows a resource at this version (None: it does not exist)."""
        if self.if_match is None or (self.if_match.strip() == "*" and version is not None):
            return
        wanted = [tag.strip() for tag in self.if_match.split(",")]
        if version is None or etag(version) not in wanted:
            present = "does not exist" if version is None else f"is at {etag(version)}"
            raise StaleVersion(f"the resource {present}, If-Match says {self.if_match[:60]!r}; read it again")

    def first_answer(self) -> Response | None:
        """Return the first answer to this request, if it was carried out before."""
        if self.idempotency is None or self.dry_run:
            return None
        first = self.services.dispatcher.recall(self.metadata.actor, self.idempotency)
        return None if first is None else respond(first)

    def rehearse(self, decider: Decider[S, C], stream: str, build: Callable[[Connection], C]) -> Response | None:
        """Raise what `run` would, before slow work is done in vain; appends nothing.

        Returns the first answer if this request was carried out before: it is looked up under the same lock, since
        a twin of the request that ends in between would make this one look like a conflict.
        """
        first: Answer | None = self.services.dispatcher.execute(
            decider,
            stream,
            build,
            metadata=self.metadata,
            time=self.time,
            dry_run=True,
            idempotency=None if self.dry_run else self.idempotency,
            answer=lambda connection, outcome: None,
        )
        return None if first is None else respond(first)

    def rehearse_change(self, change: Change[S, C]) -> Response | None:
        """Rehearse a change as `rehearse` does a command."""
        return self.rehearse(change.decider, change.stream, change.build)

    def run(
        self,
        decider: Decider[S, C],
        stream: str,
        build: Callable[[Connection], C],
        answer: Callable[[Connection, Outcome], Answer],
    ) -> Response:
        """Execute a command and return the response."""
        return respond(
            self.services.dispatcher.execute(
                decider,
                stream,
                build,
                metadata=self.metadata,
                time=self.time,
                dry_run=self.dry_run,
                idempotency=None if self.dry_run else self.idempotency,
                answer=answer,
            )
        )

    def run_together(
        self, build: Callable[[Connection], Sequence[Directed]], answer: Callable[[Connection], Answer]
    ) -> Response:
        """Execute several commands in one transaction and return the response."""
        return respond(
            self.services.dispatcher.execute_together(
                build,
                metadata=self.metadata,
                time=self.time,
                dry_run=self.dry_run,
                idempotency=None if self.dry_run else self.idempotency,
                answer=lambda connection, _: answer(connection),
            )
        )

    def carry_out(self, change: Change[S, C], answer: Callable[[Connection, Outcome], Answer]) -> Response:
        """Execute a change, with its further writes, and return the response."""
        return self.run(change.decider, change.stream, change.build, change.answering(answer))


DryRun = Annotated[bool, Query(description="Check everything and answer as usual, but change nothing.")]


async def _write(
    request: Request,
    services: SharedServices,
    caller: Asking,
    dry_run: DryRun = False,
    if_match: Annotated[str | None, Header(description="ETag that the resource must still have.")] = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=255,
            pattern=r"^[\x21-\x7e]+$",
            description="Repeated requests with the same key get the first answer.",
        ),
    ] = None,
) -> Write:
    idempotency = None
    if idempotency_key is not None:
        asked = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
        digest = hashlib.sha256(asked + await request.body()).hexdigest()
        idempotency = IdempotencyKey(idempotency_key, digest)
    metadata = Metadata(actor=caller.name, request_id=request.state.request_id)
    return Write(services, metadata, datetime.now(UTC), dry_run, if_match, idempotency)


Writing = Annotated[Write, Depends(_write)]


def etag(version: int) -> str:
    """Return the strong entity tag of a resource: the version of the event that last described it."""
    return f'"{version}"'


def shown_at(version: int, body: dict[str, Any]) -> JSONResponse:
    """Return the response to a GET of one resource."""
    return JSONResponse(body, headers={"ETag": etag(version)})


def respond(answer: Answer) -> Response:
    """Convert an answer of the dispatcher into its HTTP response."""
    if answer.status == 204:
        return Response(status_code=204, headers=dict(answer.headers))
    body = {**answer.body, **answer.shown_once} if answer.shown_once else answer.body
    return JSONResponse(body, answer.status, dict(answer.headers))
