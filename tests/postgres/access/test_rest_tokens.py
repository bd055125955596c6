"""Foreign, expired and revoked tokens: every route answers all of them alike and does nothing, as for none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from backend.projections.users import api_tokens
from tests.nightly import some_now
from tests.postgres.access.test_rest_access import NAMES, PLAIN
from tests.support.api.callers import new_token, new_user
from tests.support.api.rest import Rest, problem, shared_rest
from tests.support.database.postgres import RunningPostgres

# Of `spoilt`: who sends these sends no token.
WITHOUT = ("missing", "of another kind", "empty")


@pytest.fixture(scope="module")
def shared(postgres: RunningPostgres) -> Iterator[Rest]:
    with shared_rest(postgres) as rest:
        rest.set_up()
        yield rest


@pytest.fixture(scope="module")
def spoilt(shared: Rest) -> dict[str, str]:
    """Authorization headers of those who may do nothing."""
    new_user(shared, "ada", "admin")
    tokens = {name: new_token(shared, "ada", name) for name in ("expired", "revoked", "live")}
    assert shared("DELETE", "/users/ada/tokens/revoked").status_code == 204
    with shared.client.app.state.services.engine.begin() as connection:  # type: ignore[attr-defined]
        expired = sa.update(api_tokens).where(api_tokens.c.name == "expired")
        connection.execute(expired.values(expires_at=sa.func.now()))
    assert shared("GET", "/me", Authorization=f"Bearer {tokens['live']}").status_code == 200
    return {
        "missing": "",
        "of another kind": "Basic YWRhOmFkYQ==",
        "empty": "Bearer ",
        "foreign": "Bearer treeline_" + "A" * 43,
        "of a provider": "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2ln",
        "cut off": f"Bearer {tokens['live'][:-1]}",
        "lengthened": f"Bearer {tokens['live']}A",
        "expired": f"Bearer {tokens['expired']}",
        "revoked": f"Bearer {tokens['revoked']}",
    }


@some_now("method, path", PLAIN, now=range(0, len(PLAIN), 6))
def test_no_such_token_opens_anything(shared: Rest, spoilt: dict[str, str], method: str, path: str) -> None:
    shared.forget_wrong_tokens()
    head = shared.head()
    without, with_one = set(), set()
    for name, authorization in spoilt.items():
        body = None if method == "GET" else {}
        answer = shared(method, path.format(tenant="acme", **NAMES), body, Authorization=authorization)
        problem(answer, 401, "not-authenticated")
        (without if name in WITHOUT else with_one).add(answer.text)
    # What never was a token, one that has expired and one that was revoked: nobody learns which.
    assert (len(without), len(with_one)) == (1, 1)
    assert without != with_one
    assert shared.head() == head
