# SPDX-License-Identifier: Apache-2.0
"""What training asks of the network, and how its inputs are varied."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from rpent_box.backends.mini_wam.network import MiniWamNetwork, downscale

WRIST_SHIFT = 2
"""Pixels. The fixed camera is not shifted: there one pixel is a centimetre on the table."""
OTHER_WORDS_SHARE = 0.2


@dataclass(frozen=True)
class Batch:
    """Tensors of some rows; frames in [-0.5, 0.5], proprio and places normalised."""

    frames: Tensor
    """[batch, camera, 3, 128, 128]"""
    proprio: Tensor
    instruction: Tensor
    actions: Tensor
    places: Tensor
    progress: Tensor
    now: Tensor
    """[batch, 3, 64, 64]: the primary frame."""
    change: Tensor
    """[batch, 3, 64, 64]: what the next row's primary frame adds to it."""
    has_future: Tensor
    """[batch], 1.0 where `change` is what came of `actions`."""


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
    taught = torch.cat([batch.actions[..., :6], batch.actions[..., 6:].sign()], -1)
    # The change is wanted of the frame as it was, so that its variation stays out of the loss.
    change = network.imagine(thought, taught, downscale(frames[:, 0]))
    missed = (change - batch.change).abs().mean((1, 2, 3))
    position = (raw[..., :3] - batch.actions[..., :3]).abs().mean()
    rotation = (raw[..., 3:6] - batch.actions[..., 3:6]).abs().mean()
    closed = (batch.actions[..., 6] > 0).float()
    gripper = functional.binary_cross_entropy_with_logits(raw[..., 6], closed)
    places = functional.smooth_l1_loss(network.places(thought), batch.places)
    progress = functional.mse_loss(network.progress(thought)[:, 0], batch.progress)
    imagined = (missed * batch.has_future).sum() / batch.has_future.sum().clamp_min(1)
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


def vary_frames(frames: Tensor, generator: Generator) -> Tensor:
    """Change contrast, brightness and colour per frame, shift the wrist camera, add noise."""
    batch, cameras = frames.shape[:2]

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(frames.dtype)

    contrast = 1 + 0.15 * normal(batch, cameras, 1, 1, 1)
    colour = 0.08 * normal(batch, cameras, 1, 1, 1) + 0.03 * normal(batch, cameras, 3, 1, 1)
    varied = frames * contrast + colour
    shift = torch.randint(-WRIST_SHIFT, WRIST_SHIFT + 1, (2,), generator=generator).tolist()
    varied[:, 1:] = torch.roll(varied[:, 1:], shift, (3, 4))
    return varied.add_(0.02 * normal(1, 1, *frames.shape[2:]))


def vary_words(words: Tensor, generator: Generator) -> Tensor:
    """Replace some instructions by others, partly alike, so that a paraphrase does no harm.

    With one task there is one sentence to learn from; without this any other sentence would be far
    from everything seen in training.
    """
    batch, columns = words.shape
    present = (torch.rand(batch, columns, generator=generator) < 0.15).float()
    others = functional.normalize(
        present * torch.randn(batch, columns, generator=generator).sign(), dim=1
    )
    alike = torch.rand(batch, 1, generator=generator)
    mixed = functional.normalize(alike * words + (1 - alike) * others, dim=1)
    replaced = torch.rand(batch, 1, generator=generator) < OTHER_WORDS_SHARE
    return torch.where(replaced, mixed, words)
