# SPDX-License-Identifier: Apache-2.0
"""FastWAM's `model` section: what its network is built from."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from rpent_box.backends.fast_wam.layout import DIMENSIONS
from rpent_box.errors import BadOption

# Instructions come as text, the weights hold what the next two would load, and nothing is trained.
ALWAYS = {
    "load_text_encoder": True,
    "skip_dit_load_from_pretrain": True,
    "action_dit_pretrained_path": None,
    "mot_checkpoint_mixed_attn": False,
}


class Schedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flow-matching schedule."""

    train_shift: float = 5.0
    infer_shift: float = 5.0
    num_train_timesteps: int = 1000


class ModelSection(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"target": "_target_"}
):
    """FastWAM's `model`, resolved. Loss and checkpointing are only training's."""

    model_id: str
    tokenizer_model_id: str
    proprio_dim: int
    video_dit_config: dict[str, Any]
    action_dit_config: dict[str, Any]
    action_scheduler: Schedule
    video_scheduler: Schedule = Schedule()
    tokenizer_max_len: int = 512
    target: Literal["fastwam.runtime.create_fastwam"] = "fastwam.runtime.create_fastwam"
    """Its other models predict frames or inverse dynamics too; this backend has none of them."""
    load_text_encoder: bool = True
    skip_dit_load_from_pretrain: bool = True
    action_dit_pretrained_path: str | None = None
    redirect_common_files: bool = True
    mot_checkpoint_mixed_attn: bool = True
    loss: dict[str, float] | None = None


def read_model_section(values: object, platform: str, source: str) -> ModelSection:
    """Return the section, checked against `platform`. Raises `BadOption`."""
    try:
        section = msgspec.convert(values, ModelSection)
    except msgspec.ValidationError as error:
        raise BadOption(f"the model in {source} cannot be used: {error}") from error
    check_model_section(section, platform, source)
    return section


def check_model_section(section: ModelSection, platform: str, source: str) -> None:
    """Raise `BadOption` for a network of another robot."""
    state, action = DIMENSIONS[platform]
    found = (section.proprio_dim, section.action_dit_config.get("action_dim"))
    if found != (state, action):
        raise BadOption(
            f"the model in {source} takes a state of {found[0]} and gives actions of {found[1]} "
            f"numbers; {platform} has {state} and {action}",
            hint="Give the configuration that the weights were trained with.",
        )


def arguments_of(section: ModelSection, *, converted: bool) -> dict[str, Any]:
    """Return the arguments of `FastWAM.from_wan22_pretrained`, as `create_fastwam` would give them.

    That function itself (src/fastwam/runtime.py) lives beside the trainer, whose packages inference
    has no use for.
    """
    video, action = section.video_scheduler, section.action_scheduler
    return {
        "model_id": section.model_id,
        "tokenizer_model_id": section.tokenizer_model_id,
        "tokenizer_max_len": section.tokenizer_max_len,
        "proprio_dim": section.proprio_dim,
        "video_dit_config": section.video_dit_config,
        "action_dit_config": section.action_dit_config,
        "video_train_shift": video.train_shift,
        "video_infer_shift": video.infer_shift,
        "video_num_train_timesteps": video.num_train_timesteps,
        "action_train_shift": action.train_shift,
        "action_infer_shift": action.infer_shift,
        "action_num_train_timesteps": action.num_train_timesteps,
        "redirect_common_files": converted,
        **ALWAYS,
    }
