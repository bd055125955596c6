"""Generated requests over the whole OpenAPI: no crash, no undocumented answer, no access without the token.

Bounded and derandomised, so that a failure can be reproduced; made from the schema that outsiders see.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.openapi import from_url
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests import report_facts
from tests.nightly import some_now
from tests.support.api import http
from tests.support.api.rest import TOKEN, Rest, new_database, served
from tests.support.database.postgres import RunningPostgres

EXAMPLES = 8
# A well-formed request may still break a rule that a schema cannot express (a name taken, an invalid tree).
NOT_CHECKED = [positive_data_acceptance]
# The tool's own list, and 413: a list of more items than its schema allows may be too large to be read at all.
REFUSALS = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
CONFIG = {
    "checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}},
    # The tool gives up after ten seconds, which a busy machine may need for a password or a cluster that is away.
    "request-timeout": 60,
}
CALLERS = ip_network("10.0.0.0/8").hosts()
"""Source addresses, one for each request: wrong tokens, which some checks send, are limited by address."""


@pytest.fixture(scope="module")
def described(postgres: RunningPostgres) -> Iterator[BaseSchema]:
    """Yield the OpenAPI of an API with clusters, a tree and a tenant; the endless event stream is left out."""
    with served(new_database(postgres), trusted_proxies='["127.0.0.1"]') as (url, _):
        with http.client(base_url=url) as client:
            Rest(client).set_up()
        config = SchemathesisConfig.from_dict(CONFIG)
        yield from_url(f"{url}/openapi.json", config=config).exclude(path_regex="/events/stream$")


@some_now("mode", list(GenerationMode), now=(1,))
def test_every_operation_answers_as_documented(described: BaseSchema, mode: GenerationMode) -> None:
    # A plain loop: schemathesis's own parametrisation does not work with this pytest.
    broken: list[str] = []
    asked: dict[str, int] = {}
    for found in described.get_all_operations():
        operation = found.ok()
        try:
            asked[operation.label] = _check(operation, mode)
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE  # it takes nothing that could be sent wrongly
        except BaseExceptionGroup as error:
            broken.append(f"{operation.label}: {error.exceptions}")
    facts = {"asked": asked, "broken": broken, "version": schemathesis.__version__, "examples": EXAMPLES}
    report_facts.leave(f"schemathesis-{mode.value}", facts)
    assert not broken, "\n\n".join(broken)


def _check(operation: APIOperation, mode: GenerationMode) -> int:
    """Return how many requests were sent and answered as documented."""
    sent = 0

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Case) -> None:
        nonlocal sent
        sent += 1
        headers = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": str(next(CALLERS))}
        case.call_and_validate(headers=headers, excluded_checks=NOT_CHECKED)

    check()
    return sent
