# SPDX-License-Identifier: Apache-2.0
"""Find a checkpoint's files and say plainly what is wrong with them, without a model framework.

For the `inspect` of backends. `tensor_files.py` reads the headers of weights, `statistics_files.py`
checks the numbers that actions are scaled with. Nothing here unpickles.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rpent_box.contracts.checkpoint import WRITTEN_FILE, ExpectedFile
from rpent_box.errors import BadCheckpoint

LISTED_FILES = 12
_POINTER = b"version https://git-lfs"
_PAGES = (b"<!doctype html", b"<html")


def find_file(folder: Path, *patterns: str, role: str, hint: str = "") -> ExpectedFile:
    """Return the one file in `folder` that the first fitting of `patterns` names.

    A pattern is a name, a relative path or a glob such as `*.safetensors` or `**/norm_stats.json`.
    `hint` is the next step when nothing fits, e.g. which option names another file. Raises
    `BadCheckpoint` for none, for several, and for a file that cannot be what it is named.
    """
    found = find_optional_file(folder, *patterns, role=role, hint=hint)
    if found is None:
        raise _missing(folder, patterns, role, hint)
    return found


def find_optional_file(
    folder: Path, *patterns: str, role: str, hint: str = ""
) -> ExpectedFile | None:
    """Return what `find_file` does, or None where nothing fits. Raises `BadCheckpoint`."""
    require_folder(folder, role=role)
    for pattern in patterns:
        matches = _matches(folder, pattern)
        if len(matches) > 1:
            raise BadCheckpoint(
                f"{folder} has {len(matches)} files that could be the {role}: "
                f"{_names(matches, folder)}",
                hint=hint or "Keep one of them there, or give the folder of one.",
            )
        if matches:
            return require_file(matches[0], role=role)
    return None


def find_files(
    folder: Path, pattern: str, *, role: str, hint: str = ""
) -> tuple[ExpectedFile, ...]:
    """Return all files that `pattern` names, at least one, sorted: e.g. the shards of the weights.

    Raises `BadCheckpoint`.
    """
    require_folder(folder, role=role)
    matches = _matches(folder, pattern)
    if not matches:
        raise _missing(folder, (pattern,), role, hint)
    return tuple(require_file(match, role=role) for match in matches)


def require_file(path: str | os.PathLike[str], *, role: str, hint: str = "") -> ExpectedFile:
    """Return the file at `path`, for one that an option names. Raises `BadCheckpoint`."""
    whole = Path(os.path.abspath(os.path.expanduser(path)))
    if whole.is_symlink() and not whole.exists():
        raise BadCheckpoint(
            f"the {role} {whole} is a link to {os.readlink(whole)}, which is not there",
            hint=hint or "Copy the checkpoint with the files that its links lead to (cp -rL).",
        )
    if not whole.is_file():
        there = "a folder" if whole.is_dir() else "not there"
        raise BadCheckpoint(f"the {role} {whole} is {there}; wanted a file", hint=hint)
    _require_content(whole, role)
    return ExpectedFile(role=role, path=str(whole))


def require_folder(path: str | os.PathLike[str], *, role: str, hint: str = "") -> Path:
    """Return the folder at `path`, absolute. Raises `BadCheckpoint`."""
    whole = Path(os.path.abspath(os.path.expanduser(path)))
    if not whole.is_dir():
        there = "a file" if whole.exists() else "not there"
        raise BadCheckpoint(f"{whole} is {there}; wanted the folder with the {role}", hint=hint)
    return whole


def read_json(path: str | os.PathLike[str], *, role: str) -> dict[str, Any]:
    """Return the object that a JSON file holds. Raises `BadCheckpoint`."""
    text = read_text(path, role=role)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadCheckpoint(
            f"the {role} {path} is not JSON: {error}", hint="Copy the file again; it may be cut."
        ) from error
    return _require_object(value, path, role)


def read_yaml(path: str | os.PathLike[str], *, role: str) -> dict[str, Any]:
    """Return the mapping that a YAML file holds; no tag in it makes an object.

    Raises `BadCheckpoint`.
    """
    try:
        import yaml  # only images and hosts that need it have it
    except ImportError as error:
        raise BadCheckpoint(
            f"the {role} {path} is YAML, and this Python cannot read it",
            hint="Install it: pip install 'rpent-box[adapters]'",
        ) from error
    text = read_text(path, role=role)
    try:
        value = yaml.safe_load(text)
    # A ValueError comes from what looks like a date and is none.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadCheckpoint(f"the {role} {path} is not YAML: {error}") from error
    return _require_object(value, path, role)


def read_text(path: str | os.PathLike[str], *, role: str) -> str:
    """Return a UTF-8 file's text. Raises `BadCheckpoint`."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadCheckpoint(f"the {role} {path} is not UTF-8 text: {error}") from error
    except OSError as error:
        raise BadCheckpoint(f"the {role} {path} cannot be read: {error.strerror}") from error


def _require_object(value: object, path: str | os.PathLike[str], role: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadCheckpoint(
            f"the {role} {path} holds a {type(value).__name__}; wanted an object with names"
        )
    return value


def _require_content(path: Path, role: str) -> None:
    """Refuse what downloads leave behind in place of a file."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        raise BadCheckpoint(f"the {role} {path} cannot be read: {error.strerror}") from error
    if not start:
        raise BadCheckpoint(f"the {role} {path} is empty", hint="Copy the file again.")
    if start.startswith(_POINTER):
        raise BadCheckpoint(
            f"the {role} {path} is a Git LFS pointer, not the file itself",
            hint=f"Fetch it: git -C {path.parent} lfs pull",
        )
    if start.lstrip().lower().startswith(_PAGES):
        raise BadCheckpoint(
            f"the {role} {path} is a web page, not the file itself",
            hint="Download it again; that page may say what is needed for it.",
        )


def _matches(folder: Path, pattern: str) -> list[Path]:
    """Return the files and broken links that `pattern` names, sorted.

    A manifest of ours is no file of the model's.
    """
    if any(sign in pattern for sign in "*?["):
        found: Iterable[Path] = (
            path for path in folder.glob(pattern) if not path.name.endswith(WRITTEN_FILE)
        )
    else:
        found = [folder / pattern]
    return sorted(path for path in found if path.is_file() or path.is_symlink())


def _missing(folder: Path, patterns: tuple[str, ...], role: str, hint: str) -> BadCheckpoint:
    there = sorted(folder.iterdir())
    listed = _names(there, folder) if there else "nothing"
    return BadCheckpoint(
        f"{folder} has no {role}: wanted {' or '.join(patterns)}; there is {listed}", hint=hint
    )


def _names(paths: list[Path], folder: Path) -> str:
    names = [str(path.relative_to(folder)) + "/" * path.is_dir() for path in paths]
    more = len(names) - LISTED_FILES
    return ", ".join(names[:LISTED_FILES]) + (f" and {more} more" if more > 0 else "")
