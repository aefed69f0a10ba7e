# SPDX-License-Identifier: Apache-2.0
"""Runs in RLDX's own environment: its real server, policy, validator, session registry, runtime and
normalisation, around a model of a few lines. Takes upstream's own command line.

The model counts what each session was shown in its memory tokens, and answers, normalised:
column 0 count / 100, 1 the newest frame's mean / 255, 2 the oldest frame's, 3 noise from torch's
generator, 4 step / 100, and the columns of a prefix where one came along. An instruction that
begins with `wait` keeps it busy for a second, `fail` makes it raise.
"""

from __future__ import annotations

import os
import time
from types import MethodType, SimpleNamespace

import numpy as np
import torch
from rldx.configs.data.robocasa365_config import robocasa365_panda_omron
from rldx.data.embodiment_tags import EmbodimentTag
from rldx.data.state_action.state_action_processor import StateActionProcessor
from rldx.eval import run_rldx_server as upstream
from rldx.model.core.processing_rldx import RLDXProcessor
from rldx.policy import rldx_policy
from rldx.policy.policy_loader import LoaderResult

from rpent_box.backends.rldx import seeded_server

TAG = EmbodimentTag.GENERAL_EMBODIMENT
HORIZON = 16
ACTION_DIM = 64
WIDTHS = {
    "state": {
        "end_effector_position_relative": 3,
        "end_effector_rotation_relative": 4,
        "gripper_qpos": 2,
        "base_position": 3,
        "base_rotation": 4,
    },
    "action": {
        "end_effector_position": 3,
        "end_effector_rotation": 3,
        "gripper_close": 1,
        "base_motion": 4,
        "control_mode": 1,
    },
}
VIDEO_DELTAS = [int(word) for word in os.environ.get("RLDX_TEST_DELTAS", "0").split()]


class CountingModel:
    """What PolicyRuntime needs of a model."""

    def __init__(self):
        self.device = torch.device("cpu")
        self.action_model = SimpleNamespace(action_dim=ACTION_DIM)
        self._cached_mq = None

    def get_action(self, *, frames, word, reset_memory, action_prefix=None, **_):
        if int(word[0]) == 1:
            time.sleep(1.0)
        if int(word[0]) == 2:
            raise RuntimeError("the model has failed")
        before = torch.zeros(len(frames), 1) if self._cached_mq is None else self._cached_mq
        self._cached_mq = torch.where(reset_memory[:, None], 0.0, before) + 1.0
        actions = torch.zeros(len(frames), HORIZON, ACTION_DIM)
        actions[:, :, 0] = self._cached_mq / 100.0
        actions[:, :, 1] = frames[:, :1].float() / 255.0
        actions[:, :, 2] = frames[:, 1:2].float() / 255.0
        actions[:, :, 3] = torch.rand(1)
        actions[:, :, 4] = torch.arange(HORIZON) / 100.0
        if action_prefix is not None:
            actions[:, : action_prefix.shape[1]] = action_prefix.float()
        return {"action_pred": actions}


class Processor:
    """Upstream's own normalisation, without its vision-language processor."""

    def __init__(self):
        self.modality_configs = {TAG.value: robocasa365_panda_omron}
        statistics = {
            part: {
                name: {
                    "min": [-2.0] * width,
                    "max": [2.0] * width,
                    "q01": [-2.0] * width,
                    "q99": [2.0] * width,
                    "mean": [0.0] * width,
                    "std": [1.0] * width,
                }
                for name, width in widths.items()
            }
            for part, widths in WIDTHS.items()
        }
        self.state_action_processor = StateActionProcessor(
            modality_configs=self.modality_configs,
            statistics={TAG.value: statistics},
            use_percentiles=True,
        )
        self.decode_action = MethodType(RLDXProcessor.decode_action, self)

    def __call__(self, messages):
        shown = messages[0]["content"]
        first = shown.images["robot0_agentview_left"]
        word = {"wait": 1, "fail": 2}.get(shown.text.partition(" ")[0], 0)
        return {
            "frames": np.array([first[-1].mean(), first[0].mean()], np.float32),
            "word": np.array(word),
        }


def collate(features):
    return {
        name: torch.from_numpy(np.stack([feature[name] for feature in features]))
        for name in features[0]
    }


def load(*, embodiment_tag, model_path, device, rtc_overrides, deactivate_memory, **_):
    """Stand in for PolicyLoader.load, which would read the weights."""
    config = robocasa365_panda_omron
    config["video"].delta_indices = VIDEO_DELTAS
    return LoaderResult(
        model=CountingModel(),
        processor=Processor(),
        embodiment_tag=embodiment_tag,
        modality_configs=config,
        collate_fn=collate,
        language_key=config["language"].modality_keys[0],
        physics_keys=[],
        rtc_inference_mode=rtc_overrides.mode,
        rtc_inference_delay=rtc_overrides.delay,
        rtc_exec_horizon=rtc_overrides.exec_horizon,
        rtc_enabled=rtc_overrides.mode != "none" and rtc_overrides.delay > 0,
        use_memory=not deactivate_memory,
    )


class Telling(upstream.PolicyServer):
    """Upstream's server with one endpoint more: which sessions it remembers."""

    def __init__(self, policy, *arguments, **named):
        super().__init__(policy, *arguments, **named)
        inner = getattr(policy, "policy", policy)
        self.register_endpoint("sessions", inner.registry.sids, requires_input=False)


if __name__ == "__main__":
    rldx_policy.PolicyLoader.load = staticmethod(load)
    upstream.PolicyServer = Telling
    seeded_server.main()
