# SPDX-License-Identifier: Apache-2.0
"""The adapter of each platform."""

from __future__ import annotations

from rpent_box.backends.adapter import Adapter
from rpent_box.backends.cosmos3.adapter.decode import decode_libero
from rpent_box.backends.cosmos3.adapter.encode import CAMERA_ROLES, ModelInput, encode_libero
from rpent_box.backends.cosmos3.adapter.recipe import Recipe
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA

_LIBERO: Adapter[Recipe, ModelInput] = Adapter(
    space=LIBERO_OSC_DELTA,
    camera_roles=CAMERA_ROLES,
    proprio_schema={},
    encode=encode_libero,
    decode=decode_libero,
)

ADAPTERS: dict[str, Adapter[Recipe, ModelInput]] = {"libero": _LIBERO, "libero-pro": _LIBERO}
