# SPDX-License-Identifier: Apache-2.0
"""The loaded model, as a backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rpent_box.backends.adapter import Adapter, adapter_for
from rpent_box.backends.cosmos_policy.adapter import ADAPTERS, NativeObservation
from rpent_box.backends.cosmos_policy.adapter.decode import (
    decode_future,
    decode_value,
    native_actions,
)
from rpent_box.backends.cosmos_policy.checkpoint import Checkpoint, read_checkpoint
from rpent_box.backends.cosmos_policy.instructions import Instructions
from rpent_box.backends.cosmos_policy.options import ACTION_HORIZON, CosmosPolicyOptions
from rpent_box.backends.cosmos_policy.upstream import Policy, open_policy
from rpent_box.backends.digest import sha256_of
from rpent_box.backends.noise import noise_seed
from rpent_box.backends.request_options import refuse_unknown_options
from rpent_box.backends.stages import StageClock
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import BadOption
from rpent_box.worker.backend import LoadContext, PredictionInput

LoadedAdapter = Adapter[CosmosPolicyOptions, NativeObservation]


class CosmosPolicy:
    """Asks the policy; remembers nothing between predictions."""

    def __init__(
        self,
        policy: Policy,
        instructions: Instructions,
        adapter: LoadedAdapter,
        options: CosmosPolicyOptions,
        meta: ModelMeta,
        *,
        release: Callable[[], None],
    ) -> None:
        """`release` is called when this is closed; it must stand being called twice."""
        self._policy: Policy | None = policy
        self._instructions = instructions
        self._adapter = adapter
        self._options = options
        self._meta = meta
        self._release = release

    @property
    def meta(self) -> ModelMeta:
        return self._meta

    @property
    def known_instruction(self) -> str:
        """An instruction that needs no T5-11B."""
        return self._instructions.embeddings.instructions[0]

    def predict(self, request: PredictionInput) -> ActionChunk:
        """Return one chunk. Raises `BadOption`, `BadObservation`, `BadActions`."""
        refuse_unknown_options(request.options, backend="cosmos-policy")
        if self._policy is None:
            raise BadOption("cosmos-policy was closed")
        clock = StageClock()
        observation = self._adapter.encode(request.observation, self._options)
        condition = self._instructions.condition(request.observation.instruction)
        seed = noise_seed(self._options.seed, request.episode)
        clock.ended("encode")
        answer = self._policy.ask(observation, condition, seed=seed)
        clock.ended("infer")
        actions = self._adapter.decode(native_actions(answer), self._options)
        future = decode_future(answer) if self._options.predict_future else None
        value = decode_value(answer) if self._options.predict_future else None
        return ActionChunk(
            actions=actions,
            future_observation=future,
            value=value,
            metadata={"noise_seed": seed, "instruction_cached": not isinstance(condition, str)},
            timings_s=clock.ended("decode"),
        )

    def reset(self, session: str) -> None:
        """Nothing to forget."""

    def drop(self, session: str) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """Let go of the network; the memory is freed with it."""
        self._policy = None
        self._release()


def load(options: CosmosPolicyOptions, context: LoadContext) -> CosmosPolicy:
    """Check the checkpoint, then load it.

    Raises `BadOption`, `BadCheckpoint`, `EnvironmentMissing`.
    """
    adapter = adapter_for(ADAPTERS, context.platform, backend="cosmos-policy")
    if context.checkpoint is None:
        raise BadOption("cosmos-policy has no built-in weights", hint="Give them: --checkpoint DIR")
    context.say("checking the checkpoint")
    checkpoint = read_checkpoint(options, Path(context.checkpoint))
    opened = open_policy(options, checkpoint, context)
    instructions = Instructions(
        embeddings=checkpoint.embeddings,
        cached_only=options.cached_instructions_only,
        can_embed=opened.can_embed,
    )
    meta = describe(checkpoint.name, adapter, options, provenance(checkpoint))
    return CosmosPolicy(opened.policy, instructions, adapter, options, meta, release=opened.close)


def describe(
    checkpoint: str,
    adapter: LoadedAdapter,
    options: CosmosPolicyOptions,
    provenance: dict[str, str],
) -> ModelMeta:
    """Return what the model declares."""
    return ModelMeta(
        kind="wam",
        backend="cosmos-policy",
        checkpoint=checkpoint,
        control=control_spec(adapter.space),
        camera_roles=adapter.camera_roles,
        proprio_schema=dict(adapter.proprio_schema),
        action_horizon=ACTION_HORIZON,
        execute_steps=options.execute_steps,
        returns_future_observation=options.predict_future,
        returns_value=options.predict_future,
        provenance=provenance,
    )


def provenance(checkpoint: Checkpoint) -> dict[str, str]:
    """Return what results say about where the actions come from.

    The weights' own hash is in the checkpoint's manifest: here it would cost a start some seconds.
    """
    return {
        "weights": checkpoint.weights.name,
        "weights_bytes": str(checkpoint.weights.stat().st_size),
        "statistics_sha256": sha256_of(checkpoint.statistics_file),
        "text_embeddings_sha256": sha256_of(checkpoint.embeddings_file),
        "licence": "code Apache-2.0; weights as their model card says",
    }
