# SPDX-License-Identifier: Apache-2.0
"""Paths as people give them, made absolute: a program has another working directory than they."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from rpent_box.errors import BadOption
from rpent_box.options import parse_options, path_fields, to_arguments


def with_whole_paths(
    declared: type[Struct], words: Sequence[str], *, program: str, prefix: str = ""
) -> tuple[Sequence[str], list[Path]]:
    """Return `words` with every path in them made absolute, and those paths.

    `declared` are the options that `words` are read with. For the errors, `program` is what people
    ask for help with `--help`, and `prefix` what they write before an option's name, e.g. `toy-`.
    Raises `BadOption` for a path where nothing is.
    """
    fields = path_fields(declared)
    if not fields:
        return words, []
    given = parse_options(declared, words, program=program)
    default = declared()
    found = {
        field: existing_path(value, "file or folder", f"--{prefix}{field.replace('_', '-')}")
        for field in fields
        # What was not given stays the program's own affair.
        if (value := getattr(given, field)) != getattr(default, field)
    }
    if not found:
        return words, []
    whole = msgspec.structs.replace(given, **{name: str(path) for name, path in found.items()})
    unchanged = set(to_arguments(default))
    return [word for word in to_arguments(whole) if word not in unchanged], list(found.values())


def existing_path(path: str, what: str, flag: str) -> Path:
    """Return `path`, absolute. Raises `BadOption`, which names `what` it is and its `flag`."""
    hint = f"Give an existing file or folder: {flag} PATH"
    if not path:
        # It would mean the current folder; more often it is a variable that was never set.
        raise BadOption(f"the {what} is an empty path", hint=hint)
    found = Path(os.path.expanduser(path)).absolute()
    try:
        is_there = found.exists()
    except OSError as error:
        raise BadOption(f"the {what} {found} cannot be read: {error.strerror}") from error
    if not is_there:
        raise BadOption(f"there is no {what} at {found}", hint=hint)
    return found
