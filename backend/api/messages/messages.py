"""`/messages`: the messages of a stream on one cluster, decoded and filtered."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from backend.api.frame.access import Asking, check, needs
from backend.api.frame.requests import SharedServices
from backend.cluster_requests.trace_facts import no_stream
from backend.domain.access.access import Action
from backend.messages import facts
from backend.messages.reader import MessageReader
from backend.messages.request import MOST_LIMIT, USUAL_LIMIT, parse
from backend.messages.visible_schemas import schemas_of

router = APIRouter(tags=["messages"])


@router.get("/messages", openapi_extra=needs(Action.READ_MESSAGES))
def list_messages(
    request: Request,
    services: SharedServices,
    caller: Asking,
    stream: Annotated[str, Query(max_length=1200, description="tenant/instance/environment/stream")],
    cluster: Annotated[
        str | None,
        Query(max_length=300, description="Cluster to read on; default: the one that the clients use."),
    ] = None,
    partition: Annotated[
        int | None, Query(ge=0, le=2**31 - 1, description="Only this partition; default: all, at most 256.")
    ] = None,
    start: Annotated[
        str,
        Query(
            alias="from",
            description="`earliest`; `latest`: the newest ones, newest first; an offset, with a partition; "
            "`time:<milliseconds since 1970>`; or `next.from` of an earlier answer.",
        ),
    ] = "latest",
    limit: Annotated[int, Query(ge=1, le=MOST_LIMIT, description="Maximum number of messages.")] = USUAL_LIMIT,
    filters: Annotated[
        list[str] | None,
        Query(
            alias="filter",
            description="Only messages that match; may be repeated, and all must match. `key:TEXT`: the key "
            "contains it; `text:TEXT`: key or value contains it; `header:NAME` or `header:NAME=TEXT`; "
            "`json:EXPRESSION`: an RFC 9535 query that selects something in the value, or a comparison such as "
            "`$.status == 'paid'`.",
        ),
    ] = None,
) -> Response:
    """List messages of a stream, as they are on one cluster, within bounds of time and size.

    `complete` false: more may match; continue with `next.from` on the same `cluster`. Each request is recorded in
    the audit (`MessagesRead`). No consumer group is used, and nothing is committed.
    """
    check(caller, Action.READ_MESSAGES, stream, no_stream(stream))
    wanted = parse(
        start=start, partition="" if partition is None else str(partition), limit=str(limit), filters=filters or ()
    )
    with services.reading() as connection:
        known = facts.read(connection, services.config, stream, cluster)
    reader: MessageReader = request.app.state.messages
    found = reader.read(caller.name, known, wanted, schemas_of(request.app, known))
    return Response(found.json(), media_type="application/json")
