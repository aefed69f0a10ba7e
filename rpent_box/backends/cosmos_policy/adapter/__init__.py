# SPDX-License-Identifier: Apache-2.0
"""How a platform's observations go in and its actions come out: one pair per platform."""

from __future__ import annotations

from rpent_box.backends.adapter import Adapter
from rpent_box.backends.cosmos_policy.adapter.decode import decode_libero
from rpent_box.backends.cosmos_policy.adapter.encode import (
    CAMERA_ROLES,
    PROPRIO_SCHEMA,
    NativeObservation,
    encode_libero,
)
from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA

_LIBERO: Adapter[CosmosPolicyOptions, NativeObservation] = Adapter(
    space=LIBERO_OSC_DELTA,
    camera_roles=CAMERA_ROLES,
    proprio_schema=PROPRIO_SCHEMA,
    encode=encode_libero,
    decode=decode_libero,
)

ADAPTERS: dict[str, Adapter[CosmosPolicyOptions, NativeObservation]] = {
    "libero": _LIBERO,
    # The same robot, cameras and controller; other tasks.
    "libero-pro": _LIBERO,
}

__all__ = ["ADAPTERS", "NativeObservation"]
