"""Actions that the search offers: words that name a form, and words that name the resource that it is for.

`plan switch prod` names the form of a switch plan, and environments with `prod` in their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from backend.domain.access.access import Action

_FILLERS = frozenset({"a", "an", "the", "of", "to", "in", "from", "on", "for", "or", "with", "{}"})
_SHORTEST = 4
"""Number of letters from which the beginning of an action's word counts as the word."""


@dataclass(frozen=True)
class Subject:
    """A resource that an action is for. `given`: values for the action's address."""

    name: str
    detail: str = ""
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ActionKind:
    """An action, with the subject's name in place of `{}` in its label."""

    label: str
    needs: Action
    address: str
    """Address of its form, with `{name}` of the subject, its given values by name, or `{query}` of all of them."""
    of: str = ""
    """Kind of its subjects; empty: it has none."""
    keys: str = ""
    """Words that name it besides the label's first one."""

    def label_for(self, subject: Subject) -> str:
        """Return the label with the subject's name."""
        return self.label.replace("{}", subject.name)

    def address_for(self, subject: Subject) -> str:
        """Return the address of the form for the subject."""
        return self.address.format(name=subject.name, query=urlencode(subject.given), **subject.given)


_ESTATE, _TENANT, _STREAMS = Action.CHANGE_ESTATE, Action.MANAGE_TENANT, Action.DECLARE_STREAMS
_ADD = "add create declare"
ACTIONS: Sequence[ActionKind] = (
    ActionKind("Plan switch", _ESTATE, "/switches/plan", keys="switch"),
    ActionKind("Plan switch of {}", _ESTATE, "/switches/plan?{query}", "environment", "switch"),
    ActionKind("Plan switch from {}", _ESTATE, "/switches/plan?from={name}", "cluster", "switch"),
    ActionKind("Reset offsets of a group", _TENANT, "/offsets/-reset", keys="offsets"),
    ActionKind("Reset offsets of {}", _TENANT, "/offsets/-reset?{query}", "group", "offsets"),
    ActionKind(
        "Produce message to {}", Action.PRODUCE_MESSAGES, "/tenants/{name}/-messages/-produce", "stream", "message"
    ),
    ActionKind("Read messages of {}", Action.READ_MESSAGES, "/tenants/{name}/-messages", "stream", "messages"),
    ActionKind("Change stream {}", _STREAMS, "/tenants/{name}/-change", "stream"),
    ActionKind("Delete stream {}", _TENANT, "/tenants/{name}/-delete", "stream", "remove"),
    ActionKind("Declare stream in {}", _STREAMS, "/tenants/{name}/-new", "environment", _ADD),
    ActionKind("Declare application in {}", _STREAMS, "/tenants/{name}/-applications/-new", "environment", _ADD),
    ActionKind("Change environment {}", _TENANT, "/tenants/{name}/-change", "environment"),
    ActionKind("Create environment in {}", _TENANT, "/tenants/{name}/-new", "instance", _ADD),
    ActionKind("Create instance in {}", _TENANT, "/tenants/{name}/-new", "tenant", _ADD),
    ActionKind("Add member to {}", Action.MANAGE_MEMBERS, "/tenants/{name}/-members/-new", "tenant", "member"),
    ActionKind("Create tenant", _ESTATE, "/tenants/-new", keys=_ADD),
    ActionKind("Compare versions of {}", Action.READ_TENANT, "{page}", "subject", "versions"),
    ActionKind("Register schema version", _STREAMS, "/schemas/-new", keys="schema"),
    ActionKind("Add cluster", _ESTATE, "/clusters/-new", keys=_ADD),
    ActionKind("Change cluster {}", _ESTATE, "/clusters/{name}/-change", "cluster"),
    ActionKind("Adopt topics of {}", _ESTATE, "/clusters/{name}/-adopt", "cluster", "adoption"),
    ActionKind("Remove cluster {}", _ESTATE, "/clusters/{name}/-remove", "cluster", "delete"),
    ActionKind(
        "Elect preferred leaders of {}", _ESTATE, "/clusters/{name}/replication/-elect", "cluster", "leaders"
    ),
    ActionKind("Create placement plan", _ESTATE, "/placements/-new", keys="placement plan"),
    ActionKind(
        "Create placement plan of {}", _ESTATE, "/placements/-new?cluster={name}", "cluster", "placement plan"
    ),
    ActionKind(
        "Pause or limit distributor {}",
        _ESTATE,
        "/tree/-settings/{cluster}/{level}",
        "distributor",
        "limit resume",
    ),
    ActionKind(
        "Switch target of distributor {}", _ESTATE, "/tree/-target/{cluster}/{level}", "distributor", "target"
    ),
    ActionKind("Edit tree", _ESTATE, "/tree/edit", keys="change"),
    ActionKind("Move primary", _ESTATE, "/tree/-primary", keys="primary"),
    ActionKind("Trace record", Action.READ_TENANT, "/trace"),
    ActionKind("Play drill with your own faults", Action.READ_ESTATE, "/drills/schedule", keys="drill faults"),
    ActionKind("Create user", Action.MANAGE_USERS, "/users", keys=_ADD),
    ActionKind("Create webhook", Action.MANAGE_WEBHOOKS, "/webhooks/-new", keys=_ADD),
    ActionKind("Rebuild projections", _ESTATE, "/timeline/-rebuild"),
)


@dataclass(frozen=True)
class Meant:
    """An action that typed words mean. `rest`: the other words, which name its subject."""

    kind: ActionKind
    rest: tuple[str, ...]
    matched: int
    """Number of words that name the action."""


def meant(words: Sequence[str]) -> list[Meant]:
    """Return the actions that the words mean, those that most words name first."""
    typed = [word.lower() for word in words if word.lower() not in _FILLERS]
    found = [each for kind in ACTIONS if (each := _meant(kind, typed)) is not None]
    return sorted(found, key=lambda each: -each.matched)


def _meant(kind: ActionKind, typed: Sequence[str]) -> Meant | None:
    label = [word for word in kind.label.lower().split() if word not in _FILLERS]
    keys = [label[0], *kind.keys.split()]
    rest = tuple(word for word in typed if not _begins_one(word, [*label, *kind.keys.split()]))
    # An action without a subject is not meant by words that name one, nor the other way round.
    if not any(_begins_one(word, keys) for word in typed) or bool(rest) != bool(kind.of):
        return None
    return Meant(kind, rest, len(typed) - len(rest))


def _begins_one(word: str, names: Sequence[str]) -> bool:
    return any(name.startswith(word) and len(word) >= min(_SHORTEST, len(name)) for name in names)
