# SPDX-License-Identifier: Apache-2.0
"""What ties a weights file to its statistics, its platform and its data: `mini_wam.json`.

A checkpoint is a folder with `mini_wam.onnx`, which acts, `mini_wam_future.onnx`, which paints the
frame to come, and `mini_wam.json`. Nothing is loaded before the hashes agree: weights with another
model's statistics act plausibly and fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from rpent_box.backends.mini_wam.text import TEXT_ENCODING, TEXT_FEATURES
from rpent_box.errors import BadCheckpoint

WEIGHTS_FILE = "mini_wam.onnx"
FUTURE_FILE = "mini_wam_future.onnx"
MANIFEST_FILE = "mini_wam.json"
STATISTICS_KEY = "statistics_sha256"
"""Under this name the weights file holds the hash of the statistics that it was trained with."""

PROPRIO_NUMBERS = 9
"""Position 3, quaternion 4, gripper 2."""


class Statistics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Normalisation of the nine proprio numbers: (value - mean) / deviation."""

    proprio_mean: tuple[float, ...]
    proprio_deviation: tuple[float, ...]

    def sha256(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    def are_usable(self) -> bool:
        """Tell whether normalising by these gives finite numbers."""
        lengths = len(self.proprio_mean), len(self.proprio_deviation)
        return lengths == (PROPRIO_NUMBERS, PROPRIO_NUMBERS) and min(self.proprio_deviation) > 0


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about a checkpoint that its weights file cannot say."""

    format: Literal[2] = 2
    """2 since frames come as planes: one per colour, not one triple per pixel."""
    platform: str
    action_space: str
    action_horizon: int
    camera_roles: tuple[str, ...]
    image_size: int
    """Height and width of the frames that the network sees."""
    future_size: int
    text_encoding: str = TEXT_ENCODING
    text_features: int = TEXT_FEATURES
    instructions: tuple[str, ...]
    """The sentences that it was trained on."""
    statistics: Statistics
    statistics_sha256: str
    weights_sha256: str
    future_sha256: str
    licence: str = "Apache-2.0"
    data: dict[str, str] = {}
    """The recipe of its demonstrations."""
    training: dict[str, str] = {}
    """The recipe of its training."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """Files that belong together."""

    name: str
    """`built-in`, or the folder's name."""
    weights: Path
    future: Path
    manifest: Manifest


def read_checkpoint(folder: Path, *, platforms: Sequence[str], name: str) -> Checkpoint:
    """Read and check a checkpoint that was trained for one of `platforms`, loading no weights.

    Raises `BadCheckpoint` when a file is missing or damaged, when the hashes do not agree, or when
    it was trained for another platform.
    """
    manifest = _read_manifest(folder / MANIFEST_FILE)
    weights, future = folder / WEIGHTS_FILE, folder / FUTURE_FILE
    _check_weights(weights, manifest.weights_sha256)
    _check_weights(future, manifest.future_sha256)
    _check_meaning(folder, manifest)
    if manifest.platform not in platforms:
        raise BadCheckpoint(
            f"the checkpoint {folder} was trained for {manifest.platform}, not for "
            f"{' or '.join(platforms)}",
            hint=f"Run it with --platform {manifest.platform}, or leave out --checkpoint.",
        )
    return Checkpoint(name=name, weights=weights, future=future, manifest=manifest)


def _read_manifest(path: Path) -> Manifest:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError as error:
        raise BadCheckpoint(
            f"{path.parent} is no mini-wam checkpoint: it has no {MANIFEST_FILE}",
            hint=f"It wants a folder with {WEIGHTS_FILE}, {FUTURE_FILE} and {MANIFEST_FILE}.",
        ) from error
    except OSError as error:
        raise BadCheckpoint(f"cannot read {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise BadCheckpoint(f"{path} is not a mini-wam manifest: {error}") from error


def _check_weights(weights: Path, wanted: str) -> None:
    try:
        found = hashlib.sha256(weights.read_bytes()).hexdigest()
    except OSError as error:
        raise BadCheckpoint(f"cannot read {weights}: {error.strerror}") from error
    if found != wanted:
        raise BadCheckpoint(
            f"{weights} has SHA-256 {found}; its manifest was written for {wanted}",
            hint="The file is damaged or belongs to another manifest. Export it again.",
        )


def _check_meaning(folder: Path, manifest: Manifest) -> None:
    computed = manifest.statistics.sha256()
    if computed != manifest.statistics_sha256:
        raise BadCheckpoint(
            f"the statistics in {folder / MANIFEST_FILE} have SHA-256 {computed}; the manifest "
            f"was written with {manifest.statistics_sha256}",
            hint="The statistics were edited after the export. Export the checkpoint again.",
        )
    if not manifest.statistics.are_usable():
        raise BadCheckpoint(
            f"the statistics in {folder / MANIFEST_FILE} cannot normalise {PROPRIO_NUMBERS} "
            "numbers: wanted that many means, and deviations above 0",
            hint="Export the checkpoint again.",
        )
    spoken = (manifest.text_encoding, manifest.text_features)
    if spoken != (TEXT_ENCODING, TEXT_FEATURES):
        raise BadCheckpoint(
            f"{folder} reads instructions as {spoken[0]} with {spoken[1]} columns; this version "
            f"writes {TEXT_ENCODING} with {TEXT_FEATURES}",
        )
