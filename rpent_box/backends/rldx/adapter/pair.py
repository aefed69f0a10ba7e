# SPDX-License-Identifier: Apache-2.0
"""RLDX's encode and decode, registered per platform as one."""

from __future__ import annotations

from typing import TypeAlias

from rpent_box.backends.adapter import Adapter
from rpent_box.backends.rldx.adapter.decode import decode
from rpent_box.backends.rldx.adapter.encode import NativeObservation, encode
from rpent_box.backends.rldx.modality import Modality
from rpent_box.backends.rldx.names import CAMERAS, PROPRIO
from rpent_box.contracts.spaces import ROBOCASA_12

RldxAdapter: TypeAlias = Adapter[Modality, NativeObservation]

ADAPTERS: dict[str, RldxAdapter] = {
    "robocasa": Adapter(
        space=ROBOCASA_12,
        camera_roles=tuple(dict.fromkeys(CAMERAS.values())),
        proprio_schema=dict(PROPRIO.values()),
        encode=encode,
        decode=decode,
    )
}
"""`camera_roles` are those of now; a checkpoint may want frames of earlier steps besides."""
