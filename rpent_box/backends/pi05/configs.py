# SPDX-License-Identifier: Apache-2.0
"""What is known of openpi's configurations without importing openpi (openpi/training/config.py)."""

from __future__ import annotations

from msgspec import Struct

from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.errors import BadOption

ACTION_WIDTH = 32
"""Columns of the model's own actions and state; a robot's are padded to it
(openpi/models_pytorch/pi0_pytorch.py, where it is no option)."""
ROBOT_STATE = 8
ROBOT_ACTIONS = 7


class KnownConfig(Struct, frozen=True, kw_only=True):
    """One of openpi's own configurations."""

    action_horizon: int
    tensors: dict[str, tuple[int, ...]]
    """Some of its weights, by name, with their shapes: enough to tell another size apart."""


_EXPERT = "paligemma_with_expert.gemma_expert.model.layers"
_LANGUAGE = "paligemma_with_expert.paligemma.model.language_model.layers"
_VISION = "paligemma_with_expert.paligemma.model.vision_tower.vision_model.encoder.layers"

KNOWN_CONFIGS = {
    "pi05_libero": KnownConfig(
        action_horizon=10,
        tensors={
            "action_in_proj.weight": (1024, ACTION_WIDTH),
            "action_out_proj.weight": (ACTION_WIDTH, 1024),
            "time_mlp_in.weight": (1024, 1024),
            f"{_EXPERT}.17.input_layernorm.dense.weight": (3072, 1024),
            f"{_EXPERT}.17.mlp.gate_proj.weight": (4096, 1024),
            f"{_LANGUAGE}.17.mlp.gate_proj.weight": (16384, 2048),
            f"{_VISION}.26.mlp.fc1.weight": (4304, 1152),
        },
    ),
}


def known_config(options: Pi05Options) -> KnownConfig | None:
    """Return what is known before openpi is imported; None for one from the user's own file.

    Raises `BadOption` for a name that only a file could explain.
    """
    if options.config_file is not None:
        return None
    known = KNOWN_CONFIGS.get(options.config_name)
    if known is None:
        raise BadOption(
            f"openpi's Pi0.5 configuration for LIBERO is {', '.join(KNOWN_CONFIGS)}; "
            f"{options.config_name} is none of them",
            hint="Give a configuration of your own as --config-file FILE.py --config-name NAME.",
        )
    return known


def require_steps(options: Pi05Options, action_horizon: int) -> None:
    """Raise `BadOption` unless a chunk has as many steps as shall be executed."""
    if options.execute_steps > action_horizon:
        raise BadOption(
            f"--execute-steps {options.execute_steps} is more than {options.config_name} predicts: "
            f"{action_horizon}",
            hint=f"Give 1 to {action_horizon}; openpi's own LIBERO evaluation executes 5.",
        )
