"""Logging in by an OpenID provider: what is asked of it, and what of its answers is believed.

OpenID Connect Core 1.0, authorization code flow with PKCE (RFC 7636); signatures by joserfc.
"""
