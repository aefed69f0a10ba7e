# SPDX-License-Identifier: Apache-2.0
"""Look at a Cosmos Policy checkpoint: which files it is, and whether they can drive LIBERO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.adapter import adapter_for
from rpent_box.backends.checkpoint_files import (
    find_file,
    find_optional_file,
    read_json,
    require_file,
    require_folder,
)
from rpent_box.backends.cosmos_policy.adapter import ADAPTERS
from rpent_box.backends.cosmos_policy.embeddings import ROLE, TextEmbeddings, converter_command
from rpent_box.backends.cosmos_policy.hf_cache import find_tokenizer
from rpent_box.backends.cosmos_policy.options import ACTION_HORIZON, CosmosPolicyOptions
from rpent_box.backends.statistics_files import require_range
from rpent_box.backends.tensor_files import read_torch_file
from rpent_box.contracts.checkpoint import ExpectedFile, Inspection
from rpent_box.errors import BadCheckpoint

WEIGHTS = "Cosmos-Policy-LIBERO-Predict2-2B.pt"
STATISTICS = "libero_dataset_statistics.json"
EMBEDDINGS = "libero_t5_embeddings.safetensors"
PICKLED_EMBEDDINGS = "libero_t5_embeddings.pkl"
HF_HOME = "huggingface"
_PREFIX = "net."
_ACTION_OWNERS = {7: "LIBERO and RoboCasa", 14: "ALOHA"}
_PROPRIO_OWNERS = {9: "LIBERO and RoboCasa", 14: "ALOHA"}


class Statistics(Struct, frozen=True, kw_only=True):
    """The numbers that Cosmos Policy scales with, none of them with a range of zero."""

    actions_min: NDArray[np.float64]
    """[7], in LIBERO's own units; so is `actions_max`."""
    actions_max: NDArray[np.float64]
    proprio_min: NDArray[np.float64]
    """[9], in the order gripper 2, position 3, quaternion xyzw 4; so is `proprio_max`."""
    proprio_max: NDArray[np.float64]


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The files of one checkpoint, checked."""

    weights: Path
    """As it was named, links not followed: Cosmos Policy goes by its suffix."""
    statistics_file: Path
    statistics: Statistics
    embeddings_file: Path
    embeddings: TextEmbeddings
    hf_home: Path
    tokenizer: Path
    """The video autoencoder, in `hf_home`."""

    @property
    def name(self) -> str:
        """What results call it: the folder's name."""
        return self.weights.parent.name


def inspect(options: CosmosPolicyOptions, path: Path, platform: str) -> Inspection:
    """Return the files and what decides the actions. Raises `BadCheckpoint`, `BadOption`."""
    adapter_for(ADAPTERS, platform, backend="cosmos-policy")
    found = read_checkpoint(options, path)
    files = {
        "weights": found.weights,
        "statistics": found.statistics_file,
        ROLE: found.embeddings_file,
        "tokenizer": found.tokenizer,
    }
    return Inspection(
        files=tuple(
            ExpectedFile(role=role, path=str(file.resolve())) for role, file in files.items()
        ),
        facts={
            "action_horizon": str(ACTION_HORIZON),
            "execute_steps": str(options.execute_steps),
            "denoising_steps": str(options.denoising_steps),
            "normalisation": "min/max",
            "cached_instructions": str(len(found.embeddings.instructions)),
            "cached_instructions_only": str(options.cached_instructions_only).lower(),
        },
    )


