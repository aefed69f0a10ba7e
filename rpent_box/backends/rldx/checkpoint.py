# SPDX-License-Identifier: Apache-2.0
"""What an RLDX checkpoint is, found out from its files alone.

    config.json                        the model's
    model*.safetensors                 its weights, with model.safetensors.index.json if in parts
    processor/processor_config.json    what it sees and answers    (or beside config.json)
    processor/statistics.json          what that is scaled with
    processor/embodiment_id.json       which head is whose

and, in the Hugging Face cache `--hf-home`, the configuration and tokenizer of the backbone that
config.json names. Where upstream reads them: rldx/policy/policy_loader.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rpent_box.backends.adapter import adapter_for
from rpent_box.backends.checkpoint_files import (
    find_file,
    find_files,
    find_optional_file,
    read_json,
    require_folder,
)
from rpent_box.backends.rldx.adapter import ADAPTERS
from rpent_box.backends.rldx.backbone_files import backbone_files
from rpent_box.backends.rldx.modality import Modality, read_modality
from rpent_box.backends.rldx.names import COLUMNS, PROPRIO
from rpent_box.backends.rldx.options import RldxOptions, check_options
from rpent_box.backends.statistics_files import require_range
from rpent_box.backends.tensor_files import read_safetensors_header
from rpent_box.contracts.checkpoint import ExpectedFile, Inspection
from rpent_box.errors import BadCheckpoint, BadOption, IncompatibleWorker, ProtocolMismatch

MODEL_TYPE = "RLDX-1"
INDEX = "model.safetensors.index.json"


class ModelConfig(Struct, frozen=True):
    """config.json, as far as it decides how the model is asked; the defaults are upstream's."""

    model_type: str = ""
    model_name: str = "Qwen/Qwen3-VL-8B-Instruct"
    """The backbone whose configuration and tokenizer are read besides."""
    action_horizon: int = 16
    use_memory: bool = False
    memory_stride: int = 16
    """Control steps between two frames that the memory was trained on."""
    use_video: bool = True
    video_length: int = 4
    video_stride: int = 2
    rtc_training_max_delay: int = 0


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint that fits the options."""

    config: ModelConfig
    inspection: Inspection


def inspect(options: RldxOptions, path: Path, platform: str) -> Inspection:
    """Return the files and what they decide. Raises `BadCheckpoint` or `BadOption`."""
    return read_checkpoint(options, path, platform).inspection


def read_checkpoint(options: RldxOptions, path: Path, platform: str) -> Checkpoint:
    """Return what the files say. Raises `BadCheckpoint` or `BadOption`."""
    check_options(options)
    adapter_for(ADAPTERS, platform, backend="rldx")
    require_folder(path, role="checkpoint")
    config_file = find_file(path, "config.json", role="config")
    config = _model_config(config_file)
    folder = path / "processor" if (path / "processor").is_dir() else path
    processor_file = find_file(folder, "processor_config.json", role="processor config")
    statistics_file = find_file(folder, "statistics.json", role="statistics")
    heads_file = find_optional_file(folder, "embodiment_id.json", role="embodiment heads")
    if heads_file is not None:
        read_json(heads_file.path, role=heads_file.role)
    settings = _processor_settings(processor_file)
    modality = _modality(settings, config, options)
    _check_statistics(statistics_file, settings, options)
    _check_options_fit(config, modality, options)
    inspection = Inspection(
        files=(
            config_file,
            *_weights(path),
            processor_file,
            statistics_file,
            *([heads_file] if heads_file else []),
            *backbone_files(options.hf_home, config.model_name),
        ),
        facts=_facts(config, modality, settings, options),
    )
    return Checkpoint(config=config, inspection=inspection)


def _model_config(file: ExpectedFile) -> ModelConfig:
    try:
        config = msgspec.convert(read_json(Path(file.path), role=file.role), ModelConfig)
    except msgspec.ValidationError as error:
        raise BadCheckpoint(f"{file.path} is no RLDX model's config: {error}") from error
    if config.model_type != MODEL_TYPE:
        raise BadCheckpoint(
            f"{file.path} is of a {config.model_type or 'nameless'} model; wanted {MODEL_TYPE}",
            hint="Give the folder of an RLDX-1 checkpoint.",
        )
    return config


def _processor_settings(file: ExpectedFile) -> dict[str, Any]:
    settings = read_json(Path(file.path), role=file.role).get("processor_kwargs")
    if not isinstance(settings, dict):
        raise BadCheckpoint(f"{file.path} has no processor_kwargs")
    return settings


def _modality(settings: dict[str, Any], config: ModelConfig, options: RldxOptions) -> Modality:
    """Return what a server of this checkpoint will say of itself."""
    tag = options.embodiment.lower()
    configs = settings.get("modality_configs")
    written = configs.get(tag) if isinstance(configs, dict) else None
    if not isinstance(written, dict):
        there = ", ".join(configs) if isinstance(configs, dict) else "none"
        raise BadCheckpoint(
            f"the checkpoint was not trained for {options.embodiment}; it has: {there}",
            hint="Choose another with --embodiment, or give another checkpoint.",
        )
    try:
        modality = read_modality(written)
    except (IncompatibleWorker, ProtocolMismatch) as error:
        raise BadCheckpoint(error.message, hint=error.hint) from error
    if not (config.use_memory and options.memory):
        return modality
    # With its memory on, the server takes the window of config.json instead.
    length = config.video_length if config.use_video else 1
    steps = tuple(config.video_stride * back for back in reversed(range(length)))
    return msgspec.structs.replace(modality, steps_ago=steps)


def _check_statistics(file: ExpectedFile, settings: dict[str, Any], options: RldxOptions) -> None:
    statistics = read_json(Path(file.path), role=file.role)
    role = f"{file.role} {file.path}"
    low, high = _bounds(settings)
    widths = {("state", key): width for key, (_, width) in PROPRIO.items()}
    widths |= {("action", key): part.stop - part.start for key, part in COLUMNS.items()}
    for place, width in widths.items():
        where = (options.embodiment.lower(), *place)
        require_range(statistics, (*where, low), (*where, high), width, role=role)


def _bounds(settings: dict[str, Any]) -> tuple[str, str]:
    return ("q01", "q99") if settings.get("use_percentiles") else ("min", "max")


def _check_options_fit(config: ModelConfig, modality: Modality, options: RldxOptions) -> None:
    steps, horizon = options.execute_steps, modality.horizon
    if horizon > config.action_horizon:
        raise BadCheckpoint(
            f"the processor wants {horizon} steps of a model that has {config.action_horizon}"
        )
    check_steps(options, horizon)
    if config.use_memory and options.memory and config.memory_stride != steps:
        raise BadOption(
            f"this checkpoint's memory was trained on every {config.memory_stride}th control step, "
            f"and would be asked after every {steps}",
            hint=f"Give --execute-steps {config.memory_stride}, or --no-memory.",
        )
    longest = config.rtc_training_max_delay
    if options.rtc == "trained" and options.rtc_delay > longest:
        raise BadOption(
            f"this checkpoint was trained for an --rtc-delay up to {longest}, "
            f"not {options.rtc_delay}",
            hint="Use --rtc guided, which any checkpoint can."
            if longest == 0
            else f"Give --rtc-delay {longest} or less.",
        )


def check_steps(options: RldxOptions, horizon: int) -> None:
    """Raise `BadOption` when a chunk of `horizon` steps is too short for what it is to do."""
    if options.execute_steps + options.rtc_delay > horizon:
        behind = f" and --rtc-delay {options.rtc_delay} behind them" if options.rtc_delay else ""
        raise BadOption(
            f"--execute-steps {options.execute_steps}{behind} do not fit into a chunk of "
            f"{horizon} steps",
            hint=f"Give --execute-steps {horizon - options.rtc_delay} or less.",
        )


def _weights(path: Path) -> Iterator[ExpectedFile]:
    files = find_files(path, "*.safetensors", role="weights")
    index = find_optional_file(path, INDEX, role="weights index")
    if index is not None:
        wanted = read_json(Path(index.path), role=index.role).get("weight_map")
        named = set(wanted.values()) if isinstance(wanted, dict) else set()
        missing = sorted(str(name) for name in named if not (path / str(name)).is_file())
        if missing or not named:
            raise BadCheckpoint(
                f"{path} lacks {len(missing)} files of weights that {INDEX} names: "
                f"{', '.join(missing[:3]) or 'it names none'}",
                hint="Copy the whole folder again.",
            )
        yield index
    for file in files:
        read_safetensors_header(file.path)
        yield file


def _facts(
    config: ModelConfig, modality: Modality, settings: dict[str, Any], options: RldxOptions
) -> dict[str, str]:
    memory = "none"
    if config.use_memory:
        memory = f"every {config.memory_stride} steps" if options.memory else "switched off"
    return {
        "action_horizon": str(modality.horizon),
        "execute_steps": str(options.execute_steps),
        "frames_steps_ago": " ".join(str(steps) for steps in modality.steps_ago),
        "history": options.history if len(modality.steps_ago) > 1 else "none needed",
        "memory": memory,
        "real_time_chunking": f"{options.rtc} {options.rtc_delay}",
        "normalisation": "/".join(_bounds(settings)),
        "embodiment": options.embodiment,
        "backbone": config.model_name,
    }
