# SPDX-License-Identifier: Apache-2.0
"""How a platform's observations go in and its actions come out: one pair per platform.

Normalising, padding and their inverses are openpi's own: its policy takes what `encode` gives and
returns native actions.
"""

from __future__ import annotations

from rpent_box.backends.adapter import Adapter
from rpent_box.backends.pi05.adapter.decode import decode_libero
from rpent_box.backends.pi05.adapter.encode import (
    CAMERA_ROLES,
    PROPRIO_SCHEMA,
    LiberoInput,
    encode_libero,
)
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA

_LIBERO: Adapter[None, LiberoInput] = Adapter(
    space=LIBERO_OSC_DELTA,
    camera_roles=CAMERA_ROLES,
    proprio_schema=PROPRIO_SCHEMA,
    encode=encode_libero,
    decode=decode_libero,
)

ADAPTERS: dict[str, Adapter[None, LiberoInput]] = {
    "libero": _LIBERO,
    # The same robot, cameras and controller; other scenes.
    "libero-pro": _LIBERO,
}

__all__ = ["ADAPTERS", "LiberoInput"]
