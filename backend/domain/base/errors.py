"""Failures that domain rules decide: one class each, with typed facts.

The class docstring is the title that a caller reads; `detail` says what is wrong with this request and what to do;
`errors` point (RFC 6901) at the places in the request. `api/frame/problems.py` maps each kind to a status; this
module does not know HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar


@dataclass(frozen=True)
class FieldError:
    """One wrong place in a request: a JSON pointer and what is wrong there."""

    pointer: str
    detail: str


class Kind(Enum):
    """Relation of a failure to the request; the API maps each kind to one HTTP status."""

    INVALID = "invalid"  # the content breaks a rule
    CONFLICT = "conflict"  # it exists already, or the present state forbids it
    UNKNOWN = "unknown"  # the thing named in the path does not exist
    STALE = "stale"  # the caller's version is not the present one
    FORBIDDEN = "forbidden"  # the caller's role does not allow it
    UNAVAILABLE = "unavailable"  # something needed is down; try again


class DomainError(Exception):
    """The request cannot be carried out."""

    slug: ClassVar[str] = "error"
    kind: ClassVar[Kind] = Kind.INVALID

    def __init__(self, detail: str, errors: tuple[FieldError, ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors

    def within(self, pointer: str) -> DomainError:
        """Return the same failure for an item that is at `pointer` in the request."""
        errors = self.errors or (FieldError("", self.detail),)
        moved = tuple(FieldError(pointer + each.pointer, each.detail) for each in errors)
        return type(self)(f"{pointer.lstrip('/')}: {self.detail}", moved)

    @property
    def title(self) -> str:
        return (type(self).__doc__ or "").strip().splitlines()[0]


class TreeInvalid(DomainError):
    """The distribution tree is invalid."""

    slug = "tree-invalid"


class TargetNotAllowed(DomainError):
    """A distributor's target must be a leaf of the sibling subtree at its level."""

    slug = "target-not-allowed"


class NameInvalid(DomainError):
    """Kafka or Treeline does not accept this name."""

    slug = "name-invalid"


class FormatInvalid(DomainError):
    """The name format cannot give every stream a legal technical name."""

    slug = "format-invalid"


class TechnicalNameTaken(DomainError):
    """Two logical names would share one technical name on a cluster."""

    slug = "technical-name-taken"
    kind = Kind.CONFLICT


class PropertiesInvalid(DomainError):
    """The client properties are not allowed."""

    slug = "properties-invalid"


class ValueInvalid(DomainError):
    """A value is not allowed."""

    slug = "value-invalid"


class AlreadyExists(DomainError):
    """The name is already taken."""

    slug = "already-exists"
    kind = Kind.CONFLICT


TAKEN = (FieldError("/name", "this name is taken"),)
"""Field error of every AlreadyExists."""


class NotFound(DomainError):
    """The resource does not exist."""

    slug = "not-found"
    kind = Kind.UNKNOWN


class NotAllowed(DomainError):
    """You are not allowed to do this."""

    slug = "not-allowed"
    kind = Kind.FORBIDDEN


class StateConflict(DomainError):
    """The current state does not allow this request."""

    slug = "state-conflict"
    kind = Kind.CONFLICT


class PlanStale(DomainError):
    """The plan is out of date."""

    slug = "plan-stale"
    kind = Kind.CONFLICT


class SwitchBlocked(DomainError):
    """The switch is blocked."""

    slug = "switch-blocked"


class ClusterUnreachable(DomainError):
    """No Kafka cluster answers at these bootstrap servers."""

    slug = "cluster-unreachable"


class ReferenceUnusable(ClusterUnreachable):
    """A file or an environment variable that the cluster's properties refer to cannot be used."""


class AddressForbidden(DomainError):
    """Requests to this address are not allowed."""

    slug = "address-forbidden"


class ClusterSilent(DomainError):
    """The cluster does not answer at the moment."""

    slug = "cluster-silent"
    kind = Kind.UNAVAILABLE


class PasswordsBusy(DomainError):
    """Too many passwords are being checked at once."""

    slug = "passwords-busy"
    kind = Kind.UNAVAILABLE


class MessagesBusy(DomainError):
    """Too many requests read or produce messages, or read figures of streams, at once."""

    slug = "messages-busy"
    kind = Kind.UNAVAILABLE


class DecodingUnavailable(DomainError):
    """Messages cannot be decoded at the moment."""

    slug = "decoding-unavailable"
    kind = Kind.UNAVAILABLE


class StaleVersion(DomainError):
    """The resource changed since it was read."""

    slug = "stale-version"
    kind = Kind.STALE
