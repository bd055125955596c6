"""Contexts: named control planes of a user, stored in a file of that user.

`$XDG_CONFIG_HOME/treeline/contexts.yaml` (else `~/.config/…`), readable by its user only:

    current: production
    contexts:
      production: {url: https://treeline.example.org, token: '${env:PRODUCTION_TOKEN}'}

Tokens are references, which are resolved when they are needed, or literal values; those are never shown. `local`
is no entry: it names the local estate, that of TREELINE_HOME.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from backend.domain.clusters.client_properties import is_reference
from backend.domain.webhooks.addresses import address_of

LOCAL = "local"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_KEYS = ("url", "token")
_INSECURE = "insecure_http"


class ContextInvalid(ValueError):
    """A context or the file of contexts is invalid; the message says what, where, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """One control plane. `token` is a reference or a literal token: display `token_shown` instead."""

    url: str
    token: str = field(repr=False)
    insecure_http: bool = False
    """True if the user allowed the token to be sent over plain HTTP to another machine."""

    @property
    def token_shown(self) -> str:
        """Return the reference, or a note that a literal token is stored."""
        return self.token if is_reference(self.token) else "***"


@dataclass
class Contexts:
    """Contents of the file."""

    current: str | None = None
    known: dict[str, Context] = field(default_factory=dict)

    def find(self, name: str) -> Context:
        """Return the context of this name. Raises ContextInvalid."""
        if name not in self.known:
            there = ", ".join(sorted([*self.known, LOCAL]))
            raise ContextInvalid(
                f"There is no context {name!r}; there are: {there}. "
                f"`treeline context set {name} --url …` creates it."
            )
        return self.known[name]


def contexts_file() -> Path:
    """Return the path of the file of contexts."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    # By the XDG base directory specification, a relative path counts as unset.
    base = Path(folder) if folder.startswith("/") else Path.home() / ".config"
    return base / "treeline" / "contexts.yaml"


def read_contexts() -> Contexts:
    """Read the stored contexts; empty if there is no file. Raises ContextInvalid."""
    file = contexts_file()
    try:
        text = file.read_text(encoding="utf-8")
        is_open_to_others = bool(file.stat().st_mode & 0o077)
    except FileNotFoundError:
        return Contexts()
    except (OSError, UnicodeDecodeError) as error:
        raise ContextInvalid(f"{file} cannot be read: {error}") from error
    if is_open_to_others:
        raise ContextInvalid(f"{file} may contain tokens, and other users can read it: run `chmod 600 {file}`.")
    return _parsed(text, file)


def _parsed(text: str, file: Path) -> Contexts:
    from backend.yaml_files import YamlInvalid, load_yaml

    def wrong(place: str, detail: str) -> ContextInvalid:
        return ContextInvalid(
            f"{file}: {place}{': ' if place else ''}{detail}; correct the file, or move it away."
        )

    try:
        content = load_yaml(text, keys_are_text=True)
    except YamlInvalid as error:
        raise wrong(error.place, error.detail) from error
    if content is None:
        return Contexts()
    if not isinstance(content, dict):
        raise wrong("", "expected `current` and `contexts` here")
    if unknown := set(content) - {"current", "contexts"}:
        raise wrong("", f"unknown key {min(unknown)!r}; there are: current, contexts")
    entries, current = content.get("contexts") or {}, content.get("current")
    if not isinstance(entries, dict):
        raise wrong("contexts", "expected names with their content here (name: {url: …, token: …})")
    known = {}
    for name, entry in entries.items():
        try:
            check_name(name)
            known[name] = _context_of(entry)
        except ContextInvalid as error:
            raise wrong(f"contexts.{name}", str(error)) from error
    if current is not None and current != LOCAL and current not in known:
        raise wrong("current", f"there is no context {current!r}")
    return Contexts(current, known)


def _context_of(entry: Any) -> Context:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) and entry[key] for key in _KEYS):
        raise ContextInvalid("expected url and token here, as text")
    if unknown := set(entry) - {*_KEYS, _INSECURE}:
        raise ContextInvalid(f"unknown key {min(unknown)!r}; there are: url, token, {_INSECURE}")
    insecure_http = entry.get(_INSECURE, False)
    if not isinstance(insecure_http, bool):
        raise ContextInvalid(f"{_INSECURE} is true or false")
    return Context(url=check_url(entry["url"]), token=check_token(entry["token"]), insecure_http=insecure_http)


def check_name(name: str) -> str:
    """Return the name if it is valid for a context. Raises ContextInvalid."""
    if name == LOCAL:
        raise ContextInvalid(
            "'local' is the local estate, that of TREELINE_HOME; choose another name for the context"
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ContextInvalid(
            f"{str(name)[:60]!r} cannot be a context's name: 1 to 100 letters, digits, '.', '_' and '-'"
        )
    return name


def check_url(url: str) -> str:
    """Return the URL if it can be that of a control plane. Raises ContextInvalid."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ContextInvalid(
            f"{url[:200]!r} is not a URL of a control plane, such as https://treeline.example.org"
        )
    if "@" in parts.netloc:
        raise ContextInvalid("the URL contains a user or a password: give the token instead")
    if parts.query or parts.fragment:
        raise ContextInvalid("the URL has a query or a fragment: give it without")
    return url


