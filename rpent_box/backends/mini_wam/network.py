# SPDX-License-Identifier: Apache-2.0
"""The network, in PyTorch. Needed to train and to export, never to run.

instruction ─▶ words ─┬────────┬──────────┐
                      ▼        │          │
primary ──▶ Eye: key points ─┐ │          ▼         ┌▶ actions [10, 7]
wrist ────▶ Eye: key points ─┼─┴▶ trunk, WIDTH ─▶ thought ─▶ progress
proprio ─────────────────────┘                      ├▶ where things are (training only)
                                                    └▶ with actions and the frame: what will be seen

Eyes are cheap and the trunk is wide. What a convolution costs, it costs for each observation; a
dense layer's weights are read from memory once for a whole batch, and reading them is what a single
prediction spends its time on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rpent_box.backends.mini_wam.adapter.encode import IMAGE_SIZE, PROPRIO_SCHEMA
from rpent_box.backends.mini_wam.text import TEXT_FEATURES

ACTION_HORIZON = 10
ACTION_DIM = 7
FUTURE_SIZE = 64
WIDTH = 1024
BLOCKS = 3
ROUNDS = 3
"""How often the trunk goes through its blocks: depth that costs no bytes."""
SENTENCE = 128
PROPRIO_DIM = sum(PROPRIO_SCHEMA.values())
PLACES = 6
"""Numbers that the auxiliary head tells: the thing's and the goal's position."""


@dataclass(frozen=True)
class Look:
    """How one camera is looked at."""

    kernel: int
    stride: int
    padding: int
    stem: int
    """Channels of the first convolution."""
    kernel_around: int
    """Of the second one, which looks at each channel's surroundings."""
    channels: int
    points: int
    waves: int
    """Cosines a side, of which a sentence makes its expectation where to look."""
    coarse: int
    """Numbers that tell what is not a point."""

    @property
    def grid(self) -> int:
        """Cells a side."""
        return IMAGE_SIZE // self.stride


LOOKS = (
    # A cell of the primary camera is four centimetres on the table: it needs the finer grid.
    Look(
        kernel=6,
        stride=4,
        padding=1,
        stem=32,
        kernel_around=5,
        channels=48,
        points=24,
        waves=6,
        coarse=384,
    ),
    Look(
        kernel=8,
        stride=8,
        padding=0,
        stem=48,
        kernel_around=3,
        channels=48,
        points=24,
        waves=3,
        coarse=384,
    ),
)
"""By camera, in the order of `CAMERA_ROLES`."""
COARSE_GRID = 8


class Around(nn.Conv2d):  # type: ignore[misc]
    """Each channel's surroundings: a convolution of every channel with itself alone."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__(
            channels, channels, kernel, padding=kernel // 2, groups=channels, bias=False
        )

    def forward(self, features: Tensor) -> Tensor:
        if not self.training:
            return super().forward(features)
        # Matrix units are six times quicker with all pairs of channels, most of them zeros.
        alone = torch.eye(self.in_channels)[:, :, None, None]
        return functional.conv2d(features, self.weight * alone, padding=self.padding)


class Eye(nn.Module):  # type: ignore[misc]
    """One camera: where the things are that the sentence is about, and a coarse map of the whole.

    The sentence says for each key point what to look for (a weight per channel) and where to expect
    it (a sum of cosines over the frame), so that which of two alike bowls is meant is a question of
    words. Key points carry the precision: each is the centre of mass of its attention.
    """

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look
        self.stem = nn.Conv2d(3, look.stem, look.kernel, look.stride, look.padding, bias=False)
        self.stem_norm = nn.BatchNorm2d(look.stem)
        self.around = Around(look.stem, look.kernel_around)
        self.mix = nn.Conv2d(look.stem, look.channels, 1, bias=False)
        self.mix_norm = nn.BatchNorm2d(look.channels)
        self.what = _hyper(look.points * look.channels, deviation=1 / math.sqrt(look.channels))
        self.where = _hyper(look.points * look.waves**2)
        self.coarse = nn.Linear(look.channels * COARSE_GRID**2, look.coarse)
        line = torch.linspace(-1, 1, look.grid)
        down, right = torch.meshgrid(line, line, indexing="ij")
        self.register_buffer("grid", torch.stack([right.flatten(), down.flatten()], 1))
        self.register_buffer("waves", _cosines(look.grid, look.waves))

    @property
    def numbers(self) -> int:
        return 2 * self.look.points + self.look.coarse

    def forward(self, frame: Tensor, sentence: Tensor) -> Tensor:
        """[batch, 3, 128, 128], 0 to 1, and [batch, SENTENCE] → [batch, `numbers`]."""
        look = self.look
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training):
            shapes = functional.relu(self.stem_norm(self.stem(frame)))
            features = functional.relu(self.mix_norm(self.mix(self.around(shapes))))
            pooled = functional.avg_pool2d(features, look.grid // COARSE_GRID)
            coarse = functional.relu(self.coarse(pooled.reshape(-1, self.coarse.in_features)))
            what = self.what(sentence).view(-1, look.points, look.channels)
            where = self.where(sentence).view(-1, look.points, look.waves**2)
            heat = _matches(what, features) + where @ self.waves
        # A coordinate in bfloat16 would be a quarter of a pixel off: two millimetres on the table.
        attention = functional.softmax(heat.float(), -1)
        points = (attention @ self.grid).reshape(-1, 2 * look.points)
        return torch.cat([points, coarse.float()], 1)


def _matches(what: Tensor, features: Tensor) -> Tensor:
    """Return how well each cell fits each point: [batch, points, grid * grid].

    From [batch, points, channels] and [batch, channels, grid, grid]. While training, channels lie
    together, and neither the product nor its gradient has to turn that around.
    """
    batch, channels, grid, _ = features.shape
    if features.is_contiguous(memory_format=torch.channels_last):
        cells = features.permute(0, 2, 3, 1).reshape(batch, grid**2, channels)
        return (cells @ what.transpose(1, 2)).transpose(1, 2)
    return what @ features.reshape(-1, channels, grid**2)


def _hyper(outputs: int, *, deviation: float = 0.0) -> nn.Linear:
    """Return a layer that makes other layers' weights: at first hardly of the sentence."""
    layer = nn.Linear(SENTENCE, outputs)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.normal_(layer.bias, std=deviation) if deviation else nn.init.zeros_(layer.bias)
    return layer


