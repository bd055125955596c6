"""Settings of who gets in, and of what clusters may refer to and where they may be; part of `settings.py`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings


class AccessSettings(BaseSettings):
    """The part of `Settings` that a security review reads."""

    denied_networks: list[str] = Field(
        ["0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "::/128", "fe80::/10", "fd00:ec2::254/128", "ff00::/8"],
        description="Networks (JSON list) in which no cluster may be, also by a name that stands for an address "
        "there: those of metadata services, and of no machine at all. Where no cluster is on this machine add "
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
        "addresses; everywhere else it is https.",
    )
    trusted_proxies: list[str] = Field(
        [],
        description="Addresses and networks (JSON list) of proxies before the API: of what comes from them "
        "`X-Forwarded-For` and `X-Forwarded-Proto` are believed, of nothing else. Limits of logins are for each "
        "address, so who could name any would have none.",
    )
    allowed_hosts: list[str] = Field(
        [],
        description="Names (JSON list, `*.example.org` for all below it, `*` for any) that requests may give as "
        "Host, beside addresses, names without a dot and the host of `url`. Others are refused (421), so that no "
        "other site's page can reach the control plane by a name of its own (DNS rebinding).",
    )
    session_idle_minutes: int = Field(
        60,
        ge=2,
        le=720,
        description="Minutes without use after which a session of the console ends. What an open page requests by "
        "itself, to follow what happens, is no use. Twelve hours after the login every session ends.",
    )
    audit_days: int = Field(
        365,
        ge=1,
        description="Days for which logins, and where changes came from, are kept: addresses are people's. The "
        "event log, which says who did what, stays.",
    )
    oidc_issuer: str | None = Field(
        None, description="Address of the OpenID provider to log in by, as it calls itself; unset: by none."
    )
    oidc_name: str = Field("single sign-on", description="What the login page calls the provider.")
    oidc_client_id: str | None = Field(None, description="What the provider calls this control plane.")
    oidc_client_secret: str | None = Field(
        None,
        description="Reference to the secret that it knows it by, `${env:NAME}` or `${file:/path}`; unset: none, "
        "PKCE alone.",
    )
    oidc_ca_file: Path | None = Field(
        None, description="Certificates (PEM) that the provider's is checked by; unset: those of the system."
    )
    oidc_scopes: str = Field(
        "openid profile email", description="What is asked of the provider, by spaces; some want `groups` as well."
    )
    oidc_user_claim: str = Field(
        "preferred_username",
        description="Claim that a new user is named after, in lower case, up to an @. Known again it is by `sub`.",
    )
    oidc_groups_claim: str = Field("groups", description="Claim with the groups of who logs in.")
    oidc_grants: dict[str, list[str]] = Field(
        {},
        description="What groups give at each login (JSON): group to roles, and to memberships as `acme/owner`. "
        "Where groups are named, they rule; what else users have stays.",
    )
    oidc_allowed_domains: list[str] = Field(
        [],
        description='Domains of verified e-mail addresses that are let in (JSON list), `["*"]` for everybody. '
        "Without domains and groups only users whom an admin has linked are: anybody has an account at some "
        "providers.",
    )
    oidc_allowed_groups: list[str] = Field([], description="Groups that are let in (JSON list).")
    oidc_timeout_seconds: float = Field(
        5.0, gt=0, le=60, description="Seconds that the provider may take for an answer; a thread waits for it."
    )
    password_login: bool = Field(
        True,
        description="Whether the login page takes passwords; false where all are to log in by the provider. Login "
        "links still work, for the day on which the provider does not.",
    )

    @property
    def session_idle(self) -> timedelta:
        """How long a session of the console lasts without use."""
        return timedelta(minutes=self.session_idle_minutes)
