# SPDX-License-Identifier: Apache-2.0
"""Is a folder a whole LingBot-VLA checkpoint for RoboTwin's sixteen columns?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rpent_box.backends.checkpoint_files import (
    find_file,
    find_files,
    find_optional_file,
    read_json,
    read_yaml,
    require_folder,
)
from rpent_box.backends.lingbot.adapter import ADAPTERS, COLUMNS
from rpent_box.backends.lingbot.greeting import CAMERA_ORDER
from rpent_box.backends.lingbot.options import LingbotOptions
from rpent_box.backends.processor_files import require_no_code
from rpent_box.backends.statistics_files import require_range, require_vector
from rpent_box.backends.tensor_files import read_safetensors_header
from rpent_box.contracts.checkpoint import ExpectedFile, Inspection
from rpent_box.errors import BadCheckpoint

CONFIG = "config.json"
TRAINING = "lingbotvla_cli.yaml"
WEIGHTS = "*.safetensors"
INDEX = "model.safetensors.index.json"
STATISTICS = "norm_stats/robotwin_eef.json"
ROBOT = "configs/robot_configs/robotwin_eef.yaml"
QWEN = "qwen_base"

_COPY_WHOLE = "Copy the whole folder, with its subfolders. See: images/lingbot/README.md"
_SIDES = (("states", "observation.state"), ("actions", "action"))
_STATISTICS_OF = {
    "meanstd": ("mean", "std"),
    "bounds_99": ("q01", "q99"),
    "minmax": ("min", "max"),
    "identity": (),
}


class Layout(Struct, frozen=True, kw_only=True):
    """Where the parts of a checkpoint are."""

    folder: Path
    statistics: Path
    robot: Path
    qwen: Path


def layout_of(options: LingbotOptions, folder: Path) -> Layout:
    """Return where the parts have to be; whether they are is not looked at."""
    return Layout(
        folder=folder,
        statistics=folder / STATISTICS,
        robot=folder / ROBOT,
        qwen=Path(options.qwen_path) if options.qwen_path else folder / QWEN,
    )


def inspect(options: LingbotOptions, folder: Path, platform: str) -> Inspection:
    """Return the files and what decides the actions. Raises `BadCheckpoint`."""
    if platform not in ADAPTERS:
        raise BadCheckpoint(
            f"lingbot has no adapter for {platform}, only for {', '.join(ADAPTERS)}"
        )
    config = find_file(folder, CONFIG, role="config", hint=_COPY_WHOLE)
    training = find_file(folder, TRAINING, role="training config", hint=_COPY_WHOLE)
    statistics = find_file(folder, STATISTICS, role="statistics", hint=_COPY_WHOLE)
    robot = find_file(folder, ROBOT, role="robot config", hint=_COPY_WHOLE)
    weights = _weights(folder)
    qwen = _qwen(layout_of(options, folder).qwen)
    trained = read_yaml(training.path, role=training.role)
    horizon = _horizon(read_json(config.path, role=config.role), trained)
    _require_steps(options, horizon)
    columns = _columns(robot)
    normalisation = _check_statistics(statistics, columns, trained)
    return Inspection(
        files=(config, training, statistics, robot, *weights, *qwen),
        facts={
            "action_horizon": str(horizon),
            "execute_steps": str(options.execute_steps),
            "denoising_steps": str(options.num_denoising_steps),
            "normalisation": normalisation,
        },
    )


def _weights(folder: Path) -> tuple[ExpectedFile, ...]:
    """Return the shards, each of them whole, and the index that names them, where there is one."""
    shards = find_files(folder, WEIGHTS, role="weights", hint=_COPY_WHOLE)
    names = {Path(shard.path).name: _names_in(shard) for shard in shards}
    index = find_optional_file(folder, INDEX, role="index of the weights")
    if index is None:
        return shards
    wanted = read_json(index.path, role=index.role).get("weight_map")
    if not isinstance(wanted, dict):
        raise BadCheckpoint(f"the {index.role} {index.path} has no weight_map")
    for tensor, shard_name in wanted.items():
        if tensor not in names.get(str(shard_name), frozenset()):
            raise BadCheckpoint(
                f"the {index.role} says that {tensor} is in {shard_name}; "
                f"{'it is not' if shard_name in names else 'that file is missing'}",
                hint=_COPY_WHOLE,
            )
    return (*shards, index)


def _names_in(shard: ExpectedFile) -> frozenset[str]:
    return frozenset(read_safetensors_header(shard.path, role=shard.role).tensors)


def _qwen(folder: Path) -> tuple[ExpectedFile, ...]:
    """Return what the processor is made of: not the weights that may lie beside it."""
    hint = "Name another folder with --qwen-path."
    role = "Qwen2.5-VL files"
    require_folder(folder, role=role, hint=hint)
    for name in ("config.json", "preprocessor_config.json", "tokenizer_config.json"):
        find_file(folder, name, role=role, hint=hint)
    find_file(folder, "tokenizer.json", "vocab.json", role=role, hint=hint)
    # The package loads its processor with trust_remote_code=True (lingbotvla/models/auto.py).
    require_no_code(folder, role=role)
    texts = [found for suffix in ("json", "txt") for found in sorted(folder.glob(f"*.{suffix}"))]
    for path in texts:
        if path.suffix == ".json":
            read_json(path, role=role)
    return tuple(ExpectedFile(role=role, path=str(path.absolute())) for path in texts)


def _horizon(config: Mapping[str, Any], trained: Mapping[str, Any]) -> int:
    """Return how many steps the model predicts. What is not in config.json is in the training's."""
    settings: dict[str, Any] = {}
    for section in ("train", "model"):
        if not isinstance(trained.get(section), dict):
            raise BadCheckpoint(f"the training config {TRAINING} has no section {section}")
        settings |= trained[section]
    settings |= config
    found = {settings[name] for name in ("chunk_size", "n_action_steps") if name in settings}
    if len(found) != 1 or not isinstance(horizon := found.pop(), int) or horizon < 1:
        raise BadCheckpoint(
            f"{CONFIG} and {TRAINING} do not say, or not in one voice, how many steps the model "
            f"predicts: chunk_size is {settings.get('chunk_size')}, n_action_steps is "
            f"{settings.get('n_action_steps')}"
        )
    return horizon


