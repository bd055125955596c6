"""Refuse passwords that are common or follow patterns that attackers try first."""

from __future__ import annotations

from zxcvbn import zxcvbn

from backend.domain.base.errors import FieldError, ValueInvalid

LEAST_GUESSES = 1e8
"""Minimum number of guesses. Passwords below it are tried first: leaked ones, dates, rows of keys, names."""
_MOST_CHARACTERS = 72
"""Number of characters that zxcvbn examines; a longer password is at least as hard to guess."""


def check_not_guessable(user: str, password: str) -> None:
    """Raise ValueInvalid for a password that is easy to guess; the message does not contain the password."""
    found = zxcvbn(password[:_MOST_CHARACTERS], user_inputs=[user, "treeline", "kafka"])
    if found["guesses"] >= LEAST_GUESSES:
        return
    common = any(part.get("dictionary_name") == "passwords" for part in found["sequence"])
    why = "is or contains a common password" if common else "follows a pattern that attackers try first"
    detail = f"a password must not be easy to guess: this one {why}; choose several unrelated words"
    raise ValueInvalid(detail, (FieldError("/password", detail),))
