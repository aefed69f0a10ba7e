# SPDX-License-Identifier: Apache-2.0
"""Cosmos Policy's own code, and the only place that imports it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.cosmos_policy.adapter import NativeObservation
from rpent_box.backends.cosmos_policy.checkpoint import Checkpoint
from rpent_box.backends.cosmos_policy.hf_cache import has_text_encoder, make_cache
from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.backends.cosmos_policy.recipe import Recipe
from rpent_box.backends.cosmos_policy.weights import Network, read_shapes, require_filled
from rpent_box.errors import BadOption, EnvironmentMissing
from rpent_box.worker.backend import LoadContext

_SEED_EVERYWHERE = 0
"""What the authors' evaluation seeds all generators with, before each step."""
_ACTION_DIM = 7


class GetAction(Protocol):
    """cosmos_policy/experiments/robot/cosmos_utils.py, `get_action`."""

    def __call__(
        self,
        cfg: Recipe,
        model: Network,
        dataset_stats: Mapping[str, NDArray[np.float64]],
        obs: NativeObservation,
        task_label_or_embedding: NDArray[np.float32] | str,
        *,
        seed: int,
        num_denoising_steps_action: int,
        generate_future_state_and_value_in_parallel: bool,
    ) -> Mapping[str, Any]: ...


class Policy(Struct, frozen=True, kw_only=True):
    """The loaded network with everything that asking it needs."""

    get_action: GetAction
    recipe: Recipe
    network: Network
    statistics: dict[str, NDArray[np.float64]]
    seed_everything: Callable[[int], None]
    denoising_steps: int
    predict_future: bool

    def ask(
        self, observation: NativeObservation, condition: NDArray[np.float32] | str, *, seed: int
    ) -> Mapping[str, Any]:
        """Return `get_action`'s own answer: `actions`, and with futures the frames and the value.

        One observation at a time: its `batch_size` repeats one observation and breaks beyond 1.
        """
        self.seed_everything(_SEED_EVERYWHERE)
        return self.get_action(
            self.recipe,
            self.network,
            self.statistics,
            observation,
            condition,
            seed=seed,
            num_denoising_steps_action=self.denoising_steps,
            generate_future_state_and_value_in_parallel=self.predict_future,
        )


class Opened(Struct, frozen=True, kw_only=True):
    """What `open_policy` has found."""

    policy: Policy
    can_embed: bool
    """Whether Cosmos Policy's own code can embed an instruction that is not cached."""
    close: Callable[[], None]
    """Remove what was made for it. May be called twice."""


def open_policy(
    options: CosmosPolicyOptions, checkpoint: Checkpoint, context: LoadContext
) -> Opened:
    """Import Cosmos Policy and load its weights onto the GPU.

    Raises `BadCheckpoint` for weights that hold more than tensors, or do not fill the network,
    `BadOption` without a GPU, `EnvironmentMissing` where Cosmos Policy is not installed.
    """
    with ExitStack() as undo:
        scratch = undo.enter_context(tempfile.TemporaryDirectory(prefix="rpent-box-cosmos-policy-"))
        make_cache(checkpoint.hf_home, Path(scratch))
        _prepare_environment(scratch)
        try:
            policy = _load_policy(options, checkpoint, context)
        except ModuleNotFoundError as error:
            raise _explained(error) from error
        return Opened(
            policy=policy,
            can_embed=has_text_encoder(checkpoint.hf_home),
            close=undo.pop_all().close,
        )


def _load_policy(
    options: CosmosPolicyOptions, checkpoint: Checkpoint, context: LoadContext
) -> Policy:
    context.say("importing PyTorch")
    import torch

    _require_gpu(context, is_there=torch.cuda.is_available())
    torch.set_num_threads(context.threads)
    stored = read_shapes(checkpoint.weights)
    context.say("importing Cosmos Policy")
    from cosmos_policy.constants import ACTION_DIM
    from cosmos_policy.experiments.robot.cosmos_utils import get_action, get_model
    from cosmos_policy.utils.utils import set_seed_everywhere

    _require_libero(ACTION_DIM)
    context.say("loading weights")
    recipe = Recipe(ckpt_path=str(checkpoint.weights))
    network, _ = get_model(recipe)
    require_filled(network, stored, checkpoint.weights)
    statistics = checkpoint.statistics
    return Policy(
        get_action=get_action,
        recipe=recipe,
        network=network,
        statistics={name: getattr(statistics, name) for name in statistics.__struct_fields__},
        seed_everything=set_seed_everywhere,
        denoising_steps=options.denoising_steps,
        predict_future=options.predict_future,
    )


def _explained(error: ModuleNotFoundError) -> EnvironmentMissing | ModuleNotFoundError:
    """Tell a Python without Cosmos Policy from one in which a package of its own is missing."""
    if error.name not in ("torch", "cosmos_policy"):
        return error
    return EnvironmentMissing(
        f"{sys.executable} has no {error.name}: Cosmos Policy runs in an environment of its own",
        hint="Give its Python and its source tree: --python PATH --root DIR, or "
        "COSMOS_POLICY_PYTHON and COSMOS_POLICY_ROOT. See images/cosmos-policy/README.md",
    )


def _prepare_environment(scratch: str) -> None:
    """Set what Cosmos Policy and its libraries read from the environment when they are imported."""
    os.environ["HF_HOME"] = scratch
    # It writes a copy of its configuration there, by default at one place for all users.
    os.environ["IMAGINAIRE_OUTPUT_ROOT"] = os.path.join(scratch, "output")
    # The first two would go before HF_HOME. The others are its authors' own switches: with them it
    # leaves the network as it was made, or looks for its files elsewhere.
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "COSMOS_SMOKE", "COSMOS_INTERNAL"):
        os.environ.pop(name, None)
    # A worker downloads nothing, least of all 45 GB of T5 in the middle of a prediction.
    os.environ["HF_HUB_OFFLINE"] = "1"
    # Its evaluation's deterministic mode, which seeds the video autoencoder as well
    # (cosmos_policy/tokenizers/wan2pt1.py).
    os.environ["DETERMINISTIC"] = "True"


def _require_gpu(context: LoadContext, *, is_there: bool) -> None:
    if context.device != "cuda" or not is_there:
        raise BadOption(
            "cosmos-policy computes on a GPU, and this worker sees none",
            hint="See what is here: rpent-box doctor. Elsewhere: --endpoint of a worker that runs",
        )


def _require_libero(action_dim: int) -> None:
    """Cosmos Policy guesses the robot from the words on its process's command line."""
    if action_dim != _ACTION_DIM:
        raise BadOption(
            f"Cosmos Policy has set itself up for actions of {action_dim} numbers, LIBERO's have "
            f"{_ACTION_DIM}: it takes the robot from words such as aloha on the command line",
            hint="Serve from a folder whose path does not name another robot.",
        )
