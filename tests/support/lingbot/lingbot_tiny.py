# SPDX-License-Identifier: Apache-2.0
"""Run by a Python that has all of the model's packages: a tiny checkpoint, and chunks from it.

    lingbot_tiny.py FOLDER      writes what the backend answered into FOLDER/answers.json

The package's own code loads random weights of two small layers and infers on the CPU, in a server
that the backend starts. `tiny_site/sitecustomize.py` makes it small and keeps it off the GPU.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from lingbot_checkpoint import robot_config, statistics

from rpent_box.backends.lingbot.model import load
from rpent_box.backends.lingbot.options import LingbotOptions
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.worker.backend import LoadContext, PredictionInput

CAMERAS = ("cam_high", "cam_left_wrist", "cam_right_wrist")
IMAGE = 56
HIDDEN, HEADS, KEY_HEADS, LAYERS = 64, 4, 1, 2


def main() -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    folder = Path(sys.argv[1])
    write_tiny_checkpoint(folder)
    (folder / "answers.json").write_text(json.dumps(ask(folder)))
    return 0


def ask(folder: Path) -> dict[str, Any]:
    """Load the checkpoint as a worker does, and predict four chunks."""
    context = LoadContext(
        platform="robotwin",
        checkpoint=str(folder),
        threads=1,
        say=lambda phase: logging.info("phase: %s", phase),
    )
    backend = load(LingbotOptions(execute_steps=20, num_denoising_steps=2), context)
    try:
        backend.reset("a")
        moments = ((0, 0.0), (1, 0.0), (0, 0.0), (0, 0.1))
        chunks = [backend.predict(asked(chunk, left_x)) for chunk, left_x in moments]
        return {
            "chunks": [chunk.actions.tolist() for chunk in chunks],
            "infer_s": [chunk.timings_s["infer"] for chunk in chunks],
            "provenance": backend.meta.provenance,
            "action_horizon": backend.meta.action_horizon,
        }
    finally:
        backend.close()


def asked(chunk: int, left_x: float) -> PredictionInput:
    rng = np.random.default_rng(5)
    pose = np.array([left_x, 0.2, 0.9, 1, 0, 0, 0], np.float32)
    return PredictionInput(
        observation=Observation(
            images={
                role: rng.integers(0, 256, (240, 320, 3), np.uint8)
                for role in ("head", "left_wrist", "right_wrist")
            },
            proprio={
                "left_eef_pose": pose,
                "left_gripper": np.ones(1, np.float32),
                "right_eef_pose": pose,
                "right_gripper": np.ones(1, np.float32),
            },
            instruction="stack the blocks",
        ),
        session="a",
        episode=EpisodeKey(seed=1, suite="robotwin", task=2, episode=3, chunk=chunk),
    )


def write_tiny_checkpoint(folder: Path) -> None:
    """Write everything that the real one has, with random weights."""
    from transformers import PretrainedConfig

    folder.mkdir(parents=True, exist_ok=True)
    _write_qwen(folder / "qwen_base")
    (folder / "norm_stats").mkdir()
    (folder / "norm_stats/robotwin_eef.json").write_text(json.dumps(statistics()))
    (folder / "configs/robot_configs").mkdir(parents=True)
    robot = {**robot_config(), "images": [f"observation.images.{camera}" for camera in CAMERAS]}
    (folder / "configs/robot_configs/robotwin_eef.yaml").write_text(yaml.safe_dump(robot))
    training = {
        "model": {"vocab_size": 0, "adanorm_time": True},
        "train": {"freeze_vision_encoder": False, "train_expert_only": False},
        "data": {
            "norm_type": "bounds_99",
            "img_size": IMAGE,
            "joints": ["{'arm.position': 14}", "{'effector.position': 2}"],
            "cameras": list(CAMERAS),
        },
    }
    (folder / "lingbotvla_cli.yaml").write_text(yaml.safe_dump(training))
    PretrainedConfig(
        chunk_size=50,
        n_action_steps=50,
        max_state_dim=32,
        max_action_dim=32,
        tokenizer_max_length=24,
        resize_imgs_with_padding=[IMAGE, IMAGE],
        train_state_proj=True,
        num_steps=2,
    ).save_pretrained(folder)
    _write_weights(folder)


def _write_weights(folder: Path) -> None:
    """Write the names and shapes of the package's own model, and random numbers."""
    os.environ["QWEN25_PATH"] = str(folder / "qwen_base")
    import torch
    from deploy import lingbot_vla_policy as package
    from safetensors.torch import save_file

    class Writer(package.LingBotVlaInferencePolicy):
        def load_state_dict(self, *_: Any, **__: Any) -> None:
            tensors = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
            save_file(tensors, folder / "model.safetensors")

    torch.manual_seed(0)
    package.LingBotVlaInferencePolicy = Writer
    package.LingbotVLAServer(str(folder), use_bf16=False, robot_norm_path="unused")


def _write_qwen(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLProcessor,
        Qwen2TokenizerFast,
        Qwen2VLImageProcessor,
    )

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {letter: number for number, letter in enumerate(letters)}
    tokens = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = Qwen2TokenizerFast(tokenizer_object=tokens, pad_token="<|endoftext|>")
    Qwen2_5_VLProcessor(Qwen2VLImageProcessor(min_pixels=1), tokenizer).save_pretrained(folder)
    Qwen2_5_VLConfig(
        hidden_size=HIDDEN,
        intermediate_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        vocab_size=len(tokenizer),
        rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]},
        vision_config={
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 2,
            "out_hidden_size": HIDDEN,
            "fullatt_block_indexes": [0],
        },
    ).save_pretrained(folder)


if __name__ == "__main__":
    sys.exit(main())
