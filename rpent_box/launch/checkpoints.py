# SPDX-License-Identifier: Apache-2.0
"""Checkpoints before anything is started: what they are, and whether they are what they were.

A manifest, `rpent-box-checkpoint.json`, may lie in a checkpoint's folder. It ties the files to each
other and to the suites that they may be scored on: statistics of another suite are a file like any
other, and nothing but lower scores would tell.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.contracts.checkpoint import (
    WRITTEN_FILE,
    CheckpointFile,
    CheckpointManifest,
    ExpectedFile,
    Inspection,
)
from rpent_box.errors import BadCheckpoint
from rpent_box.launch.hashes import FileHashes
from rpent_box.options import parse_options
from rpent_box.sim.planning import require_suite, require_tied
from rpent_box.sim.platform import Suite
from rpent_box.sim.results import write_atomically
from rpent_box.worker.backend import BackendSpec

Say = Callable[[str], None]


def inspect_checkpoint(
    spec: BackendSpec,
    options: Struct,
    checkpoint: str | Path,
    platform: str,
    suites: Sequence[str] = (),
    *,
    say: Say,
    cache: Path | None = None,
) -> CheckpointManifest:
    """Look at a checkpoint and hash its files; `cache` is a folder that remembers hashes.

    `suites` are those that it is said to be for. Raises `BadCheckpoint` for what `spec` could not
    use, and for suites that the files themselves contradict.
    """
    root = _root(spec, checkpoint)
    found = look_at(spec, options, root, platform)
    hashes = FileHashes(cache)
    try:
        files = tuple(_hashed(file, root, hashes, say) for file in _once(found.files))
    finally:
        hashes.save()
    return CheckpointManifest(
        backend=spec.name,
        platform=platform,
        checkpoint=_title(spec, root),
        files=files,
        facts=found.facts,
        suites=_suites(found, suites),
    )


def look_at(spec: BackendSpec, options: Struct, root: Path, platform: str) -> Inspection:
    """Return which files `spec` would read of the checkpoint at `root`. Raises `BadCheckpoint`."""
    if spec.inspect is None:
        raise BadCheckpoint(f"{spec.name} cannot look at a checkpoint without loading it")
    try:
        if spec.checkpoint_is == "path" and not root.exists():
            raise BadCheckpoint(
                f"there is no checkpoint at {root}", hint="Give a file or a folder."
            )
        found = spec.inspect(options, root, platform)
    except OSError as error:
        # A folder on the way that is closed to us: most questions about files end so.
        where = error.filename or root
        raise BadCheckpoint(
            f"{where} cannot be read: {error.strerror or error}",
            hint=f"Let this user read it: ls -ld {shlex.quote(str(where))}",
        ) from error
    paths = (str(root), *(file.path for file in found.files))
    for text in (*paths, *found.facts.values(), *found.suites):
        _require_text(text)
    return found


def require_usable(
    spec: BackendSpec,
    arguments: Sequence[str],
    checkpoint: str | None,
    platform: str,
    suite: Suite | None,
) -> None:
    """Raise `BadCheckpoint` for what `checkpoint_of_run` would refuse without hashing a file.

    It takes no time, and so comes before images are looked for or built.
    """
    options = _options_of_loader(spec, arguments, checkpoint)
    if checkpoint is None or options is None:
        return
    root = _root(spec, checkpoint)
    found = look_at(spec, options, root, platform)
    written = _tie(spec, checkpoint)
    if suite is not None:
        tied = written.suites if written is not None else ()
        require_tied(_title(spec, root), tied or found.suites, suite)


def _options_of_loader(
    spec: BackendSpec, arguments: Sequence[str], checkpoint: str | None
) -> Struct | None:
    """Return the worker's own options; None where it loads no files that could be looked at."""
    if checkpoint is None or spec.inspect is None:
        return None
    options = parse_options(spec.options, arguments, program=f"rpent-box serve {spec.name}")
    return None if spec.borrows and getattr(options, spec.borrows) else options


def checkpoint_of_run(
    spec: BackendSpec,
    arguments: Sequence[str],
    checkpoint: str | None,
    platform: str,
    suite: Suite | None,
    *,
    say: Say,
    cache: Path | None = None,
) -> CheckpointManifest | None:
    """Return what an owned worker is about to load; None where no file decides it.

    `arguments` are the words of the backend's own options; `suite` is what shall be played, None
    where that is not known yet. Raises `BadCheckpoint` when the checkpoint cannot be used, is not
    what its manifest says, or is for other suites.
    """
    options = _options_of_loader(spec, arguments, checkpoint)
    if checkpoint is None or options is None:
        return None
    manifest = inspect_checkpoint(spec, options, checkpoint, platform, say=say, cache=cache)
    written = _tie(spec, checkpoint)
    if written is not None:
        require_agreement(manifest, written, tying_path(checkpoint), arguments)
        manifest = replace(manifest, suites=written.suites or manifest.suites)
    if suite is not None:
        require_suite(manifest, suite)
    return manifest


def written_path(checkpoint: str | Path) -> Path:
    """Return where a checkpoint's manifest lies: in its folder, or beside its single file."""
    root = _whole(checkpoint)
    return root / WRITTEN_FILE if root.is_dir() else root.with_name(f"{root.name}.{WRITTEN_FILE}")


def tying_path(checkpoint: str | Path) -> Path:
    """Return where the manifest lies that ties a checkpoint; where its own would, if there is none.

    A single file may also be given as its folder: without a manifest of its own it is tied by the
    folder's, if that one lists it. Raises `BadCheckpoint` when that one cannot be read.
    """
    own, root = written_path(checkpoint), _whole(checkpoint)
    if own.parent == root or own.exists():
        return own
    folders = root.with_name(WRITTEN_FILE)
    written = _read(folders)
    listed = written is not None and any(file.path == root.name for file in written.files)
    return folders if listed else own


