"""Settings of logins, and of the addresses and secrets that clusters may use; part of `settings.py`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings


class AccessSettings(BaseSettings):
    """Settings that a security review reads; a part of `Settings`."""

    denied_networks: list[str] = Field(
        ["0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "::/128", "fe80::/10", "fd00:ec2::254/128", "ff00::/8"],
        description="Networks (JSON list) in which no cluster may be, not even by a name that resolves to an "
        "address there: metadata services, and addresses of no machine. If no cluster is on this machine, add "
        "127.0.0.0/8, ::1 and the control plane's own services.",
    )
    secret_folders: list[str] = Field(
        [],
        description="Folders (JSON list) of the files that clusters' properties may name, as `${file:/path}` or "
        "as `ssl.ca.location` and the like. Empty: none. Files of Treeline's home and `treeline.toml` are never "
        "read for a cluster, whatever folders are listed.",
    )
    secret_variables: list[str] = Field(
        [],
        description="Environment variables (JSON list of names, `*` for any characters) that `${env:NAME}` in "
        "clusters' properties may name, such as `CLUSTER_*`. Empty: none. `TREELINE_*` are never read for a "
        "cluster.",
    )
    loopback_token_endpoints: bool = Field(
        False,
        description="Allow `sasl.oauthbearer.token.endpoint.url` to be plain http on this machine's loopback "
        "addresses; elsewhere https is required.",
    )
    trusted_proxies: list[str] = Field(
        [],
        description="Addresses and networks (JSON list) of proxies in front of the API: `X-Forwarded-For` and "
        "`X-Forwarded-Proto` are trusted from them only. Login limits count by address, so a client that could "
        "forge its address would have no limit.",
    )
    allowed_hosts: list[str] = Field(
        [],
        description="Names (JSON list, `*.example.org` for all subdomains, `*` for any) that requests may have as "
        "Host, besides addresses, names without a dot and the host of `url`. Others are refused (421), so that no "
        "page of another site can reach the control plane by a name of its own (DNS rebinding).",
    )
    session_idle_minutes: int = Field(
        60,
        ge=2,
        le=720,
        description="Minutes without use after which a session of the console ends. Requests that an open page "
        "makes by itself do not count as use. Every session ends twelve hours after login.",
    )
    audit_days: int = Field(
        365,
        ge=1,
        description="Days for which logins and origins of changes are kept; addresses are personal data. The "
        "event log, which has actors and actions, stays.",
    )
    oidc_issuer: str | None = Field(None, description="Issuer URL of the OpenID provider for logins; unset: none.")
    oidc_name: str = Field("single sign-on", description="Name of the provider on the login page.")
    oidc_client_id: str | None = Field(None, description="Client id of this control plane at the provider.")
    oidc_client_secret: str | None = Field(
        None,
        description="Reference to the client secret, `${env:NAME}` or `${file:/path}`; unset: none, PKCE alone.",
    )
    oidc_ca_file: Path | None = Field(
        None, description="CA certificates (PEM) for the provider; unset: those of the system."
    )
    oidc_scopes: str = Field(
        "openid profile email", description="Scopes, separated by blanks; some providers need `groups` as well."
    )
    oidc_user_claim: str = Field(
        "preferred_username",
        description="Claim with a new user's name, in lower case, up to an @. Users are recognised by `sub`.",
    )
    oidc_groups_claim: str = Field("groups", description="Claim with the user's groups.")
    oidc_grants: dict[str, list[str]] = Field(
        {},
        description="Roles, and memberships such as `acme/owner`, that groups grant at each login (JSON). Roles "
        "and tenants that are named here are ruled by groups; a user's other memberships stay.",
    )
    oidc_allowed_domains: list[str] = Field(
        [],
        description='Domains of verified e-mail addresses that are admitted (JSON list), `["*"]` for all. '
        "Without domains and groups only users whom an admin has linked are: anybody has an account at some "
        "providers.",
    )
    oidc_allowed_groups: list[str] = Field([], description="Groups that are admitted (JSON list).")
    oidc_timeout_seconds: float = Field(
        5.0, gt=0, le=60, description="Seconds to wait for an answer of the provider; a thread waits."
    )
    password_login: bool = Field(
        True,
        description="Whether the login page accepts passwords; false if everybody logs in through the provider. "
        "Login links still work if the provider fails.",
    )

    @property
    def session_idle(self) -> timedelta:
        """Return how long a session of the console lasts without use."""
        return timedelta(minutes=self.session_idle_minutes)
