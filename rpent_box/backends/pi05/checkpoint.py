# SPDX-License-Identifier: Apache-2.0
"""A pi05 checkpoint: weights, statistics and a tokenizer, looked at without openpi."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from rpent_box.backends.checkpoint_files import (
    find_optional_file,
    read_json,
    require_file,
    require_folder,
)
from rpent_box.backends.pi05.configs import KnownConfig, known_config, require_steps
from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.backends.pi05.statistics import check_statistics
from rpent_box.backends.pi05.vocabulary import count_pieces
from rpent_box.backends.tensor_files import (
    SafetensorsHeader,
    read_safetensors_header,
    require_names,
)
from rpent_box.contracts.checkpoint import ExpectedFile, Inspection
from rpent_box.errors import BadCheckpoint

WEIGHTS = "model.safetensors"
STATISTICS = "norm_stats.json"
TOKENIZER = "paligemma_tokenizer.model"
TOKENIZER_IN_CACHE = f"big_vision/{TOKENIZER}"
"""Where openpi's download cache, OPENPI_DATA_HOME, has it."""
_PI05_NAMES = ("action_in_proj.weight", "action_out_proj.weight", "time_mlp_in.weight")
_EMBEDDINGS = (
    "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight",
    "paligemma_with_expert.paligemma.lm_head.weight",
)
"""The same tensor under two names, of which a file has one or both."""
_PARTS = (
    "paligemma_with_expert",
    "action_in_proj",
    "action_out_proj",
    "time_mlp_in",
    "time_mlp_out",
)
"""What openpi's Pi0.5 consists of (openpi/models_pytorch/pi0_pytorch.py)."""


class Pi05Files(Struct, frozen=True, kw_only=True):
    """What openpi will read."""

    weights: ExpectedFile
    statistics: ExpectedFile
    tokenizer: ExpectedFile
    config_file: ExpectedFile | None


def find_files(options: Pi05Options, folder: Path) -> Pi05Files:
    """Return the files that `options` mean, each where it must be. Raises `BadCheckpoint`."""
    require_folder(
        folder,
        role="weights",
        hint=f"--checkpoint is the folder with {WEIGHTS}, not the file itself.",
    )
    return Pi05Files(
        weights=_weights(folder),
        statistics=_statistics(options, folder),
        tokenizer=_tokenizer(options, folder),
        config_file=(
            None
            if options.config_file is None
            else require_file(options.config_file, role="configuration")
        ),
    )


def inspect(options: Pi05Options, path: Path, platform: str) -> Inspection:
    """Return what is in the checkpoint at `path`.

    Raises `BadCheckpoint` for what openpi could not use, `BadOption` for options that do not fit.
    The adapters of all platforms take the same files.
    """
    known = known_config(options)
    if known is not None:
        require_steps(options, known.action_horizon)
    files = find_files(options, path)
    rows = _check_weights(files.weights.path, known)
    statistics = read_json(files.statistics.path, role="statistics")
    lengths = check_statistics(statistics, role=f"statistics {files.statistics.path}")
    pieces = count_pieces(files.tokenizer.path)
    if pieces > rows:
        raise BadCheckpoint(
            f"the tokenizer {files.tokenizer.path} has {pieces} pieces; the weights embed {rows}",
            hint="Give PaliGemma's own tokenizer: --tokenizer FILE.",
        )
    facts = {
        "config": options.config_name,
        "action_horizon": str(known.action_horizon) if known else "told by the configuration file",
        "execute_steps": str(options.execute_steps),
        "num_steps": str(options.num_steps),
        "normalisation": "q01/q99",
        "asset_id": options.asset_id,
        "state_columns": str(lengths.state),
        "action_columns": str(lengths.actions),
        "tokenizer_pieces": str(pieces),
    }
    found = (files.weights, files.statistics, files.tokenizer, files.config_file)
    return Inspection(files=tuple(file for file in found if file is not None), facts=facts)


