# SPDX-License-Identifier: Apache-2.0
"""Make a checkpoint of tiny random weights that FastWAM's own code loads.

    python fast_wam_tiny.py FOLDER [--platform libero|robotwin] [--config-dir DIR]

Needs FastWAM and torch. Writes weights, statistics, a VAE, a text encoder, a tokenizer and
`tiny.yaml`, which tells the sizes; everything else is FastWAM's own configuration.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from fast_wam_parts import statistics
from fast_wam_tiny_sizes import STEPS, TEXT_ENCODER, VAE, yaml_of
from fastwam.models.wan22.action_dit import ActionDiT
from fastwam.models.wan22.fastwam import FastWAM
from fastwam.models.wan22.mot import MoT
from fastwam.models.wan22.wan_video_dit import WanVideoDiT
from fastwam.models.wan22.wan_video_text_encoder import WanTextEncoder
from fastwam.models.wan22.wan_video_vae import WanVideoVAE38
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import T5TokenizerFast

from rpent_box.backends.fast_wam.checkpoint import MODEL_ID, TOKENIZER_ID
from rpent_box.backends.fast_wam.configuration import configure
from rpent_box.backends.fast_wam.options import FastWamOptions
from rpent_box.backends.fast_wam.recipe import read_recipe

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;'-_"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--platform", choices=("libero", "robotwin"), default="libero")
    parser.add_argument("--config-dir", default="", help="FastWAM's configs folder")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    make(arguments.folder, arguments.platform, arguments.config_dir)
    sys.stdout.write(f"{arguments.folder}\n")
    return 0


def make(folder: Path, platform: str, config_dir: str) -> None:
    config = folder / "tiny.yaml"
    config.write_text(yaml_of(platform))
    recipe = read_recipe(FastWamOptions(config=str(config)), platform)
    model = configure(recipe, config_dir, converted=False).model
    vae = WanVideoVAE38(**VAE)
    write_components(folder, vae)
    write_weights(folder / f"{platform}_tiny.pt", model, vae)
    stats = folder / f"{platform}_tiny_dataset_stats.json"
    stats.write_text(json.dumps(statistics(platform)))


def write_components(folder: Path, vae: WanVideoVAE38) -> None:
    parts = folder / MODEL_ID
    parts.mkdir(parents=True, exist_ok=True)
    # Only what encodes: actions need no decoder, and its sizes cannot be chosen.
    encoding = {
        name: tensor
        for name, tensor in vae.model.state_dict().items()
        if name.startswith(("encoder.", "conv1."))
    }
    torch.save(encoding, parts / "Wan2.2_VAE.pth")
    text_encoder = WanTextEncoder(**TEXT_ENCODER)
    torch.save(text_encoder.state_dict(), parts / "models_t5_umt5-xxl-enc-bf16.pth")
    write_tokenizer(folder / TOKENIZER_ID / "google" / "umt5-xxl")


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of single letters, so that every sentence has tokens of its own."""
    special = ["<pad>", "</s>", "<unk>"]
    pieces = [(piece, 0.0) for piece in special] + [(letter, -1.0) for letter in "▁" + LETTERS]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    fast = T5TokenizerFast(tokenizer_object=tokenizer, extra_ids=0)
    fast.save_pretrained(folder)


def write_weights(path: Path, model: dict[str, Any], vae: WanVideoVAE38) -> None:
    video = WanVideoDiT(**model["video_dit_config"])
    action = ActionDiT(**model["action_dit_config"])
    whole = FastWAM(
        video_expert=video,
        action_expert=action,
        mot=MoT(mixtures={"video": video, "action": action}),
        vae=vae,
        text_dim=model["video_dit_config"]["text_dim"],
        proprio_dim=model["proprio_dim"],
    )
    whole.save_checkpoint(path, step=STEPS)


if __name__ == "__main__":
    sys.exit(main())
