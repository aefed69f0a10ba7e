# SPDX-License-Identifier: Apache-2.0
"""The network, in PyTorch. Needed to train and to export, never to run.

primary ─▶ Eye ─┐
wrist   ─▶ Eye ─┤                       ┌▶ actions [10, 7]
proprio ────────┼─▶ trunk ─▶ thought ───┼▶ progress
instruction ────┘             [256]     ├▶ where things are (training only)
                                        └▶ with actions and the frame: the frame to come
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from rpent_box.backends.mini_wam.adapter.encode import CAMERA_ROLES, IMAGE_SIZE, PROPRIO_SCHEMA
from rpent_box.backends.mini_wam.text import TEXT_FEATURES

ACTION_HORIZON = 10
ACTION_DIM = 7
FUTURE_SIZE = 64
THOUGHT = 256
KEYPOINTS = 32
PROPRIO_DIM = sum(PROPRIO_SCHEMA.values())
PLACES = 6
"""Numbers that the auxiliary head tells: the thing's and the goal's position."""


def _block(inputs: int, outputs: int, kernel: int, stride: int, padding: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Eye(nn.Module):  # type: ignore[misc]
    """One camera: where 32 learnt features are (spatial softmax), and a coarse map of the whole.

    Key points carry the precision, since they are read off a 32x32 map by its centre of mass. The
    coarse map carries what is not a point.
    """

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _block(3, 32, 8, 4, 2), _block(32, 40, 3, 1, 1), _block(40, 40, 3, 1, 1)
        )
        self.points = nn.Conv2d(40, KEYPOINTS, 1)
        self.sharpness = nn.Parameter(torch.ones(1, KEYPOINTS, 1))
        self.coarse = nn.Sequential(
            _block(40, 40, 3, 2, 1),
            _block(40, 32, 3, 2, 1),
            nn.Flatten(),
            nn.Linear(32 * 8 * 8, 64),
            nn.ReLU(inplace=True),
        )
        line = torch.linspace(-1, 1, IMAGE_SIZE // 4)
        down, right = torch.meshgrid(line, line, indexing="ij")
        self.register_buffer("grid", torch.stack([right.flatten(), down.flatten()], 1))

    def forward(self, frame: Tensor) -> Tensor:
        """[batch, 3, 128, 128] → [batch, 128]."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training):
            features = self.body(frame.contiguous(memory_format=torch.channels_last))
            heat, coarse = self.points(features), self.coarse(features)
        attention = functional.softmax(heat.float().flatten(2) * self.sharpness, -1)
        return torch.cat([(attention @ self.grid).flatten(1), coarse.float()], 1)


class Imagination(nn.Module):  # type: ignore[misc]
    """How the primary frame will have changed after the chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.unfold = nn.Sequential(
            nn.Linear(THOUGHT + ACTION_HORIZON * ACTION_DIM, 24 * 8 * 8),
            nn.ReLU(inplace=True),
            nn.Unflatten(1, (24, 8, 8)),
            nn.ConvTranspose2d(24, 16, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(16, 12, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(12, 8, 4, 2, 1),
            nn.ReLU(inplace=True),
        )
        self.paint = nn.Sequential(
            nn.Conv2d(11, 16, 3, 1, 1), nn.ReLU(inplace=True), nn.Conv2d(16, 3, 3, 1, 1)
        )

    def forward(self, thought: Tensor, actions: Tensor, frame: Tensor) -> Tensor:
        """[batch, 256], [batch, 10, 7], [batch, 3, 64, 64] → [batch, 3, 64, 64]."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training):
            canvas = self.unfold(torch.cat([thought, actions.flatten(1)], 1))
            change: Tensor = self.paint(torch.cat([canvas, frame.to(canvas.dtype)], 1))
        return change.float()


