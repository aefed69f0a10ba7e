# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's files with next to nothing in them, laid out as the real ones are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

CAMERAS = ("cam_high", "cam_left_wrist", "cam_right_wrist")


def robot_config() -> dict[str, Any]:
    """Return the mapping between the platform's columns and the model's features."""
    return {
        side: [
            {f"{prefix}.arm.position": {"origin_keys": _spans(origin, (0, 7), (8, 15))}},
            {f"{prefix}.effector.position": {"origin_keys": _spans(origin, (7, 8), (15, 16))}},
        ]
        for side, prefix, origin in (
            ("states", "observation.state", "observation.state"),
            ("actions", "action", "action"),
        )
    } | {
        "images": [
            {f"observation.images.camera_{n}": {"origin_keys": f"observation.images.{camera}"}}
            for n, camera in enumerate(CAMERAS)
        ]
    }


def statistics() -> dict[str, Any]:
    """Return finite statistics for fourteen columns of poses and two of grippers."""
    found = {}
    for prefix in ("observation.state", "action"):
        for part, length in (("arm", 14), ("effector", 2)):
            found[f"{prefix}.{part}.position"] = {
                "mean": [0.0] * length,
                "std": [1.0] * length,
                "min": [-1.0] * length,
                "max": [1.0] * length,
                "q01": [-1.0] * length,
                "q99": [1.0] * length,
            }
    return {"norm_stats": found}


def write_checkpoint(folder: Path, *, horizon: int = 50) -> Path:
    """Write a whole checkpoint into `folder` and return it."""
    _write_json(folder / "config.json", {"chunk_size": horizon, "n_action_steps": horizon})
    _write_yaml(
        folder / "lingbotvla_cli.yaml",
        {"model": {"vocab_size": 0}, "train": {"lr": 1e-4}, "data": {"norm_type": "bounds_99"}},
    )
    _write_json(folder / "norm_stats/robotwin_eef.json", statistics())
    _write_yaml(folder / "configs/robot_configs/robotwin_eef.yaml", robot_config())
    for name in ("config", "preprocessor_config", "tokenizer_config", "tokenizer"):
        _write_json(folder / f"qwen_base/{name}.json", {"name": name})
    names = {}
    for shard in (1, 2):
        file = f"model-0000{shard}-of-00002.safetensors"
        write_safetensors(folder / file, {f"layer.{shard}": np.zeros((2, 3), np.float32)})
        names[f"layer.{shard}"] = file
    _write_json(folder / "model.safetensors.index.json", {"weight_map": names})
    return folder


def write_safetensors(
    path: Path, tensors: dict[str, np.ndarray[Any, np.dtype[np.float32]]]
) -> None:
    """Write float32 tensors in the safetensors format."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        start = len(data)
        data += tensor.tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [start, len(data)],
        }
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def _spans(origin: str, *spans: tuple[int, int]) -> list[dict[str, dict[str, int]]]:
    return [{origin: {"start": start, "end": end}} for start, end in spans]


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _write_yaml(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(value))
