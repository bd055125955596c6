"""Rules for users' passwords."""

from __future__ import annotations

from backend.domain.base.errors import FieldError, ValueInvalid

# Length counts, not a mixture of kinds (NIST SP 800-63B); the rest is only to stop what is no password at all.
SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 200
FEWEST_CHARACTERS = 5


def check_password(user: str, password: str) -> None:
    """Raise ValueInvalid unless a user may have this password; the password appears in no message."""
    problem = None
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        problem = f"has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
    elif len(set(password)) < FEWEST_CHARACTERS or password.lower() == user:
        problem = f"has {FEWEST_CHARACTERS} different characters or more, and is not the user's name"
    if problem:
        raise ValueInvalid(f"a password {problem}", (FieldError("/password", f"a password {problem}"),))
