# SPDX-License-Identifier: Apache-2.0
"""Cosmos Policy's own code on a CPU, with a network of two narrow blocks and random weights.

Its code wants a GPU and packages that only exist for one. `shrink()` stands for those before
anything of it is imported: Transformer Engine's norm and rotary embedding by their formulas, the
device `cuda` by the CPU, and the sizes of the network and the video autoencoder by small ones.
Everything between our backend and the network's layers stays its own.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

WIDTH, BLOCKS, HEADS, AUTOENCODER_WIDTH = 128, 2, 2, 8


def shrink() -> None:
    """Prepare this process; call it once, before Cosmos Policy is imported."""
    # torchvision's compiled operators belong to a CUDA build: they are not used here.
    sys.modules["torchvision._meta_registrations"] = types.ModuleType("_meta_registrations")
    # It looks for Transformer Engine itself, and must not find what stands for it.
    import megatron.core.parallel_state  # noqa: F401

    _stand_for_packages()
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.Stream = NoStream
    torch.load = _loading_on_cpu(torch.load)
    OnTheCpu().__enter__()
    _use_small_sizes()
    # Only now: its attention has looked for a GPU, and has done without what needs one.
    torch.cuda.is_available = lambda: True


class OnTheCpu(TorchFunctionMode):
    """Reads every `cuda` as the CPU."""

    def __torch_function__(
        self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.Tensor.cuda:
            return args[0]
        return function(
            *(_on_cpu(value) for value in args),
            **{name: _on_cpu(value) for name, value in (kwargs or {}).items()},
        )


def _on_cpu(value: Any) -> Any:
    if isinstance(value, (str, torch.device)) and str(value).startswith("cuda"):
        return torch.device("cpu")
    return value


class NoStream:
    """A CPU has one."""


def _loading_on_cpu(load: Any) -> Any:
    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        return load(*args, **{name: _on_cpu(value) for name, value in kwargs.items()})

    return on_cpu


class RMSNorm(torch.nn.RMSNorm):
    """Transformer Engine's, by its formula."""


def apply_rotary_pos_emb(values: Any, angles: Any, *, tensor_format: str, fused: bool) -> Any:
    """[batch, step, head, width]; `angles` is [step, 1, 1, width]."""
    assert tensor_format == "bshd"
    angles = angles.reshape(1, angles.shape[0], 1, angles.shape[-1])
    first, second = values.float().chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (values.float() * angles.cos() + turned * angles.sin()).to(values.dtype)


def _stand_for_packages() -> None:
    engine = _module("transformer_engine", __version__="2.2.0")
    engine.pytorch = _module("transformer_engine.pytorch", RMSNorm=RMSNorm)
    attention = {
        "apply_rotary_pos_emb": apply_rotary_pos_emb,
        "DotProductAttention": torch.nn.Module,
    }
    _module("transformer_engine.pytorch.attention", **attention)
    _module("transformer_engine_torch")
    _module("flash_attn", __version__="2.7.3")
    _module("flash_attn.layers")
    _module("flash_attn.layers.rotary", apply_rotary_emb=None)
    # Another kind of text encoder, which Cosmos Policy imports and never makes.
    words = ("Qwen2_5_VisionTransformerPretrainedModel", "Qwen2_5_VLModel", "get_rope_index")
    _module("cosmos_policy._src.reason1.networks.qwen2_5_vl", **dict.fromkeys(words))


def _module(name: str, **content: Any) -> Any:
    made = types.ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None)
    made.__path__ = []
    made.__dict__.update(content)
    sys.modules[name] = made
    return made


def _use_small_sizes() -> None:
    from cosmos_policy._src.predict2.configs.video2world.defaults import net
    from cosmos_policy.tokenizers import wan2pt1

    small = net.COSMOS_V1_2B_NET_MININET
    small.model_channels, small.num_blocks, small.num_heads = WIDTH, BLOCKS, HEADS
    small.atten_backend = "torch"

    class Small(wan2pt1.WanVAE_):
        def __init__(self, **sizes: Any) -> None:
            super().__init__(**{**sizes, "dim": AUTOENCODER_WIDTH})

    wan2pt1.WanVAE_ = Small


def write_weights(folder: Path, scratch: Path) -> None:
    """Write random weights of the small network and autoencoder, as the real ones are laid out.

    For a process of its own: it looks for its files in `scratch` from then on.
    """
    from cosmos_policy_files import make_checkpoint

    from rpent_box.backends.cosmos_policy.checkpoint import HF_HOME, WEIGHTS
    from rpent_box.backends.cosmos_policy.hf_cache import find_tokenizer, make_cache
    from rpent_box.backends.cosmos_policy.recipe import Recipe

    make_checkpoint(folder)
    make_cache(folder / HF_HOME, scratch)
    os.environ.update(HF_HOME=str(scratch), HF_HUB_OFFLINE="1", DETERMINISTIC="True")
    shrink()
    from cosmos_policy._src.predict2.utils.model_loader import load_model_from_checkpoint
    from cosmos_policy.tokenizers import wan2pt1

    torch.manual_seed(0)
    autoencoder = wan2pt1.WanVAE_(
        dim=96, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2, attn_scales=[],
        temperal_downsample=[False, True, True], dropout=0.0, temporal_window=4,
    )  # fmt: skip
    tokenizer = Path(find_tokenizer(folder / HF_HOME).path).resolve()
    torch.save(autoencoder.state_dict(), tokenizer)
    recipe = Recipe(ckpt_path=str(folder / WEIGHTS))
    network, _ = load_model_from_checkpoint(
        recipe.config, recipe.ckpt_path, config_file=recipe.config_file, skip_load_model=True
    )
    torch.save(network.state_dict(), recipe.ckpt_path)