def read_written(checkpoint: str | Path) -> CheckpointManifest | None:
    """Return the manifest that ties a checkpoint; None where there is none.

    Raises `BadCheckpoint` when it cannot be read.
    """
    return _read(tying_path(checkpoint))


def _read(path: Path) -> CheckpointManifest | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=CheckpointManifest)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise BadCheckpoint(
            f"{path} is not a checkpoint's manifest: {error}",
            hint=f"Renew it: {_renew(None, path)}",
        ) from error


def write_manifest(path: Path, manifest: CheckpointManifest) -> None:
    """Write a manifest, whole or not at all. Raises `OutputError`."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def require_agreement(
    found: CheckpointManifest,
    written: CheckpointManifest,
    path: Path,
    arguments: Sequence[str] = (),
) -> None:
    """Refuse a checkpoint whose files are not those that its manifest at `path` was written for.

    `arguments` are the words of the backend's own options: renewing it takes the same ones. Raises
    `BadCheckpoint`, which names the files.
    """
    wrong = []
    if found.backend != written.backend:
        wrong.append(f"it was written for {written.backend}, not for {found.backend}")
    wrong += [text for file in found.files if (text := _difference(file, written))]
    # It may have been tied to some of those that the files name, not to others.
    if found.suites and not set(written.suites) <= set(found.suites):
        wrong.append(
            f"it was written for {', '.join(written.suites)}, not for {', '.join(found.suites)}"
        )
    if wrong:
        # Without its suites it would be untied.
        kept = [suite for suite in written.suites if suite in (found.suites or written.suites)]
        words = [*(word for suite in kept for word in ("--suite", suite)), *arguments]
        raise BadCheckpoint(
            f"the checkpoint is not what {path} says: " + "\n".join(wrong),
            hint="Put the files back, or, if this is meant, renew it: "
            f"{_renew(found, path, words)}",
        )


def _root(spec: BackendSpec, checkpoint: str | Path) -> Path:
    """Return where a checkpoint lies; a name as it is, where only a service knows the files."""
    return Path(checkpoint) if spec.checkpoint_is == "name" else _whole(checkpoint)


def _title(spec: BackendSpec, root: Path) -> str:
    return str(root) if spec.checkpoint_is == "name" else root.name


def _tie(spec: BackendSpec, checkpoint: str) -> CheckpointManifest | None:
    """Return the manifest that ties a checkpoint; a name has no place where one could lie."""
    return None if spec.checkpoint_is == "name" else read_written(checkpoint)


def _whole(path: str | Path) -> Path:
    # Unlike `Path.expanduser`, this leaves the home of somebody unknown as it is written.
    return Path(os.path.abspath(os.path.expanduser(path)))


def _require_text(text: str) -> None:
    """Refuse a name or a fact that JSON, and so a result, cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadCheckpoint(
            f"{text!a} is no UTF-8 text, and no result could hold it",
            hint="Rename the file, or mend the one that says so.",
        ) from error


def _suites(found: Inspection, given: Sequence[str]) -> tuple[str, ...]:
    strange = [suite for suite in given if found.suites and suite not in found.suites]
    if strange:
        raise BadCheckpoint(
            f"the files say that they are for {', '.join(found.suites)}, and not for "
            f"{', '.join(strange)}",
            hint="Give the checkpoint of that suite, or leave --suite out.",
        )
    return tuple(dict.fromkeys(given)) or found.suites


def _difference(file: CheckpointFile, written: CheckpointManifest) -> str:
    """Return how `file` differs from what was written about it; empty where it does not."""
    same_role = [one for one in written.files if one.role == file.role]
    before = next((one for one in same_role if one.path == file.path), None)
    if before is None and os.path.isabs(file.path):
        # Outside of the checkpoint a file may have moved: what is in it counts.
        if any(one.sha256 == file.sha256 for one in same_role):
            return ""
        before = same_role[0] if len(same_role) == 1 else None
    if before is None:
        return f"the {file.role} {file.path} is new"
    if before.sha256 == file.sha256:
        return ""
    then = f"{before.size} bytes, SHA-256 {before.sha256[:12]}…"
    moved = "" if before.path == file.path else f" (then {before.path})"
    return (
        f"the {file.role} {file.path}{moved} changed: it has {file.size} bytes, SHA-256 "
        f"{file.sha256[:12]}…, and had {then}"
    )


def _renew(manifest: CheckpointManifest | None, path: Path, words: Sequence[str] = ()) -> str:
    folder = path.parent if path.name == WRITTEN_FILE else path.with_name(_beside(path))
    command = f"rpent-box checkpoint inspect {shlex.quote(str(folder))}"
    if manifest is None:
        return f"{command} --backend NAME --write"
    known = ("--backend", manifest.backend, "--platform", manifest.platform, *words, "--write")
    return f"{command} {shlex.join(known)}"


def _beside(path: Path) -> str:
    return path.name.removesuffix(f".{WRITTEN_FILE}")


def _once(files: Sequence[ExpectedFile]) -> list[ExpectedFile]:
    return list({(file.role, file.path): file for file in files}.values())


def _hashed(file: ExpectedFile, root: Path, hashes: FileHashes, say: Say) -> CheckpointFile:
    path = Path(file.path)
    sha256 = hashes.sha256(path, say=say)
    return CheckpointFile(
        role=file.role, path=_name(path, root), size=path.stat().st_size, sha256=sha256
    )


def _name(path: Path, root: Path) -> str:
    if path == root:
        return root.name
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
