# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint is: its files, their hashes, and what was read from them."""

from __future__ import annotations

from msgspec import Struct

WRITTEN_FILE = "rpent-box-checkpoint.json"
"""The name of a manifest that lies with its checkpoint."""


class ExpectedFile(Struct, frozen=True, kw_only=True):
    """A file that a model will read, found and looked at."""

    role: str
    """What it is for: `weights`, `statistics`, `vae`, `tokenizer`, …"""
    path: str
    """Absolute, as it is named there: links are not followed, since names would be lost."""


class Inspection(Struct, frozen=True, kw_only=True):
    """What a backend found out about a checkpoint without loading it."""

    files: tuple[ExpectedFile, ...]
    facts: dict[str, str] = {}
    """What decides the actions: `action_horizon`, `execute_steps`, `normalisation`, …"""
    suites: tuple[str, ...] = ()
    """The suites that the files say they were trained on; empty: they do not say."""


class CheckpointFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a checkpoint, as it was hashed."""

    role: str
    path: str
    """Relative to the checkpoint where it is inside, else absolute."""
    size: int
    sha256: str


class CheckpointManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What goes into a result: which bytes decided the actions."""

    backend: str
    platform: str
    checkpoint: str
    """The last part of its path."""
    files: tuple[CheckpointFile, ...]
    facts: dict[str, str] = {}
    suites: tuple[str, ...] = ()
    """The suites that it may be scored on; empty: any."""