def read_checkpoint(options: CosmosPolicyOptions, path: Path) -> Checkpoint:
    """Find and check what `path` names, a folder or the weights in it. Raises `BadCheckpoint`."""
    folder = require_folder(path.parent if path.is_file() else path, role="weights")
    if path.is_file():
        weights = require_file(path, role="weights")
    else:
        weights = find_file(folder, WEIGHTS, "*.pt", role="weights")
    _require_network(weights.path)
    statistics_file = _find_statistics(options, folder)
    embeddings_file = find_embeddings(options, folder)
    hf_home = Path(options.hf_home) if options.hf_home else folder / HF_HOME
    tokenizer = find_tokenizer(hf_home)
    read_torch_file(tokenizer.path, role=tokenizer.role)
    return Checkpoint(
        weights=Path(weights.path),
        statistics_file=statistics_file,
        statistics=read_statistics(statistics_file),
        embeddings_file=embeddings_file,
        embeddings=TextEmbeddings.open(embeddings_file),
        hf_home=hf_home,
        tokenizer=Path(tokenizer.path),
    )


def read_statistics(path: Path) -> Statistics:
    """Return the dataset statistics. Raises `BadCheckpoint` for what would give no numbers."""
    role = f"statistics {path}"
    values = read_json(path, role="statistics")
    low, high = require_range(
        values, "actions_min", "actions_max", 7, role=role, belongs=_ACTION_OWNERS
    )
    lowest, highest = require_range(
        values, "proprio_min", "proprio_max", 9, role=role, belongs=_PROPRIO_OWNERS
    )
    _require_width("actions", low, high, path, "the model could never move along it")
    _require_width("proprio", lowest, highest, path, "scaling would divide by zero")
    return Statistics(actions_min=low, actions_max=high, proprio_min=lowest, proprio_max=highest)


def find_embeddings(options: CosmosPolicyOptions, folder: Path) -> Path:
    """Return the converted text embeddings. Raises `BadCheckpoint` with the converter's command."""
    if options.text_embeddings:
        given = Path(require_file(options.text_embeddings, role=ROLE).path)
        if given.suffix != ".safetensors":
            raise _pickled(given, given.with_suffix(".safetensors"))
        return given
    found = find_optional_file(folder, EMBEDDINGS, role=ROLE)
    if found is not None:
        return Path(found.path)
    if (folder / PICKLED_EMBEDDINGS).is_file():
        raise _pickled(folder / PICKLED_EMBEDDINGS, folder / EMBEDDINGS)
    found = find_file(
        folder, EMBEDDINGS, role=ROLE, hint="Name another file: --text-embeddings FILE"
    )
    return Path(found.path)


def _pickled(source: Path, target: Path) -> BadCheckpoint:
    return BadCheckpoint(
        f"the {ROLE} {source} are a pickle, which a worker never opens",
        hint=f"Convert them once: {converter_command(source, target)}",
    )


def _require_network(weights: str) -> None:
    """Refuse a file that Cosmos Policy would take for another kind, or would load nothing from."""
    if not weights.endswith(".pt"):
        raise BadCheckpoint(f"the weights {weights} are no .pt file", hint=f"Wanted: {WEIGHTS}")
    names = read_torch_file(weights, role="weights").names
    if not any(name.startswith(_PREFIX) for name in names):
        listed = ", ".join(name[:60] for name in sorted(names)[:8])
        raise BadCheckpoint(
            f"the weights {weights} have no name that begins with {_PREFIX}, as Cosmos Policy's "
            f"have; theirs are: {listed}, …",
            hint=f"They belong to another model. Wanted: {WEIGHTS}",
        )


def _find_statistics(options: CosmosPolicyOptions, folder: Path) -> Path:
    if options.dataset_stats:
        return Path(require_file(options.dataset_stats, role="statistics").path)
    hint = "Name another file: --dataset-stats FILE"
    return Path(find_file(folder, STATISTICS, role="statistics", hint=hint).path)


def _require_width(
    what: str, low: NDArray[np.float64], high: NDArray[np.float64], path: Path, why: str
) -> None:
    """Refuse a range of zero, which Cosmos Policy has no answer for."""
    flat = np.flatnonzero(high == low)
    if flat.size:
        column = int(flat[0])
        raise BadCheckpoint(
            f"the statistics {path} have {what}_min = {what}_max = {low[column]:g} in column "
            f"{column}: {why}",
            hint="Give the statistics that came with these weights.",
        )