def _weights(folder: Path) -> ExpectedFile:
    found = find_optional_file(folder, WEIGHTS, role="weights")
    if found is not None:
        return found
    if (folder / "params").is_dir():
        raise BadCheckpoint(
            f"{folder} has openpi's JAX weights (params/) and no {WEIGHTS}",
            hint="Convert it with openpi's examples/convert_jax_model_to_pytorch.py.",
        )
    raise BadCheckpoint(
        f"{folder} has no {WEIGHTS}",
        hint="--checkpoint is the folder of one PyTorch checkpoint of openpi.",
    )


def _statistics(options: Pi05Options, folder: Path) -> ExpectedFile:
    if options.norm_stats is not None:
        given = Path(options.norm_stats).expanduser()
        return require_file(given / STATISTICS if given.is_dir() else given, role="statistics")
    # openpi keeps them under assets/, RLinf beside the weights.
    places = (f"assets/{options.asset_id}/{STATISTICS}", f"{options.asset_id}/{STATISTICS}")
    found = find_optional_file(folder, *places, role="statistics")
    if found is None:
        others = sorted(str(place.relative_to(folder)) for place in folder.rglob(STATISTICS))
        raise BadCheckpoint(
            f"{folder} has no statistics of {options.asset_id}: wanted {' or '.join(places)}; "
            f"there is {', '.join(others) or f'no {STATISTICS}'}",
            hint="Name another with --asset-id, or give the file: --norm-stats FILE.",
        )
    return found


def _tokenizer(options: Pi05Options, folder: Path) -> ExpectedFile:
    given = folder if options.tokenizer is None else Path(options.tokenizer).expanduser()
    if options.tokenizer is not None and not given.is_dir():
        return require_file(given, role="tokenizer")
    found = find_optional_file(given, TOKENIZER_IN_CACHE, TOKENIZER, role="tokenizer")
    if found is None:
        raise BadCheckpoint(
            f"{given} has no tokenizer: wanted {TOKENIZER_IN_CACHE} or {TOKENIZER}",
            hint='Give openpi\'s download cache: --tokenizer "$OPENPI_DATA_HOME", or the file.',
        )
    return found


def _check_weights(path: str, known: KnownConfig | None) -> int:
    """Refuse weights of another model or size; return how many pieces they embed."""
    header = read_safetensors_header(path)
    names = header.tensors
    if "time_mlp_in.weight" not in names and "state_proj.weight" in names:
        raise BadCheckpoint(
            f"the weights {path} are Pi0's, not Pi0.5's: they have a state_proj and no time_mlp_in",
            hint="This backend serves Pi0.5 only.",
        )
    if any(name.startswith("model.paligemma_with_expert.") for name in names):
        raise BadCheckpoint(
            f"the weights {path} are in LeRobot's layout: their names begin with model.",
            hint="Give openpi's own checkpoint, or one that its conversion script wrote.",
        )
    require_names(names, _PI05_NAMES, path=path, role="weights")
    if known is not None:
        _refuse_other_parts(names, path)
        for name, shape in known.tensors.items():
            _check_shape(header, name, shape, path)
    return _embedded(header, path)


def _refuse_other_parts(names: Iterable[str], path: str) -> None:
    """Refuse what openpi, which loads strictly, would refuse after reading all of the file."""
    others = sorted({name.split(".")[0] for name in names} - set(_PARTS))
    if others:
        raise BadCheckpoint(
            f"the weights {path} have parts that openpi's Pi0.5 does not have: {', '.join(others)}",
            hint="Training by reinforcement adds such heads. Save the file again without them.",
        )


def _check_shape(header: SafetensorsHeader, name: str, shape: tuple[int, ...], path: str) -> None:
    require_names(header.tensors, (name,), path=path, role="weights")
    found = header.tensors[name].shape
    if found != shape:
        raise BadCheckpoint(
            f"{name} in the weights {path} has shape {list(found)}; the configuration makes it "
            f"{list(shape)}",
            hint="Weights of other sizes need their configuration: --config-file FILE.py.",
        )


def _embedded(header: SafetensorsHeader, path: str) -> int:
    for name in _EMBEDDINGS:
        if name in header.tensors:
            return header.tensors[name].shape[0]
    raise BadCheckpoint(f"the weights {path} embed no words: they have no {_EMBEDDINGS[0]}")
