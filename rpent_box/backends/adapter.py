# SPDX-License-Identifier: Apache-2.0
"""An adapter is what lies between one model and one platform, both directions registered as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.contracts.control import ActionSpace
from rpent_box.contracts.observation import Actions, Observation
from rpent_box.errors import BadActions, BadOption

InputT = TypeVar("InputT")
StatisticsT = TypeVar("StatisticsT")


class Adapter(Struct, Generic[StatisticsT, InputT], frozen=True, kw_only=True):
    """One model on one platform. `StatisticsT` is whatever both directions share."""

    space: ActionSpace
    camera_roles: tuple[str, ...]
    proprio_schema: dict[str, int]
    encode: Callable[[Observation, StatisticsT], InputT]
    """What the platform shows → what the model is given."""
    decode: Callable[[NDArray[Any], StatisticsT], Actions]
    """What the model returns → float32 [horizon, action_dim] in native units of `space`."""


AdapterT = TypeVar("AdapterT")


def adapter_for(adapters: Mapping[str, AdapterT], platform: str, *, backend: str) -> AdapterT:
    """Return the adapter of `platform`. Raises `BadOption`."""
    found = adapters.get(platform)
    if found is None:
        raise BadOption(
            f"{backend} has no adapter for the platform {platform}",
            hint=f"It has adapters for: {', '.join(adapters)}. See: rpent-box list",
        )
    return found


def require_output(
    output: NDArray[Any], shape: tuple[int, int], *, backend: str
) -> NDArray[np.floating[Any]]:
    """Return the model's own output, checked before any transform that could hide a bad value.

    `output` must be finite numbers [at least shape[0], exactly shape[1]]. Raises `BadActions`.
    """
    if not np.issubdtype(output.dtype, np.floating):
        raise BadActions(f"{backend}'s model returned {output.dtype}; wanted floating point")
    if output.ndim != 2 or output.shape[1] != shape[1] or output.shape[0] < shape[0]:
        raise BadActions(
            f"{backend}'s model returned shape {list(output.shape)}; wanted at least {shape[0]} "
            f"steps of exactly {shape[1]} numbers"
        )
    if not np.isfinite(output).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(output))[0])
        raise BadActions(
            f"{backend}'s model returned {output[row, column]} in step {row}, column {column}; "
            "nothing was executed"
        )
    return output


def to_actions(values: NDArray[Any], *, backend: str) -> Actions:
    """Return `values` as contiguous float32, refusing what no longer fits there.

    Raises `BadActions` for a value that float32 cannot hold.
    """
    with np.errstate(over="ignore"):
        actions = np.ascontiguousarray(values, dtype=np.float32)
    if not np.isfinite(actions).all():
        raise BadActions(f"{backend}'s actions do not fit into float32; nothing was executed")
    return actions
