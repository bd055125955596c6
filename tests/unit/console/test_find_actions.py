"""Actions that typed words mean, the words left for their subject, and the addresses of their forms."""

from __future__ import annotations

import re

import pytest

from backend import web
from backend.web.finding.actions import ACTIONS, Subject, meant


@pytest.mark.parametrize(
    "typed, label, rest",
    [
        ("plan switch prod", "Plan switch of {}", ("prod",)),
        ("Plan switch of acme/retail/prod", "Plan switch of {}", ("acme/retail/prod",)),
        ("switch prod", "Plan switch of {}", ("prod",)),
        ("plan switch", "Plan switch", ()),
        ("reset billing", "Reset offsets of {}", ("billing",)),
        ("offsets billing prod", "Reset offsets of {}", ("billing", "prod")),
        ("rese", "Reset offsets of a group", ()),
        ("produce orders", "Produce message to {}", ("orders",)),
        ("compare versions of orders-value", "Compare versions of {}", ("orders-value",)),
        ("pause c1:2", "Pause or limit distributor {}", ("c1:2",)),
        ("add cluster", "Add cluster", ()),
        ("declare stream prod", "Declare stream in {}", ("prod",)),
        ("add stream prod", "Declare stream in {}", ("prod",)),
        ("create placement plan", "Create placement plan", ()),
    ],
)
def test_words_mean_an_action_and_its_subject(typed: str, label: str, rest: tuple[str, ...]) -> None:
    first = meant(typed.split())[0]
    assert (first.kind.label, first.rest) == (label, rest)


@pytest.mark.parametrize("typed", ["prod", "orders", "acme retail", "pla", "of to", "cluster c1", "sw"])
def test_a_name_alone_means_no_action(typed: str) -> None:
    assert meant(typed.split()) == []


def test_each_action_leads_to_a_page_that_exists() -> None:
    routers = [module.router for module in vars(web).values() if hasattr(module, "router")]
    routes = [route.path_regex for router in routers for route in router.routes]
    names = {"environment": "a/b/c", "stream": "a/b/c/d", "instance": "a/b"}
    given = {"page": "/schemas/c1/orders-value", "cluster": "c1", "level": "2"}
    for kind in ACTIONS:
        address = kind.address_for(Subject(names.get(kind.of, "a"), given=given))
        path = re.sub(r"[?].*", "", address)
        assert any(route.fullmatch(path) for route in routes), kind.label


def test_what_a_subject_gives_fills_in_the_form() -> None:
    kind = next(each for each in ACTIONS if each.label == "Plan switch of {}")
    subject = Subject("acme/retail/prod", given={"from": "c1", "who": "acme/retail/prod"})
    assert kind.address_for(subject) == "/switches/plan?from=c1&who=acme%2Fretail%2Fprod"
    assert kind.label_for(subject) == "Plan switch of acme/retail/prod"
