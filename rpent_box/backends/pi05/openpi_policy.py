# SPDX-License-Identifier: Apache-2.0
"""openpi's own policy, opened from a PyTorch checkpoint. The only place that imports openpi."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.device import require_device
from rpent_box.backends.digest import sha256_of
from rpent_box.backends.pi05.adapter import LiberoInput
from rpent_box.backends.pi05.checkpoint import TOKENIZER_IN_CACHE, Pi05Files
from rpent_box.backends.pi05.configs import ACTION_WIDTH, require_steps
from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.errors import BadOption
from rpent_box.worker.backend import LoadContext

CONFIG_MODULE = "rpent_box_pi05_config"
"""The name that a configuration file's own module has while it is executed."""
_PACKAGES = ("rlinf-openpi", "rlinf-transformer-openpi", "torch")


class OpenpiPolicy:
    """openpi's `Policy`, asked as its LIBERO client asks it."""

    def __init__(self, policy: Any, noise_shape: tuple[int, int]) -> None:  # noqa: ANN401
        if not isinstance(policy._sample_kwargs, dict):
            raise TypeError("this openpi keeps a policy's sampling options elsewhere")
        self._policy = policy
        self._noise_shape = noise_shape

    @property
    def noise_shape(self) -> tuple[int, int]:
        return self._noise_shape

    def infer(
        self, shown: LiberoInput, *, noise: NDArray[np.float32], num_steps: int
    ) -> NDArray[Any]:
        # openpi takes the steps when a policy is made and `infer` reads them anew each time
        # (openpi/policies/policy.py); a policy per number of steps would only copy the rest.
        self._policy._sample_kwargs = {"num_steps": num_steps}
        result = self._policy.infer(
            {
                "observation/image": shown.image,
                "observation/wrist_image": shown.wrist_image,
                "observation/state": shown.state,
                "prompt": shown.prompt,
            },
            noise=noise,
        )
        return np.asarray(result["actions"])


def open_policy(
    options: Pi05Options, files: Pi05Files, context: LoadContext
) -> tuple[OpenpiPolicy, dict[str, str]]:
    """Return the policy, and where its numbers come from.

    Raises `BadOption` for a configuration that is not known or does not fit, before weights are
    read.
    """
    prepare(options, context)
    context.say("importing openpi")
    import torch
    from openpi.policies.policy_config import create_trained_policy
    from openpi.shared.normalize import deserialize_json

    torch.set_num_threads(context.threads)
    require_device(context, sees_gpu=torch.cuda.is_available(), backend="pi05")
    config = _find_config(options, files)
    noise_shape = require_fit(config, options)
    context.say("loading weights")
    with tokenizer_in_cache(files.tokenizer.path):
        policy = create_trained_policy(
            config,
            Path(files.weights.path).parent,
            norm_stats=deserialize_json(Path(files.statistics.path).read_text()),
            pytorch_device=context.device,
        )
    return OpenpiPolicy(policy, noise_shape), _provenance(files)


def prepare(options: Pi05Options, context: LoadContext) -> None:
    """Set what openpi's libraries read when they are imported."""
    if options.compile and context.device != "cuda":
        raise BadOption("--compile is for a GPU; on a CPU it would take minutes and gain nothing")
    # openpi maps over its inputs with jax; jax itself shall not take a GPU's memory for that.
    os.environ["JAX_PLATFORMS"] = "cpu"
    # openpi always compiles its sampler; this makes it run as it is written.
    os.environ["TORCHDYNAMO_DISABLE"] = "0" if options.compile else "1"


def _find_config(options: Pi05Options, files: Pi05Files) -> Any:  # noqa: ANN401
    """Return openpi's `TrainConfig` of that name, from the user's file first."""
    from openpi.training import config as openpi_configs

    if files.config_file is not None:
        own = read_configs(files.config_file.path)
        if options.config_name in own:
            return own[options.config_name]
    try:
        return openpi_configs.get_config(options.config_name)
    except ValueError as error:
        raise BadOption(
            f"there is no configuration {options.config_name}: {error}",
            hint="Configurations of your own: --config-file FILE.py",
        ) from error


def read_configs(path: str) -> dict[str, Any]:
    """Execute the user's file and return its configurations by name. Raises `BadOption`."""
    spec = importlib.util.spec_from_file_location(CONFIG_MODULE, path)
    if spec is None or spec.loader is None:
        raise BadOption(f"--config-file {path} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Data classes look their module up by its name.
    sys.modules[CONFIG_MODULE] = module
    spec.loader.exec_module(module)
    configs = getattr(module, "CONFIGS", None)
    if not isinstance(configs, (list, tuple)):
        raise BadOption(f"--config-file {path} has no list CONFIGS of openpi's TrainConfig")
    return {config.name: config for config in configs}


def require_fit(config: Any, options: Pi05Options) -> tuple[int, int]:  # noqa: ANN401
    """Return [horizon, the model's action columns]. Raises `BadOption`."""
    model = config.model
    if model.model_type.value != "pi05":
        raise BadOption(
            f"{options.config_name} configures a {model.model_type.value} model; "
            "this backend serves pi05",
        )
    if model.action_dim != ACTION_WIDTH:
        raise BadOption(
            f"{options.config_name} has {model.action_dim} action columns; openpi's PyTorch model "
            f"has {ACTION_WIDTH}",
        )
    require_steps(options, model.action_horizon)
    return model.action_horizon, model.action_dim


@contextmanager
def tokenizer_in_cache(path: str) -> Iterator[None]:
    """Let openpi find the tokenizer where it looks before it downloads.

    A copy, because openpi resolves links and changes the mode of its cache's folders, and a
    checkpoint is mounted read-only.
    """
    with tempfile.TemporaryDirectory(prefix="openpi-") as private:
        # One further down, because openpi opens its cache to everybody.
        cache = Path(private) / "cache"
        place = cache / TOKENIZER_IN_CACHE
        place.parent.mkdir(parents=True)
        shutil.copyfile(path, place)
        os.environ["OPENPI_DATA_HOME"] = str(cache)
        yield


def _provenance(files: Pi05Files) -> dict[str, str]:
    found = {
        "licence": "code: Apache-2.0; weights: Gemma's terms of use",
        "weights_bytes": str(Path(files.weights.path).stat().st_size),
        "statistics_sha256": sha256_of(files.statistics.path),
        "tokenizer_sha256": sha256_of(files.tokenizer.path),
    }
    if files.config_file is not None:
        found["config_file_sha256"] = sha256_of(files.config_file.path)
    return found | {name: importlib.metadata.version(name) for name in _PACKAGES}
