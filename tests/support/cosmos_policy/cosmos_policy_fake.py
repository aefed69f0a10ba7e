# SPDX-License-Identifier: Apache-2.0
"""cosmos-policy's own backend around a `get_action` that scales as the real one and has no network.

What stands for the network is a checksum: every input moves every action.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.cosmos_policy.adapter import ADAPTERS
from rpent_box.backends.cosmos_policy.checkpoint import Statistics
from rpent_box.backends.cosmos_policy.embeddings import SHAPE, TextEmbeddings
from rpent_box.backends.cosmos_policy.instructions import Instructions
from rpent_box.backends.cosmos_policy.model import CosmosPolicy, describe
from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.backends.cosmos_policy.recipe import Recipe
from rpent_box.backends.cosmos_policy.upstream import Policy
from rpent_box.worker.backend import Backend

KNOWN = (
    "open the middle drawer of the cabinet",
    "put the bowl on the plate",
    "put the bowl on the stove",
)
FUTURE_SIZE = 224

Answer = dict[str, Any]


class KnownWords(TextEmbeddings):
    """Embeddings without a file: each is filled with the place of its instruction."""

    def __init__(self, known: tuple[str, ...] = KNOWN) -> None:
        self._known = known

    @property
    def instructions(self) -> tuple[str, ...]:
        return self._known

    def find(self, instruction: str) -> NDArray[np.float32] | None:
        if instruction not in self._known:
            return None
        return np.full(SHAPE, self._known.index(instruction), np.float32)


class FakeGetAction:
    """Has the parameters of cosmos_utils' `get_action`, in its order and with its defaults."""

    def __init__(self, spoil: Callable[[Answer], Answer] = lambda answer: answer) -> None:
        self._spoil = spoil
        self.network_says: NDArray[np.float32] | None = None
        """Normalised actions [16, 7] that it shall return; None: a checksum's."""
        self.asked: list[dict[str, Any]] = []
        """What it was given, in order."""
        self.seeds: list[int] = []
        """What all generators were seeded with."""

    def __call__(
        self,
        cfg: Any,
        model: Any,
        dataset_stats: dict[str, NDArray[np.float64]],
        obs: dict[str, NDArray[Any]],
        task_label_or_embedding: Any,
        seed: int = 1,
        randomize_seed: bool = False,
        num_denoising_steps_action: int = 5,
        generate_future_state_and_value_in_parallel: bool = True,
        worker_id: int = 0,
        batch_size: int = 1,
    ) -> Answer:
        assert (randomize_seed, worker_id, batch_size) == (False, 0, 1)
        proprio = scaled(obs["proprio"], dataset_stats)
        self.asked.append(
            {
                "cfg": cfg,
                "model": model,
                "obs": {name: array.copy() for name, array in obs.items()},
                "condition": task_label_or_embedding,
                "seed": seed,
                "steps": num_denoising_steps_action,
                "future": generate_future_state_and_value_in_parallel,
                "proprio": proprio,
            }
        )
        normalised = self.network_says
        if normalised is None:
            normalised = checksum_actions(obs, task_label_or_embedding, seed)
        actions = unscaled(normalised, dataset_stats)
        answer: Answer = {"actions": [actions[step] for step in range(len(actions))]}
        if generate_future_state_and_value_in_parallel:
            frame = np.full((FUTURE_SIZE, FUTURE_SIZE, 3), seed % 256, np.uint8)
            answer["future_image_predictions"] = {
                "future_wrist_image": frame,
                "future_image": 255 - frame,
            }
            answer["value_prediction"] = 0.25
        return self._spoil(answer)


def scaled(proprio: NDArray[Any], stats: dict[str, NDArray[np.float64]]) -> NDArray[Any]:
    """2 (x - min) / (max - min) - 1: nothing is limited, nothing protects a range of zero."""
    low, high = stats["proprio_min"], stats["proprio_max"]
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2 * ((proprio - low) / (high - low)) - 1


def unscaled(actions: NDArray[Any], stats: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """0.5 (a + 1) (max - min) + min: float64 of the network's float32."""
    low, high = stats["actions_min"], stats["actions_max"]
    return 0.5 * (actions + 1) * (high - low) + low


def checksum_actions(
    obs: dict[str, NDArray[Any]], condition: Any, seed: int
) -> NDArray[np.float32]:
    words = condition.encode() if isinstance(condition, str) else condition.tobytes()
    parts = (words, str(seed).encode(), *(obs[name].tobytes() for name in sorted(obs)))
    generator = np.random.default_rng([zlib.crc32(part) for part in parts])
    return generator.uniform(-1, 1, (16, 7)).astype(np.float32)


def statistics(**changed: NDArray[np.float64]) -> Statistics:
    """Statistics of about LIBERO's size; `changed` replaces some of them."""
    values = {
        "actions_min": np.full(7, -0.9),
        "actions_max": np.full(7, 0.8),
        "proprio_min": np.full(9, -1.5),
        "proprio_max": np.full(9, 1.25),
        **changed,
    }
    return Statistics(**values)


def make_backend(
    get_action: FakeGetAction,
    *,
    platform: str = "libero",
    options: CosmosPolicyOptions | None = None,
    numbers: Statistics | None = None,
    can_embed: bool = True,
) -> CosmosPolicy:
    """The real `CosmosPolicy`, adapter, recipe and policy around `get_action`."""
    options = options or CosmosPolicyOptions()
    numbers = numbers or statistics()
    policy = Policy(
        get_action=get_action,
        recipe=Recipe(ckpt_path="/nowhere/fake.pt"),
        network=object(),  # type: ignore[arg-type] - nobody looks at it
        statistics={name: getattr(numbers, name) for name in numbers.__struct_fields__},
        seed_everything=get_action.seeds.append,
        denoising_steps=options.denoising_steps,
        predict_future=options.predict_future,
    )
    instructions = Instructions(
        embeddings=KnownWords(),
        cached_only=options.cached_instructions_only,
        can_embed=can_embed,
    )
    adapter = ADAPTERS[platform]
    meta = describe("fake", adapter, options, {"weights": "a fake"})
    return CosmosPolicy(policy, instructions, adapter, options, meta, release=lambda: None)


@contextmanager
def fake_backend(
    platform: str, *, spoil: Callable[[NDArray[Any]], NDArray[Any]] = lambda raw: raw
) -> Iterator[Backend]:
    """The real backend around a `FakeGetAction`; `spoil` changes its actions, float64 [16, 7]."""

    def spoiled(answer: Answer) -> Answer:
        return {**answer, "actions": list(spoil(np.stack(answer["actions"])))}

    backend = make_backend(FakeGetAction(spoiled), platform=platform)
    yield backend
    backend.close()
