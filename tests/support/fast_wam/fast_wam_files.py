# SPDX-License-Identifier: Apache-2.0
"""A folder that looks like a FastWAM checkpoint to whoever reads headers only."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

from fast_wam_parts import statistics

from rpent_box.backends.fast_wam.checkpoint import CONVERTED, MODEL_ID, TOKENIZER_ID

VAE = f"{MODEL_ID}/Wan2.2_VAE.pth"
TEXT_ENCODER = f"{MODEL_ID}/models_t5_umt5-xxl-enc-bf16.pth"
TOKENIZER = f"{TOKENIZER_ID}/google/umt5-xxl/tokenizer.json"
WEIGHTS = {"mot": {"mixtures.video.head": 0}, "proprio_encoder": {"weight": 0}, "step": 1}


def checkpoint(folder: Path, platform: str = "libero") -> Path:
    """Fill `folder` and return it."""
    name = f"{platform.split('-')[0]}_uncond"
    torch_file(folder / f"{name}.pt", WEIGHTS)
    (folder / f"{name}_dataset_stats.json").write_text(json.dumps(statistics(platform)))
    torch_file(folder / VAE, {"encoder.conv1.weight": 0})
    torch_file(folder / TEXT_ENCODER, {"token_embedding.weight": 0})
    (folder / TOKENIZER).parent.mkdir(parents=True)
    (folder / TOKENIZER).write_text("{}")
    return folder


def converted(folder: Path) -> None:
    """Put the converted files in place of the original ones."""
    for old, new in ((VAE, "Wan2.2_VAE"), (TEXT_ENCODER, "models_t5_umt5-xxl-enc-bf16")):
        (folder / old).unlink()
        safetensors_file(folder / CONVERTED / f"{new}.safetensors")


def torch_file(path: Path, content: dict[str, Any]) -> None:
    """Write what torch.save would, but for the tensors' numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", pickle.dumps(content, protocol=2))
        archive.writestr(f"{path.stem}/version", "3\n")


def safetensors_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))


def processor(platform: str = "libero", **changed: Any) -> dict[str, Any]:
    """FastWAM's resolved `data.train.processor`, as its own configuration has it."""
    state, action, cameras, mode = (
        (14, 14, ("cam_high", "cam_left_wrist", "cam_right_wrist"), "z-score")
        if platform == "robotwin"
        else (8, 7, ("image", "wrist_image"), "min/max")
    )
    side = [3, 240, 320] if platform == "robotwin" else [3, 224, 224]
    return {
        "_target_": "fastwam.datasets.lerobot.processors.fastwam_processor.FastWAMProcessor",
        "shape_meta": {
            "images": [{"key": key, "raw_shape": [3, 480, 640], "shape": side} for key in cameras],
            "action": [{"key": "default", "raw_shape": action, "shape": action}],
            "state": [{"key": "default", "raw_shape": state, "shape": state}],
        },
        "num_obs_steps": 33,
        "num_output_cameras": len(cameras),
        "action_output_dim": action,
        "proprio_output_dim": state,
        "action_state_transforms": None,
        "use_stepwise_action_norm": False,
        "norm_default_mode": mode,
        "norm_exception_mode": None,
        "action_state_merger": {"_target_": "…ConcatLeftAlign"},
        "train_transforms": [{"_target_": "…ToTensor"}],
        "val_transforms": [{"_target_": "…ToTensor"}],
        **changed,
    }


def model_section(state: int = 14, action: int = 14, **changed: Any) -> dict[str, Any]:
    """FastWAM's resolved `model`."""
    return {
        "_target_": "fastwam.runtime.create_fastwam",
        "model_id": MODEL_ID,
        "tokenizer_model_id": TOKENIZER_ID,
        "tokenizer_max_len": 128,
        "load_text_encoder": True,
        "proprio_dim": state,
        "redirect_common_files": True,
        "mot_checkpoint_mixed_attn": False,
        "action_dit_pretrained_path": None,
        "skip_dit_load_from_pretrain": True,
        "video_dit_config": {"hidden_dim": 3072, "text_dim": 4096},
        "action_dit_config": {"hidden_dim": 1024, "action_dim": action},
        "video_scheduler": {"train_shift": 5.0, "infer_shift": 5.0, "num_train_timesteps": 1000},
        "action_scheduler": {"train_shift": 5.0, "infer_shift": 4.0, "num_train_timesteps": 1000},
        "loss": {"lambda_action": 1.0},
        **changed,
    }
