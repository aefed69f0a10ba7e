# SPDX-License-Identifier: Apache-2.0
"""FastWAM itself, through its public API. Importing this imports torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from fastwam.models.wan22.fastwam import FastWAM
from fastwam.models.wan22.helpers.io import hash_model_file
from fastwam.models.wan22.helpers.loader import WAN22_MODEL_REGISTRY
from fastwam.models.wan22.helpers.state_dict_converters import wan_video_vae_state_dict_converter
from fastwam.models.wan22.wan_video_text_encoder import WanTextEncoder
from fastwam.models.wan22.wan_video_vae import WanVideoVAE38
from numpy.typing import NDArray
from transformers.modeling_utils import no_init_weights

from rpent_box.backends.device import require_device
from rpent_box.backends.fast_wam.adapter.encode import FastWamInput
from rpent_box.backends.fast_wam.checkpoint import FoundFiles
from rpent_box.backends.fast_wam.recipe import Components, InferenceOptions, Recipe
from rpent_box.errors import BadCheckpoint, BadOption
from rpent_box.worker.backend import LoadContext

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
KEPT_SENTENCES = 32
"""Of which the text encoder's answer is kept; a megabyte each for the released model."""


class OfficialPolicy:
    """Calls `FastWAM.infer_action`.

    An episode asks with one sentence. Given as a prompt, FastWAM would send it through its text
    encoder, 5.7 billion weights, at each prediction; it takes that encoder's answer as well.
    """

    def __init__(self, model: Any, inference: InferenceOptions, action_horizon: int) -> None:  # noqa: ANN401
        self._model: Any = model
        self._encode_prompt: Any = lru_cache(KEPT_SENTENCES)(model.encode_prompt)
        self._arguments = {**msgspec.structs.asdict(inference), "action_horizon": action_horizon}

    def infer(self, seen: FastWamInput, seed: int) -> NDArray[Any]:
        """Return float32 [action_horizon, action_dim], normalised."""
        context, context_mask = self._encode_prompt(seen.prompt)
        answer = self._model.infer_action(
            **{
                **self._arguments,
                "prompt": None,
                "context": context,
                "context_mask": context_mask,
                "input_image": torch.from_numpy(seen.image),
                "proprio": torch.from_numpy(seen.proprio),
                "seed": seed,
            }
        )
        return np.asarray(answer["action"])

    def close(self) -> None:
        self._model = self._encode_prompt = None


def load_policy(
    arguments: Mapping[str, Any], files: FoundFiles, recipe: Recipe, context: LoadContext
) -> OfficialPolicy:
    """Build FastWAM and load its weights. Raises `BadOption`, `BadCheckpoint`."""
    require_device(context, sees_gpu=torch.cuda.is_available(), backend="fast-wam")
    torch.set_num_threads(context.threads)
    lend_files(files, recipe.composition.components)
    context.say("loading the VAE and the text encoder")
    model = _build(arguments, recipe, context.device)
    context.say("loading the weights")
    _load_weights(model, files.weights.path)
    return OfficialPolicy(model.eval(), recipe.inference, recipe.action_horizon)


def _build(arguments: Mapping[str, Any], recipe: Recipe, device: str) -> Any:  # noqa: ANN401
    try:
        # All are read from files: drawing 12 billion at random first takes about a minute.
        with no_init_weights():
            return FastWAM.from_wan22_pretrained(
                **arguments, torch_dtype=DTYPES[recipe.precision], device=device
            )
    except (TypeError, ValueError) as error:
        raise BadOption(
            f"FastWAM cannot be built as {recipe.source} says: {error}",
            hint="A VAE or text encoder of other sizes than the released ones is described under "
            "fastwam.components in the YAML.",
        ) from error


def lend_files(files: FoundFiles, components: Components) -> None:
    """Tell FastWAM where its component files are, and the sizes of those it does not know.

    FastWAM reads the first from its environment. It recognises files by a digest of their names
    and shapes; other sizes than the released ones are told to its registry. No file's pickle may
    do anything but give tensors, whatever the version of torch.
    """
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "true"
    # Set by many for LIBERO's own files; torch refuses to have both.
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
    os.environ["DIFFSYNTH_MODEL_BASE_PATH"] = files.base
    os.environ["DIFFSYNTH_SKIP_DOWNLOAD"] = "true"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if components.text_encoder is not None:
        sizes = msgspec.structs.asdict(components.text_encoder)
        _register("wan_video_text_encoder", WanTextEncoder, files.text_encoder.path, sizes)
    if components.vae is not None:
        sizes = msgspec.structs.asdict(components.vae)
        _register("wan_video_vae", WanVideoVAE38, files.vae.path, sizes)


def _register(name: str, kind: type[Any], path: str, sizes: dict[str, Any]) -> None:
    entry = {
        "model_hash": hash_model_file(path),
        "model_name": name,
        "model_class": kind,
        "extra_kwargs": sizes,
    }
    if kind is WanVideoVAE38:
        entry["state_dict_converter"] = wan_video_vae_state_dict_converter
    WAN22_MODEL_REGISTRY.append(entry)


def _load_weights(model: Any, path: str) -> None:  # noqa: ANN401
    """Load, and refuse what FastWAM would leave at random: its own loading is not strict."""
    try:
        payload = model.load_checkpoint(path)
    except RuntimeError as error:
        if "size mismatch" not in str(error):
            raise
        raise BadCheckpoint(
            f"the weights {Path(path).name} are of other sizes than the configuration says",
            hint="Give the configuration that they were trained with.",
            detail=str(error),
        ) from error
    there, wanted = set(payload["mot"]), set(model.mot.state_dict())
    if there != wanted:
        missing, unknown = sorted(wanted - there), sorted(there - wanted)
        raise BadCheckpoint(
            f"the weights {Path(path).name} lack {len(missing)} of the model's {len(wanted)} "
            f"tensors and hold {len(unknown)} that it does not know, e.g. "
            f"{(missing or unknown)[0]}",
            hint="Give the configuration that they were trained with.",
        )
