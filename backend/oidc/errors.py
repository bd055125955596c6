"""Errors of the provider, worded for the person who logs in."""

from __future__ import annotations

from backend.domain.base.errors import DomainError, Kind


class ProviderAway(DomainError):
    """The login provider cannot be reached."""

    slug = "provider-away"
    kind = Kind.UNAVAILABLE


class ProviderRefused(DomainError):
    """The login provider did not confirm your identity."""

    slug = "provider-refused"
    kind = Kind.FORBIDDEN
