# SPDX-License-Identifier: Apache-2.0
"""Look into the weights with PyTorch's own reader of tensors, before Cosmos Policy loads them.

Cosmos Policy loads them with `weights_only=False`, which runs whatever they name
(cosmos_policy/_src/predict2/utils/model_loader.py), and passes over what is missing or has another
shape (cosmos_policy/_src/imaginaire/utils/checkpointer.py, `non_strict_load_model`).
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from rpent_box.backends.tensor_files import read_torch_file
from rpent_box.errors import BadCheckpoint

Shape: TypeAlias = tuple[int, ...]


class Network(Protocol):
    """What is asked of the loaded network here; the rest is between it and `get_action`."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def named_buffers(self) -> Iterable[tuple[str, object]]: ...


def read_shapes(weights: Path) -> dict[str, Shape]:
    """Return name → shape of each stored tensor, without its numbers. Needs PyTorch.

    Raises `BadCheckpoint` for weights that would run more than the rebuilding of tensors; nothing
    in them is run.
    """
    import torch

    # PyTorch's older format, one stream, cannot be mapped.
    can_be_mapped = read_torch_file(weights).layout == "zip"
    try:
        # Transformer Engine keeps its layers' extra state as a stream of bytes.
        with torch.serialization.safe_globals([io.BytesIO]):
            stored = torch.load(weights, map_location="meta", weights_only=True, mmap=can_be_mapped)
    except pickle.UnpicklingError as error:
        raise BadCheckpoint(
            f"the weights {weights} would run more than the rebuilding of tensors when they are "
            "loaded; nothing in them was run",
            hint=f"If you trust their author, store their tensors alone: {_command(weights)}",
            detail=str(error),
        ) from error
    if not isinstance(stored, Mapping):
        raise BadCheckpoint(f"the weights {weights} hold a {type(stored).__name__}; wanted names")
    return {
        name: tuple(value.shape)
        for name, value in stored.items()
        if isinstance(value, torch.Tensor)
    }


def require_filled(network: Network, stored: Mapping[str, Shape], weights: Path) -> None:
    """Refuse weights that left a part of the network as it was made.

    Counters and tables of angles, its buffers, may be missing: the network makes them itself.
    """
    buffers = {name for name, _ in network.named_buffers()}
    wanted: dict[str, Shape] = {
        name: tuple(value.shape)
        for name, value in network.state_dict().items()
        if name not in buffers and not name.endswith("_extra_state")
    }
    missing = [name for name in wanted if name not in stored]
    other = [name for name in wanted if name in stored and stored[name] != wanted[name]]
    if not missing and not other:
        return
    examples = [f"{name} is missing" for name in missing[:2]]
    examples += [f"{name} is {list(stored[name])}, wanted {list(wanted[name])}" for name in other]
    raise BadCheckpoint(
        f"the weights {weights} leave {len(missing) + len(other)} of the network's {len(wanted)} "
        f"parts empty: {'; '.join(examples[:3])}",
        hint="They may belong to another model: wanted Cosmos-Policy-LIBERO-Predict2-2B.",
    )


def _command(weights: Path) -> str:
    target = weights.with_name(f"{weights.stem}-tensors.pt")
    return (
        f"python -c \"import torch; w = torch.load('{weights}', weights_only=False); "
        "torch.save({k: v for k, v in w.items() if isinstance(v, torch.Tensor)}, "
        f"'{target}')\""
    )
