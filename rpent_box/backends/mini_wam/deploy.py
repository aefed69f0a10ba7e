# SPDX-License-Identifier: Apache-2.0
"""The trained network as the files of a checkpoint hold it.

Convolutions take in their batch norms and the scale of the pixels. Large dense layers are rounded
to 8 bits, with a scale for each row: the rounding is part of the network that is judged and
shipped, and onnxruntime undoes it once, when it opens the file.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from rpent_box.backends.mini_wam.network import MiniWamNetwork, downscale, executed

ROUNDED_FROM = 4096
"""Weights. Smaller layers stay float32: there is nothing to save."""
LEVELS = 127


class ExportedPolicy(nn.Module):  # type: ignore[misc]
    """The network with the inputs and outputs of `mini_wam.onnx`."""

    def __init__(self, network: MiniWamNetwork) -> None:
        super().__init__()
        self.network = deployed(network)

    def forward(
        self, images: Tensor, proprio: Tensor, instruction: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions [batch, 10, 7], value [batch] and thought [batch, WIDTH]."""
        network = self.network
        sentence = network.words(instruction)
        seen = [eye(images[:, camera].float(), sentence) for camera, eye in enumerate(network.eyes)]
        thought = network.trunk(torch.cat([*seen, network.body(proprio)], 1), sentence)
        value = network.progress(thought)[:, 0].clamp(0, 1)
        return network.decide(thought), value, thought


class ExportedImagination(nn.Module):  # type: ignore[misc]
    """The network with the inputs and the output of `mini_wam_future.onnx`.

    A file of its own, since onnxruntime computes all of a file, whatever outputs are asked for.
    """

    def __init__(self, network: MiniWamNetwork) -> None:
        super().__init__()
        self.network = deployed(network)

    def forward(self, thought: Tensor, actions: Tensor, images: Tensor) -> Tensor:
        """Return the future primary frame, [batch, 64, 64, 3], 0 to 1."""
        now = downscale(images[:, 0].float() / 255)
        future = now + self.network.imagine(thought, executed(actions), now)
        return future.permute(0, 2, 3, 1).clamp(0, 1)


def deployed(network: MiniWamNetwork) -> MiniWamNetwork:
    """Return a copy with rounded weights and fused norms, whose eyes take pixels of 0 to 255."""
    network = rounded(network)
    for eye in network.eyes:
        eye.stem, eye.stem_norm = fuse_conv_bn_eval(eye.stem, eye.stem_norm), nn.Identity()
        eye.mix, eye.mix_norm = fuse_conv_bn_eval(eye.mix, eye.mix_norm), nn.Identity()
        eye.stem.weight.data /= 255
    return network


def rounded(network: MiniWamNetwork) -> MiniWamNetwork:
    """Return an `eval()` copy in which large dense layers are rounded to `LEVELS` steps a side."""
    network = copy.deepcopy(network).eval()
    for layer in network.modules():
        if isinstance(layer, nn.Linear) and layer.weight.numel() >= ROUNDED_FROM:
            codes, scales = to_codes(layer.weight.data)
            layer.weight.data = codes * scales
    return network


def to_codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return whole numbers [rows, columns] from -127 to 127, and scales [rows, 1], as float32.

    A scale keeps 16 bits of its mantissa. So 127 of it is exact, and rounding what is rounded
    already finds the same codes and scales again.
    """
    largest = weight.abs().amax(1, keepdim=True).clamp_min(1e-12)
    scales = ((largest / LEVELS).view(torch.int32) & ~0xFF).view(torch.float32)
    return (weight / scales).round().clamp(-LEVELS, LEVELS), scales