def check_clear(context: Context) -> Context:
    """Return the context unless its token would travel in clear text over a network. Raises ContextInvalid."""
    parts = urlsplit(context.url)
    if parts.scheme == "https" or context.insecure_http or _is_this_machine(parts.hostname or ""):
        return context
    raise ContextInvalid(
        f"{context.url} uses http, which would send the token unencrypted: give its https URL, or "
        "--insecure-http to `treeline context set` if the network in between is trusted"
    )


def _is_this_machine(host: str) -> bool:
    address = address_of(host)
    return host == "localhost" if address is None else address.is_loopback


def check_token(token: str) -> str:
    """Return the token, or the reference to one, if it can be sent. Raises ContextInvalid."""
    if token.startswith("${") and not is_reference(token):
        raise ContextInvalid("the token is not a reference that can be resolved: ${env:NAME} or ${file:/path}")
    if not token.isascii() or not token.isprintable():
        raise ContextInvalid("the token has characters that no token has")
    return token


def token_of(name: str, context: Context) -> str:
    """Return the token itself, resolved if it is a reference. Raises ContextInvalid."""
    try:
        check_clear(context)
    except ContextInvalid as error:
        raise ContextInvalid(f"context {name}: {error}") from None
    reference = context.token
    if not is_reference(reference):
        return reference
    kind, _, rest = reference.removeprefix("${").removesuffix("}").partition(":")
    if kind == "env":
        found = os.environ.get(rest, "")
        if not found:
            raise ContextInvalid(f"context {name}: its token is {reference}, and {rest} is not set; set it.")
        return check_token(found)
    try:
        found = Path(rest).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ContextInvalid(f"context {name}: its token is {reference}, which cannot be read: {error}") from error
    if not found:
        raise ContextInvalid(f"context {name}: its token is {reference}, and that file is empty.")
    return check_token(found)


@contextmanager
def changing() -> Iterator[Contexts]:
    """Yield the file's contents for changes, then write them whole; one process at a time."""
    file = contexts_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (file.parent / ".contexts.lock").open("w") as lock:
            # Two shells that each read, add an entry and write would lose one of the two.
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = read_contexts()
            yield found
            _write(file, found)
    except OSError as error:
        raise ContextInvalid(f"{file} cannot be written: {error.strerror}") from error


def _write(file: Path, contexts: Contexts) -> None:
    import yaml

    entries = {
        name: {"url": each.url, "token": each.token} | ({_INSECURE: True} if each.insecure_http else {})
        for name, each in sorted(contexts.known.items())
    }
    text = yaml.safe_dump({"current": contexts.current, "contexts": entries}, sort_keys=False, allow_unicode=True)
    target = file.resolve()  # of a link, as people keep such files elsewhere, the file that it leads to
    # Made by mkstemp: with mode 0600 from its first moment on.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".contexts-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as temporary:
            temporary.write(text)
            temporary.flush()
            os.fsync(temporary.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