def _cosines(grid: int, waves: int) -> Tensor:
    """Return [waves * waves, grid * grid]: products of slow cosines across and down the frame."""
    middle = (torch.arange(grid) + 0.5) / grid
    line = torch.stack([torch.cos(math.pi * wave * middle) for wave in range(waves)])
    return torch.einsum("ah,bw->abhw", line, line).reshape(waves * waves, grid * grid)


class Words(nn.Module):  # type: ignore[misc]
    """The sentence, from its hashed groups of letters."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Sequential(
            nn.Linear(TEXT_FEATURES, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, SENTENCE),
            nn.LayerNorm(SENTENCE),
        )

    def forward(self, instruction: Tensor) -> Tensor:
        """[batch, TEXT_FEATURES], of length 1 → [batch, SENTENCE]."""
        sentence: Tensor = self.read(instruction * math.sqrt(TEXT_FEATURES))
        return sentence


class Block(nn.Module):  # type: ignore[misc]
    """A residual layer; the sentence scales and shifts what it adds."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.dense = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return x + functional.relu(self.dense(self.norm(x)) * (1 + scale) + shift)


class Trunk(nn.Module):  # type: ignore[misc]
    """Everything seen, felt and said → the thought."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.enter = nn.Linear(inputs, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.tune = nn.Linear(SENTENCE, BLOCKS * 2 * WIDTH)
        nn.init.zeros_(self.tune.weight)
        nn.init.zeros_(self.tune.bias)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, seen: Tensor, sentence: Tensor) -> Tensor:
        """[batch, inputs], [batch, SENTENCE] → [batch, WIDTH]."""
        x = functional.relu(self.enter(torch.cat([seen, sentence], 1)))
        tuned = self.tune(sentence).chunk(2 * BLOCKS, 1)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training):
            for _ in range(ROUNDS):
                for number, block in enumerate(self.blocks):
                    x = block(x, tuned[2 * number], tuned[2 * number + 1])
        thought: Tensor = self.norm(x)
        return thought


class Imagination(nn.Module):  # type: ignore[misc]
    """How the primary frame will have changed after the chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.unfold = nn.Sequential(
            nn.Linear(WIDTH + ACTION_HORIZON * ACTION_DIM, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, 24 * 8 * 8),
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
        """[batch, WIDTH], [batch, 10, 7], [batch, 3, 64, 64] → [batch, 3, 64, 64]."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training):
            canvas = self.unfold(torch.cat([thought, actions.flatten(1)], 1))
            change: Tensor = self.paint(torch.cat([canvas, (frame - 0.5).to(canvas.dtype)], 1))
        return change.float()


class MiniWamNetwork(nn.Module):  # type: ignore[misc]
    """Frames come as float from 0 to 1, [batch, camera, 3, 128, 128]; proprio normalised.

    While training, what looks at pixels and what the trunk adds are computed in bfloat16.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = Words()
        self.eyes = nn.ModuleList(Eye(look) for look in LOOKS)
        self.body = nn.Sequential(nn.Linear(PROPRIO_DIM, 64), nn.ReLU(inplace=True))
        self.trunk = Trunk(sum(eye.numbers for eye in self.eyes) + 64 + SENTENCE)
        self.act = nn.Sequential(
            nn.Linear(WIDTH, 512),
            nn.ReLU(inplace=True),
            nn.Linear(512, ACTION_HORIZON * ACTION_DIM),
        )
        self.progress = nn.Linear(WIDTH, 1)
        self.places = nn.Linear(WIDTH, PLACES)
        self.imagination = Imagination()

    def think(self, frames: Tensor, proprio: Tensor, instruction: Tensor) -> Tensor:
        """Return [batch, WIDTH]: what all heads read."""
        sentence = self.words(instruction)
        seen = [eye(frames[:, camera], sentence) for camera, eye in enumerate(self.eyes)]
        thought: Tensor = self.trunk(torch.cat([*seen, self.body(proprio)], 1), sentence)
        return thought

    def decide(self, thought: Tensor) -> Tensor:
        """Return [batch, 10, 7]; the last column is a logit, positive for a closed gripper."""
        actions: Tensor = self.act(thought)
        return actions.view(-1, ACTION_HORIZON, ACTION_DIM)

    def imagine(self, thought: Tensor, actions: Tensor, frame: Tensor) -> Tensor:
        """Return what `actions` add to the downscaled primary `frame`, [batch, 3, 64, 64]."""
        change: Tensor = self.imagination(thought, actions, frame)
        return change


def executed(raw: Tensor) -> Tensor:
    """Return what the robot is told for the network's [batch, 10, 7]: clipped, gripper ±1."""
    return torch.cat([raw[..., :6].clamp(-1, 1), torch.where(raw[..., 6:] > 0, 1.0, -1.0)], -1)


def downscale(frame: Tensor) -> Tensor:
    """[batch, 3, 128, 128] → [batch, 3, 64, 64], by the mean."""
    return functional.avg_pool2d(frame, IMAGE_SIZE // FUTURE_SIZE)
