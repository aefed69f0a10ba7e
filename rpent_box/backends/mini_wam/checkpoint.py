# SPDX-License-Identifier: Apache-2.0
"""Whether a checkpoint is one that this version can act with: asked before weights are opened."""

from __future__ import annotations

from pathlib import Path

from rpent_box.backends.adapter import adapter_for
from rpent_box.backends.checkpoint_files import require_folder
from rpent_box.backends.mini_wam.adapter import ADAPTERS, Adapter
from rpent_box.backends.mini_wam.adapter.encode import CAMERA_ROLES, IMAGE_SIZE
from rpent_box.backends.mini_wam.manifest import MANIFEST_FILE, Checkpoint, read_checkpoint
from rpent_box.backends.mini_wam.options import MiniWamOptions
from rpent_box.contracts.checkpoint import ExpectedFile, Inspection
from rpent_box.errors import BadCheckpoint


def inspect(options: MiniWamOptions, path: Path, platform: str) -> Inspection:
    """Return what the folder at `path` holds. Raises `BadCheckpoint`, and `BadOption`."""
    adapter = adapter_for(ADAPTERS, platform, backend="mini-wam")
    folder = require_folder(path, role="checkpoint")
    checkpoint = read_fitting(folder, adapter, name=folder.name)
    manifest = checkpoint.manifest
    files = {
        "weights": checkpoint.weights,
        "future weights": checkpoint.future,
        "statistics": folder / MANIFEST_FILE,
    }
    return Inspection(
        files=tuple(ExpectedFile(role=role, path=str(file)) for role, file in files.items()),
        facts={
            "action_horizon": str(manifest.action_horizon),
            "execute_steps": str(manifest.action_horizon),
            "instructions": " | ".join(manifest.instructions),
            "rows_by_lesson": manifest.data.get("rows_by_lesson", "not stated"),
        },
    )


def read_fitting(folder: Path, adapter: Adapter, *, name: str) -> Checkpoint:
    """Return the checkpoint in `folder`, looked at as far as its manifest tells.

    Raises `BadCheckpoint` when a file is damaged, or when it was made for another platform, action
    space or set of cameras than those of `adapter`, one of `ADAPTERS`.
    """
    # Of platforms that look and move alike, what was trained for one plays on the others.
    alike = [platform for platform, one in ADAPTERS.items() if one is adapter]
    checkpoint = read_checkpoint(folder, platforms=alike, name=name)
    _check_space(checkpoint, adapter)
    _check_eyes(checkpoint)
    return checkpoint


def _check_space(checkpoint: Checkpoint, adapter: Adapter) -> None:
    """Refuse weights that act in another space than the platform's adapter."""
    acts_in = checkpoint.manifest.action_space
    if acts_in != adapter.space.id:
        raise BadCheckpoint(
            f"the checkpoint {checkpoint.name} acts in {acts_in}; the adapter for "
            f"{checkpoint.manifest.platform} speaks {adapter.space.id}",
            hint="Export it again with this version of rpent-box.",
        )


def _check_eyes(checkpoint: Checkpoint) -> None:
    """Refuse weights that look through other cameras, or at another size, than `encode` gives."""
    manifest = checkpoint.manifest
    if (manifest.camera_roles, manifest.image_size) != (CAMERA_ROLES, IMAGE_SIZE):
        raise BadCheckpoint(
            f"the checkpoint {checkpoint.name} looks through {', '.join(manifest.camera_roles)} at "
            f"{manifest.image_size} pixels; this version gives {', '.join(CAMERA_ROLES)} at "
            f"{IMAGE_SIZE}",
        )
