# SPDX-License-Identifier: Apache-2.0
"""FastWAM through RLinf's policy, where RLinf is installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.device import require_device
from rpent_box.backends.fast_wam.adapter.rlinf import RlinfInput
from rpent_box.backends.fast_wam.checkpoint import FoundFiles
from rpent_box.backends.fast_wam.recipe import Recipe
from rpent_box.backends.tensor_files import read_torch_file, require_names
from rpent_box.errors import BadOption
from rpent_box.worker.backend import LoadContext

# The names of a precision in a recipe and in torch.
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


class RlinfPolicy:
    """Calls `predict_action_batch` with a batch of one."""

    def __init__(self, policy: Any) -> None:  # noqa: ANN401 - RLinf has no types to name
        self._policy: Any = policy
        self.action_horizon = int(policy.policy_cfg.action_horizon)
        self.execute_steps = int(policy.policy_cfg.num_action_chunks)

    def infer(self, seen: RlinfInput, seed: int) -> NDArray[Any]:
        """Return float32 [1, execute_steps, 7], ready for LIBERO."""
        # RLinf draws its noise from this at each prediction.
        self._policy.policy_cfg.seed = seed
        actions, _ = self._policy.predict_action_batch(
            {
                "main_images": seen.main_images,
                "wrist_images": seen.wrist_images,
                "states": seen.states,
                "task_descriptions": seen.task_descriptions,
            },
            mode="eval",
        )
        return np.asarray(actions)

    def close(self) -> None:
        self._policy = None


def load_policy(
    recipe: Recipe, files: FoundFiles, config_dir: str, context: LoadContext
) -> RlinfPolicy:
    """Let RLinf compose the configuration and load the weights.

    Raises `BadOption`, and `BadCheckpoint` for weights that RLinf would leave at random.
    """
    try:
        import torch
        from omegaconf import OmegaConf
        from rlinf.models.embodiment.fastwam import get_model

        from rpent_box.backends.fast_wam.official import lend_files
    except ImportError as error:
        raise BadOption(
            f"RLinf's FastWAM policy cannot be imported: {error}",
            hint="Install RLinf with it and give its Python (--launcher process --python PATH), or "
            "use FastWAM's own code: --integration official",
        ) from error
    require_device(context, sees_gpu=torch.cuda.is_available(), backend="fast-wam")
    torch.set_num_threads(context.threads)
    lend_files(files, recipe.composition.components)
    context.say("loading the weights")
    configuration = OmegaConf.create(rlinf_configuration(recipe, files, config_dir))
    policy = get_model(configuration, getattr(torch, _DTYPES[recipe.precision])).eval()
    require_weights(policy.mot.state_dict(), files)
    return RlinfPolicy(policy)


def require_weights(names: Iterable[str], files: FoundFiles) -> None:
    """Refuse a file without one of the network's own `names`: RLinf's loading is not strict.

    Raises `BadCheckpoint`.
    """
    weights = files.weights
    there = read_torch_file(weights.path, role=weights.role).names
    require_names(there, names, path=weights.path, role=weights.role)


def rlinf_configuration(recipe: Recipe, files: FoundFiles, config_dir: str) -> dict[str, Any]:
    """Return RLinf's model configuration: the YAML, and where the files are."""
    composition = recipe.composition
    return {
        **recipe.given,
        "model_type": "fastwam",
        "model_path": files.weights.path,
        "dataset_stats_path": files.statistics.path,
        "action_horizon": recipe.action_horizon,
        "num_action_chunks": recipe.execute_steps,
        "num_inference_steps": recipe.inference.num_inference_steps,
        "binarize_gripper": recipe.binarize_gripper,
        "seed": recipe.seed,
        "fastwam": {
            "config_dir": config_dir or composition.config_dir or None,
            "config_name": composition.config_name,
            "overrides": [
                *composition.overrides,
                f"model.redirect_common_files={str(files.converted).lower()}",
            ],
        },
    }
