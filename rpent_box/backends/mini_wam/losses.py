# SPDX-License-Identifier: Apache-2.0
"""What training asks of the network, and how its inputs are varied."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from rpent_box.backends.mini_wam.network import MiniWamNetwork, downscale, executed

WRIST_SHIFT = 2
"""Pixels. The fixed camera is not shifted: there one pixel is a centimetre on the table."""
IMAGINED_SHARE = 0.25
OTHER_WORDS_SHARE = 0.2
LEAST_ALIKE = 0.6
"""What remains of a sentence at least: which one it is must still be told."""


@dataclass(frozen=True)
class Batch:
    """Tensors of some rows; frames from 0 to 1, proprio and places normalised."""

    frames: Tensor
    """[batch, camera, 3, 128, 128]"""
    proprio: Tensor
    instruction: Tensor
    actions: Tensor
    """[batch, 10, 7]: the labels."""
    executed: Tensor
    """[batch, 10, 7]: what was done, by whomever; `change` came of it."""
    places: Tensor
    progress: Tensor
    now: Tensor
    """[batch, 3, 64, 64]: the primary frame."""
    change: Tensor
    """[batch, 3, 64, 64]: what the primary frame ten control steps later adds to it."""
    has_future: Tensor
    """[batch], 1.0 where there is such a frame."""


@dataclass(frozen=True)
class Losses:
    total: Tensor
    parts: dict[str, float]


def losses(network: MiniWamNetwork, batch: Batch, generator: Generator | None) -> Losses:
    """Return the losses; a generator turns the variation of the inputs on."""
    frames, proprio, words = batch.frames, batch.proprio, batch.instruction
    if generator is not None:
        frames = vary_frames(frames, generator)
        proprio = proprio + 0.05 * torch.randn(proprio.shape, generator=generator)
        words = vary_words(words, generator)
    thought = network.think(frames, proprio, words)
    raw = network.decide(thought)
    imagined = _imagined(network, thought, frames, batch)
    position = (raw[..., :3] - batch.actions[..., :3]).abs().mean()
    rotation = (raw[..., 3:6] - batch.actions[..., 3:6]).abs().mean()
    closed = (batch.actions[..., 6] > 0).float()
    gripper = functional.binary_cross_entropy_with_logits(raw[..., 6], closed)
    places = functional.smooth_l1_loss(network.places(thought), batch.places)
    progress = functional.mse_loss(network.progress(thought)[:, 0], batch.progress)
    total = (
        position + 0.5 * rotation + 0.15 * gripper + 0.3 * places + 0.3 * progress + 0.5 * imagined
    )
    named = {
        "position": position,
        "rotation": rotation,
        "gripper": gripper,
        "places": places,
        "progress": progress,
        "future": imagined,
    }
    return Losses(total=total, parts={name: float(loss.detach()) for name, loss in named.items()})


def _imagined(network: MiniWamNetwork, thought: Tensor, frames: Tensor, batch: Batch) -> Tensor:
    """Return how far the imagined change is off, for some of the rows: painting is expensive.

    The change is wanted of the frame as it was, so that its variation stays out of the loss.
    """
    some = slice(0, math.ceil(len(frames) * IMAGINED_SHARE))
    now = downscale(frames[some, 0])
    change = network.imagine(thought[some], executed(batch.executed[some]), now)
    missed = (change - batch.change[some]).abs().mean((1, 2, 3))
    shown = batch.has_future[some]
    return (missed * shown).sum() / shown.sum().clamp_min(1)


def vary_frames(frames: Tensor, generator: Generator) -> Tensor:
    """Change contrast, brightness and colour per frame, shift the wrist camera, add noise.

    Frames go from 0 to 1 and may leave that by a little.
    """
    batch, cameras = frames.shape[:2]

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(frames.dtype)

    contrast = 1 + 0.15 * normal(batch, cameras, 1, 1, 1)
    colour = 0.08 * normal(batch, cameras, 1, 1, 1) + 0.03 * normal(batch, cameras, 3, 1, 1)
    varied = frames.sub(0.5).mul_(contrast).add_(0.5 + colour)
    shift = torch.randint(-WRIST_SHIFT, WRIST_SHIFT + 1, (2,), generator=generator).tolist()
    varied[:, 1:] = torch.roll(varied[:, 1:], shift, (3, 4))
    return varied.add_(0.02 * normal(1, 1, *frames.shape[2:]))


def vary_words(words: Tensor, generator: Generator) -> Tensor:
    """Add words that nobody knows to some instructions, so that one more does no harm."""
    batch, columns = words.shape
    present = (torch.rand(batch, columns, generator=generator) < 0.15).float()
    others = functional.normalize(
        present * torch.randn(batch, columns, generator=generator).sign(), dim=1
    )
    alike = LEAST_ALIKE + (1 - LEAST_ALIKE) * torch.rand(batch, 1, generator=generator)
    mixed = functional.normalize(alike * words + (1 - alike) * others, dim=1)
    replaced = torch.rand(batch, 1, generator=generator) < OTHER_WORDS_SHARE
    return torch.where(replaced, mixed, words)
