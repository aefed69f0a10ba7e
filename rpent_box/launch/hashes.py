# SPDX-License-Identifier: Apache-2.0
"""SHA-256 of large files, remembered from one run to the next."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from rpent_box.errors import BadCheckpoint, OutputError
from rpent_box.sim.results import write_atomically

CACHE_FILE = "sha256.json"
REMEMBERED = 4096
PIECE_BYTES = 4 * 1024 * 1024
SAY_EVERY_S = 2.0
SETTLED_S = 2.0
"""A younger file could change again without a new time, where clocks of file systems are coarse."""

Say = Callable[[str], None]


class FileHashes:
    """Hashes files; `folder` keeps what is known of them, None keeps nothing.

    A file is known again by its path, size, inode and times; whatever the folder holds is only ever
    a shortcut, so that a damaged or unwritable one is no error.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / CACHE_FILE
        self._known = {} if self._path is None else _read(self._path)
        self._changed = False

    def sha256(self, path: Path, *, say: Say) -> str:
        """Return a file's hash; `say` hears how it goes. Raises `BadCheckpoint`."""
        try:
            before = os.stat(path)
            key = _key(path, before)
            known = self._known.get(key)
            if known is not None:
                return known
            digest = _hash(path, before.st_size, say)
            after = os.stat(path)
        except OSError as error:
            raise BadCheckpoint(f"{path} cannot be read: {error.strerror}") from error
        if _key(path, after) != key:
            raise BadCheckpoint(
                f"{path} changed while it was read", hint="Wait until it is written, and try again."
            )
        if time.time() - after.st_mtime > SETTLED_S:
            self._known[key] = digest
            self._changed = True
        return digest

    def save(self) -> None:
        """Remember what was hashed, as far as the folder can be written."""
        if self._path is None or not self._changed:
            return
        newest = dict(list({**_read(self._path), **self._known}.items())[-REMEMBERED:])
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, msgspec.json.encode(newest))
        except (OSError, OutputError):
            return
        self._changed = False


def _hash(path: Path, size: int, say: Say) -> str:
    digest = hashlib.sha256()
    done = 0
    said = time.monotonic()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            done += len(piece)
            if time.monotonic() - said >= SAY_EVERY_S:
                said = time.monotonic()
                say(f"hashing {path.name}: {100 * done // max(size, 1)}% of {size / 1e9:.1f} GB")
    return digest.hexdigest()


def _key(path: Path, facts: os.stat_result) -> str:
    # The time of the last change of the inode cannot be set back, unlike that of the contents.
    numbers = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_dev, facts.st_ino)
    # A name is bytes, and what is written here is text.
    name = os.fsencode(path.resolve()).decode(errors="backslashreplace")
    return "\0".join([name, *map(str, numbers)])


def _read(path: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return {}
