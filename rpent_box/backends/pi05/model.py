# SPDX-License-Identifier: Apache-2.0
"""The loaded model, as a backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.adapter import Adapter, adapter_for, require_output
from rpent_box.backends.noise import noise_seed
from rpent_box.backends.pi05.adapter import ADAPTERS, LiberoInput
from rpent_box.backends.pi05.checkpoint import find_files, inspect
from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.backends.pi05.policy import Policy
from rpent_box.backends.pi05.prediction import read_prediction_options
from rpent_box.backends.stages import StageClock
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import BadCheckpoint
from rpent_box.worker.backend import LoadContext, PredictionInput

COMPILING_S = 1800.0
"""A number of denoising steps that was not asked for before is compiled within the prediction."""


class Pi05:
    """Answers from its policy, one observation at a time; remembers nothing between predictions."""

    def __init__(
        self,
        policy: Policy,
        adapter: Adapter[None, LiberoInput],
        options: Pi05Options,
        *,
        checkpoint: str,
        provenance: dict[str, str],
    ) -> None:
        self._policy: Policy | None = policy
        self._noise_shape = policy.noise_shape
        self._adapter = adapter
        self._options = options
        self._meta = describe(
            adapter, options, policy.noise_shape[0], checkpoint=checkpoint, provenance=provenance
        )

    @property
    def meta(self) -> ModelMeta:
        return self._meta

    def predict(self, request: PredictionInput) -> ActionChunk:
        """Return one chunk. Raises `BadOption`, `BadObservation`, `BadActions`."""
        if self._policy is None:
            raise RuntimeError("pi05 was closed")
        wanted = read_prediction_options(request.options, self._options)
        seed = noise_seed(wanted.seed, request.episode)
        clock = StageClock()
        shown = self._adapter.encode(request.observation, None)
        clock.ended("encode")
        output = self._policy.infer(
            shown, noise=draw_noise(seed, self._noise_shape), num_steps=wanted.num_steps
        )
        clock.ended("infer")
        # Checked over the whole horizon: a chunk that breaks off later was never sound.
        require_output(
            output, (self._noise_shape[0], self._meta.control.action_dim), backend="pi05"
        )
        actions = self._adapter.decode(output, None)[: self._meta.execute_steps]
        return ActionChunk(
            actions=actions,
            metadata={"noise_seed": seed},
            timings_s=clock.ended("decode"),
        )

    def reset(self, session: str) -> None:
        """Nothing to forget."""

    def drop(self, session: str) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """Let go of the weights. May be called twice."""
        self._policy = None


def draw_noise(seed: int, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return float32 normal noise [horizon, columns]: a function of `seed` on every device."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def describe(
    adapter: Adapter[None, Any],
    options: Pi05Options,
    horizon: int,
    *,
    checkpoint: str,
    provenance: dict[str, str],
) -> ModelMeta:
    """Return what the model declares."""
    return ModelMeta(
        kind="vla",
        backend="pi05",
        checkpoint=checkpoint,
        control=control_spec(adapter.space),
        camera_roles=adapter.camera_roles,
        proprio_schema=dict(adapter.proprio_schema),
        action_horizon=horizon,
        execute_steps=options.execute_steps,
        prediction_timeout_s=COMPILING_S if options.compile else None,
        provenance={
            "config": options.config_name,
            "asset_id": options.asset_id,
            "num_steps": str(options.num_steps),
            "seed": str(options.seed),
            **provenance,
        },
    )


def load(options: Pi05Options, context: LoadContext) -> Pi05:
    """Check the files, then open them in openpi.

    Raises `BadOption` or `BadCheckpoint` before openpi is imported when they cannot be used.
    """
    adapter = adapter_for(ADAPTERS, context.platform, backend="pi05")
    if context.checkpoint is None:
        raise BadCheckpoint(
            "pi05 has no built-in weights", hint="Give a checkpoint: --checkpoint DIR"
        )
    folder = Path(context.checkpoint)
    context.say("checking files")
    inspect(options, folder, context.platform)
    files = find_files(options, folder)
    from rpent_box.backends.pi05.openpi_policy import open_policy

    policy, provenance = open_policy(options, files, context)
    return Pi05(policy, adapter, options, checkpoint=folder.name, provenance=provenance)
