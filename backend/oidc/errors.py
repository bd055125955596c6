"""What goes wrong with a provider, in words for who wants to log in."""

from __future__ import annotations

from backend.domain.base.errors import DomainError, Kind


class ProviderAway(DomainError):
    """The login provider cannot be asked."""

    slug = "provider-away"
    kind = Kind.UNAVAILABLE


class ProviderRefused(DomainError):
    """The login provider did not say who you are."""

    slug = "provider-refused"
    kind = Kind.FORBIDDEN
