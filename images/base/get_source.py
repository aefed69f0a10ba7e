#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Get the source tree of a model that is in no package index, at its pinned revision, and prove it.

    python3 images/base/get_source.py NAME DESTINATION [--lock FILE] [--given FOLDER] [--from GIT]

`FOLDER/NAME` is taken where it holds something; else git fetches the revision, from the address in
the lock or from `--from`, which may be a clone on this machine. Either way git's tree id is
computed from the files that came and compared with the lock: every name, byte, link and executable
bit.

A lock has one line per source, `NAME GIT_URL REVISION TREE_ID`; `#` begins a comment. The tree id
is what `git rev-parse REVISION^{tree}` prints. A source with submodules has none that files could
prove, and is refused.

Standard library only: it runs in the first stage of an image, before anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

GIT_TIMEOUT_S = 1800
HEX = re.compile(r"[0-9a-f]{40}")
# What git tells its hooks: a build that one of them starts has a repository of its own.
OF_ANOTHER_REPOSITORY = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)  # fmt: skip
# A checkout shall be the bytes of the revision, whatever its .gitattributes ask for.
PLAIN_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding\n"


class CannotGet(Exception):
    """What came, what was wanted, and the next command."""


class Source(NamedTuple):
    """One line of a lock."""

    name: str
    url: str
    revision: str
    tree: str
    """Git's id of the tree at `revision`."""


def main() -> int:
    arguments = _parse()
    try:
        source = read_lock(arguments.lock, arguments.name)
        get_source(
            source, arguments.destination, given=arguments.given, url=arguments.origin or source.url
        )
    except CannotGet as error:
        say(f"error: {error}")
        return 1
    return 0


def read_lock(lock: Path, name: str) -> Source:
    """Return the line of `name` in `lock`. Raises `CannotGet`."""
    try:
        text = lock.read_text()
    except OSError as error:
        raise CannotGet(f"{lock} cannot be read: {error.strerror}. Give it: --lock FILE") from error
    sources = [_read_line(line, lock) for line in text.splitlines() if line.split("#")[0].strip()]
    for source in sources:
        if source.name == name:
            return source
    known = ", ".join(source.name for source in sources) or "none"
    raise CannotGet(f"{lock} has no source called {name}; it has: {known}")


def get_source(source: Source, destination: Path, *, given: Path, url: str) -> None:
    """Make `destination`, which must be missing or empty, the tree of `source`.

    Nothing is left there unless it is the right one. Raises `CannotGet`.
    """
    if destination.is_symlink() or (destination.exists() and not _is_empty(destination)):
        raise CannotGet(f"{destination} is not empty. Remove it, or name another folder.")
    destination.parent.mkdir(parents=True, exist_ok=True)
    tree = given / source.name
    with tempfile.TemporaryDirectory(prefix=".source-", dir=destination.parent) as folder:
        came = Path(folder) / "tree"
        if tree.is_dir() and not _is_empty(tree):
            origin = str(tree)
            _copy(tree, came)
        else:
            origin = f"{url} at {source.revision}"
            _fetch(source, url, came)
        _require(source, tree_id(came), came, origin)
        _open_for_reading(came)
        if destination.exists():
            destination.rmdir()
        came.rename(destination)
    say(f"{source.name} is in {destination}: tree {source.tree}, from {origin}")


def tree_id(folder: Path) -> str:
    """Return the id that git gives to the tree of what is in `folder`, `.git` aside."""
    return _tree(os.fsencode(folder)).hex()


def _tree(folder: bytes) -> bytes:
    entries = []
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name == b".git":
                continue
            if entry.is_symlink():
                entries.append((entry.name, b"120000", _blob(os.readlink(entry.path))))
            elif entry.is_dir():
                # Git knows no empty folders.
                if inner := _entries_below(entry.path):
                    entries.append((entry.name, b"40000", inner))
            elif entry.is_file():
                runs = entry.stat().st_mode & stat.S_IXUSR
                entries.append((entry.name, b"100755" if runs else b"100644", _file(entry.path)))
            else:
                raise CannotGet(f"{os.fsdecode(entry.path)} is no file, folder or link")
    # Git sorts a folder as if its name ended with a slash.
    entries.sort(key=lambda entry: entry[0] + b"/" * (entry[1] == b"40000"))
    body = b"".join(mode + b" " + name + b"\0" + inner for name, mode, inner in entries)
    return _digest(b"tree", body)