def _require_steps(options: LingbotOptions, horizon: int) -> None:
    if options.execute_steps > horizon:
        raise BadCheckpoint(
            f"the model predicts {horizon} steps, and {options.execute_steps} shall be executed",
            hint=f"Execute no more: --execute-steps {horizon}",
        )


def _columns(robot: ExpectedFile) -> dict[str, int]:
    """Return normalised feature → its number of columns, e.g. `action.arm.position` → 14.

    Raises `BadCheckpoint` unless the state and the actions are made of all sixteen columns, each
    once, and the images of the three cameras.
    """
    config = read_yaml(robot.path, role=robot.role)
    columns: dict[str, int] = {}
    for side, origin in _SIDES:
        spans = [
            (feature, span["start"], span["end"])
            for feature, keys in _entries(config, side, robot)
            for span in _spans(keys, origin, robot)
        ]
        taken = sorted(column for _, start, end in spans for column in range(start, end))
        if taken != list(range(COLUMNS)):
            raise BadCheckpoint(
                f"the {robot.role} {robot.path} takes the columns {taken} of {origin}; "
                f"wanted each of 0 to {COLUMNS - 1} once: this is another robot's"
            )
        for feature, start, end in spans:
            columns[feature] = columns.get(feature, 0) + end - start
    _require_cameras(config, robot)
    return columns


def _entries(config: Mapping[str, Any], side: str, robot: ExpectedFile) -> list[tuple[str, object]]:
    """Return (feature, its origin) for each entry of a section; a bare name is its own origin."""
    found: list[tuple[str, object]] = []
    for entry in config.get(side) or ():
        if isinstance(entry, str):
            found.append((entry, entry))
        elif isinstance(entry, dict) and len(entry) == 1:
            ((feature, settings),) = entry.items()
            origin = settings.get("origin_keys") if isinstance(settings, dict) else None
            found.append((str(feature), origin))
        else:
            raise BadCheckpoint(f"the {robot.role} {robot.path} has {entry!r} among its {side}")
    return found


def _spans(keys: object, origin: str, robot: ExpectedFile) -> list[dict[str, int]]:
    """Return the columns that a feature takes from `origin`."""
    spans = []
    for key in keys if isinstance(keys, list) else ():
        span = key.get(origin) if isinstance(key, dict) else None
        if isinstance(span, dict) and all(
            isinstance(span.get(end), int) for end in ("start", "end")
        ):
            spans.append(span)
            continue
        raise BadCheckpoint(
            f"the {robot.role} {robot.path} takes {key!r}; wanted columns of {origin}"
        )
    return spans


def _require_cameras(config: Mapping[str, Any], robot: ExpectedFile) -> None:
    wanted = {f"observation.images.{camera}" for camera in CAMERA_ORDER}
    cameras = {str(origin) for _, origin in _entries(config, "images", robot)}
    if cameras != wanted:
        raise BadCheckpoint(
            f"the {robot.role} {robot.path} looks through {', '.join(sorted(cameras)) or 'nothing'}"
            f"; wanted {', '.join(sorted(wanted))}"
        )


def _check_statistics(
    file: ExpectedFile, columns: Mapping[str, int], trained: Mapping[str, Any]
) -> str:
    """Return how numbers are normalised, after checking that every column has its statistics."""
    data = trained.get("data")
    normalisation = str(data.get("norm_type")) if isinstance(data, dict) else "missing"
    if normalisation not in _STATISTICS_OF:
        raise BadCheckpoint(
            f"data.norm_type in {TRAINING} is {normalisation}; wanted one of "
            f"{', '.join(_STATISTICS_OF)}"
        )
    statistics = read_json(file.path, role=file.role)
    role = f"{file.role} {file.path}"
    for feature, length in columns.items():
        place = ("norm_stats", feature)
        require_vector(statistics, (*place, "mean"), length, role=role)
        for name in _STATISTICS_OF[normalisation]:
            require_vector(statistics, (*place, name), length, role=role)
        if normalisation in ("bounds_99", "minmax"):
            low, high = _STATISTICS_OF[normalisation]
            require_range(statistics, (*place, low), (*place, high), length, role=role)
    return normalisation
