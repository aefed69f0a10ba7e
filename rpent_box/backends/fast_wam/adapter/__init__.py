# SPDX-License-Identifier: Apache-2.0
"""How a platform's observations go in and its actions come out: one pair per platform."""

from __future__ import annotations

from rpent_box.backends.adapter import Adapter
from rpent_box.backends.fast_wam.adapter.decode import decode_libero, decode_robotwin
from rpent_box.backends.fast_wam.adapter.encode import (
    LIBERO_PROPRIO,
    ROBOTWIN_PROPRIO,
    FastWamInput,
    encode_libero,
    encode_robotwin,
)
from rpent_box.backends.fast_wam.adapter.rlinf import RlinfInput, decode_rlinf, encode_rlinf
from rpent_box.backends.fast_wam.calibration import Calibration
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA, ROBOTWIN_QPOS14

_LIBERO = Adapter[Calibration, FastWamInput](
    space=LIBERO_OSC_DELTA,
    camera_roles=("primary", "wrist"),
    proprio_schema=LIBERO_PROPRIO,
    encode=encode_libero,
    decode=decode_libero,
)
_ROBOTWIN = Adapter[Calibration, FastWamInput](
    space=ROBOTWIN_QPOS14,
    camera_roles=("head", "left_wrist", "right_wrist"),
    proprio_schema=ROBOTWIN_PROPRIO,
    encode=encode_robotwin,
    decode=decode_robotwin,
)
_RLINF = Adapter[int, RlinfInput](
    space=LIBERO_OSC_DELTA,
    camera_roles=("primary", "wrist"),
    proprio_schema=LIBERO_PROPRIO,
    encode=encode_rlinf,
    decode=decode_rlinf,
)

ADAPTERS: dict[str, Adapter[Calibration, FastWamInput]] = {
    "libero": _LIBERO,
    "libero-pro": _LIBERO,
    "robotwin": _ROBOTWIN,
}
RLINF_ADAPTERS: dict[str, Adapter[int, RlinfInput]] = {
    "libero": _RLINF,
    "libero-pro": _RLINF,
}
"""What both directions share there is how many steps RLinf returns."""

__all__ = ["ADAPTERS", "RLINF_ADAPTERS", "Adapter", "FastWamInput", "RlinfInput"]