class MiniWamNetwork(nn.Module):  # type: ignore[misc]
    """Frames come as float in [-0.5, 0.5], [batch, camera, 3, 128, 128]; proprio normalised.

    While training, the convolutions run in bfloat16.
    """

    def __init__(self) -> None:
        super().__init__()
        self.eyes = nn.ModuleList(Eye() for _ in CAMERA_ROLES)
        self.body = nn.Sequential(nn.Linear(PROPRIO_DIM, 64), nn.ReLU(inplace=True))
        self.words = nn.Sequential(
            nn.Linear(TEXT_FEATURES, 64), nn.ReLU(inplace=True), nn.Linear(64, 32)
        )
        seen = len(CAMERA_ROLES) * (2 * KEYPOINTS + 64)
        self.trunk = nn.Sequential(
            nn.Linear(seen + 64 + 32, THOUGHT),
            nn.ReLU(inplace=True),
            nn.Linear(THOUGHT, THOUGHT),
            nn.ReLU(inplace=True),
        )
        self.act = nn.Sequential(
            nn.Linear(THOUGHT, THOUGHT),
            nn.ReLU(inplace=True),
            nn.Linear(THOUGHT, ACTION_HORIZON * ACTION_DIM),
        )
        self.progress = nn.Linear(THOUGHT, 1)
        self.places = nn.Linear(THOUGHT, PLACES)
        self.imagination = Imagination()

    def think(self, frames: Tensor, proprio: Tensor, instruction: Tensor) -> Tensor:
        """Return [batch, 256]: what all heads read."""
        seen = [eye(frames[:, camera]) for camera, eye in enumerate(self.eyes)]
        thought: Tensor = self.trunk(
            torch.cat([*seen, self.body(proprio), self.words(instruction)], 1)
        )
        return thought

    def decide(self, thought: Tensor) -> Tensor:
        """Return [batch, 10, 7]; the last column is a logit, positive for a closed gripper."""
        actions: Tensor = self.act(thought)
        return actions.view(-1, ACTION_HORIZON, ACTION_DIM)

    def imagine(self, thought: Tensor, actions: Tensor, frame: Tensor) -> Tensor:
        """Return what `actions` add to the downscaled primary `frame`, [batch, 3, 64, 64]."""
        change: Tensor = self.imagination(thought, actions, frame)
        return change


class ExportedPolicy(nn.Module):  # type: ignore[misc]
    """The network with the inputs and outputs of `mini_wam.onnx`."""

    def __init__(self, network: MiniWamNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, images: Tensor, proprio: Tensor, instruction: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions [batch, 10, 7], value [batch] and thought [batch, 256]."""
        thought = self.network.think(_to_frames(images), proprio, instruction)
        value = self.network.progress(thought)[:, 0].clamp(0, 1)
        return self.network.decide(thought), value, thought


class ExportedImagination(nn.Module):  # type: ignore[misc]
    """The network with the inputs and the output of `mini_wam_future.onnx`.

    A file of its own, since onnxruntime computes all of a file, whatever outputs are asked for.
    """

    def __init__(self, network: MiniWamNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, thought: Tensor, actions: Tensor, images: Tensor) -> Tensor:
        """Return the future primary frame, [batch, 64, 64, 3], 0 to 1."""
        now = downscale(_to_frames(images)[:, 0])
        future = now + self.network.imagine(thought, executed(actions), now)
        return (future.permute(0, 2, 3, 1) + 0.5).clamp(0, 1)


def _to_frames(images: Tensor) -> Tensor:
    """uint8 [batch, camera, 128, 128, 3] → [batch, camera, 3, 128, 128] in [-0.5, 0.5]."""
    return images.permute(0, 1, 4, 2, 3).float() / 255 - 0.5


def executed(raw: Tensor) -> Tensor:
    """Return what the robot is told for the network's [batch, 10, 7]: clipped, gripper ±1."""
    return torch.cat([raw[..., :6].clamp(-1, 1), torch.where(raw[..., 6:] > 0, 1.0, -1.0)], -1)


def downscale(frame: Tensor) -> Tensor:
    """[batch, 3, 128, 128] → [batch, 3, 64, 64], by the mean."""
    return functional.avg_pool2d(frame, IMAGE_SIZE // FUTURE_SIZE)