def _entries_below(folder: bytes) -> bytes:
    inner = _tree(folder)
    return b"" if inner == _digest(b"tree", b"") else inner


def _file(path: bytes) -> bytes:
    with open(path, "rb") as file:
        return _blob(file.read())


def _blob(data: bytes) -> bytes:
    return _digest(b"blob", data)


def _digest(kind: bytes, data: bytes) -> bytes:
    # SHA-1 is what git's ids are made of.
    digest = hashlib.sha1(kind + b" " + str(len(data)).encode() + b"\0", usedforsecurity=False)
    digest.update(data)
    return digest.digest()


def _copy(tree: Path, destination: Path) -> None:
    try:
        shutil.copytree(
            tree, destination, symlinks=True, ignore=lambda _, names: {".git"} & set(names)
        )
    except (OSError, shutil.Error) as error:
        raise CannotGet(f"{tree} cannot be copied: {error}") from error


def _fetch(source: Source, url: str, destination: Path) -> None:
    if shutil.which("git") is None:
        raise CannotGet(
            f"there is no git here to fetch {source.name} with. Install git, or put its tree into "
            f"images/sources/{source.name}: see images/sources/README.md"
        )
    # A folder named on the command line is relative to the caller, not to the new repository.
    origin = str(Path(url).absolute()) if Path(url).is_dir() else url
    _git(source, url, "init", "--quiet", str(destination))
    (destination / ".git" / "info").mkdir(exist_ok=True)
    (destination / ".git" / "info" / "attributes").write_text(PLAIN_ATTRIBUTES)
    inside = ("-C", str(destination))
    _git(source, url, *inside, "fetch", "--quiet", "--depth=1", origin, source.revision)
    _git(source, url, *inside, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    shutil.rmtree(destination / ".git")


def _git(source: Source, url: str, *words: str) -> None:
    settings = ("core.autocrlf=false", "core.fileMode=true", "core.symlinks=true", "gc.auto=0")
    command = ["git", *(word for setting in settings for word in ("-c", setting)), *words]
    environment = {
        name: value for name, value in os.environ.items() if name not in OF_ANOTHER_REPOSITORY
    }
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            # A question would never be answered.
            env={**environment, "GIT_TERMINAL_PROMPT": "0"},
            timeout=GIT_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotGet(f"{url} gave nothing within {GIT_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise CannotGet(
            f"{source.name} could not be fetched from {url} at {source.revision}:\n"
            f"{done.stderr.strip()}\n"
            f"Where git cannot be reached, put the tree into images/sources/{source.name}: "
            "see images/sources/README.md"
        )


def _require(source: Source, came: str, folder: Path, origin: str) -> None:
    if came == source.tree:
        return
    raise CannotGet(
        f"what came from {origin} is not {source.name} at {source.revision}: its tree is {came}, "
        f"wanted {source.tree}.{_left_overs(folder)}\n"
        "Take exactly the files of that revision, with their executable bits and links: "
        "see images/sources/README.md"
    )


def _left_overs(folder: Path) -> str:
    """Name what a tree collects when it is used."""
    patterns = ("__pycache__", "*.pyc", "*.egg-info", ".venv")
    found = [str(path.relative_to(folder)) for one in patterns for path in folder.rglob(one)]
    return f" In it, for example: {', '.join(sorted(found)[:3])}." if found else ""


def _open_for_reading(folder: Path) -> None:
    """Let any user read it, as an image's does; a given tree may have been for one user alone."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & stat.S_IXUSR else 0o644)


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _read_line(line: str, lock: Path) -> Source:
    words = line.split("#")[0].split()
    if len(words) != 4 or not HEX.fullmatch(words[2]) or not HEX.fullmatch(words[3]):
        raise CannotGet(
            f"{lock}: {line.strip()!r} is no line of a lock; wanted NAME GIT_URL REVISION TREE_ID, "
            "both ids in full"
        )
    return Source(*words)


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("name", metavar="NAME", help="as in the lock")
    parser.add_argument("destination", metavar="DESTINATION", type=Path, help="a new folder")
    parser.add_argument(
        "--lock", type=Path, default=Path("/run/sources.lock"), help="default: %(default)s"
    )
    parser.add_argument(
        "--given", type=Path, default=Path("/run/sources"), help="default: %(default)s"
    )
    parser.add_argument("--from", dest="origin", metavar="GIT", help="default: the lock's address")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
