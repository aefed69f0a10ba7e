# SPDX-License-Identifier: Apache-2.0
"""What a loaded model says about itself, and what a platform wants: both compared before a step."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.control import ControlSpec

DEFAULT_PREDICTION_TIMEOUT_S = 300.0


class ModelMeta(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model's declaration, fetched once per connection (`wam.get_model_meta`)."""

    kind: Literal["vla", "wam"]
    backend: str
    checkpoint: str
    """What was loaded: a path's last part, a model id, or `built-in`."""
    control: ControlSpec
    camera_roles: tuple[str, ...]
    """Every one must be in the observation; others are not sent."""
    proprio_schema: dict[str, int]
    """Proprio name → length. Every one must be in the observation; others are not sent."""
    action_horizon: int
    """H: steps that one inference predicts."""
    execute_steps: int
    """K: rows that a prediction returns and a platform executes, 1 ≤ K ≤ H."""
    max_batch: int = 1
    """Observations that one inference takes at most."""
    batch_invariant: bool = False
    """An observation's actions are the same to the last bit, whichever others share its inference.
    A worker that is asked for one at a time says so too."""
    uses_sessions: bool = False
    """The model remembers a session's past observations; it must be reset at each episode."""
    returns_future_observation: bool = False
    returns_value: bool = False
    prediction_timeout_s: float | None = None
    """What a client should allow for one prediction; None means 300 s."""
    provenance: dict[str, str] = {}
    """Where the weights come from: revision, file hashes, licence, statistics."""
    checkpoint_files: CheckpointManifest | None = None
    """What whoever started the worker found the checkpoint to be; None: nobody looked."""

    def allowed_s(self, explicit_s: float | None) -> float:
        """Return how long to wait for a prediction: `explicit_s`, else this model's, else 300 s."""
        chosen = self.prediction_timeout_s if explicit_s is None else explicit_s
        return DEFAULT_PREDICTION_TIMEOUT_S if chosen is None else chosen


class PlatformMeta(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a platform shows and how it is moved."""

    name: str
    controls: tuple[ControlSpec, ...]
    """The controllers on offer; a worker must match one."""
    camera_roles: tuple[str, ...]
    image_size: tuple[int, int]
    """Height and width in pixels of each camera."""
    proprio_schema: dict[str, int]
