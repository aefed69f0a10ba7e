# SPDX-License-Identifier: Apache-2.0
"""FastWAM as a backend, and the gathering of its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from rpent_box.backends.adapter import Adapter, adapter_for
from rpent_box.backends.digest import sha256_of
from rpent_box.backends.fast_wam.adapter import ADAPTERS, RLINF_ADAPTERS
from rpent_box.backends.fast_wam.checkpoint import (
    FoundFiles,
    calibrate,
    find_model_files,
    stated_layout,
)
from rpent_box.backends.fast_wam.options import FastWamOptions
from rpent_box.backends.fast_wam.recipe import Recipe, read_recipe
from rpent_box.backends.noise import noise_seed
from rpent_box.backends.request_options import refuse_unknown_options
from rpent_box.backends.stages import StageClock
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import BadOption
from rpent_box.worker.backend import Backend, LoadContext, PredictionInput

SharedT = TypeVar("SharedT")
InputT = TypeVar("InputT")
SeenT = TypeVar("SeenT", contravariant=True)


class Policy(Protocol[SeenT]):
    """The model itself: FastWAM, RLinf's policy, or a fake."""

    def infer(self, seen: SeenT, seed: int) -> NDArray[Any]:
        """Return the model's own output for one observation; noise depends on `seed` alone."""

    def close(self) -> None:
        """Free the model. May be called twice."""


class FastWam(Generic[SharedT, InputT]):
    """Answers one observation at a time; remembers nothing between predictions."""

    def __init__(
        self,
        policy: Policy[InputT],
        adapter: Adapter[SharedT, InputT],
        shared: SharedT,
        meta: ModelMeta,
        *,
        seed: int,
    ) -> None:
        self._policy = policy
        self._adapter = adapter
        self._shared = shared
        self._meta = meta
        self._seed = seed

    @property
    def meta(self) -> ModelMeta:
        return self._meta

    def predict(self, request: PredictionInput) -> ActionChunk:
        """Return the executable prefix. Raises `BadOption`, `BadActions`."""
        refuse_unknown_options(request.options, backend="fast-wam")
        clock = StageClock()
        seen = self._adapter.encode(request.observation, self._shared)
        clock.ended("encode")
        seed = noise_seed(self._seed, request.episode)
        output = self._policy.infer(seen, seed)
        clock.ended("infer")
        actions = self._adapter.decode(output, self._shared)[: self._meta.execute_steps]
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
        self._policy.close()


def load(options: FastWamOptions, context: LoadContext) -> Backend:
    """Check everything that can be checked, then import FastWAM and load the weights.

    Raises `BadOption` or `BadCheckpoint` before the weights are read when the configuration, the
    statistics and the platform do not agree.
    """
    if context.checkpoint is None:
        raise BadOption("fast-wam has no built-in weights", hint="Give them: --checkpoint PATH")
    context.say("checking files")
    recipe = read_recipe(options, context.platform)
    files = find_model_files(options, Path(context.checkpoint), recipe)
    if options.integration == "rlinf":
        return _load_rlinf(options, recipe, files, context)
    return _load_official(options, recipe, files, context)


def _load_official(
    options: FastWamOptions, recipe: Recipe, files: FoundFiles, context: LoadContext
) -> Backend:
    adapter = adapter_for(ADAPTERS, context.platform, backend="fast-wam")
    context.say("importing FastWAM")
    from rpent_box.backends.fast_wam.configuration import configure
    from rpent_box.backends.fast_wam.official import load_policy

    configuration = configure(recipe, options.config_dir, converted=files.converted)
    layout = configuration.layout
    calibration = calibrate(files, layout, recipe)
    policy = load_policy(configuration.model, files, recipe, context)
    facts = {
        **_origin(files, "official"),
        "normalisation": f"state {layout.state_mode}, action {layout.action_mode}",
    }
    meta = describe(
        recipe,
        adapter,
        checkpoint=Path(files.weights.path).name,
        horizon=recipe.action_horizon,
        steps=recipe.execute_steps,
        more=facts,
    )
    return FastWam(policy, adapter, calibration, meta, seed=recipe.seed)


def _load_rlinf(
    options: FastWamOptions, recipe: Recipe, files: FoundFiles, context: LoadContext
) -> Backend:
    adapter = adapter_for(RLINF_ADAPTERS, context.platform, backend="fast-wam")
    # RLinf normalises by itself, and from the same statistics.
    calibrate(files, stated_layout(recipe), recipe)
    context.say("importing RLinf")
    from rpent_box.backends.fast_wam.rlinf import load_policy

    policy = load_policy(recipe, files, options.config_dir, context)
    meta = describe(
        recipe,
        adapter,
        checkpoint=Path(files.weights.path).name,
        horizon=policy.action_horizon,
        steps=policy.execute_steps,
        more=_origin(files, "rlinf"),
    )
    return FastWam(policy, adapter, policy.execute_steps, meta, seed=recipe.seed)


def describe(
    recipe: Recipe,
    adapter: Adapter[Any, Any],
    *,
    checkpoint: str,
    horizon: int,
    steps: int,
    more: dict[str, str],
) -> ModelMeta:
    """Return what the model declares; `more` is added to its provenance."""
    return ModelMeta(
        kind="wam",
        backend="fast-wam",
        checkpoint=checkpoint,
        control=control_spec(adapter.space),
        camera_roles=adapter.camera_roles,
        proprio_schema=dict(adapter.proprio_schema),
        action_horizon=horizon,
        execute_steps=steps,
        provenance={
            "configuration": recipe.source,
            "composed": recipe.composition.config_name if recipe.model is None else "",
            "precision": recipe.precision,
            "denoising_steps": str(recipe.inference.num_inference_steps),
            "gripper": "binarised" if recipe.binarize_gripper else "as predicted",
            "seed": str(recipe.seed),
            **more,
        },
    )


def _origin(files: FoundFiles, integration: str) -> dict[str, str]:
    return {"integration": integration, "statistics_sha256": sha256_of(files.statistics.path)}
