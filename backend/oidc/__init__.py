"""Login through an OpenID provider: requests to the provider, and the validation of its answers.

OpenID Connect Core 1.0, authorization code flow with PKCE (RFC 7636); signatures by joserfc.
"""
