"""Names that users choose: clusters, tenants, instances, environments, streams and applications.

A logical name is lower case, starts with a letter or digit and goes on with letters, digits, `.`, `_` and `-`.
Lower case only, because technical names are made from it and two topics that differ in case alone are a trap for
people and for file systems that ignore case. A leading `_` is not possible, so that no logical name can ever be
one of Kafka's (`__consumer_offsets`) or Treeline's (`_treeline.verify`) internal names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from backend.domain.base.errors import FieldError, NameInvalid

LONGEST_NAME = 100
LONGEST_STREAM = 249  # Kafka's own limit; the technical name is checked as well
LONGEST_GROUP = 249

_LOGICAL = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, order=True)
class StreamName:
    """STREAM: full name of a stream on every cluster, `tenant/instance/environment/stream`."""

    tenant: str
    instance: str
    environment: str
    stream: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.instance}/{self.environment}/{self.stream}"


@dataclass(frozen=True, order=True)
class ApplicationName:
    """Full name of an application on every cluster, `tenant/instance/environment/application`."""

    tenant: str
    instance: str
    environment: str
    application: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.instance}/{self.environment}/{self.application}"


def check_name(name: str, what: str, *, pointer: str = "/name", longest: int = LONGEST_NAME) -> None:
    """Raise NameInvalid unless `name` can name a `what` ("tenant", "cluster", ...)."""
    problem = _problem(name, longest)
    if problem:
        raise NameInvalid(f"{_shown(name)} cannot name a {what}: {problem}", (FieldError(pointer, f"{problem}"),))


def application_named(text: str) -> ApplicationName | None:
    """Parse the full name of an application; None if it is not a valid one."""
    parts = text.split("/")
    return ApplicationName(*parts) if len(parts) == 4 and all(map(is_name, parts)) else None


def is_name(name: str, longest: int = LONGEST_STREAM) -> bool:
    """Return whether this name is valid; look-ups by other strings find nothing."""
    return _problem(name, longest) is None


def group_name_problem(name: str) -> str | None:
    """Return why no consumer group can have this logical name; None if one can.

    Applications name their groups, and Kafka takes any text of up to 32,767 bytes. Every printable character is
    accepted, also a blank inside the name. Invisible characters are refused, and named: control characters, line
    breaks, blanks other than U+0020 or at an end, marks that change the direction of text, halves of surrogate
    pairs. Two groups whose names look the same must not be mistaken for one another, and a name must not break out
    of a line of a log or a table.
    """
    if not name:
        return "it is empty"
    at = next((at for at, character in enumerate(name) if not character.isprintable()), None)
    if at is not None:
        return (
            f"it has the character U+{ord(name[at]):04X} at position {at + 1}; the name of a group "
            "may have any visible character and ordinary spaces (U+0020)"
        )
    if name != name.strip(" "):
        return f"it {'begins' if name[0] == ' ' else 'ends'} with a space (U+0020), which tools and forms drop"
    if len(name) > LONGEST_GROUP:
        return f"it has {len(name)} characters, at most {LONGEST_GROUP} are allowed"
    return None


def check_group_name(name: str, pointer: str) -> None:
    """Raise NameInvalid, naming the offending character or length, unless `name` is valid for a group."""
    problem = group_name_problem(name)
    if problem:
        raise NameInvalid(f"{_shown(name)} cannot name a group: {problem}", (FieldError(pointer, problem),))


def _problem(name: str, longest: int) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > longest:
        return f"it has {len(name)} characters, at most {longest} are allowed"
    if name.startswith(("__", "_treeline")):
        return "names that start with '__' or '_treeline' are kept for internal use"
    if not _LOGICAL.fullmatch(name):
        return "use lower case letters, digits, '.', '_' and '-', with a letter or digit first"
    return None


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:57] + "...")
