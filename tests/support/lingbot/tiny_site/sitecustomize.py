# SPDX-License-Identifier: Apache-2.0
"""Makes the model's package small and lets it run without a GPU, in every process of a test.

The package names the GPU in its code and the size of its action expert as a default; nothing else
of it is changed.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from typing import Any

MODEL = "lingbotvla.models.vla.pi0.modeling_lingbot_vla"


class Patching(Loader):
    """Loads a module and changes it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        _keep_off_the_gpu()
        _shrink_the_expert(module)


class Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != MODEL:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = Patching(spec.loader)
        return spec


def _keep_off_the_gpu() -> None:
    import torch

    move = torch.Tensor.to

    def to(tensor: Any, *words: Any, **more: Any) -> Any:
        words = tuple("cpu" if word == "cuda" else word for word in words)
        return move(tensor, *words, **{**more, **({"device": "cpu"} if "device" in more else {})})

    torch.Tensor.to = to
    torch.nn.Module.cuda = lambda module, *_, **__: module


def _shrink_the_expert(module: Any) -> None:
    whole = module.QwenvlWithExpertConfig.__init__

    def init(self: Any, *words: Any, **more: Any) -> None:
        whole(self, *words, **more)
        expert = self.qwen_expert_config
        expert.hidden_size, expert.intermediate_size = 32, 64
        expert.head_dim, expert.num_attention_heads, expert.num_key_value_heads = 16, 4, 1
        expert.num_hidden_layers, expert.vocab_size = 2, 8

    module.QwenvlWithExpertConfig.__init__ = init


sys.meta_path.insert(0, Finder())
