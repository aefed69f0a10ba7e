# SPDX-License-Identifier: Apache-2.0
"""The loaded model, as a backend."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.adapter import adapter_for
from rpent_box.backends.mini_wam.adapter import ADAPTERS, Adapter
from rpent_box.backends.mini_wam.adapter.decode import decode_future, decode_value
from rpent_box.backends.mini_wam.adapter.encode import PROPRIO_SCHEMA
from rpent_box.backends.mini_wam.checkpoint import read_fitting
from rpent_box.backends.mini_wam.manifest import (
    STATISTICS_KEY,
    Checkpoint,
    Manifest,
)
from rpent_box.backends.mini_wam.options import MiniWamOptions, Sight
from rpent_box.backends.mini_wam.session import FUTURE_OUTPUTS, POLICY_OUTPUTS, OnnxSession, Session
from rpent_box.backends.mini_wam.text import plain
from rpent_box.backends.request_options import refuse_unknown_options
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import BadCheckpoint
from rpent_box.worker.backend import LoadContext, PredictionInput

MAX_BATCH = 16
BUILT_IN = Path(__file__).parent / "weights"
GREY = 110
"""Each pixel that a blinded model sees: about as bright as a scene is on average."""


class MiniWam:
    """Answers from its sessions; remembers nothing between predictions."""

    def __init__(
        self,
        policy: Session,
        imagination: Session | None,
        checkpoint: Checkpoint,
        adapter: Adapter,
        *,
        see: Sight = "frames",
    ) -> None:
        self._policy = policy
        self._imagination = imagination
        """None: neither future nor value is given."""
        self._manifest = checkpoint.manifest
        self._adapter = adapter
        self._see = see
        self._known = {plain(instruction) for instruction in checkpoint.manifest.instructions}
        self._alike: dict[int, bool] = {}
        """Batch size → whether such a batch has computed to the last bit what one by one does."""
        self._meta = describe(checkpoint, adapter, predicts_future=imagination is not None, see=see)

    @property
    def meta(self) -> ModelMeta:
        return self._meta

    def predict(self, request: PredictionInput) -> ActionChunk:
        return self._together([request])[0]

    def predict_batch(self, requests: Sequence[PredictionInput]) -> list[ActionChunk]:
        """Return one chunk per request. Raises `BadOption`, `BadObservation`, `BadActions`.

        What onnxruntime adds up in which order is its own choice, by shape and by processor. So
        the first batch of each size is also computed one by one, and where a bit differs, that
        size is never inferred at once: an episode must not depend on who asked at the same time.
        """
        size = len(requests)
        if size not in self._alike:
            self._alike[size] = self._is_alike(requests)
        if self._alike[size]:
            return self._together(requests)
        return [self.predict(request) for request in requests]

    @property
    def infers_at_once(self) -> dict[int, bool]:
        """Size of a batch that was asked for → whether it is inferred at once, or one by one."""
        return dict(self._alike)

    def _is_alike(self, requests: Sequence[PredictionInput]) -> bool:
        """Compare before decoding, which clips: what is at a limit in both would hide a bit."""
        together, _ = self.compute(requests)
        alone = [self.compute([request])[0] for request in requests]
        return all(
            together[name][row].tobytes() == one[name][0].tobytes()
            for row, one in enumerate(alone)
            for name in ("actions", "value")
            if name in together
        )

    def _together(self, requests: Sequence[PredictionInput]) -> list[ActionChunk]:
        outputs, timings = self.compute(requests)
        return [
            self._decode(outputs, row, request, timings) for row, request in enumerate(requests)
        ]

    def compute(
        self, requests: Sequence[PredictionInput]
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, float]]:
        """Return what the network computes at once, undecoded, and the seconds that it took.

        Each output has a row per request.
        """
        for request in requests:
            refuse_unknown_options(request.options, backend="mini-wam")
        begun = time.monotonic()
        observations = [request.observation for request in requests]
        encoded = self._adapter.encode(observations, self._manifest)
        inputs: dict[str, NDArray[Any]] = {
            "images": self._seen(encoded.images),
            "proprio": encoded.proprio,
            "instruction": encoded.instruction,
        }
        ready = time.monotonic()
        outputs = self._policy.run(POLICY_OUTPUTS, inputs)
        if self._imagination is not None:
            seen: dict[str, NDArray[Any]] = {
                "images": inputs["images"],
                "thought": outputs["thought"],
                "actions": outputs["actions"],
            }
            outputs |= self._imagination.run(FUTURE_OUTPUTS, seen)
        return outputs, {"encode": ready - begun, "infer": time.monotonic() - ready}

    def _seen(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return images if self._see == "frames" else np.full_like(images, GREY)

    def reset(self, session: str) -> None:
        """Nothing to forget."""

    def drop(self, session: str) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """The sessions are freed with this object."""

    def _decode(
        self,
        outputs: dict[str, NDArray[np.float32]],
        row: int,
        request: PredictionInput,
        timings: dict[str, float],
    ) -> ActionChunk:
        begun = time.monotonic()
        actions = self._adapter.decode(outputs["actions"][row])
        future = value = None
        if "future" in outputs:
            future = {"primary": decode_future(outputs["future"][row])}
            value = decode_value(float(outputs["value"][row]))
        known = plain(request.observation.instruction) in self._known
        return ActionChunk(
            actions=actions,
            future_observation=future,
            value=value,
            metadata={"instruction_known": known},
            timings_s={**timings, "decode": time.monotonic() - begun},
        )


def load(options: MiniWamOptions, context: LoadContext) -> MiniWam:
    """Check the checkpoint and open it in onnxruntime.

    Raises `BadOption` for an unknown platform and `BadCheckpoint` for a checkpoint that is damaged
    or was made for another platform, before anything is loaded.
    """
    adapter = adapter_for(ADAPTERS, context.platform, backend="mini-wam")
    context.say("checking weights")
    folder = BUILT_IN if context.checkpoint is None else Path(context.checkpoint)
    name = "built-in" if context.checkpoint is None else folder.name
    checkpoint = read_fitting(folder, adapter, name=name)
    context.say("opening weights")
    policy = OnnxSession(checkpoint.weights, threads=context.threads)
    _check_statistics(policy, checkpoint.weights, checkpoint.manifest)
    imagination = None
    if options.predict_future:
        imagination = OnnxSession(checkpoint.future, threads=context.threads)
        _check_statistics(imagination, checkpoint.future, checkpoint.manifest)
    return MiniWam(policy, imagination, checkpoint, adapter, see=options.see)


def describe(
    checkpoint: Checkpoint, adapter: Adapter, *, predicts_future: bool, see: Sight = "frames"
) -> ModelMeta:
    """Return what the model declares."""
    manifest = checkpoint.manifest
    return ModelMeta(
        kind="wam",
        backend="mini-wam",
        checkpoint=checkpoint.name,
        control=control_spec(adapter.space),
        camera_roles=manifest.camera_roles,
        proprio_schema=dict(PROPRIO_SCHEMA),
        action_horizon=manifest.action_horizon,
        execute_steps=manifest.action_horizon,
        max_batch=MAX_BATCH,
        batch_invariant=True,
        returns_future_observation=predicts_future,
        returns_value=predicts_future,
        prediction_timeout_s=30.0,
        provenance={
            "weights_sha256": manifest.weights_sha256,
            "future_sha256": manifest.future_sha256,
            "statistics_sha256": manifest.statistics_sha256,
            "licence": manifest.licence,
            "instructions": " | ".join(manifest.instructions),
            "see": see,
            **{f"data_{name}": text for name, text in manifest.data.items()},
        },
    )


def _check_statistics(session: OnnxSession, weights: Path, manifest: Manifest) -> None:
    """Refuse a manifest whose statistics are not the ones that the weights were trained with."""
    trained = session.properties.get(STATISTICS_KEY, "none")
    if trained != manifest.statistics_sha256:
        raise BadCheckpoint(
            f"{weights} was trained with statistics {trained}; its manifest holds "
            f"{manifest.statistics_sha256}",
            hint="Export the checkpoint again.",
        )
