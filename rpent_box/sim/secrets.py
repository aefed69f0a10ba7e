# SPDX-License-Identifier: Apache-2.0
"""What must not be written into results: passwords and tokens on a command line or in an address.

Results are handed on. The environment is never written; here it is about words that people give.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

HIDDEN = "***"
"""Stands where a secret was."""

_USER_INFO = re.compile(r"([a-z][a-z0-9+.-]*://)[^/\s?#'\"]*@", re.IGNORECASE)
_QUERY = re.compile(
    r"([?&][^=&\s#]*(?:token|key|secret|passw|sig|auth|credential)[^=&\s#]*=)[^&\s#'\"]+",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(-{0,2})([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_SECRET_PARTS = frozenset({"token", "password", "passwd", "secret", "credentials", "apikey"})
_PLACES = frozenset({"file", "path", "dir", "folder", "env"})
"""What ends the name of an option that only says where a secret is."""


def hide_secrets(value: object) -> object:
    """Return `value`, which is as JSON has it, with `***` for what looks like a secret.

    That is: who logs in, in an address (`https://user:word@host`); a token in its query; and the
    value of an option whose name says so (`--api-key X`, `token=X`), within a list of words.
    """
    if isinstance(value, str):
        return hide_in_text(value)
    if isinstance(value, dict):
        return {key: hide_secrets(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return list(_hide_in_list(value))
    return value


def hide_in_text(text: str) -> str:
    """Return `text` with `***` for who logs in, and for tokens, in the addresses in it."""
    if "://" not in text:
        return text
    return _QUERY.sub(rf"\1{HIDDEN}", _USER_INFO.sub(rf"\1{HIDDEN}@", text))


def _hide_in_list(values: list[object] | tuple[object, ...]) -> Iterator[object]:
    is_secret = False
    for value in values:
        if not isinstance(value, str):
            is_secret = False
            yield hide_secrets(value)
        elif is_secret and not value.startswith("--"):
            is_secret = False
            yield HIDDEN
        else:
            named = _NAMED.fullmatch(value)
            is_named = named is not None and _says_secret(named[2])
            is_secret = is_named and named is not None and bool(named[1]) and named[3] is None
            if is_named and named is not None and named[3] is not None:
                yield f"{named[1]}{named[2]}={HIDDEN}"
            else:
                yield hide_in_text(value)


def _says_secret(name: str) -> bool:
    parts = name.lower().replace("_", "-").split("-")
    if parts[-1] in _PLACES:
        return False
    return not _SECRET_PARTS.isdisjoint(parts) or "api-key" in "-".join(parts)
